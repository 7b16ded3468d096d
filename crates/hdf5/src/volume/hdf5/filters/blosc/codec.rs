//! The codecs of blosc, by their numbers in the header.

use super::super::{FilterError, deflate, lz4, zstd};
use super::blosclz;

const BLOSCLZ: u8 = 0;
const LZ4: u8 = 1;
const SNAPPY: u8 = 2;
const ZLIB: u8 = 3;
pub(super) const ZSTD: u8 = 4;

/// Decodes one stream, which must fill `target`.
pub(super) fn decode(codec: u8, bytes: &[u8], target: &mut [u8]) -> Result<(), FilterError> {
    match codec {
        BLOSCLZ => target.copy_from_slice(&blosclz::decode(bytes, target.len())?),
        LZ4 => lz4::block(bytes, target)?,
        ZSTD => zstd::block(bytes, target)?,
        ZLIB if deflate::inflate(bytes, target)? == target.len() => {}
        SNAPPY if snappy(bytes, target)? == target.len() => {}
        ZLIB | SNAPPY => return Err("a stream is too short".into()),
        _ => {
            let name = format!("blosc with codec {codec}");
            return Err(FilterError::Unsupported(name.into()));
        }
    }
    Ok(())
}

fn snappy(bytes: &[u8], target: &mut [u8]) -> Result<usize, FilterError> {
    snap::raw::Decoder::new()
        .decompress(bytes, target)
        .map_err(|e| format!("a snappy stream is invalid ({e})").into())
}
