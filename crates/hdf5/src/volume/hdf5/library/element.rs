//! The element type of a dataset.

use hdf5::{Dataset, Datatype, Result, from_id, sync::sync};
use hdf5_sys::h5::H5free_memory;
use hdf5_sys::h5d::H5Dget_type;
use hdf5_sys::h5t::{self as t, H5T_class_t as Class};

use super::creation::MAX_RANK;
use super::handle::{Id, native, text};
use crate::volume::VoxelType;
use crate::volume::hdf5::significant::SignificantBits;

/// The stored element type of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredType {
    /// The voxel type as which the numbers of the elements are read.
    pub voxel: VoxelType,
    /// Whether numbers can be converted without the library: sizes of 1, 2, 4 or 8 bytes, IEEE
    /// floats.
    pub plain: bool,
    /// The significant bits of an integer, if not all are.
    pub significant: Option<SignificantBits>,
    /// Whether the byte order is big-endian.
    pub big_endian: bool,
    /// How the numbers of an element belong together.
    pub meaning: ElementMeaning,
    /// The extents of the numbers in an element, slowest axis first; empty if it is one number.
    pub extents: Vec<u64>,
}

/// How the numbers of an element belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElementMeaning {
    /// Each is a voxel: the element is one number, or an array of numbers.
    Voxels,
    /// They are the bits of a bitfield, which is read as one unsigned integer.
    Bits,
    /// They are the real and the imaginary part of a complex number.
    Complex,
    /// They are the components of a colour: red, green, blue and perhaps opacity.
    Colour,
}

/// The type of elements that are not voxels.
#[derive(Debug)]
pub(in crate::volume::hdf5) struct OtherType {
    /// Describes the elements, in messages after the words "the elements are".
    pub what: &'static str,
    /// Whether each of them may hold a picture by itself.
    pub may_hold_pictures: bool,
    /// Whether they are texts, references or times, which never hold pictures.
    pub is_text: bool,
}

/// The names of the members of complex numbers that are stored as compounds, in lower case.
const COMPLEX_MEMBERS: [&[&str]; 2] = [
    &[
        "r",
        "re",
        "real",
        "realfloat",
        "realfloathalfeven",
        "realfloathalfodd",
    ],
    &[
        "i",
        "im",
        "imag",
        "imaginary",
        "imagfloat",
        "imagfloathalfeven",
        "imagfloathalfodd",
    ],
];
/// The names of the members of colours that are stored as compounds, in lower case.
const COLOUR_MEMBERS: [&[&str]; 4] = [
    &["r", "red"],
    &["g", "green"],
    &["b", "blue"],
    &["a", "alpha"],
];

/// The element type of a dataset, if its elements are numbers or consist of numbers of one type.
pub(in crate::volume::hdf5) fn stored_type(
    dataset: &Dataset,
) -> Result<std::result::Result<StoredType, OtherType>> {
    sync(|| {
        // SAFETY: the dataset is open.
        let id = Id::new(unsafe { H5Dget_type(dataset.id()) })?;
        Ok(match type_of(&id)? {
            Some(stored) => Ok(stored),
            None => Err(other_type(&id)),
        })
    })
}

/// The type in memory that the library converts elements of a dataset to: `voxel` for numbers,
/// otherwise the native type of the elements.
pub(super) fn memory_type(dataset: &Dataset, voxel: VoxelType) -> Result<Datatype> {
    sync(|| {
        // SAFETY: plain calls on an open dataset and on its type.
        unsafe {
            let id = Id::new(H5Dget_type(dataset.id()))?;
            match t::H5Tget_class(id.0) {
                Class::H5T_INTEGER | Class::H5T_FLOAT | Class::H5T_ENUM => native(voxel),
                // The library converts neither bitfields to integers nor arrays to numbers.
                _ => from_id(hdf5::h5check(t::H5Tget_native_type(
                    id.0,
                    t::H5T_direction_t::H5T_DIR_ASCEND,
                ))?),
            }
        }
    })
}

/// The type of elements that are numbers or consist of numbers of one type; `None` for all other
/// elements.
fn type_of(id: &Id) -> Result<Option<StoredType>> {
    // SAFETY: plain call on an open type.
    let class = unsafe { t::H5Tget_class(id.0) };
    match class {
        Class::H5T_INTEGER => Ok(integer_type(id)),
        Class::H5T_FLOAT => Ok(float_type(id)),
        Class::H5T_BITFIELD => Ok(bitfield_type(id)),
        Class::H5T_ENUM => {
            let mut stored = integer_type(&base(id)?);
            if let Some(number) = &mut stored
                && matches!(number.voxel, VoxelType::I8 | VoxelType::U8)
                && is_bool(id)
            {
                number.voxel = VoxelType::Bool;
            }
            Ok(stored)
        }
        Class::H5T_COMPOUND => compound_type(id),
        Class::H5T_COMPLEX => {
            let part = type_of(&base(id)?)?;
            Ok(part.and_then(|part| part.repeated(id, vec![2], ElementMeaning::Complex)))
        }
        Class::H5T_ARRAY => array_type(id),
        _ => Ok(None),
    }
}

/// The type that an array, an enumeration or a complex number is made of.
fn base(id: &Id) -> Result<Id> {
    // SAFETY: plain call on an open type.
    Id::new(unsafe { t::H5Tget_super(id.0) })
}

impl StoredType {
    /// The type of elements that are arrays of these extents, of numbers of this type; `None` if
    /// the elements have padding, or if only the library can convert the numbers.
    fn repeated(self, id: &Id, extents: Vec<u64>, meaning: ElementMeaning) -> Option<Self> {
        // SAFETY: plain call on an open type.
        let size = unsafe { t::H5Tget_size(id.0) } as u64;
        let numbers = extents
            .iter()
            .try_fold(1u64, |all, extent| all.checked_mul(*extent))?;
        let is_packed = numbers.checked_mul(self.voxel.stored_bytes() as u64) == Some(size);
        let is_plain_number = self.extents.is_empty() && self.plain && self.voxel != VoxelType::F16;
        (is_packed && is_plain_number).then_some(Self {
            meaning,
            extents,
            ..self
        })
    }
}

/// The type of arrays of numbers.
fn array_type(id: &Id) -> Result<Option<StoredType>> {
    let part = type_of(&base(id)?)?;
    let mut extents = vec![0; MAX_RANK];
    // SAFETY: no array has more axes than the buffer has places.
    let rank = unsafe { hdf5::h5check(t::H5Tget_array_dims2(id.0, extents.as_mut_ptr()))? };
    extents.truncate(rank as usize);
    Ok(part.and_then(|part| part.repeated(id, extents, ElementMeaning::Voxels)))
}

/// The type of a compound of numbers of one type, one after the other, whose names say that they
/// are one value: two floats are a complex number, and three or four integers a colour.
fn compound_type(id: &Id) -> Result<Option<StoredType>> {
    // SAFETY: plain call on an open compound type.
    let count = unsafe { t::H5Tget_nmembers(id.0) } as u32;
    // Five members are already too many.
    let names: Option<Vec<String>> = (0..count.min(5))
        .map(|index| Some(member_name(id, index)?.to_lowercase()))
        .collect();
    let names = names.unwrap_or_default();
    let meaning = match names.len() {
        2 if are_members(&names, &COMPLEX_MEMBERS) => ElementMeaning::Complex,
        3 | 4 if are_members(&names, &COLOUR_MEMBERS) => ElementMeaning::Colour,
        _ => return Ok(None),
    };
    let mut types = Vec::new();
    for index in 0..count {
        // SAFETY: plain call on an open compound type with as many members.
        let member = Id::new(unsafe { t::H5Tget_member_type(id.0, index) })?;
        types.push(type_of(&member)?);
    }
    // If all are equal, one is left.
    types.dedup();
    let [Some(only)] = types.as_slice() else {
        return Ok(None);
    };
    let expects_integers = meaning == ElementMeaning::Colour;
    if only.voxel.is_integer() != expects_integers {
        return Ok(None);
    }
    Ok(only.clone().repeated(id, vec![u64::from(count)], meaning))
}

/// Whether the name of each member is one of the known names for its place.
fn are_members(names: &[String], known: &[&[&str]]) -> bool {
    let mut members = names.iter().zip(known);
    members.all(|(name, spellings)| spellings.contains(&name.as_str()))
}

/// A bitfield as an unsigned integer, or as a boolean if it has one bit.
fn bitfield_type(id: &Id) -> Option<StoredType> {
    let stored = integral_type(id, false)?;
    let is_bit = stored.significant.is_some_and(|bits| bits.precision == 1);
    let voxel = match stored.voxel {
        VoxelType::U8 if is_bit => VoxelType::Bool,
        other => other,
    };
    Some(StoredType {
        voxel,
        meaning: ElementMeaning::Bits,
        ..stored
    })
}

/// Describes elements that are no numbers.
fn other_type(id: &Id) -> OtherType {
    // SAFETY: plain call on an open type.
    let class = unsafe { t::H5Tget_class(id.0) };
    let is_list = class == Class::H5T_VLEN;
    // SAFETY: plain call on the open type of the list's members.
    let is_of_bytes = is_list && base(id).is_ok_and(|base| unsafe { t::H5Tget_size(base.0) } == 1);
    let is_text = matches!(
        class,
        Class::H5T_STRING | Class::H5T_REFERENCE | Class::H5T_TIME
    );
    let what = match class {
        Class::H5T_STRING => "texts",
        Class::H5T_REFERENCE => "references",
        Class::H5T_TIME => "times",
        Class::H5T_COMPOUND => "compounds that are neither complex numbers nor colours",
        Class::H5T_COMPLEX => "complex numbers of floats that are not IEEE's of 32 or 64 bits",
        Class::H5T_ARRAY => "arrays of other elements than numbers of 8 to 64 bits",
        Class::H5T_OPAQUE => "opaque bytes",
        Class::H5T_VLEN if !is_of_bytes => "lists of any length",
        Class::H5T_VLEN => "lists of any length, as of encoded pictures (JPEG, PNG)",
        // Integers, enumerations and bitfields of up to 64 bits are read.
        _ => "numbers of more than 64 bits",
    };
    OtherType {
        what,
        may_hold_pictures: is_of_bytes,
        is_text,
    }
}

/// The layout of a number.
struct NumberLayout {
    /// The size in bytes.
    size: usize,
    /// The significant bits; `None` if all are.
    significant: Option<SignificantBits>,
    big_endian: bool,
}

impl NumberLayout {
    fn new(id: &Id, signed: bool) -> Self {
        // SAFETY: plain call on an open atomic type.
        let size = unsafe { t::H5Tget_size(id.0) };
        // SAFETY: as above.
        let precision = unsafe { t::H5Tget_precision(id.0) };
        // SAFETY: as above.
        let offset = unsafe { t::H5Tget_offset(id.0) };
        // SAFETY: as above.
        let order = unsafe { t::H5Tget_order(id.0) };
        let is_padded = precision != size * 8 || offset != 0;
        let bits = SignificantBits {
            precision: precision as u32,
            offset: offset as u32,
            signed,
        };
        Self {
            size,
            significant: is_padded.then_some(bits),
            big_endian: order == t::H5T_order_t::H5T_ORDER_BE,
        }
    }

    /// The type of elements that are one number of this layout, read as `voxel`.
    fn stored_type(self, voxel: VoxelType, plain: bool) -> StoredType {
        StoredType {
            voxel,
            plain,
            significant: self.significant,
            big_endian: self.big_endian,
            meaning: ElementMeaning::Voxels,
            extents: Vec::new(),
        }
    }
}

fn integer_type(id: &Id) -> Option<StoredType> {
    // SAFETY: plain call on an open type.
    let signed = unsafe { t::H5Tget_sign(id.0) } == t::H5T_sign_t::H5T_SGN_2;
    integral_type(id, signed)
}

/// The type of an integer, or of a bitfield, which is taken for an unsigned integer.
fn integral_type(id: &Id, signed: bool) -> Option<StoredType> {
    let layout = NumberLayout::new(id, signed);
    let voxel = match (layout.size, signed) {
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
    let plain = matches!(layout.size, 1 | 2 | 4 | 8);
    Some(layout.stored_type(voxel, plain))
}

fn float_type(id: &Id) -> Option<StoredType> {
    let layout = NumberLayout::new(id, true);
    let mut fields = [0; 5];
    let [sign, exponent, exponent_bits, mantissa, mantissa_bits] = &mut fields;
    // SAFETY: plain calls on an open floating point type.
    let bias = unsafe {
        t::H5Tget_fields(id.0, sign, exponent, exponent_bits, mantissa, mantissa_bits);
        t::H5Tget_ebias(id.0)
    };
    let (voxel, ieee_fields, ieee_bias) = match layout.size {
        2 => (VoxelType::F16, [15, 10, 5, 0, 10], 15),
        1..=4 => (VoxelType::F32, [31, 23, 8, 0, 23], 127),
        5.. => (VoxelType::F64, [63, 52, 11, 0, 52], 1023),
        _ => return None,
    };
    let plain = layout.significant.is_none() && fields == ieee_fields && bias == ieee_bias;
    // The library converts other 16-bit float formats to 32 bits.
    let voxel = if voxel == VoxelType::F16 && !plain {
        VoxelType::F32
    } else {
        voxel
    };
    Some(StoredType {
        significant: None,
        ..layout.stored_type(voxel, plain)
    })
}

/// Whether an enumeration is a boolean as stored by h5py and the `hdf5` crate: FALSE and TRUE.
fn is_bool(id: &Id) -> bool {
    // SAFETY: plain call on an open enumeration.
    let count = unsafe { t::H5Tget_nmembers(id.0) };
    count == 2
        && member_name(id, 0).as_deref() == Some("FALSE")
        && member_name(id, 1).as_deref() == Some("TRUE")
}

/// The name of a member of an enumeration or a compound.
fn member_name(id: &Id, index: u32) -> Option<String> {
    // SAFETY: the library allocates the zero-terminated name, which is checked for null and freed
    // by the library.
    unsafe {
        let name = t::H5Tget_member_name(id.0, index);
        if name.is_null() {
            return None;
        }
        let owned = text(name);
        H5free_memory(name.cast());
        owned.ok()
    }
}
