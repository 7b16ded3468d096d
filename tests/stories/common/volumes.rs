//! Volumes made for a story: such that it is known which bytes of the file hold which plane, and ones slow to show.

use std::fs::{self, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use ndarray::Array3;

use super::picture::Picture;

/// The edge of the planes of [`planes`].
pub const EDGE: usize = 40;

/// How planes are stored, and by whom a server with the [`Stored::settings`] reads them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// In one piece.
    Flat,
    /// A chunk for each, deflated: decoded by voltile.
    Gzip,
    /// A chunk for each, packed and with a checksum: decoded by the HDF5 library.
    Packed,
}

impl Stored {
    /// What the server is told.
    pub fn settings(self) -> &'static [&'static str] {
        match self {
            Stored::Flat | Stored::Gzip => &[],
            // Chunks that are large against their cache are left to the library.
            Stored::Packed => &["--set", "cache.chunks=16 KiB"],
        }
    }
}

/// A voxel of [`planes`]: noise, so that nothing compresses well and no two planes are alike.
fn voxel(seed: usize, z: usize, y: usize, x: usize) -> u8 {
    let mixed = (((seed * 64 + z) * EDGE + y) * EDGE + x).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 40) as u8
}

/// What the xy tile of a plane shows.
pub fn plane(seed: usize, z: usize) -> Picture {
    Picture::of_plane(EDGE, EDGE, |y, x| voxel(seed, z, y, x))
}

/// Writes `/raw` of so many planes; says which bytes of the file hold each.
pub fn planes(path: &Path, count: usize, seed: usize, stored: Stored) -> Vec<Range<u64>> {
    let file = hdf5::File::create(path).unwrap();
    let data = Array3::from_shape_fn((count, EDGE, EDGE), |(z, y, x)| voxel(seed, z, y, x));
    let builder = file.new_dataset_builder().with_data(&data);
    let chunk = (1, EDGE, EDGE);
    let raw = match stored {
        Stored::Flat => builder.create("raw"),
        Stored::Gzip => builder.chunk(chunk).deflate(6).create("raw"),
        Stored::Packed => builder.chunk(chunk).nbit().fletcher32().create("raw"),
    };
    let raw = raw.unwrap();
    file.flush().unwrap();
    let size = (EDGE * EDGE) as u64;
    match raw.offset() {
        Some(first) => (0..count as u64).map(|z| first + z * size..first + (z + 1) * size).collect(),
        None => (0..count)
            .map(|z| raw.chunk_info(z).unwrap())
            .map(|info| info.addr..info.addr + info.size)
            .collect(),
    }
}

/// Inverts some bytes of a file in place, or puts them right if they were.
pub fn invert(path: &Path, bytes: &Range<u64>) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut held = vec![0; (bytes.end - bytes.start) as usize];
    file.read_exact_at(&mut held, bytes.start).unwrap();
    held.iter_mut().for_each(|byte| *byte = !*byte);
    file.write_all_at(&held, bytes.start).unwrap();
}

/// Cuts a file off.
pub fn truncate(path: &Path, length: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(length).unwrap();
    assert_eq!(fs::metadata(path).unwrap().len(), length);
}

/// A level whose first tile reads a whole plane of [`slow`], which takes a second or so.
pub const SLOW_LEVEL: usize = 6;
/// A level whose first tile reads a whole plane of [`endless`], which takes far longer.
pub const ENDLESS_LEVEL: usize = 9;

/// Writes `/raw` of so many planes, each of which takes long to show at [`SLOW_LEVEL`] and no time at level 0.
pub fn slow(path: &Path, count: usize) {
    unwritten(path, (count, 1 << 14, 1 << 15));
}

/// Writes `/raw` of one plane that nobody has the patience to see at [`ENDLESS_LEVEL`].
pub fn endless(path: &Path) {
    unwritten(path, (1, 1 << 18, 1 << 15));
}

/// Nothing is stored but the value that stands for all voxels, so the file is small.
fn unwritten(path: &Path, shape: (usize, usize, usize)) {
    let file = hdf5::File::create(path).unwrap();
    let builder = file.new_dataset_builder().empty::<f64>().shape(shape);
    builder.chunk((1, 256, 256)).fill_value(100.0).create("raw").unwrap();
}

/// Writes a file that crashes the HDF5 library when `/a/raw` is looked for: two groups keep their names in one place,
/// which the library loads for the first of them and takes for granted with the second.
pub fn crashing(path: &Path) {
    // Groups of today keep their names otherwise.
    let oldest = hdf5::File::with_options().with_fapl(|access| access.libver_earliest()).clone();
    let file = oldest.create(path).unwrap();
    for name in ["raw", "a/raw"] {
        file.new_dataset_builder().with_data(&Array3::<u8>::zeros((4, 8, 8))).create(name).unwrap();
    }
    file.close().unwrap();
    let mut bytes = fs::read(path).unwrap();
    let number = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let heaps: Vec<usize> =
        (0..bytes.len() - 4).filter(|at| &bytes[*at..*at + 4] == b"HEAP").take(2).collect();
    let (length, names) = (number(&bytes, heaps[0] + 8), number(&bytes, heaps[0] + 24));
    let copy = bytes.len();
    bytes.extend_from_within(names..names + length);
    for heap in heaps {
        bytes[heap + 24..heap + 32].copy_from_slice(&(copy as u64).to_le_bytes());
    }
    // The superblock says where the file ends.
    let end = bytes.len() as u64;
    bytes[40..48].copy_from_slice(&end.to_le_bytes());
    fs::write(path, bytes).unwrap();
}
