//! The element type of a dataset.

use hdf5::{Dataset, Result, sync::sync};
use hdf5_sys::h5::H5free_memory;
use hdf5_sys::h5d::H5Dget_type;
use hdf5_sys::h5t as t;

use super::handle::{Id, text};
use crate::volume::VoxelType;
use crate::volume::hdf5::significant::SignificantBits;

/// The stored element type of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredType {
    /// The voxel type as which the elements are read.
    pub voxel: VoxelType,
    /// Whether elements can be converted without the library: sizes of 1, 2, 4 or 8 bytes, IEEE
    /// floats.
    pub plain: bool,
    /// The significant bits of an integer, if not all are.
    pub significant: Option<SignificantBits>,
    /// Whether the byte order is big-endian.
    pub big_endian: bool,
    /// The names of the real and the imaginary part of complex numbers, which are two floats of the
    /// type `voxel`.
    pub complex: Option<&'static [&'static str; 2]>,
}

/// The names of the parts of a complex number: h5py and PyTables; MATLAB and others; Velox.
const COMPLEX: [[&str; 2]; 4] = [
    ["r", "i"],
    ["real", "imag"],
    ["realFloatHalfEven", "imagFloatHalfEven"],
    ["realFloatHalfOdd", "imagFloatHalfOdd"],
];

/// The element type of a dataset; `None` if it is not numeric.
pub(in crate::volume::hdf5) fn stored_type(dataset: &Dataset) -> Result<Option<StoredType>> {
    sync(|| {
        // SAFETY: the dataset is open.
        let own = Id::new(unsafe { H5Dget_type(dataset.id()) })?;
        // SAFETY: plain calls on an open type.
        let class = unsafe { t::H5Tget_class(own.0) };
        match class {
            t::H5T_class_t::H5T_INTEGER => Ok(integer_type(&own)),
            t::H5T_class_t::H5T_FLOAT => Ok(float_type(&own)),
            t::H5T_class_t::H5T_ENUM => {
                // SAFETY: as above.
                let base = Id::new(unsafe { t::H5Tget_super(own.0) })?;
                let bool_like = is_bool(&own);
                Ok(integer_type(&base).map(|stored| match stored.voxel {
                    VoxelType::I8 | VoxelType::U8 if bool_like => StoredType {
                        voxel: VoxelType::Bool,
                        ..stored
                    },
                    _ => stored,
                }))
            }
            t::H5T_class_t::H5T_COMPOUND => complex_type(&own),
            _ => Ok(None),
        }
    })
}

/// The type of a compound of two floats, one after the other, whose names are those of a complex
/// number.
fn complex_type(own: &Id) -> Result<Option<StoredType>> {
    // SAFETY: plain calls on an open compound type.
    let (count, size) = unsafe { (t::H5Tget_nmembers(own.0), t::H5Tget_size(own.0)) };
    let names = [member_name(own, 0), member_name(own, 1)];
    let known = COMPLEX
        .iter()
        .find(|known| names.iter().flatten().eq(*known));
    let Some(known) = known.filter(|_| count == 2) else {
        return Ok(None);
    };
    // SAFETY: as above; there are two members.
    let (parts, second) = unsafe {
        let part = |index| Id::new(t::H5Tget_member_type(own.0, index));
        ([part(0)?, part(1)?], t::H5Tget_member_offset(own.0, 1))
    };
    // SAFETY: plain call on an open type.
    let is_float = |part: &Id| unsafe { t::H5Tget_class(part.0) } == t::H5T_class_t::H5T_FLOAT;
    if !parts.iter().all(is_float) {
        return Ok(None);
    }
    let [real, imaginary] = parts.each_ref().map(float_type);
    let is_packed = |real: &StoredType| {
        let width = real.voxel.stored_bytes();
        real.plain && real.voxel != VoxelType::F16 && (second, size) == (width, 2 * width)
    };
    let stored = real.filter(|real| imaginary == Some(*real) && is_packed(real));
    Ok(stored.map(|real| StoredType {
        complex: Some(known),
        ..real
    }))
}

/// The layout of a number: (size in bytes, significant bits if not all are, whether big-endian).
fn number_layout(own: &Id, signed: bool) -> (usize, Option<SignificantBits>, bool) {
    // SAFETY: plain calls on an open atomic type.
    let (size, precision, offset, order) = unsafe {
        let (size, precision) = (t::H5Tget_size(own.0), t::H5Tget_precision(own.0));
        (
            size,
            precision,
            t::H5Tget_offset(own.0),
            t::H5Tget_order(own.0),
        )
    };
    let part = precision != size * 8 || offset != 0;
    let bits = SignificantBits {
        precision: precision as u32,
        offset: offset as u32,
        signed,
    };
    (
        size,
        part.then_some(bits),
        order == t::H5T_order_t::H5T_ORDER_BE,
    )
}

fn integer_type(own: &Id) -> Option<StoredType> {
    // SAFETY: plain call on an open type.
    let signed = unsafe { t::H5Tget_sign(own.0) } == t::H5T_sign_t::H5T_SGN_2;
    let (size, significant, big_endian) = number_layout(own, signed);
    let voxel = match (size, signed) {
        (1, false) => VoxelType::U8,
        (1, true) => VoxelType::I8,
        (2, false) => VoxelType::U16,
        (2, true) => VoxelType::I16,
        (3..=4, false) => VoxelType::U32,
        (3..=4, true) => VoxelType::I32,
        (5..=8, false) => VoxelType::U64,
        (5..=8, true) => VoxelType::I64,
        _ => return None,
    };
    let plain = matches!(size, 1 | 2 | 4 | 8);
    Some(StoredType {
        voxel,
        plain,
        significant,
        big_endian,
        complex: None,
    })
}

fn float_type(own: &Id) -> Option<StoredType> {
    let (size, part, big_endian) = number_layout(own, true);
    let (mut sign, mut exponent, mut exponent_bits, mut mantissa, mut mantissa_bits) =
        (0, 0, 0, 0, 0);
    // SAFETY: plain calls on an open floating point type.
    let (fields, bias) = unsafe {
        t::H5Tget_fields(
            own.0,
            &mut sign,
            &mut exponent,
            &mut exponent_bits,
            &mut mantissa,
            &mut mantissa_bits,
        );
        (
            (sign, exponent, exponent_bits, mantissa, mantissa_bits),
            t::H5Tget_ebias(own.0),
        )
    };
    let (voxel, ieee) = match size {
        2 => (VoxelType::F16, ((15, 10, 5, 0, 10), 15)),
        1..=4 => (VoxelType::F32, ((31, 23, 8, 0, 23), 127)),
        5.. => (VoxelType::F64, ((63, 52, 11, 0, 52), 1023)),
        _ => return None,
    };
    let plain = part.is_none() && (fields, bias) == ieee;
    // The library converts other 16-bit float formats to 32 bits.
    let voxel = if voxel == VoxelType::F16 && !plain {
        VoxelType::F32
    } else {
        voxel
    };
    Some(StoredType {
        voxel,
        plain,
        significant: None,
        big_endian,
        complex: None,
    })
}

/// Whether an enumeration is a boolean as stored by h5py and the `hdf5` crate: FALSE and TRUE.
fn is_bool(own: &Id) -> bool {
    // SAFETY: plain call on an open enumeration.
    let count = unsafe { t::H5Tget_nmembers(own.0) };
    let is_named = |index, name| member_name(own, index).as_deref() == Some(name);
    count == 2 && is_named(0, "FALSE") && is_named(1, "TRUE")
}

/// The name of a member of an enumeration or a compound.
fn member_name(own: &Id, index: u32) -> Option<String> {
    // SAFETY: the library allocates the zero-terminated name, which is checked for null and freed
    // by the library.
    unsafe {
        let name = t::H5Tget_member_name(own.0, index);
        if name.is_null() {
            return None;
        }
        let owned = text(name);
        H5free_memory(name.cast());
        owned.ok()
    }
}
