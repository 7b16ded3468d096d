//! Imaris 5.5: `/DataSet/ResolutionLevel r/TimePoint t/Channel c/Data`.
//!
//! Source: "Imaris 5.5 file format" by Bitplane, and the code of its writer library. `Data` is
//! padded to whole chunks; the actual extents are in the attributes `ImageSizeX`, `Y`, `Z` of the
//! channel's group. Attributes are arrays of single characters. Channel groups may be links to
//! other files: BigDataProcessor 2 writes one file per channel and time point, which can also be
//! served alone: then the groups of levels are in its root. Each level has half the size of the one
//! before, rounded down.
//!
//! Example: `/DataSet/ResolutionLevel 0/TimePoint 0/Channel 0/Data`, and the same in
//! `ResolutionLevel 1`, with sizes of 45 × 45 × 8 and 22 × 22 × 8, are the channel `c0` with one
//! time point and two levels, the second with the factor 2 × 2 × 1.

use std::collections::BTreeSet;
use std::str::FromStr;

use voltile_base::geometry::{Affine, Xyz};
use voltile_base::name::Name;
use voltile_base::paint::Window;
use voltile_base::timing::Timing;
use voltile_hdf5::volume::hdf5::{Attributes, OpenError, OpenFile};

use super::contents::Contents;
use super::{FoundChannel, FoundLevel, Paths, VoxelSize, hex_colour, numbered, range};

const LEVEL: &str = "ResolutionLevel ";
/// The dates of longer series are not read.
const MAX_DATES: u64 = 4096;

pub(super) fn recognise(contents: &Contents<'_>) -> Option<String> {
    let groups = ImarisGroups::read(contents);
    let (_, level) = groups.levels.first()?;
    let (_, time) = groups.times.first()?;
    let (_, channel) = groups.channels.first()?;
    Some(format!("it has {}", groups.data(level, time, channel)))
}

pub(super) fn channels(contents: &Contents<'_>) -> Result<Vec<FoundChannel>, OpenError> {
    let groups = ImarisGroups::read(contents);
    let names = groups.channels.iter();
    let channels = names.map(|(number, group)| groups.channel(*number, group));
    Ok(channels.collect())
}

/// The groups of a file, by number. In a file of one channel and time point, levels are in the
/// root, and the names of the other groups are empty.
struct ImarisGroups<'a> {
    file: &'a OpenFile,
    /// The path of the group of the levels.
    root: &'static str,
    levels: Vec<(u64, String)>,
    times: Vec<(u64, String)>,
    channels: BTreeSet<(u64, String)>,
}

impl<'a> ImarisGroups<'a> {
    fn read(contents: &Contents<'a>) -> Self {
        let file = contents.file;
        let levels = numbered(contents.root(), LEVEL);
        if levels
            .first()
            .is_some_and(|(_, level)| file.has(&format!("/{level}/Data")))
        {
            let unnamed = (0, String::new());
            return Self {
                file,
                root: "",
                levels,
                times: vec![unnamed.clone()],
                channels: BTreeSet::from([unnamed]),
            };
        }
        let root = "/DataSet";
        let levels = numbered(&file.names_in(root), LEVEL);
        let finest = levels
            .first()
            .map_or_else(String::new, |(_, level)| format!("{root}/{level}"));
        let times = numbered(&file.names_in(&finest), "TimePoint ");
        // The first three time points are looked at, because a channel may be missing at one.
        let channels = times.iter().take(3).flat_map(|(_, time)| {
            numbered(&file.names_in(&format!("{finest}/{time}")), "Channel ")
        });
        let channels: BTreeSet<_> = channels.collect();
        Self {
            file,
            root,
            levels,
            times,
            channels,
        }
    }

    /// The path of a channel's group.
    fn group(&self, level: &str, time: &str, channel: &str) -> String {
        let parts = [level, time, channel].into_iter();
        parts
            .filter(|part| !part.is_empty())
            .fold(self.root.to_owned(), |path, part| format!("{path}/{part}"))
    }

    fn channel(&self, number: u64, group: &str) -> FoundChannel {
        let finest = self.levels.first().map_or("", |(_, finest)| finest);
        let present: Vec<&(u64, String)> = self
            .times
            .iter()
            .filter(|(_, time)| self.file.has(&self.data(finest, time, group)))
            .collect();
        let full = self.size(finest, group, &present);
        let mut levels = Vec::new();
        for (_, level) in &self.levels {
            levels.extend(self.level(level, group, &present, full));
        }
        // Levels that state the image size are without padding, others with it: one channel cannot
        // have both.
        levels.retain(|level| level.view.size.is_some() == full.is_some());
        if levels.is_empty() {
            // Opening what would be the finest level gives the error message.
            let first = self.times.first().map_or("", |(_, time)| time);
            let paths = Paths::One(self.data(finest, first, group));
            levels.push(FoundLevel::zyx(None, paths));
        }
        let voxel = full
            .and_then(|size| voxel_size(self.file, size))
            .or_else(|| self.element_size(&levels));
        let mut channel =
            FoundChannel::new(Name::nearest(&format!("c{number}")), levels).with_voxel(voxel);
        channel.transforms = full.and_then(|size| transform(self.file, size)).into();
        channel.facts.timing = self.timing();
        add_info(self.file, group, &mut channel);
        channel
    }

    /// The dates of the time points: the attribute `TimePoint1` is the date of the group
    /// `TimePoint 0`.
    fn timing(&self) -> Option<Timing> {
        let (last, _) = *self.times.last()?;
        if last == 0 || last >= MAX_DATES {
            return None;
        }
        let info = self.file.attributes("/DataSetInfo/TimeInfo");
        let texts = (1..=last + 1).map(|number| info.text(&format!("TimePoint{number}")));
        let dates: Option<Vec<String>> = texts.collect();
        Timing::of_dates(&dates?)
    }

    /// A level; `None` if the channel lacks it. At each time point, a channel has all levels or
    /// none: `present` are the time points that have them, `full` is the size of the finest level.
    fn level(
        &self,
        level: &str,
        group: &str,
        present: &[&(u64, String)],
        full: Option<Xyz<u64>>,
    ) -> Option<FoundLevel> {
        let paths = self.paths(level, group, present);
        paths.first().filter(|first| self.file.has(first))?;
        let size = self.size(level, group, present);
        let factor = match (full, size) {
            (Some(full), Some(size)) => Some(full.zip(size, nearest_power)),
            _ => None,
        };
        let mut found_level = FoundLevel::zyx(factor, paths);
        found_level.view.size = size;
        Some(found_level)
    }

    fn data(&self, level: &str, time: &str, channel: &str) -> String {
        format!("{}/Data", self.group(level, time, channel))
    }

    /// The datasets of a level: present at the same time points as the finest.
    fn paths(&self, level: &str, channel: &str, present: &[&(u64, String)]) -> Paths {
        if self.root.is_empty() {
            return Paths::One(self.data(level, "", channel));
        }
        let last = self.times.last();
        let count = last.map_or(0, |(last, _)| last.saturating_add(1));
        let paths = present
            .iter()
            .map(|(number, time)| (*number, self.data(level, time, channel)));
        Paths::times(count, paths)
    }

    /// The size of the image at a level, without padding, as a group of the level states it; for
    /// the finest level, else as `DataSetInfo` states it.
    fn size(&self, level: &str, channel: &str, present: &[&(u64, String)]) -> Option<Xyz<u64>> {
        let stated = present.iter().find_map(|(_, time)| {
            let group = self.file.attributes(&self.group(level, time, channel));
            size(&group, "ImageSize")
        });
        let (_, finest) = self.levels.first()?;
        if stated.is_some() || level != finest {
            return stated;
        }
        size(&self.file.attributes("/DataSetInfo/Image"), "")
    }

    /// The voxel size by an attribute that BigDataProcessor 2 writes, in x, y, z order.
    fn element_size(&self, levels: &[FoundLevel]) -> Option<VoxelSize> {
        let finest = levels.first()?.paths.first()?;
        let size = self.file.attributes(finest).numbers("element_size_um")?;
        let voxel = VoxelSize::xyz(&size, Some("µm"))?;
        Some(voxel.found_in(format!("{finest}: element_size_um")))
    }
}

/// Adds what `DataSetInfo` says about the channel: its name, range and colour.
fn add_info(file: &OpenFile, group: &str, channel: &mut FoundChannel) {
    if group.is_empty() {
        return;
    }
    let info = file.attributes(&format!("/DataSetInfo/{group}"));
    let label = info.text("Name").map(|label| label.trim().to_owned());
    channel.facts.label = label.filter(|label| !label.is_empty());
    let range = info.text("ColorRange");
    channel.range = range.and_then(|range| display_range(&range));
    let mode = info.text("ColorMode");
    if mode.is_none_or(|mode| mode == "BaseColor") {
        let colour = info.text("Color");
        channel.facts.colour = colour.and_then(|colour| colour_code(&colour));
    }
}

/// The extents in the attributes `<prefix>X`, `<prefix>Y` and `<prefix>Z`.
fn size(attributes: &Attributes, prefix: &str) -> Option<Xyz<u64>> {
    let names = ["X", "Y", "Z"].map(|axis| format!("{prefix}{axis}"));
    parse_all(attributes, names).filter(|size: &Xyz<u64>| size.volume() > 0)
}

/// The numbers in the attributes of these names, for x, y and z. Imaris writes numbers as text.
fn parse_all<T: FromStr>(attributes: &Attributes, names: [String; 3]) -> Option<Xyz<T>> {
    let [x, y, z] = names.map(|name| attributes.text(&name)?.trim().parse().ok());
    Some(Xyz::new(x?, y?, z?))
}

/// The power of two nearest to the ratio of sizes, since sizes are rounded down at each level: 2
/// for 45 and 22.
fn nearest_power(full: u64, size: u64) -> u64 {
    let exponent = (full as f64 / size as f64).log2().round().clamp(0.0, 62.0);
    1 << exponent as u32
}

/// Parses `ColorRange`: "0.000 222.000" is from 0 to 222.
fn display_range(text: &str) -> Option<Window> {
    let mut numbers = text.split_whitespace().map(str::parse::<f64>);
    range(numbers.next()?.ok()?, numbers.next()?.ok()?)
}

/// Parses `Color`, red, green and blue from 0 to 1: "1.000 0.500 0.000" is `#ff8000`.
fn colour_code(text: &str) -> Option<String> {
    let components: Result<Vec<f64>, _> = text.split_whitespace().map(str::parse).collect();
    hex_colour(&components.ok()?)
}

/// The voxel size: the physical extents of the image divided by its extents in voxels; without
/// physical extents, the microscope's spacing.
fn voxel_size(file: &OpenFile, size: Xyz<u64>) -> Option<VoxelSize> {
    let image = file.attributes("/DataSetInfo/Image");
    let unit = image.text("Unit");
    if let Some((_, edges)) = corner_and_voxel(&image, size)
        && let Some(voxel) = VoxelSize::new(edges, unit.as_deref())
    {
        return Some(voxel.found_in("/DataSetInfo/Image: ExtMin, ExtMax"));
    }
    let names = ["Sample", "Line", "Plane"].map(|name| format!("RecordingEntry{name}Spacing"));
    let voxel = VoxelSize::new(parse_all(&image, names)?, unit.as_deref())?;
    Some(voxel.found_in("/DataSetInfo/Image: RecordingEntry…Spacing"))
}

/// Where the image lies in the microscope's space; `None` if its corner is at 0, which says
/// nothing.
fn transform(file: &OpenFile, size: Xyz<u64>) -> Option<Affine> {
    let (corner, voxel) = corner_and_voxel(&file.attributes("/DataSetInfo/Image"), size)?;
    if corner == Xyz::all(0.0) {
        return None;
    }
    // In voxels: the centre of the first voxel lies half a voxel from its corner.
    let centre = corner.zip(voxel, |corner, voxel| corner / voxel + 0.5);
    // Checked again, because the product may be too large.
    Affine::new(Affine::scaling(voxel).beginning_at(centre).rows())
}

/// The position of the corner of the first voxel, and the size of a voxel, in the file's unit.
fn corner_and_voxel(image: &Attributes, size: Xyz<u64>) -> Option<(Xyz<f64>, Xyz<f64>)> {
    let least = corner(image, "Min")?;
    let most = corner(image, "Max")?;
    let extent = most.zip(least, |most, least| most - least);
    Some((
        least,
        extent.zip(size, |extent, count| extent / count as f64),
    ))
}

/// `ExtMin` or `ExtMax` along x, y and z; `end` is `Min` or `Max`.
fn corner(image: &Attributes, end: &str) -> Option<Xyz<f64>> {
    parse_all(image, [0, 1, 2].map(|axis| format!("Ext{end}{axis}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_and_ranges_are_text() {
        assert_eq!(colour_code("1.000 0.500 0.000").as_deref(), Some("#ff8000"));
        assert_eq!(colour_code("1.0 0.5"), None);
        assert_eq!(
            display_range("0.000 222.000"),
            Some(Window::Whole { lo: 0, hi: 222 })
        );
        assert_eq!(
            display_range("180.293 238.000"),
            Some(Window::Real {
                lo: 180.293,
                hi: 238.0
            })
        );
        assert_eq!(display_range("a b"), None);
    }

    #[test]
    fn factors_are_powers_of_two_however_sizes_were_rounded() {
        assert_eq!(
            (
                nearest_power(45, 22),
                nearest_power(181, 90),
                nearest_power(8, 8)
            ),
            (2, 2, 1)
        );
    }
}
