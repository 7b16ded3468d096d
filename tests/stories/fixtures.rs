//! The checked-in volumes: every tile has the expected pixels, links out of a folder are refused,
//! and damage stays local.
//!
//! The expected digests are those of decoded pixels, from an independent implementation (see
//! `fixtures/README.md`).

use std::fmt::Write;
use std::fs;
use std::thread;

use crate::common::wire::{Answer, Connection};
use crate::common::{MOUNT, Place, Server, fixture, fixture_json};
use serde_json::Value;

/// The number of concurrent clients.
const CLIENTS: usize = 4;

/// Requests the tile of every entry; returns what is wrong.
pub fn wrongs(
    server: &Server,
    entries: &[Value],
    wrong: impl Fn(&Value, &Answer) -> Option<String> + Sync,
) -> Vec<String> {
    let client = |number: usize| {
        let mut connection = server.connect();
        let asked = entries.iter().skip(number).step_by(CLIENTS);
        asked
            .filter_map(|entry| checked(&mut connection, entry, &wrong))
            .collect::<Vec<_>>()
    };
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| scope.spawn(move || client(number)))
            .collect();
        clients
            .into_iter()
            .flat_map(|client| client.join().unwrap())
            .collect()
    })
}

fn checked(
    connection: &mut Connection,
    entry: &Value,
    wrong: impl Fn(&Value, &Answer) -> Option<String>,
) -> Option<String> {
    let url = text(entry, "url");
    let mount = if url.starts_with("/view/") { "" } else { MOUNT };
    let answer = connection.get(&format!("{mount}{url}"));
    wrong(entry, &answer).map(|problem| format!("{url}: {problem}"))
}

/// The difference between an answer and its entry, if there is one.
pub fn wrong_tile(entry: &Value, answer: &Answer) -> Option<String> {
    let status = entry["status"].as_u64().unwrap_or(200);
    if u64::from(answer.status) != status {
        return Some(format!(
            "{} instead of {status}: {}",
            answer.status,
            String::from_utf8_lossy(&answer.body)
        ));
    }
    if status != 200 {
        answer.problem();
        return None;
    }
    let picture = answer.picture();
    let (shown, expected) = (
        (picture.mode, picture.sha256()),
        (text(entry, "mode"), text(entry, "sha256")),
    );
    (shown != (expected.0, expected.1.to_owned()))
        .then(|| format!("{shown:?} instead of {expected:?}"))
}

fn text<'a>(entry: &'a Value, key: &str) -> &'a str {
    entry[key]
        .as_str()
        .unwrap_or_else(|| panic!("{entry} has no {key}"))
}

pub fn list(value: &Value) -> &[Value] {
    value.as_array().expect("it is a list")
}

fn of_fixtures(place: &Place, configuration: &str) -> Server {
    place.serve(["--config".as_ref(), fixture(configuration).as_os_str()])
}

#[test]
fn every_tile_of_the_fixtures_has_the_expected_pixels() {
    let expected = fixture_json("expected.json");
    let entries = list(&expected);
    assert!(entries.len() > 1800, "there are only {}", entries.len());
    let place = Place::new();
    let wrong = wrongs(&of_fixtures(&place, "voltile.toml"), entries, wrong_tile);
    let count = wrong.len();
    assert!(
        wrong.is_empty(),
        "{count} of {} tiles are wrong, among them {:#?}",
        entries.len(),
        &wrong[..count.min(20)]
    );
}

#[test]
#[ignore = "slow: runs the program for each fixture"]
fn render_writes_the_same_bytes_as_the_server() {
    let expected = fixture_json("expected.json");
    let shown: Vec<&Value> = list(&expected)
        .iter()
        .filter(|entry| entry["status"].is_null())
        .step_by(200)
        .collect();
    let place = Place::new();
    let server = of_fixtures(&place, "voltile.toml");
    for entry in shown {
        let path = format!("{MOUNT}{}", text(entry, "url"));
        let configuration = fixture("voltile.toml");
        let configuration = configuration.to_str().unwrap();
        let outcome = place.run(["render", &path, "-o", "tile.png", "--config", configuration]);
        assert_eq!(outcome.code, 0, "{path}: {}", outcome.err);
        assert!(
            fs::read(place.path("tile.png")).unwrap() == server.get(&path).body,
            "{path}"
        );
    }
}

#[test]
fn render_reports_why_there_is_no_tile_and_writes_nothing() {
    let place = Place::new();
    let file = fixture("pair_a.h5");
    let file = file.to_str().unwrap();
    for (path, reason) in [
        (
            "/ndtilecache/tilecache/pair_a/nothing/xy/0/0_0_0.png",
            "nothing",
        ),
        ("/ndtilecache/tilecache/pair_a/raw/zx/0/0_0_0.png", "zx"),
        (
            "/elsewhere/tilecache/pair_a/raw/xy/0/0_0_0.png",
            "/ndtilecache/tilecache/",
        ),
        ("nonsense", "nonsense"),
    ] {
        let outcome = place.run(["render", path, "-o", "tile.png", file]);
        assert_eq!(outcome.code, 1, "{path}");
        assert!(outcome.err.contains(reason), "{path}: {}", outcome.err);
        assert!(!place.path("tile.png").exists(), "{path}");
    }
}

/// The token and the channel under which a dataset of `refused.json` is served here.
fn token_and_channel(entry: &Value) -> (String, String) {
    let token = text(entry, "file")
        .trim_start_matches("refused/")
        .trim_end_matches(".h5");
    (
        token.to_owned(),
        text(entry, "path")
            .trim_start_matches('/')
            .replace('/', "_"),
    )
}

/// A configuration of these datasets; `more` is added to each token.
fn spelled_out<'a>(entries: impl Iterator<Item = &'a Value>, more: &str) -> String {
    let (mut configuration, mut last) = (String::new(), String::new());
    for entry in entries {
        let (token, channel) = token_and_channel(entry);
        if token != last {
            let file = fixture(text(entry, "file"));
            write!(
                configuration,
                "[datasets.{token}]\nfile = {file:?}\n{more}\n"
            )
            .unwrap();
        }
        let (path, axes) = (text(entry, "path"), text(entry, "axes"));
        write!(
            configuration,
            "[datasets.{token}.channels.{channel}]\npath = {path:?}\naxes = {axes:?}\n"
        )
        .unwrap();
        last = token;
    }
    configuration
}

/// The entries with `key`, each with the path under which it is served here.
fn addressed(entries: &[Value], key: &str) -> Vec<Value> {
    let held = entries.iter().filter(|entry| entry.get(key).is_some());
    let with_url = held.map(|entry| {
        let (token, channel) = token_and_channel(entry);
        let mut tile = entry[key].clone();
        tile["url"] = format!("/{token}/{channel}/{}", text(&tile, "tile")).into();
        tile
    });
    with_url.collect()
}

#[test]
fn links_out_of_the_folder_of_a_file_are_refused_by_name_with_the_remedy() {
    let refused = fixture_json("refused.json");
    let outside: Vec<&Value> = list(&refused)
        .iter()
        .filter(|entry| entry["served"].is_null())
        .collect();
    let place = Place::with(&spelled_out(outside.iter().copied(), ""));
    let (check, serve) = (
        place.run(["check"]),
        place.run(["serve", "--bind", "127.0.0.1:0"]),
    );
    assert_eq!(
        (check.code, serve.code),
        (1, 2),
        "{}\n{}",
        check.err,
        serve.err
    );
    for err in [&check.err, &serve.err] {
        for entry in &outside {
            let (token, channel) = token_and_channel(entry);
            let key = format!("datasets.{token}.channels.{channel}: ");
            let line = err
                .lines()
                .find(|line| line.contains(&key))
                .unwrap_or_else(|| panic!("no {key} in {err}"));
            let named = ["outside", "/etc/passwd", "door.h5", "../inside.h5"]
                .iter()
                .any(|name| line.contains(name));
            assert!(
                named && line.contains("allow_external = true"),
                "{}: {line}",
                text(entry, "why")
            );
        }
        assert!(
            err.contains(&format!("{} things are wrong", outside.len())),
            "{err}"
        );
    }
}

#[test]
fn links_out_of_the_folder_are_followed_if_allowed() {
    let refused = fixture_json("refused.json");
    let allowed = addressed(list(&refused), "allowed");
    let with_digest = list(&refused)
        .iter()
        .filter(|entry| entry.get("allowed").is_some());
    let place = Place::with(&spelled_out(with_digest, "allow_external = true"));
    assert_eq!(place.run(["check"]).code, 0);
    assert_eq!(
        wrongs(&place.serve::<&str>([]), &allowed, wrong_tile),
        [] as [String; 0]
    );
}

#[test]
fn the_other_channels_of_a_file_with_links_out_of_its_folder_are_served() {
    let refused = fixture_json("refused.json");
    let files =
        ["links", "raw", "virtual"].map(|name| fixture(&format!("refused/refused_{name}.h5")));
    let place = Place::new();
    let server = place.serve(files);
    assert_eq!(
        wrongs(&server, &addressed(list(&refused), "served"), wrong_tile),
        [] as [String; 0]
    );
    let described = server.get("/datasets.json").text();
    for channel in ["passwd", "up", "detour", "absolute", "of_raw"] {
        assert!(
            !described.contains(&format!("\"{channel}\"")),
            "{channel} is served: {described}"
        );
    }
}

#[test]
fn a_file_that_cannot_be_opened_is_a_fault_that_names_it() {
    let bad = fixture_json("bad/expected.json");
    for entry in list(&bad["unopened"]) {
        let (name, place) = (text(entry, "file"), Place::new());
        let file = fixture(&format!("bad/{name}"));
        let outcome = match entry["path"].as_str() {
            None => place.run(["check".as_ref(), file.as_os_str()]),
            Some(path) => {
                place.write(
                    "voltile.toml",
                    &format!(
                        "[datasets.a]\nfile = {file:?}\n[datasets.a.channels.b]\npath = {path:?}"
                    ),
                );
                place.run(["check"])
            }
        };
        assert_eq!(outcome.code, 1, "{name}: {}", outcome.err);
        assert!(
            outcome.err.contains("1 thing is wrong") && outcome.err.contains(name),
            "{name}: {}",
            outcome.err
        );
    }
}

#[test]
fn the_remaining_chunks_of_a_truncated_file_are_served() {
    let bad = fixture_json("bad/expected.json");
    let of_twin = list(&bad["tiles"])
        .iter()
        .filter(|entry| text(entry, "url").starts_with("/cut_gzip/"));
    let entries: Vec<Value> = of_twin
        .map(|entry| {
            let mut entry = entry.clone();
            entry["url"] = text(&entry, "url")
                .replacen("cut_gzip", "truncated", 1)
                .into();
            entry
        })
        .collect();
    assert!(entries.iter().any(|entry| entry["status"] == 500));
    let place = Place::new();
    let server = place.serve([fixture("bad/truncated.h5")]);
    server.expect_error("the file ends at byte");
    assert_eq!(wrongs(&server, &entries, wrong_tile), [] as [String; 0]);
}

#[test]
fn damaged_chunks_are_errors_and_all_other_tiles_are_right() {
    let bad = fixture_json("bad/expected.json");
    let entries = list(&bad["tiles"]);
    let place = Place::new();
    let server = of_fixtures(&place, "bad/voltile.toml");
    server.expect_error("every tile that touches this chunk is an error until the file is mended");
    for (file, datasets) in [
        (
            "gzip.h5",
            &[
                "header",
                "middle",
                "checksum",
                "cut",
                "too_little",
                "not_deflate",
            ][..],
        ),
        ("fletcher32.h5", &["voxels", "sum", "gzip"]),
        ("compressors.h5", &["blosc", "blosc_cut", "lzf"]),
        ("missing.h5", &["filter", "codec", "external"]),
        ("wide.h5", &["raw"]),
        ("cut_gzip.h5", &["raw"]),
        ("cut_plain.h5", &["raw"]),
    ] {
        let file = fixture("bad").join(file);
        for dataset in datasets {
            server.expect_error(&format!(
                "a tile could not be rendered: /{dataset} in {}",
                file.display()
            ));
        }
    }
    let without_paths = |entry: &Value, answer: &Answer| {
        let body = String::from_utf8_lossy(&answer.body);
        let reveals = answer.status == 500 && (body.contains("fixtures") || body.contains(".h5"));
        if reveals {
            Some(body.into_owned())
        } else {
            wrong_tile(entry, answer)
        }
    };
    for _ in 0..2 {
        assert_eq!(wrongs(&server, entries, without_paths), [] as [String; 0]);
    }
    let failing = entries
        .iter()
        .filter(|entry| entry["status"] == 500)
        .count() as u64;
    assert_eq!(
        server.count("voltile_render_errors_total"),
        2 * failing,
        "errors are not cached"
    );
}
