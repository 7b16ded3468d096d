//! Undoes the filters that chunks went through, without the library and outside its lock.
//!
//! Only those are here that most files use; a dataset with any other is decoded by the library. Formats: the HDF5
//! File Format Specification, "Data Storage – Filter Pipeline Message", and the library's own filters.

use libdeflater::Decompressor;

use super::library::FilterSpec;

const DEFLATE: i32 = 1;
const SHUFFLE: i32 = 2;
const FLETCHER32: i32 = 3;
const CHECKSUM_BYTES: usize = 4;

/// Whether the filter of that number is decoded here.
pub(super) fn decodes(id: i32) -> bool {
    matches!(id, DEFLATE | SHUFFLE | FLETCHER32)
}

/// Whether a whole pipeline can be undone here: then the size before each compression must be known.
pub(super) fn decodes_all(filters: &[FilterSpec]) -> bool {
    let compressions = filters.iter().filter(|filter| filter.id == DEFLATE).count();
    compressions <= 1 && filters.iter().all(|filter| decodes(filter.id))
}

/// What a person calls the filter: its name and its registered number.
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
        32026 => "blosc2",
        _ if filter.name.is_empty() => "without a name",
        _ => &filter.name,
    };
    format!("{known} (number {})", filter.id)
}

/// Undoes the filters of one stored chunk that comes to `size` bytes.
///
/// A set bit in `mask` says that the filter of that position was left out for this chunk.
pub(super) fn decode(
    stored: Vec<u8>,
    filters: &[FilterSpec],
    mask: u32,
    size: usize,
) -> Result<Vec<u8>, String> {
    let used: Vec<&FilterSpec> = filters
        .iter()
        .enumerate()
        .filter(|(position, _)| mask.checked_shr(*position as u32).unwrap_or(0) & 1 == 0)
        .map(|(_, filter)| filter)
        .collect();
    let mut bytes = stored;
    for (position, filter) in used.iter().enumerate().rev() {
        let before = size + CHECKSUM_BYTES * used[..position].iter().filter(|f| f.id == FLETCHER32).count();
        bytes = match filter.id {
            DEFLATE => inflate(&bytes, before)?,
            SHUFFLE => unshuffle(&bytes, filter.values.first().map_or(1, |size| *size as usize)),
            FLETCHER32 => verified(bytes)?,
            other => return Err(format!("the filter number {other} is not decoded here")),
        };
    }
    if bytes.len() == size {
        Ok(bytes)
    } else {
        Err(format!("a chunk holds {} bytes once decoded; {size} are expected", bytes.len()))
    }
}

fn inflate(bytes: &[u8], size: usize) -> Result<Vec<u8>, String> {
    let mut out = vec![0; size];
    let length = Decompressor::new()
        .zlib_decompress(bytes, &mut out)
        .map_err(|e| format!("a chunk's deflate stream is damaged ({e})"))?;
    out.truncate(length);
    Ok(out)
}

/// Puts the bytes of each element together again; what is left over at the end was never shuffled.
fn unshuffle(bytes: &[u8], element: usize) -> Vec<u8> {
    let count = bytes.len().checked_div(element).unwrap_or(0);
    if element <= 1 || count == 0 {
        return bytes.to_vec();
    }
    let mut out = bytes.to_vec();
    let (planes, _) = bytes.split_at(count * element);
    for (byte, plane) in planes.chunks_exact(count).enumerate() {
        for (value, target) in plane.iter().zip(out[byte..].iter_mut().step_by(element)) {
            *target = *value;
        }
    }
    out
}

/// Checks and removes the checksum at the end.
///
/// Old versions of the library wrote the two halves with their bytes swapped; it accepts both, and so do we.
fn verified(mut bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    let length = bytes.len().checked_sub(CHECKSUM_BYTES).ok_or("a chunk is too short for its checksum")?;
    let stored: [u8; CHECKSUM_BYTES] =
        bytes[length..].try_into().map_err(|_| "a chunk's checksum is short")?;
    bytes.truncate(length);
    let [a, b, c, d] = stored;
    let sum = fletcher32(&bytes);
    if sum == u32::from_le_bytes(stored) || sum == u32::from_le_bytes([b, a, d, c]) {
        Ok(bytes)
    } else {
        Err("a chunk does not have the checksum that was stored with it".to_owned())
    }
}

/// The library's variant of Fletcher's checksum: over big-endian 16-bit words, an odd last byte as a high half.
fn fletcher32(bytes: &[u8]) -> u32 {
    // This many words can be summed before 32 bits overflow.
    const WORDS: usize = 360;
    let (mut first, mut second) = (0u32, 0u32);
    for block in bytes.chunks(2 * WORDS) {
        for word in block.chunks(2) {
            first += u32::from(word[0]) << 8 | u32::from(word.get(1).copied().unwrap_or(0));
            second += first;
        }
        first = (first & 0xffff) + (first >> 16);
        second = (second & 0xffff) + (second >> 16);
    }
    first = (first & 0xffff) + (first >> 16);
    second = (second & 0xffff) + (second >> 16);
    second << 16 | first
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(id: i32, values: &[u32]) -> FilterSpec {
        FilterSpec { id, name: String::new(), values: values.to_vec(), available: true }
    }

    #[test]
    fn a_shuffle_is_undone_and_its_tail_left_alone() {
        assert_eq!(unshuffle(&[1, 3, 5, 2, 4, 6, 9], 2), [1, 2, 3, 4, 5, 6, 9]);
        assert_eq!(unshuffle(&[1, 2, 3], 1), [1, 2, 3]);
        assert_eq!(unshuffle(&[1, 2, 3], 8), [1, 2, 3]);
    }

    #[test]
    fn a_wrong_checksum_is_noticed() {
        let data = vec![7, 1, 2, 3, 200];
        let mut stored = data.clone();
        stored.extend(fletcher32(&data).to_le_bytes());
        let pipeline = [filter(FLETCHER32, &[])];
        assert_eq!(decode(stored.clone(), &pipeline, 0, 5), Ok(data));
        stored[2] ^= 1;
        assert!(decode(stored, &pipeline, 0, 5).is_err());
        assert!(decode(vec![1, 2], &pipeline, 0, 5).is_err());
    }

    #[test]
    fn a_masked_filter_is_skipped() {
        let pipeline = [filter(SHUFFLE, &[2]), filter(DEFLATE, &[4])];
        assert_eq!(decode(vec![1, 2, 3, 4], &pipeline, 0b10, 4), Ok(vec![1, 3, 2, 4]));
        assert_eq!(decode(vec![1, 2, 3, 4], &pipeline, 0b11, 4), Ok(vec![1, 2, 3, 4]));
    }

    #[test]
    fn garbage_is_an_error() {
        let pipeline = [filter(DEFLATE, &[4])];
        assert!(decode(vec![0; 9], &pipeline, 0, 4).is_err());
        assert!(decode(Vec::new(), &pipeline, 0, 4).is_err());
        assert!(decode(vec![1; 3], &[], 0, 4).is_err());
    }
}
