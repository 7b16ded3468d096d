//! Stories of `voltile references` and `/references/`: each chunk is where the file has it, coded
//! as the metadata say; what cannot be read without HDF5 is refused by name; addresses are the
//! public ones, without credentials. That the chunks there hold the voxels of the file is shown by
//! [`crate::formats`].

use std::fs;
use std::path::Path;

use hdf5::dataset::ChunkInfo;
use ndarray::{Array3, arr2, s};
use serde_json::{Value, json};

use crate::common::objects::ObjectServer;
use crate::common::volumes::{EDGE, Stored, planes};
use crate::common::{Place, fixture, made};

/// The references that the command writes, with its arguments.
fn written(place: &Place, arguments: &[&str]) -> Value {
    let outcome = place.run([&["references", "-o", "-"], arguments].concat());
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    let document: Value = serde_json::from_str(&outcome.out).unwrap();
    assert_eq!(document["version"], 1);
    document["refs"].clone()
}

/// A metadata document among references.
fn document(references: &Value, key: &str) -> Value {
    serde_json::from_str(references[key].as_str().unwrap_or_else(|| panic!("{key}"))).unwrap()
}

/// The keys of the chunks of an array, and their references.
fn chunks<'r>(references: &'r Value, array: &str) -> Vec<(&'r str, &'r Value)> {
    let all = references.as_object().unwrap().iter();
    let chunk = |(key, value): (&'r String, &'r Value)| {
        let place = key.strip_prefix(array)?.strip_prefix('/')?;
        place
            .starts_with(|c: char| c.is_ascii_digit())
            .then_some((place, value))
    };
    all.filter_map(chunk).collect()
}

/// The chunks of a dataset as the HDF5 library lists them.
fn listed(path: &Path, name: &str) -> Vec<ChunkInfo> {
    let dataset = hdf5::File::open(path).unwrap().dataset(name).unwrap();
    (0..dataset.num_chunks().unwrap())
        .map(|number| dataset.chunk_info(number).unwrap())
        .collect()
}

#[test]
fn references_lead_to_the_bytes_of_each_chunk_and_of_each_section_of_contiguous_data() {
    let place = Place::new();
    for (stored, filters) in [
        (Stored::Gzip, json!([{"id": "zlib", "level": 6}])),
        (Stored::Flat, Value::Null),
    ] {
        let file = place.path("planes.h5");
        let ranges = planes(&file, 5, 1, stored);
        let references = written(&place, &["planes.h5"]);
        let expected = json!({
            "zarr_format": 2, "shape": [5, EDGE, EDGE], "chunks": [1, EDGE, EDGE], "dtype": "|u1", "order": "C",
            "compressor": null, "filters": filters, "fill_value": 0, "dimension_separator": ".",
        });
        assert_eq!(document(&references, "0/.zarray"), expected);
        assert_eq!(
            document(&references, "0/.zattrs"),
            json!({"_ARRAY_DIMENSIONS": ["z", "y", "x"]})
        );
        assert_eq!(document(&references, ".zgroup"), json!({"zarr_format": 2}));
        let image = document(&references, ".zattrs");
        assert_eq!(image["multiscales"][0]["version"], "0.4");
        assert_eq!(
            image["multiscales"][0]["datasets"]
                .as_array()
                .unwrap()
                .len(),
            1,
            "only what is stored"
        );
        for (z, range) in ranges.iter().enumerate() {
            let own = json!([
                file.canonicalize().unwrap(),
                range.start,
                range.end - range.start
            ]);
            assert_eq!(references[format!("0/{z}.0.0")], own);
        }
        assert_eq!(chunks(&references, "0").len(), 5);
    }
}

#[test]
fn filters_are_those_of_numcodecs_and_chunks_that_were_never_written_are_left_out() {
    let place = Place::new();
    let file = place.path("holes.h5");
    made::file(&file, |file| {
        let builder = file
            .new_dataset_builder()
            .empty::<i16>()
            .shape((5, 20, 30))
            .chunk((2, 16, 16));
        let raw = builder
            .shuffle()
            .deflate(4)
            .fletcher32()
            .fill_value(-3i16)
            .create("raw")
            .unwrap();
        raw.write_slice(
            &Array3::from_elem((2, 4, 14), 7i16),
            s![2..4, 16..20, 16..30],
        )
        .unwrap();
    });
    let references = written(&place, &["holes.h5"]);
    let array = document(&references, "0/.zarray");
    let [shuffle, zlib] = [
        json!({"id": "shuffle", "elementsize": 2}),
        json!({"id": "zlib", "level": 4}),
    ];
    assert_eq!(
        array["filters"],
        json!([shuffle, zlib, {"id": "fletcher32"}])
    );
    assert_eq!(
        (&array["compressor"], &array["fill_value"], &array["dtype"]),
        (&Value::Null, &json!(-3), &json!("<i2"))
    );
    let [chunk] = &listed(&file, "raw")[..] else {
        panic!("one chunk was written")
    };
    let own = json!([file.canonicalize().unwrap(), chunk.addr, chunk.size]);
    assert_eq!(chunks(&references, "0"), [("1.1.1", &own)]);
}

#[test]
fn axes_in_reverse_order_are_those_of_fortran_and_other_orders_are_refused() {
    let place = Place::new();
    let file = place.path("turned.h5");
    made::file(&file, |file| {
        let builder = file.new_dataset_builder().empty::<u16>().shape((30, 20, 5));
        builder.chunk((16, 8, 2)).create("raw").unwrap();
    });
    let configured = |axes: &str| {
        let text = format!(
            "[datasets.turned]\nfile = \"turned.h5\"\nchannels.raw = {{ path = \"/raw\", axes = {axes:?} }}\n"
        );
        place.write("voltile.toml", &text);
    };
    configured("xyz");
    let references = written(&place, &[]);
    let array = document(&references, "0/.zarray");
    assert_eq!(
        (&array["shape"], &array["chunks"]),
        (&json!([5, 20, 30]), &json!([2, 8, 16]))
    );
    assert_eq!(array["order"], "F");
    configured("yzx");
    let refused = place.run(["references", "-o", "refs.json"]);
    assert_eq!(refused.code, 1);
    assert!(
        refused.err.contains(
            "the dataset /raw cannot be read without HDF5: in its chunks the order of the axes"
        ),
        "{}",
        refused.err
    );
}

#[test]
fn what_cannot_be_read_without_hdf5_is_named_with_the_cure_and_nothing_is_written() {
    let place = Place::new();
    for (file, channel, why) in [
        (
            "lzf.h5",
            "u8",
            "the filter lzf (number 32000), which numcodecs does not have",
        ),
        ("layouts.h5", "compact", "its voxels lie in its header"),
        (
            "virtual.h5",
            "slabs",
            "its voxels are those of other datasets",
        ),
        (
            "masks.h5",
            "btree1",
            "was written without some of its filters",
        ),
        (
            "unfiltered_edges.h5",
            "fixed",
            "was written without some of its filters",
        ),
        ("nbit.h5", "u12", "packed"),
    ] {
        let path = fixture(file);
        let refused = place.run([
            "references",
            path.to_str().unwrap(),
            "--channel",
            channel,
            "-o",
            "refs.json",
        ]);
        let said = &refused.err;
        assert_eq!(refused.code, 1, "{file}: {said}");
        assert!(
            said.contains(why) && said.contains("the dataset /"),
            "{file}: {said}"
        );
        assert!(
            said.contains("`voltile pyramid FILE --rechunk OUT.h5`"),
            "{file}: {said}"
        );
        assert_eq!(fs::read_dir(place.path("")).unwrap().count(), 0, "{file}");
    }
}

#[test]
fn time_points_in_linked_files_lead_to_these_files() {
    let place = Place::new();
    for part in 0..2 {
        let planes = Array3::from_elem((3, 20, 30), 1 + part as u8);
        made::file(&place.path(&format!("part{part}.h5")), |file| {
            file.new_dataset_builder()
                .with_data(&planes)
                .chunk((2, 16, 16))
                .create("raw")
                .unwrap();
        });
    }
    made::file(&place.path("series.h5"), |file| {
        made::put(
            file,
            "s00/resolutions",
            &arr2(&[[1.0, 1.0, 1.0]]).into_dyn(),
        );
        for part in 0..2 {
            let group = file.create_group(&format!("t0000{part}/s00/0")).unwrap();
            group
                .link_external(&format!("part{part}.h5"), "/raw", "cells")
                .unwrap();
        }
    });
    let references = written(&place, &["series.h5"]);
    let array = document(&references, "0/.zarray");
    assert_eq!(
        (&array["shape"], &array["chunks"]),
        (&json!([2, 3, 20, 30]), &json!([1, 2, 16, 16]))
    );
    for part in 0..2 {
        let file = place
            .path(&format!("part{part}.h5"))
            .canonicalize()
            .unwrap();
        for chunk in listed(&file, "raw") {
            let [z, y, x] = chunk.offset[..] else {
                panic!("three axes")
            };
            let own = json!([file, chunk.addr, chunk.size]);
            assert_eq!(
                references[format!("0/{part}.{}.{}.{}", z / 2, y / 16, x / 16)],
                own
            );
        }
    }
}

#[test]
fn objects_have_their_addresses_without_queries_and_credentials() {
    let place = Place::new();
    fs::create_dir(place.path("objects")).unwrap();
    let ranges = planes(&place.path("objects/odd name.h5"), 2, 1, Stored::Gzip);
    let objects = ObjectServer::of(place.path("objects"));
    let address = objects.url("odd%20name.h5");
    let given = format!(
        "{}?X-Amz-Signature=hidden",
        address.replacen("http://", "http://me:hunter2@", 1)
    );
    let references = written(&place, &[&given]);
    assert_eq!(
        references["0/1.0.0"],
        json!([address, ranges[1].start, ranges[1].end - ranges[1].start])
    );
    assert!(
        !references.to_string().contains("hidden") && !references.to_string().contains("hunter2")
    );
    let public = written(&place, &[&given, "--set", "server.references=s3://lab/em"]);
    assert_eq!(public["0/1.0.0"][0], "s3://lab/em/odd name.h5");
}

#[test]
fn a_server_gives_its_files_their_public_addresses_to_those_who_may_see_them() {
    let place = Place::new();
    fs::create_dir_all(place.path("data/sub")).unwrap();
    planes(&place.path("data/odd name.h5"), 2, 1, Stored::Gzip);
    planes(&place.path("data/sub/brain.h5"), 2, 2, Stored::Flat);
    let datasets = "[datasets.odd]\nfile = \"./data/odd name.h5\"\n[datasets.brain]\nfile = \"data/sub/brain.h5\"\n";
    let access = "[[access]]\nsecrets = \"lab.txt\"\ndatasets = [\"brain\"]\n";
    place.write("lab.txt", "lab-secret-of-this-year\n");
    place.write("voltile.toml", &format!("{datasets}{access}"));
    let without = place.serve::<&str>([]);
    assert!(
        without
            .get("/references/odd.json")
            .problem()
            .contains("server.references")
    );
    drop(without);
    let server = place.serve(["--set", "server.references=https://data.example/lab"]);
    let odd = server.json("/references/odd.json");
    assert_eq!(
        odd["refs"]["0/0.0.0"][0],
        "https://data.example/lab/data/odd%20name.h5"
    );
    let channel = server.json("/references/odd/raw.json");
    assert_eq!(chunks(&odd["refs"], "0"), chunks(&channel["refs"], "0"));
    let own = document(&odd["refs"], ".zattrs");
    assert_eq!(
        own["multiscales"][0]["axes"],
        server.json("/zarr/0.4/odd.ome.zarr/.zattrs")["multiscales"][0]["axes"]
    );
    assert_eq!(server.get("/references/brain.json").status, 401);
    assert_eq!(server.get("/references/absent.json").status, 401);
    let brain = server.json("/k/lab-secret-of-this-year/references/brain.json");
    assert_eq!(
        brain["refs"]["0/1.0.0"][0],
        "https://data.example/lab/data/sub/brain.h5"
    );
    assert!(!brain.to_string().contains("lab-secret"));
    for wrong in [
        "/references/odd",
        "/references/odd/absent.json",
        "/references/odd/raw/0.json",
    ] {
        assert_eq!(server.get(wrong).status, 404, "{wrong}");
    }
    let answer = server.get("/references/odd.json");
    let again = server.ask(
        "GET",
        "/references/odd.json",
        &[("If-None-Match", answer.etag())],
    );
    assert_eq!(
        (again.status, answer.header("cache-control")),
        (304, Some("no-cache"))
    );
    // Files that were found in a folder, and below it.
    let server = place.serve(["data", "--set", "server.references=https://data.example/"]);
    let found = server.json("/references/brain.json");
    assert_eq!(
        found["refs"]["0/1.0.0"][0],
        "https://data.example/sub/brain.h5"
    );
}

#[test]
fn labels_lie_below_their_image() {
    let place = Place::new();
    let config = fixture("voltile.toml");
    let references = written(
        &place,
        &["--config", config.to_str().unwrap(), "--token", "series"],
    );
    let labels = document(&references, "labels/.zattrs")["labels"].clone();
    let [label] = labels.as_array().unwrap().as_slice() else {
        panic!("{labels}")
    };
    let place = format!("labels/{}", label.as_str().unwrap());
    assert_eq!(
        document(&references, &format!("{place}/.zattrs"))["image-label"]["version"],
        "0.4"
    );
    assert!(!chunks(&references, &format!("{place}/0")).is_empty());
    let all = document(&references, ".zmetadata")["metadata"].clone();
    let documents = references.as_object().unwrap().iter();
    let documents = documents.filter(|(key, text)| text.is_string() && *key != ".zmetadata");
    let mut count = 0;
    for (key, _) in documents {
        assert_eq!(all[key], document(&references, key), "{key}");
        count += 1;
    }
    assert_eq!(all.as_object().unwrap().len(), count);
}
