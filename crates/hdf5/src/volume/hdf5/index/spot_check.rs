//! Checks a chunk index against single lookups: a few listed chunks, and a few that are not listed.
//!
//! The library has different code for iterating over all chunks and for looking up one chunk; its
//! own reads use only the lookup. If the two disagree, tiles would silently show voxels from the
//! wrong place. Therefore, after reading an index, some listed and some unlisted chunks are looked
//! up, and the stored bytes are compared. Damage to a single chunk (an address beyond the end of
//! the file, for example) is not an error here; it is reported when that chunk is read.

use hdf5::Dataset;

use super::entry::Entry;
use crate::volume::hdf5::file::StoredFile;
use crate::volume::hdf5::grid::{Grid, RANK};
use crate::volume::hdf5::library;

/// The maximum number of bytes that are compared, of all chunks together.
const MAX_COMPARED: u64 = 8 << 20;

/// A dataset whose index is to be checked.
pub(super) struct SpotCheck<'a> {
    pub file: &'a StoredFile,
    pub handle: &'a Dataset,
    pub grid: &'a Grid,
}

impl SpotCheck<'_> {
    /// Compares entries, sorted by number, with lookups. The error names the chunk that differs.
    pub fn run(&self, entries: &[Entry]) -> Result<(), String> {
        let mut pairs = entries.windows(2);
        if let Some(twice) = pairs.find(|pair| pair[0].number == pair[1].number) {
            let origin = self.origin(twice[0].number);
            return Err(disagreement(&origin, "is listed twice"));
        }
        let mut budget = MAX_COMPARED;
        for place in spread(entries.len() as u64) {
            self.check_listed(&entries[place as usize], &mut budget)?;
        }
        let missing = self.grid.chunks().saturating_sub(entries.len() as u64);
        spread(missing)
            .into_iter()
            .try_for_each(|place| self.check_unlisted(unlisted(entries, place)))
    }

    /// Looks up a listed chunk, and compares its bytes if they are not more than `budget`.
    fn check_listed(&self, entry: &Entry, budget: &mut u64) -> Result<(), String> {
        let origin = self.origin(entry.number);
        let wrong = |problem: &str| Err(disagreement(&origin, problem));
        let Ok(lookup) = library::read_chunk(self.handle, &origin, &mut []) else {
            return wrong("is listed, but a lookup does not find it");
        };
        let Entry { length, mask, .. } = *entry;
        if lookup.length != length || lookup.mask != mask {
            return wrong(&format!(
                "is listed with {length} bytes and filter mask {mask:#x}, but a lookup gives {} bytes and {:#x}",
                lookup.length, lookup.mask
            ));
        }
        let length = u64::from(length);
        // Over a network, the chunk would be fetched twice.
        if length > *budget || self.file.bytes.is_remote() {
            return Ok(());
        }
        *budget -= length;
        if self.holds_other_bytes(entry, &origin) {
            return wrong(&format!(
                "is listed at byte {}, but its bytes are not the ones stored there",
                entry.address
            ));
        }
        Ok(())
    }

    /// Whether the bytes at the listed address can be read but differ from the bytes that the
    /// lookup returns.
    fn holds_other_bytes(&self, entry: &Entry, origin: &[u64]) -> bool {
        let length = entry.length as usize;
        let Ok(listed) = self.file.bytes.fetch(entry.address, length, "") else {
            return false;
        };
        let mut looked_up = vec![0; length];
        library::read_chunk(self.handle, origin, &mut looked_up).is_ok() && looked_up != *listed
    }

    /// Looks up a chunk that is not listed, which must fail.
    fn check_unlisted(&self, number: u64) -> Result<(), String> {
        let origin = self.origin(number);
        if library::read_chunk(self.handle, &origin, &mut []).is_err() {
            return Ok(());
        }
        let problem = "is not listed, but a lookup finds it";
        Err(disagreement(&origin, problem))
    }

    /// The first voxel of a chunk, with one number per axis of the dataset.
    fn origin(&self, number: u64) -> Vec<u64> {
        let padding = RANK - self.handle.ndim().min(RANK);
        self.grid.origin(&self.grid.numbered(number))[padding..].to_vec()
    }
}

fn disagreement(origin: &[u64], problem: &str) -> String {
    format!(
        "the list of its chunks is wrong: the chunk at {origin:?} {problem}. Either the file is damaged or still being \
         written, or this is a bug in the HDF5 library, which should be reported; a copy made with h5repack may be \
         readable"
    )
}

/// Up to four of the indices below `count`, spread out. Index 0 comes last, because it is the least
/// likely to be wrong.
fn spread(count: u64) -> Vec<u64> {
    let Some(last) = count.checked_sub(1) else {
        return Vec::new();
    };
    let mut places = Vec::with_capacity(4);
    for place in [count / 3, last - count / 3, last, 0] {
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

/// The number of the unlisted chunk at index `place` among all unlisted ones: if 0, 1 and 4 are
/// listed, the first are 2, 3 and 5.
fn unlisted(entries: &[Entry], place: u64) -> u64 {
    let mut low = 0;
    let mut high = entries.len();
    while low < high {
        let middle = (low + high) / 2;
        // The difference is the number of unlisted chunks before this entry.
        if entries[middle].number.saturating_sub(middle as u64) <= place {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    // `low` entries come before this chunk.
    place + low as u64
}

#[cfg(test)]
mod tests;
