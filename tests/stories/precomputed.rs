//! Stories of Neuroglancer's precomputed format: each chunk that `info` lists is decoded and compared voxel for voxel.

use std::io::Read;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use flate2::read::{GzDecoder, ZlibDecoder};
use hdf5::H5Type;
use ndarray::{Array3, ArrayD, IxDyn};
use serde_json::{Value, json};

use crate::common::wire::Answer;
use crate::common::{Place, Server, fixture, volumes, wait_until};

const BROWSER: [(&str, &str); 2] =
    [("Accept-Encoding", "gzip, deflate, br, zstd"), ("User-Agent", "Mozilla/5.0")];

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

/// A body without its content coding.
fn plain(answer: &Answer) -> Vec<u8> {
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/octet-stream"));
    assert!(answer.header("vary").unwrap().contains("Accept-Encoding, User-Agent"));
    let mut all = Vec::new();
    match answer.header("content-encoding") {
        None => all.clone_from(&answer.body),
        Some("deflate") => drop(ZlibDecoder::new(&answer.body[..]).read_to_end(&mut all).unwrap()),
        Some("gzip") => drop(GzDecoder::new(&answer.body[..]).read_to_end(&mut all).unwrap()),
        Some(other) => panic!("{other}"),
    }
    all
}

/// Decodes `compressed_segmentation` with blocks of 8 × 8 × 8 and labels of so many 32-bit words.
fn labels(file: &[u8], [x, y, z]: [usize; 3], words: usize) -> Vec<u64> {
    let file: Vec<u32> =
        file.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
    let channel = &file[file[0] as usize..];
    let (columns, rows) = (x.div_ceil(8), y.div_ceil(8));
    let label = |at: usize| {
        let (i, j, k) = (at % x, at / x % y, at / x / y);
        let block = 2 * (i / 8 + columns * (j / 8 + rows * (k / 8)));
        let (table, bits) = ((channel[block] & 0xff_ffff) as usize, channel[block] as usize >> 24);
        let bit = bits * (i % 8 + 8 * (j % 8 + 8 * (k % 8)));
        let packed =
            if bits == 0 { 0 } else { channel[channel[block + 1] as usize + bit / 32] >> (bit % 32) };
        let index = (u64::from(packed) & ((1 << bits) - 1)) as usize;
        let entry = &channel[table + index * words..][..words];
        entry.iter().rev().fold(0, |label: u64, word| (label << 32) | u64::from(*word))
    };
    (0..x * y * z).map(label).collect()
}

/// The little-endian bytes of labels.
fn wide(labels: &[u64]) -> Vec<u8> {
    labels.iter().flat_map(|label| label.to_le_bytes()).collect()
}

fn triple(value: &Value) -> [i64; 3] {
    [0, 1, 2].map(|axis| value[axis].as_i64().unwrap())
}

/// The name of a chunk, with the offset added.
fn name(first: [i64; 3], end: [i64; 3], offset: [i64; 3]) -> String {
    let range = |axis: usize| format!("{}-{}", first[axis] + offset[axis], end[axis] + offset[axis]);
    [0, 1, 2].map(range).join("_")
}

/// Reads each chunk of each listed shape of a level, and compares it with the bytes expected for a box (first, end).
/// Returns the content codings seen.
fn compare(
    server: &Server,
    volume: &str,
    level: usize,
    headers: &[(&str, &str)],
    expected: &dyn Fn([i64; 3], [i64; 3]) -> Vec<u8>,
) -> Vec<Option<String>> {
    let info = server.json(&format!("/neuroglancer/{volume}/info"));
    let scale = &info["scales"][level];
    let (size, offset) = (triple(&scale["size"]), triple(&scale["voxel_offset"]));
    let key = scale["key"].as_str().unwrap();
    let is_compressed = scale["encoding"] == "compressed_segmentation";
    let words = if info["data_type"] == "uint64" { 2 } else { 1 };
    let mut codings = Vec::new();
    let mut connection = server.connect();
    for shape in scale["chunk_sizes"].as_array().unwrap().iter().map(triple) {
        let steps = |axis: usize| (0..size[axis]).step_by(shape[axis] as usize);
        for z in steps(2) {
            for (y, x) in steps(1).flat_map(|y| steps(0).map(move |x| (y, x))) {
                let first = [x, y, z];
                let end = [0, 1, 2].map(|axis| (first[axis] + shape[axis]).min(size[axis]));
                let target = format!("/neuroglancer/{volume}/{key}/{}", name(first, end, offset));
                let answer = connection.ask("GET", &target, headers);
                codings.push(answer.header("content-encoding").map(str::to_owned));
                let mut body = plain(&answer);
                if is_compressed {
                    let extent = [0, 1, 2].map(|axis| (end[axis] - first[axis]) as usize);
                    let all = labels(&body, extent, words);
                    body = wide(&all).chunks_exact(8).flat_map(|label| label[..4 * words].to_vec()).collect();
                }
                assert!(body == expected(first, end), "{target}");
            }
        }
    }
    codings
}

/// The bytes of a box, of a function of the position.
fn boxed<const N: usize>(
    value: impl Fn(usize, usize, usize) -> [u8; N],
) -> impl Fn([i64; 3], [i64; 3]) -> Vec<u8> {
    move |first, end| {
        let mut all = Vec::new();
        for z in first[2]..end[2] {
            for y in first[1]..end[1] {
                all.extend((first[0]..end[0]).flat_map(|x| value(z as usize, y as usize, x as usize)));
            }
        }
        all
    }
}

#[test]
fn stored_chunks_are_sent_as_they_are_to_clients_that_can_decode_them() {
    let place =
        Place::with(&(dataset("gz", "", "") + &dataset("plain", "", "") + &dataset("shuffled", "", "")));
    let value = |z, y, x| noise(z, y, x) as u8;
    write(&place.path("gz.h5"), [70, 64, 96], Some([32, 32, 32]), 6, value);
    write(&place.path("plain.h5"), [64, 64, 64], Some([32, 32, 32]), 0, value);
    let file = hdf5::File::create(place.path("shuffled.h5")).unwrap();
    let data = Array3::from_shape_fn((64, 64, 64), |(z, y, x)| noise(z, y, x) as u16);
    let builder = file.new_dataset_builder().chunk([32, 32, 32]).shuffle().deflate(1);
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
    let stored = hdf5::File::open(place.path("gz.h5")).unwrap().dataset("raw").unwrap();
    let infos = (0..stored.num_chunks().unwrap()).map(|number| stored.chunk_info(number).unwrap());
    let info = infos.into_iter().find(|info| info.offset[..] == [32, 0, 32]).unwrap();
    let bytes = std::fs::read(place.path("gz.h5")).unwrap();
    assert_eq!(sent.header("content-encoding"), Some("deflate"));
    assert!(sent.body == bytes[info.addr as usize..][..info.size as usize]);
    let clipped = server.ask("GET", "/neuroglancer/gz/raw/0/32-64_0-32_64-70", &BROWSER);
    assert_eq!(clipped.header("content-encoding"), Some("gzip"));

    // Unfiltered chunks are the same for every client.
    let first =
        hdf5::File::open(place.path("plain.h5")).unwrap().dataset("raw").unwrap().chunk_info(0).unwrap();
    let bytes = std::fs::read(place.path("plain.h5")).unwrap();
    for headers in [&BROWSER[..], &[]] {
        let sent = server.ask("GET", "/neuroglancer/plain/raw/0/0-32_0-32_0-32", headers);
        assert_eq!(sent.header("content-encoding"), None);
        assert!(sent.body == bytes[first.addr as usize..][..first.size as usize]);
    }

    // The coding is one that the client accepts, and each has its own ETag.
    let requests = [("Accept-Encoding", "gzip, deflate, br"), ("User-Agent", "python-requests/2.32.5")];
    let answers = [&BROWSER[..], &requests, &[("Accept-Encoding", "gzip")], &[]]
        .map(|headers| server.ask("GET", chunk, headers));
    let codings = answers.each_ref().map(|answer| answer.header("content-encoding"));
    assert_eq!(codings, [Some("deflate"), Some("gzip"), Some("gzip"), None]);
    assert!(answers.iter().all(|answer| plain(answer) == plain(&answers[0])));
    let etags = answers.each_ref().map(Answer::etag);
    assert!(etags[0] != etags[1] && etags[1] == etags[2] && etags[2] != etags[3] && etags[0] != etags[3]);
    let again = server.ask("GET", chunk, &[("If-None-Match", etags[3])]);
    assert_eq!((again.status, again.header("vary")), (304, Some("Accept-Encoding, User-Agent")));
    assert_eq!(server.ask("GET", chunk, &[("If-None-Match", etags[0])]).status, 200);
    let head = server.ask("HEAD", chunk, &BROWSER);
    let undated = |answer: &Answer| -> Vec<_> {
        let lasting = |name: &str| !["date", "server-timing", "x-request-id"].contains(&name);
        answer.headers.iter().filter(|(name, _)| lasting(name)).cloned().collect()
    };
    assert_eq!((undated(&head), head.body.len()), (undated(&sent), 0));

    for headers in [&BROWSER[..], &requests, &[]] {
        for token in ["gz", "plain"] {
            compare(&server, &format!("{token}/raw"), 0, headers, &boxed(move |z, y, x| [value(z, y, x)]));
        }
        compare(&server, "shuffled/raw", 0, headers, &boxed(|z, y, x| (noise(z, y, x) as u16).to_le_bytes()));
    }
}

#[test]
fn every_type_of_voxel_is_served_in_one_that_the_format_has() {
    let images = ["u8", "i8", "u16", "i16", "u32", "i32", "u64", "f32", "bool"];
    let mut text = images.map(|token| dataset(token, "", "kind = \"image\"")).concat();
    let of_labels = ["lu8", "lu16", "lu32", "lu64", "li8", "li16", "li32", "li64", "lbool"];
    text += &of_labels.map(|token| dataset(token, "", "kind = \"labels\"")).concat();
    text += &["i64", "f64"].map(|token| dataset(token, "", "kind = \"image\"")).concat();
    let place = Place::with(&text);
    let shape = [19, 35, 41];
    // Runs of eight, as labels have them.
    let value = |z, y, x: usize| noise(z, y, x / 8).cast_signed() - (1 << 42);
    macro_rules! write_types {
        ($($type:ty, $image:literal, $labels:literal;)*) => { $(
            for token in [$image, $labels] {
                write(&place.path(&format!("{token}.h5")), shape, Some([16, 16, 16]), 3, |z, y, x| value(z, y, x) as $type);
            }
        )* };
    }
    write_types! {
        u8, "u8", "lu8"; i8, "i8", "li8"; u16, "u16", "lu16"; i16, "i16", "li16"; u32, "u32", "lu32"; i32, "i32", "li32";
        u64, "u64", "lu64"; i64, "i64", "li64";
    }
    for token in ["bool", "lbool"] {
        write(&place.path(&format!("{token}.h5")), shape, Some([16, 16, 16]), 3, |z, y, x| {
            value(z, y, x) % 2 == 0
        });
    }
    write(&place.path("f32.h5"), shape, None, 0, |z, y, x| value(z, y, x) as f32);
    write(&place.path("f64.h5"), shape, None, 0, |z, y, x| value(z, y, x) as f64);
    let server = place.serve::<&str>([]);

    let info = |token: &str| {
        let info = server.json(&format!("/neuroglancer/{token}/raw/info"));
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        (text(&info["type"]), text(&info["data_type"]), text(&info["scales"][0]["encoding"]))
    };
    let named =
        |kind: &str, dtype: &str, encoding: &str| (kind.to_owned(), dtype.to_owned(), encoding.to_owned());
    macro_rules! compare_types {
        ($($token:literal, $kind:literal, $dtype:literal, $encoding:literal, $bytes:expr;)*) => { $(
            assert_eq!(info($token), named($kind, $dtype, $encoding), "{}", $token);
            compare(&server, concat!($token, "/raw"), 0, &BROWSER, &boxed($bytes));
        )* };
    }
    compare_types! {
        "u8", "image", "uint8", "raw", |z, y, x| [value(z, y, x) as u8];
        "i8", "image", "int8", "raw", |z, y, x| [value(z, y, x) as u8];
        "u16", "image", "uint16", "raw", |z, y, x| (value(z, y, x) as u16).to_le_bytes();
        "i16", "image", "int16", "raw", |z, y, x| (value(z, y, x) as i16).to_le_bytes();
        "u32", "image", "uint32", "raw", |z, y, x| (value(z, y, x) as u32).to_le_bytes();
        "i32", "image", "int32", "raw", |z, y, x| (value(z, y, x) as i32).to_le_bytes();
        "u64", "image", "uint64", "raw", |z, y, x| value(z, y, x).to_le_bytes();
        "f32", "image", "float32", "raw", |z, y, x| (value(z, y, x) as f32).to_le_bytes();
        "bool", "image", "uint8", "raw", |z, y, x| [u8::from(value(z, y, x) % 2 == 0)];
        "lbool", "segmentation", "uint8", "raw", |z, y, x| [u8::from(value(z, y, x) % 2 == 0)];
        "lu8", "segmentation", "uint8", "raw", |z, y, x| [value(z, y, x) as u8];
        "lu16", "segmentation", "uint16", "raw", |z, y, x| (value(z, y, x) as u16).to_le_bytes();
        "lu32", "segmentation", "uint32", "compressed_segmentation", |z, y, x| (value(z, y, x) as u32).to_le_bytes();
        "lu64", "segmentation", "uint64", "compressed_segmentation", |z, y, x| value(z, y, x).to_le_bytes();
        "li8", "segmentation", "uint64", "compressed_segmentation", |z, y, x| i64::from(value(z, y, x) as i8).to_le_bytes();
        "li16", "segmentation", "uint64", "compressed_segmentation", |z, y, x| i64::from(value(z, y, x) as i16).to_le_bytes();
        "li32", "segmentation", "uint64", "compressed_segmentation", |z, y, x| i64::from(value(z, y, x) as i32).to_le_bytes();
        "li64", "segmentation", "uint64", "compressed_segmentation", |z, y, x| value(z, y, x).to_le_bytes();
    }

    let datasets = server.json("/datasets.json");
    for (token, dtype) in [("i64", "int64"), ("f64", "float64")] {
        let refused = server.get(&format!("/neuroglancer/{token}/raw/info"));
        assert_eq!(refused.status, 404);
        assert!(refused.problem().contains(dtype), "{}", refused.problem());
        let all = datasets["datasets"].as_array().unwrap();
        let described = all.iter().find(|dataset| dataset["token"] == token).unwrap();
        assert!(described["channels"][0]["left_out"]["neuroglancer"].as_str().unwrap().contains(dtype));
    }
    let served =
        datasets["datasets"].as_array().unwrap().iter().find(|dataset| dataset["token"] == "u8").unwrap();
    assert_eq!(served["channels"][0]["left_out"], json!({}));
}

#[test]
fn both_byte_orders_and_half_floats_are_served_little_endian() {
    let channels: [(&str, &str, &str); 6] = [
        ("types_big", "u16", "uint16"),
        ("types_big", "i32", "int32"),
        ("types_big", "u64", "uint64"),
        ("floats", "f16_big", "float32"),
        ("floats", "f16_contiguous", "float32"),
        ("floats", "f32_big", "float32"),
    ];
    let place = Place::new();
    let mut text = String::new();
    for token in ["types_big", "floats"] {
        text += &format!("[datasets.{token}]\nfile = {:?}\n", fixture(&format!("{token}.h5")));
        for (_, name, _) in channels.iter().filter(|(of, ..)| *of == token) {
            text += &format!("[datasets.{token}.channels.{name}]\npath = \"/{name}\"\nkind = \"image\"\n");
        }
    }
    place.write("voltile.toml", &text);
    let server = place.serve::<&str>([]);
    for (token, name, dtype) in channels {
        let volume = format!("{token}/{name}");
        let info = server.json(&format!("/neuroglancer/{volume}/info"));
        assert_eq!(info["data_type"], dtype, "{volume}");
        let stored = hdf5::File::open(fixture(&format!("{token}.h5"))).unwrap().dataset(name).unwrap();
        macro_rules! check {
            ($type:ty) => {{
                // The HDF5 library converts to the type that is read.
                let data = stored.read_dyn::<$type>().unwrap();
                compare(&server, &volume, 0, &BROWSER, &boxed(|z, y, x| data[[z, y, x]].to_le_bytes()));
            }};
        }
        match dtype {
            "uint16" => check!(u16),
            "int32" => check!(i32),
            "uint64" => check!(u64),
            _ => check!(f32),
        }
    }
}

#[test]
fn derived_levels_offsets_and_times_are_served() {
    let mut text =
        dataset("wide", "voxel_size = [4.5, 4.5, 40]\noffset = [7, -70, 13]\nscaling = \"isotropic\"", "");
    text += &dataset("series", "", "axes = \"tzyx\"");
    text += &dataset("rgb", "", "axes = \"zyxc\"\nkind = \"rgb\"");
    let place = Place::with(&text);
    let value = |z, y, x| noise(z, y, x) as u8;
    let (depth, rows, columns) = (9, 301, 1201);
    write(&place.path("wide.h5"), [depth, rows, columns], Some([8, 64, 64]), 1, value);
    let put = |name: &str, data: &ArrayD<u8>| {
        let file = hdf5::File::create(place.path(name)).unwrap();
        file.new_dataset_builder().with_data(data).create("raw").unwrap();
        file.close().unwrap();
    };
    put(
        "series.h5",
        &ArrayD::from_shape_fn(IxDyn(&[3, 5, 20, 30]), |at| value(at[0] * 100 + at[1], at[2], at[3])),
    );
    put(
        "rgb.h5",
        &ArrayD::from_shape_fn(IxDyn(&[5, 20, 30, 3]), |at| value(at[0] + 50 * at[3], at[1], at[2])),
    );
    let server = place.serve::<&str>([]);

    let info = server.json("/neuroglancer/wide/raw/info");
    let of = |key: &str| {
        info["scales"].as_array().unwrap().iter().map(|scale| scale[key].clone()).collect::<Vec<_>>()
    };
    assert_eq!(of("size"), [json!([1201, 301, 9]), json!([601, 151, 5]), json!([301, 76, 3])]);
    assert_eq!(
        of("resolution"),
        [json!([4.5, 4.5, 40.0]), json!([9.0, 9.0, 80.0]), json!([18.0, 18.0, 160.0])]
    );
    assert_eq!(of("voxel_offset"), [json!([7, -70, 13]), json!([3, -35, 6]), json!([1, -18, 3])]);
    assert_eq!(of("key"), ["0", "1", "2"]);
    for level in 0..3 {
        let factor = 1 << level;
        let mean = move |z: usize, y: usize, x: usize| {
            let along = |at: usize, extent: usize| at * factor..((at + 1) * factor).min(extent);
            let (mut sum, mut count) = (0, 0);
            for k in along(z, depth) {
                for j in along(y, rows) {
                    for i in along(x, columns) {
                        (sum, count) = (sum + u64::from(value(k, j, i)), count + 1);
                    }
                }
            }
            [((2 * sum + count) / (2 * count)) as u8]
        };
        compare(&server, "wide/raw", level, &BROWSER, &boxed(mean));
    }
    assert_eq!(server.get("/neuroglancer/wide/raw/3/0-64_0-64_0-9").status, 404);

    for (volume, time) in [("series/raw", 0), ("series/raw@0", 0), ("series/raw@2", 2), ("series/raw%402", 2)]
    {
        compare(&server, volume, 0, &[], &boxed(move |z, y, x| [value(time * 100 + z, y, x)]));
    }
    assert!(server.get("/neuroglancer/series/raw@3/info").problem().contains("3 time points"));
    assert_eq!(server.get("/neuroglancer/series/raw@3/0/0-30_0-20_0-5").status, 404);

    assert_eq!(server.json("/neuroglancer/rgb/raw/info")["num_channels"], 3);
    let rgb =
        |first, end| [0, 1, 2].map(|c| boxed(move |z, y, x| [value(z + 50 * c, y, x)])(first, end)).concat();
    compare(&server, "rgb/raw", 0, &BROWSER, &rgb);
}

#[test]
fn chunks_that_were_never_written_are_fill_and_those_off_the_grid_are_not_there() {
    let place = Place::with(&(dataset("sparse", "", "") + &dataset("shuffled", "", "")));
    let file = hdf5::File::create(place.path("sparse.h5")).unwrap();
    let builder = file.new_dataset_builder().empty::<u8>().shape([64, 64, 64]).chunk([32, 32, 32]).deflate(1);
    let raw = builder.fill_value(7u8).create("raw").unwrap();
    let part = Array3::from_shape_fn((32, 32, 32), |(z, y, x)| noise(z, y, x) as u8);
    raw.write_slice(&part, ndarray::s![0..32, 32..64, 0..32]).unwrap();
    drop(raw);
    file.close().unwrap();
    write(&place.path("shuffled.h5"), [40, 40, 40], None, 0, |z, y, x| noise(z, y, x) as u8);
    let server = place.serve::<&str>([]);
    let expected = boxed(|z, y, x| match (z, y, x) {
        (0..32, 32..64, 0..32) => [noise(z, y - 32, x) as u8],
        _ => [7],
    });
    assert_eq!(compare(&server, "sparse/raw", 0, &BROWSER, &expected), vec![Some("deflate".to_owned()); 8]);
    compare(&server, "sparse/raw", 0, &[], &expected);

    let renders = server.renders();
    for (name, reason) in [
        ("0-32_0-32_0-31", "this is not a chunk"),
        ("1-33_0-32_0-32", "32 × 32 × 32"),
        ("0-64_0-64_0-64", "this is not a chunk"),
        ("64-96_0-32_0-32", "this is not a chunk"),
        ("-32-0_0-32_0-32", "this is not a chunk"),
        ("0-512_0-512_0-1", "this is not a chunk"),
        ("9223372036854775776-9223372036854775807_0-32_0-32", "this is not a chunk"),
        ("-9223372036854775808-9223372036854775807_0-32_0-32", "this is not a chunk"),
        ("0-32_0-32", "x0-x1_y0-y1_z0-z1"),
        ("0-32_0-32_0-32.gz", "x0-x1_y0-y1_z0-z1"),
        ("0-99999999999999999999_0-32_0-32", "x0-x1_y0-y1_z0-z1"),
    ] {
        let answer = server.get(&format!("/neuroglancer/sparse/raw/0/{name}"));
        assert_eq!(answer.status, 404, "{name}");
        assert!(answer.problem().contains(reason), "{name}: {}", answer.problem());
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
        assert!(answer.problem().contains(reason), "{path}: {}", answer.problem());
    }
    assert_eq!(server.renders(), renders);
}

#[test]
fn a_chunk_off_the_grid_is_refused_even_if_the_file_is_gone() {
    let place = Place::with(&dataset("gz", "", ""));
    write(&place.path("gz.h5"), [64, 64, 64], Some([32, 32, 32]), 1, |z, y, x| noise(z, y, x) as u8);
    let server = place.serve::<&str>([]);
    std::fs::remove_file(place.path("gz.h5")).unwrap();
    assert_eq!(server.get("/neuroglancer/gz/raw/0/0-32_0-32_0-33").status, 404);
    wait_until("the server sees that the file is gone", || {
        server.get("/neuroglancer/gz/raw/0/0-32_0-32_0-32").status == 500
    });
    assert_eq!(server.get("/neuroglancer/gz/raw/0/0-32_0-32_0-33").status, 404);
}

#[test]
fn levels_and_shapes_that_need_too_many_voxels_are_not_listed() {
    let place = Place::with(&dataset("wide", "", ""));
    write(&place.path("wide.h5"), [64, 600, 1200], None, 0, |z, y, x| noise(z, y, x) as u8);
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
    // Lists of one length: a shape that needs too many voxels at one level, or comes first there, is listed at none.
    let (sections, beyond) = of("1048576");
    assert_eq!((levels(&sections), beyond.status), (vec![3, 3, 3], 404));
    assert!(beyond.problem().contains("512 × 512 × 1"), "{}", beyond.problem());
    let (fewer, beyond) = of("262144");
    assert_eq!((levels(&fewer).len(), beyond.status), (1, 404));
    assert!(beyond.problem().contains("the levels in its info file are 0"), "{}", beyond.problem());
    let (none, _) = of("1000");
    assert!(none.problem().contains("max_voxels_per_box"), "{}", none.problem());
}

#[test]
fn inspect_says_which_levels_are_passed_through_and_why_others_are_not() {
    let place = Place::new();
    let shape = [64, 64, 64];
    write(&place.path("gz.h5"), shape, Some([32, 32, 32]), 1, |z, y, x| noise(z, y, x) as u8);
    write(&place.path("thin.h5"), shape, Some([1, 64, 64]), 1, |z, y, x| noise(z, y, x) as u8);
    write(&place.path("flat.h5"), shape, None, 0, |z, y, x| noise(z, y, x) as u8);
    for (file, reason) in
        [("gz.h5", None), ("thin.h5", Some("64 × 64 × 1")), ("flat.h5", Some("not stored in chunks"))]
    {
        let text = place.run(["inspect", file]).out;
        let said: Value = serde_json::from_str(&place.run(["inspect", file, "--json"]).out).unwrap();
        let level = &said["channels"][0]["levels"][0]["neuroglancer"];
        assert_eq!(level["passed_through"], reason.is_none(), "{file}");
        match reason {
            None => assert!(
                text.contains("sent to Neuroglancer as stored") && text.contains("sent to Zarr as stored"),
                "{text}"
            ),
            Some(reason) => {
                assert!(text.contains("encoded for Neuroglancer: "), "{text}");
                assert!(level["problem"].as_str().unwrap().contains(reason), "{level}");
            }
        }
    }
}

#[test]
fn what_pyramid_rechunks_is_passed_through_at_all_levels() {
    let place = Place::new();
    write(&place.path("thin.h5"), [70, 150, 130], Some([1, 150, 130]), 1, |z, y, x| noise(z, y, x) as u16);
    let made = place.run(["pyramid", "thin.h5", "--rechunk", "cubes.h5"]);
    assert_eq!(made.code, 0, "{}", made.err);
    let said: Value = serde_json::from_str(&place.run(["inspect", "cubes.h5", "--json"]).out).unwrap();
    let levels = said["channels"][0]["levels"].as_array().unwrap();
    assert!(levels.iter().filter(|level| !level["path"].is_null()).count() > 1);
    for level in levels {
        assert_eq!(level["neuroglancer"]["passed_through"], true, "{level}");
    }
    assert_eq!(levels[0]["zarr"]["passed_through"], true, "chunks of less than 1 KiB are not");
}

/// Opens a file that was just written: until another story's new process has replaced its image, that may hold the lock.
fn opened(path: &Path) -> hdf5::File {
    let mut tries =
        (0..50).map(|_| hdf5::File::open(path).inspect_err(|_| sleep(Duration::from_millis(100))));
    tries.find_map(Result::ok).unwrap()
}

#[test]
fn a_damaged_chunk_is_an_error_of_its_own_box_only() {
    let place = Place::with(&dataset("labels", "", "kind = \"labels\""));
    write(&place.path("labels.h5"), [32, 32, 64], Some([32, 32, 32]), 1, noise);
    let stored = opened(&place.path("labels.h5")).dataset("raw").unwrap();
    let infos: Vec<_> = (0..2).map(|number| stored.chunk_info(number).unwrap()).collect();
    let damaged = infos.into_iter().find(|info| info.offset[2] == 32).unwrap();
    drop(stored);
    volumes::invert(&place.path("labels.h5"), &(damaged.addr + 100..damaged.addr + 400));
    let server = place.serve::<&str>([]);
    server.expect_error("a tile could not be rendered");
    assert_eq!(server.get("/neuroglancer/labels/raw/0/0-32_0-32_0-32").status, 200);
    let answer = server.get("/neuroglancer/labels/raw/0/32-64_0-32_0-32");
    assert_eq!(answer.status, 500);
    assert!(!answer.problem().contains("labels.h5"));
}
