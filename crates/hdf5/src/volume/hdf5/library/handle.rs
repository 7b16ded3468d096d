//! Identifiers, names and types as libhdf5's functions take and return them.

use std::ffi::{CStr, CString, c_char};

use hdf5::{Datatype, H5Type, Result, sync::sync};
use hdf5_sys::h5i::{H5Idec_ref, hid_t};

use crate::volume::{VoxelType, with_samples};

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

/// A path in a file as the library takes it: the opposite of [`path_text`].
pub(super) fn c_name(name: &str) -> Result<CString> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((before, after)) = rest.split_once('%') {
        bytes.extend_from_slice(before.as_bytes());
        let byte = escaped(after.as_bytes());
        bytes.push(byte.unwrap_or(b'%'));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    bytes.extend_from_slice(rest.as_bytes());
    CString::new(bytes).map_err(|_| format!("the name {name:?} holds a zero byte").into())
}

/// A path in a file as text: bytes that are not UTF-8 are percent-encoded (`%B0`), and so is a
/// percent sign that would be taken for the beginning of an encoded byte (`%25`).
pub(super) fn path_text(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    for chunk in path.utf8_chunks() {
        for (at, letter) in chunk.valid().char_indices() {
            let is_escape = letter == '%' && escaped(&chunk.valid().as_bytes()[at + 1..]).is_some();
            if is_escape {
                text.push_str("%25");
            } else {
                text.push(letter);
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

/// The byte that two hexadecimal digits after a percent sign stand for; `None` if there are no
/// digits, or they stand for an ASCII character other than a percent sign.
fn escaped(digits: &[u8]) -> Option<u8> {
    let digits = digits
        .get(..2)
        .filter(|two| two.iter().all(u8::is_ascii_hexdigit))?;
    let byte = u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?;
    (byte == b'%' || !byte.is_ascii()).then_some(byte)
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
    fn type_of<T: H5Type>(_: &[T]) -> Result<Datatype> {
        Datatype::from_type::<T>()
    }
    with_samples!(&voxel.samples(), voxels => type_of(voxels))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_again_by_its_text() {
        for (name, text) in [
            (&b"Messung 20\xb0C"[..], "Messung 20%B0C"),
            (b"K\xf6rper/raw", "K%F6rper/raw"),
            ("Körper".as_bytes(), "Körper"),
            (b"100%", "100%"),
            (b"50%2F %zz", "50%2F %zz"),
            (b"20%B0C", "20%25B0C"),
            (b"%25", "%2525"),
            (b"\xff%ff", "%FF%25ff"),
        ] {
            assert_eq!(path_text(name), text);
            assert_eq!(c_name(text).unwrap().as_bytes(), name);
        }
    }
}
