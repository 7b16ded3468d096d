//! Error responses: one table from kind to status, and a body as in RFC 9457.

use actix_web::HttpResponse;
use actix_web::http::{StatusCode, header};
use serde::Serialize;
use utoipa::ToSchema;

use super::ALLOWED;
use crate::service::{ErrorKind, TileError};

/// Sent with 503, in seconds.
const RETRY_AFTER: &str = "1";

/// A problem detail (RFC 9457, section 3).
#[derive(Serialize, ToSchema)]
pub(super) struct Problem {
    /// Always `about:blank`: the status code identifies the problem.
    r#type: &'static str,
    /// The reason phrase of the status.
    title: String,
    /// The status code of the response.
    status: u16,
    /// What is wrong and, if that helps, what exists instead.
    detail: String,
}

/// The response for a request that fails.
pub(super) fn of(error: &TileError) -> HttpResponse {
    let status = match error.kind() {
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorKind::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        ErrorKind::Busy => StatusCode::SERVICE_UNAVAILABLE,
    };
    if status == StatusCode::SERVICE_UNAVAILABLE {
        return busy(&error.public());
    }
    problem(status, &error.public())
}

/// 503: the same request may succeed later.
pub(super) fn busy(detail: &str) -> HttpResponse {
    let mut response = problem(StatusCode::SERVICE_UNAVAILABLE, detail);
    response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static(RETRY_AFTER));
    response
}

pub(super) fn bad_request(detail: &str) -> HttpResponse {
    problem(StatusCode::BAD_REQUEST, detail)
}

pub(super) fn not_found(detail: &str) -> HttpResponse {
    problem(StatusCode::NOT_FOUND, detail)
}

pub(super) fn failed(detail: &str) -> HttpResponse {
    problem(StatusCode::INTERNAL_SERVER_ERROR, detail)
}

pub(super) fn method_not_allowed() -> HttpResponse {
    let mut response = problem(StatusCode::METHOD_NOT_ALLOWED, "the server is read-only: use GET or HEAD");
    response.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static(ALLOWED));
    response
}

fn problem(status: StatusCode, detail: &str) -> HttpResponse {
    let title = status.canonical_reason().unwrap_or("Error");
    let body = Problem {
        r#type: "about:blank",
        title: title.to_owned(),
        status: status.as_u16(),
        detail: detail.to_owned(),
    };
    HttpResponse::build(status)
        .content_type("application/problem+json")
        // Errors must not be cached: the tile may be available once the cause is fixed.
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .body(serde_json::to_string(&body).unwrap_or_default())
}
