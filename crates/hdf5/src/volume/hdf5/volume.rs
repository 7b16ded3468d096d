//! A dataset as a volume: maps stored axes to x, y, z and time, and reads boxes of voxels.
//!
//! [`Volume::read`] reads in one of three ways:
//! - `read_unfiltered` copies voxels from the mapped file ([`super::unfiltered`]).
//! - `read_filtered` locates, fetches and decodes chunks ([`super::stored_chunk`]) through the
//!   chunk store ([`super::chunks`]), then copies from them.
//! - `read_via_libhdf5` reads everything else, and chunks too large for the chunk store, through
//!   the library.

mod roles;
mod shape;

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use parking_lot::Mutex;
use voltile_base::flow::cache::Abandoned;
use voltile_base::flow::trace::Trace;
use voltile_base::geometry::{Region, Xyz};
use voltile_base::metrics::Meter;

use self::roles::AxisRoles;
use self::shape::{stored_array, volume_shape};
use super::bytes::Borrowed;
use super::chunks::{Chunk, ChunkRequest, ChunkStore, FoundChunk, WHOLE};
use super::dataset::StoredDataset;
use super::grid::{ChunkPart, Position, RANK, StoredBox};
use super::index::Entry;
use super::{OpenError, View};
use crate::store::Gathering;
use crate::volume::scatter::{Sieve, Strided, touch_box};
use crate::volume::{
    Access, BLOCK_BYTES, BoxMut, Decode, NoReferences, Positions, ReadCost, ReadError, ReadRequest,
    Samples, StoredChunk, StoredPart, StoredRanges, TakePart, Tally, Volume, VolumeShape, Yields,
};

/// One dataset, read as a volume of scalar voxels over time.
#[derive(Debug)]
pub struct Hdf5Volume {
    dataset: Arc<StoredDataset>,
    roles: AxisRoles,
    shape: VolumeShape,
    chunks: ChunkStore,
}

/// The maximum number of stored bytes that are fetched for a box before it is read.
const MAX_GATHERED: u64 = 2 * PORTION;
/// The maximum number of stored bytes in a portion: chunks that are fetched together, while the
/// portion before them is decoded.
const PORTION: u64 = 24 << 20;

/// The maximum number of chunks of a box that are listed at once: the list takes about 300 bytes
/// per chunk. A tile rarely has as many.
const MAX_LISTED: usize = 1 << 12;

/// Cached chunks are collected until they exceed this size in bytes, then copied from. They stay in
/// memory until then, even if the cache evicts them.
const MAX_COLLECTED: usize = 2 << 20;
/// With more wanted rows in a chunk than this, the copy takes so long that touching them first
/// gains nothing.
const MAX_TOUCHED_ROWS: u64 = 128;

impl Hdf5Volume {
    pub(super) fn new(
        dataset: Arc<StoredDataset>,
        view: &View,
        chunks: ChunkStore,
    ) -> Result<Self, OpenError> {
        let wrong =
            |problem: String| OpenError::object(&dataset.file.location, &dataset.path, problem);
        let roles = AxisRoles::new(&dataset, view).map_err(wrong)?;
        let shape = volume_shape(&dataset, &roles, view, &chunks);
        if shape.size.volume() == 0 || shape.times == 0 {
            let extents = &dataset.shape;
            return Err(wrong(format!("its shape {extents:?} holds no voxels")));
        }
        Ok(Self {
            dataset,
            roles,
            shape,
            chunks,
        })
    }

    /// The dataset that it reads.
    pub fn dataset(&self) -> &Arc<StoredDataset> {
        &self.dataset
    }

    /// The position in the dataset's grid of the chunk at `place` in the volume's grid; `None`
    /// beyond the volume, if chunks have no common coding, and if the chunk is known to be corrupt.
    fn uniform_chunk(&self, time: u64, place: Xyz<u64>) -> Option<Position> {
        let start = place.zip(self.shape.chunk, u64::saturating_mul);
        let is_within = start
            .zip(self.shape.size, |start, size| start < size)
            .everywhere();
        if !is_within || self.shape.coding.is_err() {
            return None;
        }
        let first_voxel = Region {
            start,
            size: Xyz::all(1),
        };
        let first = self.roles.stored_box(time, &first_voxel);
        let at = self.dataset.grid.containing(&first.start);
        (!self.dataset.is_corrupt(&at)).then_some(at)
    }
}

/// A read of one box.
struct BoxReading<'a> {
    volume: &'a Hdf5Volume,
    request: &'a ReadRequest,
    /// The box in stored order.
    stored: StoredBox,
}

impl BoxReading<'_> {
    /// Reads the box.
    fn read(&self, into: &mut BoxMut<'_>) -> Result<(), ReadError> {
        match self.volume.shape.access {
            Access::Uncached => self.read_via_libhdf5(into),
            Access::Direct => {
                let clock = &self.volume.chunks.metrics().copying;
                self.meter()
                    .read_at_once(clock, || self.read_unfiltered(into))
            }
            Access::Cached => self.read_filtered(into),
        }
    }

    /// The chunks that contain wanted voxels, in stored order; chunks that the step skips are left
    /// out.
    fn wanted(&self) -> impl Iterator<Item = WantedChunk> {
        let grid = &self.volume.dataset.grid;
        let ReadRequest { region, step, .. } = self.request;
        grid.chunks_of(&self.stored).filter_map(move |at| {
            let part = grid.part_of(&at, &self.stored);
            let within = self.volume.roles.region(&part.start, &part.count);
            let sieve = Sieve::new(&within, region, *step)?;
            Some(WantedChunk { at, part, sieve })
        })
    }

    /// Fails if the read is to end early: because it yields to requests and one waits, or because
    /// nobody waits for its result any more.
    fn end_early(&self) -> Result<(), Abandoned> {
        let ends = match &self.request.policy.yields {
            Yields::Never => false,
            Yields::ToRequests => self.volume.chunks.activity.has_jobs(),
            Yields::Unwanted(interest) => !interest.is_there(),
        };
        if ends { Err(Abandoned) } else { Ok(()) }
    }

    /// Measures a read.
    fn meter(&self) -> Meter<'_> {
        Meter::new(self.volume.chunks.metrics(), self.trace())
    }

    /// Reads a box of unfiltered voxels: copies the wanted ones from the mapped file.
    fn read_unfiltered(&self, into: &mut BoxMut<'_>) -> Result<(), ReadError> {
        let dataset = &self.volume.dataset;
        let file = dataset.file.bytes.borrow(dataset.place())?;
        for wanted in self.wanted() {
            self.end_early()?;
            let address = dataset.unfiltered_address(&wanted.at)?;
            self.copy_unfiltered(&file, address, &wanted, into)?;
        }
        file.ensure_still_there()
    }

    /// Copies the wanted voxels of a chunk at this address in the file to their place; `None`: it
    /// was never written.
    fn copy_unfiltered(
        &self,
        file: &Borrowed<'_>,
        address: Option<u64>,
        wanted: &WantedChunk,
        into: &mut BoxMut<'_>,
    ) -> Result<(), ReadError> {
        let Hdf5Volume {
            dataset,
            roles,
            shape,
            ..
        } = self.volume;
        let WantedChunk { part, sieve, .. } = wanted;
        let mut target = into.part(sieve.place, sieve.count);
        let Some(address) = address else {
            let fill = dataset.fill_value(part.start, shape.voxel)?;
            return dataset.ensure_types_match(target.fill(&fill));
        };
        if let Some(trace) = self.trace() {
            trace.add_read(1, sieve.count.volume() * dataset.stored_bytes() as u64);
        }
        let from = roles.place(dataset.grid.chunk(), &part.within, sieve);
        dataset.copy_unfiltered(file, address, from, target, shape.voxel)
    }

    /// Reads a box of filtered chunks.
    fn read_filtered(&self, into: &mut BoxMut<'_>) -> Result<(), ReadError> {
        let mut wanted = self.wanted().peekable();
        while wanted.peek().is_some() {
            self.read_chunks(wanted.by_ref().take(MAX_LISTED), into)?;
        }
        Ok(())
    }

    /// Copies from cached chunks first. All missing chunks are located before the first is fetched;
    /// then each is fetched, decoded and copied from.
    fn read_chunks(
        &self,
        wanted: impl Iterator<Item = WantedChunk>,
        into: &mut BoxMut<'_>,
    ) -> Result<(), ReadError> {
        let mut located = Vec::new();
        for chunk in self.copy_cached(wanted, into)? {
            let entry = self.volume.dataset.entry(&chunk.at)?;
            located.push((entry, chunk));
        }
        let portions = portions(&located, self.volume.shape.is_remote);
        let mut next_fetch = self.begin_fetch(portions.first().copied())?;
        for (number, portion) in portions.iter().enumerate() {
            let fetch = next_fetch;
            // The next portion arrives while this one is decoded.
            next_fetch = self.begin_fetch(portions.get(number + 1).copied())?;
            if let Some((stored, gathering)) = fetch {
                stored.wait(gathering, &self.request.policy.yields)?;
            }
            self.read_located(portion, into)?;
        }
        Ok(())
    }

    /// Starts to fetch the stored bytes of a portion of chunks, if there is a portion and its bytes
    /// lie in a store.
    fn begin_fetch(
        &self,
        portion: Option<&[LocatedChunk]>,
    ) -> Result<Option<(StoredRanges, Gathering)>, ReadError> {
        let stored = portion.and_then(|portion| {
            let chunks = portion.iter().map(|(entry, wanted)| (wanted.at, *entry));
            self.volume.dataset.ranges(chunks)
        });
        let Some(stored) = stored else {
            return Ok(None);
        };
        let gathering = stored.gather()?;
        Ok(Some((stored, gathering)))
    }

    /// Fetches, decodes and copies from chunks.
    fn read_located(
        &self,
        located: &[LocatedChunk],
        into: &mut BoxMut<'_>,
    ) -> Result<(), ReadError> {
        // Several threads take part only if no other tile is being rendered.
        if located.len() > 1
            && let Some(read) = self.read_together(located, into)
        {
            return read;
        }
        // Chunks that another thread is decoding come last: threads that want the same chunks then
        // decode different ones in parallel, instead of all waiting for the same one.
        let meter = self.meter();
        let mut in_flight = Vec::new();
        for (entry, wanted) in located {
            self.end_early()?;
            let request = self.chunk_request(wanted);
            match meter.fetch(|| self.volume.chunks.find(&request, *entry))? {
                FoundChunk::Chunk(chunk) => self.copy(&chunk, wanted, into)?,
                FoundChunk::InFlight(_) => in_flight.push((entry, wanted)),
            }
        }
        for (entry, wanted) in in_flight {
            let chunk = meter.fetch(|| self.chunk(*entry, wanted))?;
            self.copy(&chunk, wanted, into)?;
        }
        Ok(())
    }

    /// Decodes chunks on all threads, if no other tile is being rendered. Each thread copies from
    /// the chunks that it decodes; copies, which take little time, wait for each other.
    fn read_together(
        &self,
        located: &[LocatedChunk],
        into: &mut BoxMut<'_>,
    ) -> Option<Result<(), ReadError>> {
        let remaining = Mutex::new(located.iter());
        let into = Mutex::new(into);
        let failure = Mutex::new(None);
        let is_shared = self.meter().fetch(|| {
            self.volume.chunks.activity.share(|| {
                while failure.lock().is_none() {
                    let Some((entry, wanted)) = remaining.lock().next() else {
                        break;
                    };
                    let copied = self
                        .chunk(*entry, wanted)
                        .and_then(|chunk| self.copy(&chunk, wanted, &mut into.lock()));
                    if let Err(error) = copied {
                        *failure.lock() = Some(error);
                    }
                }
            })
        });
        is_shared.then(|| failure.into_inner().map_or(Ok(()), Err))
    }

    /// A chunk, from the cache or decoded now; fails if the read is to end early.
    fn chunk(&self, entry: Option<Entry>, wanted: &WantedChunk) -> Result<Arc<Chunk>, ReadError> {
        self.end_early()?;
        self.volume.chunks.get(&self.chunk_request(wanted), entry)
    }

    /// Copies from the chunks that are in the cache, and returns the missing ones.
    ///
    /// A cached chunk is usually no longer in the processor's caches, nor its pages in the TLB, and
    /// copying from chunks one by one waits for each miss. So several chunks are collected, and the
    /// start of every wanted row of them is read before the first is copied from. If many rows of a
    /// chunk are wanted it is copied from at once: it may just have been decoded.
    fn copy_cached(
        &self,
        chunks: impl Iterator<Item = WantedChunk>,
        into: &mut BoxMut<'_>,
    ) -> Result<Vec<WantedChunk>, ReadError> {
        let mut missing = Vec::new();
        let mut collected = Vec::new();
        let mut collected_bytes = 0;
        for wanted in chunks {
            let Some(chunk) = self.volume.chunks.cached(&self.chunk_request(&wanted)) else {
                missing.push(wanted);
                continue;
            };
            let rows = wanted.sieve.count.y * wanted.sieve.count.z;
            if chunk.is_constant || rows > MAX_TOUCHED_ROWS {
                self.copy(&chunk, &wanted, into)?;
                continue;
            }
            collected_bytes += chunk.samples.bytes().len();
            collected.push((chunk, wanted));
            if collected_bytes >= MAX_COLLECTED {
                self.copy_together(&collected, into)?;
                collected.clear();
                collected_bytes = 0;
            }
        }
        self.copy_together(&collected, into)?;
        Ok(missing)
    }

    /// Copies from several chunks, after the start of every wanted row has been read.
    fn copy_together(
        &self,
        chunks: &[(Arc<Chunk>, WantedChunk)],
        into: &mut BoxMut<'_>,
    ) -> Result<(), ReadError> {
        for (chunk, wanted) in chunks {
            touch_box(&chunk.samples, self.place_in(chunk, wanted));
        }
        for (chunk, wanted) in chunks {
            self.copy(chunk, wanted, into)?;
        }
        Ok(())
    }

    fn chunk_request<'a>(&'a self, wanted: &WantedChunk) -> ChunkRequest<'a> {
        let Hdf5Volume { dataset, shape, .. } = self.volume;
        let voxels = match self.request.policy.decode {
            Decode::Whole => WHOLE,
            Decode::AsNeeded => dataset.grid.prefix_of(&wanted.part),
        };
        ChunkRequest {
            trace: self.trace(),
            request_id: self.trace().and_then(Trace::request_id),
            unfinished: self.request.policy.unfinished.as_ref(),
            ..ChunkRequest::new(dataset, wanted.at, voxels, shape.voxel)
        }
    }

    /// Copies the wanted voxels of a chunk to their place.
    fn copy(
        &self,
        chunk: &Chunk,
        wanted: &WantedChunk,
        into: &mut BoxMut<'_>,
    ) -> Result<(), ReadError> {
        let mut target = into.part(wanted.sieve.place, wanted.sieve.count);
        let is_copied = if chunk.is_constant {
            target.fill(&chunk.samples)
        } else {
            target.copy(&chunk.samples, self.place_in(chunk, wanted))
        };
        self.volume.dataset.ensure_types_match(is_copied)
    }

    /// The place of the wanted voxels in a decoded chunk.
    fn place_in(&self, chunk: &Chunk, wanted: &WantedChunk) -> Strided {
        let roles = &self.volume.roles;
        roles.place(&chunk.dims, &wanted.part.within, &wanted.sieve)
    }

    /// Reads through the library: in one call, or block by block if the box is large, or if the
    /// request has a step.
    fn read_via_libhdf5(&self, into: &mut BoxMut<'_>) -> Result<(), ReadError> {
        let ReadRequest { region, step, .. } = self.request;
        let max_voxels = BLOCK_BYTES / self.volume.shape.voxel.samples().voxel_bytes() as u64;
        let mut block = Samples::default();
        // Each call holds the library's lock until it ends: a large box takes several calls.
        if *step == Xyz::all(1) && region.voxels() <= max_voxels {
            return self.read_in_one_call(region, &mut block, into);
        }
        for part in region.blocks(self.volume.shape.chunk, max_voxels) {
            self.read_in_one_call(&part, &mut block, into)?;
        }
        Ok(())
    }

    /// Reads the wanted voxels of a part of the box through the library. Fails for chunks beyond
    /// the end of the file, for which the library returns zeros.
    fn read_in_one_call(
        &self,
        part: &Region,
        block: &mut Samples,
        into: &mut BoxMut<'_>,
    ) -> Result<(), ReadError> {
        let Some(sieve) = Sieve::new(part, &self.request.region, self.request.step) else {
            return Ok(());
        };
        self.end_early()?;
        let Hdf5Volume { dataset, roles, .. } = self.volume;
        let stored = roles.stored_box(self.request.time, part);
        let clock = &self.volume.chunks.metrics().library;
        self.meter().read_at_once(clock, || {
            block.reset(self.volume.shape.voxel, part.voxels() as usize);
            dataset.ensure_chunks_in_file(&stored)?;
            dataset.read_box(&stored, block)
        })?;
        let from = roles.place(&stored.count, &[0; RANK], &sieve);
        let is_copied = into.part(sieve.place, sieve.count).copy(block, from);
        dataset.ensure_types_match(is_copied)
    }

    fn trace(&self) -> Option<&Trace> {
        self.request.policy.trace.as_deref()
    }
}

impl Volume for Hdf5Volume {
    fn shape(&self) -> &VolumeShape {
        &self.shape
    }

    fn read_box(&self, request: &ReadRequest, mut into: BoxMut<'_>) -> Result<(), ReadError> {
        let _working = self.dataset.begin_work()?;
        let reading = BoxReading {
            volume: self,
            request,
            stored: self.roles.stored_box(request.time, &request.region),
        };
        reading.read(&mut into)?;
        let first = self.dataset.grid.containing(&reading.stored.start);
        self.dataset.ensure_only_grown(&first)
    }

    fn gaps(&self, time: u64, region: &Region) -> Vec<Region> {
        let stored = self.roles.stored_box(time, region);
        let gaps = self.dataset.gaps_in(&stored).into_iter();
        gaps.map(|gap| self.roles.region(&gap.start, &gap.count))
            .collect()
    }

    fn is_final(&self, time: u64, region: &Region) -> bool {
        self.dataset.is_final(&self.roles.stored_box(time, region))
    }

    fn ranges(
        &self,
        time: u64,
        region: &Region,
        only_missing: bool,
    ) -> Result<Vec<StoredRanges>, ReadError> {
        if !self.shape.is_remote || self.shape.access != Access::Cached {
            return Ok(Vec::new());
        }
        let dataset = &self.dataset;
        let stored = self.roles.stored_box(time, region);
        // The number of stored bytes that may still be added.
        let mut room = if only_missing { MAX_GATHERED } else { u64::MAX };
        let mut located = Vec::new();
        for at in dataset.grid.chunks_of(&stored) {
            if only_missing {
                let part = dataset.grid.part_of(&at, &stored);
                let voxels = dataset.grid.prefix_of(&part);
                let wanted = ChunkRequest::new(dataset, at, voxels, self.shape.voxel);
                if self.chunks.holds(&wanted) {
                    continue;
                }
            }
            let entry = dataset.entry(&at)?;
            let Some(rest) = room.checked_sub(stored_length(entry)) else {
                break;
            };
            room = rest;
            located.push((at, entry));
        }
        Ok(dataset.ranges(located.into_iter()).into_iter().collect())
    }

    fn stored_chunk(
        &self,
        time: u64,
        place: Xyz<u64>,
        trace: Option<&Trace>,
    ) -> Result<Option<Vec<u8>>, ReadError> {
        let _working = self.dataset.begin_work()?;
        let Some(at) = self.uniform_chunk(time, place) else {
            return Ok(None);
        };
        let meter = Meter::new(self.chunks.metrics(), trace);
        self.dataset.bytes_as_stored(at, meter)
    }

    fn cached_stored_chunk(&self, time: u64, place: Xyz<u64>) -> Option<Bytes> {
        let at = self.uniform_chunk(time, place)?;
        let bytes = self.dataset.cached_bytes_as_stored(at)?;
        let stored_bytes = &self.chunks.metrics().chunk_stored_bytes;
        stored_bytes.inc_by(bytes.len() as u64);
        Some(bytes)
    }

    fn is_written(&self, time: u64, region: &Region) -> Result<bool, ReadError> {
        if self.dataset.declared_fill.is_none() {
            return Ok(true);
        }
        let _working = self.dataset.begin_work()?;
        self.dataset
            .is_written(&self.roles.stored_box(time, region))
    }

    fn references(&self, _path: &str, take: &mut TakePart<'_>) -> Result<(), NoReferences> {
        let dataset = self.dataset.as_ref();
        let _working = dataset.begin_work().map_err(ReadError::from)?;
        let unmapped = |problem| NoReferences::unmapped(&dataset.path, problem);
        let grid = dataset.referred_grid().map_err(unmapped)?;
        let array = stored_array(dataset, &self.roles, &self.shape, &grid).map_err(unmapped)?;
        let Xyz { x, y, z } = self.shape.size;
        let end = [self.shape.times, z, y, x];
        for (file, stored) in dataset.referred_chunks(&grid)? {
            let chunks = stored.filter_map(|(number, offset, length)| {
                let place = self.roles.in_volume(&grid.numbered(number))?;
                let is_within = (0..4).all(|axis| place[axis] * array.chunk[axis] < end[axis]);
                is_within.then_some(StoredChunk {
                    place,
                    offset,
                    length,
                })
            });
            take(StoredPart {
                dataset: &dataset.path,
                file,
                array: &array,
                chunks: Box::new(chunks),
            })?;
        }
        Ok(())
    }

    fn rehearse(&self, until: Instant) {
        self.dataset.rehearse_index(until);
        if self.dataset.is_light() {
            let first = ReadRequest::new(0, Region::whole(Xyz::all(1)));
            // Errors are reported when voxels are read for a tile.
            let _ = self.read(&first, &mut Samples::default());
        }
    }

    fn tally(&self, _most: usize) -> Result<Tally, ReadError> {
        self.dataset.tally()
    }

    fn cost(&self, wanted: &Positions, tally: &Tally) -> Option<ReadCost> {
        self.dataset.cost(&self.roles.stored_runs(wanted), tally)
    }
}

/// A chunk that contains wanted voxels.
struct WantedChunk {
    /// Its position in the grid.
    at: Position,
    /// Its intersection with the box.
    part: ChunkPart,
    /// The wanted voxels of that part.
    sieve: Sieve,
}

/// The index entry of a chunk, `None` if it was never written, and the chunk.
type LocatedChunk = (Option<Entry>, WantedChunk);

/// Divides chunks into portions, which are fetched and decoded one after the other. All chunks of a
/// local file are one portion. Chunks in a store are divided into portions of at most [`PORTION`]
/// bytes; a larger chunk is a portion of its own.
fn portions(located: &[LocatedChunk], is_remote: bool) -> Vec<&[LocatedChunk]> {
    let mut portions = Vec::new();
    let mut start = 0;
    let mut bytes = 0;
    for (index, (entry, _)) in located.iter().enumerate() {
        let length = stored_length(*entry);
        if is_remote && index > start && bytes + length > PORTION {
            portions.push(&located[start..index]);
            start = index;
            bytes = 0;
        }
        bytes += length;
    }
    if start < located.len() {
        portions.push(&located[start..]);
    }
    portions
}

/// The number of stored bytes of a chunk with this index entry.
fn stored_length(entry: Option<Entry>) -> u64 {
    entry.map_or(0, |entry| u64::from(entry.length))
}

#[cfg(test)]
mod tests;
