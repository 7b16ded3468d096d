//! Writes HDF5 files of many chunks that were packed elsewhere.
//!
//! [`pack`] makes the bytes of a chunk, on any thread and without the library: shuffled, then deflated at the lowest
//! level. A [`Writer`] puts such chunks in their places and does no more, so that the library's one lock is held for
//! hardly longer than the disk takes. Chunks that are all 0 need not be written: that is the fill value.
//!
//! Deflate rather than zstd, because every program that reads HDF5 can undo it without a plugin. Measured on chunks of
//! 64³ voxels, one core: images come to the same size (electron micrographs 1.14 and 1.13 times smaller, stains 17.0
//! and 17.5), labels do not (37 and 53); deflate packs 96 to 300 MB/s and unpacks 225 to 2640, zstd at level 1 packs 208
//! to 1549 and unpacks 719 to 2961.

use std::collections::HashMap;
use std::path::Path;

use hdf5::types::VarLenUnicode;
use hdf5::{Dataset, File, Group, H5Type, Location};
use libdeflater::{CompressionLvl, Compressor};

use super::{filters, library};
use crate::volume::{Samples, with_samples};

/// The level of deflate, also written into the files.
const LEVEL: u8 = 1;

/// Why a file could not be written.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{object}: {problem}; is the disk full?")]
pub struct WriteError {
    /// The file, the dataset or the attribute.
    pub object: String,
    /// The library's words.
    pub problem: String,
}

/// Voxels could not be packed: a defect, since there is room for whatever they come to.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{bytes} bytes of voxels could not be compressed: {problem}")]
pub struct PackError {
    /// How many there were.
    pub bytes: usize,
    /// What the compressor said.
    pub problem: String,
}

/// The bytes of a chunk as a [`Writer`] stores it; `None` where all voxels are 0 and none need be stored.
pub fn pack(voxels: &Samples) -> Result<Option<Vec<u8>>, PackError> {
    let bytes = voxels.bytes();
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let wrong = |problem: String| PackError { bytes: bytes.len(), problem };
    let shuffled = filters::shuffled(bytes, voxels.voxel_bytes());
    let level = CompressionLvl::new(i32::from(LEVEL)).map_err(|e| wrong(format!("{e:?}")))?;
    let mut compressor = Compressor::new(level);
    let mut packed = vec![0; compressor.zlib_compress_bound(shuffled.len())];
    let length = compressor.zlib_compress(&shuffled, &mut packed).map_err(|e| wrong(e.to_string()))?;
    packed.truncate(length);
    Ok(Some(packed))
}

/// A new HDF5 file in the making.
#[derive(Debug)]
pub struct Writer {
    file: File,
    datasets: HashMap<String, Dataset>,
}

impl Writer {
    /// Makes an empty file, in place of whatever lies there.
    pub fn create(path: &Path) -> Result<Self, WriteError> {
        let file = File::create(path).map_err(|e| failed(&path.display().to_string(), &e))?;
        Ok(Self { file, datasets: HashMap::new() })
    }

    /// Makes an empty dataset of chunks, of the type that `typed` holds; groups on the way are made.
    pub fn dataset(
        &mut self,
        path: &str,
        typed: &Samples,
        shape: &[u64],
        chunk: &[u64],
    ) -> Result<(), WriteError> {
        let dataset = with_samples!(typed, voxels => create(&self.file, path, voxels, shape, chunk));
        self.datasets.insert(path.to_owned(), dataset.map_err(|e| failed(path, &e))?);
        Ok(())
    }

    /// Stores a packed chunk whose first voxel is at `origin`, a multiple of the chunk's shape.
    pub fn chunk(&self, path: &str, origin: &[u64], packed: &[u8]) -> Result<(), WriteError> {
        let dataset = self.known(path)?;
        library::write_chunk(dataset, origin, packed).map_err(|e| failed(path, &e))
    }

    /// Gives a dataset an attribute of numbers.
    pub fn numbers(&self, path: &str, name: &str, values: &[f64]) -> Result<(), WriteError> {
        let written = self.known(path)?.new_attr_builder().with_data(values).create(name);
        written.map(|_| ()).map_err(|e| failed(path, &e))
    }

    /// Gives a dataset an attribute of texts.
    pub fn texts(&self, path: &str, name: &str, values: &[&str]) -> Result<(), WriteError> {
        texts(self.known(path)?, name, values).map_err(|e| failed(path, &e))
    }

    /// Gives the file an attribute of one text.
    pub fn text(&self, name: &str, value: &str) -> Result<(), WriteError> {
        let root = || -> hdf5::Result<Group> { self.file.group("/") };
        let written = root().and_then(|root| {
            let value = unicode(value)?;
            root.new_attr::<VarLenUnicode>().create(name)?.write_scalar(&value)
        });
        written.map_err(|e| failed(name, &e))
    }

    /// Completes the file, and sees to it that it is on the disk.
    pub fn finish(self, path: &Path) -> Result<(), WriteError> {
        let failed = |e: &dyn std::fmt::Display| failed(&path.display().to_string(), e);
        self.file.flush().map_err(|e| failed(&e))?;
        drop(self.datasets);
        self.file.close().map_err(|e| failed(&e))?;
        std::fs::File::open(path).and_then(|file| file.sync_all()).map_err(|e| failed(&e))
    }

    fn known(&self, path: &str) -> Result<&Dataset, WriteError> {
        self.datasets.get(path).ok_or_else(|| failed(path, &"there is no such dataset"))
    }
}

fn create<T: H5Type>(
    file: &File,
    path: &str,
    _typed: &[T],
    shape: &[u64],
    chunk: &[u64],
) -> hdf5::Result<Dataset> {
    let extents = |of: &[u64]| of.iter().map(|extent| *extent as usize).collect::<Vec<_>>();
    let mut builder = file.new_dataset_builder();
    // Times would make two files of the same volume differ.
    builder = builder.obj_track_times(false).chunk(extents(chunk)).shuffle().deflate(LEVEL);
    builder.empty::<T>().shape(extents(shape)).create(path)
}

fn texts(at: &Location, name: &str, values: &[&str]) -> hdf5::Result<()> {
    let values = values.iter().map(|value| unicode(value)).collect::<hdf5::Result<Vec<_>>>()?;
    at.new_attr_builder().with_data(&values).create(name).map(|_| ())
}

fn unicode(text: &str) -> hdf5::Result<VarLenUnicode> {
    text.parse().map_err(|_| format!("{text:?} holds a zero byte").into())
}

fn failed(object: &str, problem: &dyn std::fmt::Display) -> WriteError {
    WriteError { object: object.to_owned(), problem: problem.to_string() }
}
