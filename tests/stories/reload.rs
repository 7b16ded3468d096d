//! Serving other settings and other files without a restart, and saying what is wrong with them.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::common::volumes::{self, Stored};
use crate::common::{CHANGED, MOUNT, Place, Server, wait_until};

fn tile(token: &str) -> String {
    format!("{MOUNT}/{token}/raw/xy/1/0_0_0.png")
}

fn shows(server: &Server, token: &str, seed: usize) -> bool {
    let answer = server.get(&tile(token));
    answer.status == 200 && answer.picture() == volumes::plane(seed, 1)
}

fn reload(server: &Server) {
    server.signal(Signal::HUP);
}

/// Waits for the nth reload in the log.
fn wait_for_reloads(server: &Server, count: usize) {
    wait_until("the server has reloaded", || {
        server.log().matches("reloaded: ").count() >= count
    });
}

/// The problems in `/readyz`, whatever its status.
fn problems(server: &Server) -> String {
    let ready: serde_json::Value = serde_json::from_slice(&server.get("/readyz").body).unwrap();
    ready["problems"].to_string()
}

#[test]
fn datasets_come_change_and_go_at_a_signal() {
    let place = Place::new();
    for (name, seed) in [("a.h5", 1), ("b.h5", 2), ("c.h5", 3)] {
        volumes::planes(&place.path(name), 3, seed, Stored::Flat);
    }
    let write = |datasets: &str| place.write("voltile.toml", datasets);
    write("[datasets.a]\nfile = \"a.h5\"\n[datasets.b]\nfile = \"b.h5\"\n");
    let server = place.serve::<&str>([]);
    assert!(shows(&server, "a", 1) && shows(&server, "b", 2));
    let renders = server.renders();
    write("[datasets.a]\nfile = \"a.h5\"\n[datasets.c]\nfile = \"c.h5\"\n");
    reload(&server);
    wait_for_reloads(&server, 1);
    assert!(
        server.log().contains("opened c; removed b"),
        "{}",
        server.log()
    );
    assert_eq!(server.get(&tile("b")).status, 404);
    assert!(shows(&server, "a", 1));
    assert_eq!(
        server.renders(),
        renders,
        "what has not changed stays cached"
    );
    assert!(shows(&server, "c", 3));
    // Other settings of the same file.
    write("[datasets.a]\nfile = \"a.h5\"\noffset = [0, 0, 1]\n");
    reload(&server);
    wait_for_reloads(&server, 2);
    assert!(server.tile("a/raw/xy/2/0_0_0.png").picture() == volumes::plane(1, 1));
}

#[test]
fn a_broken_configuration_changes_nothing_and_is_reported() {
    let place = Place::new();
    volumes::planes(&place.path("a.h5"), 3, 1, Stored::Flat);
    place.write("junk.h5", "this is no HDF5 file");
    let right = "[datasets.a]\nfile = \"a.h5\"\n";
    place.write("voltile.toml", right);
    let server = place.serve::<&str>([]);
    server.allow_error("was not reloaded");
    for (wrong, word) in [
        ("[datasets.a]\nfil = \"a.h5\"\n", "datasets.a.fil"),
        ("[datasets.a", "voltile.toml"),
        (
            "[datasets.a]\nfile = \"a.h5\"\n[datasets.b]\nfile = \"absent.h5\"\n",
            "absent.h5",
        ),
        ("[datasets.a]\nfile = \"junk.h5\"\n", "junk.h5"),
        (
            "[[access]]\nsecrets = \"absent.txt\"\n[datasets.a]\nfile = \"a.h5\"\n",
            "access[0].secrets",
        ),
    ] {
        place.write("voltile.toml", wrong);
        reload(&server);
        wait_until("the problem is reported", || {
            problems(&server).contains(word)
        });
        server.wait_for_log(word);
        assert!(shows(&server, "a", 1), "{wrong}");
        assert_eq!(server.json("/readyz")["status"], "ready");
    }
    place.write("voltile.toml", right);
    reload(&server);
    wait_until("nothing is wrong any more", || problems(&server) == "[]");
}

#[test]
fn rules_of_access_and_headers_follow_a_reload() {
    let place = Place::new();
    volumes::planes(&place.path("a.h5"), 3, 1, Stored::Flat);
    let open = "[server]\ncache_control = \"no-cache\"\n[datasets.a]\nfile = \"a.h5\"\n";
    place.write("voltile.toml", open);
    let server = place.serve::<&str>([]);
    assert_eq!(
        server.get(&tile("a")).header("cache-control"),
        Some("no-cache")
    );
    place.write("lab.txt", "the-first-secret-of-the-lab\n");
    place.write(
        "voltile.toml",
        &format!(
            "[[access]]\nsecrets = \"lab.txt\"\n{}",
            open.replace("no-cache", "max-age=7")
        ),
    );
    reload(&server);
    wait_for_reloads(&server, 1);
    let with = |secret: &str| server.get(&format!("/k/{secret}{}", tile("a")));
    assert_eq!(server.get(&tile("a")).status, 401);
    assert_eq!(
        with("the-first-secret-of-the-lab").header("cache-control"),
        Some("private, max-age=7")
    );
    // Rotation: the file of secrets alone has changed.
    place.write("lab.txt", "the-second-secret-of-the-lab\n");
    reload(&server);
    wait_for_reloads(&server, 2);
    assert_eq!(with("the-first-secret-of-the-lab").status, 401);
    assert_eq!(with("the-second-secret-of-the-lab").status, 200);
}

#[test]
fn watched_files_and_configurations_are_followed() {
    let place = Place::new();
    volumes::planes(&place.path("a.h5"), 3, 1, Stored::Flat);
    let watched = "[files]\nwatch = \"200ms\"\n[datasets.a]\nfile = \"a.h5\"\n";
    place.write("voltile.toml", watched);
    let server = place.serve::<&str>([]);
    server.allow_error(CHANGED);
    assert!(shows(&server, "a", 1));
    // No request has to notice that the file was replaced.
    volumes::planes(&place.path("new.h5"), 3, 5, Stored::Flat);
    fs::rename(place.path("new.h5"), place.path("a.h5")).unwrap();
    server.wait_for_log("reloaded: opened a");
    assert!(shows(&server, "a", 5));
    volumes::planes(&place.path("b.h5"), 3, 2, Stored::Flat);
    place.write(
        "voltile.toml",
        &format!("{watched}[datasets.b]\nfile = \"b.h5\"\n"),
    );
    server.wait_for_log("reloaded: opened b");
    assert!(shows(&server, "b", 2));
    // A file that has vanished is reported, and is served again as soon as it is back.
    fs::rename(place.path("b.h5"), place.path("away.h5")).unwrap();
    wait_until("the loss is reported", || {
        problems(&server).contains("\"dataset\":\"b\"")
    });
    assert!(shows(&server, "a", 5));
    assert_eq!(server.json("/readyz")["status"], "ready");
    fs::rename(place.path("a.h5"), place.path("far.h5")).unwrap();
    wait_until("nothing can be served", || {
        server.get("/readyz").status == 503
    });
    fs::rename(place.path("far.h5"), place.path("a.h5")).unwrap();
    fs::rename(place.path("away.h5"), place.path("b.h5")).unwrap();
    wait_until("everything is served again", || {
        problems(&server) == "[]" && shows(&server, "b", 2)
    });
    assert_eq!(server.get("/readyz").status, 200);
}

#[test]
fn files_in_a_folder_come_and_go() {
    let place = Place::new();
    let folder = place.path("data");
    fs::create_dir(&folder).unwrap();
    let server = place.serve(["data", "--set", "files.watch=200ms"]);
    server.allow_error(CHANGED);
    let empty = server.get("/readyz");
    assert!(
        empty.status == 503 && empty.text().contains("\"nothing can be served\""),
        "{empty:?}"
    );
    assert_eq!(server.get("/livez").status, 200);
    volumes::planes(&folder.join("a.h5"), 3, 1, Stored::Flat);
    wait_until("a new file is served", || shows(&server, "a", 1));
    // A file that is still being copied, and one that crashes the library, keep nobody else from
    // being served.
    let whole = fs::read(folder.join("a.h5")).unwrap();
    fs::write(folder.join("b.h5"), &whole[..200]).unwrap();
    volumes::crashing(&folder.join("c.h5"));
    volumes::planes(&folder.join("d.h5"), 3, 4, Stored::Flat);
    wait_until("the next file is served", || shows(&server, "d", 4));
    wait_until("the others are reported", || {
        let problems = problems(&server);
        problems.contains("b.h5") && problems.contains("c.h5")
    });
    assert_eq!(server.json("/readyz")["datasets"], 2);
    let attempts = |server: &Server| server.log().matches("c.h5").count();
    let before = attempts(&server);
    // Two more searches, which find new files.
    for (name, seed) in [("e", 5), ("f", 6)] {
        volumes::planes(&folder.join(format!("{name}.h5")), 3, seed, Stored::Flat);
        wait_until("a later file is served", || shows(&server, name, seed));
    }
    assert_eq!(
        attempts(&server),
        before,
        "a broken file is tried again only when it has changed"
    );
    fs::write(folder.join("b.h5"), &whole).unwrap();
    wait_until("the copy is served once it is whole", || {
        shows(&server, "b", 1)
    });
    // A file that breaks while it is served stays known; its tiles are errors until it is mended.
    fs::write(folder.join("d.h5"), &whole[..200]).unwrap();
    wait_until("the damage is reported", || {
        problems(&server).contains("\"dataset\":\"d\"")
    });
    assert_eq!(server.get(&tile("d")).status, 500);
    fs::write(folder.join("d.h5"), &whole).unwrap();
    wait_until("it is served again", || shows(&server, "d", 1));
    fs::remove_file(folder.join("a.h5")).unwrap();
    wait_until("a removed file is not served", || {
        server.get(&tile("a")).status == 404
    });
}

#[test]
fn datasets_found_in_a_folder_tell_where_below_it_they_are() {
    let place = Place::new();
    fs::create_dir_all(place.path("data/run1/day2")).unwrap();
    for file in ["named.h5", "data/a.h5", "data/run1/day2/b.h5"] {
        volumes::planes(&place.path(file), 3, 1, Stored::Flat);
    }
    let server = place.serve(["named.h5", "data"]);
    let datasets = server.json("/datasets.json");
    let of = |dataset: &Value| (dataset["token"].clone(), dataset["folder"].clone());
    let found: Vec<_> = datasets["datasets"]
        .as_array()
        .unwrap()
        .iter()
        .map(of)
        .collect();
    let expected = [
        ("a", json!("")),
        ("b", json!("run1/day2")),
        ("named", Value::Null),
    ];
    assert_eq!(
        found,
        expected.map(|(token, folder)| (json!(token), folder))
    );
    assert!(
        !datasets.to_string().contains("data/"),
        "the folder itself is not told"
    );
}

#[test]
fn a_large_folder_is_served_at_once_and_a_file_is_opened_when_it_is_asked_for() {
    const FILES: usize = 200;
    let place = Place::new();
    let data = place.path("data");
    for number in 0..FILES {
        put(&data, &format!("f{number:03}.h5"), number % 5);
    }
    // Datasets that are called like parts of addresses.
    for name in ["0.4", "tilecache"] {
        put(&data, &format!("{name}.h5"), 0);
    }
    fs::write(
        data.join("f199.h5"),
        &fs::read(data.join("f000.h5")).unwrap()[..200],
    )
    .unwrap();
    let server = place.serve(["data", "--set", "files.watch=200ms"]);
    assert!(
        tokens(&server).len() < FILES / 2,
        "it has started before all files are open"
    );
    for name in ["0.4", "tilecache"] {
        assert_eq!(server.get(&format!("/datasets/{name}.json")).status, 200);
    }
    assert!(
        shows(&server, "f198", 198 % 5),
        "a request waits until its file has been opened"
    );
    assert_eq!(server.get("/datasets/f197.json").json()["token"], "f197");
    let image = server.get("/zarr/0.4/f196.ome.zarr/.zattrs");
    assert_eq!(image.status, 200, "{image:?}");
    let listed = server.get("/datasets.json?tokens=f195").json();
    assert_eq!(listed["datasets"][0]["token"], "f195");
    assert_eq!(
        server.get(&tile("unknown")).status,
        404,
        "what no file is called is not waited for"
    );
    assert_eq!(
        server.get(&tile("f199")).status,
        404,
        "a broken file is left out in the end"
    );
    wait_until("all files are open", || tokens(&server).len() == FILES + 1);
    for number in (0..FILES - 1).step_by(10) {
        assert!(
            shows(&server, &format!("f{number:03}"), number % 5),
            "{number}"
        );
    }
    assert!(!problems(&server).contains("have not been opened yet"));
}

#[test]
fn every_request_sees_the_old_or_the_new_catalogue_under_load() {
    let place = Place::new();
    volumes::planes(&place.path("a.h5"), 3, 1, Stored::Flat);
    volumes::planes(&place.path("b.h5"), 3, 2, Stored::Flat);
    let of = |file: &str| format!("[datasets.set]\nfile = \"{file}\"\n");
    place.write("voltile.toml", &of("a.h5"));
    let server = place.serve::<&str>([]);
    let (old, new) = (volumes::plane(1, 1), volumes::plane(2, 1));
    thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut seen = [0, 0];
            while seen[0] < 20 || seen[1] < 20 {
                let answer = server.get(&tile("set"));
                let picture = answer.picture();
                assert!(picture == old || picture == new, "{answer:?}");
                seen[usize::from(picture == new)] += 1;
            }
        });
        for round in 0.. {
            if asking.is_finished() {
                break;
            }
            place.write(
                "next.toml",
                &of(if round % 2 == 0 { "b.h5" } else { "a.h5" }),
            );
            fs::rename(place.path("next.toml"), place.path("voltile.toml")).unwrap();
            reload(&server);
            thread::sleep(Duration::from_millis(50));
        }
    });
}

#[test]
fn what_needs_a_restart_is_named() {
    let place = Place::new();
    volumes::planes(&place.path("a.h5"), 3, 1, Stored::Flat);
    place.write("voltile.toml", "[datasets.a]\nfile = \"a.h5\"\n");
    let server = place.serve::<&str>([]);
    place.write(
        "voltile.toml",
        "[server]\nunix_socket_mode = \"600\"\n[cache]\ntiles = 0\n[render]\nqueue = 7\nneighbours = 0\nverify = \"never\"\n\
         png = \"small\"\n[files]\nidentity = \"content\"\n[datasets.a]\nfile = \"a.h5\"\n",
    );
    reload(&server);
    server.wait_for_log(
        "changes of server.unix_socket_mode, cache.tiles, render.queue, render.neighbours, render.verify, render.png, \
         files.identity take effect when the server is restarted",
    );
    assert!(shows(&server, "a", 1));
}

#[test]
fn what_follows_from_limits_is_what_a_restart_would_show() {
    let place = Place::new();
    volumes::planes(&place.path("a.h5"), 3, 1, Stored::Gzip);
    let write = |limit: u64| {
        let limits =
            format!("[render]\nmax_voxels_per_box = {limit}\nmax_voxels_per_tile = {limit}\n");
        place.write(
            "voltile.toml",
            &format!("{limits}[datasets.a]\nfile = \"a.h5\"\n"),
        );
    };
    let shown = |server: &Server| {
        let documents = [
            "zarr/0.4/a/raw.ome.zarr/0/.zarray",
            "zarr/0.5/a/raw.ome.zarr/zarr.json",
            "neuroglancer/a/raw/info",
        ];
        let version = server.json("/datasets.json")["datasets"][0]["version"]
            .as_str()
            .unwrap()
            .to_owned();
        let mut shown = vec![(200, version.clone().into_bytes())];
        for document in documents {
            let answer = server.get(&format!("/{document}"));
            shown.push((answer.status, answer.body));
        }
        // A chunk that a document promises, and a tile by the version that is listed, are there.
        let chunk = server.get("/zarr/0.4/a/raw.ome.zarr/0/0/0/0").status;
        assert_eq!(chunk, shown[1].0);
        assert_eq!(server.get(&tile(&format!("a@{version}"))).status, 200);
        shown
    };
    write(100);
    let server = place.serve::<&str>([]);
    let mut before = shown(&server);
    assert_eq!(before[3].0, 404, "no chunk is small enough");
    for (reloads, limit) in [1 << 26, 1600, 100, 5000].into_iter().enumerate() {
        write(limit);
        reload(&server);
        wait_for_reloads(&server, reloads + 1);
        let now = shown(&server);
        assert_eq!(now, shown(&place.serve::<&str>([])), "{limit}");
        assert_ne!(now, before, "{limit}");
        before = now;
    }
}

#[test]
fn the_format_of_the_log_follows_a_reload() {
    let place = Place::new();
    volumes::planes(&place.path("a.h5"), 3, 1, Stored::Flat);
    place.write("voltile.toml", "[datasets.a]\nfile = \"a.h5\"\n");
    let server = place.serve::<&str>([]);
    place.write(
        "voltile.toml",
        "[log]\nformat = \"json\"\n[datasets.a]\nfile = \"a.h5\"\n",
    );
    reload(&server);
    server.wait_for_log("\"message\":\"reloaded: the settings have changed\"");
}

#[test]
fn a_configuration_cut_before_its_rules_of_access_exposes_nothing() {
    let place = Place::new();
    volumes::planes(&place.path("a.h5"), 3, 1, Stored::Flat);
    place.write("lab.txt", "the-first-secret-of-the-lab\n");
    let cut = "[files]\nwatch = \"200ms\"\n[datasets.a]\nfile = \"a.h5\"\n";
    place.write(
        "voltile.toml",
        &format!("{cut}[[access]]\nsecrets = \"lab.txt\"\n"),
    );
    let server = place.serve::<&str>([]);
    server.expect_error("would become public: a");
    place.write("voltile.toml", cut);
    server.wait_for_log("would become public: a");
    assert_eq!(server.get(&tile("a")).status, 401);
    // An operator who means it says so.
    reload(&server);
    server.wait_for_log("public from now on: a");
    wait_until("it is public", || shows(&server, "a", 1));
}

#[test]
fn files_in_a_folder_keep_their_tokens() {
    let place = Place::new();
    let folder = place.path("data");
    fs::create_dir(&folder).unwrap();
    volumes::planes(&folder.join("brain.h5"), 3, 1, Stored::Flat);
    place.write("lab.txt", "the-first-secret-of-the-lab\n");
    place.write(
        "voltile.toml",
        "[[access]]\nsecrets = \"lab.txt\"\ndatasets = [\"brain\"]\n",
    );
    let server = place.serve([
        "data",
        "--config",
        "voltile.toml",
        "--set",
        "files.watch=200ms",
    ]);
    let with = |token: &str| {
        let answer = server.get(&format!("/k/the-first-secret-of-the-lab{}", tile(token)));
        (answer.status == 200).then(|| answer.picture())
    };
    assert_eq!(with("brain"), Some(volumes::plane(1, 1)));
    // By its name it comes first.
    volumes::planes(&folder.join("brain.a"), 3, 2, Stored::Flat);
    wait_until("the new file is served", || {
        with("brain_2") == Some(volumes::plane(2, 1))
    });
    assert_eq!(with("brain"), Some(volumes::plane(1, 1)));
    server.wait_for_log("the dataset brain_2 is public although brain is protected");
    fs::remove_file(folder.join("brain.h5")).unwrap();
    wait_until("the first file is gone", || with("brain").is_none());
    assert_eq!(
        with("brain_2"),
        Some(volumes::plane(2, 1)),
        "no other file gets its token"
    );
    volumes::planes(&folder.join("brain.h5"), 3, 3, Stored::Flat);
    wait_until("it is back", || with("brain") == Some(volumes::plane(3, 1)));
    assert_eq!(server.get(&tile("brain")).status, 401);
}

/// Writes a volume into a folder, and makes the folder if necessary.
fn put(folder: &Path, name: &str, seed: usize) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    volumes::planes(&path, 3, seed, Stored::Flat);
}

/// The tokens of everything that is served.
fn tokens(server: &Server) -> Vec<String> {
    let described = server.json("/datasets.json");
    let datasets = described["datasets"].as_array().unwrap().iter();
    datasets
        .map(|dataset| dataset["token"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn files_in_folders_below_are_served_and_come_and_go() {
    let place = Place::new();
    let data = place.path("data");
    for (name, seed) in [
        ("own.h5", 1),
        ("a/b/c/d/deep.h5", 2),
        ("a/b/c/d/e/deeper.h5", 3),
        ("a/one.h5", 4),
    ] {
        put(&data, name, seed);
    }
    // What is no folder of volumes.
    for name in [
        ".cache/hidden.h5",
        "tree.zarr/in_zarr.h5",
        "marked/0/in_marked.h5",
        "n5/in_n5.h5",
    ] {
        put(&data, name, 5);
    }
    fs::write(data.join("tree.zarr/.zgroup"), "{}").unwrap();
    fs::write(data.join("marked/zarr.json"), "{}").unwrap();
    fs::write(data.join("n5/attributes.json"), "{}").unwrap();
    put(&place.path("other"), "outside.h5", 6);
    symlink(place.path("other"), data.join("a/link")).unwrap();
    symlink(place.path("other/outside.h5"), data.join("a/linked.h5")).unwrap();
    symlink(data.join("a"), data.join("a/b/loop")).unwrap();
    symlink(data.join("own.h5"), data.join("a/within.h5")).unwrap();
    let server = place.serve(["data", "--set", "files.watch=200ms"]);
    server.allow_error(CHANGED);
    assert_eq!(tokens(&server), ["deep", "one", "own", "within"]);
    assert!(shows(&server, "deep", 2) && shows(&server, "one", 4) && shows(&server, "within", 1));
    put(&data, "a/new/folder/later.h5", 7);
    wait_until("a file in a new folder is served", || {
        shows(&server, "later", 7)
    });
    put(&data, "a/b/c/more.h5", 8);
    wait_until("a new file in an old folder is served", || {
        shows(&server, "more", 8)
    });
    fs::remove_dir_all(data.join("a/new")).unwrap();
    wait_until("it goes with its folder", || {
        server.get(&tile("later")).status == 404
    });
    fs::rename(data.join("a/b"), data.join("a/renamed")).unwrap();
    // Under its new path it is another file, and its old token is not given away.
    wait_until("the files of a renamed folder are served", || {
        shows(&server, "d.deep", 2)
    });
    assert!(shows(&server, "own", 1) && shows(&server, "one", 4));
    wait_until("nothing is wrong", || problems(&server) == "[]");
}

#[test]
fn how_deep_folders_are_searched_can_be_set_and_follows_a_reload() {
    let place = Place::with("[files]\ndepth = 0\n");
    for (name, seed) in [("own.h5", 1), ("a/below.h5", 2), ("a/b/deep.h5", 3)] {
        put(&place.path("data"), name, seed);
    }
    let server = place.serve(["data", "--config", "voltile.toml"]);
    assert_eq!(tokens(&server), ["own"]);
    place.write("voltile.toml", "[files]\ndepth = 1\n");
    reload(&server);
    wait_until("the folder below is searched", || {
        tokens(&server) == ["below", "own"]
    });
    assert!(shows(&server, "below", 2));
    let checked = place.run(["check", "data"]);
    assert!(
        checked.out.contains("3 datasets"),
        "every command searches: {} {}",
        checked.out,
        checked.err
    );
    let wrong = place.run(["check", "data", "--set", "files.depth=-1"]);
    assert!(
        wrong.code == 1 && wrong.err.contains("files.depth"),
        "{}",
        wrong.err
    );
}

#[test]
fn files_of_the_same_name_are_told_by_their_folders() {
    let place = Place::new();
    let data = place.path("data");
    for (name, seed) in [
        ("a.h5", 1),
        ("run1/a.h5", 2),
        ("run2/a.h5", 3),
        ("x/run2/a.h5", 4),
        ("run1/b.h5", 5),
        ("run2/b.h5", 6),
        ("run 3/only.h5", 7),
    ] {
        put(&data, name, seed);
    }
    let server = place.serve(["data", "--set", "files.watch=200ms"]);
    assert_eq!(
        tokens(&server),
        [
            "a", "only", "run1.a", "run1.b", "run2.a", "run2.a_2", "run2.b"
        ]
    );
    for (token, seed) in [
        ("a", 1),
        ("run1.a", 2),
        ("run2.a", 3),
        ("run2.a_2", 4),
        ("run1.b", 5),
        ("run2.b", 6),
        ("only", 7),
    ] {
        assert!(shows(&server, token, seed), "{token}");
    }
    // A file that is served keeps its token.
    put(&data, "run4/only.h5", 8);
    wait_until("the second of its name is served", || {
        shows(&server, "run4.only", 8)
    });
    assert!(shows(&server, "only", 7));
}

#[test]
fn a_file_that_its_folder_names_is_not_covered_by_the_rule_for_its_own_name() {
    let place = Place::new();
    for (name, seed) in [("run1/brain.h5", 1), ("run2/brain.h5", 2)] {
        put(&place.path("data"), name, seed);
    }
    place.write("lab.txt", "the-first-secret-of-the-lab\n");
    place.write(
        "voltile.toml",
        "[[access]]\nsecrets = \"lab.txt\"\ndatasets = [\"brain\", \"run2.*\"]\n",
    );
    let server = place.serve(["data", "--config", "voltile.toml"]);
    assert_eq!(server.get(&tile("run1.brain")).status, 200);
    assert_eq!(server.get(&tile("run2.brain")).status, 401);
    server.wait_for_log("the dataset run1.brain is public although brain is protected");
    assert!(
        !server.log().contains("run2.brain is public"),
        "{}",
        server.log()
    );
}

#[test]
fn a_folder_without_files_says_what_was_looked_for() {
    let place = Place::new();
    fs::create_dir_all(place.path("data/below")).unwrap();
    fs::write(place.path("data/below/image.tif"), b"II*\0").unwrap();
    put(&place.path("data"), "1/2/3/4/5/deep.h5", 1);
    let server = place.serve(["data"]);
    server.wait_for_log("no HDF5 file was found in data");
    let line = server
        .problems()
        .into_iter()
        .find(|line| line.contains("was found"))
        .unwrap();
    for word in ["files.depth", "hidden", "Zarr", "first bytes"] {
        assert!(line.contains(word), "{word} is not in {line}");
    }
    assert!(
        problems(&server).contains("no HDF5 file was found"),
        "{}",
        problems(&server)
    );
    let checked = place.run(["check", "data"]);
    assert_eq!(checked.code, 2, "{}", checked.out);
    assert!(
        checked.err.contains("no HDF5 file was found in data"),
        "{}",
        checked.err
    );
    put(&place.path("data"), "below/found.h5", 2);
    wait_until("a file that appears is served", || {
        shows(&server, "found", 2)
    });
    wait_until("nothing is missing any more", || problems(&server) == "[]");
    fs::create_dir_all(place.path("image.zarr/0")).unwrap();
    fs::write(place.path("image.zarr/.zgroup"), "{}").unwrap();
    let zarr = place.run(["check", "image.zarr"]);
    assert!(
        zarr.code == 2 && zarr.err.contains("a Zarr tree"),
        "{}",
        zarr.err
    );
}

#[test]
fn a_file_is_found_when_it_becomes_an_hdf5_file_although_its_folder_does_not_change() {
    let place = Place::new();
    put(&place.path("data"), "below/first.h5", 1);
    let slow = place.path("data/below/slow.h5");
    fs::write(&slow, "").unwrap();
    // Old enough that the folder's modification time is believed.
    let old = SystemTime::now() - Duration::from_secs(60);
    File::open(place.path("data/below"))
        .unwrap()
        .set_modified(old)
        .unwrap();
    let server = place.serve(["data", "--set", "files.watch=200ms"]);
    server.allow_error(CHANGED);
    assert_eq!(tokens(&server), ["first"]);
    put(&place.path("elsewhere"), "whole.h5", 2);
    fs::write(&slow, fs::read(place.path("elsewhere/whole.h5")).unwrap()).unwrap();
    wait_until("it is served once it has contents", || {
        shows(&server, "slow", 2)
    });
}

#[test]
#[ignore = "slow: makes and searches a hundred thousand links"]
fn a_search_ends_at_its_limits_and_says_so() {
    let place = Place::new();
    put(&place.path("data"), "a.h5", 1);
    let crowd = place.path("data/crowd");
    fs::create_dir_all(&crowd).unwrap();
    for number in 0..100_001 {
        symlink("nowhere", crowd.join(number.to_string())).unwrap();
    }
    put(&place.path("data"), "crowd/z/lost.h5", 2);
    let server = place.serve(["data"]);
    server.wait_for_log("entries of folders");
    assert!(shows(&server, "a", 1));
    assert!(
        problems(&server).contains("files.depth"),
        "{}",
        problems(&server)
    );
}
