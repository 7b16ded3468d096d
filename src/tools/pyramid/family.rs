//! Families: the levels of a channel that are computed from the same stored level.
//!
//! A missing level is computed from the nearest finer stored level; each stored level that is
//! needed for this has a family. When re-chunking, every stored level has one, since it is copied
//! too.

use std::sync::Arc;

use voltile_base::geometry::{Level, LevelView, Scaling, Xyz};
use voltile_base::paint::Kind;
use voltile_hdf5::volume::{Samples, Volume};

use super::WantedChannel;
use super::grid::SumRule;
use super::tree::{EDGE, Tree, TreeNode};
use crate::catalog::{Channel, StoredLevel};
use crate::layout::inventory::LevelRecord;

/// A level to be written: computed from the stored level, or a copy of it.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// Its height above the stored level: 0 is a copy.
    pub height: u32,
    pub record: LevelRecord,
}

/// A stored level, and the levels that are computed from it.
#[derive(Debug, Clone)]
pub(super) struct Family {
    /// The index of the channel's record among the work's records.
    pub record: usize,
    pub channel: Arc<Channel>,
    /// The index of the stored level among the channel's stored levels.
    pub base: usize,
    pub targets: Vec<Target>,
    pub tree: Tree,
    pub rule: SumRule,
    pub pieces: Vec<Piece>,
}

/// Units that are computed and stored together.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    pub units: Vec<Unit>,
    /// The number of voxels to read for all units.
    pub voxels: u64,
}

/// A node of the tree, of one volume at one time point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unit {
    pub time: u64,
    /// The index of the volume: 0, or 0 to 2 for RGB.
    pub component: usize,
    pub node: TreeNode,
}

/// Units are combined into pieces of at most this many voxels; a larger unit is a piece by itself.
const COMBINED_VOXELS: u64 = 1 << 22;

/// The families of a channel; `record` is the index of its record. The levels are written to the
/// HDF5 group `group`. With `copies_stored`, stored levels are targets too.
pub(super) fn families(
    wanted: &WantedChannel,
    copies_stored: bool,
    group: &str,
    record: usize,
) -> Vec<Family> {
    let WantedChannel {
        channel, scaling, ..
    } = wanted;
    let views: Vec<LevelView> = Level::all()
        .map_while(|level| channel.derived_view(level, *scaling))
        .collect();
    let halves_z = *scaling == Scaling::Isotropic;
    let rule = if channel.kind == Kind::Labels {
        SumRule::First
    } else {
        SumRule::Mean
    };
    let mut families = Vec::new();
    for (base, stored) in channel.levels().iter().enumerate() {
        let mut targets = Vec::new();
        for view in &views {
            if view.stored == base && (copies_stored || channel.lacks(view)) {
                targets.push(target(view, stored, group));
            }
        }
        let Some(highest) = targets.iter().map(|target| target.height).max() else {
            continue;
        };
        let mut family = Family {
            record,
            channel: Arc::clone(channel),
            base,
            targets,
            tree: Tree::new(stored.shape.size, halves_z, highest),
            rule,
            pieces: Vec::new(),
        };
        family.pieces = family.combine_units();
        families.push(family);
    }
    families
}

fn target(view: &LevelView, base: &StoredLevel, group: &str) -> Target {
    let height = view.level.number().saturating_sub(base.level().number());
    let record = LevelRecord {
        level: view.level.number(),
        factor: view.factor.into(),
        size: view.size.into(),
        path: format!("/{group}/s{}", view.level.number()),
        made: !view.is_stored(),
    };
    Target {
        height: u32::from(height),
        record,
    }
}

impl Family {
    pub fn stored(&self) -> &StoredLevel {
        &self.channel.levels()[self.base]
    }

    pub fn volumes(&self) -> &[Arc<dyn Volume>] {
        &self.stored().volumes
    }

    /// Empty samples of the stored level's voxel type.
    pub fn empty_samples(&self) -> Samples {
        self.stored().shape.voxel.samples()
    }

    /// Empty samples of a target's voxel type.
    pub fn empty_samples_of(&self, target: &Target) -> Samples {
        let samples = self.empty_samples();
        if target.height == 0 {
            samples
        } else {
            samples.of_means()
        }
    }

    pub fn target(&self, height: u32) -> Option<&Target> {
        self.targets.iter().find(|target| target.height == height)
    }

    /// The chunk shape of the level at a height: at most the level's extent.
    pub fn chunk(&self, height: u32) -> Xyz<u64> {
        self.tree.size_at(height).map(|size| size.min(EDGE))
    }

    /// The time points that exist.
    pub fn times(&self) -> impl Iterator<Item = u64> + '_ {
        let shape = &self.stored().shape;
        (0..self.channel.times).filter(|time| shape.has(*time))
    }

    /// Combines successive units into pieces.
    fn combine_units(&self) -> Vec<Piece> {
        let nodes = self.tree.pieces();
        let mut pieces: Vec<Piece> = Vec::new();
        for time in self.times() {
            for component in 0..self.volumes().len() {
                for node in &nodes {
                    let unit = Unit {
                        time,
                        component,
                        node: *node,
                    };
                    let voxels = self.tree.region(node).voxels();
                    match pieces.last_mut() {
                        Some(piece) if piece.voxels + voxels <= COMBINED_VOXELS => {
                            piece.units.push(unit);
                            piece.voxels += voxels;
                        }
                        _ => pieces.push(Piece {
                            units: vec![unit],
                            voxels,
                        }),
                    }
                }
            }
        }
        pieces
    }
}
