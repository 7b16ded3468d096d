//! Sockets and the threads that serve them: what `actix_web::HttpServer` does, but with our own stream between each
//! socket and actix-http ([`super::connections`]).
//!
//! actix-http's own timeouts are off, because that stream applies all timeouts. Two functions used here are
//! documented as internal to actix-web: `HttpServer` is built on them, and there are no public equivalents.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use actix_http::error::DispatchError;
use actix_http::{HttpService, KeepAlive, Protocol};
use actix_server::{GracefulShutdownSignal, Server};
use actix_service::{IntoServiceFactory, ServiceFactory, ServiceFactoryExt, fn_service, map_config};
use actix_web::dev::AppConfig;
use actix_web::rt::net::TcpStream;
use actix_web::{App, web};

use super::connections::{Admission, Connections, Limits, SequentialStream};
use super::{LiveSite, answer};
use crate::config;

/// The length of the system's queue of connections that have not been accepted.
const BACKLOG: i32 = 1024;

type Stream = SequentialStream<TcpStream>;

/// Binds the addresses and starts the server, with as many connections as settings and `descriptors` (file
/// descriptors available) allow. Returns the server, to be awaited, and the addresses that it listens on.
pub fn start(
    site: Arc<LiveSite>,
    settings: &config::Server,
    bind: &[SocketAddr],
    descriptors: usize,
) -> io::Result<(Server, Vec<SocketAddr>)> {
    let limits = limits(settings, descriptors);
    let connections = Connections::new(limits, site.get().service.metrics().connections.clone());
    let (site, connections) = (web::Data::from(site), Arc::new(connections));
    let mut builder = Server::build()
        .workers(settings.workers.get())
        .max_concurrent_connections(for_each_worker(limits.connections, settings.workers.get()))
        .shutdown_timeout(settings.shutdown_timeout.as_secs().max(1))
        // The command line handles signals: Ctrl-C must drain as SIGTERM does.
        .disable_signals();
    let stops = builder.graceful_shutdown_signal();
    let mut addresses = Vec::new();
    for listener in bound(bind)? {
        let address = listener.local_addr()?;
        addresses.push(address);
        let (site, connections, stops) = (site.clone(), Arc::clone(&connections), stops.clone());
        builder = builder.listen(format!("http://{address}"), listener, move || {
            service(site.clone(), Arc::clone(&connections), stops.clone(), address)
        })?;
    }
    Ok((builder.run(), addresses))
}

fn limits(settings: &config::Server, descriptors: usize) -> Limits {
    // Leave some for connections that are being closed.
    let possible = (descriptors - descriptors / 8).max(1);
    if settings.connections > possible {
        tracing::info!(
            "at most {possible} connections are served at a time, not server.connections = {}: raise the limit of \
             open files (ulimit -n) to allow more",
            settings.connections
        );
    }
    Limits {
        connections: settings.connections.min(possible),
        for_each_client: settings.connections_for_each_client,
        head: settings.head_timeout,
        idle: settings.idle_timeout,
        write: settings.write_timeout,
    }
}

/// How many connections a worker accepts. In total this exceeds the limit by 1/8, for those that are being closed in
/// favour of new ones.
fn for_each_worker(connections: usize, workers: usize) -> usize {
    connections.saturating_add(connections / 8).div_ceil(workers).max(2)
}

/// Binds every address that can be bound; fails if none can.
fn bound(addresses: &[SocketAddr]) -> io::Result<Vec<TcpListener>> {
    let mut listeners = Vec::new();
    let mut last = io::Error::new(io::ErrorKind::InvalidInput, "there is no address to listen on");
    for address in addresses {
        match TcpListener::bind(address) {
            Ok(listener) => {
                // The standard library uses a shorter backlog than many browsers may fill at once.
                rustix::net::listen(&listener, BACKLOG)?;
                listeners.push(listener);
            }
            Err(error) => last = error,
        }
    }
    if listeners.is_empty() { Err(last) } else { Ok(listeners) }
}

/// The service for connections of one listener on one worker thread.
fn service(
    site: web::Data<LiveSite>,
    connections: Arc<Connections>,
    stops: GracefulShutdownSignal,
    address: SocketAddr,
) -> impl ServiceFactory<TcpStream, Config = (), Response = (), Error = DispatchError, InitError = ()> {
    let app = App::new().app_data(site).default_service(web::to(answer)).into_factory();
    let app = map_config(app.map_err(|error| error.error_response()), move |()| {
        AppConfig::__priv_test_new(false, address.to_string(), address)
    });
    let http = HttpService::<Stream, _, _>::build()
        .graceful_shutdown_signal(move || {
            let stops = stops.clone();
            async move { stops.notified().await }
        })
        .keep_alive(KeepAlive::Os)
        .client_request_timeout(Duration::ZERO)
        .client_disconnect_timeout(Duration::ZERO)
        // A client that has closed its sending side is treated as gone, so that tiles only it waited for need not be
        // rendered.
        .h1_allow_half_closed(false)
        .local_addr(address)
        .finish(app);
    let admitted = move |socket: TcpStream| {
        let connections = Arc::clone(&connections);
        async move { admit(socket, |peer| connections.admit(peer)) }
    };
    fn_service(admitted).and_then(http)
}

/// Turns a socket into a stream; an error closes it.
fn admit(
    socket: TcpStream,
    admission: impl FnOnce(Option<IpAddr>) -> Option<Admission>,
) -> Result<(Stream, Protocol, Option<SocketAddr>), DispatchError> {
    let peer = socket.peer_addr().ok();
    let full = || io::Error::new(io::ErrorKind::ConnectionRefused, "the limit on connections is reached");
    let admission = admission(peer.map(|peer| peer.ip())).ok_or_else(full)?;
    // A body is sent in pieces: the last, short one must not wait until the others are acknowledged (Nagle's
    // algorithm).
    socket.set_nodelay(true)?;
    Ok((SequentialStream::new(socket, admission), Protocol::Http1, peer))
}
