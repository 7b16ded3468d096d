//! Malformed paths: the answer to any path is a tile or a 404 with a reason.
//!
//! Some paths are listed; many more are random sequences of nearly right segments. Only characters
//! that are valid in a request's target are sent.

use std::cell::RefCell;
use std::thread;

use crate::common::{MOUNT, Place, Server, fixture};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// The number of random paths, and of connections.
const PATHS: u32 = 10_000;
const CONNECTIONS: u32 = 2;
/// The characters that must be encoded in a target; a percent sign is sent as it is, even if it
/// encodes nothing.
const FORBIDDEN: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// A small volume, and one with time.
fn served(place: &Place) -> Server {
    let [pair, series] = ["pair_a.h5", "series.h5"].map(fixture);
    place.write(
        "voltile.toml",
        &format!(
            "[datasets.tok]\nfile = {pair:?}\n[datasets.tok.channels.a]\npath = \"/raw\"\n\
             [datasets.time]\nfile = {series:?}\n[datasets.time.channels.a]\npath = \"/data\"\naxes = \"tczyx\"\n"
        ),
    );
    place.serve::<&str>([])
}

const HUGE: &str = "18446744073709551615";

/// Paths with one error each.
const MALFORMED: &[&str] = &[
    "",
    "/",
    "tok",
    "tok/a",
    "tok/a/xy",
    "tok/a/xy/0",
    "tok/a/xy/0/",
    "tok/a/xy/0/0_0_0",
    "tok/a/xy/0/0_0_0.png/0",
    "tok/a/xy/0/0_0_0.png.png",
    "tok/a/xy/0/0_0_0.PNG",
    "tok/a/xy/0/0_0_0.jpg",
    "tok/a/xy/0/0_0_0%2Epng%00",
    "tok/a/xy/0/.png",
    "tok/a/xy/0/__.png",
    "tok/a/xy/0/0_0.png",
    "tok/a/xy/0/0_0_0_0.png",
    "tok/a/xy/0/-1_0_0.png",
    "tok/a/xy/0/0_+1_0.png",
    "tok/a/xy/0/0_0_0x0.png",
    "tok/a/xy/0/0_0_1e1.png",
    "tok/a/xy/0/0_0_63.png",
    "tok/a/xy/0/0_0_256.png",
    "tok/a/xy/0/0_0_18446744073709551616.png",
    "tok/a/xy/0/18446744073709551616_0_0.png",
    "tok/a/xy/99999999999999999999999/0_0_0.png",
    "tok/a/xy/-0/0_0_0.png",
    "tok/a/xy/0.0/0_0_0.png",
    "tok/a/xy/%D9%A3/0_0_0.png",
    "tok/a/xy/%EF%BC%91/0_0_0.png",
    "tok/a/xy/1/0/0_0_0.png",
    "tok/a/xy/0/0/0/0_0_0.png",
    "tok/a/xy/18446744073709551615/0/0_0_0.png",
    "tok/a/XY/0/0_0_0.png",
    "tok/a/yx/0/0_0_0.png",
    "tok/a/xyz/0/0_0_0.png",
    "tok/a/%20xy/0/0_0_0.png",
    "tok/a:R/xy/0/0_0_0.png",
    "tok/a,a/xy/0/0_0_0.png",
    "tok/%61%2C/xy/0/0_0_0.png",
    "TOK/a/xy/0/0_0_0.png",
    "tok/A/xy/0/0_0_0.png",
    "tok/a%00/xy/0/0_0_0.png",
    "tok/%FF%FE/xy/0/0_0_0.png",
    "tok/a%/xy/0/0_0_0.png",
    "tok/%2561/xy/0/0_0_0.png",
    "tok%2Fa/xy/0/0_0_0.png",
    "tok/a/xy/0/%2e%2e/0_0_0.png",
    "../tok/a/xy/0/0_0_0.png",
    "./tok/a/xy/0/0_0_0.png",
    "tok/../tok/a/xy/0/0_0_0.png",
    "tok/a/xy/0;x/0_0_0.png",
    "..%2f..%2f..%2fetc%2fpasswd",
    "../../../../etc/passwd",
    "mcfc",
    "mcfc/tok/xy/0/0_0_0.png",
    "mcfc/tok//xy/0/0_0_0.png",
    "mcfc/tok/:/xy/0/0_0_0.png",
    "mcfc/tok/a,/xy/0/0_0_0.png",
    "mcfc/tok/,a/xy/0/0_0_0.png",
    "mcfc/tok/a,,a/xy/0/0_0_0.png",
    "mcfc/tok/a:R:G/xy/0/0_0_0.png",
    "mcfc/tok/a::R/xy/0/0_0_0.png",
    "mcfc/tok/a:r/xy/0/0_0_0.png",
    "mcfc/tok/a:RG/xy/0/0_0_0.png",
    "mcfc/tok/a:W/xy/0/0_0_0.png",
    "mcfc/tok/a:R%20/xy/0/0_0_0.png",
    "mcfc/tok/a;a/xy/0/0_0_0.png",
    "mcfc/tok/a,a,a,a,a,a,a/xy/0/0_0_0.png",
    "mcfc/viking/tok/volume/a/0/X0_Y0_Z0.png",
    "viking",
    "viking/tok/volume/a/0/0_0_0.png",
    "viking/tok/Volume/a/0/X0_Y0_Z0.png",
    "viking/tok/a/0/X0_Y0_Z0.png",
    "viking/tok/volume/a/X0_Y0_Z0.png",
    "viking/tok/volume/a/0/0/X0_Y0_Z0.png",
    "viking/tok/volume/a/-1/X0_Y0_Z0.png",
    "viking/tok/volume/a/0/X0_Y0.png",
    "viking/tok/volume/a/0/Y0_X0_Z0.png",
    "viking/tok/volume/a/0/x0_y0_z0.png",
    "viking/tok/volume/a/0/X_Y_Z.png",
    "viking/tok/volume/a/0/X-1_Y0_Z0.png",
    "viking/tok/volume/a/0/X0_Y0_Z0_.png",
    "viking/tok/volume/a:R/0/X0_Y0_Z0.png",
    "viking/mcfc/tok/volume/a/0/X0_Y0_Z0.png",
];

#[test]
fn malformed_paths_are_404s() {
    let place = Place::new();
    let server = served(&place);
    let mut connection = server.connect();
    for path in MALFORMED {
        let answer = connection.get(&format!("{MOUNT}/{path}"));
        assert_eq!(answer.status, 404, "{path}: {answer:?}");
        assert!(
            !answer.problem().contains(env!("CARGO_MANIFEST_DIR")),
            "{path}: {}",
            answer.text()
        );
    }
    let seventh = format!(
        "{MOUNT}/mcfc/tok/{}/xy/0/0_0_0.png",
        ["a"; 10_000].join(",")
    );
    assert_eq!(connection.get(&seventh).status, 404);
    assert_eq!(server.renders(), 0);
}

#[test]
fn unusual_but_valid_paths_are_tiles() {
    let place = Place::new();
    let server = served(&place);
    let mut connection = server.connect();
    for path in [
        "tok/a/xy/0/0_0_0.png",
        "tok/a/xy/0/0/0_0_0.png",
        "tok/a/xy/00000000000000000000000000000/0_0_0.png",
        "tok/a/xy/0/0000_0000_0000.png",
        "%74%6f%6B/%61/%78y/%30/0%5F0_0%2epng",
        "/tok///a/xy//0/0_0_0.png//",
        &format!("tok/a/xy/{HUGE}/{HUGE}_{HUGE}_0.png"),
        &format!("tok/a/xz/{HUGE}/0_0_1.png"),
        "time/a/yz/1/0/0_0_0.png",
        "mcfc/tok/a:/xy/0/0_0_0.png",
        "mcfc/tok/a,a:R,a:,a,a:B,a/xy/0/0/0_0_0.png",
        "viking/tok/volume/a/0/X0_Y0_Z0.png",
        &format!("viking/time/volume/a/00/X{HUGE}_Y0_Z{HUGE}.png"),
    ] {
        let answer = connection.get(&format!("{MOUNT}/{path}"));
        assert_eq!(
            answer.status,
            200,
            "{path}: {}",
            String::from_utf8_lossy(&answer.body)
        );
        answer.picture();
    }
}

/// Segments that often form a tile path, or nearly one.
fn piece() -> impl Strategy<Value = String> {
    const KNOWN: [&str; 12] = [
        "tok",
        "time",
        "a",
        "mcfc",
        "viking",
        "volume",
        "xy",
        "xz",
        "yz",
        "a:R,a",
        "0_0_0.png",
        "X0_Y0_Z0.png",
    ];
    const ODD: [&str; 16] = [
        "..",
        ".",
        "%",
        "%2F",
        "%00",
        "%FF",
        "%zz",
        "",
        "-1",
        "+1",
        ":",
        ",",
        "?",
        "a:",
        "99999999999999999999",
        "&=;@!$'()*~",
    ];
    prop_oneof![
        6 => proptest::sample::select(&KNOWN[..]).prop_map(str::to_owned),
        2 => proptest::sample::select(&ODD[..]).prop_map(str::to_owned),
        2 => "[0-9]{1,21}",
        1 => "[0-9]{1,3}_[0-9]{1,3}_[0-9]{1,20}\\.png",
        1 => "\\PC{0,12}".prop_map(|text| utf8_percent_encode(&text, FORBIDDEN).to_string()),
    ]
}

/// Tile paths in which one segment is replaced, and random sequences of segments.
fn path() -> impl Strategy<Value = String> {
    const RIGHT: [&[&str]; 3] = [
        &["tok", "a", "xy", "0", "0_0_0.png"],
        &["mcfc", "time", "a:R,a", "xz", "1", "2", "0_0_1.png"],
        &["viking", "tok", "volume", "a", "0", "X0_Y0_Z0.png"],
    ];
    let nearly = (
        proptest::sample::select(&RIGHT[..]),
        any::<prop::sample::Index>(),
        piece(),
    )
        .prop_map(|(right, index, piece)| {
            let mut segments = right.to_vec();
            segments[index.index(right.len())] = &piece;
            segments.join("/")
        });
    let mixed = proptest::collection::vec(piece(), 0..9).prop_map(|pieces| pieces.join("/"));
    prop_oneof![nearly, mixed]
}

#[test]
fn any_path_is_a_tile_or_a_404() {
    let place = Place::new();
    let server = served(&place);
    let asked = || {
        let connection = RefCell::new(server.connect());
        let (tiles, mut runner) = (RefCell::new(0), TestRunner::new(config()));
        let ran = runner.run(&path(), |path| {
            let answer = connection.borrow_mut().get(&format!("{MOUNT}/{path}"));
            prop_assert!(matches!(answer.status, 200 | 404), "{path}: {answer:?}");
            *tiles.borrow_mut() += u32::from(answer.status == 200);
            Ok(())
        });
        ran.map_or_else(|e| panic!("{e}"), |()| tiles.into_inner())
    };
    let tiles: u32 = thread::scope(|scope| {
        let askers: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(asked)).collect();
        askers.into_iter().map(|asker| asker.join().unwrap()).sum()
    });
    assert!(
        tiles > PATHS / 50,
        "only {tiles} of {PATHS} paths were valid: too few to find much"
    );
    assert_eq!(server.get("/healthz").status, 200);
    assert_eq!(server.count("voltile_render_errors_total"), 0);
}

/// Each run has other paths; a failing one is printed in its smallest form.
fn config() -> Config {
    Config {
        cases: PATHS / CONNECTIONS,
        failure_persistence: None,
        ..Config::default()
    }
}
