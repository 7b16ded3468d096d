//! Where the server listens: several addresses, Unix sockets, sockets passed by the service
//! manager; and how: over TLS.

mod passed;
mod tls;
mod unix;

use std::io::{ErrorKind, Read};

use ndarray::ArrayD;

use crate::common::volumes::{self, Stored};
use crate::common::wire::Connection;
use crate::common::{Place, Server, made, wait_until};

/// The end of every configuration here.
const DATASET: &str = "[datasets.planes]\nfile = \"planes.h5\"\n";
const TILE: &str = "/ndtilecache/tilecache/planes/raw/xy/0/0_0_0.png";

/// A place with a small volume, and a configuration with these lines in its server's section.
fn place(server: &str) -> Place {
    let place = Place::with(&format!("[server]\n{server}\n{DATASET}"));
    volumes::planes(&place.path("planes.h5"), 4, 1, Stored::Gzip);
    place
}

/// The path of a tile of a quarter of a MiB, of a file that this makes.
fn noise(place: &Place) -> &'static str {
    let mut random = fastrand::Rng::with_seed(7);
    let noise = ArrayD::from_shape_simple_fn(vec![1, 512, 512], || random.u8(..));
    made::file(&place.path("noise.h5"), |file| {
        drop(made::put(file, "raw", &noise));
    });
    "/ndtilecache/tilecache/noise/raw/xy/0/0_0_0.png"
}

/// The addresses that the server has printed, after `voltile listening on `.
fn endpoints(server: &Server) -> Vec<String> {
    let printed = server.printed();
    let lines = printed
        .lines()
        .filter_map(|line| line.strip_prefix("voltile listening on "));
    lines.map(str::to_owned).collect()
}

/// Everything that the server sends until it closes the connection.
fn rest(stream: &mut impl Read) -> String {
    let mut bytes = Vec::new();
    if let Err(error) = stream.read_to_end(&mut bytes) {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn every_address_is_served_and_printed_in_order() {
    let place = place("bind = [\"127.0.0.1:0\", \"127.0.0.2:0\"]");
    for command in [
        place.voltile(["serve"]),
        place.voltile(["serve", "--bind", "127.0.0.1:0", "--bind", "127.0.0.2:0"]),
    ] {
        let server = place.start(command);
        let endpoints = endpoints(&server);
        assert_eq!(endpoints.len(), 2, "{endpoints:?}");
        for (endpoint, host) in endpoints.iter().zip(["127.0.0.1", "127.0.0.2"]) {
            let address = endpoint.strip_prefix("http://").unwrap();
            assert!(address.starts_with(host), "{endpoints:?}");
            assert_eq!(
                Connection::open(address.parse().unwrap()).get(TILE).status,
                200,
                "{endpoint}"
            );
        }
        let printed = server.printed();
        let page = format!("page {}/", endpoints[0]);
        let line = printed.lines().nth(endpoints.len());
        assert_eq!(line, Some(page.as_str()), "{printed}");
    }
}

#[test]
fn connections_and_the_process_are_measured() {
    let place = place("bind = \"127.0.0.1:0\"\nconnections = 300");
    let server = place.start(place.voltile(["serve"]));
    let measured = server.metrics();
    assert_eq!(measured["voltile_connections_limit"], 300);
    let open = measured["process_open_fds"];
    assert!(open > 3 && open < measured["process_max_fds"], "{open}");
    assert!(measured["process_resident_memory_bytes"] > 1 << 20);
    let connections: Vec<_> = (0..10).map(|_| server.connect()).collect();
    assert!(server.count("process_open_fds") >= open + connections.len() as u64);
    assert!(server.count("voltile_connections") > connections.len() as u64);
}

#[test]
fn one_address_that_cannot_be_bound_is_an_error() {
    let place = place("");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let outcome = place.run(["serve", "--bind", "127.0.0.1:0", "--bind", &address]);
    assert_eq!(outcome.code, 1, "{}", outcome.err);
    assert!(
        outcome.err.contains(&address) && outcome.out.is_empty(),
        "{}",
        outcome.err
    );
    assert_eq!(outcome.err.matches("in use").count(), 1, "{}", outcome.err);
    let nowhere = place.run(["serve", "--set", "server.bind=[]"]);
    assert_eq!(nowhere.code, 2, "{}", nowhere.err);
    assert!(
        nowhere.err.contains("server.unix_socket"),
        "{}",
        nowhere.err
    );
}

#[test]
fn of_many_files_the_page_and_then_five_tiles_are_printed_images_first() {
    let place = Place::new();
    let [image, labels] = ["raw", "labels"].map(|name| {
        move |file: &hdf5::File| {
            drop(made::put(
                file,
                name,
                &made::cube(made::SMALL).mapv(u32::from),
            ));
        }
    });
    for number in 0..4 {
        made::file(&place.path(&format!("a{number}.h5")), labels);
        made::file(&place.path(&format!("b{number}.h5")), |file| {
            labels(file);
            image(file);
        });
    }
    let names = [
        "a0.h5", "a1.h5", "a2.h5", "a3.h5", "b0.h5", "b1.h5", "b2.h5", "b3.h5",
    ];
    let server = place.serve(names);
    let address = server.address;
    let printed = server.printed();
    let tile = |token: &str, channel: &str| {
        format!("tile http://{address}/ndtilecache/tilecache/{token}/{channel}/xy/1/0_0_0.png")
    };
    let mut expected = vec![
        format!("voltile listening on http://{address}"),
        format!("page http://{address}/"),
    ];
    expected.extend(["b0", "b1", "b2", "b3"].map(|token| tile(token, "raw")));
    expected.push(tile("a0", "labels"));
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn an_address_that_stands_for_all_is_printed_as_one_that_can_be_opened() {
    for (bind, host) in [("0.0.0.0:0", "127.0.0.1"), ("[::]:0", "[::1]")] {
        if std::net::TcpListener::bind(bind).is_err() {
            eprintln!("skipped: {bind} cannot be listened on here");
            continue;
        }
        let place = place("");
        let server = place.start(place.voltile(["serve", "--bind", bind]));
        let endpoints = endpoints(&server);
        assert!(
            endpoints[0].starts_with(&format!("http://{host}:")),
            "{endpoints:?}"
        );
        assert!(
            server
                .printed()
                .contains(&format!("\npage {}/\n", endpoints[0])),
            "{}",
            server.printed()
        );
        assert_eq!(server.get(TILE).status, 200);
        server.wait_for_log("listening on all addresses of this machine");
        let line = server
            .log()
            .lines()
            .find(|line| line.contains("all addresses"))
            .unwrap()
            .to_owned();
        assert!(
            line.contains(&format!(":{}", server.address.port())),
            "{line}"
        );
    }
}

#[test]
fn a_load_balancer_sees_that_a_server_stops_before_connections_are_refused() {
    let place = place("drain_delay = \"3s\"");
    let mut server = place.serve::<&str>([]);
    assert_eq!(server.get("/readyz").status, 200);
    server.terminate();
    wait_until("it is not ready any more", || {
        server.get("/readyz").status == 503
    });
    assert_eq!(server.get(TILE).status, 200, "on a new connection");
    assert_eq!(server.ended().code(), Some(0), "{}", server.log());
}
