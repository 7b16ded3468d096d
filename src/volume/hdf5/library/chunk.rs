//! Single chunks as they are stored, and which kind of index finds them.

use hdf5::{Dataset, Result, sync::sync};
use hdf5_sys::h5d::{H5D_chunk_index_t, H5Dget_chunk_index_type, H5Dread_chunk2};
use hdf5_sys::h5p as p;

/// `H5D_CHUNK_IDX_EARRAY` of H5Dpublic.h, which the bindings leave out.
const EXTENSIBLE_ARRAY: H5D_chunk_index_t = 4;

/// What the library knows of one stored chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::volume::hdf5) struct RawChunk {
    /// The number of bytes in the file.
    pub length: u64,
    /// A set bit says that the filter of that position was left out.
    pub mask: u32,
}

/// Whether the chunks of a chunked dataset are found through an extensible array.
pub(in crate::volume::hdf5) fn is_extensible_array(dataset: &Dataset) -> Result<bool> {
    let mut index = 0;
    // SAFETY: the dataset is open, and `index` is ours; the library refuses datasets without chunks.
    sync(|| hdf5::h5check(unsafe { H5Dget_chunk_index_type(dataset.id(), &mut index) }))?;
    Ok(index == EXTENSIBLE_ARRAY)
}

/// Looks up the chunk that begins at `origin`, and reads its stored bytes if they fit into `into`; otherwise `into` is
/// left unchanged. A chunk that was never written is an error.
///
/// This is the lookup that reading voxels uses, not the iteration over all chunks. An empty `into` asks only for the
/// length and the mask.
pub(in crate::volume::hdf5) fn read_chunk(
    dataset: &Dataset,
    origin: &[u64],
    into: &mut [u8],
) -> Result<RawChunk> {
    if origin.len() != dataset.ndim() {
        return Err(format!("a chunk at {origin:?} does not fit a dataset of rank {}", dataset.ndim()).into());
    }
    let (mut length, mut mask) = (into.len(), 0);
    sync(|| {
        let bytes = into.as_mut_ptr().cast();
        // SAFETY: the rank was checked; the library writes no more bytes than `length` says there are.
        let read = unsafe {
            H5Dread_chunk2(dataset.id(), p::H5P_DEFAULT, origin.as_ptr(), &mut mask, bytes, &mut length)
        };
        hdf5::h5check(read)
    })?;
    Ok(RawChunk { length: length as u64, mask })
}
