//! Labels whose voxels are larger than those of the image: each is drawn over all voxels of the
//! image that it covers.

use hdf5::Group;
use ndarray::{Array3, ArrayD, IxDyn};
use serde_json::{Value, json};
use voltile_base::color::label_colour;

use crate::common::picture::{Picture, TILE};
use crate::common::{Place, Server, made};

const STORED: [usize; 3] = [2, 30, 40];

fn id(z: usize, y: usize, x: usize) -> u64 {
    (1 + 10_000 * z + 100 * y + x) as u64
}

fn put(group: &Group, path: &str, resolution: [f64; 3], offset: Option<[f64; 3]>) {
    let ids = Array3::from_shape_fn(STORED, |(z, y, x)| id(z, y, x));
    let data = group
        .new_dataset_builder()
        .with_data(&ids)
        .chunk((1, 16, 16))
        .deflate(3)
        .create(path)
        .unwrap();
    made::numbers(&data, "resolution", &resolution);
    offset
        .into_iter()
        .for_each(|offset| made::numbers(&data, "offset", &offset));
}

/// `raw` has 4 × 600 × 700 voxels of 40 × 4 × 4 nm. `quarter` has voxels four times as wide and
/// high, and begins at x 480, y 500, z 1 of `raw`; those of `third` are three times as wide and
/// high and twice as thick; `odd` does not fit.
fn served(place: &Place) -> Server {
    made::file(&place.path("cremi.h5"), |file| {
        let raw = ArrayD::from_shape_fn(IxDyn(&[4, 600, 700]), |at| (at[2] % 256) as u8);
        made::numbers(
            &made::put(file, "volumes/raw", &raw),
            "resolution",
            &[40.0, 4.0, 4.0],
        );
        put(
            file,
            "volumes/labels/quarter",
            [40.0, 16.0, 16.0],
            Some([40.0, 2000.0, 1920.0]),
        );
        put(file, "volumes/labels/third", [80.0, 12.0, 12.0], None);
        put(file, "volumes/labels/odd", [40.0, 6.0, 6.0], None);
    });
    place.serve([place.path("cremi.h5")])
}

fn channel(server: &Server, name: &str) -> Value {
    let described = server.json("/datasets/cremi.json");
    described["channels"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["name"] == name)
        .unwrap()
        .clone()
}

fn tile(server: &Server, path: &str) -> Picture {
    let answer = server.tile(&format!("cremi/{path}"));
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.picture()
}

/// Compares a tile with the stored voxel that each of its pixels shows; pixels without one are
/// black.
fn compare(server: &Server, path: &str, shown: impl Fn(usize, usize) -> Option<[usize; 3]>) {
    let picture = tile(server, path);
    for (row, column) in (0..TILE).flat_map(|row| (0..TILE).map(move |column| (row, column))) {
        let colour = shown(row, column).map_or([0; 3], |[z, y, x]| label_colour(id(z, y, x)));
        let pixel = &picture.pixels[3 * (row * TILE + column)..][..3];
        assert_eq!(pixel, colour, "{path}: row {row}, column {column}");
    }
}

/// The stored position that a position in the grid shows, if the labels begin at `first` and each
/// voxel is shown `times` times.
fn stored(at: usize, first: usize, times: usize, extent: usize) -> Option<usize> {
    Some(at.checked_sub(first)? / times).filter(|stored| *stored < extent)
}

#[test]
fn larger_voxels_of_labels_cover_those_of_the_image_at_every_level_and_in_every_plane() {
    let place = Place::new();
    let server = served(&place);
    let [_, rows, columns] = STORED;
    for (row, column) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        compare(
            &server,
            &format!("quarter/xy/2/{row}_{column}_0.png"),
            |y, x| {
                let y = stored(y + row * TILE, 500, 4, rows)?;
                Some([1, y, stored(x + column * TILE, 480, 4, columns)?])
            },
        );
    }
    // Level 1 is derived from the repeated voxels, level 2 is stored.
    for (level, times) in [(1, 2), (2, 1)] {
        compare(&server, &format!("quarter/xy/1/0_0_{level}.png"), |y, x| {
            let [y0, x0] = [500, 480].map(|first: usize| first >> level);
            Some([
                0,
                stored(y, y0, times, rows)?,
                stored(x, x0, times, columns)?,
            ])
        });
    }
    compare(&server, "third/xy/3/0_0_0.png", |y, x| {
        Some([1, stored(y, 0, 3, rows)?, stored(x, 0, 3, columns)?])
    });
    compare(&server, "third/xy/3/0_0_1.png", |y, x| {
        Some([1, stored(2 * y, 0, 3, rows)?, stored(2 * x, 0, 3, columns)?])
    });
    // Square pixels: a section of the image is ten rows high.
    compare(&server, "third/xz/10/0_0_0.png", |y, x| {
        Some([stored(y / 10, 0, 2, 2)?, 3, stored(x, 0, 3, columns)?])
    });
    compare(&server, "quarter/yz/483/0_0_0.png", |z, y| {
        Some([stored(z / 10, 1, 1, 2)?, stored(y, 500, 4, rows)?, 0])
    });
    let black = tile(&server, "quarter/xy/0/0_0_0.png");
    assert!(
        black.pixels.iter().all(|part| *part == 0),
        "there are no labels in the first section"
    );
}

#[test]
fn they_are_described_in_the_grid_of_the_image_and_stored_voxels_can_be_had() {
    let place = Place::new();
    let server = served(&place);
    let quarter = channel(&server, "quarter");
    assert_eq!(
        (&quarter["offset"], &quarter["voxel_size"]),
        (&json!([480, 500, 1]), &json!([4.0, 4.0, 40.0]))
    );
    let sizes: Vec<&Value> = quarter["levels"]
        .as_array()
        .unwrap()
        .iter()
        .map(|level| &level["size"])
        .collect();
    assert_eq!(sizes, [&json!([160, 120, 2]), &json!([80, 60, 2])]);
    assert_eq!(channel(&server, "third")["offset"], json!([0, 0, 0]));

    let boxed = server.get("/voxels/cremi/quarter/2/0-40_0-30_0-2.raw").body;
    let all = Array3::from_shape_fn(STORED, |(z, y, x)| id(z, y, x));
    assert!(
        boxed
            == all
                .iter()
                .flat_map(|id| id.to_le_bytes())
                .collect::<Vec<u8>>()
    );
    let boxed = server.get("/voxels/cremi/quarter/0/3-9_5-6_1-2.raw").body;
    let expected: Vec<u8> = (3..9)
        .flat_map(|x| id(1, 5 / 4, x / 4).to_le_bytes())
        .collect();
    assert!(boxed == expected);

    let info = server.json("/neuroglancer/cremi/quarter/info");
    let finest = &info["scales"][0];
    assert_eq!(
        (&finest["voxel_offset"], &finest["size"]),
        (&json!([480, 500, 1]), &json!([160, 120, 2]))
    );
    assert_eq!(finest["resolution"], json!([4.0, 4.0, 40.0]));
}

#[test]
fn labels_that_cannot_be_placed_are_named_with_the_reason() {
    let place = Place::new();
    let server = served(&place);
    server.wait_for_log("datasets.cremi.channels.odd: its voxels are");
    assert_eq!(
        channel(&server, "odd")["voxel_size"],
        json!([6.0, 6.0, 40.0])
    );
    compare(&server, "odd/xy/0/0_0_0.png", |y, x| {
        Some([0, stored(y, 0, 1, 30)?, stored(x, 0, 1, 40)?])
    });
    let checked = place.run(["check", "cremi.h5"]);
    assert_eq!(checked.code, 0, "{}", checked.err);
    let words = "its voxels are 1.5 × 1.5 × 1 times (x × y × z) as large as the voxels of raw; it can be drawn over raw only";
    assert!(checked.err.contains(words), "{}", checked.err);
}
