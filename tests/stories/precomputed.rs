//! Stories of Neuroglancer's precomputed format: what `info` says, stored chunks that are sent as
//! they are, and refusals. That each chunk which `info` lists has the voxels of the file is shown
//! by [`crate::formats`].

use std::path::Path;

use hdf5::H5Type;
use ndarray::{Array3, ArrayD, IxDyn};
use serde_json::{Value, json};

use crate::common::wire::Answer;
use crate::common::{Place, made, volumes, wait_until};
use crate::formats::precomputed::{BROWSER, REQUESTS, plain};

/// A volume of noise, the same each time.
fn noise(z: usize, y: usize, x: usize) -> u64 {
    ((z * 1009 + y * 917 + x * 31 + 7) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20
}

/// Writes `/raw` with chunks of a shape, deflated if `level` is above 0.
fn write<T: H5Type>(
    path: &Path,
    shape: [usize; 3],
    chunk: Option<[usize; 3]>,
    level: u8,
    value: impl Fn(usize, usize, usize) -> T,
) {
    let data = Array3::from_shape_fn((shape[0], shape[1], shape[2]), |(z, y, x)| value(z, y, x));
    let file = hdf5::File::create(path).unwrap();
    let mut builder = file.new_dataset_builder();
    if let Some(chunk) = chunk {
        builder = builder.chunk(chunk);
    }
    if level > 0 {
        builder = builder.deflate(level);
    }
    builder.with_data(&data).create("raw").unwrap();
    file.close().unwrap();
}

/// The configuration of one dataset with the channel `raw`.
fn dataset(token: &str, dataset_keys: &str, channel_keys: &str) -> String {
    format!(
        "[datasets.{token}]\nfile = \"{token}.h5\"\n{dataset_keys}\n\
         [datasets.{token}.channels.raw]\npath = \"/raw\"\n{channel_keys}\n"
    )
}

#[test]
fn stored_chunks_are_sent_as_they_are_to_clients_that_can_decode_them() {
    let place = Place::with(
        &(dataset("gz", "", "") + &dataset("plain", "", "") + &dataset("shuffled", "", "")),
    );
    let value = |z, y, x| noise(z, y, x) as u8;
    write(
        &place.path("gz.h5"),
        [70, 64, 96],
        Some([32, 32, 32]),
        6,
        value,
    );
    write(
        &place.path("plain.h5"),
        [64, 64, 64],
        Some([32, 32, 32]),
        0,
        value,
    );
    let file = hdf5::File::create(place.path("shuffled.h5")).unwrap();
    let data = Array3::from_shape_fn((64, 64, 64), |(z, y, x)| noise(z, y, x) as u16);
    let builder = file
        .new_dataset_builder()
        .chunk([32, 32, 32])
        .shuffle()
        .deflate(1);
    builder.with_data(&data).create("raw").unwrap();
    file.close().unwrap();
    let server = place.serve::<&str>([]);
    let sizes = |token: &str| {
        server.json(&format!("/neuroglancer/{token}/raw/info"))["scales"][0]["chunk_sizes"].clone()
    };
    let flat = json!([[32, 32, 32], [512, 512, 1], [512, 1, 512], [1, 512, 512]]);
    assert_eq!(
        (sizes("gz"), sizes("plain"), sizes("shuffled")),
        (json!([[32, 32, 32]]), json!([[32, 32, 32]]), flat)
    );

    // The stored bytes of a whole chunk are the body; a chunk that is clipped is encoded.
    let chunk = "/neuroglancer/gz/raw/0/32-64_0-32_32-64";
    let sent = server.ask("GET", chunk, &BROWSER);
    let stored = hdf5::File::open(place.path("gz.h5"))
        .unwrap()
        .dataset("raw")
        .unwrap();
    let infos = (0..stored.num_chunks().unwrap()).map(|number| stored.chunk_info(number).unwrap());
    let info = infos
        .into_iter()
        .find(|info| info.offset[..] == [32, 0, 32])
        .unwrap();
    let bytes = std::fs::read(place.path("gz.h5")).unwrap();
    assert_eq!(sent.header("content-encoding"), Some("deflate"));
    assert!(sent.body == bytes[info.addr as usize..][..info.size as usize]);
    let clipped = server.ask("GET", "/neuroglancer/gz/raw/0/32-64_0-32_64-70", &BROWSER);
    assert_eq!(clipped.header("content-encoding"), Some("gzip"));

    // Unfiltered chunks are the same for every client.
    let first = hdf5::File::open(place.path("plain.h5"))
        .unwrap()
        .dataset("raw")
        .unwrap()
        .chunk_info(0)
        .unwrap();
    let bytes = std::fs::read(place.path("plain.h5")).unwrap();
    for headers in [&BROWSER[..], &[]] {
        let sent = server.ask("GET", "/neuroglancer/plain/raw/0/0-32_0-32_0-32", headers);
        assert_eq!(sent.header("content-encoding"), None);
        assert!(sent.body == bytes[first.addr as usize..][..first.size as usize]);
    }

    // The coding is one that the client accepts, and each has its own ETag.
    let answers = [&BROWSER[..], &REQUESTS, &[("Accept-Encoding", "gzip")], &[]]
        .map(|headers| server.ask("GET", chunk, headers));
    let codings = answers
        .each_ref()
        .map(|answer| answer.header("content-encoding"));
    assert_eq!(codings, [Some("deflate"), Some("gzip"), Some("gzip"), None]);
    assert!(
        answers
            .iter()
            .all(|answer| plain(answer) == plain(&answers[0]))
    );
    let etags = answers.each_ref().map(Answer::etag);
    assert!(
        etags[0] != etags[1]
            && etags[1] == etags[2]
            && etags[2] != etags[3]
            && etags[0] != etags[3]
    );
    let again = server.ask("GET", chunk, &[("If-None-Match", etags[3])]);
    assert_eq!(
        (again.status, again.header("vary")),
        (304, Some("Accept-Encoding, User-Agent"))
    );
    assert_eq!(
        server
            .ask("GET", chunk, &[("If-None-Match", etags[0])])
            .status,
        200
    );
    let head = server.ask("HEAD", chunk, &BROWSER);
    let undated = |answer: &Answer| -> Vec<_> {
        let lasting = |name: &str| !["date", "server-timing", "x-request-id"].contains(&name);
        answer
            .headers
            .iter()
            .filter(|(name, _)| lasting(name))
            .cloned()
            .collect()
    };
    assert_eq!((undated(&head), head.body.len()), (undated(&sent), 0));
}

#[test]
fn every_type_of_voxel_is_served_in_one_that_the_format_has() {
    let place = Place::new();
    made::file(&place.path("types.h5"), |file| {
        made::put(file, "u8", &made::zeros::<u8>(&[2, 3, 4]));
        made::put(file, "i8", &made::zeros::<i8>(&[2, 3, 4]));
        made::put(file, "u16", &made::zeros::<u16>(&[2, 3, 4]));
        made::put(file, "i16", &made::zeros::<i16>(&[2, 3, 4]));
        made::put(file, "u32", &made::zeros::<u32>(&[2, 3, 4]));
        made::put(file, "i32", &made::zeros::<i32>(&[2, 3, 4]));
        made::put(file, "u64", &made::zeros::<u64>(&[2, 3, 4]));
        made::put(file, "i64", &made::zeros::<i64>(&[2, 3, 4]));
        made::put(file, "f32", &made::zeros::<f32>(&[2, 3, 4]));
        made::put(file, "f64", &made::zeros::<f64>(&[2, 3, 4]));
        made::put(file, "bool", &made::zeros::<bool>(&[2, 3, 4]));
    });
    let served = [
        ("u8", "image", "uint8", "raw"),
        ("i8", "image", "int8", "raw"),
        ("u16", "image", "uint16", "raw"),
        ("i16", "image", "int16", "raw"),
        ("u32", "image", "uint32", "raw"),
        ("i32", "image", "int32", "raw"),
        ("u64", "image", "uint64", "raw"),
        ("f32", "image", "float32", "raw"),
        ("bool", "image", "uint8", "raw"),
        ("bool", "segmentation", "uint8", "raw"),
        ("u8", "segmentation", "uint8", "raw"),
        ("u16", "segmentation", "uint16", "raw"),
        ("u32", "segmentation", "uint32", "compressed_segmentation"),
        ("u64", "segmentation", "uint64", "compressed_segmentation"),
        ("i8", "segmentation", "uint64", "compressed_segmentation"),
        ("i16", "segmentation", "uint64", "compressed_segmentation"),
        ("i32", "segmentation", "uint64", "compressed_segmentation"),
        ("i64", "segmentation", "uint64", "compressed_segmentation"),
    ];
    let mut text = String::new();
    for (path, kind) in served
        .map(|(path, kind, ..)| (path, kind))
        .into_iter()
        .chain([("i64", "image"), ("f64", "image")])
    {
        text += &format!(
            "[datasets.{path}_{kind}]\nfile = \"types.h5\"\n[datasets.{path}_{kind}.channels.raw]\npath = \"/{path}\"\n"
        );
        text += if kind == "image" {
            "kind = \"image\"\n"
        } else {
            "kind = \"labels\"\n"
        };
    }
    place.write("voltile.toml", &text);
    let server = place.serve::<&str>([]);
    for (path, kind, dtype, encoding) in served {
        let info = server.json(&format!("/neuroglancer/{path}_{kind}/raw/info"));
        let found = (
            &info["type"],
            &info["data_type"],
            &info["scales"][0]["encoding"],
        );
        assert_eq!(
            found,
            (&json!(kind), &json!(dtype), &json!(encoding)),
            "{path}"
        );
    }

    let datasets = server.json("/datasets.json");
    for (token, dtype) in [("i64_image", "int64"), ("f64_image", "float64")] {
        let refused = server.get(&format!("/neuroglancer/{token}/raw/info"));
        assert_eq!(refused.status, 404);
        assert!(refused.problem().contains(dtype), "{}", refused.problem());
        let all = datasets["datasets"].as_array().unwrap();
        let described = all
            .iter()
            .find(|dataset| dataset["token"] == token)
            .unwrap();
        assert!(
            described["channels"][0]["left_out"]["neuroglancer"]
                .as_str()
                .unwrap()
                .contains(dtype)
        );
    }
    let served = datasets["datasets"]
        .as_array()
        .unwrap()
        .iter()
        .find(|dataset| dataset["token"] == "u8_image")
        .unwrap();
    assert_eq!(served["channels"][0]["left_out"], json!({}));
}

#[test]
fn derived_levels_offsets_and_times_are_served() {
    let mut text = dataset(
        "wide",
        "voxel_size = [4.5, 4.5, 40]\noffset = [7, -70, 13]\nscaling = \"isotropic\"",
        "",
    );
    text += &dataset("series", "", "axes = \"tzyx\"");
    text += &dataset("rgb", "", "axes = \"zyxc\"\nkind = \"rgb\"");
    let place = Place::with(&text);
    let value = |z, y, x| noise(z, y, x) as u8;
    let (depth, rows, columns) = (9, 301, 1201);
    write(
        &place.path("wide.h5"),
        [depth, rows, columns],
        Some([8, 64, 64]),
        1,
        value,
    );
    let put = |name: &str, data: &ArrayD<u8>| {
        let file = hdf5::File::create(place.path(name)).unwrap();
        file.new_dataset_builder()
            .with_data(data)
            .create("raw")
            .unwrap();
        file.close().unwrap();
    };
    put(
        "series.h5",
        &ArrayD::from_shape_fn(IxDyn(&[3, 5, 20, 30]), |at| {
            value(at[0] * 100 + at[1], at[2], at[3])
        }),
    );
    put(
        "rgb.h5",
        &ArrayD::from_shape_fn(IxDyn(&[5, 20, 30, 3]), |at| {
            value(at[0] + 50 * at[3], at[1], at[2])
        }),
    );
    let server = place.serve::<&str>([]);

    let info = server.json("/neuroglancer/wide/raw/info");
    let of = |key: &str| {
        info["scales"]
            .as_array()
            .unwrap()
            .iter()
            .map(|scale| scale[key].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        of("size"),
        [
            json!([1201, 301, 9]),
            json!([601, 151, 5]),
            json!([301, 76, 3])
        ]
    );
    assert_eq!(
        of("resolution"),
        [
            json!([4.5, 4.5, 40.0]),
            json!([9.0, 9.0, 80.0]),
            json!([18.0, 18.0, 160.0])
        ]
    );
    assert_eq!(
        of("voxel_offset"),
        [json!([7, -70, 13]), json!([3, -35, 6]), json!([1, -18, 3])]
    );
    assert_eq!(of("key"), ["0", "1", "2"]);
    assert_eq!(
        server.get("/neuroglancer/wide/raw/3/0-64_0-64_0-9").status,
        404
    );

    let series = |volume: &str| {
        plain(&server.get(&format!("/neuroglancer/series/{volume}/0/0-30_0-20_0-5")))
    };
    assert!(series("raw") == series("raw@0") && series("raw%402") == series("raw@2"));
    assert!(series("raw@0") != series("raw@2"));
    assert!(
        server
            .get("/neuroglancer/series/raw@3/info")
            .problem()
            .contains("3 time points")
    );
    assert_eq!(
        server
            .get("/neuroglancer/series/raw@3/0/0-30_0-20_0-5")
            .status,
        404
    );

    assert_eq!(server.json("/neuroglancer/rgb/raw/info")["num_channels"], 3);
}

#[test]
fn chunks_that_were_never_written_are_fill_and_those_off_the_grid_are_not_there() {
    let place = Place::with(&(dataset("sparse", "", "") + &dataset("shuffled", "", "")));
    let file = hdf5::File::create(place.path("sparse.h5")).unwrap();
    let builder = file
        .new_dataset_builder()
        .empty::<u8>()
        .shape([64, 64, 64])
        .chunk([32, 32, 32])
        .deflate(1);
    let raw = builder.fill_value(7u8).create("raw").unwrap();
    let part = Array3::from_shape_fn((32, 32, 32), |(z, y, x)| noise(z, y, x) as u8);
    raw.write_slice(&part, ndarray::s![0..32, 32..64, 0..32])
        .unwrap();
    drop(raw);
    file.close().unwrap();
    write(
        &place.path("shuffled.h5"),
        [40, 40, 40],
        None,
        0,
        |z, y, x| noise(z, y, x) as u8,
    );
    let server = place.serve::<&str>([]);
    for (headers, coding) in [(&BROWSER[..], Some("deflate")), (&[], None)] {
        let never = server.ask(
            "GET",
            "/neuroglancer/sparse/raw/0/32-64_32-64_32-64",
            headers,
        );
        assert_eq!(never.header("content-encoding"), coding);
        assert!(plain(&never) == [7; 32 * 32 * 32]);
    }
    let renders = server.renders();
    for (name, reason) in [
        ("0-32_0-32_0-31", "this is not a chunk"),
        ("1-33_0-32_0-32", "32 × 32 × 32"),
        ("0-64_0-64_0-64", "this is not a chunk"),
        ("64-96_0-32_0-32", "this is not a chunk"),
        ("-32-0_0-32_0-32", "this is not a chunk"),
        ("0-512_0-512_0-1", "this is not a chunk"),
        (
            "9223372036854775776-9223372036854775807_0-32_0-32",
            "this is not a chunk",
        ),
        (
            "-9223372036854775808-9223372036854775807_0-32_0-32",
            "this is not a chunk",
        ),
        ("0-32_0-32", "x0-x1_y0-y1_z0-z1"),
        ("0-32_0-32_0-32.gz", "x0-x1_y0-y1_z0-z1"),
        ("0-99999999999999999999_0-32_0-32", "x0-x1_y0-y1_z0-z1"),
    ] {
        let answer = server.get(&format!("/neuroglancer/sparse/raw/0/{name}"));
        assert_eq!(answer.status, 404, "{name}");
        assert!(
            answer.problem().contains(reason),
            "{name}: {}",
            answer.problem()
        );
    }
    for (path, reason) in [
        ("sparse/raw/1/0-32_0-32_0-32", "level 1"),
        ("sparse/raw/x/0-32_0-32_0-32", "not a number"),
        ("sparse/none/info", "no channel none"),
        ("none/raw/info", "no dataset none"),
        ("sparse/raw/provenance", "info"),
    ] {
        let answer = server.get(&format!("/neuroglancer/{path}"));
        assert_eq!(answer.status, 404, "{path}");
        assert!(
            answer.problem().contains(reason),
            "{path}: {}",
            answer.problem()
        );
    }
    assert_eq!(server.renders(), renders);
}

#[test]
fn a_chunk_off_the_grid_is_refused_even_if_the_file_is_gone() {
    let place = Place::with(&dataset("gz", "", ""));
    write(
        &place.path("gz.h5"),
        [64, 64, 64],
        Some([32, 32, 32]),
        1,
        |z, y, x| noise(z, y, x) as u8,
    );
    let server = place.serve::<&str>([]);
    std::fs::remove_file(place.path("gz.h5")).unwrap();
    assert_eq!(
        server.get("/neuroglancer/gz/raw/0/0-32_0-32_0-33").status,
        404
    );
    wait_until("the server sees that the file is gone", || {
        server.get("/neuroglancer/gz/raw/0/0-32_0-32_0-32").status == 500
    });
    assert_eq!(
        server.get("/neuroglancer/gz/raw/0/0-32_0-32_0-33").status,
        404
    );
}

#[test]
fn levels_and_shapes_that_need_too_many_voxels_are_not_listed() {
    let place = Place::with(&dataset("wide", "", ""));
    let file = hdf5::File::create(place.path("wide.h5")).unwrap();
    let voxels = Array3::<u8>::zeros((64, 600, 1200));
    file.new_dataset_builder()
        .with_data(&voxels)
        .create("raw")
        .unwrap();
    file.close().unwrap();
    let of = |most: &str| {
        let server = place.serve(["--set", &format!("render.max_voxels_per_box={most}")]);
        let answer = server.get("/neuroglancer/wide/raw/info");
        let beyond = server.get("/neuroglancer/wide/raw/2/0-64_0-64_0-64");
        (answer, beyond)
    };
    let levels = |answer: &Answer| {
        let scales = answer.json()["scales"].clone();
        scales
            .as_array()
            .unwrap()
            .iter()
            .map(|scale| scale["chunk_sizes"].as_array().unwrap().len())
            .collect::<Vec<_>>()
    };
    // Level 2 of 64³ needs 16 × 64³ = 2^22 stored voxels, and so does each flat shape there.
    let (all, beyond) = of("67108864");
    assert_eq!((levels(&all), beyond.status), (vec![4, 4, 4], 200));
    // Lists of one length: a shape that needs too many voxels at one level, or comes first there,
    // is listed at none.
    let (sections, beyond) = of("1048576");
    assert_eq!((levels(&sections), beyond.status), (vec![3, 3, 3], 404));
    assert!(
        beyond.problem().contains("512 × 512 × 1"),
        "{}",
        beyond.problem()
    );
    let (fewer, beyond) = of("262144");
    assert_eq!((levels(&fewer).len(), beyond.status), (1, 404));
    assert!(
        beyond
            .problem()
            .contains("the levels in its info file are 0"),
        "{}",
        beyond.problem()
    );
    let (none, _) = of("1000");
    assert!(
        none.problem().contains("max_voxels_per_box"),
        "{}",
        none.problem()
    );
}

#[test]
fn inspect_says_which_levels_are_passed_through_and_why_others_are_not() {
    let place = Place::new();
    let shape = [64, 64, 64];
    write(
        &place.path("gz.h5"),
        shape,
        Some([32, 32, 32]),
        1,
        |z, y, x| noise(z, y, x) as u8,
    );
    write(
        &place.path("thin.h5"),
        shape,
        Some([1, 64, 64]),
        1,
        |z, y, x| noise(z, y, x) as u8,
    );
    write(&place.path("flat.h5"), shape, None, 0, |z, y, x| {
        noise(z, y, x) as u8
    });
    for (file, reason) in [
        ("gz.h5", None),
        ("thin.h5", Some("64 × 64 × 1")),
        ("flat.h5", Some("not stored in chunks")),
    ] {
        let text = place.run(["inspect", file]).out;
        let said: Value =
            serde_json::from_str(&place.run(["inspect", file, "--json"]).out).unwrap();
        let level = &said["channels"][0]["levels"][0]["neuroglancer"];
        assert_eq!(level["passed_through"], reason.is_none(), "{file}");
        match reason {
            None => assert!(
                text.contains("sent to Neuroglancer as stored")
                    && text.contains("sent to Zarr as stored"),
                "{text}"
            ),
            Some(reason) => {
                assert!(text.contains("encoded for Neuroglancer: "), "{text}");
                assert!(
                    level["problem"].as_str().unwrap().contains(reason),
                    "{level}"
                );
            }
        }
    }
}

#[test]
fn what_pyramid_rechunks_is_passed_through_at_all_levels() {
    let place = Place::new();
    write(
        &place.path("thin.h5"),
        [70, 150, 130],
        Some([1, 150, 130]),
        1,
        |z, y, x| noise(z, y, x) as u16,
    );
    let made = place.run(["pyramid", "thin.h5", "--rechunk", "cubes.h5"]);
    assert_eq!(made.code, 0, "{}", made.err);
    let said: Value =
        serde_json::from_str(&place.run(["inspect", "cubes.h5", "--json"]).out).unwrap();
    let levels = said["channels"][0]["levels"].as_array().unwrap();
    assert!(
        levels
            .iter()
            .filter(|level| !level["path"].is_null())
            .count()
            > 1
    );
    for level in levels {
        assert_eq!(level["neuroglancer"]["passed_through"], true, "{level}");
    }
    assert_eq!(
        levels[0]["zarr"]["passed_through"], true,
        "chunks of less than 1 KiB are not"
    );
}

/// Opens a file that was just written: until another story's new process has replaced its image,
/// that may hold the lock.
fn opened(path: &Path) -> hdf5::File {
    let mut file = None;
    wait_until("the file can be opened", || {
        file = hdf5::File::open(path).ok();
        file.is_some()
    });
    file.unwrap()
}

#[test]
fn a_damaged_chunk_is_an_error_of_its_own_box_only() {
    let place = Place::with(&dataset("labels", "", "kind = \"labels\""));
    write(
        &place.path("labels.h5"),
        [32, 32, 64],
        Some([32, 32, 32]),
        1,
        noise,
    );
    let stored = opened(&place.path("labels.h5")).dataset("raw").unwrap();
    let infos: Vec<_> = (0..2)
        .map(|number| stored.chunk_info(number).unwrap())
        .collect();
    let damaged = infos.into_iter().find(|info| info.offset[2] == 32).unwrap();
    drop(stored);
    volumes::invert(
        &place.path("labels.h5"),
        &(damaged.addr + 100..damaged.addr + 400),
    );
    let server = place.serve::<&str>([]);
    server.expect_error("a tile could not be rendered");
    assert_eq!(
        server
            .get("/neuroglancer/labels/raw/0/0-32_0-32_0-32")
            .status,
        200
    );
    let answer = server.get("/neuroglancer/labels/raw/0/32-64_0-32_0-32");
    assert_eq!(answer.status, 500);
    assert!(!answer.problem().contains("labels.h5"));
}
