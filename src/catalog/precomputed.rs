//! What Neuroglancer's precomputed format offers of a channel (its type, levels and chunk shapes), and its chunks.
//!
//! A level may list several chunk shapes. The first is for every client: the stored chunk shape where that is of a usable
//! size, because its chunks cost the least, and perhaps no decoding at all. Where no level's stored chunks can be passed
//! through, all levels also list shapes that are one voxel thick, of which Neuroglancer takes the one that suits each plane.
//! It chooses a position in the lists by the finest level, and then ignores levels with shorter lists
//! (`pickBestAlternativeSource` in its `sliceview/base.ts`); a shape that is listed twice is an error to it.

use std::sync::Arc;

use super::boxes::affords;
use super::chunks::{SECTION, usual};
use super::{Catalog, Channel, Dataset, NoBox, NotFound, ResolvedBox, StoredLevel};
use crate::geometry::{Level, LevelView, Region, Xyz, at_level};
use crate::name::Name;
use crate::paint::Kind;
use crate::plan::{AcceptedCodings, BoxEncoding, ChunkFormat, Coding, SegmentationFormat};
use crate::request::{BoxRequest, PrecomputedChunk, PrecomputedVolume};
use crate::units;
use crate::volume::VoxelType;

/// The chunk shapes for single planes, with as many voxels as a cube.
const FLAT: [Xyz<u64>; 3] = [SECTION, Xyz { x: 512, y: 1, z: 512 }, Xyz { x: 1, y: 512, z: 512 }];

/// A channel in the precomputed format.
#[derive(Debug, Clone, PartialEq)]
pub struct Precomputed {
    /// How its voxels are encoded.
    pub encoding: PrecomputedEncoding,
    /// The number of values per voxel.
    pub components: usize,
    /// The levels, finest first; not empty.
    pub scales: Vec<PrecomputedScale>,
}

/// How voxels are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrecomputedEncoding {
    /// Whether they are labels.
    pub is_segmentation: bool,
    /// Whether they are encoded as `compressed_segmentation` rather than `raw`.
    pub is_compressed: bool,
    voxel: VoxelType,
}

/// A level in the precomputed format.
#[derive(Debug, Clone, PartialEq)]
pub struct PrecomputedScale {
    /// The level, whose number is the key.
    pub level: Level,
    /// The extent.
    pub size: Xyz<u64>,
    /// The size of a voxel in nanometres.
    pub resolution: Xyz<f64>,
    /// The position of the first voxel.
    pub offset: Xyz<i64>,
    /// The chunk shapes; not empty.
    pub chunk_sizes: Vec<Xyz<u64>>,
    /// The coding of stored chunks of the first shape, if they are passed through.
    stored: Option<Coding>,
}

impl PrecomputedEncoding {
    /// How a channel's voxels are encoded; otherwise why the format has nothing for them.
    fn of(channel: &Channel) -> Result<Self, String> {
        let (voxel, is_segmentation) = (channel.voxel, channel.kind == Kind::Labels);
        let refused = |instead: &str| {
            Err(format!("it has no {} for images; {instead}, or use another format", voxel.name()))
        };
        let (voxel, is_compressed) = match (voxel, is_segmentation) {
            (VoxelType::U32 | VoxelType::U64, true) => (voxel, true),
            (VoxelType::I8 | VoxelType::I16 | VoxelType::I32 | VoxelType::I64, true) => {
                (VoxelType::U64, true)
            }
            (VoxelType::I64, false) => return refused("if they are labels, set kind = \"labels\""),
            (VoxelType::F64, _) => return refused("store float32"),
            (VoxelType::F16, _) => (VoxelType::F32, false),
            _ => (voxel, false),
        };
        Ok(Self { is_segmentation, is_compressed, voxel })
    }

    /// The name of the type in the format. Booleans are bytes.
    pub fn data_type(self) -> &'static str {
        if self.voxel == VoxelType::Bool { VoxelType::U8.name() } else { self.voxel.name() }
    }

    fn of_box(self, size: Xyz<u64>, coding: Coding) -> BoxEncoding {
        let voxel = self.voxel;
        match self.is_compressed {
            true => BoxEncoding::Segmentation(SegmentationFormat { voxel, coding }),
            false => BoxEncoding::Chunk(ChunkFormat { size, voxel, is_big_endian: false, coding }),
        }
    }

    /// The coding of the chunks of a stored level, if they are passed through; otherwise why not.
    fn passed_through(self, level: &StoredLevel) -> Result<Coding, String> {
        let stored = level.coding.clone()?;
        if level.volumes.len() > 1 {
            return Err("each chunk holds only one of several colours".to_owned());
        }
        if self.is_compressed {
            return Err(
                "labels that are signed, or have 32 or 64 bits, are encoded as compressed_segmentation"
                    .to_owned(),
            );
        }
        if stored.voxel != self.voxel {
            return Err(format!("{} is converted to {}", stored.voxel.name(), self.voxel.name()));
        }
        if stored.is_big_endian {
            return Err("its numbers are big-endian".to_owned());
        }
        if Some(self.suitable_chunk(level)?) != level.chunk() {
            return Err("its chunks reach beyond its end".to_owned());
        }
        Ok(if stored.is_zlib { Coding::Zlib } else { Coding::Identity })
    }

    /// The stored chunk shape, clipped to the level, if it suits every client.
    fn suitable_chunk(self, level: &StoredLevel) -> Result<Xyz<u64>, String> {
        level.suitable_chunk((self.voxel.stored_bytes() * level.volumes.len()) as u64)
    }
}

impl Channel {
    /// Why stored chunks of a level are not passed through in the precomputed format; `Ok` if they are.
    pub(super) fn passes_through(&self, level: &StoredLevel) -> Result<(), String> {
        PrecomputedEncoding::of(self)?.passed_through(level).map(drop)
    }
}

impl Catalog {
    /// A channel of a dataset in the precomputed format; otherwise why it has none. Determined once for each
    /// generation and its limits.
    pub fn precomputed<'a>(
        &self,
        dataset: &'a Dataset,
        channel: &Channel,
    ) -> Result<&'a Precomputed, String> {
        let of = |(name, channel): (&Name, &Arc<Channel>)| (name.clone(), self.determined(dataset, channel));
        let all = dataset.derived.precomputed.get_or_init(|| dataset.channels.iter().map(of).collect());
        match all.get(&channel.name) {
            Some(found) => found.as_ref().map_err(String::clone),
            None => Err("it is not a channel of this dataset".to_owned()),
        }
    }

    fn determined(&self, dataset: &Dataset, channel: &Channel) -> Result<Precomputed, String> {
        let encoding = PrecomputedEncoding::of(channel)?;
        let views = dataset.listed_views(channel);
        let scale = |view: &LevelView| Some((*view, self.scale(dataset, channel, encoding, view)?));
        let (listed, mut scales): (Vec<_>, Vec<_>) = views.iter().filter_map(scale).unzip();
        if scales.iter().all(|scale| scale.stored.is_none()) {
            let is_for_all = |shape: &Xyz<u64>| {
                scales.iter().all(|scale| scale.chunk_sizes.first() != Some(shape))
                    && listed.iter().all(|view| affords(dataset.limits.voxels_per_box, channel, view, *shape))
            };
            let flat: Vec<_> = FLAT.into_iter().filter(is_for_all).collect();
            scales.iter_mut().for_each(|scale| scale.chunk_sizes.extend_from_slice(&flat));
        }
        let components = views.first().map_or(1, |view| channel.volumes(view).len());
        if scales.is_empty() {
            return Err("its chunks need more voxels than render.max_voxels_per_box allows".to_owned());
        }
        Ok(Precomputed { encoding, components, scales })
    }

    /// A requested volume: its channel, and the channel in the precomputed format.
    pub fn precomputed_volume(
        &self,
        volume: &PrecomputedVolume,
    ) -> Result<(&Arc<Channel>, &Precomputed), NotFound> {
        let PrecomputedVolume { token, channel, time } = volume;
        let dataset = self.known(token)?;
        let channel = dataset.channel_at(channel, time.unwrap_or(0))?;
        let refused = |reason| NotFound::NotPrecomputed { channel: channel.name.clone(), reason };
        Ok((channel, self.precomputed(dataset, channel).map_err(refused)?))
    }

    /// A level in the precomputed format; `None` if its chunks would need more voxels than allowed.
    fn scale(
        &self,
        dataset: &Dataset,
        channel: &Channel,
        encoding: PrecomputedEncoding,
        view: &LevelView,
    ) -> Option<PrecomputedScale> {
        let stored = channel.stored_level(view);
        let affords = |chunk: &Xyz<u64>| affords(dataset.limits.voxels_per_box, channel, view, *chunk);
        let own = stored.and_then(|level| encoding.suitable_chunk(level).ok()).filter(affords);
        let passed = stored.filter(|_| own.is_some()).and_then(|level| encoding.passed_through(level).ok());
        let first = own.or_else(|| usual(affords))?;
        Some(PrecomputedScale {
            level: view.level,
            size: view.size,
            resolution: dataset.nanometres(channel).zip(view.factor, |size, factor| size * factor as f64),
            // Each rounded by itself, as in tiles: the channel lies over the others as it does there.
            offset: at_level(dataset.offset, view.factor)
                .zip(at_level(dataset.grid_offset(channel), view.factor), i64::saturating_add),
            chunk_sizes: vec![first],
            stored: passed,
        })
    }

    /// Resolves a request for a chunk, and chooses among the codings that the client accepts. Reads no data.
    pub fn resolve_precomputed(
        &self,
        request: &PrecomputedChunk,
        accepted: AcceptedCodings,
    ) -> Result<(ResolvedBox, BoxEncoding), NoBox> {
        let PrecomputedChunk { volume, level, bounds } = request;
        let dataset = self.known(&volume.token)?;
        let channel = dataset.channel_at(&volume.channel, volume.time.unwrap_or(0))?;
        let (encoding, scale) = self.known_scale(dataset, channel, *level)?;
        let region = scale.region(*bounds).ok_or_else(|| NotFound::OffGrid {
            channel: channel.name.clone(),
            level: level.number(),
            grid: scale.grid(),
        })?;
        let coding = match scale.stored.filter(|_| scale.chunk_sizes.first() == Some(&region.size)) {
            Some(Coding::Zlib) if accepted.zlib => Coding::Zlib,
            Some(Coding::Identity) => Coding::Identity,
            _ if accepted.gzip => Coding::Gzip,
            _ => Coding::Identity,
        };
        let request = BoxRequest {
            token: volume.token.clone(),
            channel: volume.channel.clone(),
            time: volume.time,
            level: *level,
            region,
        };
        Ok((self.resolve_box(&request)?, encoding.of_box(region.size, coding)))
    }

    /// The scale of a level.
    fn known_scale<'a>(
        &self,
        dataset: &'a Dataset,
        channel: &Channel,
        level: Level,
    ) -> Result<(PrecomputedEncoding, &'a PrecomputedScale), NotFound> {
        let refused = |reason| NotFound::NotPrecomputed { channel: channel.name.clone(), reason };
        let Precomputed { encoding, scales, .. } = self.precomputed(dataset, channel).map_err(refused)?;
        if let Some(scale) = scales.iter().find(|scale| scale.level == level) {
            return Ok((*encoding, scale));
        }
        let all: Vec<String> = scales.iter().map(|scale| scale.level.number().to_string()).collect();
        Err(NotFound::NotAScale {
            channel: channel.name.clone(),
            level: level.number(),
            known: all.join(", "),
        })
    }
}

impl PrecomputedScale {
    /// The chunk with these bounds, in voxels of the level; `None` if it is not on the grid of any listed shape.
    fn region(&self, bounds: Xyz<(i64, i64)>) -> Option<Region> {
        let along = |offset: i64, (first, end): (i64, i64)| {
            let first = u64::try_from(first.checked_sub(offset)?).ok()?;
            let end = u64::try_from(end.checked_sub(offset)?).ok()?;
            Some((first, end))
        };
        let place = self.offset.zip(bounds, along);
        let (x, y, z) = (place.x?, place.y?, place.z?);
        let (start, end) = (Xyz::new(x.0, y.0, z.0), Xyz::new(x.1, y.1, z.1));
        let is_chunk = |shape: &&Xyz<u64>| {
            let is_first = start.zip(**shape, |start, edge| start % edge == 0);
            let clipped = start.zip(**shape, u64::saturating_add).zip(self.size, u64::min);
            is_first == Xyz::all(true) && end == clipped
        };
        let is_inside = start.zip(self.size, |start, size| start < size) == Xyz::all(true);
        self.chunk_sizes.iter().find(is_chunk).filter(|_| is_inside)?;
        Some(Region { start, size: end.zip(start, |end, start| end - start) })
    }

    /// The grids, for people.
    fn grid(&self) -> String {
        let shapes: Vec<String> = self.chunk_sizes.iter().map(Xyz::to_string).collect();
        let Xyz { x, y, z } = self.offset;
        format!(
            "chunks are {} voxels (x × y × z), counted from {x}, {y}, {z}, and clipped at the end of the level, which is {} voxels",
            shapes.join(" or "),
            self.size
        )
    }
}

impl Dataset {
    /// The size of a voxel in nanometres; 1 if it is unknown.
    fn nanometres(&self, channel: &Channel) -> Xyz<f64> {
        let own = || {
            let unit = channel.voxel_unit.as_deref().and_then(units::in_nanometres).unwrap_or(1.0);
            channel.voxel_size.map(|size| size.map(|edge| edge * unit))
        };
        self.voxel_size.or_else(own).unwrap_or(Xyz::all(1.0))
    }
}
