//! How long clients may keep responses, and whether they have them already.

use actix_web::http::header::{self, HeaderValue};
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder};
use voltile_base::request::VersionedToken;

use super::context::Context;
use crate::catalog::{CachePolicy, RequestPlan};

/// The `Cache-Control` of complete data at an address: with a version in the address, it never
/// changes.
pub(super) fn lifetime(dataset: &VersionedToken, otherwise: &HeaderValue) -> HeaderValue {
    if dataset.version.is_some() {
        IMMUTABLE
    } else {
        otherwise.clone()
    }
}

/// Records the dataset of a request, and confirms the client's copy with 304 if it is current. A
/// copy of incomplete data is never confirmed. `lifetime` is the `Cache-Control` of complete data.
pub(super) fn confirmed(
    context: &Context<'_>,
    plan: &RequestPlan,
    etag: &str,
    lifetime: &HeaderValue,
) -> Option<HttpResponse> {
    context.record.set_dataset(&plan.origin.dataset);
    if !is_known(context.request, etag) {
        return None;
    }
    let policy = plan.cache_policy();
    (policy != CachePolicy::No).then(|| not_modified(context, etag, policy, lifetime))
}

/// The response with 304, which is counted.
pub(super) fn not_modified(
    context: &Context<'_>,
    etag: &str,
    policy: CachePolicy,
    lifetime: &HeaderValue,
) -> HttpResponse {
    context.site.service.metrics().not_modified.inc();
    described(
        HttpResponse::NotModified(),
        etag.to_owned(),
        policy,
        lifetime,
    )
    .finish()
}

/// A response with an ETag and a `Cache-Control`.
pub(super) fn described(
    mut response: HttpResponseBuilder,
    etag: String,
    policy: CachePolicy,
    lifetime: &HeaderValue,
) -> HttpResponseBuilder {
    let cache_control = match policy {
        CachePolicy::AsConfigured => lifetime.clone(),
        CachePolicy::Revalidated => REVALIDATED,
        CachePolicy::No => NO_STORE,
    };
    response.insert_header((header::ETAG, etag));
    response.insert_header((header::CACHE_CONTROL, cache_control));
    response
}

/// For a year, as long as makes sense.
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

/// Whether `If-None-Match` names this ETag (RFC 9110, section 13.1.2: weak comparison).
pub(super) fn is_known(request: &HttpRequest, etag: &str) -> bool {
    let values = request
        .headers()
        .get_all(header::IF_NONE_MATCH)
        .filter_map(|value| value.to_str().ok());
    let mut tags = values.flat_map(|value| value.split(',')).map(str::trim);
    tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}
