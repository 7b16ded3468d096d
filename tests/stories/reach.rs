//! Files that name other files: those are looked for next to them, and not in the working directory
//! of the server.
//!
//! Which links are refused is tested with the fixtures. Here the working directory has decoys:
//! files of the right names with other voxels, which must not be served.

use std::fs;

use crate::common::Place;
use crate::common::picture::Picture;
use ndarray::Array3;

const SHAPE: [usize; 3] = [4, 30, 40];
const VOXELS: usize = SHAPE[0] * SHAPE[1] * SHAPE[2];

/// A voxel of the right raw file.
fn voxel(z: usize, y: usize, x: usize) -> u8 {
    ((z * SHAPE[1] + y) * SHAPE[2] + x) as u8 | 1
}

fn right(z: usize) -> Picture {
    Picture::of_plane(SHAPE[1], SHAPE[2], |y, x| voxel(z, y, x))
}

/// `data/v.h5` with `/raw` in `data/raw.bin`, `/virtual` over `/raw`, and `/other` over the `/raw`
/// of another file there; `/lost` in a raw file and `/gone` over a file that do not exist. The
/// working directory has decoys of all these names.
fn surrounded_by_decoys() -> Place {
    let place = Place::new();
    fs::create_dir(place.path("data")).unwrap();
    let [z, y, x] = SHAPE;
    let bytes: Vec<u8> = (0..VOXELS)
        .map(|at| voxel(at / (y * x), at / x % y, at % x))
        .collect();
    fs::write(place.path("data/raw.bin"), bytes).unwrap();
    for decoy in ["raw.bin", "lost.bin"] {
        fs::write(place.path(decoy), vec![0xEE; VOXELS]).unwrap();
    }
    let decoy = hdf5::File::create(place.path("gone.h5")).unwrap();
    decoy
        .new_dataset_builder()
        .with_data(&Array3::from_elem((z, y, x), 0xEE_u8))
        .create("raw")
        .unwrap();
    for name in ["v.h5", "w.h5"] {
        let file = hdf5::File::create(place.path("data").join(name)).unwrap();
        for (target, name) in [("raw.bin", "raw"), ("lost.bin", "lost")] {
            let raw = file.new_dataset_builder().empty::<u8>().shape((z, y, x));
            raw.external(target, 0, VOXELS).create(name).unwrap();
        }
        for (target, name) in [(".", "virtual"), ("w.h5", "other"), ("gone.h5", "gone")] {
            let parts = file.new_dataset_builder().empty::<u8>().shape((z, y, x));
            parts
                .virtual_map(target, "raw", (z, y, x), .., (z, y, x), ..)
                .create(name)
                .unwrap();
        }
    }
    place
}

#[test]
fn raw_storage_is_read_next_to_the_file_that_names_it() {
    let place = surrounded_by_decoys();
    let server = place.serve(["data/v.h5"]);
    assert_eq!(server.tile("v/raw/xy/1/0_0_0.png").picture(), right(1));
}

#[test]
fn raw_storage_below_a_virtual_dataset_is_read_there_too() {
    for (channel, path) in [("virtual", "/virtual"), ("other", "/other")] {
        let place = surrounded_by_decoys();
        place.write(
            "voltile.toml",
            &format!(
                "[datasets.v]\nfile = \"data/v.h5\"\n[datasets.v.channels.{channel}]\npath = \"{path}\"\n"
            ),
        );
        let server = place.serve::<&str>([]);
        assert_eq!(
            server
                .tile(&format!("v/{channel}/xy/1/0_0_0.png"))
                .picture(),
            right(1),
            "{path}"
        );
    }
}

#[test]
fn a_file_that_is_missing_there_is_not_looked_for_elsewhere() {
    let place = surrounded_by_decoys();
    let server = place.serve(["data/v.h5"]);
    server.expect_error("data/lost.bin: the file is missing");
    assert_eq!(server.tile("v/lost/xy/1/0_0_0.png").status, 500);
    assert!(
        server
            .tile("v/lost/xy/1/0_0_0.png")
            .problem()
            .contains("is missing")
    );
    // The fill value: not the decoy, although libhdf5 looks in the working directory too.
    let gone = server.tile("v/gone/xy/1/0_0_0.png");
    assert!(
        gone.picture().pixels.iter().all(|value| *value == 0),
        "{gone:?}"
    );
}

#[test]
fn several_files_can_name_the_same_others() {
    let place = surrounded_by_decoys();
    let server = place.serve(["data/v.h5", "data/w.h5"]);
    for token in ["v", "w"] {
        for channel in ["raw", "virtual", "other", "virtual", "raw"] {
            let tile = server.tile(&format!("{token}/{channel}/xy/2/0_0_0.png"));
            assert_eq!(tile.picture(), right(2), "{token}/{channel}");
        }
    }
}
