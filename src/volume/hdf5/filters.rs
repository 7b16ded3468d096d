//! Decodes filtered chunks without the library and outside its lock.
//!
//! A dataset's filters are parsed once into a [`Pipeline`]. If a filter or its parameters are not supported here, the
//! dataset is read through the library. Each filter has its own module, whose `decode` gets the stored bytes and a
//! limit for the decoded size: sizes stated in a chunk are checked against this limit before memory is allocated.
//! Formats: the HDF5 File Format Specification, "Data Storage – Filter Pipeline Message", the library's own filters,
//! and those registered with The HDF Group. The filter modules do not depend on HDF5.

mod bits;
mod bitshuffle;
mod blosc;
mod bzip2;
mod cursor;
mod deflate;
mod fletcher32;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod lz4;
mod lzf;
mod nbit;
mod scaleoffset;
mod shuffle;
mod szip;
#[cfg(test)]
mod tests;
mod zstd;

use std::borrow::Cow;

use super::library::FilterSpec;
use crate::volume::ReadError;

/// Why the bytes of a chunk could not be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum DecodeError {
    #[error("the {filter} data of a chunk cannot be decoded: {problem}; the file may be damaged")]
    Broken {
        filter: &'static str,
        /// What is wrong; "it" refers to the data.
        problem: Broken,
    },
    /// The decoded size is not that of a chunk.
    #[error("a chunk decodes to {found} bytes; {expected} are expected")]
    Length { found: usize, expected: usize },
}

/// Why a filter could not decode its input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub(super) struct Broken {
    problem: Cow<'static, str>,
    /// Whether the stream is well-formed but its checksum or length is wrong, so that a prefix would decode to wrong
    /// voxels without an error.
    corrupt: bool,
}

impl Broken {
    fn corrupt(problem: &'static str) -> Self {
        Broken { problem: Cow::Borrowed(problem), corrupt: true }
    }
}

impl From<&'static str> for Broken {
    fn from(problem: &'static str) -> Self {
        Broken { problem: Cow::Borrowed(problem), corrupt: false }
    }
}

impl From<String> for Broken {
    fn from(problem: String) -> Self {
        Broken { problem: Cow::Owned(problem), corrupt: false }
    }
}

impl DecodeError {
    /// Whether the stream is well-formed but its checksum or length is wrong: a prefix of the chunk cannot be trusted.
    pub(super) fn is_corrupt(&self) -> bool {
        matches!(self, DecodeError::Broken { problem: Broken { corrupt: true, .. }, .. })
    }
}

/// The filter for messages: its name and its registered number.
pub(super) fn describe(filter: &FilterSpec) -> String {
    let known = match filter.id {
        1 => "deflate (gzip)",
        2 => "shuffle",
        3 => "fletcher32",
        4 => "szip",
        5 => "nbit",
        6 => "scaleoffset",
        307 => "bzip2",
        32000 => "lzf",
        32001 => "blosc",
        32004 => "lz4",
        32008 => "bitshuffle",
        32013 => "zfp",
        32015 => "zstd",
        32016 => "B3D",
        32017 => "SZ",
        32018 => "FCIDECOMP (JPEG-LS)",
        32024 => "SZ3",
        32026 => "blosc2",
        32028 => "SPERR",
        32029 => "HTJ2K (JPEG 2000)",
        _ if filter.name.is_empty() => "without a name",
        _ => &filter.name,
    };
    format!("{known} (number {})", filter.id)
}

/// Decodes one stored chunk in memory to `size` bytes; for benchmarks, which have no file.
///
/// # Errors
/// If a filter is not supported here, or the chunk is damaged.
pub fn decode_chunk(filters: &[FilterSpec], stored: &[u8], size: usize) -> Result<Vec<u8>, ReadError> {
    let place = || "a chunk in memory".to_owned();
    let pipeline = Pipeline::new(filters).ok_or_else(|| {
        let names: Vec<String> = filters.iter().map(describe).collect();
        ReadError::MissingFilter { place: place(), filter: names.join(" with ") }
    })?;
    let decoded = pipeline.decode(stored, 0, size, size);
    decoded.map_err(|e| ReadError::Damaged { place: place(), problem: e.to_string() })
}

/// The filters of a dataset in the order in which they were applied, all of them supported here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pipeline(Vec<Stage>);

/// One filter and its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Deflate,
    Shuffle { element: usize },
    Fletcher32,
    Szip(szip::Parameters),
    Nbit(nbit::Parameters),
    Scaleoffset(scaleoffset::Parameters),
    Bzip2,
    Lzf,
    Blosc,
    Lz4,
    Bitshuffle(bitshuffle::Parameters),
    Zstd,
    Blosc2,
}

impl Pipeline {
    /// Parses the filters of a dataset; `None` if any of them is not supported here.
    pub(super) fn new(filters: &[FilterSpec]) -> Option<Self> {
        filters.iter().map(Stage::new).collect::<Option<_>>().map(Pipeline)
    }

    /// Whether deflate is the only filter.
    pub(super) fn is_deflate(&self) -> bool {
        self.0 == [Stage::Deflate]
    }

    /// An upper bound for the stored length of a chunk of `size` decoded bytes.
    pub(super) fn most_stored(&self, size: usize) -> usize {
        self.0.iter().fold(size, |before, stage| stage.most_made_of(before, size))
    }

    /// Decodes one stored chunk of `size` decoded bytes: whole, or at least the first `wanted` bytes if that is
    /// cheaper.
    ///
    /// A set bit in `mask` means that the filter at that position was skipped for this chunk. If the result is shorter
    /// than `size`, the checksums of the compressors (zlib's Adler-32) were not verified, only fletcher32.
    pub(super) fn decode(
        &self,
        stored: &[u8],
        mask: u32,
        size: usize,
        wanted: usize,
    ) -> Result<Vec<u8>, DecodeError> {
        let mut used = Vec::with_capacity(self.0.len());
        let (mut limit, mut needed) = (size, wanted.min(size));
        for (position, stage) in self.0.iter().enumerate() {
            if mask.checked_shr(position as u32).unwrap_or(0) & 1 == 0 {
                used.push((stage, limit, needed));
                needed = stage.needed_for(needed, size);
                limit = stage.most_made_of(limit, size);
            }
        }
        // Only a filter stops early: bytes that none was applied to must all be there.
        let enough = if used.is_empty() { size } else { wanted };
        let mut bytes = Cow::Borrowed(stored);
        for (stage, limit, needed) in used.into_iter().rev() {
            bytes = stage
                .undo(bytes, limit, needed)
                .map_err(|problem| DecodeError::Broken { filter: stage.name(), problem })?;
        }
        if bytes.len() == size || (enough..size).contains(&bytes.len()) {
            Ok(bytes.into_owned())
        } else {
            Err(DecodeError::Length { found: bytes.len(), expected: size })
        }
    }
}

impl Stage {
    fn new(filter: &FilterSpec) -> Option<Self> {
        let values = filter.values.as_slice();
        Some(match filter.id {
            1 => Stage::Deflate,
            2 => Stage::Shuffle { element: values.first().map_or(1, |size| *size as usize) },
            3 => Stage::Fletcher32,
            4 => Stage::Szip(szip::Parameters::new(values)?),
            5 => Stage::Nbit(nbit::Parameters::new(values)?),
            6 => Stage::Scaleoffset(scaleoffset::Parameters::new(values)?),
            307 => Stage::Bzip2,
            32000 => Stage::Lzf,
            32001 => Stage::Blosc,
            32004 => Stage::Lz4,
            32008 => Stage::Bitshuffle(bitshuffle::Parameters::new(values)?),
            32015 => Stage::Zstd,
            32026 => Stage::Blosc2,
            _ => return None,
        })
    }

    fn name(&self) -> &'static str {
        match self {
            Stage::Deflate => "deflate",
            Stage::Shuffle { .. } => "shuffle",
            Stage::Fletcher32 => "fletcher32",
            Stage::Szip(_) => "szip",
            Stage::Nbit(_) => "nbit",
            Stage::Scaleoffset(_) => "scaleoffset",
            Stage::Bzip2 => "bzip2",
            Stage::Lzf => "lzf",
            Stage::Blosc => "blosc",
            Stage::Lz4 => "lz4",
            Stage::Bitshuffle(_) => "bitshuffle",
            Stage::Zstd => "zstd",
            Stage::Blosc2 => "blosc2",
        }
    }

    /// An upper bound for the filter's output, given `before` bytes of input from a chunk of `size` bytes: the limit
    /// for decoding the next filter.
    fn most_made_of(&self, before: usize, size: usize) -> usize {
        // Compressors expand incompressible data far less than twofold; small blocks have headers.
        const HEADERS: usize = 64 * 1024;
        // Padding of edge blocks can double a chunk along each of five dimensions.
        const PADDING: usize = 32;
        match self {
            Stage::Shuffle { .. } | Stage::Nbit(_) => before,
            Stage::Bitshuffle(parameters) if !parameters.compresses() => before,
            Stage::Fletcher32 => before.saturating_add(fletcher32::BYTES),
            Stage::Scaleoffset(_) => before.saturating_add(scaleoffset::HEADER + 1),
            Stage::Blosc2 => size.saturating_mul(PADDING).saturating_add(HEADERS),
            _ => size.saturating_mul(2).saturating_add(HEADERS),
        }
    }

    /// How many bytes of input the filter needs to decode the first `needed` of `size` bytes: all of them, except for a
    /// shuffle, whose last byte plane may be truncated.
    fn needed_for(&self, needed: usize, size: usize) -> usize {
        match *self {
            Stage::Shuffle { element } if needed < size => shuffle::needed_for(needed, element, size),
            _ => usize::MAX,
        }
    }

    /// Decodes at least the first `needed` bytes, at most `limit`.
    fn undo<'a>(&self, bytes: Cow<'a, [u8]>, limit: usize, needed: usize) -> Result<Cow<'a, [u8]>, Broken> {
        Ok(Cow::Owned(match *self {
            Stage::Fletcher32 => return fletcher32::decode(bytes),
            Stage::Deflate => deflate::decode(&bytes, limit, needed)?,
            Stage::Shuffle { element } if bytes.len() < limit && needed < limit => {
                shuffle::decode_some(&bytes, element, limit, needed)?
            }
            Stage::Shuffle { element } => shuffle::decode(&bytes, element),
            Stage::Szip(parameters) => szip::decode(&bytes, parameters, limit)?,
            Stage::Nbit(parameters) => nbit::decode(&bytes, parameters, limit)?,
            Stage::Scaleoffset(parameters) => scaleoffset::decode(&bytes, parameters, limit)?,
            Stage::Bzip2 => bzip2::decode(&bytes, limit)?,
            Stage::Lzf => lzf::decode(&bytes, limit)?,
            Stage::Blosc => blosc::decode(&bytes, limit)?,
            Stage::Lz4 => lz4::decode(&bytes, limit)?,
            Stage::Bitshuffle(parameters) => bitshuffle::decode(&bytes, parameters, limit)?,
            Stage::Zstd => zstd::decode(&bytes, limit)?,
            Stage::Blosc2 => blosc::decode_frame(&bytes, limit)?,
        }))
    }
}
