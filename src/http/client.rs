//! Identifies the client, and the scheme and host it used: from the connection and `Host`, or from
//! a trusted proxy's headers.
//!
//! Each proxy appends the address of its own peer to `X-Forwarded-For`. The client is the last
//! address in that list that is not itself a trusted proxy, as everything before it may be forged.
//! Host and scheme are as the outermost trusted proxy reports them. If there are no `X-Forwarded`
//! headers, `Forwarded` (RFC 7239) is read in the same way. All of these are ignored if the peer is
//! not trusted.

mod reports;

use std::net::{IpAddr, Ipv6Addr};

use actix_web::HttpRequest;
use actix_web::http::header::{self, HeaderName};

use crate::config::{Proxy, Server};
use crate::service::{Client, Demand};
use reports::ProxyReports;

/// The longest `host:port` accepted.
const LONGEST_HOST: usize = 255;

/// A static, because the header is looked up for every request.
static SEC_PURPOSE: HeaderName = HeaderName::from_static("sec-purpose");

/// Request headers that decide the URLs in a document: the value of its `Vary` header.
pub(super) const DECISIVE: &str =
    "Host, Forwarded, X-Forwarded-For, X-Forwarded-Host, X-Forwarded-Proto";

/// Marks, as its application data, an actix-web application that is served over TLS.
pub(super) struct OverTls;

/// Why the scheme and host of a request could not be determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadHost {
    #[error(
        "URLs in this document begin with the requested host, and the request names none; send one Host header"
    )]
    Missing,
    #[error(
        "the requested host is not well-formed: {0} must be a name of letters, digits, '.', '-' and '_', an IPv4 address, or an IPv6 address in brackets; a port may follow; {LONGEST_HOST} bytes at most"
    )]
    Malformed(&'static str),
    #[error("the requested scheme is neither http nor https: see {0}")]
    Scheme(&'static str),
    #[error(
        "this server does not answer for the requested host; the hosts that it answers for are configured in server.hosts"
    )]
    Unknown,
}

/// The client of a request, and whether the request is a prefetch: browsers and `voltile warm` say
/// so in `Sec-Purpose` (Fetch standard, section 3.7).
pub(super) fn demand(request: &HttpRequest, trusted: &[Proxy]) -> Demand {
    let purpose = request
        .headers()
        .get(&SEC_PURPOSE)
        .and_then(|value| value.to_str().ok());
    let is_prefetch = purpose.is_some_and(|purpose| {
        purpose
            .split([';', ','])
            .any(|word| word.trim() == "prefetch")
    });
    let client = Client::new(address(request, trusted));
    if is_prefetch {
        Demand::prefetch(client)
    } else {
        Demand::wanted(client)
    }
}

/// The address of the client.
pub(super) fn address(request: &HttpRequest, trusted: &[Proxy]) -> IpAddr {
    ProxyReports::from_request(request, trusted).client
}

/// The scheme and host that the client used, such as `http://example.org:8080`.
pub(super) fn base_url(request: &HttpRequest, trusted: &[Proxy]) -> Result<String, BadHost> {
    let reports = ProxyReports::from_request(request, trusted);
    let scheme = match reports.scheme {
        None if request.app_data::<OverTls>().is_some() => "https",
        None => "http",
        Some((_, scheme)) if scheme.eq_ignore_ascii_case("http") => "http",
        Some((_, scheme)) if scheme.eq_ignore_ascii_case("https") => "https",
        Some((header, _)) => return Err(BadHost::Scheme(header)),
    };
    Ok(format!("{scheme}://{}", host(request, &reports)?))
}

/// Fails unless the request is addressed to one of the hosts, on any port. Without hosts, every
/// request is accepted.
pub(super) fn check_host(request: &HttpRequest, server: &Server) -> Result<(), BadHost> {
    if server.hosts.is_empty() {
        return Ok(());
    }
    let reports = ProxyReports::from_request(request, &server.trusted_proxies);
    let requested = host(request, &reports)?;
    // A colon begins the port, unless a bracket follows it: `[::1]` has no port.
    let name = match requested.rfind([':', ']']) {
        Some(colon) if requested[colon..].starts_with(':') => &requested[..colon],
        _ => requested,
    };
    let mut hosts = server.hosts.iter();
    if hosts.any(|host| host.eq_ignore_ascii_case(name)) {
        Ok(())
    } else {
        Err(BadHost::Unknown)
    }
}

/// The host that the client used, with the port if it named one.
fn host<'r>(request: &'r HttpRequest, reports: &ProxyReports<'r>) -> Result<&'r str, BadHost> {
    let (header, host) = match reports.host {
        Some(reported) => reported,
        None => own_host(request)?,
    };
    if is_host(host) {
        Ok(host)
    } else {
        Err(BadHost::Malformed(header))
    }
}

/// The host in an absolute request URL, which takes precedence over the header (RFC 9112, section
/// 3.2.2), or else in the only `Host` header.
fn own_host(request: &HttpRequest) -> Result<(&'static str, &str), BadHost> {
    if let Some(authority) = request.uri().authority() {
        return Ok(("the request's URL", authority.as_str()));
    }
    let mut hosts = request.headers().get_all(header::HOST);
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => Ok((
            "Host",
            host.to_str().map_err(|_| BadHost::Malformed("Host"))?,
        )),
        _ => Err(BadHost::Missing),
    }
}

/// Whether a text is a host, perhaps with a port.
fn is_host(text: &str) -> bool {
    if text.len() > LONGEST_HOST {
        return false;
    }
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    if let Some((address, port)) = bracketed {
        return address.parse::<Ipv6Addr>().is_ok() && is_port(port);
    }
    let (name, port) = text.split_at(text.find(':').unwrap_or(text.len()));
    let is_legal = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    !name.is_empty() && is_legal && is_port(port)
}

/// Whether the text is empty, or a colon and a port number.
fn is_port(text: &str) -> bool {
    let Some(port) = text.strip_prefix(':') else {
        return text.is_empty();
    };
    port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests;
