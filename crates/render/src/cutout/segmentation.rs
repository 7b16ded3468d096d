//! Neuroglancer's `compressed_segmentation`: blocks of 8 × 8 × 8 labels, each a table of its
//! distinct labels and, for each voxel, an index into the table of as few bits as suffice.
//!
//! Format:
//! <https://github.com/google/neuroglancer/tree/master/src/sliceview/compressed_segmentation>. All
//! numbers are 32-bit little-endian words, and all offsets count words. Blocks that use the same
//! table may share it: the tables written last are remembered, which finds nearly all repetitions,
//! because labels are coherent in space.

mod block;

use std::ops::Range;

use bytemuck::{bytes_of, cast_slice_mut, pod_read_unaligned};
use voltile_base::geometry::Xyz;

use block::{Block, EDGE, Label, VOXELS};

/// The length of a word in bytes.
const WORD: usize = 4;
/// Table offsets have 24 bits.
const MAX_TABLE_OFFSET: usize = 1 << 24;
/// The number of recent tables that are remembered; a power of two.
const TABLES: usize = 1 << 10;

/// Encodes one channel of little-endian labels in z, y, x order; `None` if a table would lie beyond
/// what the format can address.
pub(super) fn encode<L: Label>(labels: &[u8], size: Xyz<u64>) -> Option<Vec<u8>> {
    let size = size.map(|extent| extent as usize);
    let grid = size.map(|extent| extent.div_ceil(EDGE));
    // The file begins with the offset of its only channel; offsets within the channel count from
    // there. A block's header is two words: the offset of its table in the low 24 bits with the
    // number of bits of an index above, and the offset of its indices.
    let headers_end = WORD * (1 + 2 * grid.x * grid.y * grid.z);
    let mut file = Vec::with_capacity(headers_end + labels.len() / 8);
    file.extend(1u32.to_le_bytes());
    file.resize(headers_end, 0);
    let mut tables = RecentTables::new();
    let mut row = vec![[L::zeroed(); VOXELS]; grid.x];
    let mut block = Block::new();
    let mut header = WORD;
    for z in 0..grid.z {
        for y in 0..grid.y {
            read(&mut row, labels, size, EDGE * y, EDGE * z);
            for labels in &row {
                block.index(labels);
                let table = tables.place(block.table(), &mut file);
                if table >= MAX_TABLE_OFFSET {
                    return None;
                }
                let bits = block.bits();
                let indices = u32::try_from(offset_of(file.len())).ok()?;
                block.pack(&mut file);
                file[header..][..WORD].copy_from_slice(&(table as u32 | bits << 24).to_le_bytes());
                file[header + WORD..][..WORD].copy_from_slice(&indices.to_le_bytes());
                header += 2 * WORD;
            }
        }
    }
    Some(file)
}

/// Converts a position in the file, in bytes, to an offset in the channel, in words. The channel
/// begins after the first word of the file.
fn offset_of(place: usize) -> usize {
    place / WORD - 1
}

/// Reads all blocks along x at a position in y and z together, because labels are in memory row by
/// row. Blocks that reach beyond the box are padded with their first label.
fn read<L: Label>(
    blocks: &mut [[L; VOXELS]],
    labels: &[u8],
    size: Xyz<usize>,
    first_y: usize,
    first_z: usize,
) {
    let rows = EDGE.min(size.y - first_y);
    let sections = EDGE.min(size.z - first_z);
    let row_bytes = size.x * L::BYTES;
    let row_at = |y, z| {
        let row = (first_z + z) * size.y + first_y + y;
        &labels[row * row_bytes..][..row_bytes]
    };
    if rows < EDGE || sections < EDGE || !size.x.is_multiple_of(EDGE) {
        let firsts = row_at(0, 0).chunks(EDGE * L::BYTES);
        blocks
            .iter_mut()
            .zip(firsts)
            .for_each(|(block, row)| block.fill(pod_read_unaligned(&row[..L::BYTES])));
    }
    for z in 0..sections {
        for y in 0..rows {
            let place = EDGE * (y + EDGE * z);
            let whole = row_at(y, z).chunks_exact(EDGE * L::BYTES);
            let rest = whole.remainder();
            if !rest.is_empty()
                && let Some(last) = blocks.last_mut()
            {
                cast_slice_mut::<L, u8>(&mut last[place..place + EDGE])[..rest.len()]
                    .copy_from_slice(rest);
            }
            // Separate from the copy of the rest: copies of a constant length are faster.
            for (block, row) in blocks.iter_mut().zip(whole) {
                cast_slice_mut::<L, u8>(&mut block[place..place + EDGE]).copy_from_slice(row);
            }
        }
    }
    blocks
        .as_flattened_mut()
        .iter_mut()
        .for_each(|label| *label = label.to_le());
}

/// The ranges of tables written before, by a hash of their labels.
struct RecentTables(Vec<Range<usize>>);

impl RecentTables {
    fn new() -> Self {
        Self(vec![0..0; TABLES])
    }

    /// Appends a table to the file, unless an equal one is among the recent tables. Returns the
    /// offset of the table or of the equal one.
    fn place<L: Label>(&mut self, table: &[L], file: &mut Vec<u8>) -> usize {
        let hash = table.iter().fold(0, |hash, label| {
            block::hash(hash << 5 ^ label.to_u64() ^ hash)
        });
        let recent = &mut self.0[hash as usize % TABLES];
        let start = file.len();
        table
            .iter()
            .for_each(|label| file.extend_from_slice(bytes_of(&label.to_le())));
        if file[recent.clone()] == file[start..] {
            file.truncate(start);
        } else {
            *recent = start..file.len();
        }
        offset_of(recent.start)
    }
}

#[cfg(test)]
mod tests;
