//! How long clients may keep responses, and whether they have them already.

use actix_web::HttpRequest;
use actix_web::http::header::{self, HeaderValue};
use voltile_base::request::VersionedToken;

use crate::catalog::CachePolicy;

/// The `Cache-Control` of a response at an address: with a version in the address, it never
/// changes.
pub(super) fn lifetime(dataset: &VersionedToken, otherwise: &HeaderValue) -> HeaderValue {
    if dataset.version.is_some() {
        IMMUTABLE
    } else {
        otherwise.clone()
    }
}

/// The `Cache-Control` of an answer.
pub(super) fn cache_control(
    policy: CachePolicy,
    dataset: &VersionedToken,
    otherwise: &HeaderValue,
) -> HeaderValue {
    match policy {
        CachePolicy::AsConfigured => lifetime(dataset, otherwise),
        CachePolicy::Revalidated => REVALIDATED,
        CachePolicy::No => NO_STORE,
    }
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
