//! Reads stored bytes into a buffer that each thread reuses.

use std::cell::Cell;
use std::ops::Deref;

use super::FileBytes;
use crate::volume::ReadError;

/// The maximum size in bytes to which a thread's buffer is kept between chunks.
const MAX_KEPT: usize = 2 << 20;

thread_local! {
    // Reused because page faults on fresh memory cost more than the read.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Bytes read from a file; the buffer goes back to the thread when this is dropped.
pub(in super::super) struct Fetched {
    buffer: Vec<u8>,
    length: usize,
}

impl FileBytes {
    /// Reads `length` bytes at an offset in the file; `place` is for errors.
    pub fn fetch(&self, address: u64, length: usize, place: &str) -> Result<Fetched, ReadError> {
        let mut fetched = Fetched {
            buffer: BUFFER.take(),
            length,
        };
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
        // The buffer of an unusually large chunk is shrunk.
        buffer.truncate(MAX_KEPT);
        buffer.shrink_to(MAX_KEPT);
        BUFFER.set(buffer);
    }
}
