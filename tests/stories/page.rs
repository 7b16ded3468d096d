//! The files of the page as a browser gets them; `src/page/test` tests the page itself.
//!
//! The binary may have been built with or without the viewer.

use crate::common::wire::Answer;
use crate::common::{Place, fixture};
use libdeflater::Decompressor;

const GZIP: (&str, &str) = ("accept-encoding", "gzip, deflate, br");
const FILES: [(&str, &str); 4] = [
    ("/", "text/html; charset=utf-8"),
    ("/page.js", "text/javascript; charset=utf-8"),
    ("/page.css", "text/css; charset=utf-8"),
    ("/icon.svg", "image/svg+xml"),
];

fn unpacked(answer: &Answer, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    assert_eq!(
        Decompressor::new().gzip_decompress(&answer.body, &mut bytes),
        Ok(length)
    );
    bytes
}

#[test]
fn the_page_is_served_compressed_or_plain_and_confirmed_with_304() {
    let place = Place::new();
    let server = place.serve([fixture("series.h5")]);
    if !voltile::http::has_viewer() {
        let page = server.get("/").text();
        assert!(page.contains("built without its viewer"), "{page}");
        server.wait_for_log("built without its viewer");
        assert_eq!(server.get("/page.js").status, 404);
        return;
    }
    for (path, kind) in FILES {
        let plain = server.get(path);
        let packed = server.ask("GET", path, &[GZIP]);
        for answer in [&plain, &packed] {
            assert_eq!(
                (answer.status, answer.header("content-type")),
                (200, Some(kind)),
                "{path}"
            );
            assert_eq!(answer.header("vary"), Some("Accept-Encoding"), "{path}");
            let policy = answer.header("content-security-policy").unwrap();
            assert!(
                policy.starts_with("default-src 'none'") && !policy.contains("unsafe"),
                "{policy}"
            );
        }
        assert_eq!(
            (
                plain.header("content-encoding"),
                packed.header("content-encoding")
            ),
            (None, Some("gzip"))
        );
        assert_eq!(unpacked(&packed, plain.body.len()), plain.body, "{path}");
        assert_ne!(
            plain.header("etag"),
            packed.header("etag"),
            "{path}: the encodings have different ETags"
        );
        let etag = packed.header("etag").unwrap();
        assert_eq!(
            server
                .ask("GET", path, &[GZIP, ("if-none-match", etag)])
                .status,
            304,
            "{path}"
        );
    }
    let accepts = |codings| {
        server
            .ask("GET", "/", &[("accept-encoding", codings)])
            .header("content-encoding")
            .is_some()
    };
    for refused in [
        "gzip;q=0",
        "gzip; Q=0.0",
        "gzip;q=0, *",
        "*, GZIP;q=0",
        "*;q=0",
        "br",
        "",
    ] {
        assert!(!accepts(refused), "{refused:?}");
    }
    for accepted in [
        "*",
        "br, *;q=0.1",
        "x-gzip, gzip",
        "gzip;q=0.001, *;q=0",
        "*;q=0, gzip",
    ] {
        assert!(accepts(accepted), "{accepted:?}");
    }
}

#[test]
fn the_page_needs_no_other_host_and_nothing_inline() {
    let place = Place::new();
    let page = place.serve([fixture("series.h5")]).get("/").text();
    for foreign in ["http:", "https:", "//", " style=", "<script>"] {
        assert!(!page.contains(foreign), "{foreign} in {page}");
    }
}
