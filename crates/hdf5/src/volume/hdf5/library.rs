//! Calls into libhdf5 that the `hdf5` crate does not offer, or that it implements in a way that
//! unusual files can break.
//!
//! This module and `mapping` contain nearly all `unsafe` code of the project. Every function takes
//! the library's lock, checks lengths before passing buffers to C, and returns failures as the
//! crate's error.
#![allow(unsafe_code, reason = "calls libhdf5")]

mod address;
mod chunk;
mod creation;
mod driver;
mod element;
mod filter;
mod handle;
mod link;
mod strings;

use std::ffi::{CString, c_uint, c_void};
use std::os::unix::ffi::OsStrExt;

use hdf5::{Dataset, Datatype, File, Group, Result, from_id, globals, sync::sync};
use hdf5_sys::h5d::{H5Dopen2, H5Dread};
use hdf5_sys::h5f::{H5F_ACC_RDONLY, H5F_ACC_SWMR_READ, H5Fopen};
use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5o::H5Oexists_by_name;
use hdf5_sys::h5p as p;
use hdf5_sys::h5s as s;
use hdf5_sys::h5t::H5Tconvert;

pub(super) use address::{Superblock, header_address, superblock};
pub(super) use chunk::{is_extensible_array, is_version_1_btree, read_chunk, write_chunk};
pub use creation::FilterSpec;
pub(super) use creation::{
    VirtualSource, edge_chunks_are_plain, fill_value, filters, raw_files, virtual_sources,
};
pub(super) use element::stored_type;
pub use element::{ElementMeaning, StoredType};
pub(super) use filter::{ForeignFilter, register};
pub(super) use link::{Link, LinkKind, link, links, object_info, open_group, path_of};
pub(super) use strings::read_strings;

use self::handle::{Id, c_name, native};
use super::admission::Admission;
use crate::volume::VoxelType;

/// How often an SWMR reader reads metadata whose checksum is wrong: the metadata may be being
/// written. The library waits for one nanosecond after the first attempt, and twice as long after
/// each further attempt: 0.27 seconds in total. Its default of 100 attempts would block every other
/// reader for longer than a lifetime.
const SWMR_ATTEMPTS: c_uint = 28;

/// Opens an admitted file for reading, without file locking and, because of our driver, even if it
/// is truncated.
///
/// Serving part of a file that is still being copied is more useful than refusing it; reads beyond
/// its end fail. Locks fail on network file systems and would block writers. A file that is being
/// written in single-writer/multiple-reader mode (SWMR) can only be opened as an SWMR reader.
pub(super) fn open_file(admission: &Admission) -> Result<File> {
    let name = CString::new(admission.own.path.as_os_str().as_bytes())
        .map_err(|_| "its name holds a zero byte")?;
    sync(|| {
        // SAFETY: the property list outlives the call to H5Fopen, and the name is zero-terminated.
        unsafe {
            let access = Id::new(p::H5Pcreate(*globals::H5P_FILE_ACCESS))?;
            driver::use_for(&access, admission)?;
            hdf5::h5check(p::H5Pset_file_locking(access.0, 0, 1))?;
            let open = |flags| hdf5::h5check(H5Fopen(name.as_ptr(), flags, access.0));
            let id = open(H5F_ACC_RDONLY).or_else(|e| {
                hdf5::h5check(p::H5Pset_metadata_read_attempts(access.0, SWMR_ATTEMPTS))?;
                // If this fails too, the first error says why.
                open(H5F_ACC_RDONLY | H5F_ACC_SWMR_READ).map_err(|_| e)
            })?;
            from_id(id)
        }
    })
}

/// The environment variable with the search path for raw files.
const RAW_FILE_PREFIX: &str = "HDF5_EXTFILE_PREFIX";
/// Its value for the folder of the HDF5 file.
const BESIDE_THE_FILE: &str = "${ORIGIN}";

/// Makes the library look for raw files in the folder of the HDF5 file that refers to them, and
/// removes the environment's search paths for virtual sources and external links.
///
/// The library has a dataset access property for this, but ignores it when it opens the sources of
/// virtual datasets, and looks for their raw files in the working directory. Without this call,
/// virtual datasets whose sources have raw files are refused.
///
/// # Safety
/// Changes the environment: call it while the process has one thread, and before the library is
/// initialised.
pub unsafe fn look_beside_files() {
    // SAFETY: the caller guarantees that no other thread reads the environment.
    unsafe {
        std::env::set_var(RAW_FILE_PREFIX, BESIDE_THE_FILE);
        std::env::remove_var("HDF5_VDS_PREFIX");
        std::env::remove_var("HDF5_EXT_PREFIX");
    }
}

/// Whether [`look_beside_files`] was called.
pub(super) fn looks_beside_files() -> bool {
    std::env::var(RAW_FILE_PREFIX).is_ok_and(|value| value == BESIDE_THE_FILE)
}

/// Opens the dataset that the hard link `name` points to. The library's chunk cache is disabled,
/// because we have our own.
pub(super) fn open_dataset(group: &Group, name: &str) -> Result<Dataset> {
    let name = c_name(name)?;
    sync(|| {
        // SAFETY: plain calls on open identifiers, with zero-terminated names.
        unsafe {
            let access = Id::new(p::H5Pcreate(*globals::H5P_DATASET_ACCESS))?;
            hdf5::h5check(p::H5Pset_chunk_cache(access.0, 1, 0, 0.0))?;
            from_id(hdf5::h5check(H5Dopen2(
                group.id(),
                name.as_ptr(),
                access.0,
            ))?)
        }
    })
}

/// Whether the library finds the object at a path by itself: it follows all links, by its own
/// rules.
pub(super) fn finds(file: &File, path: &str) -> Result<bool> {
    let path = c_name(path)?;
    // SAFETY: plain call on an open identifier, with a zero-terminated name.
    sync(|| unsafe { hdf5::h5check(H5Oexists_by_name(file.id(), path.as_ptr(), p::H5P_DEFAULT)) })
        .map(|found| found > 0)
}

/// Reads a box of a dataset in stored order, as voxels in native byte order.
///
/// If elements are arrays ([`StoredType::extents`]), their axes follow those of the dataset in
/// `start` and `count`, and the wanted numbers are picked from each element. `into` must be exactly
/// as long as the box.
pub(super) fn read_box(
    dataset: &Dataset,
    stored: &StoredType,
    start: &[u64],
    count: &[u64],
    into: &mut [u8],
) -> Result<()> {
    let memory = element::memory_type(dataset, stored.voxel)?;
    if stored.extents.is_empty() {
        return read_as(dataset, &memory, start, count, into);
    }
    let axes = dataset.ndim().min(start.len()).min(count.len());
    let (start, start_in_element) = start.split_at(axes);
    let (count, count_in_element) = count.split_at(axes);
    let wanted = wanted_numbers(&stored.extents, start_in_element, count_in_element);
    let number_bytes = memory.size() / stored.extents.iter().product::<u64>().max(1) as usize;
    let mut elements = vec![0; count.iter().product::<u64>() as usize * memory.size()];
    read_as(dataset, &memory, start, count, &mut elements)?;
    let mut places = into.chunks_exact_mut(number_bytes);
    for element in elements.chunks_exact(memory.size()) {
        for (index, place) in wanted.iter().zip(&mut places) {
            place.copy_from_slice(&element[index * number_bytes..][..number_bytes]);
        }
    }
    Ok(())
}

/// The indexes of the wanted numbers in an element that is an array of these extents. The wanted
/// numbers are the box of `count` numbers that begins at `start`. For example, in an array of 3 × 4
/// numbers, the box of 2 × 2 numbers at (1, 2) has the indexes 6, 7, 10 and 11.
fn wanted_numbers(extents: &[u64], start: &[u64], count: &[u64]) -> Vec<usize> {
    let mut wanted = vec![0];
    for ((extent, start), count) in extents.iter().zip(start).zip(count) {
        let mut next = Vec::new();
        for index in wanted {
            for place in *start..start + count {
                next.push(index * *extent as usize + place as usize);
            }
        }
        wanted = next;
    }
    wanted
}

/// Like [`read_box`], but reads elements as `memory`: any type that contains no pointers.
pub(super) fn read_as(
    dataset: &Dataset,
    memory: &Datatype,
    start: &[u64],
    count: &[u64],
    into: &mut [u8],
) -> Result<()> {
    let needed = count.iter().product::<u64>() as usize * memory.size();
    if start.len() != dataset.ndim() || count.len() != dataset.ndim() || into.len() != needed {
        let buffer = into.len();
        return Err(format!("a box of {needed} bytes does not fit a buffer of {buffer}").into());
    }
    // SAFETY: rank and buffer length were checked.
    unsafe {
        read_into(
            dataset,
            memory,
            start,
            count,
            p::H5P_DEFAULT,
            into.as_mut_ptr().cast(),
        )
    }
}

/// Reads a box of a dataset as elements of the type `memory`, with the property list `transfer`.
///
/// # Safety
///
/// `start` and `count` have one number per stored axis, and `into` has room for the box.
unsafe fn read_into(
    dataset: &Dataset,
    memory: &Datatype,
    start: &[u64],
    count: &[u64],
    transfer: hid_t,
    into: *mut c_void,
) -> Result<()> {
    let space = dataset.space()?;
    sync(|| {
        // SAFETY: guaranteed by the caller; the library rejects a box outside the dataset.
        unsafe {
            hdf5::h5check(s::H5Sselect_hyperslab(
                space.id(),
                s::H5S_seloper_t::H5S_SELECT_SET,
                start.as_ptr(),
                std::ptr::null(),
                count.as_ptr(),
                std::ptr::null(),
            ))?;
            let memory_space = Id::new(s::H5Screate_simple(
                count.len() as i32,
                count.as_ptr(),
                std::ptr::null(),
            ))?;
            let id = dataset.id();
            let space = space.id();
            hdf5::h5check(H5Dread(
                id,
                memory.id(),
                memory_space.0,
                space,
                transfer,
                into,
            ))
            .map(drop)
        }
    })
}

/// Converts the stored elements in `stored` to as many voxels of type `voxel` in `into`, in native
/// byte order.
pub(super) fn convert(
    dataset: &Dataset,
    voxel: VoxelType,
    stored: &[u8],
    into: &mut [u8],
) -> Result<()> {
    let from = dataset.dtype()?;
    let to = native(voxel)?;
    let count = into.len() / to.size().max(1);
    if count * to.size() != into.len() || count.checked_mul(from.size()) != Some(stored.len()) {
        let stored_bytes = stored.len();
        let voxel_bytes = into.len();
        return Err(format!(
            "{stored_bytes} bytes of elements do not convert to {voxel_bytes} bytes of voxels"
        )
        .into());
    }
    // H5Tconvert works in place; the buffer fits either form.
    let mut buffer = vec![0; stored.len().max(into.len())];
    buffer[..stored.len()].copy_from_slice(stored);
    let memory: *mut c_void = buffer.as_mut_ptr().cast();
    sync(|| {
        // SAFETY: the buffer is large enough for both forms; numbers need no background buffer.
        let done = unsafe {
            H5Tconvert(
                from.id(),
                to.id(),
                count,
                memory,
                std::ptr::null_mut(),
                p::H5P_DEFAULT,
            )
        };
        hdf5::h5check(done)
    })?;
    into.copy_from_slice(&buffer[..into.len()]);
    Ok(())
}
