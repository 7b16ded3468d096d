//! The bytes that a stream has come to so far, which matches copy from.

use super::Refused;
use super::steps::{COPIED, Step};

/// Room for what a stream comes to, filled from the front.
pub(super) struct Target<'a> {
    out: &'a mut [u8],
    /// How much is filled. A number of 32 bits, so that none can overflow when something small is added.
    length: u32,
}

impl<'a> Target<'a> {
    /// # Errors
    /// Where there is more room than 2 GiB: what lies before the first byte must not be taken for something behind it.
    pub(super) fn new(out: &'a mut [u8]) -> Result<Self, Refused> {
        if i32::try_from(out.len()).is_err() {
            return Err(Refused);
        }
        Ok(Self { out, length: 0 })
    }

    /// The same, borrowed: the compiler keeps it in registers.
    pub(super) fn reborrow(&mut self) -> Target<'_> {
        Target { out: self.out, length: self.length }
    }

    pub(super) fn length(&self) -> usize {
        self.length as usize
    }

    /// Goes on from where a [`Target::reborrow`] came to.
    pub(super) fn go_on_from(&mut self, length: usize) {
        self.length = length as u32;
    }

    pub(super) fn made(&self) -> &[u8] {
        &self.out[..self.length()]
    }

    /// Takes bytes as they are; false where there was room for some of them only.
    #[must_use]
    pub(super) fn append(&mut self, bytes: &[u8]) -> bool {
        let room = &mut self.out[self.length as usize..];
        let fits = bytes.len().min(room.len());
        room[..fits].copy_from_slice(&bytes[..fits]);
        self.length += fits as u32;
        fits == bytes.len()
    }

    /// Copies a match; false where there was room for some of it only.
    ///
    /// # Errors
    /// Where it would begin before the first byte.
    pub(super) fn copy(&mut self, length: usize, distance: usize) -> Result<bool, Refused> {
        let at = self.length();
        let from = at.checked_sub(distance).ok_or(Refused)?;
        let end = self.out.len().min(at + length);
        match distance {
            1 => {
                let byte = self.out[from];
                self.out[at..end].fill(byte);
            }
            _ if distance >= length => self.out.copy_within(from..from + (end - at), at),
            _ => (at..end).for_each(|to| self.out[to] = self.out[to - distance]),
        }
        self.length = end as u32;
        Ok(end == at + length)
    }

    /// Takes a step of the table, `bits` being what it was found by; false, and nothing changed, where it is special or
    /// room is scarce.
    ///
    /// # Errors
    /// Where it copies from before the first byte.
    #[inline(always)]
    pub(super) fn take(&mut self, step: &Step, bits: u64) -> Result<bool, Refused> {
        const BYTES: usize = COPIED as usize;
        let Some(copies) = step.copies() else { return Ok(false) };
        let to = self.length as usize..self.length as usize + BYTES;
        if to.end > self.out.len() {
            return Ok(false);
        }
        let value = step.value(bits);
        // Literals read the first bytes, to no effect: had they to read what was written just now, they would wait for it.
        let from = (self.length.wrapping_sub(value) & copies as u32) as usize;
        let copied = self.out.get(from..from + BYTES).and_then(|bytes| bytes.first_chunk()).ok_or(Refused)?;
        let made = u64::from_le_bytes(*copied) & copies | u64::from(value) & !copies;
        self.out[to].copy_from_slice(&made.to_le_bytes());
        self.length += step.length();
        Ok(true)
    }
}
