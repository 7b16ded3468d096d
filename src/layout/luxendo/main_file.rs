//! Luxendo's `main.lux.h5`: links to the files of an experiment, at
//! `/timepoint_t/channel_c/view_v/res_n/data`.
//!
//! Source: Luxendo, "The Luxendo Image format". Each view of a Luxendo channel becomes a channel of
//! its own. The first time point is time 0, whatever its number; the factors of levels follow from
//! their sizes. The linked files must be below the main file's folder, where Luxendo puts them.
//!
//! Example: `/timepoint_5/channel_0/view_0/res_0/data` and the same in `timepoint_6` are the
//! channel `channel_0` with two time points and one level.

use voltile_base::name::Name;
use voltile_hdf5::volume::hdf5::{OpenError, OpenFile};

use crate::layout::contents::Contents;
use crate::layout::{FoundChannel, FoundLevel, Paths, numbered};

pub(in crate::layout) fn recognise(contents: &Contents<'_>) -> Option<String> {
    let times = numbered(contents.root(), "timepoint_");
    let (_, time) = times.first()?;
    let views = views(contents.file, &times);
    let path = views.first()?.data(time, "res_0");
    contents.file.has(&path).then(|| format!("it has {path}"))
}

pub(in crate::layout) fn channels(contents: &Contents<'_>) -> Result<Vec<FoundChannel>, OpenError> {
    let times = numbered(contents.root(), "timepoint_");
    let views = views(contents.file, &times);
    let mut channels = Vec::with_capacity(views.len());
    for view in &views {
        let views_of_channel = views.iter().filter(|any| any.channel == view.channel);
        let name = if views_of_channel.count() > 1 {
            Name::nearest(&format!("{}_{}", view.channel, view.name))
        } else {
            Name::nearest(&view.channel)
        };
        channels.push(FoundChannel::new(name, view.levels(contents.file, &times)));
    }
    Ok(channels)
}

/// The names of the groups of a channel and of one of its views.
struct ChannelView {
    channel: String,
    name: String,
}

/// The views of the first time point.
fn views(file: &OpenFile, times: &[(u64, String)]) -> Vec<ChannelView> {
    let Some((_, time)) = times.first() else {
        return Vec::new();
    };
    let mut views = Vec::new();
    for (_, channel) in numbered(&file.names_in(&format!("/{time}")), "channel_") {
        for (_, name) in numbered(&file.names_in(&format!("/{time}/{channel}")), "view_") {
            views.push(ChannelView {
                channel: channel.clone(),
                name,
            });
        }
    }
    views
}

impl ChannelView {
    /// The path of its voxels at a time point and a level.
    fn data(&self, time: &str, level: &str) -> String {
        format!("/{time}/{}/{}/{level}/data", self.channel, self.name)
    }

    fn levels(&self, file: &OpenFile, times: &[(u64, String)]) -> Vec<FoundLevel> {
        let Some((first_number, first_time)) = times.first() else {
            return Vec::new();
        };
        let group = format!("/{first_time}/{}/{}", self.channel, self.name);
        let mut levels = Vec::new();
        for (_, level) in numbered(&file.names_in(&group), "res_") {
            let paths = times
                .iter()
                .map(|(number, time)| (number - first_number, self.data(time, &level)));
            let paths = Paths::times(0, paths.filter(|(_, path)| file.has(path)));
            levels.push(FoundLevel::zyx(None, paths));
        }
        levels.retain(|level| level.paths.first().is_some());
        levels
    }
}
