//! Axes, voxel sizes and origins from what files state axis by axis.

use voltile_base::axes::{Axes, AxisName};
use voltile_base::geometry::Xyz;
use voltile_base::units;

use super::VoxelSize;
use super::channel::{along, usual_unit};
use super::marks::Marks;

/// Relative tolerance for evenly spaced positions.
const EVEN: f64 = 1e-3;

/// A stored axis, as a file describes it.
#[derive(Debug, Default)]
pub(super) struct StoredAxis {
    pub name: Option<AxisName>,
    /// Whether a spectrum extends along it.
    pub is_spectral: bool,
    pub spacing: Option<Spacing>,
}

/// The positions along one stored axis, as a file states them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Spacing {
    /// The distance between adjacent positions; negative if they decrease.
    pub step: f64,
    /// The first position.
    pub first: Option<f64>,
    /// The unit of `step` and `first`.
    pub unit: Option<String>,
}

impl Spacing {
    pub fn new(step: f64, first: Option<f64>, unit: Option<&str>) -> Self {
        Self {
            step,
            first,
            unit: unit.and_then(usual_unit),
        }
    }

    /// The spacing of positions, if they are evenly spaced.
    pub fn from_positions(positions: &[f64], unit: Option<&str>) -> Option<Self> {
        let steps = positions.len().checked_sub(1).filter(|steps| *steps > 0)?;
        let first = *positions.first()?;
        let step = (positions.last()? - first) / steps as f64;
        let is_even = positions
            .windows(2)
            .all(|pair| ((pair[1] - pair[0]) - step).abs() <= EVEN * step.abs());
        (is_even && step != 0.0).then(|| Self::new(step, Some(first), unit))
    }

    /// This spacing in nanometres; `None` if the unit is not a known length.
    fn in_nanometres(&self) -> Option<Self> {
        let size = units::in_nanometres(self.unit.as_deref()?)?;
        Some(Self::new(
            self.step * size,
            self.first.map(|first| first * size),
            Some("nm"),
        ))
    }
}

impl Marks {
    /// The axes of a dataset, and what a file says about each of them.
    pub fn from_stored(axes: Axes, shape: &[u64], stored: &[StoredAxis]) -> Self {
        Self {
            is_spectrum: stored.iter().any(|axis| axis.is_spectral),
            ..Self::from_spacings(axes, shape, |_, place| stored.get(place)?.spacing.clone())
        }
    }

    /// The axes of a dataset, and the size and the origin of its voxels by the spacing of each
    /// axis. Neither is known if the spacing along x, y or z is unknown, or if the units of these
    /// spacings cannot be compared. `spacing` gets the name of an axis, and its place in storage
    /// order.
    ///
    /// If the file states no thickness for a single section, its voxels are taken to be as thick as
    /// they are wide: nothing is measured along z.
    pub fn from_spacings(
        axes: Axes,
        shape: &[u64],
        spacing: impl Fn(AxisName, usize) -> Option<Spacing>,
    ) -> Self {
        let spacings =
            [AxisName::X, AxisName::Y, AxisName::Z].map(|axis| spacing(axis, axes.position(axis)?));
        let sections = along(shape, &axes, AxisName::Z);
        let (voxel, origin) = calibration(spacings, sections).unzip();
        Self {
            axes: Some(axes),
            voxel,
            origin: origin.flatten(),
            ..Self::default()
        }
    }
}

/// The voxel size and the origin by the spacings along x, y and z, as [`Marks::from_spacings`]
/// finds them.
fn calibration(
    [x, y, z]: [Option<Spacing>; 3],
    sections: u64,
) -> Option<(VoxelSize, Option<Xyz<f64>>)> {
    let x = x?;
    let y = y?;
    let stated = z.and_then(|z| in_one_unit([x.clone(), y.clone(), z]));
    let all = if stated.is_none() && sections == 1 {
        let as_thick_as_wide = Spacing {
            step: x.step.abs(),
            first: Some(0.0),
            ..x.clone()
        };
        in_one_unit([x, y, as_thick_as_wide])?
    } else {
        stated?
    };
    let edges = all.each_ref().map(|axis| axis.step.abs());
    let voxel = VoxelSize::new(edges.into(), all[0].unit.as_deref())?;
    // An origin without directions says that the axes run along the axes of space, upwards.
    let ascends = all.iter().all(|axis| axis.step > 0.0);
    let origin = match all.map(|axis| axis.first) {
        [Some(x), Some(y), Some(z)] if ascends => Some(Xyz::new(x, y, z)),
        _ => None,
    };
    Some((voxel, origin))
}

/// Spacings in one unit: in their own unit if all have the same, else in nanometres. `None` if one
/// that must be converted is not a known length.
pub(super) fn in_one_unit(spacings: [Spacing; 3]) -> Option<[Spacing; 3]> {
    if spacings
        .iter()
        .all(|spacing| spacing.unit == spacings[0].unit)
    {
        return Some(spacings);
    }
    let [x, y, z] = spacings.each_ref().map(Spacing::in_nanometres);
    Some([x?, y?, z?])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spacing(step: f64, unit: &str) -> Option<Spacing> {
        Some(Spacing::new(step, Some(10.0), Some(unit)))
    }

    fn placed(
        axes: &str,
        shape: &[u64],
        spacings: &[Option<Spacing>],
    ) -> Option<([f64; 3], String)> {
        let spacing = |_, place: usize| spacings.get(place)?.clone();
        let voxel = Marks::from_spacings(Axes::new(axes).unwrap(), shape, spacing).voxel?;
        Some((
            [voxel.size.x, voxel.size.y, voxel.size.z],
            voxel.unit.unwrap_or_default(),
        ))
    }

    #[test]
    fn only_even_steps_are_a_spacing() {
        let step = |positions: &[f64]| {
            Spacing::from_positions(positions, None).map(|spacing| spacing.step)
        };
        assert_eq!(step(&[0.0, 2.0, 4.0]), Some(2.0));
        assert_eq!(step(&[4.0, 2.0, 0.0]), Some(-2.0));
        assert_eq!(step(&[0.0, 0.0, 0.0]), None);
        assert_eq!(step(&[0.0, 2.0, 5.0]), None);
        assert_eq!(step(&[1.0]), None);
    }

    #[test]
    fn a_voxel_has_a_size_only_if_it_is_known_along_all_axes() {
        let (x, y, z) = (spacing(0.5, "um"), spacing(-0.25, "um"), spacing(2.0, "um"));
        let all = [z.clone(), y.clone(), x.clone()];
        assert_eq!(
            placed("zyx", &[9, 9, 9], &all),
            Some(([0.5, 0.25, 2.0], "µm".to_owned()))
        );
        assert_eq!(
            placed("zyx", &[9, 9, 9], &[None, y.clone(), x.clone()]),
            None
        );
        assert_eq!(
            placed("zyx", &[1, 9, 9], &[None, y.clone(), x.clone()])
                .unwrap()
                .0,
            [0.5, 0.25, 0.5]
        );
        assert_eq!(placed("yx", &[9, 9], &[y, x]).unwrap().0, [0.5, 0.25, 0.5]);
    }

    #[test]
    fn different_lengths_become_nanometres_and_other_units_are_not_mixed() {
        let (x, z) = (spacing(4.0, "nm"), spacing(0.04, "µm"));
        let all = [z, x.clone(), x.clone()];
        assert_eq!(
            placed("zyx", &[9, 9, 9], &all),
            Some(([4.0, 4.0, 40.0], "nm".to_owned()))
        );
        assert_eq!(
            placed("zyx", &[9, 9, 9], &[spacing(1.0, "mrad"), x.clone(), x]),
            None
        );
    }

    #[test]
    fn an_origin_is_known_if_all_positions_ascend() {
        let origin = |y| {
            let all = [spacing(1.0, "nm"), spacing(y, "nm"), spacing(1.0, "nm")];
            let axes = Axes::new("zyx").unwrap();
            Marks::from_spacings(axes, &[9, 9, 9], |_, place| all[place].clone()).origin
        };
        assert_eq!(origin(1.0), Some(Xyz::all(10.0)));
        assert_eq!(origin(-1.0), None);
    }
}
