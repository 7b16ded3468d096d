//! The sizes and downsample factors of levels, stored or derived.

use serde::Deserialize;

use super::space::{TILE, Xyz};

/// The number of a level. Level 0 is full resolution; each further level halves x and y.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(u8);

impl Level {
    /// Full resolution.
    pub const FULL: Level = Level(0);
    /// The number of the last level. Its factor fits in 64 bits, and no real volume reaches it.
    const LAST: u64 = 62;

    /// Every possible level, finest first.
    pub fn all() -> impl Iterator<Item = Level> + Clone {
        (0..).map_while(Self::new)
    }

    /// The level with this number; `None` if there is no such level.
    pub fn new(number: u64) -> Option<Self> {
        (number <= Self::LAST).then_some(Level(number as u8))
    }

    /// The level whose x and y downsample factor is `factor`; `None` unless that is a power of two.
    pub fn from_factor(factor: u64) -> Option<Self> {
        if !factor.is_power_of_two() {
            return None;
        }
        Self::new(u64::from(factor.trailing_zeros()))
    }

    /// The number, as in URLs.
    pub fn number(self) -> u8 {
        self.0
    }

    /// The downsample factor of x and y: 2 to the power of the number.
    pub fn factor(self) -> u64 {
        1 << self.0
    }
}

/// Whether z is halved from level to level, as x and y are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scaling {
    /// z keeps its extent: each level has all slices of the stored level.
    #[default]
    Zslices,
    /// z is halved like x and y.
    Isotropic,
}

impl Scaling {
    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Scaling::Zslices => "zslices",
            Scaling::Isotropic => "isotropic",
        }
    }
}

/// A level, and how it is derived from a stored one: each voxel is the mean (for labels, the
/// first) of a box of stored voxels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LevelView {
    /// The level described.
    pub level: Level,
    /// The index of the stored level to read, in the list given to [`LevelView::choose`].
    pub stored: usize,
    /// The extent of that stored level.
    pub stored_size: Xyz<u64>,
    /// The number of stored voxels along each axis for one voxel of this level; 1 × 1 × 1 if the
    /// level is stored.
    pub downsample: Xyz<u64>,
    /// The extent of this level.
    pub size: Xyz<u64>,
    /// The downsample factor relative to level 0.
    pub factor: Xyz<u64>,
}

impl LevelView {
    /// Chooses how to derive `level` from the stored levels, given as (level, z factor, size);
    /// level 0 must be among them.
    ///
    /// A level that is not stored is derived in one step from the nearest finer stored level.
    /// `None` if half the level's factor exceeds the larger extent in x and y: a volume 300 wide
    /// has levels 0 to 9. If that extent is a power of two, there is one level more than needed to
    /// reach a single voxel, as in the reference implementation.
    pub fn choose(
        level: Level,
        stored: &[(Level, u64, Xyz<u64>)],
        scaling: Scaling,
    ) -> Option<Self> {
        let (_, _, full_size) = stored.iter().find(|(source, ..)| *source == Level::FULL)?;
        if level != Level::FULL && level.factor() / 2 > full_size.x.max(full_size.y) {
            return None;
        }
        let (index, &(source, z_factor, stored_size)) = stored
            .iter()
            .enumerate()
            .filter(|(_, (source, ..))| *source <= level)
            .max_by_key(|(_, (source, ..))| *source)?;
        let step = level.factor() / source.factor();
        let z_step = match scaling {
            Scaling::Isotropic => step,
            Scaling::Zslices => 1,
        };
        let downsample = Xyz::new(step, step, z_step);
        Some(Self {
            level,
            stored: index,
            stored_size,
            downsample,
            size: stored_size.zip(downsample, u64::div_ceil),
            factor: Xyz::new(
                level.factor(),
                level.factor(),
                z_factor.saturating_mul(z_step),
            ),
        })
    }

    /// The same level, read as it is from the stored level with the index `stored`.
    pub fn stored_as(self, stored: usize) -> Self {
        Self {
            stored,
            stored_size: self.size,
            downsample: Xyz::all(1),
            ..self
        }
    }

    /// Whether the level is stored rather than derived on the fly.
    pub fn is_stored(&self) -> bool {
        self.downsample == Xyz::all(1)
    }

    /// Whether xy slices end within the first tile of the grid, if the level's first voxel is at
    /// `grid` (in voxels of level 0).
    pub fn end_fits_one_tile(&self, grid: Xyz<i64>) -> bool {
        let end = self.end_in(grid);
        end.x.max(end.y) <= TILE as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(level: u64, stored: &[(u64, u64, Xyz<u64>)], scaling: Scaling) -> Option<LevelView> {
        let stored: Vec<_> = stored
            .iter()
            .map(|&(l, z, s)| (Level::new(l).unwrap(), z, s))
            .collect();
        LevelView::choose(Level::new(level).unwrap(), &stored, scaling)
    }

    #[test]
    fn made_levels_round_their_sizes_up_and_keep_z_unless_isotropic() {
        let full = [(0, 1, Xyz::new(1000, 900, 7))];
        let flat = view(3, &full, Scaling::Zslices).unwrap();
        assert_eq!(
            (flat.size, flat.factor),
            (Xyz::new(125, 113, 7), Xyz::new(8, 8, 1))
        );
        let cube = view(3, &full, Scaling::Isotropic).unwrap();
        assert_eq!(
            (cube.size, cube.factor),
            (Xyz::new(125, 113, 1), Xyz::all(8))
        );
    }

    #[test]
    fn a_gap_in_a_pyramid_is_filled_from_the_nearest_finer_stored_level() {
        let stored = [(0, 1, Xyz::new(333, 211, 13)), (2, 2, Xyz::new(83, 52, 6))];
        let made = view(1, &stored, Scaling::Zslices).unwrap();
        assert_eq!((made.stored, made.downsample), (0, Xyz::new(2, 2, 1)));
        let own = view(2, &stored, Scaling::Zslices).unwrap();
        assert_eq!(
            (own.stored, own.size, own.factor.z, own.is_stored()),
            (1, Xyz::new(83, 52, 6), 2, true)
        );
        let beyond = view(4, &stored, Scaling::Isotropic).unwrap();
        assert_eq!(
            (beyond.downsample, beyond.factor),
            (Xyz::all(4), Xyz::new(16, 16, 8))
        );
    }

    #[test]
    fn levels_end_when_nothing_is_left_to_halve() {
        let stored = [(0, 1, Xyz::new(520, 300, 4))];
        assert_eq!(
            view(10, &stored, Scaling::Zslices).unwrap().size,
            Xyz::new(1, 1, 4)
        );
        assert_eq!(view(11, &stored, Scaling::Zslices), None);
        assert_eq!(Level::new(63), None);
    }
}
