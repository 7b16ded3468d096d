//! Many clients at once: one render for all that wait for a tile, hits while renders are refused,
//! clients that leave, and shutdowns in which waiting requests are answered.
//!
//! The tiles take about half a second to render, and the stories happen in that time; one that is too
//! slow is repeated.

use crate::common::volumes::{self, ENDLESS_LEVEL, SLOW_LEVEL};
use crate::common::wire::Connection;
use crate::common::{MOUNT, Place, Server, until_in_time, wait_until};

/// A tile that is rendered at once.
const QUICK: &str = "/ndtilecache/tilecache/slow/raw/xy/0/0_0_0.png";
/// Another one.
const QUICK_TOO: &str = "/ndtilecache/tilecache/slow/raw/xy/1/0_0_0.png";

/// A tile that is slow to render.
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

/// Requests a slow tile, and waits until it is being rendered; `None` if it was faster.
fn started(server: &Server, slice: usize) -> Option<Connection> {
    let (mut connection, before) = (server.connect(), server.renders());
    let mut is_answered = false;
    connection.send("GET", &slow(slice), &[]);
    wait_until("the slow tile is being rendered", || {
        // An earlier render keeps its place for a moment after its answer.
        if !connection.is_silent() {
            is_answered = connection.receive("GET").unwrap().status == 200;
            connection.send("GET", &slow(slice), &[]);
        }
        is_answered || server.renders() > before
    });
    (!is_answered && connection.is_silent()).then_some(connection)
}

#[test]
fn a_cold_tile_that_two_hundred_clients_request_is_rendered_once() {
    const CLIENTS: usize = 200;
    let place = Place::new();
    until_in_time(|_| {
        let server = served(&place, 2, 0);
        let mut clients: Vec<Connection> = (0..CLIENTS).map(|_| server.connect()).collect();
        clients
            .iter_mut()
            .for_each(|client| client.send("GET", &slow(0), &[]));
        let answers: Vec<_> = clients
            .iter_mut()
            .map(|client| client.receive("GET").unwrap())
            .collect();
        let first = &answers[0];
        assert!(first.picture().pixels.iter().any(|value| *value > 0));
        for answer in &answers {
            assert_eq!(
                (answer.status, answer.header("etag")),
                (200, first.header("etag"))
            );
            assert!(answer.body == first.body);
        }
        let metrics = server.metrics();
        let [renders, waits, hits] = ["renders", "tile_cache_waits", "tile_cache_hits"]
            .map(|name| metrics[&format!("voltile_{name}_total")]);
        assert_eq!((renders, waits + hits), (1, CLIENTS as u64 - 1));
        (waits > 0).then_some(())
    });
}

#[test]
fn if_the_queue_is_full_renders_are_refused_with_503_and_hits_are_served() {
    let place = Place::new();
    until_in_time(|_| {
        let server = served(&place, 1, 0);
        assert_eq!(server.get(QUICK).status, 200);
        let mut waiting = started(&server, 0)?;
        let before = server.metrics();
        let since = |name: &str| server.count(name) - before[name];
        let (refused, hit) = (server.get(QUICK_TOO), server.get(QUICK));
        let (black, missing) = (
            server.tile("slow/raw/xy/99/0_0_0.png"),
            server.tile("slow/raw/xy/0/0_0_60.png"),
        );
        let mut joined = server.connect();
        joined.send("GET", &slow(0), &[]);
        wait_until("it waits for the same tile", || {
            since("voltile_tile_cache_waits_total") + since("voltile_tile_cache_hits_total") == 2
        });
        let rejected = since("voltile_renders_rejected_total");
        if !waiting.is_silent() {
            return None;
        }
        assert_eq!((refused.status, rejected), (503, 1));
        refused.problem();
        let seconds: u32 = refused
            .header("retry-after")
            .expect("it has a Retry-After")
            .parse()
            .unwrap();
        assert!((1..=60).contains(&seconds));
        assert_eq!((hit.status, black.status, missing.status), (200, 200, 404));
        let answer = waiting.receive("GET").unwrap();
        assert_eq!(answer.status, 200);
        assert!(
            joined.receive("GET").unwrap().body == answer.body,
            "requests for the same tile need no room"
        );
        wait_until("there is room again", || {
            server.get(QUICK_TOO).status == 200
        });
        Some(())
    });
}

#[test]
fn a_queue_of_one_holds_one_request() {
    let place = Place::new();
    until_in_time(|_| {
        let server = served(&place, 1, 1);
        let mut waiting = started(&server, 0)?;
        let mut others = [QUICK, QUICK_TOO].map(|target| {
            let mut other = server.connect();
            other.send("GET", target, &[]);
            other
        });
        wait_until("one is refused", || {
            others.iter_mut().any(|other| !other.is_silent())
        });
        let silent = others.each_mut().map(Connection::is_silent);
        if !waiting.is_silent() {
            return None;
        }
        assert_eq!(
            silent.iter().filter(|is_silent| **is_silent).count(),
            1,
            "the other waits"
        );
        let mut statuses = others.map(|mut other| other.receive("GET").unwrap().status);
        statuses.sort_unstable();
        assert_eq!(
            (waiting.receive("GET").unwrap().status, statuses),
            (200, [200, 503])
        );
        Some(())
    });
}

#[test]
fn requests_of_clients_that_hang_up_are_not_rendered_and_others_are_answered() {
    let place = Place::new();
    until_in_time(|_| {
        let server = served(&place, 1, 8);
        let (leaving, mut staying) = (started(&server, 0)?, server.connect());
        // One more waits for the tile that is being rendered, and two each for three others in the
        // queue.
        staying.send("GET", &slow(0), &[]);
        let mut queued: Vec<Connection> = (0..6).map(|_| server.connect()).collect();
        queued
            .iter_mut()
            .enumerate()
            .for_each(|(n, client)| client.send("GET", &slow(1 + n % 3), &[]));
        // The server must have read their requests before they leave.
        let counted = [
            "voltile_renders_total",
            "voltile_renders_waiting",
            "voltile_tile_cache_waits_total",
            "voltile_tile_cache_hits_total",
        ];
        wait_until("all requests are read", || {
            let metrics = server.metrics();
            counted.iter().map(|name| metrics[*name]).sum::<u64>() == 8
        });
        let mut last = server.connect();
        last.send("GET", QUICK, &[]);
        leaving.hang_up();
        queued.into_iter().for_each(Connection::hang_up);
        let done = || {
            (
                server.renders(),
                server.count("voltile_renders_abandoned_total"),
            )
        };
        wait_until("the abandoned requests have left the queue", || {
            done().1 == 3 || !staying.is_silent()
        });
        if !staying.is_silent() {
            return None;
        }
        let kept = staying.receive("GET").unwrap();
        assert!(kept.picture().pixels.iter().any(|value| *value > 0));
        assert_eq!(last.receive("GET").unwrap().status, 200);
        assert_eq!(done(), (2, 3), "rendered and abandoned");
        assert!(server.get(&slow(0)).body == kept.body);
        assert_eq!(
            server.get(&slow(1)).status,
            200,
            "an abandoned tile can be requested again"
        );
        Some(())
    });
}

#[test]
fn incomplete_requests_and_unread_answers_harm_no_other_client() {
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
fn sigterm_waits_for_requests_in_flight() {
    let place = Place::new();
    until_in_time(|_| {
        let mut server = served(&place, 1, 8);
        let mut waiting = started(&server, 0)?;
        let (mut queued, idle) = ([server.connect(), server.connect()], server.connect());
        queued
            .iter_mut()
            .for_each(|client| client.send("GET", QUICK, &[]));
        wait_until("one of the two waits for the other", || {
            server.count("voltile_tile_cache_waits_total")
                + server.count("voltile_tile_cache_hits_total")
                == 1
        });
        server.terminate();
        let is_in_time = waiting.is_silent();
        for client in [&mut waiting].into_iter().chain(&mut queued) {
            assert_eq!(client.receive("GET").unwrap().picture().mode, "L");
        }
        assert_eq!(server.ended().code(), Some(0));
        drop(idle);
        is_in_time.then_some(())
    });
}

#[test]
fn sigterm_does_not_wait_for_idle_connections() {
    let place = Place::new();
    let mut server = served(&place, 1, 8);
    let mut idle = server.connect();
    assert_eq!(idle.get(QUICK).status, 200);
    // Requests in flight would have longer than this story waits.
    server.stop();
    assert!(idle.is_closed());
}

#[test]
fn sigterm_waits_no_longer_than_the_timeout() {
    let place = Place::new();
    volumes::endless(&place.path("endless.h5"));
    place.write(
        "voltile.toml",
        "[server]\nshutdown_timeout = \"1s\"\n[render]\nmax_voxels_per_tile = 100_000_000_000\n\
         [datasets.endless]\nfile = \"endless.h5\"\n[datasets.endless.channels.raw]\nwindow = [0, 200]\n",
    );
    let mut server = place.serve::<&str>([]);
    let mut waiting = server.connect();
    waiting.send(
        "GET",
        &format!("{MOUNT}/endless/raw/xy/0/0_0_{ENDLESS_LEVEL}.png"),
        &[],
    );
    wait_until("the tile is being rendered", || server.renders() > 0);
    server.stop();
    assert!(waiting.receive("GET").is_err(), "the tile was waited for");
}
