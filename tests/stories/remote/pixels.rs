//! Objects are shown as files are: tiles, precomputed and Zarr, whatever their format; and what
//! cannot be read is refused by name.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use ndarray::Array3;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::Remote;
use crate::common::objects::{Fault, ObjectServer};
use crate::common::picture::Picture;
use crate::common::wire::Connection;
use crate::common::{MOUNT, Place, Server, fixture, fixture_json, made};
use crate::fixtures::{list, wrong_tile, wrongs};

/// The data of these lies in other files, which are read from local disks only.
const IN_PARTS: [&str; 5] = [
    "blocks",
    "external_raw",
    "missing",
    "virtual",
    "virtual_filters",
];

/// A configuration of the fixtures in which each file is an address; without [`IN_PARTS`].
fn configuration(name: &str, base: &str) -> String {
    let text = fs::read_to_string(fixture(name)).unwrap();
    let is_whole = |part: &&str| {
        !IN_PARTS
            .iter()
            .any(|token| part.contains(&format!("[datasets.\"{token}\"]")))
    };
    let mut remote = String::new();
    for line in text
        .split("\n\n")
        .filter(is_whole)
        .flat_map(|part| part.lines().chain([""]))
    {
        match line
            .strip_prefix("file = \"")
            .and_then(|file| file.strip_suffix('"'))
        {
            Some(file) => {
                let encoded: Vec<String> = file
                    .split('/')
                    .map(|part| {
                        utf8_percent_encode(part, NON_ALPHANUMERIC)
                            .to_string()
                            .replace("%2E", ".")
                    })
                    .collect();
                writeln!(remote, "file = \"{base}/{}\"", encoded.join("/")).unwrap();
            }
            None => writeln!(remote, "{line}").unwrap(),
        }
    }
    remote
}

/// The entries of tiles that are served.
fn served(entries: &[Value]) -> Vec<Value> {
    let is_served = |entry: &&Value| {
        let url = entry["url"].as_str().unwrap();
        !IN_PARTS
            .iter()
            .any(|token| url.split('/').any(|part| part == *token))
    };
    entries.iter().filter(is_served).cloned().collect()
}

#[test]
#[ignore = "slow: reads every fixture from a server"]
fn every_tile_of_the_fixtures_has_the_expected_pixels() {
    let objects = ObjectServer::of(fixture(""));
    let place = Place::with(&configuration(
        "voltile.toml",
        objects.url("").trim_end_matches('/'),
    ));
    let server = place.serve::<&str>([]);
    let entries = served(list(&fixture_json("expected.json")));
    assert!(entries.len() > 1500, "there are only {}", entries.len());
    let wrong = wrongs(&server, &entries, wrong_tile);
    assert!(
        wrong.is_empty(),
        "{} are wrong, among them {:#?}",
        wrong.len(),
        &wrong[..wrong.len().min(20)]
    );
}

/// The paths of the first and the last chunk of each level of a channel, in both formats for
/// volumes.
fn chunks(connection: &mut Connection, token: &str, channel: &str) -> Vec<String> {
    let mut paths = Vec::new();
    let info = connection.get(&format!("/neuroglancer/{token}/{channel}/info"));
    if info.status == 200 {
        for scale in list(&info.json()["scales"]) {
            let number = |key: &str, axis: usize| scale[key][axis].as_i64().unwrap();
            let shape = |axis: usize| scale["chunk_sizes"][0][axis].as_i64().unwrap();
            for is_last in [false, true] {
                let range = |axis: usize| {
                    let size = number("size", axis);
                    let first = if is_last {
                        (size - 1) / shape(axis) * shape(axis)
                    } else {
                        0
                    };
                    let offset = number("voxel_offset", axis);
                    format!(
                        "{}-{}",
                        first + offset,
                        (first + shape(axis)).min(size) + offset
                    )
                };
                let name = [0, 1, 2].map(range).join("_");
                paths.push(format!(
                    "/neuroglancer/{token}/{channel}/{}/{name}",
                    scale["key"].as_str().unwrap()
                ));
            }
        }
    }
    let root = format!("/zarr/0.4/{token}/{channel}.ome.zarr");
    let attributes = connection.get(&format!("{root}/.zattrs")).json();
    for level in list(&attributes["multiscales"][0]["datasets"]) {
        let level = level["path"].as_str().unwrap();
        let array = connection.get(&format!("{root}/{level}/.zarray")).json();
        let (shape, chunk) = (list(&array["shape"]), list(&array["chunks"]));
        let last = shape.iter().zip(chunk).map(|(shape, chunk)| {
            ((shape.as_u64().unwrap() - 1) / chunk.as_u64().unwrap()).to_string()
        });
        let last: Vec<String> = last.collect();
        let separator = array["dimension_separator"].as_str().unwrap();
        paths.push(format!(
            "{root}/{level}/{}",
            vec!["0"; last.len()].join(separator)
        ));
        paths.push(format!("{root}/{level}/{}", last.join(separator)));
    }
    paths.dedup();
    paths
}

#[test]
#[ignore = "slow: reads every fixture from a server"]
fn chunks_of_the_fixtures_are_those_of_the_local_files() {
    let objects = ObjectServer::of(fixture(""));
    let place = Place::with(&configuration(
        "voltile.toml",
        objects.url("").trim_end_matches('/'),
    ));
    let remote = place.serve::<&str>([]);
    let local = Place::new();
    let local = local.serve(["--config".as_ref(), fixture("voltile.toml").as_os_str()]);
    let (mut of_remote, mut of_local) = (remote.connect(), local.connect());
    let mut compared = 0;
    for dataset in list(&remote.json("/datasets.json")["datasets"]) {
        let token = dataset["token"].as_str().unwrap();
        for channel in list(&dataset["channels"]) {
            for path in chunks(&mut of_local, token, channel["name"].as_str().unwrap()) {
                let (found, expected) = (of_remote.get(&path), of_local.get(&path));
                assert_eq!(found.status, expected.status, "{path}: {found:?}");
                assert!(found.body == expected.body, "{path}");
                compared += usize::from(found.status == 200);
            }
        }
    }
    assert!(compared > 500, "only {compared}");
}

#[test]
fn damaged_chunks_are_the_same_errors_as_in_files() {
    let objects = ObjectServer::of(fixture("bad"));
    let text = configuration("bad/voltile.toml", objects.url("").trim_end_matches('/'));
    let place = Place::with(&text);
    let server = place.serve::<&str>([]);
    server.allow_error("");
    let bad = fixture_json("bad/expected.json");
    let without_addresses = |entry: &Value, answer: &crate::common::wire::Answer| {
        let body = String::from_utf8_lossy(&answer.body);
        let reveals = answer.status == 500 && (body.contains("127.0.0.1") || body.contains(".h5"));
        if reveals {
            Some(body.into_owned())
        } else {
            wrong_tile(entry, answer)
        }
    };
    for _ in 0..2 {
        assert_eq!(
            wrongs(&server, &served(list(&bad["tiles"])), without_addresses),
            [] as [String; 0]
        );
    }
    assert!(server.log().contains("its zlib stream is invalid"));
}

#[test]
fn a_truncated_object_gives_the_chunks_that_it_has() {
    let remote = Remote::with_scattered_planes();
    let whole = fs::read(remote.path("planes.h5")).unwrap();
    remote.replace("planes.h5", &whole[..5 * super::DISTANCE + 10]);
    let checked = remote
        .place
        .run(["check".to_owned(), remote.url("planes.h5")]);
    assert_eq!(checked.code, 1, "{}", checked.out);
    let missing = whole.len() - (5 * super::DISTANCE + 10);
    assert!(
        checked
            .err
            .contains(&format!(": {missing} bytes are missing")),
        "{}",
        checked.err
    );
    let server = remote.serve_planes();
    server.wait_for_log("bytes are missing");
    server.expect_error("the file ends at byte");
    for z in 0..super::PLANES {
        if z < 4 {
            assert!(super::shows(&server, 1, z), "plane {z}");
        } else {
            let answer = server.get(&super::tile(z));
            assert_eq!(answer.status, 500, "plane {z}");
        }
    }
}

#[test]
fn objects_that_are_no_hdf5_files_are_refused_as_files_are() {
    let objects = ObjectServer::of(fixture("bad"));
    let place = Place::new();
    for name in [
        "empty.h5",
        "text.h5",
        "header_only.h5",
        "no_volumes.h5",
        "absent.h5",
    ] {
        let outcome = place.run(["check".to_owned(), objects.url(name)]);
        assert_eq!(outcome.code, 1, "{name}: {}", outcome.err);
        assert!(
            outcome.err.contains("1 thing is wrong") && outcome.err.contains(name),
            "{name}: {}",
            outcome.err
        );
    }
}

fn voxel(z: usize, y: usize, x: usize) -> u16 {
    ((z * 4099 + y * 257 + x * x * 7) % 65_521) as u16
}

fn cube(shape: (usize, usize, usize)) -> Array3<u16> {
    Array3::from_shape_fn(shape, |(z, y, x)| voxel(z, y, x))
}

/// Files of both formats, each with many chunks, too large for the first block; with space for a
/// user block.
fn formats(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for (format, latest) in [("default", false), ("latest", true)] {
        for block in [0, 512] {
            let name = format!("{format}_{block}.h5");
            let options = hdf5::File::with_options()
                .with_fapl(|access| {
                    if latest {
                        access.libver_latest()
                    } else {
                        access
                    }
                })
                .with_fcpl(|create| create.userblock(block))
                .clone();
            let file = options.create(folder.join(&name)).unwrap();
            let data = cube((70, 50, 60));
            for (dataset, chunk) in [
                ("small", Some((8, 8, 8))),
                ("large", Some((32, 32, 32))),
                ("flat", None),
            ] {
                let builder = file.new_dataset_builder().with_data(&data);
                match chunk {
                    Some(chunk) if dataset == "small" => {
                        builder.chunk(chunk).create(dataset).unwrap()
                    }
                    Some(chunk) => builder
                        .chunk(chunk)
                        .shuffle()
                        .deflate(4)
                        .create(dataset)
                        .unwrap(),
                    None => builder.create(dataset).unwrap(),
                };
            }
            file.close().unwrap();
            names.push(name);
        }
    }
    names
}

/// Three tiles in each plane, and the chunks, of every channel.
fn compare(remote: &Server, local: &Server) {
    let (mut one, mut other) = (remote.connect(), local.connect());
    let (described, expected) = (remote.json("/datasets.json"), local.json("/datasets.json"));
    for (dataset, expected) in list(&described["datasets"])
        .iter()
        .zip(list(&expected["datasets"]))
    {
        for (channel, expected) in list(&dataset["channels"])
            .iter()
            .zip(list(&expected["channels"]))
        {
            for key in [
                "name",
                "label",
                "kind",
                "window",
                "histogram",
                "voxel_size",
                "times",
            ] {
                assert_eq!(channel[key], expected[key], "{key}");
            }
        }
        let token = dataset["token"].as_str().unwrap();
        for channel in list(&dataset["channels"]) {
            let name = channel["name"].as_str().unwrap();
            for plane in ["xy", "xz", "yz"] {
                for slice in [0, 33, 69] {
                    let path = format!("{MOUNT}/{token}/{name}/{plane}/{slice}/0_0_0.png");
                    assert_eq!(
                        one.get(&path).picture(),
                        other.get(&path).picture(),
                        "{path}"
                    );
                }
            }
            for path in chunks(&mut other, token, name) {
                assert!(one.get(&path).body == other.get(&path).body, "{path}");
            }
        }
    }
}

/// So much that only a sample of it is read, whose values depend on where it is taken.
#[test]
fn windows_of_contiguous_data_are_those_of_the_local_file() {
    let remote = Remote::new();
    let path = remote.place.path("objects/contiguous.h5");
    let file = hdf5::File::create(&path).unwrap();
    let voxels = Array3::from_shape_fn((70, 230, 310), |(z, y, x)| {
        (700 * z + 90 * y + 17 * x) as u16
    });
    file.new_dataset_builder()
        .with_data(&voxels)
        .create("raw")
        .unwrap();
    file.close().unwrap();
    let local = remote.place.serve([&path]);
    let served = remote.place.serve([remote.url("contiguous.h5")]);
    compare(&served, &local);
    let [found, expected] = [&served, &local].map(|server| {
        server.json("/datasets.json")["datasets"][0]["channels"][0]["window"].clone()
    });
    assert!(
        found.is_array() && found == expected,
        "{found} instead of {expected}"
    );
}

#[test]
fn files_of_all_formats_are_the_same_from_a_web_server() {
    let remote = Remote::new();
    let names = formats(&remote.place.path("objects"));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let served = remote.serve(&names, &[]);
    let local = remote
        .place
        .serve(names.iter().map(|name| remote.path(name)));
    compare(&served, &local);
}

/// Writes a BigDataViewer file with one setup.
fn cells(path: &Path) {
    made::file(path, |file| {
        made::put(
            file,
            "s00/resolutions",
            &ndarray::arr2(&[[1.0, 1.0, 1.0]]).into_dyn(),
        );
        made::put(
            file,
            "s00/subdivisions",
            &ndarray::arr2(&[[16, 16, 16]]).into_dyn(),
        );
        made::put(
            file,
            "t00000/s00/0/cells",
            &cube((20, 30, 40))
                .mapv(|voxel| (voxel % 1000) as i16)
                .into_dyn(),
        );
    });
}

#[test]
fn a_bigdataviewer_file_has_the_names_and_sizes_of_the_xml_next_to_it() {
    let remote = Remote::new();
    cells(&remote.path("cells.h5"));
    let xml = r#"<?xml version="1.0"?><SpimData version="0.2"><SequenceDescription>
        <ImageLoader format="bdv.hdf5"><hdf5 type="relative">cells.h5</hdf5></ImageLoader>
        <ViewSetups><ViewSetup><id>0</id><name>nuclei</name><size>40 30 20</size>
        <voxelSize><unit>um</unit><size>0.25 0.25 1.5</size></voxelSize></ViewSetup></ViewSetups>
        <Timepoints type="range"><first>0</first><last>0</last></Timepoints>
        </SequenceDescription></SpimData>"#;
    // Programs that do not name an encoding have written some.
    let latin = [xml.as_bytes(), b"<!-- of M\xfcller -->"].concat();
    fs::write(remote.path("cells.xml"), latin).unwrap();
    let served = remote.serve(&["cells.h5"], &[]);
    let local = remote.place.serve([remote.path("cells.h5")]);
    let described = served.json("/datasets.json");
    let channel = &described["datasets"][0]["channels"][0];
    assert!(
        channel.to_string().contains("nuclei") && channel.to_string().contains("0.25"),
        "{channel}"
    );
    compare(&served, &local);
}

#[test]
fn a_bigdataviewer_file_without_an_xml_is_served_and_its_store_has_not_failed() {
    let remote = Remote::new();
    cells(&remote.path("cells.h5"));
    // A bucket that may not be listed refuses what is not there.
    for is_refused in [false, true] {
        if is_refused {
            remote
                .objects
                .break_down("cells.xml", Fault::Status(403, String::new()));
        }
        remote.objects.take_asked();
        let served = remote.serve(&["cells.h5"], &[]);
        let statuses = remote
            .objects
            .take_asked()
            .into_iter()
            .filter(|asked| asked.path == "cells.xml");
        let statuses: Vec<u16> = statuses.map(|asked| asked.status).collect();
        // It is asked for when the layout is recognised and when channels are found, by a trial and
        // by the server.
        assert!((1..=4).contains(&statuses.len()), "{statuses:?}");
        let expected = if is_refused { 403 } else { 404 };
        assert!(
            statuses.iter().all(|status| *status == expected),
            "{statuses:?}"
        );
        let problems = served.problems();
        assert_eq!(problems.is_empty(), !is_refused, "{problems:?}");
        assert!(
            problems
                .iter()
                .all(|problem| problem.contains("cells.xml cannot be read")),
            "{problems:?}"
        );
        assert_eq!(served.count("voltile_store_retries_total"), 0);
        assert_eq!(served.count("voltile_store_failures_total") > 0, is_refused);
        compare(&served, &remote.place.serve([remote.path("cells.h5")]));
    }
}

#[test]
fn links_lead_to_objects_below_the_same_prefix_and_no_others() {
    let remote = Remote::new();
    fs::create_dir_all(remote.path("lab/sub")).unwrap();
    for name in [
        "secret.h5",
        "lab/beside 1.h5",
        "lab/sub/below.h5",
        "lab/50%.h5",
    ] {
        let seed = if name.contains("secret") { 9 } else { 3 };
        made::file(&remote.path(name), |file| {
            made::put(
                file,
                "raw",
                &Array3::from_elem((2, 5, 7), seed as u8).into_dyn(),
            );
        });
    }
    let inside = ["beside 1.h5", "sub/below.h5", "50%.h5"];
    let outside = [
        "../secret.h5",
        "%2e%2e/secret.h5",
        "..%2fsecret.h5",
        "..\\secret.h5",
        "sub/../../secret.h5",
    ];
    made::file(&remote.path("lab/start.h5"), |file| {
        for (number, target) in inside.iter().enumerate() {
            file.link_external(target, "/raw", &format!("in{number}"))
                .unwrap();
        }
        for (number, target) in outside.iter().enumerate() {
            file.link_external(target, "/raw", &format!("out{number}"))
                .unwrap();
        }
    });
    let mut text = format!("[datasets.d]\nfile = \"{}\"\n", remote.url("lab/start.h5"));
    for number in 0..inside.len() {
        write!(
            text,
            "[datasets.d.channels.in{number}]\npath = \"/in{number}\"\n"
        )
        .unwrap();
    }
    remote.place.write("voltile.toml", &text);
    {
        let server = remote.place.serve::<&str>([]);
        for (number, name) in inside.iter().enumerate() {
            let picture = server
                .tile(&format!("d/in{number}/xy/0/0_0_0.png"))
                .picture();
            assert_eq!(picture, Picture::of_plane(5, 7, |_, _| 3), "{name}");
        }
    }
    for (number, name) in outside.iter().enumerate() {
        remote.objects.take_asked();
        let text = format!(
            "[datasets.d]\nfile = \"{}\"\n[datasets.d.channels.out]\npath = \"/out{number}\"\n",
            remote.url("lab/start.h5")
        );
        remote.place.write("voltile.toml", &text);
        let outcome = remote.place.run(["check"]);
        assert_eq!(outcome.code, 1, "{}: {}", outcome.out, outcome.err);
        assert!(
            outcome.err.contains("datasets.d.channels.out"),
            "{}",
            outcome.err
        );
        let asked = remote.objects.asked();
        // What is percent-encoded in a name is part of the name: that object does not exist here.
        let has_left = |asked: &&crate::common::objects::Asked| {
            !asked.path.starts_with("lab/") || asked.path.contains("/../")
        };
        assert!(
            !asked.iter().any(|asked| has_left(&asked)),
            "{name}: {asked:?}"
        );
    }
}

#[test]
fn external_raw_storage_and_virtual_datasets_are_refused_by_name() {
    let objects = ObjectServer::of(fixture(""));
    for (token, path, word) in [
        (
            "external_raw",
            "/pieces",
            "its data is in external raw files",
        ),
        ("virtual", "/slabs", "it is a virtual dataset"),
    ] {
        let url = objects.url(&format!("{token}.h5"));
        let place = Place::with(&format!(
            "[datasets.d]\nfile = \"{url}\"\nchannels = {{ raw = {{ path = {path:?} }} }}\n"
        ));
        for command in [&["check"][..], &["serve", "--bind", "127.0.0.1:0"]] {
            let outcome = place.run(command);
            assert_ne!(outcome.code, 0);
            let line = outcome
                .err
                .lines()
                .find(|line| line.contains(word))
                .unwrap_or_else(|| panic!("{}", outcome.err));
            assert!(
                line.contains(path) && line.contains("local disks"),
                "{line}"
            );
        }
        let unconfigured = place.run(["inspect", &url]).err;
        assert!(unconfigured.contains("local disks"), "{unconfigured}");
    }
}

#[test]
fn inspect_check_and_render_take_addresses() {
    let remote = Remote::with_scattered_planes();
    let url = remote.url("planes.h5");
    for command in ["inspect", "check"] {
        let outcome = remote.place.run([command, &url]);
        assert_eq!(outcome.code, 0, "{}", outcome.err);
    }
    remote.place.write(
        "voltile.toml",
        &format!("[datasets.planes]\nfile = \"{url}\"\n"),
    );
    let outcome = remote
        .place
        .run(["render", &super::tile(3), "-o", "tile.png"]);
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    let drawn = fs::read(remote.place.path("tile.png")).unwrap();
    assert_eq!(Picture::decode(&drawn), crate::common::volumes::plane(1, 3));
}
