//! Decoders and encoders to compare with: those of other crates, and others that are written to be
//! obviously right.

use flate2::{Decompress, FlushDecompress, Status};

/// Decodes stored bytes to at most as many bytes, given the filter's parameters; `None` if it
/// cannot.
type Decode = fn(&[u32], &[u8], usize) -> Option<Vec<u8>>;
/// Makes stored bytes of a chunk, given the filter's parameters; `None` if such chunks do not
/// exist.
type Encode = fn(&[u32], &[u8]) -> Option<Vec<u8>>;

/// The reference that a filter is compared with.
pub(super) enum Reference {
    None,
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

/// A zlib stream of raw deflate data and what zlib decodes it to; `None` if that is invalid or more
/// than `most` bytes.
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
    let checksum = out.iter().fold((1, 0), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % 65521;
        (a, (b + a) % 65521)
    });
    let checksum = checksum.1 << 16 | checksum.0;
    Some(([&[0x78, 0x9c], data, &checksum.to_be_bytes()].concat(), out))
}

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

/// The lowest `width` bytes of a number.
fn in_order(number: u64, width: usize, is_big_endian: bool) -> Vec<u8> {
    let mut bytes = number.to_le_bytes()[..width].to_vec();
    if is_big_endian {
        bytes.reverse();
    }
    bytes
}

fn nbit(values: &[u32], stored: &[u8], limit: usize) -> Option<Vec<u8>> {
    let &[_, idle, count, _, width, order, precision, offset] = values else {
        return None;
    };
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

fn scaleoffset(values: &[u32], stored: &[u8], limit: usize) -> Option<Vec<u8>> {
    let &[_, factor, count, _, width, _, order, filled, low, high] = values else {
        return None;
    };
    if factor == 8 * width {
        return Some(stored.to_vec());
    }
    let (count, width) = (count as usize, width as usize);
    let digits = u32::from_le_bytes(*stored.first_chunk()?) as usize;
    let length = usize::from(*stored.get(4)?).min(8);
    let mut least = [0; 8];
    least[..length].copy_from_slice(stored.get(5..5 + length)?);
    let packed = stored.get(21..).unwrap_or_default();
    if digits > 8 * width || count * width > limit {
        return None;
    }
    if digits == 8 * width {
        let whole = packed.get(..count * width)?.chunks(width);
        let turned = whole.map(|one| {
            if order == 1 {
                one.iter().rev().copied().collect()
            } else {
                one.to_vec()
            }
        });
        return Some(turned.collect::<Vec<_>>().concat());
    }
    let number = |index| {
        let distance = bits(packed, index * digits, digits)?;
        let is_fill = filled == 1 && distance == (1 << digits) - 1;
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

fn lzf(_values: &[u32], stored: &[u8], limit: usize) -> Option<Vec<u8>> {
    let (mut out, mut input) = (Vec::new(), stored.iter().map(|byte| usize::from(*byte)));
    while let Some(control) = input.next() {
        if control < 32 {
            for _ in 0..=control {
                out.push(input.next()? as u8);
            }
        } else {
            let long = if control >> 5 == 7 { input.next()? } else { 0 };
            let distance = ((control & 31) << 8 | input.next()?) + 1;
            for _ in 0..(control >> 5) + 2 + long {
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

fn bitshuffle(values: &[u32], chunk: &[u8]) -> Option<Vec<u8>> {
    let &[_, _, element, block, inner] = values else {
        return None;
    };
    let (element, inner) = (element as usize, inner as usize);
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
    if inner > 0 {
        stored.extend((chunk.len() as u64).to_be_bytes());
        stored.extend(((elements * element) as u32).to_be_bytes());
    }
    for block in whole.chunks(elements * element) {
        let planes = bit_planes(block, element);
        let packed = match inner {
            0 => planes,
            2 => lz4_flex::block::compress(&planes),
            _ => zstd::bulk::compress(&planes, 1).ok()?,
        };
        if inner > 0 {
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
