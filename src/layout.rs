//! Layouts: how programs arrange volumes in HDF5 files and describe them in attributes.
//!
//! A layout recognises a file and says which channels it holds: at which paths, with which axes, levels, time
//! points, voxel size and names. It opens datasets to inspect them and reads no voxels. Layouts are tried in
//! order; the plain one accepts every file. The configuration can override everything found.
//!
//! One trait covers two kinds of layout. Some have their own scheme of paths (Imaris, BigDataViewer, …) and
//! find their channels themselves. Others only add attributes to data at any path (ilastik, MATLAB, …): they
//! read these marks in files of any layout, and the search of the plain layout finds the channels.

mod alignment;
mod axis_names;
mod berkeley;
mod bigdataviewer;
mod catmaid;
mod chimera;
mod contents;
mod cremi;
mod delmic;
mod detector;
mod dimensions;
mod dream3d;
mod element_size;
mod eman;
mod fiji;
mod flyem;
mod hdf_eos;
mod hdf_image;
mod hyperspy;
mod ilastik;
mod imaris;
pub mod inventory;
mod itk;
mod lost;
mod luxendo;
mod marks;
mod matlab;
mod minc;
mod n5;
mod names;
mod ndstore;
mod netcdf;
mod nexus;
mod nwb;
mod openpmd;
mod plain;
mod pyramid;
mod segger;
mod spacing;
mod velox;
mod voltile;

use crate::axes::{Axes, AxisName};
use crate::geometry::Xyz;
use crate::name::Name;
use crate::paint::{Kind, Number, Window};
use crate::units;
use crate::volume::VoxelType;
use crate::volume::hdf5::{OpenError, OpenFile, View};

use contents::{About, Contents};
use marks::Marks;

pub(crate) use alignment::align;
pub(crate) use lost::named;
pub use plain::{Given, channel_at};

/// A way of arranging volumes in an HDF5 file, or of describing them.
trait Layout: Sync {
    /// The name shown to users.
    fn name(&self) -> &'static str;

    /// What a dataset's attributes and path say about it; `None` if they are not of this layout.
    fn marks(&self, _about: &About<'_>) -> Option<Marks> {
        None
    }

    /// Why the file is of this layout, if it is; by default, that a volume has its marks.
    fn recognise(&self, contents: &Contents<'_>) -> Option<String> {
        contents.marked_by(self.name())
    }

    /// Whether only datasets with its marks are channels of its files, rather than all that look like volumes.
    fn is_exclusive(&self) -> bool {
        false
    }

    /// The file's channels: by default, the datasets that look like volumes.
    fn channels(&self, contents: &Contents<'_>) -> Result<Vec<FoundChannel>, OpenError> {
        plain::channels(contents, |volume| !self.is_exclusive() || volume.marked_by(self.name()).is_some())
    }
}

/// The layouts, most specific first; marks of earlier ones take precedence. Tests compare the lists of the README and of
/// `docs/makers.md` with this one.
const LAYOUTS: &[&dyn Layout] = &[
    &voltile::Voltile,
    &matlab::Matlab,
    &imaris::Imaris,
    &bigdataviewer::BigDataViewer,
    &luxendo::Luxendo,
    &luxendo::main_file::MainFile,
    &fiji::Fiji,
    &catmaid::Catmaid,
    &minc::Minc,
    &nwb::Nwb,
    &velox::Velox,
    &detector::Detector,
    &ndstore::Ndstore,
    &n5::N5,
    &cremi::Cremi,
    &flyem::FlyEm,
    &itk::Itk,
    &berkeley::Berkeley,
    &hyperspy::Hyperspy,
    &eman::Eman,
    &chimera::Chimera,
    &segger::Segger,
    &delmic::Delmic,
    &dream3d::Dream3d,
    &dream3d::simplnx::Simplnx,
    &openpmd::OpenPmd,
    &hdf_eos::HdfEos,
    &nexus::Nexus,
    &ilastik::Ilastik,
    &hdf_image::HdfImage,
    &netcdf::Netcdf,
    &dimensions::Dimensions,
    &element_size::ElementSize,
    &plain::Plain,
];

/// What was found in a file.
#[derive(Debug, Clone)]
pub struct Discovery {
    /// The layout's name.
    pub layout: &'static str,
    /// What it was recognised by.
    pub because: String,
    /// Its channels.
    pub channels: Vec<FoundChannel>,
    /// Links to other files that were not followed, each with the reason.
    pub remarks: Vec<String>,
    /// Why there may be no channels: datasets that cannot be opened, and links that were not followed.
    pub lost: Option<String>,
}

/// A channel found in a file.
#[derive(Debug, Clone)]
pub struct FoundChannel {
    /// The name in URLs.
    pub name: Name,
    /// The name in the file, if it is more informative.
    pub label: Option<String>,
    /// The colour given in the file, as `#rrggbb`.
    pub colour: Option<String>,
    /// What its values mean.
    pub kind: Kind,
    /// Whether the file says that it is to be shown first; at most one channel.
    pub is_default: bool,
    /// Whether it shows stored values that stand for others, which another channel shows.
    pub shows_stored_values: bool,
    /// Why it holds labels, if something other than its name says so.
    pub labels_because: Option<String>,
    /// The display range stored in the file.
    pub range: Option<Window>,
    /// The values that the file declares as missing.
    pub missing: Vec<Number>,
    /// The voxel size, in the file's own unit.
    pub voxel_size: Option<Xyz<f64>>,
    /// The unit of the voxel size, if the file states it.
    pub voxel_unit: Option<String>,
    /// The position of its first voxel in the file's space, in the unit of the voxel size.
    pub origin: Option<Xyz<f64>>,
    /// The stored levels, finest first.
    pub levels: Vec<FoundLevel>,
    /// Levels that `voltile pyramid` precomputed from these.
    pub made: Vec<FoundLevel>,
    /// Information in the file that tiles do not show.
    pub remarks: Vec<String>,
}

impl FoundChannel {
    /// An image with these levels and nothing else known.
    fn new(name: Name, levels: Vec<FoundLevel>) -> Self {
        let (label, colour, kind) = (None, None, Kind::Image);
        let (labels_because, range, voxel_size, voxel_unit, origin) = (None, None, None, None, None);
        let (missing, made, remarks) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            name,
            label,
            colour,
            kind,
            is_default: false,
            shows_stored_values: false,
            labels_because,
            range,
            missing,
            voxel_size,
            voxel_unit,
            origin,
            levels,
            made,
            remarks,
        }
    }

    /// Shows stored values although they stand for others.
    pub(crate) fn show_stored_values(&mut self) {
        self.levels.iter_mut().chain(&mut self.made).for_each(|level| level.view.values = None);
        self.shows_stored_values = true;
    }

    fn with_voxel(self, voxel: Option<VoxelSize>) -> Self {
        let (voxel_size, voxel_unit) = voxel.map(|voxel| (voxel.size, voxel.unit)).unzip();
        Self { voxel_size, voxel_unit: voxel_unit.flatten(), ..self }
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

/// The dataset of a level, or the datasets that make it up.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Paths {
    /// One dataset.
    One(String),
    /// One for each time point; `None` where it is missing.
    Times(Vec<Option<String>>),
    /// Several that follow each other along z.
    Parts(Vec<Part>),
    /// One dataset with an axis t along which time points may be missing; whether each is present.
    Frames(String, Vec<bool>),
}

/// Consecutive slices of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Part {
    /// The dataset that holds them, which may be missing; `None` if no dataset does.
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
    pub fn all(&self) -> impl Iterator<Item = &str> {
        let (one, times, parts) = match self {
            Paths::One(path) | Paths::Frames(path, _) => (Some(path), &[][..], &[][..]),
            Paths::Times(paths) => (None, paths.as_slice(), &[][..]),
            Paths::Parts(parts) => (None, &[][..], parts.as_slice()),
        };
        let parts = parts.iter().filter_map(|part| part.path.as_ref());
        one.into_iter().chain(times.iter().flatten()).chain(parts).map(String::as_str)
    }

    /// At least `count` time points, each path at its index; empty if there are no paths.
    fn times(count: u64, paths: impl Iterator<Item = (u64, String)>) -> Self {
        let mut placed = Self::by_number(paths);
        if !placed.is_empty() {
            placed.resize(placed.len().max(count.min(MOST_NUMBERED) as usize), None);
        }
        Paths::Times(placed)
    }

    /// One dataset for each section, at its number.
    fn sections(paths: impl Iterator<Item = (u64, String)>) -> Self {
        let section = |path| Part { path, depth: 1 };
        Paths::Parts(Self::by_number(paths).into_iter().map(section).collect())
    }

    /// Each path at its number's index, with gaps for missing numbers.
    fn by_number(paths: impl Iterator<Item = (u64, String)>) -> Vec<Option<String>> {
        let mut placed = Vec::new();
        for (number, path) in paths.filter(|(number, _)| *number < MOST_NUMBERED) {
            let place = number as usize;
            placed.resize(placed.len().max(place + 1), None);
            placed[place] = Some(path);
        }
        placed
    }
}

/// Larger numbers are not time points or sections of a real file.
const MOST_NUMBERED: u64 = 1 << 20;

impl View {
    /// A dataset with these axes and nothing special.
    fn of(axes: Axes) -> Self {
        Self { axes, fixed: Vec::new(), means: None, size: None, values: None, repeat: Xyz::all(1) }
    }

    /// A dataset that holds one volume in z, y, x order.
    pub fn zyx() -> Self {
        Self::of(Axes::from_known([AxisName::Z, AxisName::Y, AxisName::X]))
    }
}

/// The voxel size given in a file.
#[derive(Debug, Clone, PartialEq)]
struct VoxelSize {
    size: Xyz<f64>,
    unit: Option<String>,
}

impl VoxelSize {
    /// A size along each axis; `None` unless all are positive and finite.
    fn new(size: Xyz<f64>, unit: Option<&str>) -> Option<Self> {
        let usable = |edge: f64| edge.is_finite() && edge > 0.0;
        let unit = unit.map(str::trim).filter(|unit| !unit.is_empty()).map(units::usual);
        (usable(size.x) && usable(size.y) && usable(size.z)).then_some(Self { size, unit })
    }

    /// From numbers in z, y, x order.
    fn zyx(numbers: &[f64], unit: Option<&str>) -> Option<Self> {
        let [z, y, x] = *numbers else { return None };
        Self::new(Xyz::new(x, y, z), unit)
    }

    /// From numbers in x, y, z order.
    fn xyz(numbers: &[f64], unit: Option<&str>) -> Option<Self> {
        let [x, y, z] = *numbers else { return None };
        Self::new(Xyz::new(x, y, z), unit)
    }
}

/// Recognises a file's layout and finds its channels.
pub fn discover(file: &OpenFile) -> Result<Discovery, OpenError> {
    let contents = Contents::new(file);
    let mut found = ("none", "no layout fits".to_owned(), Vec::new());
    for layout in LAYOUTS {
        if let Some(because) = layout.recognise(&contents) {
            found = (layout.name(), because, layout.channels(&contents)?);
            break;
        }
    }
    let (layout, because, mut channels) = found;
    nexus::mark_default(&contents, &mut channels);
    let unfollowed = contents.unfollowed();
    Ok(Discovery {
        layout,
        because,
        channels,
        remarks: lost::remarks(unfollowed),
        lost: lost::explanation(contents.unopened(), unfollowed),
    })
}

/// The number after a prefix, as in `TimePoint 12`: ASCII digits only.
fn number_after(name: &str, prefix: &str) -> Option<u64> {
    let digits = name.strip_prefix(prefix)?;
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok()).flatten()
}

/// The names that consist of this prefix and a number, sorted by number.
fn numbered(names: &[String], prefix: &str) -> Vec<(u64, String)> {
    let mut found: Vec<(u64, String)> = names
        .iter()
        .filter_map(|name| number_after(name, prefix).map(|number| (number, name.clone())))
        .collect();
    found.sort();
    found
}

/// A display range: `Whole` if both limits are integers.
fn range(lo: f64, hi: f64) -> Option<Window> {
    let is_whole = |value: f64| value.fract() == 0.0 && value.abs() < (1u64 << 53) as f64;
    match (lo.is_finite() && hi.is_finite(), is_whole(lo) && is_whole(hi)) {
        (true, true) => Some(Window::Whole { lo: lo as i128, hi: hi as i128 }),
        (true, false) => Some(Window::Real { lo, hi }),
        _ => None,
    }
}

/// The path of the group that holds `path`, without the trailing slash; empty for the root.
fn group_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(group, _)| group)
}

/// The last component of a path.
fn last_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The extents along x, y and z; axes that are not stored have extent 1.
fn spatial(shape: &[u64], axes: &Axes) -> Xyz<u64> {
    let along = |axis| axes.position(axis).and_then(|position| shape.get(position)).copied().unwrap_or(1);
    Xyz::new(along(AxisName::X), along(AxisName::Y), along(AxisName::Z))
}

/// Default axes of a dataset of that rank: yx, zyx or tzyx.
fn usual_axes(rank: usize) -> Option<Axes> {
    let axes = ["yx", "zyx", "tzyx"].get(rank.checked_sub(2)?)?;
    Axes::new(axes).ok()
}

/// Whether the type is wide enough for ids.
fn holds_ids(voxel: VoxelType) -> bool {
    matches!(voxel, VoxelType::U32 | VoxelType::I32 | VoxelType::U64 | VoxelType::I64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of a name or a list, in lower case.
    fn words(text: &str) -> Vec<String> {
        let words = text.split(|c: char| !c.is_alphanumeric() && c != '.').map(|word| word.trim_matches('.'));
        words.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
    }

    fn names_all(text: &str, layout: &dyn Layout) -> bool {
        let known = words(text);
        words(layout.name()).iter().all(|word| known.contains(word))
    }

    #[test]
    fn the_manual_has_a_row_for_each_layout_and_no_others() {
        let manual = include_str!("../docs/makers.md");
        let rows = manual.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next()).skip(1);
        let rows: Vec<&str> = rows.collect();
        for row in &rows {
            assert!(LAYOUTS.iter().any(|layout| names_all(row, *layout)), "{row} is not a layout");
        }
        for layout in LAYOUTS.iter().filter(|layout| !["voltile", "plain"].contains(&layout.name())) {
            assert!(rows.iter().any(|row| names_all(row, *layout)), "there is no row for {}", layout.name());
        }
    }

    #[test]
    fn the_readme_lists_each_layout() {
        let readme = include_str!("../README.md");
        let list = readme.split("- **Layouts are recognised**: ").nth(1).unwrap();
        let list = words(list.split("\n- ").next().unwrap());
        for layout in LAYOUTS {
            let name = words(layout.name());
            assert!(list.contains(&name[0]), "{} is not listed", layout.name());
        }
    }
}
