//! Answers other than tiles: errors that explain themselves, and the pages and descriptions for
//! people and programs.

use std::net::TcpStream;

use crate::common::{MOUNT, Place, Server, fixture};
use serde_json::Value;

/// Images and labels over time, a volume without time that answers 404 beyond its extent, and a
/// sparse one.
fn served(place: &Place) -> Server {
    let [series, wide, sparse] = ["series.h5", "wide.h5", "sparse.h5"].map(fixture);
    place.write(
        "voltile.toml",
        &format!(
            "[datasets.series]\nfile = {series:?}\n[datasets.series.channels]\n\
             first = {{ path = \"/data\", axes = \"tczyx\" }}\n\
             ids = {{ path = \"/ids\", axes = \"tzyx\", kind = \"labels\" }}\n\
             [datasets.wide]\nfile = {wide:?}\nout_of_bounds = \"not_found\"\n\
             [datasets.wide.channels.raw]\npath = \"/raw\"\naxes = \"zyx\"\n\
             [datasets.sparse]\nfile = {sparse:?}\n[datasets.sparse.channels.raw]\npath = \"/raw\"\naxes = \"zyx\"\n"
        ),
    );
    place.serve::<&str>([])
}

#[test]
fn a_404_names_what_is_wrong_and_what_exists() {
    let place = Place::new();
    let server = served(&place);
    for (path, words) in [
        (
            "nothing/raw/xy/0/0_0_0.png",
            &["nothing", "series", "wide"][..],
        ),
        ("wide/nothing/xy/0/0_0_0.png", &["nothing", "raw"]),
        ("wide/raw/zy/0/0_0_0.png", &["zy", "xy, xz or yz"]),
        ("wide/raw/xy/0/0_0_40.png", &["level", "40", "0 to 10"]),
        ("wide/raw/xy/0/0_0_64.png", &["level", "64"]),
        ("wide/raw/xy/x/0_0_0.png", &["slice", "\"x\"", "digits"]),
        ("wide/raw/xy/-1/0_0_0.png", &["slice", "-1"]),
        (
            "wide/raw/xy/0/0_0.png",
            &["0_0.png", "ROW_COLUMN_LEVEL.png"],
        ),
        ("wide/raw/xy/0/0_0_0.jpg", &["0_0_0.jpg", ".png"]),
        (
            "wide/raw/xy/0",
            &["too few segments", "ROW_COLUMN_LEVEL.png"],
        ),
        ("wide/raw/xy/1/0/0_0_0.png", &["time", "raw"]),
        ("series/first/xy/3/0/0_0_0.png", &["3 time points", "no 3"]),
        ("wide/raw/xy/99/0_0_0.png", &["outside", "wide"]),
        (
            "sparse/raw/xy/1/0_0_9.png",
            &["level 9", "voltile pyramid", "max_voxels_per_tile"],
        ),
        ("wide/raw:R/xy/0/0_0_0.png", &["raw:R", "letters"]),
        ("wide/%FF/xy/0/0_0_0.png", &["%FF", "UTF-8"]),
        (
            "mcfc/series/first,ids/xy/0/0_0_0.png",
            &["ids", "labels", "composited"],
        ),
        (
            "mcfc/series/first:K/xy/0/0_0_0.png",
            &["first:K", "C, M, Y, R, G, B"],
        ),
        (
            "mcfc/series/a,b,c,d,e,f,g/xy/0/0_0_0.png",
            &["7 channels", "six"],
        ),
        ("viking/wide/image/raw/0/X0_Y0_Z0.png", &["image", "volume"]),
        (
            "viking/wide/volume/raw/0/0_0_0.png",
            &["0_0_0.png", "XCOLUMN_YROW_ZSLICE.png"],
        ),
    ] {
        let answer = server.tile(path);
        let detail = answer.problem();
        assert_eq!(answer.status, 404, "{path}: {detail}");
        words
            .iter()
            .for_each(|word| assert!(detail.contains(word), "{path}: {word} is not in {detail:?}"));
        assert_eq!(
            server.ask("HEAD", &format!("{MOUNT}/{path}"), &[]).status,
            404,
            "{path}"
        );
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
    }
    assert_eq!(server.renders(), 0);
}

#[test]
fn unknown_paths_are_404s_that_point_to_the_tiles() {
    let place = Place::new();
    let server = served(&place);
    for path in [
        "/nothing",
        "/ndtilecache",
        "/ndtilecache/other/wide/raw/xy/0/0_0_0.png",
        "/favicon.ico",
    ] {
        let answer = server.get(path);
        assert_eq!(answer.status, 404);
        assert!(
            answer.problem().contains("/ndtilecache/tilecache/"),
            "{path}"
        );
    }
}

#[test]
fn the_simple_page_shows_every_channel_and_its_pictures_exist() {
    let place = Place::new();
    let server = served(&place);
    let answer = server.get("/simple");
    assert_eq!(
        answer.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    let page = answer.text();
    let sources = server.pictures();
    assert_eq!(
        sources.len(),
        4 * 3,
        "each channel in each plane: {sources:?}"
    );
    for source in sources {
        assert_eq!(server.get(&source).status, 200, "{source}");
    }
    assert!(!page.contains("fixtures"), "the page reveals no directory");
}

#[test]
fn datasets_json_describes_the_datasets() {
    let place = Place::new();
    let datasets = served(&place).json("/datasets.json");
    let tokens: Vec<_> = datasets["datasets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|dataset| &dataset["token"])
        .collect();
    assert_eq!(tokens, ["series", "sparse", "wide"]);
    let first = &datasets["datasets"][0]["channels"][0];
    assert_eq!(
        (&first["name"], &first["kind"], &first["times"]),
        (&"first".into(), &"image".into(), &3.into())
    );
    let wide = &datasets["datasets"][2]["channels"][0];
    assert_eq!(
        (&wide["times"], &wide["dtype"]),
        (&Value::Null, &"uint8".into())
    );
    let numbers: Vec<_> = wide["levels"]
        .as_array()
        .unwrap()
        .iter()
        .map(|level| &level["level"])
        .collect();
    assert_eq!(
        numbers,
        [0, 1],
        "levels are advertised up to the first that fits one tile"
    );
    assert!(
        !datasets.to_string().contains("fixtures"),
        "it reveals no directory"
    );
}

#[test]
fn health_and_metrics_are_served() {
    let place = Place::new();
    let server = served(&place);
    assert_eq!(
        (server.get("/healthz").status, server.get("/healthz").text()),
        (200, "ok\n".to_owned())
    );
    server.tile("wide/raw/xy/0/0_0_0.png");
    server.tile("wide/raw/xy/0/0_0_0.png");
    let metrics = server.metrics();
    assert_eq!(
        (
            metrics["voltile_renders_total"],
            metrics["voltile_tile_cache_hits_total"]
        ),
        (1, 1)
    );
    assert!(
        metrics["voltile_tile_cache_bytes"] > 0 && metrics["voltile_chunk_reads_total"] > 0,
        "{metrics:?}"
    );
}

#[test]
fn addresses_printed_at_start_can_be_opened() {
    let place = Place::new();
    let server = served(&place);
    let printed = server.printed();
    let host = format!("http://{}", server.address);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[0], format!("voltile listening on {host}"));
    assert_eq!(lines[1], format!("page {host}/"));
    let tiles: Vec<&str> = lines[2..]
        .iter()
        .map(|line| line.strip_prefix("tile ").unwrap())
        .collect();
    assert_eq!(tiles.len(), 3, "one per dataset");
    for tile in tiles {
        let picture = server.get(tile.strip_prefix(&host).unwrap()).picture();
        assert!(
            tile.contains("sparse") || picture.pixels.iter().any(|value| *value > 0),
            "{tile} is black"
        );
    }
}

#[test]
fn a_port_in_use_is_an_error_that_names_it() {
    let place = Place::new();
    let server = served(&place);
    let outcome = place.run(["serve", "--bind", &server.address.to_string()]);
    assert_eq!((outcome.code, outcome.out.as_str()), (1, ""));
    assert!(
        outcome.err.contains(&server.address.to_string()),
        "{}",
        outcome.err
    );
    assert_eq!(
        outcome.err.matches("Address already in use").count(),
        1,
        "{}",
        outcome.err
    );
    assert!(
        outcome.err.contains("--bind"),
        "it says what to do: {}",
        outcome.err
    );
    TcpStream::connect(server.address).expect("the first server still listens");
}
