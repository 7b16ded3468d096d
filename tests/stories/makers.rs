//! A small file of each maker opens without configuration: what is served is what the maker's own
//! library reads.
//!
//! The files and the expectations are made by `fixtures/makers/make.py`, which says with which
//! library each was written and read.

use std::path::Path;

use serde_json::Value;
use voltile_base::name::Name;

use crate::common::made::{self, found};
use crate::common::picture::{Picture, TILE};
use crate::common::{Place, Server, fixture, fixture_json};
use voltile::layout::FoundChannel;

/// Relative tolerance of sizes, which libraries compute in several ways.
const CLOSE: f64 = 1e-9;

#[test]
fn every_makers_file_opens_as_its_own_library_reads_it() {
    let expected = fixture_json("makers/expected.json");
    let expected = expected.as_object().unwrap();
    let place = Place::new();
    let server = place.serve(expected.keys().map(|name| fixture("makers").join(name)));
    for (name, file) in expected {
        let path = fixture("makers").join(name);
        let token = Name::nearest(Path::new(name).file_stem().unwrap().to_str().unwrap());
        let described = server.get(&format!("/datasets/{token}.json")).json();
        assert_eq!(described["layouts"][0]["layout"], file["layout"], "{name}");
        let discovered = found(&path);
        assert_eq!(made::names(&discovered), names(file), "{name}");
        for (channel, found) in all(file).iter().zip(&discovered.channels) {
            let described = all(&described)
                .iter()
                .find(|described| described["name"] == channel["name"]);
            let described = described.expect("a channel that is found is served");
            compare(
                &format!("{name}: {}", channel["name"]),
                channel,
                described,
                found,
            );
            compare_values(&server, &token, channel, described);
        }
    }
}

#[test]
fn the_array_that_vtk_shows_is_listed_first() {
    let place = Place::new();
    let server = place.serve([fixture("makers/image.vtkhdf")]);
    let described = server.json("/datasets/image.json");
    assert_eq!(described["channels"][0]["name"], "density");
}

fn all(file: &Value) -> &Vec<Value> {
    file["channels"].as_array().unwrap()
}

fn names(file: &Value) -> Vec<&str> {
    all(file)
        .iter()
        .map(|channel| channel["name"].as_str().unwrap())
        .collect()
}

/// Compares what is said of a channel.
fn compare(place: &str, expected: &Value, described: &Value, found: &FoundChannel) {
    for key in ["kind", "label"] {
        assert_eq!(described[key], expected[key], "{place}: {key}");
    }
    assert_eq!(described["voxel_unit"], expected["unit"], "{place}: unit");
    assert_eq!(
        described["levels"][0]["size"], expected["size"],
        "{place}: size"
    );
    assert_eq!(described["times"], expected["times"], "{place}: times");
    let close = |a: &[f64], b: &[f64]| {
        a.len() == b.len()
            && a.iter()
                .zip(b)
                .all(|(a, b)| (a - b).abs() <= CLOSE * a.abs().max(b.abs()))
    };
    let (voxel, wanted) = (
        numbers(&described["voxel_size"]),
        numbers(&expected["voxel"]),
    );
    assert!(
        close(&voxel, &wanted),
        "{place}: {voxel:?}, but {wanted:?} is expected"
    );
    let origin = found.transforms.first().map_or(Vec::new(), |first| {
        <[f64; 3]>::from(first.translation()).to_vec()
    });
    assert!(
        close(&origin, &numbers(&expected["origin"])),
        "{place}: origin {origin:?}"
    );
    let missing: Vec<f64> = found.missing.iter().map(|number| number.to_f64()).collect();
    assert_eq!(
        missing,
        numbers(&expected["missing"]),
        "{place}: missing values"
    );
    let factors = made::levels(found)
        .into_iter()
        .map(|(_, factor)| Value::from(factor.unwrap().to_vec()));
    assert_eq!(
        &factors.collect::<Vec<_>>(),
        expected["levels"].as_array().unwrap(),
        "{place}: levels"
    );
    let is_labels = expected["kind"] == "labels";
    assert_eq!(
        found.facts.labels_because.is_some(),
        is_labels,
        "{place}: a reason for labels"
    );
}

/// The numbers of a list; none for null.
fn numbers(list: &Value) -> Vec<f64> {
    list.as_array()
        .into_iter()
        .flatten()
        .map(|number| number.as_f64().unwrap())
        .collect()
}

fn compare_values(server: &Server, token: &Name, expected: &Value, described: &Value) {
    let name = expected["name"].as_str().unwrap();
    let wanted = expected["values"].as_array().unwrap();
    if expected["kind"] == "rgb" {
        return compare_colours(server, token, name, expected);
    }
    let dtype = described["dtype"].as_str().unwrap();
    assert_eq!(dtype, expected["dtype"], "{token}/{name}");
    let [x, y, z] = [0, 1, 2].map(|axis| expected["size"][axis].as_u64().unwrap());
    let mut values = Vec::new();
    for time in 0..expected["times"].as_u64().unwrap_or(1) {
        let query = if expected["times"].is_null() {
            String::new()
        } else {
            format!("?time={time}")
        };
        let answer = server.get(&format!(
            "/voxels/{token}/{name}/0/0-{x}_0-{y}_0-{z}.raw{query}"
        ));
        assert_eq!(answer.status, 200, "{token}/{name}: {answer:?}");
        values.extend(decoded(dtype, &answer.body));
    }
    assert!(
        &values == wanted,
        "{token}/{name}: {values:?}, but {wanted:?} are expected"
    );
}

/// Compares the first plane of an image in colour with its tile.
fn compare_colours(server: &Server, token: &Name, name: &str, expected: &Value) {
    let tile = server
        .tile(&format!("{token}/{name}/xy/0/0_0_0.png"))
        .picture();
    let [columns, rows] = [0, 1].map(|axis| expected["size"][axis].as_u64().unwrap() as usize);
    let row = |y: usize| {
        tile.pixels[3 * y * TILE..][..3 * columns]
            .iter()
            .map(|byte| Value::from(*byte))
    };
    let pixels: Vec<Value> = (0..rows).flat_map(row).collect();
    assert_eq!(
        (tile.mode, &pixels),
        ("RGB", &expected["values"].as_array().unwrap().clone()),
        "{token}/{name}"
    );
}

/// The first bytes of the first rows of a tile.
fn corner(tile: &Picture, rows: usize, bytes: usize) -> Vec<u8> {
    let stride = tile.pixels.len() / TILE;
    let row = |y: usize| &tile.pixels[y * stride..][..bytes];
    (0..rows).flat_map(row).copied().collect()
}

/// The voxels are those that h5py reads, as above; here they are displayed as the HDF5 Image
/// Specification says.
#[test]
fn images_of_the_specification_are_displayed_in_their_range_with_white_as_zero_and_as_stacks_of_colours()
 {
    const SHAPE: [usize; 2] = [18, 20];
    let place = Place::new();
    let server = place.serve([fixture("makers/spec.h5")]);
    let expected = fixture_json("makers/expected.json");
    let shown = |name: &str| {
        let tile = server
            .tile(&format!("spec/{name}/xy/0/0_0_0.png"))
            .picture();
        assert_eq!(tile.mode, "L", "{name}");
        corner(&tile, SHAPE[0], SHAPE[1])
    };
    let stored = |name: &str| -> Vec<u32> {
        let mut channels = expected["spec.h5"]["channels"].as_array().unwrap().iter();
        let channel = channels.rfind(|channel| channel["name"] == name);
        let values = channel.unwrap()["values"].as_array().unwrap();
        values.iter().map(|v| v.as_u64().unwrap() as u32).collect()
    };
    let shades = |name: &str, shade: &dyn Fn(u32) -> u32| -> Vec<u8> {
        let shade = |value: &u32| shade(*value) as u8;
        stored(name).iter().map(shade).collect()
    };
    // IMAGE_MINMAXRANGE is 0 to 1000.
    let rounded = |value: u32| (value * 255 * 2 + 1000) / 2000;
    assert_eq!(shown("range"), shades("range", &rounded));
    assert_eq!(shown("white"), shades("white", &|v| rounded(1000 - v)));
    assert_eq!(shown("shades"), shades("shades", &|v| 255 - v));
    let measured = shown("measured");
    let of_value =
        |value: u32| measured[stored("measured").iter().position(|v| *v == value).unwrap()];
    assert!(of_value(0) == 255 && of_value(250) == 0 && (120..136).contains(&of_value(125)));
    let [rows, columns] = SHAPE;
    for name in ["pixels", "planes"] {
        for z in 0..2 {
            let tile = server
                .tile(&format!("spec/{name}/xy/{z}/0_0_0.png"))
                .picture();
            let first = z * rows * columns * 3;
            let colours = (first..first + rows * columns * 3).map(|n| (n * 5 % 251) as u8);
            assert!(
                corner(&tile, rows, 3 * columns) == colours.collect::<Vec<_>>(),
                "{name} {z}"
            );
        }
    }
}

/// Little-endian voxels as JSON numbers.
fn decoded(dtype: &str, bytes: &[u8]) -> Vec<Value> {
    macro_rules! each {
        ($type:ty) => {
            bytes
                .chunks_exact(size_of::<$type>())
                .map(|bytes| <$type>::from_le_bytes(bytes.try_into().unwrap()))
                .map(Value::from)
                .collect()
        };
    }
    match dtype {
        "bool" | "uint8" => each!(u8),
        "int8" => each!(i8),
        "uint16" => each!(u16),
        "int16" => each!(i16),
        "uint32" => each!(u32),
        "int32" => each!(i32),
        "uint64" => each!(u64),
        "int64" => each!(i64),
        "float32" => each!(f32),
        "float64" => each!(f64),
        other => panic!("{other} is not expected"),
    }
}
