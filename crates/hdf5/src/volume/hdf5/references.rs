//! Tells in which bytes of which files the chunks of a dataset lie, for
//! [`Volume::references`](crate::volume::Volume::references).
//!
//! Contiguous data is referred to as if each section (along the last two axes) were a chunk.

use serde_json::{Value, json};

use super::dataset::{Storage, StoredDataset};
use super::filters;
use super::grid::Grid;
use super::index::Entry;
use super::library::FilterSpec;
use crate::store::Location;
use crate::volume::NoReferences;

/// Chunks in one file: for each its number in the grid, its offset in the file and its length in
/// bytes.
type FileChunks<'a> = (&'a Location, Box<dyn Iterator<Item = (u64, u64, u64)> + 'a>);

impl StoredDataset {
    /// The grid of the chunks that references stand for, or the reason why there are none.
    pub(super) fn referred_grid(&self) -> Result<Grid, String> {
        let outer_axes = match &self.storage {
            Storage::Chunked { .. } => return Ok(self.grid),
            Storage::Contiguous { .. } | Storage::External => self.shape.len().saturating_sub(2),
            Storage::Compact => return Err("its voxels lie in its header".to_owned()),
            Storage::Virtual => return Err("its voxels are those of other datasets".to_owned()),
        };
        let mut section = self.shape.clone();
        section[..outer_axes].fill(1);
        Ok(Grid::new(&self.shape, &section))
    }

    /// The dataset's filters as numcodecs configures them, or the reason why numcodecs cannot
    /// decode the chunks.
    pub(super) fn codecs(&self) -> Result<Vec<Value>, String> {
        if !self.stored.plain || self.stored.significant.is_some() {
            return Err("its numbers are packed".to_owned());
        }
        // Bits that the filters 32022 and 32023 have rounded stay as they are.
        let filters = self
            .filters
            .iter()
            .filter(|filter| !matches!(filter.id, 32022 | 32023));
        let codecs = filters.map(|filter| {
            codec(filter).ok_or_else(|| {
                let name = filters::describe(filter);
                format!("it is stored with the filter {name}, which numcodecs does not have")
            })
        });
        codecs.collect()
    }

    /// The dataset's stored chunks, by the files in which they lie. Reads the chunk index.
    pub(super) fn referred_chunks(&self, grid: &Grid) -> Result<Vec<FileChunks<'_>>, NoReferences> {
        let place = self.place();
        let section_bytes = grid.voxels().saturating_mul(self.stored_bytes() as u64);
        let all_bytes = grid.chunks().saturating_mul(section_bytes);
        let files: Vec<FileChunks<'_>> = match &self.storage {
            Storage::Contiguous {
                address: Some(address),
            } => {
                self.file
                    .bytes
                    .ensure_reaches(address.saturating_add(all_bytes), &place)?;
                vec![(
                    &self.file.location,
                    Box::new(sections(section_bytes, 0, all_bytes, *address)),
                )]
            }
            Storage::External => {
                let problem =
                    "a raw file is missing or too short, or a section of it lies in two raw files";
                let sections = self.sections_of_raw_files(section_bytes, all_bytes);
                sections.ok_or_else(|| NoReferences::unmapped(&self.path, problem))?
            }
            Storage::Chunked { .. } => {
                let entries = self.entries(None)?;
                for entry in entries {
                    let at = self.grid.numbered(entry.number);
                    if !self.is_coded_alike(&at, *entry) {
                        let problem = format!(
                            "its chunk {} was written without some of its filters",
                            self.chunk_name(&at)
                        );
                        return Err(NoReferences::unmapped(&self.path, problem));
                    }
                }
                let end = entries.iter().map(Entry::end).max().unwrap_or(0);
                self.file.bytes.ensure_reaches(end, &place)?;
                let chunks = entries
                    .iter()
                    .map(|entry| (entry.number, entry.address, u64::from(entry.length)));
                vec![(&self.file.location, Box::new(chunks))]
            }
            _ => vec![(&self.file.location, Box::new(std::iter::empty()))],
        };
        self.file.bytes.ensure_unchanged(&place)?;
        Ok(files)
    }

    /// The sections of data in external raw files; `None` if a section lies in two files, or a file
    /// is missing or too short.
    fn sections_of_raw_files(
        &self,
        section_bytes: u64,
        all_bytes: u64,
    ) -> Option<Vec<FileChunks<'_>>> {
        let mut files: Vec<FileChunks<'_>> = Vec::new();
        let mut begin = 0;
        for raw in &self.raw {
            let end = raw.length.saturating_add(begin).min(all_bytes);
            let is_complete = raw.position.saturating_add(end - begin) <= raw.identity.length();
            if !is_complete || !end.is_multiple_of(section_bytes.max(1)) {
                return None;
            }
            let sections = sections(section_bytes, begin, end, raw.position);
            files.push((raw.identity.location(), Box::new(sections)));
            begin = end;
        }
        (begin == all_bytes).then_some(files)
    }
}

/// The sections from byte `begin` to byte `end` of contiguous data; the first lies at `offset` in
/// the file.
fn sections(
    section_bytes: u64,
    begin: u64,
    end: u64,
    offset: u64,
) -> impl Iterator<Item = (u64, u64, u64)> {
    let length = section_bytes.max(1);
    (begin / length..end / length)
        .map(move |number| (number, offset + number * length - begin, length))
}

/// Numcodecs' configuration of a filter, by its registered number; `None` if numcodecs does not
/// read the same bytes.
fn codec(filter: &FilterSpec) -> Option<Value> {
    /// The compressors of Blosc by number. Instead of snappy, which numcodecs is built without,
    /// there is an empty name.
    const COMPRESSORS: [&str; 6] = ["blosclz", "lz4", "lz4hc", "", "zlib", "zstd"];
    let value = |place: usize| filter.values.get(place).copied().unwrap_or(0).cast_signed();
    Some(match filter.id {
        1 => json!({"id": "zlib", "level": value(0)}),
        2 => json!({"id": "shuffle", "elementsize": value(0)}),
        3 => json!({"id": "fletcher32"}),
        307 => json!({"id": "bz2", "level": value(0)}),
        // The first four parameters are versions and sizes.
        32001 => {
            let name = COMPRESSORS.get(value(6) as usize);
            let name = name.filter(|name| !name.is_empty())?;
            json!({"id": "blosc", "cname": name, "clevel": value(4), "shuffle": value(5), "blocksize": 0})
        }
        32015 => json!({"id": "zstd", "level": value(0)}),
        _ => return None,
    })
}
