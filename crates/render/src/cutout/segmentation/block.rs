//! The labels of one block: a table in order of first appearance, and the index of each voxel's
//! label in it.
//!
//! Blocks have few distinct labels: 1 to 3 on average in segmentations of cells, 12 where neurites
//! are split into supervoxels. So all voxels are compared with one label after the other, many at a
//! time and without branches. Keys of 16 bits are compared: the low bits if the labels differ in no
//! other bits, or else hashes, in which case the result is checked. Only in blocks of many labels
//! are voxels looked up one by one, in a hash table.

use bytemuck::Pod;
use voltile_base::simd::multiversion;

/// The edge of a block.
pub(super) const EDGE: usize = 8;
/// The number of voxels in a block.
pub(super) const VOXELS: usize = EDGE * EDGE * EDGE;
/// Maximum number of labels with which all voxels of a block are compared.
const FEW: usize = 32;
/// In place of an index: the voxel's label is not in the table yet.
const NONE: u8 = u8::MAX;
/// Twice the greatest number of distinct labels, so that probing ends.
const SLOTS: usize = 2 * VOXELS;

/// A label as the format stores it.
pub(in crate::cutout) trait Label: Pod + Eq + Into<u64> {
    const BYTES: usize = size_of::<Self>();

    /// To little-endian from the machine's order, or the other way round.
    fn to_le(self) -> Self;

    fn to_u64(self) -> u64 {
        self.into()
    }
}

impl Label for u32 {
    fn to_le(self) -> Self {
        u32::to_le(self)
    }
}

impl Label for u64 {
    fn to_le(self) -> Self {
        u64::to_le(self)
    }
}

/// The table and the indices of one block; its memory is used again for the next.
pub(super) struct Block<L> {
    table: Vec<L>,
    /// The low bytes of the indices.
    indices: [u8; VOXELS],
    /// Their high bytes, if the table has more than 256 labels.
    high: [u8; VOXELS],
    /// Finds labels in the table: open addressing with linear probing, entries are index + 1.
    slots: Box<[u16; SLOTS]>,
}

impl<L: Label> Block<L> {
    pub(super) fn new() -> Self {
        Self {
            table: Vec::with_capacity(VOXELS),
            indices: [0; VOXELS],
            high: [0; VOXELS],
            slots: Box::new([0; SLOTS]),
        }
    }

    /// The distinct labels.
    pub(super) fn table(&self) -> &[L] {
        &self.table
    }

    /// Computes the table and the indices of the next block.
    pub(super) fn index(&mut self, labels: &[L; VOXELS]) {
        self.table.clear();
        let differing_bits = differing_bits(labels);
        if differing_bits == 0 {
            self.table.push(labels[0]);
            return;
        }
        let is_done = if differing_bits <= u64::from(u16::MAX) {
            self.compare(labels, &low_bits(labels))
        } else {
            self.compare(labels, &hashes(labels)) && self.is_right(labels)
        };
        if !is_done {
            self.look_up(labels);
        }
    }

    /// Compares the keys of all voxels with the key of one label after the other, of at most `FEW`
    /// labels. Returns whether each voxel has one of these keys.
    fn compare(&mut self, labels: &[L; VOXELS], keys: &[u16; VOXELS]) -> bool {
        self.indices.fill(NONE);
        let mut first = 0;
        for index in 0..FEW {
            self.table.push(labels[first]);
            assign(keys, keys[first], index as u8, &mut self.indices);
            match memchr::memchr(NONE, &self.indices[first..]) {
                Some(distance) => first += distance,
                None => return true,
            }
        }
        false
    }

    /// Whether the indices lead to the labels: two labels may have the same hash.
    fn is_right(&self, labels: &[L; VOXELS]) -> bool {
        labels
            .iter()
            .zip(&self.indices)
            .all(|(label, index)| self.table[usize::from(*index)] == *label)
    }

    /// Looks up the label of each voxel in the hash table, unless the voxel before has the same.
    fn look_up(&mut self, labels: &[L; VOXELS]) {
        self.table.clear();
        self.slots.fill(0);
        let mut last = None;
        let mut index = 0;
        for (place, label) in labels.iter().enumerate() {
            if last != Some(*label) {
                last = Some(*label);
                index = self.find(*label);
            }
            [self.indices[place], self.high[place]] = index.to_le_bytes();
        }
    }

    /// The index of a label in the table, to which it is added if it is new.
    fn find(&mut self, label: L) -> u16 {
        let mut slot = hash(label.to_u64()) as usize % SLOTS;
        while self.slots[slot] != 0 && self.table[self.slots[slot] as usize - 1] != label {
            slot = (slot + 1) % SLOTS;
        }
        if self.slots[slot] == 0 {
            self.table.push(label);
            self.slots[slot] = self.table.len() as u16;
        }
        self.slots[slot] - 1
    }

    /// The number of bits of an index: 0, 1, 2, 4, 8 or 16.
    pub(super) fn bits(&self) -> u32 {
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
    pub(super) fn pack(&self, file: &mut Vec<u8>) {
        match self.bits() {
            0 => {}
            1 => pack::<1>(&self.indices, file),
            2 => pack::<2>(&self.indices, file),
            4 => pack::<4>(&self.indices, file),
            8 => file.extend_from_slice(&self.indices),
            _ => file.extend(
                self.indices
                    .iter()
                    .zip(&self.high)
                    .flat_map(|(low, high)| [*low, *high]),
            ),
        }
    }
}

multiversion! {
    /// The bits in which any labels of a block differ.
    [L: Label] [L]
    fn differing_bits(labels: &[L; VOXELS]) -> u64 {
        let first = labels[0].to_u64();
        labels.iter().fold(0, |all, label| all | (first ^ label.to_u64()))
    }
}

multiversion! {
    [L: Label] [L]
    fn low_bits(labels: &[L; VOXELS]) -> [u16; VOXELS] {
        std::array::from_fn(|voxel| labels[voxel].to_u64() as u16)
    }
}

multiversion! {
    [L: Label] [L]
    fn hashes(labels: &[L; VOXELS]) -> [u16; VOXELS] {
        std::array::from_fn(|voxel| short_hash(labels[voxel].to_u64()))
    }
}

/// A hash by 32-bit products, because not all processors have vectors of longer ones. The factors
/// are those of xxHash.
#[inline(always)]
pub(super) fn short_hash(label: u64) -> u16 {
    let low = label as u32;
    let high = (label >> 32) as u32;
    (low.wrapping_mul(0x9E37_79B1)
        .wrapping_add(high.wrapping_mul(0x85EB_CA77))
        >> 16) as u16
}

multiversion! {
    /// Sets the indices of all voxels that have a key.
    fn assign(keys: &[u16; VOXELS], key: u16, index: u8, indices: &mut [u8; VOXELS]) {
        for (voxel_index, voxel_key) in indices.iter_mut().zip(keys) {
            *voxel_index = if *voxel_key == key { index } else { *voxel_index };
        }
    }
}

/// Multiplicative hashing by 2^64 / φ; the upper bits are the well mixed ones.
pub(super) fn hash(value: u64) -> u64 {
    value.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
}

/// Packs indices below 2^`BITS`, eight at a time: the low bits of neighbouring bytes of a 64-bit
/// word are moved together, then those of pairs of bytes, then those of fours.
fn pack<const BITS: usize>(indices: &[u8; VOXELS], file: &mut Vec<u8>) {
    let mut bits = [0; VOXELS / 2];
    let mut length = 0;
    for row in indices.as_chunks::<EDGE>().0 {
        let bytes = u64::from_le_bytes(*row);
        let pairs = (bytes | bytes >> (8 - BITS)) & 0x00ff_00ff_00ff_00ff;
        let fours = (pairs | pairs >> (16 - 2 * BITS)) & 0x0000_ffff_0000_ffff;
        let all = fours | fours >> (32 - 4 * BITS);
        bits[length..length + BITS].copy_from_slice(&all.to_le_bytes()[..BITS]);
        length += BITS;
    }
    file.extend_from_slice(&bits[..length]);
}
