//! A response, whatever its status.

use serde_json::Value;
use ureq::http::HeaderMap;

/// A response.
#[derive(Debug)]
pub struct Answer {
    /// The URL that was requested.
    pub url: String,
    /// The status.
    pub status: u16,
    pub(super) headers: HeaderMap,
    /// The body.
    pub body: Vec<u8>,
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
        let detail = detail
            .map(|detail| format!(": {detail}"))
            .unwrap_or_default();
        self.wrong(format!("the status is {}{detail}", self.status))
    }

    /// The response itself if its status is 200.
    pub fn found(self) -> Result<Self, String> {
        if self.status == 200 {
            Ok(self)
        } else {
            Err(self.problem())
        }
    }
}
