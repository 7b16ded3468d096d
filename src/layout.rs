//! Layouts: what the makers of a file meant by its groups and attributes.
//!
//! A layout recognises a file and says which channels it holds: at which paths, with which axes, levels, time points,
//! voxel size and names. It opens datasets to look at them and reads no voxels. Layouts are tried in order; the plain
//! one takes every file. Everything found may be overridden in the configuration.

mod bigdataviewer;
mod imaris;
mod plain;

use crate::axes::{Axes, AxisName};
use crate::geometry::Xyz;
use crate::name::Name;
use crate::paint::{Kind, Window};
use crate::volume::hdf5::{OpenError, OpenFile, View};

pub use plain::{Given, channel_at};

/// One way of arranging volumes in an HDF5 file.
trait Layout {
    /// What its users call it.
    fn name(&self) -> &'static str;
    /// What in the file shows that it is of this layout.
    fn recognise(&self, file: &OpenFile) -> Option<String>;
    /// The channels that the file holds.
    fn channels(&self, file: &OpenFile) -> Result<Vec<FoundChannel>, OpenError>;
}

/// The layouts, the most particular first.
const LAYOUTS: [&dyn Layout; 3] = [&imaris::Imaris, &bigdataviewer::BigDataViewer, &plain::Plain];

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
    /// What its numbers mean.
    pub kind: Kind,
    /// The display range that the file stores.
    pub range: Option<Window>,
    /// The size of a voxel, in whatever unit the file uses.
    pub voxel_size: Option<Xyz<f64>>,
    /// The stored levels, finest first.
    pub levels: Vec<FoundLevel>,
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

/// The dataset of a level, or one for each time point.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Paths {
    /// All of it.
    One(String),
    /// One for each time point; `None` where it is missing.
    Times(Vec<Option<String>>),
}

impl Paths {
    /// The first path there is.
    pub fn first(&self) -> Option<&str> {
        match self {
            Paths::One(path) => Some(path),
            Paths::Times(paths) => paths.iter().flatten().next().map(String::as_str),
        }
    }
}

impl View {
    /// A dataset that holds one volume, z slowest.
    pub fn zyx() -> Self {
        let axes = Axes::from_known([AxisName::Z, AxisName::Y, AxisName::X]);
        Self { axes, fixed: Vec::new(), unsigned: false, size: None }
    }
}

/// Recognises a file's layout and finds its channels.
pub fn discover(file: &OpenFile) -> Result<Discovery, OpenError> {
    for layout in LAYOUTS {
        if let Some(because) = layout.recognise(file) {
            return Ok(Discovery { layout: layout.name(), because, channels: layout.channels(file)? });
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
