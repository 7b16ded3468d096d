//! Reads planes of a file that grows or is replaced.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use ndarray::Array3;
use voltile_base::metrics::Metrics;

use super::*;
use crate::volume::hdf5::Opener;
use crate::volume::hdf5::stored_chunk::{FetchedChunk, StoredBytes};

const SIZE: Xyz<u64> = Xyz {
    x: 41,
    y: 33,
    z: 19,
};

fn opener(budget: usize, growing: Option<bool>) -> Opener {
    let chunks = ChunkStore::new(
        budget,
        Metrics::default(),
        voltile_base::flow::activity::Activity::default(),
    );
    Opener {
        growing,
        ..Opener::new(chunks)
    }
}

fn volume_of(opener: &Opener, path: &Path, name: &str) -> Hdf5Volume {
    let view = View::zyx();
    opener
        .open(&path.into())
        .unwrap()
        .volume(name, &view)
        .unwrap()
}

/// A plane of a volume whose voxels should be `value`; `None` if the file has changed.
fn plane_is(volume: &Hdf5Volume, z: u64, value: u16) -> Option<bool> {
    let region = Region {
        start: Xyz { z, ..Xyz::all(0) },
        size: Xyz { z: 1, ..SIZE },
    };
    let mut into = Samples::default();
    match volume.read(&ReadRequest::new(0, region), &mut into) {
        Ok(()) => Some(into == Samples::U16(vec![value; (SIZE.x * SIZE.y) as usize])),
        Err(ReadError::Changed { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

/// Writes a file, which is not replaced if it exists, with a modification time in seconds.
fn write_anew(path: &Path, bytes: &[u8], seconds: u64) {
    std::fs::write(path, bytes).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
        .unwrap();
}

/// A file of planes of equal voxels: all the same but for two in the middle.
fn planes(folder: &Path, outer: u16, inner: u16) -> Vec<u8> {
    let path = folder.join("planes.h5");
    let file = hdf5::File::create(&path).unwrap();
    let shape = (SIZE.z as usize, SIZE.y as usize, SIZE.x as usize);
    let data = Array3::from_shape_fn(
        shape,
        |(z, _, _)| if z == 5 || z == 6 { inner } else { outer },
    );
    let new = || file.new_dataset_builder().with_data(&data);
    new().chunk((1, 33, 41)).create("unfiltered").unwrap();
    new()
        .chunk((1, 33, 41))
        .shuffle()
        .create("shuffle")
        .unwrap();
    new().chunk((1, 33, 41)).shuffle().create("large").unwrap();
    file.close().unwrap();
    std::fs::read(path).unwrap()
}

#[test]
fn a_growing_file_that_is_written_anew_has_changed_and_remains_so() {
    for (name, budget) in [
        ("unfiltered", 1 << 20),
        ("shuffle", 1 << 20),
        ("large", 1 << 12),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("volume.h5");
        write_anew(&path, &planes(folder.path(), 1, 2), 1);
        let opener = opener(budget, Some(true));
        let volume = volume_of(&opener, &path, name);
        assert_eq!(plane_is(&volume, 1, 1), Some(true), "{name}");
        let other = planes(folder.path(), 3, 4);
        write_anew(&path, &other, 2);
        assert_ne!(plane_is(&volume, 5, 4), Some(false), "{name}");
        assert_eq!(plane_is(&volume, 1, 1), None, "{name}: it was another");
        assert_eq!(plane_is(&volume, 5, 4), None, "{name}");
        let next = volume_of(&opener, &path, name);
        assert_eq!(plane_is(&next, 1, 3), Some(true), "{name}");
        // Shorter for a moment.
        write_anew(&path, &other[..other.len() / 2], 3);
        assert_eq!(plane_is(&next, 2, 3), None, "{name}");
        write_anew(&path, &other, 4);
        assert_eq!(plane_is(&next, 2, 3), None, "{name}: it was shorter");
    }
}

#[test]
fn a_chunk_of_a_growing_file_is_decoded_again_if_its_bytes_are_others_although_the_landmarks_are_alike()
 {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume.h5");
    write_anew(&path, &planes(folder.path(), 1, 2), 1);
    let opener = opener(1 << 20, Some(true));
    let before = volume_of(&opener, &path, "shuffle");
    let planes_before = [(1, 1), (5, 2), (9, 1)].map(|(z, value)| plane_is(&before, z, value));
    assert_eq!(planes_before, [Some(true); 3]);
    write_anew(&path, &planes(folder.path(), 1, 4), 2);
    let next = volume_of(&opener, &path, "shuffle");
    let planes_now = [(1, 1), (5, 4), (9, 1)].map(|(z, value)| plane_is(&next, z, value));
    assert_eq!(planes_now, [Some(true); 3]);
}

/// A number for each place that no codec compresses.
fn noise(z: usize, y: usize, x: usize) -> u8 {
    let place = (z * 65_536 + y * 256 + x) as u64;
    let mixed = (place + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (mixed >> 56) as u8
}

#[test]
fn chunks_that_are_decoded_from_the_mapped_file_while_it_is_overwritten_are_right_or_an_error() {
    const PLANES: usize = 8;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume.h5");
    let file = hdf5::File::create(&path).unwrap();
    let data = Array3::from_shape_fn((PLANES, 256, 256), |(z, y, x)| noise(z, y, x));
    let new = file.new_dataset_builder().with_data(&data);
    new.chunk((1, 256, 256)).deflate(4).create("noise").unwrap();
    file.close().unwrap();
    write_anew(&path, &std::fs::read(&path).unwrap(), 1);
    let opener = opener(8 << 20, Some(false));
    let volume = volume_of(&opener, &path, "noise");
    let read = |z: usize| {
        let start = Xyz {
            z: z as u64,
            ..Xyz::all(0)
        };
        let size = Xyz {
            x: 256,
            y: 256,
            z: 1,
        };
        let mut into = Samples::default();
        opener.chunks.clear();
        let read = volume.read(&ReadRequest::new(0, Region { start, size }), &mut into);
        read.map(|()| into)
    };
    let plane = |z: usize| {
        let voxels = (0..65_536).map(|at| noise(z, at / 256, at % 256));
        Samples::U8(voxels.collect())
    };
    let third = volume.uniform_chunk(0, Xyz { x: 0, y: 0, z: 3 }).unwrap();
    let entry = volume.dataset.entry(&third).unwrap();
    let metrics = Metrics::default();
    let fetched = volume
        .dataset
        .fetch(&third, entry, Meter::new(&metrics, None));
    assert!(matches!(
        fetched,
        Ok(FetchedChunk::Bytes(_, StoredBytes::Mapped(_), _))
    ));
    let all_read = std::sync::Barrier::new(5);
    std::thread::scope(|scope| {
        for first in 0..4 {
            let read = &read;
            let plane = &plane;
            let all_read = &all_read;
            scope.spawn(move || {
                assert!(read(first).unwrap() == plane(first), "plane {first}");
                all_read.wait();
                let mut z = first;
                while let Ok(samples) = read(z) {
                    assert!(samples == plane(z), "plane {z}");
                    z = (z + 1) % PLANES;
                }
            });
        }
        let written = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        let length = written.metadata().unwrap().len();
        all_read.wait();
        written
            .write_all_at(&vec![0x5A; length as usize / 2], length / 2)
            .unwrap();
        written.set_len(length / 4).unwrap();
    });
    assert!(matches!(read(0), Err(ReadError::Changed { .. })));
}
