//! Clients and the urgency of their requests, by which the render queue is shared.

use std::net::{IpAddr, Ipv4Addr};

/// A client in the render queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Client {
    /// This process itself, for `voltile render`, `voltile warm FILE` and neighbours.
    InProcess,
    /// An IPv4 address.
    V4(Ipv4Addr),
    /// The upper 64 bits of an IPv6 address: a subscriber usually has a whole /64 network.
    V6([u16; 4]),
}

impl Client {
    /// The client at an address. An IPv4-mapped IPv6 address is the same client as the IPv4
    /// address.
    pub fn new(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Client::V4(address),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Client::V6([a, b, c, d])
            }
        }
    }
}

/// Whether a user is waiting for the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Urgency {
    /// A user is waiting for the tile.
    Wanted,
    /// The tile is requested ahead of use. The client is likely to request all neighbouring tiles,
    /// too.
    Prefetch,
    /// A tile with the display settings of one page, which its user may be changing, or a search:
    /// made after everything else, and never stored in tiers.
    View,
}

/// The client of a request, and its urgency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Demand {
    /// The client.
    pub client: Client,
    /// The urgency.
    pub urgency: Urgency,
}

impl Demand {
    /// A request by a user who is waiting.
    pub const fn wanted(client: Client) -> Self {
        Self {
            client,
            urgency: Urgency::Wanted,
        }
    }

    /// A request ahead of use.
    pub const fn prefetch(client: Client) -> Self {
        Self {
            client,
            urgency: Urgency::Prefetch,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_told_apart_by_ipv4_address_and_by_ipv6_network() {
        let client = |address: &str| Client::new(address.parse().unwrap());
        assert_eq!(client("192.0.2.1"), client("::ffff:192.0.2.1"));
        assert_ne!(client("192.0.2.1"), client("192.0.2.2"));
        assert_eq!(client("2001:db8:1:2::1"), client("2001:db8:1:2:ffff::9"));
        assert_ne!(client("2001:db8:1:2::1"), client("2001:db8:1:3::1"));
    }
}
