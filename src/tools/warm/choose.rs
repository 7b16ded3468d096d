//! Applies a selection to the served datasets. Selected levels, times and slices that do not exist
//! are left out. If a selected name does not exist, or none of the selected numbers does, an error
//! lists what exists.

use std::ops::Range;

use voltile_base::description::{ChannelDescription, DatasetDescription, LevelDescription};
use voltile_base::geometry::{Level, Plane, TILE, Xyz};
use voltile_base::name::Name;
use voltile_base::request::ChannelChoice;
use voltile_base::text::joined;

use super::numbers::Numbers;
use super::pass::{LevelSlices, Pass};
use super::selection::Selection;

/// The passes of all selected pictures; at least one.
///
/// # Errors
/// Nothing is selected, or a selected name exists nowhere; the error lists what exists.
pub(super) fn choose(
    selection: &Selection,
    datasets: &[DatasetDescription],
) -> Result<Vec<Pass>, String> {
    let mut passes = Vec::new();
    let mut reason = "nothing that can be rendered is selected".to_owned();
    for dataset in selected_datasets(selection, datasets)? {
        let Ok(token) = Name::new(&dataset.token) else {
            continue;
        };
        let mut pictures = selection.channels.clone();
        if pictures.is_empty() {
            let channels = dataset.channels.iter();
            let names = channels.filter_map(|channel| Name::new(&channel.name).ok());
            pictures = names.map(ChannelChoice::One).collect();
        }
        for channels in pictures {
            let Some(members) = members(dataset, &channels) else {
                continue;
            };
            let picture = WarmPicture {
                token: token.clone(),
                channels,
                dataset,
                members,
            };
            if let Err(why) = picture.add_passes(selection, &mut passes) {
                reason = why;
            }
        }
    }
    if passes.is_empty() {
        return Err(reason);
    }
    Ok(passes)
}

/// The selected datasets. Fails if a selected token or channel exists nowhere.
fn selected_datasets<'a>(
    selection: &Selection,
    datasets: &'a [DatasetDescription],
) -> Result<Vec<&'a DatasetDescription>, String> {
    let mut datasets: Vec<&DatasetDescription> = datasets.iter().collect();
    for token in &selection.tokens {
        if !datasets
            .iter()
            .any(|dataset| dataset.token == token.as_str())
        {
            let known = joined(datasets.iter().map(|dataset| &dataset.token));
            return Err(format!(
                "there is no dataset {token}; the datasets are {known}"
            ));
        }
    }
    if !selection.tokens.is_empty() {
        datasets.retain(|dataset| selection.tokens.iter().any(|t| t.as_str() == dataset.token));
    }
    for channels in &selection.channels {
        if !datasets
            .iter()
            .any(|dataset| members(dataset, channels).is_some())
        {
            let all = datasets.iter().flat_map(|dataset| &dataset.channels);
            let known = joined(all.map(|channel| &channel.name));
            return Err(format!(
                "no dataset has the channel {channels}; the channels are {known}"
            ));
        }
    }
    Ok(datasets)
}

/// The channels of a picture, if the dataset has all of them.
fn members<'a>(
    dataset: &'a DatasetDescription,
    channels: &ChannelChoice,
) -> Option<Vec<&'a ChannelDescription>> {
    match channels {
        ChannelChoice::One(name) => Some(vec![dataset.channel(name.as_str())?]),
        ChannelChoice::Composite(list) => {
            let names = list.iter().map(|(name, _)| name.as_str());
            names.map(|name| dataset.channel(name)).collect()
        }
    }
}

/// A channel, or several channels that are shown together.
struct WarmPicture<'a> {
    token: Name,
    channels: ChannelChoice,
    dataset: &'a DatasetDescription,
    members: Vec<&'a ChannelDescription>,
}

/// One level of all channels of a picture: each channel with its level of this number.
type SharedLevel<'a> = Vec<(&'a ChannelDescription, &'a LevelDescription)>;

impl<'a> WarmPicture<'a> {
    /// Adds the passes of the selected times, levels and planes.
    ///
    /// # Errors
    /// None of the selected times or levels exists; the error lists what exists.
    fn add_passes(&self, selection: &Selection, passes: &mut Vec<Pass>) -> Result<(), String> {
        let times = self.times(&selection.times)?;
        let levels = self.levels(&selection.levels)?;
        for plane in &selection.planes {
            let offered = self.offered_levels(&levels, *plane);
            for group in offered.chunk_by(|level, next| share_chunks(level, next)) {
                let mut pass = self.pass(*plane, group, selection.slices.clone());
                // The number of time points in a chunk. Time points in one chunk share a pass.
                let mut chunk_times = 1;
                for (_, level) in group.iter().flatten() {
                    chunk_times = chunk_times.max(level.source.times);
                }
                for sharing in times.chunk_by(|a, b| a / chunk_times == b / chunk_times) {
                    let times = sharing.iter();
                    let times = times.map(|time| self.is_series().then_some(*time));
                    pass.times = times.collect();
                    passes.push(pass.clone());
                }
            }
        }
        Ok(())
    }

    fn is_series(&self) -> bool {
        self.members.iter().any(|channel| channel.times.is_some())
    }

    /// The selected time points.
    fn times(&self, selected: &Numbers) -> Result<Vec<u64>, String> {
        let members = self.members.iter();
        let counts = members.map(|channel| channel.times.unwrap_or(1));
        let count = counts.min().unwrap_or(1);
        let times: Vec<u64> = selected.within(0..count).collect();
        if times.is_empty() {
            let last = count.saturating_sub(1);
            return Err(format!(
                "the selected time points do not exist: the time points are 0 to {last}"
            ));
        }
        Ok(times)
    }

    /// The selected levels that all channels have.
    fn levels(&self, selected: &Numbers) -> Result<Vec<SharedLevel<'a>>, String> {
        let mut levels = Vec::new();
        let mut last = 0;
        for number in 0..=u8::MAX {
            let members = self.members.iter();
            let shared = members.map(|channel| Some((*channel, channel.level(number)?)));
            // The level is left out if a channel lacks it.
            let Some(shared) = shared.collect::<Option<SharedLevel<'_>>>() else {
                continue;
            };
            last = number;
            if selected.contains(number.into()) {
                levels.push(shared);
            }
        }
        if levels.is_empty() {
            return Err(format!(
                "the selected levels do not exist: there are the levels 0 to {last}"
            ));
        }
        Ok(levels)
    }

    /// The levels whose tiles are offered in a plane.
    fn offered_levels(&self, levels: &[SharedLevel<'a>], plane: Plane) -> Vec<SharedLevel<'a>> {
        let mut offered = levels.to_vec();
        offered.retain(|shared| shared.iter().all(|(_, level)| level.is_offered(plane)));
        if offered.len() < levels.len() {
            tracing::warn!(
                "{} of the selected levels of {}/{} are not offered in {plane}, because one tile would read too much: \
                 store them with `voltile pyramid`, or raise render.max_voxels_per_tile",
                levels.len() - offered.len(),
                self.token,
                self.channels
            );
        }
        offered
    }

    /// A pass of levels that share chunks; its time points are still missing.
    fn pass(&self, plane: Plane, levels: &[SharedLevel<'_>], selected: Numbers) -> Pass {
        let axis = plane.slice_axis();
        // The thickness of the thickest chunk, in voxels of full resolution.
        let mut chunk_depth: u64 = 1;
        for (_, level) in levels.iter().flatten() {
            let chunk = Xyz::from(level.source.chunk)[axis];
            let factor = Xyz::from(level.source.factor)[axis];
            chunk_depth = chunk_depth.max(chunk.saturating_mul(factor));
        }
        let level_slices = levels.iter().filter_map(|level| self.slices(level, plane));
        let slices: Vec<LevelSlices> = level_slices.collect();
        let thicknesses = slices.iter().map(|level| level.thickness);
        let thickest_slice = thicknesses.max().unwrap_or(1);
        // A slab is as thick as a chunk, but holds whole slices of all levels.
        let depth = chunk_depth.checked_next_multiple_of(thickest_slice);
        Pass {
            token: self.token.clone(),
            channels: self.channels.clone(),
            plane,
            times: Vec::new(),
            levels: slices,
            depth: depth.unwrap_or(chunk_depth),
            selected,
        }
    }

    /// The slices of a level. Channels that are shown together need not begin or end together.
    fn slices(&self, shared: &SharedLevel<'_>, plane: Plane) -> Option<LevelSlices> {
        let (_, level) = shared.first()?;
        let mut slices = LevelSlices {
            level: Level::new(level.level.into())?,
            first: i64::MAX,
            end: i64::MIN,
            thickness: Xyz::from(level.factor)[plane.slice_axis()].max(1),
            rows: 0,
            columns: 0,
        };
        for (channel, level) in shared {
            let Range { start, end } = self.dataset.slices(channel, level, plane);
            let [columns, rows] =
                level.drawn[plane as usize].map(|pixels| pixels.div_ceil(TILE as u64));
            slices.first = slices.first.min(start);
            slices.end = slices.end.max(end);
            slices.rows = slices.rows.max(rows);
            slices.columns = slices.columns.max(columns);
        }
        Some(slices)
    }
}

/// Whether a level and the next one are read from the same chunks.
fn share_chunks(level: &SharedLevel<'_>, next: &SharedLevel<'_>) -> bool {
    let mut pairs = level.iter().zip(next);
    pairs.all(|((_, a), (_, b))| a.source.id == b.source.id)
}
