//! Stories of many clients at once: one render for all who want it, hits while renders must wait, clients that leave, and
//! an end that leaves nobody without an answer.
//!
//! What is drawn here takes a second or so, so that there is time for a story while it is; no story depends on how long
//! exactly, and one that comes too late says so.

use std::thread;

use crate::common::volumes::{self, ENDLESS_LEVEL, SLOW_LEVEL};
use crate::common::wire::Connection;
use crate::common::{MOUNT, Place, Server, wait_until};

/// A tile that is drawn at once.
const QUICK: &str = "/ndtilecache/tilecache/slow/raw/xy/0/0_0_0.png";
/// Another one.
const QUICK_TOO: &str = "/ndtilecache/tilecache/slow/raw/xy/1/0_0_0.png";

/// A tile that takes long.
fn slow(slice: usize) -> String {
    format!("{MOUNT}/slow/raw/xy/{slice}/0_0_{SLOW_LEVEL}.png")
}

fn served(place: &Place, threads: usize, queue: usize) -> Server {
    volumes::slow(&place.path("slow.h5"), 4);
    place.write(
        "voltile.toml",
        &format!(
            "[server]\nshutdown_timeout = \"10m\"\n[render]\nthreads = {threads}\nqueue = {queue}\nneighbours = 0\nmax_voxels_per_tile = 10_000_000_000\n\
             [datasets.slow]\nfile = \"slow.h5\"\n[datasets.slow.channels.raw]\nwindow = [0, 200]\n"
        ),
    );
    place.serve::<&str>([])
}

/// Asks for a slow tile, and waits until it is being drawn.
fn started(server: &Server, slice: usize) -> Connection {
    let (mut connection, before) = (server.connect(), server.renders());
    connection.send("GET", &slow(slice), &[]);
    wait_until("the slow tile is being drawn", || {
        // A render keeps its place for a moment after its answer.
        if !connection.is_silent() {
            assert_eq!(connection.receive("GET").unwrap().status, 503, "too quick for this story");
            connection.send("GET", &slow(slice), &[]);
        }
        server.renders() > before
    });
    connection
}

fn assert_unanswered(connection: &mut Connection) {
    assert!(connection.is_silent(), "the slow tile was too quick for this story");
}

#[test]
fn two_hundred_clients_ask_for_one_cold_tile_and_it_is_drawn_once() {
    const CLIENTS: usize = 200;
    let place = Place::new();
    let server = served(&place, 2, 0);
    let mut clients: Vec<Connection> = (0..CLIENTS).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| client.send("GET", &slow(0), &[]));
    let answers: Vec<_> = clients.iter_mut().map(|client| client.receive("GET").unwrap()).collect();
    let first = &answers[0];
    assert!(first.picture().pixels.iter().any(|value| *value > 0));
    for answer in &answers {
        assert_eq!((answer.status, answer.header("etag")), (200, first.header("etag")));
        assert!(answer.body == first.body);
    }
    let metrics = server.metrics();
    let shared = metrics["voltile_tile_cache_waits_total"] + metrics["voltile_tile_cache_hits_total"];
    assert_eq!((metrics["voltile_renders_total"], shared), (1, CLIENTS as u64 - 1));
    assert!(metrics["voltile_tile_cache_waits_total"] > 0, "all came too late to wait together");
}

#[test]
fn where_the_queue_is_full_others_are_told_to_come_back_and_hits_are_served() {
    let place = Place::new();
    let server = served(&place, 1, 0);
    assert_eq!(server.get(QUICK).status, 200);
    let mut waiting = started(&server, 0);
    let before = server.count("voltile_renders_rejected_total");
    let refused = server.get(QUICK_TOO);
    let hit = server.get(QUICK);
    let (black, missing) = (server.tile("slow/raw/xy/99/0_0_0.png"), server.tile("slow/raw/xy/0/0_0_60.png"));
    let mut joined = server.connect();
    joined.send("GET", &slow(0), &[]);
    assert_eq!(server.count("voltile_renders_rejected_total"), before + 1);
    assert_unanswered(&mut waiting);
    assert_eq!(refused.status, 503);
    refused.problem();
    let seconds: u32 = refused.header("retry-after").expect("it says when to come back").parse().unwrap();
    assert!((1..=60).contains(&seconds));
    assert_eq!((hit.status, black.status, missing.status), (200, 200, 404));
    let answer = waiting.receive("GET").unwrap();
    assert_eq!(answer.status, 200);
    assert!(joined.receive("GET").unwrap().body == answer.body, "who waits for the same tile takes no place");
    wait_until("there is room again", || server.get(QUICK_TOO).status == 200);
}

#[test]
fn a_queue_of_one_holds_one_and_no_more() {
    let place = Place::new();
    let server = served(&place, 1, 1);
    let mut waiting = started(&server, 0);
    let mut others = [QUICK, QUICK_TOO].map(|target| {
        let mut other = server.connect();
        other.send("GET", target, &[]);
        other
    });
    wait_until("one is refused", || others.iter_mut().any(|other| !other.is_silent()));
    let silent = others.each_mut().map(Connection::is_silent);
    assert_eq!(silent.iter().filter(|is_silent| **is_silent).count(), 1, "the other one waits");
    assert_unanswered(&mut waiting);
    let mut statuses = others.map(|mut other| other.receive("GET").unwrap().status);
    statuses.sort_unstable();
    assert_eq!((waiting.receive("GET").unwrap().status, statuses), (200, [200, 503]));
}

#[test]
fn clients_that_hang_up_harm_nobody_and_what_they_wanted_is_not_drawn_for_nobody() {
    let place = Place::new();
    let server = served(&place, 1, 8);
    let (leaving, mut staying) = (started(&server, 0), server.connect());
    // One more waits for the tile that is being drawn, and two each for others in the queue.
    staying.send("GET", &slow(0), &[]);
    let mut queued: Vec<Connection> = (0..6).map(|_| server.connect()).collect();
    queued.iter_mut().enumerate().for_each(|(n, client)| client.send("GET", &slow(1 + n % 3), &[]));
    // Who leaves before the server has read what is asked for has asked for nothing.
    wait_until("all are waiting", || server.count("voltile_tile_cache_waits_total") == 1 + 3);
    let mut last = server.connect();
    last.send("GET", QUICK, &[]);
    leaving.hang_up();
    queued.into_iter().for_each(Connection::hang_up);
    assert_unanswered(&mut staying);
    let kept = staying.receive("GET").unwrap();
    assert!(kept.picture().pixels.iter().any(|value| *value > 0));
    assert_eq!(last.receive("GET").unwrap().status, 200);
    let done = || (server.renders(), server.count("voltile_renders_abandoned_total"));
    wait_until("all five renders are drawn or given up", || done().0 + done().1 == 5);
    assert_eq!(done(), (2, 3), "drawn and given up");
    assert!(server.get(&slow(0)).body == kept.body);
    assert_eq!(server.get(&slow(1)).status, 200, "what was given up can be had again");
}

#[test]
fn half_a_request_and_half_an_answer_harm_nobody() {
    let place = Place::new();
    let server = served(&place, 1, 8);
    for _ in 0..20 {
        let mut half = server.connect();
        half.write(b"GET /ndtilecache/tilecache/slow/raw/xy/0/0_0_0.p");
        half.hang_up();
        let mut pipelined = server.connect();
        (0..50).for_each(|_| pipelined.send("GET", QUICK, &[]));
        pipelined.receive("GET").unwrap();
        pipelined.hang_up();
    }
    assert_eq!((server.get(QUICK).status, server.renders()), (200, 1));
}

#[test]
fn sigterm_lets_requests_in_flight_end() {
    let place = Place::new();
    let mut server = served(&place, 1, 8);
    let mut drawing = started(&server, 0);
    let (mut queued, idle) = ([server.connect(), server.connect()], server.connect());
    queued.iter_mut().for_each(|client| client.send("GET", QUICK, &[]));
    wait_until("one of the two waits for the other", || server.count("voltile_tile_cache_waits_total") == 1);
    assert_unanswered(&mut drawing);
    server.terminate();
    let slow = thread::spawn(move || drawing.receive("GET").unwrap());
    for mut client in queued {
        assert_eq!(client.receive("GET").unwrap().picture().mode, "L");
    }
    assert_eq!(slow.join().unwrap().picture().mode, "L");
    assert_eq!(server.ended().code(), Some(0));
    drop(idle);
}

#[test]
fn sigterm_ends_soon_where_clients_only_keep_their_connections() {
    let place = Place::new();
    let mut server = served(&place, 1, 8);
    let mut idle = server.connect();
    assert_eq!(idle.get(QUICK).status, 200);
    // Its clients are given longer than it has patience here to see it end.
    server.stop();
    assert!(idle.is_closed());
}

#[test]
fn sigterm_is_bounded_by_the_timeout() {
    let place = Place::new();
    volumes::endless(&place.path("endless.h5"));
    place.write(
        "voltile.toml",
        "[server]\nshutdown_timeout = \"1s\"\n[render]\nmax_voxels_per_tile = 100_000_000_000\n\
         [datasets.endless]\nfile = \"endless.h5\"\n[datasets.endless.channels.raw]\nwindow = [0, 200]\n",
    );
    let mut server = place.serve::<&str>([]);
    let mut waiting = server.connect();
    waiting.send("GET", &format!("{MOUNT}/endless/raw/xy/0/0_0_{ENDLESS_LEVEL}.png"), &[]);
    wait_until("the tile is being drawn", || server.renders() > 0);
    server.stop();
    assert!(waiting.receive("GET").is_err(), "it was waited for to the end, or too quick for this story");
}
