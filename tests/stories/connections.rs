//! Stories of connections: requests that are sent before the last was answered, clients that are slow, idle, or do not
//! read, too many of them, and what is no HTTP at all.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::common::volumes::{self, SLOW_LEVEL};
use crate::common::wire::Connection;
use crate::common::{MOUNT, PATIENCE, Place, Server, made, wait_until};
use ndarray::ArrayD;
use rustix::net::{AddressFamily, SocketType};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A server with a volume whose coarse tiles take long, and more keys for its section.
fn served(place: &Place, server: &str) -> Server {
    place.start(command(place, server))
}

fn command(place: &Place, server: &str) -> Command {
    volumes::slow(&place.path("slow.h5"), 4);
    place.write(
        "voltile.toml",
        &format!(
            "[server]\nbind = \"127.0.0.1:0\"\n{server}\n[render]\nneighbours = 0\nmax_voxels_per_tile = 10_000_000_000\n\
             [datasets.slow]\nfile = \"slow.h5\"\n[datasets.slow.channels.raw]\nwindow = [0, 200]\n"
        ),
    );
    place.voltile(["serve"])
}

/// A server with tiles of a quarter of a MiB.
fn large(place: &Place, server: &str) -> Server {
    let mut random = fastrand::Rng::with_seed(7);
    let noise = ArrayD::from_shape_simple_fn(vec![2, 512, 512], || random.u8(..));
    made::file(&place.path("noise.h5"), |file| drop(made::put(file, "raw", &noise)));
    place.write("voltile.toml", &format!("[server]\n{server}\n[datasets.noise]\nfile = \"noise.h5\"\n"));
    place.serve::<&str>([])
}

/// A tile that takes long.
fn slow(slice: usize) -> String {
    format!("{MOUNT}/slow/raw/xy/{slice}/0_0_{SLOW_LEVEL}.png")
}

fn noise(slice: usize) -> String {
    format!("{MOUNT}/noise/raw/xy/{slice}/0_0_0.png")
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: voltile.test\r\n\r\n")
}

/// How many connections the server has closed for that reason.
fn closed(server: &Server, reason: &str) -> u64 {
    server.count(&format!("voltile_connections_closed_total{{reason=\"{reason}\"}}"))
}

/// A connection from another address of this machine.
fn connect_from(last: u8, to: SocketAddr) -> TcpStream {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from(([127, 0, 0, last], 0))).unwrap();
    rustix::net::connect(&socket, &to).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// What the server sends until it closes the connection.
fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    if let Err(error) = stream.read_to_end(&mut bytes) {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn thousands_of_pipelined_requests_whose_answers_are_not_read_take_little_memory() {
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
            // What the server does not read must not hold up the story.
            client.set_nonblocking(true).unwrap();
            let sent = client.write(segment.as_bytes());
            assert!(sent.is_ok_and(|sent| sent > 40_000), "the system takes most of it");
            client
        })
        .collect();
    let mut hits = (0, 0);
    wait_until("the server has done what it can", || {
        hits = (hits.1, server.count("voltile_tile_cache_hits_total"));
        thread::sleep(Duration::from_millis(300));
        hits.0 >= CLIENTS as u64 && hits.0 == hits.1
    });
    let taken = (server.peak_memory() - before) >> 20;
    assert!(taken < 40, "{CLIENTS} connections took {taken} MiB");
    drop(clients);
}

#[test]
fn all_that_was_asked_for_while_a_cold_tile_is_drawn_is_answered() {
    let place = Place::new();
    let server = served(&place, "");
    let mut connection = server.connect();
    connection.write((get(&slow(0)) + &get("/healthz").repeat(20)).as_bytes());
    wait_until("the tile is being drawn", || server.renders() > 0);
    assert!(connection.is_silent(), "the tile was too quick for this story");
    (0..20).for_each(|_| connection.send("GET", "/healthz", &[]));
    assert_eq!(connection.receive("GET").unwrap().picture().mode, "L");
    for n in 0..40 {
        assert_eq!(connection.receive("GET").unwrap().text(), "ok\n", "{n}");
    }
    assert_eq!(connection.get("/healthz").text(), "ok\n");
}

#[test]
fn methods_versions_and_wishes_of_pipelined_requests_concern_their_own_answers_alone() {
    let place = Place::new();
    let server = served(&place, "");
    let health = get("/healthz");
    let (head, old) = (health.replace("GET", "HEAD"), health.replace("HTTP/1.1", "HTTP/1.0"));
    let kept = old.replace("\r\n\r\n", "\r\nConnection: keep-alive\r\n\r\n");
    let last = health.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    for (slice, last) in [&last, &old].into_iter().enumerate() {
        let mut connection = server.connect();
        // The first takes so long that all others have come by then.
        let cold = get(&slow(slice));
        let all = [&cold, &head, &health, &kept, &health, &head, &kept, &health, last, &health, &health];
        connection.write(all.map(String::as_str).concat().as_bytes());
        assert_eq!(connection.receive("GET").unwrap().picture().mode, "L");
        for request in &all[1..9] {
            let method = request.split(' ').next().unwrap();
            let answer = connection.receive(method).unwrap();
            assert_eq!((answer.status, answer.header("content-length")), (200, Some("3")), "{request}");
            assert_eq!(answer.body, if method == "GET" { &b"ok\n"[..] } else { b"" }, "{request}");
        }
        assert!(connection.is_closed(), "{last}");
    }
}

#[test]
fn what_is_not_a_plain_request_is_answered_once_and_ends_the_connection() {
    let place = Place::new();
    let server = served(&place, "");
    let asks = |method: &str, headers: &str, body: &str| {
        format!("{method} /healthz HTTP/1.1\r\nHost: a\r\n{headers}\r\n{body}{}", get("/datasets.json"))
    };
    for (request, expected) in [
        (asks("POST", "Content-Length: 5\r\n", "GET /"), "HTTP/1.1 405 "),
        (asks("GET", "Content-Length: 5\r\n", "GET /"), "HTTP/1.1 200 "),
        (asks("PUT", "Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"), "HTTP/1.1 405 "),
        (asks("GET", "Connection: Upgrade\r\nUpgrade: websocket\r\n", ""), "HTTP/1.1 200 "),
        (asks("GET", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n", ""), "HTTP/1.1 200 "),
        (asks("PUT", "Expect: 100-continue\r\nContent-Length: 5\r\n", "12345"), "HTTP/1.1 405 "),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), "HTTP/1.1 400 "),
        (format!("GET /{} HTTP/1.1\r\n", "a".repeat(80_000)), "HTTP/1.1 431 "),
    ] {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let answer = rest(&mut stream);
        let answer = answer.strip_prefix("HTTP/1.1 100 Continue\r\n\r\n").unwrap_or(&answer);
        assert!(answer.starts_with(expected), "{request:?}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{request:?}: {answer}");
    }
    // One that asks whether it may go on, and has nothing to send, is like any other.
    let mut polite = server.connect();
    polite.send("GET", "/healthz", &[("Expect", "100-continue")]);
    assert_eq!(polite.receive("GET").unwrap().status, 100);
    assert_eq!(polite.receive("GET").unwrap().text(), "ok\n");
    assert_eq!(polite.get("/healthz").text(), "ok\n");
}

#[test]
fn every_request_must_come_in_time_and_not_only_the_first() {
    let place = Place::new();
    let server = served(&place, "head_timeout = \"300ms\"");
    let mut connection = connect_from(1, server.address);
    connection.write_all(get("/healthz").as_bytes()).unwrap();
    let mut answer = [0; 4096];
    assert!(connection.read(&mut answer).unwrap() > 0);
    let mut trickle = connection.try_clone().unwrap();
    let trickling = thread::spawn(move || {
        let mut bytes = get("/healthz").into_bytes().into_iter().take(20).chain(std::iter::repeat(b'x'));
        wait_until("the server does not take more", || {
            thread::sleep(Duration::from_millis(40));
            trickle.write_all(&[bytes.next().unwrap()]).is_err()
        });
    });
    let refused = rest(&mut connection);
    assert!(refused.starts_with("HTTP/1.1 408 ") && refused.contains("head_timeout"), "{refused}");
    trickling.join().unwrap();
    assert_eq!(rest(&mut connect_from(1, server.address)), "", "one that sends nothing is closed");
    assert_eq!(closed(&server, "head_timeout"), 2);
}

#[test]
fn an_idle_connection_is_closed_and_one_that_waits_for_its_tile_is_not() {
    let place = Place::new();
    let server =
        served(&place, "idle_timeout = \"200ms\"\nhead_timeout = \"100ms\"\nwrite_timeout = \"100ms\"");
    let (mut idle, mut waiting) = (server.connect(), server.connect());
    waiting.send("GET", &slow(0), &[]);
    assert_eq!(idle.get("/healthz").status, 200);
    assert!(idle.is_closed());
    assert_eq!(waiting.receive("GET").unwrap().picture().mode, "L");
    assert!(waiting.is_closed());
    assert!(closed(&server, "idle_timeout") >= 2);
}

#[test]
fn a_client_that_does_not_read_its_answers_is_closed() {
    let place = Place::new();
    let server = large(&place, "write_timeout = \"500ms\"");
    let mut connection = server.connect();
    // Far more than the sockets between them hold.
    (0..100).for_each(|n| connection.send("GET", &noise(n % 2), &[]));
    wait_until("it is closed", || closed(&server, "write_timeout") == 1);
    // What was on its way may or may not arrive.
    let answers = (0..100).take_while(|_| connection.receive("GET").is_ok()).count();
    assert!(answers < 100, "all answers came");
    assert_eq!(server.get(&noise(0)).status, 200);
}

#[test]
fn thirteen_hundred_idle_connections_and_few_descriptors_leave_others_served() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
    let place = Place::new();
    let program = command(&place, "");
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "ulimit -n 1024 && exec \"$0\" serve"]).arg(program.get_program());
    shell.env_clear().current_dir(program.get_current_dir().unwrap());
    let server = place.start(shell);
    let mut kept = server.connect();
    assert_eq!(kept.get("/healthz").status, 200);
    let idle: Vec<Connection> = (0..1300)
        .map(|_| {
            let mut idle = server.connect();
            assert_eq!(idle.get("/healthz").status, 200);
            idle
        })
        .collect();
    for slice in 0..4 {
        let target = format!("{MOUNT}/slow/raw/xy/{slice}/0_0_0.png");
        assert_eq!((server.get(&target).status, kept.get(&target).status), (200, 200));
    }
    let metrics = server.metrics();
    assert!((100..512).contains(&metrics["voltile_connections"]), "{}", metrics["voltile_connections"]);
    assert!(metrics["voltile_connections_closed_total{reason=\"evicted\"}"] > 700);
    assert_eq!(metrics["voltile_connections_closed_total{reason=\"refused\"}"], 0);
    assert!(server.log().contains("ulimit"), "{}", server.log());
    drop(idle);
}

#[test]
fn a_client_has_its_share_of_connections() {
    let place = Place::new();
    let server = served(&place, "connections_for_each_client = 3");
    let mut mine: Vec<Connection> = (0..3).map(|_| server.connect()).collect();
    for one in &mut mine {
        assert_eq!(one.get("/healthz").status, 200);
        thread::sleep(Duration::from_millis(5));
    }
    let mut other = connect_from(2, server.address);
    mine.push(server.connect());
    assert_eq!(mine[3].get("/healthz").status, 200);
    assert!(mine.remove(0).is_closed(), "the one that was idle for longest");
    mine.iter_mut().for_each(|one| one.send("GET", &slow(0), &[]));
    // All are busy when this has been counted.
    let mut metrics = String::new();
    wait_until("all wait for the tile", || {
        let mut asking = connect_from(2, server.address);
        asking
            .write_all(get("/metrics").replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n").as_bytes())
            .unwrap();
        metrics = rest(&mut asking);
        metrics.contains("\nvoltile_tile_cache_waits_total 2\n")
    });
    let mut newcomer = connect_from(1, server.address);
    // It may be closed before it has asked.
    let asked = newcomer.write_all(get("/healthz").as_bytes());
    assert!(asked.is_err() || rest(&mut newcomer).is_empty());
    for mut one in mine {
        assert_eq!(one.receive("GET").unwrap().picture().mode, "L");
    }
    other.write_all(get("/healthz").replace("1.1", "1.0").as_bytes()).unwrap();
    assert!(rest(&mut other).ends_with("ok\n"), "another client is not concerned");
}

#[test]
fn garbage_is_told_of_once_with_a_count() {
    let place = Place::new();
    let server = served(&place, "");
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"\0\0\0\0\r\n\r\n",
        b"GET /[]{} HTTP/1.1\r\n\r\n",
    ] {
        for _ in 0..7 {
            let mut stream = connect_from(1, server.address);
            stream.write_all(bytes).unwrap();
            let answer = rest(&mut stream);
            assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
            assert!(answer.contains("https://") || bytes[0] != 22, "{answer}");
        }
    }
    assert_eq!(closed(&server, "malformed"), 21);
    let log = server.log();
    let lines: Vec<&str> =
        log.lines().filter(|line| line.contains("WARN") || line.contains("ERROR")).collect();
    assert!(lines.len() == 1 && lines[0].contains("127.0.0.1"), "{log}");
    assert_eq!(server.get("/healthz").status, 200);
}
