//! The beginning of a file: whether it is an HDF5 file, where the file ends according to its
//! superblock, and in which other format it is if it is no HDF5 file.
//!
//! It is read without the library, which says only that it cannot open a file.
//!
//! A superblock begins with a signature of 8 bytes. The fields that are read begin at these bytes:
//!
//! ```text
//! field                in version 0    1    2 or 3
//! version                         8    8         8
//! size of an address             13   13         9
//! flags                           –    –        11
//! base address                   24   28        12
//! ```
//!
//! After the base address come one other address, then the address of the end of the file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The first bytes of a superblock (HDF5 file format, section II.A).
const SIGNATURE: [u8; 8] = *b"\x89HDF\r\n\x1a\n";
/// The number of bytes of a superblock that are read: in all versions, the address of the end of
/// the file lies in the first 52.
const SUPERBLOCK_BYTES: usize = 52;
/// The flag of a file that is being written in single-writer/multiple-readers mode, in superblocks
/// of version 3.
const SWMR_WRITING: u8 = 4;
/// The flag of a file that is open for writing, in superblocks of version 3.
const WRITING: u8 = 1;
/// In a file that may be no HDF5 file, the superblock is looked for before this position, which
/// means at 0, 512, 1024, 2048 and 4096. Few files have longer user blocks.
const SEARCH_END: u64 = 4097;
/// The number of bytes that are compared with [`FORMATS`].
const FORMAT_BYTES: usize = 512;

/// Reads bytes at a position up to the end of the file; returns their number.
pub(super) type ReadAt<'a> = &'a dyn Fn(&mut [u8], u64) -> io::Result<usize>;

/// Other formats: the position of the bytes by which each is recognised, these bytes, and the words
/// for the file.
const FORMATS: &[(usize, &[u8], &str)] = &[
    (0, b"II*\0", "a TIFF image"),
    (0, b"MM\0*", "a TIFF image"),
    (0, b"II+\0", "a BigTIFF image"),
    (0, b"MM\0+", "a BigTIFF image"),
    (0, b"\x89PNG", "a PNG image"),
    (0, b"\xff\xd8\xff", "a JPEG image"),
    (0, b"ZISRAWFILE", "a Zeiss CZI file"),
    (0, b"\xda\xce\xbe\x0a", "a Nikon ND2 file"),
    (0, b"\x70\0\0\0", "a Leica LIF file"),
    (128, b"DICM", "a DICOM file"),
    (344, b"n+1\0", "a NIfTI image"),
    (208, b"MAP ", "an MRC file"),
    (0, b"NRRD", "an NRRD file"),
    (
        0,
        b"MATLAB 5.0",
        "a MATLAB file in an older format: save it with -v7.3",
    ),
    (
        0,
        b"CDF",
        "a netCDF-3 file: convert it with `nccopy -k nc4`",
    ),
    (
        0,
        b"\x0e\x03\x13\x01",
        "an HDF4 file: convert it with `h4toh5`",
    ),
    (0, b"PK\x03\x04", "a ZIP archive: unpack it first"),
    (
        0,
        b"\x1f\x8b",
        "a file compressed with gzip: decompress it first",
    ),
    (
        0,
        b"version https://git-lfs",
        "a pointer of Git LFS: fetch the file itself with `git lfs pull`",
    ),
    (
        0,
        b"<?xml",
        "XML: of BigDataViewer's two files, name the .h5",
    ),
    (
        0,
        &[0; FORMAT_BYTES],
        "a file that begins with zeros, perhaps because it is still being copied",
    ),
];

/// The files that mark a folder as part of a tree of chunks.
const TREES: &[(&str, &str)] = &[
    (".zgroup", "a Zarr tree"),
    (".zarray", "a Zarr tree"),
    ("zarr.json", "a Zarr tree"),
    ("attributes.json", "an N5 tree"),
];

/// Whether a file begins like an HDF5 file, or holds a superblock behind a short user block.
pub fn is_hdf5(file: &File) -> io::Result<bool> {
    let place = superblock_at(&|into, position| file.read_at(into, position), SEARCH_END)?;
    Ok(place.is_some())
}

/// Names the format of a folder that is a tree of chunks, such as "a Zarr tree"; `None` for any
/// other folder.
pub fn tree_at(folder: &Path) -> Option<&'static str> {
    let marked = TREES
        .iter()
        .find(|(marker, _)| folder.join(marker).symlink_metadata().is_ok());
    marked.map(|(_, format)| *format)
}

/// The position of the superblock: 0, or behind a user block of 512 bytes or a larger power of two,
/// but before `end`.
fn superblock_at(read: ReadAt<'_>, end: u64) -> io::Result<Option<u64>> {
    let mut place: u64 = 0;
    while place < end {
        let mut bytes = [0; SIGNATURE.len()];
        read(&mut bytes, place)?;
        if bytes == SIGNATURE {
            return Ok(Some(place));
        }
        place = place.saturating_mul(2).max(512);
    }
    Ok(None)
}

/// The name of the family driver in the driver information block.
const FAMILY: &[u8] = b"NCSAfami";

/// The byte at which an HDF5 file should end according to its superblock, `length` being the
/// length that the file has. `None` if the superblock cannot be read, or if the file is being
/// written in SWMR mode: the superblock may then be outdated.
pub(super) fn stated_end(read: ReadAt<'_>, length: u64) -> Option<u64> {
    let place = superblock_at(read, length).ok()??;
    let mut bytes = [0; SUPERBLOCK_BYTES];
    let known = read(&mut bytes, place).ok()?;
    let bytes = bytes.get(..known)?;
    // The positions of the size of an address, and of the base address, in this version.
    let (size_at, base_at) = match bytes.get(8)? {
        0 => (13, 24),
        1 => (13, 28),
        2 | 3 if bytes.get(11)? & SWMR_WRITING == 0 => (9, 12),
        _ => return None,
    };
    let size = usize::from(*bytes.get(size_at)?);
    let base = address(bytes, base_at, size)?;
    // One other address lies between the base address and the end of the file.
    let end = address(bytes, base_at + 2 * size, size)?;
    // As in the library, addresses count from the superblock, wherever it is.
    end.checked_sub(base)?.checked_add(place)
}

/// The address of `size` bytes (at most 8) at a position.
fn address(bytes: &[u8], position: usize, size: usize) -> Option<u64> {
    let mut address = [0; 8];
    address
        .get_mut(..size)?
        .copy_from_slice(bytes.get(position..position + size)?);
    Some(u64::from_le_bytes(address))
}

/// Whether a file is the first of several that HDF5's family driver wrote: the driver's name is in
/// its first bytes.
pub(super) fn is_of_family(read: ReadAt<'_>) -> bool {
    let mut bytes = [0; 4096];
    let known = read(&mut bytes, 0).unwrap_or(0);
    let bytes = bytes.get(..known).unwrap_or_default();
    bytes.windows(FAMILY.len()).any(|name| name == FAMILY)
}

/// Whether a file is being written in SWMR mode, according to its superblock. A writer that crashes
/// leaves the mark behind.
pub(super) fn is_marked_as_written(read: ReadAt<'_>) -> io::Result<bool> {
    marks(read).map(|marks| marks & SWMR_WRITING != 0)
}

/// Whether a file is being written, and not in SWMR mode, according to its superblock.
pub(super) fn is_open_elsewhere(read: ReadAt<'_>) -> bool {
    marks(read).is_ok_and(|marks| marks & (WRITING | SWMR_WRITING) == WRITING)
}

/// The flags of a superblock about programs that write the file; 0 in versions before 3.
fn marks(read: ReadAt<'_>) -> io::Result<u8> {
    let Some(place) = superblock_at(read, SEARCH_END)? else {
        return Ok(0);
    };
    let mut bytes = [0; 12];
    read(&mut bytes, place)?;
    Ok(if bytes[8] == 3 { bytes[11] } else { 0 })
}

/// Why a file is no HDF5 file; `None` if it is one, or cannot be read.
pub(super) fn why_foreign(read: ReadAt<'_>, length: u64) -> Option<String> {
    if length == 0 {
        return Some("it is empty; an HDF5 file is expected".to_owned());
    }
    if superblock_at(read, length).ok()?.is_some() {
        return None;
    }
    let mut bytes = [0; FORMAT_BYTES];
    let known = read(&mut bytes, 0).ok()?;
    Some(match format_of(bytes.get(..known)?) {
        Some(words) => format!("it is not an HDF5 file but {words}"),
        None => "it is not an HDF5 file".to_owned(),
    })
}

/// The words for a file in another format; `None` if its format is not known.
fn format_of(bytes: &[u8]) -> Option<&'static str> {
    for (position, magic, words) in FORMATS {
        let rest = bytes.get(*position..).unwrap_or_default();
        if rest.starts_with(magic) {
            return Some(words);
        }
    }
    let is_text = bytes
        .iter()
        .all(|byte| !byte.is_ascii_control() || byte.is_ascii_whitespace());
    if !is_text {
        return None;
    }
    let word = bytes
        .strip_prefix(b"\xef\xbb\xbf")
        .unwrap_or(bytes)
        .trim_ascii_start()
        .to_ascii_lowercase();
    let is_page = word.starts_with(b"<!doctype html") || word.starts_with(b"<html");
    Some(if is_page {
        "a web page (HTML), perhaps to log in or about an error: download the file again"
    } else {
        "text"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end_of(bytes: &[u8]) -> Option<u64> {
        let read = |into: &mut [u8], position: u64| {
            let rest = bytes.get(position as usize..).unwrap_or_default();
            let length = rest.len().min(into.len());
            into[..length].copy_from_slice(&rest[..length]);
            Ok(length)
        };
        stated_end(&read, bytes.len() as u64)
    }

    /// A superblock of a version, with addresses of this size: base address and end of the file.
    fn superblock(version: u8, size: u8, base: u64, end: u64) -> Vec<u8> {
        let address = |value: u64| value.to_le_bytes()[..usize::from(size)].to_vec();
        let head = match version {
            0 | 1 => [
                &[version, 0, 0, 0, 0, size, 8][..],
                &vec![0; if version == 0 { 9 } else { 13 }],
            ]
            .concat(),
            _ => vec![version, size, 8, 0],
        };
        [
            SIGNATURE.to_vec(),
            head,
            address(base),
            address(u64::MAX),
            address(end),
            vec![0; 16],
        ]
        .concat()
    }

    #[test]
    fn the_first_file_of_a_family_has_the_drivers_name() {
        let is_of_family = |bytes: Vec<u8>| {
            super::is_of_family(&|into: &mut [u8], _| {
                let length = into.len().min(bytes.len());
                into[..length].copy_from_slice(&bytes[..length]);
                Ok(length)
            })
        };
        let own = superblock(0, 8, 0, 9000);
        assert!(!is_of_family(own.clone()));
        assert!(is_of_family(
            [own, b"\0\0\0\0\x08\0\0\0NCSAfami".to_vec()].concat()
        ));
    }

    #[test]
    fn files_that_are_being_written_are_told_by_their_marks() {
        let marked = |version: u8, flags: u8| {
            let mut bytes = superblock(version, 8, 0, 9000);
            bytes[11] = flags;
            let read = |into: &mut [u8], position: u64| {
                into.copy_from_slice(&bytes[position as usize..position as usize + into.len()]);
                Ok(into.len())
            };
            (
                is_marked_as_written(&read).unwrap(),
                is_open_elsewhere(&read),
            )
        };
        assert_eq!(
            (marked(3, 5), marked(3, 1), marked(3, 0)),
            ((true, false), (false, true), (false, false))
        );
        assert_eq!(
            (marked(2, 5), marked(0, 5)),
            ((false, false), (false, false)),
            "a reserved byte"
        );
    }

    #[test]
    fn the_end_is_told_by_superblocks_of_every_version() {
        for version in 0..=3 {
            assert_eq!(
                end_of(&superblock(version, 8, 0, 0x1234_5678)),
                Some(0x1234_5678),
                "{version}"
            );
            assert_eq!(
                end_of(&superblock(version, 4, 0, 70_000)),
                Some(70_000),
                "{version}"
            );
            let behind = [vec![0; 1024], superblock(version, 8, 1024, 9000)].concat();
            assert_eq!(
                end_of(&behind),
                Some(9000),
                "{version}: behind a user block"
            );
            // A user block that was put before the file afterwards moves everything.
            let moved = [vec![0; 512], superblock(version, 8, 0, 9000)].concat();
            assert_eq!(end_of(&moved), Some(9512), "{version}: moved");
            let whole = superblock(version, 8, 0, 9000);
            for length in 0..whole.len() - 16 {
                assert_eq!(end_of(&whole[..length]), None, "{version}: cut at {length}");
            }
        }
        assert_eq!(end_of(&superblock(4, 8, 0, 9000)), None);
        let mut wide = superblock(0, 8, 0, 9000);
        wide[13] = 16;
        assert_eq!(end_of(&wide), None, "addresses of 16 bytes");
        assert_eq!(end_of(&superblock(2, 8, 9001, 9000)), None);
        let mut written = superblock(3, 8, 0, 9000);
        written[11] = 1 | SWMR_WRITING;
        assert_eq!(end_of(&written), None);
    }
}
