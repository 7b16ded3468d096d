//! Missing data, and what people are told about data: virtual datasets whose sources are not there,
//! NaN and declared fill.

use hdf5::Selection;
use image::{ColorType, DynamicImage};
use ndarray::{Array3, ArrayD, IxDyn, s};
use serde_json::{Value, json};

use crate::common::{Place, Server, made};

const DEPTH: usize = 4;
const EDGE: usize = 40;

fn frames(first: usize) -> Array3<u16> {
    Array3::from_shape_fn((DEPTH, EDGE, EDGE), |(z, y, x)| {
        (1000 + 10 * (first + z) + y + x) as u16
    })
}

/// `brain.h5`: the first four sections are in `a.h5`, the others in a file that does not exist,
/// whose fill value is 9.
fn half_a_brain(place: &Place) {
    made::file(&place.path("a.h5"), |file| {
        made::put(file, "data", &frames(0).into_dyn());
    });
    made::file(&place.path("brain.h5"), |file| {
        let (part, whole) = ((DEPTH, EDGE, EDGE), (2 * DEPTH, EDGE, EDGE));
        let data = file
            .new_dataset_builder()
            .empty::<u16>()
            .shape(whole)
            .fill_value(9_u16);
        let data = data.virtual_map("a.h5", "data", part, .., whole, (0..DEPTH, .., ..));
        let data = data.virtual_map(
            "gone.h5",
            "data",
            part,
            ..,
            whole,
            (DEPTH..2 * DEPTH, .., ..),
        );
        data.create("raw").unwrap();
    });
}

fn picture(server: &Server, path: &str) -> DynamicImage {
    let answer = server.get(path);
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    image::load_from_memory(&answer.body).unwrap()
}

/// The opacity of a pixel; 255 in a picture without alpha.
fn alpha(picture: &DynamicImage, x: u32, y: u32) -> u8 {
    picture.to_rgba8().get_pixel(x, y).0[3]
}

fn pixel(picture: &DynamicImage, x: u32, y: u32) -> [u8; 4] {
    picture.to_rgba8().get_pixel(x, y).0
}

fn view(server: &Server, token: &str, rest: &str) -> DynamicImage {
    picture(server, &format!("/view/{token}/{rest}.png"))
}

#[test]
fn voxels_without_a_source_are_missing_and_not_zero() {
    let place = Place::new();
    half_a_brain(&place);
    let server = place.serve(["brain.h5"]);
    let simple = picture(&server, "/ndtilecache/tilecache/brain/raw/xy/5/0_0_0.png");
    assert_eq!(simple.color(), ColorType::L8);
    assert!(
        simple.as_bytes().iter().all(|shade| *shade == 0),
        "simple tiles stay black"
    );
    for layer in [
        "raw:1000:1100:1:grey",
        "raw:1000:1100:1:inverted",
        "raw:1000:1100:2:fire",
    ] {
        let lost = view(&server, "brain", &format!("{layer}/xy/5/0_0_0"));
        assert!(lost.color().has_alpha(), "{layer}");
        assert_eq!(
            (alpha(&lost, 3, 3), alpha(&lost, 39, 39)),
            (0, 0),
            "{layer}"
        );
        assert_eq!(
            pixel(&lost, 40, 3),
            [0, 0, 0, 255],
            "{layer}: outside of the volume is black"
        );
        let there = view(&server, "brain", &format!("{layer}/xy/3/0_0_0"));
        assert!(!there.color().has_alpha(), "{layer}: nothing is missing");
        let across = view(&server, "brain", &format!("{layer}/xz/7/0_0_0"));
        assert_eq!(
            (alpha(&across, 3, 3), alpha(&across, 3, 4)),
            (255, 0),
            "{layer}"
        );
        let coarse = view(&server, "brain", &format!("{layer}/xz/3/0_0_1"));
        assert_eq!(
            (alpha(&coarse, 3, 3), alpha(&coarse, 3, 4)),
            (255, 0),
            "{layer}, level 1"
        );
    }
    let small = picture(&server, "/ndtilecache/tilecache/brain/raw/xy/5/small.png");
    assert_eq!((small.color(), alpha(&small, 3, 3)), (ColorType::La8, 0));
    let range = |slice: usize| {
        server.json(&format!(
            "/view/brain/raw/range.json?plane=xy&slice={slice}&level=0&box=0,0,40,40"
        ))
    };
    assert_eq!(
        (&range(5)["voxels"], &range(5)["low"]),
        (&json!(0), &Value::Null)
    );
    assert_eq!(
        (&range(1)["voxels"], &range(1)["min"]),
        (&json!(1600), &json!(1010.0))
    );
    let described = server.json("/datasets/brain.json");
    let channel = &described["channels"][0];
    assert!(
        channel["window"][0].as_f64().unwrap() >= 1000.0,
        "{}",
        channel["window"]
    );
    let counts = channel["histogram"]["counts"].as_array().unwrap();
    let counted: u64 = counts.iter().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(counted as usize, DEPTH * EDGE * EDGE);
    let voxels = server.get("/voxels/brain/raw/0/0-2_0-1_4-5.raw").body;
    assert_eq!(voxels, [9, 0, 9, 0], "boxes hold what h5py reads");
}

#[test]
fn every_second_section_can_be_missing() {
    let place = Place::new();
    made::file(&place.path("even.h5"), |file| {
        made::put(file, "data", &frames(0).into_dyn());
    });
    made::file(&place.path("woven.h5"), |file| {
        let (part, whole) = ((DEPTH, EDGE, EDGE), (2 * DEPTH, EDGE, EDGE));
        let data = file.new_dataset_builder().empty::<u16>().shape(whole);
        let data = data.virtual_map(
            "even.h5",
            "data",
            part,
            ..,
            whole,
            Selection::try_from(s![0..8;2, .., ..]).unwrap(),
        );
        let data = data.virtual_map(
            "odd.h5",
            "data",
            part,
            ..,
            whole,
            Selection::try_from(s![1..8;2, .., ..]).unwrap(),
        );
        data.create("raw").unwrap();
    });
    let server = place.serve(["woven.h5"]);
    let across = view(&server, "woven", "raw:1000:1100:1:grey/xz/7/0_0_0");
    let rows: Vec<u8> = (0..8).map(|row| alpha(&across, 3, row)).collect();
    assert_eq!(rows, [255, 0, 255, 0, 255, 0, 255, 0]);
}

#[test]
fn what_is_missing_is_told_once_and_everywhere() {
    let place = Place::new();
    half_a_brain(&place);
    let server = place.serve(["brain.h5"]);
    server.wait_for_log("datasets.brain.channels.raw: /raw is incomplete: sources are missing");
    let listed = &server.json("/datasets.json")["datasets"][0];
    assert_eq!(listed["noticed"], json!({"errors": 1, "warnings": 0}));
    assert_eq!(
        server.json("/readyz")["noticed"],
        json!({"errors": 1, "warnings": 0})
    );
    let notices = server.json("/datasets/brain.json")["notices"].clone();
    assert_eq!(
        notices,
        server.json("/datasets/brain/about.json")["notices"]
    );
    let [notice] = notices.as_array().unwrap().as_slice() else {
        panic!("{notices}")
    };
    assert_eq!(
        (&notice["severity"], &notice["about"]),
        (&json!("error"), &json!("raw"))
    );
    let text = notice["text"].as_str().unwrap();
    assert!(
        text.ends_with(": gone.h5"),
        "the file is named without its folder: {text}"
    );
    let folder = place.path("");
    assert!(
        !notices.to_string().contains(folder.to_str().unwrap()),
        "{notices}"
    );
    let zarr = server.json("/zarr/0.4/brain.ome.zarr/.zattrs");
    assert_eq!(zarr["voltile"]["notices"], notices);
    let inspected = place.run(["inspect", "brain.h5"]);
    assert!(
        inspected.out.contains(&format!("error      raw: {text}")),
        "{}",
        inspected.out
    );
    let json: Value =
        serde_json::from_str(&place.run(["inspect", "--json", "brain.h5"]).out).unwrap();
    assert_eq!(json["notices"], notices);
    let checked = place.run(["check", "brain.h5"]);
    assert!(
        checked.code == 1 && checked.err.contains(text),
        "{}",
        checked.err
    );
}

#[test]
fn nan_and_declared_fill_are_transparent_and_add_nothing() {
    let place = Place::new();
    let (lost, fill) = (3, 5);
    made::file(&place.path("em.h5"), |file| {
        let whole = ArrayD::from_shape_fn(IxDyn(&[2, EDGE, EDGE]), |at| (at[1] + at[2]) as f32);
        let mut floats = whole.clone();
        floats[[0, lost, lost]] = f32::NAN;
        floats[[0, fill, fill]] = f32::NAN;
        made::put(file, "floats", &floats);
        let mut words = whole.mapv(|value| value as u16);
        words[[0, fill, fill]] = 65535;
        made::put(file, "words", &words);
    });
    place.write(
        "voltile.toml",
        "[datasets.em]\nfile = \"em.h5\"\n[datasets.em.channels.words]\nmissing = [65535]\n",
    );
    let server = place.serve::<&str>([]);
    let (lost, fill) = (lost as u32, fill as u32);
    for map in ["grey", "inverted", "viridis", "R"] {
        let floats = view(&server, "em", &format!("floats:0:80:1:{map}/xy/0/0_0_0"));
        assert_eq!(
            (alpha(&floats, lost, lost), alpha(&floats, lost + 1, lost)),
            (0, 255),
            "{map}"
        );
        let words = view(&server, "em", &format!("words:0:80:1:{map}/xy/0/0_0_0"));
        assert_eq!(
            (alpha(&words, lost, lost), alpha(&words, fill, fill)),
            (255, 0),
            "{map}"
        );
        let next = view(&server, "em", &format!("floats:0:80:1:{map}/xy/1/0_0_0"));
        assert!(!next.color().has_alpha(), "{map}: no pixel is missing");
        // The mean of what is left of a box; NaN that is not declared is not left out.
        let coarse = view(&server, "em", &format!("words:0:80:1:{map}/xy/0/0_0_1"));
        assert!(!coarse.color().has_alpha(), "{map}: no box is empty");
    }
    let both = view(
        &server,
        "em",
        "floats:0:80:1:inverted,words:0:80:1:green/xy/0/0_0_0",
    );
    assert_eq!(
        pixel(&both, lost, lost),
        [0, 19, 0, 255],
        "what is missing adds nothing"
    );
    assert_eq!(alpha(&both, fill, fill), 0, "it is missing in both");
    let simple = picture(&server, "/ndtilecache/tilecache/em/floats/xy/0/0_0_0.png");
    assert_eq!(
        (simple.color(), pixel(&simple, lost, lost)),
        (ColorType::L8, [0, 0, 0, 255])
    );
    let small = picture(&server, "/ndtilecache/tilecache/em/floats/xy/0/small.png");
    assert_eq!((alpha(&small, lost, lost), alpha(&small, 0, 0)), (0, 255));
}
