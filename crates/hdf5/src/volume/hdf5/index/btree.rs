//! Reads a version-1 B-tree of chunks, a whole level at a time.
//!
//! This is the index of h5py's default format. Its nodes lie between the chunks, and the library
//! reads one after the other: over a network, each costs a round trip.
//!
//! The children of a node of level 0 are chunks, those of a higher level are nodes of the level
//! below. Each child follows its key:
//!
//! ```text
//! node  "TREE" · type (1 byte) · level (1) · number of children (2) · addresses of two siblings
//!       key 0 · address of child 0 · key 1 · address of child 1 · … · last key, without a child
//! key   stored length of a chunk (4) · its filter mask (4) · offset of its first voxel along each
//!       axis (8 each) · offset within an element, always 0 (8)
//! ```

use std::time::Instant;

use super::entry::{Entry, IndexError, ensure_few, ensure_in_time};
use super::header::ChunkTree;
use super::metadata::{Fields, IndexBlock, Metadata, unexpected};
use crate::volume::hdf5::grid::{Grid, RANK};

/// The type of nodes of chunks; that of groups is 0.
const CHUNKS: u8 = 1;
/// The maximum number of bytes that one call reads: 20,000 nodes of a volume of three axes, for a
/// million chunks.
const MAX_AT_ONCE: u64 = 64 << 20;

/// All chunks of a tree, not sorted; an error if they are not complete by `until`. Chunks outside
/// the grid are left out.
pub(super) fn entries(
    metadata: &Metadata<'_>,
    tree: &ChunkTree,
    grid: &Grid,
    until: Option<Instant>,
) -> Result<Vec<Entry>, IndexError> {
    let mut reading = TreeReading {
        metadata,
        grid,
        tree,
        level: None,
        children: Vec::new(),
        entries: Vec::new(),
    };
    // The positions of the nodes of one level.
    let mut nodes = Vec::new();
    nodes.extend(tree.root.map(|root| metadata.position(root)));
    let node_size = reading.node_size();
    let nodes_at_once = (MAX_AT_ONCE / node_size).max(1) as usize;
    while !nodes.is_empty() {
        for batch in nodes.chunks(nodes_at_once) {
            ensure_in_time(until)?;
            let ranges = batch.iter().map(|at| *at..at.saturating_add(node_size));
            for block in metadata.blocks(ranges.collect())? {
                reading.node(&block)?;
            }
        }
        nodes = reading.next_level()?;
    }
    Ok(reading.entries)
}

/// A tree that is being read.
struct TreeReading<'a> {
    metadata: &'a Metadata<'a>,
    grid: &'a Grid,
    tree: &'a ChunkTree,
    /// The level of the nodes that are read now; `None` before the root.
    level: Option<u8>,
    /// The positions of the nodes of the next level.
    children: Vec<u64>,
    entries: Vec<Entry>,
}

impl TreeReading<'_> {
    /// The maximum number of children of a node; the superblock states half of it.
    fn most_children(&self) -> u64 {
        2 * u64::from(self.metadata.superblock.chunk_tree_k)
    }

    fn key_size(&self) -> u64 {
        8 + 8 * self.tree.dimensions as u64
    }

    /// The size of every node in the file, however many children it has.
    fn node_size(&self) -> u64 {
        let address = self.metadata.superblock.address_size as u64;
        let children = self.most_children();
        8 + 2 * address + children * address + (children + 1) * self.key_size()
    }

    /// Reads one node: adds the chunks of a leaf, or the positions of another node's children.
    fn node(&mut self, block: &IndexBlock) -> Result<(), IndexError> {
        let mut fields = self.metadata.fields(block);
        let (level, count) = self.node_head(&mut fields)?;
        for _ in 0..count {
            let key = fields.part(self.key_size() as usize)?;
            let position = fields.position;
            let Some(address) = fields.address()? else {
                let expected = "the address of a child of a B-tree node";
                return Err(unexpected(position, "an undefined one", expected));
            };
            let child = self.metadata.position(address);
            if level == 0 {
                self.add_chunk(key, child)?;
            } else {
                self.children.push(child);
            }
        }
        ensure_few(self.entries.len().max(self.children.len()))
    }

    /// Reads the beginning of a node: its level, and the number of its children.
    fn node_head(&mut self, fields: &mut Fields<'_>) -> Result<(u8, u16), IndexError> {
        let position = fields.position;
        fields.signature(b"TREE", "the signature \"TREE\" of a B-tree node")?;
        let kind = fields.byte()?;
        if kind != CHUNKS {
            let expected = "1, the type of B-tree nodes of chunks,";
            return Err(unexpected(position + 4, &kind.to_string(), expected));
        }
        let level = fields.byte()?;
        if let Some(wanted) = self.level.filter(|wanted| *wanted != level) {
            let found = format!("one of level {level}");
            let expected = format!("a B-tree node of level {wanted}");
            return Err(unexpected(position + 5, &found, &expected));
        }
        self.level = Some(level);
        let count = fields.u16()?;
        let most = self.most_children();
        if u64::from(count) > most {
            let found = format!("one with {count}");
            let expected = format!("a B-tree node with at most {most} children");
            return Err(unexpected(position + 6, &found, &expected));
        }
        // The addresses of the siblings.
        fields.address()?;
        fields.address()?;
        Ok((level, count))
    }

    /// Adds the chunk with this key, which is stored at `address`, unless it lies outside the grid.
    fn add_chunk(&mut self, mut key: Fields<'_>, address: u64) -> Result<(), IndexError> {
        let position = key.position;
        let length = key.u32()?;
        let mask = key.u32()?;
        let mut offsets = [0; RANK];
        // The number of leading axes that only the grid has. A key has one offset more than the
        // dataset has axes; the last one is not read.
        let padding = RANK - self.tree.dimensions.saturating_sub(1).min(RANK);
        for offset in &mut offsets[padding..] {
            *offset = key.number(8)?;
        }
        let at = self.grid.containing(&offsets);
        if (0..RANK).any(|axis| offsets[axis] % self.grid.chunk()[axis] != 0) {
            let found = format!("the offset {:?}", &offsets[padding..]);
            let expected = "the key of a chunk, a multiple of the chunk shape,";
            return Err(unexpected(position, &found, expected));
        }
        if self.grid.holds(&at) {
            self.entries.push(Entry {
                number: self.grid.number(&at),
                address,
                length,
                mask,
            });
        }
        Ok(())
    }

    /// Begins the next level; returns the positions of its nodes in the order of the file.
    fn next_level(&mut self) -> Result<Vec<u64>, IndexError> {
        let mut nodes = std::mem::take(&mut self.children);
        nodes.sort_unstable();
        if let Some(twice) = nodes.windows(2).find(|pair| pair[0] == pair[1]) {
            let found = "one that is the child of two nodes";
            let expected = "a B-tree node with one parent";
            return Err(unexpected(twice[0], found, expected));
        }
        // Each level must be one lower, and the root's is at most 255: so reading ends even if a
        // node is its own descendant.
        self.level = self.level.and_then(|level| level.checked_sub(1));
        Ok(nodes)
    }
}

#[cfg(test)]
mod tests;
