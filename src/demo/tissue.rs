//! The anatomy of the demo tissue: where its cells are and what lies in them.
//!
//! Every cell has a rod (short and thick: a cell body; long and thin: a neurite), and a point belongs to the cell
//! whose rod it is nearest to. All of this lives in *straight* space; `ground` bends the volume's points into it and
//! so makes every border wavy. Where the rods lie is left to `growth`, finding the cell of a point quickly to `survey`,
//! and how things look to the painters (`micrograph`, `fluorescence`).

use rayon::prelude::*;

use super::cell::{Cell, Kind, Mitochondrion};
use super::growth::grow_cells;
use super::vector::Vector;

/// The tissue of one volume.
pub(super) struct Tissue {
    pub cells: Vec<Cell>,
    pub synapses: Vec<Synapse>,
}

/// The place where one cell hands vesicles to another.
pub(super) struct Synapse {
    pub sender: usize,
    pub receiver: usize,
    /// On the border of the two.
    pub point: Vector,
}

impl Tissue {
    /// Grows the tissue that fills `[z, y, x]` voxels.
    pub fn grow(extents: [usize; 3]) -> Self {
        let mut tissue = Self { cells: grow_cells(extents), synapses: Vec::new() };
        let near = |index: usize, cell: &Cell| {
            (index, tissue.shortlist(0..tissue.cells.len(), cell.rod.center(), 190.0))
        };
        let neighbours: Vec<_> =
            tissue.cells.par_iter().enumerate().map(|(index, cell)| near(index, cell)).collect();
        let found = neighbours
            .par_iter()
            .map(|(index, near)| (tissue.mitochondria_in(*index, near), tissue.synapse_from(*index, near)));
        let (mitochondria, synapses): (Vec<_>, Vec<_>) = found.unzip();
        tissue.synapses = synapses.into_iter().flatten().collect();
        for (cell, mitochondria) in tissue.cells.iter_mut().zip(mitochondria) {
            cell.mitochondria = mitochondria;
        }
        tissue
    }

    /// Of the cells numbered `among`, those that can be one of the nearest three anywhere within `reach` of `center`;
    /// the nearest to the center come first.
    pub fn shortlist(&self, among: impl Iterator<Item = usize>, center: Vector, reach: f32) -> Vec<usize> {
        let mut smallest = Smallest([f32::INFINITY; 3]);
        let mut near: Vec<_> = among
            .filter_map(|index| self.cells.get(index).map(|cell| (cell.rod.distance(center), index)))
            .filter(|&(distance, _)| distance <= smallest.with(distance) + 2.0 * reach)
            .collect();
        near.retain(|&(distance, _)| distance <= smallest.third() + 2.0 * reach);
        near.sort_by(|first, second| first.0.total_cmp(&second.0));
        near.into_iter().map(|(_, index)| index).collect()
    }

    /// The cell that owns `point`, of those numbered `among`.
    fn owner(&self, among: &[usize], point: Vector) -> Option<usize> {
        let distance =
            |&index: &usize| self.cells.get(index).map_or(f32::INFINITY, |cell| cell.rod.distance(point));
        among.iter().copied().min_by(|first, second| distance(first).total_cmp(&distance(second)))
    }

    /// How far at least `point` is from any cell of `among` but `own`; negative outside `own`.
    fn room(&self, among: &[usize], own: usize, point: Vector) -> f32 {
        let distance =
            |index: usize| self.cells.get(index).map_or(f32::INFINITY, |cell| cell.rod.distance(point));
        let others = among.iter().filter(|&&index| index != own).map(|&index| distance(index));
        (others.fold(f32::INFINITY, f32::min) - distance(own)) * 0.5
    }

    /// The mitochondria of a cell: of some tries, those that fit between its membrane and its nucleus.
    fn mitochondria_in(&self, index: usize, near: &[usize]) -> Vec<Mitochondrion> {
        let Some(cell) = self.cells.get(index) else { return Vec::new() };
        let (tries, most) = match cell.kind {
            Kind::Body => (90, 12),
            Kind::Neurite => (16, 2),
            Kind::Sheathed => (12, 4),
        };
        let free = |point, need| self.room(near, index, point) > need && cell.beyond_nucleus(point) > need;
        let fits =
            |it: &Mitochondrion| it.rod.stations().iter().all(|&point| free(point, it.rod.radius + 5.0));
        (0..tries).map(|number| Mitochondrion::propose(cell, number)).filter(fits).take(most).collect()
    }

    /// The synapse that a cell makes, if it makes one: found by walking from its middle out to the next cell.
    fn synapse_from(&self, sender: usize, near: &[usize]) -> Option<Synapse> {
        const STEP: f32 = 2.0;
        const STEPS: u8 = 60;
        let cell =
            self.cells.get(sender).filter(|cell| cell.kind == Kind::Neurite && cell.character < 0.7)?;
        let way = (cell.frame.across + cell.frame.aside * (cell.character * 6.0 - 2.0)).unit();
        let (point, receiver) = (0..STEPS)
            .map(|step| cell.rod.center() + way * (f32::from(step) * STEP))
            .filter_map(|point| Some((point, self.owner(near, point)?)))
            .find(|&(_, owner)| owner != sender)?;
        let sheathed = self.cells.get(receiver)?.kind == Kind::Sheathed;
        (!sheathed).then_some(Synapse { sender, receiver, point })
    }
}

impl Synapse {
    /// How far from its point a synapse is dark, and how far its vesicles are scattered.
    pub const CONTACT: f32 = 42.0;
    pub const CLOUD: f32 = 90.0;
}

/// The smallest three of the distances seen, in order.
struct Smallest([f32; 3]);

impl Smallest {
    /// The third smallest distance, once `distance` is seen too.
    fn with(&mut self, distance: f32) -> f32 {
        let [first, second, third] = self.0;
        self.0 = match distance {
            _ if distance < first => [distance, first, second],
            _ if distance < second => [first, distance, second],
            _ => [first, second, third.min(distance)],
        };
        self.third()
    }

    fn third(&self) -> f32 {
        self.0[2]
    }
}
