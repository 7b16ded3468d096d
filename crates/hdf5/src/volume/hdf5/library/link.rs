//! Names in groups: reads links without following them, and finds and opens the objects of hard
//! links. Names are as [`path_text`] writes them.

use std::ffi::{CStr, c_char, c_int, c_void};

use hdf5::{Dataset, Group, Result, from_id, sync::sync};
use hdf5_sys::h5::{H5_index_t, H5_iter_order_t};
use hdf5_sys::h5g::H5Gopen2;
use hdf5_sys::h5i::{H5Iget_name, hid_t};
use hdf5_sys::h5l::{
    H5L_info2_t, H5L_type_t, H5Lexists, H5Lget_info2, H5Lget_val, H5Literate2, H5Lunpack_elink_val,
};
use hdf5_sys::h5o::{H5O_INFO_BASIC, H5O_info2_t, H5O_type_t, H5Oget_info_by_name3};
use hdf5_sys::h5p as p;

use super::handle::{LONGEST_NAME, c_name, path_text, text};

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
    let c_name = c_name(name)?;
    sync(|| {
        let mut info = H5L_info2_t::default();
        // SAFETY: the group is open, the name zero-terminated and `info` ours.
        let exists =
            unsafe { hdf5::h5check(H5Lexists(group.id(), c_name.as_ptr(), p::H5P_DEFAULT))? };
        if exists == 0 {
            return Ok(Link::Missing);
        }
        // SAFETY: as above.
        unsafe {
            hdf5::h5check(H5Lget_info2(
                group.id(),
                c_name.as_ptr(),
                &mut info,
                p::H5P_DEFAULT,
            ))?
        };
        // Read as a number, because files may contain user-defined link types that the Rust enum
        // lacks. SAFETY: the enum has the size of the number that the library wrote.
        let kind = unsafe { std::ptr::addr_of!(info.type_).cast::<i32>().read() };
        match kind {
            HARD => Ok(Link::Hard),
            SOFT => Ok(Link::Soft(until_zero(&link_value(group, &c_name, info)?))),
            EXTERNAL => external(&link_value(group, &c_name, info)?),
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

/// The path before the first zero byte.
fn until_zero(bytes: &[u8]) -> String {
    let path = bytes.split(|byte| *byte == 0).next();
    path_text(path.unwrap_or_default())
}

fn external(value: &[u8]) -> Result<Link> {
    let mut flags = 0;
    let mut file = std::ptr::null();
    let mut path = std::ptr::null();
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
            path: path_text(CStr::from_ptr(path).to_bytes()),
        })
    }
}

/// The kind of a link, without its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::volume::hdf5) enum LinkKind {
    Hard,
    Soft,
    /// A link to another file, or one of a kind that only other programs know.
    Other,
}

/// The links of a group, by name.
pub(in crate::volume::hdf5) struct LinkList {
    pub links: Vec<(String, LinkKind)>,
    /// Why the list is incomplete; `None` if it has all links.
    pub problem: Option<String>,
    /// The maximum number of links.
    most: usize,
}

/// Lists the links of a group, at most `most` of them.
pub(in crate::volume::hdf5) fn links(group: &Group, most: usize) -> LinkList {
    let mut list = LinkList {
        links: Vec::new(),
        problem: None,
        most,
    };
    let data: *mut c_void = (&raw mut list).cast();
    // SAFETY: the group is open; the list outlives the call and is used by `add_link` only.
    let visited = sync(|| unsafe {
        hdf5::h5check(H5Literate2(
            group.id(),
            H5_index_t::H5_INDEX_NAME,
            H5_iter_order_t::H5_ITER_INC,
            std::ptr::null_mut(),
            Some(add_link),
            data,
        ))
    });
    list.problem = match visited {
        Ok(0) => None,
        Ok(_) => Some(format!("it has more than {most} links")),
        Err(e) => Some(e.to_string()),
    };
    list
}

/// Adds a link to the list; ends the visit if there is no room.
///
/// # Safety
///
/// `list` points to a [`LinkList`] that nothing else uses, the name is zero-terminated.
unsafe extern "C" fn add_link(
    _: hid_t,
    name: *const c_char,
    info: *const H5L_info2_t,
    list: *mut c_void,
) -> c_int {
    // SAFETY: guaranteed by the caller. The kind is read as a number, as in `link`.
    let (list, name, kind) = unsafe {
        let kind = std::ptr::addr_of!((*info).type_).cast::<i32>().read();
        (&mut *list.cast::<LinkList>(), CStr::from_ptr(name), kind)
    };
    if list.links.len() >= list.most {
        return 1;
    }
    let kind = match kind {
        HARD => LinkKind::Hard,
        SOFT => LinkKind::Soft,
        _ => LinkKind::Other,
    };
    list.links.push((path_text(name.to_bytes()), kind));
    0
}

/// The object of a hard link.
pub(in crate::volume::hdf5) struct ObjectInfo {
    pub is_dataset: bool,
    pub is_group: bool,
    /// The same for all links to the object, and for no other object of the file.
    pub token: [u8; 16],
}

/// The object that the hard link `name` points to; `.` is the group itself.
pub(in crate::volume::hdf5) fn object_info(group: &Group, name: &str) -> Result<ObjectInfo> {
    let name = c_name(name)?;
    let mut info = std::mem::MaybeUninit::<H5O_info2_t>::zeroed();
    sync(|| {
        // SAFETY: plain call on an open group, with a zero-terminated name; the library fills
        // `info`, whose type is read as a number because files may hold objects of unknown types.
        unsafe {
            hdf5::h5check(H5Oget_info_by_name3(
                group.id(),
                name.as_ptr(),
                info.as_mut_ptr(),
                H5O_INFO_BASIC,
                p::H5P_DEFAULT,
            ))?;
            let kind = std::ptr::addr_of!((*info.as_ptr()).type_)
                .cast::<i32>()
                .read();
            Ok(ObjectInfo {
                is_dataset: kind == H5O_type_t::H5O_TYPE_DATASET as i32,
                is_group: kind == H5O_type_t::H5O_TYPE_GROUP as i32,
                token: std::ptr::addr_of!((*info.as_ptr()).token)
                    .cast::<[u8; 16]>()
                    .read(),
            })
        }
    })
}

/// Opens the group that the hard link `name` points to.
pub(in crate::volume::hdf5) fn open_group(group: &Group, name: &str) -> Result<Group> {
    let name = c_name(name)?;
    // SAFETY: plain call on an open group, with a zero-terminated name.
    sync(|| unsafe {
        from_id(hdf5::h5check(H5Gopen2(
            group.id(),
            name.as_ptr(),
            p::H5P_DEFAULT,
        ))?)
    })
}

/// The path of an open dataset in its file.
pub(in crate::volume::hdf5) fn path_of(dataset: &Dataset) -> Result<String> {
    sync(|| {
        // SAFETY: the first call returns the length; the buffer has one more byte, for the
        // terminating zero.
        unsafe {
            let length = H5Iget_name(dataset.id(), std::ptr::null_mut(), 0);
            let length = usize::try_from(length).map_err(|_| "its path is not known")?;
            let mut name = vec![0u8; length + 1];
            H5Iget_name(dataset.id(), name.as_mut_ptr().cast(), name.len());
            Ok(until_zero(&name))
        }
    })
}
