//! fletcher32 (filter 3): the data, then a checksum of four bytes.

use std::borrow::Cow;

use voltile_base::simd::multiversion;

use super::{Bytes, Decoder, FilterError};

const CHECKSUM_BYTES: usize = 4;

#[derive(Debug)]
pub(super) struct Fletcher32;

impl Decoder for Fletcher32 {
    fn decode(&self, bytes: &[u8], limit: usize) -> Result<Vec<u8>, FilterError> {
        self.decode_first(bytes.into(), limit, limit)
            .map(Cow::into_owned)
    }

    /// Checks and removes the checksum at the end; copies nothing.
    ///
    /// Old versions of the library wrote the two halves with their bytes swapped; both forms are
    /// accepted, as in the library.
    fn decode_first<'a>(
        &self,
        bytes: Bytes<'a>,
        _limit: usize,
        _needed: usize,
    ) -> Result<Bytes<'a>, FilterError> {
        let (data, stored) = bytes
            .split_last_chunk::<CHECKSUM_BYTES>()
            .ok_or("it is too short for a checksum")?;
        let sum = checksum(data);
        let length = data.len();
        let [a, b, c, d] = *stored;
        if sum != u32::from_le_bytes(*stored) && sum != u32::from_le_bytes([b, a, d, c]) {
            return Err("the checksum differs from the stored one".into());
        }
        Ok(match bytes {
            Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[..length]),
            Cow::Owned(mut bytes) => {
                bytes.truncate(length);
                Cow::Owned(bytes)
            }
        })
    }

    fn most_stored(&self, input: usize, _size: usize) -> usize {
        input.saturating_add(CHECKSUM_BYTES)
    }
}

/// The library's variant of Fletcher's checksum: over big-endian 16-bit words; an odd last byte is
/// the high half of a word.
///
/// The first sum adds all words. The second sum adds the first one after every word, so each word
/// counts as often as there are words from it to the end: for the words a, b, c they are a + b + c
/// and 3a + 2b + c. With these weights, words can be added independently of each other. Both sums
/// are taken modulo 2^16 - 1.
fn checksum(bytes: &[u8]) -> u32 {
    let mut first = 0;
    let mut second = 0;
    let (words, odd) = bytes.as_chunks();
    for block in words.chunks(BLOCK) {
        let (sum, weighted) = sums(block);
        // All earlier words, whose sum is `first`, count once more for each word of this block.
        second = folded(second + block.len() as u64 * first + u64::from(weighted));
        first = folded(first + u64::from(sum));
    }
    if let [last] = odd {
        first = folded(first + (u64::from(*last) << 8));
        second = folded(second + first);
    }
    (second << 16 | first) as u32
}

/// Words summed at a time: their weighted sum, at most 65,535 · 256 · 257 / 2, does not overflow 32
/// bits.
const BLOCK: usize = 256;

multiversion! {
    /// The sum of all words, and the sum weighted by the number of words from each to the end.
    fn sums(words: &[[u8; 2]]) -> (u32, u32) {
        let mut sum = 0;
        let mut weighted = 0;
        for (word, weight) in words.iter().zip((1..=words.len() as u32).rev()) {
            let word = u32::from(u16::from_be_bytes(*word));
            sum += word;
            weighted += word * weight;
        }
        (sum, weighted)
    }
}

/// The remainder modulo 2^16 - 1. As in the library, multiples of 2^16 - 1 give 2^16 - 1 itself;
/// only 0 gives 0.
fn folded(sum: u64) -> u64 {
    if sum == 0 { 0 } else { (sum - 1) % 0xffff + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Word by word, as in the library.
    fn slowly(bytes: &[u8]) -> u32 {
        let (mut first, mut second) = (0u32, 0u32);
        let fold = |sum: u32| (sum & 0xffff) + (sum >> 16);
        for block in bytes.chunks(720) {
            for word in block.chunks(2) {
                first += u32::from(word[0]) << 8 | u32::from(word.get(1).copied().unwrap_or(0));
                second += first;
            }
            (first, second) = (fold(first), fold(second));
        }
        fold(second) << 16 | fold(first)
    }

    #[test]
    fn words_can_be_added_in_any_order() {
        let bytes: Vec<u8> = (0..5000u32).map(|i| ((i * i) >> 3) as u8).collect();
        for length in [0, 1, 2, 3, 511, 512, 513, 719, 720, 721, 1024, 4999, 5000] {
            assert_eq!(
                checksum(&bytes[..length]),
                slowly(&bytes[..length]),
                "{length}"
            );
        }
        for flat in [0, 1, 0xfe, 0xff] {
            assert_eq!(
                checksum(&vec![flat; 4001]),
                slowly(&vec![flat; 4001]),
                "{flat}"
            );
        }
    }

    #[test]
    fn a_wrong_checksum_is_noticed() {
        let data = vec![7, 1, 2, 3, 200];
        let mut stored = data.clone();
        stored.extend(checksum(&data).to_le_bytes());
        assert_eq!(Fletcher32.decode(&stored, 9), Ok(data));
        stored[2] ^= 1;
        assert!(Fletcher32.decode(&stored, 9).is_err());
        assert!(Fletcher32.decode(&[1, 2], 9).is_err());
    }

    #[test]
    fn swapped_halves_of_old_files_are_accepted() {
        let data = vec![7, 1, 2, 3, 200];
        let [a, b, c, d] = checksum(&data).to_le_bytes();
        let stored = [data.as_slice(), &[b, a, d, c]].concat();
        assert_eq!(Fletcher32.decode(&stored, 9), Ok(data));
    }
}
