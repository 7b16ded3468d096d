//! How long clients may keep responses, and whether they have them already.

use actix_web::http::header::{self, HeaderValue};
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder};
use voltile_base::request::VersionedToken;

use super::context::Context;
use crate::catalog::{CachePolicy, RequestPlan};

/// The `Cache-Control` of complete data: immutable at an address with a version, where data never
/// changes; `otherwise` at other addresses.
pub(super) fn data_lifetime(dataset: &VersionedToken, otherwise: &HeaderValue) -> HeaderValue {
    if dataset.version.is_some() {
        IMMUTABLE
    } else {
        otherwise.clone()
    }
}

/// Decides whether a client's copy of the answer to a planned request is current, and how long the
/// client may keep a new one.
pub(super) struct Freshness<'r> {
    context: &'r Context<'r>,
    plan: &'r RequestPlan,
    pub etag: String,
    lifetime: HeaderValue,
}

impl<'r> Freshness<'r> {
    /// Records the dataset of the request. `lifetime` is the `Cache-Control` of complete data.
    pub fn new(context: &'r Context<'_>, plan: &'r RequestPlan, lifetime: HeaderValue) -> Self {
        context.record.set_dataset(&plan.origin.dataset);
        Self {
            context,
            plan,
            etag: plan.key.etag(),
            lifetime,
        }
    }

    /// The response with 304, if the client's copy is current.
    pub fn confirmed(&self) -> Option<HttpResponse> {
        if !is_known(self.context.request, &self.etag) {
            return None;
        }
        self.not_modified()
    }

    /// The response with 304, which is counted; `None` for incomplete data, which is never
    /// confirmed.
    pub fn not_modified(&self) -> Option<HttpResponse> {
        let policy = self.plan.cache_policy();
        if policy == CachePolicy::No {
            return None;
        }
        self.context.site.service.metrics().not_modified.inc();
        let mut response = self.with_policy(policy, HttpResponse::NotModified());
        Some(response.finish())
    }

    /// Adds `ETag` and `Cache-Control` to a response.
    pub fn add_headers(&self, response: HttpResponseBuilder) -> HttpResponseBuilder {
        self.with_policy(self.plan.cache_policy(), response)
    }

    fn with_policy(
        &self,
        policy: CachePolicy,
        mut response: HttpResponseBuilder,
    ) -> HttpResponseBuilder {
        let cache_control = match policy {
            CachePolicy::AsConfigured => self.lifetime.clone(),
            CachePolicy::Revalidated => REVALIDATED,
            CachePolicy::No => NO_STORE,
        };
        response.insert_header((header::ETAG, self.etag.as_str()));
        response.insert_header((header::CACHE_CONTROL, cache_control));
        response
    }
}

/// To be kept for a year without asking again.
const IMMUTABLE: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
/// To be revalidated at each use.
pub(super) const REVALIDATED: HeaderValue = HeaderValue::from_static("no-cache");

/// Not to be kept at all.
pub(super) const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// Whether `If-None-Match` is `*`, which names every existing representation.
pub(super) fn is_any(request: &HttpRequest) -> bool {
    request
        .headers()
        .get_all(header::IF_NONE_MATCH)
        .any(|value| value.as_bytes().trim_ascii() == b"*")
}

/// Whether `If-None-Match` is `*` or names this ETag (RFC 9110, section 13.1.2: weak comparison).
pub(super) fn is_known(request: &HttpRequest, etag: &str) -> bool {
    let values = request
        .headers()
        .get_all(header::IF_NONE_MATCH)
        .filter_map(|value| value.to_str().ok());
    let mut tags = values.flat_map(|value| value.split(',')).map(str::trim);
    tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}
