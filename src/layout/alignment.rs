//! Labels whose voxels are larger than those of the image: their voxels are repeated so that both
//! have one grid.
//!
//! Tiles show all channels of a dataset in the grid of its first image. Labels are often made on a
//! downsampled copy of this image: then a voxel of the labels covers a whole number of the image's
//! voxels, and gives all of them its id.

use voltile_base::geometry::{Affine, Level, Xyz};
use voltile_base::notice::Notice;
use voltile_base::paint::Kind;
use voltile_base::units;

use super::{FoundChannel, FoundLevel};

/// Voxel sizes are equal if their relative difference is at most this.
const CLOSE: f64 = 1e-3;
/// Maximum number of voxels of the image that a voxel of labels covers along each axis.
const MAX_RATIO: f64 = 1024.0;

/// Fits labels to the grid of `image`: labels of 8 × 8 × 40 nm over an image of 4 × 4 × 40 nm are
/// repeated 2 × 2 × 1 times. Their size and position are converted to the unit of the image. Labels
/// whose voxels are not a whole number of times as large as the image's only get a notice.
pub(crate) fn align(image: &FoundChannel, channels: &mut [FoundChannel]) {
    for labels in channels
        .iter_mut()
        .filter(|channel| channel.kind == Kind::Labels)
    {
        let Some(ratio) = Ratio::measure(labels, image) else {
            continue;
        };
        match ratio.times {
            Some(times) => ratio.apply(times, labels, image),
            None => labels.notices.push(Notice::warning(ratio.remark(image))),
        }
    }
}

/// How the voxels of labels compare with the voxels of an image.
struct Ratio {
    /// The edges of a voxel of the labels, in voxels of the image: 2, 2, 1 for 8 × 8 × 40 nm over
    /// 4 × 4 × 40 nm.
    exact: Xyz<f64>,
    /// `exact` in whole numbers, if it is close to whole numbers.
    times: Option<Xyz<u64>>,
    /// The unit of the labels, in units of the image: 1000 for µm over nm.
    unit: f64,
}

impl Ratio {
    /// `None` if the voxel size of the labels or the image is unknown, or their units cannot be
    /// compared.
    fn measure(labels: &FoundChannel, image: &FoundChannel) -> Option<Self> {
        let own_unit = labels.facts.voxel_unit.as_deref();
        let image_unit = image.facts.voxel_unit.as_deref();
        let unit = if own_unit == image_unit {
            1.0
        } else {
            let own_nanometres = units::in_nanometres(own_unit?)?;
            own_nanometres / units::in_nanometres(image_unit?)?
        };
        let own_size = labels.facts.voxel_size?;
        let image_size = image.facts.voxel_size?;
        let exact = own_size.zip(image_size, |own, of_image| own * unit / of_image);
        let is_whole = exact.map(is_whole_ratio).everywhere();
        let times = is_whole.then(|| exact.map(|ratio| ratio.round() as u64));
        Some(Self { exact, times, unit })
    }

    /// Repeats the voxels of `labels` this many `times`, and takes over the image's unit.
    fn apply(&self, times: Xyz<u64>, labels: &mut FoundChannel, image: &FoundChannel) {
        labels.transforms = labels
            .transforms
            .map(|transform| transform.in_unit(self.unit));
        labels.facts.voxel_size = image.facts.voxel_size;
        labels.facts.voxel_unit = image.facts.voxel_unit.clone();
        if times == Xyz::all(1) {
            return;
        }
        labels.transforms = labels
            .transforms
            .map(|transform| finer_transform(times, transform, image));
        labels.levels = repeated_levels(times, std::mem::take(&mut labels.levels));
        labels.pyramid_levels = labels
            .pyramid_levels
            .iter()
            .filter_map(|level| level_of_image(times, level))
            .collect();
    }

    fn remark(&self, image: &FoundChannel) -> String {
        // With at most four decimals.
        let Xyz { x, y, z } = self.exact.map(|ratio| (ratio * 1e4).round() / 1e4);
        format!(
            "its voxels are {x} × {y} × {z} times (x × y × z) as large as the voxels of {0}; it can be drawn over {0} only \
             if these are whole numbers",
            image.name
        )
    }
}

/// Whether a ratio of edges is close to a whole number that is not too large.
fn is_whole_ratio(ratio: f64) -> bool {
    let nearest = ratio.round();
    (1.0..=MAX_RATIO).contains(&nearest) && (ratio - nearest).abs() <= CLOSE * nearest
}

/// The transform of repeated voxels. A file gives the position of either the corner or the centre
/// of the first stored voxel. It is taken as the corner, unless repeated voxels line up with the
/// image's voxels only if it is taken as the centre. For example, labels of 8 nm are at 2 nm, and
/// the image, of 4 nm, at 0: then 2 nm is the centre of the first stored voxel, because the centres
/// of its two repeated voxels, at 0 and 4 nm, coincide with the image's.
fn finer_transform(times: Xyz<u64>, labels: &Affine, image: &FoundChannel) -> Affine {
    let repeated = labels.divided(times.map(|times| times as f64));
    let Some(image) = image.transforms.first() else {
        return repeated;
    };
    // In voxels of the image, as large as the repeated ones.
    let position = image.inverse().apply(labels.translation());
    // From the centre of the first repeated voxel to the centre of the stored one.
    let to_centre = times.map(|times| (times - 1) as f64 / 2.0);
    let first = position.zip(to_centre, |position, to_centre| {
        if !is_whole(position) && is_whole(position - to_centre) {
            -to_centre
        } else {
            0.0
        }
    });
    repeated.beginning_at(first)
}

/// Whether a distance in voxels is close to a whole number.
fn is_whole(distance: f64) -> bool {
    (distance - distance.round()).abs() <= CLOSE * distance.abs().max(1.0)
}

/// The levels of labels in the grid of the image: the finest stored level with repeated voxels,
/// then all stored levels, the finest included, that have the size of a level of the image. Labels
/// of 8 and 16 nm over an image of 4 nm are level 0 by repeating the 8 nm, and levels 1 and 2 as
/// they are stored.
fn repeated_levels(times: Xyz<u64>, mut levels: Vec<FoundLevel>) -> Vec<FoundLevel> {
    let Some(finest) = levels.first_mut() else {
        return levels;
    };
    finest.factor = Some(Xyz::all(1));
    let mut repeated = finest.clone();
    repeated.view.repeat = times;
    let stored = levels
        .iter()
        .filter_map(|level| level_of_image(times, level));
    std::iter::once(repeated).chain(stored).collect()
}

/// A stored level of labels as a level of the image. `None` if a level of the image cannot have its
/// factor: equal powers of two, above 1, along x and y.
fn level_of_image(times: Xyz<u64>, level: &FoundLevel) -> Option<FoundLevel> {
    let factor = level.factor?.zip(times, u64::saturating_mul);
    let is_level = factor.x == factor.y && factor.x > 1 && Level::from_factor(factor.x).is_some();
    is_level.then(|| FoundLevel {
        factor: Some(factor),
        ..level.clone()
    })
}

#[cfg(test)]
mod tests {
    use voltile_base::description::ChannelFacts;
    use voltile_base::name::Name;
    use voltile_hdf5::volume::hdf5::View;

    use super::*;
    use crate::layout::Paths;

    fn found(
        name: &str,
        kind: Kind,
        voxel: [f64; 3],
        unit: &str,
        origin: [f64; 3],
    ) -> FoundChannel {
        let level = |path: &str, factor: Option<[u64; 3]>| FoundLevel {
            factor: factor.map(Xyz::from),
            paths: Paths::One(path.to_owned()),
            view: View::zyx(),
        };
        let levels = vec![
            level("/a", None),
            level("/b", Some([2, 2, 1])),
            level("/c", None),
        ];
        let [x, y, z] = voxel;
        let edges = [[x, 0.0, 0.0], [0.0, y, 0.0], [0.0, 0.0, z]];
        FoundChannel {
            kind,
            facts: ChannelFacts {
                voxel_size: Some(voxel.into()),
                voxel_unit: Some(unit.to_owned()),
                ..ChannelFacts::default()
            },
            transforms: Affine::from_edges(edges, origin.into()).into(),
            ..FoundChannel::new(Name::nearest(name), levels)
        }
    }

    fn origin(labels: &FoundChannel) -> Xyz<f64> {
        labels.transforms.first().unwrap().translation()
    }

    /// Labels after their alignment with an image of voxels of 4 × 4 × 40 nm at 100, 100, 400.
    fn aligned(voxel: [f64; 3], unit: &str, origin: [f64; 3]) -> FoundChannel {
        let image = found(
            "raw",
            Kind::Image,
            [4.0, 4.0, 40.0],
            "nm",
            [100.0, 100.0, 400.0],
        );
        let mut all = [found("ids", Kind::Labels, voxel, unit, origin)];
        align(&image, &mut all);
        let [labels] = all;
        labels
    }

    /// A path, the factor, and how often its voxels are repeated.
    type Told<'a> = (&'a str, Option<[u64; 3]>, [u64; 3]);

    fn levels(labels: &FoundChannel) -> Vec<Told<'_>> {
        let level =
            |level: &'_ FoundLevel| (level.factor.map(Into::into), level.view.repeat.into());
        let named = labels
            .levels
            .iter()
            .map(|each| (each.paths.first().unwrap(), level(each)));
        named
            .map(|(path, (factor, repeat))| (path, factor, repeat))
            .collect()
    }

    #[test]
    fn larger_voxels_are_repeated_and_stored_levels_serve_where_the_image_has_them() {
        let labels = aligned([8.0, 8.0, 40.0], "nm", [140.0, 100.0, 400.0]);
        let one = [1; 3];
        assert_eq!(
            levels(&labels),
            [
                ("/a", Some(one), [2, 2, 1]),
                ("/a", Some([2, 2, 1]), one),
                ("/b", Some([4, 4, 1]), one)
            ]
        );
        assert_eq!(labels.facts.voxel_size, Some(Xyz::new(4.0, 4.0, 40.0)));
        assert_eq!(
            (origin(&labels), labels.notices.len()),
            (Xyz::new(140.0, 100.0, 400.0), 0)
        );
        assert_eq!(
            labels.transforms.first().unwrap().lengths(),
            Xyz::new(4.0, 4.0, 40.0)
        );
        let thirds = aligned([0.012, 0.012, 0.08], "µm", [0.1, 0.1, 0.4]);
        assert_eq!(levels(&thirds), [("/a", Some(one), [3, 3, 2])]);
        assert_eq!(thirds.facts.voxel_unit.as_deref(), Some("nm"));
        let origin = origin(&thirds);
        assert!(
            (origin.x - 100.0).abs() < 1e-9 && (origin.z - 400.0).abs() < 1e-9,
            "{origin:?}"
        );
    }

    #[test]
    fn voxels_of_the_same_size_are_left_alone_and_get_the_units_of_the_image() {
        let labels = aligned([0.004, 0.004, 0.04], "µm", [0.108, 0.1, 0.4]);
        assert_eq!(
            (levels(&labels).len(), labels.levels[0].view.repeat),
            (3, Xyz::all(1))
        );
        assert_eq!(labels.facts.voxel_unit.as_deref(), Some("nm"));
        assert!((origin(&labels).x - 108.0).abs() < 1e-9);
    }

    #[test]
    fn positions_of_centres_are_told_from_those_of_corners() {
        let at = |x| origin(&aligned([8.0, 8.0, 40.0], "nm", [x, 100.0, 400.0])).x;
        assert_eq!((at(108.0), at(110.0), at(109.0)), (108.0, 108.0, 109.0));
    }

    #[test]
    fn other_ratios_are_remarked_and_unknown_ones_are_not() {
        for voxel in [[6.0, 6.0, 40.0], [2.0, 2.0, 40.0], [8.0, 8.0, 4.0e9]] {
            let labels = aligned(voxel, "nm", [100.0; 3]);
            assert_eq!(
                (labels.facts.voxel_size, labels.levels.len()),
                (Some(voxel.into()), 3)
            );
            assert_eq!(labels.notices.len(), 1, "{voxel:?}");
        }
        let remark = aligned([6.0, 2.0, 40.0], "nm", [100.0; 3])
            .notices
            .remove(0)
            .text;
        assert!(remark.starts_with(
            "its voxels are 1.5 × 0.5 × 1 times (x × y × z) as large as the voxels of raw;"
        ));
        assert!(
            aligned([8.0, 8.0, 40.0], "degree", [100.0; 3])
                .notices
                .is_empty()
        );
    }
}
