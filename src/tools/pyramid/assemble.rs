//! Assembles the output file: writes the chunks of the pieces, and builds the levels above pieces
//! from the stored sums. The nodes of a family are visited in the order of its pieces.

use std::ops::Range;
use std::vec::IntoIter;

use voltile_base::units;
use voltile_hdf5::volume::hdf5::{WriteError, Writer};
use voltile_hdf5::volume::{Voxel, with_samples};

use super::PyramidError;
use super::build::Tower;
use super::family::{Family, Target};
use super::folder::{PieceId, WorkFolder};
use super::piece::{PieceRecord, RecordKind, records, sums};
use super::tree::EDGE;

/// Writes all levels of a family; all its pieces must exist.
pub(super) fn write_family(
    family: &Family,
    number: usize,
    folder: &WorkFolder,
    writer: &mut Writer,
) -> Result<(), PyramidError> {
    for target in &family.targets {
        create_dataset(family, target, writer)?;
    }
    let samples = family.empty_samples();
    with_samples!(samples, typed => write_chunks(family, number, folder, writer, &typed))
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
    let samples = family.empty_samples_of(target);
    writer.dataset(
        path,
        &samples,
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
        folder,
        unread: 0..family.pieces.len(),
        current: PieceId {
            family: number,
            piece: 0,
        },
        records: Vec::new().into_iter(),
    };
    for time in family.times() {
        for component in 0..family.volumes().len() {
            let write_chunk = |chunk: &PieceRecord| {
                let Some(target) = family.target(chunk.height) else {
                    return Ok(());
                };
                let first = chunk.at.map(|at| at.saturating_mul(EDGE));
                let origin = [time, component as u64, first.z, first.y, first.x];
                writer.chunk(&target.record.path, &origin, &chunk.packed)
            };
            for root in tree.roots() {
                family.build::<T>(
                    &root,
                    tree.piece_height,
                    &mut |_, _| pieces.next_tower::<T>(&write_chunk),
                    &mut |chunk| Ok(write_chunk(&chunk)?),
                )?;
            }
        }
    }
    Ok(())
}

/// The finished pieces of a family, in order.
struct PieceReader<'a> {
    folder: &'a WorkFolder,
    /// The numbers of the pieces that have not been read yet.
    unread: Range<usize>,
    /// The piece that was read last; before that, the first one.
    current: PieceId,
    /// The records of the current piece that have not been read yet.
    records: IntoIter<PieceRecord>,
}

impl PieceReader<'_> {
    /// Writes the chunks of the next unit with `write_chunk`; returns the unit's sums.
    fn next_tower<T: Voxel>(
        &mut self,
        write_chunk: &dyn Fn(&PieceRecord) -> Result<(), WriteError>,
    ) -> Result<Tower<T>, PyramidError> {
        let mut tower = Tower::<T>::new();
        loop {
            let Some(record) = self.records.next() else {
                self.read_next_piece()?;
                continue;
            };
            match record.kind {
                RecordKind::Chunk => write_chunk(&record)?,
                RecordKind::Sums => {
                    tower.push(sums::<T>(&record).ok_or_else(|| self.discard_damaged())?);
                }
                RecordKind::End => return Ok(tower),
            }
        }
    }

    /// Reads the records of the next piece.
    fn read_next_piece(&mut self) -> Result<(), PyramidError> {
        // If no piece is left, the last one lacks units.
        self.current.piece = self.unread.next().ok_or_else(|| self.discard_damaged())?;
        let bytes = self.folder.read(self.current)?;
        let records = records(&bytes).ok_or_else(|| self.discard_damaged())?;
        self.records = records.into_iter();
        Ok(())
    }

    /// Removes the current piece, which is damaged, so that the next run makes it again. Returns
    /// the error about it.
    fn discard_damaged(&self) -> PyramidError {
        self.folder.discard(self.current);
        PyramidError::Piece(self.folder.piece_name(self.current))
    }
}
