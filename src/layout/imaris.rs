//! Imaris 5.5: `/DataSet/ResolutionLevel r/TimePoint t/Channel c/Data`.
//!
//! Source: "Imaris 5.5 file format" by Bitplane, and the code of its writer library. `Data` is padded to whole chunks; the real extents
//! are in the attributes `ImageSizeX`, `Y`, `Z` of the channel's group. Attributes are arrays of single characters.
//! Channel groups may be links to files of their own. Sizes of levels are halved and rounded down.

use super::{FoundChannel, FoundLevel, Layout, Paths, numbered};
use crate::geometry::Xyz;
use crate::name::Name;
use crate::paint::{Kind, Window};
use crate::volume::hdf5::{Attributes, OpenError, OpenFile, View};

const DATASET: &str = "/DataSet";

/// The layout.
pub(super) struct Imaris;

impl Layout for Imaris {
    fn name(&self) -> &'static str {
        "Imaris"
    }

    fn recognise(&self, file: &OpenFile) -> Option<String> {
        let path = format!("{DATASET}/ResolutionLevel 0/TimePoint 0/Channel 0/Data");
        file.has(&path).then(|| format!("it has {path}"))
    }

    fn channels(&self, file: &OpenFile) -> Result<Vec<FoundChannel>, OpenError> {
        let levels = numbered(&file.names_in(DATASET), "ResolutionLevel ");
        let times = numbered(&file.names_in(&format!("{DATASET}/ResolutionLevel 0")), "TimePoint ");
        let channels =
            numbered(&file.names_in(&format!("{DATASET}/ResolutionLevel 0/TimePoint 0")), "Channel ");
        Ok(channels.iter().map(|(number, group)| channel(file, *number, group, &levels, &times)).collect())
    }
}

fn channel(
    file: &OpenFile,
    number: u64,
    group: &str,
    levels: &[(u64, String)],
    times: &[(u64, String)],
) -> FoundChannel {
    let mut found: Vec<FoundLevel> = Vec::new();
    let mut full = None;
    for (_, level) in levels {
        let at = |time: &str| format!("{DATASET}/{level}/{time}/{group}");
        let paths: Vec<Option<String>> = times
            .iter()
            .map(|(_, time)| Some(format!("{}/Data", at(time))).filter(|path| file.has(path)))
            .collect();
        let size = file.attributes(&at("TimePoint 0")).and_then(|attributes| image_size(&attributes));
        full = full.or(size);
        let factor = full.zip(size).map(|(full, size)| full.zip(size, nearest_power));
        let view = View { size, ..View::zyx() };
        if paths.iter().any(Option::is_some) {
            found.push(FoundLevel { factor, paths: Paths::Times(paths), view });
        }
    }
    let about = file.attributes(&format!("/DataSetInfo/{group}"));
    let text = |name| about.as_ref().and_then(|attributes| attributes.text(name));
    FoundChannel {
        name: Name::nearest(&format!("c{number}")),
        label: text("Name").map(|label| label.trim().to_owned()).filter(|label| !label.is_empty()),
        kind: Kind::Image,
        range: text("ColorRange").and_then(|range| display_range(&range)),
        voxel_size: full.and_then(|size| voxel_size(file, size)),
        levels: found,
    }
}

fn image_size(attributes: &Attributes) -> Option<Xyz<u64>> {
    let size = |axis| attributes.text(&format!("ImageSize{axis}"))?.trim().parse().ok();
    Some(Xyz::new(size("X")?, size("Y")?, size("Z")?)).filter(|size| size.volume() > 0)
}

/// Sizes are rounded down on the way, so that a factor is the power of two nearest to their ratio.
fn nearest_power(full: u64, size: u64) -> u64 {
    let exponent = (full as f64 / size as f64).log2().round().clamp(0.0, 62.0);
    1 << exponent as u32
}

/// `ColorRange`: "lowest highest", as decimal text.
fn display_range(text: &str) -> Option<Window> {
    let mut numbers = text.split_whitespace().map(str::parse::<f64>);
    let (lo, hi) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    let is_whole = |value: f64| value.fract() == 0.0 && value.abs() < (1u64 << 53) as f64;
    match (lo.is_finite() && hi.is_finite(), is_whole(lo) && is_whole(hi)) {
        (true, true) => Some(Window::Whole { lo: lo as i128, hi: hi as i128 }),
        (true, false) => Some(Window::Real { lo, hi }),
        _ => None,
    }
}

/// The extents of the image in space, divided by its extents in voxels.
fn voxel_size(file: &OpenFile, size: Xyz<u64>) -> Option<Xyz<f64>> {
    let image = file.attributes("/DataSetInfo/Image")?;
    let number = |name: String| image.text(&name)?.trim().parse::<f64>().ok();
    let extent = |axis: usize| Some(number(format!("ExtMax{axis}"))? - number(format!("ExtMin{axis}"))?);
    let voxel = Xyz::new(extent(0)?, extent(1)?, extent(2)?).zip(size, |extent, n| extent / n as f64);
    let usable = |edge: f64| edge.is_finite() && edge > 0.0;
    (usable(voxel.x) && usable(voxel.y) && usable(voxel.z)).then_some(voxel)
}
