//! Stories of OME-Zarr: documents describe arrays in both versions; stored chunks are passed
//! through. That the arrays hold the voxels of the file is shown by [`crate::formats`].

use std::fs;
use std::path::Path;

use ndarray::{Array3, Array4, Array5};
use serde_json::{Value, json};

use crate::common::wire::Answer;
use crate::common::{Place, Server, fixture, made, volumes};
use crate::formats::zarr::{VERSIONS, document};

/// Noise, so that nothing compresses well.
fn noise(seed: usize) -> u16 {
    (seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u16
}

fn cube(z: usize, y: usize, x: usize) -> Array3<u16> {
    Array3::from_shape_fn((z, y, x), |(k, j, i)| noise((k * y + j) * x + i))
}

/// The stored bytes of the chunk with this number.
fn stored(path: &Path, dataset: &str, number: usize) -> Vec<u8> {
    let file = hdf5::File::open(path).unwrap();
    let chunk = file.dataset(dataset).unwrap().chunk_info(number).unwrap();
    fs::read(path).unwrap()[chunk.addr as usize..][..chunk.size as usize].to_vec()
}

#[test]
fn stored_chunks_are_passed_through() {
    let place = Place::new();
    let path = place.path("cube.h5");
    let data = cube(40, 50, 60);
    let file = hdf5::File::create(&path).unwrap();
    let builder = || file.new_dataset_builder().with_data(&data);
    builder()
        .chunk((32, 32, 32))
        .deflate(4)
        .create("gzip")
        .unwrap();
    builder().chunk((32, 32, 32)).create("plain").unwrap();
    builder()
        .chunk((32, 32, 32))
        .shuffle()
        .deflate(4)
        .create("shuffled")
        .unwrap();
    builder()
        .chunk((1, 50, 60))
        .shuffle()
        .deflate(4)
        .create("flat")
        .unwrap();
    builder().create("contiguous").unwrap();
    file.new_dataset::<u8>()
        .shape((40, 50, 60))
        .chunk((32, 32, 32))
        .create("never")
        .unwrap();
    file.close().unwrap();
    let server = place.serve([&path]);
    let mut connection = server.connect();
    for (name, compressor, chunk) in [
        ("gzip", "zlib", [32, 32, 32]),
        ("plain", "", [32, 32, 32]),
        ("shuffled", "zstd", [32, 32, 32]),
        ("flat", "zstd", [40, 50, 60]),
        ("contiguous", "zstd", [40, 50, 60]),
    ] {
        for (version, _) in VERSIONS {
            let array = document(&mut connection, version, &format!("cube/{name}.ome.zarr/0"));
            assert_eq!(array.chunks, chunk, "{name}");
            let compressor = if version == "0.4" { compressor } else { "zstd" };
            assert_eq!(array.codec().unwrap_or_default(), compressor, "{name}");
        }
    }
    for name in ["gzip", "plain"] {
        for (number, key) in ["0/0/0", "0/0/1", "0/1/0", "0/1/1", "1/0/0"]
            .iter()
            .enumerate()
        {
            let answer = connection.get(&format!("/zarr/0.4/cube/{name}.ome.zarr/0/{key}"));
            assert!(answer.body == stored(&path, name, number), "{name} {key}");
        }
    }
    assert_eq!(
        connection
            .get("/zarr/0.4/cube/never.ome.zarr/0/0/0/0")
            .status,
        404
    );
}

#[test]
fn stored_chunks_of_a_time_point_that_was_not_opened_yet_are_passed_through() {
    let place = Place::new();
    let path = place.path("cells.h5");
    let file = hdf5::File::create(&path).unwrap();
    let names =
        [0, 1].map(|time| format!("DataSet/ResolutionLevel 0/TimePoint {time}/Channel 0/Data"));
    let data = cube(40, 50, 60);
    for name in &names {
        let builder = file.new_dataset_builder().with_data(&data);
        builder
            .chunk((32, 32, 32))
            .deflate(9)
            .create(name.as_str())
            .unwrap();
    }
    file.close().unwrap();
    let server = place.serve([&path]);
    for (time, name) in names.iter().enumerate().rev() {
        let answer = server.ask(
            "GET",
            &format!("/zarr/0.4/cells/c0.ome.zarr/0/{time}/0/0/0"),
            &[],
        );
        assert!(answer.body == stored(&path, name, 0), "time point {time}");
    }
}

/// A dataset with two channels over time, another of another type, and labels.
fn sample(place: &Place) -> Server {
    let file = hdf5::File::create(place.path("sample.h5")).unwrap();
    let movie = Array5::from_shape_fn((3, 2, 5, 40, 50), |(t, c, z, y, x)| {
        noise((((t * 2 + c) * 5 + z) * 40 + y) * 50 + x)
    });
    let movie = file
        .new_dataset_builder()
        .with_data(&movie)
        .chunk((1, 1, 5, 32, 32))
        .deflate(4)
        .create("movie");
    movie.unwrap();
    let bytes = Array4::from_shape_fn((3, 5, 40, 50), |(t, z, y, x)| (t + z + y + x) as u8);
    file.new_dataset_builder()
        .with_data(&bytes)
        .create("bytes")
        .unwrap();
    let cells = Array4::from_shape_fn((3, 5, 40, 50), |(t, z, y, x)| (t * 1000 + z * y * x) as u64);
    file.new_dataset_builder()
        .with_data(&cells)
        .chunk((1, 5, 40, 50))
        .deflate(4)
        .create("cells")
        .unwrap();
    let mask = Array3::from_shape_fn((5, 40, 50), |(z, y, x)| {
        i32::try_from(z + y + x).unwrap() - 20
    });
    file.new_dataset_builder()
        .with_data(&mask)
        .create("mask")
        .unwrap();
    let other = Array3::from_shape_fn((5, 40, 51), |(z, y, x)| (z + y + x) as u8);
    file.new_dataset_builder()
        .with_data(&other)
        .create("other")
        .unwrap();
    file.close().unwrap();
    place.write(
        "voltile.toml",
        "[datasets.sample]\nfile = \"sample.h5\"\nvoxel_size = [100, 100, 500]\noffset = [10, 20, -2]\n\
         [datasets.sample.channels.a]\npath = \"/movie\"\naxes = \"tczyx\"\nindex = { c = 0 }\nwindow = [100, 900]\n\
         [datasets.sample.channels.b]\npath = \"/movie\"\naxes = \"tczyx\"\nindex = { c = 1 }\nwindow = [900, 100]\n\
         [datasets.sample.channels.bytes]\npath = \"/bytes\"\naxes = \"tzyx\"\n\
         [datasets.sample.channels.cells]\npath = \"/cells\"\naxes = \"tzyx\"\nkind = \"labels\"\n\
         [datasets.sample.channels.mask]\npath = \"/mask\"\nkind = \"labels\"\n\
         [datasets.sample.channels.other]\npath = \"/other\"\nkind = \"labels\"\n",
    );
    place.serve::<&str>([])
}

#[test]
fn documents_describe_the_image() {
    let place = Place::new();
    let server = sample(&place);
    let attributes = server.json("/zarr/0.4/sample.ome.zarr/.zattrs");
    let image = &attributes["multiscales"][0];
    let space = |name: &str| json!({"name": name, "type": "space", "unit": "nanometer"});
    let axes = json!([{"name": "t", "type": "time"}, {"name": "c", "type": "channel"}, space("z"), space("y"), space("x")]);
    assert_eq!(
        (&image["version"], &image["name"], &image["axes"]),
        (&json!("0.4"), &json!("sample"), &axes)
    );
    let level = json!({"path": "0", "coordinateTransformations": [
        {"type": "scale", "scale": [1.0, 1.0, 500.0, 100.0, 100.0]},
        {"type": "translation", "translation": [0.0, 0.0, -1000.0, 2000.0, 1000.0]},
    ]});
    assert_eq!(image["datasets"], json!([level]));
    let channels = &attributes["omero"]["channels"];
    let window = json!({"min": 0, "max": 65535, "start": 100, "end": 900});
    for (place, label, colour, is_inverted) in [(0, "a", "00FF00", false), (1, "b", "FF00FF", true)]
    {
        let channel = &channels[place];
        assert_eq!(
            (&channel["label"], &channel["color"]),
            (&json!(label), &json!(colour))
        );
        assert_eq!(
            (&channel["window"], &channel["inverted"]),
            (&window, &json!(is_inverted))
        );
    }
    assert_eq!(
        server.json("/zarr/0.4/sample.ome.zarr/labels/.zattrs"),
        json!({"labels": ["cells", "mask"]})
    );
    let label = server.json("/zarr/0.4/sample.ome.zarr/labels/cells/.zattrs");
    assert_eq!(
        label["image-label"],
        json!({"version": "0.4", "source": {"image": "../../"}})
    );
    assert!(label.get("omero").is_none());
    // The same in version 0.5, but for where the version is.
    let mut group = server.json("/zarr/0.5/sample.ome.zarr/zarr.json");
    group
        .as_object_mut()
        .unwrap()
        .remove("consolidated_metadata");
    let mut expected = attributes.clone();
    expected["multiscales"][0]
        .as_object_mut()
        .unwrap()
        .remove("version");
    expected["omero"].as_object_mut().unwrap().remove("version");
    expected["version"] = json!("0.5");
    assert_eq!(
        group,
        json!({"zarr_format": 3, "node_type": "group", "attributes": {"ome": expected}})
    );
    let labels = server.json("/zarr/0.5/sample.ome.zarr/labels/zarr.json");
    assert_eq!(
        labels["attributes"]["ome"],
        json!({"version": "0.5", "labels": ["cells", "mask"]})
    );
    let array = server.json("/zarr/0.5/sample.ome.zarr/0/zarr.json");
    assert_eq!(array["dimension_names"], json!(["t", "c", "z", "y", "x"]));
    // Labels have the axes of their image, of extent 1 where they do not vary.
    for (path, shape) in [
        ("sample.ome.zarr/0", &[3, 2, 5, 40, 50][..]),
        ("sample/bytes.ome.zarr/0", &[3, 5, 40, 50]),
        ("sample.ome.zarr/labels/cells/0", &[3, 1, 5, 40, 50]),
        ("sample.ome.zarr/labels/mask/0", &[1, 1, 5, 40, 50]),
        ("sample/mask.ome.zarr/0", &[5, 40, 50]),
    ] {
        for (version, _) in VERSIONS {
            assert_eq!(
                document(&mut server.connect(), version, path).shape,
                shape,
                "{path}"
            );
        }
    }
    // The consolidated document repeats every other one; in version 0.5 each group has one of what
    // is below it.
    let all = server.json("/zarr/0.4/sample.ome.zarr/.zmetadata");
    let all = all["metadata"].as_object().unwrap();
    assert_eq!(all.len(), 4 + 2 + 2 * 4, "{:?}", all.keys());
    for (key, value) in all {
        assert_eq!(
            &server.json(&format!("/zarr/0.4/sample.ome.zarr/{key}")),
            value,
            "{key}"
        );
    }
    let consolidated = |group: &str| {
        let document = server.json(&format!("/zarr/0.5/{group}/zarr.json"));
        let consolidated = &document["consolidated_metadata"];
        assert_eq!(
            (&consolidated["kind"], &consolidated["must_understand"]),
            (&json!("inline"), &json!(false))
        );
        consolidated["metadata"].as_object().unwrap().clone()
    };
    for (group, nodes) in [
        (
            "sample.ome.zarr",
            &[
                "0",
                "labels",
                "labels/cells",
                "labels/cells/0",
                "labels/mask",
                "labels/mask/0",
            ][..],
        ),
        (
            "sample.ome.zarr/labels",
            &["cells", "cells/0", "mask", "mask/0"],
        ),
        ("sample.ome.zarr/labels/cells", &["0"]),
        ("sample/a.ome.zarr", &["0"]),
    ] {
        let all = consolidated(group);
        assert_eq!(all.keys().collect::<Vec<_>>(), nodes, "{group}");
        for (key, value) in &all {
            let mut document = server.json(&format!("/zarr/0.5/{group}/{key}/zarr.json"));
            document
                .as_object_mut()
                .unwrap()
                .remove("consolidated_metadata");
            assert_eq!(&document, value, "{group}/{key}");
        }
    }
    // A channel by itself has no labels.
    assert_eq!(
        server
            .get("/zarr/0.4/sample/a.ome.zarr/labels/.zgroup")
            .status,
        404
    );
    assert_eq!(
        server.json("/zarr/0.4/sample/a.ome.zarr/.zgroup"),
        json!({"zarr_format": 2})
    );
}

#[test]
fn colours_are_channels() {
    let place = Place::new();
    let path = fixture("rgb.h5");
    place.write(
        "voltile.toml",
        &format!(
            "[datasets.rgb]\nfile = {path:?}\n\
             [datasets.rgb.channels.three]\npath = \"/three\"\naxes = \"zyxc\"\nkind = \"rgb\"\n"
        ),
    );
    let server = place.serve::<&str>([]);
    for (version, _) in VERSIONS {
        let array = document(&mut server.connect(), version, "rgb.ome.zarr/0");
        assert_eq!((&*array.shape, array.chunks[0]), (&[3, 3, 11, 14][..], 3));
    }
    let attributes = server.json("/zarr/0.4/rgb.ome.zarr/.zattrs");
    let colours = attributes["omero"]["channels"]
        .as_array()
        .unwrap()
        .iter()
        .map(|channel| channel["color"].clone());
    assert_eq!(colours.collect::<Vec<_>>(), ["FF0000", "00FF00", "0000FF"]);
}

#[test]
fn coarser_levels_are_derived_and_labels_have_as_many() {
    let place = Place::new();
    let file = hdf5::File::create(place.path("wide.h5")).unwrap();
    let data = cube(3, 700, 1100);
    file.new_dataset_builder()
        .with_data(&data)
        .create("raw")
        .unwrap();
    let ids = data.mapv(u32::from);
    file.new_dataset_builder()
        .with_data(&ids)
        .create("ids")
        .unwrap();
    file.close().unwrap();
    place.write(
        "voltile.toml",
        "[datasets.wide]\nfile = \"wide.h5\"\n[datasets.wide.channels.raw]\npath = \"/raw\"\n\
         [datasets.wide.channels.ids]\npath = \"/ids\"\nkind = \"labels\"\n",
    );
    let server = place.serve::<&str>([]);
    let attributes = server.json("/zarr/0.4/wide.ome.zarr/.zattrs");
    let levels = attributes["multiscales"][0]["datasets"].as_array().unwrap();
    let paths: Vec<&str> = levels
        .iter()
        .map(|level| level["path"].as_str().unwrap())
        .collect();
    assert_eq!(paths, ["0", "1", "2"]);
    // The centre of a voxel of level 2 is that of four by four voxels.
    let expected = json!([{"type": "scale", "scale": [1.0, 4.0, 4.0]}, {"type": "translation", "translation": [0.0, 1.5, 1.5]}]);
    assert_eq!(levels[2]["coordinateTransformations"], expected);
    let labels = server.json("/zarr/0.4/wide.ome.zarr/labels/ids/.zattrs");
    assert_eq!(
        labels["multiscales"][0]["datasets"],
        attributes["multiscales"][0]["datasets"]
    );
}

#[test]
fn levels_that_are_too_costly_to_derive_are_left_out() {
    let place = Place::new();
    let file = hdf5::File::create(place.path("wide.h5")).unwrap();
    file.new_dataset_builder()
        .with_data(&cube(3, 700, 1100))
        .create("raw")
        .unwrap();
    file.close().unwrap();
    let levels = |limit: &str| {
        let server = place.serve([
            "wide.h5",
            "--set",
            &format!("render.max_voxels_per_box={limit}"),
        ]);
        let attributes = server.json("/zarr/0.5/wide.ome.zarr/zarr.json");
        let datasets = attributes["attributes"]["ome"]["multiscales"][0]["datasets"].clone();
        (
            datasets.as_array().unwrap().len(),
            document(&mut server.connect(), "0.5", "wide.ome.zarr/0").chunks,
        )
    };
    assert_eq!(
        levels("50000"),
        (2, vec![3, 64, 64]),
        "a chunk of level 1 needs 3 × 128 × 128 voxels"
    );
    assert_eq!(levels("49000"), (1, vec![3, 64, 64]));
    let (count, chunks) = levels("4000");
    assert!(
        count == 1 && chunks.iter().product::<usize>() <= 4000,
        "{chunks:?}"
    );
}

#[test]
fn chunks_and_documents_answer_conditions_and_ranges() {
    let place = Place::new();
    let server = sample(&place);
    for target in [
        "/zarr/0.4/sample.ome.zarr/0/0/0/0/0/0",
        "/zarr/0.5/sample.ome.zarr/0/c/0/0/0/0/0",
        "/zarr/0.4/sample.ome.zarr/.zattrs",
        "/zarr/0.5/sample.ome.zarr/zarr.json",
    ] {
        let all = server.get(target);
        let length = all.body.len();
        let ask = |method: &str, headers: &[(&str, &str)]| -> Answer {
            server.ask(method, target, headers)
        };
        assert_eq!(
            (all.status, all.header("accept-ranges")),
            (200, Some("bytes")),
            "{target}"
        );
        let head = ask("HEAD", &[]);
        assert_eq!((head.status, head.etag()), (200, all.etag()));
        assert_eq!(
            head.header("content-length"),
            Some(length.to_string().as_str())
        );
        assert_eq!(ask("GET", &[("If-None-Match", all.etag())]).status, 304);
        let any = ask("GET", &[("If-None-Match", "*")]);
        assert_eq!(
            (any.status, any.etag(), any.body.len()),
            (304, all.etag(), 0),
            "{target}"
        );
        let part = ask("GET", &[("Range", "bytes=3-10")]);
        assert_eq!((part.status, &*part.body), (206, &all.body[3..=10]));
        assert_eq!(
            part.header("content-range"),
            Some(format!("bytes 3-10/{length}").as_str())
        );
        let end = ask("GET", &[("Range", "bytes=-7"), ("If-Range", all.etag())]);
        assert_eq!((end.status, &*end.body), (206, &all.body[length - 7..]));
        let stale = ask("GET", &[("Range", "bytes=-7"), ("If-Range", "\"another\"")]);
        assert_eq!((stale.status, stale.body.len()), (200, length));
        let beyond = ask("GET", &[("Range", format!("bytes={length}-").as_str())]);
        assert_eq!(
            (beyond.status, beyond.header("content-range")),
            (416, Some(format!("bytes */{length}").as_str()))
        );
        assert_eq!(
            ask("GET", &[("Range", "bytes=0-1,4-5")]).status,
            200,
            "several ranges are not served"
        );
    }
}

#[test]
fn other_keys_are_not_found_and_read_nothing() {
    let place = Place::new();
    let server = sample(&place);
    let before = server.renders();
    for (path, reason) in [
        ("0.4/sample.ome.zarr/0/0/0/0/0/x", "not a key"),
        ("0.4/sample.ome.zarr/0/0.0.0.0.0", "not a key"),
        ("0.4/sample.ome.zarr/0/0/0/0/0/00", "not a key"),
        (
            "0.4/sample.ome.zarr/0/0/0/0/0",
            "3 × 2 × 1 × 2 × 2 chunks along the axes tczyx",
        ),
        (
            "0.4/sample.ome.zarr/0/3/0/0/0/0",
            "3 × 2 × 1 × 2 × 2 chunks along the axes tczyx",
        ),
        (
            "0.4/sample.ome.zarr/0/0/0/0/18446744073709551615/0",
            "no such chunk",
        ),
        ("0.5/sample.ome.zarr/0/c/0/2/0/0/0", "no such chunk"),
        ("0.5/sample.ome.zarr/0/0/0/0/0/0", "not a key"),
        (
            "0.4/sample.ome.zarr/1/0/0/0/0/0",
            "the image has the arrays 0",
        ),
        (
            "0.4/sample.ome.zarr/labels/other/.zattrs",
            "the label images are cells, mask",
        ),
        (
            "0.4/sample.ome.zarr/labels/a/0/.zarray",
            "the label images are cells, mask",
        ),
        (
            "0.4/sample/a.ome.zarr/labels/cells/0/.zarray",
            "there are no label images",
        ),
        ("0.4/sample/z.ome.zarr/.zgroup", "has no channel z"),
        ("0.4/samples.ome.zarr/.zgroup", "no dataset samples"),
        ("0.4/sample.ome.zarr/.zarray", "has no .zarray"),
        ("0.4/sample.ome.zarr/0/.zgroup", "has no .zgroup"),
        ("0.6/sample.ome.zarr/zarr.json", "an OME-Zarr image is at"),
        ("0.4/sample/.zgroup", "an OME-Zarr image is at"),
        ("0.4/sample.ome.zarr/zarr.json", "not a key"),
    ] {
        let answer = server.get(&format!("/zarr/{path}"));
        assert_eq!(answer.status, 404, "{path}");
        assert!(
            answer.problem().contains(reason),
            "{path}: {}",
            answer.problem()
        );
    }
    assert_eq!(server.renders(), before);
}

#[test]
fn a_damaged_chunk_is_an_error_of_its_own_only() {
    let place = Place::new();
    let path = place.path("cube.h5");
    let file = hdf5::File::create(&path).unwrap();
    let data = cube(32, 32, 64);
    let dataset = file
        .new_dataset_builder()
        .with_data(&data)
        .chunk((32, 32, 32))
        .shuffle()
        .deflate(4)
        .create("raw");
    let chunk = dataset.unwrap().chunk_info(0).unwrap();
    file.close().unwrap();
    volumes::invert(
        &path,
        &(chunk.addr + chunk.size / 2..chunk.addr + chunk.size / 2 + 20),
    );
    let server = place.serve([&path]);
    server.expect_error("every tile that touches this chunk is an error until the file is mended");
    server.expect_error("a tile could not be rendered");
    for version in ["0.4/cube.ome.zarr/0", "0.5/cube.ome.zarr/0/c"] {
        let damaged = server.get(&format!("/zarr/{version}/0/0/0"));
        assert_eq!(
            (damaged.status, damaged.problem().contains("damaged")),
            (500, true),
            "{damaged:?}"
        );
        assert_eq!(server.get(&format!("/zarr/{version}/0/0/1")).status, 200);
    }
}

#[test]
fn no_level_is_finer_than_the_one_before_along_any_axis() {
    let place = Place::new();
    let path = fixture("levels.h5");
    let levels = "[{ path = \"/s0\", factor = [1, 1, 1] }, { path = \"/s3\", factor = [8, 8, 1] }]";
    place.write(
        "voltile.toml",
        &format!(
            "[datasets.levels]\nfile = {path:?}\nscaling = \"isotropic\"\nvoxel_size = [1, 1, 1]\n\
             [datasets.levels.channels.raw]\npath = \"/s0\"\naxes = \"zyx\"\nlevels = {levels}\n"
        ),
    );
    let server = place.serve::<&str>([]);
    let are_ordered = |scales: &[Vec<f64>]| {
        scales.windows(2).all(|pair| {
            pair[0]
                .iter()
                .zip(&pair[1])
                .all(|(finer, coarser)| finer <= coarser)
        })
    };
    let reals = |list: &Value| -> Vec<f64> {
        list.as_array()
            .unwrap()
            .iter()
            .map(|number| number.as_f64().unwrap())
            .collect()
    };
    let attributes = server.json("/zarr/0.4/levels.ome.zarr/.zattrs");
    let datasets = attributes["multiscales"][0]["datasets"].as_array().unwrap();
    let scale = |dataset: &Value| reals(&dataset["coordinateTransformations"][0]["scale"]);
    let in_zarr: Vec<_> = datasets.iter().map(scale).collect();
    let info = server.json("/neuroglancer/levels/raw/info");
    let in_info: Vec<_> = info["scales"]
        .as_array()
        .unwrap()
        .iter()
        .map(|scale| reals(&scale["resolution"]))
        .collect();
    assert!(
        are_ordered(&in_zarr) && are_ordered(&in_info),
        "{in_zarr:?} {in_info:?}"
    );
    assert!(in_zarr.contains(&vec![1.0, 8.0, 8.0]) && in_info.contains(&vec![8.0, 8.0, 1.0]));
}

#[test]
fn the_axis_of_time_has_the_seconds_of_the_file() {
    let place = Place::new();
    let film = |file: &hdf5::File, name: &str| {
        let group = file.create_group(&format!("acquisition/{name}")).unwrap();
        made::text(&group, "neurodata_type", "TwoPhotonSeries");
        made::put(
            file,
            &format!("acquisition/{name}/data"),
            &made::zeros::<u8>(&[4, 30, 40]),
        );
        group
    };
    made::file(&place.path("ophys.nwb"), |file| {
        made::text(file, "nwb_version", "2.6.0");
        film(file, "even");
        let start = made::put(
            file,
            "acquisition/even/starting_time",
            &made::zeros::<f64>(&[1]),
        );
        made::numbers(&start, "rate", &[8.0_f32]);
        film(file, "uneven");
        let seconds = ndarray::arr1(&[10.0, 11.0, 13.0, 16.0]).into_dyn();
        made::put(file, "acquisition/uneven/timestamps", &seconds);
    });
    made::file(&place.path("long.nwb"), |file| {
        made::text(file, "nwb_version", "2.6.0");
        let group = file.create_group("acquisition/long").unwrap();
        made::text(&group, "neurodata_type", "TwoPhotonSeries");
        let data = file.new_dataset_builder().empty::<u8>();
        let data = data.shape((100_000, 30, 40)).chunk((1, 30, 40));
        data.create("acquisition/long/data").unwrap();
        let seconds: Vec<f64> = (0..100_000).map(|frame| f64::from(frame) / 32.0).collect();
        made::put(
            file,
            "acquisition/long/timestamps",
            &ndarray::arr1(&seconds).into_dyn(),
        );
    });
    let long = &made::only(&place.path("long.nwb")).facts.timing;
    assert_eq!(long.as_ref().map(|timing| timing.step), Some(1.0 / 32.0));
    let server = place.serve(["ophys.nwb"]);
    let described = server.json("/datasets.json");
    let timing = |number: usize| described["datasets"][0]["channels"][number]["timing"].clone();
    assert_eq!(timing(0), json!({"step": 0.125, "began": null}));
    assert_eq!(
        timing(1),
        json!({"step": 2.0, "began": null, "uneven": [0.0, 1.0, 3.0, 6.0]})
    );
    let scale = |channel: &str| {
        let image = server.json(&format!("/zarr/0.5/ophys/{channel}.ome.zarr/zarr.json"));
        let image = &image["attributes"]["ome"]["multiscales"][0];
        (
            image["axes"][0].clone(),
            image["datasets"][0]["coordinateTransformations"][0]["scale"][0].clone(),
        )
    };
    let [even, uneven] =
        [0, 1].map(|number| described["datasets"][0]["channels"][number]["name"].clone());
    assert_eq!(
        scale(even.as_str().unwrap()),
        (
            json!({"name": "t", "type": "time", "unit": "second"}),
            json!(0.125)
        )
    );
    // OME-Zarr has no uneven steps.
    assert_eq!(
        scale(uneven.as_str().unwrap()),
        (json!({"name": "t", "type": "time"}), json!(1.0))
    );
}
