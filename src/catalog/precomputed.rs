//! Serves channels in Neuroglancer's precomputed format.
//!
//! A level may list several chunk shapes. The first is for every client: the stored chunk shape
//! where that is of a usable size, because its chunks cost the least, or even no decoding if they
//! are passed through. Where no level's stored chunks can be passed through, all levels also list
//! shapes that are one voxel thick: for each plane, Neuroglancer takes the shape that suits it. It
//! chooses a shape of the finest level, and takes the shapes at the same position in the lists of
//! the other levels, ignoring levels with shorter lists (`pickBestAlternativeSource` in its
//! `sliceview/base.ts`). A shape that is listed twice is an error in Neuroglancer.

mod format;

use std::sync::Arc;

use voltile_base::geometry::{LevelView, Xyz, at_level};
use voltile_base::name::Name;
use voltile_base::request::{PrecomputedChunk, PrecomputedVolume};
use voltile_base::text::joined;
use voltile_base::units;
use voltile_render::plan::{AcceptedCodings, Coding};

pub use format::{Precomputed, PrecomputedEncoding, PrecomputedScale};

use super::chunks::{SECTION, default_chunk};
use super::{Catalog, Channel, Dataset, NotFound, Origin, RequestPlan};

/// The chunk shapes for single planes, with as many voxels as a cube.
const FLAT: [Xyz<u64>; 3] = [SECTION, Xyz::new(512, 1, 512), Xyz::new(1, 512, 512)];

impl Dataset {
    /// A channel in the precomputed format, or the reason why the format cannot describe it.
    /// Determined once for each generation and its limits.
    pub fn precomputed(&self, channel: &Channel) -> Result<&Precomputed, &String> {
        let all = self.derived.precomputed.get_or_init(|| {
            let channels = self.channels.iter();
            channels
                .map(|(name, channel)| (name.clone(), self.form_precomputed(channel)))
                .collect()
        });
        all[&channel.name].as_ref()
    }

    /// Chooses encoding, levels and chunk shapes as the comment of this module says.
    fn form_precomputed(&self, channel: &Channel) -> Result<Precomputed, String> {
        let encoding = PrecomputedEncoding::choose(channel)?;
        let views = self.listed_views(channel);
        let components = channel.finest().volumes.len();
        let mut listed = Vec::new();
        let mut scales = Vec::new();
        for view in views {
            if let Some(scale) = self.scale(channel, encoding, &view) {
                listed.push(view);
                scales.push(scale);
            }
        }
        if scales.is_empty() {
            return Err(
                "its chunks need more voxels than render.max_voxels_per_box allows".to_owned(),
            );
        }
        if scales.iter().all(|scale| scale.stored.is_none()) {
            let mut flat = FLAT.to_vec();
            flat.retain(|shape| {
                let is_listed = scales
                    .iter()
                    .any(|scale| scale.chunk_sizes.first() == Some(shape));
                let is_affordable = listed
                    .iter()
                    .all(|view| self.affords(channel, view, *shape));
                !is_listed && is_affordable
            });
            for scale in &mut scales {
                scale.chunk_sizes.extend_from_slice(&flat);
            }
        }
        Ok(Precomputed {
            encoding,
            components,
            scales,
        })
    }

    /// A level in the precomputed format; `None` if its chunks would need more voxels than allowed.
    fn scale(
        &self,
        channel: &Channel,
        encoding: PrecomputedEncoding,
        view: &LevelView,
    ) -> Option<PrecomputedScale> {
        let stored = channel.stored_level(view);
        let affords = |chunk: &Xyz<u64>| self.affords(channel, view, *chunk);
        let own_chunk = stored
            .and_then(|level| level.suitable_chunk(encoding.voxel).ok())
            .filter(affords);
        let passed = stored
            .filter(|_| own_chunk.is_some())
            .and_then(|level| encoding.passed_through(level).ok());
        let first = own_chunk.or_else(|| default_chunk(affords))?;
        // Each position is rounded by itself, as in tiles: so channels lie over each other as they
        // do in tiles.
        let position = at_level(self.style.offset, view.factor);
        let grid = at_level(self.grid_offset(channel), view.factor);
        Some(PrecomputedScale {
            level: view.level,
            size: view.size,
            resolution: self
                .nanometres(channel)
                .zip(view.factor, |size, factor| size * factor as f64),
            offset: position.zip(grid, i64::saturating_add),
            chunk_sizes: vec![first],
            stored: passed,
        })
    }

    /// The size of a voxel in nanometres; 1 if it is unknown.
    fn nanometres(&self, channel: &Channel) -> Xyz<f64> {
        let (size, unit) = self.voxel_size(channel).unwrap_or((Xyz::all(1.0), None));
        let per_unit = units::nanometres(unit.as_deref());
        size.map(|edge| edge * per_unit)
    }

    /// [`Dataset::precomputed`], with the reason as the answer to a request.
    fn served_precomputed(&self, channel: &Channel) -> Result<&Precomputed, NotFound> {
        self.precomputed(channel)
            .map_err(|reason| NotFound::not_precomputed(&channel.name, reason))
    }
}

impl Catalog {
    /// The channel that a request for a volume names, and how the precomputed format describes it.
    pub fn precomputed_volume(
        &self,
        volume: &PrecomputedVolume,
    ) -> Result<(Origin, &Precomputed), NotFound> {
        let dataset = self.requested_dataset(&volume.token)?;
        let time = dataset.time_of(volume.time, [&volume.channel]);
        let channel = dataset.channel_at(&volume.channel, time)?;
        let precomputed = dataset.served_precomputed(channel)?;
        Ok((Origin::new(dataset, vec![Arc::clone(channel)]), precomputed))
    }

    /// Plans a request for a chunk, and chooses among the codings that the client accepts.
    pub fn plan_precomputed(
        &self,
        request: &PrecomputedChunk,
        accepted: AcceptedCodings,
    ) -> Result<RequestPlan, NotFound> {
        let volume = &request.volume;
        let level = request.level;
        let dataset = self.requested_dataset(&volume.token)?;
        let time = dataset.time_of(volume.time, [&volume.channel]);
        let channel = dataset.channel_at(&volume.channel, time)?;
        let Precomputed {
            encoding, scales, ..
        } = dataset.served_precomputed(channel)?;
        let Some(scale) = scales.iter().find(|scale| scale.level == level) else {
            let numbers = scales.iter().map(|scale| scale.level.number());
            return Err(NotFound::Other(format!(
                "level {} of the channel {} is not served in Neuroglancer's format; the levels in its info file are {}",
                level.number(),
                channel.name,
                joined(numbers)
            )));
        };
        let region = scale.region(request.bounds).ok_or_else(|| {
            NotFound::OffGrid(format!(
                "this is not a chunk of level {} of the channel {}: {}",
                level.number(),
                channel.name,
                scale.grid()
            ))
        })?;
        // Stored chunks that are passed through have the first shape.
        let is_first_shape = scale.chunk_sizes.first() == Some(&region.size);
        let coding = match scale.stored.filter(|_| is_first_shape) {
            Some(Coding::Zlib) if accepted.zlib => Coding::Zlib,
            Some(Coding::Identity) => Coding::Identity,
            _ if accepted.gzip => Coding::Gzip,
            _ => Coding::Identity,
        };
        let cutout = dataset.cut(channel, time, level, region)?;
        Ok(dataset.plan_cutout(cutout, encoding.of_box(region.size, coding)))
    }
}

impl NotFound {
    /// Says why a channel is not served in the precomputed format.
    pub fn not_precomputed(channel: &Name, reason: &str) -> Self {
        Self::Other(format!(
            "the channel {channel} is not served in Neuroglancer's format: {reason}"
        ))
    }
}
