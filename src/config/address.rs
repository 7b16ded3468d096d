//! The address to listen on. Only its form is checked here; the caller resolves and binds it.

use std::fmt;
use std::net::SocketAddr;

use voltile_base::request::digits;

/// An address to listen on: `HOST:PORT`, the host a name, an IPv4 address, or an IPv6 address in
/// brackets.
///
/// Names are resolved when binding; `as_str` is valid for `ToSocketAddrs`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BindAddress(String);

impl BindAddress {
    /// Checks the text's form; whether the host exists is found out when binding.
    pub fn new(text: &str) -> Result<Self, String> {
        if text.parse::<SocketAddr>().is_ok() || is_named_address(text) {
            return Ok(Self(text.to_owned()));
        }
        Err(format!(
            "{text:?} is not an address with a port: expected HOST:PORT, such as \"127.0.0.1:8080\", \"localhost:0\" (any \
             free port) or \"[::]:80\" (every interface)"
        ))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for BindAddress {
    fn default() -> Self {
        Self("127.0.0.1:8080".to_owned())
    }
}

impl fmt::Display for BindAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A host name with a port. The last label of a name is never all digits: 300.1.1.1 is an invalid
/// address, not a name.
fn is_named_address(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else {
        return false;
    };
    let last = host.rsplit('.').next().unwrap_or(host);
    digits(port).is_some_and(|port| port <= u16::MAX.into())
        && host.split('.').all(is_host_label)
        && !last.bytes().all(|b| b.is_ascii_digit())
}

/// Whether a text can stand between two dots of a host name.
pub(super) fn is_host_label(text: &str) -> bool {
    let mut bytes = text.bytes();
    !text.is_empty() && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked() {
        for right in [
            "127.0.0.1:8080",
            "0.0.0.0:0",
            "[::1]:80",
            "localhost:8080",
            "my-host.example.org:65535",
        ] {
            assert_eq!(BindAddress::new(right).unwrap().as_str(), right);
        }
        for wrong in [
            "",
            "8080",
            ":8080",
            "localhost",
            "127.0.0.1",
            "300.1.1.1:80",
            "::1:80",
            "a:65536",
            "a:+1",
            "a:",
            "a b:1",
            "http://a:1",
        ] {
            assert!(BindAddress::new(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(
            BindAddress::new(BindAddress::default().as_str()),
            Ok(BindAddress::default())
        );
    }
}
