//! A dataset as a volume: maps stored axes to x, y, z and time, and reads boxes of voxels.
//!
//! [`Volume::read`] reads in one of three ways:
//! - `read_unfiltered` copies voxels from the mapped file ([`super::unfiltered`]).
//! - `read_filtered` locates, fetches and decodes chunks ([`super::stored_chunk`]) through the
//!   chunk store ([`super::chunks`]), then copies from them.
//! - `read_via_libhdf5` reads everything else, and chunks too large for the chunk store, through
//!   the library.

mod cached;

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use rayon::prelude::*;
use voltile_base::axes::{Axes, AxisName};
use voltile_base::flow::cache::Abandoned;
use voltile_base::flow::trace::Trace;
use voltile_base::geometry::{Axis, Region, Xyz};
use voltile_base::metrics::Meter;

use self::cached::{CachedChunks, WantedChunk};
use super::OpenError;
use super::chunks::{Chunk, ChunkRequest, ChunkStore, Extent, FoundChunk};
use super::dataset::StoredDataset;
use super::grid::{Grid, Position, RANK, StoredBox, linear};
use super::index::Entry;
use super::library::ElementMeaning;
use crate::volume::scatter::{Sieve, Strided, touch_box};
use crate::volume::{
    Access, BLOCK_BYTES, BoxMut, ChunkCoding, ComplexPart, Decode, NoReferences, Positions,
    ReadCost, ReadError, ReadRequest, Samples, StoredArray, StoredChunk, StoredPart, StoredRanges,
    TakePart, Tally, Tzyx, Values, Volume, VolumeShape, VoxelType, Yields,
};

/// How a dataset is interpreted as a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// The names of its axes, slowest first.
    pub axes: Axes,
    /// Axes along which only one position is read, each with the position.
    pub fixed: Vec<(AxisName, u64)>,
    /// The type of the voxels, if it differs from the stored one (unsigned integers stored as
    /// signed ones, bool as `u8`).
    pub means: Option<VoxelType>,
    /// The extent of the data, if the dataset is padded.
    pub size: Option<Xyz<u64>>,
    /// The values for which the stored values stand, if not for themselves. Applied by the
    /// catalogue, on top of the dataset's volume.
    pub values: Option<Values>,
    /// The part of complex numbers that is shown; `None` for other elements. Magnitude and phase
    /// are computed by the catalogue.
    pub part: Option<ComplexPart>,
    /// How often each voxel is repeated along each axis, so that it fills the voxels of a finer
    /// volume. Applied last.
    pub repeat: Xyz<u64>,
}

impl View {
    /// The view of a dataset that is described by its axes alone.
    pub fn from_axes(axes: Axes) -> Self {
        Self {
            axes,
            fixed: Vec::new(),
            means: None,
            size: None,
            values: None,
            part: None,
            repeat: Xyz::all(1),
        }
    }

    /// Whether the dataset has this axis, and the view is not fixed at one position along it.
    pub fn extends_along(&self, axis: AxisName) -> bool {
        let is_fixed = self.fixed.iter().any(|(fixed, _)| *fixed == axis);
        self.axes.position(axis).is_some() && !is_fixed
    }

    /// A dataset that holds one volume in z, y, x order.
    pub fn zyx() -> Self {
        Self::from_axes(Axes::from_known([AxisName::Z, AxisName::Y, AxisName::X]))
    }

    /// The view as text.
    pub fn in_words(&self) -> String {
        let mut words = self.axes.to_string();
        for (axis, position) in &self.fixed {
            words.push_str(&format!(" {axis}={position}"));
        }
        if let Some(voxel) = self.means {
            words.push_str(&format!(" meaning {}", voxel.name()));
        }
        if let Some(size) = self.size {
            words.push_str(&format!(" within {size}"));
        }
        if let Some(values) = &self.values {
            words.push_str(&format!(" standing for {}", values.digest()));
        }
        if let Some(part) = self.part {
            words.push_str(&format!(" {}", part.name()));
        }
        if self.repeat != Xyz::all(1) {
            words.push_str(&format!(" repeated {}", self.repeat));
        }
        words
    }
}

impl Hash for View {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.axes, &self.fixed, self.means, self.size, &self.values).hash(state);
        // The keys of all other volumes are as they were before voxels could be repeated, and
        // complex.
        if self.repeat != Xyz::all(1) {
            self.repeat.hash(state);
        }
        if let Some(part) = self.part {
            part.hash(state);
        }
    }
}

/// The role of a stored axis in the volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Space(Axis),
    Time,
    Fixed(u64),
}

/// One dataset, read as a volume of scalar voxels over time.
#[derive(Debug)]
pub struct Hdf5Volume {
    dataset: Arc<StoredDataset>,
    roles: [Role; RANK],
    shape: VolumeShape,
    chunks: ChunkStore,
}

/// The approximate size in bytes of the chunks that are decoded in parallel for one box: small
/// compared with the cache, and enough to occupy all threads.
const TOGETHER: u64 = 4 << 20;

/// How many stored bytes are fetched for a box before the first of its chunks is decoded.
const MAX_GATHERED: u64 = 48 << 20;

/// The most chunks of a box that are listed at once, about 300 bytes each. A tile rarely has as
/// many.
const MAX_LISTED: usize = 1 << 12;

impl Hdf5Volume {
    pub(super) fn new(
        dataset: Arc<StoredDataset>,
        view: &View,
        chunks: ChunkStore,
    ) -> Result<Self, OpenError> {
        let wrong =
            |problem: String| OpenError::object(&dataset.file.location, &dataset.path, problem);
        if view.axes.rank() != dataset.shape.len() {
            let axes = &view.axes;
            let shape = &dataset.shape;
            return Err(wrong(format!(
                "its shape {shape:?} and the axes \"{axes}\" differ in rank"
            )));
        }
        let mut roles = [Role::Fixed(0); RANK];
        let mut own = view
            .axes
            .iter()
            .map(|axis| role(axis, &view.fixed))
            .collect::<Vec<_>>();
        if dataset.stored.meaning == ElementMeaning::Complex {
            let part = view
                .part
                .ok_or_else(|| wrong(ComplexPart::EXPECTED.to_owned()))?;
            own.push(Role::Fixed(u64::from(part == ComplexPart::Imaginary)));
        }
        for (place, role) in roles.iter_mut().rev().zip(own.iter().rev()) {
            *place = *role;
        }
        for ((axis, role), extent) in view.axes.iter().zip(&own).zip(&dataset.shape) {
            if let Role::Fixed(index) = role
                && index >= extent
            {
                return Err(wrong(format!(
                    "the axis {axis} has {extent} positions; there is no {index}"
                )));
            }
        }
        let shape = volume_shape(&dataset, &roles, view, &chunks);
        if shape.size.volume() == 0 || shape.times == 0 {
            return Err(wrong(format!(
                "its shape {:?} holds no voxels",
                dataset.shape
            )));
        }
        Ok(Self {
            dataset,
            roles,
            shape,
            chunks,
        })
    }

    /// The dataset it reads.
    pub fn dataset(&self) -> &Arc<StoredDataset> {
        &self.dataset
    }

    /// The region at a time point, in stored axis order.
    fn stored_box(&self, time: u64, region: &Region) -> StoredBox {
        StoredBox {
            start: self.roles.map(|role| match role {
                Role::Space(axis) => region.start[axis],
                Role::Time => time,
                Role::Fixed(index) => index,
            }),
            count: self.roles.map(|role| match role {
                Role::Space(axis) => region.size[axis],
                Role::Time | Role::Fixed(_) => 1,
            }),
        }
    }

    /// The place of samples in a contiguous buffer of shape `dims` (stored order); they lie in a
    /// part whose first voxel is at `within`.
    fn place(&self, dims: &Position, within: &Position, sieve: &Sieve, step: Xyz<u64>) -> Strided {
        let mut strides = Xyz::all(0);
        let mut stride = 1;
        for (role, extent) in self.roles.iter().zip(dims).rev() {
            if let Role::Space(axis) = role {
                strides[*axis] = stride;
            }
            stride *= *extent as usize;
        }
        let start = linear(dims, within) as usize;
        Strided::picked(start, strides, sieve.offset, step, sieve.count)
    }

    /// The x, y and z components of a position in stored order; `missing` for axes that are not
    /// stored.
    fn spatial(&self, stored: &Position, missing: u64) -> Xyz<u64> {
        let mut xyz = Xyz::all(missing);
        for (role, value) in self.roles.iter().zip(stored) {
            if let Role::Space(axis) = role {
                xyz[*axis] = *value;
            }
        }
        xyz
    }

    /// The chunks that contain wanted voxels, in stored order; chunks that the step skips are left
    /// out.
    fn wanted<'a>(&'a self, reading: &'a BoxReading<'_>) -> impl Iterator<Item = WantedChunk> + 'a {
        let grid = &self.dataset.grid;
        let region = &reading.request.region;
        let step = reading.request.step;
        grid.chunks_of(&reading.stored).filter_map(move |at| {
            let part = grid.part_of(&at, &reading.stored);
            let within = Region {
                start: self.spatial(&part.start, 0),
                size: self.spatial(&part.count, 1),
            };
            Some(WantedChunk {
                sieve: Sieve::new(&within, region, step)?,
                at,
                part,
            })
        })
    }

    /// Ends a read that yields to requests, or that nobody waits for any more.
    fn end_early(&self, reading: &BoxReading<'_>) -> Result<(), Abandoned> {
        let ends = match &reading.request.policy.yields {
            Yields::Never => false,
            Yields::ToRequests => self.chunks.activity().has_jobs(),
            Yields::Unwanted(interest) => !interest.is_there(),
        };
        if ends { Err(Abandoned) } else { Ok(()) }
    }

    /// Measures a read.
    fn meter<'a>(&'a self, reading: &'a BoxReading<'_>) -> Meter<'a> {
        Meter::new(self.chunks.metrics(), reading.trace())
    }

    /// Reads a box of unfiltered voxels: locates its chunks, then copies the wanted voxels from the
    /// mapped file.
    fn read_unfiltered(
        &self,
        reading: &BoxReading<'_>,
        into: &mut BoxMut<'_>,
    ) -> Result<(), ReadError> {
        let bytes = self.dataset.unfiltered_bytes()?;
        let mut wanted = self.wanted(reading).peekable();
        while wanted.peek().is_some() {
            let located = wanted.by_ref().take(MAX_LISTED);
            let located =
                located.map(|wanted| Ok((self.dataset.unfiltered_chunk(&wanted.at)?, wanted)));
            for (chunk, wanted) in located.collect::<Result<Vec<_>, ReadError>>()? {
                self.end_early(reading)?;
                let step = reading.request.step;
                let Sieve { place, count, .. } = wanted.sieve;
                let mut into = into.part(place, count);
                if let Some(chunk) = chunk {
                    if let Some(trace) = reading.trace() {
                        trace.add_read(1, count.volume() * self.dataset.stored_bytes() as u64);
                    }
                    let dims = self.dataset.grid.chunk();
                    let from = self.place(dims, &wanted.part.within, &wanted.sieve, step);
                    bytes.copy(chunk, from, into, count, self.shape.voxel)?;
                } else {
                    let fill = self
                        .dataset
                        .fill_value(wanted.part.start, self.shape.voxel)?;
                    self.dataset.ensure_types_match(into.fill(&fill))?;
                }
            }
        }
        bytes.ensure_still_there()
    }

    /// Reads a box of filtered chunks.
    fn read_filtered(
        &self,
        reading: &BoxReading<'_>,
        into: &mut BoxMut<'_>,
    ) -> Result<(), ReadError> {
        let mut wanted = self.wanted(reading).peekable();
        while wanted.peek().is_some() {
            self.read_chunks(wanted.by_ref().take(MAX_LISTED), reading, into)?;
        }
        Ok(())
    }

    /// Copies from cached chunks first. All missing chunks are located before the first is fetched;
    /// then each is fetched, decoded and copied from.
    fn read_chunks(
        &self,
        wanted: impl Iterator<Item = WantedChunk>,
        reading: &BoxReading<'_>,
        into: &mut BoxMut<'_>,
    ) -> Result<(), ReadError> {
        let dataset = &self.dataset;
        let missing = self.copy_cached(wanted, reading, into)?;
        let located = missing
            .into_iter()
            .map(|wanted| Ok((dataset.entry(&wanted.at)?, wanted)));
        let mut located = located.collect::<Result<Vec<_>, ReadError>>()?;
        while let Some(few) = taken(&mut located, dataset.file.is_remote()) {
            self.read_located(few, reading, into)?;
        }
        Ok(())
    }

    /// Fetches, decodes and copies from chunks.
    fn read_located(
        &self,
        located: Vec<(Option<Entry>, WantedChunk)>,
        reading: &BoxReading<'_>,
        into: &mut BoxMut<'_>,
    ) -> Result<(), ReadError> {
        let store = &self.chunks;
        let meter = self.meter(reading);
        // All bytes of a store are on their way before the first chunk is decoded.
        let stored = self
            .dataset
            .ranges(located.iter().map(|(entry, wanted)| (wanted.at, *entry)));
        let _gathering = stored.map(|stored| stored.gather()).transpose()?;
        // Several threads take part only if no other tile is being rendered.
        let read = if located.len() > 1 {
            store
                .activity()
                .split(|| self.read_together(&located, reading, into))
        } else {
            None
        };
        if let Some(read) = read {
            return read;
        }
        // Chunks that another thread is decoding come last: threads that want the same chunks then
        // decode different ones in parallel, instead of all waiting for the same one.
        let mut in_flight = Vec::new();
        for (entry, wanted) in located {
            self.end_early(reading)?;
            let request = self.chunk_request(&wanted, reading);
            let found = meter.fetch(|| {
                store.find(&request, |extent| {
                    self.decoded(entry, &request, extent, meter)
                })
            })?;
            match found {
                FoundChunk::Chunk(chunk) => self.copy(&chunk, &wanted, reading, into)?,
                FoundChunk::InFlight(_) => in_flight.push((entry, wanted)),
            }
        }
        for (entry, wanted) in in_flight {
            self.end_early(reading)?;
            let request = self.chunk_request(&wanted, reading);
            let chunk = meter.fetch(|| {
                store.get(&request, |extent| {
                    self.decoded(entry, &request, extent, meter)
                })
            })?;
            self.copy(&chunk, &wanted, reading, into)?;
        }
        Ok(())
    }

    /// Decodes groups of chunks on all threads; copies from each group before the next is decoded.
    fn read_together(
        &self,
        located: &[(Option<Entry>, WantedChunk)],
        reading: &BoxReading<'_>,
        into: &mut BoxMut<'_>,
    ) -> Result<(), ReadError> {
        let meter = self.meter(reading);
        for group in located.chunks(self.most_together()) {
            self.end_early(reading)?;
            let chunks = meter.fetch(|| {
                let chunks = group.par_iter().with_max_len(1).map(|(entry, wanted)| {
                    let request = self.chunk_request(wanted, reading);
                    self.chunks.get(&request, |extent| {
                        self.decoded(*entry, &request, extent, meter)
                    })
                });
                chunks.collect::<Result<Vec<_>, _>>()
            })?;
            for ((_, wanted), chunk) in group.iter().zip(chunks) {
                self.copy(&chunk, wanted, reading, into)?;
            }
        }
        Ok(())
    }

    /// Fetches and decodes a chunk.
    fn decoded(
        &self,
        entry: Option<Entry>,
        request: &ChunkRequest<'_>,
        extent: Extent,
        meter: Meter<'_>,
    ) -> Result<Chunk, ReadError> {
        let stored = self.dataset.fetch(&request.at, entry, meter)?;
        self.chunks.decode(request, &stored, extent)
    }

    /// Copies from the chunks that are in the cache, and returns the missing ones.
    fn copy_cached(
        &self,
        wanted: impl Iterator<Item = WantedChunk>,
        reading: &BoxReading<'_>,
        into: &mut BoxMut<'_>,
    ) -> Result<Vec<WantedChunk>, ReadError> {
        let mut missing = Vec::new();
        let mut cached = CachedChunks::default();
        for wanted in wanted {
            match self.chunks.cached(&self.chunk_request(&wanted, reading)) {
                Some(chunk) if chunk.constant || wanted.is_tall() => {
                    self.copy(&chunk, &wanted, reading, into)?;
                }
                Some(chunk) => {
                    cached.add(chunk, wanted);
                    if cached.is_full() {
                        self.copy_together(&cached.take(), reading, into)?;
                    }
                }
                None => missing.push(wanted),
            }
        }
        self.copy_together(&cached.take(), reading, into)?;
        Ok(missing)
    }

    /// Copies from several chunks, after the start of every wanted row has been read.
    fn copy_together(
        &self,
        chunks: &[(Arc<Chunk>, WantedChunk)],
        reading: &BoxReading<'_>,
        into: &mut BoxMut<'_>,
    ) -> Result<(), ReadError> {
        for (chunk, wanted) in chunks {
            touch_box(&chunk.samples, self.place_in(chunk, wanted, reading));
        }
        for (chunk, wanted) in chunks {
            self.copy(chunk, wanted, reading, into)?;
        }
        Ok(())
    }

    /// How many chunks are decoded in parallel before they are copied from.
    fn most_together(&self) -> usize {
        (TOGETHER / self.dataset.chunk_bytes().max(1)).max(2 * rayon::current_num_threads() as u64)
            as usize
    }

    fn chunk_request<'a>(
        &'a self,
        wanted: &WantedChunk,
        reading: &'a BoxReading<'_>,
    ) -> ChunkRequest<'a> {
        let voxels = match reading.request.policy.decode {
            Decode::Whole => u64::MAX,
            Decode::AsNeeded => self.dataset.grid.prefix_of(&wanted.part),
        };
        ChunkRequest {
            trace: reading.trace(),
            unfinished: reading.request.policy.unfinished.as_ref(),
            ..ChunkRequest::new(&self.dataset, wanted.at, voxels, self.shape.voxel)
        }
    }

    /// Copies the wanted voxels of a chunk to their place.
    fn copy(
        &self,
        chunk: &Chunk,
        wanted: &WantedChunk,
        reading: &BoxReading<'_>,
        into: &mut BoxMut<'_>,
    ) -> Result<(), ReadError> {
        let mut into = into.part(wanted.sieve.place, wanted.sieve.count);
        self.dataset.ensure_types_match(if chunk.constant {
            into.fill(&chunk.samples)
        } else {
            into.copy(&chunk.samples, self.place_in(chunk, wanted, reading))
        })
    }

    /// The place of the wanted voxels in a decoded chunk.
    fn place_in(&self, chunk: &Chunk, wanted: &WantedChunk, reading: &BoxReading<'_>) -> Strided {
        let step = reading.request.step;
        self.place(&chunk.dims, &wanted.part.within, &wanted.sieve, step)
    }

    /// Reads through the library: in one call, or block by block if the box is large or thinned.
    fn read_via_libhdf5(
        &self,
        reading: &BoxReading<'_>,
        into: &mut BoxMut<'_>,
    ) -> Result<(), ReadError> {
        let ReadRequest { region, step, .. } = reading.request;
        let most = BLOCK_BYTES / self.shape.voxel.samples().voxel_bytes() as u64;
        let mut block = Samples::default();
        // The library's lock is held for each whole call.
        if *step == Xyz::all(1) && region.voxels() <= most {
            return self.read_in_one_call(reading, region, &mut block, into);
        }
        for part in region.blocks(self.shape.chunk, most) {
            self.read_in_one_call(reading, &part, &mut block, into)?;
        }
        Ok(())
    }

    /// Reads the wanted voxels of a part of the box through the library. Fails for chunks beyond
    /// the end of the file, for which the library returns zeros.
    fn read_in_one_call(
        &self,
        reading: &BoxReading<'_>,
        part: &Region,
        block: &mut Samples,
        into: &mut BoxMut<'_>,
    ) -> Result<(), ReadError> {
        let ReadRequest {
            time, region, step, ..
        } = reading.request;
        let Some(sieve) = Sieve::new(part, region, *step) else {
            return Ok(());
        };
        self.end_early(reading)?;
        let stored = self.stored_box(*time, part);
        self.meter(reading)
            .read_at_once(&self.chunks.metrics().library, || {
                block.reset(self.shape.voxel, part.voxels() as usize);
                self.dataset.ensure_chunks_in_file(&stored)?;
                self.dataset.read_box(&stored, block)
            })?;
        let from = self.place(&stored.count, &[0; RANK], &sieve, *step);
        self.dataset
            .ensure_types_match(into.part(sieve.place, sieve.count).copy(block, from))
    }

    /// How the chunks of a grid of its dataset are shaped and coded; otherwise why Zarr cannot have
    /// them.
    fn stored_array(&self, grid: &Grid) -> Result<StoredArray, String> {
        let dataset = &self.dataset;
        let codecs = dataset.codecs()?;
        let mut chunk = [1; 4];
        let mut long = Vec::new();
        for (role, extent) in self
            .roles
            .iter()
            .zip(grid.chunk())
            .filter(|(_, extent)| **extent > 1)
        {
            let axis = rank(*role).ok_or("its chunks hold several channels")?;
            chunk[axis] = *extent;
            long.push(axis);
        }
        let is_reversed = !long.is_sorted();
        if is_reversed && !long.iter().rev().is_sorted() {
            return Err(
                "in its chunks the order of the axes is neither t, z, y, x nor its reverse"
                    .to_owned(),
            );
        }
        let fill = self
            .shape
            .fill
            .clone()
            .ok_or("its fill value cannot be read")?;
        let is_big_endian = dataset.stored.big_endian && dataset.stored_bytes() > 1;
        Ok(StoredArray {
            voxel: self.shape.voxel,
            is_big_endian,
            chunk,
            is_reversed,
            codecs,
            fill,
        })
    }

    /// The place in the volume's grid of a chunk of the dataset's grid; `None` if the volume does
    /// not show it.
    fn in_volume(&self, at: &Position) -> Option<Tzyx> {
        let mut roles = self.roles.iter().zip(at);
        let is_shown = roles
            .clone()
            .all(|(role, at)| !matches!(role, Role::Fixed(own) if own != at));
        let t = roles.find_map(|(role, at)| (*role == Role::Time).then_some(*at));
        let Xyz { x, y, z } = self.spatial(at, 0);
        is_shown.then_some([t.unwrap_or(0), z, y, x])
    }

    /// The position in the file of the chunk at `place` in the grid; `None` beyond the volume, if
    /// chunks have no common coding, and if the chunk is known to be corrupt.
    fn uniform_chunk(&self, time: u64, place: Xyz<u64>) -> Option<Position> {
        let start = place.zip(self.shape.chunk, u64::saturating_mul);
        let is_within = start.zip(self.shape.size, |start, size| start < size) == Xyz::all(true);
        if !is_within || self.shape.coding.is_err() {
            return None;
        }
        let first = self.stored_box(
            time,
            &Region {
                start,
                size: Xyz::all(1),
            },
        );
        let at = self.dataset.grid.beginning_at(&first.start);
        (!self.dataset.is_corrupt(&at)).then_some(at)
    }
}

impl Volume for Hdf5Volume {
    fn shape(&self) -> &VolumeShape {
        &self.shape
    }

    fn read_box(&self, request: &ReadRequest, mut into: BoxMut<'_>) -> Result<(), ReadError> {
        let _working = self.dataset.work()?;
        let reading = BoxReading {
            request,
            stored: self.stored_box(request.time, &request.region),
        };
        match self.shape.access {
            Access::Uncached => self.read_via_libhdf5(&reading, &mut into)?,
            Access::Direct => {
                let clock = &self.chunks.metrics().copying;
                self.meter(&reading)
                    .read_at_once(clock, || self.read_unfiltered(&reading, &mut into))?;
            }
            Access::Cached => self.read_filtered(&reading, &mut into)?,
        }
        let first = self.dataset.grid.beginning_at(&reading.stored.start);
        self.dataset.ensure_only_grown(&first)
    }

    fn gaps(&self, time: u64, region: &Region) -> Vec<Region> {
        let gaps = self
            .dataset
            .gaps_in(&self.stored_box(time, region))
            .into_iter();
        gaps.map(|gap| Region {
            start: self.spatial(&gap.start, 0),
            size: self.spatial(&gap.count, 1),
        })
        .collect()
    }

    fn is_final(&self, time: u64, region: &Region) -> bool {
        self.dataset.is_final(&self.stored_box(time, region))
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
        let stored = self.stored_box(time, region);
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
            let Some(rest) = room.checked_sub(stored_bytes(entry)) else {
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
        let _working = self.dataset.work()?;
        match self.uniform_chunk(time, place) {
            Some(at) => self
                .dataset
                .bytes_as_stored(at, Meter::new(self.chunks.metrics(), trace)),
            None => Ok(None),
        }
    }

    fn cached_stored_chunk(&self, time: u64, place: Xyz<u64>) -> Option<Bytes> {
        let stored_bytes = &self.chunks.metrics().chunk_stored_bytes;
        self.dataset
            .cached_bytes_as_stored(self.uniform_chunk(time, place)?, stored_bytes)
    }

    fn is_written(&self, time: u64, region: &Region) -> Result<bool, ReadError> {
        if self.dataset.declared_fill.is_none() {
            return Ok(true);
        }
        let _working = self.dataset.work()?;
        self.dataset.is_written(&self.stored_box(time, region))
    }

    fn references(&self, _path: &str, take: &mut TakePart<'_>) -> Result<(), NoReferences> {
        let dataset = self.dataset.as_ref();
        let _working = dataset.work().map_err(ReadError::from)?;
        let described = dataset
            .referred_grid()
            .and_then(|grid| Ok((grid, self.stored_array(&grid)?)));
        let (grid, array) =
            &described.map_err(|problem| NoReferences::unmapped(&dataset.path, problem))?;
        let Xyz { x, y, z } = self.shape.size;
        let beyond = [self.shape.times, z, y, x];
        for (file, chunks) in dataset.referred_chunks(grid)? {
            let chunks = chunks.filter_map(|(number, offset, length)| {
                let place = self.in_volume(&grid.numbered(number))?;
                let is_within = (0..4).all(|axis| place[axis] * array.chunk[axis] < beyond[axis]);
                is_within.then_some(StoredChunk {
                    place,
                    offset,
                    length,
                })
            });
            take(StoredPart {
                dataset: &dataset.path,
                file,
                array,
                chunks: Box::new(chunks),
            })?;
        }
        Ok(())
    }

    fn rehearse(&self, until: Instant) {
        self.dataset.rehearse_index(until);
        let first = Region {
            start: Xyz::all(0),
            size: Xyz::all(1),
        };
        if self.dataset.is_light() {
            // Errors are reported when voxels are read for a tile.
            let _ = self.read(&ReadRequest::new(0, first), &mut Samples::default());
        }
    }

    fn tally(&self, _most: usize) -> Result<Tally, ReadError> {
        self.dataset.tally()
    }

    fn cost(&self, wanted: &Positions, tally: &Tally) -> Option<ReadCost> {
        let stored = self.roles.map(|role| match role {
            Role::Space(axis) => wanted[axis].clone(),
            Role::Time => one_run(0),
            Role::Fixed(index) => one_run(index),
        });
        self.dataset.cost(&stored, tally)
    }
}

/// A request, and its box in stored order.
struct BoxReading<'a> {
    request: &'a ReadRequest,
    stored: StoredBox,
}

impl BoxReading<'_> {
    fn trace(&self) -> Option<&Trace> {
        self.request.policy.trace.as_deref()
    }
}

/// Takes the chunks to read next: all of a local file; of an object in a store, as many as are
/// fetched at once.
fn taken(
    located: &mut Vec<(Option<Entry>, WantedChunk)>,
    is_remote: bool,
) -> Option<Vec<(Option<Entry>, WantedChunk)>> {
    let mut bytes = 0;
    let beyond = located.iter().position(|(entry, _)| {
        bytes += stored_bytes(*entry);
        is_remote && bytes > MAX_GATHERED
    });
    let count = beyond.unwrap_or(located.len()).max(1);
    if located.is_empty() {
        return None;
    }
    let rest = located.split_off(count);
    Some(std::mem::replace(located, rest))
}

/// The number of stored bytes of a chunk with this index entry.
fn stored_bytes(entry: Option<Entry>) -> u64 {
    entry.map_or(0, |entry| u64::from(entry.length))
}

fn one_run(at: u64) -> Vec<Range<u64>> {
    std::iter::once(at..at + 1).collect()
}

fn role(axis: AxisName, fixed: &[(AxisName, u64)]) -> Role {
    if let Some((_, index)) = fixed.iter().find(|(name, _)| *name == axis) {
        return Role::Fixed(*index);
    }
    match axis {
        AxisName::T => Role::Time,
        // No channel was chosen: the first one.
        AxisName::C => Role::Fixed(0),
        AxisName::Z => Role::Space(Axis::Z),
        AxisName::Y => Role::Space(Axis::Y),
        AxisName::X => Role::Space(Axis::X),
    }
}

fn access(dataset: &StoredDataset, chunks: &ChunkStore) -> Access {
    if dataset.is_unfiltered() {
        Access::Direct
    } else if chunks.serves(dataset) {
        Access::Cached
    } else {
        Access::Uncached
    }
}

fn volume_shape(
    dataset: &StoredDataset,
    roles: &[Role; RANK],
    view: &View,
    chunks: &ChunkStore,
) -> VolumeShape {
    let mut size = Xyz::all(1);
    let mut chunk = Xyz::all(1);
    let mut times = 1;
    for ((role, extent), natural) in roles
        .iter()
        .zip(dataset.grid.shape())
        .zip(dataset.chunk_shape())
    {
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
        (signed, Some(unsigned)) if signed.unsigned() == Some(unsigned) => unsigned,
        (VoxelType::U8, Some(VoxelType::Bool)) => VoxelType::Bool,
        _ => stored,
    };
    let access = access(dataset, chunks);
    let is_remote = dataset.file.is_remote();
    let coding = chunk_coding(dataset, roles, voxel);
    let fill = fill(dataset, voxel);
    VolumeShape {
        voxel,
        size,
        times,
        present: None,
        chunk,
        access,
        is_remote,
        coding,
        fill,
    }
}

fn chunk_coding(
    dataset: &StoredDataset,
    roles: &[Role; RANK],
    voxel: VoxelType,
) -> Result<ChunkCoding, String> {
    let coding = dataset.chunk_coding()?;
    if !is_in_order(roles) {
        return Err("its axes are not in the order z, y, x".to_owned());
    }
    // Axes that are not in space must not lie within a chunk.
    let others = roles.iter().zip(dataset.grid.chunk());
    if others
        .filter(|(role, _)| !matches!(role, Role::Space(_)))
        .any(|(_, extent)| *extent > 1)
    {
        return Err("its chunks hold several time points or channels".to_owned());
    }
    Ok(ChunkCoding { voxel, ..coding })
}

/// Whether the stored axes are in the order z, y, x.
fn is_in_order(roles: &[Role; RANK]) -> bool {
    roles
        .iter()
        .filter(|role| matches!(role, Role::Space(_)))
        .filter_map(|role| rank(*role))
        .is_sorted()
}

/// The place of an axis among t, z, y and x.
fn rank(role: Role) -> Option<usize> {
    match role {
        Role::Time => Some(0),
        Role::Space(Axis::Z) => Some(1),
        Role::Space(Axis::Y) => Some(2),
        Role::Space(Axis::X) => Some(3),
        Role::Fixed(_) => None,
    }
}

/// The fill value that the dataset declares, as one voxel.
fn fill(dataset: &StoredDataset, voxel: VoxelType) -> Option<Samples> {
    let bytes = dataset.declared_fill.as_deref()?;
    let mut fill = Samples::default();
    fill.reset(voxel, 1);
    (fill.bytes().len() == bytes.len()).then(|| fill.bytes_mut().copy_from_slice(bytes))?;
    Some(fill)
}

#[cfg(test)]
mod tests;
