//! Errors as answers: one table from kind to status, and a body in RFC 9457's form.

use actix_web::HttpResponse;
use actix_web::http::{StatusCode, header};
use serde::Serialize;
use utoipa::ToSchema;

use super::ALLOWED;
use crate::service::{ErrorKind, TileError};

/// How long to wait before asking again, in seconds.
const RETRY_AFTER: &str = "1";

/// A problem detail (RFC 9457, section 3).
#[derive(Serialize, ToSchema)]
pub(super) struct Problem {
    /// Always `about:blank`: the status says what kind it is.
    r#type: &'static str,
    /// What the status is called.
    title: String,
    /// The same as the answer's.
    status: u16,
    /// What is wrong and, where it helps, what there is.
    detail: String,
}

/// The answer to a request that has no tile.
pub(super) fn of(error: &TileError) -> HttpResponse {
    let status = match error.kind() {
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        ErrorKind::Busy => StatusCode::SERVICE_UNAVAILABLE,
    };
    let mut response = problem(status, &error.public());
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static(RETRY_AFTER));
    }
    response
}

/// 400 with a reason.
pub(super) fn bad_request(detail: &str) -> HttpResponse {
    problem(StatusCode::BAD_REQUEST, detail)
}

/// 404 with a reason.
pub(super) fn not_found(detail: &str) -> HttpResponse {
    problem(StatusCode::NOT_FOUND, detail)
}

/// 500 with a reason.
pub(super) fn failed(detail: &str) -> HttpResponse {
    problem(StatusCode::INTERNAL_SERVER_ERROR, detail)
}

/// 405: there is nothing here that could be changed.
pub(super) fn method_not_allowed() -> HttpResponse {
    let mut response =
        problem(StatusCode::METHOD_NOT_ALLOWED, "tiles can only be read: GET and HEAD are answered");
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
        // An error is never to be taken for the tile once it is mended.
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .body(serde_json::to_string(&body).unwrap_or_default())
}
