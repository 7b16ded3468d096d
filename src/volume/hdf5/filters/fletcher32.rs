//! fletcher32 (filter 3): a checksum behind the data.

use std::borrow::Cow;

use super::Broken;

/// The length of a checksum.
pub(super) const BYTES: usize = 4;

/// Checks and removes the checksum at the end.
///
/// Old versions of the library wrote the two halves with their bytes swapped; it accepts both, and so do we.
pub(super) fn decode(bytes: Cow<'_, [u8]>) -> Result<Cow<'_, [u8]>, Broken> {
    let (data, stored) = bytes.split_last_chunk::<BYTES>().ok_or("it is too short for a checksum")?;
    let (sum, length) = (checksum(data), data.len());
    let [a, b, c, d] = *stored;
    if sum != u32::from_le_bytes(*stored) && sum != u32::from_le_bytes([b, a, d, c]) {
        return Err("the checksum differs from the one that was stored".into());
    }
    Ok(match bytes {
        Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[..length]),
        Cow::Owned(mut bytes) => {
            bytes.truncate(length);
            Cow::Owned(bytes)
        }
    })
}

/// The library's variant of Fletcher's checksum: over big-endian 16-bit words, an odd last byte as a high half.
fn checksum(bytes: &[u8]) -> u32 {
    // This many words can be summed before 32 bits overflow.
    const WORDS: usize = 360;
    let (mut first, mut second) = (0u32, 0u32);
    for block in bytes.chunks(2 * WORDS) {
        for word in block.chunks(2) {
            first += u32::from(word[0]) << 8 | u32::from(word.get(1).copied().unwrap_or(0));
            second += first;
        }
        first = (first & 0xffff) + (first >> 16);
        second = (second & 0xffff) + (second >> 16);
    }
    first = (first & 0xffff) + (first >> 16);
    second = (second & 0xffff) + (second >> 16);
    second << 16 | first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_checksum_is_noticed() {
        let data = vec![7, 1, 2, 3, 200];
        let mut stored = data.clone();
        stored.extend(checksum(&data).to_le_bytes());
        assert_eq!(decode(stored.clone().into()), Ok(data.into()));
        stored[2] ^= 1;
        assert!(decode(stored.into()).is_err());
        assert!(decode(vec![1, 2].into()).is_err());
    }

    #[test]
    fn swapped_halves_of_old_files_are_accepted() {
        let data = vec![7, 1, 2, 3, 200];
        let [a, b, c, d] = checksum(&data).to_le_bytes();
        let stored = [data.as_slice(), &[b, a, d, c]].concat();
        assert_eq!(decode(stored.into()), Ok(data.into()));
    }
}
