//! The roles that the stored axes of a dataset have in a volume.

use std::ops::Range;

use voltile_base::axes::AxisName;
use voltile_base::geometry::{Axis, Region, Xyz};

use crate::volume::hdf5::View;
use crate::volume::hdf5::dataset::StoredDataset;
use crate::volume::hdf5::grid::{Position, RANK, StoredBox, linear, padded};
use crate::volume::hdf5::library::ElementMeaning;
use crate::volume::scatter::{Sieve, Strided};
use crate::volume::{ComplexPart, Positions, Tzyx};

/// The role of a stored axis in the volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Space(Axis),
    Time,
    /// Only this position is read.
    Fixed(u64),
}

impl Role {
    fn new(axis: AxisName, fixed: &[(AxisName, u64)]) -> Role {
        if let Some((_, index)) = fixed.iter().find(|(name, _)| *name == axis) {
            return Role::Fixed(*index);
        }
        match axis {
            AxisName::T => Role::Time,
            // No channel was chosen: the first one.
            AxisName::C => Role::Fixed(0),
            AxisName::Z => Role::Space(Axis::Z),
            AxisName::Y => Role::Space(Axis::Y),
            AxisName::X => Role::Space(Axis::X),
        }
    }

    /// The index of the axis among t, z, y and x.
    pub fn tzyx_index(self) -> Option<usize> {
        match self {
            Role::Time => Some(0),
            Role::Space(Axis::Z) => Some(1),
            Role::Space(Axis::Y) => Some(2),
            Role::Space(Axis::X) => Some(3),
            Role::Fixed(_) => None,
        }
    }
}

/// The roles of the axes, in stored order.
#[derive(Debug, Clone, Copy)]
pub(super) struct AxisRoles(pub [Role; RANK]);

impl AxisRoles {
    /// The roles under a view, or the reason why the dataset has no such view.
    pub fn new(dataset: &StoredDataset, view: &View) -> Result<Self, String> {
        if view.axes.rank() != dataset.shape.len() {
            let axes = &view.axes;
            let shape = &dataset.shape;
            return Err(format!(
                "its shape {shape:?} and the axes \"{axes}\" differ in rank"
            ));
        }
        let mut roles = Vec::new();
        for (axis, extent) in view.axes.iter().zip(&dataset.shape) {
            let role = Role::new(axis, &view.fixed);
            if let Role::Fixed(index) = role
                && index >= *extent
            {
                return Err(format!(
                    "the axis {axis} has {extent} positions; there is no {index}"
                ));
            }
            roles.push(role);
        }
        if dataset.stored.meaning == ElementMeaning::Complex {
            let part = view.part.ok_or(ComplexPart::EXPECTED)?;
            roles.push(Role::Fixed(u64::from(part == ComplexPart::Imaginary)));
        }
        Ok(Self(padded(&roles, Role::Fixed(0))))
    }

    /// Whether the stored axes are in the order z, y, x.
    pub fn is_in_order(&self) -> bool {
        let spatial = self.0.iter().filter(|role| matches!(role, Role::Space(_)));
        spatial.filter_map(|role| role.tzyx_index()).is_sorted()
    }

    /// The region at a time point, in stored axis order.
    pub fn stored_box(&self, time: u64, region: &Region) -> StoredBox {
        StoredBox {
            start: self.0.map(|role| match role {
                Role::Space(axis) => region.start[axis],
                Role::Time => time,
                Role::Fixed(index) => index,
            }),
            count: self.0.map(|role| match role {
                Role::Space(axis) => region.size[axis],
                Role::Time | Role::Fixed(_) => 1,
            }),
        }
    }

    /// The region of the volume that a box in stored axis order fills.
    pub fn region(&self, start: &Position, count: &Position) -> Region {
        Region {
            start: self.spatial(start, 0),
            size: self.spatial(count, 1),
        }
    }

    /// Where the samples of `sieve` lie in a contiguous buffer of shape `dims` (stored order). The
    /// part of the buffer that is sieved begins at `within`.
    pub fn place(&self, dims: &Position, within: &Position, sieve: &Sieve) -> Strided {
        let mut strides = Xyz::all(0);
        let mut stride = 1;
        for (role, extent) in self.0.iter().zip(dims).rev() {
            if let Role::Space(axis) = role {
                strides[*axis] = stride;
            }
            stride *= *extent as usize;
        }
        let start = linear(dims, within) as usize;
        Strided::picked(start, strides, sieve)
    }

    /// The t, z, y and x components of a position in stored order; `missing` for axes that are not
    /// stored.
    pub fn tzyx(&self, stored: &Position, missing: u64) -> Tzyx {
        let mut all = [missing; 4];
        for (role, value) in self.0.iter().zip(stored) {
            if let Some(index) = role.tzyx_index() {
                all[index] = *value;
            }
        }
        all
    }

    /// The x, y and z components of a position in stored order; `missing` for axes that are not
    /// stored.
    pub fn spatial(&self, stored: &Position, missing: u64) -> Xyz<u64> {
        let [_, z, y, x] = self.tzyx(stored, missing);
        Xyz { x, y, z }
    }

    /// The place in the volume's grid of a chunk of the dataset's grid; `None` if the volume does
    /// not show it. Chunks must be one position long along fixed axes.
    pub fn in_volume(&self, at: &Position) -> Option<Tzyx> {
        for (role, position) in self.0.iter().zip(at) {
            if let Role::Fixed(shown) = role
                && shown != position
            {
                return None;
            }
        }
        Some(self.tzyx(at, 0))
    }

    /// The wanted runs of positions along each stored axis, at the first time point.
    pub fn stored_runs(&self, wanted: &Positions) -> [Vec<Range<u64>>; RANK] {
        self.0.map(|role| match role {
            Role::Space(axis) => wanted[axis].clone(),
            Role::Time => one_run(0),
            Role::Fixed(index) => one_run(index),
        })
    }
}

/// The run of a single position.
fn one_run(at: u64) -> Vec<Range<u64>> {
    std::iter::once(at..at + 1).collect()
}
