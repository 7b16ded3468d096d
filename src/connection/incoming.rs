//! A buffered reader with a deadline. Bodies of known length bypass the buffer.

use std::io::{self, ErrorKind, Read};
use std::time::Instant;

use super::Broken;

/// The size of a read while the length of the response is unknown. Heads are far shorter.
const AT_ONCE: usize = 16 << 10;

#[derive(Debug)]
pub(super) struct Incoming<R> {
    from: R,
    buffer: Vec<u8>,
    taken: usize,
    until: Instant,
    has_come: bool,
}

impl<R: Read> Incoming<R> {
    pub fn new(from: R) -> Self {
        Self { from, buffer: Vec::with_capacity(AT_ONCE), taken: 0, until: Instant::now(), has_come: false }
    }

    /// Starts a response that must be complete by `until`.
    pub fn begin(&mut self, until: Instant) {
        (self.until, self.has_come) = (until, false);
    }

    /// Whether any byte arrived since [`Self::begin`].
    pub fn has_come(&self) -> bool {
        self.has_come
    }

    /// The underlying stream.
    pub fn from(&mut self) -> &mut R {
        &mut self.from
    }

    /// The buffered bytes not yet consumed.
    pub fn there(&self) -> &[u8] {
        self.buffer.get(self.taken..).unwrap_or_default()
    }

    /// Consumes buffered bytes.
    pub fn take(&mut self, bytes: usize) {
        self.taken = (self.taken + bytes).min(self.buffer.len());
    }

    /// Reads more into the buffer; 0 at the end of the stream.
    pub fn more(&mut self) -> Result<usize, Broken> {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        let there = self.buffer.len();
        self.buffer.resize(there + AT_ONCE, 0);
        let read = read(&mut self.from, self.buffer.get_mut(there..).unwrap_or_default(), self.until);
        self.buffer.truncate(there + read.as_ref().map_or(0, |bytes| *bytes));
        let bytes = read?;
        self.has_come |= bytes > 0;
        Ok(bytes)
    }

    /// Fills `into` completely.
    pub fn fill(&mut self, into: &mut [u8]) -> Result<(), Broken> {
        let there = self.there();
        let (first, mut rest) = into.split_at_mut(there.len().min(into.len()));
        first.copy_from_slice(there.get(..first.len()).unwrap_or_default());
        self.take(first.len());
        while !rest.is_empty() {
            match read(&mut self.from, rest, self.until)? {
                0 => return Err(Broken::Closed),
                bytes => rest = rest.get_mut(bytes..).unwrap_or_default(),
            }
        }
        Ok(())
    }
}

/// Reads once; fails if the time is up, however little is missing.
fn read(from: &mut impl Read, into: &mut [u8], until: Instant) -> Result<usize, Broken> {
    loop {
        if Instant::now() > until {
            return Err(io::Error::from(ErrorKind::TimedOut).into());
        }
        match from.read(into) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            read => return Ok(read?),
        }
    }
}
