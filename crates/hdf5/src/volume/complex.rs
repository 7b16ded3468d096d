//! Complex numbers: the volumes of their parts. Magnitude and phase are computed from the real and
//! the imaginary part.

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
    /// All of them: the position of each is its index in the configuration.
    pub const ALL: [ComplexPart; 4] = [Self::Magnitude, Self::Phase, Self::Real, Self::Imaginary];
    /// The error if none is chosen.
    pub(super) const EXPECTED: &str = "of complex numbers, the index c is 0 (magnitude), 1 (phase), 2 (real part) or 3 \
        (imaginary part)";

    /// The name, as in names of channels.
    pub fn name(self) -> &'static str {
        match self {
            ComplexPart::Magnitude => "magnitude",
            ComplexPart::Phase => "phase",
            ComplexPart::Real => "real",
            ComplexPart::Imaginary => "imaginary",
        }
    }

    /// Whether it is computed from the real and the imaginary part, which are stored.
    pub fn is_computed(self) -> bool {
        matches!(self, ComplexPart::Magnitude | ComplexPart::Phase)
    }
}

/// The magnitude or the phase of the numbers that two volumes hold the parts of.
#[derive(Debug)]
pub struct Polar {
    shape: VolumeShape,
    /// The real and the imaginary part.
    parts: [Arc<dyn Volume>; 2],
    is_phase: bool,
}

impl Polar {
    /// The phase, or the magnitude, of numbers with this real and this imaginary part.
    pub fn new(parts: [Arc<dyn Volume>; 2], is_phase: bool) -> Self {
        let coding = Err("its voxels are computed from complex numbers".to_owned());
        let shape = VolumeShape {
            coding,
            fill: None,
            ..parts[0].shape().clone()
        };
        Self {
            shape,
            parts,
            is_phase,
        }
    }

    /// Returns `false` and computes nothing if the parts are of another type.
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
        for (place, (real, imaginary)) in into.iter_mut().zip(real.iter().zip(imaginary)) {
            let real = real.to_f64();
            let imaginary = imaginary.to_f64();
            let value = if self.is_phase {
                imaginary.atan2(real)
            } else {
                real.hypot(imaginary)
            };
            *place = T::nearest(Number::Real(value));
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
        let is_computed = with_box!(into, into => self.compute(&real, &imaginary, into));
        ReadError::ensure_copied(is_computed, "a volume of complex numbers")
    }

    fn source(&self) -> Option<&Arc<dyn Volume>> {
        // Both parts are in the same dataset.
        Some(&self.parts[0])
    }
}
