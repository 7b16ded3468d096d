//! What Neuroglancer's precomputed format offers of a channel (its type, levels and chunk shapes),
//! and its chunks.
//!
//! A level may list several chunk shapes. The first is for every client: the stored chunk shape
//! where that is of a usable size, because its chunks cost the least, and perhaps no decoding at
//! all. Where no level's stored chunks can be passed through, all levels also list shapes that are
//! one voxel thick, of which Neuroglancer takes the one that suits each plane. It chooses a
//! position in the lists by the finest level, and then ignores levels with shorter lists
//! (`pickBestAlternativeSource` in its `sliceview/base.ts`); a shape that is listed twice is an
//! error to it.

mod format;

use std::sync::Arc;

use voltile_base::geometry::{Level, LevelView, Xyz, at_level};
use voltile_base::name::Name;
use voltile_base::request::{PrecomputedChunk, PrecomputedVolume};
use voltile_base::units;
use voltile_render::plan::{AcceptedCodings, BoxEncoding, Coding};

pub use format::{Precomputed, PrecomputedEncoding, PrecomputedScale};

use super::boxes::affords;
use super::chunks::{SECTION, usual};
use super::{Catalog, Channel, Dataset, NoBox, NotFound, Origin, ResolvedBox};

/// The chunk shapes for single planes, with as many voxels as a cube.
const FLAT: [Xyz<u64>; 3] = [
    SECTION,
    Xyz {
        x: 512,
        y: 1,
        z: 512,
    },
    Xyz {
        x: 1,
        y: 512,
        z: 512,
    },
];

impl Catalog {
    /// A channel of a dataset in the precomputed format; otherwise why it has none. Determined once
    /// for each generation and its limits.
    pub fn precomputed<'a>(
        &self,
        dataset: &'a Dataset,
        channel: &Channel,
    ) -> Result<&'a Precomputed, String> {
        let of = |(name, channel): (&Name, &Arc<Channel>)| {
            (name.clone(), self.determined(dataset, channel))
        };
        let all = dataset
            .derived
            .precomputed
            .get_or_init(|| dataset.channels.iter().map(of).collect());
        match all.get(&channel.name) {
            Some(found) => found.as_ref().map_err(String::clone),
            None => Err("it is not a channel of this dataset".to_owned()),
        }
    }

    fn determined(&self, dataset: &Dataset, channel: &Channel) -> Result<Precomputed, String> {
        let encoding = PrecomputedEncoding::choose(channel)?;
        let views = dataset.listed_views(channel);
        let scale = |view: &LevelView| Some((*view, self.scale(dataset, channel, encoding, view)?));
        let (listed, mut scales): (Vec<_>, Vec<_>) = views.iter().filter_map(scale).unzip();
        if scales.iter().all(|scale| scale.stored.is_none()) {
            let is_for_all = |shape: &Xyz<u64>| {
                scales
                    .iter()
                    .all(|scale| scale.chunk_sizes.first() != Some(shape))
                    && listed
                        .iter()
                        .all(|view| affords(dataset.limits.voxels_per_box, channel, view, *shape))
            };
            let flat: Vec<_> = FLAT.into_iter().filter(is_for_all).collect();
            scales
                .iter_mut()
                .for_each(|scale| scale.chunk_sizes.extend_from_slice(&flat));
        }
        let components = views.first().map_or(1, |view| channel.volumes(view).len());
        if scales.is_empty() {
            return Err(
                "its chunks need more voxels than render.max_voxels_per_box allows".to_owned(),
            );
        }
        Ok(Precomputed {
            encoding,
            components,
            scales,
        })
    }

    /// A requested volume: its channel, and the channel in the precomputed format.
    pub fn precomputed_volume(
        &self,
        volume: &PrecomputedVolume,
    ) -> Result<(Origin, &Precomputed), NotFound> {
        let PrecomputedVolume {
            token,
            channel,
            time,
        } = volume;
        let dataset = self.known(token)?;
        let channel = dataset.channel_at(channel, dataset.time_of(*time, [channel]))?;
        let refused = |reason| NotFound::NotPrecomputed {
            channel: channel.name.clone(),
            reason,
        };
        let precomputed = self.precomputed(dataset, channel).map_err(refused)?;
        Ok((Origin::new(dataset, vec![Arc::clone(channel)]), precomputed))
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
        let affords =
            |chunk: &Xyz<u64>| affords(dataset.limits.voxels_per_box, channel, view, *chunk);
        let own = stored
            .and_then(|level| encoding.suitable_chunk(level).ok())
            .filter(affords);
        let passed = stored
            .filter(|_| own.is_some())
            .and_then(|level| encoding.passed_through(level).ok());
        let first = own.or_else(|| usual(affords))?;
        Some(PrecomputedScale {
            level: view.level,
            size: view.size,
            resolution: dataset
                .nanometres(channel)
                .zip(view.factor, |size, factor| size * factor as f64),
            // Each rounded by itself, as in tiles: the channel lies over the others as it does
            // there.
            offset: at_level(dataset.style.offset, view.factor).zip(
                at_level(dataset.grid_offset(channel), view.factor),
                i64::saturating_add,
            ),
            chunk_sizes: vec![first],
            stored: passed,
        })
    }

    /// Resolves a request for a chunk, and chooses among the codings that the client accepts. Reads
    /// no data.
    pub fn resolve_precomputed(
        &self,
        request: &PrecomputedChunk,
        accepted: AcceptedCodings,
    ) -> Result<(ResolvedBox, BoxEncoding), NoBox> {
        let PrecomputedChunk {
            volume,
            level,
            bounds,
        } = request;
        let dataset = self.known(&volume.token)?;
        let time = dataset.time_of(volume.time, [&volume.channel]);
        let channel = dataset.channel_at(&volume.channel, time)?;
        let (encoding, scale) = self.known_scale(dataset, channel, *level)?;
        let region = scale.region(*bounds).ok_or_else(|| NotFound::OffGrid {
            channel: channel.name.clone(),
            level: level.number(),
            grid: scale.grid(),
        })?;
        let coding = match scale
            .stored
            .filter(|_| scale.chunk_sizes.first() == Some(&region.size))
        {
            Some(Coding::Zlib) if accepted.zlib => Coding::Zlib,
            Some(Coding::Identity) => Coding::Identity,
            _ if accepted.gzip => Coding::Gzip,
            _ => Coding::Identity,
        };
        let size = region.size;
        Ok((
            dataset.cut(channel, time, *level, region)?,
            encoding.of_box(size, coding),
        ))
    }

    /// The scale of a level.
    fn known_scale<'a>(
        &self,
        dataset: &'a Dataset,
        channel: &Channel,
        level: Level,
    ) -> Result<(PrecomputedEncoding, &'a PrecomputedScale), NotFound> {
        let refused = |reason| NotFound::NotPrecomputed {
            channel: channel.name.clone(),
            reason,
        };
        let Precomputed {
            encoding, scales, ..
        } = self.precomputed(dataset, channel).map_err(refused)?;
        if let Some(scale) = scales.iter().find(|scale| scale.level == level) {
            return Ok((*encoding, scale));
        }
        let all: Vec<String> = scales
            .iter()
            .map(|scale| scale.level.number().to_string())
            .collect();
        Err(NotFound::NotAScale {
            channel: channel.name.clone(),
            level: level.number(),
            known: all.join(", "),
        })
    }
}

impl Dataset {
    /// The size of a voxel in nanometres; 1 if it is unknown.
    fn nanometres(&self, channel: &Channel) -> Xyz<f64> {
        let own = || {
            let unit = channel
                .voxel_unit
                .as_deref()
                .and_then(units::in_nanometres)
                .unwrap_or(1.0);
            channel.voxel_size.map(|size| size.map(|edge| edge * unit))
        };
        self.style.voxel_size.or_else(own).unwrap_or(Xyz::all(1.0))
    }
}
