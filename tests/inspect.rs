//! Stories of `voltile inspect`: what it says of a file is so, and the configuration it prints serves the same tiles.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a story that cannot go on has failed"
)]

mod common;

use std::path::Path;

use common::{Place, Server, fixture};
use serde_json::{Value, json};

/// Fixtures whose channels are told from the files alone, and how many there are at least.
const FILES: [(&str, usize); 10] = [
    ("axes.h5", 20),
    ("enums.h5", 4),
    ("filters.h5", 5),
    ("floats.h5", 6),
    ("labels.h5", 8),
    ("layouts.h5", 5),
    ("odd name (1) ü.h5", 1),
    ("rgb.h5", 3),
    ("series.h5", 3),
    ("types_big.h5", 8),
];

fn inspected(place: &Place, file: &Path) -> Value {
    let outcome = place.run(["inspect".as_ref(), file.as_os_str(), "--json".as_ref()]);
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    serde_json::from_str(&outcome.out).expect("it is JSON")
}

#[test]
fn a_file_is_described_for_programs() {
    let place = Place::new();
    let described = inspected(&place, &fixture("wide.h5"));
    assert_eq!(
        (&described["token"], &described["layouts"]),
        (
            &json!("wide"),
            &json!([{"layout": "plain", "because": "it is an HDF5 file of no layout that is known"}])
        )
    );
    let channel =
        described["channels"].as_array().unwrap().iter().find(|channel| channel["name"] == "raw").unwrap();
    assert_eq!(
        (&channel["kind"], &channel["dtype"], &channel["times"]),
        (&json!("image"), &json!("uint8"), &Value::Null)
    );
    let level = &channel["levels"][0];
    let size: Vec<u64> = level["size"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
    let shape: Vec<u64> =
        level["storage"]["shape"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
    assert_eq!(
        size.iter().rev().copied().collect::<Vec<_>>(),
        shape,
        "sizes are x, y, z; shapes are as stored"
    );
    assert_eq!((&level["path"], &level["factor"]), (&json!("/raw"), &json!([1, 1, 1])));
    assert!(level["voxels_read"].as_array().unwrap().iter().all(|read| read.as_u64().unwrap() > 0));
    assert_eq!(channel["levels"][1]["path"], Value::Null, "the second level is made");
}

#[test]
fn series_colours_and_filters_are_described() {
    let place = Place::new();
    let series = inspected(&place, &fixture("series.h5"));
    let times: Vec<_> =
        series["channels"].as_array().unwrap().iter().map(|channel| &channel["times"]).collect();
    assert_eq!(times[..2], [3, 3]);
    let filters = inspected(&place, &fixture("filters.h5")).to_string();
    let bad = inspected(&place, &fixture("bad/missing.h5"));
    assert!(filters.contains("fletcher32") && filters.contains("deflate"), "{filters}");
    let lacking =
        bad["channels"].as_array().unwrap().iter().find(|channel| channel["name"] == "filter").unwrap();
    assert!(lacking["levels"][0]["storage"]["missing_filters"].to_string().contains("32016"), "{lacking}");
}

#[test]
fn a_file_is_described_for_people() {
    let place = Place::new();
    let outcome = place.run(["inspect".as_ref(), fixture("series.h5").as_os_str()]);
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    let configuration = &inspected(&place, &fixture("series.h5"))["configuration"];
    assert!(outcome.out.contains(configuration.as_str().unwrap().trim()), "it ends with the configuration");
    for word in ["plain", "series", "times", "chunk", "/data", "xy, xz, yz", "labels", "image"] {
        assert!(outcome.out.contains(word), "{word} is not in:\n{}", outcome.out);
    }
}

/// The addresses of the pictures on a server's page: each channel in each plane.
fn pictures(server: &Server) -> Vec<String> {
    let page = server.get("/").text();
    page.split("src=\"").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

#[test]
fn the_configuration_it_prints_serves_the_same_pixels() {
    for (name, least) in FILES {
        let place = Place::new();
        let described = inspected(&place, &fixture(name));
        place.write("voltile.toml", described["configuration"].as_str().unwrap());
        let check = place.run(["check"]);
        assert_eq!(check.code, 0, "{name}: {}", check.err);
        let (by_itself, configured) = (place.serve([fixture(name)]), place.serve::<&str>([]));
        let pictures = pictures(&by_itself);
        assert!(pictures.len() >= 3 * least, "{name} has only {} pictures", pictures.len());
        let (mut one, mut other) = (by_itself.connect(), configured.connect());
        for path in pictures {
            let (one, other) = (one.get(&path), other.get(&path));
            assert_eq!((one.status, other.status), (200, 200), "{name}: {path}");
            assert!(one.body == other.body, "{name}: {path}");
        }
    }
}

#[test]
fn what_cannot_be_inspected_is_said_by_name() {
    let place = Place::new();
    for name in ["bad/empty.h5", "bad/text.h5", "bad/header_only.h5", "bad/no_volumes.h5", "bad/absent.h5"] {
        for json in [None, Some("--json")] {
            let mut command = place.voltile(["inspect".as_ref(), fixture(name).as_os_str()]);
            let outcome = common::outcome(command.args(json));
            assert_eq!((outcome.code, outcome.out.as_str()), (1, ""), "{name}");
            assert!(outcome.err.contains(name.trim_start_matches("bad/")), "{name}: {}", outcome.err);
        }
    }
}

#[test]
fn a_file_with_broken_parts_is_described_as_far_as_it_goes() {
    let place = Place::new();
    for name in ["bad/gzip.h5", "bad/cut_flat.h5", "bad/truncated.h5", "refused/refused_virtual.h5"] {
        let described = inspected(&place, &fixture(name));
        let good = described["channels"].as_array().unwrap().iter().any(|channel| channel["name"] == "good");
        assert!(good, "{name}: {described}");
    }
}
