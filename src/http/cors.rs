//! Cross-origin rules: which origins may read responses, and which headers they see.

use actix_web::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use actix_web::{HttpRequest, HttpResponse};

/// The methods allowed on every path (`Allow` header).
pub(super) const ALLOWED: &str = "GET, HEAD, OPTIONS";
/// The response headers exposed to scripts of other origins.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "ETag, Content-Length, Content-Range, X-Voltile-Shape, X-Voltile-Type, X-Voltile-Missing",
);
/// Resource Timing, section 3.5.2: who may see `Server-Timing`.
static TIMING_ALLOW_ORIGIN: HeaderName = HeaderName::from_static("timing-allow-origin");
const ANY: HeaderValue = HeaderValue::from_static("*");
/// For how many seconds a browser may cache a preflight (`Access-Control-Max-Age`).
const PREFLIGHT_AGE: &str = "86400";

/// Adds the CORS headers if the request's origin is one of `origins`, the ones that may read
/// responses.
pub(super) fn add(origins: &[String], request: &HttpRequest, headers: &mut HeaderMap) {
    let allowed = if origins.iter().any(|origin| origin == "*") {
        Some(ANY)
    } else {
        // Also if this origin is not allowed: a cache must not reuse the response for an origin
        // that is.
        add_to_vary(headers, "Origin");
        let origin = request.headers().get(header::ORIGIN);
        origin
            .filter(|origin| origins.iter().any(|listed| **origin == *listed))
            .cloned()
    };
    if let Some(allowed) = allowed {
        headers.insert(TIMING_ALLOW_ORIGIN.clone(), allowed.clone());
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    }
}

/// Appends header names to `Vary`.
pub(super) fn add_to_vary(headers: &mut HeaderMap, names: &'static str) {
    let before = headers
        .get(header::VARY)
        .and_then(|vary| vary.to_str().ok());
    let all = before.and_then(|before| HeaderValue::from_str(&format!("{before}, {names}")).ok());
    headers.insert(header::VARY, all.unwrap_or(HeaderValue::from_static(names)));
}

/// The response to OPTIONS, the same for every path.
pub(super) fn preflight(request: &HttpRequest) -> HttpResponse {
    let mut response = HttpResponse::NoContent();
    response
        .insert_header((header::ALLOW, ALLOWED))
        .insert_header((header::ACCESS_CONTROL_ALLOW_METHODS, ALLOWED))
        .insert_header((header::ACCESS_CONTROL_MAX_AGE, PREFLIGHT_AGE));
    if let Some(wanted) = request
        .headers()
        .get(header::ACCESS_CONTROL_REQUEST_HEADERS)
    {
        response.insert_header((header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone()));
    }
    response.finish()
}
