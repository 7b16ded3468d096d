//! Reads from the system's page cache alone, without waiting for a disk or a file server.

use std::io::IoSliceMut;

use bytes::Bytes;
use rustix::io::{ReadWriteFlags, preadv2};

use super::{ByteSource, FileBytes, ReadBuffer};

impl FileBytes {
    /// Whether a byte of the file is in the page cache; false on file systems that cannot tell,
    /// such as NFS.
    pub(super) fn is_cached(&self, position: u64) -> bool {
        let ByteSource::File { file, .. } = &self.source else {
            return false;
        };
        let mut byte = [0];
        let into = &mut [IoSliceMut::new(&mut byte)];
        preadv2(file, into, position, ReadWriteFlags::NOWAIT) == Ok(1)
    }

    /// A range of a local file, if all of it is in the page cache, or of an object in a store, if
    /// it has just been fetched. `None` if not, if the file has changed, and on file systems that
    /// cannot tell.
    pub fn read_cached(&self, position: u64, length: usize) -> Option<Bytes> {
        let file = match &self.source {
            ByteSource::File { file, .. } => file,
            ByteSource::Object { object, .. } => {
                let bytes = object.arrived(&(position..position.checked_add(length as u64)?))?;
                return self.unchanged_length().ok()?.map(|_| bytes);
            }
        };
        let mut buffer = ReadBuffer::of_length(length);
        let into = &mut [IoSliceMut::new(buffer.bytes_mut())];
        let count = preadv2(file, into, position, ReadWriteFlags::NOWAIT).ok()?;
        // Checked last: the bytes are valid only if the file did not change during the read.
        let is_valid = count == length && self.unchanged_length().ok()?.is_some();
        is_valid.then(|| Bytes::from_owner(buffer))
    }
}
