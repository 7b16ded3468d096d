//! Fuzz targets: each decoder, and several filters in a row.
//!
//! An input is the size of the chunk, the length of the wanted prefix, the filter's parameters, and
//! the stored bytes. A decoder must not panic, and a chunk that it returns must have exactly the
//! size. A decoded prefix must agree with the whole, and the whole with the result of the
//! [`reference`](mod@reference), if there is one.

mod input;
mod reference;

use self::input::Input;
use self::reference::Reference;
use super::deflate::Deflate;
use super::{Decoder, FILTERS, FilterSpec, Pipeline, SupportedFilter};

/// Chunks have at most this many bytes: enough for several blocks of every format.
const MAX_BYTES: usize = 8 << 10;

/// Parameters of a filter in a dataset, in the order in which files have them.
fn parameters(filter: &SupportedFilter, input: &mut Input<'_>) -> Vec<u32> {
    match filter.name {
        "shuffle" => vec![input.byte()],
        "szip" => vec![input.byte(), input.byte(), input.byte(), input.short()],
        "nbit" => {
            let (idle, count, width) = (input.byte() & 1, input.short(), input.byte());
            let (order, precision, offset) = (input.byte() & 1, input.byte(), input.byte());
            let (length, atomic) = (8, 1);
            vec![length, idle, count, atomic, width, order, precision, offset]
        }
        "scaleoffset" => {
            let (factor, count, width) = (input.byte(), input.short(), input.byte());
            let (order, filled) = (input.byte() & 1, input.byte() & 1);
            let (low, high) = (input.short(), input.short());
            let (integer_scale, integer_class, unsigned) = (2, 0, 0);
            vec![
                integer_scale,
                factor,
                count,
                integer_class,
                width,
                unsigned,
                order,
                filled,
                low,
                high,
            ]
        }
        // Version 0.4; then the size of an element, the elements of a block, and the compression.
        "bitshuffle" => vec![0, 4, input.byte(), input.short(), input.byte() & 3],
        _ => Vec::new(),
    }
}

/// The names of the targets.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILTERS.iter().map(|filter| filter.name).chain(["pipeline"])
}

/// Runs the target of that name; `false` if there is none.
pub fn run(name: &str, data: &[u8]) -> bool {
    match FILTERS.iter().find(|filter| filter.name == name) {
        Some(filter) => drop(one(filter, data)),
        None if name == "pipeline" => several(data),
        None => return false,
    }
    true
}

/// The size of the chunk and of the wanted prefix.
fn sizes(input: &mut Input<'_>) -> (usize, usize) {
    let size = input.short() as usize % (MAX_BYTES + 1);
    (size, input.short() as usize % (size + 1))
}

fn spec(filter: &SupportedFilter, input: &mut Input<'_>) -> FilterSpec {
    let values = parameters(filter, input);
    FilterSpec {
        id: filter.id,
        name: String::new(),
        values,
        available: false,
    }
}

/// The target of one filter: returns the decoded chunk, if the input has one.
pub(super) fn one(filter: &SupportedFilter, data: &[u8]) -> Option<Vec<u8>> {
    let mut input = Input(data);
    let (size, wanted) = sizes(&mut input);
    let (name, spec) = (filter.name, spec(filter, &mut input));
    let pipeline = Pipeline::new(std::slice::from_ref(&spec));
    if !pipeline.is_complete() {
        return None;
    }
    let decoded = decode_checked(&pipeline, input.0, 0, size, wanted);
    match Reference::named(name) {
        Reference::Decode(decode) => {
            let expected = decode(&spec.values, input.0, size).filter(|bytes| bytes.len() == size);
            assert_eq!(decoded, expected, "{name} with {:?}", spec.values);
        }
        Reference::Encode(encode) => {
            if let Some(stored) = encode(&spec.values, input.0) {
                let decoded = decode_checked(
                    &pipeline,
                    &stored,
                    0,
                    input.0.len(),
                    wanted.min(input.0.len()),
                );
                assert_eq!(
                    decoded.as_deref(),
                    Some(input.0),
                    "{name} with {:?}",
                    spec.values
                );
            }
        }
        Reference::Zlib => deflate_like_zlib(input.0, size, wanted),
        Reference::None => {}
    }
    decoded
}

/// The target of up to three filters in a row. The mask says which of them the chunk skips.
fn several(data: &[u8]) {
    let mut input = Input(data);
    let (size, wanted) = sizes(&mut input);
    let (mask, count) = (input.byte(), input.byte() as usize % 4);
    let filters: Vec<FilterSpec> = (0..count)
        .map(|_| {
            let filter = &FILTERS[input.byte() as usize % FILTERS.len()];
            spec(filter, &mut input)
        })
        .collect();
    decode_checked(&Pipeline::new(&filters), input.0, mask, size, wanted);
}

/// Decodes a chunk, whole and in part, and checks that the results agree.
fn decode_checked(
    pipeline: &Pipeline,
    stored: &[u8],
    mask: u32,
    size: usize,
    wanted: usize,
) -> Option<Vec<u8>> {
    let whole = pipeline.decode(stored, mask, size, size);
    let prefix = pipeline.decode(stored, mask, size, wanted);
    if let Ok(prefix) = &prefix {
        assert!(
            (wanted..=size).contains(&prefix.len()),
            "{} of {wanted} to {size} bytes",
            prefix.len()
        );
    }
    if let Ok(whole) = &whole {
        assert_eq!(whole.len(), size);
        let prefix = prefix.as_deref().unwrap_or_default();
        assert!(
            prefix.len() >= wanted && whole.starts_with(prefix),
            "the prefix of {wanted} bytes differs"
        );
    }
    whole.ok()
}

/// Compares with zlib. Few inputs have a correct checksum, so one is added.
fn deflate_like_zlib(bytes: &[u8], size: usize, wanted: usize) {
    let Some((stream, expected)) = reference::zlib_stream(bytes, MAX_BYTES) else {
        return;
    };
    let limit = expected.len().max(size);
    let whole = Deflate.decode(&stream, limit);
    assert_eq!(
        whole.as_deref(),
        Ok(expected.as_slice()),
        "zlib decodes it otherwise"
    );
    let wanted = wanted.min(expected.len());
    let prefix = Deflate
        .decode_first(stream.into(), limit, wanted)
        .unwrap_or_default();
    assert!(
        prefix.len() >= wanted && expected.starts_with(&prefix),
        "the prefix of {wanted} bytes differs"
    );
}
