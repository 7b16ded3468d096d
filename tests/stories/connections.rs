//! Connections: pipelined requests, clients that are slow, idle or do not read, too many of them,
//! and bytes that are not HTTP.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use crate::common::volumes::{self, SLOW_LEVEL};
use crate::common::wire::{Answer, Connection};
use crate::common::{
    ATTEMPTS, MOUNT, PATIENCE, Place, Server, made, metrics, until_in_time, wait_until,
};
use ndarray::ArrayD;

/// A server of a volume whose coarse tiles are slow to render; `server` is added to its section of
/// the configuration.
fn served(place: &Place, server: &str) -> Server {
    configure(place, server);
    place.start(place.voltile(["serve"]))
}

fn configure(place: &Place, server: &str) {
    volumes::slow(&place.path("slow.h5"), ATTEMPTS);
    place.write(
        "voltile.toml",
        &format!(
            "[server]\nbind = \"127.0.0.1:0\"\n{server}\n[render]\nneighbours = 0\nmax_voxels_per_tile = 10_000_000_000\n\
             [datasets.slow]\nfile = \"slow.h5\"\n[datasets.slow.channels.raw]\nwindow = [0, 200]\n"
        ),
    );
}

/// A server whose tiles have a quarter of a MiB each.
fn large(place: &Place, server: &str) -> Server {
    let mut random = fastrand::Rng::with_seed(7);
    let noise = ArrayD::from_shape_simple_fn(vec![2, 512, 512], || random.u8(..));
    made::file(&place.path("noise.h5"), |file| {
        drop(made::put(file, "raw", &noise));
    });
    place.write(
        "voltile.toml",
        &format!("[server]\n{server}\n[datasets.noise]\nfile = \"noise.h5\"\n"),
    );
    place.serve::<&str>([])
}

/// A tile that is slow to render.
fn slow(slice: usize) -> String {
    format!("{MOUNT}/slow/raw/xy/{slice}/0_0_{SLOW_LEVEL}.png")
}

fn noise(slice: usize) -> String {
    format!("{MOUNT}/noise/raw/xy/{slice}/0_0_0.png")
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: voltile.test\r\n\r\n")
}

/// Waits until the server has closed all connections but the one that asks.
fn wait_for_closing(server: &Server) {
    // One connection for all questions: an earlier one might not be closed yet.
    let mut asking = server.connect();
    wait_until("the others are closed", || {
        metrics(&asking.get("/metrics"))["voltile_connections"] == 1
    });
}

/// A connection and the answer to its first request. If the server's timeouts are short, it may
/// close a connection before this thread has sent the request.
fn answered(server: &Server, target: &str) -> (Connection, Answer) {
    until_in_time(|_| {
        let mut connection = server.connect();
        let answer = connection.try_get(target).ok()?;
        Some((connection, answer))
    })
}

/// Everything that the server sends until it closes the connection.
fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    if let Err(error) = stream.read_to_end(&mut bytes) {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn thousands_of_pipelined_requests_with_unread_answers_take_little_memory() {
    const CLIENTS: usize = 20;
    let place = Place::new();
    let server = large(&place, "");
    let tile = server.get(&noise(0));
    assert!(tile.body.len() > 200_000);
    let segment = get(&noise(0)).repeat(40) + &"GET / HTTP/1.1\r\nHost:a\r\n\r\n".repeat(5000);
    let before = server.peak_memory();
    let clients: Vec<TcpStream> = (0..CLIENTS)
        .map(|_| {
            let mut client = TcpStream::connect(server.address).unwrap();
            // The server does not read everything; the rest must not block this thread.
            client.set_nonblocking(true).unwrap();
            let sent = client.write(segment.as_bytes());
            assert!(
                sent.is_ok_and(|sent| sent > 40_000),
                "the system buffers most of it"
            );
            client
        })
        .collect();
    let mut hits = (0, 0);
    wait_until("the server cannot send more", || {
        hits = (hits.1, server.count("voltile_tile_cache_hits_total"));
        thread::sleep(Duration::from_millis(300));
        hits.0 >= CLIENTS as u64 && hits.0 == hits.1
    });
    let taken = (server.peak_memory() - before) >> 20;
    assert!(taken < 40, "{CLIENTS} connections took {taken} MiB");
    drop(clients);
}

/// The bytes that the system holds of what a server has sent to its clients.
fn unsent(server: &Server) -> u64 {
    let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let own = format!(":{:04X}", server.address.port());
    let queued = sockets.lines().skip(1).filter_map(|socket| {
        // The columns are: number, local address, remote address, state (0A: listening), bytes to
        // send and to read, …
        let columns: Vec<&str> = socket.split_whitespace().collect();
        let is_own = columns[1].ends_with(&own) && columns[3] != "0A";
        let sending = columns[4].split(':').next().unwrap();
        is_own.then(|| u64::from_str_radix(sending, 16).unwrap())
    });
    queued.sum()
}

#[test]
fn the_system_holds_little_of_what_clients_do_not_read() {
    const CLIENTS: usize = 40;
    let place = Place::new();
    let server = large(&place, "");
    assert!(server.get(&noise(0)).body.len() > 200_000);
    let clients: Vec<TcpStream> = (0..CLIENTS)
        .map(|_| {
            let mut client = TcpStream::connect(server.address).unwrap();
            client
                .write_all(get(&noise(0)).repeat(60).as_bytes())
                .unwrap();
            client
        })
        .collect();
    let mut hits = (0, 0);
    wait_until("the server cannot send more", || {
        hits = (hits.1, server.count("voltile_tile_cache_hits_total"));
        thread::sleep(Duration::from_millis(300));
        hits.0 >= CLIENTS as u64 && hits.0 == hits.1
    });
    let each = (unsent(&server) / CLIENTS as u64) >> 10;
    assert!(each < 256, "{each} KiB for each of {CLIENTS} connections");
    drop(clients);
}

#[test]
fn requests_pipelined_behind_a_slow_tile_are_all_answered_in_order() {
    let place = Place::new();
    let server = served(&place, "");
    until_in_time(|attempt| {
        let (mut connection, before) = (server.connect(), server.renders());
        connection.write((get(&slow(attempt)) + &get("/healthz").repeat(20)).as_bytes());
        wait_until("the tile is being rendered", || server.renders() > before);
        (0..20).for_each(|_| connection.send("GET", "/healthz", &[]));
        let is_in_time = connection.is_silent();
        assert_eq!(connection.receive("GET").unwrap().picture().mode, "L");
        for n in 0..40 {
            assert_eq!(connection.receive("GET").unwrap().text(), "ok\n", "{n}");
        }
        assert_eq!(connection.get("/healthz").text(), "ok\n");
        is_in_time.then_some(())
    });
}

#[test]
fn methods_versions_and_headers_of_pipelined_requests_affect_only_their_own_answers() {
    let place = Place::new();
    let server = served(&place, "");
    let health = get("/healthz");
    let (head, old) = (
        health.replace("GET", "HEAD"),
        health.replace("HTTP/1.1", "HTTP/1.0"),
    );
    let kept = old.replace("\r\n\r\n", "\r\nConnection: keep-alive\r\n\r\n");
    let last = health.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    for (slice, last) in [&last, &old].into_iter().enumerate() {
        let mut connection = server.connect();
        // The first is slow, so that all others have arrived when it is answered.
        let cold = get(&slow(slice));
        let all = [
            &cold, &head, &health, &kept, &health, &head, &kept, &health, last, &health, &health,
        ];
        connection.write(all.map(String::as_str).concat().as_bytes());
        assert_eq!(connection.receive("GET").unwrap().picture().mode, "L");
        for request in &all[1..9] {
            let method = request.split(' ').next().unwrap();
            let answer = connection.receive(method).unwrap();
            assert_eq!(
                (answer.status, answer.header("content-length")),
                (200, Some("3")),
                "{request}"
            );
            assert_eq!(
                answer.body,
                if method == "GET" { &b"ok\n"[..] } else { b"" },
                "{request}"
            );
        }
        assert!(connection.is_closed(), "{last}");
    }
}

#[test]
fn a_request_with_a_body_or_an_upgrade_is_answered_once_and_ends_the_connection() {
    let place = Place::new();
    let server = served(&place, "");
    let asks = |method: &str, headers: &str, body: &str| {
        format!(
            "{method} /healthz HTTP/1.1\r\nHost: a\r\n{headers}\r\n{body}{}",
            get("/datasets.json")
        )
    };
    for (request, expected) in [
        (
            asks("POST", "Content-Length: 5\r\n", "GET /"),
            "HTTP/1.1 405 ",
        ),
        (
            asks("GET", "Content-Length: 5\r\n", "GET /"),
            "HTTP/1.1 200 ",
        ),
        (
            asks(
                "PUT",
                "Transfer-Encoding: chunked\r\n",
                "3\r\nabc\r\n0\r\n\r\n",
            ),
            "HTTP/1.1 405 ",
        ),
        (
            asks("GET", "Connection: Upgrade\r\nUpgrade: websocket\r\n", ""),
            "HTTP/1.1 200 ",
        ),
        (
            asks(
                "GET",
                "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n",
                "",
            ),
            "HTTP/1.1 200 ",
        ),
        (
            asks(
                "PUT",
                "Expect: 100-continue\r\nContent-Length: 5\r\n",
                "12345",
            ),
            "HTTP/1.1 405 ",
        ),
        (
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
            "HTTP/1.1 400 ",
        ),
        (
            format!("GET /{} HTTP/1.1\r\n", "a".repeat(140_000)),
            "HTTP/1.1 431 ",
        ),
    ] {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let answer = rest(&mut stream);
        let answer = answer
            .strip_prefix("HTTP/1.1 100 Continue\r\n\r\n")
            .unwrap_or(&answer);
        assert!(answer.starts_with(expected), "{request:?}: {answer}");
        assert_eq!(
            answer.matches("HTTP/1.1 ").count(),
            1,
            "{request:?}: {answer}"
        );
    }
    // A request that expects 100-continue and has no body is like any other.
    let mut polite = server.connect();
    polite.send("GET", "/healthz", &[("Expect", "100-continue")]);
    assert_eq!(polite.receive("GET").unwrap().status, 100);
    assert_eq!(polite.receive("GET").unwrap().text(), "ok\n");
    assert_eq!(polite.get("/healthz").text(), "ok\n");
}

#[test]
fn the_head_of_every_request_must_arrive_in_time() {
    let place = Place::new();
    let server = served(&place, "head_timeout = \"300ms\"");
    let (mut connection, answer) = answered(&server, "/healthz");
    assert_eq!(answer.status, 200);
    // The second request comes byte by byte.
    let mut bytes = get("/healthz")
        .into_bytes()
        .into_iter()
        .take(20)
        .chain(std::iter::repeat(b'x'));
    wait_until("the server answers", || {
        let is_answered = !connection.is_silent();
        if !is_answered {
            connection.write(&[bytes.next().unwrap()]);
            thread::sleep(Duration::from_millis(40));
        }
        is_answered
    });
    assert_eq!(connection.receive("GET").unwrap().status, 408);
    assert!(connection.is_closed());
    assert!(
        server.connect().is_closed(),
        "a connection without a request is closed"
    );
}

#[test]
fn an_idle_connection_is_closed_but_not_one_that_waits_for_its_tile() {
    let place = Place::new();
    let server = served(
        &place,
        "idle_timeout = \"200ms\"\nhead_timeout = \"100ms\"\nwrite_timeout = \"100ms\"",
    );
    let (mut idle, answer) = answered(&server, "/healthz");
    assert_eq!(answer.status, 200);
    assert!(idle.is_closed());
    let (mut waiting, answer) = answered(&server, &slow(0));
    assert_eq!(answer.picture().mode, "L");
    assert!(waiting.is_closed());
}

#[test]
fn a_client_that_does_not_read_its_answers_is_closed() {
    let place = Place::new();
    let server = large(&place, "write_timeout = \"500ms\"");
    let mut connection = server.connect();
    // Far more than both sockets buffer.
    connection.write(
        (0..100)
            .map(|n| get(&noise(n % 2)))
            .collect::<String>()
            .as_bytes(),
    );
    wait_until("it is being answered", || server.renders() > 0);
    wait_for_closing(&server);
    // Buffered answers may or may not arrive.
    let answers = (0..100)
        .take_while(|_| connection.receive("GET").is_ok())
        .count();
    assert!(answers < 100, "all answers came");
    assert_eq!(server.get(&noise(0)).status, 200);
}

#[test]
fn connections_beyond_the_limit_wait_until_others_end() {
    let place = Place::new();
    let server = served(
        &place,
        "workers = 2\nconnections = 4\nidle_timeout = \"5m\"\nhead_timeout = \"5m\"",
    );
    let mut served: Vec<Connection> = (0..4).map(|_| server.connect()).collect();
    for connection in &mut served {
        assert_eq!(connection.get("/healthz").status, 200);
    }
    let mut waiting: Vec<Connection> = (0..4).map(|_| server.connect()).collect();
    for connection in &mut waiting {
        connection.send("GET", "/healthz", &[]);
    }
    for (ending, waiting) in served.into_iter().zip(&mut waiting) {
        let mut ending = ending;
        let metrics = metrics(&ending.get("/metrics"));
        assert_eq!(metrics["voltile_connections_limit"], 4);
        assert!(metrics["voltile_connections"] <= 4);
        ending.hang_up();
        assert_eq!(waiting.receive("GET").unwrap().text(), "ok\n");
    }
}

#[test]
fn the_limit_of_open_files_limits_connections() {
    let place = Place::new();
    configure(&place, "");
    let server = place.start(place.limited("ulimit -n 1024", ["serve"]));
    server.wait_for_log("ulimit");
    assert!((100..512).contains(&server.count("voltile_connections_limit")));
}

#[test]
fn what_is_not_http_is_refused_and_not_logged() {
    let place = Place::new();
    let server = served(&place, "");
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"\0\0\0\0\r\n\r\n",
        b"GET /[]{} HTTP/1.1\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(bytes).unwrap();
        let answer = rest(&mut stream);
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
    assert_eq!(server.get("/healthz").status, 200);
    assert_eq!(server.problems(), Vec::<String>::new());
}
