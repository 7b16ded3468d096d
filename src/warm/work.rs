//! A work: everything that was chosen, in the order in which it is done, and what it will take.

use super::choose::{ChoiceError, Chosen, choose};
use super::family::{Family, Source, Subject};
use super::forecast::{Forecast, forecast, read_by};
use super::group::{Group, group};
use super::order;
use super::selection::Selection;
use super::served::{AccessServed, Dataset};
use crate::request::TileRequest;
use crate::tile::Fingerprint;

/// The share of a cache of decoded chunks that is counted on; others use it too, and chunks on their way take room.
const SHARE: (u64, u64) = (3, 4);

/// Tiles, and the order in which they are made.
#[derive(Debug, Clone, PartialEq)]
pub struct Work {
    subjects: Vec<Subject>,
    families: Vec<Family>,
    sources: Vec<Source>,
    groups: Vec<Group>,
    remarks: Vec<String>,
}

impl Work {
    /// What is wanted of the datasets, where `chunks` bytes of decoded chunks are kept.
    pub fn new(wanted: &Selection, datasets: &[Dataset], chunks: u64) -> Result<Self, ChoiceError> {
        let Chosen { subjects, families, sources, remarks } = choose(wanted, datasets)?;
        let (share, whole) = SHARE;
        let groups = group(&families, &sources, chunks / whole * share);
        let mut work = Self { subjects, families, sources, groups, remarks };
        work.add_remarks(chunks);
        Ok(work)
    }

    /// How many tiles there are; saturates.
    pub fn total(&self) -> u64 {
        self.families.iter().map(Family::count).fold(0, u64::saturating_add)
    }

    /// All tiles but the first `skip`, in order.
    pub fn tiles(&self, skip: u64) -> impl Iterator<Item = TileRequest> + Send + '_ {
        let mut left = skip;
        self.groups.iter().flat_map(move |group| {
            let count = group.families.iter().map(|place| self.families[*place].count());
            let count = count.fold(0, u64::saturating_add);
            let skipped = left.min(count);
            left -= skipped;
            let tiles = (skipped < count).then(|| order::tiles(group, &self.families, skipped));
            tiles.into_iter().flatten().map(|tile| {
                let family = &self.families[tile.family];
                family.request(&self.subjects[family.subject], &tile)
            })
        })
    }

    /// The tiles of each family in a few places: neighbours behind each other, the first of which finds nothing decoded.
    pub fn samples(&self, places: u64) -> Vec<Sample> {
        let of = |family: &Family| family.samples(&self.subjects[family.subject], places);
        self.families.iter().map(|family| Sample { tiles: family.count(), places: of(family) }).collect()
    }

    /// The first tile of every subject.
    pub fn firsts(&self) -> impl Iterator<Item = TileRequest> + '_ {
        self.subjects.iter().enumerate().filter_map(|(place, subject)| {
            let family = self.families.iter().find(|family| family.subject == place)?;
            family.samples(subject, 1).into_iter().flatten().next()
        })
    }

    /// What it will read.
    pub fn forecast(&self) -> Forecast {
        forecast(&self.groups, &self.families, &self.sources)
    }

    /// What people should know before it begins: what is left out, and what costs more than it need.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Tells it from any other work, also from one on files that have changed.
    pub fn digest(&self) -> Fingerprint {
        // Marks on rulers are floating point numbers, which are shown exactly.
        Fingerprint::of(&format!("{:?}", (&self.subjects, &self.families, &self.sources, &self.groups)))
    }

    fn add_remarks(&mut self, chunks: u64) {
        let mut remarks = std::mem::take(&mut self.remarks);
        for group in self.groups.iter().filter(|group| !group.fits) {
            remarks.extend(
                group.families.iter().map(|place| self.at_a_loss(group, &self.families[*place], chunks)),
            );
        }
        let mut told = std::collections::BTreeSet::new();
        remarks.retain(|remark| told.insert(remark.clone()));
        self.remarks = remarks;
    }

    /// Why a family is drawn at a loss, and what would mend it.
    fn at_a_loss(&self, group: &Group, family: &Family, chunks: u64) -> String {
        let Subject { token, channels } = &self.subjects[family.subject];
        let what = format!("{token}/{channels}, level {} in {}", family.level.number(), family.plane);
        if family.sources.iter().any(|place| self.sources[*place].access == AccessServed::Anew) {
            return format!(
                "{what}: what it is made of is decoded anew for every tile; `voltile inspect` says why"
            );
        }
        let lone = read_by(group, &self.families, &self.sources);
        let once = forecast(&[], std::slice::from_ref(family), &self.sources).once;
        let (share, whole) = SHARE;
        format!(
            "{what}: the chunks of one tile take {}, more than can be counted on of the {} that are kept; they are decoded \
             {:.1} times. `voltile pyramid` stores such levels; or raise cache.chunks to {}",
            bytes(group.bytes),
            bytes(chunks),
            lone.inflated as f64 / once.inflated.max(1) as f64,
            bytes(group.bytes / share * whole)
        )
    }
}

/// A family, and tiles of it in a few places.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// How many tiles the family has.
    pub tiles: u64,
    /// For each place one tile, and the one behind it where there is one.
    pub places: Vec<Vec<TileRequest>>,
}

/// A number of bytes, for people.
pub(super) fn bytes(count: u64) -> String {
    bytesize::ByteSize::b(count).display().iec().to_string()
}
