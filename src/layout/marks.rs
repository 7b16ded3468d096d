//! Marks: what a dataset tells of itself, in the words of whichever programs wrote it.
//!
//! Several layouts may have something to say of one dataset; for each thing the first in the order of layouts is
//! believed. What nobody tells is guessed in [`super::plain`].

use super::VoxelSize;
use crate::axes::Axes;
use crate::geometry::Xyz;
use crate::paint::{Kind, Window};
use crate::volume::VoxelType;

/// What is known of a dataset without guessing.
#[derive(Debug, Clone, Default)]
pub(super) struct Marks {
    /// What shows that the dataset is of the layout; `None` where it might be of any.
    pub because: Option<String>,
    /// That it is no volume, whatever its shape.
    pub is_aside: bool,
    /// The path to name it by, where its own says less.
    pub named_by: Option<String>,
    /// What the file calls it.
    pub label: Option<String>,
    /// Its axes.
    pub axes: Option<Axes>,
    /// What its numbers mean.
    pub kind: Option<Kind>,
    /// What its voxels are, where they are stored as another type.
    pub means: Option<VoxelType>,
    /// The size of a voxel.
    pub voxel: Option<VoxelSize>,
    /// The display range.
    pub range: Option<Window>,
    /// By how much it is reduced against the finest level.
    pub factor: Option<Xyz<u64>>,
    /// What tiles do not show of it.
    pub remarks: Vec<String>,
}

impl Marks {
    /// Marks that only show that a dataset is of a layout.
    pub fn because(reason: String) -> Self {
        Self { because: Some(reason), ..Self::default() }
    }

    /// These, and where they say nothing, those of a later layout.
    pub fn or(mut self, later: Marks) -> Self {
        self.remarks.extend(later.remarks);
        Self {
            because: self.because.or(later.because),
            is_aside: self.is_aside || later.is_aside,
            named_by: self.named_by.or(later.named_by),
            label: self.label.or(later.label),
            axes: self.axes.or(later.axes),
            kind: self.kind.or(later.kind),
            means: self.means.or(later.means),
            voxel: self.voxel.or(later.voxel),
            range: self.range.or(later.range),
            factor: self.factor.or(later.factor),
            remarks: self.remarks,
        }
    }
}
