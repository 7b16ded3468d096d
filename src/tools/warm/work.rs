//! A work: all selected tiles, in order.

use std::collections::BTreeSet;
use std::ops::Range;

use super::boxes::{Boxes, boxes};
use super::choose::{ChoiceError, Chosen, choose};
use super::family::{Family, Source, Subject};
use super::group::{Group, group};
use super::order;
use super::selection::Selection;
use crate::base::description::DatasetDescription;
use crate::base::request::TileRequest;
use crate::base::shard::{Shard, Step};
use crate::base::units::bytes;
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

    /// The blocks of tiles, in order.
    pub(super) fn steps(&self) -> Vec<Step> {
        self.groups.iter().flat_map(|group| order::steps(group, &self.families)).collect()
    }

    /// The numbers of the tiles of a shard, in whole blocks; without one, of all tiles.
    pub fn part(&self, shard: Option<&Shard>) -> Range<u64> {
        let Some(shard) = shard else { return 0..self.total() };
        let steps = self.steps();
        let tiles = |steps: &[Step]| steps.iter().map(|step| step.weight).fold(0, u64::saturating_add);
        let part = shard.steps(&steps);
        let before = tiles(&steps[..part.start]);
        before..before.saturating_add(tiles(&steps[part]))
    }

    /// Tiles at a few places, spread over all of them: at each place one, and the next slice if there is one.
    pub fn samples(&self, places: u64) -> Vec<TileRequest> {
        let (total, places) = (self.total(), places.min(self.total()));
        let at = |place: u64| {
            let mut number = (total as f64 * ((place as f64 + 0.5) / places as f64)) as u64;
            let holds = |family: &&Family| {
                let is_before = number < family.count();
                number -= if is_before { 0 } else { family.count() };
                is_before
            };
            let family = self.families.iter().find(holds)?;
            family.samples(&self.subjects[family.subject], place)
        };
        (0..places).filter_map(at).flatten().collect()
    }

    /// The stored boxes that the tiles are read from.
    pub fn boxes(&self) -> Boxes {
        boxes(&self.families, &self.sources)
    }

    /// What the user should know before it starts: what is left out, and what costs more than necessary.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    fn add_remarks(&mut self, chunks: u64) {
        let mut remarks = std::mem::take(&mut self.remarks);
        for group in self.groups.iter().filter(|group| !group.fits) {
            remarks.extend(
                group.families.iter().map(|place| self.at_a_loss(group, &self.families[*place], chunks)),
            );
        }
        let mut seen = BTreeSet::new();
        remarks.retain(|remark| seen.insert(remark.clone()));
        self.remarks = remarks;
    }

    /// Why a family's boxes are decoded repeatedly, and how to fix that.
    fn at_a_loss(&self, group: &Group, family: &Family, chunks: u64) -> String {
        let Subject { token, channels } = &self.subjects[family.subject];
        let what = format!("{token}/{channels}, level {} in {}", family.level.number(), family.plane);
        if family.sources.iter().any(|place| self.sources[*place].access == Access::Uncached) {
            return format!("{what}: its source is decoded again for every tile; `voltile inspect` says why");
        }
        let (share, whole) = SHARE;
        format!(
            "{what}: the chunks of one tile take {}, more than the usable share of the {} of cache.chunks; they are decoded \
             again for every tile. `voltile pyramid` stores such levels; or raise cache.chunks to {}",
            bytes(group.bytes),
            bytes(chunks),
            bytes(group.bytes / share * whole)
        )
    }
}
