//! A work: all selected tiles, in order, and its forecast.

use std::ops::Range;

use super::choose::{ChoiceError, Chosen, choose};
use super::family::{Family, Source, Subject};
use super::forecast::{Forecast, forecast, read_by};
use super::group::{Group, group};
use super::numbers::Runs;
use super::order;
use super::selection::Selection;
use crate::description::DatasetDescription;
use crate::request::TileRequest;
use crate::shard::{Shard, Step};
use crate::tile::Fingerprint;
use crate::units::bytes;
use crate::volume::Access;

/// The share of the chunk cache that is relied on; others use it too, and chunks being decoded take space.
const SHARE: (u64, u64) = (3, 4);

/// Tiles, and the order in which they are drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Work {
    subjects: Vec<Subject>,
    families: Vec<Family>,
    sources: Vec<Source>,
    groups: Vec<Group>,
    remarks: Vec<String>,
}

impl Work {
    /// The selected part of the datasets, with a chunk cache of `chunks` bytes.
    pub fn new(
        wanted: &Selection,
        datasets: &[DatasetDescription],
        chunks: u64,
    ) -> Result<Self, ChoiceError> {
        let Chosen { subjects, families, sources, remarks } = choose(wanted, datasets)?;
        let (share, whole) = SHARE;
        let groups = group(&families, &sources, chunks / whole * share);
        let mut work = Self { subjects, families, sources, groups, remarks };
        work.add_remarks(chunks);
        Ok(work)
    }

    /// The number of tiles; saturates.
    pub fn total(&self) -> u64 {
        self.families.iter().map(Family::count).fold(0, u64::saturating_add)
    }

    /// All tiles in order, except the first `skip`.
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

    /// The tiles with these numbers, in order.
    pub fn numbered(&self, numbers: Runs) -> impl Iterator<Item = (u64, TileRequest)> + Send + '_ {
        numbers.into_iter().flat_map(|run| (run.start..run.end).zip(self.tiles(run.start)))
    }

    /// The numbers of a shard's tiles: whole blocks.
    pub fn part(&self, shard: &Shard) -> Range<u64> {
        let steps: Vec<Step> =
            self.groups.iter().flat_map(|group| order::steps(group, &self.families)).collect();
        let tiles = |steps: &[Step]| steps.iter().map(|step| step.weight).fold(0, u64::saturating_add);
        let part = shard.steps(&steps);
        let before = tiles(&steps[..part.start]);
        before..before.saturating_add(tiles(&steps[part]))
    }

    /// Tiles of each family at a few places: consecutive slices, the first of which finds nothing decoded.
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

    /// What the user should know before it starts: what is left out, and what costs more than necessary.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Distinguishes it from any other work, including one on files that have changed.
    pub fn digest(&self) -> Fingerprint {
        // Marks on rulers are floating point numbers, which are formatted exactly.
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

    /// Why a family's boxes are decoded repeatedly, and how to fix that.
    fn at_a_loss(&self, group: &Group, family: &Family, chunks: u64) -> String {
        let Subject { token, channels } = &self.subjects[family.subject];
        let what = format!("{token}/{channels}, level {} in {}", family.level.number(), family.plane);
        if family.sources.iter().any(|place| self.sources[*place].access == Access::Uncached) {
            return format!("{what}: its source is decoded again for every tile; `voltile inspect` says why");
        }
        let lone = read_by(group, &self.families, &self.sources);
        let once = forecast(&[], std::slice::from_ref(family), &self.sources).once;
        let (share, whole) = SHARE;
        format!(
            "{what}: the chunks of one tile take {}, more than the usable share of the {} of cache.chunks; they are decoded \
             {:.1} times. `voltile pyramid` stores such levels; or raise cache.chunks to {}",
            bytes(group.bytes),
            bytes(chunks),
            lone.inflated as f64 / once.inflated.max(1) as f64,
            bytes(group.bytes / share * whole)
        )
    }
}

/// A family, and tiles of it at a few places.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The number of tiles of the family.
    pub tiles: u64,
    /// For each place one tile, and the next one if there is one.
    pub places: Vec<Vec<TileRequest>>,
}
