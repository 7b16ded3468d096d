//! Stories of the second tier: what was drawn once is there after a restart, whole and right, whoever was killed meanwhile.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a story that cannot go on has failed"
)]

mod common;

use common::volumes::{self, Stored};
use common::{Place, Server, wait_until};

const WRITES: &str = "voltile_tier_writes_total";
const HITS: &str = "voltile_tier_hits_total";

fn plane_path(z: usize) -> String {
    format!("planes/raw/xy/{z}/0_0_0.png")
}

/// A server of so many planes that has a cache directory, and draws only what it is asked for.
fn served(place: &Place, more: &[&str]) -> Server {
    let mut arguments = vec!["planes.h5", "--set", "cache.directory=cache", "--set", "render.neighbours=0"];
    arguments.extend(more);
    place.serve(arguments)
}

/// Has every plane drawn, and waits until all are on the disk.
fn warmed(place: &Place, planes: usize) {
    volumes::planes(&place.path("planes.h5"), planes, 1, Stored::Gzip);
    let server = served(place, &[]);
    (0..planes).for_each(|z| drop(server.tile(&plane_path(z)).picture()));
    wait_until("all tiles are written", || server.count(WRITES) == planes as u64);
}

#[test]
fn what_was_served_is_served_again_after_a_restart_without_being_drawn() {
    let place = Place::new();
    volumes::planes(&place.path("planes.h5"), 20, 1, Stored::Gzip);
    let mut server = served(&place, &[]);
    let first: Vec<_> = (0..20).map(|z| server.tile(&plane_path(z))).collect();
    let overview = "planes/raw/xy/3/small.png";
    let small = server.tile(overview);
    // What waits is written before it ends.
    server.stop();
    let server = served(&place, &[]);
    for (z, before) in first.iter().enumerate() {
        let again = server.tile(&plane_path(z));
        assert_eq!(again.picture(), volumes::plane(1, z));
        assert_eq!((again.etag(), &again.body), (before.etag(), &before.body));
    }
    assert_eq!(server.tile(overview).body, small.body);
    let counts = [HITS, "voltile_renders_total", "voltile_chunk_reads_total", WRITES];
    assert_eq!(counts.map(|name| server.count(name)), [21, 0, 0, 0]);
    server.tile(&plane_path(0));
    assert_eq!(server.count(HITS), 21, "it is in memory by now");
}

#[test]
fn neighbours_are_looked_for_before_they_are_drawn() {
    let place = Place::new();
    warmed(&place, 12);
    let server = place.serve(["planes.h5", "--set", "cache.directory=cache"]);
    server.tile(&plane_path(5));
    wait_until("two slices ahead and one behind are fetched", || server.count(HITS) == 4);
    assert_eq!((server.renders(), server.count("voltile_neighbours_rendered_total")), (0, 0));
}
