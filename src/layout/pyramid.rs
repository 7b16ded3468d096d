//! Pyramids of plain datasets: which datasets of a file are levels of one volume.
//!
//! Three conventions are known:
//!
//! - N5: `s0`, `s1`, … in one group, after which the channel is named, with factors in the
//!   attribute `downsamplingFactors` (see [`super::n5`]).
//! - The same with other names for a level: `0`, `1`, …; `level_0`; `scale0`; `res0`;
//!   `resolution_0`; `mipmap0`.
//! - `raw`, `raw_2`, `raw_4`, where the number is the factor, as in `/0/MipMaps/DATA/DATA_XY_2`,
//!   which is a level of `/0/DATA` in CARTA's files.
//!
//! Each level must have the type of the one before and, unless it states its factor, be smaller
//! along x and y.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use voltile_base::axes::AxisName;
use voltile_base::geometry::Xyz;
use voltile_base::request::digits;

use super::channel::along;
use super::contents::Candidate;
use super::{group_of, last_of, number_after, spatial};

/// Prefixes of level numbers.
const PREFIXES: [&str; 12] = [
    "s",
    "",
    "level",
    "level_",
    "scale",
    "scale_",
    "res",
    "res_",
    "resolution",
    "resolution_",
    "mipmap",
    "mipmap_",
];
/// In the path of a level that CARTA writes, this stands between the group of the finest level,
/// `DATA`, and the factor.
const MIPMAPS: &str = "/MipMaps/DATA/DATA_XY_";

/// The levels of a volume, or, until [`Self::is_consistent`] has been checked, datasets whose names
/// suggest that they are.
pub(super) struct Pyramid<'a> {
    /// The levels, finest first; at least one.
    pub levels: Vec<PyramidLevel<'a>>,
    /// The path from which the volume gets its name.
    pub named_by: &'a str,
}

/// A volume that may be a level.
#[derive(Clone, Copy)]
pub(super) struct PyramidLevel<'a> {
    /// Its index among all volumes.
    place: usize,
    pub volume: &'a Candidate,
    /// The factor, relative to the finest level, that its name or an attribute states; `None` if
    /// only sizes imply it.
    pub factor: Option<Xyz<u64>>,
}

impl<'a> PyramidLevel<'a> {
    fn finest(place: usize, volume: &'a Candidate) -> Self {
        Self {
            place,
            volume,
            factor: Some(Xyz::all(1)),
        }
    }
}

impl<'a> Pyramid<'a> {
    /// A volume with one level.
    fn single(place: usize, volume: &'a Candidate) -> Self {
        Self {
            levels: vec![PyramidLevel::finest(place, volume)],
            named_by: volume.marks.named_by.as_deref().unwrap_or(&volume.path),
        }
    }

    pub fn finest(&self) -> &'a Candidate {
        self.levels[0].volume
    }

    /// Whether each level can be the next one after the one before.
    fn is_consistent(&self) -> bool {
        self.levels
            .windows(2)
            .all(|pair| follows(self.finest(), pair[0].volume, pair[1]))
    }
}

/// Groups datasets that are levels of one volume; each other dataset is a volume with one level.
/// Ordered by the place of the finest level.
pub(super) fn pyramids<'a>(volumes: &'a [&'a Candidate]) -> Vec<Pyramid<'a>> {
    let mut by_finest: BTreeMap<usize, Pyramid<'a>> = BTreeMap::new();
    let mut taken = BTreeSet::new();
    for pyramid in numbered_pyramids(volumes)
        .into_iter()
        .chain(factored_pyramids(volumes))
    {
        let places: Vec<usize> = pyramid.levels.iter().map(|level| level.place).collect();
        if !places.iter().any(|place| taken.contains(place)) && pyramid.is_consistent() {
            by_finest.insert(places[0], pyramid);
            taken.extend(places);
        }
    }
    for (place, volume) in volumes.iter().enumerate() {
        if !taken.contains(&place) {
            by_finest.insert(place, Pyramid::single(place, volume));
        }
    }
    by_finest.into_values().collect()
}

/// Possible pyramids by the numbers of their levels: `s0`, `s1`, … and similar.
fn numbered_pyramids<'a>(volumes: &[&'a Candidate]) -> Vec<Pyramid<'a>> {
    let mut runs: BTreeMap<(&str, &str), BTreeMap<u64, PyramidLevel<'a>>> = BTreeMap::new();
    for (place, volume) in volumes.iter().copied().enumerate() {
        for prefix in PREFIXES {
            if let Some(number) = number_after(last_of(&volume.path), prefix) {
                let level = PyramidLevel {
                    place,
                    volume,
                    factor: volume.marks.factor,
                };
                runs.entry((group_of(&volume.path), prefix))
                    .or_default()
                    .entry(number)
                    .or_insert(level);
            }
        }
    }
    let mut pyramids = Vec::new();
    for ((group, _), levels) in runs {
        let mut levels: Vec<PyramidLevel<'a>> = levels.into_values().collect();
        let first = levels[0];
        // A single dataset with a number is only a level if it states its factor.
        if levels.len() == 1 && first.factor.is_none() {
            continue;
        }
        // Factors become relative to the first level that exists: 2, 4 and 8 are 1, 2 and 4.
        let base = first.factor.unwrap_or(Xyz::all(1));
        for level in &mut levels {
            if let Some(factor) = &mut level.factor {
                *factor = factor.zip(base, |own, base| own / base.max(1));
            }
        }
        levels[0] = PyramidLevel::finest(first.place, first.volume);
        let named_by = if group.is_empty() {
            first.volume.path.as_str()
        } else {
            group
        };
        pyramids.push(Pyramid { levels, named_by });
    }
    pyramids
}

/// Possible pyramids by the factors of their levels: `raw`, `raw_2`, … and `Data`, `Data_2_2_1`, …
fn factored_pyramids<'a>(volumes: &[&'a Candidate]) -> Vec<Pyramid<'a>> {
    let places: BTreeMap<&str, usize> = volumes
        .iter()
        .enumerate()
        .map(|(place, volume)| (volume.path.as_str(), place))
        .collect();
    let mut runs: BTreeMap<usize, Vec<PyramidLevel<'a>>> = BTreeMap::new();
    for (place, volume) in volumes.iter().copied().enumerate() {
        if let Some((base, factors)) = base_and_factors(&volume.path)
            && let Some(finest) = places.get(&*base)
            && let Some(factor) = pick_factor(volumes[*finest], volume, factors)
        {
            runs.entry(*finest).or_default().push(PyramidLevel {
                place,
                volume,
                factor: Some(factor),
            });
        }
    }
    let mut pyramids = Vec::with_capacity(runs.len());
    for (place, mut levels) in runs {
        levels.sort_by_key(|level| level.factor.map(Xyz::volume));
        levels.insert(0, PyramidLevel::finest(place, volumes[place]));
        pyramids.push(Pyramid {
            levels,
            named_by: &volumes[place].path,
        });
    }
    pyramids
}

/// The path of the finest level, and the factors that the end of a name may mean. `Data_2_2_1` is
/// `Data` and 2, 2, 1 along x, y and z. A single number says nothing about z: `raw_2` is `raw` and
/// 2, 2, 1 or 2, 2, 2. In the same way, `/0/MipMaps/DATA/DATA_XY_2` is `/0/DATA` and one of these.
fn base_and_factors(path: &str) -> Option<(Cow<'_, str>, Vec<Xyz<u64>>)> {
    let with_any_z = |factor| vec![Xyz::new(factor, factor, 1), Xyz::all(factor)];
    if let Some((group, last)) = path.split_once(MIPMAPS) {
        let factors = with_any_z(factor(last)?);
        return Some((format!("{group}/DATA").into(), factors));
    }
    // From the end: 1, 2, 2, Data for `Data_2_2_1`.
    let parts: Vec<&str> = path.rsplitn(4, '_').collect();
    if let [z, y, x, base] = parts[..]
        && let (Some(x), Some(y), Some(z)) = (factor(x), factor(y), factor(z))
    {
        return Some((base.into(), vec![Xyz::new(x, y, z)]));
    }
    let (base, last) = path.rsplit_once('_')?;
    let factors = with_any_z(factor(last)?);
    Some((base.into(), factors))
}

fn factor(text: &str) -> Option<u64> {
    digits(text).filter(|factor| *factor > 0)
}

/// The first of `factors` by which `volume` is smaller than `finest`. A factor along z alone makes
/// no level.
fn pick_factor(finest: &Candidate, volume: &Candidate, factors: Vec<Xyz<u64>>) -> Option<Xyz<u64>> {
    let axes = finest.axes();
    let full = spatial(&finest.shape, &axes);
    let size = spatial(&volume.shape, &axes);
    factors
        .into_iter()
        .filter(|factor| factor.x > 1 || factor.y > 1)
        .find(|factor| {
            fits(full.x, factor.x, size.x)
                && fits(full.y, factor.y, size.y)
                && fits(full.z, factor.z, size.z)
        })
}

/// Whether an extent is the full one divided by a factor, rounded up or down.
fn fits(full: u64, factor: u64, extent: u64) -> bool {
    extent == full.div_ceil(factor) || extent == (full / factor).max(1)
}

/// Whether a volume can be the level after `finer`. If its factor is known, by its name or an
/// attribute, it need not be smaller than `finer`.
fn follows(finest: &Candidate, finer: &Candidate, next: PyramidLevel<'_>) -> bool {
    let axes = finest.axes();
    let volume = next.volume;
    if finer.voxel != volume.voxel || finer.shape.len() != volume.shape.len() {
        return false;
    }
    for axis in [AxisName::T, AxisName::C] {
        if along(&finer.shape, &axes, axis) != along(&volume.shape, &axes, axis) {
            return false;
        }
    }
    let larger = spatial(&finer.shape, &axes);
    let size = spatial(&volume.shape, &axes);
    let shrinks = size.x < larger.x && size.y < larger.y && size.z <= larger.z;
    shrinks || next.factor.is_some()
}

#[cfg(test)]
mod tests {
    use voltile_hdf5::volume::VoxelType;

    use super::*;

    fn volume(path: &str, shape: [u64; 3]) -> Candidate {
        Candidate::new(path, &shape, VoxelType::U8)
    }

    /// The paths of the levels of each pyramid, and the names.
    fn joined(volumes: &[Candidate]) -> Vec<(String, Vec<String>)> {
        let volumes: Vec<&Candidate> = volumes.iter().collect();
        let paths = |pyramid: &Pyramid<'_>| {
            pyramid
                .levels
                .iter()
                .map(|level| level.volume.path.clone())
                .collect()
        };
        pyramids(&volumes)
            .iter()
            .map(|p| (p.named_by.to_owned(), paths(p)))
            .collect()
    }

    fn one(name: &str, paths: &[&str]) -> (String, Vec<String>) {
        (
            name.to_owned(),
            paths.iter().map(|path| (*path).to_owned()).collect(),
        )
    }

    #[test]
    fn numbered_datasets_that_shrink_are_levels() {
        let found = joined(&[
            volume("/raw/s0", [9, 80, 100]),
            volume("/raw/s1", [9, 40, 50]),
            volume("/other", [9, 80, 100]),
            volume("/seg/level_2", [3, 10, 12]),
            volume("/seg/level_0", [9, 80, 100]),
        ]);
        let expected = [
            one("/raw", &["/raw/s0", "/raw/s1"]),
            one("/other", &["/other"]),
            one("/seg", &["/seg/level_0", "/seg/level_2"]),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn numbered_datasets_of_one_size_are_volumes_of_their_own() {
        let found = joined(&[
            volume("/0", [9, 80, 100]),
            volume("/1", [9, 80, 100]),
            volume("/2", [9, 40, 50]),
        ]);
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn a_number_after_a_name_is_a_factor_if_the_sizes_match() {
        let found = joined(&[
            volume("/raw", [9, 81, 100]),
            volume("/raw_4", [5, 21, 25]),
            volume("/raw_2", [9, 41, 50]),
            volume("/raw_3", [9, 80, 100]),
        ]);
        assert_eq!(
            found,
            [
                one("/raw", &["/raw", "/raw_2"]),
                one("/raw_4", &["/raw_4"]),
                one("/raw_3", &["/raw_3"])
            ]
        );
        assert_eq!(
            base_and_factors("/Data_2_2_1"),
            Some(("/Data".into(), vec![Xyz::new(2, 2, 1)]))
        );
        assert_eq!(
            base_and_factors("/a_b_4"),
            Some(("/a_b".into(), vec![Xyz::new(4, 4, 1), Xyz::all(4)]))
        );
        assert_eq!(base_and_factors("/a_b"), None);
    }

    #[test]
    fn explicit_factors_are_relative_to_the_finest_existing_level() {
        let with_factor = |path: &str, shape, factor| {
            let mut volume = volume(path, shape);
            volume.marks.factor = Some(factor);
            volume
        };
        let volumes = [
            with_factor("/a/s1", [9, 40, 50], Xyz::new(2, 2, 1)),
            with_factor("/a/s3", [9, 10, 13], Xyz::new(8, 8, 1)),
        ];
        let volumes: Vec<&Candidate> = volumes.iter().collect();
        let found = pyramids(&volumes);
        let factors: Vec<_> = found[0].levels.iter().map(|level| level.factor).collect();
        assert_eq!(factors, [Some(Xyz::all(1)), Some(Xyz::new(4, 4, 1))]);
    }
}
