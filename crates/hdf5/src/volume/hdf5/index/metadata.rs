//! Reads metadata of a file without the library: many ranges at once, instead of one after the
//! other.

use std::fmt::Write;
use std::ops::Range;

use bytes::Bytes;

use super::entry::IndexError;
use crate::volume::ReadError;
use crate::volume::hdf5::library::Superblock;

/// Reads ranges that lie within a file.
pub(super) type ReadMany<'a> = &'a dyn Fn(&[Range<u64>]) -> Result<Vec<Bytes>, ReadError>;

/// A file whose metadata is read.
pub(super) struct Metadata<'a> {
    pub superblock: Superblock,
    /// The length of the file.
    pub length: u64,
    pub read_many: ReadMany<'a>,
}

/// A piece of metadata, and the byte of the file that it begins at.
pub(super) struct IndexBlock {
    pub position: u64,
    pub bytes: Bytes,
}

impl Metadata<'_> {
    /// The byte of the file that an address refers to.
    pub fn position(&self, address: u64) -> u64 {
        self.superblock.base.saturating_add(address)
    }

    /// Reads these ranges, all in one call. Each is cut at the end of the file. A range beyond the
    /// end is an error.
    pub fn blocks(&self, mut ranges: Vec<Range<u64>>) -> Result<Vec<IndexBlock>, IndexError> {
        for range in &mut ranges {
            range.end = range.end.min(self.length);
            if range.is_empty() {
                return Err(IndexError::Wrong(format!(
                    "its metadata refers to byte {}, but the file ends at byte {}",
                    range.start, self.length
                )));
            }
        }
        let read = (self.read_many)(&ranges)?;
        let blocks = ranges.iter().zip(read).map(|(range, bytes)| IndexBlock {
            position: range.start,
            bytes,
        });
        Ok(blocks.collect())
    }

    /// The fields of a block.
    pub fn fields<'b>(&self, block: &'b IndexBlock) -> Fields<'b> {
        Fields {
            position: block.position,
            bytes: &block.bytes,
            address_size: self.superblock.address_size,
            length_size: self.superblock.length_size,
        }
    }
}

/// The unread fields of a block. Running out is an error.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'b> {
    /// The byte of the file that the next field begins at.
    pub position: u64,
    /// The bytes left.
    pub bytes: &'b [u8],
    address_size: usize,
    length_size: usize,
}

impl<'b> Fields<'b> {
    /// The next `length` bytes.
    pub fn take(&mut self, length: usize) -> Result<&'b [u8], IndexError> {
        let Some((taken, rest)) = self.bytes.split_at_checked(length) else {
            return Err(IndexError::Wrong(format!(
                "its metadata is damaged: {length} bytes are expected at byte {} of the file, but only {} are there",
                self.position,
                self.bytes.len()
            )));
        };
        self.bytes = rest;
        self.position += length as u64;
        Ok(taken)
    }

    /// The fields in the next `length` bytes.
    pub fn part(&mut self, length: usize) -> Result<Self, IndexError> {
        let position = self.position;
        Ok(Self {
            bytes: self.take(length)?,
            position,
            ..*self
        })
    }

    pub fn skip(&mut self, length: usize) -> Result<(), IndexError> {
        self.take(length).map(drop)
    }

    /// Skips the signature of a block; fails if another one is there.
    pub fn signature(&mut self, signature: &[u8; 4], expected: &str) -> Result<(), IndexError> {
        let position = self.position;
        let found = self.take(signature.len())?;
        if found == signature {
            return Ok(());
        }
        Err(unexpected(position, &shown(found), expected))
    }

    /// A little-endian number of this many bytes; `u64::MAX` if it does not fit into 64 bits.
    pub fn number(&mut self, size: usize) -> Result<u64, IndexError> {
        let mut number: u64 = 0;
        for byte in self.take(size)?.iter().rev() {
            if number >> 56 != 0 {
                return Ok(u64::MAX);
            }
            number = number << 8 | u64::from(*byte);
        }
        Ok(number)
    }

    pub fn byte(&mut self) -> Result<u8, IndexError> {
        Ok(self.take(1)?[0])
    }

    pub fn u16(&mut self) -> Result<u16, IndexError> {
        self.number(2).map(|number| number as u16)
    }

    pub fn u32(&mut self) -> Result<u32, IndexError> {
        self.number(4).map(|number| number as u32)
    }

    /// An address relative to the base address; `None` if it is undefined (all bits set).
    pub fn address(&mut self) -> Result<Option<u64>, IndexError> {
        // A copy, because `number` reads the same bytes.
        let mut fields = *self;
        let bytes = fields.take(self.address_size)?;
        let is_undefined = bytes.iter().all(|byte| *byte == u8::MAX);
        let address = self.number(self.address_size)?;
        Ok((!is_undefined).then_some(address))
    }

    pub fn length(&mut self) -> Result<u64, IndexError> {
        self.number(self.length_size)
    }
}

/// An error that names what was found at which byte of the file.
pub(super) fn unexpected(position: u64, found: &str, expected: &str) -> IndexError {
    IndexError::Wrong(format!(
        "its metadata is damaged: {expected} is expected at byte {position} of the file, but {found} is there"
    ))
}

/// Formats bytes for an error: as text if all are printable, otherwise as hexadecimal digits.
pub(super) fn shown(bytes: &[u8]) -> String {
    if bytes.iter().all(u8::is_ascii_graphic) {
        return format!("{:?}", String::from_utf8_lossy(bytes));
    }
    bytes.iter().fold("0x".to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
