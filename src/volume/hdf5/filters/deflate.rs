//! deflate (filter 1): a zlib stream.

use libdeflater::{DecompressionError, Decompressor};

use super::Broken;

/// Inflates a stream that comes to at most `limit` bytes.
pub(super) fn decode(bytes: &[u8], limit: usize) -> Result<Vec<u8>, Broken> {
    let mut out = vec![0; limit];
    let length = inflate(bytes, &mut out)?;
    out.truncate(length);
    Ok(out)
}

/// Inflates a stream into the front of `target`; returns how much that was.
pub(super) fn inflate(bytes: &[u8], target: &mut [u8]) -> Result<usize, Broken> {
    Decompressor::new().zlib_decompress(bytes, target).map_err(|e| match e {
        DecompressionError::BadData => Broken::from("its zlib stream makes no sense"),
        DecompressionError::InsufficientSpace => Broken::from("its zlib stream is longer than a chunk"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_inflated_and_no_further_than_allowed() {
        // zlib.compress(b"abc")
        let stored = [0x78, 0x9c, 0x4b, 0x4c, 0x4a, 0x06, 0x00, 0x02, 0x4d, 0x01, 0x27];
        assert_eq!(decode(&stored, 3), Ok(b"abc".to_vec()));
        assert_eq!(decode(&stored, 9), Ok(b"abc".to_vec()));
        assert!(decode(&stored, 2).is_err());
        assert!(decode(&stored[..8], 3).is_err());
        assert!(decode(&[0; 9], 4).is_err());
    }
}
