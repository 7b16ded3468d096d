//! Plain files: every dataset that looks like a volume is a channel, or a level of one.
//!
//! Marks of datasets are used first (see [`super::marks`]); what they don't say is guessed (see
//! [`super::guess`]). A voxel size that only some of several volumes with the same extents state
//! applies to all of them, unless they contradict each other. Layouts that only mark datasets find
//! their channels through this module.

use std::collections::HashMap;
use std::f64::consts::PI;

use voltile_base::axes::{Axes, AxisName};
use voltile_base::geometry::Xyz;
use voltile_base::name::Name;
use voltile_base::notice::Notice;
use voltile_base::paint::{Kind, Window};
use voltile_hdf5::volume::ComplexPart;
use voltile_hdf5::volume::hdf5::{OpenError, OpenFile, View};

use super::contents::{About, Candidate, Contents};
use super::detector::{self, DetectorStacks};
use super::guess::describe;
use super::marks::Marks;
use super::names::{names, number_duplicates};
use super::pyramid::{Pyramid, pyramids};
use super::{FoundChannel, FoundLevel, Paths, Rank, VoxelSize};
use crate::config::ChannelSettings;

/// Datasets of programs that always use the same axes and do not write them down: the end of the
/// path, the axes and the kind. These are CellH5's pictures, and the objects in them.
const KNOWN: [(&str, &str, Kind); 2] = [
    ("/image/channel", "ctzyx", Kind::Image),
    ("/image/region", "ctzyx", Kind::Labels),
];

pub(super) fn marks(about: &About<'_>) -> Option<Marks> {
    let (end, axes, kind) = KNOWN
        .into_iter()
        .find(|(end, axes, _)| about.path.ends_with(end) && about.rank() == axes.len())?;
    let kind = Some(kind).filter(|_| about.is_integer());
    Some(Marks {
        axes: Axes::new(axes).ok(),
        labels_because: (kind == Some(Kind::Labels)).then(|| format!("its path ends in {end}")),
        kind,
        ..Marks::default()
    })
}

/// The channels of all volumes: `raw` and `seg` for the datasets `/raw/s0`, `/raw/s1` and `/seg`.
/// Datasets that are levels of one volume form one channel, and so do the parts of one detector.
/// Volumes that are not of the layout lie beside the data.
pub(super) fn channels(
    contents: &Contents<'_>,
    is_of_layout: impl Fn(&Candidate) -> bool,
) -> Result<Vec<FoundChannel>, OpenError> {
    let search = contents.search()?;
    let volumes = search.volumes.iter();
    let (mut own, foreign): (Vec<_>, Vec<_>) = volumes.partition(|volume| is_of_layout(volume));
    let DetectorStacks { stacks, taken } =
        detector::stacks(contents.file, &own, &search.unfollowed);
    own.retain(|volume| !taken.contains(volume.path.as_str()));
    let (data, mut beside): (Vec<_>, Vec<_>) = pyramids(&own)
        .into_iter()
        .partition(|pyramid| pyramid.finest().rank() < Rank::Table);
    beside.extend(pyramids(&foreign));
    let mut data_paths: Vec<&str> = stacks.iter().map(|stack| stack.named_by.as_str()).collect();
    data_paths.extend(data.iter().map(|pyramid| pyramid.named_by));
    let beside_paths: Vec<&str> = beside.iter().map(|pyramid| pyramid.named_by).collect();
    // In the order in which the channels are made.
    let mut names_left = names_of(&data_paths, &beside_paths).into_iter();
    let pyramids: Vec<Pyramid<'_>> = data.into_iter().chain(beside).collect();
    let shared = shared_voxels(&pyramids);
    let mut channels = Vec::new();
    for (stack, name) in stacks.into_iter().zip(&mut names_left) {
        channels.push(stack.channel(name));
    }
    for (pyramid, name) in pyramids.iter().zip(names_left) {
        let finest = pyramid.finest();
        let mut channel = channel(pyramid, name);
        if !is_of_layout(finest) {
            channel.rank = Rank::Beside;
        }
        if channel.facts.voxel_size.is_none() {
            channel = channel.with_voxel(shared.get(&finest.size()).cloned().flatten());
        }
        for component in one_for_each_component(channel, finest.components()) {
            channels.extend(one_for_each_part(component));
        }
    }
    // `a_0` may be the first component of `a`, or a dataset of that name.
    let names_found = channels
        .iter()
        .map(|channel| channel.name.clone())
        .collect();
    for (channel, name) in channels.iter_mut().zip(number_duplicates(names_found)) {
        channel.name = name;
    }
    Ok(channels)
}

/// Names for the data, then for what lies beside the data. The names of the data do not depend on
/// what lies beside.
fn names_of(data: &[&str], beside: &[&str]) -> Vec<Name> {
    let mut all = names(data);
    all.extend(names(&[data, beside].concat()).split_off(data.len()));
    all
}

/// Voxel sizes by extents, for volumes that state no size: volumes with equal extents are taken to
/// show the same space. `None` for contradictory sizes.
fn shared_voxels(pyramids: &[Pyramid<'_>]) -> HashMap<Xyz<u64>, Option<VoxelSize>> {
    let mut shared: HashMap<Xyz<u64>, Option<VoxelSize>> = HashMap::new();
    for finest in pyramids.iter().map(Pyramid::finest) {
        if let Some(voxel) = &finest.marks.voxel {
            let known = shared.entry(finest.size()).or_insert_with(|| {
                let place = voxel.from.as_ref();
                Some(VoxelSize {
                    from: place.map(|place| format!("{place}: a volume with the same extents")),
                    ..voxel.clone()
                })
            });
            if known.as_ref().is_some_and(|other| other.size != voxel.size) {
                *known = None;
            }
        }
    }
    shared
}

/// The channel of a volume, including its channel axis if it has one.
fn channel(pyramid: &Pyramid<'_>, name: Name) -> FoundChannel {
    let finest = pyramid.finest();
    let view = finest.view(finest.axes());
    let levels = pyramid.levels.iter().map(|level| FoundLevel {
        factor: level.factor,
        paths: Paths::One(level.volume.path.clone()),
        view: view.clone(),
    });
    let mut channel = describe(name, finest, levels.collect());
    channel.notices.extend(finest.hidden_spectrum());
    channel
}

/// Splits a channel axis into one channel per position: `name_0`, `name_1`, …
fn one_for_each_component(channel: FoundChannel, count: u64) -> Vec<FoundChannel> {
    if count <= 1 || channel.kind == Kind::Rgb {
        return vec![channel];
    }
    let components = (0..count).map(|index| {
        let mut component = channel.clone();
        component.name = Name::nearest(&format!("{}_{index}", channel.name));
        for level in &mut component.levels {
            level.view.fixed.push((AxisName::C, index));
        }
        component
    });
    components.collect()
}

/// Splits complex numbers into one channel per part: `name_magnitude`, …. If they have a channel
/// axis, only the magnitude gets a channel.
fn one_for_each_part(mut channel: FoundChannel) -> Vec<FoundChannel> {
    let view = channel.levels.first().map(|level| &level.view);
    let Some(view) = view.filter(|view| view.part.is_some()) else {
        return vec![channel];
    };
    if view.axes.position(AxisName::C).is_some() {
        let remark = "only the magnitude of its complex numbers is shown, because it has an axis c";
        channel.notices.push(Notice::info(remark));
        return vec![channel];
    }
    let parts = (0..).zip(ComplexPart::ALL).map(|(index, part)| {
        let mut of_part = channel.clone();
        of_part.name = Name::nearest(&format!("{}_{}", channel.name, part.name()));
        of_part.range = (part == ComplexPart::Phase).then_some(Window::Real { lo: -PI, hi: PI });
        for level in &mut of_part.levels {
            level.view.part = Some(part);
            // In the configuration, `index = { c = … }` chooses the part.
            level.view.fixed.push((AxisName::C, index));
        }
        of_part
    });
    parts.collect()
}

/// The channel of the dataset at `path`; `given` overrides what is detected.
pub fn channel_at(
    file: &OpenFile,
    path: &str,
    name: Name,
    given: &ChannelSettings,
) -> Result<FoundChannel, OpenError> {
    let mut volume = Contents::new(file).candidate(path)?;
    let axes = given.axes.clone().unwrap_or_else(|| volume.axes());
    volume.forget_values_if_changed(&axes, given.kind);
    if given.stored_values {
        volume.marks.values = None;
    }
    let mut view = View {
        fixed: given.index.clone().into_iter().collect(),
        ..volume.view(axes)
    };
    let component = given.index.get(&AxisName::C);
    // Complex numbers without an axis c have their parts in its place.
    if let Some(index) = component
        && view.part.is_some()
        && view.axes.position(AxisName::C).is_none()
    {
        view.part = ComplexPart::ALL.get(*index as usize).copied();
    }
    let level = |path: &str, factor| FoundLevel {
        factor,
        paths: Paths::One(path.to_owned()),
        view: view.clone(),
    };
    let levels = if given.levels.is_empty() {
        vec![level(path, Some(Xyz::all(1)))]
    } else {
        given
            .levels
            .iter()
            .map(|listed| level(&listed.path, listed.factor))
            .collect()
    };
    let mut channel = describe(name, &volume, levels);
    // A single component of a colour is grey.
    if channel.kind == Kind::Rgb && component.is_some() {
        channel.kind = Kind::Image;
    }
    channel.kind = given.kind.unwrap_or(channel.kind);
    Ok(channel)
}
