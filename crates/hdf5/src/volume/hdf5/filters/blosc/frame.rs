//! blosc2 (filter 32026): a frame around one blosc2 chunk, often with multidimensional blocks.
//!
//! The frame starts with numbers at fixed offsets and a list of "metalayers"; the one named `b2nd`
//! gives the shape of the data and of its blocks. Then come the chunk and an index, itself a chunk,
//! with the chunk's offset. See `README_CFRAME_FORMAT.rst` and `README_B2ND_METALAYER.rst` of
//! c-blosc2. Frames are big-endian.

use super::super::cursor::Cursor;
use super::super::{Broken, Decoder, compressed};
use super::Buffers;
use super::header::BloscChunk;

const MAGIC: &[u8] = b"b2frame\0";
/// Offsets of fields in the frame's header.
mod place {
    pub const MAGIC: usize = 2;
    pub const HEADER_LENGTH: usize = 11;
    pub const FRAME_TYPE: usize = 26;
    pub const SIZE: usize = 30;
    pub const STORED_SIZE: usize = 39;
    pub const ELEMENT: usize = 48;
    pub const METALAYERS: usize = 87;
}
const MAX_DIMENSIONS: usize = 8;

/// Decodes the only chunk of a frame.
#[derive(Debug)]
pub(in super::super) struct Frame;

impl Decoder for Frame {
    fn decode(&self, bytes: &[u8], limit: usize) -> Result<Vec<u8>, Broken> {
        if cursor(bytes, place::MAGIC)?.take(MAGIC.len())? != MAGIC {
            return Err("it is not a blosc2 frame".into());
        }
        if cursor(bytes, place::FRAME_TYPE)?.byte()? & 15 != 0 {
            return Err("its frame is not contiguous".into());
        }
        let header_length = cursor(bytes, place::HEADER_LENGTH)?.size_be()?;
        let header = bytes
            .get(..header_length)
            .ok_or("its header ends too early")?;
        let element = cursor(header, place::ELEMENT)?.size_be()?;
        let blocks = BlockGrid::find(header, element)?;
        let size = match &blocks {
            Some(blocks) => blocks.bytes(),
            None => Some(cursor(header, place::SIZE)?.long_size_be()?),
        };
        let size = size
            .filter(|size| *size <= limit)
            .ok_or("it is longer than a chunk")?;
        match (chunk(bytes, header_length)?, blocks) {
            (None, _) => Ok(vec![0; size]),
            (Some(chunk), None) => super::decode(chunk, size),
            (Some(chunk), Some(blocks)) => blocks.decode(&BloscChunk::parse(chunk)?, size),
        }
    }

    fn bound(&self, _before: usize, size: usize) -> usize {
        // Padding of edge blocks can double a chunk along each of five dimensions: to 32 times its
        // size, of which `compressed` allows for two.
        compressed(size.saturating_mul(16))
    }
}

fn cursor(bytes: &[u8], position: usize) -> Result<Cursor<'_>, Broken> {
    bytes
        .get(position..)
        .map(Cursor)
        .ok_or_else(|| "its header ends too early".into())
}

/// The only chunk in the frame; `None` if all of it is zero.
fn chunk(bytes: &[u8], header_length: usize) -> Result<Option<&[u8]>, Broken> {
    const ONE_OFFSET: usize = 8;
    let stored = cursor(bytes, place::STORED_SIZE)?.long_size_be()?;
    let index = super::decode(
        cursor(bytes, header_length.saturating_add(stored))?.0,
        ONE_OFFSET,
    )?;
    let offset = i64::from_le_bytes(index.try_into().map_err(|_| "its frame holds no chunk")?);
    if let Ok(offset) = usize::try_from(offset) {
        return Ok(Some(cursor(bytes, header_length.saturating_add(offset))?.0));
    }
    // Special values instead of an offset: the whole chunk is zero (1) or was never initialised
    // (4).
    match (offset as u64 >> 56) & 0x7f {
        1 | 4 => Ok(None),
        _ => Err("the offset of its chunk is invalid".into()),
    }
}

/// Data stored in multidimensional blocks, padded at the far edges.
#[derive(Debug, PartialEq, Eq)]
struct BlockGrid {
    shape: Vec<usize>,
    block: Vec<usize>,
    /// Bytes per element.
    element: usize,
}

impl BlockGrid {
    /// From the frame's list of metalayers; `None` if none describes blocks.
    fn find(header: &[u8], element: usize) -> Result<Option<Self>, Broken> {
        let Some(list) = header
            .get(place::METALAYERS..)
            .filter(|list| !list.is_empty())
        else {
            return Ok(None);
        };
        let mut list = Cursor(list);
        let _array_size_and_map: [u8; 5] = list.array()?;
        let count = u16::from_be_bytes(list.array()?);
        for _ in 0..count {
            let length = usize::from(list.byte()? & 31);
            let name = list.take(length)?;
            let position = int32(&mut list)?;
            if name == b"b2nd" || name == b"caterva" {
                let mut content = cursor(header, position)?;
                let _bin32_and_length: [u8; 5] = content.array()?;
                return Self::parse(content, element).map(Some);
            }
        }
        Ok(None)
    }

    fn parse(mut content: Cursor<'_>, element: usize) -> Result<Self, Broken> {
        let [_array, _version, dimensions] = content.array()?;
        let dimensions = usize::from(dimensions);
        if !(1..=MAX_DIMENSIONS).contains(&dimensions) {
            return Err(format!("it has {dimensions} dimensions").into());
        }
        let shape = extents(&mut content, dimensions, |content| {
            let _int64 = content.byte()?;
            content.long_size_be()
        })?;
        let chunk = extents(&mut content, dimensions, int32)?;
        let block = extents(&mut content, dimensions, int32)?;
        let whole = block
            .iter()
            .zip(&chunk)
            .all(|(block, chunk)| (1..=*chunk).contains(block));
        if whole && shape == chunk && element > 0 {
            Ok(Self {
                shape,
                block,
                element,
            })
        } else {
            Err(
                format!("blocks {block:?} of chunks {chunk:?} of {shape:?} are not supported")
                    .into(),
            )
        }
    }

    /// The size of the data without padding.
    fn bytes(&self) -> Option<usize> {
        self.shape
            .iter()
            .try_fold(self.element, |bytes, extent| bytes.checked_mul(*extent))
    }

    /// Decodes all blocks into `size` bytes, which must equal [`Self::bytes`].
    fn decode(&self, chunk: &BloscChunk<'_>, size: usize) -> Result<Vec<u8>, Broken> {
        let block: usize = self.block.iter().product::<usize>() * self.element;
        let blocks: usize = self.grid().product();
        if chunk.block != block || chunk.size != block * blocks {
            let found = chunk.size;
            let of = chunk.block;
            return Err(
                format!("{found} bytes in blocks of {of} are not {blocks} of {block}").into(),
            );
        }
        let mut out = vec![0; size];
        let mut buffers = Buffers::default();
        let mut first = Vec::new();
        let mut decoded = vec![0; block];
        for number in 0..blocks {
            chunk.block(number, &first, &mut buffers, &mut decoded)?;
            self.place(number, &decoded, &mut out);
            if number == 0 {
                first = decoded.clone();
            }
        }
        Ok(out)
    }

    /// The number of blocks along each dimension.
    fn grid(&self) -> impl DoubleEndedIterator<Item = usize> + ExactSizeIterator {
        self.shape
            .iter()
            .zip(&self.block)
            .map(|(extent, block)| extent.div_ceil(*block))
    }

    /// Copies the rows of a block to their place in the output, without padding.
    fn place(&self, mut number: usize, decoded: &[u8], out: &mut [u8]) {
        let mut origin = vec![0; self.shape.len()];
        for ((start, count), block) in origin.iter_mut().zip(self.grid()).zip(&self.block).rev() {
            *start = number % count * block;
            number /= count;
        }
        let (Some(width), Some(block_width), Some(start)) =
            (self.shape.last(), self.block.last(), origin.last())
        else {
            return;
        };
        let length = (width - start).min(*block_width) * self.element;
        for (at, row) in decoded.chunks_exact(block_width * self.element).enumerate() {
            if let Some(index) = self.row(at, &origin) {
                out[(index * width + start) * self.element..][..length]
                    .copy_from_slice(&row[..length]);
            }
        }
    }

    /// The index in the output of a row of the block at `origin`; `None` for padding.
    fn row(&self, mut at: usize, origin: &[usize]) -> Option<usize> {
        let mut index = 0;
        let mut rows = 1;
        let outer = self.shape.iter().zip(&self.block).zip(origin).rev().skip(1);
        for ((extent, block), start) in outer {
            let position = start + at % block;
            at /= block;
            if position >= *extent {
                return None;
            }
            index += position * rows;
            rows *= extent;
        }
        Some(index)
    }
}

fn extents(
    content: &mut Cursor<'_>,
    dimensions: usize,
    one: impl Fn(&mut Cursor<'_>) -> Result<usize, Broken>,
) -> Result<Vec<usize>, Broken> {
    let _array = content.byte()?;
    (0..dimensions).map(|_| one(content)).collect()
}

fn int32(content: &mut Cursor<'_>) -> Result<usize, Broken> {
    let _int32 = content.byte()?;
    content.size_be()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_blocks_find_their_places() {
        // Three rows of five in blocks of two by two, padded with 99.
        let blocks = BlockGrid {
            shape: vec![3, 5],
            block: vec![2, 2],
            element: 1,
        };
        let data = [
            [0, 1, 5, 6],
            [2, 3, 7, 8],
            [4, 99, 9, 99],
            [10, 11, 99, 99],
            [12, 13, 99, 99],
            [14, 99, 99, 99],
        ];
        let mut out = vec![0; 15];
        for (number, block) in data.iter().enumerate() {
            blocks.place(number, block, &mut out);
        }
        assert_eq!(out, (0..15).collect::<Vec<u8>>());
        assert_eq!(
            (blocks.bytes(), blocks.grid().collect()),
            (Some(15), vec![2, 3])
        );
    }

    #[test]
    fn a_row_is_found_in_any_number_of_dimensions() {
        let blocks = |shape: &[usize], block: &[usize]| BlockGrid {
            shape: shape.to_vec(),
            block: block.to_vec(),
            element: 1,
        };
        assert_eq!(blocks(&[7], &[3]).row(0, &[3]), Some(0));
        assert_eq!(blocks(&[3, 3, 9], &[2, 2, 9]).row(1, &[2, 0, 0]), Some(7));
        assert_eq!(blocks(&[3, 3, 9], &[2, 2, 9]).row(2, &[2, 0, 0]), None);
    }
}
