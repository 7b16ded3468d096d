//! Responses to malformed requests, written by the connection itself, because actix-http never sees these requests.

use std::borrow::Cow;

use actix_web::http::header::HeaderMap;

use crate::http::{record, security};
use crate::trace::RequestId;

/// The first byte of a TLS handshake (RFC 8446, section 5.1: a record of type 22).
pub(in crate::http) const TLS_HANDSHAKE: u8 = 22;

/// The first byte of a connection to a TLS port does not begin a handshake.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("this is not a TLS handshake, but this port serves TLS: use https:// and not http://")]
pub(in crate::http) struct NotTls;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It is not HTTP/1; with the reason.
    Malformed(Cow<'static, str>),
    /// The head is too long, or has too many headers.
    TooLarge,
    /// The head did not arrive in time.
    Late,
}

impl Refusal {
    /// The refusal for bytes that the parser rejects.
    pub fn of(bytes: &[u8], error: httparse::Error) -> Self {
        match error {
            httparse::Error::TooManyHeaders => Refusal::TooLarge,
            _ if bytes.first() == Some(&TLS_HANDSHAKE) => Refusal::Malformed(Cow::Borrowed(
                "this is a TLS handshake, but this port serves plain HTTP: use http:// and not https://",
            )),
            error => Refusal::Malformed(Cow::Owned(format!("this is not HTTP/1.1: {error}"))),
        }
    }

    pub fn detail(&self) -> &str {
        match self {
            Refusal::Malformed(detail) => detail,
            Refusal::TooLarge => "the request line and the headers are too long",
            Refusal::Late => {
                "the request line and the headers did not arrive in time; see server.head_timeout"
            }
        }
    }

    /// The whole response; the connection is closed after it. Its id is a random one: the request has not been read.
    pub fn answer(&self) -> Vec<u8> {
        let (status, title) = match self {
            Refusal::Malformed(_) => (400, "Bad Request"),
            Refusal::TooLarge => (431, "Request Header Fields Too Large"),
            Refusal::Late => (408, "Request Timeout"),
        };
        let body = serde_json::json!({
            "type": "about:blank", "title": title, "status": status, "detail": self.detail(),
        });
        let body = body.to_string();
        let mut headers = HeaderMap::new();
        security::add(&mut headers);
        record::tell_id(&RequestId::random(), &mut headers);
        let mut answer = format!(
            "HTTP/1.1 {status} {title}\r\nconnection: close\r\ncontent-type: application/problem+json\r\n\
             cache-control: no-store\r\ncontent-length: {}\r\n",
            body.len()
        )
        .into_bytes();
        for (name, value) in &headers {
            answer.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
        }
        answer.extend([b"\r\n", body.as_bytes()].concat());
        answer
    }
}
