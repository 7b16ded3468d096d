//! Chimera's maps (`.cmap`, `.hdf`): `/Chimera/<image>/data_zyx`, one group for each image.
//!
//! Source: UCSF ChimeraX (`map_data/cmap`) and `cmapfile`, whose groups are `/map00000`, with
//! `data00000`, …. The group's attributes are `name`, `step` and `origin` (x, y, z), `color`, and
//! for series `time` and `channel`. All datasets of a group show the same image: in chunks of other
//! shapes, or as a coarser level whose attribute `subsample_spacing` is its factor along x, y and
//! z. `cmapfile` leaves out `time` and `channel` where they are 0. Five or more images of one size
//! without these attributes are times. The unit is not stated.

use std::collections::BTreeMap;

use voltile_base::geometry::Xyz;
use voltile_base::name::{Name, natural};
use voltile_hdf5::volume::hdf5::{Attributes, OpenError, OpenFile, View};

use super::contents::{About, Candidate, Contents};
use super::marks::Marks;
use super::names::names;
use super::{
    FoundChannel, FoundLevel, Layout, Paths, VoxelSize, group_of, guess, last_of, number_after,
};

pub(super) const NAME: &str = "Chimera map";
/// Attributes of a group that no other program writes together with `step`.
const OWN: [&str; 2] = ["chimera_map_version", "chimera_version"];

/// Fewer images of one size are channels.
const MIN_SERIES: usize = 5;

pub(super) struct Chimera;

/// The datasets of a group: levels of one image, finest first.
struct Image<'a> {
    group: &'a str,
    levels: Vec<(Xyz<u64>, &'a Candidate)>,
    time: Option<u64>,
    channel: Option<u64>,
}

impl Layout for Chimera {
    fn marks(&self, about: &About<'_>) -> Option<Marks> {
        let group = about
            .file
            .attributes(about.group())
            .filter(|_| about.rank() == 3)?;
        let step = group.numbers("step").filter(|step| step.len() == 3);
        // Many programs write a `step`; `cmapfile` is known by its names.
        let is_named = number_after(last_of(about.group()), "map").is_some()
            && about.last().starts_with("data");
        let is_own = OWN.iter().any(|name| group.has(name))
            || about.path.starts_with("/Chimera/")
            || is_named;
        step.as_ref().filter(|_| is_own)?;
        let origin = match group.numbers("origin").as_deref() {
            Some([x, y, z]) => Some(Xyz::new(*x, *y, *z)),
            _ => None,
        };
        Some(Marks {
            named_by: Some(about.group().to_owned()),
            label: group.text("name").filter(|name| !name.trim().is_empty()),
            axes: Some(View::zyx().axes),
            voxel: step.and_then(|step| VoxelSize::xyz(&step, None)),
            origin,
            factor: about
                .attributes
                .numbers("subsample_spacing")
                .and_then(|spacing| factor(&spacing)),
            ..Marks::because(format!("{} has the attribute step", about.group()))
        })
    }

    fn channels(&self, contents: &Contents<'_>) -> Result<Option<Vec<FoundChannel>>, OpenError> {
        let mut images = images(contents)?;
        if is_unmarked_series(&images) {
            (0..)
                .zip(&mut images)
                .for_each(|(time, image)| image.time = Some(time));
        }
        let is_series = images.iter().any(|image| image.time.is_some());
        let mut channels = if is_series {
            over_time(&images)
        } else {
            one_by_one(&images)
        };
        channels
            .iter_mut()
            .for_each(|channel| channel.colour = colour(contents.file, channel));
        Ok(Some(channels))
    }
}

fn factor(spacing: &[f64]) -> Option<Xyz<u64>> {
    let whole = |factor: f64| (factor >= 1.0 && factor.fract() == 0.0).then_some(factor as u64);
    let [x, y, z] = *spacing else { return None };
    Some(Xyz::new(whole(x)?, whole(y)?, whole(z)?))
}

/// The images of a file in the order of their groups.
fn images<'a>(contents: &'a Contents<'_>) -> Result<Vec<Image<'a>>, OpenError> {
    let mut groups: BTreeMap<&str, BTreeMap<u64, (Xyz<u64>, &Candidate)>> = BTreeMap::new();
    for volume in contents
        .volumes()?
        .iter()
        .filter(|volume| volume.marked_by(NAME).is_some())
    {
        let factor = volume.marks.factor.unwrap_or(Xyz::all(1));
        // Of several datasets with the same voxels, the one whose chunks suit the plane xy best: it
        // is named `…zyx`.
        let levels = groups.entry(group_of(&volume.path)).or_default();
        let is_named = |volume: &Candidate| last_of(&volume.path).contains("zyx");
        let (_, best) = levels.entry(factor.volume()).or_insert((factor, volume));
        if is_named(volume) && !is_named(best) {
            *best = volume;
        }
    }
    let image = |(group, levels): (&'a str, BTreeMap<u64, (Xyz<u64>, &'a Candidate)>)| {
        let own = contents.file.attributes(group);
        let number = |name| {
            own.as_ref()
                .and_then(|own: &Attributes| own.numbers(name)?.first().copied())
        };
        let number = |name| {
            number(name)
                .filter(|number| *number >= 0.0)
                .map(|number| number as u64)
        };
        let (time, channel) = (number("time"), number("channel"));
        Image {
            group,
            levels: levels.into_values().collect(),
            time,
            channel,
        }
    };
    let mut images: Vec<Image<'a>> = groups.into_iter().map(image).collect();
    images.sort_by(|a, b| natural(a.group, b.group));
    Ok(images)
}

/// Whether images are a series although nothing says so: ChimeraX takes several of one size for
/// that.
fn is_unmarked_series(images: &[Image<'_>]) -> bool {
    let size = |image: &Image<'_>| image.levels.first().map(|(_, finest)| finest.shape.clone());
    let is_marked = images
        .iter()
        .any(|image| image.time.is_some() || image.channel.is_some());
    !is_marked
        && images.len() >= MIN_SERIES
        && images
            .windows(2)
            .all(|pair| size(&pair[0]) == size(&pair[1]))
}

/// A channel for each image.
fn one_by_one(images: &[Image<'_>]) -> Vec<FoundChannel> {
    let groups: Vec<&str> = images.iter().map(|image| image.group).collect();
    images
        .iter()
        .zip(names(&groups))
        .filter_map(|(image, name)| alone(image, name))
        .collect()
}

fn alone(image: &Image<'_>, name: Name) -> Option<FoundChannel> {
    let level = |(factor, volume): &(Xyz<u64>, &Candidate)| FoundLevel {
        factor: Some(*factor),
        paths: Paths::One(volume.path.clone()),
        view: View::zyx(),
    };
    let (_, finest) = image.levels.first()?;
    Some(guess::described(
        name,
        finest,
        image.levels.iter().map(level).collect(),
    ))
}

/// The channels of a series.
fn over_time(images: &[Image<'_>]) -> Vec<FoundChannel> {
    let has_channels = images.iter().any(|image| image.channel.is_some());
    let mut series: BTreeMap<u64, Vec<&Image<'_>>> = BTreeMap::new();
    images.iter().for_each(|image| {
        series
            .entry(image.channel.unwrap_or(0))
            .or_default()
            .push(image);
    });
    let channel = |(number, images): (u64, Vec<&Image<'_>>)| {
        let first = images.iter().min_by_key(|image| image.time())?;
        let name = if has_channels {
            format!("channel{number}")
        } else {
            last_of(first.group).to_owned()
        };
        let (_, finest) = first.levels.first()?;
        let level = |(factor, _): &(Xyz<u64>, &Candidate)| FoundLevel {
            factor: Some(*factor),
            paths: paths(&images, *factor, first.time()),
            view: View::zyx(),
        };
        let levels = first.levels.iter().map(level).collect();
        Some(guess::described(Name::nearest(&name), finest, levels))
    };
    series.into_iter().filter_map(channel).collect()
}

/// The datasets of a level, from the first time point on.
fn paths(images: &[&Image<'_>], factor: Xyz<u64>, start: u64) -> Paths {
    let path = |image: &&Image<'_>| {
        let (_, volume) = image.levels.iter().find(|(other, _)| *other == factor)?;
        Some((image.time() - start, volume.path.clone()))
    };
    Paths::times(0, images.iter().filter_map(path))
}

impl Image<'_> {
    /// Its number in a series.
    fn time(&self) -> u64 {
        self.time.unwrap_or(0)
    }
}

/// The colour of a channel's first image: red, green, blue from 0 to 1, and opacity.
fn colour(file: &OpenFile, channel: &FoundChannel) -> Option<String> {
    let path = channel.levels.first()?.paths.first()?;
    let colour = file.attributes(group_of(path))?.numbers("color")?;
    let byte = |component: &f64| (component.clamp(0.0, 1.0) * 255.0).round() as u8;
    let [red, green, blue] = [colour.first()?, colour.get(1)?, colour.get(2)?].map(byte);
    Some(format!("#{red:02x}{green:02x}{blue:02x}"))
}
