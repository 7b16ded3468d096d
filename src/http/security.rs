//! Headers that keep a browser from making more of an answer than it is.
//!
//! Nothing but the pages is meant to be a document of its own. All other answers may load nothing, run nothing, and belong
//! to no origin if somebody opens them in a tab. As an image in a page, or read by a script, they are not touched by that.

use actix_web::http::header::{self, HeaderMap, HeaderValue};

/// The policy of whatever has none of its own.
const POLICY: HeaderValue = HeaderValue::from_static("default-src 'none'; sandbox");
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");

/// Adds them to an answer.
pub(super) fn add(headers: &mut HeaderMap) {
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, NOSNIFF);
    if !headers.contains_key(header::CONTENT_SECURITY_POLICY) {
        headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
    }
}
