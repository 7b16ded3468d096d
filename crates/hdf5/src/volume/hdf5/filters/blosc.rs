//! blosc (filter 32001), and the chunks of blosc2, which extend its format.
//!
//! ```text
//! chunk   header (16 or 32 bytes) · offset of each block in the chunk (4 bytes each) · blocks
//! block   one stream, or one for each byte of an element
//! stream  its length (4 bytes) · bytes of the chunk's codec
//! ```
//!
//! Up to six of blosc's own filters were applied to each block before it was divided into streams.
//! blosc2 extends the header by a list of filters and has short forms for streams and chunks of a
//! single value. All numbers are little-endian. See `README_CHUNK_FORMAT.rst` of c-blosc2.

mod blosclz;
mod codec;
mod frame;
mod header;

use super::cursor::ByteCursor;
use super::{FilterError, bitshuffle, ensure_fits, shuffle, zstd};

pub(super) use self::frame::Frame;
use self::header::{BloscChunk, BloscFilter, ChunkContent};

/// Decodes one chunk of blosc or blosc2 to at most `limit` bytes.
pub(super) fn decode(bytes: &[u8], limit: usize) -> Result<Vec<u8>, FilterError> {
    let chunk = BloscChunk::parse(bytes)?;
    ensure_fits(chunk.size, limit)?;
    let mut out = vec![0; chunk.size];
    decode_into(&chunk, &mut out)?;
    Ok(out)
}

/// Decodes a chunk that must fill `out`.
fn decode_into(chunk: &BloscChunk<'_>, out: &mut [u8]) -> Result<(), FilterError> {
    if chunk.size != out.len() {
        return Err(format!("it has {} bytes instead of {}", chunk.size, out.len()).into());
    }
    let mut buffers = BlockBuffers::default();
    for number in 0..chunk.block_count() {
        let (decoded, rest) = out.split_at_mut(number * chunk.block);
        let length = chunk.block.min(rest.len());
        let first_block = decoded.get(..length).unwrap_or_default();
        chunk.decode_block(number, first_block, &mut buffers, &mut rest[..length])?;
    }
    Ok(())
}

/// Two buffers for a block, one before and one after a filter.
#[derive(Debug, Default)]
struct BlockBuffers(Vec<u8>, Vec<u8>);

impl BloscChunk<'_> {
    fn block_count(&self) -> usize {
        // In a chunk without bytes, the size of a block may be 0.
        self.size.div_ceil(self.block.max(1))
    }

    /// Decodes a block into `target`, which has the block's size. `first_block` is the decoded
    /// block 0, to which one of the filters refers; it is empty while block 0 is decoded.
    fn decode_block(
        &self,
        number: usize,
        first_block: &[u8],
        buffers: &mut BlockBuffers,
        target: &mut [u8],
    ) -> Result<(), FilterError> {
        match self.content {
            ChunkContent::Repeated([byte]) => target.fill(*byte),
            ChunkContent::Repeated(value) => {
                for (place, byte) in target.iter_mut().zip(value.iter().cycle()) {
                    *place = *byte;
                }
            }
            ChunkContent::Plain => {
                let mut input =
                    ByteCursor(self.body.get(number * self.block..).unwrap_or_default());
                target.copy_from_slice(input.take(target.len())?);
            }
            ChunkContent::Blocks => {
                let mut positions = ByteCursor(self.body.get(4 * number..).unwrap_or_default());
                let position = positions.size_le()?;
                let rest = self.bytes.get(position..);
                let stored = rest.ok_or("a block's offset is out of range")?;
                self.decode_compressed(ByteCursor(stored), first_block, buffers, target)?;
            }
        }
        Ok(())
    }

    /// Decodes the streams of a block and undoes the filters, the last one first.
    fn decode_compressed(
        &self,
        mut input: ByteCursor<'_>,
        first_block: &[u8],
        buffers: &mut BlockBuffers,
        target: &mut [u8],
    ) -> Result<(), FilterError> {
        // A shorter last block is not split.
        let stream_count = if self.is_split && target.len() == self.block {
            self.element
        } else {
            1
        };
        let Some((first_applied, others)) = self.filters.split_first() else {
            return self.decode_streams(&mut input, stream_count, target);
        };
        let BlockBuffers(from, to) = buffers;
        from.resize(target.len(), 0);
        to.resize(target.len(), 0);
        self.decode_streams(&mut input, stream_count, from)?;
        for filter in others.iter().rev() {
            self.undo(*filter, from, to, first_block);
            std::mem::swap(from, to);
        }
        self.undo(*first_applied, from, target, first_block);
        Ok(())
    }

    /// Decodes `count` streams of equal length, one after the other.
    fn decode_streams(
        &self,
        input: &mut ByteCursor<'_>,
        count: usize,
        target: &mut [u8],
    ) -> Result<(), FilterError> {
        let length = target.len() / count;
        if length == 0 || !target.len().is_multiple_of(count) {
            return Err(format!("a block of {} bytes has no {count} streams", target.len()).into());
        }
        target
            .chunks_exact_mut(length)
            .try_for_each(|part| self.decode_stream(input, part))
    }

    /// Decodes a stream, which must fill `target`. One that is as long as the target is not
    /// compressed.
    fn decode_stream(
        &self,
        input: &mut ByteCursor<'_>,
        target: &mut [u8],
    ) -> Result<(), FilterError> {
        let length = input.i32_le()?;
        let Ok(stored_length) = usize::try_from(length) else {
            // In blosc2, the length -n means that the byte n is repeated to the end of the stream,
            // if the lowest bit of the byte after the length is set.
            let is_repeated = self.is_blosc2 && length >= -255 && input.byte()? & 1 == 1;
            if !is_repeated {
                return Err("the length of a stream is invalid".into());
            }
            target.fill(length.unsigned_abs() as u8);
            return Ok(());
        };
        if stored_length == 0 && self.is_blosc2 {
            target.fill(0);
            return Ok(());
        }
        let stored = input.take(stored_length)?;
        if stored_length == target.len() {
            target.copy_from_slice(stored);
            return Ok(());
        }
        match self.dictionary {
            None => codec::decode(self.codec, stored, target),
            Some(dictionary) if self.codec == codec::ZSTD => {
                zstd::block_with_dictionary(dictionary, stored, target)
            }
            Some(_) => Err(FilterError::Unsupported(
                "blosc2 with a dictionary for lz4".into(),
            )),
        }
    }

    /// Undoes a filter of a block; `first_block` is as for [`BloscChunk::decode_block`].
    fn undo(&self, filter: BloscFilter, from: &[u8], to: &mut [u8], first_block: &[u8]) {
        match filter {
            BloscFilter::Shuffle(element) => shuffle::unshuffle(from, to, element),
            BloscFilter::Bitshuffle => {
                let mut shuffled = from.len() / self.element;
                if self.is_blosc2 {
                    shuffled -= shuffled % 8;
                } else if !shuffled.is_multiple_of(8) {
                    // blosc1 shuffles only blocks of whole groups of eight elements.
                    shuffled = 0;
                }
                let (planes, tail) = from.split_at(shuffled * self.element);
                let (target, rest) = to.split_at_mut(planes.len());
                bitshuffle::untranspose(planes, target, self.element);
                rest.copy_from_slice(tail);
            }
            BloscFilter::Delta => {
                to.copy_from_slice(from);
                undo_delta(to, first_block, self.element);
            }
            BloscFilter::Bytedelta(parts) => {
                to.copy_from_slice(from);
                let length = (to.len() / parts).max(1);
                for part in to.chunks_exact_mut(length).take(parts) {
                    let mut value = 0u8;
                    for byte in part {
                        value = value.wrapping_add(*byte);
                        *byte = value;
                    }
                }
            }
        }
    }
}

/// Each element was stored as its XOR with another one: in the first block with the element before
/// it, in later blocks with the element at the same place of the first block. While the first block
/// itself is decoded, `first_block` is empty. Elements that are not as long as an integer are
/// treated as several integers of 8 bytes or of 1. Bytes after the last whole integer are
/// unchanged.
fn undo_delta(target: &mut [u8], first_block: &[u8], element: usize) {
    let step = match element {
        1 | 2 | 4 | 8 => element,
        _ if element.is_multiple_of(8) => 8,
        _ => 1,
    };
    let whole = target.len() - target.len() % step;
    if first_block.is_empty() {
        for at in step..whole {
            target[at] ^= target[at - step];
        }
    } else {
        for (byte, first_byte) in target[..whole].iter_mut().zip(first_block) {
            *byte ^= first_byte;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delta_is_undone_within_the_first_block_and_against_it() {
        let mut first = [1, 2, 1 ^ 5, 2 ^ 6, 9];
        undo_delta(&mut first, &[], 2);
        assert_eq!(first, [1, 2, 5, 6, 9]);
        let mut second = [1 ^ 7, 2 ^ 8, 3];
        undo_delta(&mut second, &first[..3], 2);
        assert_eq!(second, [7, 8, 3]);
    }

    #[test]
    fn plain_and_single_valued_chunks_need_no_codec() {
        let plain = [2, 1, 2, 1, 3, 0, 0, 0, 3, 0, 0, 0, 19, 0, 0, 0, 7, 8, 9];
        assert_eq!(decode(&plain, 3), Ok(vec![7, 8, 9]));
        assert!(decode(&plain, 2).is_err());
        let mut single = vec![5, 1, 5, 2, 6, 0, 0, 0, 6, 0, 0, 0, 34, 0, 0, 0];
        single.extend([0; 15]);
        single.extend([0x30, 1, 2]);
        assert_eq!(decode(&single, 6), Ok(vec![1, 2, 1, 2, 1, 2]));
        let repeated = |value, sizes: [usize; 3]| {
            let mut out = vec![9; sizes[1]];
            decode_into(&BloscChunk::repeated(value, sizes)?, &mut out).map(|()| out)
        };
        assert_eq!(repeated(1, [2, 6, 4]), Ok(vec![0; 6]));
        let nan = f64::NAN.to_le_bytes().repeat(2);
        assert_eq!(repeated(2, [8, 16, 8]), Ok(nan));
        assert!(repeated(2, [2, 16, 8]).is_err() && repeated(8, [2, 6, 4]).is_err());
        single[31] = 0x38;
        assert!(decode(&single, 6).is_err(), "lazy chunks are not decoded");
    }
}
