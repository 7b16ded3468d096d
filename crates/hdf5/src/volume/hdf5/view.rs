//! How a dataset is interpreted as a volume.

use std::hash::{Hash, Hasher};

use voltile_base::axes::{Axes, AxisName};
use voltile_base::geometry::Xyz;

use crate::volume::{ComplexPart, Values, VoxelType};

/// How a dataset is interpreted as a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// The names of its axes, slowest first.
    pub axes: Axes,
    /// Axes along which only one position is read, each with the position.
    pub fixed: Vec<(AxisName, u64)>,
    /// The type of the voxels, if it differs from the stored one (unsigned integers stored as
    /// signed ones, bool as `u8`).
    pub reinterpret_as: Option<VoxelType>,
    /// The extent of the data, if the dataset is padded.
    pub size: Option<Xyz<u64>>,
    /// Maps stored values to the values that they stand for; `None`: stored values are shown as
    /// they are. Applied by the catalogue, on top of the dataset's volume.
    pub values: Option<Values>,
    /// The part of complex numbers that is shown; `None` for other elements. Magnitude and phase
    /// are computed by the catalogue.
    pub part: Option<ComplexPart>,
    /// How often each voxel is repeated along each axis, so that it fills the voxels of a finer
    /// volume. Applied last.
    pub repeat: Xyz<u64>,
}

impl View {
    /// The view of a dataset that is described by its axes alone.
    pub fn from_axes(axes: Axes) -> Self {
        Self {
            axes,
            fixed: Vec::new(),
            reinterpret_as: None,
            size: None,
            values: None,
            part: None,
            repeat: Xyz::all(1),
        }
    }

    /// Whether the dataset has this axis, and the view is not fixed at one position along it.
    pub fn extends_along(&self, axis: AxisName) -> bool {
        let is_fixed = self.fixed.iter().any(|(fixed, _)| *fixed == axis);
        self.axes.position(axis).is_some() && !is_fixed
    }

    /// The view of a dataset that holds one volume in z, y, x order.
    pub fn zyx() -> Self {
        Self::from_axes(Axes::from_known([AxisName::Z, AxisName::Y, AxisName::X]))
    }

    /// The view in words: its axes, and how it differs from [`View::from_axes`].
    pub fn in_words(&self) -> String {
        let mut words = self.axes.to_string();
        for (axis, position) in &self.fixed {
            words.push_str(&format!(" {axis}={position}"));
        }
        // The digest stands for the values, which would make a long text.
        let values = self.values.as_ref().map(Values::digest);
        let is_repeated = self.repeat != Xyz::all(1);
        let further = [
            self.reinterpret_as
                .map(|voxel| format!(" meaning {}", voxel.name())),
            self.size.map(|size| format!(" within {size}")),
            values.map(|digest| format!(" standing for {digest}")),
            self.part.map(|part| format!(" {}", part.name())),
            is_repeated.then(|| format!(" repeated {}", self.repeat)),
        ];
        words.extend(further.into_iter().flatten());
        words
    }
}

impl Hash for View {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.axes, &self.fixed, self.reinterpret_as).hash(state);
        (self.size, &self.values).hash(state);
        // Hashed only if set: without them, the hash, and with it the keys of tiles, is the same as
        // in versions that had neither, and existing caches remain valid.
        if self.repeat != Xyz::all(1) {
            self.repeat.hash(state);
        }
        if let Some(part) = self.part {
            part.hash(state);
        }
    }
}
