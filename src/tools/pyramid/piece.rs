//! Pieces: finished parts of the work, each stored in a small file.
//!
//! A piece contains the compressed chunks of its nodes, and the towers of sums that the nodes pass
//! to their parents. Its file has these records, and at the end a digest of all of them, so that
//! truncation and damage are detected. Numbers have 64 bits, the lowest byte first:
//!
//! ```text
//! kind, height, x, y, z, length, then `length` compressed bytes
//! ```

use voltile_base::geometry::Xyz;
use voltile_hdf5::volume::hdf5::PackError;
use voltile_hdf5::volume::{Samples, Voxel, with_samples};

use super::PyramidError;
use super::family::{Family, Unit};
use super::grid::SumGrid;

/// The number of bytes of the digest.
const DIGEST: usize = blake3::OUT_LEN;

/// The kinds of records. The number of a kind in a file is its place in this list.
const KINDS: [RecordKind; 3] = [RecordKind::Chunk, RecordKind::Sums, RecordKind::End];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum RecordKind {
    /// A chunk: the height of its level, its index along each axis, and its compressed voxels.
    Chunk,
    /// The sums that a unit passes to its parent, of one level: their extents, and the compressed
    /// sums.
    Sums,
    /// The end of a unit.
    #[default]
    End,
}

/// A part of a piece; by default the end of a unit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct PieceRecord {
    pub kind: RecordKind,
    /// The height of a chunk's level.
    pub height: u32,
    /// The index of a chunk, or the extents of sums.
    pub at: Xyz<u64>,
    pub packed: Vec<u8>,
}

/// Computes a piece and returns the bytes of its file.
pub(super) fn make(family: &Family, units: &[Unit]) -> Result<Vec<u8>, PyramidError> {
    with_samples!(family.empty_samples(), typed => make_typed(family, units, &typed))
}

/// `_typed` only says the voxel type.
fn make_typed<T: Voxel>(
    family: &Family,
    units: &[Unit],
    _typed: &[T],
) -> Result<Vec<u8>, PyramidError> {
    let mut file = Vec::new();
    let mut block = Samples::default();
    for unit in units {
        let tower = family.build::<T>(
            &unit.node,
            family.tree.read_height,
            &mut |node, sink| family.read::<T>(unit, node, &mut block, sink),
            &mut |chunk| {
                put(&mut file, &chunk);
                Ok(())
            },
        )?;
        for grid in &tower {
            put(&mut file, &pack_sums::<T>(grid)?);
        }
        let end_of_unit = PieceRecord::default();
        put(&mut file, &end_of_unit);
    }
    Ok(seal(file))
}

fn pack_sums<T: Voxel>(grid: &SumGrid<T::Sum>) -> Result<PieceRecord, PackError> {
    let bytes: &[u8] = bytemuck::cast_slice(&grid.sums);
    let packed = zstd::bulk::compress(bytes, 1).map_err(|error| PackError {
        bytes: bytes.len(),
        problem: error.to_string(),
    })?;
    Ok(PieceRecord {
        kind: RecordKind::Sums,
        height: 0,
        at: grid.size.map(|extent| extent as u64),
        packed,
    })
}

/// The sums in a record; `None` if its bytes are invalid.
pub(super) fn sums<T: Voxel>(record: &PieceRecord) -> Option<SumGrid<T::Sum>> {
    let count = usize::try_from(record.at.volume()).ok()?;
    let length = count.checked_mul(size_of::<T::Sum>())?;
    let bytes = zstd::bulk::decompress(&record.packed, length).ok()?;
    if bytes.len() != length {
        return None;
    }
    let mut grid = SumGrid::new(record.at.map(|extent| extent as usize));
    let sums: &mut [u8] = bytemuck::cast_slice_mut(&mut grid.sums);
    sums.copy_from_slice(&bytes);
    Some(grid)
}

/// Adds a record to a file.
fn put(file: &mut Vec<u8>, record: &PieceRecord) {
    let kind = record.kind as u64;
    let height = u64::from(record.height);
    let Xyz { x, y, z } = record.at;
    let length = record.packed.len() as u64;
    for number in [kind, height, x, y, z, length] {
        file.extend(number.to_le_bytes());
    }
    file.extend(&record.packed);
}

/// Adds the digest to a file.
fn seal(mut file: Vec<u8>) -> Vec<u8> {
    let digest = blake3::hash(&file);
    file.extend(digest.as_bytes());
    file
}

/// The records of a file; `None` if it is damaged or truncated.
pub(super) fn records(file: &[u8]) -> Option<Vec<PieceRecord>> {
    let (mut rest, digest) = file.split_last_chunk::<DIGEST>()?;
    if blake3::hash(rest).as_bytes() != digest {
        return None;
    }
    let mut records = Vec::new();
    while !rest.is_empty() {
        let mut numbers = [0; 6];
        for number in &mut numbers {
            let (first, after) = rest.split_first_chunk()?;
            *number = u64::from_le_bytes(*first);
            rest = after;
        }
        let [kind, height, x, y, z, length] = numbers;
        let length = usize::try_from(length).ok()?;
        let (packed, after) = rest.split_at_checked(length)?;
        rest = after;
        let kind = usize::try_from(kind).ok()?;
        records.push(PieceRecord {
            kind: *KINDS.get(kind)?,
            height: u32::try_from(height).ok()?,
            at: Xyz::new(x, y, z),
            packed: packed.to_vec(),
        });
    }
    Some(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_it_was_written_and_only_whole() {
        let grid = SumGrid {
            size: Xyz::new(2, 1, 1),
            sums: vec![7_i64, -9],
        };
        let all = [
            PieceRecord {
                kind: RecordKind::Chunk,
                height: 3,
                at: Xyz::new(1, 2, 3),
                packed: vec![1, 2, 3],
            },
            pack_sums::<u8>(&grid).unwrap(),
            PieceRecord::default(),
        ];
        let mut file = Vec::new();
        all.iter().for_each(|record| put(&mut file, record));
        let bytes = seal(file);
        let read = records(&bytes).unwrap();
        assert_eq!(read, all);
        assert_eq!(sums::<u8>(&read[1]), Some(grid));
        assert_eq!(sums::<u64>(&read[1]), None, "its sums are wider");
        for broken in [
            &bytes[..bytes.len() - 1],
            &bytes[1..],
            &[],
            &bytes[..DIGEST],
        ] {
            assert_eq!(records(broken), None);
        }
    }

    #[test]
    fn a_kind_is_numbered_by_its_place() {
        assert_eq!(KINDS.map(|kind| kind as usize), [0, 1, 2]);
    }
}
