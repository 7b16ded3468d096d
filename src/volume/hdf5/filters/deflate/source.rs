//! The bits of a stream, lowest first (RFC 1951, section 3.1.1).

use super::Refused;

/// Bits that were read and not yet taken, and the bytes behind them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    all: &'a [u8],
    /// The bytes that are not in `bits` yet.
    rest: &'a [u8],
    /// The next bits, lowest first. What stands above the `count` that are told is what the stream goes on with, or 0.
    bits: u64,
    /// How many of them count: at most 63.
    count: u32,
    /// How many zeros were taken for bytes behind the end.
    missing: u32,
}

impl<'a> Source<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { all: bytes, rest: bytes, bits: 0, count: 0, missing: 0 }
    }

    /// The next bits, of which as many are there as the last refill left.
    #[inline(always)]
    pub(super) fn bits(&self) -> u64 {
        self.bits
    }

    /// Has at least 56 bits there, and 64 to look at; false, and nothing changed, where fewer than 8 bytes are left.
    #[inline(always)]
    #[must_use]
    pub(super) fn refill(&mut self) -> bool {
        let Some(word) = self.rest.first_chunk() else { return false };
        self.bits |= u64::from_le_bytes(*word) << (self.count & 63);
        self.rest = &self.rest[((63 - self.count) >> 3 & 7) as usize..];
        self.count |= 56;
        true
    }

    /// Has at least 56 bits there, zeros where the stream has ended: [`Source::overrun`] tells.
    pub(super) fn refill_at_end(&mut self) {
        if self.refill() {
            return;
        }
        self.bits &= (1 << self.count) - 1;
        while self.count < 56 {
            let byte = self.rest.split_off_first().copied();
            self.missing += u32::from(byte.is_none());
            self.bits |= u64::from(byte.unwrap_or(0)) << self.count;
            self.count += 8;
        }
    }

    /// Whether more was taken than there is.
    pub(super) fn overrun(&self) -> bool {
        self.count < 8 * self.missing
    }

    /// Leaves out this many bits, which must be there.
    #[inline(always)]
    pub(super) fn skip(&mut self, count: u8) {
        self.bits >>= count & 63;
        self.count = self.count.wrapping_sub(count.into());
    }

    /// Takes this many bits, at most 16, which must be there.
    #[inline(always)]
    pub(super) fn take(&mut self, count: u8) -> usize {
        let value = self.bits & ((1 << (count & 63)) - 1);
        self.skip(count);
        value as usize
    }

    /// The next `length` bytes from the next whole byte on.
    pub(super) fn bytes(&mut self, length: usize) -> Result<&'a [u8], Refused> {
        if self.overrun() {
            return Err(Refused);
        }
        let unread = self.rest.len() + (self.count / 8 - self.missing) as usize;
        let (bytes, rest) = self.all[self.all.len() - unread..].split_at_checked(length).ok_or(Refused)?;
        *self = Self { all: self.all, rest, bits: 0, count: 0, missing: 0 };
        Ok(bytes)
    }
}
