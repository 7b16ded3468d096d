//! deflate (filter 1): a zlib stream, decoded by libdeflate, either whole or as a prefix.
//!
//! libdeflate has no streaming interface. To decode a prefix, we pass an output buffer that is too
//! small: libdeflate writes it front to back and returns "insufficient space" when the next symbol
//! does not fit. This is undocumented behaviour, and the amount written is not reported. Therefore
//! the exact version is pinned in `Cargo.toml`, a marker in the buffer shows whether enough was
//! written, and the tests compare prefixes of many streams with the whole.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use libdeflater::{DecompressionError, Decompressor};

use super::super::reused_buffer;
use super::{Bytes, Decoder, FilterError};

/// Extra space after the needed bytes. libdeflate stops at the first symbol that does not fit, so
/// at most one match of 258 bytes is missing at the end of the buffer, except before a stored
/// block, which is copied as a whole.
///
/// ```text
/// needed bytes │ 128 bytes │ marker: 8 │ 376
///              └────────── room ───────────┘
/// ```
const ROOM: usize = 512;
/// The offset of the marker in the extra space: farther than libdeflate writes beyond the end of a
/// match (39 bytes on 64-bit machines), and more than 258 bytes before the end of the buffer.
const MARK_OFFSET: usize = 128;
/// The marker. Data that has these very bytes in its place is decoded as a whole.
const MARK: [u8; 8] = [0xA5, 0x3C, 0x96, 0x0F, 0x69, 0xC3, 0x5A, 0xF1];

#[derive(Debug)]
pub(super) struct Deflate;

impl Decoder for Deflate {
    fn decode(&self, bytes: &[u8], limit: usize) -> Result<Vec<u8>, FilterError> {
        let mut out = reused_buffer::take(limit);
        let length = inflate(bytes, &mut out)?;
        out.truncate(length);
        Ok(out)
    }

    /// Decodes only a prefix if it is shorter than the limit by an eighth, and by more than
    /// [`ROOM`]. The checksum is verified only for a whole stream.
    fn decode_first<'a>(
        &self,
        bytes: Bytes<'a>,
        limit: usize,
        needed: usize,
    ) -> Result<Bytes<'a>, FilterError> {
        let is_short = needed < limit - limit / 8 && limit - needed > ROOM;
        if is_short && let Some(prefix) = inflate_prefix(&bytes, needed)? {
            return Ok(Cow::Owned(prefix));
        }
        self.decode(&bytes, limit).map(Cow::Owned)
    }
}

/// Decodes at least the first `needed` bytes; `None` if libdeflate stopped before the marker.
fn inflate_prefix(bytes: &[u8], needed: usize) -> Result<Option<Vec<u8>>, FilterError> {
    let mut out = vec![0; needed + ROOM];
    let mark_start = needed + MARK_OFFSET;
    let mark = mark_start..mark_start + MARK.len();
    out[mark.clone()].copy_from_slice(&MARK);
    match Decompressor::new().zlib_decompress(bytes, &mut out) {
        Ok(length) => out.truncate(length),
        Err(DecompressionError::InsufficientSpace) if out[mark] != MARK => out.truncate(needed),
        Err(DecompressionError::InsufficientSpace) => return Ok(None),
        Err(DecompressionError::BadData) => return Err(INVALID.into()),
    }
    Ok(Some(out))
}

const INVALID: &str = "its zlib stream is invalid";

/// Decodes a whole stream into the front of `target` and verifies its checksum; returns the decoded
/// length.
pub(super) fn inflate(bytes: &[u8], target: &mut [u8]) -> Result<usize, FilterError> {
    let inflated = Decompressor::new().zlib_decompress(bytes, target);
    inflated.map_err(|error| match error {
        DecompressionError::BadData if decodes_unchecked(bytes, target) => {
            FilterError::Corrupt("the checksum of its zlib stream differs from that of its data")
        }
        DecompressionError::BadData => INVALID.into(),
        DecompressionError::InsufficientSpace => {
            FilterError::Corrupt("its zlib stream is longer than a chunk")
        }
    })
}

/// Whether the deflate data after the two-byte zlib header can be decoded; ignores the checksum.
fn decodes_unchecked(bytes: &[u8], target: &mut [u8]) -> bool {
    bytes
        .get(2..)
        .is_some_and(|data| Decompressor::new().deflate_decompress(data, target).is_ok())
}
