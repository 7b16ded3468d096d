//! The HTTP client of [`crate::tools::warm`], [`crate::tools::verify`] and [`crate::tools::bench`].
//!
//! Every response is returned as it is: no status is an error, and no redirect is followed. Deliberately absent: proxies,
//! cookies, compression. Requests run on the calling thread: a runtime on another thread would cost two wake-ups for each.
//!
//! A server may close a kept connection at any moment. A request that finds its connection closed before a response
//! is sent once more over a new one.

use std::error::Error;
use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::redirect::Policy;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use url::{Position, Url};

pub use reqwest::Method;

use crate::base::description::SiteDescription;
use crate::store;

/// Longer than anyone would wait for a tile.
const PATIENCE: Duration = Duration::from_secs(60);
/// The maximum size of a body.
const MAX_BYTES: usize = 256 << 20;
/// The scheme of the address of a Unix socket.
const UNIX: &str = "unix:";

/// A client of one server. Concurrent requests take one connection each.
#[derive(Debug)]
pub struct Client {
    http: reqwest::Client,
    /// Drives the connections while a request waits.
    runtime: Runtime,
    server: Server,
    patience: Duration,
}

/// Where a server listens.
#[derive(Debug, Clone, Default)]
struct Server {
    /// As it is shown: the scheme and host, or `unix:` and the path of the socket.
    base: String,
    /// The scheme, host and path before the path of each request: the path is empty, or ends in `/k/SECRET`.
    root: String,
    /// The Unix socket, if it is one.
    socket: Option<String>,
    /// The path in the URL.
    path: String,
}

/// The URL is not that of a server that can be reached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{url:?} is not the URL of a server: {problem}")]
pub struct NotAServer {
    /// As given.
    pub url: String,
    /// What is wrong, and what is expected.
    pub problem: String,
}

/// A request got no complete response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{method} {url}: no answer: {problem}")]
pub struct NoAnswer {
    /// The method.
    pub method: Method,
    /// The full URL.
    pub url: String,
    /// Why.
    pub problem: String,
}

impl From<NoAnswer> for String {
    fn from(error: NoAnswer) -> Self {
        error.to_string()
    }
}

/// A response, whatever its status.
#[derive(Debug)]
pub struct Answer {
    /// The URL that was requested.
    pub url: String,
    /// The status.
    pub status: u16,
    headers: HeaderMap,
    /// The body.
    pub body: Vec<u8>,
}

/// Whether a text is meant as the address of a server, not as that of a file.
pub fn is_server(text: &str) -> bool {
    text.contains("://") || text.starts_with(UNIX)
}

impl Client {
    /// A client of the server at a URL such as `http://127.0.0.1:8080` or `https://host`, or at a Unix socket, such as
    /// `unix:/run/voltile.sock`. Of a path in it, which follows a socket after another colon, all that follows `/k/SECRET` is
    /// ignored, or everything if there is no secret. Does not connect yet.
    pub fn new(url: &str) -> Result<Self, NotAServer> {
        let failed = |problem| NotAServer { url: url.to_owned(), problem };
        let server = Server::parse(url).map_err(|problem| failed(problem.to_owned()))?;
        Self::with_patience(server, PATIENCE).map_err(failed)
    }

    fn with_patience(server: Server, patience: Duration) -> Result<Self, String> {
        store::install_cryptography();
        let builder = reqwest::Client::builder().http1_only().no_proxy().redirect(Policy::none());
        let builder = builder.user_agent(concat!("voltile/", env!("CARGO_PKG_VERSION"))).referer(false);
        let builder = builder.connect_timeout(patience / 2).timeout(patience);
        let builder = match &server.socket {
            Some(socket) => builder.unix_socket(socket.as_str()),
            None => builder,
        };
        let http = builder.build().map_err(|error| deepest(&error))?;
        let runtime =
            Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
        Ok(Self { http, runtime, server, patience })
    }

    /// A client of the same server with connections of its own.
    pub fn another(&self) -> Result<Self, NotAServer> {
        let another = Self::with_patience(self.server.clone(), self.patience);
        another.map_err(|problem| NotAServer { url: self.base().to_owned(), problem })
    }

    /// The scheme and host, or the Unix socket; without a secret.
    pub fn base(&self) -> &str {
        &self.server.base
    }

    /// The path in the URL of the server, without query and fragment.
    pub fn path(&self) -> &str {
        &self.server.path
    }

    /// Whether the server runs on this machine, as far as its address says so.
    pub fn is_here(&self) -> bool {
        let host = self.server.base.split_once("://").map_or("", |(_, host)| host);
        self.server.socket.is_some() || ["127.", "localhost", "[::1]"].iter().any(|own| host.starts_with(own))
    }

    /// Requests what the server says of itself.
    pub fn description(&self) -> Result<SiteDescription, String> {
        let answer = self.get("/datasets.json")?.found()?;
        let site: SiteDescription = serde_json::from_slice(&answer.body).map_err(|e| {
            answer.wrong(format!("it cannot be parsed: {e}; is the server a voltile of the same version?"))
        })?;
        if site.mounts.is_empty() { Err(answer.wrong("no mount is served")) } else { Ok(site) }
    }

    /// Requests a path on this server, or a full URL.
    pub fn get(&self, url: &str) -> Result<Answer, String> {
        Ok(self.request(Method::GET, url, &[])?)
    }

    /// Requests a path on this server, or a full URL, with headers in addition to those of every request. The method
    /// must be safe to repeat.
    pub fn request(&self, method: Method, url: &str, headers: &[(&str, &str)]) -> Result<Answer, NoAnswer> {
        self.request_into(Vec::new(), method, url, headers)
    }

    /// Like [`Client::request`], with memory for the body, such as the body of an earlier response: it is overwritten.
    pub fn request_into(
        &self,
        memory: Vec<u8>,
        method: Method,
        url: &str,
        headers: &[(&str, &str)],
    ) -> Result<Answer, NoAnswer> {
        let root = &self.server.root;
        let url = if url.starts_with('/') { format!("{root}{url}") } else { url.to_owned() };
        match self.runtime.block_on(self.answer(memory, &method, &url, headers)) {
            Ok((status, headers, body)) => Ok(Answer { url, status, headers, body }),
            Err(problem) => Err(NoAnswer { method, url, problem }),
        }
    }

    async fn answer(
        &self,
        mut body: Vec<u8>,
        method: &Method,
        url: &str,
        headers: &[(&str, &str)],
    ) -> Result<(u16, HeaderMap, Vec<u8>), String> {
        let send = || {
            let request = self.http.request(method.clone(), url);
            headers.iter().fold(request, |request, (name, value)| request.header(*name, *value)).send()
        };
        let is_closed =
            |error: &reqwest::Error| error.is_request() && !error.is_connect() && !error.is_timeout();
        let sent = match send().await {
            Err(error) if is_closed(&error) => send().await,
            other => other,
        };
        let mut response = sent.map_err(|error| self.problem(&error))?;
        body.clear();
        while let Some(piece) = response.chunk().await.map_err(|error| self.problem(&error))? {
            if body.len() + piece.len() > MAX_BYTES {
                return Err(format!("the response has more than {MAX_BYTES} bytes"));
            }
            body.extend_from_slice(&piece);
        }
        Ok((response.status().as_u16(), std::mem::take(response.headers_mut()), body))
    }

    /// Explains an error of a request.
    fn problem(&self, error: &reqwest::Error) -> String {
        let host = match (&self.server.socket, error.url()) {
            (None, Some(url)) => &url[Position::BeforeHost..Position::BeforePath],
            _ => self.base(),
        };
        let (seconds, problem) = (self.patience.as_secs_f32(), deepest(error));
        match (error.is_connect(), error.is_timeout()) {
            (true, true) => format!("{host} cannot be reached: no connection within {} s", seconds / 2.0),
            (_, true) => format!("no complete response within {seconds} s"),
            (true, _) if problem.contains("certificate") => format!(
                "{host} cannot be reached: {problem}. If its certificate is from an authority of your own, set SSL_CERT_FILE \
                 to a PEM file with that authority's certificate"
            ),
            (true, _) => format!("{host} cannot be reached: {problem}"),
            _ if error.is_builder() => format!("the URL cannot be requested: {problem}"),
            _ => problem,
        }
    }
}

impl Server {
    fn parse(text: &str) -> Result<Self, &'static str> {
        if let Some(rest) = text.strip_prefix(UNIX) {
            let (socket, path) = rest.find(":/").map_or((rest, ""), |at| (&rest[..at], &rest[at + 1..]));
            if socket.is_empty() {
                return Err("it names no socket; expected for example unix:/run/voltile.sock");
            }
            let root = format!("http://localhost{}", secret_prefix(path));
            let (base, socket) = (format!("{UNIX}{socket}"), Some(socket.to_owned()));
            return Ok(Self { base, root, socket, path: path.to_owned() });
        }
        let url = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return Err("expected http://, https:// or unix:");
        }
        let wrong = "its host or port is not valid; expected for example http://127.0.0.1:8080";
        let url = Url::parse(&url).map_err(|_| wrong)?;
        let root = format!("{}{}", &url[..Position::BeforePath], secret_prefix(url.path()));
        let path = url.path().to_owned();
        Ok(Self { base: url.origin().ascii_serialization(), root, socket: None, path })
    }
}

impl Answer {
    /// The value of a header, by its case-insensitive name; the first if there are several.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// A problem, prefixed with the URL.
    pub fn wrong(&self, problem: impl std::fmt::Display) -> String {
        format!("{}: {problem}", self.url)
    }

    /// The URL, the status, and the `detail` of a problem body (RFC 9457).
    pub fn problem(&self) -> String {
        let body: Option<Value> = serde_json::from_slice(&self.body).ok();
        let detail = body.as_ref().and_then(|body| body.get("detail")?.as_str());
        let detail = detail.map(|detail| format!(": {detail}")).unwrap_or_default();
        self.wrong(format!("the status is {}{detail}", self.status))
    }

    /// The response itself if its status is 200.
    pub fn found(self) -> Result<Self, String> {
        if self.status == 200 { Ok(self) } else { Err(self.problem()) }
    }
}

/// The cause of an error that has no cause itself.
fn deepest(error: &dyn Error) -> String {
    std::iter::successors(Some(error), |error| (*error).source())
        .last()
        .map(ToString::to_string)
        .unwrap_or_default()
}

/// The beginning of a path up to the secret that follows `/k/`; empty if there is none.
fn secret_prefix(path: &str) -> &str {
    let Some(begins) = path.find("/k/").map(|at| at + "/k/".len()) else { return "" };
    let end = path[begins..].find('/').map_or(path.len(), |length| begins + length);
    if end > begins { &path[..end] } else { "" }
}

#[cfg(test)]
mod tests;
