//! The bandwidth of each client.

use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use super::{noise, place};
use crate::common::metrics;
use crate::common::wire::Connection;

#[test]
fn a_throttled_client_gets_everything_slowly_and_is_not_taken_for_one_that_does_not_read() {
    const RATE: usize = 128 << 10;
    let place = place(
        "bind = \"127.0.0.1:0\"\nwrite_timeout = \"200ms\"\nbandwidth_for_each_client = \"128 KiB\"",
    );
    let tile = noise(&place);
    let server = place.start(place.voltile(["serve", "noise.h5", "--config", "voltile.toml"]));
    let mut other = Connection::open_from(IpAddr::from([127, 0, 0, 2]), server.address);
    let expected = other.get(tile);
    let began = Instant::now();
    let mut connections = [server.connect(), server.connect()];
    connections
        .iter_mut()
        .for_each(|connection| connection.send("GET", tile, &[]));
    // Both are read all the time: the system holds little for one that is not.
    thread::scope(|scope| {
        for connection in &mut connections {
            scope.spawn(|| assert_eq!(connection.receive("GET").unwrap().body, expected.body));
        }
    });
    // The first second's worth is free.
    let least = Duration::from_secs_f64((2 * expected.body.len() - RATE) as f64 / RATE as f64);
    assert!(
        began.elapsed() >= least,
        "{:?} instead of {least:?}",
        began.elapsed()
    );
    let measured = metrics(
        &Connection::open_from(IpAddr::from([127, 0, 0, 3]), server.address).get("/metrics"),
    );
    assert_eq!(
        measured["voltile_connections_closed_total{reason=\"write_timeout\"}"],
        0
    );
    assert_eq!(
        measured["voltile_client_bandwidth_limit_bytes"],
        RATE as u64
    );
    assert!(measured["voltile_throttled_seconds_total"] >= 1);
    assert!(measured["voltile_sent_bytes_total"] > 3 * expected.body.len() as u64);
}

#[test]
fn limits_and_the_process_are_measured() {
    let place =
        place("bind = \"127.0.0.1:0\"\nconnections = 300\nconnections_for_each_client = 20");
    let server = place.start(place.voltile(["serve"]));
    let measured = server.metrics();
    assert_eq!(measured["voltile_connections_limit"], 300);
    assert_eq!(measured["voltile_client_connections_limit"], 20);
    assert_eq!(measured["voltile_client_bandwidth_limit_bytes"], 0);
    let open = measured["process_open_fds"];
    assert!(open > 3 && open < measured["process_max_fds"], "{open}");
    assert!(measured["process_resident_memory_bytes"] > 1 << 20);
    let connections: Vec<_> = (0..10).map(|_| server.connect()).collect();
    assert!(server.count("process_open_fds") >= open + connections.len() as u64);
}
