//! Lets the library decode chunks with filters that it does not have: it reads virtual datasets,
//! and chunks too large for the chunk cache, by itself.

use std::ffi::{c_int, c_uint, c_void};
use std::panic::catch_unwind;
use std::{ptr, slice};

use hdf5::{Result, sync::sync};
use hdf5_sys::h5::{H5allocate_memory, H5free_memory};
use hdf5_sys::h5z::{H5Z_CLASS_T_VERS, H5Z_FLAG_REVERSE, H5Z_class2_t, H5Zregister};

/// A filter that the library does not have.
pub(in super::super) trait ForeignFilter {
    /// Its registered number.
    const ID: i32;

    /// Decodes a stored chunk, given the parameters of its dataset; `None` if that is not possible.
    fn decode(parameters: &[u32], stored: &[u8]) -> Option<Vec<u8>>;
}

/// Makes the library decode with this filter, from now on and in the whole process.
pub(in super::super) fn register<F: ForeignFilter>() -> Result<()> {
    let class = H5Z_class2_t {
        version: H5Z_CLASS_T_VERS as c_int,
        id: F::ID,
        encoder_present: 1, // else no dataset could be made whose chunks are written encoded
        decoder_present: 1,
        name: c"a filter of voltile".as_ptr(),
        can_apply: None,
        set_local: None,
        filter: Some(call::<F>),
    };
    // SAFETY: the library copies the class, which names no other memory.
    sync(|| unsafe { hdf5::h5check(H5Zregister((&raw const class).cast())) }).map(drop)
}

/// A filter function as the library calls it, with its lock held: replaces the stored bytes in
/// `buffer` with the decoded ones. Returns their number, or 0 if they cannot be decoded.
///
/// # Safety
///
/// `parameters` has `count` elements, `buffer` was allocated by the library and has `length` bytes,
/// and `size` can be written.
unsafe extern "C" fn call<F: ForeignFilter>(
    flags: c_uint,
    count: usize,
    parameters: *const c_uint,
    length: usize,
    size: *mut usize,
    buffer: *mut *mut c_void,
) -> usize {
    if flags & H5Z_FLAG_REVERSE == 0 || length == 0 {
        return 0; // it does not encode
    }
    let parameters: &[u32] = match count {
        0 => &[],
        // SAFETY: guaranteed by the caller.
        _ => unsafe { slice::from_raw_parts(parameters, count) },
    };
    // SAFETY: guaranteed by the caller; the slice is not used after the buffer is freed.
    let stored = unsafe { slice::from_raw_parts((*buffer).cast::<u8>(), length) };
    // The library's own frames cannot be unwound.
    let Ok(Some(decoded)) = catch_unwind(|| F::decode(parameters, stored)) else {
        return 0;
    };
    // SAFETY: the new memory is as long as what is copied into it, and the library owns and frees
    // it from now on.
    unsafe {
        let new_buffer = H5allocate_memory(decoded.len(), 0);
        if new_buffer.is_null() {
            return 0;
        }
        ptr::copy_nonoverlapping(decoded.as_ptr(), new_buffer.cast(), decoded.len());
        H5free_memory(*buffer);
        *buffer = new_buffer;
        *size = decoded.len();
    }
    decoded.len()
}
