//! The codecs of blosc.

use super::super::{FilterError, deflate, lz4, zstd};
use super::blosclz;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Codec {
    Blosclz,
    Lz4,
    Snappy,
    Zlib,
    Zstd,
    Unknown(u8),
}

impl Codec {
    /// From its number in the header.
    pub fn new(number: u8) -> Self {
        match number {
            0 => Codec::Blosclz,
            1 => Codec::Lz4,
            2 => Codec::Snappy,
            3 => Codec::Zlib,
            4 => Codec::Zstd,
            other => Codec::Unknown(other),
        }
    }

    /// Decodes one stream, which must fill `target`.
    pub fn decode(self, bytes: &[u8], target: &mut [u8]) -> Result<(), FilterError> {
        match self {
            Codec::Blosclz => target.copy_from_slice(&blosclz::decode(bytes, target.len())?),
            Codec::Lz4 => lz4::block(bytes, target)?,
            Codec::Zstd => zstd::block(bytes, target)?,
            Codec::Zlib if deflate::inflate(bytes, target)? == target.len() => {}
            Codec::Snappy if snappy(bytes, target)? == target.len() => {}
            Codec::Zlib | Codec::Snappy => return Err("a stream is too short".into()),
            Codec::Unknown(number) => {
                return Err(FilterError::unsupported(format!(
                    "blosc with codec {number}"
                )));
            }
        }
        Ok(())
    }
}

fn snappy(bytes: &[u8], target: &mut [u8]) -> Result<usize, FilterError> {
    snap::raw::Decoder::new()
        .decompress(bytes, target)
        .map_err(|e| format!("a snappy stream is invalid ({e})").into())
}
