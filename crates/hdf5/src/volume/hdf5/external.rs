//! Reads datasets stored in external raw files. The library is not used for this, because it opens
//! them by name and would accept a file that has been replaced.
//!
//! The raw files of a dataset, concatenated, contain its elements in C order (HDF5 File Format
//! Specification, message 0x0007, "Data Storage - External Data Files").

use super::bytes::{FileBytes, changed, system};
use super::dataset::StoredDataset;
use super::grid::{Grid, Position, RANK, StoredBox, linear};
use super::identity::FileIdentity;
use super::{library, library_lock};
use crate::volume::{ReadError, Samples};

/// Nearby rows are read together, including the gaps, up to this many bytes.
const MAX_AT_ONCE: u64 = 1 << 20;

/// A raw file that contains part of a dataset, as it was when the dataset was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RawFile {
    /// The file, which may be missing.
    pub identity: FileIdentity,
    /// The file by the name stored in the dataset, if that is a symbolic link.
    pub alias: Option<FileIdentity>,
    /// The byte offset of the part in the raw file.
    pub position: u64,
    /// The length of the part in bytes; `u64::MAX` if unlimited.
    pub length: u64,
}

impl StoredDataset {
    /// Reads a box in stored order into `into`, which already has the box's type and length.
    pub(super) fn read_raw_files(
        &self,
        stored: &StoredBox,
        into: &mut Samples,
    ) -> Result<(), ReadError> {
        let mut elements = Vec::new();
        let mut opened = OpenRawFiles {
            dataset: self,
            files: self.raw.iter().map(|_| None).collect(),
        };
        let shape = self.grid.shape();
        // A grid of whole slices: a slice's place in the grid is its position along the outer axes.
        let slices = Grid::new(shape, &[1, 1, 1, shape[RANK - 2], shape[RANK - 1]]);
        for at in slices.chunks_of(stored) {
            let mut outer = stored.start;
            outer[..RANK - 2].copy_from_slice(&at[..RANK - 2]);
            opened.read_rows(stored, &outer, &mut elements)?;
        }
        // If a file changed while the box was read, the box could mix two states.
        for file in opened.files.iter().flatten() {
            file.ensure_unchanged(&self.place())?;
        }
        let _library = library_lock::lock()?;
        let converted = self.handle().and_then(|handle| {
            library::convert(&handle, self.stored.voxel, &elements, into.bytes_mut())
        });
        converted
            .map_err(|e| self.damaged(&format!("the library cannot convert its elements: {e}")))
    }
}

/// The raw files of a dataset, opened lazily for one box.
struct OpenRawFiles<'a> {
    dataset: &'a StoredDataset,
    /// Each of [`StoredDataset::raw`], once it is open.
    files: Vec<Option<FileBytes>>,
}

impl OpenRawFiles<'_> {
    /// Appends the elements of all rows at one outer position.
    fn read_rows(
        &mut self,
        stored: &StoredBox,
        outer: &Position,
        elements: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        let shape = self.dataset.grid.shape();
        let element = self.dataset.element_bytes;
        let rows = stored.count[RANK - 2];
        // In bytes: the length of the wanted part of a row, the position of the first of these
        // parts in the dataset, and the distance between the beginnings of adjacent rows.
        let row = stored.count[RANK - 1] * element;
        let first = linear(shape, outer).saturating_mul(element);
        let pitch = shape[RANK - 1].saturating_mul(element);
        let rows_at_once = (MAX_AT_ONCE / pitch.max(1)).clamp(1, rows);
        let mut span = Vec::new();
        for start in (0..rows).step_by(rows_at_once as usize) {
            let count = rows_at_once.min(rows - start);
            // From the wanted part of the first of these rows to that of the last.
            span.resize(((count - 1) * pitch + row) as usize, 0);
            self.read(first.saturating_add(start * pitch), &mut span)?;
            for line in span.chunks(pitch.max(1) as usize) {
                elements.extend_from_slice(&line[..row as usize]);
            }
        }
        Ok(())
    }

    /// Reads the bytes from `position` of the dataset, which may lie in several raw files.
    fn read(&mut self, mut position: u64, mut into: &mut [u8]) -> Result<(), ReadError> {
        let dataset = self.dataset;
        // Where the raw file begins in the dataset, in bytes.
        let mut begins = 0u64;
        for (raw, slot) in dataset.raw.iter().zip(&mut self.files) {
            let ends = begins.saturating_add(raw.length);
            if position < ends && !into.is_empty() {
                let length = (ends - position).min(into.len() as u64) as usize;
                let (from_this, from_next) = into.split_at_mut(length);
                let name = raw.identity.path().display();
                let place = format!("{}, raw file {name}", dataset.place());
                let position_in_file = raw.position.saturating_add(position - begins);
                let file = match slot {
                    Some(file) => file,
                    None => slot.insert(open(raw, dataset.file.bytes.is_growing(), &place)?),
                };
                let read = file.read_at(from_this, position_in_file).map_err(|e| {
                    file.ensure_unchanged(&place)
                        .err()
                        .unwrap_or_else(|| system(&place, &e))
                })?;
                // Bytes beyond the end of a raw file are 0, as in the library.
                from_this[read..].fill(0);
                position = ends;
                into = from_next;
            }
            begins = ends;
        }
        if into.is_empty() {
            Ok(())
        } else {
            Err(dataset.damaged("its raw files are shorter than its shape requires"))
        }
    }
}

fn open(raw: &RawFile, growing: bool, place: &str) -> Result<FileBytes, ReadError> {
    FileBytes::open_as(&raw.identity, growing).map_err(|error| {
        if !raw.identity.is_current() {
            changed(place)
        } else if raw.identity.exists() {
            system(place, &error)
        } else {
            ReadError::Missing {
                place: place.to_owned(),
                missing: "the file".to_owned(),
            }
        }
    })
}
