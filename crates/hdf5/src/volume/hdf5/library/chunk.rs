//! Lookup and writing of single stored chunks, and the type of a dataset's chunk index.

use hdf5::{Dataset, Result, sync::sync};
use hdf5_sys::h5d::{
    H5D_CHUNK_IDX_BTREE, H5D_chunk_index_t, H5Dget_chunk_index_type, H5Dread_chunk2, H5Dwrite_chunk,
};
use hdf5_sys::h5p as p;

/// `H5D_CHUNK_IDX_EARRAY` of H5Dpublic.h, which is missing from the bindings.
const EXTENSIBLE_ARRAY: H5D_chunk_index_t = 4;

/// The result of a chunk lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::volume::hdf5) struct RawChunk {
    /// The stored length in bytes; `u32::MAX` if it is longer than HDF5 allows.
    pub length: u32,
    /// A set bit means that the filter at that position was skipped.
    pub mask: u32,
}

/// Whether the index of a chunked dataset is an extensible array.
pub(in crate::volume::hdf5) fn is_extensible_array(dataset: &Dataset) -> Result<bool> {
    Ok(index_type(dataset)? == EXTENSIBLE_ARRAY)
}

/// Whether the index of a chunked dataset is a version-1 B-tree.
pub(in crate::volume::hdf5) fn is_version_1_btree(dataset: &Dataset) -> Result<bool> {
    Ok(index_type(dataset)? == H5D_CHUNK_IDX_BTREE)
}

fn index_type(dataset: &Dataset) -> Result<H5D_chunk_index_t> {
    let mut index = 0;
    // SAFETY: the dataset is open, and `index` outlives the call. The library returns an error for
    // a dataset that is not chunked.
    sync(|| hdf5::h5check(unsafe { H5Dget_chunk_index_type(dataset.id(), &mut index) }))?;
    Ok(index)
}

/// Looks up the chunk that begins at `origin`, and reads its stored bytes if they fit into `into`;
/// otherwise `into` is left unchanged. A chunk that was never written is an error.
///
/// The library looks the chunk up as in its own reads, without iterating over all chunks. If `into`
/// is empty, only the length and the mask are looked up.
pub(in crate::volume::hdf5) fn read_chunk(
    dataset: &Dataset,
    origin: &[u64],
    into: &mut [u8],
) -> Result<RawChunk> {
    ensure_rank(dataset, origin)?;
    // Before the call, the capacity of `into`; after it, the stored length.
    let mut length = into.len();
    let mut mask = 0;
    sync(|| {
        let bytes = into.as_mut_ptr().cast();
        // SAFETY: the rank was checked; the library writes at most `length` bytes.
        let read = unsafe {
            H5Dread_chunk2(
                dataset.id(),
                p::H5P_DEFAULT,
                origin.as_ptr(),
                &mut mask,
                bytes,
                &mut length,
            )
        };
        hdf5::h5check(read)
    })?;
    Ok(RawChunk {
        length: u32::try_from(length).unwrap_or(u32::MAX),
        mask,
    })
}

/// Stores a chunk that is already filtered. `origin` has one number per stored axis.
pub(in crate::volume::hdf5) fn write_chunk(
    dataset: &Dataset,
    origin: &[u64],
    packed: &[u8],
) -> Result<()> {
    ensure_rank(dataset, origin)?;
    sync(|| {
        let bytes = packed.as_ptr().cast();
        // SAFETY: the rank was checked, and the length is that of the buffer; the library rejects
        // an invalid origin.
        let written = unsafe {
            H5Dwrite_chunk(
                dataset.id(),
                p::H5P_DEFAULT,
                0,
                origin.as_ptr(),
                packed.len(),
                bytes,
            )
        };
        hdf5::h5check(written).map(drop)
    })
}

/// Fails unless `origin` has one number per stored axis.
fn ensure_rank(dataset: &Dataset, origin: &[u64]) -> Result<()> {
    let rank = dataset.ndim();
    if origin.len() == rank {
        return Ok(());
    }
    Err(format!("a chunk at {origin:?} does not fit a dataset of rank {rank}").into())
}
