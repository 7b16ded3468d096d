//! Objects on web servers: ranges by HTTP (RFC 9110, section 14).

use std::error::Error;
use std::ops::Range;
use std::sync::LazyLock;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use reqwest::header::{
    ACCEPT_ENCODING, CONTENT_RANGE, ETAG, HeaderMap, HeaderName, IF_MATCH, LAST_MODIFIED, RANGE, RETRY_AFTER,
};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode};

use super::error::StoreError;
use super::transport::{Part, Transport, checked};
use super::version::Version;
use super::{CONNECTING, RETRY, WAITING};
use crate::address::Address;

/// The most redirects that are followed.
const REDIRECTS: usize = 5;

/// An object on a web server.
#[derive(Debug)]
pub(super) struct Web {
    address: Address,
    client: Client,
}

impl Web {
    pub fn to(address: &Address) -> Result<Self, StoreError> {
        static CLIENT: LazyLock<Result<Client, String>> = LazyLock::new(|| {
            super::install_cryptography();
            let builder = Client::builder().connect_timeout(CONNECTING).read_timeout(WAITING);
            let builder = builder.redirect(redirects()).user_agent(super::USER_AGENT).referer(false);
            builder.build().map_err(|e| e.to_string())
        });
        let problem = |problem: &String| StoreError::Settings { problem: problem.clone() };
        let client = CLIENT.as_ref().map_err(problem)?.clone();
        Ok(Self { address: address.clone(), client })
    }

    async fn part(&self, range: Range<u64>, expected: Option<&Version>) -> Result<Part, StoreError> {
        let mut request = self.client.get(self.address.full().clone()).header(ACCEPT_ENCODING, "identity");
        request = request.header(RANGE, format!("bytes={}-{}", range.start, range.end.saturating_sub(1)));
        if let Some(etag) = expected.and_then(|version| version.etag.as_ref()) {
            request = request.header(IF_MATCH, etag);
        }
        let response = request.send().await.map_err(unavailable)?;
        let total = match response.status() {
            StatusCode::PARTIAL_CONTENT => total(response.headers(), range.start)?,
            StatusCode::OK => whole(&response, &range)?,
            StatusCode::RANGE_NOT_SATISFIABLE if expected.is_some() => return Err(StoreError::Changed),
            StatusCode::RANGE_NOT_SATISFIABLE => {
                return Err(StoreError::invalid("the object is empty"));
            }
            StatusCode::PRECONDITION_FAILED => return Err(StoreError::Changed),
            StatusCode::NOT_FOUND | StatusCode::GONE => return Err(StoreError::Missing),
            status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                return Err(StoreError::Denied { problem: status.to_string() });
            }
            status => {
                let problem = format!("it answers {status}");
                return Err(StoreError::Unavailable {
                    problem,
                    retry_after: retry_after(response.headers()),
                });
            }
        };
        let text = |name| header(response.headers(), name);
        let version = Version::new(total, text(ETAG), text(LAST_MODIFIED));
        let wanted = range.end.min(total).saturating_sub(range.start);
        checked(&range, version, body(response, wanted).await?)
    }
}

impl Transport for Web {
    fn get<'a>(
        &'a self,
        range: Range<u64>,
        expected: Option<&'a Version>,
    ) -> BoxFuture<'a, Result<Part, StoreError>> {
        Box::pin(self.part(range, expected))
    }
}

/// Follows a few redirects, but none from an encrypted connection to an open one.
fn redirects() -> Policy {
    Policy::custom(|attempt| {
        let was_secure = attempt.previous().last().is_some_and(|url| url.scheme() == "https");
        if was_secure && attempt.url().scheme() != "https" {
            return attempt.error("it redirects from https to http");
        }
        if attempt.previous().len() > REDIRECTS {
            return attempt.error("it redirects too often");
        }
        attempt.follow()
    })
}

fn header(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// The length of the object, from the `Content-Range` of an answer that must begin at `start`.
fn total(headers: &HeaderMap, start: u64) -> Result<u64, StoreError> {
    let given = header(headers, CONTENT_RANGE).unwrap_or_default();
    let parsed = given.strip_prefix("bytes ").and_then(|given| {
        let (range, total) = given.split_once('/')?;
        let (first, _) = range.split_once('-')?;
        Some((first.trim().parse::<u64>().ok()?, total.trim().parse::<u64>().ok()?))
    });
    match parsed {
        Some((first, total)) if first == start => Ok(total),
        _ => Err(StoreError::invalid(format!(
            "its Content-Range is {given:?}; bytes from {start} were requested"
        ))),
    }
}

/// The length of an object that was sent whole, if it lies in the range.
fn whole(response: &Response, range: &Range<u64>) -> Result<u64, StoreError> {
    let length = response.content_length().filter(|length| range.start == 0 && *length <= range.end);
    length.ok_or(StoreError::NoRanges)
}

/// The body, of which no more than one byte too many is read.
async fn body(mut response: Response, wanted: u64) -> Result<Bytes, StoreError> {
    let mut bytes = BytesMut::with_capacity(wanted.min(super::ROOM) as usize);
    while let Some(more) = response.chunk().await.map_err(unavailable)? {
        bytes.extend_from_slice(&more);
        if bytes.len() as u64 > wanted {
            break;
        }
    }
    Ok(bytes.freeze())
}

fn retry_after(headers: &HeaderMap) -> Duration {
    let given = header(headers, RETRY_AFTER).and_then(|seconds| seconds.parse().ok());
    given.map_or(RETRY, Duration::from_secs).min(Duration::from_secs(60))
}

/// What went wrong with a connection; never the address, which may contain credentials.
fn unavailable(error: reqwest::Error) -> StoreError {
    let error = error.without_url();
    let mut causes = std::iter::successors(error.source(), |error| (*error).source());
    let deepest = causes.by_ref().last().map(ToString::to_string);
    if error.is_redirect() {
        let problem = deepest.unwrap_or_else(|| error.to_string());
        return StoreError::Settings {
            problem: format!("the server's redirects cannot be followed: {problem}"),
        };
    }
    let problem = match deepest {
        _ if error.is_timeout() => "it does not answer in time".to_owned(),
        Some(deepest) => format!("{error} ({deepest})"),
        None => error.to_string(),
    };
    StoreError::Unavailable { problem, retry_after: RETRY }
}
