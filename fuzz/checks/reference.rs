//! Decoders and encoders to compare with: from other crates, or written here to be obviously right
//! rather than fast.

use flate2::{Decompress, FlushDecompress, Status};

/// Decodes stored bytes, given the filter's parameters (`parameters` in `decoders.rs` names them)
/// and the maximum length of the result; `None` if the stored bytes are invalid.
type Decode = fn(&[u32], &[u8], usize) -> Option<Vec<u8>>;
/// Encodes a chunk, given the filter's parameters; `None` if no chunk can have these parameters.
type Encode = fn(&[u32], &[u8]) -> Option<Vec<u8>>;

/// The reference that a filter is compared with.
pub(super) enum Reference {
    None,
    /// See [`zlib_stream`].
    Zlib,
    Decode(Decode),
    Encode(Encode),
}

impl Reference {
    /// The reference for the filter of this name.
    pub fn named(name: &str) -> Self {
        match name {
            "deflate" => Self::Zlib,
            "shuffle" => Self::Decode(shuffle),
            "fletcher32" => Self::Decode(fletcher32),
            "nbit" => Self::Decode(nbit),
            "scaleoffset" => Self::Decode(scaleoffset),
            "lzf" => Self::Decode(lzf),
            "bzip2" => Self::Encode(bzip2),
            "lz4" => Self::Encode(lz4),
            "bitshuffle" => Self::Encode(bitshuffle),
            "zstd" => Self::Encode(zstd),
            _ => Self::None,
        }
    }
}

/// The zlib stream that is made of raw deflate data, and the bytes to which zlib decodes it; `None`
/// if the data are invalid, or decode to more than `most` bytes.
pub(super) fn zlib_stream(bytes: &[u8], most: usize) -> Option<(Vec<u8>, Vec<u8>)> {
    let (mut decompressor, mut out) = (Decompress::new(false), vec![0; most]);
    let status = decompressor
        .decompress(bytes, &mut out, FlushDecompress::Finish)
        .ok()?;
    if status != Status::StreamEnd {
        return None;
    }
    out.truncate(decompressor.total_out() as usize);
    let data = bytes.get(..decompressor.total_in() as usize)?;
    // Adler-32.
    let (mut low, mut high) = (1, 0);
    for byte in &out {
        low = (low + u32::from(*byte)) % 65521;
        high = (high + low) % 65521;
    }
    let checksum: u32 = high << 16 | low;
    let header: [u8; 2] = [0x78, 0x9c];
    Some(([&header[..], data, &checksum.to_be_bytes()].concat(), out))
}

/// The stored bytes are the first bytes of all elements, then all second bytes, and so on. Bytes
/// after the last whole element stay at the end.
fn shuffle(values: &[u32], stored: &[u8], _limit: usize) -> Option<Vec<u8>> {
    let element = (*values.first()? as usize).max(1);
    let (mut out, count) = (stored.to_vec(), stored.len() / element);
    for number in 0..count {
        for byte in 0..element {
            out[number * element + byte] = stored[byte * count + number];
        }
    }
    Some(out)
}

/// The data, and after them the checksum of their big-endian 16-bit words: two sums modulo 65535.
fn fletcher32(_values: &[u32], stored: &[u8], _limit: usize) -> Option<Vec<u8>> {
    let (data, sum) = stored.split_last_chunk()?;
    let (mut first, mut second) = (0u32, 0u32);
    for word in data.chunks(2) {
        let word = u32::from(word[0]) << 8 | word.get(1).map_or(0, |low| u32::from(*low));
        first += word;
        first = (first & 0xffff) + (first >> 16);
        second += first;
        second = (second & 0xffff) + (second >> 16);
    }
    // Old versions of libhdf5 stored the bytes of each half in the other order.
    let swapped = [sum[1], sum[0], sum[3], sum[2]];
    let right = (second << 16 | first).to_le_bytes();
    (right == *sum || right == swapped).then(|| data.to_vec())
}

/// The number in `count` bits from bit `start` on, highest first.
fn bits(bytes: &[u8], start: usize, count: usize) -> Option<u64> {
    (start..start + count).try_fold(0, |number, bit| {
        let byte = *bytes.get(bit / 8)?;
        Some(number << 1 | u64::from(byte >> (7 - bit % 8) & 1))
    })
}

/// The lowest `width` bytes of a number, in this byte order.
fn in_order(number: u64, width: usize, is_big_endian: bool) -> Vec<u8> {
    let mut bytes = number.to_le_bytes()[..width].to_vec();
    if is_big_endian {
        bytes.reverse();
    }
    bytes
}

/// Only the `precision` significant bits of each number are stored; `offset` is the position of the
/// lowest of them.
fn nbit(values: &[u32], stored: &[u8], limit: usize) -> Option<Vec<u8>> {
    let &[_, idle, count, _, width, order, precision, offset] = values else {
        return None;
    };
    // All bits are significant.
    if idle == 1 {
        return Some(stored.to_vec());
    }
    let (count, width, precision) = (count as usize, width as usize, precision as usize);
    if count * width > limit {
        return None;
    }
    let number = |index| Some(bits(stored, index * precision, precision)? << offset);
    let numbers = (0..count).map(|index| Some(in_order(number(index)?, width, order == 1)));
    Some(numbers.collect::<Option<Vec<_>>>()?.concat())
}

/// A header of 21 bytes: the number of bits of each packed number (4 bytes), the length of the
/// minimum (1), and the minimum; then the differences of all numbers from the minimum, packed. All
/// bits set stand for the fill value.
fn scaleoffset(values: &[u32], stored: &[u8], limit: usize) -> Option<Vec<u8>> {
    let &[_, factor, count, _, width, _, order, filled, low, high] = values else {
        return None;
    };
    // The numbers are not packed.
    if factor == 8 * width {
        return Some(stored.to_vec());
    }
    let (count, width) = (count as usize, width as usize);
    let bit_count = u32::from_le_bytes(*stored.first_chunk()?) as usize;
    let length = usize::from(*stored.get(4)?).min(8);
    let mut least = [0; 8];
    least[..length].copy_from_slice(stored.get(5..5 + length)?);
    let packed = stored.get(21..).unwrap_or_default();
    if bit_count > 8 * width || count * width > limit {
        return None;
    }
    if bit_count == 8 * width {
        let mut numbers = packed.get(..count * width)?.to_vec();
        if order == 1 {
            numbers.chunks_mut(width).for_each(<[u8]>::reverse);
        }
        return Some(numbers);
    }
    let number = |index| {
        let distance = bits(packed, index * bit_count, bit_count)?;
        let is_fill = filled == 1 && distance == (1 << bit_count) - 1;
        let fill = u64::from(high) << 32 | u64::from(low);
        Some(if is_fill {
            fill
        } else {
            u64::from_le_bytes(least).wrapping_add(distance)
        })
    };
    let numbers = (0..count).map(|index| Some(in_order(number(index)?, width, order == 1)));
    Some(numbers.collect::<Option<Vec<_>>>()?.concat())
}

/// A control byte `n` below 32 precedes `n + 1` literal bytes. Any other repeats earlier bytes: its
/// upper 3 bits are the length less 2 (if they are 7, the next byte is added), and its lower 5 bits
/// and the byte after are the distance less 1.
fn lzf(_values: &[u32], stored: &[u8], limit: usize) -> Option<Vec<u8>> {
    let (mut out, mut input) = (Vec::new(), stored.iter().map(|byte| usize::from(*byte)));
    while let Some(control) = input.next() {
        if control < 32 {
            for _ in 0..=control {
                out.push(input.next()? as u8);
            }
        } else {
            let added = if control >> 5 == 7 { input.next()? } else { 0 };
            let distance = ((control & 31) << 8 | input.next()?) + 1;
            for _ in 0..(control >> 5) + 2 + added {
                out.push(*out.get(out.len().checked_sub(distance)?)?);
            }
        }
    }
    (out.len() <= limit).then_some(out)
}

fn bzip2(_values: &[u32], chunk: &[u8]) -> Option<Vec<u8>> {
    let mut stored = Vec::with_capacity(2 * chunk.len() + 1024);
    let mut compressor = bzip2::Compress::new(bzip2::Compression::fast(), 0);
    compressor
        .compress_vec(chunk, &mut stored, bzip2::Action::Finish)
        .ok()?;
    Some(stored)
}

/// The length of the chunk and of a block, then each block with its stored length; a block that LZ4
/// does not make shorter is stored unchanged.
fn lz4(_values: &[u32], chunk: &[u8]) -> Option<Vec<u8>> {
    const BLOCK: usize = 100;
    let mut stored = [
        &(chunk.len() as u64).to_be_bytes()[..],
        &(BLOCK as u32).to_be_bytes(),
    ]
    .concat();
    for block in chunk.chunks(BLOCK) {
        let packed = lz4_flex::block::compress(block);
        let packed = if packed.len() < block.len() {
            &packed
        } else {
            block
        };
        stored.extend((packed.len() as u32).to_be_bytes());
        stored.extend(packed);
    }
    Some(stored)
}

fn zstd(_values: &[u32], chunk: &[u8]) -> Option<Vec<u8>> {
    zstd::bulk::compress(chunk, 1).ok()
}

/// Blocks whose bits are transposed and compressed; up to seven elements at the end are unchanged.
fn bitshuffle(values: &[u32], chunk: &[u8]) -> Option<Vec<u8>> {
    let &[_, _, element, block, compression] = values else {
        return None;
    };
    let element = element as usize;
    // By default 8 KiB of elements, a multiple of 8, but at least 128 elements.
    let elements = if block == 0 {
        (8192 / element - 8192 / element % 8).max(128)
    } else {
        block as usize
    };
    if !chunk.len().is_multiple_of(element) {
        return None;
    }
    let (whole, tail) = chunk.split_at(chunk.len() - chunk.len() % (8 * element));
    let mut stored = Vec::new();
    if compression > 0 {
        stored.extend((chunk.len() as u64).to_be_bytes());
        stored.extend(((elements * element) as u32).to_be_bytes());
    }
    for block in whole.chunks(elements * element) {
        let planes = bit_planes(block, element);
        let packed = match compression {
            0 => planes,
            2 => lz4_flex::block::compress(&planes),
            _ => zstd::bulk::compress(&planes, 1).ok()?,
        };
        if compression > 0 {
            stored.extend((packed.len() as u32).to_be_bytes());
        }
        stored.extend(packed);
    }
    Some([stored, tail.to_vec()].concat())
}

/// The first bits of all elements, then all second bits, and so on.
fn bit_planes(block: &[u8], element: usize) -> Vec<u8> {
    let count = block.len() / element;
    let mut planes = vec![0; block.len()];
    for (number, bytes) in block.chunks(element).enumerate() {
        for bit in 0..8 * element {
            let place = bit * count + number;
            planes[place / 8] |= (bytes[bit / 8] >> (bit % 8) & 1) << (place % 8);
        }
    }
    planes
}
