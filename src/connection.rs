//! A connection to a server that speaks HTTP/1.1: one request after the other, each answer read to its end.
//!
//! For whoever asks so often that asking must cost little (`bench`, `warm`); who asks a few questions has
//! [`crate::verify`]'s client. Heads are parsed by `httparse`; bodies are read straight into memory that is kept from one
//! answer to the next. Deliberately absent: TLS, proxies, redirects, anything but GET.
//!
//! The odd thing: a server may close a kept connection at any moment while nothing is asked. A request that meets such a
//! one, before any byte of its answer came, is sent once more over a new one.

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

/// Longer than any tile takes that a person would wait for.
const PATIENCE: Duration = Duration::from_secs(60);
/// The port of a host that names none.
const PORT: u16 = 80;

/// A connection that is opened at the first request, and again where it was closed.
#[derive(Debug)]
pub struct Connection {
    host: String,
    patience: Duration,
    open: Option<Incoming<TcpStream>>,
    request: Vec<u8>,
    head: Vec<u8>,
    body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum Broken {
    #[error("{host} cannot be reached: {problem}")]
    Unreached { host: String, problem: io::Error },
    #[error("the connection broke: {0}")]
    Lost(#[from] io::Error),
    #[error("the connection was closed before the end of an answer")]
    Closed,
    #[error("no whole answer came within {} s", .0.as_secs_f32())]
    Late(Duration),
    #[error("what came is no answer in HTTP/1.1: {0}")]
    Malformed(String),
    #[error("{0:?} cannot be asked for: a path begins with / and holds visible ASCII alone")]
    NoPath(String),
}

impl Connection {
    /// To a host such as `127.0.0.1:8080`; nothing is sent yet.
    pub fn new(host: &str) -> Self {
        Self::with_patience(host, PATIENCE)
    }

    fn with_patience(host: &str, patience: Duration) -> Self {
        let (request, head, body) = Default::default();
        Self { host: host.to_owned(), patience, open: None, request, head, body }
    }

    /// Asks for a path, with headers beside those that every request has.
    ///
    /// # Errors
    /// Where no whole answer came. The next request opens a new connection then.
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

    /// Sends the request and reads the answer; or why not, and whether any of it came.
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
        let mut last = io::Error::new(ErrorKind::NotFound, "its name has no address");
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

    /// A time that is up, told as such.
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
    // The colons of an IPv6 address stand in brackets.
    let has_port = host.rsplit(']').next().is_some_and(|behind| behind.contains(':'));
    if has_port { host.to_socket_addrs() } else { format!("{host}:{PORT}").to_socket_addrs() }
}

/// Whether it is what befalls a connection that the server closed before it was asked.
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
