//! Answers to what is no request: written by the connection itself, because the framework never sees it.

use std::borrow::Cow;

/// What a TLS handshake begins with (RFC 8446, section 5.1: a record of type 22).
const TLS_HANDSHAKE: u8 = 22;

/// Why a request is refused before it is read to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It is not HTTP/1, and why.
    Malformed(Cow<'static, str>),
    /// Its head is too long, or has too many headers.
    TooLarge,
    /// Its head did not arrive in time.
    Late,
}

impl Refusal {
    /// What the refusal of these bytes is, which the parser cannot make anything of.
    pub fn of(bytes: &[u8], error: httparse::Error) -> Self {
        match error {
            httparse::Error::TooManyHeaders => Refusal::TooLarge,
            _ if bytes.first() == Some(&TLS_HANDSHAKE) => Refusal::Malformed(Cow::Borrowed(
                "this is a TLS handshake, and plain HTTP is spoken here: use http:// and not https://",
            )),
            error => Refusal::Malformed(Cow::Owned(format!("this is not HTTP/1.1: {error}"))),
        }
    }

    /// What was wrong.
    pub fn detail(&self) -> &str {
        match self {
            Refusal::Malformed(detail) => detail,
            Refusal::TooLarge => "the request line and the headers are too long",
            Refusal::Late => {
                "the request line and the headers did not arrive in time; see server.head_timeout"
            }
        }
    }

    /// The whole answer, after which the connection is closed.
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
        let length = body.len();
        format!(
            "HTTP/1.1 {status} {title}\r\nconnection: close\r\ncontent-type: application/problem+json\r\n\
             x-content-type-options: nosniff\r\ncache-control: no-store\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    }
}
