//! deflate (filter 1): a zlib stream.

use libdeflater::{DecompressionError, Decompressor};

use super::Broken;

/// How much room is left behind what is needed: libdeflate fills its buffer but for at most one match of 258 bytes.
const ROOM: usize = 512;
/// Where in that room a mark stands: further than libdeflate ever writes ahead of what it has decoded.
const AHEAD: usize = 128;
const MARK: [u8; 8] = [0xA5, 0x3C, 0x96, 0x0F, 0x69, 0xC3, 0x5A, 0xF1];

/// Inflates a stream that comes to at most `limit` bytes: all of it, or its first `needed` bytes where that is much less.
///
/// libdeflate writes a stream from front to back and stops where its buffer is full, but does not say how far it came. A
/// mark a little behind what is needed tells: it was overwritten, or (before a stored block that does not fit, say) it
/// was not, and then all is inflated. Only a whole stream has its checksum checked.
pub(super) fn decode(bytes: &[u8], limit: usize, needed: usize) -> Result<Vec<u8>, Broken> {
    if needed >= limit - limit / 8 || limit - needed <= ROOM {
        return whole(bytes, limit);
    }
    let mut out = vec![0; needed + ROOM];
    let mark = needed + AHEAD..needed + AHEAD + MARK.len();
    out[mark.clone()].copy_from_slice(&MARK);
    match Decompressor::new().zlib_decompress(bytes, &mut out) {
        Ok(length) => out.truncate(length),
        Err(DecompressionError::InsufficientSpace) if out[mark] != MARK => out.truncate(needed),
        Err(DecompressionError::InsufficientSpace) => return whole(bytes, limit),
        Err(DecompressionError::BadData) => return Err(NONSENSE.into()),
    }
    Ok(out)
}

const NONSENSE: &str = "its zlib stream makes no sense";

fn whole(bytes: &[u8], limit: usize) -> Result<Vec<u8>, Broken> {
    let mut out = vec![0; limit];
    let length = inflate(bytes, &mut out)?;
    out.truncate(length);
    Ok(out)
}

/// Inflates a stream into the front of `target`; returns how much that was.
pub(super) fn inflate(bytes: &[u8], target: &mut [u8]) -> Result<usize, Broken> {
    Decompressor::new().zlib_decompress(bytes, target).map_err(|e| match e {
        DecompressionError::BadData => Broken::from(NONSENSE),
        DecompressionError::InsufficientSpace => Broken::from("its zlib stream is longer than a chunk"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What zlib makes of bytes at a level; 0 stores them.
    fn deflated(bytes: &[u8], level: u8) -> Vec<u8> {
        miniz_oxide::deflate::compress_to_vec_zlib(bytes, level)
    }

    proptest! {
        /// Runs, repetitions and noise, in blocks of every kind that deflate has.
        #[test]
        fn the_beginning_of_a_stream_is_the_beginning_of_the_whole(
            seed in any::<u64>(),
            pieces in prop::collection::vec((0..4u8, 1..40_000usize), 1..8),
            level in 0..10u8,
            share in 0.0..1.0f64,
        ) {
            let mut state = seed | 1;
            let mut random = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            };
            let mut bytes = Vec::new();
            for (kind, length) in pieces {
                match kind {
                    0 => bytes.extend(std::iter::repeat_n(7, length)),
                    1 => bytes.extend((0..length).map(|i| (i % 97) as u8)),
                    2 => bytes.extend((0..length).map(|_| random() & 15)),
                    _ => bytes.extend((0..length).map(|_| random())),
                }
            }
            let needed = (bytes.len() as f64 * share) as usize;
            let got = decode(&deflated(&bytes, level), bytes.len(), needed).unwrap();
            prop_assert!(got.len() >= needed && got == bytes[..got.len()]);
        }
    }

    #[test]
    fn a_beginning_is_no_longer_than_it_need_be_unless_a_stored_block_is_in_the_way() {
        let bytes: Vec<u8> = (0..200_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 28) as u8).collect();
        assert_eq!(decode(&deflated(&bytes, 6), bytes.len(), 1000).unwrap().len(), 1000);
        assert_eq!(decode(&deflated(&bytes, 0), bytes.len(), 1000).unwrap().len(), bytes.len());
    }

    #[test]
    fn a_mark_that_the_data_happens_to_hold_costs_time_alone() {
        let bytes: Vec<u8> = MARK.into_iter().cycle().take(100_000).collect();
        for needed in 1000..1010 {
            let got = decode(&deflated(&bytes, 6), bytes.len(), needed).unwrap();
            assert!(got == bytes[..got.len()] && got.len() >= needed);
        }
    }

    #[test]
    fn a_stream_is_inflated_and_no_further_than_allowed() {
        // zlib.compress(b"abc")
        let stored = [0x78, 0x9c, 0x4b, 0x4c, 0x4a, 0x06, 0x00, 0x02, 0x4d, 0x01, 0x27];
        assert_eq!(decode(&stored, 3, 3), Ok(b"abc".to_vec()));
        assert_eq!(decode(&stored, 9, 9), Ok(b"abc".to_vec()));
        assert!(decode(&stored, 2, 2).is_err());
        assert!(decode(&stored[..8], 3, 3).is_err());
        assert!(decode(&[0; 9], 4, 4).is_err());
    }
}
