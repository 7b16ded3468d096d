//! Resolves requests for boxes of voxels.

use std::sync::Arc;

use super::resolve::RULES;
use super::{Catalog, Channel, Dataset, NotFound, Origin};
use crate::base::paint::{DatasetStyle, Kind};
use crate::base::request::BoxRequest;
use crate::base::tile::{Fingerprint, TileKey};
use crate::geometry::{Level, LevelView, Region, Xyz};
use crate::render::plan::{BoxEncoding, Cutout};
use crate::volume::{Access, ReadPolicy, VolumeShape};

/// Why there is no box.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoBox {
    /// It names something that does not exist.
    #[error(transparent)]
    NotFound(#[from] NotFound),
    /// It needs too many voxels.
    #[error(
        "the box needs {voxels} stored voxels, more than the limit of {limit}; request smaller boxes, or raise render.max_voxels_per_box"
    )]
    TooLarge {
        /// How many stored voxels would be read.
        voxels: u64,
        /// `render.max_voxels_per_box`.
        limit: u64,
    },
    /// It needs little of each of too many chunks.
    #[error(
        "the box needs {voxels} stored voxels, but the chunks that hold them have {decoded}; request boxes that contain more of each chunk, or raise render.max_voxels_per_box"
    )]
    Wasteful {
        /// How many stored voxels would be read.
        voxels: u64,
        /// How many voxels would be decoded.
        decoded: u64,
    },
}

/// The most voxels that may be decoded for a box, as a multiple of `render.max_voxels_per_box`.
const MAX_WASTE: u64 = 16;

/// How many voxels are decoded to read a box of a volume.
fn decoded(shape: &VolumeShape, stored: &Region) -> u64 {
    if shape.access == Access::Direct {
        return stored.voxels();
    }
    let chunk = shape.chunk.map(|extent| extent.max(1));
    let first = stored.start.zip(chunk, |at, extent| at / extent);
    let end = stored.end().zip(chunk, u64::div_ceil);
    end.zip(first, u64::saturating_sub).zip(chunk, u64::saturating_mul).volume()
}

/// The most voxels that are decoded to read a box of a size that begins at multiples of it.
fn most_decoded(shape: &VolumeShape, size: Xyz<u64>) -> u64 {
    if shape.access == Access::Direct {
        return size.volume();
    }
    let chunk = shape.chunk.map(|extent| extent.max(1));
    let touched = size.zip(chunk, |size, chunk| match size % chunk == 0 || chunk % size.max(1) == 0 {
        true => size.div_ceil(chunk),
        false => size.div_ceil(chunk) + 1,
    });
    let all = shape.size.zip(chunk, u64::div_ceil);
    touched.zip(all, u64::min).zip(chunk, u64::saturating_mul).volume()
}

/// A requested box with its names resolved; it lies within its level.
#[derive(Debug, Clone)]
pub struct ResolvedBox {
    dataset: Arc<Dataset>,
    channel: Arc<Channel>,
    /// The other channels, from which it reads the same box.
    others: Vec<Arc<Channel>>,
    view: LevelView,
    time: u64,
    region: Region,
}

/// Everything that determines the bytes of a box.
#[derive(Hash)]
struct BoxRendering {
    rules: u32,
    encoding: BoxEncoding,
    channels: Vec<(Fingerprint, Option<Fingerprint>)>,
    dataset: DatasetStyle,
    level: Level,
    time: u64,
    region: Region,
}

impl Catalog {
    /// Resolves a request for a box. Reads no data.
    pub fn resolve_box(&self, request: &BoxRequest) -> Result<ResolvedBox, NoBox> {
        let dataset = self.known(&request.token)?;
        let time = request.time.unwrap_or(0);
        let channel = dataset.channel_at(&request.channel, time)?;
        let mut resolved = dataset.cut(channel, time, request.level, request.region)?;
        for name in &request.others {
            let other = dataset.channel_at(name, time)?;
            if !resolved.is_like(&dataset.cut(other, time, request.level, request.region)?) {
                let (first, other) = (channel.name.clone(), name.clone());
                return Err(NotFound::NotAlike { first, other }.into());
            }
            resolved.others.push(Arc::clone(other));
        }
        Ok(resolved)
    }
}

impl Dataset {
    /// A box of a channel, at a time point that it has.
    pub(super) fn cut(
        self: &Arc<Self>,
        channel: &Arc<Channel>,
        time: u64,
        level: Level,
        region: Region,
    ) -> Result<ResolvedBox, NoBox> {
        let view = self.view(channel, level)?;
        let end = region.start.zip(region.size, u64::checked_add);
        let is_within = end.zip(view.size, |end, size| end.is_some_and(|end| end <= size));
        if !(is_within.x && is_within.y && is_within.z) {
            let (channel, level) = (channel.name.clone(), level.number());
            return Err(NotFound::Box { channel, level, size: view.size }.into());
        }
        let stored = view.stored_region(&region);
        let decoded = |shape: &VolumeShape| decoded(shape, &stored);
        ensure_affordable(self.limits.voxels_per_box, channel, &view, stored.voxels(), decoded)?;
        let (dataset, channel) = (Arc::clone(self), Arc::clone(channel));
        Ok(ResolvedBox { dataset, channel, others: Vec::new(), view, time, region })
    }
}

/// Whether every chunk of a shape may be read from a level.
pub(super) fn affords(limit: u64, channel: &Channel, view: &LevelView, chunk: Xyz<u64>) -> bool {
    let first = view.stored_region(&Region::whole(chunk.zip(view.size, u64::min)));
    let decoded = |shape: &VolumeShape| most_decoded(shape, first.size);
    ensure_affordable(limit, channel, view, first.voxels(), decoded).is_ok()
}

/// Fails if so many voxels of each volume of a level are more than may be read, or if too many must be decoded for them.
fn ensure_affordable(
    limit: u64,
    channel: &Channel,
    view: &LevelView,
    voxels: u64,
    decoded: impl Fn(&VolumeShape) -> u64,
) -> Result<(), NoBox> {
    let volumes = channel.volumes(view);
    let voxels = voxels.saturating_mul(volumes.len() as u64);
    if voxels > limit {
        return Err(NoBox::TooLarge { voxels, limit });
    }
    let decoded = volumes.iter().map(|volume| decoded(volume.shape())).fold(0, u64::saturating_add);
    if decoded / MAX_WASTE > limit {
        return Err(NoBox::Wasteful { voxels, decoded });
    }
    Ok(())
}

impl ResolvedBox {
    /// The channel, or the first of several.
    pub fn channel(&self) -> &Arc<Channel> {
        &self.channel
    }

    fn channels(&self) -> impl Iterator<Item = &Arc<Channel>> {
        std::iter::once(&self.channel).chain(&self.others)
    }

    /// Whether another box can be in one array with this box.
    fn is_like(&self, other: &Self) -> bool {
        let of = |one: &Self| {
            let Self { dataset, channel, view, time, .. } = one;
            let is_there = channel.is_there(view, dataset.style.scaling, *time);
            let place = (*view, dataset.grid_offset(channel), is_there);
            (channel.kind == Kind::Image, channel.voxel, channel.missing.in_words(), place)
        };
        of(self) == of(other) && self.channel.kind == Kind::Image
    }

    /// The dataset.
    pub fn dataset(&self) -> &Arc<Dataset> {
        &self.dataset
    }

    /// The origin of its voxels.
    pub fn origin(&self) -> Origin {
        Origin::new(&self.dataset, self.channels().cloned().collect())
    }

    /// The key of the box in an encoding: a digest of everything that determines its bytes.
    pub fn key(&self, encoding: BoxEncoding) -> TileKey {
        let Self { dataset, view, time, region, .. } = self;
        let fingerprints = |channel: &Arc<Channel>| (channel.fingerprint, channel.made_fingerprint(view));
        TileKey::digest(&BoxRendering {
            rules: RULES,
            encoding,
            channels: self.channels().map(fingerprints).collect(),
            dataset: dataset.style,
            level: view.level,
            time: *time,
            region: *region,
        })
    }

    /// What to read.
    pub fn plan(&self, policy: ReadPolicy) -> Cutout {
        let is_there = self.channel.is_there(&self.view, self.dataset.style.scaling, self.time);
        Cutout {
            components: self.channels().flat_map(|channel| channel.volumes(&self.view)).cloned().collect(),
            is_rgb: self.channel.kind == Kind::Rgb,
            voxel: self.channel.voxel,
            time: self.time,
            view: self.view,
            region: self.region,
            is_there,
            voxel_size: self.dataset.voxel_size(&self.channel).map(|(size, unit)| {
                let size = size.zip(self.view.factor, |size, factor| size * factor as f64);
                (size, unit.unwrap_or_default())
            }),
            missing: self.channel.missing.clone(),
            is_label: self.channel.kind == Kind::Labels,
            policy,
        }
    }
}
