//! deflate (filter 1): a zlib stream, inflated by libdeflate, whole or as far as its beginning is wanted.
//!
//! libdeflate has no streaming interface. A prefix is had by giving it an output buffer that is too small: it writes
//! from front to back and reports "insufficient space" once the next symbol does not fit. It does not promise that what
//! it wrote until then is right, nor how far that goes. So its exact version is pinned in `Cargo.toml`, a mark in the
//! buffer tells whether it came far enough, and the tests compare prefixes of many streams with the whole.

#[cfg(test)]
mod tests;

use libdeflater::{DecompressionError, Decompressor};

use super::super::spare;
use super::Broken;

/// How much room the buffer has behind what is needed. libdeflate stops at the first symbol that does not fit, so it
/// fills the buffer but for at most one match of 258 bytes, unless a stored block is next, which it copies in one piece.
const ROOM: usize = 512;
/// Where in that room the mark stands: further than libdeflate writes beyond the end of a match (39 bytes on machines
/// of 64 bits), and far enough before the end of the buffer that 258 bytes follow.
const AHEAD: usize = 128;
const MARK: [u8; 8] = [0xA5, 0x3C, 0x96, 0x0F, 0x69, 0xC3, 0x5A, 0xF1];

/// Inflates a stream that comes to at most `limit` bytes: all of it, or its first `needed` bytes where that is much less.
/// Only a whole stream has its checksum checked.
pub(super) fn decode(bytes: &[u8], limit: usize, needed: usize) -> Result<Vec<u8>, Broken> {
    if needed >= limit - limit / 8 || limit - needed <= ROOM {
        return whole(bytes, limit);
    }
    prefix(bytes, needed)?.map_or_else(|| whole(bytes, limit), Ok)
}

/// The first `needed` bytes; all where there are hardly more; `None` where libdeflate gave up before the mark.
fn prefix(bytes: &[u8], needed: usize) -> Result<Option<Vec<u8>>, Broken> {
    let mut out = vec![0; needed + ROOM];
    let mark = needed + AHEAD..needed + AHEAD + MARK.len();
    out[mark.clone()].copy_from_slice(&MARK);
    match Decompressor::new().zlib_decompress(bytes, &mut out) {
        Ok(length) => out.truncate(length),
        Err(DecompressionError::InsufficientSpace) if out[mark] != MARK => out.truncate(needed),
        Err(DecompressionError::InsufficientSpace) => return Ok(None),
        Err(DecompressionError::BadData) => return Err(NONSENSE.into()),
    }
    Ok(Some(out))
}

const NONSENSE: &str = "its zlib stream makes no sense";

/// Inflates all of a stream, and compares its checksum.
fn whole(bytes: &[u8], limit: usize) -> Result<Vec<u8>, Broken> {
    let mut out = spare::take(limit);
    let length = inflate(bytes, &mut out)?;
    out.truncate(length);
    Ok(out)
}

/// Inflates a stream into the front of `target`, and compares its checksum; returns how much that was.
pub(super) fn inflate(bytes: &[u8], target: &mut [u8]) -> Result<usize, Broken> {
    let inflated = Decompressor::new().zlib_decompress(bytes, target);
    inflated.map_err(|error| match error {
        DecompressionError::BadData if ends_well(bytes, target) => {
            Broken::corrupt("the checksum of its zlib stream differs from that of its data")
        }
        DecompressionError::BadData => NONSENSE.into(),
        DecompressionError::InsufficientSpace => Broken::corrupt("its zlib stream is longer than a chunk"),
    })
}

/// Whether what follows the two bytes of a zlib header can be inflated, whatever its checksum.
fn ends_well(bytes: &[u8], target: &mut [u8]) -> bool {
    bytes.get(2..).is_some_and(|data| Decompressor::new().deflate_decompress(data, target).is_ok())
}
