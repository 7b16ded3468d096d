//! A virtual file driver (VFD) for libhdf5, through which the library reads files and opens only
//! admitted ones.
//!
//! The library's default driver opens files by name, shares cached metadata between opens of one
//! inode even if its contents have changed, and returns zeros beyond the end of a file. This one
//! reads through [`FileBytes`], which fails if the file has changed since it was opened; opens only
//! files admitted by an [`Admission`]; treats two states of a file as two files; and fails if
//! voxels lie beyond the end.
//!
//! `H5FD_class_t` is declared here as in `H5FDdevelop.h` of HDF5 2.2, because `hdf5-metno-sys` has
//! an older version.

use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_ulong, c_void};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::ptr;
use std::sync::{Arc, OnceLock};

use hdf5::Result;
use hdf5_sys::h5::{H5get_libversion, haddr_t, herr_t, hsize_t};
use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5p::{H5Pget_driver_info, H5Pset_driver};

use super::handle::Id;
use crate::volume::hdf5::admission::Admission;
use crate::volume::hdf5::bytes::FileBytes;

/// `H5FD_CLASS_VERSION`.
const CLASS_VERSION: c_uint = 1;
/// A number for private drivers; the HDF Group assigns the numbers below 512.
const DRIVER_VALUE: c_int = 600;
/// `H5FD_MAXADDR`: file offsets are signed in POSIX.
const MAX_ADDRESS: haddr_t = i64::MAX as u64;
/// `HADDR_UNDEF`.
const UNDEFINED: haddr_t = haddr_t::MAX;
/// `H5F_CLOSE_WEAK`.
const CLOSE_WEAK: c_int = 1;
/// `H5FD_MEM_DRAW`: voxels, as opposed to metadata.
const RAW_DATA: c_int = 3;
/// `H5FD_FEAT_AGGREGATE_METADATA` (0x1), `ACCUMULATE_METADATA` (0x2 and 0x4), `SUPPORTS_SWMR_IO`
/// (0x1000) and `DEFAULT_VFD_COMPATIBLE` (0x8000). Without `DATA_SIEVE`, which reads more than
/// requested, possibly beyond the end of a truncated file.
const FEATURES: c_ulong = 0x1 | 0x2 | 0x4 | 0x1000 | 0x8000;
/// `H5FD_FLMAP_DICHOTOMY`: for each kind of memory, the kind whose free list it shares: the
/// superblock's (1) or that of voxels (3).
const FREE_LISTS: [c_int; 7] = [1, 1, 1, 3, 3, 1, 1];

const FAIL: herr_t = -1;

/// `H5FD_t`: the common header of all drivers' files.
#[derive(Default)]
#[repr(C)]
struct PublicFile {
    driver_id: hid_t,
    class: *const c_void,
    fileno: c_ulong,
    access_flags: c_uint,
    feature_flags: c_ulong,
    max_address: haddr_t,
    base_address: haddr_t,
    threshold: hsize_t,
    alignment: hsize_t,
    paged_aggregation: bool,
}

/// An open file of this driver.
#[repr(C)]
struct DriverFile {
    public: PublicFile,
    /// The number of the admission that it was opened under.
    admission: u64,
    bytes: Arc<FileBytes>,
    end_of_allocation: haddr_t,
}

/// A callback that this driver does not implement.
type AbsentCallback = Option<extern "C" fn()>;

/// `H5FD_class_t`. Absent callbacks have an arbitrary type, because all function pointers have the
/// same size.
#[derive(Default)]
#[repr(C)]
struct DriverClass {
    version: c_uint,
    value: c_int,
    name: *const c_char,
    max_address: haddr_t,
    close_degree: c_int,
    terminate: AbsentCallback,
    sb_size: AbsentCallback,
    sb_encode: AbsentCallback,
    sb_decode: AbsentCallback,
    fapl_size: usize,
    fapl_get: Option<unsafe extern "C" fn(*mut PublicFile) -> *mut c_void>,
    fapl_copy: AbsentCallback,
    fapl_free: AbsentCallback,
    dxpl_size: usize,
    dxpl_copy: AbsentCallback,
    dxpl_free: AbsentCallback,
    open: Option<unsafe extern "C" fn(*const c_char, c_uint, hid_t, haddr_t) -> *mut PublicFile>,
    close: Option<unsafe extern "C" fn(*mut PublicFile) -> herr_t>,
    cmp: Option<unsafe extern "C" fn(*const PublicFile, *const PublicFile) -> c_int>,
    query: Option<unsafe extern "C" fn(*const PublicFile, *mut c_ulong) -> herr_t>,
    get_type_map: AbsentCallback,
    alloc: AbsentCallback,
    free: AbsentCallback,
    get_eoa: Option<unsafe extern "C" fn(*const PublicFile, c_int) -> haddr_t>,
    set_eoa: Option<unsafe extern "C" fn(*mut PublicFile, c_int, haddr_t) -> herr_t>,
    get_eof: Option<unsafe extern "C" fn(*const PublicFile, c_int) -> haddr_t>,
    get_handle: AbsentCallback,
    read: Option<
        unsafe extern "C" fn(*mut PublicFile, c_int, hid_t, haddr_t, usize, *mut c_void) -> herr_t,
    >,
    write: Option<
        unsafe extern "C" fn(
            *mut PublicFile,
            c_int,
            hid_t,
            haddr_t,
            usize,
            *const c_void,
        ) -> herr_t,
    >,
    read_vector: AbsentCallback,
    write_vector: AbsentCallback,
    read_selection: AbsentCallback,
    write_selection: AbsentCallback,
    flush: AbsentCallback,
    truncate: AbsentCallback,
    lock: Option<unsafe extern "C" fn(*mut PublicFile, bool) -> herr_t>,
    unlock: Option<unsafe extern "C" fn(*mut PublicFile) -> herr_t>,
    del: AbsentCallback,
    ctl: AbsentCallback,
    free_lists: [c_int; 7],
}

unsafe extern "C" {
    /// The same function as in `hdf5_sys`, with our type of `class`.
    fn H5FDregister(class: *const DriverClass) -> hid_t;
}

/// Sets our driver and an admission in a file access property list. The caller holds the library's
/// lock.
pub(super) fn use_for(access: &Id, admission: &Admission) -> Result<()> {
    let driver = driver()?;
    let number: *const u64 = &raw const admission.number;
    // SAFETY: the library copies `fapl_size` bytes, the size of the number.
    hdf5::h5check(unsafe { H5Pset_driver(access.0, driver, number.cast()) }).map(drop)
}

/// The driver's identifier; registered on first use and never unregistered.
fn driver() -> Result<hid_t> {
    static DRIVER: OnceLock<std::result::Result<hid_t, String>> = OnceLock::new();
    DRIVER
        .get_or_init(|| register().map_err(|e| e.to_string()))
        .clone()
        .map_err(Into::into)
}

fn register() -> Result<hid_t> {
    let mut major = 0;
    let mut minor = 0;
    let mut release = 0;
    // SAFETY: the library writes three numbers.
    hdf5::h5check(unsafe { H5get_libversion(&mut major, &mut minor, &mut release) })?;
    if (major, minor) != (2, 2) {
        return Err(format!(
            "this program was written for HDF5 2.2 but is linked with {major}.{minor}.{release}, whose driver \
             interface may differ"
        )
        .into());
    }
    let class = DriverClass {
        version: CLASS_VERSION,
        value: DRIVER_VALUE,
        name: c"voltile".as_ptr(),
        max_address: MAX_ADDRESS,
        close_degree: CLOSE_WEAK,
        fapl_size: size_of::<u64>(),
        fapl_get: Some(fapl_get),
        open: Some(open),
        close: Some(close),
        cmp: Some(compare),
        query: Some(query),
        get_eoa: Some(get_eoa),
        set_eoa: Some(set_eoa),
        get_eof: Some(get_eof),
        read: Some(read),
        write: Some(write),
        lock: Some(lock),
        unlock: Some(unlock),
        free_lists: FREE_LISTS,
        ..DriverClass::default()
    };
    // SAFETY: the struct matches the header of this version, and the library copies it.
    hdf5::h5check(unsafe { H5FDregister(&class) })
}

/// Runs the body of a callback; a panic must not unwind into C.
fn guarded<T>(failed: T, work: impl FnOnce() -> Option<T>) -> T {
    catch_unwind(AssertUnwindSafe(work))
        .ok()
        .flatten()
        .unwrap_or(failed)
}

/// The open file that begins with this header.
///
/// # Safety
///
/// `file` was returned by [`open`] and has not been closed.
unsafe fn file_of<'a>(file: *const PublicFile) -> &'a DriverFile {
    // SAFETY: `open` returns a `DriverFile`, whose first field is the `PublicFile`.
    unsafe { &*file.cast::<DriverFile>() }
}

/// The driver information with which the library opens further files: the admission's number, in
/// memory that it frees.
unsafe extern "C" fn fapl_get(file: *mut PublicFile) -> *mut c_void {
    // SAFETY: the library passes an open file of this driver.
    let number = unsafe { file_of(file) }.admission;
    // SAFETY: without a `fapl_free` callback, the library uses `free`.
    let memory = unsafe { libc::malloc(size_of::<u64>()) };
    if !memory.is_null() {
        // SAFETY: the memory is as large as a number, and `malloc` aligns it.
        unsafe { memory.cast::<u64>().write(number) };
    }
    memory
}

unsafe extern "C" fn open(
    name: *const c_char,
    flags: c_uint,
    fapl: hid_t,
    _: haddr_t,
) -> *mut PublicFile {
    const WRITING: c_uint = 0x1 | 0x2 | 0x4 | 0x10; // H5F_ACC_RDWR, TRUNC, EXCL, CREAT
    guarded(ptr::null_mut(), || {
        if flags & WRITING != 0 {
            return None;
        }
        // SAFETY: the property list has our driver, whose information is the number of an
        // admission.
        let number = unsafe { H5Pget_driver_info(fapl).cast::<u64>().as_ref() }?;
        // SAFETY: the library passes a zero-terminated name.
        let name = unsafe { CStr::from_ptr(name) };
        let bytes = Admission::numbered(*number)?
            .open(Path::new(OsStr::from_bytes(name.to_bytes())))
            .ok()?;
        let file = DriverFile {
            public: PublicFile::default(),
            admission: *number,
            bytes,
            end_of_allocation: 0,
        };
        Some(Box::into_raw(Box::new(file)).cast())
    })
}

unsafe extern "C" fn close(file: *mut PublicFile) -> herr_t {
    // SAFETY: returned by `open`, and closed once.
    drop(unsafe { Box::from_raw(file.cast::<DriverFile>()) });
    0
}

/// Orders files. The library shares metadata between files that are equal: the same state of the
/// same file, opened under the same admission. So a virtual dataset whose sources have changed is
/// not shared.
unsafe extern "C" fn compare(left: *const PublicFile, right: *const PublicFile) -> c_int {
    // SAFETY: the library passes open files of this driver.
    let (left, right) = unsafe { (file_of(left), file_of(right)) };
    let order = left.admission.cmp(&right.admission);
    order.then_with(|| left.bytes.identity.cmp(&right.bytes.identity)) as c_int
}

unsafe extern "C" fn query(_: *const PublicFile, flags: *mut c_ulong) -> herr_t {
    if !flags.is_null() {
        // SAFETY: the library passes a pointer to one number.
        unsafe { flags.write(FEATURES) };
    }
    0
}

unsafe extern "C" fn get_eoa(file: *const PublicFile, _: c_int) -> haddr_t {
    // SAFETY: the library passes an open file of this driver.
    unsafe { file_of(file) }.end_of_allocation
}

unsafe extern "C" fn set_eoa(file: *mut PublicFile, _: c_int, address: haddr_t) -> herr_t {
    // SAFETY: as above; the library's lock is held, so there is no other reference.
    unsafe { (*file.cast::<DriverFile>()).end_of_allocation = address };
    0
}

/// The library asks for the end of the file with the kind `H5FD_MEM_DEFAULT` only to refuse a file
/// that is shorter than its superblock says. Such a file is served as far as it reaches; `read`
/// fails beyond its end.
unsafe extern "C" fn get_eof(file: *const PublicFile, kind: c_int) -> haddr_t {
    const DEFAULT: c_int = 0; // H5FD_MEM_DEFAULT
    if kind == DEFAULT {
        return MAX_ADDRESS;
    }
    // SAFETY: the library passes an open file of this driver.
    let bytes = &unsafe { file_of(file) }.bytes;
    guarded(UNDEFINED, || bytes.current_length().ok())
}

unsafe extern "C" fn read(
    file: *mut PublicFile,
    kind: c_int,
    _: hid_t,
    address: haddr_t,
    size: usize,
    into: *mut c_void,
) -> herr_t {
    if size == 0 {
        return 0;
    }
    let end = address.checked_add(size as u64);
    if end.is_none_or(|end| end > MAX_ADDRESS) {
        return FAIL;
    }
    // SAFETY: the library passes an open file of this driver, and a buffer of `size` bytes.
    let (bytes, into) = unsafe {
        ptr::write_bytes(into.cast::<u8>(), 0, size);
        (
            &file_of(file).bytes,
            std::slice::from_raw_parts_mut(into.cast::<u8>(), size),
        )
    };
    guarded(FAIL, || {
        let read = bytes.read_at(into, address).ok()?;
        // Metadata reads may extend beyond the end of the file; reads of voxels must not.
        (read == size || kind != RAW_DATA).then_some(0)
    })
}

unsafe extern "C" fn write(
    _: *mut PublicFile,
    _: c_int,
    _: hid_t,
    _: haddr_t,
    _: usize,
    _: *const c_void,
) -> herr_t {
    FAIL
}

/// Does nothing, but must exist: the library checks the superblock's write-access flags only for
/// drivers with a lock callback. Without it, it would open a file whose metadata is being written.
unsafe extern "C" fn lock(_: *mut PublicFile, _: bool) -> herr_t {
    0
}

unsafe extern "C" fn unlock(_: *mut PublicFile) -> herr_t {
    0
}
