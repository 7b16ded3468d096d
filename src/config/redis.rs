//! The address of a Redis server. It may contain a password, which is never shown.

use std::fmt;

use percent_encoding::percent_decode_str;
use voltile_base::request::digits;

use super::address::BindAddress;

const PORT: u16 = 6379;

/// The address of a Redis server, the number of one of its databases, and the user and the password
/// for it, which are left out when it is shown.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisAddress {
    /// A name, an IPv4 address, or an IPv6 address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The number of the database.
    pub database: u16,
    /// The user, if not the default one.
    pub user: Option<String>,
    /// The password.
    pub password: Option<String>,
}

impl RedisAddress {
    /// Parses an address such as `redis://:secret@host:6379/1`, without connecting. The error does
    /// not repeat the text, which may contain a password.
    pub fn new(text: &str) -> Result<Self, &'static str> {
        if text.starts_with("rediss://") {
            return Err(
                "rediss:// is not supported: use redis:// within a network that you trust, or through a TLS tunnel",
            );
        }
        Self::parse(text).ok_or(
            "an address such as \"redis://127.0.0.1:6379/0\" is expected: redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE], \
             with special characters of a password percent-encoded",
        )
    }

    fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("redis://")?;
        // `:` is an empty user and an empty password.
        let (credentials, place) = rest.rsplit_once('@').unwrap_or((":", rest));
        // A user without a colon and a password is refused.
        let (user, password) = credentials.split_once(':')?;
        let user = decoded(user)?;
        let password = decoded(password)?;
        let (server, database) = place.split_once('/').unwrap_or((place, ""));
        let (host, port) = host_and_port(server)?;
        let database = if database.is_empty() {
            0
        } else {
            number(database)?
        };
        Some(Self {
            host,
            port,
            database,
            user: (!user.is_empty()).then_some(user),
            password: (!password.is_empty()).then_some(password),
        })
    }
}

/// The host, without the brackets of an IPv6 address, and the port, by default [`PORT`].
fn host_and_port(server: &str) -> Option<(String, u16)> {
    // The last colon of `[::1]` belongs to the address.
    let has_port = server
        .rsplit_once(':')
        .is_some_and(|(_, port)| !port.ends_with(']'));
    let full = if has_port {
        server.to_owned()
    } else {
        format!("{server}:{PORT}")
    };
    BindAddress::new(&full).ok()?;
    let (host, port) = full.rsplit_once(':')?;
    let host = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    let port = port.parse::<u16>().ok().filter(|port| *port > 0)?;
    Some((host.to_owned(), port))
}

fn number(text: &str) -> Option<u16> {
    u16::try_from(digits(text)?).ok()
}

/// A percent-encoded user or password: `s@crt` for `s%40crt`. `None` if it has spaces or slashes.
fn decoded(text: &str) -> Option<String> {
    if !text.bytes().all(|b| b.is_ascii_graphic() && b != b'/') {
        return None;
    }
    let decoded = percent_decode_str(text).decode_utf8().ok()?;
    Some(decoded.into_owned())
}

impl fmt::Display for RedisAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "redis://[{}]", self.host)?;
        } else {
            write!(f, "redis://{}", self.host)?;
        }
        write!(f, ":{}/{}", self.port, self.database)
    }
}

impl fmt::Debug for RedisAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_and_shown_without_credentials() {
        for (text, shown, user, password) in [
            (
                "redis://127.0.0.1:6379/0",
                "redis://127.0.0.1:6379/0",
                None,
                None,
            ),
            (
                "redis://cache.example.org",
                "redis://cache.example.org:6379/0",
                None,
                None,
            ),
            ("redis://[::1]/3", "redis://[::1]:6379/3", None, None),
            (
                "redis://:s%40crt@a:1/",
                "redis://a:1/0",
                None,
                Some("s@crt"),
            ),
            (
                "redis://lab:p@ss@[fd00::7]:7000/12",
                "redis://[fd00::7]:7000/12",
                Some("lab"),
                Some("p@ss"),
            ),
        ] {
            let address = RedisAddress::new(text).unwrap();
            assert_eq!([address.to_string(), format!("{address:?}")], [shown; 2]);
            assert_eq!(
                (address.user.as_deref(), address.password.as_deref()),
                (user, password),
                "{text}"
            );
        }
    }

    #[test]
    fn other_texts_are_refused_and_not_repeated() {
        for text in [
            "",
            "127.0.0.1:6379",
            "http://a",
            "redis://",
            "redis://:1",
            "redis://a:0",
            "redis://a:99999",
            "redis://a/x",
            "redis://a/+1",
            "redis://a/1/2",
            "redis://hidden@a",
            "redis://:hidden@",
            "redis://:hid den@a",
            "redis://:hidden@a b",
            "redis://:hidden@a/0?protocol=resp3",
        ] {
            let error = RedisAddress::new(text).unwrap_err();
            assert!(!error.contains("hid"), "{text}");
        }
        let error = RedisAddress::new("rediss://:hidden@a").unwrap_err();
        assert!(error.starts_with("rediss:// is not supported"), "{error}");
    }
}
