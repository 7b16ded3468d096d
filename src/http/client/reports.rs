//! Proxies' reports about a request: `X-Forwarded-For`, `-Host` and `-Proto`, or `Forwarded`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use actix_web::HttpRequest;
use actix_web::http::header::HeaderMap;

use crate::config::Proxy;

/// The address of a client on the Unix socket if no trusted proxy reports one.
const NOWHERE: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

const FOR: &str = "x-forwarded-for";
const HOST: &str = "x-forwarded-host";
const SCHEME: &str = "x-forwarded-proto";
const FORWARDED: &str = "forwarded";

/// The client, host and scheme that the trusted proxies report. If the peer is not a trusted proxy,
/// the peer is the client, and no host or scheme is reported.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProxyReports<'r> {
    pub client: IpAddr,
    /// The requested host, and the name of the header that reports it.
    pub host: Option<(&'static str, &'r str)>,
    /// The requested scheme, and the name of the header that reports it.
    pub scheme: Option<(&'static str, &'r str)>,
}

impl<'r> ProxyReports<'r> {
    pub fn from_request(request: &'r HttpRequest, trusted: &[Proxy]) -> Self {
        // A peer without an address is on the Unix socket: TCP connections have one.
        let peer = request.peer_addr().map(|address| address.ip());
        let is_proxy = trusted.iter().any(|proxy| proxy.is_peer(peer));
        let peer = peer.unwrap_or(NOWHERE);
        let headers = request.headers();
        let mut lists = [FOR, HOST, SCHEME].iter();
        if !is_proxy {
            Self {
                client: peer,
                host: None,
                scheme: None,
            }
        } else if lists.any(|name| headers.contains_key(*name)) {
            Self::from_x_forwarded(headers, peer, trusted)
        } else {
            Self::from_forwarded(headers, peer, trusted)
        }
    }

    /// Reads `X-Forwarded-For`, `-Host` and `-Proto`.
    fn from_x_forwarded(headers: &'r HeaderMap, peer: IpAddr, trusted: &[Proxy]) -> Self {
        let list = |name| items(headers, name, |text| text.split(',').collect());
        let addresses = list(FOR).into_iter().map(|item| ip_address(item?));
        let (client, index) = trace_client(peer, addresses, trusted);
        // A list is as long as the list of addresses if all proxies append to it, and shorter if a
        // proxy has replaced it: then its outermost item is used.
        let outermost = |name| {
            let items = list(name);
            let last = items.len().checked_sub(1)?;
            let item = items.get(index.min(last))?;
            Some((name, item.unwrap_or_default()))
        };
        Self {
            client,
            host: outermost(HOST),
            scheme: outermost(SCHEME),
        }
    }

    /// Reads `Forwarded`, such as `for=192.0.2.43;proto=http, for=10.0.0.5`.
    fn from_forwarded(headers: &'r HeaderMap, peer: IpAddr, trusted: &[Proxy]) -> Self {
        let elements = items(headers, FORWARDED, |text| split(text, ','));
        let addresses = elements
            .iter()
            .map(|element| ip_address(parameter((*element)?, "for")?));
        let (client, index) = trace_client(peer, addresses, trusted);
        let last = elements.len().saturating_sub(1);
        // Empty if there is no element, or the header is not ASCII.
        let outermost = elements.get(index.min(last)).copied().flatten();
        let outermost = outermost.unwrap_or_default();
        Self {
            client,
            host: parameter(outermost, "host").map(|host| (FORWARDED, host)),
            scheme: parameter(outermost, "proto").map(|scheme| (FORWARDED, scheme)),
        }
    }
}

/// The value of a parameter of an element of `Forwarded`, such as `for=192.0.2.43;proto=http`.
fn parameter<'r>(element: &'r str, name: &str) -> Option<&'r str> {
    let parameters = split(element, ';');
    let mut named = parameters
        .iter()
        .filter_map(|parameter| parameter.split_once('='));
    let (_, value) = named.find(|(key, _)| key.trim().eq_ignore_ascii_case(name))?;
    Some(strip_pair(value.trim(), '"', '"'))
}

/// Walks from the peer towards the client for as long as the addresses are trusted proxies. Returns
/// the client's address, and the index in `reported` at which the walk ended. An address that
/// cannot be parsed ends the walk: the proxy that reported it counts as the client.
fn trace_client(
    peer: IpAddr,
    reported: impl Iterator<Item = Option<IpAddr>>,
    trusted: &[Proxy],
) -> (IpAddr, usize) {
    let mut client = peer;
    let mut last = 0;
    for (index, address) in reported.enumerate() {
        last = index;
        let Some(address) = address else {
            break;
        };
        client = address;
        if !trusted.iter().any(|proxy| proxy.is_peer(Some(address))) {
            break;
        }
    }
    (client, last)
}

/// The items of the lists in all headers of this name, the last item (added by the nearest proxy)
/// first; `None` stands for a header that is not ASCII.
fn items<'r>(
    headers: &'r HeaderMap,
    name: &str,
    split_list: impl Fn(&'r str) -> Vec<&'r str>,
) -> Vec<Option<&'r str>> {
    let mut items = Vec::new();
    for value in headers.get_all(name) {
        match value.to_str() {
            Ok(text) => items.extend(split_list(text).into_iter().map(|item| Some(item.trim()))),
            Err(_) => items.push(None),
        }
    }
    items.reverse();
    items
}

/// Splits at separators outside double quotes.
fn split(text: &str, separator: char) -> Vec<&str> {
    let mut is_quoted = false;
    let mut is_escaped = false;
    let parts = text.split(|letter| {
        let was_escaped = is_escaped;
        is_escaped = is_quoted && !was_escaped && letter == '\\';
        if letter == '"' && !was_escaped {
            is_quoted = !is_quoted;
        }
        letter == separator && !is_quoted
    });
    parts.collect()
}

/// A text without `open` at its start and `close` at its end, if both are there.
fn strip_pair(text: &str, open: char, close: char) -> &str {
    let opened = text.strip_prefix(open);
    let inner = opened.and_then(|opened| opened.strip_suffix(close));
    inner.unwrap_or(text)
}

/// Parses an IP address with an optional port: `192.0.2.43:80`, `2001:db8::1`, `[2001:db8::1]:80`.
fn ip_address(text: &str) -> Option<IpAddr> {
    let address: IpAddr = match strip_pair(text, '[', ']').parse() {
        Ok(address) => address,
        Err(_) => text.parse::<SocketAddr>().ok()?.ip(),
    };
    Some(address.to_canonical())
}
