//! Warming a running server: every tile is requested as by a viewer, and the response discarded.
//!
//! Requests carry `Sec-Purpose: prefetch`, as browsers send for content not yet visible: the server
//! then prefetches no neighbours of these tiles, and decodes each chunk completely at once. A tile
//! refused as busy is retried with growing pauses. Deliberately absent: proxies, redirects,
//! cookies, compression.

use std::error::Error;
use std::iter;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::RETRY_AFTER;
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder};
use serde_json::Value;
use url::Url;
use voltile_base::description::SiteDescription;
use voltile_base::flow::interest::Interest;
use voltile_base::request::TileRequest;
use voltile_hdf5::store::install_cryptography;

use super::run::{Producer, TileOutcome, is_stopped_during};

/// The scheme of the address of a Unix socket.
const UNIX: &str = "unix:";
/// Marks a request as a prefetch (the Fetch standard, section 3.7).
const PREFETCH: (&str, &str) = ("sec-purpose", "prefetch");
/// The longest wait for a connection, and for the next bytes of a response: longer than anyone
/// would wait for a tile.
const PATIENCE: Duration = Duration::from_secs(60);
/// The pause before the first retry; it doubles with each further retry.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause unless the server asks for a longer one.
const MAX_OWN_PAUSE: Duration = Duration::from_secs(15);
/// The longest pause that the server may ask for.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// The PNG signature.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

/// Whether a text is the address of a server rather than the path of a file.
pub fn is_server(text: &str) -> bool {
    let schemes = ["http://", "https://", UNIX];
    schemes.iter().any(|scheme| text.starts_with(scheme))
}

/// A running server.
#[derive(Debug)]
pub struct RemoteServer {
    client: Client,
    /// The prefix of every path; it may contain a secret.
    base: String,
    /// The scheme and host, or the Unix socket.
    name: String,
    /// The prefix of tile paths; empty until [`RemoteServer::describe`] has received it.
    tiles: String,
    /// The maximum number of retries of a tile.
    retries: u32,
}

/// A response, whatever its status.
struct ServerAnswer {
    status: u16,
    /// In seconds.
    retry_after: Option<u64>,
    body: Bytes,
}

impl RemoteServer {
    /// The server at an address: `http://127.0.0.1:8080`, `https://host/k/SECRET`, or
    /// `unix:/run/voltile.sock`, or with a path `unix:/run/voltile.sock:/k/SECRET`. A tile refused
    /// as busy is retried up to `retries` times. Sends nothing yet.
    ///
    /// # Errors
    /// The address is malformed; the error names the fault and the expected form.
    pub fn new(address: &str, retries: u32) -> Result<Self, String> {
        let (url, socket) = match address.strip_prefix(UNIX) {
            None => (address.to_owned(), None),
            Some(rest) => {
                let (socket, path) = rest.split_once(":/").unwrap_or((rest, ""));
                (format!("http://localhost/{path}"), Some(socket))
            }
        };
        let url = Url::parse(&url);
        let mut url = url.map_err(|error| wrong_address(address, &error.to_string()))?;
        url.set_query(None);
        url.set_fragment(None);
        let name = match socket {
            Some("") => return Err(wrong_address(address, "it names no socket")),
            Some(socket) => format!("{UNIX}{socket}"),
            None => url.origin().ascii_serialization(),
        };
        Ok(Self {
            client: client(&url, socket).map_err(|error| explain(&name, &error))?,
            base: url.as_str().trim_end_matches('/').to_owned(),
            name,
            tiles: String::new(),
            retries,
        })
    }

    /// Requests the server's description of its datasets.
    ///
    /// # Errors
    /// There is no answer, or the answer does not come from a voltile that serves tiles.
    pub async fn describe(&mut self) -> Result<SiteDescription, String> {
        let path = "/datasets.json";
        let answer = self.get(path).await?;
        if answer.status != 200 {
            return Err(answer.problem(path));
        }
        let site: SiteDescription = serde_json::from_slice(&answer.body).map_err(|error| {
            format!("{path}: {error}; is the server a voltile of the same version?")
        })?;
        if site.mounts.is_empty() {
            return Err(format!("{path}: no mount is served"));
        }
        self.tiles = site.tilecache();
        Ok(site)
    }

    async fn get(&self, path: &str) -> Result<ServerAnswer, String> {
        let request = self.client.get(format!("{}{path}", self.base));
        let answer = send(request.header(PREFETCH.0, PREFETCH.1)).await;
        answer.map_err(|error| format!("{path}: no answer: {}", explain(&self.name, &error)))
    }
}

fn wrong_address(address: &str, problem: &str) -> String {
    format!(
        "{address:?} is not the address of a server: {problem}; expected for example http://127.0.0.1:8080, https://HOST or \
         unix:/run/voltile.sock"
    )
}

/// A client of one server.
fn client(url: &Url, socket: Option<&str>) -> Result<Client, reqwest::Error> {
    install_cryptography();
    let mut builder = Client::builder()
        .user_agent(concat!("voltile/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        .no_proxy()
        .connect_timeout(PATIENCE)
        .read_timeout(PATIENCE);
    if url.scheme() == "http" {
        // Otherwise the client could not be built on a system that has no CA certificates.
        builder = builder.tls_certs_only([]);
    }
    if let Some(socket) = socket {
        builder = builder.unix_socket(socket);
    }
    builder.build()
}

/// Sends a request, and receives the whole response.
async fn send(request: RequestBuilder) -> Result<ServerAnswer, reqwest::Error> {
    let response = request.send().await?;
    let retry_after = response.headers().get(RETRY_AFTER);
    Ok(ServerAnswer {
        status: response.status().as_u16(),
        retry_after: retry_after.and_then(|value| value.to_str().ok()?.trim().parse().ok()),
        body: response.bytes().await?,
    })
}

/// Why a server did not answer; without the URL, which may contain a secret.
fn explain(name: &str, error: &reqwest::Error) -> String {
    let causes = iter::successors(error.source(), |error| (*error).source());
    let cause = causes
        .last()
        .map_or_else(|| error.to_string(), ToString::to_string);
    if error.is_timeout() {
        format!("{name} did not respond within {} s", PATIENCE.as_secs())
    } else if cause.contains("certificate") {
        format!(
            "{name} cannot be reached: {cause}. If its certificate is from an authority of your own, set SSL_CERT_FILE to a \
             PEM file with that authority's certificate"
        )
    } else if error.is_connect() {
        format!("{name} cannot be reached: {cause}")
    } else {
        cause
    }
}

impl Producer for RemoteServer {
    async fn fill(&self, tile: &TileRequest, interest: &Interest) -> TileOutcome {
        let path = format!("{}/{tile}", self.tiles);
        let mut retries = 0;
        loop {
            let answer = self.get(&path).await;
            if let Ok(answer) = &answer
                && !answer.is_refusal()
            {
                return answer.outcome(&path);
            }
            if !interest.is_there() {
                return TileOutcome::Stopped;
            }
            if retries == self.retries {
                return match answer {
                    Ok(refusal) => TileOutcome::Failed(refusal.problem(&path)),
                    // If the server answers at all, only this tile has failed.
                    Err(no_answer) => match self.get("/livez").await {
                        Ok(_) => TileOutcome::Failed(no_answer),
                        Err(gone) => TileOutcome::Over(format!("the server is gone: {gone}")),
                    },
                };
            }
            let retry_after = answer.ok().and_then(|refusal| refusal.retry_after);
            if is_stopped_during(pause(retries, retry_after), interest).await {
                return TileOutcome::Stopped;
            }
            retries += 1;
        }
    }
}

/// The pause before the next retry, after `retries` retries: the pause that the server asks for, up
/// to [`MAX_PAUSE`], but not less than a pause that doubles each time up to [`MAX_OWN_PAUSE`].
fn pause(retries: u32, retry_after: Option<u64>) -> Duration {
    // Ten doublings already exceed the longest own pause; more could overflow.
    let doubled = FIRST_PAUSE.saturating_mul(1 << retries.min(10));
    let own = doubled.min(MAX_OWN_PAUSE);
    match retry_after {
        Some(seconds) => Duration::from_secs(seconds).clamp(own, MAX_PAUSE),
        None => own,
    }
}

impl ServerAnswer {
    /// Whether the same request may succeed later.
    fn is_refusal(&self) -> bool {
        matches!(self.status, 408 | 429 | 502 | 503 | 504)
    }

    fn outcome(&self, path: &str) -> TileOutcome {
        if self.status != 200 {
            TileOutcome::Failed(self.problem(path))
        } else if self.body.starts_with(PNG) {
            TileOutcome::Rendered(self.body.len() as u64)
        } else {
            TileOutcome::Failed(format!("{path}: {} bytes are not a PNG", self.body.len()))
        }
    }

    /// The status, and the `detail` of a problem body (RFC 9457).
    fn problem(&self, path: &str) -> String {
        let body: Option<Value> = serde_json::from_slice(&self.body).ok();
        let detail = body.as_ref().and_then(|body| body.get("detail")?.as_str());
        let detail = detail
            .map(|detail| format!(": {detail}"))
            .unwrap_or_default();
        format!("{path}: the status is {}{detail}", self.status)
    }
}

#[cfg(test)]
mod tests;
