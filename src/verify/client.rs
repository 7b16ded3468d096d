//! An HTTP client that returns responses as they are: no status is an error, no redirect is followed.

use std::time::Duration;

use image::{DynamicImage, ImageFormat};
use ureq::Agent;
use ureq::http::{Method, Request};

use crate::connection::problem;
use crate::geometry::TILE;

/// Longer than anyone would wait for a tile.
const PATIENCE: Duration = Duration::from_secs(60);
/// The maximum size of a response.
const MOST_BYTES: u64 = 256 << 20;
/// The origin of a viewer's page.
pub(super) const ORIGIN: &str = "http://viewer.example";

/// The URL is not that of a server that can be reached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{url:?} is not the URL of a server: {problem}")]
pub struct NotAServer {
    /// As given.
    pub url: String,
    /// What is wrong, and what is expected.
    pub problem: &'static str,
}

/// A client of one server.
#[derive(Debug)]
pub struct Client {
    agent: Agent,
    base: String,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub url: String,
    pub status: u16,
    /// Names in lower case.
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Client {
    /// A client of the server at a URL such as `http://127.0.0.1:8080`; a path in it is ignored.
    pub fn new(url: &str) -> Result<Self, NotAServer> {
        let wrong = |problem| NotAServer { url: url.to_owned(), problem };
        let host = match url.split_once("://") {
            Some(("http", rest)) => rest,
            Some(("https", _)) => {
                return Err(wrong(
                    "TLS is not supported; give the plain HTTP address of the server, such as http://127.0.0.1:8080",
                ));
            }
            Some(_) => return Err(wrong("expected http://")),
            None => url,
        };
        let host = host.split(['/', '?', '#']).next().unwrap_or_default();
        if host.is_empty() {
            return Err(wrong("it has no host; expected for example http://127.0.0.1:8080"));
        }
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            // With one limit for the whole call, each call would resolve the host's name on a new thread.
            .timeout_connect(Some(PATIENCE))
            .timeout_recv_response(Some(PATIENCE))
            .timeout_recv_body(Some(PATIENCE));
        Ok(Self { agent: config.build().into(), base: format!("http://{host}") })
    }

    /// The scheme and host.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// The host, with its port if given.
    pub fn host(&self) -> &str {
        self.base.trim_start_matches("http://")
    }

    pub(crate) fn get(&self, url: &str) -> Result<Answer, String> {
        self.ask(&Method::GET, url, &[])
    }

    /// Requests a path on this server, or a full URL. Connection failures are returned as text.
    pub(crate) fn ask(&self, method: &Method, url: &str, headers: &[(&str, &str)]) -> Result<Answer, String> {
        let url = if url.starts_with('/') { format!("{}{url}", self.base) } else { url.to_owned() };
        let failed = |error: &dyn std::fmt::Display| format!("{method} {url}: no answer: {error}");
        let mut request = Request::builder().method(method).uri(&url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(()).map_err(|e| failed(&e))?;
        let mut response = self.agent.run(request).map_err(|e| failed(&e))?;
        let headers = response.headers().iter();
        let headers = headers.map(|(name, value)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        });
        let (status, headers) = (response.status().as_u16(), headers.collect());
        let body = response.body_mut().with_config().limit(MOST_BYTES).read_to_vec();
        Ok(Answer { status, headers, body: body.map_err(|e| failed(&e))?, url })
    }
}

impl Answer {
    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A problem, prefixed with the URL.
    pub fn wrong(&self, problem: impl std::fmt::Display) -> String {
        format!("{}: {problem}", self.url)
    }

    /// The response itself if its status is 200.
    pub fn found(self) -> Result<Self, String> {
        if self.status == 200 {
            return Ok(self);
        }
        Err(self.wrong(problem(self.status, &self.body)))
    }

    /// The body decoded as PNG.
    pub fn picture(&self) -> Result<DynamicImage, String> {
        image::load_from_memory_with_format(&self.body, ImageFormat::Png)
            .map_err(|e| self.wrong(format!("its {} bytes are not a PNG: {e}", self.body.len())))
    }

    /// The body decoded as a PNG of the size of a tile.
    pub fn tile(&self) -> Result<DynamicImage, String> {
        let picture = self.picture()?;
        match (picture.width() as usize, picture.height() as usize) {
            (TILE, TILE) => Ok(picture),
            (width, height) => {
                Err(self.wrong(format!("the tile is {width} × {height}, not {TILE} × {TILE}")))
            }
        }
    }

    /// Whether pages of other origins may read it.
    pub fn is_shared(&self) -> Result<(), String> {
        match self.header("access-control-allow-origin") {
            Some("*" | ORIGIN) => Ok(()),
            Some(other) => Err(self.wrong(format!(
                "Access-Control-Allow-Origin is {other:?}: pages of other origins may not read tiles; see server.cors_origins"
            ))),
            None => Err(self.wrong(
                "there is no Access-Control-Allow-Origin: pages of other origins may not read tiles; see server.cors_origins",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Client;

    #[test]
    fn an_address_is_taken_for_its_host() {
        for url in ["http://host:1", "host:1", "http://host:1/", "http://host:1/a/b?c"] {
            assert_eq!(Client::new(url).unwrap().base(), "http://host:1", "{url}");
        }
        for url in ["https://host", "ftp://host", "", "http://"] {
            assert!(Client::new(url).is_err(), "{url}");
        }
    }
}
