//! Protected datasets: who sees them, what everyone else learns (nothing), and where secrets must
//! not appear.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::common::volumes::{self, Stored};
use crate::common::wire::Answer;
use crate::common::{MOUNT, Place, Server, fixture, wait_until};

const LAB: &str = "lab-secret-of-this-year";
const OLD: &str = "lab-secret-of-last-year";
const GUEST: &str = "guest-secret-of-today";

/// Serves `open` to everyone, `brain` and `raw-1` to the lab, and `raw-1` to guests.
fn served(place: &Place, server: &str) -> Server {
    let wide = fixture("wide.h5");
    place.write(
        "lab.txt",
        &format!("# two at a time, for rotation\n{LAB}\n{OLD}\n"),
    );
    place.write("guests.txt", &format!("{GUEST}\n"));
    let datasets: String = ["open", "brain", "raw-1"]
        .map(|token| format!("[datasets.{token}]\nfile = {wide:?}\n"))
        .concat();
    place.write(
        "voltile.toml",
        &format!(
            "[server]\nreferences = \"https://data.example.org/\"\n{server}\n[[access]]\nsecrets = \"lab.txt\"\ndatasets = [\"brain\", \"raw-*\"]\n\
             [[access]]\nsecrets = \"guests.txt\"\ndatasets = [\"raw-1\"]\n{datasets}"
        ),
    );
    place.serve::<&str>([])
}

fn basic(secret: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("anyone:{secret}")))
}

/// Every form of address of a dataset.
fn addresses(token: &str) -> Vec<String> {
    let below = ["tilecache", "ca", "sd"].map(|between| {
        format!("{MOUNT}/{between}/{token}/info").replace("/tilecache/tilecache", "/tilecache")
    });
    let mut all = vec![
        format!("{MOUNT}/{token}/raw/xy/0/0_0_0.png"),
        format!("{MOUNT}/mcfc/{token}/raw:R/xy/0/0_0_0.png"),
        format!("{MOUNT}/viking/{token}/volume/raw/0/X0_Y0.png"),
        format!("{MOUNT}/{token}/raw/xy/0/small.png"),
        format!("/datasets/{token}.json"),
        format!("/datasets/{token}/about.json"),
        format!("/datasets/{token}/raw/labels.json"),
        format!("/voxels/{token}/raw/0/0-1_0-1_0-1.npy"),
        format!("/neuroglancer/{token}/raw/info"),
        format!("/neuroglancer/{token}/raw/0/0-1_0-1_0-1"),
        format!("/zarr/0.4/{token}.ome.zarr/.zattrs"),
        format!("/zarr/0.5/{token}/raw.ome.zarr/zarr.json"),
        format!("/references/{token}.json"),
        format!("/ndtilecache/tilecache/viking/{token}/volume.vikingxml"),
    ];
    all.extend(below);
    all
}

fn schemes(answer: &Answer) -> Vec<&str> {
    let challenges = answer
        .headers
        .iter()
        .filter(|(name, _)| name == "www-authenticate");
    challenges
        .filter_map(|(_, value)| value.split(' ').next())
        .collect()
}

fn assert_unauthorized(answer: &Answer, what: &str) {
    assert_eq!(answer.status, 401, "{what}: {answer:?}");
    let expected: &[&str] = if what.starts_with("/k/") {
        &["Bearer"]
    } else {
        &["Basic", "Bearer"]
    };
    assert_eq!(schemes(answer), expected, "{what}");
    assert_eq!(answer.header("cache-control"), Some("no-store"), "{what}");
}

#[test]
fn a_protected_dataset_and_an_absent_one_are_the_same_to_strangers() {
    let place = Place::new();
    let server = served(&place, "");
    for (brain, absent) in addresses("brain").iter().zip(addresses("absent")) {
        let (hidden, missing) = (server.get(brain), server.get(&absent));
        if hidden.status == 404 {
            // Not an address of datasets in any case: the syntax decides.
            assert_eq!(hidden.text(), missing.text(), "{brain}");
            assert_ne!(
                server.get(&brain.replace("brain", "open")).status,
                200,
                "{brain}"
            );
            continue;
        }
        assert_unauthorized(&hidden, brain);
        assert_unauthorized(&missing, &absent);
        assert_eq!(hidden.body, missing.body, "{brain}");
        let names = |answer: &Answer| {
            answer
                .headers
                .iter()
                .map(|(name, _)| name.clone())
                .collect::<BTreeSet<_>>()
        };
        assert_eq!(names(&hidden), names(&missing), "{brain}");
    }
    for wrong in [
        "Bearer wrong",
        "Basic eDp5",
        "Bearer",
        "lab-secret-of-this-year",
        &basic("wrong"),
    ] {
        let headers = [("Authorization", wrong)];
        assert_unauthorized(&server.ask("GET", &addresses("brain")[0], &headers), wrong);
        assert_eq!(
            server.ask("GET", &addresses("open")[0], &headers).status,
            200,
            "{wrong}"
        );
    }
    for path in [
        "/k/wrong/",
        "/k/https:evil.example",
        "/k/",
        "/k/wrong/datasets.json",
        "/k//datasets.json",
        "/k/lab-secret/metrics",
    ] {
        assert_unauthorized(&server.get(path), path);
    }
}

#[test]
fn a_secret_opens_its_datasets_in_every_form_and_to_every_viewer() {
    let place = Place::new();
    let server = served(&place, "");
    let open: Vec<Answer> = addresses("open")
        .iter()
        .map(|path| server.get(path))
        .collect();
    assert!(open.iter().filter(|answer| answer.status == 200).count() >= 9);
    for (path, public) in addresses("brain").iter().zip(&open) {
        for secret in [LAB, OLD] {
            let bearer = server.ask(
                "GET",
                path,
                &[("Authorization", &format!("Bearer {secret}"))],
            );
            let basic = server.ask("GET", path, &[("Authorization", &basic(secret))]);
            let in_path = server.get(&format!("/k/{secret}{path}"));
            for answer in [bearer, basic, in_path] {
                assert_eq!(answer.status, public.status, "{path}");
                if answer
                    .header("content-type")
                    .is_some_and(|kind| kind.contains("png"))
                {
                    assert_eq!(answer.body, public.body, "{path}");
                    assert_ne!(answer.etag(), public.etag(), "no cache has both: {path}");
                }
                assert!(
                    answer
                        .header("cache-control")
                        .unwrap_or_default()
                        .contains("private"),
                    "{path}: {answer:?}"
                );
                assert!(
                    !answer.header("cache-control").unwrap().contains("public"),
                    "{path}"
                );
            }
        }
    }
    assert!(open[0].header("cache-control").unwrap().contains("public"));
    let known = server.ask(
        "GET",
        &format!("/k/{LAB}{}", addresses("brain")[0]),
        &[("If-None-Match", "*")],
    );
    assert_eq!(
        (known.status, known.header("cache-control")),
        (304, Some("private, max-age=3600"))
    );
}

#[test]
fn each_secret_opens_its_own_datasets_only() {
    let place = Place::new();
    let server = served(&place, "");
    let status = |secret: &str, token: &str| {
        server
            .get(&format!("/k/{secret}{}", addresses(token)[0]))
            .status
    };
    assert_eq!(
        ["open", "brain", "raw-1"].map(|token| status(LAB, token)),
        [200, 200, 200]
    );
    assert_eq!(
        ["open", "brain", "raw-1"].map(|token| status(GUEST, token)),
        [200, 401, 200]
    );
    // A guest learns no more of names that the lab's rule covers than of any others.
    assert_eq!(
        ["raw-2", "absent"].map(|token| status(GUEST, token)),
        [401, 401]
    );
    assert_eq!(status(LAB, "raw-2"), 404);
    let both = [("Authorization", &*format!("Bearer {GUEST}"))];
    let answer = server.ask("GET", &format!("/k/{LAB}{}", addresses("absent")[0]), &both);
    assert_eq!(
        answer.status, 404,
        "whoever has opened everything is told what is not there"
    );
    assert!(answer.problem().contains("brain"), "{answer:?}");
}

#[test]
fn lists_show_what_the_request_may_see() {
    let place = Place::new();
    let server = served(&place, "");
    let tokens = |prefix: &str| -> Vec<String> {
        let listed = server.json(&format!("{prefix}/datasets.json"));
        listed["datasets"]
            .as_array()
            .unwrap()
            .iter()
            .map(|set| set["token"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(tokens(""), ["open"]);
    let chosen = server.json("/datasets.json?tokens=brain,open");
    assert_eq!(chosen["datasets"].as_array().map(Vec::len), Some(1));
    assert_eq!(tokens(&format!("/k/{GUEST}")), ["open", "raw-1"]);
    assert_eq!(tokens(&format!("/k/{LAB}")), ["brain", "open", "raw-1"]);
    for path in [
        "/datasets.json",
        "/projects.json",
        "/simple",
        "/",
        "/metrics",
        "/readyz",
        "/openapi.json",
        "/healthz",
    ] {
        let answer = server.get(path);
        assert_eq!(answer.status, 200, "{path}");
        for hidden in ["brain", "raw-1", "raw-*"] {
            assert!(!answer.text().contains(hidden), "{path} names {hidden}");
        }
        assert!(
            answer
                .header("vary")
                .unwrap_or_default()
                .contains("Authorization"),
            "{path}"
        );
    }
    assert!(
        !server
            .get(&format!("{MOUNT}/open/absent/xy/0/0_0_0.png"))
            .problem()
            .contains("brain")
    );
    // The page below a secret finds everything by relative addresses, and documents contain the
    // secret.
    let prefix = format!("/k/{LAB}");
    assert_eq!(
        server.get(&prefix).header("location"),
        Some(&*format!("./{LAB}/"))
    );
    for path in ["/", "/simple"] {
        let page = server.get(&format!("{prefix}{path}"));
        assert_eq!(page.status, 200);
        assert!(
            !page.text().contains("src=\"/") && !page.text().contains("href=\"/"),
            "{}",
            page.text()
        );
        assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
    }
    let projects = server.get(&format!("{prefix}/projects.json")).text();
    assert!(
        projects.contains(&format!("{prefix}{MOUNT}/brain/")),
        "{projects}"
    );
}

#[test]
fn each_view_has_documents_of_its_own() {
    let place = Place::new();
    let server = served(&place, "");
    let list = |prefix: &str| server.get(&format!("{prefix}/datasets.json"));
    let views = [
        "".to_owned(),
        format!("/k/{LAB}"),
        format!("/k/{GUEST}"),
        format!("/k/{OLD}"),
    ];
    let [public, lab, guest, old] = views.map(|prefix| list(&prefix));
    assert_eq!(
        server.count("voltile_documents_built_total"),
        3,
        "two secrets of an entry are one view"
    );
    assert_eq!((old.etag(), &old.body), (lab.etag(), &lab.body));
    for known in [&lab, &guest] {
        let answer = server.ask("GET", "/datasets.json", &[("If-None-Match", known.etag())]);
        assert_eq!(
            (answer.status, &answer.body),
            (200, &public.body),
            "a view is not confirmed by another"
        );
        assert_eq!(known.header("cache-control"), Some("private, no-cache"));
    }
    let protected = [&public, &guest, &lab].map(|answer| answer.json()["protected"].clone());
    assert_eq!(
        protected,
        [true, true, true],
        "nobody has opened both entries"
    );
    let both = [("Authorization", &*format!("Bearer {GUEST}"))];
    let all = server
        .ask("GET", &format!("/k/{LAB}/datasets.json"), &both)
        .json();
    assert_eq!(all["protected"], false);
}

#[test]
fn a_wrong_secret_in_a_path_is_answered_with_a_field_for_the_right_one() {
    let place = Place::new();
    let mut server = served(&place, "[log]\naccess = true");
    let page = |path: &str| server.ask("GET", path, &[("Accept", "text/html,*/*;q=0.8")]);
    for path in [
        "/k/wrong/",
        "/k/wrong",
        "/k/",
        "/k/wrong/datasets/brain.json",
        "/k/wrong?secret=",
    ] {
        let answer = page(path);
        assert_eq!(
            (answer.status, schemes(&answer)),
            (401, vec!["Bearer"]),
            "no dialog asks for a password: {path}"
        );
        assert_eq!(
            answer.header("content-type"),
            Some("text/html; charset=utf-8"),
            "{path}"
        );
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
        assert!(
            answer
                .header("content-security-policy")
                .unwrap()
                .contains("form-action 'self'"),
            "{answer:?}"
        );
        assert!(
            answer.text().contains("name=\"secret\"") && !answer.text().contains("brain"),
            "{answer:?}"
        );
        assert_eq!(
            answer.body,
            page("/k/wrong/datasets/absent.json").body,
            "{path}"
        );
    }
    // Without a place in the path, the secret in a header does not help there: the answer must not
    // ask for one.
    assert_unauthorized(
        &server.ask("GET", "/k/wrong/", &[("Authorization", &basic(LAB))]),
        "/k/wrong/",
    );
    // What is typed takes the place of the wrong secret, whether it is right or not.
    for (path, place) in [
        (format!("/k/wrong/?secret={LAB}"), format!("../{LAB}/")),
        (format!("/k/?secret={LAB}"), format!("./{LAB}/")),
        (
            format!("/k/wrong/datasets/brain.json?secret={LAB}"),
            format!("../../{LAB}/datasets/brain.json"),
        ),
        (
            "/k/wrong/?secret=a+b%2F..".to_owned(),
            "../a%20b%2F../".to_owned(),
        ),
    ] {
        let answer = page(&path);
        assert_eq!(
            (answer.status, answer.header("location")),
            (303, Some(&*place)),
            "{path}"
        );
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
    }
    let right = page(&format!("/k/{LAB}/datasets/brain.json?secret=other"));
    assert_eq!(
        right.status, 200,
        "where the secret is right, the query is nothing"
    );
    let simple = |prefix: &str| {
        server
            .get(&format!("{prefix}/simple"))
            .text()
            .contains("name=\"secret\"")
    };
    assert_eq!([simple(""), simple(&format!("/k/{LAB}"))], [true, false]);
    server.stop();
    assert!(!server.log().contains(LAB), "{}", server.log());
}

#[test]
fn secrets_are_in_no_log_and_no_error() {
    let place = Place::new();
    let mut server = served(&place, "");
    for path in [
        "/datasets.json",
        "/nothing/here",
        "/ndtilecache/tilecache/a",
        "/zarr/9/x",
        "/voxels/brain/raw/0/x.npy",
    ] {
        let answer = server.get(&format!("/k/{LAB}{path}"));
        assert!(!format!("{answer:?}").contains(LAB), "{answer:?}");
    }
    server.stop();
    assert!(
        !server.log().contains(LAB) && !server.log().contains(GUEST),
        "{}",
        server.log()
    );
}

#[test]
fn an_unreadable_file_of_secrets_is_a_fault_and_never_an_open_door() {
    let place = Place::new();
    let wide = fixture("wide.h5");
    for (content, word) in [
        (None, "there is no file"),
        (Some(""), "has no secret"),
        (Some("two words"), "secret 1"),
    ] {
        match content {
            Some(text) => fs::write(place.path("lab.txt"), text).unwrap(),
            None => assert!(!place.path("lab.txt").exists()),
        }
        place.write(
            "voltile.toml",
            &format!("[[access]]\nsecrets = \"lab.txt\"\n[datasets.wide]\nfile = {wide:?}\n"),
        );
        for command in ["serve", "check"] {
            let outcome = place.run([command]);
            assert_ne!(outcome.code, 0, "{}", outcome.err);
            assert!(
                outcome.err.contains("access[0].secrets") && outcome.err.contains(word),
                "{}",
                outcome.err
            );
        }
    }
}

#[test]
fn a_secret_in_place_of_its_file_is_never_repeated() {
    let place = Place::new();
    let wide = fixture("wide.h5");
    // With and without a slash, as base64 has them; and where no path is expected.
    for (secret, written) in [
        ("hunter2-of-the-lab", "\"hunter2-of-the-lab\""),
        ("aGVs/bG8gd29y/bGQh", "\"aGVs/bG8gd29y/bGQh\""),
        ("8412367590", "8412367590"),
    ] {
        let access = format!("[[access]]\nsecrets = {written}\n[datasets.wide]\nfile = {wide:?}\n");
        place.write("voltile.toml", &access);
        for command in ["serve", "check"] {
            let outcome = place.run([command]);
            assert_ne!(outcome.code, 0, "{}", outcome.err);
            let told = format!("{}{}", outcome.out, outcome.err);
            assert!(told.contains("access[0].secrets"), "{told}");
            for part in secret.split('/') {
                assert!(!told.contains(part), "{part}: {told}");
            }
        }
    }
}

#[test]
fn below_a_base_path_requests_arrive_with_and_without_it() {
    let place = Place::new();
    let server = served(&place, "base_path = \"/volumes\"");
    let tile = &addresses("open")[0];
    assert!(server.get(tile).picture() == server.get(&format!("/volumes{tile}")).picture());
    assert_eq!(
        server.get("/volumes?a=1").header("location"),
        Some("./volumes/?a=1")
    );
    let page = server.get("/volumes/");
    assert_eq!(page.status, 200);
    let text = server.get("/volumes/projects.json").text();
    assert!(text.contains(&format!("/volumes{MOUNT}/open/")), "{text}");
    assert_eq!(server.get("/projects.json").text(), text);
    let secret = server.get(&format!("/volumes/k/{LAB}{}", addresses("brain")[0]));
    assert_eq!(secret.status, 200);
    let projects = server
        .get(&format!("/volumes/k/{LAB}/projects.json"))
        .text();
    assert!(
        projects.contains(&format!("/volumes/k/{LAB}{MOUNT}/brain/")),
        "{projects}"
    );
    assert!(
        server.printed().contains("/volumes/ndtilecache/"),
        "{}",
        server.printed()
    );
    assert_eq!(server.get("/volumesx/datasets.json").status, 404);
}

#[test]
fn requests_for_other_hosts_are_refused_if_hosts_are_listed() {
    let place = Place::new();
    let server = served(&place, "hosts = [\"tiles.example.org\", \"[::1]\"]");
    let status = |path: &str, host: &str| {
        let mut connection = server.connect();
        connection.write(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
        connection.receive("GET").unwrap().status
    };
    let tile = &addresses("open")[0];
    for host in [
        "tiles.example.org",
        "TILES.example.org:8080",
        "[::1]",
        "[::1]:80",
    ] {
        assert_eq!(status(tile, host), 200, "{host}");
    }
    for host in [
        "evil.example.org",
        "localhost",
        "127.0.0.1:80",
        "tiles.example.org.evil",
    ] {
        assert_eq!(status(tile, host), 421, "{host}");
        assert_eq!(status("/datasets.json", host), 421, "{host}");
        assert_eq!(status("/k/wrong", host), 421, "{host}");
        assert_eq!(
            status("/livez", host),
            200,
            "{host}: probes name the host as they reach it"
        );
    }
}

/// Writes the record of a digest beside `a.h5`, as if `a.h5` had the contents of another file.
fn forge(place: &Place, other: &str, mode: u32) {
    let digest = blake3::hash(&fs::read(place.path(other)).unwrap());
    let own = place.path("a.h5").metadata().unwrap();
    let [length, seconds, nanoseconds] = [own.len() as i64, own.mtime(), own.mtime_nsec()];
    let line = format!("voltile digest 1 {digest} {length} {seconds} {nanoseconds}\n");
    let record = place.write(".a.h5.blake3", &line);
    fs::set_permissions(record, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_forged_digest_of_a_public_file_shows_nothing_of_a_protected_one() {
    let place = Place::new();
    place.write("lab.txt", LAB);
    place.write(
        "voltile.toml",
        "[files]\nidentity = \"content\"\n[cache]\ndirectory = \"cache\"\n[render]\nneighbours = 0\n\
         [datasets.a]\nfile = \"a.h5\"\nchannels.raw.window = \"full\"\n\
         [datasets.hidden]\nfile = \"hidden.h5\"\nchannels.raw.window = \"full\"\n\
         [[access]]\nsecrets = \"lab.txt\"\ndatasets = [\"hid*\"]\n",
    );
    for (name, seed) in [("a.h5", 1), ("hidden.h5", 2)] {
        volumes::planes(&place.path(name), 2, seed, Stored::Flat);
    }
    let lab = ("Authorization", format!("Bearer {LAB}"));
    let shown = |server: &Server, token: &str, z: usize| {
        let path = format!("{MOUNT}/{token}/raw/xy/{z}/0_0_0.png");
        server.ask("GET", &path, &[(lab.0, &lab.1)]).picture()
    };
    // The record is the server's own, so that nothing but the rules of access tells the files
    // apart.
    forge(&place, "hidden.h5", 0o644);
    let mut server = place.serve::<&str>([]);
    assert_eq!(shown(&server, "hidden", 0), volumes::plane(2, 0));
    assert_eq!(
        server
            .get(&format!("{MOUNT}/a/raw/xy/0/0_0_0.png"))
            .picture(),
        volumes::plane(1, 0)
    );
    assert_eq!(
        [shown(&server, "a", 1), shown(&server, "hidden", 1)],
        [1, 2].map(|seed| volumes::plane(seed, 1))
    );
    server.stop();
    // Rules that come later part what had been shared until then.
    let rules = fs::read_to_string(place.path("voltile.toml")).unwrap();
    place.write("voltile.toml", rules.split_once("[[access]]").unwrap().0);
    let server = place.serve::<&str>([]);
    assert_eq!(shown(&server, "a", 0), volumes::plane(1, 0));
    assert_eq!(
        shown(&server, "hidden", 0),
        volumes::plane(1, 0),
        "one is taken for the other"
    );
    place.write("voltile.toml", &rules);
    server.signal(rustix::process::Signal::HUP);
    wait_until("the rules are in force", || {
        server
            .get(&format!("{MOUNT}/hidden/raw/xy/0/0_0_0.png"))
            .status
            == 401
    });
    assert_eq!(shown(&server, "hidden", 0), volumes::plane(2, 0));
}

#[test]
fn a_digest_that_others_can_write_is_not_believed() {
    let place = Place::new();
    for (name, seed) in [("a.h5", 1), ("b.h5", 2)] {
        volumes::planes(&place.path(name), 2, seed, Stored::Flat);
    }
    fs::set_permissions(place.path("a.h5"), fs::Permissions::from_mode(0o640)).unwrap();
    let shown = |z: usize| {
        let settings = [
            "files.identity=content",
            "render.neighbours=0",
            "datasets.b.channels.raw.window=full",
        ];
        let settings = settings.iter().flat_map(|setting| ["--set", setting]);
        let more = ["--set", "datasets.a.channels.raw.window=full"];
        let server = place.serve(["a.h5", "b.h5"].into_iter().chain(settings).chain(more));
        ["b", "a"].map(|token| {
            server
                .tile(&format!("{token}/raw/xy/{z}/0_0_0.png"))
                .picture()
        })
    };
    for mode in [0o666, 0o664, 0o646] {
        forge(&place, "b.h5", mode);
        assert_eq!(
            shown(0),
            [2, 1].map(|seed| volumes::plane(seed, 0)),
            "{mode:o}"
        );
    }
    let record = place.path(".a.h5.blake3");
    fs::remove_file(&record).unwrap();
    assert_eq!(
        place
            .run(["check", "a.h5", "--set", "files.identity=content"])
            .code,
        0
    );
    assert_eq!(
        record.metadata().unwrap().mode() & 0o777,
        0o640,
        "whoever may not read the file learns nothing of it"
    );
}
