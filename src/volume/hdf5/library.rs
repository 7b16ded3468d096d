//! The few calls into libhdf5 that the `hdf5` crate does not offer, or offers in a form that odd files can break.
//!
//! With `mapping` it holds all `unsafe` code of the project. Every function takes the library's lock, checks lengths before it
//! hands out memory, and turns a failure into the crate's error. Nothing here knows of volumes.
#![allow(unsafe_code, reason = "the only room that calls C")]

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;

use hdf5::{Dataset, Datatype, File, Group, Result, from_id, globals, sync::sync};
use hdf5_sys::h5::{H5free_memory, hbool_t, hsize_t};
use hdf5_sys::h5d::{H5Dget_create_plist, H5Dget_type, H5Dopen2, H5Dread, H5Dwrite_chunk};
use hdf5_sys::h5f::{H5F_ACC_RDONLY, H5Fopen};
use hdf5_sys::h5i::{H5Idec_ref, hid_t};
use hdf5_sys::h5l::{H5L_info2_t, H5L_type_t, H5Lexists, H5Lget_info2, H5Lget_val, H5Lunpack_elink_val};
use hdf5_sys::h5p as p;
use hdf5_sys::h5s as s;
use hdf5_sys::h5t as t;

use super::significant::SignificantBits;
use crate::volume::VoxelType;

/// Names longer than this are refused rather than read in part.
const LONGEST_NAME: usize = 64 * 1024;

/// An identifier that is released when it goes out of sight.
struct Id(hid_t);

impl Id {
    fn new(id: hid_t) -> Result<Self> {
        hdf5::h5check(id).map(Id)
    }
}

impl Drop for Id {
    fn drop(&mut self) {
        // SAFETY: the identifier was opened by us and is released once.
        sync(|| unsafe { H5Idec_ref(self.0) });
    }
}

fn c_name(name: &str) -> Result<CString> {
    CString::new(name).map_err(|_| format!("the name {name:?} holds a zero byte").into())
}

/// A name that leads somewhere. One that is not UTF-8 is refused: read otherwise than the library reads it, it would
/// seem to lead elsewhere.
fn text(pointer: *const c_char) -> Result<String> {
    // SAFETY: the library hands over zero-terminated strings, and the callers check for null.
    let name = unsafe { CStr::from_ptr(pointer) };
    name.to_str().map(str::to_owned).map_err(|_| format!("the name {name:?} is not UTF-8").into())
}

/// Opens a file for reading: without locking it, and also where its end is missing.
///
/// A file that is still being copied is better served in part than refused; what lies behind its end is noticed
/// when it is read. Locks fail on network file systems and would stop whoever writes.
pub(super) fn open_file(path: &Path) -> Result<File> {
    let name = c_name(&path.to_string_lossy())?;
    let skip: hbool_t = 1;
    sync(|| {
        // SAFETY: the property list lives until after the open; "skip_eof_check" is a property of one bool.
        unsafe {
            let access = Id::new(p::H5Pcreate(*globals::H5P_FILE_ACCESS))?;
            hdf5::h5check(p::H5Pset_file_locking(access.0, 0, 1))?;
            hdf5::h5check(p::H5Pset(
                access.0,
                c"skip_eof_check".as_ptr(),
                std::ptr::from_ref(&skip).cast_mut().cast(),
            ))?;
            from_id(hdf5::h5check(H5Fopen(name.as_ptr(), H5F_ACC_RDONLY, access.0))?)
        }
    })
}

/// What a name in a group leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Link {
    /// No such name.
    Missing,
    /// An object of the same file.
    Hard,
    /// A path in the same file.
    Soft(String),
    /// A path in another file.
    External { file: String, path: String },
}

const HARD: i32 = H5L_type_t::H5L_TYPE_HARD as i32;
const SOFT: i32 = H5L_type_t::H5L_TYPE_SOFT as i32;
const EXTERNAL: i32 = H5L_type_t::H5L_TYPE_EXTERNAL as i32;

/// Looks at a link without following it.
pub(super) fn link(group: &Group, name: &str) -> Result<Link> {
    let c = c_name(name)?;
    sync(|| {
        let mut info = H5L_info2_t::default();
        // SAFETY: the group is open, the name zero-terminated and `info` ours.
        let exists = unsafe { hdf5::h5check(H5Lexists(group.id(), c.as_ptr(), p::H5P_DEFAULT))? };
        if exists == 0 {
            return Ok(Link::Missing);
        }
        // SAFETY: as above.
        unsafe { hdf5::h5check(H5Lget_info2(group.id(), c.as_ptr(), &mut info, p::H5P_DEFAULT))? };
        // A file may hold links of kinds that the enumeration does not have: the number is looked at first.
        // SAFETY: the enumeration is as large as the number that the library wrote.
        let kind = unsafe { std::ptr::addr_of!(info.type_).cast::<i32>().read() };
        match kind {
            HARD => Ok(Link::Hard),
            SOFT => Ok(Link::Soft(until_zero(&link_value(group, &c, info)?)?)),
            EXTERNAL => external(&link_value(group, &c, info)?),
            _ => Err(format!("the link {name:?} is of a kind that this program does not know").into()),
        }
    })
}

fn link_value(group: &Group, name: &CStr, mut info: H5L_info2_t) -> Result<Vec<u8>> {
    // SAFETY: for soft and external links the union holds the value's size.
    let size = unsafe { *info.u.val_size() };
    if size > LONGEST_NAME {
        return Err(format!("a link's value is {size} bytes long").into());
    }
    let mut value = vec![0u8; size + 1];
    // SAFETY: the buffer holds `size` bytes and a closing zero.
    unsafe {
        hdf5::h5check(H5Lget_val(group.id(), name.as_ptr(), value.as_mut_ptr().cast(), size, p::H5P_DEFAULT))?
    };
    Ok(value)
}

fn until_zero(bytes: &[u8]) -> Result<String> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let name = str::from_utf8(&bytes[..end]);
    name.map(str::to_owned).map_err(|_| "the target of a soft link is not UTF-8".into())
}

fn external(value: &[u8]) -> Result<Link> {
    let (mut flags, mut file, mut path) = (0, std::ptr::null(), std::ptr::null());
    // SAFETY: the value ends in a zero; the pointers it yields point into it.
    unsafe {
        let size = value.len() - 1;
        hdf5::h5check(H5Lunpack_elink_val(value.as_ptr().cast(), size, &mut flags, &mut file, &mut path))?;
        if file.is_null() || path.is_null() {
            return Err("an external link without a target".into());
        }
    }
    Ok(Link::External { file: text(file)?, path: text(path)? })
}

/// The variable that says where raw files are looked for, and the value that means: beside the file that names them.
const RAW_FILES: (&str, &str) = ("HDF5_EXTFILE_PREFIX", "${ORIGIN}");

/// Has the library look for raw files beside the file that names them, whichever way it comes to open them, and for
/// other files nowhere that only the environment names.
///
/// The property of a dataset that says the same is not handed on to what virtual datasets open: raw files of theirs
/// would be looked for in the working directory. Datasets with raw files are refused in a process that did not call
/// this. To be called first of all, while the process has one thread and the library has not started.
pub fn look_beside_files() {
    // SAFETY: the environment is changed before any other thread could read it, as the documentation asks.
    unsafe {
        std::env::set_var(RAW_FILES.0, RAW_FILES.1);
        std::env::remove_var("HDF5_VDS_PREFIX");
        std::env::remove_var("HDF5_EXT_PREFIX");
    }
}

/// Whether [`look_beside_files`] was called.
pub(super) fn looks_beside_files() -> bool {
    std::env::var(RAW_FILES.0).is_ok_and(|value| value == RAW_FILES.1)
}

/// Opens a dataset that `name` leads to by a hard link. The library keeps no decoded chunks of it, because we do.
pub(super) fn open_dataset(group: &Group, name: &str) -> Result<Dataset> {
    let name = c_name(name)?;
    sync(|| {
        // SAFETY: plain calls on open identifiers, with zero-terminated names.
        unsafe {
            let access = Id::new(p::H5Pcreate(*globals::H5P_DATASET_ACCESS))?;
            hdf5::h5check(p::H5Pset_chunk_cache(access.0, 1, 0, 0.0))?;
            from_id(hdf5::h5check(H5Dopen2(group.id(), name.as_ptr(), access.0))?)
        }
    })
}

/// One filter of a dataset's pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterSpec {
    /// The number it is registered under.
    pub id: i32,
    /// The name that the file gives it; may be empty.
    pub name: String,
    /// Its parameters, as far as there are at most 64.
    pub values: Vec<u32>,
    /// Whether the library at hand can decode it.
    pub available: bool,
}

/// How a dataset was created.
struct Creation(Id);

impl Creation {
    fn of(dataset: &Dataset) -> Result<Self> {
        // SAFETY: the dataset is open.
        sync(|| Id::new(unsafe { H5Dget_create_plist(dataset.id()) })).map(Creation)
    }
}

/// The filters of a dataset, in the order in which they were applied.
pub(super) fn filters(dataset: &Dataset) -> Result<Vec<FilterSpec>> {
    let creation = Creation::of(dataset)?;
    sync(|| {
        // SAFETY: plain call on an open identifier.
        let count = unsafe { hdf5::h5check(p::H5Pget_nfilters(creation.0.0))? };
        (0..count as u32).map(|index| filter(&creation, index)).collect()
    })
}

fn filter(creation: &Creation, index: u32) -> Result<FilterSpec> {
    let (mut values, mut name) = ([0u32; 64], [0 as c_char; 128]);
    let (mut count, mut flags, mut config) = (values.len(), 0, 0);
    // SAFETY: the buffers are as long as is said; the library reports the true count but writes no more.
    unsafe {
        let id = hdf5::h5check(p::H5Pget_filter2(
            creation.0.0,
            index,
            &mut flags,
            &mut count,
            values.as_mut_ptr(),
            name.len() - 1,
            name.as_mut_ptr(),
            &mut config,
        ))?;
        let available = hdf5_sys::h5z::H5Zfilter_avail(id) > 0;
        let values = values[..count.min(values.len())].to_vec();
        Ok(FilterSpec {
            id,
            name: CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned(),
            values,
            available,
        })
    }
}

/// Whether chunks that reach over the edge of the dataset are stored without filters.
pub(super) fn edge_chunks_are_plain(dataset: &Dataset) -> Result<bool> {
    const DONT_FILTER_PARTIAL_CHUNKS: u32 = 2;
    let creation = Creation::of(dataset)?;
    let mut options = 0;
    // SAFETY: `options` is ours; only asked of chunked datasets.
    sync(|| unsafe { hdf5::h5check(p::H5Pget_chunk_opts(creation.0.0, &mut options)) })?;
    Ok(options & DONT_FILTER_PARTIAL_CHUNKS != 0)
}

/// The names of the raw files that hold a dataset's data, as the file gives them.
pub(super) fn raw_files(dataset: &Dataset) -> Result<Vec<String>> {
    let creation = Creation::of(dataset)?;
    sync(|| {
        // SAFETY: plain call on an open identifier.
        let count = unsafe { hdf5::h5check(p::H5Pget_external_count(creation.0.0))? };
        (0..count as u32).map(|index| raw_file(&creation, index)).collect()
    })
}

fn raw_file(creation: &Creation, index: u32) -> Result<String> {
    let mut name = vec![0 as c_char; LONGEST_NAME];
    let (mut offset, mut size): (_, hsize_t) = (0, 0);
    // SAFETY: the library copies at most the length it is told, and may leave out the closing zero.
    unsafe {
        let length = name.len();
        hdf5::h5check(p::H5Pget_external(
            creation.0.0,
            index,
            length,
            name.as_mut_ptr(),
            &mut offset,
            &mut size,
        ))?;
    }
    if name.last() != Some(&0) {
        return Err("the name of a raw file is too long".into());
    }
    text(name.as_ptr())
}

/// The (file, dataset) names that a virtual dataset is made of, as the file gives them.
pub(super) fn virtual_sources(dataset: &Dataset) -> Result<Vec<(String, String)>> {
    let creation = Creation::of(dataset)?;
    sync(|| {
        let mut count = 0;
        // SAFETY: `count` is ours; only asked of virtual datasets.
        unsafe { hdf5::h5check(p::H5Pget_virtual_count(creation.0.0, &mut count))? };
        let name = |index, get: VirtualName| virtual_name(&creation, index, get);
        (0..count)
            .map(|index| {
                Ok((name(index, p::H5Pget_virtual_filename)?, name(index, p::H5Pget_virtual_dsetname)?))
            })
            .collect()
    })
}

type VirtualName = unsafe extern "C" fn(hid_t, usize, *mut c_char, usize) -> isize;

fn virtual_name(creation: &Creation, index: usize, get: VirtualName) -> Result<String> {
    // SAFETY: asked first for the length, then given a buffer that long and one more for the zero.
    unsafe {
        let length = hdf5::h5check(get(creation.0.0, index, std::ptr::null_mut(), 0))? as usize;
        if length > LONGEST_NAME {
            return Err("the name of a virtual dataset's part is too long".into());
        }
        let mut name = vec![0 as c_char; length + 1];
        hdf5::h5check(get(creation.0.0, index, name.as_mut_ptr(), name.len()))?;
        text(name.as_ptr())
    }
}

/// A dataset's element type, as far as voxels go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredType {
    /// What the elements are.
    pub voxel: VoxelType,
    /// Whether raw elements can be made voxels without the library: no odd size, no odd float format.
    pub plain: bool,
    /// The bits that count, where not all do.
    pub significant: Option<SignificantBits>,
    /// Whether the most significant byte comes first.
    pub big_endian: bool,
}

/// The element type of a dataset; `None` where its elements are no numbers.
pub(super) fn stored_type(dataset: &Dataset) -> Result<Option<StoredType>> {
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

/// The layout of a number within its bytes: (bytes, the bits that count where not all do, big-endian).
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
    // Half floats of another make are widened by the library.
    let voxel = if voxel == VoxelType::F16 && !plain { VoxelType::F32 } else { voxel };
    Some(StoredType { voxel, plain, significant: None, big_endian })
}

/// Whether an enumeration is how h5py and the `hdf5` crate store booleans: FALSE and TRUE.
fn is_bool(own: &Id) -> bool {
    let member = |index| {
        // SAFETY: the library allocates the name and takes it back.
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

/// The library's type of what a stored voxel becomes in memory.
fn native(voxel: VoxelType) -> Result<Datatype> {
    match voxel {
        VoxelType::Bool | VoxelType::U8 => Datatype::from_type::<u8>(),
        VoxelType::I8 => Datatype::from_type::<i8>(),
        VoxelType::U16 => Datatype::from_type::<u16>(),
        VoxelType::I16 => Datatype::from_type::<i16>(),
        VoxelType::U32 => Datatype::from_type::<u32>(),
        VoxelType::I32 => Datatype::from_type::<i32>(),
        VoxelType::U64 => Datatype::from_type::<u64>(),
        VoxelType::I64 => Datatype::from_type::<i64>(),
        VoxelType::F16 | VoxelType::F32 => Datatype::from_type::<f32>(),
        VoxelType::F64 => Datatype::from_type::<f64>(),
    }
}

/// Reads a box of a dataset, densely in stored order, as `voxel` in the machine's byte order.
///
/// `start` and `count` have one number for each stored axis. `into` must be exactly as long as the box.
pub(super) fn read_box(
    dataset: &Dataset,
    voxel: VoxelType,
    start: &[u64],
    count: &[u64],
    into: &mut [u8],
) -> Result<()> {
    let memory_type = native(voxel)?;
    let needed = count.iter().product::<u64>() as usize * memory_type.size();
    let space = dataset.space()?;
    if start.len() != space.ndim() || count.len() != space.ndim() || into.len() != needed {
        return Err(format!("a box of {needed} bytes does not fit a buffer of {}", into.len()).into());
    }
    sync(|| {
        // SAFETY: rank and buffer length were checked; the library refuses a box outside the dataset.
        unsafe {
            hdf5::h5check(s::H5Sselect_hyperslab(
                space.id(),
                s::H5S_seloper_t::H5S_SELECT_SET,
                start.as_ptr(),
                std::ptr::null(),
                count.as_ptr(),
                std::ptr::null(),
            ))?;
            let memory = Id::new(s::H5Screate_simple(count.len() as i32, count.as_ptr(), std::ptr::null()))?;
            let buffer: *mut c_void = into.as_mut_ptr().cast();
            let (from, id) = (space.id(), memory_type.id());
            hdf5::h5check(H5Dread(dataset.id(), id, memory.0, from, p::H5P_DEFAULT, buffer)).map(|_| ())
        }
    })
}

/// Stores a chunk as it is, its filters applied already. `origin` has one number for each stored axis.
pub(super) fn write_chunk(dataset: &Dataset, origin: &[u64], packed: &[u8]) -> Result<()> {
    if origin.len() != dataset.ndim() {
        return Err(format!("a chunk at {origin:?} does not fit a dataset of rank {}", dataset.ndim()).into());
    }
    sync(|| {
        let bytes: *const c_void = packed.as_ptr().cast();
        // SAFETY: the rank was checked, the buffer is as long as is said; the library refuses an odd origin.
        let written =
            unsafe { H5Dwrite_chunk(dataset.id(), p::H5P_DEFAULT, 0, origin.as_ptr(), packed.len(), bytes) };
        hdf5::h5check(written).map(|_| ())
    })
}
