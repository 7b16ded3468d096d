//! Finds the end of an answer in what is written to a client.
//!
//! Only heads are looked at; bodies are counted. An answer whose end its head does not tell (there are none: every body
//! that is sent here has its length) has no end, and no other request is handed on behind it.

use std::mem::MaybeUninit;

use httparse::{Header, ParserConfig, Response, Status};
use memchr::memmem;

/// The most headers of an answer.
const MOST_HEADERS: usize = 128;
/// The longest head of an answer.
const LONGEST_HEAD: usize = 256 << 10;

/// How much of an answer has been written.
#[derive(Debug)]
pub(super) struct Answer {
    is_to_head: bool,
    left: Left,
}

#[derive(Debug)]
enum Left {
    /// The rest of a head, of which these bytes have been written.
    Head(Vec<u8>),
    /// Bytes of the body.
    Body(u64),
    /// Nobody knows.
    Unknown,
}

impl Answer {
    /// None of the answer to a request, `HEAD` or another one.
    pub fn to(is_head: bool) -> Self {
        Self { is_to_head: is_head, left: Left::Head(Vec::new()) }
    }

    /// Whether all of it has been written.
    pub fn is_complete(&self) -> bool {
        matches!(self.left, Left::Body(0))
    }

    /// Counts bytes that have been written.
    pub fn wrote(&mut self, bytes: &[u8]) {
        match &mut self.left {
            Left::Head(before) if before.is_empty() => self.head(bytes),
            Left::Head(before) => {
                let mut before = std::mem::take(before);
                before.extend_from_slice(bytes);
                self.head(&before);
            }
            Left::Body(left) => match left.checked_sub(bytes.len() as u64) {
                Some(left) => self.left = Left::Body(left),
                None => self.left = Left::Unknown,
            },
            Left::Unknown => {}
        }
    }

    /// Reads a head from its beginning.
    fn head(&mut self, bytes: &[u8]) {
        match parse(bytes) {
            // What comes before the answer itself: 100 Continue.
            Some(Parsed { length, status: 100..=199, .. }) => {
                self.left = Left::Head(Vec::new());
                if length < bytes.len() {
                    self.head(&bytes[length..]);
                }
            }
            Some(Parsed { length, status, body }) => {
                let body = if self.is_to_head || matches!(status, 204 | 304) { Some(0) } else { body };
                self.left = body.map_or(Left::Unknown, Left::Body);
                if length < bytes.len() {
                    self.wrote(&bytes[length..]);
                }
            }
            None if bytes.len() < LONGEST_HEAD => self.left = Left::Head(bytes.to_vec()),
            None => self.left = Left::Unknown,
        }
    }
}

struct Parsed {
    length: usize,
    status: u16,
    /// The length of the body, where there is a header that tells it.
    body: Option<u64>,
}

fn parse(bytes: &[u8]) -> Option<Parsed> {
    parse_usual(bytes).or_else(|| parse_any(bytes))
}

/// Reads a head as the framework writes it, with a length. Every hit comes by here, and looking for three things costs far
/// less than parsing all.
fn parse_usual(bytes: &[u8]) -> Option<Parsed> {
    const LENGTH: &[u8] = b"\r\ncontent-length: ";
    let length = memmem::find(bytes, b"\r\n\r\n")? + 4;
    let head = &bytes[..length];
    let status = number(head.strip_prefix(b"HTTP/1.1 ")?)?;
    let body = number(&head[memmem::find(head, LENGTH)? + LENGTH.len()..])?;
    Some(Parsed { length, status: u16::try_from(status).ok()?, body: Some(body) })
}

/// The number that some bytes begin with, if it ends with a space or a line.
fn number(bytes: &[u8]) -> Option<u64> {
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = bytes.split_at(digits);
    let ends = matches!(rest, [b' ' | b'\r', ..]) && (1..=18).contains(&digits.len());
    ends.then(|| digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

fn parse_any(bytes: &[u8]) -> Option<Parsed> {
    let mut headers = [const { MaybeUninit::uninit() }; MOST_HEADERS];
    let mut response = Response::new(&mut []);
    let parsed =
        ParserConfig::default().parse_response_with_uninit_headers(&mut response, bytes, &mut headers);
    match (parsed, response.code) {
        (Ok(Status::Complete(length)), Some(status)) => {
            Some(Parsed { length, status, body: body_length(response.headers) })
        }
        _ => None,
    }
}

fn body_length(headers: &[Header<'_>]) -> Option<u64> {
    let header = headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"))?;
    std::str::from_utf8(header.value).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After how many bytes the answer is complete, where these are written in pieces of that length.
    fn end(is_head: bool, text: &str, piece: usize) -> Option<usize> {
        let mut answer = Answer::to(is_head);
        let mut written = 0;
        for piece in text.as_bytes().chunks(piece) {
            answer.wrote(piece);
            written += piece.len();
            if answer.is_complete() {
                return Some(written);
            }
        }
        None
    }

    #[test]
    fn an_answer_ends_where_its_head_says() {
        for (is_head, text) in [
            (false, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"),
            (false, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
            (false, "HTTP/1.1 200 OK\r\nage: 7\r\ncontent-length:  2\r\n\r\nok"),
            (false, "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok"),
            (true, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"),
            (false, "HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n"),
            (false, "HTTP/1.0 204 No Content\r\n\r\n"),
            (false, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 405 No\r\ncontent-length: 2\r\n\r\n{}"),
        ] {
            for piece in 1..=text.len() {
                assert_eq!(end(is_head, text, piece), Some(text.len()), "{piece}: {text:?}");
            }
        }
    }

    #[test]
    fn an_answer_of_unknown_length_has_no_end() {
        for text in [
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\nhello",
            "HTTP/1.1 100 Continue\r\n\r\n",
        ] {
            assert_eq!(end(false, text, text.len()), None, "{text:?}");
        }
        let mut beyond = Answer::to(false);
        beyond.wrote(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nab");
        assert!(!beyond.is_complete());
    }
}
