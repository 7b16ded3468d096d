//! Resolves requests for boxes of voxels.

use std::sync::Arc;

use voltile_base::color::Rgb;
use voltile_base::geometry::{Affine, Level, LevelView, Region, Transforms, Xyz, at_level};
use voltile_base::name::Name;
use voltile_base::paint::{BoxFormat, DatasetStyle, Kind, Window};
use voltile_base::request::BoxRequest;
use voltile_base::tile::{Fingerprint, TileKey};
use voltile_base::units;
use voltile_hdf5::volume::{Access, VolumeShape};
use voltile_render::plan::{BoxEncoding, Cutout};

use super::resolve::RULES;
use super::{Catalog, Channel, Dataset, NotFound, Origin};

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
    /// It needs too many chunks, and little of each.
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
    end.zip(first, u64::saturating_sub)
        .zip(chunk, u64::saturating_mul)
        .volume()
}

/// The most voxels that are decoded to read a box of a size that begins at multiples of it.
fn most_decoded(shape: &VolumeShape, size: Xyz<u64>) -> u64 {
    if shape.access == Access::Direct {
        return size.volume();
    }
    let chunk = shape.chunk.map(|extent| extent.max(1));
    let touched = size.zip(chunk, |size, chunk| {
        match size % chunk == 0 || chunk % size.max(1) == 0 {
            true => size.div_ceil(chunk),
            false => size.div_ceil(chunk) + 1,
        }
    });
    let all = shape.size.zip(chunk, u64::div_ceil);
    touched
        .zip(all, u64::min)
        .zip(chunk, u64::saturating_mul)
        .volume()
}

/// A requested box with its names resolved; it lies within its level.
#[derive(Debug, Clone)]
pub struct ResolvedBox {
    dataset: Arc<Dataset>,
    channel: Arc<Channel>,
    view: LevelView,
    time: u64,
    region: Region,
    /// The channel's colour beside the other channels, if there are several.
    colour: Option<Rgb>,
    /// Where its first voxel is in the whole box, if it is a part of one.
    place: Xyz<u64>,
    /// The parts of the box that other channels cover; empty where they cover nothing.
    others: Vec<ResolvedBox>,
}

/// Everything that determines the bytes of a box.
#[derive(Hash)]
struct BoxRendering {
    rules: u32,
    encoding: BoxEncoding,
    name: Name,
    channel: Fingerprint,
    made: Option<Fingerprint>,
    dataset: DatasetStyle,
    level: Level,
    time: u64,
    region: Region,
    place: Xyz<u64>,
    colour: Option<Rgb>,
    window: Option<Window>,
    others: Vec<TileKey>,
}

impl Catalog {
    /// Resolves a request for a box. Reads no data.
    pub fn resolve_box(&self, request: &BoxRequest) -> Result<ResolvedBox, NoBox> {
        let dataset = self.known(&request.token)?;
        let time = dataset.time_of(request.time, [&request.channel]);
        let channel = dataset.channel_at(&request.channel, time)?;
        let mut resolved = dataset.cut(channel, time, request.level, request.region)?;
        for name in &request.others {
            let part = dataset.cut_beside(&resolved, dataset.channel_at(name, time)?)?;
            resolved.others.push(part);
        }
        if !resolved.others.is_empty() {
            let colours = dataset.composite_colours();
            resolved.colour = colours.get(&channel.name).map(|(_, exact)| *exact);
            for part in &mut resolved.others {
                part.colour = colours.get(&part.channel.name).map(|(_, exact)| *exact);
            }
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
            let outside = NotFound::Box {
                channel: channel.name.clone(),
                level: level.number(),
                size: view.size,
            };
            return Err(outside.into());
        }
        let stored = view.stored_region(&region);
        let limit = self.limits.voxels_per_box;
        ensure_affordable(limit, channel, &view, stored.voxels(), |shape| {
            decoded(shape, &stored)
        })?;
        Ok(ResolvedBox {
            dataset: Arc::clone(self),
            channel: Arc::clone(channel),
            view,
            time,
            region,
            colour: None,
            place: Xyz::all(0),
            others: Vec::new(),
        })
    }

    /// The part of a box that another channel covers, shifted by whole voxels.
    fn cut_beside(
        self: &Arc<Self>,
        whole: &ResolvedBox,
        other: &Arc<Channel>,
    ) -> Result<ResolvedBox, NoBox> {
        let first = &whole.channel;
        let view = self.view(other, whole.view.level)?;
        let distance = self
            .distance_if_alike(whole, other, &view)
            .map_err(|reason| NotFound::NotAlike {
                first: first.name.clone(),
                other: other.name.clone(),
                reason,
            })?;
        // As in tiles, each position is rounded by itself.
        let position = self.grid_offset(first);
        let shift = at_level(position.zip(distance, i64::saturating_add), view.factor)
            .zip(at_level(position, view.factor), i64::saturating_sub);
        let back = shift.map(|shift| shift.min(0).unsigned_abs());
        let all = Region {
            start: whole.region.start.zip(back, u64::saturating_add),
            ..whole.region
        };
        let own = Region {
            start: shift.map(|shift| shift.max(0).unsigned_abs()),
            size: view.size,
        };
        let (place, region) = match all.intersection(&own) {
            None => (Xyz::all(0), Region::whole(Xyz::all(0))),
            Some(Region { start, size }) => {
                let region = Region {
                    start: start.zip(own.start, u64::saturating_sub),
                    size,
                };
                (start.zip(all.start, u64::saturating_sub), region)
            }
        };
        Ok(ResolvedBox {
            place,
            ..self.cut(other, whole.time, view.level, region)?
        })
    }

    /// The position of another channel's first voxel in voxels of the channel of a box, if both can
    /// be in one file, or the reason why they cannot.
    fn distance_if_alike(
        &self,
        whole: &ResolvedBox,
        other: &Channel,
        view: &LevelView,
    ) -> Result<Xyz<i64>, String> {
        let first = &whole.channel;
        if first.kind != Kind::Image || other.kind != Kind::Image {
            return Err("both must be images".to_owned());
        }
        if first.voxel != other.voxel {
            return Err(format!(
                "their voxels are {} and {}",
                first.voxel.name(),
                other.voxel.name()
            ));
        }
        if view.factor != whole.view.factor {
            return Err(format!(
                "this level is {} and {} times as coarse as level 0",
                whole.view.factor, view.factor
            ));
        }
        self.distance(first, other, whole.time)
    }

    /// The position of another channel's first voxel in voxels of a channel, to the nearest;
    /// otherwise how they differ.
    fn distance(&self, first: &Channel, other: &Channel, time: u64) -> Result<Xyz<i64>, String> {
        let between = self
            .in_space(first, other, time)
            .inverse()
            .after(&self.in_space(other, first, time));
        let close = other
            .size()
            .map(|extent| 0.5 / extent.saturating_sub(1) as f64);
        if between.only_moves(close) {
            return Ok(between.translation().map(|along| along.round() as i64));
        }
        let words = Transforms::from(Some(between)).in_words(Some(Xyz::all(1.0)), "voxels");
        let words = words.as_deref().unwrap_or("slightly scaled");
        Err(format!("the voxels of {} are {words}", other.name))
    }

    /// Where a channel's voxels lie at a time point, in nanometres where the unit is known. A
    /// channel of unknown voxel size has that of the channel beside it.
    fn in_space(&self, channel: &Channel, beside: &Channel, time: u64) -> Affine {
        let size = self.voxel_size(channel).or_else(|| self.voxel_size(beside));
        let (size, unit) = size.unwrap_or((Xyz::all(1.0), None));
        let begin = self.grid_offset(channel).map(|voxels| voxels as f64);
        let known = self.transforms(channel).at(time).copied();
        let affine = known.unwrap_or_else(|| Affine::scaling(size).beginning_at(begin));
        affine.in_unit(units::nanometres(unit.as_deref()))
    }
}

/// Whether every chunk of a shape may be read from a level.
pub(super) fn affords(limit: u64, channel: &Channel, view: &LevelView, chunk: Xyz<u64>) -> bool {
    let first = view.stored_region(&Region::whole(chunk.zip(view.size, u64::min)));
    let checked = ensure_affordable(limit, channel, view, first.voxels(), |shape| {
        most_decoded(shape, first.size)
    });
    checked.is_ok()
}

/// Fails if reading `voxels` voxels of each volume of a level, or decoding the voxels that must be
/// decoded for them, exceeds the limit.
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
    let decoded = volumes
        .iter()
        .map(|volume| decoded(volume.shape()))
        .fold(0, u64::saturating_add);
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

    /// The box itself, and the parts of other channels.
    fn parts(&self) -> impl Iterator<Item = &ResolvedBox> {
        std::iter::once(self).chain(&self.others)
    }

    /// The images whose windows have yet to be measured.
    pub fn unmeasured(&self) -> impl Iterator<Item = &Arc<Channel>> {
        let channels = self.parts().map(|part| &part.channel);
        channels.filter(|channel| channel.kind == Kind::Image && channel.window().is_none())
    }

    /// The origin of its voxels.
    pub fn origin(&self) -> Origin {
        let channels = self.parts().map(|part| Arc::clone(&part.channel));
        Origin::new(&self.dataset, channels.collect())
    }

    /// The key of the box in an encoding: a digest of everything that determines its bytes.
    pub fn key(&self, encoding: BoxEncoding) -> TileKey {
        let has_range = encoding == BoxEncoding::File(BoxFormat::Tiff);
        TileKey::digest(&BoxRendering {
            rules: RULES,
            encoding,
            name: self.channel.name.clone(),
            channel: self.channel.fingerprint,
            made: self.channel.made_fingerprint(&self.view),
            dataset: self.dataset.style,
            level: self.view.level,
            time: self.time,
            region: self.region,
            place: self.place,
            colour: self.colour,
            window: self.channel.window().filter(|_| has_range),
            others: self.others.iter().map(|part| part.key(encoding)).collect(),
        })
    }

    /// The plan for the renderer.
    pub fn plan(&self) -> Cutout {
        let channel = &self.channel;
        let is_there = channel.is_there(&self.view, self.dataset.style.scaling, self.time);
        Cutout {
            name: channel.name.clone(),
            components: channel.volumes(&self.view).to_vec(),
            is_rgb: channel.kind == Kind::Rgb,
            voxel: channel.voxel,
            time: self.time,
            view: self.view,
            region: self.region,
            is_there: is_there && self.region.voxels() > 0,
            window: channel.window().filter(|_| channel.kind == Kind::Image),
            colour: self.colour,
            place: self.place,
            others: self.others.iter().map(ResolvedBox::plan).collect(),
            voxel_size: self.dataset.voxel_size(channel).map(|(size, unit)| {
                let size = size.zip(self.view.factor, |size, factor| size * factor as f64);
                (size, unit.unwrap_or_default())
            }),
            missing: channel.missing.clone(),
            is_label: channel.kind == Kind::Labels,
        }
    }
}
