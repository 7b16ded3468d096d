//! A response: its head parsed, and its body framed by a length, in chunks, or by the end of the connection
//! (RFC 9112).

use std::io::Read;

use httparse::{EMPTY_HEADER, Header, Response, Status, parse_chunk_size};

use super::Broken;
use super::incoming::Incoming;

/// The maximum size of a body.
const MOST_BYTES: usize = 64 << 20;
/// The maximum size of a head, and the maximum number of headers.
const MOST_HEAD: usize = 64 << 10;
const MOST_HEADERS: usize = 100;

/// A response, whatever its status.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// The status.
    pub status: u16,
    pub(super) head: &'a [u8],
    /// The body.
    pub body: &'a [u8],
}

/// What a head says of its response.
#[derive(Debug)]
pub(super) struct Head {
    pub status: u16,
    /// Whether the connection can be reused.
    pub is_kept: bool,
    /// The length of the body.
    pub length: usize,
}

/// How a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Length(usize),
    Chunks,
    UntilClosed,
}

impl Answer<'_> {
    /// The value of a header, by its case-insensitive name; the first if there are several.
    pub fn header(&self, name: &str) -> Option<String> {
        let mut headers = [EMPTY_HEADER; MOST_HEADERS];
        let mut response = Response::new(&mut headers);
        response.parse(self.head).ok()?;
        values(response.headers, name).next().map(|value| String::from_utf8_lossy(value).into_owned())
    }

    /// The status, and the `detail` of a problem body.
    pub fn problem(&self) -> String {
        problem(self.status, self.body)
    }
}

/// A status, and the `detail` of a problem body (RFC 9457).
pub fn problem(status: u16, body: &[u8]) -> String {
    let detail: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let detail = detail.and_then(|body| Some(format!(": {}", body.get("detail")?.as_str()?)));
    format!("the status is {status}{}", detail.unwrap_or_default())
}

/// Reads one response into `head` and the start of `body`.
pub(super) fn read<R: Read>(
    from: &mut Incoming<R>,
    head: &mut Vec<u8>,
    body: &mut Vec<u8>,
) -> Result<Head, Broken> {
    loop {
        let (status, is_kept, framing) = read_head(from, head)?;
        // Interim responses precede the final one.
        if (100..200).contains(&status) && status != 101 {
            continue;
        }
        let length = match framing {
            Framing::Length(length) => read_length(from, length, 0, body)?,
            Framing::Chunks => read_chunks(from, body)?,
            Framing::UntilClosed => read_all(from, body)?,
        };
        // Unsolicited bytes would be taken for the next response.
        let is_kept = is_kept && framing != Framing::UntilClosed && from.there().is_empty();
        return Ok(Head { status, is_kept, length });
    }
}

fn read_head<R: Read>(from: &mut Incoming<R>, head: &mut Vec<u8>) -> Result<(u16, bool, Framing), Broken> {
    loop {
        let mut headers = [EMPTY_HEADER; MOST_HEADERS];
        let mut response = Response::new(&mut headers);
        let parsed = response.parse(from.there());
        if let Status::Complete(length) = parsed.map_err(|error| malformed(format!("its head: {error}")))? {
            let understood = understood(&response)?;
            head.clear();
            head.extend_from_slice(from.there().get(..length).unwrap_or_default());
            from.take(length);
            return Ok(understood);
        }
        within(from, "its head")?;
    }
}

/// Waits for more of something of limited length.
fn within<R: Read>(from: &mut Incoming<R>, what: &str) -> Result<(), Broken> {
    if from.there().len() > MOST_HEAD {
        return Err(malformed(format!("{what} has more than {MOST_HEAD} bytes")));
    }
    if from.more()? == 0 { Err(Broken::Closed) } else { Ok(()) }
}

fn understood(response: &Response<'_, '_>) -> Result<(u16, bool, Framing), Broken> {
    let status = response.code.ok_or_else(|| malformed("it has no status"))?;
    let has = |name: &str, token: &[u8]| {
        let mut values = values(response.headers, name).flat_map(|value| value.split(|byte| *byte == b','));
        values.any(|value| value.trim_ascii().eq_ignore_ascii_case(token))
    };
    let is_kept = match response.version {
        Some(0) => has("connection", b"keep-alive"),
        _ => !has("connection", b"close"),
    };
    Ok((status, is_kept && status != 101, framing(status, response.headers)?))
}

fn framing(status: u16, headers: &[Header<'_>]) -> Result<Framing, Broken> {
    if matches!(status, 100..200 | 204 | 304) {
        return Ok(Framing::Length(0));
    }
    if let Some(coding) = values(headers, "transfer-encoding").next() {
        return match coding.trim_ascii().eq_ignore_ascii_case(b"chunked") {
            true => Ok(Framing::Chunks),
            false => {
                let coding = String::from_utf8_lossy(coding);
                Err(malformed(format!("its Transfer-Encoding is {coding:?}; expected chunked or none")))
            }
        };
    }
    let mut lengths = values(headers, "content-length");
    let Some(first) = lengths.next() else { return Ok(Framing::UntilClosed) };
    let length =
        std::str::from_utf8(first).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    match length.and_then(|text| text.parse().ok()) {
        Some(length) if lengths.all(|other| other == first) => Ok(Framing::Length(length)),
        _ => Err(malformed(format!(
            "its Content-Length is {:?}; expected one number",
            String::from_utf8_lossy(first)
        ))),
    }
}

fn values<'h>(headers: &'h [Header<'_>], name: &str) -> impl Iterator<Item = &'h [u8]> {
    headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value)
}

/// Reads `length` bytes to the offset `there`; returns the offset of their end.
fn read_length<R: Read>(
    from: &mut Incoming<R>,
    length: usize,
    there: usize,
    body: &mut Vec<u8>,
) -> Result<usize, Broken> {
    let end = there.saturating_add(length);
    if end > MOST_BYTES {
        return Err(malformed(format!("its body has {end} bytes; expected at most {MOST_BYTES}")));
    }
    if body.len() < end {
        body.resize(end, 0);
    }
    from.fill(body.get_mut(there..end).unwrap_or_default())?;
    Ok(end)
}

fn read_chunks<R: Read>(from: &mut Incoming<R>, body: &mut Vec<u8>) -> Result<usize, Broken> {
    let mut there = 0;
    loop {
        let length = chunk_length(from)?;
        if length == 0 {
            while !line(from)?.is_empty() {}
            return Ok(there);
        }
        there = read_length(from, length, there, body)?;
        if !line(from)?.is_empty() {
            return Err(malformed("a chunk is longer than its stated size"));
        }
    }
}

fn chunk_length<R: Read>(from: &mut Incoming<R>) -> Result<usize, Broken> {
    loop {
        let size = parse_chunk_size(from.there());
        let size = size.map_err(|_| malformed("the size of a chunk is not a number"))?;
        if let Status::Complete((line, length)) = size {
            from.take(line);
            return Ok(usize::try_from(length).unwrap_or(usize::MAX));
        }
        within(from, "the line before a chunk")?;
    }
}

/// A line without its line end.
fn line<R: Read>(from: &mut Incoming<R>) -> Result<Vec<u8>, Broken> {
    loop {
        if let Some(end) = from.there().windows(2).position(|two| two == b"\r\n") {
            let line = from.there().get(..end).unwrap_or_default().to_vec();
            from.take(end + 2);
            return Ok(line);
        }
        within(from, "a line after a chunk")?;
    }
}

fn read_all<R: Read>(from: &mut Incoming<R>, body: &mut Vec<u8>) -> Result<usize, Broken> {
    let mut there = 0;
    loop {
        there = read_length(from, from.there().len(), there, body)?;
        if from.more()? == 0 {
            return Ok(there);
        }
    }
}

fn malformed(problem: impl Into<String>) -> Broken {
    Broken::Malformed(problem.into())
}
