//! The facts that reading metadata without the library needs: the address of an object header, and
//! the sizes and addresses of the superblock.

use std::mem::MaybeUninit;

use hdf5::{Dataset, File, Result, sync::sync};
use hdf5_sys::h5::{haddr_t, herr_t};
use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5o::{H5O_INFO_BASIC, H5O_info2_t, H5O_token_t, H5Oget_info3};

unsafe extern "C" {
    /// Declared in H5VLnative.h; the bindings lack it.
    fn H5VLnative_token_to_addr(object: hid_t, token: H5O_token_t, address: *mut haddr_t)
    -> herr_t;
}

/// The superblock of a file, as the library read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::volume::hdf5) struct Superblock {
    /// The byte offset of the superblock in the file; addresses are relative to it. The library
    /// does not use the base address that the superblock itself gives.
    pub base: u64,
    /// The size of an address in bytes ("size of offsets").
    pub address_size: usize,
    /// The size of a length in bytes ("size of lengths").
    pub length_size: usize,
    /// Half the maximum number of children of a node in version-1 B-trees of chunks ("indexed
    /// storage internal node K").
    pub chunk_tree_k: u32,
}

/// The superblock of a file. Reads nothing from the file: the library has kept what it read.
pub(in crate::volume::hdf5) fn superblock(file: &File) -> Result<Superblock> {
    let creation = file.create_plist()?;
    let sizes = creation.get_sizes()?;
    Ok(Superblock {
        base: creation.get_userblock()?,
        address_size: sizes.sizeof_addr.into(),
        length_size: sizes.sizeof_size.into(),
        chunk_tree_k: creation.get_istore_k()?,
    })
}

/// The address of a dataset's object header, relative to the base address.
pub(in crate::volume::hdf5) fn header_address(dataset: &Dataset) -> Result<u64> {
    sync(|| {
        let mut info = MaybeUninit::<H5O_info2_t>::uninit();
        let mut address = 0;
        // SAFETY: the dataset is open. If the first call succeeds, it has filled all of `info`, and
        // the token is one of this file.
        unsafe {
            hdf5::h5check(H5Oget_info3(
                dataset.id(),
                info.as_mut_ptr(),
                H5O_INFO_BASIC,
            ))?;
            let token = (*info.as_ptr()).token;
            hdf5::h5check(H5VLnative_token_to_addr(dataset.id(), token, &mut address))?;
        }
        Ok(address)
    })
}
