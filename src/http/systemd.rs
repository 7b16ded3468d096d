//! The service manager: the sockets that it passes, and the notifications that it gets
//! (`sd_listen_fds(3)`, `sd_notify(3)`).
//!
//! Without a service manager nothing is passed, and notifications go nowhere.

use std::io;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use listenfd::ListenFd;
use rustix::net::sockopt::socket_acceptconn;
use sd_notify::{NotifyState, notify};

/// Listening sockets that the service manager opened.
#[derive(Debug, Default)]
pub struct PassedSockets {
    /// TCP sockets.
    pub tcp: Vec<TcpListener>,
    /// Unix sockets, with their paths.
    pub unix: Vec<(UnixListener, PathBuf)>,
}

impl PassedSockets {
    /// Takes the sockets that are passed to this process, and removes the variables that announce
    /// them. Call it before other threads read the environment.
    pub fn take() -> Result<Self, NotListening> {
        let mut descriptors = ListenFd::from_env();
        let mut passed = Self::default();
        for index in 0..descriptors.len() {
            if let Ok(Some(socket)) = descriptors.take_tcp_listener(index)
                && is_listening(&socket)
            {
                passed.tcp.push(socket);
            } else if let Ok(Some(socket)) = descriptors.take_unix_listener(index)
                && is_listening(&socket)
            {
                let path = path(&socket);
                passed.unix.push((socket, path));
            } else {
                return Err(NotListening { number: index + 1 });
            }
        }
        Ok(passed)
    }
}

/// A passed descriptor cannot be served.
#[derive(Debug, thiserror::Error)]
#[error(
    "socket {number} of the sockets passed by the service manager is not a listening TCP or Unix stream socket; expected ListenStream= and Accept=no in its unit"
)]
pub struct NotListening {
    /// Its place among the passed descriptors, from 1.
    pub number: usize,
}

fn is_listening(socket: impl AsFd) -> bool {
    socket_acceptconn(socket).unwrap_or(false)
}

/// The path of a Unix socket, or another text for its address if it has no path.
fn path(socket: &UnixListener) -> PathBuf {
    let Ok(address) = socket.local_addr() else {
        return PathBuf::new();
    };
    address
        .as_pathname()
        .map_or_else(|| format!("{address:?}").into(), PathBuf::from)
}

/// Tells the service manager that the server accepts connections; `status` says what it serves.
pub fn ready(status: &str) {
    log_failure(notify(&[NotifyState::Ready, NotifyState::Status(status)]));
}

/// Tells the service manager that the configuration is being read again; [`ready`] must follow,
/// also after a failure.
pub fn reloading() {
    let status = NotifyState::Status("reading the configuration again");
    let now = NotifyState::monotonic_usec_now();
    log_failure(now.and_then(|now| notify(&[NotifyState::Reloading, now, status])));
}

/// Tells the service manager that the server is about to end.
pub fn stopping() {
    let status = NotifyState::Status("finishing the requests in flight");
    log_failure(notify(&[NotifyState::Stopping, status]));
}

fn log_failure(notified: io::Result<()>) {
    if let Err(error) = notified {
        tracing::warn!(
            "the service manager (NOTIFY_SOCKET) cannot be told about the state of the server: {error}"
        );
    }
}
