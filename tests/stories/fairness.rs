//! Clients share the render threads: one with many requests does not keep the others waiting.
//!
//! There is one render thread, so that tiles are rendered in the order of the queue. The tiles are
//! slow enough for others to wait; how slow does not matter, since the stories count the renders
//! that went before.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use crate::common::volumes::{self, ENDLESS_LEVEL, SLOW_LEVEL};
use crate::common::wire::Connection;
use crate::common::{MOUNT, Place, Server, until_in_time, wait_until};

/// The number of tiles that the greedy client requests.
const MANY: usize = 40;
/// More renders than can happen until this thread reads the counter, and far fewer than [`MANY`].
const FEW: u64 = 12;
/// The number of attempts of a story on a machine that is too slow for [`FEW`].
const TRIES: usize = 5;

const GREEDY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
const LONE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// A tile that is slow to render.
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

/// The number of tiles that wait, are being rendered or have been rendered.
fn taken_up(server: &Server) -> u64 {
    let metrics = server.metrics();
    metrics["voltile_renders_waiting"] + metrics["voltile_renders_total"]
}

/// Requests a tile over a connection of its own, and waits until it is in the queue.
fn queued(server: &Server, from: Ipv4Addr, path: &str, headers: &[(&str, &str)]) -> Connection {
    let before = taken_up(server);
    let connection = sent(server, from, path, headers);
    wait_until("it is in the queue", || taken_up(server) > before);
    connection
}

fn sent(server: &Server, from: Ipv4Addr, path: &str, headers: &[(&str, &str)]) -> Connection {
    let mut connection = Connection::open_from(IpAddr::V4(from), server.address);
    connection.send("GET", path, headers);
    connection
}

/// Requests a tile, and waits until it is being rendered.
fn rendering(server: &Server, path: &str, headers: &[(&str, &str)]) -> Connection {
    let before = server.renders();
    let connection = sent(server, GREEDY, path, headers);
    wait_until("it is being rendered", || server.renders() > before);
    connection
}

/// Many tiles of the greedy client, from slice 0 on: the first is being rendered, the others wait.
fn greedy(server: &Server, headers: &[(&str, &str)]) -> Vec<Connection> {
    let mut connections = vec![rendering(server, &slow(0), headers)];
    connections.extend((1..=MANY).map(|slice| sent(server, GREEDY, &slow(slice), headers)));
    wait_until("all wait", || taken_up(server) > MANY as u64);
    connections
}

/// Waits for the answer; returns the number of renders since `before`.
fn renders_before(server: &Server, mut connection: Connection, before: u64) -> u64 {
    assert_eq!(connection.receive("GET").unwrap().status, 200);
    server.renders() - before
}

/// A request of `lone` is served soon, while the greedy client waits for many.
fn assert_served_soon(
    server: &str,
    greedy_headers: &[(&str, &str)],
    lone: impl Fn(&Server) -> Connection,
) {
    let place = Place::new();
    let is_served_soon = |_| {
        let server = served(&place, 256, server);
        let _greedy = greedy(&server, greedy_headers);
        let before = server.renders();
        let lone = lone(&server);
        renders_before(&server, lone, before) < FEW
    };
    assert!(
        (0..TRIES).any(is_served_soon),
        "most of {MANY} tiles were rendered first"
    );
}

#[test]
fn a_lone_request_of_another_client_is_rendered_next() {
    assert_served_soon("", &[], |server| sent(server, LONE, &slow(MANY + 1), &[]));
}

#[test]
#[ignore = "slow: draws tiles that take a second each"]
fn clients_behind_a_trusted_proxy_are_told_apart() {
    // The client itself claims the first address, which does not count.
    let headers = [("X-Forwarded-For", "203.0.113.1, 203.0.113.2")];
    let lone = |server: &Server| sent(server, GREEDY, &slow(MANY + 1), &headers);
    let greedy = [("X-Forwarded-For", "203.0.113.1")];
    assert_served_soon("trusted_proxies = [\"127.0.0.1\"]", &greedy, lone);
}

#[test]
#[ignore = "slow: draws tiles that take a second each"]
fn a_waiting_tile_that_a_lone_client_requests_too_is_rendered_next() {
    assert_served_soon("", &[], |server| sent(server, LONE, &slow(MANY / 2), &[]));
}

#[test]
#[ignore = "slow: draws tiles that take a second each"]
fn if_the_queue_is_full_the_greedy_client_loses_its_oldest_request() {
    let place = Place::new();
    until_in_time(|_| {
        let server = served(&place, 4, "");
        let mut first = rendering(&server, &slow(0), &[]);
        let mut greedy: Vec<Connection> = (1..=4)
            .map(|slice| queued(&server, GREEDY, &slow(slice), &[]))
            .collect();
        let mut lone = sent(&server, LONE, &slow(5), &[]);
        wait_until("one is refused or rendered", || {
            !greedy[0].is_silent() || !first.is_silent()
        });
        if !first.is_silent() {
            return None;
        }
        let refused = greedy.remove(0).receive("GET").unwrap();
        assert_eq!(
            (refused.status, refused.header("retry-after")),
            (503, Some("1"))
        );
        assert!(refused.problem().contains("queue is full"), "{refused:?}");
        assert_eq!(server.count("voltile_renders_rejected_total"), 1);
        for connection in greedy.iter_mut().chain([&mut lone, &mut first]) {
            assert_eq!(connection.receive("GET").unwrap().status, 200);
        }
        Some(())
    });
}

/// Which request gets a 503 if `first` waits with one request, `second` with two newer ones, and a
/// third client comes.
fn loser(mut server: Server, names: [&str; 3]) -> usize {
    let [first, second, newcomer] = names.map(|name| [("X-Forwarded-For", name)]);
    // It is rendered until the server is killed.
    let _rendered = rendering(
        &server,
        &format!("{MOUNT}/endless/raw/xy/0/0_0_{ENDLESS_LEVEL}.png"),
        &second,
    );
    let mut queue = [(1, &first), (2, &second), (3, &second)]
        .map(|(slice, by)| queued(&server, GREEDY, &slow(slice), by));
    let mut last = sent(&server, GREEDY, &slow(4), &newcomer);
    wait_until("one is refused", || {
        queue.iter_mut().any(|connection| !connection.is_silent())
    });
    let refused = queue
        .iter_mut()
        .position(|connection| !connection.is_silent())
        .unwrap();
    assert_eq!(queue[refused].receive("GET").unwrap().status, 503);
    assert!(last.is_silent(), "the newcomer waits");
    server.kill();
    refused
}

#[test]
fn only_trusted_proxies_can_forward_addresses() {
    const NAMES: [&str; 3] = ["203.0.113.1", "203.0.113.2", "203.0.113.3"];
    let (place, trusting) = (Place::new(), Place::new());
    let server = served(&place, 3, "trusted_proxies = [\"10.0.0.0/8\"]");
    assert_eq!(
        loser(server, NAMES),
        0,
        "all are one client, which loses its oldest request"
    );
    let server = served(&trusting, 3, "trusted_proxies = [\"127.0.0.0/8\"]");
    assert_eq!(
        loser(server, NAMES),
        1,
        "the client that waits with two loses the older of them"
    );
}

#[test]
#[ignore = "slow: draws tiles that take a second each"]
fn prefetches_come_last_and_in_order() {
    let place = Place::new();
    let prefetch = [("Sec-Purpose", "prefetch")];
    let is_last = |_| {
        let server = served(&place, 256, "");
        let _rendered = rendering(&server, &slow(0), &[]);
        let mut prefetched: Vec<Connection> = (1..=MANY / 2)
            .map(|slice| queued(&server, LONE, &slow(slice), &prefetch))
            .collect();
        let before = server.renders();
        let wanted = sent(&server, GREEDY, &slow(MANY), &[]);
        renders_before(&server, wanted, before) < FEW
            && renders_before(&server, prefetched.remove(0), before) < FEW
            && prefetched.last_mut().unwrap().is_silent()
    };
    assert!(
        (0..TRIES).any(is_last),
        "the wanted tile did not come first, or the prefetches not in order"
    );
}

/// Whether the newest of some requests goes first; `None` if this thread was too slow: one was
/// rendered before all were in the queue, or they had waited for so long that the oldest goes
/// first.
fn newest_goes_first(server: &Server, slices: &mut impl Iterator<Item = usize>) -> Option<bool> {
    let mut next = || slow(slices.next().unwrap());
    let mut first = rendering(server, &next(), &[]);
    let began = Instant::now();
    let mut queue: Vec<Connection> = (0..4)
        .map(|_| queued(server, GREEDY, &next(), &[]))
        .collect();
    let all_wait = waiting(server) == 4;
    first.receive("GET").unwrap();
    let is_in_time = began.elapsed() < Duration::from_millis(1800);
    wait_until("another one is rendered", || {
        queue.iter_mut().any(|connection| !connection.is_silent())
    });
    let is_newest = !queue.last_mut().unwrap().is_silent();
    queue.into_iter().for_each(Connection::hang_up);
    wait_until("the others are abandoned", || waiting(server) == 0);
    (all_wait && is_in_time).then_some(is_newest)
}

#[test]
#[ignore = "slow: draws tiles that take a second each, until the order is seen"]
fn the_newest_request_of_a_client_goes_first() {
    let place = Place::new();
    let server = served(&place, 256, "");
    let mut slices = 0..2 * MANY;
    // On a slow machine, each may take too long; the unit tests of the queue have a clock of their
    // own.
    let seen = (0..10).find_map(|_| newest_goes_first(&server, &mut slices));
    assert_ne!(seen, Some(false), "an older request went first");
}

#[test]
#[ignore = "slow: draws tiles that take a second each"]
fn the_request_of_a_client_that_has_gone_leaves_the_queue_at_once() {
    let place = Place::new();
    until_in_time(|_| {
        let server = served(&place, 1, "");
        let mut first = rendering(&server, &slow(0), &[]);
        queued(&server, GREEDY, &slow(1), &[]).hang_up();
        wait_until("nothing waits", || waiting(&server) == 0);
        let abandoned = server.count("voltile_renders_abandoned_total");
        if !first.is_silent() {
            return None;
        }
        assert_eq!((abandoned, server.renders()), (1, 1));
        let mut next = queued(&server, GREEDY, &slow(2), &[]);
        for connection in [&mut first, &mut next] {
            assert_eq!(connection.receive("GET").unwrap().status, 200);
        }
        Some(())
    });
}

/// The voxels of a volume of 16 MiB, a quarter of the memory for boxes of [`with_boxes`].
const WHOLE: &str = "/voxels/cube/raw/0/0-256_0-256_0-256.raw";

/// A server whose boxes have 64 MiB.
fn with_boxes(place: &Place) -> Server {
    let data = ndarray::Array3::from_shape_fn((256, 256, 256), |(z, y, x)| (z ^ y ^ x) as u8);
    let file = crate::common::made::create(&place.path("cube.h5"));
    file.new_dataset_builder()
        .with_data(&data)
        .create("raw")
        .unwrap();
    file.close().unwrap();
    let boxes = "render.boxes=64 MiB";
    let patient = [
        "--set",
        "render.deadline=10m",
        "--set",
        "server.write_timeout=10m",
    ];
    place.serve(["cube.h5", "--set", boxes].iter().chain(&patient))
}

const HELD: &str = "voltile_box_bytes";

#[test]
fn a_client_that_does_not_read_its_boxes_delays_only_itself() {
    let place = Place::new();
    let server = with_boxes(&place);
    let quarter = server.count("voltile_box_limit_bytes") / 4;
    assert_eq!(quarter, 16 << 20);
    let mut greedy: Vec<Connection> = (0..8).map(|_| sent(&server, GREEDY, WHOLE, &[])).collect();
    wait_until("one of its boxes is made", || {
        greedy.iter_mut().any(|connection| !connection.is_silent())
    });
    wait_until("the box is made and not sent", || {
        server.count(HELD) == quarter
    });
    let mut lone = Connection::open_from(IpAddr::V4(LONE), server.address);
    for path in [
        "/voxels/cube/raw/0/0-256_0-256_0-64.npy",
        "/zarr/0.4/cube/raw.ome.zarr/0/0/0/0",
        "/zarr/0.5/cube/raw.ome.zarr/0/c/0/0/0",
        "/neuroglancer/cube/raw/0/0-64_0-64_0-64",
        // As large as any box can be.
        WHOLE,
    ] {
        assert_eq!(lone.get(path).status, 200, "{path}");
    }
    assert_eq!(
        greedy
            .iter_mut()
            .map(|connection| u32::from(!connection.is_silent()))
            .sum::<u32>(),
        1
    );
    wait_until("only the greedy client holds memory, its quarter", || {
        server.count(HELD) == quarter
    });
    // It gets all of them as it reads.
    while !greedy.is_empty() {
        let mut answered = None;
        wait_until("another one is answered", || {
            answered = greedy
                .iter_mut()
                .position(|connection| !connection.is_silent());
            answered.is_some()
        });
        assert_eq!(
            greedy
                .swap_remove(answered.unwrap())
                .receive("GET")
                .unwrap()
                .body
                .len(),
            16 << 20
        );
    }
    wait_until("nothing is held", || server.count(HELD) == 0);
}

#[test]
fn boxes_that_are_given_up_give_their_memory_back() {
    let place = Place::new();
    let server = with_boxes(&place);
    let mut greedy: Vec<Connection> = (0..8).map(|_| sent(&server, GREEDY, WHOLE, &[])).collect();
    wait_until("one of its boxes is made", || {
        greedy.iter_mut().any(|connection| !connection.is_silent())
    });
    greedy.into_iter().for_each(Connection::hang_up);
    wait_until("nothing is held", || server.count(HELD) == 0);
    assert_eq!(server.get(WHOLE).status, 200);
}

#[test]
fn a_lone_client_may_request_many_ordinary_boxes_at_once() {
    let place = Place::new();
    let server = with_boxes(&place);
    let path = |number: usize| {
        let (x, y) = (64 * (number % 4), 64 * (number / 4));
        format!("/voxels/cube/raw/0/{x}-{}_{y}-{}_0-64.raw", x + 64, y + 64)
    };
    let mut all: Vec<Connection> = (0..16)
        .map(|number| sent(&server, LONE, &path(number), &[]))
        .collect();
    for connection in &mut all {
        assert_eq!(connection.receive("GET").unwrap().status, 200);
    }
}

#[test]
fn a_box_of_more_than_a_quarter_of_the_memory_is_too_large() {
    let place = Place::new();
    drop(with_boxes(&place));
    let server = place.serve(["cube.h5", "--set", "render.boxes=63 MiB"]);
    let answer = server.get(WHOLE);
    assert_eq!(answer.status, 413);
    assert!(answer.problem().contains("render.boxes"), "{answer:?}");
}
