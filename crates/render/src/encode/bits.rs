//! A bit writer, lowest bit first.

use super::pairs::Pairs;

/// The maximum number of bits added before a write: with up to 7 pending ones, fewer than 64.
const MAX_BITS: u32 = 56;

/// A string of at most 56 bits, the first one lowest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Bits {
    pub bits: u64,
    pub count: u32,
}

impl Bits {
    pub const fn new(bits: u64, count: u32) -> Self {
        Self { bits, count }
    }

    /// Appends `more`; together at most 56.
    pub fn then(self, more: Bits) -> Self {
        Self::new(self.bits | more.bits << self.count, self.count + more.count)
    }
}

/// Writes bits to the front of a slice.
pub(super) struct Writer<'a> {
    /// The part not yet written.
    out: &'a mut [u8],
    /// Pending bits and their count: fewer than 8, except during a write.
    pending: u64,
    count: u32,
}

impl<'a> Writer<'a> {
    /// Starts at the front of `out`, which must be at least 8 bytes longer than the output.
    pub fn new(out: &'a mut [u8]) -> Self {
        Self {
            out,
            pending: 0,
            count: 0,
        }
    }

    /// Writes some bits; up to 7 stay pending.
    #[inline]
    pub fn bits(&mut self, Bits { bits, count }: Bits) {
        self.add(bits, count);
        self.write();
    }

    /// Pads the current byte with zero bits.
    pub fn align(&mut self) {
        self.bits(Bits::new(0, self.count.wrapping_neg() % 8));
    }

    /// Writes the codes of `words`.
    pub fn words(&mut self, words: &[[u8; 8]], pairs: &Pairs) {
        let begun = Writer {
            out: std::mem::take(&mut self.out),
            ..*self
        };
        *self = write_words(words, pairs, begun);
    }

    #[inline(always)]
    fn add(&mut self, bits: u64, count: u32) {
        self.pending |= bits << (self.count & 63);
        self.count += count;
    }

    /// Writes 8 bytes. Only the complete ones count; the next write overwrites the rest.
    #[inline(always)]
    fn write(&mut self) {
        // The pending bits that fill whole bytes: 0, 8, … or 56.
        let whole_bits = self.count & 0x38;
        debug_assert!(self.out.len() >= 8, "there is room for a word");
        if let Some(room) = self.out.first_chunk_mut::<8>() {
            *room = self.pending.to_le_bytes();
            self.out = &mut std::mem::take(&mut self.out)[whole_bits as usize / 8..];
        }
        self.pending >>= whole_bits;
        self.count %= 8;
    }
}

/// Writes the codes of `words` with the writer `begun`, and returns it.
///
/// Works on a copy of the writer, so that pending bits stay in registers. Not inlined: inlined into
/// the loop that calls it, it took up to 1.8 times as long, for an unknown reason.
#[inline(never)]
fn write_words<'a>(words: &[[u8; 8]], pairs: &Pairs, begun: Writer<'a>) -> Writer<'a> {
    let mut writer = Writer { ..begun };
    for [a, b, c, d, e, f, g, h] in words {
        let (first, first_bits) = pairs.four([*a, *b, *c, *d]);
        let (second, second_bits) = pairs.four([*e, *f, *g, *h]);
        writer.add(first, first_bits);
        // Rare: eight codes have more than 56 bits only if they are hardly shorter than the bytes.
        if first_bits + second_bits > MAX_BITS {
            writer.write();
        }
        writer.add(second, second_bits);
        writer.write();
    }
    writer
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bits_are_concatenated(pieces in prop::collection::vec((any::<u64>(), 0..=56u32), 0..50)) {
            let pieces: Vec<Bits> =
                pieces.iter().map(|(bits, count)| Bits { bits: bits & ((1 << count) - 1), count: *count }).collect();
            let all: u32 = pieces.iter().map(|piece| piece.count).sum();
            let mut out = vec![0xAA; all.div_ceil(8) as usize + 8];
            let mut writer = Writer::new(&mut out);
            pieces.iter().for_each(|piece| writer.bits(*piece));
            writer.align();
            let written = (0..all).map(|at| out[at as usize / 8] >> (at % 8) & 1);
            let expected = pieces.iter().flat_map(|piece| (0..piece.count).map(|at| (piece.bits >> at & 1) as u8));
            prop_assert!(written.eq(expected));
        }
    }
}
