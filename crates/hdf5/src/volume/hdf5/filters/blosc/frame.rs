//! blosc2 (filter 32026): a frame around chunks of blosc2, nearly always a single one, often with
//! multidimensional blocks.
//!
//! The frame starts with numbers at fixed offsets and a list of "metalayers"; the one named `b2nd`
//! gives the shape of the data, of its chunks and of their blocks. Then come the chunks and an
//! index, itself a chunk, with the chunks' offsets. See `README_CFRAME_FORMAT.rst` and
//! `README_B2ND_METALAYER.rst` of c-blosc2.
//!
//! Header and metalayers are MessagePack: numbers are big-endian, and each value follows a byte for
//! its type, which is skipped here.

use super::super::cursor::ByteCursor;
use super::super::{Decoder, FilterError, ensure_fits, max_compressed};
use super::BlockBuffers;
use super::header::BloscChunk;

const MAGIC: &[u8] = b"b2frame\0";
/// Offsets of fields in the frame's header.
mod offset {
    pub const MAGIC: usize = 2;
    pub const HEADER_LENGTH: usize = 11;
    pub const FRAME_TYPE: usize = 26;
    /// The decoded size of all chunks (8 bytes).
    pub const SIZE: usize = 30;
    /// The stored size of all chunks, without the index (8 bytes).
    pub const STORED_SIZE: usize = 39;
    /// The size of an element (4 bytes).
    pub const ELEMENT: usize = 48;
    /// The decoded size of a chunk (4 bytes).
    pub const CHUNK: usize = 58;
    pub const METALAYERS: usize = 87;
}
/// Frames of more dimensions are refused; volumes have at most five.
const MAX_DIMENSIONS: usize = 8;

/// Decodes the chunks of a frame.
#[derive(Debug)]
pub(in super::super) struct Frame;

impl Decoder for Frame {
    fn decode(&self, bytes: &[u8], limit: usize) -> Result<Vec<u8>, FilterError> {
        if cursor(bytes, offset::MAGIC)?.take(MAGIC.len())? != MAGIC {
            return Err("it is not a blosc2 frame".into());
        }
        if cursor(bytes, offset::FRAME_TYPE)?.byte()? & 15 != 0 {
            return Err("its frame is not contiguous".into());
        }
        let header_length = cursor(bytes, offset::HEADER_LENGTH)?.size_be()?;
        let header = bytes
            .get(..header_length)
            .ok_or("its header ends too early")?;
        let element = cursor(header, offset::ELEMENT)?.size_be()?;
        let Some(grid) = BlockGrid::find(header, element)? else {
            let size = cursor(header, offset::SIZE)?.long_size_be()?;
            ensure_fits(size, limit)?;
            return decode_in_order(bytes, header_length, element, size);
        };
        let size = product(grid.shape.iter().copied().chain([element])).unwrap_or(usize::MAX);
        ensure_fits(size, limit)?;
        let count = part_counts(&grid.shape, &grid.chunk).product();
        // The padding of chunks and blocks is decoded, too. It may not exceed what `most_stored`
        // assumes.
        let padded = grid.chunk_bytes.checked_mul(count);
        if padded.is_none_or(|padded| padded > self.most_stored(0, limit)) {
            return Err("its padding is longer than a chunk".into());
        }
        let chunks = FrameChunks::find(bytes, header_length, count)?;
        let mut out = vec![0; size];
        for number in 0..count {
            let chunk = chunks.get(number, [element, grid.chunk_bytes, grid.block_bytes])?;
            grid.decode(number, &chunk, &mut out)?;
        }
        Ok(out)
    }

    fn most_stored(&self, _input: usize, size: usize) -> usize {
        // Padding of edge blocks can double a chunk along each of five dimensions: to 32 times its
        // size. `max_compressed` already doubles the size.
        max_compressed(size.saturating_mul(16))
    }
}

/// Decodes the chunks of a frame whose data has no shape: `size` bytes, one chunk after the other.
fn decode_in_order(
    bytes: &[u8],
    header_length: usize,
    element: usize,
    size: usize,
) -> Result<Vec<u8>, FilterError> {
    let chunk_bytes = cursor(bytes, offset::CHUNK)?
        .size_be()?
        .clamp(1, size.max(1));
    let chunks = FrameChunks::find(bytes, header_length, size.div_ceil(chunk_bytes))?;
    let mut out = vec![0; size];
    for (number, part) in out.chunks_mut(chunk_bytes).enumerate() {
        let chunk = chunks.get(number, [element, part.len(), part.len()])?;
        super::decode_into(&chunk, part)?;
    }
    Ok(out)
}

/// The bytes from this position on.
fn cursor(bytes: &[u8], position: usize) -> Result<ByteCursor<'_>, FilterError> {
    bytes
        .get(position..)
        .map(ByteCursor)
        .ok_or_else(|| "its header ends too early".into())
}

/// The chunks of a frame.
struct FrameChunks<'a> {
    /// The frame without its header. Offsets count from its beginning.
    body: &'a [u8],
    /// The offset of each chunk, eight bytes in little-endian order.
    offsets: Vec<u8>,
}

impl<'a> FrameChunks<'a> {
    /// Reads the index of a frame of `count` chunks.
    fn find(bytes: &'a [u8], header_length: usize, count: usize) -> Result<Self, FilterError> {
        let body = cursor(bytes, header_length)?.0;
        let stored_size = cursor(bytes, offset::STORED_SIZE)?.long_size_be()?;
        let mut offsets = vec![0; count.saturating_mul(8)];
        let index = BloscChunk::parse(cursor(body, stored_size)?.0)?;
        super::decode_into(&index, &mut offsets)?;
        Ok(Self { body, offsets })
    }

    /// The chunk with this number. `sizes` are the sizes of an element, a chunk and a block, which
    /// a chunk of one value does not store.
    fn get(&self, number: usize, sizes: [usize; 3]) -> Result<BloscChunk<'a>, FilterError> {
        let offset = ByteCursor(&self.offsets[number * 8..]).array()?;
        let offset = i64::from_le_bytes(offset);
        match usize::try_from(offset) {
            Ok(offset) => BloscChunk::parse(cursor(self.body, offset)?.0),
            // Negative: the highest byte has the number of a repeated value instead of an offset.
            Err(_) => BloscChunk::repeated((offset >> 56) as u8 & 15, sizes),
        }
    }
}

/// Data of any number of dimensions, at least one, stored in chunks of blocks. Chunks and blocks at
/// the far edges are padded.
#[derive(Debug, PartialEq, Eq)]
struct BlockGrid {
    /// The shape of the data in elements, slowest dimension first.
    shape: Vec<usize>,
    /// The shape of a chunk.
    chunk: Vec<usize>,
    /// The shape of a block.
    block: Vec<usize>,
    /// Bytes per element.
    element: usize,
    block_bytes: usize,
    /// The size of a chunk with the padding of its blocks.
    chunk_bytes: usize,
}

impl BlockGrid {
    /// Finds the metalayer that describes blocks; `None` if the frame has none.
    ///
    /// The list of metalayers is an array: its own size, and a map from each metalayer's name to
    /// its position in the header. A name is preceded by its length, in the lower five bits of a
    /// byte.
    fn find(header: &[u8], element: usize) -> Result<Option<Self>, FilterError> {
        let Some(list) = header
            .get(offset::METALAYERS..)
            .filter(|list| !list.is_empty())
        else {
            return Ok(None);
        };
        let mut list = ByteCursor(list);
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

    /// Parses the metalayer: an array of a version, the number of dimensions, and three arrays with
    /// the shapes of the data, a chunk and a block.
    fn parse(mut content: ByteCursor<'_>, element: usize) -> Result<Self, FilterError> {
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
        Self::new(shape, chunk, block, element)
            .ok_or_else(|| "its chunks or blocks are empty, or too large".into())
    }

    fn new(
        shape: Vec<usize>,
        chunk: Vec<usize>,
        block: Vec<usize>,
        element: usize,
    ) -> Option<Self> {
        let block_bytes = product(block.iter().copied().chain([element]))?;
        if block_bytes == 0 || chunk.contains(&0) {
            return None;
        }
        Some(Self {
            chunk_bytes: product(part_counts(&chunk, &block).chain([block_bytes]))?,
            shape,
            chunk,
            block,
            element,
            block_bytes,
        })
    }

    /// Decodes all blocks of a chunk to their places in `out`, which has the shape of the data.
    fn decode(
        &self,
        number: usize,
        chunk: &BloscChunk<'_>,
        out: &mut [u8],
    ) -> Result<(), FilterError> {
        if (chunk.size, chunk.block) != (self.chunk_bytes, self.block_bytes) {
            return Err(format!("a chunk is not of {} bytes in blocks", self.chunk_bytes).into());
        }
        let mut buffers = BlockBuffers::default();
        let mut first_block = Vec::new();
        let mut decoded = vec![0; self.block_bytes];
        let bounds = self.bounds(number);
        for block in 0..chunk.block_count() {
            chunk.decode_block(block, &first_block, &mut buffers, &mut decoded)?;
            self.place(&bounds, block, &decoded, out);
            if block == 0 {
                first_block = decoded.clone();
            }
        }
        Ok(())
    }

    /// The start and the end of a chunk in the data; the end is cut at the end of the data.
    fn bounds(&self, chunk: usize) -> [Vec<usize>; 2] {
        let start = origin(chunk, &self.shape, &self.chunk);
        let axes = start.iter().zip(&self.chunk).zip(&self.shape);
        let end = axes
            .map(|((start, length), extent)| (start + length).min(*extent))
            .collect();
        [start, end]
    }

    /// Copies the rows of a block to their places in the output, without padding. A row is the
    /// elements along the last dimension. The bounds are those of the block's chunk.
    fn place(
        &self,
        [chunk_start, end]: &[Vec<usize>; 2],
        block: usize,
        decoded: &[u8],
        out: &mut [u8],
    ) {
        let mut start = origin(block, &self.chunk, &self.block);
        for (within, chunk_start) in start.iter_mut().zip(chunk_start) {
            *within += chunk_start;
        }
        let last = self.shape.len() - 1;
        let row_in_block = self.block[last];
        let row_length = end[last].saturating_sub(start[last]).min(row_in_block) * self.element;
        if row_length == 0 {
            return;
        }
        let rows = decoded.chunks_exact(row_in_block * self.element);
        for (number, row) in rows.enumerate() {
            if let Some(index) = self.row(number, &start, end) {
                let position = index * self.shape[last] + start[last];
                out[position * self.element..][..row_length].copy_from_slice(&row[..row_length]);
            }
        }
    }

    /// Converts a row's number in the block that begins at `start` to the row's index in the
    /// output; `None` for padding, which begins at `end`. Rows are counted along all dimensions but
    /// the last.
    fn row(&self, mut number: usize, start: &[usize], end: &[usize]) -> Option<usize> {
        let mut index = 0;
        let mut stride = 1;
        for axis in (0..self.shape.len() - 1).rev() {
            let position = start[axis] + number % self.block[axis];
            number /= self.block[axis];
            if position >= end[axis] {
                return None;
            }
            index += position * stride;
            stride *= self.shape[axis];
        }
        Some(index)
    }
}

/// The product of the factors; `None` if it overflows.
fn product(mut factors: impl Iterator<Item = usize>) -> Option<usize> {
    factors.try_fold(1, usize::checked_mul)
}

/// The number of parts of a whole along each dimension, given the shapes of both.
fn part_counts<'a>(whole: &'a [usize], part: &'a [usize]) -> impl Iterator<Item = usize> + 'a {
    let both = whole.iter().zip(part);
    both.map(|(extent, part)| extent.div_ceil(*part))
}

/// Where the part with this number begins; parts are counted along the last dimension first.
fn origin(mut number: usize, whole: &[usize], part: &[usize]) -> Vec<usize> {
    let mut origin = vec![0; whole.len()];
    for ((start, extent), part) in origin.iter_mut().zip(whole).zip(part).rev() {
        let count = extent.div_ceil(*part);
        *start = number % count * part;
        number /= count;
    }
    origin
}

/// Reads an array with one number for each dimension.
fn extents(
    content: &mut ByteCursor<'_>,
    dimensions: usize,
    read_one: impl Fn(&mut ByteCursor<'_>) -> Result<usize, FilterError>,
) -> Result<Vec<usize>, FilterError> {
    let _array = content.byte()?;
    (0..dimensions).map(|_| read_one(content)).collect()
}

/// Reads the byte for the type, then a number of 4 bytes.
fn int32(content: &mut ByteCursor<'_>) -> Result<usize, FilterError> {
    let _int32 = content.byte()?;
    content.size_be()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(shape: &[usize], chunk: &[usize], block: &[usize]) -> BlockGrid {
        BlockGrid::new(shape.to_vec(), chunk.to_vec(), block.to_vec(), 1).unwrap()
    }

    #[test]
    fn rows_of_blocks_find_their_places() {
        // Three rows of five in blocks of two by two, padded with 99.
        let blocks = grid(&[3, 5], &[3, 5], &[2, 2]);
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
            blocks.place(&blocks.bounds(0), number, block, &mut out);
        }
        assert_eq!(out, (0..15).collect::<Vec<u8>>());
        assert_eq!((blocks.block_bytes, blocks.chunk_bytes), (4, 24));
    }

    #[test]
    fn blocks_are_cut_at_the_end_of_their_chunk() {
        // Two chunks of two by three, each in two blocks of two by two: the second block's second
        // column is padding, not the first of the next chunk.
        let blocks = grid(&[2, 4], &[2, 3], &[2, 2]);
        let mut out = vec![0; 8];
        blocks.place(&blocks.bounds(1), 0, &[3, 99, 7, 99], &mut out);
        blocks.place(&blocks.bounds(1), 1, &[99; 4], &mut out);
        blocks.place(&blocks.bounds(0), 0, &[0, 1, 4, 5], &mut out);
        blocks.place(&blocks.bounds(0), 1, &[2, 99, 6, 99], &mut out);
        assert_eq!(out, (0..8).collect::<Vec<u8>>());
    }

    #[test]
    fn a_row_is_found_in_any_number_of_dimensions() {
        let row = |shape: &[usize], block: &[usize], at, start: &[usize]| {
            grid(shape, shape, block).row(at, start, shape)
        };
        assert_eq!(row(&[7], &[3], 0, &[3]), Some(0));
        assert_eq!(row(&[3, 3, 9], &[2, 2, 9], 1, &[2, 0, 0]), Some(7));
        assert_eq!(row(&[3, 3, 9], &[2, 2, 9], 2, &[2, 0, 0]), None);
    }
}
