//! Assembles the output file: writes the chunks of the pieces, and builds the levels above pieces
//! from the stored sums. A family is iterated in the order of its pieces.

use std::vec::IntoIter;

use voltile_base::geometry::Xyz;
use voltile_base::units;
use voltile_hdf5::volume::hdf5::{Writer, pack};
use voltile_hdf5::volume::{Voxel, with_samples};

use super::PyramidError;
use super::build::{FinishedChunk, Tower};
use super::family::{Family, Target};
use super::folder::{PieceId, WorkFolder};
use super::piece::{PieceRecord, RecordKind, records, sums};
use super::tree::EDGE;

/// Writes all levels of a family; all its pieces must exist.
pub(super) fn family(
    family: &Family,
    number: usize,
    folder: &WorkFolder,
    writer: &mut Writer,
) -> Result<(), PyramidError> {
    for target in &family.targets {
        create_dataset(family, target, writer)?;
    }
    with_samples!(family.typed(), typed => write_chunks(family, number, folder, writer, &typed))
}

/// Creates an empty dataset for a level, with attributes that other programs use.
fn create_dataset(
    family: &Family,
    target: &Target,
    writer: &mut Writer,
) -> Result<(), PyramidError> {
    let times = family.channel.times;
    let components = family.volumes().len() as u64;
    let [x, y, z] = target.record.size;
    let chunk = family.chunk(target.height);
    let path = &target.record.path;
    let typed = family.stored_as(target);
    writer.dataset(
        path,
        &typed,
        &[times, components, z, y, x],
        &[1, 1, chunk.z, chunk.y, chunk.x],
    )?;
    writer.texts(path, "DIMENSION_LABELS", &["t", "c", "z", "y", "x"])?;
    let factor = target.record.factor.map(|factor| factor as f64);
    writer.numbers(path, "downsamplingFactors", &factor)?;
    let facts = &family.channel.facts;
    let unit = facts.voxel_unit.as_deref().and_then(units::in_nanometres);
    if let (Some(size), Some(nanometres)) = (facts.voxel_size, unit) {
        let scale = nanometres / units::MICROMETRE;
        let [fx, fy, fz] = factor;
        writer.numbers(
            path,
            "element_size_um",
            &[
                size.z * fz * scale,
                size.y * fy * scale,
                size.x * fx * scale,
            ],
        )?;
    }
    Ok(())
}

/// Writes the chunks of all levels, from the family's pieces. `_typed` only says the voxel type.
fn write_chunks<T: Voxel>(
    family: &Family,
    number: usize,
    folder: &WorkFolder,
    writer: &Writer,
    _typed: &[T],
) -> Result<(), PyramidError> {
    let tree = &family.tree;
    let mut pieces = PieceReader {
        family,
        number,
        folder,
        next: 0,
        records: Vec::new().into_iter(),
    };
    for time in family.times() {
        for component in 0..family.volumes().len() {
            let place = VolumeWriter {
                family,
                writer,
                time,
                component: component as u64,
            };
            for root in tree.roots() {
                family.build::<T>(
                    &root,
                    tree.piece_height,
                    &mut |_, _| pieces.tower::<T>(&place),
                    &mut |done: FinishedChunk| match pack(&done.voxels)? {
                        Some(packed) => place.put(done.height, done.at, &packed),
                        None => Ok(()),
                    },
                )?;
            }
        }
    }
    Ok(())
}

/// The destination of the chunks of one volume at one time point.
struct VolumeWriter<'a> {
    family: &'a Family,
    writer: &'a Writer,
    time: u64,
    component: u64,
}

impl VolumeWriter<'_> {
    fn put(&self, height: u32, at: Xyz<u64>, packed: &[u8]) -> Result<(), PyramidError> {
        let Some(target) = self.family.target(height) else {
            return Ok(());
        };
        let first = at.map(|at| at.saturating_mul(EDGE));
        let origin = [self.time, self.component, first.z, first.y, first.x];
        Ok(self.writer.chunk(&target.record.path, &origin, packed)?)
    }
}

/// The finished pieces of a family, in order.
struct PieceReader<'a> {
    family: &'a Family,
    number: usize,
    folder: &'a WorkFolder,
    next: usize,
    records: IntoIter<PieceRecord>,
}

impl PieceReader<'_> {
    /// Writes the chunks of the next unit; returns its sums.
    fn tower<T: Voxel>(&mut self, place: &VolumeWriter<'_>) -> Result<Tower<T>, PyramidError> {
        let mut tower = Tower::<T>::new();
        loop {
            let Some(record) = self.records.next() else {
                self.load()?;
                continue;
            };
            match record.kind {
                RecordKind::Chunk => place.put(record.height, record.at, &record.packed)?,
                RecordKind::Sums => {
                    let grid = sums::<T>(&record);
                    tower.push(grid.ok_or_else(|| self.damaged(self.current()))?);
                }
                RecordKind::End => return Ok(tower),
            }
        }
    }

    /// Reads the records of the next piece.
    fn load(&mut self) -> Result<(), PyramidError> {
        if self.next >= self.family.pieces.len() {
            // The last piece lacks units.
            return Err(self.damaged(self.current()));
        }
        let bytes = self.folder.read(self.id(self.next))?;
        let records = records(&bytes).ok_or_else(|| self.damaged(self.next))?;
        self.records = records.into_iter();
        self.next += 1;
        Ok(())
    }

    /// The number of the piece that was read last.
    fn current(&self) -> usize {
        self.next.saturating_sub(1)
    }

    /// Removes a damaged piece, so that the next run makes it again; returns the error about it.
    fn damaged(&self, piece: usize) -> PyramidError {
        let id = self.id(piece);
        self.folder.discard(id);
        PyramidError::Piece(self.folder.piece(id))
    }

    fn id(&self, piece: usize) -> PieceId {
        PieceId {
            family: self.number,
            piece,
        }
    }
}
