//! Reads a dataset's creation properties: its filters, raw files and virtual sources. The library
//! makes the property list anew whenever it is asked for it, which takes long: callers ask once and
//! pass the list on.

use std::ffi::{CStr, c_char};

use hdf5::plist::DatasetCreate;
use hdf5::{Result, sync::sync};
use hdf5_sys::h5::hsize_t;
use hdf5_sys::h5d::{H5D_fill_time_t, H5D_fill_value_t};
use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5p as p;
use hdf5_sys::h5s as s;

use super::handle::{Id, LONGEST_NAME, native, path_text, text};
use crate::volume::VoxelType;
use crate::volume::hdf5::grid::Stripes;

/// The maximum number of axes of a dataspace, and of an array (`H5S_MAX_RANK`).
pub(super) const MAX_RANK: usize = 32;

/// One filter of a dataset's pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FilterSpec {
    /// Its registered number.
    pub id: i32,
    /// Its name in the file; may be empty.
    pub name: String,
    /// Its parameters, at most the first 64.
    pub values: Vec<u32>,
    /// Whether the linked library, with its plugins, can decode it.
    pub available: bool,
}

/// The filters of a dataset, in the order in which they were applied.
pub(in crate::volume::hdf5) fn filters(creation: &DatasetCreate) -> Result<Vec<FilterSpec>> {
    sync(|| {
        // SAFETY: plain call on an open identifier.
        let count = unsafe { hdf5::h5check(p::H5Pget_nfilters(creation.id()))? };
        (0..count as u32)
            .map(|index| filter(creation, index))
            .collect()
    })
}

fn filter(creation: &DatasetCreate, index: u32) -> Result<FilterSpec> {
    let mut values = [0u32; 64];
    let mut name = [0 as c_char; 128];
    let mut count = values.len();
    let mut flags = 0;
    let mut config = 0;
    // SAFETY: the lengths are those of the buffers; the library may report a larger count but does
    // not write beyond them.
    unsafe {
        let id = hdf5::h5check(p::H5Pget_filter2(
            creation.id(),
            index,
            &mut flags,
            &mut count,
            values.as_mut_ptr(),
            name.len() - 1,
            name.as_mut_ptr(),
            &mut config,
        ))?;
        Ok(FilterSpec {
            id,
            name: CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned(),
            values: values[..count.min(values.len())].to_vec(),
            available: hdf5_sys::h5z::H5Zfilter_avail(id) > 0,
        })
    }
}

/// Whether chunks that extend beyond the edge of the dataset are stored unfiltered.
pub(in crate::volume::hdf5) fn edge_chunks_are_plain(creation: &DatasetCreate) -> Result<bool> {
    const DONT_FILTER_PARTIAL_CHUNKS: u32 = 2;
    let mut options = 0;
    // SAFETY: `options` is ours; only called for chunked datasets.
    sync(|| unsafe { hdf5::h5check(p::H5Pget_chunk_opts(creation.id(), &mut options)) })?;
    Ok(options & DONT_FILTER_PARTIAL_CHUNKS != 0)
}

/// The value of elements that were never written, as one voxel of type `voxel` in native byte
/// order. Zero, as voltile shows such elements, if the dataset has no fill value or is never
/// filled.
pub(in crate::volume::hdf5) fn fill_value(
    creation: &DatasetCreate,
    voxel: VoxelType,
) -> Result<Vec<u8>> {
    let memory_type = native(voxel)?;
    let mut value = vec![0; memory_type.size()];
    let mut status = H5D_fill_value_t::H5D_FILL_VALUE_ERROR;
    let mut time = H5D_fill_time_t::H5D_FILL_TIME_ERROR;
    sync(|| {
        // SAFETY: the buffer has the size of one element of the requested type; the other pointers
        // are to variables of this function.
        unsafe {
            hdf5::h5check(p::H5Pfill_value_defined(creation.id(), &mut status))?;
            hdf5::h5check(p::H5Pget_fill_time(creation.id(), &mut time))?;
            let is_filled = time != H5D_fill_time_t::H5D_FILL_TIME_NEVER;
            if is_filled && status != H5D_fill_value_t::H5D_FILL_VALUE_UNDEFINED {
                let to = value.as_mut_ptr().cast();
                hdf5::h5check(p::H5Pget_fill_value(creation.id(), memory_type.id(), to))?;
            }
        }
        Ok(value)
    })
}

/// A raw file that contains part of a dataset, as listed in the dataset's header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::volume::hdf5) struct RawFileEntry {
    /// Absolute, or relative to the folder of the HDF5 file.
    pub name: String,
    /// The byte offset of the part in the raw file.
    pub offset: u64,
    /// The length of the part in bytes; `u64::MAX` if unlimited.
    pub size: u64,
}

/// The raw files of a dataset, in order.
pub(in crate::volume::hdf5) fn raw_files(creation: &DatasetCreate) -> Result<Vec<RawFileEntry>> {
    sync(|| {
        // SAFETY: plain call on an open identifier.
        let count = unsafe { hdf5::h5check(p::H5Pget_external_count(creation.id()))? };
        (0..count as u32)
            .map(|index| raw_file(creation, index))
            .collect()
    })
}

fn raw_file(creation: &DatasetCreate, index: u32) -> Result<RawFileEntry> {
    let mut name = vec![0 as c_char; LONGEST_NAME];
    let mut offset = 0;
    let mut size: hsize_t = 0;
    // SAFETY: the library copies at most `length` bytes, possibly without a terminating zero.
    unsafe {
        let length = name.len();
        hdf5::h5check(p::H5Pget_external(
            creation.id(),
            index,
            length,
            name.as_mut_ptr(),
            &mut offset,
            &mut size,
        ))?;
    }
    let offset = u64::try_from(offset).map_err(|_| "the position in a raw file is negative")?;
    if name.last() != Some(&0) {
        return Err("the name of a raw file is too long".into());
    }
    // SAFETY: the buffer is ours, and its last byte was checked to be zero.
    let name = unsafe { text(name.as_ptr()) }?;
    Ok(RawFileEntry { name, offset, size })
}

/// A source of a virtual dataset, as stored in its header.
#[derive(Debug, Clone)]
pub(in crate::volume::hdf5) struct VirtualSource {
    /// The name of the file.
    pub file: String,
    /// The path of the dataset in it.
    pub dataset: String,
    /// The part of the virtual dataset that the source holds, by axis; `None` if the part is not
    /// regular.
    pub place: Option<Vec<Stripes>>,
}

/// The sources of a virtual dataset.
pub(in crate::volume::hdf5) fn virtual_sources(
    creation: &DatasetCreate,
) -> Result<Vec<VirtualSource>> {
    sync(|| {
        let mut count = 0;
        // SAFETY: `count` is ours; only called for virtual datasets.
        unsafe { hdf5::h5check(p::H5Pget_virtual_count(creation.id(), &mut count))? };
        let sources = (0..count).map(|index| {
            Ok(VirtualSource {
                file: virtual_name(creation, index, p::H5Pget_virtual_filename, false)?,
                dataset: virtual_name(creation, index, p::H5Pget_virtual_dsetname, true)?,
                place: virtual_place(creation, index)?,
            })
        });
        sources.collect()
    })
}

/// The part of a virtual dataset that the source with this number holds.
fn virtual_place(creation: &DatasetCreate, index: usize) -> Result<Option<Vec<Stripes>>> {
    // SAFETY: plain call; only called for virtual datasets, with the number of one of their
    // sources.
    let space = Id::new(unsafe { p::H5Pget_virtual_vspace(creation.id(), index) })?;
    let mut start = [0; MAX_RANK];
    let mut stride = [0; MAX_RANK];
    let mut count = [0; MAX_RANK];
    let mut block = [0; MAX_RANK];
    // SAFETY: no dataspace has more than `MAX_RANK` axes, which is the length of each array.
    let rank = unsafe {
        let rank = hdf5::h5check(s::H5Sget_simple_extent_ndims(space.0))?;
        match s::H5Sget_select_type(space.0) {
            s::H5S_sel_type::H5S_SEL_ALL => return Ok(Some(vec![Stripes::WHOLE; rank as usize])),
            s::H5S_sel_type::H5S_SEL_HYPERSLABS if s::H5Sis_regular_hyperslab(space.0) > 0 => {}
            _ => return Ok(None),
        }
        hdf5::h5check(s::H5Sget_regular_hyperslab(
            space.0,
            start.as_mut_ptr(),
            stride.as_mut_ptr(),
            count.as_mut_ptr(),
            block.as_mut_ptr(),
        ))?;
        rank as usize
    };
    let axes = (0..rank).map(|axis| Stripes {
        start: start[axis],
        stride: stride[axis],
        count: count[axis],
        block: block[axis],
    });
    Ok(Some(axes.collect()))
}

/// A function of the library that copies a name of the source with a number.
type VirtualName = unsafe extern "C" fn(hid_t, usize, *mut c_char, usize) -> isize;

/// A name of the source with this number, as `get` copies it. If it `is_path`, bytes that are not
/// UTF-8 are encoded; otherwise they are an error.
fn virtual_name(
    creation: &DatasetCreate,
    index: usize,
    get: VirtualName,
    is_path: bool,
) -> Result<String> {
    // SAFETY: the first call returns the length; the buffer has one more byte, for the terminating
    // zero.
    unsafe {
        let length = hdf5::h5check(get(creation.id(), index, std::ptr::null_mut(), 0))? as usize;
        if length > LONGEST_NAME {
            return Err("the name of a virtual dataset's source is too long".into());
        }
        let mut name = vec![0 as c_char; length + 1];
        hdf5::h5check(get(creation.id(), index, name.as_mut_ptr(), name.len()))?;
        // Not always `path_text`: in a name such as `part%b0.h5`, `%b` stands for a number, but
        // `path_text` would encode the percent sign.
        match text(name.as_ptr()) {
            Err(_) if is_path => Ok(path_text(CStr::from_ptr(name.as_ptr()).to_bytes())),
            name => name,
        }
    }
}
