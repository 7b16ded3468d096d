//! Security headers for all responses.
//!
//! Only the pages are meant to be documents. Any other response that is opened in a tab can load
//! and run nothing, and belongs to no origin. Responses used as images in a page, or read by
//! scripts, are not affected.

use actix_web::http::header::{self, HeaderMap, HeaderValue};

/// For responses without a policy of their own.
const POLICY: HeaderValue = HeaderValue::from_static("default-src 'none'; sandbox");
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");

pub(super) fn add(headers: &mut HeaderMap) {
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, NOSNIFF);
    if !headers.contains_key(header::CONTENT_SECURITY_POLICY) {
        headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
    }
}
