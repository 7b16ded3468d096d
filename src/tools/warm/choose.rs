//! Applies a selection to the served datasets: determines the families of tiles and the sources
//! that they are read from.
//!
//! A selection is clipped to what exists; a name or number that exists nowhere is an error that
//! lists what does.

use std::collections::HashMap;
use std::ops::Range;

use super::family::{AXES, Family, Source, Subject, rulers};
use super::selection::Selection;
use crate::base::description::{ChannelDescription, DatasetDescription, LevelDescription};
use crate::base::name::Name;
use crate::base::request::ChannelChoice;
use crate::geometry::{Axis, Level, Plane, Ruler, Xyz};

/// The result of a selection.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Chosen {
    /// The pictures that tiles show.
    pub subjects: Vec<Subject>,
    /// The tiles.
    pub families: Vec<Family>,
    /// The sources that tiles are read from.
    pub sources: Vec<Source>,
    /// What was selected but left out.
    pub remarks: Vec<String>,
}

/// Applies a selection to the datasets.
///
/// # Errors
/// Why nothing, or not what was meant, can be selected.
pub fn choose(wanted: &Selection, datasets: &[DatasetDescription]) -> Result<Chosen, String> {
    let is_token = |token: &Name, dataset: &DatasetDescription| token.as_str() == dataset.token;
    if let Some(token) = wanted
        .tokens
        .iter()
        .find(|token| !datasets.iter().any(|d| is_token(token, d)))
    {
        let known = listed(datasets.iter().map(|dataset| dataset.token.as_str()));
        return Err(format!(
            "there is no dataset {token}; the datasets are {known}"
        ));
    }
    let is_wanted = |dataset: &&DatasetDescription| {
        wanted.tokens.is_empty() || wanted.tokens.iter().any(|token| is_token(token, dataset))
    };
    let datasets: Vec<&DatasetDescription> = datasets.iter().filter(is_wanted).collect();
    for channels in &wanted.channels {
        if !datasets
            .iter()
            .any(|dataset| members(dataset, channels).is_some())
        {
            let all = datasets.iter().flat_map(|dataset| &dataset.channels);
            let known = listed(all.map(|channel| channel.name.as_str()));
            return Err(format!(
                "no dataset has the channel {channels}; the channels are {known}"
            ));
        }
    }
    let mut choice = Choice {
        wanted,
        chosen: Chosen::default(),
        sources: HashMap::new(),
        missed: None,
    };
    for dataset in datasets {
        let names = dataset
            .channels
            .iter()
            .filter_map(|channel| Name::new(&channel.name).ok());
        let every = names.map(ChannelChoice::One).collect();
        for channels in if wanted.channels.is_empty() {
            every
        } else {
            wanted.channels.clone()
        } {
            choice.add_subject(dataset, channels)?;
        }
    }
    match (choice.chosen.families.is_empty(), choice.missed) {
        (true, Some(missed)) => Err(missed),
        _ => Ok(choice.chosen),
    }
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

/// The channels to show, if the dataset has all of them.
fn members<'a>(
    dataset: &'a DatasetDescription,
    channels: &ChannelChoice,
) -> Option<Vec<&'a ChannelDescription>> {
    match channels {
        ChannelChoice::One(name) => Some(vec![dataset.channel(name.as_str())?]),
        ChannelChoice::Composite(list) => list
            .iter()
            .map(|(name, _)| dataset.channel(name.as_str()))
            .collect(),
    }
}

/// The choice while it is being built.
struct Choice<'a> {
    wanted: &'a Selection,
    chosen: Chosen,
    /// The indexes of known sources, by their names and runs of time points.
    sources: HashMap<(String, u64), usize>,
    /// Why something that was selected yielded no tiles.
    missed: Option<String>,
}

impl Choice<'_> {
    fn add_subject(
        &mut self,
        dataset: &DatasetDescription,
        channels: ChannelChoice,
    ) -> Result<(), String> {
        let (Some(members), Ok(token)) = (members(dataset, &channels), Name::new(&dataset.token))
        else {
            return Ok(());
        };
        if let ChannelChoice::Composite(list) = &channels
            && let Some(((name, _), channel)) =
                list.iter().zip(&members).find(|(_, c)| c.kind != "image")
        {
            let kind = &channel.kind;
            return Err(format!(
                "the channel {name} holds {kind}, which cannot be composited; name it alone, without a colour"
            ));
        }
        let subject = Subject { token, channels };
        let [first, ..] = *members else { return Ok(()) };
        if self.chosen.subjects.contains(&subject) {
            return Ok(());
        }
        self.chosen.subjects.push(subject);
        let everything = Ok(Xyz::all(()).map(|()| 0..u64::MAX));
        let within = self
            .wanted
            .within
            .map_or(everything, |extent| extent.voxels(dataset.offset, first));
        let within = within.map_err(|reason| {
            format!("the box cannot be applied to {}: {reason}", dataset.token)
        })?;
        let is_series = members.iter().any(|channel| channel.times.is_some());
        for time in self.times(&members) {
            for level in self.levels(&members) {
                for plane in &self.wanted.planes {
                    self.add_family(
                        dataset,
                        &members,
                        &within,
                        Some(time).filter(|_| is_series),
                        level,
                        *plane,
                    );
                }
            }
        }
        Ok(())
    }

    /// Notes that none of the selected things exists.
    fn miss(&mut self, what: &str, known: &str) {
        self.missed = Some(format!("the selected {what} do not exist: {known}"));
    }

    /// The time points of a subject.
    fn times(&mut self, members: &[&ChannelDescription]) -> Vec<u64> {
        let count = members
            .iter()
            .map(|channel| channel.times.unwrap_or(1))
            .min()
            .unwrap_or(1);
        let times: Vec<u64> = self.wanted.times.within(0..count).collect();
        if times.is_empty() {
            self.miss(
                "time points",
                &format!("the time points are 0 to {}", count.saturating_sub(1)),
            );
        }
        times
    }

    /// The levels that all of a subject's channels have.
    fn levels(&mut self, members: &[&ChannelDescription]) -> Vec<u8> {
        let last = members
            .iter()
            .filter_map(|channel| channel.levels.last())
            .map(|level| level.level)
            .min();
        let last = last.unwrap_or(0);
        let is_wanted = |number: &u8| {
            self.wanted.levels.contains(u64::from(*number))
                && members
                    .iter()
                    .all(|channel| channel.level(*number).is_some())
        };
        let levels: Vec<u8> = (0..=last).filter(is_wanted).collect();
        if levels.is_empty() {
            self.miss("levels", &format!("there are the levels 0 to {last}"));
        }
        levels
    }

    fn add_family(
        &mut self,
        dataset: &DatasetDescription,
        members: &[&ChannelDescription],
        within: &Xyz<Range<u64>>,
        time: Option<u64>,
        number: u8,
        plane: Plane,
    ) {
        let levels: Vec<(&ChannelDescription, &LevelDescription)> = members
            .iter()
            .filter_map(|channel| Some((*channel, channel.level(number)?)))
            .collect();
        let [(first, level), ..] = *levels else {
            return;
        };
        if let Some((channel, _)) = levels.iter().find(|(_, level)| !level.is_offered(plane)) {
            self.chosen.remarks.push(format!(
                "level {number} of {}/{} is not offered in {plane}: making one tile would read too much; store it with \
                 `voltile pyramid`",
                dataset.token, channel.name
            ));
            let costly = "none of these levels is offered in these planes: making one tile would read too much. Store the levels \
                          with `voltile pyramid`, or raise render.max_voxels_per_tile";
            self.missed.get_or_insert(costly.to_owned());
            return;
        }
        // Of several channels, the longest along each axis.
        let longer = |a: Ruler, b: Ruler| if b.tiles() > a.tiles() { b } else { a };
        let all = levels
            .iter()
            .filter_map(|(channel, level)| rulers(channel, level, plane));
        let rulers = all.reduce(|rulers, more| rulers.zip(more, longer));
        let (Some(rulers), Some(level_number)) = (rulers, Level::new(number.into())) else {
            return;
        };
        let mut tiles = AXES.map(|axis| rulers[axis].touching(&within[axis]));
        if [Axis::X, Axis::Y, Axis::Z]
            .into_iter()
            .any(|axis| tiles[axis].is_empty())
        {
            let size = first.levels.first().map_or([0; 3], |level| level.size);
            self.missed = Some(format!(
                "the box lies outside: {} has {} voxels (x × y × z), the first at {}",
                dataset.token,
                Xyz::from(size),
                Xyz::from(dataset.offset)
            ));
            return;
        }
        let axis = plane.slice_axis();
        let shift = dataset.first_slice(first, level.factor)[axis];
        let Some(slices) = self.slices(tiles[axis].clone(), rulers[axis].tiles(), shift, plane)
        else {
            return;
        };
        tiles[axis] = slices;
        let sources = levels
            .iter()
            .map(|(_, level)| self.source(level, time.unwrap_or(0)))
            .collect();
        self.chosen.families.push(Family {
            subject: self.chosen.subjects.len() - 1,
            time,
            plane,
            level: level_number,
            shift,
            rulers,
            tiles,
            slices: self.wanted.slices.clone(),
            sources,
        });
    }

    /// From the first selected slice to the last among those with these indexes, if there is any.
    /// There are `count` slices in all, and the number of each in URLs is its index plus `shift`.
    fn slices(
        &mut self,
        among: Range<u64>,
        count: u64,
        shift: i64,
        plane: Plane,
    ) -> Option<Range<u64>> {
        // Slices with negative numbers cannot be requested.
        let first_numbered = 0.min(shift).unsigned_abs();
        let mut selected = (among.start.max(first_numbered)..among.end).filter(|slice| {
            self.wanted
                .slices
                .contains(slice.saturating_add_signed(shift))
        });
        if let Some(first) = selected.next() {
            return Some(first..selected.next_back().unwrap_or(first) + 1);
        }
        let known = if first_numbered >= count {
            format!("all slices in {plane} have negative numbers, because of the dataset's offset")
        } else {
            let number = |slice: u64| slice.saturating_add_signed(shift);
            format!(
                "the slices in {plane} are {} to {}",
                number(first_numbered),
                number(count - 1)
            )
        };
        self.miss("slices", &known);
        None
    }

    fn source(&mut self, level: &LevelDescription, time: u64) -> usize {
        let source = &level.source;
        let sources = &mut self.chosen.sources;
        *self
            .sources
            .entry((source.id.clone(), time / source.times.max(1)))
            .or_insert_with(|| {
                sources.push(source.into());
                sources.len() - 1
            })
    }
}
