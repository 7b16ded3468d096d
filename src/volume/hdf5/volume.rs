//! A dataset seen as a volume: which stored axis is which, and how a box of voxels is put together.
//!
//! There are three ways in. Voxels without filters are copied straight from the file's bytes ([`super::bare`]); others
//! come by the chunk from the chunk store; what neither takes goes through the library.

mod cached;

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use rayon::prelude::*;

use self::cached::CachedChunks;
use super::OpenError;
use super::chunks::{Chunk, ChunkRequest, ChunkStore, Found};
use super::dataset::StoredDataset;
use super::grid::{Part, Position, RANK, StoredBox, linear};
use super::identity::FileIdentity;
use super::stored_chunk::Located;
use crate::axes::{Axes, AxisName};
use crate::cache::Lost;
use crate::geometry::{Axis, Region, Xyz};
use crate::volume::scatter::{Lattice, Sieve, copy_box, fill_box, thinned};
use crate::volume::{
    Access, ChunkId, Decode, Positions, ReadCost, ReadError, ReadRequest, Samples, Tally, Volume,
    VolumeShape, VolumeStorage, VoxelType, Yields,
};

/// How a dataset is to be seen as a volume.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct View {
    /// The meaning of its axes.
    pub axes: Axes,
    /// Axes that are held still, and where.
    pub fixed: Vec<(AxisName, u64)>,
    /// What the voxels are, where their stored type is another one of the same bits.
    pub means: Option<VoxelType>,
    /// The extent in which there is data, where the dataset is padded beyond it.
    pub size: Option<Xyz<u64>>,
}

/// What a stored axis is to a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Space(Axis),
    Time,
    Fixed(u64),
}

/// One dataset, seen as a volume of scalar voxels over time.
#[derive(Debug)]
pub struct Hdf5Volume {
    dataset: Arc<StoredDataset>,
    roles: [Role; RANK],
    shape: VolumeShape,
    chunks: ChunkStore,
}

/// About how many bytes of chunks are decoded side by side for one box: little next to the cache, enough for all threads.
const TOGETHER: u64 = 4 << 20;

impl Hdf5Volume {
    pub(super) fn new(
        dataset: Arc<StoredDataset>,
        view: &View,
        chunks: ChunkStore,
    ) -> Result<Self, OpenError> {
        let wrong = |problem: String| OpenError::object(&dataset.file, &dataset.path, problem);
        if view.axes.rank() != dataset.shape.len() {
            let (axes, shape) = (&view.axes, &dataset.shape);
            return Err(wrong(format!("its shape {shape:?} has another rank than the axes \"{axes}\"")));
        }
        let mut roles = [Role::Fixed(0); RANK];
        let own = view.axes.iter().map(|axis| role(axis, &view.fixed)).collect::<Vec<_>>();
        roles.iter_mut().rev().zip(own.iter().rev()).for_each(|(place, role)| *place = *role);
        for ((axis, role), extent) in view.axes.iter().zip(&own).zip(&dataset.shape) {
            if let Role::Fixed(index) = role
                && index >= extent
            {
                return Err(wrong(format!("the axis {axis} has {extent} positions; there is no {index}")));
            }
        }
        let shape = volume_shape(&dataset, &roles, view, &chunks);
        if shape.size.volume() == 0 || shape.times == 0 {
            return Err(wrong(format!("its shape {:?} holds no voxels", dataset.shape)));
        }
        Ok(Self { dataset, roles, shape, chunks })
    }

    /// The dataset it reads.
    pub fn dataset(&self) -> &Arc<StoredDataset> {
        &self.dataset
    }

    /// The box of the dataset that a region at a time is.
    fn stored_box(&self, time: u64, region: &Region) -> StoredBox {
        let along = |role: Role| match role {
            Role::Space(axis) => (region.start[axis], region.size[axis]),
            Role::Time => (time, 1),
            Role::Fixed(index) => (index, 1),
        };
        StoredBox { start: self.roles.map(|role| along(role).0), count: self.roles.map(|role| along(role).1) }
    }

    /// Where a box at `start` of a dense buffer with stored-order `dims` lies: as a lattice along x, y and z.
    fn lattice(&self, dims: &Position, start: &Position) -> Lattice {
        let mut lattice = Lattice { start: linear(dims, start) as usize, step: Xyz::all(0) };
        let mut stride = 1;
        for (role, extent) in self.roles.iter().zip(dims).rev() {
            if let Role::Space(axis) = role {
                lattice.step[*axis] = stride;
            }
            stride *= *extent as usize;
        }
        lattice
    }

    /// The region's box in x, y and z, from one in stored order; axes that are not stored are `missing`.
    fn spatial(&self, stored: &Position, missing: u64) -> Xyz<u64> {
        let mut xyz = Xyz::all(missing);
        for (role, value) in self.roles.iter().zip(stored) {
            if let Role::Space(axis) = role {
                xyz[*axis] = *value;
            }
        }
        xyz
    }

    /// The chunks that a box touches, in stored order, except those of which nothing is wanted.
    fn wanted<'a>(&'a self, reading: &'a Reading<'_>) -> impl Iterator<Item = Wanted> + 'a {
        let grid = &self.dataset.grid;
        let (region, step) = (&reading.request.region, reading.request.step);
        grid.chunks_of(&reading.stored).filter_map(move |at| {
            let part = grid.part_of(&at, &reading.stored);
            let within = Region { start: self.spatial(&part.start, 0), size: self.spatial(&part.count, 1) };
            Some(Wanted { sieve: Sieve::of(&within, region, step)?, at, part })
        })
    }

    /// Ends a prefetch if a request is waiting.
    fn yield_to_requests(&self, reading: &Reading<'_>) -> Result<(), Lost> {
        let yields = reading.request.policy.yields == Yields::ToRequests;
        if yields && self.chunks.activity().has_jobs() { Err(Lost) } else { Ok(()) }
    }

    /// Reads a box of unfiltered voxels: locates its chunks, and copies what is wanted of each out of the mapped file.
    fn read_unfiltered(&self, reading: &Reading<'_>, into: &mut Samples) -> Result<(), ReadError> {
        let located =
            self.wanted(reading).map(|wanted| Ok((self.dataset.unfiltered_chunk(&wanted.at)?, wanted)));
        let located = located.collect::<Result<Vec<_>, ReadError>>()?;
        let bytes = self.dataset.unfiltered_bytes()?;
        for (chunk, Wanted { part, sieve, .. }) in located {
            self.yield_to_requests(reading)?;
            let target = reading.target(&sieve);
            if let Some(chunk) = chunk {
                let dims = self.dataset.grid.chunk();
                let from = self.lattice(dims, &part.within).from(sieve.offset).every(reading.request.step);
                bytes.copy(chunk, from, into, target, sieve.count, self.shape.voxel)?;
            } else {
                let fill = self.dataset.fill_value(part.start, self.shape.voxel)?;
                self.ensure(fill_box(&fill, into, target, sieve.count))?;
            }
        }
        bytes.ensure_still_there()
    }

    /// Reads a box of filtered chunks in four steps: what is not in the cache is located, fetched and decoded; all is
    /// copied. Every chunk is located before the first one is fetched.
    fn read_filtered(&self, reading: &Reading<'_>, into: &mut Samples) -> Result<(), ReadError> {
        let (dataset, store, metrics) = (&self.dataset, &self.chunks, self.chunks.metrics());
        let missing = self.copy_cached(reading, into)?;
        let located = missing.into_iter().map(|wanted| Ok((dataset.locate(wanted.at)?, wanted)));
        let located = located.collect::<Result<Vec<_>, ReadError>>()?;
        let produce = |located: &Located, request: &ChunkRequest<'_>, extent| {
            let stored = dataset.fetch(located, metrics)?;
            store.decode(request, located, &stored, extent)
        };
        // Several threads take part only if no other tile is being rendered.
        if store.activity().has_one_job() && rayon::current_num_threads() > 1 {
            for group in located.chunks(self.most_together()) {
                let chunk = |(located, wanted): &(Located, Wanted)| {
                    let request = self.chunk_request(wanted, reading);
                    store.get(&request, |extent| produce(located, &request, extent))
                };
                let chunks = group.par_iter().with_max_len(1).map(chunk).collect::<Result<Vec<_>, _>>()?;
                for ((_, wanted), chunk) in group.iter().zip(chunks) {
                    self.copy(&chunk, wanted, reading, into)?;
                }
            }
            return Ok(());
        }
        // What another thread is decoding comes last: threads that want the same chunks then decode different ones side by
        // side, instead of all waiting for the same one.
        let mut in_flight = Vec::new();
        for (located, wanted) in located {
            self.yield_to_requests(reading)?;
            let request = self.chunk_request(&wanted, reading);
            match store.find(&request, |extent| produce(&located, &request, extent))? {
                Found::Chunk(chunk) => self.copy(&chunk, &wanted, reading, into)?,
                Found::InFlight(_) => in_flight.push((located, wanted)),
            }
        }
        for (located, wanted) in in_flight {
            self.yield_to_requests(reading)?;
            let request = self.chunk_request(&wanted, reading);
            let chunk = store.get(&request, |extent| produce(&located, &request, extent))?;
            self.copy(&chunk, &wanted, reading, into)?;
        }
        Ok(())
    }

    /// Copies what is in the cache, and returns the chunks that are not.
    fn copy_cached(&self, reading: &Reading<'_>, into: &mut Samples) -> Result<Vec<Wanted>, ReadError> {
        let (mut missing, mut cached) = (Vec::new(), CachedChunks::default());
        for wanted in self.wanted(reading) {
            match self.chunks.cached(&self.chunk_request(&wanted, reading)) {
                Some(chunk) => cached.copy(self, chunk, wanted, reading, into)?,
                None => missing.push(wanted),
            }
        }
        cached.finish(self, reading, into)?;
        Ok(missing)
    }

    /// How many chunks are decoded side by side before they are copied.
    fn most_together(&self) -> usize {
        let chunk_bytes = self.dataset.grid.voxels().saturating_mul(self.dataset.stored_bytes() as u64);
        (TOGETHER / chunk_bytes.max(1)).max(2 * rayon::current_num_threads() as u64) as usize
    }

    fn chunk_request(&self, wanted: &Wanted, reading: &Reading<'_>) -> ChunkRequest<'_> {
        let voxels = match reading.request.policy.decode {
            Decode::Whole => u64::MAX,
            Decode::AsNeeded => linear(self.dataset.grid.chunk(), &wanted.part.last()).saturating_add(1),
        };
        ChunkRequest { dataset: &self.dataset, at: wanted.at, voxels, voxel: self.shape.voxel }
    }

    /// Copies what is wanted of a chunk to its place.
    fn copy(
        &self,
        chunk: &Chunk,
        wanted: &Wanted,
        reading: &Reading<'_>,
        into: &mut Samples,
    ) -> Result<(), ReadError> {
        let (target, count) = (reading.target(&wanted.sieve), wanted.sieve.count);
        self.ensure(if chunk.constant {
            fill_box(&chunk.samples, into, target, count)
        } else {
            copy_box(&chunk.samples, self.within(chunk, wanted, reading), into, target, count)
        })
    }

    /// The layout of the wanted voxels in their chunk.
    fn within(&self, chunk: &Chunk, Wanted { part, sieve, .. }: &Wanted, reading: &Reading<'_>) -> Lattice {
        self.lattice(&chunk.dims, &part.within).from(sieve.offset).every(reading.request.step)
    }

    fn ensure(&self, fits: bool) -> Result<(), ReadError> {
        if fits {
            Ok(())
        } else {
            Err(self.dataset.damaged("its voxels came out as another type than its own"))
        }
    }

    /// Reads through the library: a box as it is, or block by block if it is thinned.
    fn read_by_library(&self, reading: &Reading<'_>, into: &mut Samples) -> Result<(), ReadError> {
        let request = reading.request;
        if request.step == Xyz::all(1) {
            into.reset(self.shape.voxel, request.region.voxels() as usize);
            let metrics = self.chunks.metrics();
            return metrics
                .library
                .time(|| self.read_through_library(&reading.stored, &request.region, into));
        }
        thinned(self.shape, request, into, |region, into| {
            self.read(&ReadRequest { region: *region, step: Xyz::all(1), ..*request }, into)
        })
    }

    /// Reads a box through the library, which returns zeros for chunks that lie beyond the end of the file.
    fn read_through_library(
        &self,
        stored: &StoredBox,
        region: &Region,
        into: &mut Samples,
    ) -> Result<(), ReadError> {
        self.dataset.ensure_chunks_in_file(stored)?;
        if self.is_stored_in_order() {
            return self.dataset.read_box(stored, into);
        }
        let mut unordered = Samples::default();
        unordered.reset(self.shape.voxel, into.len());
        self.dataset.read_box(stored, &mut unordered)?;
        let from = self.lattice(&stored.count, &[0; RANK]);
        self.ensure(copy_box(&unordered, from, into, Lattice::dense(region.size, Xyz::all(0)), region.size))
    }

    /// Whether z, y and x follow each other in the file as they do in memory.
    fn is_stored_in_order(&self) -> bool {
        let spatial = self.roles.iter().filter_map(|role| match role {
            Role::Space(Axis::Z) => Some(0),
            Role::Space(Axis::Y) => Some(1),
            Role::Space(Axis::X) => Some(2),
            _ => None,
        });
        spatial.is_sorted()
    }
}

impl Volume for Hdf5Volume {
    fn shape(&self) -> VolumeShape {
        self.shape
    }

    fn read(&self, request: &ReadRequest, into: &mut Samples) -> Result<(), ReadError> {
        let reading = Reading { request, stored: self.stored_box(request.time, &request.region) };
        if self.shape.access == Access::Anew {
            return self.read_by_library(&reading, into);
        }
        into.reset(self.shape.voxel, request.size().volume() as usize);
        match self.shape.access {
            Access::Copied => self.chunks.metrics().copying.time(|| self.read_unfiltered(&reading, into)),
            _ => self.read_filtered(&reading, into),
        }
    }

    fn unverified(&self, time: u64, region: &Region) -> Option<Vec<ChunkId>> {
        Some(self.chunks.unverified(&self.dataset, &self.stored_box(time, region)))
    }

    fn may_be_refused(&self, time: u64, region: &Region) -> bool {
        self.chunks.touches_refused(&self.dataset, &self.stored_box(time, region))
    }

    fn storage(&self) -> &dyn VolumeStorage {
        self
    }
}

impl VolumeStorage for Hdf5Volume {
    fn rehearse(&self, until: Instant) {
        self.dataset.rehearse_index(until);
        let first = Region { start: Xyz::all(0), size: Xyz::all(1) };
        if self.dataset.is_light() {
            // An error is reported when the voxel is read for a tile.
            let _ = self.read(&ReadRequest::new(0, first), &mut Samples::default());
        }
    }

    fn forget_chunks(&self) {
        self.chunks.clear();
    }

    fn forget_pages(&self) -> std::io::Result<()> {
        self.dataset.file.bytes.unmap();
        self.dataset.files.iter().try_for_each(FileIdentity::forget_pages)
    }

    fn tally(&self, _most: usize) -> Result<Tally, ReadError> {
        self.dataset.tally()
    }

    fn cost(&self, wanted: &Positions, tally: &Tally) -> Option<ReadCost> {
        let along = |role: Role| match role {
            Role::Space(axis) => wanted[axis].clone(),
            Role::Time => one_run(0),
            Role::Fixed(index) => one_run(index),
        };
        self.dataset.cost(&self.roles.map(along), tally)
    }
}

/// A request, and its box in stored order.
struct Reading<'a> {
    request: &'a ReadRequest,
    stored: StoredBox,
}

impl Reading<'_> {
    /// The layout of a part of the wanted voxels among all of them.
    fn target(&self, sieve: &Sieve) -> Lattice {
        Lattice::dense(self.request.size(), sieve.place)
    }
}

/// A chunk of which something is wanted: its place in the grid, its part inside the box, and the wanted voxels of that.
struct Wanted {
    at: Position,
    part: Part,
    sieve: Sieve,
}

/// A single position.
fn one_run(at: u64) -> Vec<Range<u64>> {
    std::iter::once(at..at + 1).collect()
}

fn role(axis: AxisName, fixed: &[(AxisName, u64)]) -> Role {
    if let Some((_, index)) = fixed.iter().find(|(name, _)| *name == axis) {
        return Role::Fixed(*index);
    }
    match axis {
        AxisName::T => Role::Time,
        // A channel axis that nobody chose from shows its first channel.
        AxisName::C => Role::Fixed(0),
        AxisName::Z => Role::Space(Axis::Z),
        AxisName::Y => Role::Space(Axis::Y),
        AxisName::X => Role::Space(Axis::X),
    }
}

/// How the dataset's voxels are had.
fn access(dataset: &StoredDataset, chunks: &ChunkStore) -> Access {
    if dataset.is_unfiltered() {
        Access::Copied
    } else if chunks.serves(dataset) {
        Access::Kept
    } else {
        Access::Anew
    }
}

fn volume_shape(
    dataset: &StoredDataset,
    roles: &[Role; RANK],
    view: &View,
    chunks: &ChunkStore,
) -> VolumeShape {
    let (mut size, mut chunk, mut times) = (Xyz::all(1), Xyz::all(1), 1);
    for ((role, extent), natural) in roles.iter().zip(dataset.grid.shape()).zip(dataset.chunk_shape()) {
        match *role {
            Role::Space(axis) => (size[axis], chunk[axis]) = (*extent, natural),
            Role::Time => times = *extent,
            Role::Fixed(_) => {}
        }
    }
    if let Some(cut) = view.size {
        size = size.zip(cut, u64::min);
    }
    let stored = dataset.stored.voxel;
    let voxel = match (stored, view.means) {
        (VoxelType::I16, Some(VoxelType::U16)) => VoxelType::U16,
        (VoxelType::U8, Some(VoxelType::Bool)) => VoxelType::Bool,
        _ => stored,
    };
    VolumeShape { voxel, size, times, chunk, access: access(dataset, chunks) }
}

#[cfg(test)]
mod tests;
