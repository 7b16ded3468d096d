//! `voltile verify`: a good server passes, and for each check a server that violates it fails by name.
//!
//! The bad servers are a good one behind a [`proxy`] that changes one thing.

mod proxy;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Mutex;

use crate::common::{NOBODY, Outcome, Place, Server, fixture, made};
use proxy::{Change, Message, Proxy};
use serde_json::Value;

/// A server of `em`: two by two tiles, two levels; and of `cube`, which is large enough for CATMAID's zy plane.
fn served(place: &Place, more: &str) -> Server {
    made::file(&place.path("em.h5"), |file| {
        let voxel = |at: &ndarray::IxDyn| 1 + ((at[0] * 31 + at[1] * 7 + at[2] * 3) % 250) as u8;
        made::put(
            file,
            "raw",
            &ndarray::ArrayD::from_shape_fn(ndarray::IxDyn(&[4, 600, 700]), |at| voxel(&at)),
        );
    });
    made::file(&place.path("cube.h5"), |file| drop(made::put(file, "raw", &made::cube([70, 80, 90]))));
    place.write(
        "voltile.toml",
        &format!(
            "[[server.mounts]]\ntile_service = \"ndtilecache\"\ncontent_type = \"image/png\"\n\
             [datasets.em]\nfile = \"em.h5\"\noffset = [0, 0, 1]\nvoxel_size = [4, 4, 40]\n{more}\n\
             [datasets.cube]\nfile = \"cube.h5\"\n"
        ),
    );
    place.serve::<&str>([])
}

fn verify(place: &Place, address: SocketAddr, more: &[&str]) -> Outcome {
    let url = format!("http://{address}");
    place.run([&["verify", url.as_str()], more].concat())
}

/// The failed checks, as `viewer check`, and all reasons in one text.
fn failed(outcome: &Outcome) -> (BTreeSet<String>, String) {
    let report: Value = serde_json::from_str(&outcome.out).unwrap();
    let findings =
        report["findings"].as_array().unwrap().iter().filter(|finding| finding["outcome"] == "fail");
    let named = |finding: &Value| {
        format!("{} {}", finding["viewer"].as_str().unwrap_or("any"), finding["check"].as_str().unwrap())
    };
    let reasons: Vec<&str> = findings.clone().map(|finding| finding["reason"].as_str().unwrap()).collect();
    (findings.map(named).collect(), reasons.join("\n"))
}

const AS_IT_IS: fn(&mut Message) = |_| ();

/// Changes requests or answers of a server; exactly the expected checks must fail, for that reason.
fn assert_caught(
    expected: &[&str],
    because: &str,
    request: fn(&mut Message),
    answer: fn(&Message, &mut Message),
) {
    let place = Place::new();
    let server = served(&place, "");
    let proxy = Proxy::start(&server, Change { request, answer });
    let outcome = verify(&place, proxy.address, &["--json"]);
    let (failed, reasons) = failed(&outcome);
    assert_eq!(outcome.code, 1, "{}", outcome.out);
    assert_eq!(failed, expected.iter().map(|name| (*name).to_owned()).collect(), "{reasons}");
    assert!(reasons.contains(because), "{reasons}");
}

#[test]
fn a_good_server_passes_directly_and_behind_a_proxy() {
    let place = Place::new();
    let server = served(&place, "");
    let outcome = verify(&place, server.address, &[]);
    assert_eq!(outcome.code, 0, "{}", outcome.out);
    assert!(outcome.out.trim_end().ends_with("passed, 0 passed with a note, 0 failed"), "{}", outcome.out);
    let proxy = Proxy::start(&server, Change { request: AS_IT_IS, answer: |_, _| () });
    assert_eq!(verify(&place, proxy.address, &[]).out.lines().count(), outcome.out.lines().count());
}

#[test]
fn servers_of_all_kinds_of_volumes_pass() {
    let place = Place::new();
    let files =
        ["series.h5", "rgb.h5", "labels.h5", "levels.h5", "voxels.h5", "tall.h5", "floats.h5"].map(fixture);
    let server = place.serve(files);
    let outcome = verify(&place, server.address, &[]);
    assert_eq!(outcome.code, 0, "{}", outcome.out);
    assert!(
        outcome.out.contains("note  catmaid") && outcome.out.contains("content_type = \"image/png\""),
        "{}",
        outcome.out
    );
}

#[test]
fn one_viewer_and_one_dataset_can_be_selected() {
    let place = Place::new();
    let server = served(&place, "[datasets.other]\nfile = \"em.h5\"\n");
    let outcome = verify(&place, server.address, &["--viewer", "viking", "--token", "other", "--json"]);
    let report: Value = serde_json::from_str(&outcome.out).unwrap();
    let findings = report["findings"].as_array().unwrap();
    assert_eq!((outcome.code, findings.len()), (0, 3));
    assert!(
        findings[1..]
            .iter()
            .all(|f| f["viewer"] == "viking" && f["subject"].as_str().unwrap().contains("other"))
    );
    let unknown = verify(&place, server.address, &["--token", "nothing"]);
    assert_eq!(unknown.code, 1);
    assert!(unknown.out.contains("there is no dataset \"nothing\""), "{}", unknown.out);
}

#[test]
fn an_address_without_a_server_fails() {
    let place = Place::new();
    let outcome = verify(&place, NOBODY.parse().unwrap(), &[]);
    assert_eq!(outcome.code, 1);
    assert!(outcome.out.contains("FAIL") && outcome.out.contains("no answer"), "{}", outcome.out);
    let wrong = place.run(["verify", "ftp://127.0.0.1"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.err.contains("expected http://, https:// or unix:"), "{}", wrong.err);
}

#[test]
fn descriptions_must_exist_and_be_readable() {
    assert_caught(&["any descriptions"], "the status is 404", AS_IT_IS, |request, answer| {
        if request.path() == "/datasets.json" {
            answer.set_status(404);
        }
    });
    assert_caught(&["any descriptions"], "it cannot be parsed", AS_IT_IS, |request, answer| {
        if request.path() == "/datasets.json" {
            answer.set_body("[]");
        }
    });
}

#[test]
fn catmaids_importer_must_be_able_to_read_the_project_file() {
    assert_caught(&["catmaid projects"], "Content-Type", AS_IT_IS, |request, answer| {
        if request.path() == "/projects.json" {
            answer.set("content-type", "text/plain");
        }
    });
    assert_caught(&["catmaid projects"], "missing field `dimension`", AS_IT_IS, |request, answer| {
        if request.path() == "/projects.json" {
            answer.replace("\"dimension\"", "\"size\"");
        }
    });
    assert_caught(&["catmaid projects"], "not three numbers", AS_IT_IS, |request, answer| {
        if request.path() == "/projects.json" {
            answer.replace("\"(4, 4, 40)\"", "\"4 × 4 × 40\"");
        }
    });
}

#[test]
fn catmaids_importer_must_find_the_first_tile() {
    assert_caught(
        &["catmaid importer"],
        "/xy/0/0_0_0.png: the status is 404",
        AS_IT_IS,
        |request, answer| {
            // No other check requests the slice before the first.
            if request.path().ends_with("/0/0_0_0.png") {
                answer.set_status(404);
            }
        },
    );
}

#[test]
fn catmaids_canary_must_ignore_a_query_string() {
    assert_caught(&["catmaid canary"], "nocache", AS_IT_IS, |request, answer| {
        if request.path().contains("nocache") {
            answer.set_status(400);
        }
    });
}

#[test]
fn other_origins_must_be_allowed() {
    let expected = [
        "catmaid chunks",
        "catmaid cors",
        "catmaid preflight",
        "neuroglancer info",
        "openseadragon caching",
        "zarr metadata",
    ];
    assert_caught(&expected, "there is no Access-Control-Allow-Origin", AS_IT_IS, |_, answer| {
        answer.drop_header("access-control-allow-origin");
    });
    assert_caught(&expected, "https://elsewhere.example", AS_IT_IS, |_, answer| {
        answer.set("access-control-allow-origin", "https://elsewhere.example");
    });
}

#[test]
fn a_tile_must_have_the_content_type_of_an_image() {
    assert_caught(&["catmaid cors"], "text/html, not an image", AS_IT_IS, |request, answer| {
        if request.is_tile() {
            answer.set("content-type", "text/html");
        }
    });
}

#[test]
fn head_must_have_the_headers_of_get() {
    assert_caught(
        &["catmaid head", "zarr chunks"],
        "HEAD says Content-Length missing",
        AS_IT_IS,
        |request, answer| {
            if request.method() == "HEAD" {
                answer.drop_header("content-length");
            }
        },
    );
    assert_caught(&["catmaid head", "zarr chunks"], "the status is 405", AS_IT_IS, |request, answer| {
        if request.method() == "HEAD" {
            answer.set_status(405);
        }
    });
}

#[test]
fn a_preflight_must_be_answered() {
    assert_caught(&["catmaid preflight"], "the response to OPTIONS is 405", AS_IT_IS, |request, answer| {
        if request.method() == "OPTIONS" {
            answer.set_status(405);
        }
    });
    assert_caught(&["catmaid preflight"], "does not allow GET", AS_IT_IS, |_, answer| {
        answer.drop_header("access-control-allow-methods");
    });
    assert_caught(&["catmaid preflight"], "does not allow headers", AS_IT_IS, |_, answer| {
        answer.drop_header("access-control-allow-headers");
    });
}

#[test]
fn tiles_beyond_the_volume_must_be_served() {
    let place = Place::new();
    let server = served(&place, "out_of_bounds = \"not_found\"\n");
    let (failed, reasons) = failed(&verify(&place, server.address, &["--json"]));
    assert!(failed.contains("catmaid edges") && reasons.contains("out_of_bounds"), "{reasons}");
    // The slice before the first is outside too.
    assert_eq!(failed.into_iter().collect::<Vec<_>>(), ["catmaid edges", "catmaid importer"]);
}

#[test]
fn an_overview_must_be_small() {
    assert_caught(
        &["catmaid overview"],
        "512 × 512",
        |request| {
            request.first = request.first.replace("small.png", "0_0_0.png");
        },
        |_, _| (),
    );
}

#[test]
fn without_an_overview_catmaid_still_works() {
    let place = Place::new();
    let server = served(&place, "");
    let answer = |request: &Message, answer: &mut Message| {
        if request.path().ends_with("small.png") {
            answer.set_status(404);
        }
    };
    let proxy = Proxy::start(&server, Change { request: AS_IT_IS, answer });
    let outcome = verify(&place, proxy.address, &[]);
    assert_eq!(outcome.code, 0, "{}", outcome.out);
    assert!(outcome.out.contains("CATMAID draws a grid instead"), "{}", outcome.out);
}

#[test]
fn viking_must_get_the_content_length_of_every_answer() {
    assert_caught(&["viking tiles"], "there is no Content-Length", AS_IT_IS, |request, answer| {
        if request.is_viking_tile() {
            answer.drop_header("content-length");
        }
    });
    assert_caught(&["viking tiles"], "encoded as br", AS_IT_IS, |request, answer| {
        if request.is_viking_tile() {
            answer.set("content-encoding", "br");
        }
    });
}

#[test]
fn vikings_double_slashes_and_leading_zeros_must_be_accepted() {
    assert_caught(&["viking tiles"], "viking//em", AS_IT_IS, |request, answer| {
        if request.path().contains("//") {
            answer.set_status(404);
        }
    });
    assert_caught(
        &["viking tiles"],
        "/000/X001_Y001_Z003.png: the status is 404",
        AS_IT_IS,
        |request, answer| {
            if request.path().contains("X001") {
                answer.set_status(404);
            }
        },
    );
}

#[test]
fn viking_must_get_the_requested_tile() {
    assert_caught(
        &["viking tiles"],
        "it shows something different",
        |request| {
            request.first = request.first.replace("X001_Y001_Z003", "X001_Y001_Z004");
        },
        |_, _| (),
    );
}

#[test]
fn vikings_volume_file_must_be_complete() {
    // As ndtilecache wrote it: Viking does not request the tiles along two edges.
    assert_caught(
        &["viking volume"],
        "the grid of raw is 1 × 2 tiles; 2 × 2 would cover it",
        AS_IT_IS,
        |request, answer| {
            if request.path().ends_with("em/volume.vikingxml") {
                answer.replace("GridXDim=\"2\"", "GridXDim=\"1\"");
            }
        },
    );
    assert_caught(
        &["viking volume"],
        "the element OCPTileServer has no MaxLevel",
        AS_IT_IS,
        |request, answer| {
            if request.path().ends_with("em/volume.vikingxml") {
                answer.replace("MaxLevel", "Levels");
            }
        },
    );
    assert_caught(&["viking volume"], "it is not XML", AS_IT_IS, |request, answer| {
        if request.path().ends_with("em/volume.vikingxml") {
            answer.set_body("<Volume>");
        }
    });
}

#[test]
fn every_level_of_the_pyramid_must_exist() {
    assert_caught(
        &["catmaid edges", "openseadragon pyramid", "viking tiles"],
        "_1.png: the status is 500",
        AS_IT_IS,
        |request, answer| {
            if request.path().ends_with("_1.png") {
                answer.set_status(500);
            }
        },
    );
}

/// A PNG of one grey value.
fn png(edge: u32, value: u8) -> Vec<u8> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    image::GrayImage::from_pixel(edge, edge, image::Luma([value]))
        .write_to(&mut bytes, image::ImageFormat::Png)
        .unwrap();
    bytes.into_inner()
}

#[test]
fn tiles_at_the_edge_must_be_complete_and_black_beyond_the_volume() {
    let expected = ["openseadragon pyramid"];
    assert_caught(&expected, "lies beyond the volume and is not black", AS_IT_IS, |request, answer| {
        if request.path().contains("/yz/") && answer.get("etag").is_some() && request.method() == "GET" {
            answer.set_body(png(512, 9));
        }
    });
    assert_caught(&expected, "the tile is 188 × 188", AS_IT_IS, |request, answer| {
        if request.path().contains("/yz/") && request.path().contains("_1_0.png") {
            answer.set_body(png(188, 9));
        }
    });
    assert_caught(&expected, "are not a PNG", AS_IT_IS, |request, answer| {
        if request.path().contains("/yz/") {
            let half = answer.body.len() / 2;
            answer.set_body(answer.body[..half].to_vec());
        }
    });
}

#[test]
fn chunks_must_be_complete_readable_by_their_clients_and_on_the_grid() {
    assert_caught(
        &["catmaid chunks", "neuroglancer chunks", "neuroglancer python"],
        "is 404",
        AS_IT_IS,
        |request, answer| {
            if request.path().contains("/raw/0/0-64_0-64_") {
                answer.set_status(404);
            }
        },
    );
    assert_caught(&["neuroglancer python"], "cloud-volume fails", AS_IT_IS, |request, answer| {
        if request.path().contains("/neuroglancer/em/raw/0/")
            && answer.get("content-encoding") == Some("gzip")
        {
            let is_python = request.get("user-agent").is_some_and(|name| name.starts_with("python-requests"));
            if is_python {
                answer.set("content-encoding", "deflate");
            }
        }
    });
    assert_caught(&["neuroglancer grid"], "it is not a chunk of the grid", AS_IT_IS, |request, answer| {
        if request.path().contains("/neuroglancer/em/raw/0/701-702") {
            answer.set_status(200);
        }
    });
    assert_caught(&["catmaid chunks", "neuroglancer info"], "its @type is", AS_IT_IS, |request, answer| {
        if request.path().ends_with("/info") {
            answer.replace("neuroglancer_multiscale_volume", "neuroglancer_multilod_draco");
        }
    });
}

#[test]
fn zarr_arrays_must_be_described_and_their_chunks_whole() {
    assert_caught(
        &["zarr metadata"],
        "the consolidated metadata lacks level 0",
        AS_IT_IS,
        |request, answer| {
            if request.path().ends_with("em.ome.zarr/.zmetadata") {
                answer.replace("0/.zarray", "9/.zarray");
            }
        },
    );
    assert_caught(&["zarr metadata"], "do not all know such an array", AS_IT_IS, |request, answer| {
        if request.path().ends_with("0.5/em.ome.zarr/0/zarr.json") {
            answer.replace("zstd", "lzma");
        }
    });
    assert_caught(&["zarr chunks"], "it cannot be decoded", AS_IT_IS, |request, answer| {
        if request.path().contains("0.5/em.ome.zarr/0/c/") && answer.get("etag").is_some() {
            let half = answer.body.len() / 2;
            answer.set_body(answer.body[..half].to_vec());
        }
    });
    assert_caught(&["zarr chunks"], "it lies beyond the array", AS_IT_IS, |request, answer| {
        if request.path().contains("em.ome.zarr/0/") && answer.status() == "404" {
            answer.set_status(200);
        }
    });
}

#[test]
fn browsers_must_be_able_to_cache_tiles() {
    assert_caught(&["openseadragon caching"], "there is no ETag", AS_IT_IS, |_, answer| {
        answer.drop_header("etag");
    });
    assert_caught(&["openseadragon caching"], "there is no Cache-Control", AS_IT_IS, |_, answer| {
        answer.drop_header("cache-control");
    });
    assert_caught(
        &["openseadragon caching"],
        "gets status 200, not 304",
        |request| request.drop_header("if-none-match"),
        |_, _| (),
    );
}

#[test]
fn the_requests_are_those_of_the_viewers() {
    static ASKED: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let place = Place::new();
    let server = served(&place, "");
    let answer = |request: &Message, _: &mut Message| {
        ASKED.lock().unwrap().push(format!("{} {}", request.method(), request.path()));
    };
    let proxy = Proxy::start(&server, Change { request: AS_IT_IS, answer });
    assert_eq!(verify(&place, proxy.address, &[]).code, 0);
    let asked = ASKED.lock().unwrap().clone();
    for wanted in [
        "GET /projects.json",
        "GET /ndtilecache/tilecache/em/raw/xy/0/0_0_0.png",
        "GET /ndtilecache/tilecache/em/raw/xy/3/0_0_0.png?nocache=1234567890123",
        "HEAD /ndtilecache/tilecache/em/raw/xy/3/0_0_0.png",
        "OPTIONS /ndtilecache/tilecache/em/raw/xy/3/0_0_0.png",
        "GET /ndtilecache/tilecache/em/raw/xy/3/1_2_0.png",
        "GET /ndtilecache/tilecache/em/raw/xy/3/small.png",
        "GET /ndtilecache/tilecache/viking//em/volume/raw/000/X001_Y001_Z003.png",
        "GET /ndtilecache/tilecache/viking/em/volume/raw/001/X000_Y000_Z003.png",
        "GET /ndtilecache/tilecache/em/raw/yz/350/0_1_0.png",
        "GET /ndtilecache/tilecache/em/raw/xz/150/0_0_1.png",
    ] {
        assert!(asked.iter().any(|line| line == wanted), "{wanted} was not requested: {asked:#?}");
    }
}
