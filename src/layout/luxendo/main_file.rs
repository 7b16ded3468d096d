//! Luxendo's `main.lux.h5`: links to the files of an experiment, at
//! `/timepoint_t/channel_c/view_v/res_n/data`.
//!
//! Source: Luxendo, "The Luxendo Image format". Each view of a channel is a channel here. The first
//! time point is time 0, whatever its number; the factors of levels follow from their sizes. The
//! linked files must be below the main file's folder, where Luxendo puts them.

use voltile_base::name::Name;
use voltile_hdf5::volume::hdf5::{OpenError, OpenFile, View};

use crate::layout::contents::Contents;
use crate::layout::{FoundChannel, FoundLevel, Layout, Paths, numbered};

pub(in crate::layout) struct MainFile;

impl Layout for MainFile {
    fn recognise(&self, _name: &str, contents: &Contents<'_>) -> Option<String> {
        let times = numbered(contents.root(), "timepoint_");
        let path = views(contents.file, &times)
            .first()?
            .data(&times.first()?.1, "res_0");
        contents.file.has(&path).then(|| format!("it has {path}"))
    }

    fn channels(&self, contents: &Contents<'_>) -> Result<Option<Vec<FoundChannel>>, OpenError> {
        let times = numbered(contents.root(), "timepoint_");
        let views = views(contents.file, &times);
        let has_several =
            |channel: &str| views.iter().filter(|view| view.channel == channel).count() > 1;
        let name = |view: &Angle| match has_several(&view.channel) {
            true => Name::nearest(&format!("{}_{}", view.channel, view.view)),
            false => Name::nearest(&view.channel),
        };
        Ok(Some(
            views
                .iter()
                .map(|view| FoundChannel::new(name(view), view.levels(contents.file, &times)))
                .collect(),
        ))
    }
}

/// A view of a channel.
struct Angle {
    channel: String,
    view: String,
}

/// The views of the first time point.
fn views(file: &OpenFile, times: &[(u64, String)]) -> Vec<Angle> {
    let Some((_, time)) = times.first() else {
        return Vec::new();
    };
    let of_channel = |(_, channel): (u64, String)| {
        let views = numbered(&file.names_in(&format!("/{time}/{channel}")), "view_");
        views.into_iter().map(move |(_, view)| Angle {
            channel: channel.clone(),
            view,
        })
    };
    numbered(&file.names_in(&format!("/{time}")), "channel_")
        .into_iter()
        .flat_map(of_channel)
        .collect()
}

impl Angle {
    /// The path of its voxels at a time point and a level.
    fn data(&self, time: &str, level: &str) -> String {
        format!("/{time}/{}/{}/{level}/data", self.channel, self.view)
    }

    fn levels(&self, file: &OpenFile, times: &[(u64, String)]) -> Vec<FoundLevel> {
        let Some((first, time)) = times.first() else {
            return Vec::new();
        };
        let group = format!("/{time}/{}/{}", self.channel, self.view);
        let level = |(_, level): (u64, String)| {
            let paths = times
                .iter()
                .map(|(number, time)| (number - first, self.data(time, &level)));
            let paths = Paths::Times(Paths::by_number(paths.filter(|(_, path)| file.has(path))));
            FoundLevel {
                factor: None,
                paths,
                view: View::zyx(),
            }
        };
        let levels = numbered(&file.names_in(&group), "res_")
            .into_iter()
            .map(level);
        levels
            .filter(|level| level.paths.first().is_some())
            .collect()
    }
}
