//! Layouts: what the makers of a file meant by its groups and attributes.
//!
//! A layout recognises a file and says which channels it holds: at which paths, with which axes, levels, time points,
//! voxel size and names. It opens datasets to look at them and reads no voxels. Layouts are tried in order; the plain
//! one takes every file. Everything found may be overridden in the configuration.
//!
//! Two kinds of layout are behind one trait. Some arrange datasets by paths of their own (Imaris, BigDataViewer, …):
//! they find their channels themselves. Others only write attributes beside data that may lie anywhere (ilastik,
//! MATLAB, …): they read these marks, whichever layout the file has, and the search of the plain layout finds the channels.

mod bigdataviewer;
mod catmaid;
mod contents;
mod cremi;
mod dimensions;
mod element_size;
mod fiji;
mod flyem;
mod ilastik;
mod imaris;
pub mod inventory;
mod luxendo;
mod marks;
mod matlab;
mod minc;
mod n5;
mod names;
mod ndstore;
mod nwb;
mod plain;
mod pyramid;
mod velox;
mod voltile;

use crate::axes::{Axes, AxisName};
use crate::geometry::Xyz;
use crate::name::Name;
use crate::paint::{Kind, Window};
use crate::units;
use crate::volume::VoxelType;
use crate::volume::hdf5::{OpenError, OpenFile, View};

use contents::{About, Contents};
use marks::Marks;

pub use plain::{Given, channel_at};

/// One way of arranging volumes in an HDF5 file, or of writing down what they are.
trait Layout: Sync {
    /// What its users call it.
    fn name(&self) -> &'static str;

    /// What a dataset's own attributes and place tell; `None` where they are not of this layout.
    fn marks(&self, _about: &About<'_>) -> Option<Marks> {
        None
    }

    /// What in the file shows that it is of this layout: by default, that it marked a volume as its own.
    fn recognise(&self, contents: &Contents<'_>) -> Option<String> {
        contents.marked_by(self.name())
    }

    /// The channels that the file holds: by default, all that look like volumes.
    fn channels(&self, contents: &Contents<'_>) -> Result<Vec<FoundChannel>, OpenError> {
        plain::channels(contents, |_| true)
    }
}

/// The layouts, the most particular first; what an earlier one marks goes before what a later one does.
const LAYOUTS: [&dyn Layout; 19] = [
    &voltile::Voltile,
    &imaris::Imaris,
    &bigdataviewer::BigDataViewer,
    &luxendo::Luxendo,
    &luxendo::main_file::MainFile,
    &fiji::Fiji,
    &catmaid::Catmaid,
    &minc::Minc,
    &nwb::Nwb,
    &velox::Velox,
    &ndstore::Ndstore,
    &n5::N5,
    &cremi::Cremi,
    &flyem::FlyEm,
    &matlab::Matlab,
    &ilastik::Ilastik,
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
    /// The channels.
    pub channels: Vec<FoundChannel>,
}

/// A channel as a file holds it.
#[derive(Debug, Clone)]
pub struct FoundChannel {
    /// The name in URLs.
    pub name: Name,
    /// What the file calls it, where that says more.
    pub label: Option<String>,
    /// The colour that the file gives it, as `#rrggbb`.
    pub colour: Option<String>,
    /// What its numbers mean.
    pub kind: Kind,
    /// The display range that the file stores.
    pub range: Option<Window>,
    /// The size of a voxel, in the file's own numbers.
    pub voxel_size: Option<Xyz<f64>>,
    /// The unit of these numbers, where the file tells.
    pub voxel_unit: Option<String>,
    /// The stored levels, finest first.
    pub levels: Vec<FoundLevel>,
    /// Levels that voltile made of these and stored: to be had from there rather than made again.
    pub made: Vec<FoundLevel>,
    /// What the file says of it that tiles do not show.
    pub remarks: Vec<String>,
}

impl FoundChannel {
    /// An image of these levels, of which nothing else is known.
    fn new(name: Name, levels: Vec<FoundLevel>) -> Self {
        let (label, colour, kind) = (None, None, Kind::Image);
        let (range, voxel_size, voxel_unit, made, remarks) = (None, None, None, Vec::new(), Vec::new());
        Self { name, label, colour, kind, range, voxel_size, voxel_unit, levels, made, remarks }
    }

    /// The same, with the size of a voxel.
    fn with_voxel(self, voxel: Option<VoxelSize>) -> Self {
        let (voxel_size, voxel_unit) = voxel.map(|voxel| (voxel.size, voxel.unit)).unzip();
        Self { voxel_size, voxel_unit: voxel_unit.flatten(), ..self }
    }
}

/// A stored level.
#[derive(Debug, Clone)]
pub struct FoundLevel {
    /// By how much it is reduced against the finest; `None` where only the sizes tell.
    pub factor: Option<Xyz<u64>>,
    /// Where its voxels are.
    pub paths: Paths,
    /// How its datasets are to be seen.
    pub view: View,
}

/// The dataset of a level, or several that make it up.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Paths {
    /// All of it.
    One(String),
    /// One for each time point; `None` where it is missing.
    Times(Vec<Option<String>>),
    /// One for each section along z; `None` where it is missing.
    Sections(Vec<Option<String>>),
    /// All of it, with an axis t along which some time points are missing: which there are.
    Frames(String, Vec<bool>),
}

impl Paths {
    /// The first path there is.
    pub fn first(&self) -> Option<&str> {
        self.all().next()
    }

    /// Every path there is, in order.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        let paths = match self {
            Paths::One(path) | Paths::Frames(path, _) => (Some(path), &[][..]),
            Paths::Times(paths) | Paths::Sections(paths) => (None, paths.as_slice()),
        };
        paths.0.into_iter().chain(paths.1.iter().flatten()).map(String::as_str)
    }

    /// So many time points, those that there are in their places; none where there is none.
    fn times(count: u64, paths: impl Iterator<Item = (u64, String)>) -> Self {
        let mut placed = Self::by_number(paths);
        if !placed.is_empty() {
            placed.resize(placed.len().max(count.min(MOST_NUMBERED) as usize), None);
        }
        Paths::Times(placed)
    }

    /// One path for each number, in its place; numbers that are missing are gaps.
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

/// Numbers beyond this are no time points or sections of a real file.
const MOST_NUMBERED: u64 = 1 << 20;

impl View {
    /// A dataset with these axes and nothing odd about it.
    fn of(axes: Axes) -> Self {
        Self { axes, fixed: Vec::new(), means: None, size: None }
    }

    /// A dataset that holds one volume, z slowest.
    pub fn zyx() -> Self {
        Self::of(Axes::from_known([AxisName::Z, AxisName::Y, AxisName::X]))
    }
}

/// The size of a voxel as a file has it.
#[derive(Debug, Clone, PartialEq)]
struct VoxelSize {
    size: Xyz<f64>,
    unit: Option<String>,
}

impl VoxelSize {
    /// A size along each axis; `None` where one is no size.
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
    for layout in LAYOUTS {
        if let Some(because) = layout.recognise(&contents) {
            return Ok(Discovery { layout: layout.name(), because, channels: layout.channels(&contents)? });
        }
    }
    Ok(Discovery { layout: "none", because: "no layout fits".to_owned(), channels: Vec::new() })
}

/// The number behind a prefix, as in `TimePoint 12`: ASCII digits and nothing else.
fn number_after(name: &str, prefix: &str) -> Option<u64> {
    let digits = name.strip_prefix(prefix)?;
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok()).flatten()
}

/// Which of the names have that prefix and a number, by number.
fn numbered(names: &[String], prefix: &str) -> Vec<(u64, String)> {
    let mut found: Vec<(u64, String)> = names
        .iter()
        .filter_map(|name| number_after(name, prefix).map(|number| (number, name.clone())))
        .collect();
    found.sort();
    found
}

/// A display range: whole where both limits are.
fn range(lo: f64, hi: f64) -> Option<Window> {
    let is_whole = |value: f64| value.fract() == 0.0 && value.abs() < (1u64 << 53) as f64;
    match (lo.is_finite() && hi.is_finite(), is_whole(lo) && is_whole(hi)) {
        (true, true) => Some(Window::Whole { lo: lo as i128, hi: hi as i128 }),
        (true, false) => Some(Window::Real { lo, hi }),
        _ => None,
    }
}

/// The path of the group that holds `path`, without the last slash; empty for the root.
fn group_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(group, _)| group)
}

/// The last component of a path.
fn last_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The extents along x, y and z; axes that are not stored are 1 long.
fn spatial(shape: &[u64], axes: &Axes) -> Xyz<u64> {
    let along = |axis| axes.position(axis).and_then(|position| shape.get(position)).copied().unwrap_or(1);
    Xyz::new(along(AxisName::X), along(AxisName::Y), along(AxisName::Z))
}

/// The axes of a dataset of that rank where no program says otherwise: y and x, before them z, before that the time.
fn usual_axes(rank: usize) -> Option<Axes> {
    let axes = ["yx", "zyx", "tzyx"].get(rank.checked_sub(2)?)?;
    Axes::new(axes).ok()
}

/// Whether ids can be stored as it.
fn holds_ids(voxel: VoxelType) -> bool {
    matches!(voxel, VoxelType::U32 | VoxelType::I32 | VoxelType::U64 | VoxelType::I64)
}
