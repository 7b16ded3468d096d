//! Error responses: one table from the kind of an error to a status, and a body as in RFC 9457.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderValue};
use serde::Serialize;
use utoipa::ToSchema;
use voltile_base::name::Name;

use super::cors::ALLOWED;
use crate::catalog::NotFound;
use crate::service::{ErrorKind, TileError};

/// `Retry-After` of 503, in seconds.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

/// The challenge that makes a browser ask for a password, in which the user enters the secret.
/// [`BEARER`] follows it.
const BASIC: &str = "Basic realm=\"voltile\", charset=\"UTF-8\"";
/// The challenge of each 401.
pub(super) const BEARER: &str = "Bearer realm=\"voltile\"";

/// A problem detail (RFC 9457, section 3).
#[derive(Serialize, ToSchema)]
pub(super) struct Problem {
    /// Always `about:blank`: the status code identifies the problem.
    r#type: &'static str,
    /// The reason phrase of the status.
    title: String,
    /// The status code of the response.
    status: u16,
    /// The problem and, if that helps, what exists instead.
    detail: String,
}

/// An error, as the response that describes it.
pub(super) struct ErrorResponse(pub Box<HttpResponse>);

/// The answer to a request.
pub(super) type Answer = Result<HttpResponse, ErrorResponse>;

impl<E: Into<TileError>> From<E> for ErrorResponse {
    fn from(error: E) -> Self {
        Self(Box::new(response(&error.into())))
    }
}

/// The response for a request that fails.
pub(super) fn response(error: &TileError) -> HttpResponse {
    let detail = error.public();
    let response = match error.kind() {
        ErrorKind::NotFound => not_found(&detail),
        ErrorKind::TooLarge => problem(StatusCode::PAYLOAD_TOO_LARGE, &detail),
        ErrorKind::Failed => problem(StatusCode::INTERNAL_SERVER_ERROR, &detail),
        ErrorKind::Busy => busy(&detail),
    };
    match error {
        TileError::NotFound(NotFound::Token { token, .. }) => {
            with_mark(response, MissingDataset(token.clone()))
        }
        TileError::NotFound(NotFound::Waiting(token)) => {
            with_mark(response, WaitingDataset(token.clone()))
        }
        _ => response,
    }
}

/// Marks the response to a request that names this dataset, which waits to be opened: the request
/// is answered anew once the dataset is open.
pub(super) struct WaitingDataset(pub Name);

/// Marks the response to a request that names this dataset, which does not exist or is hidden from
/// the request.
pub(super) struct MissingDataset(pub Name);

/// Adds a mark to a response, for the functions that pass it on.
pub(super) fn with_mark<M: 'static>(mut response: HttpResponse, mark: M) -> HttpResponse {
    response.extensions_mut().insert(mark);
    response
}

/// 404 for a dataset that is not there.
pub(super) fn no_dataset(token: &str) -> ErrorResponse {
    let response = not_found(&format!(
        "there is no dataset {token:?}; /datasets.json lists all datasets"
    ));
    ErrorResponse(Box::new(match Name::new(token) {
        Ok(token) => with_mark(response, MissingDataset(token)),
        Err(_) => response,
    }))
}

/// 401: a secret is needed, or the one that was sent in a header is wrong.
pub(super) fn unauthorized() -> HttpResponse {
    challenge(
        &[BASIC, BEARER],
        "there is no such dataset, or it needs a secret: send it as a bearer token, as the password of Basic \
         authentication, or in the path as /k/SECRET/ before everything else",
    )
}

/// 401: the secret in the path is wrong. No credentials help with that path, so browsers must not
/// be made to ask for them.
pub(super) fn wrong_secret() -> HttpResponse {
    challenge(
        &[BEARER],
        "the secret that follows /k/ in the path is wrong, or not valid any more: put the right one in its place, or leave \
         out both and send the secret in a header",
    )
}

/// 401 with these challenges.
fn challenge(challenges: &[&'static str], detail: &str) -> HttpResponse {
    let mut response = problem(StatusCode::UNAUTHORIZED, detail);
    for challenge in challenges {
        let value = HeaderValue::from_static(challenge);
        let headers = response.headers_mut();
        headers.append(header::WWW_AUTHENTICATE, value);
    }
    response
}

/// 421: the request is addressed to another host.
pub(super) fn misdirected(detail: &str) -> HttpResponse {
    problem(StatusCode::MISDIRECTED_REQUEST, detail)
}

/// 503: the same request may succeed later.
pub(super) fn busy(detail: &str) -> HttpResponse {
    let mut response = problem(StatusCode::SERVICE_UNAVAILABLE, detail);
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, RETRY_AFTER);
    response
}

pub(super) fn bad_request(detail: &str) -> HttpResponse {
    problem(StatusCode::BAD_REQUEST, detail)
}

pub(super) fn not_found(detail: &str) -> HttpResponse {
    problem(StatusCode::NOT_FOUND, detail)
}

pub(super) fn method_not_allowed() -> HttpResponse {
    let mut response = problem(
        StatusCode::METHOD_NOT_ALLOWED,
        "the server is read-only: use GET or HEAD",
    );
    let allowed = HeaderValue::from_static(ALLOWED);
    response.headers_mut().insert(header::ALLOW, allowed);
    response
}

/// The response with a status and a detail.
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
