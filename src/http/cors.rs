//! Cross-origin rules: who may read answers, and what they may see of them.

use actix_web::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use actix_web::{HttpRequest, HttpResponse};

use super::ALLOWED;

/// What scripts of other origins need beside the body.
const EXPOSED: HeaderValue = HeaderValue::from_static("ETag, Content-Length");
/// Every origin.
const ANY: HeaderValue = HeaderValue::from_static("*");
/// How long a browser may remember a preflight, in seconds.
const REMEMBERED: &str = "86400";

/// The origins that may read answers.
#[derive(Debug, Clone)]
pub(super) enum Cors {
    Anyone,
    These(Vec<String>),
}

impl Cors {
    pub fn new(origins: &[String]) -> Self {
        if origins.iter().any(|origin| origin == "*") { Cors::Anyone } else { Cors::These(origins.to_vec()) }
    }

    /// Says in an answer whether the origin that asks may read it.
    pub fn add(&self, request: &HttpRequest, headers: &mut HeaderMap) {
        match self {
            Cors::Anyone => headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, ANY),
            Cors::These(origins) => {
                // Also where no origin asks, or none that may read: a cache must not hand that answer to one that may.
                add_to_vary(headers, "Origin");
                let asking = request.headers().get(header::ORIGIN);
                let known = asking
                    .filter(|asking| origins.iter().any(|origin| origin.as_bytes() == asking.as_bytes()));
                let Some(origin) = known else { return };
                headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone())
            }
        };
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    }
}

/// Adds names of headers to those by which an answer is said to differ already.
pub(super) fn add_to_vary(headers: &mut HeaderMap, names: &'static str) {
    let before = headers.get(header::VARY).and_then(|vary| vary.to_str().ok());
    let all = before.and_then(|before| HeaderValue::from_str(&format!("{before}, {names}")).ok());
    headers.insert(header::VARY, all.unwrap_or(HeaderValue::from_static(names)));
}

/// The answer to OPTIONS: what may be asked, whichever path it is.
pub(super) fn preflight(request: &HttpRequest) -> HttpResponse {
    let mut response = HttpResponse::NoContent();
    let fixed: [(HeaderName, &str); 3] = [
        (header::ALLOW, ALLOWED),
        (header::ACCESS_CONTROL_ALLOW_METHODS, ALLOWED),
        (header::ACCESS_CONTROL_MAX_AGE, REMEMBERED),
    ];
    fixed.into_iter().for_each(|header| {
        response.insert_header(header);
    });
    if let Some(wanted) = request.headers().get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        response.insert_header((header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone()));
    }
    response.finish()
}
