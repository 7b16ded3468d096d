//! The information for operators: timings of each answer, metrics, request ids, the log.

mod openmetrics;

use serde_json::Value;

use crate::common::volumes::{self, ENDLESS_LEVEL, Stored};
use crate::common::{MOUNT, Place, Server, wait_until};

/// A tile of the volume of [`served`].
const TILE: &str = "planes/raw/xy/1/0_0_0.png";
const BLACK: &str = "planes/raw/xy/1/9_9_0.png";

/// A server of a small volume whose chunks are compressed, with more lines of configuration.
fn served(place: &Place, configuration: &str) -> Server {
    volumes::planes(&place.path("planes.h5"), 4, 1, Stored::Gzip);
    let datasets = "[datasets.planes]\nfile = \"planes.h5\"\n[datasets.planes.channels.raw]\nwindow = [0, 200]\n";
    place.write("voltile.toml", &format!("{configuration}\n{datasets}"));
    place.serve::<&str>([])
}

/// The names in `Server-Timing`, and the durations in milliseconds.
fn timings(value: &str) -> Vec<(String, f64)> {
    let entries = value
        .split(", ")
        .map(|entry| entry.split_once(";dur=").expect("a name and a duration"));
    entries
        .map(|(name, dur)| (name.to_owned(), dur.parse().expect("a number")))
        .collect()
}

/// A sample in the metrics; 0 if it has not happened.
fn sample(server: &Server, name: &str) -> u64 {
    server.metrics().get(name).copied().unwrap_or(0)
}

#[test]
fn server_timing_tells_the_stages_of_a_render_and_where_other_answers_came_from() {
    let place = Place::new();
    let server = served(&place, "[render]\nneighbours = 0");
    let drawn = server.tile(TILE);
    let stages = timings(drawn.header("server-timing").expect("it was rendered"));
    let names: Vec<&str> = stages.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        ["queue", "read", "decode", "draw", "encode", "total"]
    );
    let span = |wanted: &str| {
        stages
            .iter()
            .find(|(name, _)| name == wanted)
            .expect("it is there")
            .1
    };
    assert!(
        span("decode") > 0.0 && span("draw") > 0.0 && span("encode") > 0.0,
        "{stages:?}"
    );
    assert!(
        span("draw") + span("encode") <= span("total") + 0.01,
        "{stages:?}"
    );
    assert_eq!(drawn.header("timing-allow-origin"), Some("*"));
    let told = |path: &str| server.get(path).header("server-timing").map(str::to_owned);
    assert_eq!(
        told(&format!("{MOUNT}/{TILE}")).as_deref(),
        Some("cache;desc=\"hit\"")
    );
    assert_eq!(
        told(&format!("{MOUNT}/{BLACK}")).as_deref(),
        Some("cache;desc=\"black\"")
    );
    let overview = told(&format!("{MOUNT}/planes/raw/xy/1/small.png")).expect("it was rendered");
    assert_eq!(timings(&overview).len(), 6);
    let cutout = told("/voxels/planes/raw/0/0-4_0-4_0-4.npy").expect("it was rendered");
    assert!(
        timings(&cutout)
            .iter()
            .any(|(name, ms)| name == "encode" && *ms > 0.0),
        "{cutout}"
    );
    assert_eq!(told("/datasets.json"), None);
    assert_eq!(told(&format!("{MOUNT}/planes/raw/xy/1/0_0_77.png")), None);
}

#[test]
fn pages_of_other_origins_see_timings_if_they_may_read_the_answer() {
    let place = Place::new();
    let server = served(&place, "[server]\ncors_origins = [\"https://a.example\"]");
    let allowed = |origin| {
        let answer = server.ask("GET", &format!("{MOUNT}/{TILE}"), &[("Origin", origin)]);
        answer.header("timing-allow-origin").map(str::to_owned)
    };
    assert_eq!(
        allowed("https://a.example").as_deref(),
        Some("https://a.example")
    );
    assert_eq!(allowed("https://b.example"), None);
}

#[test]
fn those_who_joined_a_render_and_those_served_from_disk_are_told_so() {
    let place = Place::new();
    let server = served(
        &place,
        "[cache]\ntiles = 0\ndirectory = \"cache\"\n[render]\nneighbours = 0",
    );
    server.tile(TILE);
    wait_until("the tile is on disk", || {
        sample(&server, "voltile_tier_writes_total") == 1
    });
    assert_eq!(
        server.tile(TILE).header("server-timing"),
        Some("cache;desc=\"disk\"")
    );
    drop(server);
    let place = Place::new();
    volumes::slow(&place.path("slow.h5"), 1);
    place.write(
        "voltile.toml",
        "[render]\nneighbours = 0\nmax_voxels_per_tile = 10_000_000_000\n[datasets.slow]\nfile = \"slow.h5\"\n\
         [datasets.slow.channels.raw]\nwindow = [0, 200]\n",
    );
    let told = crate::common::until_in_time(|_| {
        let server = place.serve::<&str>([]);
        let path = format!("{MOUNT}/slow/raw/xy/0/0_0_{}.png", volumes::SLOW_LEVEL);
        let mut both = [server.connect(), server.connect()];
        both.iter_mut()
            .for_each(|connection| connection.send("GET", &path, &[]));
        let told = both.map(|mut connection| {
            let answer = connection.receive("GET").expect("it is rendered");
            answer
                .header("server-timing")
                .expect("it is a tile")
                .to_owned()
        });
        told.iter()
            .any(|told| told == "cache;desc=\"wait\"")
            .then_some(told)
    });
    assert_eq!(
        told.iter()
            .filter(|told| told.starts_with("queue;dur="))
            .count(),
        1,
        "{told:?}"
    );
}

#[test]
fn requests_are_counted_by_form_status_and_outcome_and_by_dataset() {
    let place = Place::new();
    let server = served(&place, "[render]\nneighbours = 0");
    let length = server.tile(TILE).body.len() as u64;
    let etag = server.tile(TILE).etag().to_owned();
    let asked = server.ask(
        "GET",
        &format!("{MOUNT}/{TILE}"),
        &[("If-None-Match", &etag)],
    );
    assert_eq!(asked.status, 304);
    server.ask("HEAD", &format!("{MOUNT}/{TILE}"), &[]);
    server.tile(BLACK);
    for path in [
        "/",
        "/healthz",
        "/datasets.json",
        "/nothing",
        "/projects.json",
        "/zarr/0.4/planes.ome.zarr/.zattrs",
    ] {
        server.get(path);
    }
    server.get("/voxels/planes/raw/0/0-4_0-4_0-4.npy");
    server.get("/neuroglancer/planes/raw/info");
    server.tile("unknown/raw/xy/1/0_0_0.png");
    let of = |form: &str, status: u16, cache: &str| {
        sample(
            &server,
            &format!(
                "voltile_requests_total{{form=\"{form}\",status=\"{status}\",cache=\"{cache}\"}}"
            ),
        )
    };
    for (form, status, cache, count) in [
        ("tile", 200, "miss", 1),
        ("tile", 200, "hit", 2),
        ("tile", 200, "black", 1),
        ("tile", 304, "none", 1),
        ("tile", 404, "none", 1),
        ("box", 200, "miss", 1),
        ("precomputed", 200, "none", 1),
        ("zarr", 200, "none", 1),
        ("viewer", 200, "none", 1),
        ("page", 200, "none", 1),
        ("description", 200, "none", 1),
        ("other", 404, "none", 1),
    ] {
        assert_eq!(of(form, status, cache), count, "{form} {status} {cache}");
    }
    assert!(of("health", 200, "none") > 1);
    let per_dataset = |name: &str| {
        sample(
            &server,
            &format!("voltile_dataset_{name}_total{{dataset=\"planes\"}}"),
        )
    };
    assert_eq!(
        per_dataset("requests"),
        6,
        "four tiles, the black one and the box"
    );
    assert_eq!(per_dataset("renders"), 2);
    assert!(per_dataset("sent_bytes") > 2 * length, "{length}");
    assert_eq!(
        sample(&server, "voltile_request_seconds_count{form=\"tile\"}"),
        6
    );
    assert_eq!(
        sample(
            &server,
            "voltile_render_stage_seconds_count{form=\"tile\",stage=\"decode\"}"
        ),
        1
    );
}

#[test]
fn the_id_of_a_request_is_taken_from_the_proxy_or_made() {
    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    let place = Place::new();
    let server = served(&place, "");
    let id = |headers: &[(&str, &str)]| {
        let answer = server.ask("GET", &format!("{MOUNT}/{TILE}"), headers);
        answer
            .header("x-request-id")
            .expect("every answer has one")
            .to_owned()
    };
    let parent = format!("00-{TRACE}-00f067aa0ba902b7-01");
    assert_eq!(
        id(&[("X-Request-Id", "a/1"), ("traceparent", &parent)]),
        "a/1"
    );
    assert_eq!(id(&[("traceparent", &parent)]), TRACE);
    assert_eq!(
        id(&[("X-Request-Id", "two words"), ("traceparent", &parent)]),
        TRACE
    );
    let made = [
        id(&[]),
        id(&[("X-Request-Id", &"x".repeat(200))]),
        id(&[("traceparent", "00-1-2-3")]),
    ];
    assert!(
        made.iter()
            .all(|id| id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit())),
        "{made:?}"
    );
    assert!(made[0] != made[1] && made[1] != made[2]);
    assert_eq!(
        server.get("/nothing").header("x-request-id").map(str::len),
        Some(16)
    );
}

/// The lines of a JSON log with this message.
fn lines(server: &Server, message: &str) -> Vec<Value> {
    let log = server.log();
    let lines = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("each line is an object"));
    lines
        .filter(|line| {
            line["message"]
                .as_str()
                .is_some_and(|text| text.starts_with(message))
        })
        .collect()
}

#[test]
fn the_access_log_tells_each_request_and_no_secret() {
    let place = Place::new();
    let server = served(&place, "[log]\naccess = true\nformat = \"json\"");
    let headers = [
        ("X-Request-Id", "one"),
        ("Authorization", "Bearer confidential"),
        ("Referer", "http://x/k/confidential/"),
        ("Cookie", "confidential"),
    ];
    let length = server
        .ask(
            "GET",
            &format!("{MOUNT}/{TILE}?token=confidential"),
            &headers,
        )
        .body
        .len();
    server.ask(
        "GET",
        "/k/confidential/datasets.json",
        &[("X-Request-Id", "two")],
    );
    server.ask(
        "HEAD",
        &format!("{MOUNT}/{TILE}"),
        &[("X-Request-Id", "three")],
    );
    wait_until("three requests are logged", || {
        server.log().matches("\"answered\"").count() >= 3
    });
    let logged = lines(&server, "answered");
    let of = |id: &str| {
        logged
            .iter()
            .find(|line| line["request"] == id)
            .expect("it is logged")
    };
    let tile = of("one");
    assert_eq!(tile["level"], "INFO");
    assert!(
        tile["timestamp"].is_string() && tile["ms"].as_f64().is_some_and(|ms| ms > 0.0),
        "{tile}"
    );
    assert_eq!(
        (&tile["method"], &tile["path"]),
        (&"GET".into(), &format!("{MOUNT}/{TILE}").into())
    );
    assert_eq!(
        (&tile["status"], &tile["bytes"]),
        (&200.into(), &length.into())
    );
    assert_eq!(
        (&tile["client"], &tile["form"]),
        (&"127.0.0.1".into(), &"tile".into())
    );
    assert_eq!(tile["cache"], "miss");
    assert_eq!(of("two")["path"], "/k/…/datasets.json");
    assert_eq!(
        (&of("three")["method"], &of("three")["bytes"]),
        (&"HEAD".into(), &0.into())
    );
    assert!(!server.log().contains("confidential"), "{}", server.log());
}

#[test]
fn a_slow_tile_is_explained_with_what_was_read_and_how_long_each_stage_took() {
    let place = Place::new();
    let server = served(
        &place,
        "[render]\nneighbours = 0\n[log]\nslow = \"1ns\"\nformat = \"json\"",
    );
    server.ask(
        "GET",
        &format!("{MOUNT}/{TILE}"),
        &[("X-Request-Id", "slow-one")],
    );
    server.get("/datasets.json");
    wait_until("it is explained", || server.log().contains("slow-one"));
    let explained = lines(&server, "slower than log.slow");
    let [line] = explained.as_slice() else {
        panic!("only tiles are explained: {explained:?}")
    };
    assert_eq!(
        (&line["request"], &line["status"]),
        (&"slow-one".into(), &200.into())
    );
    assert_eq!(line["path"], format!("{MOUNT}/{TILE}"));
    let number = |name: &str| {
        line[name]
            .as_f64()
            .unwrap_or_else(|| panic!("{name} is in {line}"))
    };
    assert!(
        number("chunks_read") >= 1.0 && number("stored_bytes") > 0.0 && number("decode_ms") > 0.0,
        "{line}"
    );
    for name in [
        "ms",
        "queue_ms",
        "read_ms",
        "draw_ms",
        "encode_ms",
        "chunks_cached",
    ] {
        assert!(number(name) >= 0.0);
    }
    drop(server);
    let server = served(&place, "[log]\nslow = \"0s\"\naccess = true");
    server.tile(TILE);
    // Its line comes after any other about the tile.
    server.wait_for_log("answered");
    assert!(!server.log().contains("log.slow"));
}

/// A place with a volume whose tile at [`ENDLESS_LEVEL`] no story waits for, one render thread, and
/// this deadline.
fn endless_place(deadline: &str) -> Place {
    let place = Place::with(&format!(
        "[render]\nthreads = 1\nneighbours = 0\ndeadline = \"{deadline}\"\nmax_voxels_per_tile = 100_000_000_000\n\
         [datasets.endless]\nfile = \"endless.h5\"\n[datasets.endless.channels.raw]\nwindow = [0, 200]\n"
    ));
    volumes::endless(&place.path("endless.h5"));
    place
}

#[test]
fn a_render_that_takes_too_long_is_answered_with_503_and_stopped() {
    let place = endless_place("300ms");
    let server = place.serve::<&str>([]);
    let endless = format!("{MOUNT}/endless/raw/xy/0/0_0_{ENDLESS_LEVEL}.png");
    let late = server.get(&endless);
    assert_eq!(late.status, 503);
    assert!(late.header("retry-after").is_some());
    assert!(
        late.problem().contains("render.deadline"),
        "{}",
        late.text()
    );
    assert_eq!(server.count("voltile_renders_overdue_total"), 1);
    let stopped = || server.count("voltile_renders_stopped_total");
    wait_until("it is stopped", || stopped() == 1);
    assert_eq!(server.count("voltile_render_errors_total"), 0);
    // The only render thread is free again.
    wait_until("another is rendered", || {
        server.tile("endless/raw/xy/0/0_0_0.png").status == 200
    });
    let place = endless_place("1h");
    let server = place.serve::<&str>([]);
    let mut leaving = server.connect();
    leaving.send("GET", &endless, &[]);
    wait_until("it is being rendered", || server.renders() == 1);
    leaving.hang_up();
    wait_until("it is stopped", || {
        server.count("voltile_renders_stopped_total") == 1
    });
}
