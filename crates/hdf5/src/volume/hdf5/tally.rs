//! The stored size of a dataset, and the cost of reading part of it.
//!
//! Both are computed from the chunk index and the grid; see [`crate::volume::ReadCost`] for what is
//! counted. The wanted voxels are given as runs of positions along each stored axis, so the number
//! of chunks is a product over the axes.

use std::ops::Range;
use std::slice;

use super::dataset::{Storage, StoredDataset};
use super::filters;
use super::grid::{RANK, product};
use crate::volume::{ReadCost, ReadError, Tally};

/// The maximum number of voxels in a chunk that is decoded merely to test whether a dataset can be
/// read: the library always decodes whole chunks.
const MAX_LIGHT_CHUNK: u64 = 1 << 23;
/// The smallest unit that the system reads from a disk, in bytes.
const PAGE: u64 = 4096;

impl StoredDataset {
    /// Whether reading one voxel through the library is cheap.
    pub(super) fn is_light(&self) -> bool {
        match &self.storage {
            Storage::Chunked { .. } => self.grid.voxels() <= MAX_LIGHT_CHUNK,
            _ => true,
        }
    }

    /// Its stored size, from the chunk index.
    pub(super) fn tally(&self) -> Result<Tally, ReadError> {
        let all_bytes = product(self.grid.shape()).saturating_mul(self.element_bytes);
        let empty = Tally {
            datasets: 1,
            ..Tally::default()
        };
        Ok(match &self.storage {
            Storage::Chunked { .. } => {
                let entries = self.entries(None)?;
                let chunks_written = entries.len() as u64;
                Tally {
                    chunks: self.grid.chunks(),
                    chunks_written,
                    stored_bytes: entries.iter().map(|entry| u64::from(entry.length)).sum(),
                    raw_bytes: chunks_written.saturating_mul(self.chunk_bytes()),
                    ..empty
                }
            }
            Storage::Contiguous { address: None } | Storage::Virtual => empty,
            Storage::Contiguous { .. } | Storage::Compact | Storage::External => Tally {
                stored_bytes: all_bytes,
                raw_bytes: all_bytes,
                ..empty
            },
        })
    }

    /// How the dataset is read, and why: the text that follows the word "read" in reports.
    pub(super) fn reading(&self) -> String {
        if self.is_unfiltered() {
            return "from the mapped file, only the pages needed".to_owned();
        }
        if self.pieces_at.is_some() {
            return "in pieces of whole rows, in parallel".to_owned();
        }
        if self.is_decoded_directly() {
            return "by voltile itself, chunks in parallel".to_owned();
        }
        let why = match &self.storage {
            Storage::Chunked { .. } if !self.stored.plain => {
                "only the library converts its number format".to_owned()
            }
            Storage::Chunked { .. } => {
                let names: Vec<String> = self.filters.iter().map(filters::describe).collect();
                format!("voltile does not decode {} itself", names.join(" with "))
            }
            Storage::Contiguous { address: None } => "no data was ever written".to_owned(),
            Storage::Contiguous { .. } => "its number format or its file requires it".to_owned(),
            Storage::Compact => "it is compact: stored in its object header".to_owned(),
            Storage::External => "it is stored in raw files".to_owned(),
            Storage::Virtual => "it is a virtual dataset".to_owned(),
        };
        format!("through the HDF5 library, one box at a time, because {why}")
    }

    /// The size of a whole decoded chunk, in bytes.
    pub(super) fn chunk_bytes(&self) -> u64 {
        self.grid.voxels().saturating_mul(self.element_bytes)
    }

    /// The cost of reading these positions along each stored axis; `None` for virtual datasets,
    /// where it depends on the sources.
    pub(super) fn cost(&self, wanted: &[Vec<Range<u64>>; RANK], tally: &Tally) -> Option<ReadCost> {
        match &self.storage {
            Storage::Chunked { .. } if tally.chunks_written == 0 => Some(ReadCost::default()),
            Storage::Chunked { .. } if !self.filters.is_empty() || !self.stored.plain => {
                let mut chunks = 1u64;
                for (runs, edge) in wanted.iter().zip(self.grid.chunk()) {
                    chunks = chunks.saturating_mul(chunks_touched(runs, *edge));
                }
                let cost_of_chunk = ReadCost {
                    reads: 1,
                    bytes_read: tally.stored_bytes / tally.chunks_written,
                    bytes_inflated: self.chunk_bytes(),
                };
                Some(cost_of_chunk.times(chunks))
            }
            // Without chunks, the grid has one chunk, the whole dataset, or the pieces in which data
            // in a store is read.
            Storage::Chunked { .. }
            | Storage::Contiguous { address: Some(_) }
            | Storage::External => Some(unfiltered_cost(
                self.grid.chunk(),
                wanted,
                self.element_bytes,
            )),
            Storage::Contiguous { address: None } | Storage::Compact => Some(ReadCost::default()),
            Storage::Virtual => None,
        }
    }
}

/// The number of chunks that ascending runs intersect along an axis, each counted once. `edge` is
/// the extent of a chunk.
fn chunks_touched(runs: &[Range<u64>], edge: u64) -> u64 {
    // The first chunk that is not counted yet.
    let mut next = 0;
    let mut count = 0;
    for run in runs.iter().filter(|run| !run.is_empty()) {
        let first = (run.start / edge).max(next);
        let end = (run.end - 1) / edge + 1;
        count += end.saturating_sub(first);
        next = end.max(next);
    }
    count
}

/// The cost of reading unfiltered voxels. Along each axis, the borders of chunks divide the runs
/// into parts, which are assumed to be equally long. So the parts form equal boxes, each in one
/// chunk, and the cost of one box is multiplied by their number.
fn unfiltered_cost(chunk: &[u64], wanted: &[Vec<Range<u64>>], element_bytes: u64) -> ReadCost {
    let mut extents = Vec::new();
    let mut boxes = 1u64;
    for (runs, edge) in wanted.iter().zip(chunk) {
        let mut parts_along_axis = 0u64;
        for run in runs {
            parts_along_axis += chunks_touched(slice::from_ref(run), *edge);
        }
        extents.push(positions(runs).div_ceil(parts_along_axis.max(1)));
        boxes = boxes.saturating_mul(parts_along_axis);
    }
    box_cost(chunk, &extents, element_bytes).times(boxes)
}

/// The number of positions in runs.
fn positions(runs: &[Range<u64>]) -> u64 {
    runs.iter().map(|run| run.end - run.start).sum()
}

/// The cost of reading a box of these extents in a dense array of this shape, in whole pages. Runs
/// less than a page apart count as one: with 1-byte elements, a box of [1, 3, 10] in a shape of
/// [9, 9, 100] is one run of 210 bytes, in a shape of [9, 9, 10000] it is three runs of 10 bytes.
fn box_cost(shape: &[u64], extents: &[u64], element_bytes: u64) -> ReadCost {
    // The distance between adjacent positions along the axis, in bytes.
    let mut stride = element_bytes;
    // The length in bytes, and the number, of the runs along the axes so far.
    let mut run = element_bytes;
    let mut reads = 1u64;
    for (extent, wanted) in shape.iter().zip(extents).rev() {
        if stride <= run.saturating_add(PAGE) {
            // One run, gaps included: from the first of the wanted positions to the end of the last.
            run = wanted
                .saturating_sub(1)
                .saturating_mul(stride)
                .saturating_add(run);
        } else {
            // The positions are too far apart: a run for each.
            reads = reads.saturating_mul(*wanted);
        }
        stride = stride.saturating_mul(*extent);
    }
    ReadCost {
        reads,
        bytes_read: reads.saturating_mul(run.div_ceil(PAGE).saturating_mul(PAGE)),
        bytes_inflated: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(run: Range<u64>) -> Vec<Range<u64>> {
        vec![run]
    }

    #[test]
    fn a_chunk_is_counted_once_however_many_runs_touch_it() {
        assert_eq!(chunks_touched(&one(0..512), 64), 8);
        assert_eq!(chunks_touched(&one(63..65), 64), 2);
        assert_eq!(
            chunks_touched(&[0..1, 5..6, 63..64, 64..65, 300..301], 64),
            3
        );
    }

    #[test]
    fn voxels_without_filters_are_read_in_pages() {
        let shape = [100, 2048, 8192];
        let cost = |z: Range<u64>, y: Range<u64>, x: Range<u64>| {
            unfiltered_cost(&shape, &[one(z), one(y), one(x)], 1)
        };
        let xy = cost(0..1, 0..512, 0..512);
        assert_eq!((xy.reads, xy.bytes_read), (512, 512 * PAGE));
        let yz = cost(0..100, 0..512, 7..8);
        assert_eq!((yz.reads, yz.bytes_read), (100 * 512, 100 * 512 * PAGE));
        // Rows are shorter than a page, so everything between the first and the last voxel is read.
        let narrow = unfiltered_cost(&[100, 512, 512], &[one(0..100), one(0..512), one(7..8)], 1);
        assert_eq!(
            (narrow.reads, narrow.bytes_read),
            (1, (100 * 512 * 512u64 - 511).div_ceil(PAGE) * PAGE)
        );
    }

    #[test]
    fn of_chunks_without_filters_only_wanted_pages_are_read() {
        let chunk = [64, 64, 64];
        let plane = unfiltered_cost(&chunk, &[one(9..10), one(0..512), one(0..512)], 1);
        assert_eq!((plane.reads, plane.bytes_read), (64, 64 * PAGE));
        let across = unfiltered_cost(&chunk, &[one(0..64), one(9..10), one(0..128)], 1);
        assert_eq!(
            (across.reads, across.bytes_read),
            (2, 2 * (63 * 4096 + 64u64).div_ceil(PAGE) * PAGE)
        );
    }
}
