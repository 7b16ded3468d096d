//! Tables indexed by pairs of bytes: first the count of each pair, then the concatenated codes of
//! its two bytes.
//!
//! Two bytes cost one count and one lookup instead of two. The tables have 65,536 entries; filling
//! and summing them is vectorised and takes a few microseconds. Few entries are touched in between,
//! since filtered noise is near 0. Codes and lengths are in separate tables, which saves masking.

use voltile_base::simd::multiversion;

use super::bits::Bits;

/// An entry for each pair, read as a little-endian number: 256 rows by the second byte, 256 columns
/// by the first.
type Table<T> = [T; 1 << 16];

/// Tables of all pairs of bytes: 320 KiB, reused from tile to tile.
#[derive(Debug)]
pub(super) struct Pairs {
    /// The count of each pair; later its two codes, the first one in the lowest bits.
    numbers: Box<Table<u32>>,
    /// The length of each pair's two codes together, in bits.
    lengths: Box<Table<u8>>,
}

impl Default for Pairs {
    fn default() -> Self {
        Self {
            numbers: Box::new([0; 1 << 16]),
            lengths: Box::new([0; 1 << 16]),
        }
    }
}

impl Pairs {
    /// Resets the counts.
    pub fn clear(&mut self) {
        self.numbers.fill(0);
    }

    /// Counts the pairs in `words`.
    pub fn count(&mut self, words: &[[u8; 8]]) {
        let numbers = &mut self.numbers;
        for word in words {
            for pair in word.as_chunks::<2>().0 {
                numbers[usize::from(u16::from_le_bytes(*pair))] += 1;
            }
        }
    }

    /// How often each byte was counted, in either position.
    pub fn totals(&self) -> [u32; 256] {
        totals(&self.numbers)
    }

    /// Replaces the counts by the codes of the pairs; each of `codes` has at most 16 bits.
    pub fn code(&mut self, codes: &[Bits; 256]) {
        join(codes, &mut self.numbers, &mut self.lengths);
    }

    /// The concatenated codes of four consecutive bytes, and their length in bits.
    #[inline]
    pub fn four(&self, [a, b, c, d]: [u8; 4]) -> (u64, u32) {
        let pair = |bytes: [u8; 2]| {
            let pair = usize::from(u16::from_le_bytes(bytes));
            (u64::from(self.numbers[pair]), u32::from(self.lengths[pair]))
        };
        let (low, low_bits) = pair([a, b]);
        let (high, high_bits) = pair([c, d]);
        (low | high << (low_bits & 63), low_bits + high_bits)
    }
}

multiversion! {
    fn totals(counts: &Table<u32>) -> [u32; 256] {
        let mut totals = [0; 256];
        let (rows, _) = counts.as_chunks::<256>();
        // The first byte of a pair is its column, and the second one its row.
        for row in rows {
            totals.iter_mut().zip(row).for_each(|(sum, count)| *sum += count);
        }
        totals.iter_mut().zip(rows).for_each(|(sum, row)| *sum += row.iter().sum::<u32>());
        totals
    }
}

multiversion! {
    fn join(codes: &[Bits; 256], numbers: &mut Table<u32>, lengths: &mut Table<u8>) {
        let bits_of = codes.map(|code| code.bits as u32);
        let length_of = codes.map(|code| code.count as u8);
        // The second code is shifted above the first by a multiplication: shifts by different
        // amounts need more than SSE2.
        let shift_factors = length_of.map(|length| 1u32 << (length & 31));
        let rows = numbers.as_chunks_mut::<256>().0.iter_mut().zip(lengths.as_chunks_mut::<256>().0);
        for ((&second, &length), (row, sums)) in bits_of.iter().zip(&length_of).zip(rows) {
            for ((joint, first), factor) in row.iter_mut().zip(&bits_of).zip(&shift_factors) {
                *joint = first | second.wrapping_mul(*factor);
            }
            sums.iter_mut().zip(&length_of).for_each(|(sum, first)| *sum = first + length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::huffman;
    use proptest::prelude::*;

    #[test]
    fn bytes_are_counted_in_either_position_and_counts_are_reset() {
        let mut pairs = Pairs::default();
        for _ in 0..2 {
            pairs.clear();
            pairs.count(&[[1, 2, 3, 4, 5, 6, 7, 255], [1, 1, 1, 1, 0, 0, 0, 255]]);
            pairs.count(&[[9; 8]]);
            let mut expected = [0; 256];
            for (byte, count) in [(0, 3), (1, 5), (9, 8), (255, 2)] {
                expected[byte] = count;
            }
            expected[2..8].fill(1);
            assert_eq!(pairs.totals(), expected);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        /// Rare bytes have the longest possible codes.
        #[test]
        fn four_codes_are_concatenated(seed in any::<u64>(), steep in 0..24u32) {
            let counts: Vec<u32> = (0..256).map(|byte| 1 << (byte * steep / 256)).collect();
            let codes = huffman::codes(&huffman::lengths(&counts, 14));
            let mut pairs = Pairs::default();
            pairs.code(codes.first_chunk().unwrap());
            let quads = (0..64).map(|turn| seed.wrapping_mul(0x9E37_79B9_7F4A_7C15 ^ turn) >> 13);
            for bytes in quads.map(|word| (word as u32).to_le_bytes()).chain([[0; 4], [255; 4]]) {
                let (mut bits, mut count) = (0, 0);
                for byte in bytes {
                    bits |= codes[usize::from(byte)].bits << count;
                    count += codes[usize::from(byte)].count;
                }
                prop_assert_eq!(pairs.four(bytes), (bits, count));
            }
        }
    }
}
