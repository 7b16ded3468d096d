//! Security headers and `Vary`, on every kind of answer.

use crate::common::wire::Answer;
use crate::common::{Place, Server, fixture};

const TILE: &str = "/ndtilecache/tilecache/wide/raw/xy/0/0_0_0.png";
const PAGES: [&str; 2] = ["/", "/simple"];

fn served(place: &Place, server: &str) -> Server {
    let wide = fixture("wide.h5");
    place.write(
        "voltile.toml",
        &format!("[server]\n{server}\n[datasets.wide]\nfile = {wide:?}\n"),
    );
    place.serve::<&str>([])
}

/// One answer of every kind except pages, with its target and expected status.
fn others(server: &Server) -> Vec<(&'static str, u16, Answer)> {
    let etag = server.get(TILE).etag().to_owned();
    let mut answers: Vec<_> = [
        ("GET", TILE, 200),
        (
            "GET",
            "/ndtilecache/tilecache/wide/raw/xy/999/0_0_0.png",
            200,
        ),
        ("GET", "/ndtilecache/tilecache/wide/raw/xy/0/small.png", 200),
        ("HEAD", TILE, 200),
        ("OPTIONS", TILE, 204),
        ("POST", TILE, 405),
        ("GET", "/nothing", 404),
        (
            "GET",
            "/ndtilecache/tilecache/wide/%3Cscript%3E/xy/0/0_0_0.png",
            404,
        ),
        ("GET", "/datasets.json", 200),
        ("GET", "/datasets/wide.json", 200),
        ("GET", "/projects.json", 200),
        ("GET", "/ndtilecache/wide/info/", 200),
        ("GET", "/ndtilecache/wide/volume.vikingxml", 200),
        ("GET", "/openapi.json", 200),
        ("GET", "/metrics", 200),
        ("GET", "/healthz", 200),
    ]
    .into_iter()
    .map(|(method, target, status)| (target, status, server.ask(method, target, &[])))
    .collect();
    answers.push((
        TILE,
        304,
        server.ask("GET", TILE, &[("If-None-Match", &etag)]),
    ));
    answers
}

#[test]
fn no_answer_is_sniffed_and_only_pages_may_load_or_run_anything() {
    let place = Place::new();
    let server = served(&place, "");
    for (target, status, answer) in others(&server) {
        assert_eq!(answer.status, status, "{target}");
        assert_eq!(
            answer.header("x-content-type-options"),
            Some("nosniff"),
            "{target}"
        );
        assert_eq!(
            answer.header("content-security-policy"),
            Some("default-src 'none'; sandbox"),
            "{target}"
        );
    }
}

#[test]
fn pages_may_load_from_this_server_and_run_nothing_inline() {
    let place = Place::new();
    let server = served(&place, "");
    for target in PAGES {
        let answer = server.get(target);
        assert_eq!(
            (answer.status, answer.header("x-content-type-options")),
            (200, Some("nosniff"))
        );
        let policy = answer.header("content-security-policy").unwrap();
        assert!(
            policy.starts_with("default-src 'none'; ") && !policy.contains("unsafe"),
            "{target}: {policy}"
        );
        // Only the simple page has a form that the browser sends: the field for a secret.
        let forms = if policy.contains("style-src 'sha256-") {
            "form-action 'self'"
        } else {
            "form-action 'none'"
        };
        for part in [
            "img-src 'self'",
            "base-uri 'none'",
            forms,
            "frame-ancestors 'self'",
        ] {
            assert!(policy.contains(part), "{target}: {part} is not in {policy}");
        }
    }
    let simple = server.get("/simple");
    let style = simple.header("content-security-policy").unwrap();
    assert!(
        style.contains("style-src 'sha256-") && !style.contains("script-src"),
        "{style}"
    );
    assert!(!simple.text().contains(" style=") && !simple.text().contains("<script"));
}

#[test]
fn vary_lists_the_headers_that_an_answer_depends_on() {
    let place = Place::new();
    let server = served(&place, "cors_origins = [\"https://viewer.example\"]");
    let vary = |target: &str| {
        let answer = server.ask("GET", target, &[("Origin", "https://viewer.example")]);
        assert_eq!(
            answer.header("access-control-allow-origin"),
            Some("https://viewer.example"),
            "{target}"
        );
        answer.header("vary").unwrap().to_owned()
    };
    assert_eq!(vary(TILE), "Origin");
    assert!(
        vary("/projects.json").starts_with("Host, ")
            && vary("/projects.json").ends_with(", Origin")
    );
    if voltile::http::has_viewer() {
        assert_eq!(vary("/"), "Accept-Encoding, Origin");
    }
    assert_eq!(
        served(&place, "").get(TILE).header("vary"),
        None,
        "all origins get the same answer"
    );
}
