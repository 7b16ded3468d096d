//! Volumes of complex numbers. Each part is a volume of its own: the real and the imaginary part
//! are stored; magnitude and phase are computed from them.

use std::sync::Arc;

use ndarray::ArrayViewMut3;
use voltile_base::paint::Number;

use super::samples::with_box;
use super::{BoxMut, ReadError, ReadRequest, Samples, Volume, VolumeShape, Voxel};

/// The parts of complex numbers that are shown, in the order in which they are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ComplexPart {
    /// The absolute value.
    Magnitude,
    /// The angle in radians, from −π to π.
    Phase,
    /// The real part.
    Real,
    /// The imaginary part.
    Imaginary,
}

impl ComplexPart {
    /// All parts. The position of a part is its index c in the configuration.
    pub const ALL: [ComplexPart; 4] = [Self::Magnitude, Self::Phase, Self::Real, Self::Imaginary];
    /// The error if no part is chosen.
    pub(super) const EXPECTED: &str = "of complex numbers, the index c is 0 (magnitude), 1 (phase), 2 (real part) or 3 \
        (imaginary part)";

    /// The name, as in the name of a channel: `field_magnitude`.
    pub fn name(self) -> &'static str {
        match self {
            ComplexPart::Magnitude => "magnitude",
            ComplexPart::Phase => "phase",
            ComplexPart::Real => "real",
            ComplexPart::Imaginary => "imaginary",
        }
    }

    /// Whether the part is computed rather than stored.
    pub fn is_computed(self) -> bool {
        matches!(self, ComplexPart::Magnitude | ComplexPart::Phase)
    }
}

/// The magnitudes or the phases of complex numbers, computed from the volumes of their real and
/// imaginary parts.
#[derive(Debug)]
pub struct Polar {
    shape: VolumeShape,
    /// The volumes of the real and of the imaginary parts.
    parts: [Arc<dyn Volume>; 2],
    is_phase: bool,
}

impl Polar {
    /// The phases if `is_phase`, otherwise the magnitudes, of the numbers with these real and
    /// imaginary parts.
    pub fn new(parts: [Arc<dyn Volume>; 2], is_phase: bool) -> Self {
        let shape = VolumeShape {
            coding: Err("its voxels are computed from complex numbers".to_owned()),
            fill: None,
            ..parts[0].shape().clone()
        };
        Self {
            shape,
            parts,
            is_phase,
        }
    }

    /// Fills a box. Returns `false` and computes nothing if the voxels of the parts are of another
    /// type than those of the box.
    #[must_use]
    fn compute<T: Voxel>(
        &self,
        real: &Samples,
        imaginary: &Samples,
        mut into: ArrayViewMut3<'_, T>,
    ) -> bool {
        let (Some(real), Some(imaginary)) = (T::slice(real), T::slice(imaginary)) else {
            return false;
        };
        let numbers = real.iter().zip(imaginary);
        for (voxel, (real, imaginary)) in into.iter_mut().zip(numbers) {
            let real = real.to_f64();
            let imaginary = imaginary.to_f64();
            let value = if self.is_phase {
                imaginary.atan2(real)
            } else {
                real.hypot(imaginary)
            };
            *voxel = T::nearest(Number::Real(value));
        }
        true
    }
}

impl Volume for Polar {
    fn shape(&self) -> &VolumeShape {
        &self.shape
    }

    fn read_box(&self, request: &ReadRequest, into: BoxMut<'_>) -> Result<(), ReadError> {
        let mut real = Samples::default();
        let mut imaginary = Samples::default();
        self.parts[0].read(request, &mut real)?;
        self.parts[1].read(request, &mut imaginary)?;
        let types_match = with_box!(into, voxels => self.compute(&real, &imaginary, voxels));
        ReadError::ensure_copied(types_match, "a volume of complex numbers")
    }

    fn source(&self) -> Option<&Arc<dyn Volume>> {
        // Both parts are in the same dataset.
        Some(&self.parts[0])
    }
}
