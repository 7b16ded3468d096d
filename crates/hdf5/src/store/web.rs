//! Objects on web servers: ranges by HTTP (RFC 9110, section 14).
//!
//! A redirect within a host is followed unless it leads from https to http; a redirect to another
//! host is followed only if it leads to https. A user and password are sent to the server for which
//! they were given, and to no other. No redirect leads from a public address to a private one
//! ([`reach`]): whoever can change what a server on the internet answers must not reach the servers
//! of this network.

mod reach;

use std::error::Error;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use reqwest::header::{
    ACCEPT_ENCODING, CONTENT_RANGE, ETAG, HeaderMap, HeaderName, IF_MATCH, LAST_MODIFIED, LOCATION,
    RANGE, RETRY_AFTER,
};
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, Response, StatusCode};
use url::Url;

use super::error::StoreError;
use super::transport::{
    CONNECT_TIMEOUT, READ_TIMEOUT, RETRY_PAUSE, RangeAnswer, Transport, receive,
};
use super::version::Version;
use crate::store::address::Address;
use reach::{OnlyPublic, PrivateName, Proxies, is_private_server};

const USER_AGENT: &str = concat!("voltile/", env!("CARGO_PKG_VERSION"));

/// The maximum number of redirects that are followed.
const MAX_REDIRECTS: usize = 5;

/// An object on a web server.
#[derive(Debug)]
pub(super) struct WebObject {
    pub address: Address,
    pub clients: Arc<WebClients>,
}

/// The clients that make requests. Neither of them follows redirects: [`WebObject::answer`] does.
#[derive(Debug)]
pub(super) struct WebClients {
    /// To any server.
    any: Client,
    /// To servers at public addresses; it cannot find any other server.
    public: Client,
    proxies: Proxies,
    /// Stands for the time of the last modification of objects whose servers state none. It is the
    /// same as long as this process runs. In other processes it differs, so nothing that they saved
    /// is used.
    unknown_time: String,
}

impl WebClients {
    pub fn new() -> reqwest::Result<Self> {
        Ok(Self {
            any: Self::builder().build()?,
            public: Self::builder().dns_resolver(OnlyPublic).build()?,
            proxies: Proxies::of_environment(),
            unknown_time: format!("unknown {:016x}", fastrand::u64(..)),
        })
    }

    fn builder() -> ClientBuilder {
        Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            .redirect(Policy::none())
            .user_agent(USER_AGENT)
            .referer(false)
    }
}

impl WebObject {
    /// The answer to a request for a range, after redirects.
    async fn answer(
        &self,
        range: &Range<u64>,
        expected: Option<&Version>,
    ) -> Result<Response, StoreError> {
        let WebClients {
            any,
            public,
            proxies,
            ..
        } = &*self.clients;
        let wanted = format!("bytes={}-{}", range.start, range.end.saturating_sub(1));
        let given = self.address.full();
        let mut url = given.clone();
        // Whether each server so far is the one that was given.
        let mut is_home = true;
        // Whether each server so far is at a private address.
        let mut is_inside = true;
        for _ in 0..=MAX_REDIRECTS {
            let client = if is_inside || proxies.has_one_for(&url) {
                any
            } else {
                public
            };
            let request = client.get(url.clone()).header(RANGE, &wanted);
            let mut request = request.header(ACCEPT_ENCODING, "identity");
            if let Some(etag) = expected.and_then(|version| version.etag.as_ref()) {
                request = request.header(IF_MATCH, etag);
            }
            let response = request.send().await.map_err(unavailable)?;
            if !is_redirect(response.status()) {
                return Ok(response);
            }
            let Some(location) = header(response.headers(), LOCATION) else {
                return Ok(response);
            };
            is_inside &= is_private_server(proxies, &url, response.remote_addr());
            let mut next = redirect_target(&url, &location, is_inside).map_err(not_followed)?;
            is_home &= next.origin() == given.origin();
            let (user, password) = if is_home {
                (given.username(), given.password())
            } else {
                ("", None)
            };
            // An error means that an address of this scheme cannot have a user or password.
            let _ = next.set_username(user);
            let _ = next.set_password(password);
            url = next;
        }
        Err(not_followed("it redirects too often"))
    }
}

impl Transport for WebObject {
    fn get<'a>(&'a self, range: Range<u64>, expected: Option<&'a Version>) -> RangeAnswer<'a> {
        Box::pin(async move {
            let response = self.answer(&range, expected).await?;
            let headers = response.headers();
            let length = match response.status() {
                StatusCode::PARTIAL_CONTENT => length_in_content_range(headers, range.start)?,
                StatusCode::OK => length_of_whole(&response, &range)?,
                status => return Err(refusal(status, headers, expected.is_none())),
            };
            let etag = header(headers, ETAG);
            let modified = header(headers, LAST_MODIFIED);
            let mut version = Version::new(length, etag, modified);
            if version.etag.is_none() {
                version
                    .modified
                    .get_or_insert_with(|| self.clients.unknown_time.clone());
            }
            let body = response.bytes_stream().map_err(unavailable);
            receive(&range, version, body).await
        })
    }
}

/// The error for an answer without bytes; `is_first` says that the request expected no version.
fn refusal(status: StatusCode, headers: &HeaderMap, is_first: bool) -> StoreError {
    match status {
        StatusCode::RANGE_NOT_SATISFIABLE if is_first => StoreError::invalid("the object is empty"),
        StatusCode::RANGE_NOT_SATISFIABLE | StatusCode::PRECONDITION_FAILED => StoreError::Changed,
        StatusCode::NOT_FOUND | StatusCode::GONE => StoreError::Missing,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => StoreError::Denied(format!(
            "{status}; check the credentials in its address (https://USER:PASSWORD@HOST/PATH), or whether its \
             signature has expired"
        )),
        _ => StoreError::Unavailable {
            problem: format!("it answers {status}"),
            retry_after: retry_after(headers),
        },
    }
}

/// Whether an answer with this status says where the object is.
fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// The address to which a redirect leads, if it may be followed there. `is_inside` says that all
/// servers so far are at private addresses.
fn redirect_target(from: &Url, location: &str, is_inside: bool) -> Result<Url, &'static str> {
    let to = from
        .join(location)
        .map_err(|_| "it redirects to what is not an address")?;
    match (from.scheme(), to.scheme()) {
        (_, "https") => {}
        ("https", "http") => return Err("it redirects from https to http"),
        (_, "http") if to.host() == from.host() => {}
        (_, "http") => return Err("it redirects to another host, and not over https"),
        _ => return Err("it redirects to what is neither http nor https"),
    }
    if !is_inside && reach::names_private(&to) {
        return Err(reach::TO_PRIVATE);
    }
    Ok(to)
}

fn not_followed(problem: &str) -> StoreError {
    StoreError::Settings(format!(
        "the server's redirects cannot be followed: {problem}"
    ))
}

fn header(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// The length of the object, from the `Content-Range` of an answer that must begin at `start`: 1234
/// from `bytes 0-99/1234`.
fn length_in_content_range(headers: &HeaderMap, start: u64) -> Result<u64, StoreError> {
    let given = header(headers, CONTENT_RANGE).unwrap_or_default();
    let parsed = given.strip_prefix("bytes ").and_then(|given| {
        let (range, total) = given.split_once('/')?;
        let (first, _last) = range.split_once('-')?;
        let first: u64 = first.trim().parse().ok()?;
        let total: u64 = total.trim().parse().ok()?;
        Some((first, total))
    });
    match parsed {
        Some((first, total)) if first == start => Ok(total),
        _ => Err(StoreError::invalid(format!(
            "its Content-Range is {given:?}; bytes from {start} were requested"
        ))),
    }
}

/// The length of an object that was sent as a whole. Fails unless the requested range contains the
/// whole object: receiving a longer one for each range would take too long.
fn length_of_whole(response: &Response, range: &Range<u64>) -> Result<u64, StoreError> {
    match response.content_length() {
        Some(length) if range.start == 0 && length <= range.end => Ok(length),
        _ => Err(StoreError::NoRanges),
    }
}

/// The pause that the server asks for, at most a minute.
fn retry_after(headers: &HeaderMap) -> Duration {
    let given = header(headers, RETRY_AFTER).and_then(|seconds| seconds.parse().ok());
    given
        .map_or(RETRY_PAUSE, Duration::from_secs)
        .min(Duration::from_secs(60))
}

/// The problem of a connection, without the address, which may contain credentials.
fn unavailable(error: reqwest::Error) -> StoreError {
    let error = error.without_url();
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    if causes.clone().any(<dyn Error>::is::<PrivateName>) {
        return not_followed(reach::TO_PRIVATE);
    }
    let problem = if error.is_timeout() {
        "it does not answer in time".to_owned()
    } else if let Some(deepest) = causes.last() {
        format!("{error} ({deepest})")
    } else {
        error.to_string()
    };
    StoreError::unavailable(problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_lead_to_other_hosts_over_https_only_and_never_into_the_network() {
        let followed = |from: &str, to: &str, is_inside| {
            redirect_target(&Url::parse(from).unwrap(), to, is_inside)
        };
        for (from, to) in [
            ("http://a.org/x", "/y"),
            ("http://a.org/x", "http://a.org:81/y"),
            ("http://a.org/x", "https://a.org/y"),
            ("http://a.org/x", "https://b.org/y"),
            ("https://a.org/x", "//b.org/y"),
            ("https://a.org/x", "https://9.9.9.9/y"),
        ] {
            assert!(
                followed(from, to, false).is_ok() && followed(from, to, true).is_ok(),
                "{from} to {to}"
            );
        }
        for (from, to) in [
            ("https://a.org/x", "http://a.org/y"),
            ("https://a.org/x", "http://b.org/y"),
            ("http://a.org/x", "http://b.org/y"),
            ("http://127.0.0.1/x", "http://127.0.0.2/y"),
            ("http://a.org/x", "file:///etc/passwd"),
            ("http://a.org/x", "s3://bucket/key"),
            ("http://a.org/x", "http://"),
        ] {
            assert!(followed(from, to, true).is_err(), "{from} to {to}");
        }
        for to in [
            "https://127.0.0.1/",
            "https://[::1]/",
            "https://169.254.169.254/",
            "https://2130706433/",
        ] {
            assert_eq!(
                followed("https://a.org/x", to, false),
                Err(reach::TO_PRIVATE)
            );
            assert!(followed("https://10.0.0.1/x", to, true).is_ok());
        }
    }
}
