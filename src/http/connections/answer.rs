//! Finds the end of a response in the bytes written to a client.
//!
//! Only heads are parsed; bodies are counted. If a head does not state the length of its body (ours always do), the
//! response has no known end, and no further request is passed on.

use std::mem::MaybeUninit;
use std::sync::LazyLock;

use httparse::{Header, ParserConfig, Response, Status};
use memchr::memmem::Finder;

const MOST_HEADERS: usize = 128;
/// In bytes.
const LONGEST_HEAD: usize = 256 << 10;

#[derive(Debug)]
pub(super) struct Answer {
    is_to_head: bool,
    left: Left,
}

#[derive(Debug)]
enum Left {
    /// The head is incomplete; these bytes of it have been written.
    Head(Vec<u8>),
    /// Bytes of the body yet to be written.
    Body(u64),
    /// The head does not tell the length.
    Unknown,
}

impl Answer {
    /// The response to a request, of which nothing has been written; `is_head` if the method is `HEAD`.
    pub fn to(is_head: bool) -> Self {
        Self { is_to_head: is_head, left: Left::Head(Vec::new()) }
    }

    pub fn is_complete(&self) -> bool {
        matches!(self.left, Left::Body(0))
    }

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

    /// Parses a head from its beginning.
    fn head(&mut self, bytes: &[u8]) {
        match parse(bytes) {
            // An interim response, such as 100 Continue.
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
    /// From `Content-Length`; `None` if there is none.
    body: Option<u64>,
}

fn parse(bytes: &[u8]) -> Option<Parsed> {
    parse_usual(bytes).or_else(|| parse_any(bytes))
}

/// Parses a head as actix-http writes it, with a length. Every cache hit takes this path, and searching for two
/// substrings costs far less than a full parse.
fn parse_usual(bytes: &[u8]) -> Option<Parsed> {
    // Static, because preparing a search takes longer than the search.
    static END: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("\r\n\r\n"));
    static LENGTH: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("\r\ncontent-length: "));
    let length = END.find(bytes)? + END.needle().len();
    let head = &bytes[..length];
    let status = number(head.strip_prefix(b"HTTP/1.1 ")?)?;
    let body = number(&head[LENGTH.find(head)? + LENGTH.needle().len()..])?;
    Some(Parsed { length, status: u16::try_from(status).ok()?, body: Some(body) })
}

/// The number at the beginning of the bytes, if a space or a line break follows.
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

    /// After how many bytes the response is complete, if it is written in pieces of this length.
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
