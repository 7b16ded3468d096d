//! Buffers for stored bytes, which threads reuse: page faults on fresh memory, and clearing it,
//! cost more than a read.

use std::cell::RefCell;
use std::ops::Deref;

use super::FileBytes;
use crate::volume::ReadError;

/// The maximum number of buffers that a thread keeps.
const MAX_BUFFERS: usize = 16;
/// The maximum size in bytes of a buffer that a thread keeps besides its first one.
const MAX_FURTHER: usize = 1 << 20;
/// The maximum size in bytes of the first buffer that a thread keeps; a larger one is cut to it.
const MAX_FIRST: usize = 2 << 20;

thread_local! {
    static BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Bytes read from a file, in a buffer that is kept by the thread that drops it.
pub(in super::super) struct ReadBuffer {
    buffer: Vec<u8>,
    length: usize,
}

impl ReadBuffer {
    /// `length` arbitrary bytes, to be overwritten.
    pub(super) fn of_length(length: usize) -> Self {
        let mut buffer = BUFFERS
            .with(|kept| kept.borrow_mut().pop())
            .unwrap_or_default();
        if buffer.len() < length {
            buffer.resize(length, 0);
        }
        Self { buffer, length }
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[..self.length]
    }
}

impl FileBytes {
    /// Reads `length` bytes at an offset in the file; `place` is for errors.
    pub fn fetch(&self, address: u64, length: usize, place: &str) -> Result<ReadBuffer, ReadError> {
        let mut read = ReadBuffer::of_length(length);
        self.read_exact_at(read.bytes_mut(), address, place)?;
        Ok(read)
    }
}

impl Deref for ReadBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer[..self.length]
    }
}

impl AsRef<[u8]> for ReadBuffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for ReadBuffer {
    fn drop(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        // Fails while the thread ends, when the buffer is no longer needed.
        let _ = BUFFERS.try_with(|kept| {
            let mut kept = kept.borrow_mut();
            // This buffer is the thread's first.
            if kept.is_empty() {
                buffer.truncate(MAX_FIRST);
                buffer.shrink_to(MAX_FIRST);
                kept.push(buffer);
            } else if kept.len() < MAX_BUFFERS && buffer.len() <= MAX_FURTHER {
                kept.push(buffer);
            }
        });
    }
}
