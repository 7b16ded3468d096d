//! Sockets and the threads that serve them: what `actix_web::HttpServer` does, with our own stream between each socket and
//! the framework ([`super::connections`]).
//!
//! The framework's own time limits are off, because every wait for a client is limited by that stream. Two of its
//! functions that are used here are for actix-web alone by their documentation: that is what `HttpServer` is built of, and
//! there are no others.

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

use super::connections::{Admitted, Connections, Limits, SequentialStream};
use super::{Site, answer};
use crate::config;

/// How many connections the system keeps that have not been accepted.
const BACKLOG: i32 = 1024;

type Stream = SequentialStream<TcpStream>;

/// Binds the addresses and starts to serve, with as many connections as settings and descriptors allow; returns the
/// server, to be awaited, and where it really listens.
pub fn start(
    site: Site,
    settings: &config::Server,
    bind: &[SocketAddr],
    descriptors: usize,
) -> io::Result<(Server, Vec<SocketAddr>)> {
    let limits = limits(settings, descriptors);
    let connections = Connections::new(limits, site.service.metrics().connections.clone());
    let (site, connections) = (web::Data::new(site), Arc::new(connections));
    let mut builder = Server::build()
        .workers(settings.workers.get())
        .max_concurrent_connections(for_each_worker(limits.connections, settings.workers.get()))
        .shutdown_timeout(settings.shutdown_timeout.as_secs().max(1))
        // Signals are the command line's: Ctrl-C must drain as SIGTERM does.
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
    // Those that are being closed need some, too.
    let possible = (descriptors - descriptors / 8).max(1);
    if settings.connections > possible {
        tracing::info!(
            "at most {possible} connections are served at a time, and not server.connections = {}: more would need a \
             higher limit of open files (ulimit -n)",
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

/// How many connections a thread may have before no more are accepted for it. In all they are more than there may be, by
/// those that are being closed for new ones.
fn for_each_worker(connections: usize, workers: usize) -> usize {
    connections.saturating_add(connections / 8).div_ceil(workers).max(2)
}

/// Listens on every address that can be listened on, of which there must be one.
fn bound(addresses: &[SocketAddr]) -> io::Result<Vec<TcpListener>> {
    let mut listeners = Vec::new();
    let mut last = io::Error::new(io::ErrorKind::InvalidInput, "there is no address to listen on");
    for address in addresses {
        match TcpListener::bind(address) {
            Ok(listener) => {
                // The standard library lets fewer wait than many browsers may open at once.
                rustix::net::listen(&listener, BACKLOG)?;
                listeners.push(listener);
            }
            Err(error) => last = error,
        }
    }
    if listeners.is_empty() { Err(last) } else { Ok(listeners) }
}

/// What serves the connections of one listener on one thread.
fn service(
    site: web::Data<Site>,
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
        // A client that has closed its side is taken to have gone: what only it waited for need not be drawn.
        .h1_allow_half_closed(false)
        .local_addr(address)
        .finish(app);
    let admitted = move |socket: TcpStream| {
        let connections = Arc::clone(&connections);
        async move { admit(socket, |peer| connections.admit(peer)) }
    };
    fn_service(admitted).and_then(http)
}

/// Makes a stream of a socket; an error closes it.
fn admit(
    socket: TcpStream,
    place: impl FnOnce(Option<IpAddr>) -> Option<Admitted>,
) -> Result<(Stream, Protocol, Option<SocketAddr>), DispatchError> {
    let peer = socket.peer_addr().ok();
    let full =
        || io::Error::new(io::ErrorKind::ConnectionRefused, "there is no place for another connection");
    let place = place(peer.map(|peer| peer.ip())).ok_or_else(full)?;
    // A body goes out in pieces: the last, which is short, must not wait until those before are acknowledged.
    socket.set_nodelay(true)?;
    Ok((SequentialStream::new(socket, place), Protocol::Http1, peer))
}
