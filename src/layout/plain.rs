//! Plain files: every dataset that looks like a volume is a channel, or a level of one.
//!
//! Marks of datasets are used first (see [`super::marks`]). The rest is guessed (see [`super::guess`]); and a voxel size
//! known for only one of several volumes with the same extents applies to all. Layouts that only mark datasets find their
//! channels through this module.

use std::collections::HashMap;

use super::contents::{Candidate, Contents};
use super::detector::{self, Joined};
use super::guess::described;
use super::names::names;
use super::pyramid::{Pyramid, pyramids};
use super::{FoundChannel, FoundLevel, Layout, Paths, VoxelSize};
use crate::base::axes::{Axes, AxisName};
use crate::base::name::Name;
use crate::base::paint::Kind;
use crate::geometry::Xyz;
use crate::volume::hdf5::{OpenError, View};

/// A channel axis yields at most this many channels.
const MAX_SERVED: u64 = 1000;

pub(super) struct Plain;

impl Layout for Plain {
    fn name(&self) -> &'static str {
        "plain"
    }

    fn recognise(&self, _contents: &Contents<'_>) -> Option<String> {
        Some("it is an HDF5 file of no known layout".to_owned())
    }
}

/// The channels of all volumes that satisfy `wanted`; datasets that are levels of one volume form one
/// channel, and so do the parts of one detector.
pub(super) fn channels(
    contents: &Contents<'_>,
    wanted: impl Fn(&Candidate) -> bool,
) -> Result<Vec<FoundChannel>, OpenError> {
    let mut volumes: Vec<&Candidate> = contents.volumes()?.iter().filter(|volume| wanted(volume)).collect();
    let Joined { stacks, taken } = detector::joined(contents, &volumes);
    volumes.retain(|volume| !taken.contains(volume.path.as_str()));
    let mut pyramids = pyramids(&volumes);
    // If there is nothing larger, small datasets are what the file was written for.
    if !stacks.is_empty() || pyramids.iter().any(|pyramid| pyramid.finest().looks_like_a_volume()) {
        pyramids.retain(|pyramid| pyramid.finest().looks_like_a_volume());
    }
    let stacked = stacks.iter().map(|stack| stack.named_by.as_str());
    let paths: Vec<&str> = stacked.chain(pyramids.iter().map(Pyramid::named_by)).collect();
    let shared = shared_voxels(&pyramids);
    let mut names = names(&paths);
    let others = names.split_off(stacks.len());
    let stacked = stacks.into_iter().zip(names).map(|(stack, name)| stack.channel(name));
    let others = pyramids.iter().zip(others).flat_map(|(pyramid, name)| {
        let finest = pyramid.finest();
        let mut channel = channel(pyramid, name);
        if let (None, Some(Some(voxel))) = (channel.voxel_size, shared.get(&finest.size())) {
            let from = voxel.from.as_ref().map(|from| format!("{from}: a volume with the same extents"));
            channel = channel.with_voxel(Some(VoxelSize { from, ..voxel.clone() }));
        }
        one_for_each_component(channel, finest.components())
    });
    Ok(stacked.chain(others).collect())
}

/// Voxel sizes by extents: volumes with equal extents show the same space. `None` for contradictory sizes.
fn shared_voxels(pyramids: &[Pyramid<'_>]) -> HashMap<Xyz<u64>, Option<VoxelSize>> {
    let mut shared: HashMap<Xyz<u64>, Option<VoxelSize>> = HashMap::new();
    for finest in pyramids.iter().map(Pyramid::finest) {
        if let Some(voxel) = &finest.marks.voxel {
            let known = shared.entry(finest.size()).or_insert_with(|| Some(voxel.clone()));
            if known.as_ref().is_some_and(|known| known.size != voxel.size) {
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
    let level = |(volume, factor): (&Candidate, Option<Xyz<u64>>)| FoundLevel {
        factor,
        paths: Paths::One(volume.path.clone()),
        view: view.clone(),
    };
    described(name, finest, pyramid.levels().map(level).collect())
}

/// Splits a channel axis into one channel per position: `name_0`, `name_1`, …
fn one_for_each_component(channel: FoundChannel, count: u64) -> Vec<FoundChannel> {
    if count <= 1 || channel.kind == Kind::Rgb {
        return vec![channel];
    }
    let component = |index: u64| {
        let mut channel = channel.clone();
        channel.name = Name::nearest(&format!("{}_{index}", channel.name));
        channel.levels.iter_mut().for_each(|level| level.view.fixed.push((AxisName::C, index)));
        channel
    };
    (0..count.min(MAX_SERVED)).map(component).collect()
}

/// What the configuration says about a channel; the rest is detected.
#[derive(Debug, Clone, Default)]
pub struct Given {
    /// The axes.
    pub axes: Option<Axes>,
    /// Axes fixed at a position.
    pub fixed: Vec<(AxisName, u64)>,
    /// The kind.
    pub kind: Option<Kind>,
    /// The stored levels; empty for the dataset alone.
    pub levels: Vec<(String, Option<Xyz<u64>>)>,
    /// Whether stored values are served although they stand for others.
    pub stored_values: bool,
}

/// The channel of one dataset; `given` overrides what is detected.
pub(super) fn channel_of(mut volume: Candidate, name: Name, given: &Given) -> FoundChannel {
    let axes = given.axes.clone().unwrap_or_else(|| volume.axes());
    volume.forget_values_unless(&axes, given.kind);
    if given.stored_values {
        volume.marks.values = None;
    }
    let view = View { fixed: given.fixed.clone(), ..volume.view(axes) };
    let one = [(volume.path.clone(), Some(Xyz::all(1)))];
    let levels = if given.levels.is_empty() { &one[..] } else { &given.levels };
    let level = |(path, factor): &(String, Option<Xyz<u64>>)| FoundLevel {
        factor: *factor,
        paths: Paths::One(path.clone()),
        view: view.clone(),
    };
    let found = described(name, &volume, levels.iter().map(level).collect());
    let one_component = given.fixed.iter().any(|(axis, _)| *axis == AxisName::C);
    let kind = if found.kind == Kind::Rgb && one_component { Kind::Image } else { found.kind };
    FoundChannel { kind: given.kind.unwrap_or(kind), ..found }
}
