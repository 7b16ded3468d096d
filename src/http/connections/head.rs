//! The head of a request: where it ends, and whether another request may follow.
//!
//! It is parsed by the same parser and with the same limits as in actix-http, which parses it again, so that both
//! agree on where it ends. Heads that actix-http would refuse are refused here, so that it never sees (and logs)
//! them.

use std::borrow::Cow;
use std::mem::MaybeUninit;

use actix_web::http::Uri;
use httparse::{Header, Status};

use super::refusal::Refusal;

/// The maximum number of headers in a request, as in actix-http.
const MOST_HEADERS: usize = 96;

/// The state of the bytes at the start of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Head {
    Partial,
    Complete(Request),
    Refused(Refusal),
}

/// What must be known of a request to find the end of its response, and to decide whether another request may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    /// Of the head, in bytes.
    pub length: usize,
    /// Whether the method is `HEAD`: the response has no body, whatever its headers say.
    pub is_head: bool,
    /// Whether the connection ends after the response: because the client wants that, or because a body or another
    /// protocol follows the head.
    pub is_last: bool,
}

pub(super) fn parse(bytes: &[u8]) -> Head {
    let mut headers = [const { MaybeUninit::uninit() }; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut []);
    match request.parse_with_uninit_headers(bytes, &mut headers) {
        Ok(Status::Partial) => Head::Partial,
        Ok(Status::Complete(length)) => match understood(&request, length) {
            Ok(request) => Head::Complete(request),
            Err(problem) => Head::Refused(Refusal::Malformed(Cow::Borrowed(problem))),
        },
        Err(error) => Head::Refused(Refusal::of(bytes, error)),
    }
}

fn understood(request: &httparse::Request<'_, '_>, length: usize) -> Result<Request, &'static str> {
    let (method, path) = (request.method.unwrap_or_default(), request.path.unwrap_or_default());
    let is_old = request.version == Some(0);
    if !is_plain(path) && Uri::try_from(path).is_err() {
        return Err("the request target is not a URI");
    }
    let mut fields = Fields::default();
    request.headers.iter().try_for_each(|header| fields.add(header))?;
    fields.check(method, is_old)?;
    let ends = fields.closes || (is_old && !fields.keeps);
    let is_followed = fields.length.is_some_and(|length| length > 0) || fields.is_chunked;
    let is_last = ends || is_followed || fields.upgrades || method == "CONNECT";
    Ok(Request { length, is_head: method == "HEAD", is_last })
}

/// Whether a target is a path of characters that are always valid in a URI: a fast path for nearly every request.
fn is_plain(target: &str) -> bool {
    const PLAIN: [bool; 256] = {
        let mut plain = [false; 256];
        let mut byte = 0;
        while byte < 128 {
            let sign = matches!(
                byte,
                b'/' | b'.'
                    | b'_'
                    | b'-'
                    | b'~'
                    | b'%'
                    | b'?'
                    | b'&'
                    | b'='
                    | b':'
                    | b','
                    | b'+'
                    | b';'
                    | b'@'
                    | b'!'
                    | b'$'
                    | b'*'
            );
            plain[byte as usize] = sign || byte.is_ascii_alphanumeric();
            byte += 1;
        }
        plain
    };
    target.starts_with('/') && target.bytes().all(|byte| PLAIN[usize::from(byte)])
}

/// The headers that decide how a connection goes on.
#[derive(Debug, Default)]
struct Fields {
    has_host: bool,
    length: Option<u64>,
    is_chunked: bool,
    closes: bool,
    keeps: bool,
    upgrades: bool,
}

impl Fields {
    fn add(&mut self, header: &Header<'_>) -> Result<(), &'static str> {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        match header.name.len() {
            4 if is("host") => self.host(),
            7 if is("upgrade") => {
                self.upgrades = true;
                Ok(())
            }
            10 if is("connection") => {
                self.connection(header.value);
                Ok(())
            }
            14 if is("content-length") => self.length(header.value),
            17 if is("transfer-encoding") => self.encoding(header.value),
            _ => Ok(()),
        }
    }

    fn host(&mut self) -> Result<(), &'static str> {
        if std::mem::replace(&mut self.has_host, true) {
            return Err("there is more than one Host header");
        }
        Ok(())
    }

    fn connection(&mut self, value: &[u8]) {
        for option in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            self.closes |= option.eq_ignore_ascii_case(b"close");
            self.keeps |= option.eq_ignore_ascii_case(b"keep-alive");
            self.upgrades |= option.eq_ignore_ascii_case(b"upgrade");
        }
    }

    fn length(&mut self, value: &[u8]) -> Result<(), &'static str> {
        let digits = std::str::from_utf8(value.trim_ascii()).ok();
        let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let length = digits.and_then(|digits| digits.parse().ok()).ok_or("Content-Length is not a length")?;
        match self.length.replace(length) {
            None => Ok(()),
            Some(_) => Err("there is more than one Content-Length header"),
        }
    }

    fn encoding(&mut self, value: &[u8]) -> Result<(), &'static str> {
        let is_known = value.trim_ascii().eq_ignore_ascii_case(b"chunked");
        if !is_known || std::mem::replace(&mut self.is_chunked, true) {
            return Err("Transfer-Encoding is not just \"chunked\"");
        }
        Ok(())
    }

    fn check(&self, method: &str, is_old: bool) -> Result<(), &'static str> {
        if self.is_chunked && (is_old || self.length.is_some()) {
            Err("Transfer-Encoding must not be used with Content-Length or in HTTP/1.0")
        } else if !is_old && !self.has_host {
            Err("there is no Host header")
        } else if is_old && method == "POST" && self.length.is_none() {
            Err("there is no Content-Length header")
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(text: &str) -> (bool, bool) {
        match parse(text.as_bytes()) {
            Head::Complete(request) => {
                assert!(text[..request.length].ends_with("\r\n\r\n"), "{text:?}");
                (request.is_head, request.is_last)
            }
            other => panic!("{text:?}: {other:?}"),
        }
    }

    #[test]
    fn what_follows_an_answer_depends_on_version_connection_and_body() {
        for (text, expected) in [
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET", (false, false)),
            ("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", (true, false)),
            ("GET / HTTP/1.0\r\n\r\n", (false, true)),
            ("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", (false, false)),
            ("GET / HTTP/1.1\r\nHost: a\r\nConnection: TE, close\r\n\r\n", (false, true)),
            ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", (false, false)),
            ("POST / HTTP/1.1\r\nHost: a\r\ncontent-length: 7\r\n\r\n{\"a\":1}", (false, true)),
            ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", (false, true)),
            ("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", (false, true)),
            ("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\n\r\n", (false, true)),
            ("CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", (false, true)),
        ] {
            assert_eq!(complete(text), expected, "{text:?}");
        }
    }

    #[test]
    fn plain_targets_are_uris() {
        let all: String = (0u8..128).map(char::from).filter(|one| is_plain(&format!("/{one}"))).collect();
        assert!(all.len() > 70, "{all}");
        for target in
            [format!("/{all}"), format!("/{all}{all}"), "//".to_owned(), "/%".to_owned(), "/?".to_owned()]
        {
            assert!(is_plain(&target) && Uri::try_from(&*target).is_ok(), "{target}");
        }
        assert!(!is_plain("*") && !is_plain("http://a/") && !is_plain("/ü") && !is_plain(""));
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let many: String = (0..97).map(|n| format!("a{n}: b\r\n")).collect();
        let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{many}\r\n");
        assert_eq!(parse(many.as_bytes()), Head::Refused(Refusal::TooLarge));
        for text in [
            "\u{16}\u{3}\u{1}\0\u{5}hello",
            "PRI * HTTP/2.0\r\n\r\n",
            "GET /\r\n\r\n",
            "GET /[ ] HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.0\r\n\r\n",
        ] {
            let head = parse(text.as_bytes());
            assert!(matches!(head, Head::Refused(Refusal::Malformed(_))), "{text:?}: {head:?}");
        }
        assert_eq!(parse(b"GET / HTTP/1.1\r\nHost: a\r\n"), Head::Partial);
    }
}
