//! Stored bytes in memory, in a buffer that each thread reuses.

use std::cell::Cell;
use std::ops::Deref;

use super::FileBytes;
use crate::volume::ReadError;

/// A thread's buffer is kept up to this size from one chunk to the next.
const MOST_KEPT: usize = 2 << 20;

thread_local! {
    // Kept because memory that is touched for the first time costs more than the read.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Bytes that were read from a file.
pub(in super::super) struct Fetched {
    buffer: Vec<u8>,
    length: usize,
}

impl FileBytes {
    /// Reads `length` bytes at a position of the file; `place` is for errors.
    pub fn fetch(&self, address: u64, length: usize, place: &str) -> Result<Fetched, ReadError> {
        let mut fetched = Fetched { buffer: BUFFER.take(), length };
        if fetched.buffer.len() < length {
            fetched.buffer.resize(length, 0);
        }
        self.read_exact_at(&mut fetched.buffer[..length], address, place)?;
        Ok(fetched)
    }
}

impl Deref for Fetched {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer[..self.length]
    }
}

impl Drop for Fetched {
    fn drop(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        // A chunk of unusual size does not stay.
        buffer.truncate(MOST_KEPT);
        buffer.shrink_to(MOST_KEPT);
        BUFFER.set(buffer);
    }
}
