//! Sockets passed by the service manager, and what it is told.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::process::Command;

use rustix::process::Signal;

use super::unix::connect;
use super::{TILE, endpoints, place};
use crate::common::wire::Connection;
use crate::common::{PATIENCE, Place, outcome};

/// `voltile serve`, to which that socket is passed as systemd does it.
fn passing(place: &Place, socket: impl Into<OwnedFd>, arguments: &[&str]) -> Command {
    let pass = "exec 3<&0 </dev/null && export LISTEN_FDS=1 LISTEN_PID=$$";
    let mut command = place.limited(pass, ["serve"].iter().chain(arguments));
    command.stdin(socket.into());
    command
}

#[test]
fn a_passed_socket_is_served_instead_of_the_default_address() {
    let place = place("");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // Whoever connects before the server has started waits for it.
    let mut early = Connection::open(address);
    early.send("GET", TILE, &[]);
    let server = place.start(passing(&place, listener, &[]));
    assert_eq!(early.receive("GET").unwrap().status, 200);
    assert_eq!(endpoints(&server), [format!("http://{address}")]);
    assert_eq!(server.address, address);
}

#[test]
fn a_passed_unix_socket_is_served_and_its_file_is_left_to_its_owner() {
    let place = place("");
    let path = place.path("passed.sock");
    let listener = UnixListener::bind(&path).unwrap();
    // The configuration may name it too.
    let set = format!("server.unix_socket={}", path.display());
    let mut server = place.start_without_address(passing(&place, listener, &["--set", &set]));
    assert_eq!(endpoints(&server), [format!("unix:{}", path.display())]);
    assert_eq!(connect(&path).try_get(TILE).unwrap().status, 200);
    server.stop();
    assert!(path.exists());
}

#[test]
fn a_configured_address_is_served_beside_a_passed_socket_unless_it_is_the_same() {
    let place = place("");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let arguments = ["--bind", "127.0.0.2:0", "--bind", &address];
    let server = place.start(passing(&place, listener, &arguments));
    let endpoints = endpoints(&server);
    assert!(
        endpoints.len() == 2 && endpoints[0].starts_with("http://127.0.0.2:"),
        "{endpoints:?}"
    );
    for endpoint in endpoints {
        let address = endpoint.strip_prefix("http://").unwrap().parse().unwrap();
        assert_eq!(
            Connection::open(address).get(TILE).status,
            200,
            "{endpoint}"
        );
    }
}

#[test]
fn a_passed_socket_that_does_not_listen_is_an_error() {
    let place = place("");
    let failed = outcome(&mut passing(&place, UnixDatagram::unbound().unwrap(), &[]));
    assert_eq!(failed.code, 2, "{}", failed.err);
    assert!(failed.err.contains("Accept=no"), "{}", failed.err);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let connection = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let failed = outcome(&mut passing(&place, connection, &[]));
    assert!(
        failed.code == 2 && failed.err.contains("Accept=no"),
        "{}",
        failed.err
    );
}

#[test]
fn the_service_manager_is_told_when_the_server_is_ready_and_when_it_stops() {
    let place = place("");
    let manager = UnixDatagram::bind(place.path("notify")).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let told = || {
        let mut bytes = [0; 4096];
        let length = manager.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    };
    let mut command = place.voltile(["serve", "--bind", "127.0.0.1:0"]);
    command.env("NOTIFY_SOCKET", place.path("notify"));
    let mut server = place.start(command);
    let ready = told();
    assert_eq!(ready, "READY=1\nSTATUS=serving 1 dataset\n");
    // What systemctl reload sends, with Type=notify-reload.
    server.signal(Signal::HUP);
    let reloading = told();
    assert!(
        reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="),
        "{reloading}"
    );
    assert_eq!(told(), ready);
    server.stop();
    assert!(told().starts_with("STOPPING=1\n"));
}
