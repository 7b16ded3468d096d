//! The inventory of a file that voltile wrote: its channels, their levels, and what the levels were
//! derived from.
//!
//! It is JSON in one attribute of the root group:
//!
//! ```json
//! {"version": 1, "role": "sidecar", "originals": [{…}], "channels": [{"name": "image", …,
//!  "levels": [{"level": 1, "factor": [2, 2, 1], "size": [256, 256, 40], "path": "/image/s1",
//!              "made": true}]}]}
//! ```
//!
//! A *sidecar* holds the derived levels of another file, a *volume* all levels of its channels.
//! Every level is one dataset with the axes t c z y x; missing time points are never written. What
//! levels were derived from is recorded as text that is compared literally, so that levels derived
//! from something else are not used by mistake.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use voltile_base::axes::{Axes, AxisName};
use voltile_base::description::ChannelFacts;
use voltile_base::geometry::{Affine, Transforms};
use voltile_base::name::Name;
use voltile_base::paint::{Kind, Number, Window};
use voltile_hdf5::volume::hdf5::{OpenFile, View};
use voltile_hdf5::volume::{Stamp, VoxelType};

use super::{FoundChannel, FoundLevel, Part, Paths};

/// The attribute that holds the inventory.
pub const ATTRIBUTE: &str = "voltile_inventory";
/// The format version.
const VERSION: u32 = 1;

/// The inventory of a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Inventory {
    version: u32,
    /// The role of the file.
    pub role: Role,
    /// The files that its levels were derived from; none for a volume, which no longer needs them.
    pub originals: Vec<Stamp>,
    /// Its channels.
    pub channels: Vec<ChannelRecord>,
}

/// The role of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It holds levels that another file lacks.
    Sidecar,
    /// It holds all levels of its channels.
    Volume,
}

/// A channel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChannelRecord {
    /// The name in URLs.
    pub name: String,
    /// The facts that the original file states.
    #[serde(flatten)]
    pub facts: ChannelFacts,
    /// `image`, `labels` or `rgb`.
    pub kind: String,
    /// The voxel type at full resolution, as a numpy name.
    pub dtype: String,
    /// The values that stand for missing data, in integers or decimals.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_values: Vec<String>,
    /// Its transforms: the time point from which each holds, and its rows in the unit of
    /// `voxel_size`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transforms: Vec<(u64, [[f64; 4]; 3])>,
    /// The display range, in integers or decimals.
    pub range: Option<[String; 2]>,
    /// Whether it is a time series.
    pub series: bool,
    /// The number of time points.
    pub times: u64,
    /// The missing time points.
    pub missing: Vec<u64>,
    /// How halving a level changes z: `zslices` or `isotropic`.
    pub scaling: String,
    /// The levels from which its levels were derived.
    pub origin: Vec<OriginRecord>,
    /// Its levels, finest first.
    pub levels: Vec<LevelRecord>,
}

/// A level from which other levels were derived.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OriginRecord {
    /// Its number.
    pub level: u8,
    /// The downsample factor along z.
    pub z_factor: u64,
    /// Its extents: x, y, z.
    pub size: [u64; 3],
    /// Its datasets, as text by [`Paths::in_words`].
    pub paths: String,
    /// How its datasets are interpreted, as text by [`View::in_words`].
    pub view: String,
}

/// A level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LevelRecord {
    /// Its number.
    pub level: u8,
    /// The downsample factor: x, y, z.
    pub factor: [u64; 3],
    /// Its extents: x, y, z.
    pub size: [u64; 3],
    /// The path of its dataset.
    pub path: String,
    /// Whether it was derived rather than copied.
    pub made: bool,
}

impl Inventory {
    /// An inventory of this version.
    pub fn new(role: Role, originals: Vec<Stamp>, channels: Vec<ChannelRecord>) -> Self {
        Self {
            version: VERSION,
            role,
            originals,
            channels,
        }
    }

    /// The inventory of a file, or why it cannot be understood: it is of another version, or
    /// damaged. `None` if there is none.
    pub fn from_file(file: &OpenFile) -> Option<Result<Self, String>> {
        let root = file.attributes("/");
        root.has(ATTRIBUTE)
            .then(|| Self::parse(&root.text(ATTRIBUTE).unwrap_or_default()))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let json: Value = serde_json::from_str(text)
            .map_err(|error| format!("its attribute {ATTRIBUTE} is not JSON ({error})"))?;
        let version = &json["version"];
        if *version != VERSION {
            return Err(format!(
                "its attribute {ATTRIBUTE} is of version {version}, and this voltile reads version {VERSION}"
            ));
        }
        serde_json::from_value(json)
            .map_err(|error| format!("its attribute {ATTRIBUTE} cannot be read ({error})"))
    }

    /// The inventory as JSON.
    pub fn to_text(&self) -> String {
        // Cannot fail: there are no maps and no non-finite numbers.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl ChannelRecord {
    /// The meaning of its values.
    pub fn kind(&self) -> Option<Kind> {
        [Kind::Image, Kind::Labels, Kind::Rgb]
            .into_iter()
            .find(|kind| kind.name() == self.kind)
    }

    /// The channel as layouts return it; `None` if its name or its kind is invalid.
    pub fn to_channel(&self) -> Option<FoundChannel> {
        let (derived, copied): (Vec<_>, Vec<_>) = self.levels.iter().partition(|level| level.made);
        let copied = copied.into_iter().map(|level| self.level(level)).collect();
        let mut channel = FoundChannel::new(Name::new(&self.name).ok()?, copied);
        channel.kind = self.kind()?;
        channel.pyramid_levels = derived.into_iter().map(|level| self.level(level)).collect();
        channel.missing = self
            .missing_values
            .iter()
            .filter_map(|text| Number::parse(text))
            .collect();
        let transforms = self
            .transforms
            .iter()
            .filter_map(|(time, rows)| Some((*time, Affine::new(*rows)?)));
        channel.transforms = Transforms::by_time(transforms);
        channel.range = self.range.as_ref().and_then(range);
        channel.facts = self.facts.clone();
        Some(channel)
    }

    /// A level as layouts return it.
    pub fn level(&self, record: &LevelRecord) -> FoundLevel {
        let path = record.path.clone();
        let paths = if self.missing.is_empty() {
            Paths::One(path)
        } else {
            let present = (0..self.times).map(|time| !self.missing.contains(&time));
            Paths::Frames(path, present.collect())
        };
        FoundLevel {
            factor: Some(record.factor.into()),
            paths,
            view: self.view(),
        }
    }

    /// How its datasets are interpreted, all of which have the axes t and c.
    fn view(&self) -> View {
        let mut fixed = Vec::new();
        if !self.series {
            fixed.push((AxisName::T, 0));
        }
        if self.kind() != Some(Kind::Rgb) {
            fixed.push((AxisName::C, 0));
        }
        let is_bool = self.dtype == VoxelType::Bool.name();
        View {
            fixed,
            reinterpret_as: is_bool.then_some(VoxelType::Bool),
            ..View::from_axes(Axes::from_known(AxisName::ALL))
        }
    }
}

/// A display range as text; non-integer limits have a decimal point or an exponent.
pub fn range_text(window: &Window) -> Option<[String; 2]> {
    match window {
        Window::AsStored => None,
        Window::Whole { lo, hi } => Some([lo.to_string(), hi.to_string()]),
        Window::Real { lo, hi } => Some([format!("{lo:?}"), format!("{hi:?}")]),
    }
}

/// Parses what [`range_text`] writes: `["0", "255"]` is in integers, `["0.0", "1.0"]` is not.
fn range([lo, hi]: &[String; 2]) -> Option<Window> {
    if let (Ok(lo), Ok(hi)) = (lo.parse(), hi.parse()) {
        return Some(Window::Whole { lo, hi });
    }
    Some(Window::Real {
        lo: lo.parse().ok()?,
        hi: hi.parse().ok()?,
    })
}

impl Paths {
    /// All paths as text, which is the same whenever the file is opened: `/raw`, or `times /t0/raw
    /// and others, 9 in all, DIGEST`.
    pub fn in_words(&self) -> String {
        match self {
            Paths::One(path) => path.clone(),
            Paths::Frames(path, present) => format!("{path} at {present:?}"),
            Paths::Times(paths) => {
                let paths = paths.iter().map(|path| path_or_dash(path.as_ref()));
                self.summary("times", paths)
            }
            Paths::Parts(parts) => self.summary("parts", parts.iter().map(Part::in_words)),
        }
    }

    /// The first path, and a digest of `all` paths as text.
    fn summary(&self, noun: &str, all: impl Iterator<Item = String>) -> String {
        let all: Vec<String> = all.collect();
        let first = self.first().unwrap_or("-");
        let digest = blake3::hash(all.join("\n").as_bytes()).to_hex();
        format!("{noun} {first} and others, {} in all, {digest}", all.len())
    }
}

impl Part {
    fn in_words(&self) -> String {
        format!("{} of {}", self.depth, path_or_dash(self.path.as_ref()))
    }
}

fn path_or_dash(path: Option<&String>) -> String {
    path.map_or("-", String::as_str).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_survive_a_round_trip() {
        for window in [
            Window::Whole {
                lo: -5,
                hi: i128::from(u64::MAX),
            },
            Window::Real {
                lo: 0.1,
                hi: 3.0e-200,
            },
        ] {
            assert_eq!(range_text(&window).as_ref().and_then(range), Some(window));
        }
        assert_eq!(range_text(&Window::AsStored), None);
    }

    #[test]
    fn texts_differ_if_views_or_paths_differ() {
        let view = View {
            fixed: vec![(AxisName::C, 1)],
            ..View::from_axes(Axes::new("czyx").unwrap())
        };
        assert_eq!(view.in_words(), "czyx c=1");
        let times = |second: Option<&str>| {
            Paths::Times(vec![Some("/a".to_owned()), second.map(str::to_owned)]).in_words()
        };
        assert_ne!(times(Some("/b")), times(None));
        let parts = |depth| {
            let gap = Part { path: None, depth };
            Paths::Parts(vec![
                Part {
                    path: Some("/a".to_owned()),
                    depth: 1,
                },
                gap,
            ])
            .in_words()
        };
        assert_ne!(times(None), parts(1));
        assert_ne!(parts(2), parts(1));
    }
}
