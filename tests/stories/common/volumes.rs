//! Volumes for stories: some whose bytes in the file are known for each plane, and some
//! that are slow to render.

use std::fs::{self, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use ndarray::Array3;

use super::{made, picture::Picture};

/// The edge of the planes of [`planes`].
pub const EDGE: usize = 40;

/// How planes are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// Contiguous.
    Flat,
    /// A chunk for each, deflated; decoded by voltile.
    Gzip,
    /// A chunk for each, with nbit and a checksum; decoded by libhdf5 in a server with the
    /// [`Stored::settings`].
    Packed,
}

impl Stored {
    /// Arguments for the server.
    pub fn settings(self) -> &'static [&'static str] {
        match self {
            Stored::Flat | Stored::Gzip => &[],
            // Chunks that are large in relation to their cache are read by libhdf5.
            Stored::Packed => &["--set", "cache.chunks=16 KiB"],
        }
    }
}

/// A voxel of [`planes`]: noise, so that nothing compresses well and all planes differ.
pub fn voxel(seed: usize, z: usize, y: usize, x: usize) -> u8 {
    let mixed = (((seed * 64 + z) * EDGE + y) * EDGE + x).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 40) as u8
}

/// The xy tile of a plane.
pub fn plane(seed: usize, z: usize) -> Picture {
    Picture::of_plane(EDGE, EDGE, |y, x| voxel(seed, z, y, x))
}

/// Writes `/raw` with `count` planes to a new file; returns the bytes of the file that hold each.
pub fn planes(path: &Path, count: usize, seed: usize, stored: Stored) -> Vec<Range<u64>> {
    planes_in(&made::create(path), count, seed, stored)
}

/// The same in the oldest format, whose metadata has no checksums.
pub fn planes_of_old(path: &Path, count: usize, seed: usize, stored: Stored) -> Vec<Range<u64>> {
    let oldest = hdf5::File::with_options()
        .with_fapl(|access| access.libver_earliest())
        .clone();
    planes_in(&oldest.create(path).unwrap(), count, seed, stored)
}

fn planes_in(file: &hdf5::File, count: usize, seed: usize, stored: Stored) -> Vec<Range<u64>> {
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
        Some(first) => (0..count as u64)
            .map(|z| first + z * size..first + (z + 1) * size)
            .collect(),
        None => (0..count)
            .map(|z| raw.chunk_info(z).unwrap())
            .map(|info| info.addr..info.addr + info.size)
            .collect(),
    }
}

/// Inverts some bytes of a file in place; a second time, restores them.
pub fn invert(path: &Path, bytes: &Range<u64>) {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut held = vec![0; (bytes.end - bytes.start) as usize];
    file.read_exact_at(&mut held, bytes.start).unwrap();
    held.iter_mut().for_each(|byte| *byte = !*byte);
    file.write_all_at(&held, bytes.start).unwrap();
}

/// Truncates a file.
pub fn truncate(path: &Path, length: u64) {
    OpenOptions::new()
        .write(true)
        .open(path)
        .unwrap()
        .set_len(length)
        .unwrap();
    assert_eq!(fs::metadata(path).unwrap().len(), length);
}

/// A level whose first tile is made from a whole plane of [`slow`], which takes about half a
/// second.
pub const SLOW_LEVEL: usize = 5;
/// A level whose first tile is made from the whole plane of [`endless`], which takes minutes.
pub const ENDLESS_LEVEL: usize = 9;

/// Writes `/raw` with `count` planes, which are slow to render at [`SLOW_LEVEL`] and fast at level
/// 0.
pub fn slow(path: &Path, count: usize) {
    unwritten(path, (count, 1 << 13, 1 << 14));
}

/// Writes `/raw` with one plane that no story waits for at [`ENDLESS_LEVEL`].
pub fn endless(path: &Path) {
    unwritten(path, (1, 1 << 18, 1 << 18));
}

/// Only the fill value is stored, so the file is small.
fn unwritten(path: &Path, shape: (usize, usize, usize)) {
    let file = hdf5::File::create(path).unwrap();
    let builder = file.new_dataset_builder().empty::<f64>().shape(shape);
    builder
        .chunk((1, 256, 256))
        .fill_value(100.0)
        .create("raw")
        .unwrap();
}

/// Writes a file that crashes libhdf5 when it looks for `/a/raw`: two groups share one heap of
/// names, which the library loads with the first group and expects to load again with the second.
pub fn crashing(path: &Path) {
    let mut bytes = of_two_groups(path);
    let heaps = heaps(&bytes);
    let (length, names) = (number(&bytes, heaps[0] + 8), number(&bytes, heaps[0] + 24));
    let copy = bytes.len();
    bytes.extend_from_within(names..names + length);
    for heap in heaps {
        bytes[heap + 24..heap + 32].copy_from_slice(&(copy as u64).to_le_bytes());
    }
    // The superblock holds the end of the file.
    let end = bytes.len() as u64;
    bytes[40..48].copy_from_slice(&end.to_le_bytes());
    fs::write(path, bytes).unwrap();
}

/// Writes a file with the datasets `/raw` and `/a/raw` in the oldest format, and returns its bytes.
/// Newer formats have no heaps with the names of groups.
fn of_two_groups(path: &Path) -> Vec<u8> {
    let oldest = hdf5::File::with_options()
        .with_fapl(|access| access.libver_earliest())
        .clone();
    let file = oldest.create(path).unwrap();
    for name in ["raw", "a/raw"] {
        file.new_dataset_builder()
            .with_data(&Array3::<u8>::zeros((4, 8, 8)))
            .create(name)
            .unwrap();
    }
    file.close().unwrap();
    fs::read(path).unwrap()
}

/// Where the heaps of the first two groups are.
fn heaps(bytes: &[u8]) -> Vec<usize> {
    (0..bytes.len() - 4)
        .filter(|at| &bytes[*at..*at + 4] == b"HEAP")
        .take(2)
        .collect()
}

fn number(bytes: &[u8], at: usize) -> usize {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize
}

/// Writes a sparse file that can be read, but in which the names of a group are said to take a GiB:
/// the library reads all of it into memory, twice.
pub fn greedy(path: &Path) {
    const NAMES: u64 = 1 << 30;
    let mut bytes = of_two_groups(path);
    let heap = heaps(&bytes)[1];
    let end = number(&bytes, heap + 24) as u64 + NAMES;
    // The length of the names, and no free space among them. The superblock holds the end of the
    // file.
    for (at, value) in [(heap + 8, NAMES), (heap + 16, 1), (40, end)] {
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    fs::write(path, bytes).unwrap();
    fs::OpenOptions::new()
        .write(true)
        .open(path)
        .unwrap()
        .set_len(end)
        .unwrap();
}
