//! Pieces: finished parts of the work, each stored in a small file.
//!
//! A piece contains the compressed chunks of its nodes, and the towers of sums that they pass to their parents. A file
//! ends with a digest of the rest, so that truncation and damage are detected.

use super::PyramidError;
use super::build::{FinishedChunk, Tower};
use super::family::{Family, Unit};
use super::grid::Grid;
use crate::geometry::Xyz;
use crate::volume::hdf5::{PackError, pack};
use crate::volume::{Samples, Voxel, with_samples};

const DIGEST: usize = blake3::OUT_LEN;
/// Record types: the first number of a record.
const CHUNK: u64 = 1;
const TOWER: u64 = 2;

/// A part of a piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Record {
    /// A chunk: the height of its level, its index along each axis, and its compressed voxels.
    Chunk { height: u32, at: Xyz<u64>, packed: Vec<u8> },
    /// The sums that the unit passes to its parent, level by level: extents and compressed sums. The last record of
    /// every unit.
    Tower(Vec<(Xyz<u64>, Vec<u8>)>),
}

/// Computes a piece and returns the bytes of its file.
pub(super) fn make(family: &Family, units: &[Unit]) -> Result<Vec<u8>, PyramidError> {
    with_samples!(family.typed(), typed => make_typed(family, units, &typed))
}

fn make_typed<T: Voxel>(family: &Family, units: &[Unit], _typed: &[T]) -> Result<Vec<u8>, PyramidError> {
    let mut file = File::default();
    let mut block = Samples::default();
    for unit in units {
        let mut sink = |done: FinishedChunk| {
            if let Some(packed) = pack(&done.voxels)? {
                file.put(&Record::Chunk { height: done.height, at: done.at, packed });
            }
            Ok(())
        };
        let tower = family.build::<T>(
            &unit.node,
            family.tree.read,
            &mut |node, sink| family.read::<T>(unit, node, &mut block, sink),
            &mut sink,
        )?;
        file.put(&Record::Tower(tower.iter().map(packed_grid::<T>).collect::<Result<_, _>>()?));
    }
    Ok(file.finish())
}

fn packed_grid<T: Voxel>(grid: &Grid<T::Sum>) -> Result<(Xyz<u64>, Vec<u8>), PackError> {
    let bytes: &[u8] = bytemuck::cast_slice(&grid.sums);
    let packed = zstd::bulk::compress(bytes, 1)
        .map_err(|error| PackError { bytes: bytes.len(), problem: error.to_string() })?;
    Ok((grid.size.map(|extent| extent as u64), packed))
}

/// The tower in a record; `None` if its bytes are invalid.
pub(super) fn tower<T: Voxel>(grids: &[(Xyz<u64>, Vec<u8>)]) -> Option<Tower<T>> {
    let grid = |(size, packed): &(Xyz<u64>, Vec<u8>)| {
        let count = usize::try_from(size.volume()).ok()?;
        let most = count.checked_mul(size_of::<T::Sum>())?;
        let bytes = zstd::bulk::decompress(packed, most).ok()?;
        let mut grid = Grid::new(size.map(|extent| extent as usize));
        let sums: &mut [u8] = bytemuck::cast_slice_mut(&mut grid.sums);
        (bytes.len() == sums.len()).then(|| sums.copy_from_slice(&bytes))?;
        Some(grid)
    };
    grids.iter().map(grid).collect()
}

/// A file being written.
#[derive(Default)]
struct File(Vec<u8>);

impl File {
    fn put(&mut self, record: &Record) {
        match record {
            Record::Chunk { height, at, packed } => {
                self.numbers(&[CHUNK, u64::from(*height), at.x, at.y, at.z]);
                self.bytes(packed);
            }
            Record::Tower(grids) => {
                self.numbers(&[TOWER, grids.len() as u64]);
                for (size, packed) in grids {
                    self.numbers(&[size.x, size.y, size.z]);
                    self.bytes(packed);
                }
            }
        }
    }

    fn numbers(&mut self, numbers: &[u64]) {
        numbers.iter().for_each(|number| self.0.extend(number.to_le_bytes()));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.numbers(&[bytes.len() as u64]);
        self.0.extend(bytes);
    }

    fn finish(mut self) -> Vec<u8> {
        let digest = blake3::hash(&self.0);
        self.0.extend(digest.as_bytes());
        self.0
    }
}

/// The records of a file; `None` if it is damaged or truncated.
pub(super) fn records(file: &[u8]) -> Option<Vec<Record>> {
    let (mut rest, digest) = file.split_at_checked(file.len().checked_sub(DIGEST)?)?;
    if blake3::hash(rest).as_bytes() != digest {
        return None;
    }
    let mut records = Vec::new();
    while !rest.is_empty() {
        records.push(record(&mut rest)?);
    }
    Some(records)
}

fn record(rest: &mut &[u8]) -> Option<Record> {
    match number(rest)? {
        CHUNK => {
            let height = u32::try_from(number(rest)?).ok()?;
            Some(Record::Chunk { height, at: triple(rest)?, packed: bytes(rest)? })
        }
        TOWER => {
            let count = number(rest)?;
            let grids = (0..count).map(|_| Some((triple(rest)?, bytes(rest)?)));
            Some(Record::Tower(grids.collect::<Option<_>>()?))
        }
        _ => None,
    }
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    let (first, others) = rest.split_first_chunk()?;
    *rest = others;
    Some(u64::from_le_bytes(*first))
}

fn triple(rest: &mut &[u8]) -> Option<Xyz<u64>> {
    Some(Xyz::new(number(rest)?, number(rest)?, number(rest)?))
}

fn bytes(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let length = usize::try_from(number(rest)?).ok()?;
    let (bytes, others) = rest.split_at_checked(length)?;
    *rest = others;
    Some(bytes.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_it_was_written_and_only_whole() {
        let grid = Grid { size: Xyz::new(2, 1, 1), sums: vec![7_i64, -9] };
        let all = [
            Record::Chunk { height: 3, at: Xyz::new(1, 2, 3), packed: vec![1, 2, 3] },
            Record::Tower(vec![packed_grid::<u8>(&grid).unwrap()]),
            Record::Tower(Vec::new()),
        ];
        let mut file = File::default();
        all.iter().for_each(|record| file.put(record));
        let bytes = file.finish();
        let read = records(&bytes).unwrap();
        assert_eq!(read, all);
        let Record::Tower(grids) = &read[1] else { panic!() };
        assert_eq!(tower::<u8>(grids), Some(vec![grid]));
        assert_eq!(tower::<u64>(grids), None, "its sums are wider");
        for broken in [&bytes[..bytes.len() - 1], &bytes[1..], &[], &bytes[..DIGEST]] {
            assert_eq!(records(broken), None);
        }
    }
}
