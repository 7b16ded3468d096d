//! Reads links without following them.

use std::ffi::CStr;

use hdf5::{Group, Result, sync::sync};
use hdf5_sys::h5l::{
    H5L_info2_t, H5L_type_t, H5Lexists, H5Lget_info2, H5Lget_val, H5Lunpack_elink_val,
};
use hdf5_sys::h5p as p;

use super::handle::{LONGEST_NAME, c_name, text};

/// The target of a name in a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::volume::hdf5) enum Link {
    Missing,
    /// An object in the same file.
    Hard,
    /// A path in the same file.
    Soft(String),
    /// A path in another file.
    External {
        file: String,
        path: String,
    },
}

const HARD: i32 = H5L_type_t::H5L_TYPE_HARD as i32;
const SOFT: i32 = H5L_type_t::H5L_TYPE_SOFT as i32;
const EXTERNAL: i32 = H5L_type_t::H5L_TYPE_EXTERNAL as i32;

/// Reads a link without following it.
pub(in crate::volume::hdf5) fn link(group: &Group, name: &str) -> Result<Link> {
    let c = c_name(name)?;
    sync(|| {
        let mut info = H5L_info2_t::default();
        // SAFETY: the group is open, the name zero-terminated and `info` ours.
        let exists = unsafe { hdf5::h5check(H5Lexists(group.id(), c.as_ptr(), p::H5P_DEFAULT))? };
        if exists == 0 {
            return Ok(Link::Missing);
        }
        // SAFETY: as above.
        unsafe {
            hdf5::h5check(H5Lget_info2(
                group.id(),
                c.as_ptr(),
                &mut info,
                p::H5P_DEFAULT,
            ))?
        };
        // Read as a number, because files may contain user-defined link types that the Rust enum
        // lacks. SAFETY: the enum has the size of the number that the library wrote.
        let kind = unsafe { std::ptr::addr_of!(info.type_).cast::<i32>().read() };
        match kind {
            HARD => Ok(Link::Hard),
            SOFT => Ok(Link::Soft(until_zero(&link_value(group, &c, info)?)?)),
            EXTERNAL => external(&link_value(group, &c, info)?),
            _ => Err(format!("the link {name:?} is of an unknown type").into()),
        }
    })
}

fn link_value(group: &Group, name: &CStr, mut info: H5L_info2_t) -> Result<Vec<u8>> {
    // SAFETY: for soft and external links the union contains the value's size.
    let size = unsafe { *info.u.val_size() };
    if size > LONGEST_NAME {
        return Err(format!("a link's value is {size} bytes long").into());
    }
    let mut value = vec![0u8; size + 1];
    // SAFETY: the buffer has room for `size` bytes and a terminating zero.
    unsafe {
        hdf5::h5check(H5Lget_val(
            group.id(),
            name.as_ptr(),
            value.as_mut_ptr().cast(),
            size,
            p::H5P_DEFAULT,
        ))?
    };
    Ok(value)
}

fn until_zero(bytes: &[u8]) -> Result<String> {
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    let name = str::from_utf8(&bytes[..end]);
    name.map(str::to_owned)
        .map_err(|_| "the target of a soft link is not UTF-8".into())
}

fn external(value: &[u8]) -> Result<Link> {
    let (mut flags, mut file, mut path) = (0, std::ptr::null(), std::ptr::null());
    // SAFETY: the value is zero-terminated and outlives the call; the returned pointers are
    // checked, and point into it.
    unsafe {
        let size = value.len() - 1;
        hdf5::h5check(H5Lunpack_elink_val(
            value.as_ptr().cast(),
            size,
            &mut flags,
            &mut file,
            &mut path,
        ))?;
        if file.is_null() || path.is_null() {
            return Err("an external link without a target".into());
        }
        Ok(Link::External {
            file: text(file)?,
            path: text(path)?,
        })
    }
}
