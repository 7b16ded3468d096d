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

/// The origins that may read responses.
#[derive(Debug, Clone)]
pub(super) enum Cors {
    Anyone,
    Listed(Vec<String>),
}

impl Cors {
    pub fn new(origins: &[String]) -> Self {
        if origins.iter().any(|origin| origin == "*") {
            Cors::Anyone
        } else {
            Cors::Listed(origins.to_vec())
        }
    }

    /// Adds the CORS headers for the request's origin.
    pub fn add(&self, request: &HttpRequest, headers: &mut HeaderMap) {
        match self {
            Cors::Anyone => {
                headers.insert(TIMING_ALLOW_ORIGIN.clone(), ANY);
                headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, ANY)
            }
            Cors::Listed(origins) => {
                // Also for an origin that is not allowed: a cache must not reuse this response for
                // one that is.
                add_to_vary(headers, "Origin");
                let Some(origin) = request.headers().get(header::ORIGIN) else {
                    return;
                };
                if !origins
                    .iter()
                    .any(|allowed| allowed.as_bytes() == origin.as_bytes())
                {
                    return;
                }
                headers.insert(TIMING_ALLOW_ORIGIN.clone(), origin.clone());
                headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone())
            }
        };
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
