//! The HTTP client of [`crate::tools::warm`], over `ureq`.
//!
//! Every response is returned as it is: no status is an error, and no redirect is followed.
//! Deliberately absent: proxies, cookies, compression.
//!
//! A server may close a kept connection at any moment. A request that finds its connection closed
//! before a response is sent once more over a new one.

mod answer;
mod resolver;
mod unix;

use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::rustls::crypto::ring;
use ureq::http::{HeaderMap, Request, Uri};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::unversioned::transport::DefaultConnector;
use ureq::{Agent, Body, Error, Timeout};

pub use answer::Answer;
pub use ureq::http::Method;

use crate::base::description::SiteDescription;
use resolver::Remembering;
use unix::ToSocket;

/// Longer than anyone would wait for a tile.
const PATIENCE: Duration = Duration::from_secs(60);
/// The maximum size of a body.
const MAX_BYTES: u64 = 256 << 20;
/// Idle connections that are kept. Concurrent requests on one client take one connection each.
const MAX_IDLE: usize = 1 << 10;

/// A client of one server.
#[derive(Debug)]
pub struct Client {
    agent: Agent,
    server: Server,
    /// The path before every other: empty, or a path that ends in `/k/SECRET`.
    prefix: String,
    patience: Duration,
}

/// Where a server listens.
#[derive(Debug, Clone)]
struct Server {
    /// As it is shown: the scheme and host, or `unix:` and the path of the socket.
    base: String,
    /// The scheme and host of the URLs that are requested.
    origin: String,
    /// The Unix socket, if it is one.
    socket: Option<PathBuf>,
}

/// The scheme of the address of a Unix socket.
const UNIX: &str = "unix:";

/// Whether a text is meant as the address of a server, not as that of a file.
pub fn is_server(text: &str) -> bool {
    text.contains("://") || text.starts_with(UNIX)
}

impl Client {
    /// A client of the server at a URL such as `http://127.0.0.1:8080` or `https://host`, or at a
    /// Unix socket, such as `unix:/run/voltile.sock`. Of a path in it, which follows a socket after
    /// another colon, all that follows `/k/SECRET` is ignored, or everything if there is no secret.
    /// Does not connect yet.
    ///
    /// # Errors
    /// What is wrong with the URL, and what is expected.
    pub fn new(url: &str) -> Result<Self, String> {
        let (server, path) = Server::parse(url)
            .map_err(|problem| format!("{url:?} is not the URL of a server: {problem}"))?;
        Ok(Self::with_patience(
            server,
            secret_prefix(path).to_owned(),
            PATIENCE,
        ))
    }

    fn with_patience(server: Server, prefix: String, patience: Duration) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .tls_config(tls())
            .user_agent(concat!("voltile/", env!("CARGO_PKG_VERSION")))
            .max_idle_connections(MAX_IDLE)
            .max_idle_connections_per_host(MAX_IDLE)
            // With one limit for the whole call, each call would resolve the host's name on a new
            // thread.
            .timeout_connect(Some(patience))
            .timeout_recv_response(Some(patience))
            .timeout_recv_body(Some(patience))
            .build();
        let agent = match server.socket.clone().map(ToSocket) {
            Some(socket) => Agent::with_parts(config, socket.clone(), socket),
            None => Agent::with_parts(config, DefaultConnector::default(), Remembering::default()),
        };
        Self {
            agent,
            server,
            prefix,
            patience,
        }
    }

    /// The scheme and host, or the Unix socket; without a secret.
    pub fn base(&self) -> &str {
        &self.server.base
    }

    /// Requests what the server says of itself.
    pub fn description(&self) -> Result<SiteDescription, String> {
        let answer = self.get("/datasets.json")?.found()?;
        let site: SiteDescription = serde_json::from_slice(&answer.body).map_err(|e| {
            answer.wrong(format!(
                "it cannot be parsed: {e}; is the server a voltile of the same version?"
            ))
        })?;
        if site.mounts.is_empty() {
            Err(answer.wrong("no mount is served"))
        } else {
            Ok(site)
        }
    }

    /// Requests a path on this server, or a full URL.
    pub fn get(&self, url: &str) -> Result<Answer, String> {
        self.request(&Method::GET, url, &[])
    }

    /// Requests a path on this server, or a full URL, with headers in addition to those of every
    /// request. The method must be safe to repeat.
    ///
    /// # Errors
    /// There is no complete response: which request, and why.
    pub fn request(
        &self,
        method: &Method,
        url: &str,
        headers: &[(&str, &str)],
    ) -> Result<Answer, String> {
        let origin = &self.server.origin;
        let url = if url.starts_with('/') {
            format!("{origin}{}{url}", self.prefix)
        } else {
            url.to_owned()
        };
        match self.answer(method, &url, headers) {
            Ok((status, headers, body)) => Ok(Answer {
                url,
                status,
                headers,
                body,
            }),
            Err(error) => Err(format!(
                "{method} {url}: no answer: {}",
                self.problem(&url, error)
            )),
        }
    }

    fn answer(
        &self,
        method: &Method,
        url: &str,
        headers: &[(&str, &str)],
    ) -> Result<(u16, HeaderMap, Vec<u8>), Error> {
        let mut request = Request::builder().method(method).uri(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(())?;
        let response = match self.agent.run(request.clone()) {
            Err(error) if is_closed(&error) => self.agent.run(request)?,
            other => other?,
        };
        let (parts, body) = response.into_parts();
        let body = read(body)?;
        Ok((parts.status.as_u16(), parts.headers, body))
    }

    /// Explains an error of a request to `url`.
    fn problem(&self, url: &str, error: Error) -> String {
        let unreached = |problem: &dyn std::fmt::Display| {
            let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
            let host = rest.split('/').next().unwrap_or_default();
            let host = if self.server.socket.is_some() {
                self.base()
            } else {
                host
            };
            format!("{host} cannot be reached: {problem}")
        };
        let seconds = self.patience.as_secs_f32();
        match error {
            Error::Timeout(Timeout::Connect) => {
                unreached(&format!("no connection within {seconds} s"))
            }
            Error::Timeout(_) => format!("no complete response within {seconds} s"),
            Error::HostNotFound => unreached(&"the name has no address"),
            Error::Io(error) if error.kind() == ErrorKind::UnexpectedEof => {
                "the connection was closed before the end of a response".to_owned()
            }
            Error::Io(error) if is_lost(error.kind()) => format!("the connection failed: {error}"),
            Error::Io(error) if is_distrusted(&error) => unreached(&format!(
                "{error}. If its certificate is from an authority of your own, set SSL_CERT_FILE to a PEM file with that \
                 authority's certificate"
            )),
            Error::Io(error) => unreached(&error),
            Error::Protocol(error) => format!("the response is not valid HTTP/1.1: {error}"),
            Error::Http(error) => format!("the URL cannot be requested: {error}"),
            Error::BodyExceedsLimit(bytes) => format!("the response has more than {bytes} bytes"),
            other => other.to_string(),
        }
    }
}

impl Server {
    /// The server of a URL, and the path in it.
    fn parse(url: &str) -> Result<(Self, &str), &'static str> {
        if let Some(rest) = url.strip_prefix(UNIX) {
            let (socket, path) = rest
                .find(":/")
                .map_or((rest, ""), |at| (&rest[..at], &rest[at + 1..]));
            if socket.is_empty() {
                return Err("it names no socket; expected for example unix:/run/voltile.sock");
            }
            let (base, origin) = (format!("{UNIX}{socket}"), "http://localhost".to_owned());
            return Ok((
                Self {
                    base,
                    origin,
                    socket: Some(socket.into()),
                },
                path,
            ));
        }
        let (scheme, rest) = match url.split_once("://") {
            Some((scheme @ ("http" | "https"), rest)) => (scheme, rest),
            Some(_) => return Err("expected http://, https:// or unix:"),
            None => ("http", url),
        };
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if host.is_empty() {
            return Err("it has no host; expected for example http://127.0.0.1:8080");
        }
        let base = format!("{scheme}://{host}");
        // A port above 65535 would be taken for none.
        let is_valid = |uri: &Uri| {
            uri.authority().is_some_and(|all| {
                all.port_u16().is_some() || all.as_str().rsplit('@').next() == Some(all.host())
            })
        };
        if !base.parse::<Uri>().is_ok_and(|uri| is_valid(&uri)) {
            return Err(
                "its host or port is not valid; expected for example http://127.0.0.1:8080",
            );
        }
        Ok((
            Self {
                origin: base.clone(),
                base,
                socket: None,
            },
            path,
        ))
    }
}

/// Trusts what the system trusts, or the certificates that `SSL_CERT_FILE` and `SSL_CERT_DIR` name.
fn tls() -> TlsConfig {
    TlsConfig::builder()
        .root_certs(RootCerts::PlatformVerifier)
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
        .build()
}

/// Whether a server's certificate is not trusted.
fn is_distrusted(error: &io::Error) -> bool {
    error.kind() == ErrorKind::InvalidData && error.to_string().contains("certificate")
}

fn read(mut body: Body) -> Result<Vec<u8>, Error> {
    body.with_config().limit(MAX_BYTES).read_to_vec()
}

/// Whether the server closed the connection before a response.
fn is_closed(error: &Error) -> bool {
    matches!(error, Error::Io(error) if error.kind() == ErrorKind::UnexpectedEof || is_lost(error.kind()))
}

fn is_lost(kind: ErrorKind) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected};
    matches!(
        kind,
        BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected
    )
}

/// The beginning of a path up to the secret that follows `/k/`; empty if there is none.
fn secret_prefix(path: &str) -> &str {
    let Some(begins) = path.find("/k/").map(|at| at + "/k/".len()) else {
        return "";
    };
    let end = path[begins..]
        .find('/')
        .map_or(path.len(), |length| begins + length);
    if end > begins { &path[..end] } else { "" }
}

#[cfg(test)]
mod tests;
