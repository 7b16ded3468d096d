//! Reads numbers and slices from the front of stored bytes; running out is an error.

use super::FilterError;

/// The unread rest of some stored bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct ByteCursor<'a>(pub &'a [u8]);

impl<'a> ByteCursor<'a> {
    /// The next `length` bytes.
    pub fn take(&mut self, length: usize) -> Result<&'a [u8], FilterError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or("it ends too early")?;
        self.0 = rest;
        Ok(taken)
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], FilterError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or("it ends too early")?;
        self.0 = rest;
        Ok(*taken)
    }

    pub fn byte(&mut self) -> Result<u8, FilterError> {
        self.array().map(|[byte]| byte)
    }

    /// The next four bytes as a little-endian signed number.
    pub fn i32_le(&mut self) -> Result<i32, FilterError> {
        self.array().map(i32::from_le_bytes)
    }

    /// The next four bytes as a little-endian size.
    pub fn size_le(&mut self) -> Result<usize, FilterError> {
        Ok(u32::from_le_bytes(self.array()?) as usize)
    }

    /// The next four bytes as a big-endian size.
    pub fn size_be(&mut self) -> Result<usize, FilterError> {
        Ok(u32::from_be_bytes(self.array()?) as usize)
    }

    /// The next eight bytes as a big-endian size.
    pub fn long_size_be(&mut self) -> Result<usize, FilterError> {
        let size = u64::from_be_bytes(self.array()?);
        usize::try_from(size).map_err(|_| FilterError::from("a size in it is too large"))
    }
}
