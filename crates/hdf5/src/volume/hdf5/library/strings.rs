//! Strings of variable length: the library allocates them while it reads, from memory that is
//! limited here.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use hdf5::{Dataset, Datatype, Result, globals, sync::sync};
use hdf5_sys::h5p as p;

use super::handle::Id;
use super::read_into;

/// The memory into which the library reads strings.
struct Arena {
    /// The bytes that further strings, each with its entry in the list, may take.
    left: usize,
    strings: Vec<Box<[u8]>>,
}

/// Reads the strings of `count` elements of a dataset of one axis, which take at most `most` bytes,
/// as elements of the type `memory`.
pub(in crate::volume::hdf5) fn read_strings(
    dataset: &Dataset,
    memory: &Datatype,
    start: u64,
    count: u64,
    most: usize,
) -> Result<Vec<Vec<u8>>> {
    if memory.size() != size_of::<*const c_char>() || dataset.ndim() != 1 {
        return Err("it is not a list of strings".into());
    }
    let mut arena = Arena {
        left: most,
        strings: Vec::new(),
    };
    let mut pointers: Vec<*const c_char> = vec![ptr::null(); count as usize];
    sync(|| {
        // SAFETY: the arena outlives the read and is used by `allocate` only; there is a pointer
        // for each element.
        unsafe {
            let transfer = Id::new(p::H5Pcreate(*globals::H5P_DATASET_XFER))?;
            let info: *mut c_void = (&raw mut arena).cast();
            hdf5::h5check(p::H5Pset_vlen_mem_manager(
                transfer.0,
                Some(allocate),
                info,
                Some(release),
                info,
            ))?;
            read_into(
                dataset,
                memory,
                &[start],
                &[count],
                transfer.0,
                pointers.as_mut_ptr().cast(),
            )
        }
    })
    .map_err(|error| format!("{error} (texts may take {} MiB at once)", most >> 20))?;
    let strings = pointers.into_iter().map(|pointer| {
        if pointer.is_null() {
            return Vec::new();
        }
        // SAFETY: the library has written the string to the arena, where a zero byte follows it;
        // the arena is dropped below.
        unsafe { CStr::from_ptr(pointer) }.to_bytes().to_vec()
    });
    let strings = strings.collect();
    drop(arena);
    Ok(strings)
}

/// Memory in the arena, with a zero byte after it; null if too little is left.
///
/// # Safety
///
/// `arena` points to an [`Arena`] that nothing else uses.
unsafe extern "C" fn allocate(size: usize, arena: *mut c_void) -> *mut c_void {
    // SAFETY: guaranteed by the caller.
    let arena = unsafe { &mut *arena.cast::<Arena>() };
    let taken = size.saturating_add(size_of::<Box<[u8]>>());
    let Some(left) = arena.left.checked_sub(taken) else {
        return ptr::null_mut();
    };
    arena.left = left;
    let mut string = vec![0; size + 1].into_boxed_slice();
    let start = string.as_mut_ptr();
    arena.strings.push(string);
    start.cast()
}

/// The arena is released as a whole.
unsafe extern "C" fn release(_: *mut c_void, _: *mut c_void) {}
