//! Range requests (RFC 9110, section 14): one range of bytes, of documents and chunks that fit in
//! memory.

use std::ops::Range;
use std::sync::Arc;

use actix_web::http::{Method, StatusCode, header};
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder};
use bytes::Bytes;

use super::body::Pieces;
use crate::service::HeldMemory;

/// The requested part of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
enum RequestedBytes {
    /// The whole body: no range was requested, or several ranges, or the header is malformed.
    Whole,
    /// The bytes of one range.
    Bytes(Range<u64>),
    /// The range begins beyond the body's end.
    Unsatisfiable,
}

/// The response with the whole body, or with the requested range of it. `held` is the memory that
/// is held for the body.
pub(super) fn respond(
    request: &HttpRequest,
    mut response: HttpResponseBuilder,
    etag: &str,
    whole: Bytes,
    held: Option<Arc<HeldMemory>>,
) -> HttpResponse {
    let length = whole.len() as u64;
    response.insert_header((header::ACCEPT_RANGES, "bytes"));
    let header = range_header(request, etag);
    match header.map_or(RequestedBytes::Whole, |range| parse_range(range, length)) {
        RequestedBytes::Whole => response.body(Pieces::new(whole, held)),
        RequestedBytes::Bytes(Range { start, end }) => {
            response.status(StatusCode::PARTIAL_CONTENT);
            response.insert_header((
                header::CONTENT_RANGE,
                format!("bytes {start}-{}/{length}", end - 1),
            ));
            response.body(Pieces::new(whole.slice(start as usize..end as usize), held))
        }
        RequestedBytes::Unsatisfiable => {
            response.status(StatusCode::RANGE_NOT_SATISFIABLE);
            response.insert_header((header::CONTENT_RANGE, format!("bytes */{length}")));
            response.body(Pieces::new(Bytes::new(), None))
        }
    }
}

/// The `Range` header, if it is meant for the version of the body that has this ETag.
fn range_header<'r>(request: &'r HttpRequest, etag: &str) -> Option<&'r str> {
    if request.method() != Method::GET {
        return None;
    }
    let headers = request.headers();
    if let Some(known) = headers.get(header::IF_RANGE)
        && known.as_bytes().trim_ascii() != etag.as_bytes()
    {
        // The client has part of another version: it needs all of this one.
        return None;
    }
    headers.get(header::RANGE)?.to_str().ok()
}

/// The part of a body of this length that a `Range` header asks for.
fn parse_range(range: &str, length: u64) -> RequestedBytes {
    let Ok(header::Range::Bytes(ranges)) = range.trim().parse() else {
        return RequestedBytes::Whole;
    };
    let [range] = ranges.as_slice() else {
        return RequestedBytes::Whole;
    };
    match range.to_satisfiable_range(length) {
        Some((first, last)) => RequestedBytes::Bytes(first..last + 1),
        None => RequestedBytes::Unsatisfiable,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_range_of_bytes_is_cut_out() {
        for (range, expected) in [
            ("bytes=0-0", RequestedBytes::Bytes(0..1)),
            ("bytes=2-5", RequestedBytes::Bytes(2..6)),
            ("bytes=2-", RequestedBytes::Bytes(2..10)),
            ("bytes=-3", RequestedBytes::Bytes(7..10)),
            ("bytes=-30", RequestedBytes::Bytes(0..10)),
            ("bytes=9-99999999999", RequestedBytes::Bytes(9..10)),
            ("bytes=10-", RequestedBytes::Unsatisfiable),
            ("bytes=11-12", RequestedBytes::Unsatisfiable),
            ("bytes=-0", RequestedBytes::Unsatisfiable),
            ("bytes=5-2", RequestedBytes::Whole),
            ("bytes=0-1,3-4", RequestedBytes::Whole),
            ("bytes=-", RequestedBytes::Whole),
            ("bytes=a-b", RequestedBytes::Whole),
            ("bytes=0-18446744073709551616", RequestedBytes::Whole),
            ("lines=0-1", RequestedBytes::Whole),
            ("", RequestedBytes::Whole),
        ] {
            assert_eq!(parse_range(range, 10), expected, "{range}");
        }
        assert_eq!(
            parse_range("bytes=0-18446744073709551615", 10),
            RequestedBytes::Bytes(0..10)
        );
        assert_eq!(parse_range("bytes=0-", 0), RequestedBytes::Unsatisfiable);
    }

    #[test]
    fn a_range_of_another_version_is_not_sent() {
        use actix_web::http::header::HeaderValue;
        use actix_web::test::TestRequest;
        let asked = |if_range: &'static [u8]| {
            let request = TestRequest::default()
                .insert_header((header::RANGE, "bytes=0-1"))
                .insert_header((header::IF_RANGE, HeaderValue::from_bytes(if_range).unwrap()))
                .to_http_request();
            range_header(&request, "\"a\"").map(str::to_owned)
        };
        assert_eq!(asked(b" \"a\" "), Some("bytes=0-1".to_owned()));
        assert_eq!(asked(b"\"b\""), None);
        assert_eq!(asked(b"\"\xe4\""), None, "no text");
    }

    proptest! {
        #[test]
        fn a_range_lies_within_the_body(text in "(bytes)?[=0-9,-]{0,30}", length in 0u64..1000) {
            if let RequestedBytes::Bytes(range) = parse_range(&text, length) {
                prop_assert!(range.start < range.end && range.end <= length);
            }
        }
    }
}
