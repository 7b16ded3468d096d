//! Fuzz targets: each decoder, and several filters in a row.
//!
//! An input is the size of the chunk, the length of the wanted prefix, the filter's parameters, and the stored bytes. Besides
//! not panicking, a decoder must return exactly a chunk, its prefixes must agree with the whole, and its result with that of
//! a [`reference`](mod@reference) if there is one.

mod input;
mod reference;

use self::input::Input;
use self::reference::Reference;
use super::{FilterSpec, Pipeline, deflate};

/// Chunks have at most this many bytes: enough for several blocks of every format.
const MOST_BYTES: usize = 8 << 10;

/// A filter to be fuzzed.
struct Decoder {
    name: &'static str,
    id: i32,
    parameters: fn(&mut Input<'_>) -> Vec<u32>,
    reference: Reference,
}

const fn decoder(
    name: &'static str,
    id: i32,
    parameters: fn(&mut Input<'_>) -> Vec<u32>,
    reference: Reference,
) -> Decoder {
    Decoder { name, id, parameters, reference }
}

const DECODERS: [Decoder; 13] = [
    decoder("deflate", 1, |_| Vec::new(), Reference::None),
    decoder("shuffle", 2, |input| vec![input.byte()], Reference::Decode(reference::shuffle)),
    decoder("fletcher32", 3, |_| Vec::new(), Reference::Decode(reference::fletcher32)),
    decoder("szip", 4, szip, Reference::None),
    decoder("nbit", 5, nbit, Reference::Decode(reference::nbit)),
    decoder("scaleoffset", 6, scaleoffset, Reference::Decode(reference::scaleoffset)),
    decoder("bzip2", 307, |_| Vec::new(), Reference::Encode(reference::bzip2)),
    decoder("lzf", 32000, |_| Vec::new(), Reference::Decode(reference::lzf)),
    decoder("blosc", 32001, |_| Vec::new(), Reference::None),
    decoder("lz4", 32004, |_| Vec::new(), Reference::Encode(reference::lz4)),
    decoder("bitshuffle", 32008, bitshuffle, Reference::Encode(reference::bitshuffle)),
    decoder("zstd", 32015, |_| Vec::new(), Reference::Encode(reference::zstd)),
    decoder("blosc2", 32026, |_| Vec::new(), Reference::None),
];

fn szip(input: &mut Input<'_>) -> Vec<u32> {
    vec![input.byte(), input.byte(), input.byte(), input.short()]
}

fn nbit(input: &mut Input<'_>) -> Vec<u32> {
    let (idle, count, width) = (input.byte() & 1, input.short(), input.byte());
    vec![8, idle, count, 1, width, input.byte() & 1, input.byte(), input.byte()]
}

fn scaleoffset(input: &mut Input<'_>) -> Vec<u32> {
    let (factor, count, width) = (input.byte(), input.short(), input.byte());
    vec![2, factor, count, 0, width, 0, input.byte() & 1, input.byte() & 1, input.short(), input.short()]
}

fn bitshuffle(input: &mut Input<'_>) -> Vec<u32> {
    vec![0, 4, input.byte(), input.short(), input.byte() & 3]
}

/// The names of the targets.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    DECODERS.iter().map(|decoder| decoder.name).chain(["pipeline"])
}

/// Runs the target of that name; `false` if there is none.
pub(crate) fn run(name: &str, data: &[u8]) -> bool {
    match DECODERS.iter().find(|decoder| decoder.name == name) {
        Some(decoder) => one(decoder, data),
        None if name == "pipeline" => several(data),
        None => return false,
    }
    true
}

/// The size of the chunk and of the wanted prefix.
fn sizes(input: &mut Input<'_>) -> (usize, usize) {
    let size = input.short() as usize % (MOST_BYTES + 1);
    (size, input.short() as usize % (size + 1))
}

fn spec(decoder: &Decoder, input: &mut Input<'_>) -> FilterSpec {
    FilterSpec { id: decoder.id, name: String::new(), values: (decoder.parameters)(input), available: false }
}

fn one(decoder: &Decoder, data: &[u8]) {
    let mut input = Input(data);
    let (size, wanted) = sizes(&mut input);
    let filter = spec(decoder, &mut input);
    let Some(pipeline) = Pipeline::new(std::slice::from_ref(&filter)) else { return };
    let decoded = checked(&pipeline, input.0, 0, size, wanted);
    match decoder.reference {
        Reference::Decode(decode) => {
            let expected = decode(&filter.values, input.0, size).filter(|bytes| bytes.len() == size);
            assert_eq!(decoded, expected, "{} with {:?}", decoder.name, filter.values);
        }
        Reference::Encode(encode) => {
            let Some(stored) = encode(&filter.values, input.0) else { return };
            let decoded = checked(&pipeline, &stored, 0, input.0.len(), wanted.min(input.0.len()));
            assert_eq!(decoded.as_deref(), Some(input.0), "{} with {:?}", decoder.name, filter.values);
        }
        Reference::None if decoder.id == 1 => deflate_like_zlib(input.0, size, wanted),
        Reference::None => {}
    }
}

fn several(data: &[u8]) {
    let mut input = Input(data);
    let (size, wanted) = sizes(&mut input);
    let (mask, count) = (input.byte(), input.byte() as usize % 4);
    let filters: Vec<FilterSpec> = (0..count)
        .map(|_| {
            let decoder = &DECODERS[input.byte() as usize % DECODERS.len()];
            spec(decoder, &mut input)
        })
        .collect();
    if let Some(pipeline) = Pipeline::new(&filters) {
        checked(&pipeline, input.0, mask, size, wanted);
    }
}

/// Decodes a chunk, whole and in part, and checks that the results agree.
fn checked(pipeline: &Pipeline, stored: &[u8], mask: u32, size: usize, wanted: usize) -> Option<Vec<u8>> {
    let whole = pipeline.decode(stored, mask, size, size);
    let prefix = pipeline.decode(stored, mask, size, wanted);
    if let Ok(prefix) = &prefix {
        assert!((wanted..=size).contains(&prefix.len()), "{} of {wanted} to {size} bytes", prefix.len());
    }
    if let Ok(whole) = &whole {
        assert_eq!(whole.len(), size);
        let prefix = prefix.as_deref().unwrap_or_default();
        assert!(prefix.len() >= wanted && whole.starts_with(prefix), "the prefix of {wanted} bytes differs");
    }
    whole.ok()
}

/// Compares with zlib: as few inputs have a correct checksum, this adds one.
fn deflate_like_zlib(bytes: &[u8], size: usize, wanted: usize) {
    let Some((stream, expected)) = reference::zlib_stream(bytes, MOST_BYTES) else { return };
    let limit = expected.len().max(size);
    let whole = deflate::decode(&stream, limit, limit);
    assert_eq!(whole.as_deref(), Ok(expected.as_slice()), "zlib decodes it otherwise");
    let wanted = wanted.min(expected.len());
    let prefix = deflate::decode(&stream, limit, wanted).unwrap_or_default();
    assert!(prefix.len() >= wanted && expected.starts_with(&prefix), "the prefix of {wanted} bytes differs");
}
