//! Identifiers, names and types as libhdf5's functions take and return them.

use std::ffi::{CStr, CString, c_char};

use hdf5::{Datatype, Result, sync::sync};
use hdf5_sys::h5i::{H5Idec_ref, hid_t};

use crate::volume::VoxelType;

/// Longer names are an error; they are never truncated.
pub(super) const LONGEST_NAME: usize = 64 * 1024;

/// An HDF5 identifier, released on drop.
pub(super) struct Id(pub hid_t);

impl Id {
    pub fn new(id: hid_t) -> Result<Self> {
        hdf5::h5check(id).map(Id)
    }
}

impl Drop for Id {
    fn drop(&mut self) {
        // SAFETY: we own the identifier, and it is released once.
        sync(|| unsafe { H5Idec_ref(self.0) });
    }
}

pub(super) fn c_name(name: &str) -> Result<CString> {
    CString::new(name).map_err(|_| format!("the name {name:?} holds a zero byte").into())
}

/// Copies the name of a file or object. Invalid UTF-8 is an error: a lossy conversion could name
/// another file than the library would open.
///
/// # Safety
///
/// The pointer is not null and points to a zero-terminated string, which is not changed or freed
/// during the call.
pub(super) unsafe fn text(pointer: *const c_char) -> Result<String> {
    // SAFETY: guaranteed by the caller.
    let name = unsafe { CStr::from_ptr(pointer) };
    name.to_str()
        .map(str::to_owned)
        .map_err(|_| format!("the name {name:?} is not UTF-8").into())
}

/// The library's type for voxels in memory.
pub(super) fn native(voxel: VoxelType) -> Result<Datatype> {
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
