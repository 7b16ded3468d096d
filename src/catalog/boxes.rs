//! Plans requests for boxes of voxels.

use std::sync::Arc;

use voltile_base::geometry::{Affine, Level, LevelView, Region, Transforms, Xyz, at_level};
use voltile_base::paint::{BoxFormat, Kind};
use voltile_base::request::BoxRequest;
use voltile_base::tile::TileKey;
use voltile_base::units;
use voltile_hdf5::volume::{Access, VolumeShape};
use voltile_render::imagej_has;
use voltile_render::plan::{BoxEncoding, Cutout};

use super::resolve::RULES;
use super::{Catalog, Channel, Dataset, NotFound, Origin, RequestPlan, Subject};

/// The maximum number of voxels that may be decoded for a box, as a multiple of
/// `render.max_voxels_per_box`.
const MAX_WASTE: u64 = 16;
/// The maximum size of a TIFF file in bytes: its offsets have 32 bits.
const MAX_TIFF_BYTES: u64 = u32::MAX as u64;
/// TIFF, the only encoding that contains windows: the display ranges of its channels.
const TIFF: BoxEncoding = BoxEncoding::File(BoxFormat::Tiff);

/// The number of voxels that are decoded to read a box of a volume.
fn decoded_voxels(shape: &VolumeShape, stored: &Region) -> u64 {
    if shape.access == Access::Direct {
        return stored.voxels();
    }
    let chunk = shape.chunk.map(|extent| extent.max(1));
    let first_chunk = stored.start.zip(chunk, |at, extent| at / extent);
    let end_chunk = stored.end().zip(chunk, u64::div_ceil);
    end_chunk
        .zip(first_chunk, u64::saturating_sub)
        .zip(chunk, u64::saturating_mul)
        .volume()
}

/// The maximum number of voxels that are decoded to read a box whose position is a multiple of its
/// size along each axis.
fn most_decoded_voxels(shape: &VolumeShape, size: Xyz<u64>) -> u64 {
    if shape.access == Access::Direct {
        return size.volume();
    }
    let chunk = shape.chunk.map(|extent| extent.max(1));
    // A box of 6 voxels covers 3 whole chunks of 2 voxels, or lies within one chunk of 12. A box of
    // 3 voxels may touch 2 chunks of 4: the second box covers voxels 3 to 5.
    let chunks_of_box = size.zip(chunk, |size, chunk| {
        let is_aligned = size % chunk == 0 || chunk % size.max(1) == 0;
        size.div_ceil(chunk) + u64::from(!is_aligned)
    });
    let chunks_of_level = shape.size.zip(chunk, u64::div_ceil);
    chunks_of_box
        .zip(chunks_of_level, u64::min)
        .zip(chunk, u64::saturating_mul)
        .volume()
}

impl Catalog {
    /// Plans a request for a box of voxels.
    pub fn plan_box(
        &self,
        request: &BoxRequest,
        format: BoxFormat,
    ) -> Result<RequestPlan, NotFound> {
        let (dataset, cutout) = self.cut_all(request)?;
        let encoding = BoxEncoding::File(format);
        if encoding == TIFF && !imagej_has(cutout.voxel, cutout.is_rgb) {
            return Err(NotFound::Other(format!(
                "ImageJ has no images of {}, which the channel {} holds; ask for .npy",
                cutout.voxel.name(),
                cutout.name
            )));
        }
        let plan = dataset.plan_cutout(cutout, encoding);
        if encoding == TIFF && plan.bytes() > MAX_TIFF_BYTES {
            let problem = "a TIFF file has at most 4 GiB; request a smaller box, or .npy";
            return Err(NotFound::TooLarge(problem.to_owned()));
        }
        Ok(plan)
    }

    /// The requested box, cut from each of its channels.
    fn cut_all(&self, request: &BoxRequest) -> Result<(&Arc<Dataset>, Cutout), NotFound> {
        let dataset = self.requested_dataset(&request.token)?;
        let time = dataset.time_of(request.time, [&request.channel]);
        let channel = dataset.channel_at(&request.channel, time)?;
        let mut cutout = dataset.cut(channel, time, request.level, request.region)?;
        for name in &request.others {
            let other = dataset.channel_at(name, time)?;
            let part = dataset.cut_beside(channel, &cutout, other)?;
            cutout.others.push(part);
        }
        if !cutout.others.is_empty() {
            let colours = dataset.composite_colours();
            let colour_of = |name| colours.get(name).map(|(_, exact)| *exact);
            cutout.colour = colour_of(&cutout.name);
            for part in &mut cutout.others {
                part.colour = colour_of(&part.name);
            }
        }
        Ok((dataset, cutout))
    }
}

impl Dataset {
    /// A box of a channel at one of its time points.
    pub(super) fn cut(
        &self,
        channel: &Channel,
        time: u64,
        level: Level,
        region: Region,
    ) -> Result<Cutout, NotFound> {
        let view = self.view(channel, level)?;
        let end = region.start.zip(region.size, u64::checked_add);
        let is_within = end.zip(view.size, |end, size| end.is_some_and(|end| end <= size));
        if !is_within.everywhere() {
            return Err(NotFound::Other(format!(
                "the box reaches beyond level {} of the channel {}, which is {} voxels (x, y, z)",
                level.number(),
                channel.name,
                view.size
            )));
        }
        let stored = view.stored_region(&region);
        self.ensure_affordable(channel, &view, stored.voxels(), |shape| {
            decoded_voxels(shape, &stored)
        })?;
        let is_there = channel.is_there(&view, self.style.scaling, time);
        let voxel_size = self.voxel_size(channel).map(|(size, unit)| {
            let size = size.zip(view.factor, |size, factor| size * factor as f64);
            (size, unit.unwrap_or_default())
        });
        Ok(Cutout {
            name: channel.name.clone(),
            components: channel.source(&view).volumes.clone(),
            is_rgb: channel.kind == Kind::Rgb,
            voxel: channel.voxel,
            time,
            view,
            region,
            is_there: is_there && region.voxels() > 0,
            window: channel.window().filter(|_| channel.kind == Kind::Image),
            colour: None,
            place: Xyz::all(0),
            others: Vec::new(),
            voxel_size,
            missing: channel.missing.clone(),
            is_label: channel.kind == Kind::Labels,
        })
    }

    /// The voxels of the channel `other` in the box `whole` of the channel `first`. The channels are
    /// shifted against each other by whole voxels.
    fn cut_beside(
        &self,
        first: &Channel,
        whole: &Cutout,
        other: &Channel,
    ) -> Result<Cutout, NotFound> {
        let view = self.view(other, whole.view.level)?;
        let distance = self
            .distance_if_alike(first, whole, other, &view)
            .map_err(|reason| {
                NotFound::Other(format!(
                    "the channels {} and {} cannot be in one file: {reason}; ask for each alone",
                    first.name, other.name
                ))
            })?;
        // As in tiles, each position is rounded by itself.
        let first_position = self.grid_offset(first);
        let other_position = first_position.zip(distance, i64::saturating_add);
        let shift = at_level(other_position, view.factor)
            .zip(at_level(first_position, view.factor), i64::saturating_sub);
        // The box and the other channel in a common grid that begins, along each axis, where the
        // earlier channel does. With a shift of -2, the first channel begins at 2 in this grid and
        // the other at 0; with a shift of 3, the first begins at 0 and the other at 3.
        let first_start = shift.map(|shift| shift.min(0).unsigned_abs());
        let other_start = shift.map(|shift| shift.max(0).unsigned_abs());
        let wanted = Region {
            start: whole.region.start.zip(first_start, u64::saturating_add),
            ..whole.region
        };
        let covered = Region {
            start: other_start,
            size: view.size,
        };
        // The part is empty if the other channel does not reach into the box.
        let mut place = Xyz::all(0);
        let mut region = Region::whole(Xyz::all(0));
        if let Some(common) = wanted.intersection(&covered) {
            place = common.start.zip(wanted.start, u64::saturating_sub);
            region = Region {
                start: common.start.zip(covered.start, u64::saturating_sub),
                ..common
            };
        }
        let part = self.cut(other, whole.time, view.level, region)?;
        Ok(Cutout { place, ..part })
    }

    /// The position of another channel's first voxel relative to that of the first channel of a
    /// box, in voxels of level 0; an error says why the two channels cannot be in one file.
    fn distance_if_alike(
        &self,
        first: &Channel,
        whole: &Cutout,
        other: &Channel,
        view: &LevelView,
    ) -> Result<Xyz<i64>, String> {
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
        let factor = whole.view.factor;
        if view.factor != factor {
            return Err(format!(
                "this level is {factor} and {} times as coarse as level 0",
                view.factor
            ));
        }
        self.distance(first, other, whole.time)
    }

    /// The position of another channel's first voxel relative to that of the first channel, in
    /// whole voxels of level 0. If the voxels of the two are not only shifted, an error says how
    /// they differ.
    fn distance(&self, first: &Channel, other: &Channel, time: u64) -> Result<Xyz<i64>, String> {
        // From indices of voxels of the other channel to indices of voxels of the first.
        let between = self
            .in_space(first, other, time)
            .inverse()
            .after(&self.in_space(other, first, time));
        // At the far end of the channel, the voxels are off by less than half a voxel. The size of
        // a channel's only voxel along an axis does not matter.
        let tolerance = other
            .size()
            .map(|extent| 0.5 / extent.saturating_sub(1) as f64);
        if between.only_moves(tolerance) {
            return Ok(between.translation().map(|along| along.round() as i64));
        }
        let words = Transforms::from(Some(between)).in_words(Some(Xyz::all(1.0)), "voxels");
        let difference = words.as_deref().unwrap_or("slightly scaled");
        Err(format!("the voxels of {} are {difference}", other.name))
    }

    /// Where a channel's voxels lie at a time point, in nanometres if the unit is known. A channel
    /// of unknown voxel size is taken to have the voxel size of the channel `beside` it.
    fn in_space(&self, channel: &Channel, beside: &Channel, time: u64) -> Affine {
        let size = self.voxel_size(channel).or_else(|| self.voxel_size(beside));
        let (size, unit) = size.unwrap_or((Xyz::all(1.0), None));
        let begin = self.grid_offset(channel).map(|voxels| voxels as f64);
        let known = self.transforms(channel).at(time).copied();
        let affine = known.unwrap_or_else(|| Affine::scaling(size).beginning_at(begin));
        affine.in_unit(units::nanometres(unit.as_deref()))
    }

    /// Whether every chunk of a shape may be read from a level.
    pub(super) fn affords(&self, channel: &Channel, view: &LevelView, chunk: Xyz<u64>) -> bool {
        // The first chunk is as large as any: only chunks at the end of the level are clipped.
        let first = view.stored_region(&Region::whole(chunk.zip(view.size, u64::min)));
        let checked = self.ensure_affordable(channel, view, first.voxels(), |shape| {
            most_decoded_voxels(shape, first.size)
        });
        checked.is_ok()
    }

    /// Fails if reading `voxels_per_volume` stored voxels of each volume of a level exceeds the
    /// limit, or if decoding the chunks that hold them exceeds [`MAX_WASTE`] times the limit.
    fn ensure_affordable(
        &self,
        channel: &Channel,
        view: &LevelView,
        voxels_per_volume: u64,
        decoded_of: impl Fn(&VolumeShape) -> u64,
    ) -> Result<(), NotFound> {
        let limit = self.limits.voxels_per_box;
        let volumes = &channel.source(view).volumes;
        let voxels = voxels_per_volume.saturating_mul(volumes.len() as u64);
        if voxels > limit {
            return Err(NotFound::TooLarge(format!(
                "the box needs {voxels} stored voxels, more than the limit of {limit}; request smaller boxes, or raise render.max_voxels_per_box"
            )));
        }
        let decoded = volumes
            .iter()
            .map(|volume| decoded_of(volume.shape()))
            .fold(0, u64::saturating_add);
        if decoded / MAX_WASTE > limit {
            return Err(NotFound::TooLarge(format!(
                "the box needs {voxels} stored voxels, but the chunks that hold them have {decoded}; request boxes that contain more of each chunk, or raise render.max_voxels_per_box"
            )));
        }
        Ok(())
    }

    /// The plan of a request for a box in an encoding.
    pub(super) fn plan_cutout(
        self: &Arc<Self>,
        cutout: Cutout,
        encoding: BoxEncoding,
    ) -> RequestPlan {
        let parts = cutout.parts();
        let channels: Vec<_> = parts.map(|part| self.channel_of(part)).cloned().collect();
        let mut unmeasured = Vec::new();
        if encoding == TIFF {
            unmeasured.clone_from(&channels);
            unmeasured.retain(|channel| channel.kind == Kind::Image && channel.window().is_none());
        }
        let key = self.key_of(&cutout, encoding);
        let origin = Origin::new(self, channels);
        RequestPlan::new(key, origin, Subject::Box(cutout, encoding), unmeasured)
    }

    /// The channel that a box was cut from.
    fn channel_of(&self, cutout: &Cutout) -> &Arc<Channel> {
        &self.channels[&cutout.name]
    }

    /// The key of a box in an encoding: a digest of everything that determines its bytes.
    fn key_of(&self, cutout: &Cutout, encoding: BoxEncoding) -> TileKey {
        let channel = self.channel_of(cutout);
        // Tuples are hashed as their values, one after the other: the order must not change.
        let voxels = (
            &channel.name,
            channel.fingerprint,
            channel.pyramid_fingerprint(&cutout.view),
            self.style,
        );
        let place = (cutout.view.level, cutout.time, cutout.region, cutout.place);
        let window = channel.window().filter(|_| encoding == TIFF);
        let others: Vec<TileKey> = cutout
            .others
            .iter()
            .map(|part| self.key_of(part, encoding))
            .collect();
        TileKey::digest(&(
            RULES,
            encoding,
            voxels,
            place,
            cutout.colour,
            window,
            others,
        ))
    }
}
