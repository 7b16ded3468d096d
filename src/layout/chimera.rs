//! Chimera's maps (`.cmap`, `.hdf`): `/Chimera/<image>/data_zyx`, one group for each image.
//!
//! Source: UCSF ChimeraX (`map_data/cmap`) and `cmapfile`, whose groups are `/map00000`, with
//! `data00000`, …. The group's attributes are `name`, `step` and `origin` (x, y, z), `color`, and
//! for series `time` and `channel`. All datasets of a group show the same image: in chunks of other
//! shapes, or as a coarser level whose attribute `subsample_spacing` is its factor along x, y and
//! z. `cmapfile` leaves out `time` and `channel` where they are 0. Five or more images of one size
//! without `time` and `channel` are time points. The unit is not stated.
//!
//! Example: `/Chimera/image1` has the `step` 2, 2, 5 and holds `data_zyx`, and `data_zyx_2` with
//! the `subsample_spacing` 2, 2, 1. This is the channel `image1` with the axes zyx, voxels of 2 × 2
//! × 5, and two levels.

use std::collections::BTreeMap;

use voltile_base::geometry::Xyz;
use voltile_base::name::{Name, natural};
use voltile_hdf5::volume::hdf5::{Attributes, OpenError, OpenFile, View};

use super::channel::xyz;
use super::contents::{About, Candidate, Contents};
use super::marks::Marks;
use super::names::names;
use super::{
    FoundChannel, FoundLevel, Paths, VoxelSize, group_of, guess, hex_colour, last_of, number_after,
    whole_factor,
};

pub(super) const NAME: &str = "Chimera map";
/// Attributes of a group that only Chimera writes.
const OWN: [&str; 2] = ["chimera_map_version", "chimera_version"];

/// At least this many images of one size are taken for time points, fewer for channels.
const MIN_SERIES: usize = 5;

/// An image: a group whose datasets are its levels.
struct MapImage<'a> {
    group: &'a str,
    /// The factor and the dataset of each level, finest first; at least one.
    levels: Vec<(Xyz<u64>, &'a Candidate)>,
    time: Option<u64>,
    channel: Option<u64>,
}

pub(super) fn marks(about: &About<'_>) -> Option<Marks> {
    let group = about.group_attributes();
    let step = group
        .numbers("step")
        .filter(|step| step.len() == 3 && about.rank() == 3)?;
    // Many programs write a `step`; `cmapfile` is known by its names.
    let is_named =
        number_after(last_of(about.group()), "map").is_some() && about.last().starts_with("data");
    let is_own =
        OWN.iter().any(|name| group.has(name)) || about.path.starts_with("/Chimera/") || is_named;
    is_own.then(|| Marks {
        named_by: Some(about.group().to_owned()),
        label: group.text("name"),
        axes: Some(View::zyx().axes),
        voxel: VoxelSize::xyz(&step, None),
        origin: group.numbers("origin").and_then(|origin| xyz(&origin)),
        factor: about
            .attributes
            .numbers("subsample_spacing")
            .and_then(|spacing| whole_factor(&spacing)),
        ..Marks::because(format!("{} has the attribute step", about.group()))
    })
}

pub(super) fn channels(contents: &Contents<'_>) -> Result<Vec<FoundChannel>, OpenError> {
    let mut images = images(contents)?;
    if is_unmarked_series(&images) {
        for (time, image) in (0..).zip(&mut images) {
            image.time = Some(time);
        }
    }
    let is_series = images.iter().any(|image| image.time.is_some());
    let mut channels = if is_series {
        over_time(&images)
    } else {
        one_by_one(&images)
    };
    for channel in &mut channels {
        channel.facts.colour = colour(contents.file, channel);
    }
    Ok(channels)
}

/// The images of a file in the order of their groups.
fn images<'a>(contents: &'a Contents<'_>) -> Result<Vec<MapImage<'a>>, OpenError> {
    // The levels of each group by the product of their factors, which is ascending from the finest.
    let mut groups: BTreeMap<&str, BTreeMap<u64, (Xyz<u64>, &Candidate)>> = BTreeMap::new();
    for volume in contents
        .search()?
        .volumes
        .iter()
        .filter(|volume| volume.marked_by(NAME).is_some())
    {
        let factor = volume.marks.factor.unwrap_or(Xyz::all(1));
        // Several datasets may hold the same voxels. The one named `…zyx` is taken, because its
        // chunks suit the plane xy best.
        let levels = groups.entry(group_of(&volume.path)).or_default();
        let (_, best) = levels.entry(factor.volume()).or_insert((factor, volume));
        if is_named_zyx(volume) && !is_named_zyx(best) {
            *best = volume;
        }
    }
    let mut images = Vec::with_capacity(groups.len());
    for (group, levels) in groups {
        let attributes = contents.file.attributes(group);
        images.push(MapImage {
            group,
            levels: levels.into_values().collect(),
            time: number_along(&attributes, "time"),
            channel: number_along(&attributes, "channel"),
        });
    }
    images.sort_by(|a, b| natural(a.group, b.group));
    Ok(images)
}

fn is_named_zyx(volume: &Candidate) -> bool {
    last_of(&volume.path).contains("zyx")
}

/// The number of an image along `time` or `channel`.
fn number_along(attributes: &Attributes, name: &str) -> Option<u64> {
    attributes
        .number(name)
        .filter(|number| *number >= 0.0)
        .map(|number| number as u64)
}

/// Whether images are a series although nothing says so: ChimeraX takes several of one size for a
/// series.
fn is_unmarked_series(images: &[MapImage<'_>]) -> bool {
    let is_marked = images
        .iter()
        .any(|image| image.time.is_some() || image.channel.is_some());
    !is_marked
        && images.len() >= MIN_SERIES
        && images
            .windows(2)
            .all(|pair| pair[0].finest().shape == pair[1].finest().shape)
}

/// A channel for each image, named after its group.
fn one_by_one(images: &[MapImage<'_>]) -> Vec<FoundChannel> {
    let groups: Vec<&str> = images.iter().map(|image| image.group).collect();
    let mut channels = Vec::with_capacity(images.len());
    for (image, name) in images.iter().zip(names(&groups)) {
        let levels = image.levels.iter().map(|(factor, volume)| {
            FoundLevel::zyx(Some(*factor), Paths::One(volume.path.clone()))
        });
        channels.push(guess::describe(name, image.finest(), levels.collect()));
    }
    channels
}

/// The channels of a series: an image for each channel and time point.
fn over_time(images: &[MapImage<'_>]) -> Vec<FoundChannel> {
    let has_channels = images.iter().any(|image| image.channel.is_some());
    let mut by_channel: BTreeMap<u64, Vec<&MapImage<'_>>> = BTreeMap::new();
    for image in images {
        let channel = image.channel.unwrap_or(0);
        by_channel.entry(channel).or_default().push(image);
    }
    let channels = by_channel.into_iter().filter_map(|(number, series)| {
        let first = series.iter().min_by_key(|image| image.time())?;
        let name = if has_channels {
            Name::nearest(&format!("channel{number}"))
        } else {
            Name::nearest(last_of(first.group))
        };
        let levels = first.levels.iter().map(|(factor, _)| {
            FoundLevel::zyx(Some(*factor), paths(&series, *factor, first.time()))
        });
        Some(guess::describe(name, first.finest(), levels.collect()))
    });
    channels.collect()
}

/// The datasets of the level with this factor, for each time point from `start` on.
fn paths(series: &[&MapImage<'_>], factor: Xyz<u64>, start: u64) -> Paths {
    let paths = series.iter().filter_map(|image| {
        let mut levels = image.levels.iter();
        let (_, volume) = levels.find(|(level_factor, _)| *level_factor == factor)?;
        Some((image.time() - start, volume.path.clone()))
    });
    Paths::times(0, paths)
}

impl MapImage<'_> {
    fn finest(&self) -> &Candidate {
        self.levels[0].1
    }

    /// Its number in a series.
    fn time(&self) -> u64 {
        self.time.unwrap_or(0)
    }
}

/// The colour of a channel's first image: red, green, blue from 0 to 1, and opacity.
fn colour(file: &OpenFile, channel: &FoundChannel) -> Option<String> {
    let path = channel.levels.first()?.paths.first()?;
    let colour = file.attributes(group_of(path)).numbers("color")?;
    hex_colour(colour.get(..3)?)
}
