//! Stores that fail: requests are repeated; while a store does not answer, its own datasets are 503
//! with `Retry-After`, `/readyz`, `/metrics` and the log say so, and all others are served. Service
//! resumes by itself.

use std::net::TcpListener;
use std::time::Duration;

use super::{PLAIN, PLANES, Remote, problems, shows, tile};
use crate::common::objects::{Fault, Manner, ObjectServer};
use crate::common::volumes::{self, Stored};
use crate::common::wire::Answer;
use crate::common::{MOUNT, Place, Server, outcome, wait_until};

const RETRIES: &str = "voltile_store_retries_total";
const UNREACHABLE: &str = "voltile_stores_unreachable";

/// Answers that cannot be used, after which the same request is worth repeating.
fn passing() -> Vec<Fault> {
    let status = |status: u16| Fault::Status(status, "Retry-After: 1".to_owned());
    vec![
        status(503),
        status(500),
        status(429),
        Fault::Short,
        Fault::Cut,
        Fault::Twice,
        Fault::Elsewhere,
        Fault::Close,
        Fault::Bytes(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec()),
        Fault::Bytes(b"HTTP/1.1 206 \r\nContent-Range: bytes 0-1/2\r\n".to_vec()),
    ]
}

/// A server of `planes.h5` from the web server, and of `local.h5` from the disk.
fn with_local(remote: &Remote) -> Server {
    volumes::planes(&remote.place.path("local.h5"), PLANES, 2, Stored::Gzip);
    let server = remote.serve(&["planes.h5"], &[&["local.h5"][..], &PLAIN].concat());
    server.allow_error("a tile could not be rendered");
    server
}

fn local_is_shown(server: &Server, z: usize) -> bool {
    let answer = server.tile(&format!("local/raw/xy/{z}/0_0_0.png"));
    answer.status == 200 && answer.picture() == volumes::plane(2, z)
}

/// That an answer is 503, says when to come back, and nothing of where the data is.
fn assert_unavailable(answer: &Answer, story: &str) {
    assert_eq!(answer.status, 503, "{story}: {answer:?}");
    let seconds: u64 = answer
        .header("retry-after")
        .expect("it says when to come back")
        .parse()
        .unwrap();
    assert!((1..=60).contains(&seconds), "{story}: {answer:?}");
    let problem = answer.problem();
    assert!(
        !problem.contains("127.0.0.1") && !problem.contains("planes.h5"),
        "{story}: {problem}"
    );
    assert_eq!(answer.header("etag"), None, "{story}");
}

#[test]
fn a_request_that_fails_is_repeated() {
    for fault in passing() {
        let remote = Remote::with_scattered_planes();
        let server = remote.serve_planes();
        remote.objects.fail("planes.h5", fault.clone(), 2);
        assert!(shows(&server, 1, 3), "{fault:?}: {}", server.log());
        assert_eq!(server.count(RETRIES), 2, "{fault:?}");
        assert_eq!(server.count(UNREACHABLE), 0, "{fault:?}");
        assert_eq!(server.problems(), [""; 0], "{fault:?}");
    }
}

#[test]
fn a_start_is_not_hindered_by_requests_that_fail_once() {
    for fault in passing() {
        let remote = Remote::with_scattered_planes();
        remote.objects.fail("planes.h5", fault.clone(), 1);
        let server = remote.serve_planes();
        assert!(shows(&server, 1, 3), "{fault:?}");
    }
}

#[test]
fn a_server_starts_without_a_store_and_serves_its_datasets_once_it_answers() {
    let remote = Remote::with_scattered_planes();
    remote.objects.go_down();
    let server = with_local(&remote);
    assert!(local_is_shown(&server, 1));
    for path in [
        &tile(1),
        "/datasets/planes.json",
        "/zarr/0.4/planes.ome.zarr/.zattrs",
        "/neuroglancer/planes/raw/info",
    ] {
        assert_unavailable(&server.get(path), path);
    }
    assert!(
        problems(&server).contains("\"planes\""),
        "{}",
        problems(&server)
    );
    assert_eq!(
        server.get(&tile(1).replace("planes", "unknown")).status,
        404
    );
    let checked = remote.place.run(["check", &remote.url("planes.h5")]);
    assert!(
        checked.code == 1 && checked.err.contains("unavailable"),
        "{}",
        checked.err
    );
    remote.objects.come_back();
    wait_until("it is opened", || shows(&server, 1, 3));
    wait_until("nothing is wrong any more", || problems(&server) == "[]");
}

#[test]
#[ignore = "slow: waits for the time limits of stores"]
fn a_store_that_fails_makes_its_datasets_unavailable_until_it_recovers() {
    for fault in passing() {
        let story = format!("{fault:?}");
        let remote = Remote::with_scattered_planes();
        let server = with_local(&remote);
        assert!(shows(&server, 1, 0));
        remote.objects.break_down("planes.h5", fault);
        for z in 1..5 {
            assert_unavailable(&server.get(&tile(z)), &story);
            assert!(local_is_shown(&server, z), "{story}");
        }
        assert!(shows(&server, 1, 0), "{story}: what is cached is served");
        let ready = server.get("/readyz");
        assert_eq!(
            ready.status, 200,
            "{story}: the other dataset can be served"
        );
        let name = format!("http://{} is unavailable", remote.objects.address);
        assert!(
            problems(&server).contains(&name) && problems(&server).contains("\"store\""),
            "{story}"
        );
        assert_eq!(server.count(UNREACHABLE), 1, "{story}");
        assert!(server.log().contains(&name), "{story}");
        remote.objects.mend();
        wait_until("it is served again", || shows(&server, 1, 1));
        assert!((0..PLANES).all(|z| shows(&server, 1, z)), "{story}");
        assert_eq!(
            (server.count(UNREACHABLE), problems(&server).as_str()),
            (0, "[]"),
            "{story}"
        );
        assert!(server.log().contains("answers again"), "{story}");
    }
}

#[test]
fn a_store_that_is_down_is_asked_now_and_then_only_and_used_again_when_it_is_back() {
    let remote = Remote::with_scattered_planes();
    let server = with_local(&remote);
    remote.objects.go_down();
    for _ in 0..3 {
        (1..PLANES).for_each(|z| assert_unavailable(&server.get(&tile(z)), "down"));
    }
    let metrics = server.metrics();
    assert!(metrics["voltile_store_refused_total"] > 0);
    assert!(metrics["voltile_store_failures_total"] < 30, "{metrics:?}");
    assert!((0..PLANES).all(|z| local_is_shown(&server, z)));
    remote.objects.come_back();
    wait_until("it is served again", || {
        (0..PLANES).all(|z| shows(&server, 1, z))
    });
    assert_eq!(server.count(UNREACHABLE), 0);
}

#[test]
fn datasets_of_other_stores_are_served_while_one_is_down() {
    let remote = Remote::with_scattered_planes();
    let other = Place::new();
    super::scattered(&other.path("other.h5"), 4);
    let objects = ObjectServer::of(other.path(""));
    let url = objects.url("other.h5");
    let server = remote.serve(&["planes.h5"], &[&[url.as_str()][..], &PLAIN].concat());
    remote.objects.go_down();
    for z in 1..PLANES {
        assert_unavailable(&server.get(&tile(z)), "down");
        let shown = server.tile(&format!("other/raw/xy/{z}/0_0_0.png"));
        assert_eq!(shown.picture(), volumes::plane(4, z));
    }
}

#[test]
#[ignore = "slow: waits for the time limits of stores"]
fn a_store_that_does_not_answer_delays_nobody_else() {
    let remote = Remote::with_scattered_planes();
    let server = with_local(&remote);
    remote.objects.break_down("planes.h5", Fault::Silence);
    // The first plane was read when the file was opened.
    let mut waiting: Vec<_> = (1..PLANES).map(|z| (z, server.connect())).collect();
    for (z, connection) in &mut waiting {
        connection.send("GET", &tile(*z), &[]);
    }
    assert!((0..PLANES).all(|z| local_is_shown(&server, z)));
    for (_, connection) in &mut waiting {
        assert_unavailable(&connection.receive("GET").unwrap(), "silent");
    }
    remote.objects.mend();
    wait_until("it is served again", || {
        (0..PLANES).all(|z| shows(&server, 1, z))
    });
}

#[test]
fn an_object_that_is_gone_is_an_error_until_it_is_back() {
    let remote = Remote::with_scattered_planes();
    let server = with_local(&remote);
    let whole = std::fs::read(remote.path("planes.h5")).unwrap();
    std::fs::remove_file(remote.path("planes.h5")).unwrap();
    for z in 1..4 {
        let answer = server.get(&tile(z));
        assert!([404, 500].contains(&answer.status), "{answer:?}");
        assert!(local_is_shown(&server, z));
    }
    wait_until("it is reported", || {
        problems(&server).contains("\"planes\"")
    });
    assert_eq!(server.count(UNREACHABLE), 0, "the store answers");
    assert_eq!(
        server.count("voltile_store_failures_total"),
        0,
        "and has not failed"
    );
    remote.replace("planes.h5", &whole);
    wait_until("it is served again", || {
        (0..PLANES).all(|z| shows(&server, 1, z))
    });
    wait_until("nothing is reported", || problems(&server) == "[]");
}

#[test]
fn refused_access_makes_a_dataset_unavailable_until_it_is_granted() {
    let remote = Remote::with_scattered_planes();
    let server = with_local(&remote);
    for status in [401, 403] {
        remote
            .objects
            .break_down("planes.h5", Fault::Status(status, String::new()));
        assert_unavailable(&server.get(&tile(usize::from(status) % 7)), "refused");
        assert!(
            problems(&server).contains("the store refuses access"),
            "{}",
            problems(&server)
        );
        assert!(local_is_shown(&server, 1));
        remote.objects.mend();
        wait_until("it is served again", || {
            shows(&server, 1, usize::from(status) % 7)
        });
        assert_eq!(problems(&server), "[]");
    }
    assert_eq!(server.count(UNREACHABLE), 0);
    assert!(
        server.log().contains("the store refuses access"),
        "{}",
        server.log()
    );
    wait_until("all is served again", || {
        (0..PLANES).all(|z| shows(&server, 1, z))
    });
    let refused = Remote::with_scattered_planes();
    refused
        .objects
        .break_down("planes.h5", Fault::Status(403, String::new()));
    let outcome = refused.place.run(["check", &refused.url("planes.h5")]);
    assert_eq!(outcome.code, 1);
    assert!(
        outcome.err.contains("the store refuses access") && outcome.err.contains("credentials"),
        "{}",
        outcome.err
    );
}

#[test]
fn a_configured_dataset_that_is_refused_waits_and_a_file_of_the_command_line_does_not() {
    let remote = Remote::with_scattered_planes();
    remote
        .objects
        .break_down("planes.h5", Fault::Status(403, String::new()));
    let url = remote.url("planes.h5");
    let outcome = remote.place.run(["serve", "--bind", "127.0.0.1:0", &url]);
    assert_eq!(outcome.code, 1, "{}", outcome.err);
    let says = ["the store refuses access", "credentials", "planes.h5"];
    assert!(
        says.iter().all(|word| outcome.err.contains(word)),
        "{}",
        outcome.err
    );
    assert!(
        !outcome.err.contains("AWS_"),
        "it is a web server: {}",
        outcome.err
    );
    remote.place.write(
        "voltile.toml",
        &format!("[datasets.planes]\nfile = \"{url}\"\n"),
    );
    let server = remote
        .place
        .serve(["--config", "voltile.toml", PLAIN[0], PLAIN[1]]);
    assert_unavailable(&server.get(&tile(3)), "refused at the start");
    assert!(
        problems(&server).contains("the store refuses access"),
        "{}",
        problems(&server)
    );
    remote.objects.mend();
    wait_until("it is opened", || shows(&server, 1, 3));
    wait_until("nothing is wrong any more", || problems(&server) == "[]");
}

#[test]
#[ignore = "slow: an object that was seen is looked at again after ten seconds"]
fn a_refusal_that_no_reader_has_met_is_logged_too() {
    let remote = Remote::with_scattered_planes();
    let server = remote.serve_planes();
    assert!(shows(&server, 1, 3));
    remote
        .objects
        .break_down("planes.h5", Fault::Status(403, String::new()));
    wait_until("it is told", || {
        assert!(shows(&server, 1, 3), "the tile is cached");
        problems(&server).contains("the store refuses access")
    });
    server.wait_for_log("cannot be read, and will be tried again: the store refuses access");
}

#[test]
fn an_answer_that_trickles_is_raced_by_another_request() {
    let remote = Remote::with_scattered_planes();
    let server = remote.serve_planes();
    assert!((0..3).all(|z| shows(&server, 1, z)));
    remote.objects.fail("planes.h5", Fault::Drip, 1);
    assert!(shows(&server, 1, 5));
    assert_eq!(server.count(RETRIES), 1);
    assert_eq!(server.count("voltile_store_failures_total"), 0);
}

#[test]
fn a_server_that_ignores_ranges_is_refused_by_name() {
    let remote = Remote::with_scattered_planes();
    remote.objects.break_down("", Fault::Whole);
    let url = remote.url("planes.h5");
    for command in [
        &["check"][..],
        &["inspect"],
        &["serve", "--bind", "127.0.0.1:0"],
    ] {
        let outcome = remote
            .place
            .run(command.iter().copied().chain([url.as_str()]));
        assert_ne!(outcome.code, 0);
        let says = "the server ignores range requests";
        assert!(
            outcome.err.contains(says) && outcome.err.contains("planes.h5"),
            "{}",
            outcome.err
        );
    }
    let most = remote
        .objects
        .asked()
        .iter()
        .map(|asked| asked.sent)
        .max()
        .unwrap();
    assert!(most > 1 << 20, "the server would have sent everything");
    // It is no harm if all of the object is wanted at once.
    volumes::planes(&remote.path("small.h5"), PLANES, 3, Stored::Gzip);
    let server = remote.serve(&["small.h5"], &[]);
    assert_eq!(
        server.tile("small/raw/xy/2/0_0_0.png").picture(),
        volumes::plane(3, 2)
    );
}

#[test]
fn a_server_that_begins_to_ignore_ranges_gives_errors_until_it_heeds_them() {
    let remote = Remote::with_scattered_planes();
    let server = with_local(&remote);
    server.expect_error("the server ignores range requests");
    remote.objects.break_down("planes.h5", Fault::Whole);
    assert_eq!(server.get(&tile(2)).status, 500);
    assert!(local_is_shown(&server, 2));
    remote.objects.mend();
    wait_until("it is served again", || {
        (0..PLANES).all(|z| shows(&server, 1, z))
    });
}

#[test]
fn redirects_are_followed_a_few_times_and_without_the_password() {
    let remote = Remote::with_scattered_planes();
    let other = ObjectServer::of(remote.path(""));
    let to = |url: String| Fault::Status(302, format!("Location: {url}"));
    remote
        .objects
        .break_down("here.h5", to("/planes.h5".to_owned()));
    remote
        .objects
        .break_down("there.h5", to(other.url("planes.h5")));
    remote
        .objects
        .break_down("round.h5", to("/round.h5".to_owned()));
    let with_password = |name: &str| remote.url(name).replace("://", "://me:hunter2@");
    let server = remote
        .place
        .serve([with_password("here.h5"), with_password("there.h5")]);
    for token in ["here", "there"] {
        let shown = server.get(&format!("{MOUNT}/{token}/raw/xy/3/0_0_0.png"));
        assert_eq!(shown.picture(), volumes::plane(1, 3), "{token}");
    }
    assert!(
        remote
            .objects
            .asked()
            .iter()
            .all(|asked| asked.headers.contains_key("authorization"))
    );
    let elsewhere = other.asked();
    assert!(!elsewhere.is_empty());
    assert!(
        elsewhere
            .iter()
            .all(|asked| !asked.headers.contains_key("authorization")),
        "{elsewhere:?}"
    );
    remote.objects.take_asked();
    let outcome = remote.place.run(["check", &remote.url("round.h5")]);
    assert_eq!(outcome.code, 1);
    assert!(
        outcome.err.contains("redirects too often"),
        "{}",
        outcome.err
    );
    assert!(remote.objects.asked().len() < 40);
}

#[test]
#[ignore = "slow: waits for the time limits of stores"]
fn a_server_that_drips_is_waited_for_once_and_not_by_each_that_opens_the_object() {
    let remote = Remote::with_scattered_planes();
    remote.objects.break_down("planes.h5", Fault::Drip);
    let outcome = remote.place.run(["check", &remote.url("planes.h5")]);
    assert!(
        outcome.code == 1 && outcome.err.contains("does not answer in time"),
        "{}",
        outcome.err
    );
    // The trial opens it twice, and so does the program. What one has waited for, the next need not
    // wait for, unless this machine is so slow that a second passes between them.
    let asked = remote
        .objects
        .asked()
        .iter()
        .filter(|asked| asked.path == "planes.h5")
        .count();
    assert!(asked <= 2, "{asked} requests");
}

/// An address at which nobody should arrive, and what checks that.
fn untouched() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

#[test]
fn no_redirect_leads_to_another_host_without_tls_or_from_the_internet_into_this_network() {
    let remote = Remote::with_scattered_planes();
    let (listener, port) = untouched();
    let proxy = format!("http://{}", remote.objects.address);
    // The proxy stands for the internet: it is asked for the whole address, and names it does not
    // have are not resolved.
    let public = "http://data.example.org/planes.h5";
    for (to, says) in [
        (
            format!("https://127.0.0.1:{port}/planes.h5"),
            "from a public address to a private one",
        ),
        (
            format!("https://[::1]:{port}/planes.h5"),
            "from a public address to a private one",
        ),
        (
            format!("https://localhost:{port}/planes.h5"),
            "from a public address to a private one",
        ),
        (
            format!("http://localhost:{port}/planes.h5"),
            "another host, and not over https",
        ),
        ("file:///etc/passwd".to_owned(), "neither http nor https"),
    ] {
        remote
            .objects
            .break_down(public, Fault::Status(302, format!("Location: {to}")));
        let mut command = remote.place.voltile(["check", public]);
        let outcome = outcome(
            command
                .env("HTTP_PROXY", &proxy)
                .env("NO_PROXY", "localhost"),
        );
        assert!(
            outcome.code == 1 && outcome.err.contains(says),
            "{to}: {}",
            outcome.err
        );
    }
    assert!(
        remote
            .objects
            .asked()
            .iter()
            .any(|asked| asked.path == public),
        "{:?}",
        remote.objects.asked()
    );
    let location = format!("Location: http://localhost:{port}/planes.h5");
    remote
        .objects
        .break_down("there.h5", Fault::Status(302, location));
    let outcome = remote.place.run(["check", &remote.url("there.h5")]);
    assert!(
        outcome.code == 1 && outcome.err.contains("another host, and not over https"),
        "{}",
        outcome.err
    );
    assert!(listener.accept().is_err(), "nobody came");
}

#[test]
fn bytes_that_a_server_garbles_are_an_error_of_that_request_only() {
    let remote = Remote::with_scattered_planes();
    let server = with_local(&remote);
    server.expect_error("a tile could not be rendered");
    // As long as they should be: only the decoder can tell.
    remote.objects.fail("planes.h5", Fault::Stutter, 1);
    assert_eq!(server.get(&tile(2)).status, 500);
    wait_until("it is read again", || shows(&server, 1, 2));
}

#[test]
fn bytes_that_a_server_garbles_do_not_stay_on_the_disk() {
    let remote = Remote::with_scattered_planes();
    let disk = [
        "--set",
        "cache.directory=cache",
        "--set",
        "cache.blocks=10 MiB",
    ];
    let server = remote.serve(&["planes.h5"], &[&disk[..], &PLAIN].concat());
    server.allow_error("a tile could not be rendered");
    remote.objects.fail("planes.h5", Fault::Stutter, 1);
    assert_eq!(server.get(&tile(2)).status, 500);
    wait_until("it is read again", || shows(&server, 1, 2));
    // The entry was removed, not taken for a damaged one.
    assert_eq!(server.count("voltile_store_block_errors_total"), 0);
}

#[test]
#[ignore = "slow: waits for the time limits of stores"]
fn lengths_that_no_object_can_have_are_refused() {
    for total in [u64::MAX, 1 << 63, 0, 10] {
        let remote = Remote::with_scattered_planes();
        remote.objects.break_down("planes.h5", Fault::Total(total));
        let outcome = remote.place.run(["check", &remote.url("planes.h5")]);
        assert_eq!(outcome.code, 1, "{total}: {}", outcome.err);
        assert!(
            outcome.err.contains("planes.h5"),
            "{total}: {}",
            outcome.err
        );
        remote.objects.mend();
        let server = with_local(&remote);
        server.allow_error("");
        remote.objects.break_down("planes.h5", Fault::Total(total));
        assert_ne!(server.get(&tile(2)).status, 200);
        remote.objects.mend();
        wait_until("it is served again", || shows(&server, 1, 2));
    }
}

#[test]
fn slow_answers_are_waited_for() {
    let remote = Remote::with_scattered_planes();
    let server = remote.serve_planes();
    remote.objects.answer(
        "planes.h5",
        Manner {
            delay: Duration::from_millis(700),
            ..Manner::default()
        },
    );
    assert!((0..PLANES).all(|z| shows(&server, 1, z)));
    assert_eq!(server.count("voltile_store_failures_total"), 0);
}
