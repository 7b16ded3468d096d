//! Fiji's HDF5 plugin: `/t{t}/channel{c}`, one dataset per time point and channel.
//!
//! Source: Fiji's "HDF5 Vibez" page ("Save to HDF5 (new or replace)"). Users can choose the
//! template of the paths; this is the default. The first time point is time 0 here, whatever its
//! number. The voxel size is in the attribute read by [`super::element_size`].
//!
//! Example: `/t3/channel0` and `/t5/channel0` are the channel `channel0` with three time points,
//! the second of which is a gap.

use voltile_base::geometry::Xyz;
use voltile_base::name::Name;
use voltile_hdf5::volume::hdf5::{OpenError, View};

use super::contents::Contents;
use super::guess::describe;
use super::{FoundChannel, FoundLevel, Paths, numbered};

pub(super) fn recognise(contents: &Contents<'_>) -> Option<String> {
    let (_, time) = numbered(contents.root(), "t").into_iter().next()?;
    let (_, channel) = channels_in(contents, &time).into_iter().next()?;
    let path = format!("/{time}/{channel}");
    let is_dataset = contents.file.dataset(&path).is_ok();
    is_dataset.then(|| format!("it has {path}"))
}

pub(super) fn channels(contents: &Contents<'_>) -> Result<Vec<FoundChannel>, OpenError> {
    let times = numbered(contents.root(), "t");
    let Some((first, time)) = times.first() else {
        return Ok(Vec::new());
    };
    let mut channels = Vec::new();
    for (_, channel) in channels_in(contents, time) {
        let volume = contents.candidate(&format!("/{time}/{channel}"))?;
        let places = times
            .iter()
            .map(|(number, time)| (number - first, format!("/{time}/{channel}")));
        let level = FoundLevel {
            factor: Some(Xyz::all(1)),
            paths: Paths::times(0, places.filter(|(_, path)| contents.file.has(path))),
            view: View::from_axes(volume.axes()),
        };
        channels.push(describe(Name::nearest(&channel), &volume, vec![level]));
    }
    Ok(channels)
}

/// The channels of a time point.
fn channels_in(contents: &Contents<'_>, time: &str) -> Vec<(u64, String)> {
    numbered(&contents.file.names_in(&format!("/{time}")), "channel")
}
