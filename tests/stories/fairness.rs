//! Stories of clients that share the render threads: one that asks for a lot does not keep the others waiting.
//!
//! One thread draws, so that the order is the queue's. What is drawn takes long enough that much waits meanwhile; how long
//! does not matter, since what is counted is how many renders went before.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use crate::common::volumes::{self, ENDLESS_LEVEL, SLOW_LEVEL};
use crate::common::wire::Connection;
use crate::common::{MOUNT, Place, Server, wait_until};

/// How many tiles the greedy client asks for.
const MANY: usize = 40;
/// More renders than can come between a render and when we look at the counter, and far fewer than [`MANY`].
const FEW: u64 = 12;

const GREEDY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
const LONE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// A tile that takes long.
fn slow(slice: usize) -> String {
    format!("{MOUNT}/slow/raw/xy/{slice}/0_0_{SLOW_LEVEL}.png")
}

fn served(place: &Place, queue: usize, server: &str) -> Server {
    volumes::slow(&place.path("slow.h5"), 2 * MANY);
    volumes::endless(&place.path("endless.h5"));
    place.write(
        "voltile.toml",
        &format!(
            "[server]\nshutdown_timeout = \"10m\"\n{server}\n[render]\nthreads = 1\nqueue = {queue}\nneighbours = 0\nmax_voxels_per_tile = 100_000_000_000\n\
             [datasets.slow]\nfile = \"slow.h5\"\n[datasets.slow.channels.raw]\nwindow = [0, 200]\n\
             [datasets.endless]\nfile = \"endless.h5\"\n[datasets.endless.channels.raw]\nwindow = [0, 200]\n"
        ),
    );
    place.serve::<&str>([])
}

fn waiting(server: &Server) -> u64 {
    server.count("voltile_renders_waiting")
}

/// How many tiles were taken up so far, to wait or to be drawn.
fn taken_up(server: &Server) -> u64 {
    let metrics = server.metrics();
    metrics["voltile_renders_waiting"] + metrics["voltile_renders_total"]
}

/// Asks for a tile over a connection of its own, and sees it taken up behind those before.
fn queued(server: &Server, from: Ipv4Addr, path: &str, headers: &[(&str, &str)]) -> Connection {
    let before = taken_up(server);
    let connection = sent(server, from, path, headers);
    wait_until("it is taken up", || taken_up(server) > before);
    connection
}

fn sent(server: &Server, from: Ipv4Addr, path: &str, headers: &[(&str, &str)]) -> Connection {
    let mut connection = Connection::open_from(IpAddr::V4(from), server.address);
    connection.send("GET", path, headers);
    connection
}

/// Asks for a tile, and sees it being drawn.
fn drawing(server: &Server, path: &str, headers: &[(&str, &str)]) -> Connection {
    let before = server.renders();
    let connection = sent(server, GREEDY, path, headers);
    wait_until("it is being drawn", || server.renders() > before);
    connection
}

/// Many tiles of the greedy client, from slice 0 on: the first is being drawn, the others wait.
fn greedy(server: &Server, headers: &[(&str, &str)]) -> Vec<Connection> {
    let mut connections = vec![drawing(server, &slow(0), headers)];
    connections.extend((1..=MANY).map(|slice| sent(server, GREEDY, &slow(slice), headers)));
    wait_until("all wait", || taken_up(server) > MANY as u64);
    connections
}

/// Waits for the picture, and sees how many were drawn by then that were not when it was asked for.
fn drawn_before(server: &Server, mut connection: Connection, before: u64) -> u64 {
    assert_eq!(connection.receive("GET").unwrap().status, 200);
    server.renders() - before
}

#[test]
fn a_lone_request_of_another_client_is_drawn_next() {
    let place = Place::new();
    let server = served(&place, 256, "");
    let _greedy = greedy(&server, &[]);
    let before = server.renders();
    let lone = sent(&server, LONE, &slow(MANY + 1), &[]);
    let drawn = drawn_before(&server, lone, before);
    assert!(drawn < FEW, "{drawn} were drawn, and {MANY} waited");
}

#[test]
fn clients_behind_a_trusted_proxy_are_told_apart() {
    let place = Place::new();
    let server = served(&place, 256, "trusted_proxies = [\"127.0.0.1\"]");
    let _greedy = greedy(&server, &[("X-Forwarded-For", "203.0.113.1")]);
    let before = server.renders();
    // The first address is the client's own word, which nobody believes.
    let headers = [("X-Forwarded-For", "203.0.113.1, 203.0.113.2")];
    let lone = sent(&server, GREEDY, &slow(MANY + 1), &headers);
    let drawn = drawn_before(&server, lone, before);
    assert!(drawn < FEW, "{drawn} were drawn, and {MANY} waited");
}

#[test]
fn a_tile_that_a_lone_client_wants_too_is_drawn_next_whoever_asked_first() {
    let place = Place::new();
    let server = served(&place, 256, "");
    let _greedy = greedy(&server, &[]);
    let before = server.renders();
    let lone = sent(&server, LONE, &slow(MANY / 2), &[]);
    let drawn = drawn_before(&server, lone, before);
    assert!(drawn < FEW, "{drawn} were drawn, and {MANY} waited");
}

#[test]
fn where_the_queue_is_full_the_greedy_client_loses_its_oldest_request() {
    let place = Place::new();
    let server = served(&place, 4, "");
    let mut first = drawing(&server, &slow(0), &[]);
    let mut greedy: Vec<Connection> =
        (1..=4).map(|slice| queued(&server, GREEDY, &slow(slice), &[])).collect();
    assert_eq!((waiting(&server), first.is_silent()), (4, true), "too quick for this story");
    let mut lone = sent(&server, LONE, &slow(5), &[]);
    let refused = greedy.remove(0).receive("GET").unwrap();
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    assert!(refused.problem().contains("queue is full"), "{refused:?}");
    assert_eq!(server.count("voltile_renders_rejected_total"), 1);
    for connection in greedy.iter_mut().chain([&mut lone, &mut first]) {
        assert_eq!(connection.receive("GET").unwrap().status, 200);
    }
}

/// Who gets a 503 where `first` waits with one request and `second` with two newer ones, and somebody else comes.
fn loser(mut server: Server, names: [&str; 3]) -> usize {
    let [first, second, newcomer] = names.map(|name| [("X-Forwarded-For", name)]);
    // It is being drawn until the server is gone.
    let _drawn = drawing(&server, &format!("{MOUNT}/endless/raw/xy/0/0_0_{ENDLESS_LEVEL}.png"), &second);
    let mut queue = [(1, &first), (2, &second), (3, &second)]
        .map(|(slice, by)| queued(&server, GREEDY, &slow(slice), by));
    let mut last = sent(&server, GREEDY, &slow(4), &newcomer);
    wait_until("one is refused", || queue.iter_mut().any(|connection| !connection.is_silent()));
    let refused = queue.iter_mut().position(|connection| !connection.is_silent()).unwrap();
    assert_eq!(queue[refused].receive("GET").unwrap().status, 503);
    assert!(last.is_silent(), "the newcomer waits");
    server.kill();
    refused
}

#[test]
fn forwarded_addresses_are_believed_of_trusted_proxies_alone() {
    const NAMES: [&str; 3] = ["203.0.113.1", "203.0.113.2", "203.0.113.3"];
    let (place, believing) = (Place::new(), Place::new());
    let server = served(&place, 3, "trusted_proxies = [\"10.0.0.0/8\"]");
    assert_eq!(loser(server, NAMES), 0, "they are one client, which loses its oldest request");
    let server = served(&believing, 3, "trusted_proxies = [\"127.0.0.0/8\"]");
    assert_eq!(loser(server, NAMES), 1, "the client that waits with two loses the older of them");
}

#[test]
fn prefetches_come_last_and_in_order() {
    let place = Place::new();
    let server = served(&place, 256, "");
    let prefetch = [("Sec-Purpose", "prefetch")];
    let _drawn = drawing(&server, &slow(0), &[]);
    let mut prefetched: Vec<Connection> =
        (1..=MANY / 2).map(|slice| queued(&server, LONE, &slow(slice), &prefetch)).collect();
    let before = server.renders();
    let wanted = sent(&server, GREEDY, &slow(MANY), &[]);
    let drawn = drawn_before(&server, wanted, before);
    assert!(drawn < FEW, "{drawn} were drawn, and {} wait", MANY / 2);
    let first = prefetched.remove(0);
    let drawn = drawn_before(&server, first, before);
    assert!(drawn < FEW, "{drawn} were drawn before the first");
    assert!(prefetched.last_mut().unwrap().is_silent(), "the last is drawn last");
}

/// Whether the newest of some goes first; `None` where we were too slow to see: something had been drawn before all
/// waited, or they had waited for longer than requests are patient.
fn newest_goes_first(server: &Server, slices: &mut impl Iterator<Item = usize>) -> Option<bool> {
    let mut next = || slow(slices.next().unwrap());
    let mut drawn = drawing(server, &next(), &[]);
    let began = Instant::now();
    let mut queue: Vec<Connection> = (0..4).map(|_| queued(server, GREEDY, &next(), &[])).collect();
    let all_wait = waiting(server) == 4;
    drawn.receive("GET").unwrap();
    let is_in_time = began.elapsed() < Duration::from_millis(1800);
    wait_until("another one is drawn", || queue.iter_mut().any(|connection| !connection.is_silent()));
    let is_newest = !queue.last_mut().unwrap().is_silent();
    queue.into_iter().for_each(Connection::hang_up);
    wait_until("the others are given up", || waiting(server) == 0);
    (all_wait && is_in_time).then_some(is_newest)
}

#[test]
fn the_newest_request_of_a_client_goes_first() {
    let place = Place::new();
    let server = served(&place, 256, "");
    let mut slices = 0..2 * MANY;
    // A slow machine may be too slow for this each time; the rule itself is tested with a clock of its own.
    let seen = (0..10).find_map(|_| newest_goes_first(&server, &mut slices));
    assert!(seen != Some(false), "an older request went first");
}

#[test]
fn what_a_client_waited_for_that_has_gone_makes_room_at_once() {
    let place = Place::new();
    let server = served(&place, 1, "");
    let mut drawn = drawing(&server, &slow(0), &[]);
    queued(&server, GREEDY, &slow(1), &[]).hang_up();
    wait_until("nothing waits", || waiting(&server) == 0);
    assert_eq!(server.count("voltile_renders_abandoned_total"), 1);
    assert_eq!((server.renders(), drawn.is_silent()), (1, true), "too quick for this story");
    let mut next = queued(&server, GREEDY, &slow(2), &[]);
    for connection in [&mut drawn, &mut next] {
        assert_eq!(connection.receive("GET").unwrap().status, 200);
    }
}
