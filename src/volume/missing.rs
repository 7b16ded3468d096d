//! Values that stand for missing data.

use std::fmt;
use std::sync::Arc;

use super::{Voxel, VoxelType};

/// A number in a file's metadata, exact if it is an integer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// An integer.
    Whole(i128),
    /// A floating point number.
    Real(f64),
}

impl Number {
    /// As a floating point number, rounded if it needs more than 53 bits.
    pub fn to_f64(self) -> f64 {
        match self {
            Number::Whole(number) => number as f64,
            Number::Real(number) => number,
        }
    }

    /// As an integer; `None` unless it is one.
    pub fn to_whole(self) -> Option<i128> {
        match self {
            Number::Whole(number) => Some(number),
            Number::Real(number) => {
                (number.fract() == 0.0 && number.abs() < 2f64.powi(64)).then_some(number as i128)
            }
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Whole(number) => write!(f, "{number}"),
            Number::Real(number) => write!(f, "{number:?}"),
        }
    }
}

/// The values that a file declares as missing; NaN always is. They are drawn black, and left out of windows and means.
#[derive(Clone, Default, PartialEq)]
pub struct Missing {
    /// Sorted, without duplicates and NaN, each a value that voxels can have.
    values: Arc<[i128]>,
    reals: Arc<[f64]>,
}

impl Missing {
    /// The declared values that voxels of a type can have.
    pub fn of(declared: &[Number], voxel: VoxelType) -> Self {
        if voxel.is_integer() {
            let mut values: Vec<i128> = declared.iter().filter_map(|number| number.to_whole()).collect();
            values.sort_unstable();
            values.dedup();
            return Self { values: values.into(), ..Self::default() };
        }
        let rounded = |number: &Number| match voxel {
            VoxelType::F64 => number.to_f64(),
            _ => f64::from(number.to_f64() as f32),
        };
        let mut reals: Vec<f64> = declared.iter().map(rounded).filter(|real| !real.is_nan()).collect();
        reals.sort_unstable_by(f64::total_cmp);
        reals.dedup();
        Self { reals: reals.into(), ..Self::default() }
    }

    /// Whether no value but NaN is missing.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty() && self.reals.is_empty()
    }

    /// The declared values.
    pub fn declared(&self) -> impl Iterator<Item = Number> {
        let whole = self.values.iter().copied().map(Number::Whole);
        whole.chain(self.reals.iter().copied().map(Number::Real))
    }

    /// Whether a voxel, or a mean of voxels, is missing.
    #[inline]
    pub fn has<T: Voxel>(&self, voxel: T) -> bool {
        if T::IS_FLOAT {
            let real = voxel.to_f64();
            real.is_nan() || self.reals.contains(&real)
        } else {
            !self.values.is_empty() && self.values.contains(&voxel.to_whole())
        }
    }

    /// Whether any voxel is missing.
    pub fn has_any<T: Voxel>(&self, voxels: &[T]) -> bool {
        if self.is_empty() {
            return T::IS_FLOAT
                && voxels.iter().fold(false, |any, voxel| any | (voxel.to_f64() != voxel.to_f64()));
        }
        voxels.iter().any(|voxel| self.has(*voxel))
    }

    /// The mean of a box of missing voxels: the first declared value, else NaN (0 for integers).
    pub fn fill<T: Voxel>(&self) -> T {
        match (self.values.first(), self.reals.first()) {
            (Some(whole), _) => T::nearest(Number::Whole(*whole)),
            (None, Some(real)) => T::nearest(Number::Real(*real)),
            (None, None) => T::nearest(Number::Real(f64::NAN)),
        }
    }

    /// All of them as text, identical for equal ones; empty if there are none.
    pub fn in_words(&self) -> String {
        self.declared().map(|number| number.to_string()).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Debug for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Missing({})", self.in_words())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_compared_exactly() {
        let missing = Missing::of(&[Number::Whole(i128::from(i64::MIN) + 2)], VoxelType::I64);
        assert!(missing.has(i64::MIN + 2));
        assert!(!missing.has(i64::MIN) && !missing.has(i64::MIN + 3));
        assert!(missing.has_any(&[0, i64::MIN + 2]));
        assert_eq!(missing.fill::<i64>(), i64::MIN + 2);
    }

    #[test]
    fn real_numbers_are_rounded_to_the_type_of_the_voxels() {
        let missing = Missing::of(&[Number::Real(-1e34)], VoxelType::F32);
        assert!(missing.has(-1e34_f32) && missing.has(f32::NAN) && !missing.has(0.0_f32));
        assert!(missing.has(f64::from(-1e34_f32)), "means are 64 bits wide");
        assert_eq!(missing.fill::<f64>(), f64::from(-1e34_f32));
    }

    #[test]
    fn only_values_that_voxels_can_have_are_declared() {
        let missing = Missing::of(&[Number::Real(0.5), Number::Real(7.0), Number::Whole(7)], VoxelType::U8);
        assert_eq!(missing.declared().collect::<Vec<_>>(), [Number::Whole(7)]);
        assert!(Missing::of(&[Number::Real(f64::NAN)], VoxelType::F64).is_empty());
        assert!(Missing::default().has(f32::NAN) && !Missing::default().has_any(&[1_u8, 2]));
    }
}
