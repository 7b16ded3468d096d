//! HTTP: the headers that viewers rely on, conditional requests, origins, methods, and unusual
//! targets.
//!
//! The server's metrics show whether it rendered anything.

use crate::common::picture::Picture;
use crate::common::wire::Answer;
use crate::common::{MOUNT, Place, Server, fixture, made};
use ndarray::ArrayD;

/// A tile of [`served`] that must be rendered.
const TILE: &str = "/ndtilecache/tilecache/wide/raw/xy/0/0_0_0.png";

/// `wide.h5` and `series.h5` under two mounts; `server` is added to its section.
fn configuration(server: &str) -> String {
    let [wide, series] = ["wide.h5", "series.h5"].map(fixture);
    format!(
        "[server]\n{server}\n[[server.mounts]]\ntile_service = \"ndtilecache\"\n\
         [[server.mounts]]\ntile_service = \"catmaid\"\ncontent_type = \"image/png\"\n\
         [datasets.wide]\nfile = {wide:?}\n[datasets.series]\nfile = {series:?}\n\
         [datasets.series.channels]\n\
         first = {{ path = \"/data\", axes = \"tczyx\", window = \"full\" }}\n\
         second = {{ path = \"/data\", axes = \"tczyx\", index = {{ c = 1 }}, window = \"full\" }}\n"
    )
}

fn served(place: &Place) -> Server {
    place.write("voltile.toml", &configuration(""));
    place.serve::<&str>([])
}

fn with(server: &Server, name: &str, value: &str) -> Answer {
    server.ask("GET", TILE, &[(name, value)])
}

/// The headers that are the same for each request, sorted.
fn lasting(answer: &Answer) -> Vec<(String, String)> {
    let is_lasting = |name: &str| !["date", "server-timing", "x-request-id"].contains(&name);
    let mut headers: Vec<_> = answer
        .headers
        .iter()
        .filter(|(name, _)| is_lasting(name))
        .cloned()
        .collect();
    headers.sort();
    headers
}

#[test]
fn a_tile_has_the_headers_that_viewers_need_for_get_and_head() {
    let place = Place::new();
    let server = served(&place);
    let cold = server.ask("HEAD", TILE, &[]);
    let got = server.ask("GET", TILE, &[("Accept-Encoding", "gzip, deflate, br")]);
    let warm = server.ask("HEAD", TILE, &[]);
    assert_eq!((cold.status, got.status, warm.status), (200, 200, 200));
    assert_eq!(lasting(&cold), lasting(&got));
    assert_eq!(lasting(&warm), lasting(&got));
    assert!(cold.body.is_empty() && warm.body.is_empty());
    assert_eq!(got.header("content-type"), Some("application/png"));
    assert_eq!(
        got.header("content-length"),
        Some(got.body.len().to_string().as_str())
    );
    assert_eq!(got.header("cache-control"), Some("public, max-age=3600"));
    assert_eq!(got.header("content-encoding"), None);
    assert!(
        got.etag().starts_with('"') && got.etag().ends_with('"') && got.etag().len() > 10,
        "{}",
        got.etag()
    );
    assert_eq!(server.renders(), 1);
}

#[test]
fn black_tiles_have_the_same_headers() {
    let place = Place::new();
    let server = served(&place);
    let outside = format!("{MOUNT}/wide/raw/xy/999/7_7_0.png");
    let (got, head) = (server.get(&outside), server.ask("HEAD", &outside, &[]));
    assert!(got.picture().pixels.iter().all(|value| *value == 0));
    assert_eq!(lasting(&got), lasting(&head));
    let known = server.ask("GET", &outside, &[("If-None-Match", got.etag())]);
    assert_eq!((known.status, server.renders()), (304, 0));
}

#[test]
fn mounts_differ_in_content_type_and_share_tiles() {
    let place = Place::new();
    let server = served(&place);
    let (first, second) = (
        server.get(TILE),
        server.get(&TILE.replace("ndtilecache", "catmaid")),
    );
    assert_eq!(second.header("content-type"), Some("image/png"));
    assert_eq!(
        (first.header("etag"), &first.body),
        (second.header("etag"), &second.body)
    );
    assert_eq!(server.renders(), 1);
    let unknown = server.get(&TILE.replace("ndtilecache", "elsewhere"));
    let detail = unknown.problem();
    assert_eq!(unknown.status, 404);
    assert!(
        detail.contains("ndtilecache") && detail.contains("catmaid"),
        "{detail}"
    );
}

#[test]
fn cache_control_can_be_configured() {
    let place = Place::with(&configuration("cache_control = \"private, max-age=7\""));
    let server = place.serve::<&str>([]);
    assert_eq!(
        server.get(TILE).header("cache-control"),
        Some("private, max-age=7")
    );
}

#[test]
fn a_matching_etag_gets_304_and_nothing_is_rendered() {
    let place = Place::new();
    let etag = served(&place).get(TILE).etag().to_owned();
    let server = served(&place);
    let list = format!("\"another\", W/\"third\",{etag}");
    for tags in [&etag, &format!("W/{etag}"), &list, "*"] {
        for method in ["GET", "HEAD"] {
            let answer = server.ask(method, TILE, &[("If-None-Match", tags)]);
            assert_eq!((answer.status, answer.body.len()), (304, 0), "{tags}");
            assert_eq!(answer.etag(), etag, "{tags}");
            assert!(answer.header("cache-control").is_some(), "{tags}");
        }
    }
    let two = server.ask(
        "GET",
        TILE,
        &[("If-None-Match", "\"x\""), ("If-None-Match", &etag)],
    );
    assert_eq!((two.status, server.renders()), (304, 0));
    assert_eq!(with(&server, "If-None-Match", "\"another\"").status, 200);
    assert_eq!(
        with(&server, "If-None-Match", etag.trim_matches('"')).status,
        200
    );
    assert_eq!(
        (server.renders(), server.count("voltile_not_modified_total")),
        (1, 9)
    );
}

#[test]
fn all_origins_are_allowed_unless_some_are_configured() {
    let (place, strict) = (
        Place::new(),
        Place::with(&configuration(
            "cors_origins = [\"https://viewer.example\"]",
        )),
    );
    let (server, strict) = (served(&place), strict.serve::<&str>([]));
    for answer in [
        with(&server, "Origin", "https://any.example"),
        server.get(TILE),
        server.get(&TILE[1..2]),
    ] {
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
        let exposed = answer
            .header("access-control-expose-headers")
            .unwrap_or_default();
        assert!(
            exposed.contains("ETag") && exposed.contains("Content-Length"),
            "{exposed}"
        );
    }
    let known = with(&strict, "Origin", "https://viewer.example");
    assert_eq!(
        known.header("access-control-allow-origin"),
        Some("https://viewer.example")
    );
    for answer in [
        with(&strict, "Origin", "https://viewer.example.evil"),
        strict.get(TILE),
    ] {
        assert_eq!(
            (answer.status, answer.header("access-control-allow-origin")),
            (200, None)
        );
        assert_eq!(answer.header("vary"), Some("Origin"));
    }
}

#[test]
fn a_preflight_is_answered() {
    let place = Place::new();
    let server = served(&place);
    let asked = [
        ("Origin", "https://viewer.example"),
        ("Access-Control-Request-Method", "GET"),
        (
            "Access-Control-Request-Headers",
            "if-none-match, x-requested-with",
        ),
    ];
    let answer = server.ask("OPTIONS", TILE, &asked);
    assert!(matches!(answer.status, 200 | 204), "{answer:?}");
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    let headers = answer.header("access-control-allow-headers").unwrap();
    assert!(
        headers.contains("if-none-match") && headers.contains("x-requested-with"),
        "{headers}"
    );
    for name in ["access-control-allow-methods", "allow"] {
        let methods = answer.header(name).unwrap();
        assert!(
            ["GET", "HEAD", "OPTIONS"]
                .iter()
                .all(|method| methods.contains(method)),
            "{methods}"
        );
    }
    assert_eq!(server.renders(), 0);
}

#[test]
fn methods_other_than_get_head_and_options_are_405s() {
    let place = Place::new();
    let server = served(&place);
    for method in ["POST", "PUT", "DELETE", "PATCH", "TRACE", "BREW"] {
        let answer = server.ask(method, TILE, &[("Content-Length", "0")]);
        assert_eq!(
            (answer.status, answer.header("allow")),
            (405, Some("GET, HEAD, OPTIONS")),
            "{method}"
        );
        answer.problem();
    }
    assert_eq!(server.renders(), 0);
}

#[test]
fn equivalent_addresses_of_a_tile_are_rendered_once() {
    let place = Place::new();
    let server = served(&place);
    let expected = server.get(TILE);
    for target in [
        format!("{TILE}?nocache=1"),
        format!("{TILE}?nocache=2&x=/../%00"),
        format!("{TILE}?"),
        TILE.replace('/', "//"),
        TILE.replace("/raw", "///raw"),
        TILE.replace("/0/0_0_0", "/00/000_0_00"),
        TILE.replace("wide", "%77ide"),
        format!("{MOUNT}/viking/wide/volume/raw/0/X0_Y0_Z0.png"),
        format!("{MOUNT}//viking//wide/volume/raw/000/X000_Y000_Z000.png?a"),
    ] {
        let answer = server.get(&target);
        assert_eq!(
            (answer.status, answer.header("etag")),
            (200, expected.header("etag")),
            "{target}"
        );
        assert!(answer.body == expected.body, "{target}");
    }
    assert_eq!(
        (
            server.renders(),
            server.count("voltile_tile_cache_hits_total")
        ),
        (1, 9)
    );
}

#[test]
fn colons_and_commas_may_be_percent_encoded() {
    let place = Place::new();
    let server = served(&place);
    let target = |channels: &str| format!("{MOUNT}/mcfc/series/{channels}/xy/1/2/0_0_0.png");
    let expected = server.get(&target("first:R,second:G"));
    assert_eq!(expected.picture().mode, "RGB");
    for channels in [
        "first%3AR%2Csecond%3AG",
        "first%3aR,second%3aG",
        "first:R%2csecond:G",
    ] {
        assert!(
            server.get(&target(channels)).body == expected.body,
            "{channels}"
        );
    }
    assert_eq!(server.renders(), 1);
}

#[test]
fn requests_on_one_connection_are_answered_in_order() {
    let place = Place::new();
    let server = served(&place);
    let targets: Vec<String> = (0..3)
        .flat_map(|z| {
            [
                format!("{MOUNT}/wide/raw/xy/{z}/0_0_0.png"),
                format!("{MOUNT}/wide/raw/xy/{z}/0_0_x.png"),
                "/healthz".to_owned(),
            ]
        })
        .collect();
    let mut connection = server.connect();
    targets
        .iter()
        .for_each(|target| connection.send("GET", target, &[]));
    let answers: Vec<Answer> = targets
        .iter()
        .map(|_| connection.receive("GET").unwrap())
        .collect();
    for (target, answer) in targets.iter().zip(answers) {
        let alone = server.get(target);
        assert_eq!(
            (answer.status, &answer.body),
            (alone.status, &alone.body),
            "{target}"
        );
    }
    assert_eq!(
        connection.get(TILE).status,
        200,
        "the connection stays open"
    );
}

#[test]
fn large_tiles_arrive_complete_and_in_order_if_the_client_reads_late() {
    const SLICES: usize = 3;
    let mut random = fastrand::Rng::with_seed(7);
    let noise = ArrayD::from_shape_simple_fn(vec![SLICES, 512, 512], || random.u8(..));
    let place = Place::new();
    made::file(&place.path("noise.h5"), |file| {
        drop(made::put(file, "raw", &noise));
    });
    let server = place.serve(["noise.h5", "--set", "render.neighbours=0"]);
    let pictures: Vec<Picture> = (0..SLICES)
        .map(|z| Picture::of_plane(512, 512, |y, x| noise[[z, y, x]]))
        .collect();
    // Far more than both sockets buffer: the server has to wait in the middle of a body.
    let slices = || (0..48).map(|n| n % SLICES);
    let mut connection = server.connect();
    slices()
        .for_each(|z| connection.send("GET", &format!("{MOUNT}/noise/raw/xy/{z}/0_0_0.png"), &[]));
    for z in slices() {
        let answer = connection.receive("GET").unwrap();
        assert!(
            answer.body.len() > 200_000,
            "{} bytes are too few",
            answer.body.len()
        );
        assert_eq!(answer.picture(), pictures[z]);
    }
    let head = connection.ask("HEAD", &format!("{MOUNT}/noise/raw/xy/0/0_0_0.png"), &[]);
    assert!(head.body.is_empty() && head.header("content-length").is_some());
    assert_eq!(
        connection.get("/healthz").text(),
        "ok\n",
        "no part of a body is left on the connection"
    );
    assert_eq!(server.renders(), SLICES as u64);
}
