//! Sockets and the threads that serve them: what `actix_web::HttpServer` does, but with our own
//! stream between each socket and actix-http ([`super::connections`]).
//!
//! actix-http's own timeouts are off, because that stream applies all timeouts. The signal of a
//! graceful shutdown is not in the documentation of actix-http: `HttpServer` passes it on in the
//! same way.

mod certificates;
mod socket;
mod sockets;
mod unix;

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use actix_http::error::DispatchError;
use actix_http::{HttpService, KeepAlive, Protocol};
use actix_server::{GracefulShutdownSignal, Server};
use actix_service::{
    IntoServiceFactory, ServiceFactory, ServiceFactoryExt, fn_service, map_config,
};
use actix_web::dev::AppConfig;
use actix_web::rt::net::{TcpStream, UnixStream};
use actix_web::{App, HttpRequest, web};

use super::answer;
use super::client::Tls;
use super::connections::{Connections, Limits, SequentialStream, followed};
use super::site::LiveSite;
use crate::config;
pub use certificates::Certificates;
use socket::Socket;
pub use sockets::{Endpoint, ListenError, Sockets};
use unix::SocketFile;

type Stream = SequentialStream<Socket>;
/// What actix-http takes: a stream, its protocol, and the address of the peer.
type Admitted = (Stream, Protocol, Option<SocketAddr>);

/// A server that accepts connections.
pub struct Listening {
    /// To be awaited.
    pub server: Server,
    /// Where it listens.
    pub endpoints: Vec<Endpoint>,
    /// Removed with this.
    _files: Vec<SocketFile>,
}

/// Starts the server, with as many connections as settings and `descriptors` (file descriptors
/// available) allow. TCP sockets speak TLS if there are certificates.
pub fn start(
    site: Arc<LiveSite>,
    settings: &config::Server,
    sockets: Sockets,
    certificates: Option<Arc<Certificates>>,
    descriptors: usize,
) -> io::Result<Listening> {
    let limits = limits(settings, descriptors);
    let connections = Connections::new(limits, site.get().service.metrics().connections.clone());
    let mut builder = Server::build()
        .workers(settings.workers.get())
        .max_concurrent_connections(for_each_worker(limits.connections, settings.workers.get()))
        .shutdown_timeout(settings.shutdown_timeout.as_secs().max(1))
        // The command line handles signals: Ctrl-C must drain as SIGTERM does.
        .disable_signals();
    let stops = builder.graceful_shutdown_signal();
    let shared = Shared {
        site: web::Data::from(site),
        connections: Arc::new(connections),
        stops,
        certificates,
    };
    let (tcp, unix, files) = sockets.into_parts();
    let mut endpoints = Vec::new();
    for listener in tcp {
        let address = listener.local_addr()?;
        let endpoint = Endpoint::Tcp(shared.scheme(), address);
        let shared = shared.clone();
        builder = builder.listen(endpoint.to_string(), listener, move || shared.over_tcp())?;
        endpoints.push(endpoint);
    }
    for (listener, path) in unix {
        let endpoint = Endpoint::Unix(path);
        let shared = shared.clone();
        builder = builder.listen_uds(endpoint.to_string(), listener, move || shared.over_unix())?;
        endpoints.push(endpoint);
    }
    Ok(Listening {
        server: builder.run(),
        endpoints,
        _files: files,
    })
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
        bandwidth: settings.bandwidth_for_each_client,
        head: settings.head_timeout,
        idle: settings.idle_timeout,
        write: settings.write_timeout,
    }
}

/// How many connections a worker accepts. In total this exceeds the limit by 1/8, for those that
/// are being closed in favour of new ones.
fn for_each_worker(connections: usize, workers: usize) -> usize {
    connections
        .saturating_add(connections / 8)
        .div_ceil(workers)
        .max(2)
}

/// What the services of all sockets on all worker threads share.
#[derive(Clone)]
struct Shared {
    site: web::Data<LiveSite>,
    connections: Arc<Connections>,
    stops: GracefulShutdownSignal,
    certificates: Option<Arc<Certificates>>,
}

impl Shared {
    fn scheme(&self) -> &'static str {
        if self.certificates.is_some() {
            "https"
        } else {
            "http"
        }
    }

    /// The service for connections of one TCP socket on one worker thread.
    fn over_tcp(
        &self,
    ) -> impl ServiceFactory<
        TcpStream,
        Config = (),
        Response = (),
        Error = DispatchError,
        InitError = (),
    > + use<> {
        let (connections, certificates) =
            (Arc::clone(&self.connections), self.certificates.clone());
        let admitted = move |socket: TcpStream| {
            let admitted = admit_tcp(socket, &connections, certificates.as_deref());
            async move { admitted.map_err(DispatchError::from) }
        };
        fn_service(admitted).and_then(self.http(self.certificates.is_some()))
    }

    /// The service for connections of a Unix socket on one worker thread.
    fn over_unix(
        &self,
    ) -> impl ServiceFactory<
        UnixStream,
        Config = (),
        Response = (),
        Error = DispatchError,
        InitError = (),
    > + use<> {
        let connections = Arc::clone(&self.connections);
        let admitted = move |socket: UnixStream| {
            let admitted = admit(Socket::Unix(socket), None, &connections);
            async move { admitted.map_err(DispatchError::from) }
        };
        fn_service(admitted).and_then(self.http(false))
    }

    fn http(
        &self,
        is_tls: bool,
    ) -> impl ServiceFactory<
        Admitted,
        Config = (),
        Response = (),
        Error = DispatchError,
        InitError = (),
    > + use<> {
        let served = async |site: web::Data<LiveSite>, request: HttpRequest, payload| {
            let followed = followed(&request, payload);
            followed(answer(site, request).await)
        };
        let app = App::new()
            .app_data(self.site.clone())
            .default_service(web::to(served));
        let app = if is_tls { app.app_data(Tls) } else { app }.into_factory();
        // What actix-web would use in redirects and URLs, of which there are none.
        let app = map_config(app.map_err(|error| error.error_response()), |()| {
            AppConfig::default()
        });
        let stops = self.stops.clone();
        HttpService::<Stream, _, _>::build()
            .graceful_shutdown_signal(move || {
                let stops = stops.clone();
                async move { stops.notified().await }
            })
            .keep_alive(KeepAlive::Os)
            .client_request_timeout(Duration::ZERO)
            .client_disconnect_timeout(Duration::ZERO)
            // A client that has closed its sending side is treated as gone, so that tiles only it
            // waited for need not be rendered.
            .h1_allow_half_closed(false)
            .on_connect_ext(|stream: &Stream, data| drop(data.insert(stream.exchange())))
            .finish(app)
    }
}

/// Turns a TCP connection into a stream; an error closes it.
fn admit_tcp(
    socket: TcpStream,
    connections: &Arc<Connections>,
    certificates: Option<&Certificates>,
) -> io::Result<Admitted> {
    // A peer without an address is one on a Unix socket.
    let peer = socket.peer_addr()?;
    // A body is sent in pieces: the last, short one must not wait until the others are acknowledged
    // (Nagle's algorithm).
    socket.set_nodelay(true)?;
    let socket = match certificates {
        Some(certificates) => Socket::expecting_tls(socket, certificates.current()),
        None => Socket::Tcp(socket),
    };
    admit(socket, Some(peer), connections)
}

fn admit(
    socket: Socket,
    peer: Option<SocketAddr>,
    connections: &Arc<Connections>,
) -> io::Result<Admitted> {
    let full = || {
        io::Error::new(
            ErrorKind::ConnectionRefused,
            "the limit on connections is reached",
        )
    };
    let admission = connections
        .admit(peer.map(|peer| peer.ip()))
        .ok_or_else(full)?;
    Ok((
        SequentialStream::new(socket, admission),
        Protocol::Http1,
        peer,
    ))
}
