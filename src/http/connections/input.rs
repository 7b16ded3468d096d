//! Buffers bytes received from a client until they are passed on to actix-http.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use super::head::{self, Head};

/// The initial length of the buffer in bytes.
const USUAL: usize = 4 << 10;

/// A buffer that grows for a long head, and shrinks afterwards. The bytes in `from..to` are waiting.
#[derive(Debug, Default)]
pub(super) struct Input {
    bytes: Vec<u8>,
    from: usize,
    to: usize,
    /// How many bytes were waiting when they were last searched for the end of a head, and when they were last
    /// parsed.
    searched: usize,
    parsed: usize,
}

impl Input {
    pub fn len(&self) -> usize {
        self.to - self.from
    }

    pub fn is_empty(&self) -> bool {
        self.from == self.to
    }

    /// Reads once; returns 0 at the end of the client's stream. Call it only with fewer than `most` bytes waiting.
    pub fn poll_fill<S: AsyncRead + Unpin>(
        &mut self,
        socket: &mut S,
        context: &mut Context<'_>,
        most: usize,
    ) -> Poll<io::Result<usize>> {
        self.make_room(most);
        let mut room = ReadBuf::new(&mut self.bytes[self.to..]);
        ready!(Pin::new(socket).poll_read(context, &mut room))?;
        let read = room.filled().len();
        self.to += read;
        Poll::Ready(Ok(read))
    }

    fn make_room(&mut self, most: usize) {
        if self.is_empty() {
            (self.from, self.to) = (0, 0);
        }
        if self.to < self.bytes.len() {
            return;
        }
        if self.from > 0 {
            self.bytes.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
        } else {
            let length = (2 * self.bytes.len()).clamp(USUAL, most.max(USUAL));
            self.bytes.resize(length, 0);
        }
    }

    /// Parses the head that the waiting bytes begin with.
    ///
    /// A head that arrives in many small pieces is not parsed again for each of them, but only when its end may have
    /// arrived, and each time its length has doubled, so that input that is not HTTP is detected early.
    pub fn head(&mut self) -> Head {
        self.skip_empty_lines();
        let (bytes, searched) = (&self.bytes[self.from..self.to], self.searched);
        if bytes.len() == searched {
            return Head::Partial;
        }
        self.searched = bytes.len();
        if bytes.len() < 2 * self.parsed && !has_end(&bytes[searched.saturating_sub(3)..]) {
            return Head::Partial;
        }
        self.parsed = bytes.len();
        head::parse(bytes)
    }

    /// Drops empty lines, which a client may send before a request (RFC 9112, section 2.2).
    pub fn skip_empty_lines(&mut self) {
        if self.searched == 0 {
            let waiting = &self.bytes[self.from..self.to];
            self.from += waiting.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        }
    }

    /// Passes on at most `most` bytes, limited by the room in `to`; returns how many.
    pub fn hand_on(&mut self, most: usize, to: &mut ReadBuf<'_>) -> usize {
        let count = most.min(self.len()).min(to.remaining());
        to.put_slice(&self.bytes[self.from..self.from + count]);
        self.from += count;
        (self.searched, self.parsed) = (0, 0);
        count
    }

    /// Frees the memory that only a long head needed.
    pub fn shrink(&mut self) {
        if self.is_empty() && self.bytes.len() > USUAL {
            *self = Self::default();
        }
    }
}

/// Whether these bytes contain an empty line.
fn has_end(bytes: &[u8]) -> bool {
    bytes.windows(2).any(|pair| pair == b"\n\n") || bytes.windows(3).any(|three| three == b"\n\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(input: &mut Input, mut bytes: &[u8], most: usize) {
        let mut context = Context::from_waker(std::task::Waker::noop());
        while !bytes.is_empty() {
            assert!(matches!(input.poll_fill(&mut bytes, &mut context, most), Poll::Ready(Ok(1..))));
        }
    }

    #[test]
    fn a_head_in_single_bytes_is_found_at_its_last_one() {
        let text = format!("\r\n\nGET / HTTP/1.1\r\nHost: a\r\nlong: {}\r\n\r\n", "x".repeat(9000));
        let (mut input, last) = (Input::default(), text.len() - 1);
        for (at, byte) in text.bytes().enumerate() {
            fill(&mut input, &[byte], 64 << 10);
            assert_eq!(matches!(input.head(), Head::Complete(_)), at == last, "at {at}");
        }
        assert_eq!(input.len(), text.len() - 3, "empty lines before it are gone");
        let mut out = vec![0; text.len()];
        let mut out = ReadBuf::new(&mut out);
        assert_eq!(input.hand_on(usize::MAX, &mut out), text.len() - 3);
        assert_eq!(out.filled(), &text.as_bytes()[3..]);
        input.shrink();
        assert!(input.is_empty() && input.bytes.is_empty());
    }

    #[test]
    fn what_is_no_request_is_noticed_at_once() {
        let mut input = Input::default();
        fill(&mut input, b"\x16\x03\x01\x00", 4096);
        assert!(matches!(input.head(), Head::Refused(_)));
    }
}
