//! Tells which addresses are private: addresses of this machine, of its network, or of nobody. No
//! redirect leads from a public address to a private one.
//!
//! Names are judged when a connection is made, by the addresses to which they resolve then. A proxy
//! resolves names itself and decides what it reaches: behind a proxy, only literal addresses are
//! judged here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use hyper_util::client::proxy::matcher::Matcher;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

pub(super) const TO_PRIVATE: &str = "it redirects from a public address to a private one";

/// The error for a name that has no public address.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("its name stands for private addresses only")]
pub(super) struct PrivateName;

/// Resolves names to their public addresses.
#[derive(Debug)]
pub(super) struct OnlyPublic;

impl Resolve for OnlyPublic {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let mut addresses: Vec<SocketAddr> =
                tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            addresses.retain(|address| !is_private(address.ip()));
            if addresses.is_empty() {
                return Err(PrivateName.into());
            }
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

/// The proxies of the environment, which the clients use too.
#[derive(Debug)]
pub(super) struct Proxies(Matcher);

impl Proxies {
    pub fn of_environment() -> Self {
        Self(Matcher::from_system())
    }

    /// Whether requests to this address go through a proxy.
    pub fn has_one_for(&self, url: &Url) -> bool {
        url.as_str()
            .parse()
            .is_ok_and(|uri| self.0.intercept(&uri).is_some())
    }
}

/// Whether the server of a URL is at a private address. `answered` is the address from which it has
/// answered.
pub(super) fn is_private_server(
    proxies: &Proxies,
    url: &Url,
    answered: Option<SocketAddr>,
) -> bool {
    match answered {
        Some(address) if !proxies.has_one_for(url) => is_private(address.ip()),
        // The address that has answered is that of the proxy, or unknown.
        _ => names_private(url),
    }
}

/// Whether the host is a literal private address.
pub(super) fn names_private(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => is_private(address.into()),
        Some(Host::Ipv6(address)) => is_private(address.into()),
        Some(Host::Domain(_)) | None => false,
    }
}

fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_private_v4(address),
        IpAddr::V6(address) => match embedded(address) {
            Some(address) => is_private_v4(address),
            // Only 2000::/3 is allocated on the internet.
            None => address.segments()[0] & 0xe000 != 0x2000,
        },
    }
}

/// Follows IANA's registry of special-purpose addresses (RFC 6890), except for addresses that are
/// examples in documentation.
fn is_private_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    match (a, b) {
        (0 | 10 | 127, _) | (169, 254) | (192, 168) => true,
        // 100.64.0.0/10, 172.16.0.0/12, 192.0.0.0/24, 198.18.0.0/15.
        (100, b) => b & 0xc0 == 64,
        (172, b) => b & 0xf0 == 16,
        (192, 0) => c == 0,
        (198, b) => b & 0xfe == 18,
        // Multicast, reserved, broadcast.
        (a, _) => a >= 224,
    }
}

/// The IPv4 address that an IPv6 address stands for: mapped (`::ffff:a.b.c.d`), compatible
/// (`::a.b.c.d`), NAT64 (`64:ff9b::/96`, RFC 6052), 6to4 (`2002::/16`, RFC 3056).
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => Some(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_its_network_and_nobody_are_private() {
        let private = [
            "0.0.0.0",
            "0.1.2.3",
            "10.1.2.3",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.9.9",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::7f00:1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "100::1",
        ];
        let public = [
            "1.1.1.1",
            "9.9.9.9",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.1.0.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "::ffff:9.9.9.9",
            "2606:4700::1111",
            "2a00:1450::1",
            "64:ff9b::909:909",
            "2002:909:909::1",
        ];
        for (all, expected) in [(&private[..], true), (&public[..], false)] {
            for text in all {
                assert_eq!(is_private(text.parse().unwrap()), expected, "{text}");
            }
        }
    }

    #[tokio::test]
    async fn names_of_private_addresses_are_not_resolved() {
        let error = OnlyPublic
            .resolve("localhost".parse().unwrap())
            .await
            .err()
            .unwrap();
        assert!(error.is::<PrivateName>(), "{error}");
    }
}
