//! A Unix socket, beside addresses or instead of them.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use super::{TILE, endpoints, place, rest};
use crate::common::wire::Connection;
use crate::common::{PATIENCE, metrics};

pub fn connect(path: &Path) -> Connection<UnixStream> {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    Connection::over(stream)
}

#[test]
fn a_unix_socket_takes_the_place_of_the_default_address() {
    let place = place("unix_socket = \"http.sock\"");
    let path = place.path("http.sock");
    let mut server = place.start_without_address(place.voltile(["serve"]));
    assert_eq!(server.printed(), "voltile listening on unix:http.sock\n");
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o660
    );
    let mut connection = connect(&path);
    for target in [TILE, "/healthz", "/", TILE] {
        assert_eq!(connection.try_get(target).unwrap().status, 200, "{target}");
    }
    let second = place.run(["serve"]);
    assert_eq!(second.code, 1, "{}", second.err);
    assert!(
        second.err.contains("server.unix_socket") && second.err.contains("another process"),
        "{}",
        second.err
    );
    assert_eq!(
        connect(&path).try_get(TILE).unwrap().status,
        200,
        "the first is not disturbed"
    );
    server.kill();
    assert!(path.exists(), "a killed server leaves its socket behind");
    let mut next = place.start_without_address(place.voltile(["serve"]));
    assert_eq!(
        connect(&path).try_get(TILE).unwrap().status,
        200,
        "the stale socket is replaced"
    );
    next.stop();
    assert!(!path.exists(), "the socket is removed at the end");
    fs::write(&path, "mine").unwrap();
    let refused = place.run(["serve"]);
    assert!(
        refused.code == 1 && refused.err.contains("not a socket"),
        "{}",
        refused.err
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
}

#[test]
fn a_unix_socket_goes_with_an_address_that_is_configured() {
    let place =
        place("bind = \"127.0.0.1:0\"\nunix_socket = \"http.sock\"\nunix_socket_mode = \"600\"");
    let server = place.start(place.voltile(["serve"]));
    assert_eq!(endpoints(&server).len(), 2);
    let path = place.path("http.sock");
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(
        connect(&path).try_get(TILE).unwrap().body,
        server.get(TILE).body
    );
}

#[test]
fn peers_on_a_unix_socket_can_be_a_trusted_proxy() {
    let server = "unix_socket = \"http.sock\"\nidle_timeout = \"5m\"\nhead_timeout = \"5m\"";
    let forwarded = [
        ("X-Forwarded-Host", "tiles.test"),
        ("X-Forwarded-Proto", "https"),
    ];
    for (trusted, base) in [
        ("", "http://voltile.test/"),
        ("trusted_proxies = [\"unix\"]", "https://tiles.test/"),
    ] {
        let place = place(&format!("{server}\n{trusted}"));
        let _server = place.start_without_address(place.voltile(["serve"]));
        let mut all: Vec<_> = (0..20).map(|_| connect(&place.path("http.sock"))).collect();
        for connection in &mut all {
            let answer = connection
                .try_ask("GET", "/projects.json", &forwarded)
                .unwrap();
            assert!(answer.text().contains(base), "{}", answer.text());
        }
        let measured = metrics(&all[0].try_get("/metrics").unwrap());
        assert_eq!(measured["voltile_connections"], 20);
    }
}

#[test]
fn garbage_on_a_unix_socket_is_refused() {
    let place = place("unix_socket = \"http.sock\"");
    let server = place.start_without_address(place.voltile(["serve"]));
    for bytes in [
        &b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03"[..],
        b"\0\0\0\0\r\n\r\n",
        b"GET /\r\n\r\n",
    ] {
        let mut stream = UnixStream::connect(place.path("http.sock")).unwrap();
        stream.write_all(bytes).unwrap();
        let answer = rest(&mut stream);
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
    let mut connection = connect(&place.path("http.sock"));
    assert_eq!(connection.try_get(TILE).unwrap().status, 200);
    assert_eq!(server.problems(), Vec::<String>::new());
}

#[test]
fn a_path_in_a_missing_directory_is_an_error_that_names_it() {
    let place = place("unix_socket = \"nowhere/http.sock\"");
    let outcome = place.run(["serve"]);
    assert!(
        outcome.code == 1 && outcome.err.contains("nowhere/http.sock"),
        "{}",
        outcome.err
    );
    // One that is there, but belongs to somebody else, stays.
    let _other = UnixListener::bind(place.path("other.sock")).unwrap();
    let outcome = place.run(["serve", "--set", "server.unix_socket=other.sock"]);
    assert!(
        outcome.code == 1 && outcome.err.contains("another process"),
        "{}",
        outcome.err
    );
    assert!(place.path("other.sock").exists());
}
