//! The host in documents: where its name comes from, which names are refused, and the limit on a
//! document's size.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::common::wire::Answer;
use crate::common::{MOUNT, Place, Server, fixture, made};

const PROJECTS: &str = "/projects.json";
const VIKING: &str = "/ndtilecache/tilecache/viking/wide/volume.vikingxml";
const TILE: &str = "/ndtilecache/tilecache/wide/raw/xy/0/0_0_0.png";

fn served(place: &Place, server: &str) -> Server {
    let wide = fixture("wide.h5");
    place.write(
        "voltile.toml",
        &format!("[server]\n{server}\n[datasets.wide]\nfile = {wide:?}\n"),
    );
    place.serve::<&str>([])
}

/// Sends a request with exactly these header lines.
fn ask(server: &Server, target: &str, headers: &str) -> Answer {
    let mut connection = server.connect();
    connection.write(format!("GET {target} HTTP/1.1\r\n{headers}\r\n").as_bytes());
    connection.receive("GET").unwrap()
}

fn assert_refused(answer: &Answer, word: &str) {
    assert_eq!(answer.status, 400, "{answer:?}");
    assert!(answer.problem().contains(word), "{answer:?}");
    assert_not_stored(answer);
}

fn assert_not_stored(answer: &Answer) {
    assert_eq!(
        answer.header("cache-control"),
        Some("no-store"),
        "{answer:?}"
    );
    let vary = answer.header("vary").unwrap();
    for name in ["Host", "Forwarded", "X-Forwarded-Host", "X-Forwarded-Proto"] {
        assert!(
            vary.split(", ").any(|other| other == name),
            "{name} is not in {vary}"
        );
    }
}

#[test]
fn documents_name_the_requested_host_and_are_not_cached() {
    let place = Place::new();
    let server = served(&place, "");
    for host in [
        "voltile.test",
        "lab-1.example.org:8080",
        "192.0.2.1:80",
        "[2001:db8::1]:8080",
    ] {
        for target in [PROJECTS, VIKING] {
            let answer = ask(&server, target, &format!("Host: {host}\r\n"));
            assert!(
                answer
                    .text()
                    .contains(&format!("\"http://{host}/ndtilecache/")),
                "{answer:?}"
            );
            assert_not_stored(&answer);
        }
    }
}

#[test]
fn a_document_is_built_once_for_all_hosts_and_confirmed_for_each() {
    let place = Place::new();
    let server = served(&place, "");
    for target in [PROJECTS, VIKING] {
        let before = server.count("voltile_documents_built_total");
        let hosts = ["a.test", "a.longer.name.test", "[2001:db8::1]:8080"];
        let answers = hosts.map(|host| ask(&server, target, &format!("Host: {host}\r\n")));
        for (host, answer) in hosts.iter().zip(&answers) {
            assert_eq!(answer.text(), answers[0].text().replace(hosts[0], host));
            let known = format!("Host: {host}\r\nIf-None-Match: {}\r\n", answer.etag());
            let [own, other] =
                [known.clone(), known.replace(host, "b.test")].map(|it| ask(&server, target, &it));
            assert_eq!((own.status, other.status), (304, 200), "{host}");
            assert_not_stored(&own);
            let mut connection = server.connect();
            connection.write(format!("HEAD {target} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
            let head = connection.receive("HEAD").unwrap();
            assert_eq!(
                head.header("content-length"),
                Some(&*answer.body.len().to_string())
            );
        }
        assert_eq!(server.count("voltile_documents_built_total"), before + 1);
    }
}

#[test]
fn an_invalid_host_is_refused_only_by_documents_that_name_it() {
    let place = Place::new();
    let server = served(&place, "");
    let long = "a".repeat(60_000);
    let wrong = [
        "evil\"onload=",
        "a/../b",
        "a b",
        "a<script>",
        "u:p@a",
        "javascript:alert(1)",
        "[::1",
        "é",
        &long,
    ];
    for host in wrong {
        let headers = format!("Host: {host}\r\n");
        for target in [PROJECTS, VIKING] {
            let answer = ask(&server, target, &headers);
            assert_refused(&answer, "Host");
            assert!(answer.body.len() < 1000, "the host is not repeated");
        }
        for target in [TILE, "/datasets.json", "/healthz"] {
            assert_eq!(ask(&server, target, &headers).status, 200, "{target}");
        }
    }
    let missing = ask(
        &server,
        "/ndtilecache/tilecache/viking/none/volume.vikingxml",
        "Host: a b\r\n",
    );
    assert_eq!(missing.status, 404, "{missing:?}");
    // HTTP/1.1 requires exactly one (RFC 9112, section 3.2).
    for headers in ["", "Host: a.test\r\nHost: b.test\r\n"] {
        assert_eq!(ask(&server, PROJECTS, headers).status, 400, "{headers:?}");
    }
}

#[test]
fn http_1_0_needs_no_host_for_a_tile() {
    let place = Place::new();
    let server = served(&place, "");
    let status = |target: &str| {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream
            .write_all(format!("GET {target} HTTP/1.0\r\n\r\n").as_bytes())
            .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer[9..12]).into_owned()
    };
    assert_eq!(
        [TILE, "/datasets.json", PROJECTS].map(status),
        ["200", "200", "400"]
    );
}

/// Headers that proxies add, and that clients may send too.
const FORWARDED: [&str; 4] = [
    "X-Forwarded-Host: proxy.test\r\n",
    "X-Forwarded-Proto: javascript\r\n",
    "X-Forwarded-Proto: https\r\n",
    "Forwarded: for=203.0.113.1;host=proxy.test;proto=https\r\n",
];

#[test]
fn forwarding_headers_of_untrusted_clients_are_ignored() {
    let place = Place::new();
    for trusted in ["", "trusted_proxies = [\"10.0.0.0/8\", \"::1\"]"] {
        let server = served(&place, trusted);
        let plain = ask(&server, PROJECTS, "Host: voltile.test\r\n");
        for header in FORWARDED {
            let answer = ask(
                &server,
                PROJECTS,
                &format!("Host: voltile.test\r\n{header}"),
            );
            assert_eq!(
                (answer.status, answer.text()),
                (200, plain.text()),
                "{header}"
            );
        }
    }
}

#[test]
fn a_trusted_proxy_forwards_the_requested_host() {
    let place = Place::new();
    let server = served(&place, "trusted_proxies = [\"127.0.0.0/8\"]");
    let ask = |headers: &str| {
        ask(
            &server,
            PROJECTS,
            &format!("Host: voltile.test\r\n{headers}"),
        )
    };
    let [host, scheme_is_wrong, scheme, forwarded] = FORWARDED.map(ask);
    assert!(
        host.text().contains("\"http://proxy.test/ndtilecache/"),
        "{host:?}"
    );
    assert!(
        scheme
            .text()
            .contains("\"https://voltile.test/ndtilecache/"),
        "{scheme:?}"
    );
    assert!(
        forwarded
            .text()
            .contains("\"https://proxy.test/ndtilecache/"),
        "{forwarded:?}"
    );
    assert_not_stored(&forwarded);
    assert_refused(&scheme_is_wrong, "x-forwarded-proto");
    assert_refused(&ask("X-Forwarded-Host: a\"b\r\n"), "x-forwarded-host");
    // Only the last item is by the trusted proxy.
    let appended = ask(
        "X-Forwarded-Host: evil.test, proxy.test\r\nX-Forwarded-For: 10.9.9.9, 203.0.113.1\r\n",
    );
    assert!(
        appended.text().contains("http://proxy.test/") && !appended.text().contains("evil"),
        "{appended:?}"
    );
}

#[test]
fn a_document_beyond_the_size_limit_is_refused() {
    let place = Place::new();
    made::file(&place.path("deep.h5"), |file| {
        let raw = file
            .new_dataset_builder()
            .empty::<u8>()
            .shape((2_000_000, 16, 16))
            .chunk((4096, 16, 16));
        raw.create("raw").unwrap();
    });
    let server = place.serve([
        "deep.h5",
        "--set",
        "datasets.deep.channels.raw.window=[0, 255]",
    ]);
    let answer = server.get("/ndtilecache/tilecache/viking/deep/volume.vikingxml");
    assert_eq!(answer.status, 500);
    assert!(answer.problem().contains("16 MiB"), "{answer:?}");
    assert_not_stored(&answer);
    assert_eq!(server.get(PROJECTS).status, 200);
    assert_eq!(
        server
            .get(&format!("{MOUNT}/deep/raw/xy/1999999/0_0_0.png"))
            .status,
        200
    );
}
