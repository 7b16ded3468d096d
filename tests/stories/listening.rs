//! Where the server listens: several addresses, Unix sockets, sockets passed by the service manager; and how: over TLS,
//! and within a bandwidth.

mod bandwidth;
mod passed;
mod tls;
mod unix;

use std::io::{ErrorKind, Read};

use ndarray::ArrayD;

use crate::common::volumes::{self, Stored};
use crate::common::wire::Connection;
use crate::common::{Place, Server, made};

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
    made::file(&place.path("noise.h5"), |file| drop(made::put(file, "raw", &noise)));
    "/ndtilecache/tilecache/noise/raw/xy/0/0_0_0.png"
}

/// What follows `voltile listening on ` in what it printed.
fn endpoints(server: &Server) -> Vec<String> {
    let printed = server.printed();
    let lines = printed.lines().filter_map(|line| line.strip_prefix("voltile listening on "));
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
    for command in
        [place.voltile(["serve"]), place.voltile(["serve", "--bind", "127.0.0.1:0", "--bind", "127.0.0.2:0"])]
    {
        let server = place.start(command);
        let endpoints = endpoints(&server);
        assert_eq!(endpoints.len(), 2, "{endpoints:?}");
        for (endpoint, host) in endpoints.iter().zip(["127.0.0.1", "127.0.0.2"]) {
            let address = endpoint.strip_prefix("http://").unwrap();
            assert!(address.starts_with(host), "{endpoints:?}");
            assert_eq!(Connection::open(address.parse().unwrap()).get(TILE).status, 200, "{endpoint}");
        }
        assert!(server.printed().contains(&format!("\npage {}/\n", endpoints[0])), "{}", server.printed());
    }
}

#[test]
fn one_address_that_cannot_be_bound_is_an_error() {
    let place = place("");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let outcome = place.run(["serve", "--bind", "127.0.0.1:0", "--bind", &address]);
    assert_eq!(outcome.code, 1, "{}", outcome.err);
    assert!(outcome.err.contains(&address) && outcome.out.is_empty(), "{}", outcome.err);
    let nowhere = place.run(["serve", "--set", "server.bind=[]"]);
    assert_eq!(nowhere.code, 2, "{}", nowhere.err);
    assert!(nowhere.err.contains("server.unix_socket"), "{}", nowhere.err);
}
