//! Tiles that several servers share in object storage (`cache.store`).

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use super::Remote;
use crate::common::objects::Fault;
use crate::common::volumes::{self, Stored};
use crate::common::{Server, wait_until};

const PLANES: usize = 6;
const SEED: usize = 4;
const FOLDER: &str = "cache.store=s3://bucket/lab/tiles";

fn path_of(z: usize) -> String {
    format!("planes/raw/xy/{z}/0_0_0.png")
}

impl Remote {
    fn with_local_planes() -> Self {
        let remote = Self::new();
        volumes::planes(&remote.place.path("planes.h5"), PLANES, SEED, Stored::Gzip);
        remote
    }

    /// Arguments after which a command uses the bucket.
    fn with_bucket(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = self.place.voltile(arguments);
        command.args(["--set", FOLDER, "--set", "render.neighbours=0"]);
        command.args(["--set", "datasets.planes.channels.raw.window=full"]);
        super::secrets::with_keys(&mut command, self);
        command
    }

    fn replica(&self) -> Server {
        self.place
            .start(self.with_bucket(&["serve", "planes.h5", "--bind", "127.0.0.1:0"]))
    }

    /// The objects of tiles.
    fn tiles(&self) -> Vec<PathBuf> {
        let is_tile = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "png");
        super::secrets::files(&self.path("bucket"))
            .into_iter()
            .filter(is_tile)
            .collect()
    }
}

fn ask_for_all(server: &Server) {
    (0..PLANES)
        .for_each(|z| assert_eq!(server.tile(&path_of(z)).picture(), volumes::plane(SEED, z)));
}

#[test]
fn a_tile_in_the_bucket_is_not_rendered_again() {
    let remote = Remote::with_local_planes();
    let one = remote.replica();
    ask_for_all(&one);
    wait_until("all are written", || {
        one.count("voltile_tile_store_writes_total") == PLANES as u64
    });
    assert_eq!(remote.tiles().len(), PLANES);
    let two = remote.replica();
    ask_for_all(&two);
    let counts = [
        "voltile_renders_total",
        "voltile_tile_store_hits_total",
        "voltile_chunk_reads_total",
    ];
    assert_eq!(counts.map(|name| two.count(name)), [0, PLANES as u64, 0]);
    assert_eq!(
        remote.replica().tile(&path_of(0)).header("server-timing"),
        Some("cache;desc=\"shared\"")
    );
}

#[test]
fn warming_fills_the_bucket_and_does_nothing_the_second_time() {
    let remote = Remote::with_local_planes();
    let warm = || {
        let mut command =
            remote.with_bucket(&["warm", "planes.h5", "--plane", "xy", "--level", "0"]);
        crate::common::outcome(&mut command)
    };
    let first = warm();
    assert_eq!(first.code, 0, "{}", first.err);
    let tiles = remote.tiles().len();
    assert!(tiles >= PLANES, "{tiles}");
    remote.objects.take_asked();
    let second = warm();
    assert_eq!(second.code, 0, "{}", second.err);
    let puts = remote
        .objects
        .take_asked()
        .into_iter()
        .filter(|asked| asked.method == "PUT")
        .count();
    assert_eq!((puts, remote.tiles().len()), (0, tiles));
    let server = remote.replica();
    ask_for_all(&server);
    assert_eq!(server.renders(), 0);
}

#[test]
fn warming_waits_for_a_store_that_fails_now_and_then() {
    let remote = Remote::with_local_planes();
    remote
        .objects
        .fail("", Fault::Status(503, String::new()), 5);
    let mut command = remote.with_bucket(&["warm", "planes.h5", "--plane", "xy", "--level", "0"]);
    let outcome = crate::common::outcome(&mut command);
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    assert_eq!(remote.tiles().len(), PLANES);
}

#[test]
fn a_damaged_object_is_removed_and_the_tile_rendered_and_written_again() {
    let remote = Remote::with_local_planes();
    let one = remote.replica();
    one.tile(&path_of(2));
    wait_until("it is written", || {
        one.count("voltile_tile_store_writes_total") == 1
    });
    let [tile] = &remote.tiles()[..] else {
        panic!("one tile")
    };
    let mut bytes = fs::read(tile).unwrap();
    let sound = bytes.clone();
    bytes[100] ^= 1;
    fs::write(tile, &bytes).unwrap();
    let two = remote.replica();
    two.allow_error("is damaged and was removed");
    assert_eq!(two.tile(&path_of(2)).picture(), volumes::plane(SEED, 2));
    assert_eq!(two.count("voltile_tile_store_corrupt_total"), 1);
    wait_until("it is written again", || {
        two.count("voltile_tile_store_writes_total") == 1
    });
    assert!(fs::read(tile).unwrap() == sound);
}

#[test]
#[ignore = "slow: waits for the time limits of stores"]
fn a_store_that_is_down_or_refuses_is_soon_not_asked_any_more() {
    let remote = Remote::with_local_planes();
    for fault in [
        Fault::Silence,
        Fault::Status(403, String::new()),
        Fault::Status(500, String::new()),
    ] {
        remote.objects.break_down("", fault);
        let server = remote.replica();
        server.allow_error("cache.store");
        ask_for_all(&server);
        wait_until("the breaker is open", || {
            server.count("voltile_tile_store_breaker_open") == 1
        });
        let ready = server.json("/readyz");
        assert_eq!(ready["status"], "ready");
        assert!(
            ready["problems"]
                .to_string()
                .contains("s3://bucket/lab/tiles"),
            "{ready}"
        );
        remote.objects.mend();
    }
}

#[test]
fn a_store_that_is_back_is_used_again() {
    let remote = Remote::with_local_planes();
    let server = remote.replica();
    server.allow_error("cache.store");
    remote.objects.go_down();
    ask_for_all(&server);
    assert_eq!(server.count("voltile_tile_store_breaker_open"), 1);
    remote.objects.come_back();
    let mut slices = (0..volumes::EDGE).flat_map(|n| [("xz", n), ("yz", n)]);
    // A slice that no server has drawn is looked for, and written.
    let mut ask_for_next = || {
        let (plane, n) = slices.next().expect("the store is not used");
        thread::sleep(Duration::from_millis(200));
        server.tile(&format!("planes/raw/{plane}/{n}/0_0_0.png"));
    };
    wait_until("it is used again", || {
        ask_for_next();
        server.count("voltile_tile_store_breaker_open") == 0
    });
    // Reads and writes are resumed each by itself.
    wait_until("tiles are written again", || {
        ask_for_next();
        server.count("voltile_tile_store_writes_total") > 0
    });
    assert_eq!(server.json("/readyz")["problems"], serde_json::json!([]));
}

#[test]
fn a_store_that_refuses_writes_is_still_read() {
    let remote = Remote::with_local_planes();
    let one = remote.replica();
    ask_for_all(&one);
    wait_until("all are written", || {
        one.count("voltile_tile_store_writes_total") == PLANES as u64
    });
    remote.objects.break_down("", Fault::ReadOnly);
    let two = remote.replica();
    two.allow_error("cache.store");
    let others = 2 * PLANES as u64;
    (0..others).for_each(|n| drop(two.tile(&format!("planes/raw/xz/{n}/0_0_0.png"))));
    wait_until("writes have failed", || {
        let counts = [
            "voltile_tile_store_errors_total",
            "voltile_tile_store_dropped_total",
        ];
        counts.map(|name| two.count(name)).iter().sum::<u64>() == others
    });
    ask_for_all(&two);
    let counts = ["hits_total", "misses_total", "breaker_open"];
    let counts = counts.map(|name| two.count(&format!("voltile_tile_store_{name}")));
    assert_eq!(counts, [PLANES as u64, others, 0]);
    assert!(
        two.json("/readyz")["problems"]
            .to_string()
            .contains("cache.store")
    );
}

#[test]
fn a_tile_of_a_remote_file_that_is_in_the_bucket_costs_one_request() {
    let remote = Remote::with_scattered_planes();
    let replica = || {
        let url = remote.url("planes.h5");
        remote
            .place
            .start(remote.with_bucket(&["serve", &url, "--bind", "127.0.0.1:0"]))
    };
    let one = replica();
    let first = one.tile(&path_of(3));
    assert_eq!(first.picture(), volumes::plane(1, 3));
    wait_until("it is written", || {
        one.count("voltile_tile_store_writes_total") == 1
    });
    let two = replica();
    remote.objects.take_asked();
    let second = two.tile(&path_of(3));
    assert_eq!(second.header("etag"), first.header("etag"));
    assert!(second.body == first.body);
    let asked: Vec<_> = remote
        .objects
        .take_asked()
        .into_iter()
        .map(|asked| asked.method + " " + &asked.path)
        .collect();
    assert!(
        matches!(&asked[..], [one] if one.starts_with("GET bucket/lab/tiles/")),
        "{asked:?}"
    );
    assert_eq!(two.renders(), 0);
}

#[test]
fn only_a_folder_in_a_bucket_can_be_the_store() {
    let remote = Remote::with_local_planes();
    for wrong in ["tiles", "https://host/tiles", "s3://bucket", "redis://host"] {
        let outcome = remote.place.run([
            "serve",
            "planes.h5",
            "--set",
            &format!("cache.store={wrong}"),
        ]);
        assert_eq!(outcome.code, 2, "{}", outcome.err);
        assert!(outcome.err.contains("cache.store"), "{}", outcome.err);
    }
}
