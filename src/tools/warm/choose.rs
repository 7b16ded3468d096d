//! Applies a selection to the served datasets: determines the families of tiles and the sources that they are
//! read from.
//!
//! A selection is clipped to what exists; a name or number that exists nowhere is an error that lists what
//! does.

use std::collections::HashMap;
use std::ops::Range;

use super::extent::UnknownSize;
use super::family::{Family, Source, Subject};
use super::numbers::{NotNumbers, Runs};
use super::selection::Selection;
use crate::base::description::{ChannelDescription, DatasetDescription, LevelDescription};
use crate::base::name::Name;
use crate::base::request::ChannelChoice;
use crate::geometry::{Axis, Level, Plane, Ruler, Xyz};

/// Why nothing, or not what was meant, can be selected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum ChoiceError {
    #[error("there is no dataset {token}; the datasets are {known}")]
    Token { token: Name, known: String },
    #[error("no dataset has the channel {channel}; the channels are {known}")]
    Channel { channel: String, known: String },
    #[error(
        "the channel {channel} holds {kind}, which cannot be composited; name it alone, without a colour"
    )]
    NotComposable { channel: Name, kind: String },
    #[error("the box cannot be applied to {token}: {reason}")]
    Size { token: String, reason: UnknownSize },
    #[error(transparent)]
    Numbers(#[from] NotNumbers),
    #[error("none of these times exists: {known}")]
    Time { known: String },
    #[error("none of these levels exists: {known}")]
    Level { known: String },
    #[error(
        "none of these levels is offered in these planes: making one tile would read too much. Store the levels with `voltile pyramid`, or raise render.max_voxels_per_tile"
    )]
    TooCostly,
    #[error("none of these slices exists: {known}")]
    Slice { known: String },
    #[error("the box lies outside: {known}")]
    Outside { known: String },
}

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
pub fn choose(wanted: &Selection, datasets: &[DatasetDescription]) -> Result<Chosen, ChoiceError> {
    let mut choice = Choice { wanted, chosen: Chosen::default(), places: HashMap::new(), missed: None };
    let datasets = named(wanted, datasets)?;
    for dataset in &datasets {
        for channels in choices(wanted, dataset) {
            choice.subject(dataset, channels)?;
        }
    }
    for channels in &wanted.channels {
        if !datasets.iter().any(|dataset| members(dataset, channels).is_some()) {
            let known = datasets.iter().flat_map(|dataset| &dataset.channels).map(|c| c.name.as_str());
            let known = known.collect::<Vec<_>>().join(", ");
            return Err(ChoiceError::Channel { channel: channels.to_string(), known });
        }
    }
    match (choice.chosen.families.is_empty(), choice.missed) {
        (true, Some(missed)) => Err(missed),
        _ => Ok(choice.chosen),
    }
}

fn named<'a>(
    wanted: &Selection,
    datasets: &'a [DatasetDescription],
) -> Result<Vec<&'a DatasetDescription>, ChoiceError> {
    if wanted.tokens.is_empty() {
        return Ok(datasets.iter().collect());
    }
    let known = || datasets.iter().map(|dataset| dataset.token.as_str()).collect::<Vec<_>>().join(", ");
    let find = |token: &Name| {
        let found = datasets.iter().find(|dataset| dataset.token == token.as_str());
        found.ok_or_else(|| ChoiceError::Token { token: token.clone(), known: known() })
    };
    wanted.tokens.iter().map(find).collect()
}

/// The pictures of a dataset to show, limited to channels that it has.
fn choices(wanted: &Selection, dataset: &DatasetDescription) -> Vec<ChannelChoice> {
    if wanted.channels.is_empty() {
        let names = dataset.channels.iter().filter_map(|channel| Name::new(&channel.name).ok());
        return names.map(ChannelChoice::One).collect();
    }
    wanted.channels.iter().filter(|channels| members(dataset, channels).is_some()).cloned().collect()
}

/// The channels to show, if the dataset has all of them.
fn members<'a>(
    dataset: &'a DatasetDescription,
    channels: &ChannelChoice,
) -> Option<Vec<&'a ChannelDescription>> {
    match channels {
        ChannelChoice::One(name) => Some(vec![dataset.channel(name.as_str())?]),
        ChannelChoice::Composite(list) => {
            list.iter().map(|(name, _)| dataset.channel(name.as_str())).collect()
        }
    }
}

/// The choice while it is being built.
struct Choice<'a> {
    wanted: &'a Selection,
    chosen: Chosen,
    /// Indexes of known sources.
    places: HashMap<(String, u64), usize>,
    /// Why the last subject yielded nothing.
    missed: Option<ChoiceError>,
}

impl Choice<'_> {
    fn subject(&mut self, dataset: &DatasetDescription, channels: ChannelChoice) -> Result<(), ChoiceError> {
        let Some(members) = members(dataset, &channels) else { return Ok(()) };
        if let ChannelChoice::Composite(list) = &channels
            && let Some(((name, _), channel)) = list.iter().zip(&members).find(|(_, c)| c.kind != "image")
        {
            return Err(ChoiceError::NotComposable { channel: name.clone(), kind: channel.kind.clone() });
        }
        let Ok(token) = Name::new(&dataset.token) else { return Ok(()) };
        let before = self.chosen.families.len();
        self.chosen.subjects.push(Subject { token, channels });
        for time in self.times(&members)? {
            for level in self.levels(&members)? {
                for plane in &self.wanted.planes {
                    self.family(dataset, &members, time, level, *plane)?;
                }
            }
        }
        if self.chosen.families.len() == before {
            self.chosen.subjects.pop();
        }
        Ok(())
    }

    /// The time points of a subject: `[None]` if it is not a time series.
    fn times(&mut self, members: &[&ChannelDescription]) -> Result<Vec<Option<u64>>, ChoiceError> {
        let count = members.iter().map(|channel| channel.times.unwrap_or(1)).min().unwrap_or(1);
        let times = self.wanted.times.within(&(0..count))?;
        if times.is_empty() {
            let known = match count {
                1 => "there is only time point 0".to_owned(),
                _ => format!("there are the time points 0 to {}", count - 1),
            };
            self.missed = Some(ChoiceError::Time { known });
        }
        let is_series = members.iter().any(|channel| channel.times.is_some());
        let mut times: Vec<u64> = times.falling().collect();
        times.reverse();
        Ok(times.into_iter().map(|time| Some(time).filter(|_| is_series)).collect())
    }

    /// The levels that all of a subject's channels have.
    fn levels(&mut self, members: &[&ChannelDescription]) -> Result<Vec<u8>, ChoiceError> {
        let last = members.iter().filter_map(|channel| channel.levels.last()).map(|level| level.level).min();
        let last = last.unwrap_or(0);
        let mut levels: Vec<u64> = self.wanted.levels.within(&(0..u64::from(last) + 1))?.falling().collect();
        levels.reverse();
        let has = |number: &u8| members.iter().all(|channel| channel.level(*number).is_some());
        let levels: Vec<u8> =
            levels.into_iter().filter_map(|level| u8::try_from(level).ok()).filter(has).collect();
        if levels.is_empty() {
            self.missed = Some(ChoiceError::Level { known: format!("there are the levels 0 to {last}") });
        }
        Ok(levels)
    }

    fn family(
        &mut self,
        dataset: &DatasetDescription,
        members: &[&ChannelDescription],
        time: Option<u64>,
        level: u8,
        plane: Plane,
    ) -> Result<(), ChoiceError> {
        let levels: Option<Vec<(&ChannelDescription, &LevelDescription)>> =
            members.iter().map(|channel| Some((*channel, channel.level(level)?))).collect();
        let (Some(levels), Some(number)) = (levels, Level::new(level.into())) else { return Ok(()) };
        if let Some((channel, _)) = levels.iter().find(|(_, level)| !level.is_offered(plane)) {
            self.chosen.remarks.push(format!(
                "level {level} of {}/{} is not offered in {plane}: making one tile would read too much; store it with \
                 `voltile pyramid`",
                dataset.token, channel.name
            ));
            self.missed.get_or_insert(ChoiceError::TooCostly);
            return Ok(());
        }
        let Some((rulers, factor)) = common(&levels, plane) else { return Ok(()) };
        let axis = plane.slice_axis();
        let Some(first) = members.first() else { return Ok(()) };
        let shift = dataset.first_slice(first, factor.into())[axis];
        let Some(tiles) = self.tiles(dataset, members, plane, &rulers, shift)? else { return Ok(()) };
        let sources = levels.iter().map(|(_, level)| self.source(level, time.unwrap_or(0))).collect();
        let subject = self.chosen.subjects.len() - 1;
        let family = Family { subject, time, plane, level: number, shift, rulers, tiles, sources };
        self.chosen.families.push(family);
        Ok(())
    }

    /// The selected tiles along each axis; `None` if there are none.
    fn tiles(
        &mut self,
        dataset: &DatasetDescription,
        members: &[&ChannelDescription],
        plane: Plane,
        rulers: &Xyz<Ruler>,
        shift: i64,
    ) -> Result<Option<Xyz<Runs>>, ChoiceError> {
        let within = self.within(dataset, members)?;
        let along = |axis: Axis| Runs::of(vec![rulers[axis].touching(&within[axis])]);
        let mut tiles = Xyz::new(along(Axis::X), along(Axis::Y), along(Axis::Z));
        let axis = plane.slice_axis();
        if [Axis::X, Axis::Y, Axis::Z].iter().any(|axis| tiles[*axis].is_empty()) {
            let size = members.first().and_then(|c| c.levels.first()).map(|level| level.source.full_size());
            let known = format!(
                "{} has {} voxels (x × y × z), the first at {}",
                dataset.token,
                size.unwrap_or(Xyz::all(0)),
                Xyz::from(dataset.offset)
            );
            self.missed = Some(ChoiceError::Outside { known });
            return Ok(None);
        }
        // Slices with negative numbers cannot be requested.
        let numbered = 0.max(shift).unsigned_abs()..rulers[axis].tiles().saturating_add_signed(shift);
        let numbers = self.wanted.slices.within(&numbered)?.lowered(shift);
        let bounds = tiles[axis].bounds().unwrap_or(0..0);
        let slices = numbers.cut(&bounds);
        if slices.is_empty() {
            let last = numbered.end.saturating_sub(1);
            let known = if numbered.is_empty() {
                format!("those in {plane} all have negative numbers, because of the dataset's offset")
            } else {
                format!("the slices in {plane} are {} to {last}", numbered.start)
            };
            self.missed = Some(ChoiceError::Slice { known });
            return Ok(None);
        }
        tiles[axis] = slices;
        Ok(Some(tiles))
    }

    /// The selected voxels.
    fn within(
        &self,
        dataset: &DatasetDescription,
        members: &[&ChannelDescription],
    ) -> Result<Xyz<Range<u64>>, ChoiceError> {
        let Some(extent) = &self.wanted.within else { return Ok(Xyz::all(()).map(|()| 0..u64::MAX)) };
        let counted = extent.level().unwrap_or(0);
        let level = u8::try_from(counted).ok().and_then(|level| members.first()?.level(level));
        let factor = level.map_or_else(
            || Xyz::new(1 << counted.min(62), 1 << counted.min(62), 1),
            |level| Xyz::from(level.factor),
        );
        let voxel = members.first().and_then(|channel| channel.nanometres());
        let token = || dataset.token.clone();
        let found = extent.voxels(Xyz::from(dataset.offset), factor, voxel);
        found.map_err(|reason| ChoiceError::Size { token: token(), reason })
    }

    fn source(&mut self, level: &LevelDescription, time: u64) -> usize {
        let source = &level.source;
        let times = time / source.times.max(1);
        let sources = &mut self.chosen.sources;
        *self.places.entry((source.id.clone(), times)).or_insert_with(|| {
            sources.push(Source {
                id: source.id.clone(),
                times,
                chunk: source.full_chunk(),
                size: source.full_size(),
                bytes: source.bytes,
                access: source.known_access(),
            });
            sources.len() - 1
        })
    }
}

/// The tiles of a picture of several channels: along each axis those of the longest channel. Also the factor
/// of the first.
fn common(
    levels: &[(&ChannelDescription, &LevelDescription)],
    plane: Plane,
) -> Option<(Xyz<Ruler>, Xyz<u64>)> {
    let mut all = levels.iter().filter_map(|(channel, level)| channel.rulers(level, plane));
    let first = all.next()?;
    let longer = |a: Ruler, b: Ruler| if b.tiles() > a.tiles() { b } else { a };
    let rulers = all.fold(first, |rulers, other| rulers.zip(other, longer));
    Some((rulers, Xyz::from(levels.first()?.1.factor)))
}
