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
    /// Whether elements can be converted without the library: sizes of 1, 2, 4 or 8 bytes, IEEE floats.
    pub plain: bool,
    /// The significant bits of an integer, if not all are.
    pub significant: Option<SignificantBits>,
    /// Whether the byte order is big-endian.
    pub big_endian: bool,
}

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
                    VoxelType::I8 | VoxelType::U8 if bool_like => {
                        StoredType { voxel: VoxelType::Bool, ..stored }
                    }
                    _ => stored,
                }))
            }
            _ => Ok(None),
        }
    })
}

/// The layout of a number: (size in bytes, significant bits if not all are, whether big-endian).
fn number_layout(own: &Id, signed: bool) -> (usize, Option<SignificantBits>, bool) {
    // SAFETY: plain calls on an open atomic type.
    let (size, precision, offset, order) = unsafe {
        let (size, precision) = (t::H5Tget_size(own.0), t::H5Tget_precision(own.0));
        (size, precision, t::H5Tget_offset(own.0), t::H5Tget_order(own.0))
    };
    let part = precision != size * 8 || offset != 0;
    let bits = SignificantBits { precision: precision as u32, offset: offset as u32, signed };
    (size, part.then_some(bits), order == t::H5T_order_t::H5T_ORDER_BE)
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
    Some(StoredType { voxel, plain, significant, big_endian })
}

fn float_type(own: &Id) -> Option<StoredType> {
    let (size, part, big_endian) = number_layout(own, true);
    let (mut sign, mut exponent, mut exponent_bits, mut mantissa, mut mantissa_bits) = (0, 0, 0, 0, 0);
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
        ((sign, exponent, exponent_bits, mantissa, mantissa_bits), t::H5Tget_ebias(own.0))
    };
    let (voxel, ieee) = match size {
        2 => (VoxelType::F16, ((15, 10, 5, 0, 10), 15)),
        1..=4 => (VoxelType::F32, ((31, 23, 8, 0, 23), 127)),
        5.. => (VoxelType::F64, ((63, 52, 11, 0, 52), 1023)),
        _ => return None,
    };
    let plain = part.is_none() && (fields, bias) == ieee;
    // The library converts other 16-bit float formats to 32 bits.
    let voxel = if voxel == VoxelType::F16 && !plain { VoxelType::F32 } else { voxel };
    Some(StoredType { voxel, plain, significant: None, big_endian })
}

/// Whether an enumeration is a boolean as stored by h5py and the `hdf5` crate: FALSE and TRUE.
fn is_bool(own: &Id) -> bool {
    let member = |index| {
        // SAFETY: the library allocates the zero-terminated name, which is checked for null and freed by the library.
        unsafe {
            let name = t::H5Tget_member_name(own.0, index);
            if name.is_null() {
                return None;
            }
            let owned = text(name);
            H5free_memory(name.cast());
            owned.ok()
        }
    };
    // SAFETY: plain call on an open enumeration.
    let count = unsafe { t::H5Tget_nmembers(own.0) };
    count == 2 && member(0).as_deref() == Some("FALSE") && member(1).as_deref() == Some("TRUE")
}
