//! Decodes filtered chunks without the library and outside its lock.
//!
//! A dataset's filters are parsed once into a [`Pipeline`]. If a filter or its parameters are not
//! supported here, the dataset is read through the library. Each filter has its own module, whose
//! `decode` gets the stored bytes and a limit for the decoded size: sizes stated in a chunk are
//! checked against this limit before memory is allocated. The parameters of a filter, a few numbers
//! of 32 bits, are stored with the dataset. The HDF5 File Format Specification lists the library's
//! own filters ("Data Storage – Filter Pipeline Message"), and The HDF Group registers all others.
//! The filter modules do not depend on HDF5.

mod bits;
mod bitshuffle;
mod blosc;
mod bzip2;
mod cursor;
mod decoder;
mod deflate;
mod fletcher32;
#[cfg(any(test, feature = "testing"))]
#[path = "../../../../../fuzz/checks/decoders.rs"]
pub mod fuzzing;
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

pub(super) use self::decoder::FilterError;
pub(in crate::volume::hdf5::filters) use self::decoder::{
    Bytes, Decoder, ensure_fits, max_compressed,
};
use super::library::{self, FilterSpec, ForeignFilter};
use crate::volume::ReadError;

/// Why the bytes of a chunk could not be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum DecodeError {
    /// The named filter cannot decode its data, for a reason such as "it ends too early".
    #[error("the {0} data of a chunk cannot be decoded: {1}; the file may be damaged")]
    Filter(&'static str, FilterError),
    /// The decoded size is not the size of a chunk.
    #[error("a chunk decodes to {found} bytes; {expected} are expected")]
    Length { found: usize, expected: usize },
}

impl DecodeError {
    /// Whether a filter is not decoded here, so that it does not help to read the bytes again.
    pub(super) fn is_unsupported(&self) -> bool {
        matches!(self, DecodeError::Filter(_, FilterError::Unsupported(_)))
    }

    /// The error of reading a chunk. `place` names the file and the dataset, `chunk` the chunk.
    pub(super) fn at(self, place: String, chunk: &str) -> ReadError {
        let text = format!("chunk {chunk}: {self}");
        match self {
            DecodeError::Filter(_, FilterError::Corrupt(_)) => ReadError::Corrupt {
                place,
                problem: text,
            },
            DecodeError::Filter(_, FilterError::Unsupported(filter)) => ReadError::MissingFilter {
                place,
                filter: filter.into_owned(),
            },
            _ => ReadError::damaged(place, text),
        }
    }
}

/// A filter that is decoded here.
#[derive(Debug)]
struct SupportedFilter {
    /// Its registered number.
    id: i32,
    name: &'static str,
    /// Makes a decoder for a dataset from its parameters; `None` if they are not supported.
    parse: Parse,
    /// Registers the filter with the library.
    register: fn() -> hdf5::Result<()>,
}

type Parse = fn(&[u32]) -> Option<Box<dyn Decoder>>;

/// All filters that are decoded here. Tests compare the README's list and the corpora of the fuzz
/// target with this one.
const FILTERS: &[SupportedFilter] = &[
    filter::<DEFLATE>("deflate", |_| boxed(deflate::Deflate)),
    filter::<2>("shuffle", |values| boxed(shuffle::Shuffle::new(values))),
    filter::<3>("fletcher32", |_| boxed(fletcher32::Fletcher32)),
    filter::<4>("szip", |values| boxed(szip::Szip::new(values)?)),
    filter::<5>("nbit", nbit::parse),
    filter::<6>("scaleoffset", scaleoffset::parse),
    filter::<307>("bzip2", |_| boxed(PlainCompressor(bzip2::decode))),
    filter::<32000>("lzf", |_| boxed(PlainCompressor(lzf::decode))),
    filter::<32001>("blosc", |_| boxed(PlainCompressor(blosc::decode))),
    filter::<32004>("lz4", |_| boxed(PlainCompressor(lz4::decode))),
    filter::<32008>("bitshuffle", |values| {
        boxed(bitshuffle::Bitshuffle::new(values)?)
    }),
    filter::<32015>("zstd", |_| boxed(PlainCompressor(zstd::decode))),
    filter::<32022>("bitgroom", |_| boxed(Unchanged)),
    filter::<32023>("granular_bitround", |_| boxed(Unchanged)),
    filter::<BLOSC2>("blosc2", |_| boxed(blosc::Frame)),
];

const fn filter<const ID: i32>(name: &'static str, parse: Parse) -> SupportedFilter {
    SupportedFilter {
        id: ID,
        name,
        parse,
        register: library::register::<NumberedFilter<ID>>,
    }
}

/// The smallest number of a filter that is not the library's own.
const FIRST_FOREIGN: i32 = 256;

/// Registers the filters with the library, except the library's own, so that it can decode the
/// chunks that it reads itself.
pub(super) fn register() -> hdf5::Result<()> {
    FILTERS
        .iter()
        .filter(|filter| filter.id >= FIRST_FOREIGN)
        .try_for_each(|filter| (filter.register)())
}

/// The filter with this number, for the library.
struct NumberedFilter<const ID: i32>;

impl<const ID: i32> ForeignFilter for NumberedFilter<ID> {
    const ID: i32 = ID;

    /// The library does not say how long a decoded chunk is, so the limit is a guess: 16 times the
    /// stored length, but at least 64 MiB. It is at most 1 GiB, because some decoders allocate as
    /// much as the limit, and the process ends if an allocation fails.
    fn decode(parameters: &[u32], stored: &[u8]) -> Option<Vec<u8>> {
        let filter = FILTERS.iter().find(|filter| filter.id == ID)?;
        let limit = stored.len().saturating_mul(16).clamp(64 << 20, 1 << 30);
        (filter.parse)(parameters)?.decode(stored, limit).ok()
    }
}

const DEFLATE: i32 = 1;
const BLOSC2: i32 = 32026;

/// Names that messages use: for filters that are not decoded here, and for deflate, which users
/// know as gzip.
const NAMES: &[(i32, &str)] = &[
    (DEFLATE, "deflate (gzip)"),
    (32013, "zfp"),
    (32016, "B3D"),
    (32017, "SZ"),
    (32018, "FCIDECOMP (JPEG-LS)"),
    (32019, "JPEG"),
    (32024, "SZ3"),
    (32028, "SPERR"),
    (32029, "HTJ2K (JPEG 2000)"),
];

fn boxed(decoder: impl Decoder + 'static) -> Option<Box<dyn Decoder>> {
    Some(Box::new(decoder))
}

/// The decoder of a compressor that needs no parameters.
#[derive(Debug)]
struct PlainCompressor(fn(&[u8], usize) -> Result<Vec<u8>, FilterError>);

impl Decoder for PlainCompressor {
    fn decode(&self, bytes: &[u8], limit: usize) -> Result<Vec<u8>, FilterError> {
        self.0(bytes, limit)
    }
}

/// The decoder of a filter that is not decoded here, with its description.
#[derive(Debug)]
struct Undecodable(String);

impl Decoder for Undecodable {
    fn decode(&self, _bytes: &[u8], _limit: usize) -> Result<Vec<u8>, FilterError> {
        Err(FilterError::Unsupported(self.0.clone().into()))
    }
}

/// The decoder of a filter that only rounded the values before they were stored, or stored them as
/// they were: there is nothing to decode.
#[derive(Debug)]
struct Unchanged;

impl Decoder for Unchanged {
    fn decode(&self, bytes: &[u8], limit: usize) -> Result<Vec<u8>, FilterError> {
        self.decode_first(Cow::Borrowed(bytes), limit, limit)
            .map(Cow::into_owned)
    }

    fn decode_first<'a>(
        &self,
        bytes: Bytes<'a>,
        limit: usize,
        _needed: usize,
    ) -> Result<Bytes<'a>, FilterError> {
        ensure_fits(bytes.len(), limit)?;
        Ok(bytes)
    }

    fn most_stored(&self, input: usize, _size: usize) -> usize {
        input
    }

    fn needed_for(&self, needed: usize, _size: usize) -> usize {
        needed
    }
}

/// The filter for messages: its name and its registered number.
pub(super) fn describe(filter: &FilterSpec) -> String {
    let supported = FILTERS.iter().map(|known| (known.id, known.name));
    let mut names = NAMES.iter().copied().chain(supported);
    let name = match names.find(|(id, _)| *id == filter.id) {
        Some((_, name)) => name,
        None if filter.name.is_empty() => "without a name",
        None => &filter.name,
    };
    format!("{name} (number {})", filter.id)
}

/// Decodes one stored chunk in memory to `size` bytes; for benchmarks, which have no file.
///
/// # Errors
/// If a filter is not supported here, or the chunk is damaged.
pub fn decode_chunk(
    filters: &[FilterSpec],
    stored: &[u8],
    size: usize,
) -> Result<Vec<u8>, ReadError> {
    Pipeline::new(filters)
        .decode(stored, 0, size, size)
        .map_err(|error| error.at("a chunk in memory".to_owned(), "0"))
}

/// The filters of a dataset in the order in which they were applied.
#[derive(Debug)]
pub(super) struct Pipeline(Vec<FilterStage>);

#[derive(Debug)]
struct FilterStage {
    /// The filter's registered number.
    id: i32,
    name: &'static str,
    is_decoded: bool,
    decoder: Box<dyn Decoder>,
}

impl FilterStage {
    fn new(spec: &FilterSpec) -> Self {
        let filter = FILTERS.iter().find(|filter| filter.id == spec.id);
        let decoder = filter.and_then(|filter| (filter.parse)(&spec.values));
        FilterStage {
            id: spec.id,
            name: filter.map_or("unknown", |filter| filter.name),
            is_decoded: decoder.is_some(),
            decoder: decoder.unwrap_or_else(|| Box::new(Undecodable(describe(spec)))),
        }
    }

    /// Decodes at least the first `needed` bytes, and at most `limit`.
    fn decode<'a>(
        &self,
        bytes: Bytes<'a>,
        limit: usize,
        needed: usize,
    ) -> Result<Bytes<'a>, DecodeError> {
        let decoded = self.decoder.decode_first(bytes, limit, needed);
        decoded.map_err(|problem| DecodeError::Filter(self.name, problem))
    }
}

impl Pipeline {
    /// Parses the filters of a dataset.
    pub(super) fn new(filters: &[FilterSpec]) -> Self {
        Pipeline(filters.iter().map(FilterStage::new).collect())
    }

    /// Whether all filters and their parameters are supported here.
    pub(super) fn is_complete(&self) -> bool {
        self.0.iter().all(|stage| stage.is_decoded)
    }

    /// Whether each chunk must be looked at to know if it can be decoded: it may have skipped a
    /// filter that is not decoded here, and a chunk of blosc2 names its codec in its bytes.
    pub(super) fn needs_probe(&self) -> bool {
        !self.is_complete() || self.0.iter().any(|stage| stage.id == BLOSC2)
    }

    /// Whether deflate is the only filter.
    pub(super) fn is_deflate(&self) -> bool {
        matches!(self.0.as_slice(), [stage] if stage.id == DEFLATE)
    }

    /// Whether decoding a chunk with this mask begins with deflate: libdeflate may read the stored
    /// bytes from a mapped file ([`super::mapping::Mapping::lend`]).
    pub(super) fn begins_with_deflate(&self, mask: u32) -> bool {
        let first_decoder = self.applied(mask).last();
        first_decoder.is_some_and(|stage| stage.id == DEFLATE)
    }

    /// An upper bound for the stored length of a chunk of `size` decoded bytes.
    pub(super) fn most_stored(&self, size: usize) -> usize {
        self.0
            .iter()
            .fold(size, |input, stage| stage.decoder.most_stored(input, size))
    }

    /// The filters that a chunk went through. A set bit in `mask` means that the filter at that
    /// position was skipped.
    fn applied(&self, mask: u32) -> impl Iterator<Item = &FilterStage> {
        let stages = (0..).zip(&self.0);
        stages.filter_map(move |(position, stage)| {
            // From position 32 on, the mask has no bits, and no filter is skipped.
            let is_skipped = mask.checked_shr(position).unwrap_or(0) & 1 == 1;
            (!is_skipped).then_some(stage)
        })
    }

    /// Fails if a chunk with this mask went through a filter that is not decoded here.
    pub(super) fn ensure_decodes(&self, mask: u32) -> Result<(), DecodeError> {
        match self.applied(mask).find(|stage| !stage.is_decoded) {
            // Its decoder is [`Undecodable`], which fails whatever the bytes are.
            Some(stage) => stage.decode(Cow::default(), 0, 0).map(drop),
            None => Ok(()),
        }
    }

    /// Decodes one stored chunk of `size` decoded bytes: whole, or at least the first `wanted`
    /// bytes if that is cheaper.
    ///
    /// `mask` tells which filters were skipped. If the result is shorter than `size`, the checksums
    /// of the compressors (zlib's Adler-32) were not verified, only fletcher32.
    ///
    /// Example: the first 200 bytes are wanted of a chunk of 1000 numbers of 2 bytes that was
    /// shuffled, then deflated. The shuffle needs the 1000 low bytes and the first 100 high bytes,
    /// so deflate decodes at least 1100 bytes, and at most 2000.
    pub(super) fn decode(
        &self,
        stored: &[u8],
        mask: u32,
        size: usize,
        wanted: usize,
    ) -> Result<Vec<u8>, DecodeError> {
        let wanted = wanted.min(size);
        // The applied filters, each with the maximum and the needed length of its decoded bytes.
        let mut applied = Vec::with_capacity(self.0.len());
        let mut limit = size;
        let mut needed = wanted;
        for stage in self.applied(mask) {
            applied.push((stage, limit, needed));
            needed = stage.decoder.needed_for(needed, size);
            limit = stage.decoder.most_stored(limit, size);
        }
        // Without filters, the stored bytes are the chunk itself, which must be whole.
        let least = if applied.is_empty() { size } else { wanted };
        let mut bytes = Cow::Borrowed(stored);
        for (stage, limit, needed) in applied.into_iter().rev() {
            bytes = stage.decode(bytes, limit, needed)?;
        }
        if !(least..=size).contains(&bytes.len()) {
            return Err(DecodeError::Length {
                found: bytes.len(),
                expected: size,
            });
        }
        Ok(bytes.into_owned())
    }
}
