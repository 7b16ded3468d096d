//! Reads from the system's page cache alone, without waiting for a disk or a file server.

use std::cell::RefCell;
use std::io::IoSliceMut;

use bytes::Bytes;
use rustix::io::{ReadWriteFlags, preadv2};

use super::{ByteSource, FileBytes};

/// The most buffers that a thread keeps, and the size in bytes of the largest that it keeps.
const MAX_BUFFERS: usize = 16;
const MAX_KEPT: usize = 1 << 20;

thread_local! {
    // Reused because page faults on fresh memory, and clearing it, cost as much as the read.
    static BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Bytes in a buffer that goes back to the thread that drops it.
struct Reused {
    buffer: Vec<u8>,
    length: usize,
}

impl AsRef<[u8]> for Reused {
    fn as_ref(&self) -> &[u8] {
        &self.buffer[..self.length]
    }
}

impl Drop for Reused {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.buffer);
        // Not while the thread ends.
        let _ = BUFFERS.try_with(|kept| {
            let mut kept = kept.borrow_mut();
            if kept.len() < MAX_BUFFERS && buffer.len() <= MAX_KEPT {
                kept.push(buffer);
            }
        });
    }
}

impl FileBytes {
    /// Some bytes of the file, if all of them are in the page cache and the file is unchanged;
    /// otherwise `None`, also on file systems that cannot tell. If the file is an object in a
    /// store: the bytes, if they have just been fetched.
    pub fn read_cached(&self, position: u64, length: usize) -> Option<Bytes> {
        let file = match &self.source {
            ByteSource::File { file, .. } => file,
            ByteSource::Object { object, .. } => {
                let bytes = object.arrived(&(position..position.checked_add(length as u64)?))?;
                return self.unchanged_length().ok()?.map(|_| bytes);
            }
        };
        let buffer = BUFFERS
            .with(|kept| kept.borrow_mut().pop())
            .unwrap_or_default();
        let mut read = Reused { buffer, length };
        if read.buffer.len() < length {
            read.buffer.resize(length, 0);
        }
        let into = &mut [IoSliceMut::new(&mut read.buffer[..length])];
        let count = preadv2(file, into, position, ReadWriteFlags::NOWAIT).ok()?;
        // Checked last: the bytes are valid only if the file did not change during the read.
        let is_valid = count == length && self.unchanged_length().ok()?.is_some();
        is_valid.then(|| Bytes::from_owner(read))
    }
}
