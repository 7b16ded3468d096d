//! bitshuffle (filter 32008): the lowest bits of all elements of a block, then all second bits, and
//! so on. The block may then be compressed by LZ4 or zstd.
//!
//! The number of elements of a block is a multiple of eight; up to seven elements at the end of a
//! chunk are stored as they are, after all blocks. Compressed blocks are stored as in [`lz4`], with
//! the same header, but none is stored uncompressed. See K. Masui et al., "A compression scheme for
//! radio data in high performance computing" (2015).

use super::cursor::ByteCursor;
use super::{Decoder, FilterError, ensure_fits, lz4, max_compressed, shuffle, zstd};

/// The filter's parameters in the dataset.
#[derive(Debug)]
pub(super) struct Bitshuffle {
    /// Bytes per element.
    element: usize,
    /// Elements per block, unless the chunk states it.
    block: usize,
    /// `None` if blocks are not compressed.
    decompress: Option<DecompressBlock>,
}

/// Decompresses a block, which must fill the second slice.
type DecompressBlock = fn(&[u8], &mut [u8]) -> Result<(), FilterError>;

impl Bitshuffle {
    /// Parses the filter's parameters: the version (two numbers), the bytes per element, the
    /// elements per block (0: the default), and the compression. `None` if they are invalid.
    pub fn new(values: &[u32]) -> Option<Self> {
        let [_major, _minor, element, options @ ..] = values else {
            return None;
        };
        let decompress: Option<DecompressBlock> = match options.get(1) {
            None | Some(0) => None,
            Some(2) => Some(lz4::block),
            Some(3) => Some(zstd::block),
            Some(_) => return None,
        };
        let element = *element as usize;
        let block = match options.first() {
            None | Some(0) => default_block(element)?,
            Some(block) => *block as usize,
        };
        (element > 0 && block.is_multiple_of(8)).then_some(Self {
            element,
            block,
            decompress,
        })
    }
}

/// The elements per block that writers use by default: all whole groups of eight elements that fit
/// in 8 KiB, but at least 128 elements.
fn default_block(element: usize) -> Option<usize> {
    let fitting = 8192usize.checked_div(element)?;
    Some((fitting - fitting % 8).max(128))
}

impl Decoder for Bitshuffle {
    fn decode(&self, bytes: &[u8], limit: usize) -> Result<Vec<u8>, FilterError> {
        let Bitshuffle {
            element,
            block,
            decompress,
        } = *self;
        let mut input = ByteCursor(bytes);
        let (size, block_bytes) = match decompress {
            None => (bytes.len(), block * element),
            Some(_) => (input.long_size_be()?, input.size_be()?),
        };
        ensure_fits(size, limit)?;
        let eight_elements = 8 * element;
        if size % element != 0 || block_bytes == 0 || block_bytes % eight_elements != 0 {
            let problem =
                format!("{size} bytes in blocks of {block_bytes} cannot be elements of {element}");
            return Err(problem.into());
        }
        let mut out = vec![0; size];
        let (shuffled, tail) = out.split_at_mut(size - size % eight_elements);
        let mut scratch = vec![0; block_bytes.min(shuffled.len())];
        for target in shuffled.chunks_mut(block_bytes) {
            let planes = match decompress {
                None => input.take(target.len())?,
                Some(decompress) => {
                    let length = input.size_be()?;
                    let planes = &mut scratch[..target.len()];
                    decompress(input.take(length)?, planes)?;
                    planes
                }
            };
            untranspose(planes, target, element);
        }
        tail.copy_from_slice(input.take(tail.len())?);
        Ok(out)
    }

    fn most_stored(&self, input: usize, size: usize) -> usize {
        self.decompress.map_or(input, |_| max_compressed(size))
    }
}

/// Reassembles the bits of each element.
///
/// `planes` has one row of bits for each bit of an element: row r has bit r % 8 of byte r / 8 of
/// every element. In a row, element e is bit e % 8 of byte e / 8. Bit 0 is the lowest. Both slices
/// have the same length; the number of elements must be a multiple of eight.
pub(super) fn untranspose(planes: &[u8], target: &mut [u8], element: usize) {
    let row_bytes = target.len() / element.max(1) / 8;
    if row_bytes == 0 {
        return;
    }
    // Each byte of a row belongs to a group of eight elements. The transposed row k * element + b
    // has byte b of the element k of each group. So the transposed rows are the byte planes of the
    // shuffle filter, with each group as one long element.
    let mut transposed = vec![0; target.len()];
    let eights_of_rows = planes.chunks_exact(8 * row_bytes).take(element);
    for (byte, rows) in eights_of_rows.enumerate() {
        let mut rows = rows.chunks_exact(row_bytes);
        let all_places = transposed.chunks_exact_mut(row_bytes);
        let mut places = all_places.skip(byte).step_by(element);
        transpose_rows(
            std::array::from_fn(|_| rows.next().unwrap_or_default()),
            std::array::from_fn(|_| places.next().unwrap_or_default()),
        );
    }
    shuffle::unshuffle(&transposed, target, 8 * element);
}

/// Transposes all squares of 8×8 bits in eight rows, eight squares at a time: bit k of the byte at
/// any index of row r becomes bit r of the byte at this index of the place k.
fn transpose_rows(rows: [&[u8]; 8], places: [&mut [u8]; 8]) {
    let whole_words = rows[0].len() / 8;
    let words = rows.map(|row| &row.as_chunks().0[..whole_words]);
    let tails = rows.map(|row| row.as_chunks::<8>().1);
    // Each place as its whole words (field 0) and its tail (field 1).
    let [p0, p1, p2, p3, p4, p5, p6, p7] = places.map(|place| place.as_chunks_mut());
    for at in 0..whole_words {
        [
            p0.0[at], p1.0[at], p2.0[at], p3.0[at], p4.0[at], p5.0[at], p6.0[at], p7.0[at],
        ] = transpose_squares(words.map(|row| row[at]));
    }
    let last = transpose_squares(tails.map(|tail| {
        let mut word = [0; 8];
        word[..tail.len()].copy_from_slice(tail);
        word
    }));
    for (tail, word) in [p0.1, p1.1, p2.1, p3.1, p4.1, p5.1, p6.1, p7.1]
        .into_iter()
        .zip(last)
    {
        tail.copy_from_slice(&word[..tail.len()]);
    }
}

/// Transposes eight squares of 8×8 bits; the bytes at one index of all rows are a square.
///
/// First the squares of 4×4 bits in the upper right and the lower left are swapped, then, within
/// each square of 4×4, those of 2×2, then single bits.
fn transpose_squares(rows: [[u8; 8]; 8]) -> [[u8; 8]; 8] {
    let mut rows = rows.map(u64::from_le_bytes);
    swap_corners::<4>(&mut rows, 0x0f0f_0f0f_0f0f_0f0f);
    swap_corners::<2>(&mut rows, 0x3333_3333_3333_3333);
    swap_corners::<1>(&mut rows, 0x5555_5555_5555_5555);
    rows.map(u64::to_le_bytes)
}

/// Swaps the upper right with the lower left part in all squares of `2 * D` rows and columns. The
/// lowest bit is the leftmost column; `mask` has the left `D` columns of each square.
fn swap_corners<const D: usize>(rows: &mut [u64; 8], mask: u64) {
    for upper in 0..8 {
        if upper & D == 0 {
            let difference = (rows[upper] >> D ^ rows[upper + D]) & mask;
            rows[upper + D] ^= difference;
            rows[upper] ^= difference << D;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_together_for_any_element_and_any_number_of_eights() {
        for (element, count) in [
            (1, 8),
            (1, 72),
            (2, 128),
            (3, 24),
            (4, 8),
            (8, 200),
            (16, 16),
        ] {
            let elements: Vec<u8> = (0..element * count)
                .map(|i| (i * i / 3 + i) as u8)
                .collect();
            let mut planes = vec![0; elements.len()];
            for bit in 0..8 * element {
                for at in 0..count {
                    let value = elements[at * element + bit / 8] >> (bit % 8) & 1;
                    planes[(bit * count + at) / 8] |= value << (at % 8);
                }
            }
            let mut target = vec![0; elements.len()];
            untranspose(&planes, &mut target, element);
            assert_eq!(target, elements, "{count} elements of {element} bytes");
        }
    }

    #[test]
    fn the_default_block_is_the_one_that_writers_use() {
        assert_eq!(
            [1, 2, 3, 8, 100].map(default_block),
            [8192, 4096, 2728, 1024, 128].map(Some)
        );
        assert_eq!(default_block(0), None);
    }

    #[test]
    fn blocks_that_cannot_be_are_refused() {
        assert!(Bitshuffle::new(&[0, 4, 2, 12]).is_none());
        assert!(Bitshuffle::new(&[0, 4, 0]).is_none());
        assert!(Bitshuffle::new(&[0, 4]).is_none());
        assert!(Bitshuffle::new(&[0, 4, 2, 0, 7]).is_none());
        let lz4 = Bitshuffle::new(&[0, 4, 2, 0, 2]).unwrap();
        let no_block = [&[0, 0, 0, 0, 0, 0, 0, 16][..], &[0; 40]].concat();
        assert!(lz4.decode(&no_block, 16).is_err());
        let odd = [&[0, 0, 0, 0, 0, 0, 0, 15, 0, 0, 0, 16][..], &[0; 40]].concat();
        assert!(lz4.decode(&odd, 16).is_err());
    }
}
