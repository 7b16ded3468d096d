//! A dataset seen as a volume: which stored axis is which, and how a box of voxels is put together.
//!
//! There are three ways in. Voxels without filters are copied straight from the file's bytes ([`super::bare`]); others
//! come by the chunk from the chunk store; what neither takes goes through the library.

mod together;

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use rayon::prelude::*;

use self::together::Together;
use super::OpenError;
use super::chunks::{Chunk, ChunkStore, Found};
use super::dataset::StoredDataset;
use super::grid::{Grid, Part, Position, RANK, StoredBox, linear};
use super::identity::FileIdentity;
use crate::activity;
use crate::axes::{Axes, AxisName};
use crate::cache::Lost;
use crate::geometry::{Axis, Region, Xyz};
use crate::volume::scatter::{Lattice, Sieve, copy_box, fill_box, thinned};
use crate::volume::{
    Access, ChunkId, Positions, ReadCost, ReadError, Samples, Tally, Volume, VolumeShape, VoxelType,
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

/// About how many bytes of chunks are decoded side by side for one box: few beside the cache, many beside a thread.
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

    /// The chunks that a box touches, in stored order, but for those of which nothing is wanted.
    fn wanted<'a>(&'a self, wish: &'a Wish) -> impl Iterator<Item = Wanted> + 'a {
        let grid = &self.dataset.grid;
        grid.chunks_of(&wish.stored).filter_map(move |at| {
            let part = grid.part_of(&at, &wish.stored);
            let region = Region { start: self.spatial(&part.start, 0), size: self.spatial(&part.count, 1) };
            Some(Wanted { sieve: Sieve::of(&region, &wish.region, wish.step)?, at, part })
        })
    }

    /// Ends what nobody has asked for where somebody asks for something.
    fn give_way(&self) -> Result<(), Lost> {
        if self.chunks.activity().gives_way() { Err(Lost) } else { Ok(()) }
    }

    /// Reads a box whose voxels went through no filter.
    fn read_unfiltered(&self, wish: &Wish, into: &mut Samples) -> Result<(), ReadError> {
        let bytes = self.dataset.unfiltered_bytes()?;
        for Wanted { at, part, sieve } in self.wanted(wish) {
            self.give_way()?;
            let target = wish.target(&sieve);
            match self.dataset.unfiltered_chunk(&at)? {
                Some(chunk) => {
                    let dims = self.dataset.grid.chunk();
                    let from = self.lattice(dims, &part.within).from(sieve.offset).every(wish.step);
                    bytes.copy(chunk, from, into, target, sieve.count, self.shape.voxel)?;
                }
                None => {
                    let fill = self.dataset.fill_value(part.start, self.shape.voxel)?;
                    self.ensure(fill_box(&fill, into, target, sieve.count))?;
                }
            }
        }
        bytes.ensure_still_there()
    }

    /// Reads a box chunk by chunk; side by side on all render threads where only this box is asked for. What is kept
    /// decoded is copied at once: to have other threads woken for it would take longer than all the rest.
    fn read_chunked(&self, wish: &Wish, into: &mut Samples) -> Result<(), ReadError> {
        if !self.chunks.activity().has_one_job() || rayon::current_num_threads() == 1 {
            return self.read_one_by_one(wish, into);
        }
        let (grid, dataset, voxel) = (&self.dataset.grid, &self.dataset, self.shape.voxel);
        let (mut missing, mut found) = (Vec::new(), Together::default());
        for wanted in self.wanted(wish) {
            match self.chunks.kept(dataset, &wanted.at, wish.voxels(grid, &wanted), voxel) {
                Some(chunk) => found.place(self, chunk, wanted, wish, into)?,
                None => missing.push(wanted),
            }
        }
        found.finish(self, wish, into)?;
        let chunk_bytes = grid.voxels().saturating_mul(dataset.stored_bytes() as u64);
        let most = (TOGETHER / chunk_bytes.max(1)).max(2 * rayon::current_num_threads() as u64) as usize;
        let chunk = |wanted: &Wanted| self.chunks.get(dataset, &wanted.at, wish.voxels(grid, wanted), voxel);
        for group in missing.chunks(most) {
            let chunks: Vec<Arc<Chunk>> =
                group.par_iter().with_max_len(1).map(chunk).collect::<Result<_, _>>()?;
            for (wanted, chunk) in group.iter().zip(chunks) {
                self.place(&chunk, wanted, wish, into)?;
            }
        }
        Ok(())
    }

    /// Reads a box chunk by chunk on this thread. What another thread decodes just now comes last: threads that want the
    /// same chunks decode them side by side, rather than all wait for the one that was first.
    fn read_one_by_one(&self, wish: &Wish, into: &mut Samples) -> Result<(), ReadError> {
        let (grid, dataset, voxel) = (&self.dataset.grid, &self.dataset, self.shape.voxel);
        let (mut flying, mut found) = (Vec::new(), Together::default());
        for wanted in self.wanted(wish) {
            self.give_way()?;
            match self.chunks.find(dataset, &wanted.at, wish.voxels(grid, &wanted), voxel)? {
                Found::Chunk(chunk) => found.place(self, chunk, wanted, wish, into)?,
                Found::Flying(_) => flying.push(wanted),
            }
        }
        found.finish(self, wish, into)?;
        for wanted in flying {
            self.give_way()?;
            let chunk = self.chunks.get(dataset, &wanted.at, wish.voxels(grid, &wanted), voxel)?;
            self.place(&chunk, &wanted, wish, into)?;
        }
        Ok(())
    }

    /// Copies what is wanted of a chunk to its place.
    fn place(
        &self,
        chunk: &Chunk,
        wanted: &Wanted,
        wish: &Wish,
        into: &mut Samples,
    ) -> Result<(), ReadError> {
        let (target, count) = (wish.target(&wanted.sieve), wanted.sieve.count);
        self.ensure(if chunk.constant {
            fill_box(&chunk.samples, into, target, count)
        } else {
            copy_box(&chunk.samples, self.within(chunk, wanted, wish), into, target, count)
        })
    }

    /// Where what is wanted of a chunk lies in it.
    fn within(&self, chunk: &Chunk, Wanted { part, sieve, .. }: &Wanted, wish: &Wish) -> Lattice {
        self.lattice(&chunk.dims, &part.within).from(sieve.offset).every(wish.step)
    }

    fn ensure(&self, fits: bool) -> Result<(), ReadError> {
        if fits {
            Ok(())
        } else {
            Err(self.dataset.damaged("its voxels came out as another type than its own"))
        }
    }

    /// Reads through the library: a box as it is, or block by block to take what is wanted out of each.
    fn read_anew(&self, wish: &Wish, time: u64, into: &mut Samples) -> Result<(), ReadError> {
        if wish.step == Xyz::all(1) {
            into.reset(self.shape.voxel, wish.region.voxels() as usize);
            let metrics = self.chunks.metrics();
            return metrics.library.time(|| self.read_through_library(&wish.stored, &wish.region, into));
        }
        thinned(self.shape, wish.step, &wish.region, into, |part, into| self.read(time, part, into))
    }

    /// Reads a box through the library, which hands out zeros for chunks that lie behind the end of the file.
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

    fn read(&self, time: u64, region: &Region, into: &mut Samples) -> Result<(), ReadError> {
        self.read_every(Xyz::all(1), time, region, into)
    }

    fn read_every(
        &self,
        step: Xyz<u64>,
        time: u64,
        region: &Region,
        into: &mut Samples,
    ) -> Result<(), ReadError> {
        let (stored, metrics) = (self.stored_box(time, region), self.chunks.metrics());
        let whole = activity::is_thorough();
        let wish = Wish { region: *region, step, stored, whole };
        if self.shape.access == Access::Anew {
            return self.read_anew(&wish, time, into);
        }
        into.reset(self.shape.voxel, wish.size().volume() as usize);
        match self.shape.access {
            Access::Copied => metrics.copying.time(|| self.read_unfiltered(&wish, into)),
            _ => self.read_chunked(&wish, into),
        }
    }

    fn unverified(&self, time: u64, region: &Region) -> Option<Vec<ChunkId>> {
        Some(self.chunks.unverified(&self.dataset, &self.stored_box(time, region)))
    }

    fn may_be_refused(&self, time: u64, region: &Region) -> bool {
        self.chunks.touches_refused(&self.dataset, &self.stored_box(time, region))
    }

    fn rehearse(&self, until: Instant) {
        self.dataset.rehearse_index(until);
        let first = Region { start: Xyz::all(0), size: Xyz::all(1) };
        if self.dataset.is_light() {
            // What is wrong with it is told when it is read in earnest.
            let _ = self.read(0, &first, &mut Samples::default());
        }
    }

    fn forget_chunks(&self) {
        self.chunks.clear();
    }

    fn forget_pages(&self) -> std::io::Result<()> {
        self.dataset.file.unmap();
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

/// Every so-many-th voxel of a box.
struct Wish {
    region: Region,
    step: Xyz<u64>,
    /// The region at its time, as the dataset has it.
    stored: StoredBox,
    /// Whether all of its chunks will be wanted before long, by the work that this thread does; other threads may then
    /// decode for it.
    whole: bool,
}

impl Wish {
    /// How many voxels are wanted along each axis.
    fn size(&self) -> Xyz<u64> {
        self.region.size.zip(self.step, u64::div_ceil)
    }

    /// Where a part of them goes, among all.
    fn target(&self, sieve: &Sieve) -> Lattice {
        Lattice::dense(self.size(), sieve.place)
    }

    /// How many voxels from the first on of a chunk.
    fn voxels(&self, grid: &Grid, wanted: &Wanted) -> u64 {
        if self.whole {
            return u64::MAX;
        }
        linear(grid.chunk(), &wanted.part.last()).saturating_add(1)
    }
}

/// A chunk of which something is wanted: its place in the grid, what of it lies in the box, and what of that is wanted.
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
