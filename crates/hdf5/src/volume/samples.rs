//! Buffers of voxels ([`Samples`]), and boxes of voxels ([`BoxMut`]). Both are enums with a variant
//! for each numeric type.
//!
//! Code that works on voxels is generic over [`Voxel`] and is dispatched by `with_samples!` and
//! `with_box!`.

use bytemuck::{Pod, Zeroable};
use ndarray::{ArrayViewMut3, ShapeError};
use voltile_base::geometry::Xyz;
use voltile_base::paint::{Number, Window};

/// The type of a stored voxel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum VoxelType {
    Bool,
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F16,
    F32,
    F64,
}

impl VoxelType {
    /// The numpy name.
    pub fn name(self) -> &'static str {
        match self {
            VoxelType::Bool => "bool",
            VoxelType::U8 => "uint8",
            VoxelType::I8 => "int8",
            VoxelType::U16 => "uint16",
            VoxelType::I16 => "int16",
            VoxelType::U32 => "uint32",
            VoxelType::I32 => "int32",
            VoxelType::U64 => "uint64",
            VoxelType::I64 => "int64",
            VoxelType::F16 => "float16",
            VoxelType::F32 => "float32",
            VoxelType::F64 => "float64",
        }
    }

    /// Whether voxels are integers.
    pub fn is_integer(self) -> bool {
        !matches!(self, VoxelType::F16 | VoxelType::F32 | VoxelType::F64)
    }

    /// The unsigned type of the same size; `None` if the type is not a signed integer.
    pub fn unsigned(self) -> Option<VoxelType> {
        match self {
            VoxelType::I8 => Some(VoxelType::U8),
            VoxelType::I16 => Some(VoxelType::U16),
            VoxelType::I32 => Some(VoxelType::U32),
            VoxelType::I64 => Some(VoxelType::U64),
            _ => None,
        }
    }

    /// The whole range of an integer type; [0, 1] for floats and booleans.
    pub fn full_window(self) -> Window {
        fn range<T: Voxel>(_: &[T]) -> Window {
            if T::IS_FLOAT {
                return Window::Real { lo: 0.0, hi: 1.0 };
            }
            // `nearest` clamps, so the extremes of i128 become the least and the greatest of the
            // type.
            Window::Whole {
                lo: T::nearest(Number::Whole(i128::MIN)).to_whole(),
                hi: T::nearest(Number::Whole(i128::MAX)).to_whole(),
            }
        }
        match self {
            VoxelType::Bool => Window::Whole { lo: 0, hi: 1 },
            _ => with_samples!(&self.samples(), voxels => range(voxels)),
        }
    }

    /// Whether it is an integer type that has this value.
    pub(crate) fn has_value(self, whole: i128) -> bool {
        match (self, self.full_window()) {
            // In memory, a boolean is a byte.
            (VoxelType::Bool, _) => VoxelType::U8.has_value(whole),
            (_, Window::Whole { lo, hi }) => (lo..=hi).contains(&whole),
            _ => false,
        }
    }

    /// The bytes per voxel in unfiltered data.
    pub fn stored_bytes(self) -> usize {
        if self == VoxelType::F16 {
            2
        } else {
            self.samples().voxel_bytes()
        }
    }

    /// Empty samples of the type used in memory: bytes for booleans, 32-bit floats for half floats.
    pub fn samples(self) -> Samples {
        match self {
            VoxelType::Bool | VoxelType::U8 => Samples::U8(Vec::new()),
            VoxelType::I8 => Samples::I8(Vec::new()),
            VoxelType::U16 => Samples::U16(Vec::new()),
            VoxelType::I16 => Samples::I16(Vec::new()),
            VoxelType::U32 => Samples::U32(Vec::new()),
            VoxelType::I32 => Samples::I32(Vec::new()),
            VoxelType::U64 => Samples::U64(Vec::new()),
            VoxelType::I64 => Samples::I64(Vec::new()),
            VoxelType::F16 | VoxelType::F32 => Samples::F32(Vec::new()),
            VoxelType::F64 => Samples::F64(Vec::new()),
        }
    }
}

/// A voxel in memory: the operations needed for slicing, averaging and painting.
pub trait Voxel: Pod + Send + Sync + PartialOrd + Default {
    /// Wide enough for the sum of any box.
    type Sum: Pod + Send + Sync + Default + std::ops::AddAssign;
    /// The type of a mean: the same type for integers, 64 bits for floats.
    type Mean: Voxel;
    /// Its bytes in native order.
    type Bytes: Pod;
    /// Whether it is a floating point number.
    const IS_FLOAT: bool;
    /// How many voxels can be summed in one call of [`Voxel::add`].
    const MAX_ADDED: usize = 1 << 15;

    /// Converts the value to [`Voxel::Sum`].
    fn widen(self) -> Self::Sum;
    /// Adds at most [`Voxel::MAX_ADDED`] voxels to a sum; floats strictly in order, because the
    /// order affects rounding.
    fn add(voxels: &[Self], sum: &mut Self::Sum);
    /// The mean of `count` voxels. Integers are rounded half up; a mean of floats has 64 bits, and
    /// lies between the least and the greatest of the voxels.
    fn mean(sum: Self::Sum, count: u64) -> Self::Mean;
    /// The mean of 2^`power` voxels (at most 2^62), without a division.
    fn mean_of_power(sum: Self::Sum, power: u32) -> Self::Mean;
    /// The mean of `count` voxels in 64-bit floating point, not rounded to the type; NaN if `count`
    /// is 0.
    fn real_mean(sum: Self::Sum, count: u64) -> f64;
    /// The value as a float, rounded if it needs more than 53 bits.
    fn to_f64(self) -> f64;
    /// The exact value of an integer; the integer part of a float.
    fn to_whole(self) -> i128;
    /// The value as a label id: signed ones are sign-extended.
    fn to_label(self) -> u64;
    /// The value of the type that is nearest to a number; 0 for NaN if it is an integer.
    fn nearest(number: Number) -> Self;
    /// The buffer as samples.
    fn samples(voxels: Vec<Self>) -> Samples;
    /// The voxels, if the samples are of this type.
    fn slice(samples: &Samples) -> Option<&[Self]>;
    /// The voxels for writing, if the samples are of this type.
    fn slice_mut(samples: &mut Samples) -> Option<&mut [Self]>;
    /// A box of voxels of this type.
    fn boxed(voxels: ArrayViewMut3<'_, Self>) -> BoxMut<'_>;
}

/// Conversions between a voxel type and its variant of [`Samples`].
macro_rules! buffer_of {
    ($type:ty, $variant:ident) => {
        type Bytes = [u8; size_of::<$type>()];
        fn samples(voxels: Vec<$type>) -> Samples {
            Samples::$variant(voxels)
        }
        fn slice(samples: &Samples) -> Option<&[$type]> {
            match samples {
                Samples::$variant(voxels) => Some(voxels),
                _ => None,
            }
        }
        fn slice_mut(samples: &mut Samples) -> Option<&mut [$type]> {
            match samples {
                Samples::$variant(voxels) => Some(voxels),
                _ => None,
            }
        }
        fn boxed(voxels: ArrayViewMut3<'_, $type>) -> BoxMut<'_> {
            BoxMut::$variant(voxels)
        }
    };
}

macro_rules! integer_voxel {
    ($($type:ty, $few_sum:ty, $sum:ty, $variant:ident;)*) => { $(
        impl Voxel for $type {
            type Sum = $sum;
            type Mean = $type;
            const IS_FLOAT: bool = false;

            fn widen(self) -> $sum {
                <$sum>::from(self)
            }
            #[inline(always)]
            fn add(voxels: &[$type], sum: &mut $sum) {
                let few: $few_sum = voxels.iter().map(|voxel| <$few_sum>::from(*voxel)).sum();
                *sum += <$sum>::from(few);
            }
            #[inline(always)]
            fn mean_of_power(sum: $sum, power: u32) -> $type {
                // 2^(power - 1); 0 if `power` is 0.
                let half = (1 << power) >> 1;
                ((sum + half) >> power) as $type
            }
            fn mean(sum: $sum, count: u64) -> $type {
                let count = <$sum>::try_from(count).unwrap_or(<$sum>::MAX);
                // The floor of sum / count + 1/2.
                (2 * sum + count).div_euclid(2 * count) as $type
            }
            fn real_mean(sum: $sum, count: u64) -> f64 {
                sum as f64 / count as f64
            }
            fn to_f64(self) -> f64 {
                self as f64
            }
            fn to_whole(self) -> i128 {
                i128::from(self)
            }
            fn to_label(self) -> u64 {
                self as u64
            }
            fn nearest(number: Number) -> $type {
                match number {
                    Number::Whole(number) => number.clamp(<$type>::MIN.into(), <$type>::MAX.into()) as $type,
                    Number::Real(number) => number as $type,
                }
            }
            buffer_of!($type, $variant);
        }
    )* };
}

/// A sum of 64-bit floats, with the least and the greatest of them. Rounding may take their mean
/// beyond these bounds.
///
/// 32-bit floats need no bounds. For `n` up to 2^29, `n` times the greatest of them is exact in 64
/// bits (24 + 29 bits fit into 53), so that no sum of `n` floats is rounded to more than that.
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct BoundedSum {
    sum: f64,
    least: f64,
    greatest: f64,
}

impl Default for BoundedSum {
    fn default() -> Self {
        Self {
            sum: 0.0,
            least: f64::INFINITY,
            greatest: f64::NEG_INFINITY,
        }
    }
}

impl std::ops::AddAssign for BoundedSum {
    #[inline(always)]
    fn add_assign(&mut self, other: Self) {
        self.sum += other.sum;
        // Unlike `f64::min`, a single instruction.
        self.least = if other.least < self.least {
            other.least
        } else {
            self.least
        };
        self.greatest = if other.greatest > self.greatest {
            other.greatest
        } else {
            self.greatest
        };
    }
}

impl BoundedSum {
    fn of(voxel: f64) -> Self {
        Self {
            sum: voxel,
            least: voxel,
            greatest: voxel,
        }
    }

    /// The mean that `divide` makes of the sum, or the bound that it exceeds. NaN stays NaN.
    #[inline(always)]
    fn mean(self, divide: impl Fn(f64) -> f64) -> f64 {
        let mean = divide(self.sum);
        // Not `clamp`, which panics if a bound is NaN.
        if mean < self.least {
            self.least
        } else if mean > self.greatest {
            self.greatest
        } else {
            mean
        }
    }
}

/// The mean that `divide` makes of a sum of 32-bit floats, which needs no bounds.
fn unbounded_mean(sum: f64, divide: impl Fn(f64) -> f64) -> f64 {
    divide(sum)
}

macro_rules! float_voxel {
    ($($type:ty, $sum:ty, $widen:path, $mean:path, $variant:ident;)*) => { $(
        impl Voxel for $type {
            type Sum = $sum;
            type Mean = f64;
            const IS_FLOAT: bool = true;

            fn widen(self) -> $sum {
                $widen(self)
            }
            #[inline(always)]
            fn add(voxels: &[$type], sum: &mut $sum) {
                for voxel in voxels {
                    *sum += $widen(*voxel);
                }
            }
            #[inline(always)]
            fn mean_of_power(sum: $sum, power: u32) -> f64 {
                // The reciprocal is exact, so product and quotient are the same number, rounded
                // once.
                $mean(sum, |sum| sum * (1.0 / (1u64 << power) as f64))
            }
            fn mean(sum: $sum, count: u64) -> f64 {
                $mean(sum, |sum| sum / count as f64)
            }
            fn real_mean(sum: $sum, count: u64) -> f64 {
                Self::mean(sum, count)
            }
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
            fn to_whole(self) -> i128 {
                self as i128
            }
            fn to_label(self) -> u64 {
                (self as i64).cast_unsigned()
            }
            fn nearest(number: Number) -> $type {
                number.to_f64() as $type
            }
            buffer_of!($type, $variant);
        }
    )* };
}

// Type, sum of the voxels of one `add`, sum of a box, variant. The sum of 2^15 voxels of 16 bits
// (`MAX_ADDED`) fits into 32 bits, and the sum of 2^26 voxels of 32 bits (the largest tile by
// default) into 64 bits; voxels of 64 bits need 128.
integer_voxel! {
    u8, i32, i64, U8;
    i8, i32, i64, I8;
    u16, i32, i64, U16;
    i16, i32, i64, I16;
    u32, i64, i64, U32;
    i32, i64, i64, I32;
    u64, i128, i128, U64;
    i64, i128, i128, I64;
}
float_voxel! {
    f32, f64, f64::from, unbounded_mean, F32;
    f64, BoundedSum, BoundedSum::of, BoundedSum::mean, F64;
}

/// A buffer of voxels of one type.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum Samples {
    U8(Vec<u8>),
    I8(Vec<i8>),
    U16(Vec<u16>),
    I16(Vec<i16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
}

/// A box of voxels that are being read: its axes are z, y and x.
#[derive(Debug)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum BoxMut<'a> {
    U8(ArrayViewMut3<'a, u8>),
    I8(ArrayViewMut3<'a, i8>),
    U16(ArrayViewMut3<'a, u16>),
    I16(ArrayViewMut3<'a, i16>),
    U32(ArrayViewMut3<'a, u32>),
    I32(ArrayViewMut3<'a, i32>),
    U64(ArrayViewMut3<'a, u64>),
    I64(ArrayViewMut3<'a, i64>),
    F32(ArrayViewMut3<'a, f32>),
    F64(ArrayViewMut3<'a, f64>),
}

/// Runs an expression on the voxels that a variant of [`Samples`] or [`BoxMut`] holds, whatever
/// their type.
#[macro_export]
macro_rules! with_variant {
    ($of:ident, $value:expr, $voxels:ident => $body:expr) => {
        match $value {
            $crate::volume::$of::U8($voxels) => $body,
            $crate::volume::$of::I8($voxels) => $body,
            $crate::volume::$of::U16($voxels) => $body,
            $crate::volume::$of::I16($voxels) => $body,
            $crate::volume::$of::U32($voxels) => $body,
            $crate::volume::$of::I32($voxels) => $body,
            $crate::volume::$of::U64($voxels) => $body,
            $crate::volume::$of::I64($voxels) => $body,
            $crate::volume::$of::F32($voxels) => $body,
            $crate::volume::$of::F64($voxels) => $body,
        }
    };
}
pub use with_variant;

/// Runs an expression on the vector in samples, whatever its type.
#[macro_export]
macro_rules! with_samples {
    ($samples:expr, $voxels:ident => $body:expr) => {
        $crate::volume::with_variant!(Samples, $samples, $voxels => $body)
    };
}
pub use with_samples;

/// Runs an expression on the array in a box, whatever its type.
macro_rules! with_box {
    ($voxels_box:expr, $voxels:ident => $body:expr) => {
        $crate::volume::with_variant!(BoxMut, $voxels_box, $voxels => $body)
    };
}
pub(super) use with_box;

impl Samples {
    /// The number of voxels.
    pub fn len(&self) -> usize {
        with_samples!(self, voxels => voxels.len())
    }

    /// Whether there are no voxels.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Empty samples of the type of means of these samples.
    pub fn of_means(&self) -> Samples {
        fn of_means<T: Voxel>(_typed: &[T]) -> Samples {
            T::Mean::samples(Vec::new())
        }
        with_samples!(self, typed => of_means(typed))
    }

    /// Makes this a buffer of `len` voxels of type `voxel`, reusing the memory if the type matches.
    ///
    /// Existing voxels keep arbitrary values and new ones are 0: the caller must overwrite all.
    pub fn reset(&mut self, voxel: VoxelType, len: usize) {
        let fresh = voxel.samples();
        if std::mem::discriminant(self) != std::mem::discriminant(&fresh) {
            *self = fresh;
        }
        with_samples!(self, voxels => voxels.resize(len, Default::default()));
    }

    /// The voxels as a box of `size` voxels; fails if the box has more voxels than the buffer.
    pub fn as_box(&mut self, size: Xyz<u64>) -> Result<BoxMut<'_>, ShapeError> {
        let Xyz { x, y, z } = size.map(|extent| extent as usize);
        with_samples!(self, voxels => ArrayViewMut3::from_shape((z, y, x), voxels).map(Voxel::boxed))
    }

    /// The voxels' memory, in native byte order.
    pub fn bytes(&self) -> &[u8] {
        with_samples!(self, voxels => bytemuck::cast_slice(voxels))
    }

    /// The voxels' memory, for writing.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        with_samples!(self, voxels => bytemuck::cast_slice_mut(voxels))
    }

    /// Converts bytes from a file to voxels; elements are unpadded, in either byte order.
    ///
    /// Half floats become floats; trailing bytes of an incomplete voxel are dropped.
    pub(crate) fn from_stored(voxel: VoxelType, mut bytes: Vec<u8>, big_endian: bool) -> Samples {
        if matches!(voxel, VoxelType::Bool | VoxelType::U8) {
            return Samples::U8(bytes);
        }
        let width = voxel.stored_bytes();
        if big_endian != cfg!(target_endian = "big") {
            bytes.chunks_exact_mut(width).for_each(<[u8]>::reverse);
        }
        if voxel == VoxelType::F16 {
            let halves = bytes
                .chunks_exact(2)
                .map(|pair| half::f16::from_ne_bytes([pair[0], pair[1]]));
            return Samples::F32(halves.map(half::f16::to_f32).collect());
        }
        Self::from_native(voxel, &bytes)
    }

    /// Copies voxels from bytes in native byte order; bytes of an incomplete voxel at the end are
    /// dropped.
    pub(crate) fn from_native(voxel: VoxelType, bytes: &[u8]) -> Samples {
        let mut samples = voxel.samples();
        samples.reset(voxel, bytes.len() / samples.voxel_bytes());
        let whole = samples.bytes().len();
        samples.bytes_mut().copy_from_slice(&bytes[..whole]);
        samples
    }

    /// The size of one voxel in bytes.
    pub fn voxel_bytes(&self) -> usize {
        fn size_of<T>(_: &[T]) -> usize {
            std::mem::size_of::<T>()
        }
        with_samples!(self, voxels => size_of(voxels))
    }
}

impl Default for Samples {
    fn default() -> Self {
        Samples::U8(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_round_half_up_also_below_zero() {
        assert_eq!(u8::mean(1 + 2, 2), 2);
        assert_eq!(i16::mean(-1 - 2, 2), -1);
        assert_eq!(i16::mean(-3 - 4, 2), -3);
        assert_eq!(u64::mean(2 * i128::from(u64::MAX), 2), u64::MAX);
        assert_eq!(f32::mean(3.0, 2), 1.5);
    }

    #[test]
    fn means_of_floats_lie_between_the_least_and_the_greatest() {
        fn mean<T: Voxel>(voxels: &[T]) -> T::Mean {
            let mut sum = T::Sum::default();
            T::add(voxels, &mut sum);
            let count = voxels.len() as u64;
            if count.is_power_of_two() {
                T::mean_of_power(sum, count.ilog2())
            } else {
                T::mean(sum, count)
            }
        }
        // The least numbers whose sums are rounded: 1 and a few units in the last place.
        for last in 0..64 {
            let (one, next) = (
                f64::from_bits(1.0_f64.to_bits() + last),
                f64::from_bits(1.0_f64.to_bits() + last + 1),
            );
            for count in 1..=64 {
                assert_eq!(mean(&vec![-one; count]), -one, "{count} times {one:?}");
                let mut voxels = vec![one; count];
                voxels[0] = next;
                assert!(
                    (one..=next).contains(&mean(&voxels)),
                    "{count} times {one:?}, once {next:?}"
                );
                let (one, next) = (f32::from_bits(1.0_f32.to_bits() + last as u32), 1e30_f32);
                assert_eq!(mean(&vec![one; count]), f64::from(one));
                let mut voxels = vec![next; count];
                voxels[0] = one;
                assert!(mean(&voxels) <= f64::from(next));
            }
        }
        assert_eq!(mean(&[f64::MAX, f64::MAX]), f64::MAX);
        assert!(
            mean(&[1.0, f64::NAN]).is_nan() && mean(&[f64::INFINITY, f64::NEG_INFINITY]).is_nan()
        );
        assert_eq!(mean(&[f64::NEG_INFINITY, 1.0]), f64::NEG_INFINITY);
    }

    #[test]
    fn stored_bytes_are_read_in_either_order() {
        let big = Samples::from_stored(VoxelType::I16, vec![0xff, 0xfe, 0x01, 0x02], true);
        assert_eq!(big, Samples::I16(vec![-2, 0x0102]));
        let little = Samples::from_stored(VoxelType::F16, vec![0x00, 0x3c, 0x00, 0xc0], false);
        assert_eq!(little, Samples::F32(vec![1.0, -2.0]));
    }

    #[test]
    fn a_reset_gives_the_right_type_and_length() {
        let mut samples = Samples::default();
        samples.reset(VoxelType::F16, 3);
        assert_eq!(samples, Samples::F32(vec![0.0; 3]));
        samples.reset(VoxelType::Bool, 2);
        assert_eq!(
            (samples.len(), samples.voxel_bytes(), samples.bytes().len()),
            (2, 1, 2)
        );
    }
}
