//! TLS: what is served, what is refused, and clients that do not do their part.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::unix::connect;
use super::{TILE, endpoints, noise, place, rest};
use crate::common::wire::Connection;
use crate::common::{PATIENCE, Place, Server, metrics, outcome, wait_until};

type Tls = StreamOwned<ClientConnection, TcpStream>;

/// Keys of the configuration with which a story reads the metrics over the Unix socket, and waits
/// as long as it needs.
const SERVER: &str = "bind = \"127.0.0.1:0\"\nunix_socket = \"http.sock\"\n\
     tls = { certificate = \"cert.pem\", key = \"key.pem\" }\n";
const PATIENT: &str = "head_timeout = \"5m\"\nidle_timeout = \"5m\"\n";

/// A place with a certificate for `voltile.test`, and the configuration of a client that trusts it
/// alone.
fn certified(server: &str) -> (Place, ClientConfig) {
    let place = place(&format!("{SERVER}{server}"));
    let client = certify(&place);
    (place, client)
}

/// Writes a new certificate and its key; returns the configuration of a client that trusts it
/// alone.
fn certify(place: &Place) -> ClientConfig {
    let made = rcgen::generate_simple_self_signed(["voltile.test".to_owned()]).unwrap();
    place.write("cert.pem", &made.cert.pem());
    place.write("key.pem", &made.signing_key.serialize_pem());
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let client = client
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut client = client.with_no_client_auth();
    // A session that is resumed shows no certificate.
    client.resumption = Resumption::disabled();
    client
}

fn serve(place: &Place) -> Server {
    place.start(place.voltile(["serve"]))
}

fn session(client: &ClientConfig) -> ClientConnection {
    let name = ServerName::try_from("voltile.test").unwrap();
    ClientConnection::new(Arc::new(client.clone()), name).unwrap()
}

fn over_tls(client: &ClientConfig, server: &Server) -> Connection<Tls> {
    Connection::over(StreamOwned::new(session(client), plain(server)))
}

/// Without a handshake.
fn plain(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn inside(place: &Place) -> Connection<UnixStream> {
    connect(&place.path("http.sock"))
}

fn count(place: &Place, name: &str) -> u64 {
    metrics(&inside(place).try_get("/metrics").unwrap())[name]
}

#[test]
fn tiles_and_documents_are_served_over_tls() {
    let (place, mut client) = certified("");
    let server = serve(&place);
    let printed = endpoints(&server);
    assert_eq!(printed[0], format!("https://{}", server.address));
    assert!(printed[1].starts_with("unix:"), "{printed:?}");
    assert!(
        server.printed().contains("\npage https://"),
        "{}",
        server.printed()
    );
    let expected = inside(&place).try_get(TILE).unwrap();
    client.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let mut connection = over_tls(&client, &server);
    for _ in 0..3 {
        assert_eq!(connection.try_get(TILE).unwrap().body, expected.body);
    }
    assert_eq!(
        connection.try_ask("HEAD", TILE, &[]).unwrap().etag(),
        expected.etag()
    );
    let projects = connection.try_get("/projects.json").unwrap().text();
    assert!(projects.contains("https://voltile.test/"), "{projects}");
    assert!(
        inside(&place)
            .try_get("/projects.json")
            .unwrap()
            .text()
            .contains("http://voltile.test/")
    );
    // Many at once, whose answers are larger than all buffers.
    let requests = format!("GET {TILE} HTTP/1.1\r\nHost: a\r\n\r\n").repeat(200);
    connection.write(requests.as_bytes());
    for n in 0..200 {
        assert_eq!(
            connection.receive("GET").unwrap().body,
            expected.body,
            "{n}"
        );
    }
    client.alpn_protocols = vec![b"h2".to_vec()];
    assert!(
        over_tls(&client, &server).try_get(TILE).is_err(),
        "there is no HTTP/2"
    );
}

#[test]
fn plain_http_and_garbage_are_refused() {
    let (place, client) = certified("");
    let server = serve(&place);
    let mut http = plain(&server);
    http.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
        .unwrap();
    let answer = rest(&mut http);
    assert!(!answer.contains("HTTP"), "{answer}");
    let mut random = fastrand::Rng::with_seed(1);
    for length in [1, 5, 6, 100, 20_000] {
        let bytes: Vec<u8> = [22, 3, 1]
            .into_iter()
            .chain((0..length).map(|_| random.u8(..)))
            .collect();
        let mut stream = plain(&server);
        // The server may have refused the first bytes before the last are sent.
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        assert!(!rest(&mut stream).contains("HTTP"), "{length}");
    }
    // A client that does not trust the certificate.
    let (_, stranger) = certified("");
    assert!(over_tls(&stranger, &server).try_get(TILE).is_err());
    // One that breaks the protocol after the handshake.
    let mut broken = over_tls(&client, &server);
    assert_eq!(broken.try_get(TILE).unwrap().status, 200);
    broken
        .raw()
        .write_all(b"\x17\x03\x03\0\x20................................")
        .unwrap();
    assert!(broken.try_get(TILE).is_err());
    assert_eq!(
        over_tls(&client, &server).try_get(TILE).unwrap().status,
        200
    );
    assert_eq!(server.problems(), Vec::<String>::new());
}

#[test]
fn clients_that_do_not_finish_a_handshake_are_timed_out() {
    let (place, client) = certified("head_timeout = \"300ms\"");
    let server = serve(&place);
    assert_eq!(rest(&mut plain(&server)), "");
    let mut hello = Vec::new();
    session(&client).write_tls(&mut hello).unwrap();
    // The first part of a handshake, and all of it without the end.
    for sent in [&hello[..hello.len() / 2], &hello] {
        let mut stream = plain(&server);
        stream.write_all(sent).unwrap();
        rest(&mut stream);
    }
}

#[test]
fn a_client_that_does_not_read_its_answers_over_tls_is_closed() {
    let (place, client) = certified("write_timeout = \"500ms\"");
    let tile = noise(&place);
    let server = place.start(place.voltile(["serve", "noise.h5", "--config", "voltile.toml"]));
    let mut connection = over_tls(&client, &server);
    // Far more than both sockets buffer.
    connection.write(
        format!("GET {tile} HTTP/1.1\r\nHost: a\r\n\r\n")
            .repeat(100)
            .as_bytes(),
    );
    wait_until("it is being answered", || {
        count(&place, "voltile_renders_total") > 0
    });
    // One connection for all questions: an earlier one might not be closed yet.
    let mut asking = inside(&place);
    wait_until("the connection is closed", || {
        metrics(&asking.try_get("/metrics").unwrap())["voltile_connections"] == 1
    });
    let answers = (0..100)
        .take_while(|_| connection.receive("GET").is_ok())
        .count();
    assert!(answers < 100, "all answers came");
    assert_eq!(
        over_tls(&client, &server).try_get(tile).unwrap().status,
        200
    );
}

#[test]
fn faults_of_the_files_are_reported_at_start_and_by_check() {
    let (place, _) = certified("");
    let (other, _) = certified("");
    let wrong = |key: &str, word: &str| {
        for (command, code) in [("serve", 2), ("check", 1)] {
            let outcome = place.run([command]);
            assert_eq!(outcome.code, code, "{}", outcome.err);
            assert!(
                outcome.err.contains(key) && outcome.err.contains(word),
                "{}",
                outcome.err
            );
        }
    };
    let key = fs::read_to_string(place.path("key.pem")).unwrap();
    fs::copy(other.path("key.pem"), place.path("key.pem")).unwrap();
    wrong("server.tls.key", "is not the key of the first certificate");
    place.write("key.pem", "");
    wrong("server.tls.key", "no private key");
    fs::remove_file(place.path("key.pem")).unwrap();
    wrong("server.tls.key", "key.pem: cannot be read");
    place.write("key.pem", &key);
    place.write("cert.pem", &key);
    wrong("server.tls.certificate", "no certificate");
}

#[test]
fn a_certificate_is_replaced_at_sighup_and_stays_if_the_new_one_is_broken() {
    let (place, old) = certified(PATIENT);
    let server = serve(&place);
    let mut kept = over_tls(&old, &server);
    assert_eq!(kept.try_get(TILE).unwrap().status, 200);
    let key = fs::read(place.path("key.pem")).unwrap();
    let new = certify(&place);
    fs::write(place.path("key.pem"), key).unwrap();
    server.expect_error("server.tls.key");
    server.signal(Signal::HUP);
    server.wait_for_log("server.tls.key");
    assert_eq!(over_tls(&old, &server).try_get(TILE).unwrap().status, 200);
    assert!(over_tls(&new, &server).try_get(TILE).is_err());
    let new = certify(&place);
    server.signal(Signal::HUP);
    wait_until("the new certificate is in force", || {
        over_tls(&new, &server).try_get(TILE).is_ok()
    });
    assert!(over_tls(&old, &server).try_get(TILE).is_err());
    assert_eq!(
        kept.try_get(TILE).unwrap().status,
        200,
        "connections keep what they began with"
    );
}

#[test]
fn a_changed_certificate_is_noticed_without_a_signal_where_files_are_watched() {
    let (place, old) = certified(&format!("{PATIENT}[files]\nwatch = \"100ms\"\n"));
    let server = serve(&place);
    let mut kept = over_tls(&old, &server);
    assert_eq!(kept.try_get(TILE).unwrap().status, 200);
    // Between the two files, when one has been written and the other has not, nothing changes.
    server.allow_error("server.tls.");
    let new = certify(&place);
    wait_until("the new certificate is in force", || {
        over_tls(&new, &server).try_get(TILE).is_ok()
    });
    assert!(over_tls(&old, &server).try_get(TILE).is_err());
    assert_eq!(
        kept.try_get(TILE).unwrap().status,
        200,
        "connections keep what they began with"
    );
    server.wait_for_log("for TLS were replaced");
    assert_eq!(
        server.log().matches("for TLS were replaced").count(),
        1,
        "only a change is told"
    );
}

#[test]
fn warming_reaches_a_server_over_tls_and_over_its_socket() {
    let (place, _) = certified("");
    let (other, _) = certified("");
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    place.write("cert.pem", &made.cert.pem());
    place.write("key.pem", &made.signing_key.serialize_pem());
    let server = serve(&place);
    let told = |trusted: &Place, words: &[&str]| {
        outcome(
            place
                .voltile(words)
                .env("SSL_CERT_FILE", trusted.path("cert.pem")),
        )
    };
    let url = format!("https://{}", server.address);
    let socket = format!("unix:{}", place.path("http.sock").display());
    for address in [url.as_str(), &socket] {
        let warmed = told(&place, &["warm", address]);
        let tiles = format!("{}{}", warmed.out, warmed.err);
        assert!(
            warmed.code == 0 && tiles.contains("4 of 4 tiles") && tiles.contains("0 failed"),
            "{tiles}"
        );
    }
    let distrusted = told(&other, &["warm", &url]);
    assert!(
        distrusted.code == 1 && distrusted.err.contains("SSL_CERT_FILE"),
        "{}",
        distrusted.err
    );
    let plain = told(&place, &["warm", &format!("http://{}", server.address)]);
    assert_ne!(plain.code, 0, "{}", plain.err);
    let nowhere = told(&place, &["warm", "unix:absent.sock"]);
    assert!(
        nowhere.err.contains("unix:absent.sock cannot be reached"),
        "{}",
        nowhere.err
    );
}

#[test]
#[ignore = "slow: holds thousands of connections"]
fn thousands_of_idle_connections_take_little_memory_and_do_not_delay_others() {
    const MOST: u64 = 5000;
    let limit = getrlimit(Resource::Nofile);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    )
    .unwrap();
    // Half of the server's descriptors are for files.
    let number = limit.maximum.unwrap_or(u64::MAX).min(4 * MOST) / 4;
    let most = "connections = 6000\n";
    let (place, client) = certified(&format!("{PATIENT}{most}"));
    let server = serve(&place);
    assert_eq!(
        over_tls(&client, &server).try_get(TILE).unwrap().status,
        200
    );
    let before = server.peak_memory();
    let mut with_tls: Vec<_> = (0..number / 2)
        .map(|_| over_tls(&client, &server))
        .collect();
    let mut without: Vec<_> = (0..number / 2).map(|_| inside(&place)).collect();
    // Half have been served and half have not begun.
    with_tls
        .iter_mut()
        .step_by(2)
        .for_each(|one| assert_eq!(one.try_get("/healthz").unwrap().status, 200));
    without
        .iter_mut()
        .step_by(2)
        .for_each(|one| assert_eq!(one.try_get("/healthz").unwrap().status, 200));
    wait_until("all are admitted", || {
        count(&place, "voltile_connections") > number
    });
    assert_eq!(
        over_tls(&client, &server).try_get(TILE).unwrap().status,
        200
    );
    let each = (server.peak_memory() - before) / number;
    assert!(each < 64 << 10, "each connection takes {each} bytes");
}
