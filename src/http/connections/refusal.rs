//! Responses to what is not a request, written by the connection itself because no service is
//! called for it.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use actix_web::body::MessageBody;
use actix_web::http::StatusCode;
use bytes::Bytes;

use crate::flow::trace::RequestId;
use crate::http::{problem, record, security};

/// The first byte of a TLS handshake (RFC 8446, section 5.1: a record of type 22).
pub(in crate::http) const TLS_HANDSHAKE: u8 = 22;

/// The shortest time between two log lines.
const PAUSE: Duration = Duration::from_secs(60);

/// The first byte of a connection to a TLS port does not begin a handshake.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("{}", Refusal::NotTls.detail())]
pub(in crate::http) struct NotTls;

/// Why there is no request to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    Malformed,
    /// A TLS handshake on a port for plain HTTP.
    Tls,
    /// No TLS handshake on a port for TLS.
    NotTls,
    /// The head is too long, or has too many headers.
    TooLarge,
    /// The head did not arrive in time.
    Late,
}

impl Refusal {
    pub fn detail(self) -> &'static str {
        match self {
            Refusal::Malformed => {
                "this is not a well-formed request of HTTP/1.1: it must have one Host header, a URI as its target, and a \
                 body of known length if any"
            }
            Refusal::Tls => {
                "this is a TLS handshake, but this port serves plain HTTP: use http:// and not https://"
            }
            Refusal::NotTls => {
                "this is not a TLS handshake, but this port serves TLS: use https:// and not http://"
            }
            Refusal::TooLarge => "the request line and the headers are too long",
            Refusal::Late => {
                "the request line and the headers did not arrive in time; see server.head_timeout"
            }
        }
    }

    /// The whole response; the connection is closed after it. Its id is a random one: the request
    /// has not been read.
    pub fn response(self) -> Bytes {
        let status = match self {
            Refusal::Malformed | Refusal::Tls | Refusal::NotTls => StatusCode::BAD_REQUEST,
            Refusal::TooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Refusal::Late => StatusCode::REQUEST_TIMEOUT,
        };
        let mut response = problem::problem(status, self.detail());
        security::add(response.headers_mut());
        record::add_id(&RequestId::random(), response.headers_mut());
        let mut bytes = format!("HTTP/1.1 {status}\r\nconnection: close\r\n").into_bytes();
        for (name, value) in response.headers() {
            bytes.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
        }
        let body = response.into_body().try_into_bytes().unwrap_or_default();
        bytes.extend(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
        bytes.extend(body);
        bytes.into()
    }
}

/// Logs connections that did not send HTTP, or whose TLS handshake failed, at most once a minute.
#[derive(Debug, Default)]
pub(super) struct RefusalLog(Mutex<Unlogged>);

#[derive(Debug, Default)]
struct Unlogged {
    count: u64,
    last: Option<Instant>,
}

impl RefusalLog {
    /// Counts one more, and logs the count if there was no log line within the last minute.
    pub fn add(&self, client: Option<IpAddr>, problem: &str) {
        let Some(count) = self.count(Instant::now()) else {
            return;
        };
        let from = client.map_or_else(|| "the Unix socket".to_owned(), |client| client.to_string());
        if count == 1 {
            tracing::warn!("a connection from {from} was refused: {problem}");
        } else {
            tracing::warn!("{count} connections were refused, the last one from {from}: {problem}");
        }
    }

    /// The count since the last log line, if it is time for another.
    fn count(&self, now: Instant) -> Option<u64> {
        let mut unlogged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        unlogged.count += 1;
        if unlogged
            .last
            .is_some_and(|last| now.duration_since(last) < PAUSE)
        {
            return None;
        }
        unlogged.last = Some(now);
        Some(std::mem::take(&mut unlogged.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_line_a_minute_with_the_count() {
        let (log, start) = (RefusalLog::default(), Instant::now());
        let count = |second| log.count(start + Duration::from_secs(second));
        assert_eq!([0, 1, 30, 59].map(count), [Some(1), None, None, None]);
        assert_eq!([60, 61, 200].map(count), [Some(4), None, Some(2)]);
    }
}
