//! The few calls into libhdf5 that the `hdf5` crate does not offer, or offers in a form that odd files can break.
//!
//! With `mapping` it holds all `unsafe` code of the project but one call. Every function takes the library's lock,
//! checks lengths before it hands out memory, and turns a failure into the crate's error. Nothing here knows of volumes.
#![allow(unsafe_code, reason = "the only room that calls C")]

mod chunk;
mod creation;
mod driver;
mod element;
mod link;

use std::ffi::{CStr, CString, c_char, c_void};
use std::os::unix::ffi::OsStrExt;

use hdf5::{Dataset, Datatype, File, Group, Result, from_id, globals, sync::sync};
use hdf5_sys::h5::hbool_t;
use hdf5_sys::h5d::{H5Dopen2, H5Dread, H5Dwrite_chunk};
use hdf5_sys::h5f::{H5F_ACC_RDONLY, H5F_ACC_SWMR_READ, H5Fopen};
use hdf5_sys::h5i::{H5Idec_ref, hid_t};
use hdf5_sys::h5p as p;
use hdf5_sys::h5s as s;
use hdf5_sys::h5t::H5Tconvert;

pub(super) use chunk::{RawChunk, is_extensible_array, read_chunk};
pub use creation::FilterSpec;
pub(super) use creation::{RawFileEntry, edge_chunks_are_plain, filters, raw_files, virtual_sources};
pub use element::StoredType;
pub(super) use element::stored_type;
pub(super) use link::{Link, link};

use super::admission::Admission;
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
///
/// # Safety
///
/// The pointer is not null and leads to a zero-terminated string, which nobody changes or frees meanwhile.
unsafe fn text(pointer: *const c_char) -> Result<String> {
    // SAFETY: the caller promises it.
    let name = unsafe { CStr::from_ptr(pointer) };
    name.to_str().map(str::to_owned).map_err(|_| format!("the name {name:?} is not UTF-8").into())
}

/// Opens an admitted file for reading: without locking it, and also where its end is missing.
///
/// A file that is still being copied is better served in part than refused; what lies beyond its end is noticed
/// when it is read. Locks fail on network file systems and would stop whoever writes. A file that is being written in
/// the single-writer/multiple-readers mode (SWMR) can only be opened as one of its readers.
pub(super) fn open_file(admission: &Admission) -> Result<File> {
    let name = CString::new(admission.own().identity().path().as_os_str().as_bytes())
        .map_err(|_| "its name holds a zero byte")?;
    let skip: hbool_t = 1;
    sync(|| {
        // SAFETY: the property list lives until after the open; "skip_eof_check" is a property of one bool.
        unsafe {
            let access = Id::new(p::H5Pcreate(*globals::H5P_FILE_ACCESS))?;
            driver::use_for(&access, admission)?;
            hdf5::h5check(p::H5Pset_file_locking(access.0, 0, 1))?;
            hdf5::h5check(p::H5Pset(
                access.0,
                c"skip_eof_check".as_ptr(),
                std::ptr::from_ref(&skip).cast_mut().cast(),
            ))?;
            let open = |flags| hdf5::h5check(H5Fopen(name.as_ptr(), flags, access.0));
            open(H5F_ACC_RDONLY)
                .or_else(|e| open(H5F_ACC_RDONLY | H5F_ACC_SWMR_READ).map_err(|_| e))
                .and_then(|id| from_id(id))
        }
    })
}

/// The variable that says where raw files are looked for, and the value that means: beside the file that names them.
const RAW_FILES: (&str, &str) = ("HDF5_EXTFILE_PREFIX", "${ORIGIN}");

/// Has the library look for raw files beside the file that names them, whichever way it comes to open them, and for
/// other files nowhere that only the environment names.
///
/// The property of a dataset that says the same is not handed on to what virtual datasets open: raw files of theirs
/// would be looked for in the working directory. Datasets with raw files are refused in a process that did not call
/// this.
///
/// # Safety
/// Changes the environment: to be called first of all, while the process has one thread and the library has not started.
pub unsafe fn look_beside_files() {
    // SAFETY: the caller promises that no other thread reads the environment.
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

/// Makes voxels of elements as they are stored in the file, through the library: `stored` holds them one after the other,
/// and `into` gets as many of type `voxel` in the machine's byte order.
pub(super) fn convert(dataset: &Dataset, voxel: VoxelType, stored: &[u8], into: &mut [u8]) -> Result<()> {
    let (from, to) = (dataset.dtype()?, native(voxel)?);
    let count = into.len() / to.size().max(1);
    if count * to.size() != into.len() || count.checked_mul(from.size()) != Some(stored.len()) {
        let (elements, voxels) = (stored.len(), into.len());
        return Err(format!("{elements} bytes of elements do not make {voxels} bytes of voxels").into());
    }
    // Converted in place, in a buffer that holds either form.
    let mut buffer = vec![0; stored.len().max(into.len())];
    buffer[..stored.len()].copy_from_slice(stored);
    let memory: *mut c_void = buffer.as_mut_ptr().cast();
    sync(|| {
        // SAFETY: the buffer is large enough for both forms; numbers need no background.
        let done =
            unsafe { H5Tconvert(from.id(), to.id(), count, memory, std::ptr::null_mut(), p::H5P_DEFAULT) };
        hdf5::h5check(done)
    })?;
    into.copy_from_slice(&buffer[..into.len()]);
    Ok(())
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
