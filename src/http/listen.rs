//! Sockets and the threads that serve them: the work of `actix_web::HttpServer`, but with our own
//! stream between each socket and actix-http ([`super::connections`]).
//!
//! A graceful shutdown is signalled to actix-http as `HttpServer` signals it, because the
//! documentation of actix-http does not say how.

mod certificates;
mod sockets;
mod unix;

use std::io;
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
use prometheus_client::metrics::gauge::Gauge;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::answer;
use super::client::OverTls;
use super::connections::{AnswerFollower, ConnectionTimeouts, OpenConnection, SequentialStream};
use super::site::LiveSite;
use crate::config;
pub use certificates::Certificates;
pub use sockets::{Endpoint, ListenError, Sockets};
use unix::SocketFile;

/// A server that accepts connections.
pub struct Listening {
    /// To be awaited.
    pub server: Server,
    /// Where the server listens.
    pub endpoints: Vec<Endpoint>,
    /// The files of Unix sockets, which are removed when this is dropped.
    _files: Vec<SocketFile>,
}

/// Starts the server. The number of connections is limited by the settings and by `descriptors`,
/// the number of file descriptors that connections may take. TCP sockets speak TLS if there are
/// certificates.
pub fn start(
    site: Arc<LiveSite>,
    settings: &config::Server,
    sockets: Sockets,
    certificates: Option<Arc<Certificates>>,
    descriptors: usize,
) -> io::Result<Listening> {
    let limit = connection_limit(settings, descriptors);
    let service = Arc::clone(&site.get().service);
    let metrics = service.metrics();
    metrics
        .connection_limit
        .set(i64::try_from(limit).unwrap_or(i64::MAX));
    let mut builder = Server::build()
        .workers(settings.workers.get())
        .max_concurrent_connections(limit.div_ceil(settings.workers.get()))
        .shutdown_timeout(settings.shutdown_timeout.as_secs().max(1))
        // The command line handles signals: Ctrl-C must drain as SIGTERM does.
        .disable_signals();
    let services = ServiceMaker {
        site: web::Data::from(site),
        open: metrics.connections.clone(),
        timeouts: ConnectionTimeouts {
            head: settings.head_timeout,
            idle: settings.idle_timeout,
        },
        shutdown: builder.graceful_shutdown_signal(),
    };
    let tls = certificates.map(certificates::acceptor).transpose()?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let mut endpoints = Vec::new();
    for listener in sockets.tcp {
        let endpoint = Endpoint::Tcp(scheme, listener.local_addr()?);
        let services = services.clone();
        let name = endpoint.to_string();
        builder = match tls.clone() {
            Some(tls) => builder.listen(name, listener, move || {
                let tls = tls.clone();
                let patience = services.timeouts.head;
                services.make(Some(OverTls), move |socket| {
                    accept_tls(socket, tls.clone(), patience)
                })
            })?,
            None => builder.listen(name, listener, move || services.make(None, accept_tcp))?,
        };
        endpoints.push(endpoint);
    }
    for (listener, path) in sockets.unix {
        let endpoint = Endpoint::Unix(path);
        let services = services.clone();
        let name = endpoint.to_string();
        builder = builder.listen_uds(name, listener, move || services.make(None, accept_unix))?;
        endpoints.push(endpoint);
    }
    Ok(Listening {
        server: builder.run(),
        endpoints,
        _files: sockets.files,
    })
}

/// The maximum number of connections: the configured one, or a smaller one if the limit of open
/// files does not allow it.
fn connection_limit(settings: &config::Server, descriptors: usize) -> usize {
    // Leave an eighth for connections that are being closed.
    let possible = (descriptors - descriptors / 8).max(1);
    if settings.connections > possible {
        tracing::info!(
            "at most {possible} connections are served at a time, not server.connections = {}: raise the limit of \
             open files (ulimit -n) to allow more",
            settings.connections
        );
    }
    settings.connections.min(possible)
}

/// Makes the services of all sockets on all worker threads.
#[derive(Clone)]
struct ServiceMaker {
    site: web::Data<LiveSite>,
    /// The number of open connections.
    open: Gauge,
    timeouts: ConnectionTimeouts,
    shutdown: GracefulShutdownSignal,
}

impl ServiceMaker {
    /// The service for the connections to one listening socket on one worker thread: it reads
    /// requests, and answers them. `accept` turns the socket of a new connection into a stream, and
    /// returns the address of its peer.
    fn make<T, S, A, F>(
        &self,
        over_tls: Option<OverTls>,
        accept: A,
    ) -> impl ServiceFactory<T, Config = (), Response = (), Error = DispatchError, InitError = ()>
    + use<T, S, A, F>
    where
        S: AsyncRead + AsyncWrite + Unpin + 'static,
        A: Fn(T) -> F + Clone,
        F: Future<Output = io::Result<(S, Option<SocketAddr>)>>,
    {
        let count = self.open.clone();
        let timeouts = self.timeouts;
        let accept = fn_service(move |socket: T| {
            let open = OpenConnection::new(count.clone());
            let accepting = accept(socket);
            async move {
                let (socket, peer) = accepting.await?;
                let stream = SequentialStream::new(socket, timeouts, open);
                Ok::<_, DispatchError>((stream, Protocol::Http1, peer))
            }
        });
        let served = async |site: web::Data<LiveSite>, request: HttpRequest, payload| {
            let follower = AnswerFollower::new(&request, payload);
            follower.follow(answer(site, request).await)
        };
        let app = App::new()
            .app_data(self.site.clone())
            .default_service(web::to(served));
        let app = match over_tls {
            Some(mark) => app.app_data(mark),
            None => app,
        };
        let app = app.into_factory().map_err(|error| error.error_response());
        // actix-web would use the configuration in redirects and URLs, but makes none here.
        let app = map_config(app, |()| AppConfig::default());
        let shutdown = self.shutdown.clone();
        let http = HttpService::<SequentialStream<S>, _, _>::build()
            .graceful_shutdown_signal(move || {
                let shutdown = shutdown.clone();
                async move { shutdown.notified().await }
            })
            // The stream applies the timeouts.
            .keep_alive(KeepAlive::Os)
            .client_request_timeout(Duration::ZERO)
            .client_disconnect_timeout(Duration::ZERO)
            // A client that has closed its sending side is treated as gone, so that tiles for which
            // no other client waits need not be rendered.
            .h1_allow_half_closed(false)
            .on_connect_ext(|stream: &SequentialStream<S>, data| {
                drop(data.insert(stream.progress()));
            })
            .finish(app);
        accept.and_then(http)
    }
}

async fn accept_tcp(socket: TcpStream) -> io::Result<(TcpStream, Option<SocketAddr>)> {
    let peer = set_up(&socket)?;
    Ok((socket, Some(peer)))
}

/// Accepts a TLS connection; the handshake may take as long as `patience`.
async fn accept_tls(
    socket: TcpStream,
    acceptor: TlsAcceptor,
    patience: Duration,
) -> io::Result<(TlsStream<TcpStream>, Option<SocketAddr>)> {
    let peer = set_up(&socket)?;
    let socket = timeout(patience, acceptor.accept(socket)).await??;
    Ok((socket, Some(peer)))
}

async fn accept_unix(socket: UnixStream) -> io::Result<(UnixStream, Option<SocketAddr>)> {
    Ok((socket, None))
}

/// Sets the options of a TCP connection; returns the address of its peer. Fails if the peer has no
/// address any more: it would be taken for a client on a Unix socket.
fn set_up(socket: &TcpStream) -> io::Result<SocketAddr> {
    // A body is sent in pieces: the last, short piece must not wait until the rest is acknowledged
    // (Nagle's algorithm).
    socket.set_nodelay(true)?;
    socket.peer_addr()
}
