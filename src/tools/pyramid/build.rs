//! Builds nodes from their children: reads voxels at the tree's read nodes, sums them, and passes
//! every complete chunk to a sink.
//!
//! The same walk makes pieces (from voxels) and the levels above pieces (from the sums stored in
//! the pieces).

use voltile_base::geometry::{Region, Xyz};
use voltile_hdf5::volume::hdf5::pack;
use voltile_hdf5::volume::{ReadRequest, Samples, Voxel};

use super::PyramidError;
use super::family::{Family, Unit};
use super::grid::{self, SumGrid, SumRule};
use super::piece::{PieceRecord, RecordKind};
use super::tree::{EDGE, TreeNode, positions};

/// The sums that a node passes to its parent: of the level above the node's own, and possibly of
/// further levels, the finest first.
pub(super) type Tower<T> = Vec<SumGrid<<T as Voxel>::Sum>>;

/// Receives the records of complete chunks.
pub(super) type ChunkSink<'a> = dyn FnMut(PieceRecord) -> Result<(), PyramidError> + 'a;

/// Makes a node at which a walk ends: passes its chunks to the sink, and returns its tower.
pub(super) type LeafSource<'a, T> =
    dyn FnMut(&TreeNode, &mut ChunkSink<'_>) -> Result<Tower<T>, PyramidError> + 'a;

impl Family {
    /// Builds a node from its descendants at height `bottom`, which `leaf` provides.
    pub fn build<T: Voxel>(
        &self,
        node: &TreeNode,
        bottom: u32,
        leaf: &mut LeafSource<'_, T>,
        sink: &mut ChunkSink<'_>,
    ) -> Result<Tower<T>, PyramidError> {
        if node.height <= bottom {
            return leaf(node, sink);
        }
        let tree = &self.tree;
        // Each level of the children's towers, put together for the whole node.
        let mut joined: Tower<T> = Vec::new();
        for child in tree.children(node) {
            let tower = self.build::<T>(&child, bottom, leaf, sink)?;
            for (index, grid) in tower.iter().enumerate() {
                // The level above the children's is the node's own.
                let height = node.height + index as u32;
                let whole = tree.region_at(node, height);
                let part = tree.region_at(&child, height);
                if joined.len() == index {
                    joined.push(SumGrid::new(in_memory(whole.size)));
                }
                let within = part.start.zip(whole.start, u64::saturating_sub);
                joined[index].place(grid, in_memory(within));
            }
        }
        if joined.is_empty() {
            return Ok(joined);
        }
        let own = joined.remove(0);
        self.hand_over_means::<T>(node, node.height, &own, sink)?;
        if joined.is_empty() && node.height < tree.levels {
            joined.push(self.next_coarser::<T>(&own));
        }
        Ok(joined)
    }

    /// Builds a node from the voxels of the volume; `block` is memory to read them into.
    pub fn read<T: Voxel>(
        &self,
        unit: &Unit,
        node: &TreeNode,
        block: &mut Samples,
        sink: &mut ChunkSink<'_>,
    ) -> Result<Tower<T>, PyramidError> {
        let tree = &self.tree;
        let rule = self.rule;
        let region = tree.region(node);
        let Some(volume) = self.volumes().get(unit.component) else {
            return Ok(Vec::new());
        };
        volume.read(&ReadRequest::new(unit.time, region), block)?;
        let voxels = T::slice(block).unwrap_or_default();
        let size = in_memory(region.size);
        let chunk = in_memory(self.chunk(0));
        self.hand_over(&region, 0, sink, |_, within| {
            grid::copy(voxels, size, within, chunk)
        })?;
        // Every level of floats is summed from the voxels themselves, in the renderer's order, as
        // long as all voxels of a sum are in memory. In the last such level, log2(EDGE) above the
        // node's, one sum covers the node.
        let sums_voxels = T::IS_FLOAT && rule == SumRule::Mean;
        let last = node.height + if sums_voxels { EDGE.ilog2() } else { 1 };
        let mut tower: Tower<T> = Vec::new();
        let mut finer: Option<SumGrid<T::Sum>> = None;
        for height in 1..=last.min(tree.levels) {
            let grid = match finer.take() {
                Some(finer) if !sums_voxels => self.next_coarser::<T>(&finer),
                _ => grid::fold(voxels, size, in_memory(tree.step(height)), rule, T::widen),
            };
            if height <= node.height {
                self.hand_over_means::<T>(node, height, &grid, sink)?;
                finer = Some(grid);
            } else {
                tower.push(grid);
            }
        }
        Ok(tower)
    }

    /// The sums of the next coarser level.
    fn next_coarser<T: Voxel>(&self, grid: &SumGrid<T::Sum>) -> SumGrid<T::Sum> {
        grid::fold(
            &grid.sums,
            grid.size,
            in_memory(self.tree.step(1)),
            self.rule,
            |sum| sum,
        )
    }

    /// Computes means from a node's sums for a level, and passes the level's chunks to the sink, if
    /// the level is a target.
    fn hand_over_means<T: Voxel>(
        &self,
        node: &TreeNode,
        height: u32,
        grid: &SumGrid<T::Sum>,
        sink: &mut ChunkSink<'_>,
    ) -> Result<(), PyramidError> {
        let region = self.tree.region_at(node, height);
        let size = self.tree.size;
        let step = self.tree.step(height);
        let chunk = in_memory(self.chunk(height));
        self.hand_over(&region, height, sink, |first, within| {
            let counts = match self.rule {
                SumRule::Mean => Xyz::new(
                    grid::counts(first.x, chunk.x, step.x, size.x),
                    grid::counts(first.y, chunk.y, step.y, size.y),
                    grid::counts(first.z, chunk.z, step.z, size.z),
                ),
                // Each sum is of one voxel.
                SumRule::First => chunk.map(|length| vec![1; length]),
            };
            grid::means::<T>(grid, within, chunk, &counts)
        })
    }

    /// Compresses the chunks of a region of a level and passes them to the sink, if the level is a
    /// target. Chunks of zeros are left out. `make_chunk` makes a chunk, given the position of its
    /// first voxel in the level, and within the region.
    fn hand_over(
        &self,
        region: &Region,
        height: u32,
        sink: &mut ChunkSink<'_>,
        make_chunk: impl Fn(Xyz<u64>, Xyz<usize>) -> Samples,
    ) -> Result<(), PyramidError> {
        if self.target(height).is_none() {
            return Ok(());
        }
        // Regions of nodes are aligned to chunks.
        let start = region.start.map(|at| at / EDGE);
        let end = region.end().map(|at| at.div_ceil(EDGE));
        for at in positions(start, end) {
            let first = at.map(|at| at.saturating_mul(EDGE));
            let within = in_memory(first.zip(region.start, u64::saturating_sub));
            if let Some(packed) = pack(&make_chunk(first, within))? {
                sink(PieceRecord {
                    kind: RecordKind::Chunk,
                    height,
                    at,
                    packed,
                })?;
            }
        }
        Ok(())
    }
}

/// Converts extents, or an offset, to the type that indexes memory.
fn in_memory(size: Xyz<u64>) -> Xyz<usize> {
    size.map(|extent| usize::try_from(extent).unwrap_or(usize::MAX))
}
