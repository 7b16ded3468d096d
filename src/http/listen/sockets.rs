//! The sockets that a server listens on: passed by the service manager, or opened as configured.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::Duration;

use rustix::net::sockopt::{set_socket_keepalive, set_socket_send_buffer_size, set_tcp_keepidle};

use super::unix::{self, BACKLOG, SocketFile};
use crate::config::{BindAddress, Server};
use crate::http::systemd::PassedSockets;

/// The maximum number of bytes of answers that the system holds for a connection; it doubles this
/// for its own bookkeeping.
const SEND_BUFFER: usize = 256 << 10;
/// When a connection has been silent for this long, the system asks whether its client is still
/// there.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(60);

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// An IP address, with the scheme of its URLs.
    Tcp(&'static str, SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl Endpoint {
    /// Whether it is `0.0.0.0` or `::`, which stand for all addresses of this machine.
    pub fn is_everywhere(&self) -> bool {
        matches!(self, Endpoint::Tcp(_, address) if address.ip().is_unspecified())
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // A browser cannot open the address that stands for all addresses.
            Endpoint::Tcp(scheme, SocketAddr::V4(any)) if any.ip().is_unspecified() => {
                write!(f, "{scheme}://{}:{}", Ipv4Addr::LOCALHOST, any.port())
            }
            Endpoint::Tcp(scheme, SocketAddr::V6(any)) if any.ip().is_unspecified() => {
                write!(f, "{scheme}://[{}]:{}", Ipv6Addr::LOCALHOST, any.port())
            }
            Endpoint::Tcp(scheme, address) => write!(f, "{scheme}://{address}"),
            Endpoint::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Why the sockets could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// A host name is unknown.
    #[error("server.bind: {address:?} cannot be resolved to an address: {error}")]
    Unresolved {
        /// The address as configured.
        address: String,
        /// The resolver's error.
        error: io::Error,
    },
    /// There is nothing to listen on.
    #[error(
        "server.bind: there is no address to listen on, no server.unix_socket, and no socket passed by the service manager; set one of them"
    )]
    Nowhere,
    /// An address cannot be bound.
    #[error("{address} cannot be listened on: {error}{}", cure(error))]
    Address {
        /// The address as configured.
        address: String,
        /// The system's error.
        error: io::Error,
    },
    /// A Unix socket cannot be opened.
    #[error("server.unix_socket: {} cannot be listened on: {error}", path.display())]
    UnixSocket {
        /// Its path.
        path: PathBuf,
        /// The system's error, or an error that says what kind of file is there.
        error: io::Error,
    },
}

/// The cure for an address that cannot be bound.
fn cure(error: &io::Error) -> &'static str {
    if error.kind() != ErrorKind::AddrInUse {
        return "";
    }
    ". Another program listens there, perhaps another voltile: stop it, or choose another port, such as --bind 127.0.0.1:0 \
     for any that is free"
}

impl ListenError {
    /// Whether the configuration is at fault.
    pub fn is_misconfigured(&self) -> bool {
        matches!(self, ListenError::Unresolved { .. } | ListenError::Nowhere)
    }
}

/// Sockets to which clients can connect already. The files of Unix sockets are removed on drop.
#[derive(Debug, Default)]
pub struct Sockets {
    pub(super) tcp: Vec<TcpListener>,
    pub(super) unix: Vec<(UnixListener, PathBuf)>,
    pub(super) files: Vec<SocketFile>,
}

impl Sockets {
    /// Opens the configured sockets that were not passed to this process, and takes all passed
    /// sockets.
    pub fn open(settings: &Server, passed: PassedSockets) -> Result<Self, ListenError> {
        let has_passed = !(passed.tcp.is_empty() && passed.unix.is_empty());
        let mut sockets = Self::default();
        for address in settings.addresses(has_passed) {
            sockets.tcp.extend(bind_all(&address, &passed.tcp)?);
        }
        sockets.tcp.extend(passed.tcp);
        if let Some(path) = &settings.unix_socket
            && !passed.unix.iter().any(|(_, passed)| passed == path)
        {
            let opened = unix::listener(path, settings.unix_socket_mode);
            let (listener, file) = opened.map_err(|error| ListenError::UnixSocket {
                path: path.clone(),
                error,
            })?;
            sockets.unix.push((listener, path.clone()));
            sockets.files.push(file);
        }
        sockets.unix.extend(passed.unix);
        for listener in &sockets.tcp {
            if let Err(error) = set_options(listener, settings.write_timeout) {
                tracing::warn!("a limit on connections cannot be set: {error}");
            }
        }
        if sockets.tcp.is_empty() && sockets.unix.is_empty() {
            return Err(ListenError::Nowhere);
        }
        Ok(sockets)
    }
}

/// Binds every IP address of a name, except the addresses of passed sockets. If an address cannot
/// be bound, that is an error only if no other address can be.
fn bind_all(name: &BindAddress, passed: &[TcpListener]) -> Result<Vec<TcpListener>, ListenError> {
    let passed: Vec<SocketAddr> = passed.iter().flat_map(TcpListener::local_addr).collect();
    let mut listeners = Vec::new();
    let mut last_error = None;
    for address in resolve(name)? {
        if passed.contains(&address) {
            continue;
        }
        match listener(address) {
            Ok(listener) => listeners.push(listener),
            Err(error) => last_error = Some(error),
        }
    }
    match last_error {
        Some(error) if listeners.is_empty() => Err(ListenError::Address {
            address: name.to_string(),
            error,
        }),
        _ => Ok(listeners),
    }
}

fn resolve(name: &BindAddress) -> Result<Vec<SocketAddr>, ListenError> {
    let mut addresses: Vec<SocketAddr> = match name.as_str().to_socket_addrs() {
        Ok(addresses) => addresses.collect(),
        Err(error) => {
            let address = name.to_string();
            return Err(ListenError::Unresolved { address, error });
        }
    };
    // A name may resolve to several addresses, but they cannot share a port chosen by the system.
    if addresses.iter().any(|address| address.port() == 0) {
        addresses.truncate(1);
    }
    Ok(addresses)
}

fn listener(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    // The standard library has set a backlog so short that many browsers may fill it at once.
    rustix::net::listen(&listener, BACKLOG)?;
    Ok(listener)
}

/// Sets options that accepted connections inherit. They limit the memory in which the system holds
/// answers that clients do not read: it would be several MiB for each connection (but for a Unix
/// socket it is `net.core.wmem_default`, 208 KiB). And they end connections whose clients read
/// nothing for `write_timeout`, or are gone.
fn set_options(listener: &TcpListener, write_timeout: Duration) -> io::Result<()> {
    set_socket_send_buffer_size(listener, SEND_BUFFER)?;
    set_socket_keepalive(listener, true)?;
    set_tcp_keepidle(listener, KEEPALIVE_AFTER)?;
    #[cfg(target_os = "linux")]
    {
        let milliseconds = u32::try_from(write_timeout.as_millis()).unwrap_or(u32::MAX);
        rustix::net::sockopt::set_tcp_user_timeout(listener, milliseconds)?;
        limit_unsent(listener)?;
    }
    Ok(())
}

/// Limits the bytes of answers that the system holds and has not sent yet.
#[cfg(target_os = "linux")]
fn limit_unsent(listener: &TcpListener) -> io::Result<()> {
    let unsent: libc::c_int = 64 << 10;
    let value = (&raw const unsent).cast();
    let length = size_of_val(&unsent) as libc::socklen_t;
    let socket = std::os::fd::AsRawFd::as_raw_fd(listener);
    let option = libc::TCP_NOTSENT_LOWAT;
    #[allow(unsafe_code, reason = "a call into the C library")]
    // SAFETY: the call reads one number through `value`, and `length` is the number's length.
    let set = unsafe { libc::setsockopt(socket, libc::IPPROTO_TCP, option, value, length) };
    if set == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
