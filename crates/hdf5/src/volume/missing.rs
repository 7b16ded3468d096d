//! Values that stand for missing data.

use std::fmt;
use std::sync::Arc;

use voltile_base::paint::Number;
use voltile_base::text::joined;

use super::{Voxel, VoxelType};

/// The values that a file declares as missing, and NaN if it declares any. They are drawn black,
/// and left out of windows and means. (Undeclared NaN is drawn black and left out of windows, too;
/// but its mean with other voxels is NaN.)
#[derive(Clone, Default, PartialEq)]
pub struct Missing {
    /// Integers that voxels can have; sorted, without duplicates.
    whole: Arc<[i128]>,
    /// Floats without NaN; sorted, without duplicates.
    real: Arc<[f64]>,
    /// Whether NaN is missing, too.
    nan: bool,
}

impl Missing {
    /// The declared values that voxels of a type can have.
    pub fn new(declared: &[Number], voxel: VoxelType) -> Self {
        if voxel.is_integer() {
            let mut whole: Vec<i128> = declared
                .iter()
                .filter_map(|number| number.to_whole())
                .filter(|whole| voxel.has_value(*whole))
                .collect();
            whole.sort_unstable();
            whole.dedup();
            return Self {
                whole: whole.into(),
                ..Self::default()
            };
        }
        let mut real = Vec::new();
        for number in declared {
            // All floats but F64 are 32 bits wide in memory.
            let value = match voxel {
                VoxelType::F64 => number.to_f64(),
                _ => f64::from(number.to_f64() as f32),
            };
            if !value.is_nan() {
                // Adding 0 turns -0 into 0.
                real.push(value + 0.0);
            }
        }
        real.sort_unstable_by(f64::total_cmp);
        real.dedup();
        Self {
            real: real.into(),
            nan: !declared.is_empty(),
            ..Self::default()
        }
    }

    /// Whether no value is declared as missing.
    pub fn is_empty(&self) -> bool {
        self.whole.is_empty() && !self.nan
    }

    /// The values; NaN last.
    pub fn declared(&self) -> impl Iterator<Item = Number> {
        let whole = self.whole.iter().copied().map(Number::Whole);
        let real = self.real.iter().copied().map(Number::Real);
        whole
            .chain(real)
            .chain(self.nan.then_some(Number::Real(f64::NAN)))
    }

    /// Whether a voxel, or a mean of voxels, is missing.
    #[inline]
    pub fn has<T: Voxel>(&self, voxel: T) -> bool {
        if !T::IS_FLOAT {
            return self.whole.binary_search(&voxel.to_whole()).is_ok();
        }
        // Adding 0 turns -0 into 0, as in `new`.
        let real = voxel.to_f64() + 0.0;
        if real.is_nan() {
            return self.nan;
        }
        let index = self.real.binary_search_by(|known| known.total_cmp(&real));
        index.is_ok()
    }

    /// Whether any voxel is missing.
    pub fn has_any<T: Voxel>(&self, voxels: &[T]) -> bool {
        !self.is_empty() && voxels.iter().any(|voxel| self.has(*voxel))
    }

    /// The value that stands for the mean of a box in which all voxels are missing: the first
    /// declared one.
    pub fn fill<T: Voxel>(&self) -> T {
        self.declared().next().map_or_else(T::default, T::nearest)
    }

    /// The values as text; empty if there are none. Equal sets of values have the same text.
    pub fn in_words(&self) -> String {
        joined(self.declared())
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
        let missing = Missing::new(&[Number::Whole(i128::from(i64::MIN) + 2)], VoxelType::I64);
        assert!(missing.has(i64::MIN + 2));
        assert!(!missing.has(i64::MIN) && !missing.has(i64::MIN + 3));
        assert!(missing.has_any(&[0, i64::MIN + 2]));
        assert_eq!(missing.fill::<i64>(), i64::MIN + 2);
    }

    #[test]
    fn real_numbers_are_rounded_to_the_type_of_the_voxels() {
        let missing = Missing::new(&[Number::Real(-1e34)], VoxelType::F32);
        assert!(missing.has(-1e34_f32) && missing.has(f32::NAN) && !missing.has(0.0_f32));
        assert!(missing.has(f64::from(-1e34_f32)), "means are 64 bits wide");
        assert_eq!(missing.fill::<f64>(), f64::from(-1e34_f32));
    }

    #[test]
    fn only_values_that_voxels_can_have_are_declared() {
        let missing = Missing::new(
            &[Number::Real(0.5), Number::Real(7.0), Number::Whole(7)],
            VoxelType::U8,
        );
        assert_eq!(missing.declared().collect::<Vec<_>>(), [Number::Whole(7)]);
        assert!(Missing::new(&[Number::Real(f64::NAN)], VoxelType::U16).is_empty());
    }

    #[test]
    fn nan_is_missing_if_anything_is_declared() {
        let declared = Missing::new(&[Number::Real(f64::NAN)], VoxelType::F64);
        assert!(declared.has(f64::NAN) && !declared.is_empty() && declared.fill::<f64>().is_nan());
        assert!(!Missing::default().has(f32::NAN) && !Missing::default().has_any(&[f32::NAN]));
    }
}
