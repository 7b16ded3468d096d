//! Reads planes of a file that grows or is replaced.

use std::path::Path;
use std::time::{Duration, SystemTime};

use ndarray::Array3;
use voltile_base::metrics::Metrics;

use super::*;
use crate::volume::hdf5::Opener;

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
