//! What the order of the work computes from descriptions.

use crate::base::description::{ChannelDescription, LevelDescription, SourceDescription};
use crate::geometry::{Level, Plane, Ruler, Xyz};
use crate::volume::Access;

impl ChannelDescription {
    /// The size of a voxel in nanometres, if known.
    pub(super) fn nanometres(&self) -> Option<Xyz<f64>> {
        let unit = crate::base::units::in_nanometres(self.voxel_unit.as_deref()?)?;
        self.voxel_size.map(|size| Xyz::from(size).map(|length| length * unit))
    }

    /// The size of a voxel in any unit, if xz and yz tiles are drawn with square pixels.
    fn square_pixels(&self) -> Option<Xyz<f64>> {
        self.voxel_size.filter(|_| self.orthogonal == "isotropic").map(Xyz::from)
    }

    /// The tiles of a level in a plane, along each axis: slices, rows and columns.
    pub(super) fn rulers(&self, level: &LevelDescription, plane: Plane) -> Option<Xyz<Ruler>> {
        let (rows, columns, slices) = (plane.row_axis(), plane.column_axis(), plane.slice_axis());
        let (size, factor) = (Xyz::from(level.size), Xyz::from(level.factor));
        let [width, height] = *Plane::ALL.iter().zip(&level.drawn).find(|(p, _)| **p == plane)?.1;
        let mut rulers = Xyz::all(Ruler::of_slices(size[slices], factor[slices]));
        rulers[columns] = Ruler::of_tiles(width, factor[columns]);
        rulers[rows] = match self.square_pixels() {
            Some(voxel) if plane != Plane::Xy => {
                let across = voxel[columns] * Level::new(level.level.into())?.factor() as f64;
                Ruler::of_square_rows(height, across, voxel.z * factor.z as f64, factor.z)
            }
            _ => Ruler::of_tiles(height, factor[rows]),
        };
        Some(rulers)
    }
}

impl SourceDescription {
    /// Its extent, in voxels of full resolution.
    pub(super) fn full_size(&self) -> Xyz<u64> {
        Xyz::from(self.size).zip(Xyz::from(self.factor), u64::saturating_mul)
    }

    /// The extent of a box, in voxels of full resolution; never 0.
    pub(super) fn full_chunk(&self) -> Xyz<u64> {
        Xyz::from(self.chunk).zip(Xyz::from(self.factor), u64::saturating_mul).map(|extent| extent.max(1))
    }

    /// How boxes are read; a name that a later version may have is taken for the most expensive way.
    pub(super) fn known_access(&self) -> Access {
        Access::named(&self.access).unwrap_or(Access::Uncached)
    }
}
