//! The chunk grid of a dataset: which chunks a box intersects, and which part of the box lies in
//! each.
//!
//! Pure arithmetic on positions of five numbers, slowest axis first. Datasets of lower rank are
//! padded with leading axes of extent 1. Data that is not chunked counts as one chunk.

/// The highest supported rank.
pub(super) const RANK: usize = 5;

/// One number per axis, slowest first.
pub(super) type Position = [u64; RANK];

/// Pads to [`RANK`] axes: the last axes have the values `given`, the axes before them `before`.
pub(super) fn padded<T: Copy>(given: &[T], before: T) -> [T; RANK] {
    let mut all = [before; RANK];
    for (place, value) in all.iter_mut().rev().zip(given.iter().rev()) {
        *place = *value;
    }
    all
}

/// The product of extents; saturates.
pub(super) fn product(extents: &[u64]) -> u64 {
    extents
        .iter()
        .fold(1, |product: u64, extent| product.saturating_mul(*extent))
}

/// The index of a position in a dense array of this shape; saturates.
pub(super) fn linear(shape: &Position, position: &Position) -> u64 {
    shape.iter().zip(position).fold(0, |index, (extent, at)| {
        index.saturating_mul(*extent).saturating_add(*at)
    })
}

/// The position with this index in a dense array of this shape, the inverse of [`linear`].
fn unravelled(shape: &Position, index: u64) -> Position {
    let mut rest = index;
    let mut position = [0; RANK];
    for axis in (0..RANK).rev() {
        let extent = shape[axis].max(1);
        position[axis] = rest % extent;
        rest /= extent;
    }
    position
}

/// A non-empty box of a dataset, in stored axis order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StoredBox {
    /// The first voxel.
    pub start: Position,
    /// The number of voxels along each axis.
    pub count: Position,
}

impl StoredBox {
    /// The last voxel (inclusive).
    pub fn last(&self) -> Position {
        std::array::from_fn(|axis| self.start[axis] + self.count[axis].saturating_sub(1))
    }
}

/// Equal blocks at equal distances along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stripes {
    /// The first position of the first block.
    pub start: u64,
    /// The distance between the first positions of adjacent blocks.
    pub stride: u64,
    /// The number of blocks; `u64::MAX` if unlimited.
    pub count: u64,
    /// The length of a block; `u64::MAX` if unlimited.
    pub block: u64,
}

impl Stripes {
    /// All positions of an axis.
    pub const WHOLE: Stripes = Stripes {
        start: 0,
        stride: 1,
        count: 1,
        block: u64::MAX,
    };

    /// The same positions, as one block if there are several without gaps between them.
    fn joined(self) -> Self {
        let stride = self.stride.max(1);
        if self.block < stride {
            return Self { stride, ..self };
        }
        let last = stride.saturating_mul(self.count.saturating_sub(1));
        Self {
            stride,
            count: self.count.min(1),
            block: last.saturating_add(self.block),
            ..self
        }
    }

    /// The blocks within the range of `length` positions from `first`, clipped to it: the first
    /// position and the length of each. At most the first `most` blocks.
    ///
    /// Example: blocks of 2 at 0, 5, 10, …, in the range of 6 positions from 1, give (1, 1) and
    /// (5, 2).
    pub fn within(&self, first: u64, length: u64, most: usize) -> Vec<(u64, u64)> {
        let Self {
            start,
            stride,
            count,
            block,
        } = self.joined();
        let end = first.saturating_add(length);
        // The number of blocks that end before the range.
        let last_of_first_block = start.saturating_add(block).saturating_sub(1);
        let skipped = first.saturating_sub(last_of_first_block).div_ceil(stride);
        let mut blocks = Vec::new();
        for number in skipped..count {
            let begin = start.saturating_add(number.saturating_mul(stride));
            if begin >= end || blocks.len() == most {
                break;
            }
            let clipped_begin = begin.max(first);
            let clipped_end = begin.saturating_add(block).min(end);
            if clipped_begin < clipped_end {
                blocks.push((clipped_begin, clipped_end - clipped_begin));
            }
        }
        blocks
    }
}

/// The part of a box that lies in one chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChunkPart {
    /// Its first voxel in the dataset.
    pub start: Position,
    /// Its first voxel in the chunk.
    pub within: Position,
    /// The number of voxels along each axis.
    pub count: Position,
}

impl ChunkPart {
    /// Its last voxel in the chunk (inclusive).
    fn last(&self) -> Position {
        std::array::from_fn(|axis| self.within[axis] + self.count[axis].saturating_sub(1))
    }
}

/// The shape of a dataset and of its chunks. The position of a chunk counts chunks along each axis,
/// its number counts them in stored order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grid {
    shape: Position,
    chunk: Position,
}

impl Grid {
    /// A chunk extent of 0 is treated as 1.
    pub fn new(shape: &[u64], chunk: &[u64]) -> Self {
        Self {
            shape: padded(shape, 1),
            chunk: padded(chunk, 1).map(|extent| extent.max(1)),
        }
    }

    pub fn shape(&self) -> &Position {
        &self.shape
    }

    /// The chunk shape.
    pub fn chunk(&self) -> &Position {
        &self.chunk
    }

    /// The number of voxels in a whole chunk; saturates.
    pub fn voxels(&self) -> u64 {
        product(&self.chunk)
    }

    /// The number of chunks along each axis.
    fn counts(&self) -> Position {
        std::array::from_fn(|axis| self.shape[axis].div_ceil(self.chunk[axis]))
    }

    /// The total number of chunks; saturates.
    pub fn chunks(&self) -> u64 {
        product(&self.counts())
    }

    /// The number of the chunk at this position.
    pub fn number(&self, at: &Position) -> u64 {
        linear(&self.counts(), at)
    }

    /// The position of the chunk with this number, which must be less than [`Grid::chunks`].
    pub fn numbered(&self, number: u64) -> Position {
        unravelled(&self.counts(), number)
    }

    /// The position of the chunk that contains this voxel; it may lie outside the dataset.
    pub fn containing(&self, voxel: &[u64]) -> Position {
        let voxel = padded(voxel, 0);
        std::array::from_fn(|axis| voxel[axis] / self.chunk[axis])
    }

    /// Whether a chunk lies at least partly within the dataset.
    pub fn holds(&self, at: &Position) -> bool {
        (0..RANK).all(|axis| at[axis].saturating_mul(self.chunk[axis]) < self.shape[axis])
    }

    /// The first voxel of a chunk.
    pub fn origin(&self, at: &Position) -> Position {
        std::array::from_fn(|axis| at[axis] * self.chunk[axis])
    }

    /// The extents of a chunk, cut at the end of the dataset.
    pub fn extents(&self, at: &Position) -> Position {
        let origin = self.origin(at);
        std::array::from_fn(|axis| (self.shape[axis] - origin[axis]).min(self.chunk[axis]))
    }

    /// How many voxels of a chunk, in stored order, must be decoded for a part of it: those up to
    /// the part's last voxel, inclusive.
    pub fn prefix_of(&self, part: &ChunkPart) -> u64 {
        linear(&self.chunk, &part.last()).saturating_add(1)
    }

    /// Whether a chunk extends beyond the dataset.
    pub fn is_cut(&self, at: &Position) -> bool {
        let origin = self.origin(at);
        (0..RANK).any(|axis| origin[axis] + self.chunk[axis] > self.shape[axis])
    }

    /// The positions of the chunks that intersect a box, in stored order.
    pub fn chunks_of(&self, stored: &StoredBox) -> impl Iterator<Item = Position> + use<> {
        let first = self.containing(&stored.start);
        let last = self.containing(&stored.last());
        let counts: Position = std::array::from_fn(|axis| last[axis] - first[axis] + 1);
        (0..counts.iter().product()).map(move |number| {
            let offset = unravelled(&counts, number);
            std::array::from_fn(|axis| first[axis] + offset[axis])
        })
    }

    /// The part of a box that lies in a chunk.
    pub fn part_of(&self, at: &Position, stored: &StoredBox) -> ChunkPart {
        let origin = self.origin(at);
        let last = stored.last();
        let start: Position = std::array::from_fn(|axis| stored.start[axis].max(origin[axis]));
        let end: Position =
            std::array::from_fn(|axis| (last[axis] + 1).min(origin[axis] + self.chunk[axis]));
        ChunkPart {
            start,
            within: std::array::from_fn(|axis| start[axis] - origin[axis]),
            count: std::array::from_fn(|axis| end[axis].saturating_sub(start[axis])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        Grid::new(&[10, 20, 30], &[4, 8, 16])
    }

    fn stored(start: [u64; 3], count: [u64; 3]) -> StoredBox {
        StoredBox {
            start: padded(&start, 0),
            count: padded(&count, 1),
        }
    }

    #[test]
    fn a_box_touches_chunks_in_stored_order_and_its_parts_fill_it() {
        let wanted = stored([3, 7, 0], [2, 2, 17]);
        let chunks: Vec<Position> = grid().chunks_of(&wanted).collect();
        assert_eq!(chunks.len(), 8);
        assert_eq!(
            (chunks[0], chunks[1], chunks[7]),
            ([0; 5], [0, 0, 0, 0, 1], [0, 0, 1, 1, 1])
        );
        assert_eq!(
            chunks
                .iter()
                .map(|at| grid().number(at))
                .collect::<Vec<_>>(),
            [0, 1, 2, 3, 6, 7, 8, 9]
        );
        let parts = chunks.iter().map(|at| grid().part_of(at, &wanted));
        assert_eq!(
            parts
                .map(|part| part.count.iter().product::<u64>())
                .sum::<u64>(),
            2 * 2 * 17
        );
    }

    #[test]
    fn a_part_knows_where_it_lies_in_its_chunk() {
        let part = grid().part_of(&[0, 0, 1, 0, 1], &stored([3, 7, 10], [3, 4, 10]));
        assert_eq!(part.start, [0, 0, 4, 7, 16]);
        assert_eq!(part.within, [0, 0, 0, 7, 0]);
        assert_eq!(part.count, [1, 1, 2, 1, 4]);
        assert_eq!(part.last(), [0, 0, 1, 7, 3]);
    }

    #[test]
    fn chunks_at_the_edge_are_known_for_it() {
        assert!(!grid().is_cut(&[0, 0, 1, 1, 0]));
        assert!(grid().is_cut(&[0, 0, 2, 1, 0]) && grid().is_cut(&[0, 0, 0, 0, 1]));
    }

    #[test]
    fn stripes_within_a_range_are_those_of_every_position() {
        let all = [
            (2, 5, 3, 2),
            (0, 4, 2, 4),
            (3, 1, 7, 1),
            (1, 3, u64::MAX, 1),
            (4, 1, 1, u64::MAX),
            (0, 2, 0, 1),
        ];
        for (start, stride, count, block) in all {
            let stripes = Stripes {
                start,
                stride,
                count,
                block,
            };
            let has = |at: u64| {
                (0..count.min(40)).any(|number| {
                    let begin = start + number * stride;
                    (begin..begin.saturating_add(block)).contains(&at)
                })
            };
            for (first, length) in
                (0..20).flat_map(|first| (1..20).map(move |length| (first, length)))
            {
                let runs = stripes.within(first, length, usize::MAX);
                let found: Vec<u64> = runs
                    .iter()
                    .flat_map(|(start, count)| *start..start + count)
                    .collect();
                let expected: Vec<u64> = (first..first + length).filter(|at| has(*at)).collect();
                assert_eq!(found, expected, "{stripes:?} in {length} from {first}");
            }
        }
    }

    #[test]
    fn chunks_outside_are_told_from_those_within() {
        assert_eq!(grid().containing(&[8, 16, 16]), [0, 0, 2, 2, 1]);
        assert!(grid().holds(&[0, 0, 2, 2, 1]));
        for outside in [
            [0, 0, 3, 0, 0],
            [0, 0, 0, 0, 2],
            [1, 0, 0, 0, 0],
            [0, 0, 0, u64::MAX, 0],
        ] {
            assert!(!grid().holds(&outside), "{outside:?}");
        }
    }

    #[test]
    fn every_number_is_that_of_one_chunk() {
        assert_eq!(grid().chunks(), 3 * 3 * 2);
        for number in 0..grid().chunks() {
            let at = grid().numbered(number);
            assert!(
                grid().holds(&at) && grid().number(&at) == number,
                "{number}: {at:?}"
            );
        }
    }
}
