//! The command line and the configuration: exit statuses, all faults at once, precedence of the
//! layers, relative paths.
//!
//! The keys and their values are tested next to the code that parses them.

use std::fs;
use std::net::TcpListener;

use crate::common::{Place, Server, fixture};

/// The path of a tile below the mount.
const TILE: &str = "wide/raw/xy/0/0_0_0.png";

fn tokens(server: &Server) -> Vec<String> {
    server.json("/datasets.json")["datasets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|dataset| dataset["token"].as_str().unwrap().to_owned())
        .collect()
}

/// A place that has `wide.h5` in it.
fn with_wide(configuration: &str) -> Place {
    let place = Place::with(configuration);
    fs::copy(fixture("wide.h5"), place.path("wide.h5")).unwrap();
    place
}

#[test]
fn all_mistakes_are_reported_at_once_by_key_and_before_the_socket_is_opened() {
    let place = with_wide(
        r#"[server]
workers = 0
colour = "red"
[cache]
tiles = "lots"
[render]
png = "tiny"
[datasets.mcfc]
file = "wide.h5"
[datasets.absent]
file = "nowhere.h5"
[datasets.text]
file = "voltile.toml"
[datasets.wide]
file = "wide.h5"
voxel_size = [1, 2]
[datasets.wide.channels.raw]
window = [0]
kind = "grey"
[datasets.wide.channels.other]
path = "/nowhere"
[datasets.discovered]
file = "wide.h5"
[datasets.discovered.channels.nothing]
kind = "image"
"#,
    );
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (serve, check) = (
        place.run(["serve", "--bind", &address]),
        place.run(["check"]),
    );
    assert_eq!(
        (serve.code, check.code),
        (2, 1),
        "{}\n{}",
        serve.err,
        check.err
    );
    for outcome in [&serve, &check] {
        for (key, word) in [
            ("server.workers", "1 to 1024"),
            ("server.colour", "no such key"),
            ("cache.tiles", "512 MiB"),
            ("render.png", "small"),
            ("datasets.mcfc", "token"),
            ("datasets.absent.file", "nowhere.h5"),
            ("datasets.text.file", "HDF5"),
            ("datasets.wide.voxel_size", "three numbers"),
            ("datasets.wide.channels.raw.window", "auto"),
            ("datasets.wide.channels.raw.kind", "labels"),
            ("datasets.wide.channels.other", "/nowhere"),
            ("datasets.discovered.channels.nothing", "raw"),
        ] {
            let line = outcome
                .err
                .lines()
                .find(|line| line.trim().starts_with(&format!("{key}: ")));
            let line = line.unwrap_or_else(|| panic!("{key} is not in:\n{}", outcome.err));
            assert!(line.contains(word), "{word} is not in {line}");
        }
        assert!(
            outcome.err.contains("12 things are wrong"),
            "{}",
            outcome.err
        );
        assert_eq!(outcome.out, "");
        assert!(
            !outcome.err.contains(&address),
            "the socket was tried: {}",
            outcome.err
        );
    }
}

#[test]
fn check_passes_a_correct_configuration() {
    let place = with_wide("[datasets.wide]\nfile = \"wide.h5\"");
    let outcome = place.run(["check"]);
    assert_eq!((outcome.code, outcome.err.as_str()), (0, ""));
    assert!(outcome.out.contains("all is well"), "{}", outcome.out);
}

#[test]
fn serve_without_a_dataset_says_what_to_do() {
    for place in [Place::new(), Place::with("[server]\nworkers = 1")] {
        let outcome = place.run(["serve"]);
        assert_eq!((outcome.code, outcome.out.as_str()), (2, ""));
        for word in ["voltile serve my.h5", "--config", "config example"] {
            assert!(
                outcome.err.contains(word),
                "{word} is not in {}",
                outcome.err
            );
        }
    }
}

#[test]
fn wrong_commands_exit_with_2_and_help_with_0() {
    let place = Place::new();
    for wrong in [
        &["serve", "--no-such-flag"][..],
        &["dance"],
        &[],
        &["serve", "nowhere.h5"],
    ] {
        assert_eq!(place.run(wrong).code, 2, "{wrong:?}");
    }
    for (arguments, key) in [
        (["serve", "--config", "absent.toml"], "absent.toml"),
        (["serve", "--set", "render.threads"], "--set render.threads"),
        (["serve", "--set", "render.threads=none"], "render.threads"),
        (["serve", "--bind", "nonsense"], "server.bind"),
        (["serve", "--bind", "127.0.0.1"], "server.bind"),
        (["serve", "--port", "9000"], "--bind 127.0.0.1:8080"),
    ] {
        let outcome = place.run(arguments);
        assert_eq!(outcome.code, 2, "{arguments:?}");
        assert!(outcome.err.contains(key), "{arguments:?}: {}", outcome.err);
    }
    for right in ["--help", "--version"] {
        let outcome = place.run([right]);
        assert!(
            outcome.code == 0 && outcome.out.contains("voltile"),
            "{}",
            outcome.out
        );
    }
}

#[test]
fn flags_override_the_environment_which_overrides_the_file() {
    let place = with_wide(
        "[server]\nbind = \"127.0.0.1:1\"\ncache_control = \"from-file\"\n[datasets.wide]\nfile = \"wide.h5\"",
    );
    let serve = |variables: &[(&str, &str)], flags: &[&str]| {
        let mut command = place.voltile(["serve"]);
        command.args(flags).envs(variables.iter().copied());
        let answer = place.start(command).tile(TILE);
        answer.header("cache-control").unwrap().to_owned()
    };
    let variables = [
        ("VOLTILE_SERVER__CACHE_CONTROL", "from-environment"),
        ("VOLTILE_SERVER__BIND", "127.0.0.1:0"),
    ];
    assert_eq!(serve(&[], &["--bind", "127.0.0.1:0"]), "from-file");
    assert_eq!(serve(&variables, &[]), "from-environment");
    assert_eq!(
        serve(&variables, &["--set", "server.cache_control=from-flag"]),
        "from-flag"
    );
    let twice = ["--set", "server.bind=127.0.0.1:1", "--bind", "127.0.0.1:0"];
    assert_eq!(
        serve(&[("VOLTILE_SERVER__BIND", "127.0.0.1:1")], &twice),
        "from-file"
    );
}

#[test]
fn the_default_file_is_read_unless_a_data_file_is_named() {
    let place = with_wide("[datasets.configured]\nfile = \"wide.h5\"");
    assert_eq!(tokens(&place.serve::<&str>([])), ["configured"]);
    assert_eq!(tokens(&place.serve(["wide.h5"])), ["wide"]);
    assert_eq!(
        tokens(&place.serve(["wide.h5", "--config", "voltile.toml"])),
        ["configured", "wide"]
    );
}

#[test]
fn the_example_can_be_used_unchanged() {
    let place = Place::new();
    let example = place.run(["config", "example"]);
    assert_eq!(example.code, 0);
    place.write("voltile.toml", &example.out);
    let outcome = place.run(["check"]);
    assert_eq!(outcome.code, 1);
    assert!(
        outcome.err.contains("1 thing is wrong") && outcome.err.contains("kasthuri11.h5"),
        "{}",
        outcome.err
    );
    fs::create_dir(place.path("data")).unwrap();
    fs::copy(fixture("wide.h5"), place.path("data/kasthuri11.h5")).unwrap();
    let server = place.serve::<&str>([]);
    assert_eq!(server.tile(&TILE.replace("wide", "kasthuri11")).status, 200);
}

#[test]
fn paths_are_relative_to_where_they_are_named() {
    let place = Place::new();
    fs::create_dir_all(place.path("etc/data")).unwrap();
    fs::copy(fixture("wide.h5"), place.path("etc/data/wide.h5")).unwrap();
    place.write("etc/mine.toml", "[datasets.wide]\nfile = \"data/wide.h5\"");
    let config = ["--config", "etc/mine.toml"];
    assert_eq!(
        place.serve(config).tile(TILE).status,
        200,
        "relative to the configuration's directory"
    );
    let set = [
        "--config",
        "etc/mine.toml",
        "--set",
        "datasets.wide.file=etc/data/wide.h5",
    ];
    assert_eq!(
        place.serve(set).tile(TILE).status,
        200,
        "relative to the working directory"
    );
    assert_eq!(place.serve(["etc/data/wide.h5"]).tile(TILE).status, 200);
    let wrong = place.run([
        "check",
        "--config",
        "etc/mine.toml",
        "--set",
        "datasets.wide.file=data/wide.h5",
    ]);
    assert_eq!(wrong.code, 1);
}

#[test]
fn a_files_token_is_its_stem() {
    let place = with_wide("");
    fs::create_dir(place.path("again")).unwrap();
    for copy in ["again/wide.h5", "viking.h5", "a b.v1.hdf5", ".h5"] {
        fs::copy(fixture("wide.h5"), place.path(copy)).unwrap();
    }
    let odd = fixture("odd name (1) ü.h5");
    let server = place.serve([
        "wide.h5",
        "again/wide.h5",
        "viking.h5",
        "a b.v1.hdf5",
        ".h5",
        odd.to_str().unwrap(),
    ]);
    let tokens = tokens(&server);
    assert_eq!(
        tokens,
        [
            ".h5",
            "a_b.v1",
            "odd_name__1___",
            "viking_",
            "wide",
            "wide_2"
        ]
    );
    for line in server
        .printed()
        .lines()
        .filter(|line| line.starts_with("tile "))
    {
        let path = line.split_once("/ndtilecache").unwrap().1;
        assert_eq!(
            server.get(&format!("/ndtilecache{path}")).status,
            200,
            "{line}"
        );
    }
}

#[test]
fn a_channel_without_a_path_configures_the_discovered_one() {
    let place = with_wide(
        "[datasets.wide]\nfile = \"wide.h5\"\n[datasets.wide.channels.raw]\nwindow = [255, 0]",
    );
    let inverted = place.serve::<&str>([]).tile(TILE).picture();
    let plain = place.serve(["wide.h5"]).tile(TILE).picture();
    let inside = |picture: &[u8]| picture[..100].to_vec();
    let expected: Vec<u8> = inside(&plain.pixels)
        .iter()
        .map(|value| 255 - value)
        .collect();
    assert_eq!(inside(&inverted.pixels), expected);
}
