//! A client connection to an HTTP/1.1 server: one request at a time, each response read to its end.
//!
//! For `bench` and `warm`, which send so many requests that each must be cheap; occasional requests use
//! [`crate::verify`]'s client. Heads are parsed by `httparse`; bodies are read straight into a reused buffer.
//! Deliberately absent: TLS, proxies, redirects, methods other than GET.
//!
//! A server may close an idle kept-alive connection at any moment. A request that finds its connection closed
//! before any byte of the response arrived is sent once more over a new one.

mod answer;
mod incoming;
#[cfg(test)]
mod tests;

use std::io::{self, ErrorKind, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use answer::Head;
pub use answer::{Answer, problem};
use incoming::Incoming;

/// Longer than anyone would wait for a tile.
const PATIENCE: Duration = Duration::from_secs(60);
/// The default port.
const PORT: u16 = 80;

/// A connection that is opened at the first request, and reopened after it was closed.
#[derive(Debug)]
pub struct Connection {
    host: String,
    patience: Duration,
    open: Option<Incoming<TcpStream>>,
    request: Vec<u8>,
    head: Vec<u8>,
    body: Vec<u8>,
}

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum Broken {
    #[error("{host} cannot be reached: {problem}")]
    Unreached { host: String, problem: io::Error },
    #[error("the connection failed: {0}")]
    Lost(#[from] io::Error),
    #[error("the connection was closed before the end of a response")]
    Closed,
    #[error("no complete response within {} s", .0.as_secs_f32())]
    Late(Duration),
    #[error("the response is not valid HTTP/1.1: {0}")]
    Malformed(String),
    #[error("{0:?} cannot be requested: a path begins with / and contains only visible ASCII")]
    NoPath(String),
}

impl Connection {
    /// To a host such as `127.0.0.1:8080`; does not connect yet.
    pub fn new(host: &str) -> Self {
        Self::with_patience(host, PATIENCE)
    }

    fn with_patience(host: &str, patience: Duration) -> Self {
        let (request, head, body) = Default::default();
        Self { host: host.to_owned(), patience, open: None, request, head, body }
    }

    /// Requests a path, with headers in addition to those of every request.
    ///
    /// # Errors
    /// If no complete response arrived. The next request then opens a new connection.
    pub fn get(&mut self, path: &str, headers: &[(&str, &str)]) -> Result<Answer<'_>, Broken> {
        self.write_request(path, headers)?;
        let until = Instant::now() + self.patience;
        let head = match self.open.take() {
            None => self.ask_anew(until),
            Some(kept) => match self.ask(kept, until) {
                Err((error, false)) if is_closed(&error) => self.ask_anew(until),
                asked => asked.map_err(|(error, _)| error),
            },
        };
        let head = head.map_err(|error| self.told(error))?;
        Ok(Answer {
            status: head.status,
            head: &self.head,
            body: self.body.get(..head.length).unwrap_or_default(),
        })
    }

    fn write_request(&mut self, path: &str, headers: &[(&str, &str)]) -> Result<(), Broken> {
        if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Broken::NoPath(path.to_owned()));
        }
        self.request.clear();
        write!(self.request, "GET {path} HTTP/1.1\r\nHost: {}\r\nAccept: */*\r\n", self.host)?;
        for (name, value) in headers {
            write!(self.request, "{name}: {value}\r\n")?;
        }
        self.request.extend_from_slice(b"\r\n");
        Ok(())
    }

    fn ask_anew(&mut self, until: Instant) -> Result<Head, Broken> {
        let stream = self.connected(until)?;
        self.ask(Incoming::new(stream), until).map_err(|(error, _)| error)
    }

    /// Sends the request and reads the response. On failure, also returns whether any of the response
    /// arrived.
    fn ask(&mut self, mut open: Incoming<TcpStream>, until: Instant) -> Result<Head, (Broken, bool)> {
        open.begin(until);
        let sent = open.from().write_all(&self.request);
        sent.map_err(|error| (error.into(), false))?;
        let head = answer::read(&mut open, &mut self.head, &mut self.body);
        let head = head.map_err(|error| (error, open.has_come()))?;
        self.open = head.is_kept.then_some(open);
        Ok(head)
    }

    fn connected(&self, until: Instant) -> Result<TcpStream, Broken> {
        let unreached = |problem| Broken::Unreached { host: self.host.clone(), problem };
        let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
        for address in addresses(&self.host).map_err(unreached)? {
            let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            match TcpStream::connect_timeout(&address, left) {
                Ok(stream) => return self.ready(stream),
                Err(error) => last = error,
            }
        }
        Err(unreached(last))
    }

    fn ready(&self, stream: TcpStream) -> Result<TcpStream, Broken> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(self.patience))?;
        stream.set_write_timeout(Some(self.patience))?;
        Ok(stream)
    }

    /// Turns an I/O timeout into [`Broken::Late`].
    fn told(&self, error: Broken) -> Broken {
        match error {
            Broken::Lost(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Broken::Late(self.patience)
            }
            other => other,
        }
    }
}

fn addresses(host: &str) -> io::Result<impl Iterator<Item = std::net::SocketAddr>> {
    // The colons of an IPv6 address are inside brackets.
    let has_port = host.rsplit(']').next().is_some_and(|behind| behind.contains(':'));
    if has_port { host.to_socket_addrs() } else { format!("{host}:{PORT}").to_socket_addrs() }
}

/// Whether the error is that of a connection which the server closed before the request.
fn is_closed(error: &Broken) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected};
    match error {
        Broken::Closed => true,
        Broken::Lost(error) => {
            matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected)
        }
        _ => false,
    }
}
