//! The proxies that are trusted: networks of IP addresses, and the peers on the Unix socket.

use std::net::IpAddr;

use ipnet::IpNet;

/// The number of bits before the address in an IPv4-mapped IPv6 address.
const MAPPED_PREFIX: u8 = 96;

/// Where a trusted proxy connects from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proxy {
    /// The Unix socket: its permissions decide who can connect.
    Unix,
    /// Any address in this network; only zeros follow the network's prefix.
    Within(IpNet),
}

impl Proxy {
    /// Parses the word `unix`, an address, or a network.
    pub fn new(text: &str) -> Result<Self, String> {
        if text == "unix" {
            return Ok(Proxy::Unix);
        }
        network(text).map(Proxy::Within).ok_or_else(|| {
            format!(
                "{text:?} is not the address of a proxy: expected an IP address such as \"127.0.0.1\", or a network such \
                 as \"10.0.0.0/8\" or \"fd00::/8\", with only zeros after its prefix, or \"unix\""
            )
        })
    }

    /// Whether a peer is this proxy. `None` is a peer on the Unix socket, which has no address.
    pub fn is_peer(&self, peer: Option<IpAddr>) -> bool {
        match (self, peer) {
            (Proxy::Unix, None) => true,
            (Proxy::Within(network), Some(peer)) => network.contains(&peer.to_canonical()),
            (Proxy::Unix, Some(_)) | (Proxy::Within(_), None) => false,
        }
    }
}

/// Parses an address, or a network in CIDR notation (RFC 4632), which is refused if anything but
/// zeros follows its prefix.
fn network(text: &str) -> Option<IpNet> {
    let written = match text.parse::<IpNet>() {
        Ok(network) => network,
        Err(_) => IpNet::from(text.parse::<IpAddr>().ok()?),
    };
    // IPv4-mapped IPv6 addresses are converted to IPv4, as are the addresses of clients.
    let address = written.addr().to_canonical();
    let network = if address.is_ipv4() && written.addr().is_ipv6() {
        let prefix = written.prefix_len().checked_sub(MAPPED_PREFIX)?;
        IpNet::new(address, prefix).ok()?
    } else {
        written
    };
    (network == network.trunc()).then_some(network)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(network: &str, address: &str) -> bool {
        Proxy::new(network)
            .unwrap()
            .is_peer(Some(address.parse().unwrap()))
    }

    #[test]
    fn networks_contain_addresses_with_their_prefix() {
        for (network, inside, outside) in [
            ("127.0.0.1", "127.0.0.1", "127.0.0.2"),
            ("127.0.0.1", "::ffff:127.0.0.1", "::1"),
            ("::ffff:10.0.0.0/104", "10.1.2.3", "11.0.0.0"),
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
            ("192.168.4.0/22", "192.168.7.255", "192.168.8.0"),
            ("::1", "::1", "::2"),
            ("fd00::/8", "fdff::1", "fe00::1"),
            ("2001:db8::/63", "2001:db8:0:1::5", "2001:db8:0:2::5"),
            ("0.0.0.0/0", "8.8.8.8", "::1"),
            ("::/0", "2001:db8::1", "8.8.8.8"),
        ] {
            assert!(contains(network, inside), "{network} {inside}");
            assert!(!contains(network, outside), "{network} {outside}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for wrong in [
            "",
            "localhost",
            "10.0.0.0/33",
            "10.0.0.1/8",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "10.0.0.0/8/8",
            "::/129",
            "::ffff:10.0.0.0/8",
            "fd00::1/8",
            "[::1]",
            "127.0.0.1:80",
            " ::1",
        ] {
            assert!(Proxy::new(wrong).is_err(), "{wrong:?}");
        }
    }
}
