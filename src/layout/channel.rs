//! Channels that layouts find, their levels, and the paths of their datasets; and helpers that take
//! paths and numbers of files apart.

use voltile_base::axes::{Axes, AxisName};
use voltile_base::description::ChannelFacts;
use voltile_base::geometry::{Axis, Transforms, Xyz};
use voltile_base::name::Name;
use voltile_base::notice::Notice;
use voltile_base::paint::{Kind, Number, Window};
use voltile_base::request::digits;
use voltile_base::units;
use voltile_hdf5::volume::ComplexPart;
use voltile_hdf5::volume::hdf5::View;

/// How likely a dataset is what its file was written for. Channels are listed in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Rank {
    /// The file says that it is to be shown first; at most one channel.
    First,
    /// The format declares it as the signal or as an image.
    Declared,
    /// Nothing is known.
    #[default]
    Ordinary,
    /// It has the shape of a table, a list or a trace. Only listed if there is nothing more likely.
    Table,
    /// It lies beside the data: coordinates, flags, drawings. Only listed if there is nothing else.
    Beside,
}

/// A channel found in a file.
#[derive(Debug, Clone)]
pub struct FoundChannel {
    /// The name in URLs.
    pub name: Name,
    /// The facts that the file states about it.
    pub facts: ChannelFacts,
    /// The meaning of its values.
    pub kind: Kind,
    /// How likely it is what the file was written for.
    pub rank: Rank,
    /// Whether it has rows and columns, unlike tables and lists.
    pub has_pictures: bool,
    /// The number of voxels at full resolution, at all time points; 0 if it is not known.
    pub voxels: u64,
    /// Whether it shows stored values that stand for other values, which another channel shows.
    pub shows_stored_values: bool,
    /// The display range stored in the file.
    pub range: Option<Window>,
    /// Whether the least value is displayed white, and the greatest black.
    pub is_inverted: bool,
    /// The values that the file declares as missing.
    pub missing: Vec<Number>,
    /// Where its voxels lie in the file's space, in the unit of the voxel size.
    pub transforms: Transforms,
    /// The stored levels, finest first.
    pub levels: Vec<FoundLevel>,
    /// Levels that `voltile pyramid` precomputed from the stored ones.
    pub pyramid_levels: Vec<FoundLevel>,
    /// The notices about it, for example on units that are not applied.
    pub notices: Vec<Notice>,
}

impl FoundChannel {
    /// An image that is described by its levels alone.
    pub(super) fn new(name: Name, levels: Vec<FoundLevel>) -> Self {
        Self {
            name,
            facts: ChannelFacts::default(),
            kind: Kind::Image,
            rank: Rank::default(),
            has_pictures: true,
            voxels: 0,
            shows_stored_values: false,
            range: None,
            is_inverted: false,
            missing: Vec::new(),
            transforms: Transforms::default(),
            levels,
            pyramid_levels: Vec::new(),
            notices: Vec::new(),
        }
    }

    /// The part of complex numbers that it shows.
    pub(crate) fn part(&self) -> Option<ComplexPart> {
        self.levels.first()?.view.part
    }

    /// Shows stored values although they stand for other values.
    pub(crate) fn show_stored_values(&mut self) {
        for level in self.levels.iter_mut().chain(&mut self.pyramid_levels) {
            level.view.values = None;
        }
        self.shows_stored_values = true;
    }

    pub(super) fn with_voxel(mut self, voxel: Option<VoxelSize>) -> Self {
        if let Some(VoxelSize { size, unit, from }) = voxel {
            self.facts.voxel_size = Some(size);
            self.facts.voxel_unit = unit;
            self.facts.voxel_size_from = from;
        }
        self
    }
}

/// A stored level.
#[derive(Debug, Clone)]
pub struct FoundLevel {
    /// The downsample factor relative to the finest level; `None` if only the sizes imply it.
    pub factor: Option<Xyz<u64>>,
    /// The datasets with its voxels.
    pub paths: Paths,
    /// How to interpret its datasets.
    pub view: View,
}

impl FoundLevel {
    /// A level whose datasets are in z, y, x order.
    pub(super) fn zyx(factor: Option<Xyz<u64>>, paths: Paths) -> Self {
        Self {
            factor,
            paths,
            view: View::zyx(),
        }
    }
}

/// The dataset of a level, or the datasets that make it up.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Paths {
    /// One dataset.
    One(String),
    /// One dataset for each time point; `None` where it is missing.
    Times(Vec<Option<String>>),
    /// Several datasets that follow each other along z.
    Parts(Vec<Part>),
    /// One dataset with an axis t, and whether each of its time points is present.
    Frames(String, Vec<bool>),
}

/// Consecutive slices of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Part {
    /// The dataset that holds them, whose file may not exist yet; `None` if there is no dataset.
    pub path: Option<String>,
    /// The number of slices, at least 1.
    pub depth: u64,
}

impl Paths {
    /// The first path.
    pub fn first(&self) -> Option<&str> {
        self.all().next()
    }

    /// All paths, in order.
    pub fn all(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        match self {
            Paths::One(path) | Paths::Frames(path, _) => Box::new(std::iter::once(path.as_str())),
            Paths::Times(paths) => Box::new(paths.iter().flatten().map(String::as_str)),
            Paths::Parts(parts) => Box::new(parts.iter().filter_map(|part| part.path.as_deref())),
        }
    }

    /// Each path at the time point of its number, in a series of at least `count` time points;
    /// empty if there are no paths.
    pub(super) fn times(count: u64, paths: impl Iterator<Item = (u64, String)>) -> Self {
        let mut placed = Self::by_number(paths);
        if !placed.is_empty() {
            placed.resize(placed.len().max(count.min(MAX_NUMBERED) as usize), None);
        }
        Paths::Times(placed)
    }

    /// Each path at the section of its number.
    pub(super) fn sections(paths: impl Iterator<Item = (u64, String)>) -> Self {
        let paths = Self::by_number(paths).into_iter();
        Paths::Parts(paths.map(|path| Part { path, depth: 1 }).collect())
    }

    /// Each path at its number's index, with gaps for missing numbers.
    fn by_number(paths: impl Iterator<Item = (u64, String)>) -> Vec<Option<String>> {
        let mut placed = Vec::new();
        for (number, path) in paths.filter(|(number, _)| *number < MAX_NUMBERED) {
            let place = number as usize;
            placed.resize(placed.len().max(place + 1), None);
            placed[place] = Some(path);
        }
        placed
    }
}

/// Larger numbers are not time points or sections of a real file.
pub(super) const MAX_NUMBERED: u64 = 1 << 20;

/// The voxel size given in a file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct VoxelSize {
    pub size: Xyz<f64>,
    pub unit: Option<String>,
    /// Where it was found.
    pub from: Option<String>,
}

impl VoxelSize {
    /// A size along each axis; `None` unless all are positive and finite.
    pub(super) fn new(size: Xyz<f64>, unit: Option<&str>) -> Option<Self> {
        let is_usable = size.map(|edge| edge.is_finite() && edge > 0.0).everywhere();
        is_usable.then_some(Self {
            size,
            unit: unit.and_then(usual_unit),
            from: None,
        })
    }

    /// The same size, found in `place`.
    pub(super) fn found_in(self, place: impl Into<String>) -> Self {
        let from = Some(place.into());
        Self { from, ..self }
    }

    /// The same edges after the axes `before` were renamed to `axes`: from zyx to xyz, the edge
    /// along z becomes the edge along x. `None` if an axis of time or channels becomes x, y or z.
    pub(super) fn with_axes(self, axes: &Axes, before: &Axes) -> Option<Self> {
        let mut size = Xyz::all(1.0);
        for (axis, axis_before) in axes.iter().zip(before.iter()) {
            if let Some(axis) = in_space(axis) {
                size[axis] = self.size[in_space(axis_before)?];
            }
        }
        Some(Self { size, ..self })
    }

    /// From numbers in z, y, x order.
    pub(super) fn zyx(numbers: &[f64], unit: Option<&str>) -> Option<Self> {
        let [z, y, x] = *numbers else { return None };
        Self::new(Xyz::new(x, y, z), unit)
    }

    /// From numbers in x, y, z order.
    pub(super) fn xyz(numbers: &[f64], unit: Option<&str>) -> Option<Self> {
        Self::new(xyz(numbers)?, unit)
    }
}

/// The usual name of a unit, without spaces around it: `µm` for `um`. `None` if it is empty.
pub(super) fn usual_unit(unit: &str) -> Option<String> {
    let unit = unit.trim();
    (!unit.is_empty()).then(|| units::usual(unit))
}

/// Three numbers in x, y, z order, such as a position.
pub(super) fn xyz(numbers: &[f64]) -> Option<Xyz<f64>> {
    Some(<[f64; 3]>::try_from(numbers).ok()?.into())
}

/// The number after a prefix, of ASCII digits only: 12 after `TimePoint ` in `TimePoint 12`.
pub(super) fn number_after(name: &str, prefix: &str) -> Option<u64> {
    digits(name.strip_prefix(prefix)?)
}

/// The names that consist of this prefix and a number, sorted by number.
pub(super) fn numbered(names: &[String], prefix: &str) -> Vec<(u64, String)> {
    let mut numbered = Vec::new();
    for name in names {
        if let Some(number) = number_after(name, prefix) {
            numbered.push((number, name.clone()));
        }
    }
    numbered.sort();
    numbered
}

/// A downsample factor along x, y and z; `None` unless it is three whole numbers from 1 on.
pub(super) fn whole_factor(numbers: &[f64]) -> Option<Xyz<u64>> {
    let factor = xyz(numbers)?;
    let is_whole = factor
        .map(|number| number >= 1.0 && number.fract() == 0.0)
        .everywhere();
    is_whole.then(|| factor.map(|number| number as u64))
}

/// The code of a colour from red, green and blue, each from 0 to 1: `#ff8000` for 1, 0.5, 0.
pub(super) fn hex_colour(components: &[f64]) -> Option<String> {
    let [red, green, blue] = <[f64; 3]>::try_from(components)
        .ok()?
        .map(|component| (component.clamp(0.0, 1.0) * 255.0).round() as u8);
    Some(format!("#{red:02x}{green:02x}{blue:02x}"))
}

/// A display range: `Whole` if both limits are integers below 2^53, up to which `f64` is exact.
/// `None` unless both are finite.
pub(super) fn range(lo: f64, hi: f64) -> Option<Window> {
    if !lo.is_finite() || !hi.is_finite() {
        return None;
    }
    let are_whole = [lo, hi]
        .iter()
        .all(|value| value.fract() == 0.0 && value.abs() < (1u64 << 53) as f64);
    Some(if are_whole {
        Window::Whole {
            lo: lo as i128,
            hi: hi as i128,
        }
    } else {
        Window::Real { lo, hi }
    })
}

/// The path of the group that holds `path`, without the trailing slash; empty for the root.
pub(super) fn group_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(group, _)| group)
}

/// The last component of a path.
pub(super) fn last_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The axis of space with this name; `None` for time and channels.
fn in_space(axis: AxisName) -> Option<Axis> {
    match axis {
        AxisName::X => Some(Axis::X),
        AxisName::Y => Some(Axis::Y),
        AxisName::Z => Some(Axis::Z),
        AxisName::T | AxisName::C => None,
    }
}

/// The extents along x, y and z; axes that are not stored have extent 1.
pub(super) fn spatial(shape: &[u64], axes: &Axes) -> Xyz<u64> {
    Xyz::new(AxisName::X, AxisName::Y, AxisName::Z).map(|axis| along(shape, axes, axis))
}

/// The extent along an axis; 1 if it is not stored.
pub(super) fn along(shape: &[u64], axes: &Axes, axis: AxisName) -> u64 {
    axes.position(axis)
        .and_then(|position| shape.get(position))
        .copied()
        .unwrap_or(1)
}

/// The default axes of a dataset of this rank: yx, zyx or tzyx.
pub(super) fn usual_axes(rank: usize) -> Option<Axes> {
    let axes = ["yx", "zyx", "tzyx"].get(rank.checked_sub(2)?)?;
    Axes::new(axes).ok()
}
