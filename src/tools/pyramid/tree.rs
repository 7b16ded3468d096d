//! The tree of a volume: a quadtree of the chunks of its levels, or an octree if z is halved too.
//!
//! A node of height k is one chunk of the level downsampled by 2^k; its children are the four
//! (eight) chunks that it is computed from. Voxels are read at nodes of one height, and pieces end
//! at nodes of another; each is the largest within a budget of voxels. Nodes are visited depth
//! first, so that stored chunks that overlap several nodes are still in the chunk cache.

use voltile_base::geometry::{Region, Xyz};

/// The edge of a chunk, in voxels of its level.
pub(super) const EDGE: u64 = 64;
/// The maximum number of stored voxels that are read at once.
const MAX_READ: u64 = 1 << 22;
/// The maximum number of stored voxels under a node at which a piece ends.
const MAX_PIECE: u64 = 1 << 24;

/// The tree of one volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tree {
    /// The volume's extent.
    pub size: Xyz<u64>,
    /// Whether z is halved like x and y.
    pub halves_z: bool,
    /// The number of levels computed; their heights are 1 to this number.
    pub levels: u32,
    /// The height of nodes at which voxels are read.
    pub read_height: u32,
    /// The height of nodes at which pieces end.
    pub piece_height: u32,
    /// The height of the roots.
    pub top_height: u32,
}

/// A chunk of a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TreeNode {
    /// The level is downsampled by 2 to the power of this.
    pub height: u32,
    /// The chunk's index along each axis.
    pub at: Xyz<u64>,
}

impl Tree {
    pub fn new(size: Xyz<u64>, halves_z: bool, levels: u32) -> Self {
        let mut tree = Self {
            size,
            halves_z,
            levels,
            read_height: 0,
            piece_height: 0,
            top_height: 0,
        };
        tree.read_height = tree.highest(MAX_READ);
        tree.piece_height = tree.highest(MAX_PIECE);
        tree.top_height = tree.piece_height.max(levels);
        tree
    }

    /// The greatest height whose nodes cover at most `most` stored voxels. It stops at the height
    /// of which one node spans the volume (only in x and y if z is not halved).
    fn highest(&self, most: u64) -> u32 {
        let mut node = TreeNode {
            height: 0,
            at: Xyz::all(0),
        };
        loop {
            let Xyz { x, y, z } = self.region(&node).size;
            let covers_all =
                x == self.size.x && y == self.size.y && (z == self.size.z || !self.halves_z);
            let height = node.height;
            node.height += 1;
            if covers_all || self.region(&node).voxels() > most {
                return height;
            }
        }
    }

    /// The downsample factor of a level.
    pub fn step(&self, height: u32) -> Xyz<u64> {
        let step = 1_u64.checked_shl(height).unwrap_or(u64::MAX);
        Xyz::new(step, step, if self.halves_z { step } else { 1 })
    }

    /// The extent of a level.
    pub fn size_at(&self, height: u32) -> Xyz<u64> {
        self.size.zip(self.step(height), u64::div_ceil)
    }

    /// The box of stored voxels that a node covers.
    pub fn region(&self, node: &TreeNode) -> Region {
        let span = self.step(node.height).map(|step| step.saturating_mul(EDGE));
        let start = node.at.zip(span, u64::saturating_mul);
        let end = start
            .zip(span, u64::saturating_add)
            .zip(self.size, u64::min);
        Region::between(start, end)
    }

    /// The box of voxels of a level that a node covers.
    pub fn region_at(&self, node: &TreeNode, height: u32) -> Region {
        let region = self.region(node);
        let step = self.step(height);
        let start = region.start.zip(step, |at, step| at / step);
        let end = region.end().zip(step, u64::div_ceil);
        Region::between(start, end)
    }

    /// The number of nodes at a height, along each axis.
    fn grid(&self, height: u32) -> Xyz<u64> {
        self.size_at(height).map(|size| size.div_ceil(EDGE))
    }

    pub fn roots(&self) -> Vec<TreeNode> {
        positions(Xyz::all(0), self.grid(self.top_height))
            .map(|at| TreeNode {
                height: self.top_height,
                at,
            })
            .collect()
    }

    /// The nodes that a node is computed from.
    pub fn children(&self, node: &TreeNode) -> Vec<TreeNode> {
        let height = node.height.saturating_sub(1);
        let two = Xyz::new(2, 2, if self.halves_z { 2 } else { 1 });
        let start = node.at.zip(two, u64::saturating_mul);
        let end = start
            .zip(two, u64::saturating_add)
            .zip(self.grid(height), u64::min);
        positions(start, end)
            .map(|at| TreeNode { height, at })
            .collect()
    }

    /// The nodes at which pieces end, in the order in which their parents use them.
    pub fn pieces(&self) -> Vec<TreeNode> {
        let mut pieces = Vec::new();
        let mut stack = self.roots();
        stack.reverse();
        while let Some(node) = stack.pop() {
            if node.height <= self.piece_height {
                pieces.push(node);
            } else {
                stack.extend(self.children(&node).into_iter().rev());
            }
        }
        pieces
    }
}

/// The positions in a box, z slowest.
pub(super) fn positions(start: Xyz<u64>, end: Xyz<u64>) -> impl Iterator<Item = Xyz<u64>> {
    (start.z..end.z)
        .flat_map(move |z| (start.y..end.y).map(move |y| (z, y)))
        .flat_map(move |(z, y)| (start.x..end.x).map(move |x| Xyz::new(x, y, z)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_hold_every_voxel_once() {
        for (size, halves_z, levels) in [
            (Xyz::new(3000, 1700, 130), false, 12),
            (Xyz::new(700, 900, 600), true, 10),
            (Xyz::new(5000, 300, 1), false, 2),
            (Xyz::new(9000, 9000, 1), true, 14),
            (Xyz::new(1, 1, 1000), false, 1),
        ] {
            let tree = Tree::new(size, halves_z, levels);
            let pieces: Vec<Region> = tree.pieces().iter().map(|node| tree.region(node)).collect();
            assert_eq!(
                pieces.iter().map(Region::voxels).sum::<u64>(),
                size.volume(),
                "{tree:?}"
            );
            assert!(
                pieces.iter().all(|piece| piece.voxels() <= MAX_PIECE),
                "{tree:?}"
            );
            assert!(
                tree.read_height <= tree.piece_height
                    && tree.piece_height <= tree.top_height
                    && tree.levels <= tree.top_height
            );
        }
    }

    #[test]
    fn a_node_is_one_chunk_of_its_level_and_lies_in_the_corner_of_its_parent() {
        let tree = Tree::new(Xyz::new(1000, 800, 100), false, 5);
        let node = TreeNode {
            height: 2,
            at: Xyz::new(3, 3, 1),
        };
        let want = Region {
            start: Xyz::new(768, 768, 64),
            size: Xyz::new(232, 32, 36),
        };
        assert_eq!(tree.region(&node), want);
        let level = Region {
            start: Xyz::new(192, 192, 64),
            size: Xyz::new(58, 8, 36),
        };
        assert_eq!(tree.region_at(&node, 2), level);
        assert_eq!(
            tree.children(&node).len(),
            4 - 2,
            "only the upper half is within"
        );
        assert_eq!(
            tree.children(&node)[0],
            TreeNode {
                height: 1,
                at: Xyz::new(6, 6, 1)
            }
        );
    }
}
