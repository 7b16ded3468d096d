//! Neuroglancer's `compressed_segmentation`: blocks of 8 × 8 × 8 labels, each a table of its distinct labels and, for each
//! voxel, an index into the table of as few bits as suffice.
//!
//! Format: <https://github.com/google/neuroglancer/tree/master/src/sliceview/compressed_segmentation>. All numbers are
//! 32-bit little-endian words, and all offsets count words. Blocks that use the same table may share it: the tables
//! written last are remembered, which finds nearly all repetitions, because labels are coherent in space.

use crate::geometry::Xyz;

/// The edge of a block.
const EDGE: usize = 8;
/// The number of voxels in a block; blocks at the end of the box are padded.
const VOXELS: usize = EDGE * EDGE * EDGE;
/// Table offsets have 24 bits.
const MOST_TABLE_OFFSET: usize = 1 << 24;
/// How many recent tables are remembered; a power of two.
const TABLES: usize = 1 << 10;

/// A label as the format stores it.
pub(super) trait Label: Copy + Eq + Default {
    const BYTES: usize;
    fn of_bytes(bytes: &[u8]) -> Self;
    fn to_u64(self) -> u64;
    fn write(self, words: &mut Vec<u32>);
}

impl Label for u32 {
    const BYTES: usize = 4;

    fn of_bytes(bytes: &[u8]) -> Self {
        bytes.try_into().map(u32::from_le_bytes).unwrap_or_default()
    }

    fn to_u64(self) -> u64 {
        u64::from(self)
    }

    fn write(self, words: &mut Vec<u32>) {
        words.push(self);
    }
}

impl Label for u64 {
    const BYTES: usize = 8;

    fn of_bytes(bytes: &[u8]) -> Self {
        bytes.try_into().map(u64::from_le_bytes).unwrap_or_default()
    }

    fn to_u64(self) -> u64 {
        self
    }

    fn write(self, words: &mut Vec<u32>) {
        words.extend([self as u32, (self >> 32) as u32]);
    }
}

/// Encodes one channel of little-endian labels in z, y, x order; `None` if a table would lie beyond what the format can
/// address.
pub(super) fn encoded<L: Label>(labels: &[u8], size: Xyz<u64>) -> Option<Vec<u8>> {
    let size = size.map(|extent| extent as usize);
    let grid = size.map(|extent| extent.div_ceil(EDGE));
    let headers = 2 * grid.x * grid.y * grid.z;
    // The file begins with the offset of its only channel; offsets within the channel count from there.
    let mut channel = vec![0; headers];
    channel.reserve(labels.len() / 16);
    let mut tables = RecentTables::new();
    let mut blocks: Vec<Block<L>> = (0..grid.x).map(|_| Block::new()).collect();
    let mut number = 0;
    for z in 0..grid.z {
        for y in 0..grid.y {
            read(&mut blocks, labels, size, EDGE * y, EDGE * z);
            for block in &blocks {
                let table = tables.place(&block.table, &mut channel);
                if table >= MOST_TABLE_OFFSET {
                    return None;
                }
                let (bits, indices) = (block.bits(), channel.len());
                block.pack(bits, &mut channel);
                channel[number] = table as u32 | bits << 24;
                channel[number + 1] = u32::try_from(indices).ok()?;
                number += 2;
            }
        }
    }
    let mut file = Vec::with_capacity(4 * (channel.len() + 1));
    file.extend(1u32.to_le_bytes());
    channel.iter_mut().for_each(|word| *word = word.to_le());
    file.extend_from_slice(bytemuck::cast_slice(&channel));
    Some(file)
}

/// Reads the blocks along x at a position in y and z. They are read together, row by row, because that is the order in
/// memory.
fn read<L: Label>(blocks: &mut [Block<L>], labels: &[u8], size: Xyz<usize>, first_y: usize, first_z: usize) {
    blocks.iter_mut().for_each(Block::clear);
    for z in first_z..size.z.min(first_z + EDGE) {
        for y in first_y..size.y.min(first_y + EDGE) {
            let row = &labels[(z * size.y + y) * size.x * L::BYTES..][..size.x * L::BYTES];
            let place = EDGE * (y - first_y + EDGE * (z - first_z));
            let whole = row.chunks(EDGE * L::BYTES);
            blocks.iter_mut().zip(whole).for_each(|(block, row)| block.add(place, row));
        }
    }
}

/// The labels of one block: a table in order of first appearance, and the index of each voxel's label in it.
struct Block<L> {
    table: Vec<L>,
    indices: [u16; VOXELS],
    /// The row that was added last.
    last: Row<L>,
    /// Finds labels in the table if it is long: open addressing with linear probing, entries are index + 1.
    slots: Box<[u16; SLOTS]>,
}

/// Eight voxels along x.
#[derive(Clone, Copy, Default)]
struct Row<L> {
    labels: [L; EDGE],
    indices: [u16; EDGE],
}

/// Twice the greatest number of distinct labels, so that probing ends.
const SLOTS: usize = 2 * VOXELS;
/// Tables up to this length are searched from the front.
const SHORT: usize = 12;

impl<L: Label> Block<L> {
    fn new() -> Self {
        let (table, indices, last) = (Vec::with_capacity(VOXELS), [0; VOXELS], Row::default());
        Self { table, indices, last, slots: Box::new([0; SLOTS]) }
    }

    /// Removes all labels. Voxels that are not added have index 0.
    fn clear(&mut self) {
        if self.table.len() > SHORT {
            self.slots.fill(0);
        }
        self.table.clear();
        self.indices.fill(0);
    }

    /// Adds up to eight voxels along x.
    #[inline(always)]
    fn add(&mut self, place: usize, bytes: &[u8]) {
        let mut row = Row::default();
        let count = bytes.len() / L::BYTES;
        if count == EDGE {
            row.labels = std::array::from_fn(|x| L::of_bytes(&bytes[x * L::BYTES..][..L::BYTES]));
        } else {
            let each = row.labels.iter_mut().zip(bytes.chunks_exact(L::BYTES));
            each.for_each(|(label, bytes)| *label = L::of_bytes(bytes));
        }
        let is_first = self.table.is_empty();
        // Most rows equal the one before.
        let differences =
            (0..EDGE).fold(0, |all, x| all | (row.labels[x].to_u64() ^ self.last.labels[x].to_u64()));
        if is_first || differences != 0 {
            self.index(&mut row, is_first, count);
            self.last = row;
        }
        self.indices[place..place + EDGE].copy_from_slice(&self.last.indices);
    }

    /// Finds the indices of a row's labels. Most labels equal a neighbour.
    fn index(&mut self, row: &mut Row<L>, is_first: bool, count: usize) {
        for x in 0..count {
            let label = row.labels[x];
            row.indices[x] = if x > 0 && label == row.labels[x - 1] {
                row.indices[x - 1]
            } else if !is_first && label == self.last.labels[x] {
                self.last.indices[x]
            } else {
                find(&mut self.table, &mut self.slots, label)
            };
        }
    }

    /// The number of bits of an index: 0, 1, 2, 4, 8 or 16.
    fn bits(&self) -> u32 {
        match self.table.len() {
            0 | 1 => 0,
            2 => 1,
            3..=4 => 2,
            5..=16 => 4,
            17..=256 => 8,
            _ => 16,
        }
    }

    /// Appends the indices, the first in the lowest bits.
    fn pack(&self, bits: u32, words: &mut Vec<u32>) {
        match bits {
            0 => {}
            1 => packed::<1>(&self.indices, words),
            2 => packed::<2>(&self.indices, words),
            4 => packed::<4>(&self.indices, words),
            8 => packed::<8>(&self.indices, words),
            _ => words.extend(
                self.indices
                    .as_chunks::<2>()
                    .0
                    .iter()
                    .map(|[low, high]| u32::from(*low) | u32::from(*high) << 16),
            ),
        }
    }
}

/// The index of a label in a table, to which it is added if it is new.
fn find<L: Label>(table: &mut Vec<L>, slots: &mut [u16; SLOTS], label: L) -> u16 {
    if table.len() <= SHORT {
        if let Some(index) = table.iter().position(|known| *known == label) {
            return index as u16;
        }
        table.push(label);
        if table.len() > SHORT {
            for (index, known) in table.iter().enumerate() {
                slots[slot_of(table, slots, *known)] = index as u16 + 1;
            }
        }
        return table.len() as u16 - 1;
    }
    let slot = slot_of(table, slots, label);
    if slots[slot] == 0 {
        table.push(label);
        slots[slot] = table.len() as u16;
    }
    slots[slot] - 1
}

/// The slot that holds a label, or the empty one in which it belongs.
fn slot_of<L: Label>(table: &[L], slots: &[u16; SLOTS], label: L) -> usize {
    let mut slot = hash(label.to_u64()) as usize % SLOTS;
    while slots[slot] != 0 && table[slots[slot] as usize - 1] != label {
        slot = (slot + 1) % SLOTS;
    }
    slot
}

/// Multiplicative hashing by 2^64 / φ; the upper bits are the well mixed ones.
fn hash(value: u64) -> u64 {
    value.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
}

/// Packs indices below 2^`BITS`, eight at a time: neighbouring lanes of a 64-bit word are merged until one is left.
fn packed<const BITS: usize>(indices: &[u16; VOXELS], words: &mut Vec<u32>) {
    let mut bits = [0u8; VOXELS];
    let mut length = 0;
    for row in indices.as_chunks::<EDGE>().0 {
        let bytes = u64::from_le_bytes(row.map(|index| index as u8));
        let pairs = match BITS {
            8 => bytes,
            _ => (bytes | bytes >> (8 - BITS)) & 0x00ff_00ff_00ff_00ff,
        };
        let fours = match BITS {
            8 => pairs,
            _ => (pairs | pairs >> (16 - 2 * BITS)) & 0x0000_ffff_0000_ffff,
        };
        let all = match BITS {
            8 => fours,
            _ => fours | fours >> (32 - 4 * BITS),
        };
        bits[length..length + BITS].copy_from_slice(&all.to_le_bytes()[..BITS]);
        length += BITS;
    }
    words.extend(bits[..length].as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)));
}

/// The places of tables written before, by a hash of their labels.
struct RecentTables(Vec<(u32, u32)>);

impl RecentTables {
    fn new() -> Self {
        Self(vec![(0, 0); TABLES])
    }

    /// The offset of a table equal to this one, which is appended unless a recent one is equal.
    fn place<L: Label>(&mut self, table: &[L], channel: &mut Vec<u32>) -> usize {
        let mixed = table.iter().fold(0, |mixed: u64, label| hash(mixed << 5 ^ label.to_u64() ^ mixed));
        let recent = &mut self.0[mixed as usize % TABLES];
        let (offset, words) = (recent.0 as usize, table.len() * L::BYTES / 4);
        let known = channel.get(offset..offset + recent.1 as usize).unwrap_or_default();
        let labels = known
            .chunks_exact(L::BYTES / 4)
            .map(|words| words.iter().rev().fold(0, |label: u64, word| label << 32 | u64::from(*word)));
        if known.len() == words && labels.eq(table.iter().map(|label| label.to_u64())) {
            return offset;
        }
        let offset = channel.len();
        *recent = (offset as u32, words as u32);
        table.iter().for_each(|label| label.write(channel));
        offset
    }
}

#[cfg(test)]
mod tests;
