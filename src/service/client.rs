//! Who asks for a tile, and how urgently: what the render queue is shared by.

use std::net::{IpAddr, Ipv4Addr};

/// One of those among whom the render queue is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Client {
    /// This process itself, as `voltile render` and `voltile warm FILE` do.
    InProcess,
    /// An IPv4 address.
    V4(Ipv4Addr),
    /// An IPv6 network of 64 bits. A single subscriber commonly has all addresses of one.
    V6([u16; 4]),
}

impl Client {
    /// The client at an address. An IPv4 address that is written as an IPv6 one is the same client.
    pub fn at(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Client::V4(address),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Client::V6([a, b, c, d])
            }
        }
    }
}

/// How urgent a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Urgency {
    /// Somebody waits to see the tile.
    Wanted,
    /// It is asked for before anybody wants to see it. Whoever does so is going to want all that lies beside it, too.
    Prefetch,
}

/// Who asks, and how urgently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Demand {
    /// Who asks.
    pub client: Client,
    /// How urgently.
    pub urgency: Urgency,
}

impl Demand {
    /// Of somebody who waits to see the tile.
    pub const fn wanted(client: Client) -> Self {
        Self { client, urgency: Urgency::Wanted }
    }

    /// Of somebody who asks before the tile is wanted.
    pub const fn prefetch(client: Client) -> Self {
        Self { client, urgency: Urgency::Prefetch }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_told_apart_by_ipv4_address_and_by_ipv6_network() {
        let client = |address: &str| Client::at(address.parse().unwrap());
        assert_eq!(client("192.0.2.1"), client("::ffff:192.0.2.1"));
        assert_ne!(client("192.0.2.1"), client("192.0.2.2"));
        assert_eq!(client("2001:db8:1:2::1"), client("2001:db8:1:2:ffff::9"));
        assert_ne!(client("2001:db8:1:2::1"), client("2001:db8:1:3::1"));
    }
}
