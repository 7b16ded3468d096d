//! lz4 (filter 32004): blocks of LZ4 after a header, with big-endian numbers.
//!
//! The header is the decoded size (8 bytes) and the block size (4); each block is preceded by its
//! stored size (4), and the last one may be shorter. A block with a stored size equal to its
//! decoded size is uncompressed.

use super::cursor::ByteCursor;
use super::{FilterError, ensure_fits};

/// Decodes to at most `limit` bytes.
pub(super) fn decode(bytes: &[u8], limit: usize) -> Result<Vec<u8>, FilterError> {
    let mut input = ByteCursor(bytes);
    let size = input.long_size_be()?;
    let block_size = input.size_be()?;
    ensure_fits(size, limit)?;
    if block_size == 0 && size > 0 {
        return Err("its blocks are empty".into());
    }
    let mut out = vec![0; size];
    for target in out.chunks_mut(block_size.max(1)) {
        let length = input.size_be()?;
        let stored = input.take(length)?;
        if length == target.len() {
            target.copy_from_slice(stored);
        } else {
            block(stored, target)?;
        }
    }
    Ok(out)
}

/// Decodes one raw LZ4 block, which must fill `target`.
pub(super) fn block(bytes: &[u8], target: &mut [u8]) -> Result<(), FilterError> {
    match lz4_flex::block::decompress_into(bytes, target) {
        Ok(length) if length == target.len() => Ok(()),
        Ok(_) => Err("an LZ4 block is too short".into()),
        Err(e) => Err(format!("an LZ4 block is invalid ({e})").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_decoded_or_copied() {
        // Sixteen bytes in blocks of fourteen: a run as LZ4, then two incompressible bytes.
        let stored = [
            &[0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 14][..],
            &[
                0, 0, 0, 10, 0x14, b'a', 1, 0, 0x50, b'a', b'a', b'a', b'a', b'a',
            ],
            &[0, 0, 0, 2, b'x', b'y'],
        ]
        .concat();
        assert_eq!(decode(&stored, 16), Ok(b"aaaaaaaaaaaaaaxy".to_vec()));
        assert!(decode(&stored, 15).is_err());
    }

    #[test]
    fn absurd_sizes_are_refused_before_memory_is_taken() {
        let absurd = [&[0xff; 8][..], &[0, 0, 0, 8]].concat();
        assert!(decode(&absurd, 1 << 20).is_err());
        let empty_blocks = [&[0, 0, 0, 0, 0, 0, 0, 8][..], &[0; 64]].concat();
        assert!(decode(&empty_blocks, 8).is_err());
    }
}
