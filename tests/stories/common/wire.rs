//! A small HTTP/1.1 client that is stricter than a browser.
//!
//! A body must have a `Content-Length`, because some viewers drop other responses. Targets are sent
//! as written.

use std::fmt;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};

use tokio_rustls::rustls::{ClientConnection, StreamOwned};

use super::PATIENCE;
use super::picture::Picture;

/// A response.
#[derive(Clone, PartialEq)]
pub struct Answer {
    pub status: u16,
    /// In the order received, with names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    /// The value of a header, which must not occur twice.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self
            .headers
            .iter()
            .filter(|(key, _)| key == name)
            .map(|(_, value)| value.as_str());
        let first = values.next();
        assert_eq!(values.next(), None, "{name} occurs twice");
        first
    }

    pub fn etag(&self) -> &str {
        self.header("etag").expect("it has an ETag")
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("it is UTF-8")
    }

    /// The body as JSON.
    pub fn json(&self) -> serde_json::Value {
        assert_eq!(
            (self.status, self.header("content-type")),
            (200, Some("application/json")),
            "{self:?}"
        );
        serde_json::from_slice(&self.body).expect("it is JSON")
    }

    /// The pixels of a tile.
    pub fn picture(&self) -> Picture {
        assert_eq!(self.status, 200, "{}", String::from_utf8_lossy(&self.body));
        Picture::decode(&self.body)
    }

    /// The detail of a problem document (RFC 9457).
    pub fn problem(&self) -> String {
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json"),
            "{self:?}"
        );
        let body: serde_json::Value = serde_json::from_slice(&self.body).expect("it is JSON");
        assert_eq!(body["status"], self.status);
        assert!(
            body["title"].is_string() && body["type"].is_string(),
            "{body}"
        );
        let detail = body["detail"].as_str().expect("it has a detail");
        assert!(!detail.is_empty());
        detail.to_owned()
    }

    fn has_body(&self, method: &str) -> bool {
        method != "HEAD" && !matches!(self.status, 100 | 204 | 304)
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body: String = String::from_utf8_lossy(&self.body)
            .chars()
            .take(400)
            .collect();
        write!(f, "{} {:?} {body:?}", self.status, self.headers)
    }
}

/// A persistent connection: over TCP, or anything else that bytes go through.
pub struct Connection<S: Read = TcpStream> {
    /// Where to connect again; only over TCP.
    address: Option<SocketAddr>,
    stream: BufReader<S>,
    has_answered: bool,
}

/// The head of a request.
fn head(method: &str, target: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    let headers: String = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    format!("{method} {target} HTTP/1.1\r\nHost: voltile.test\r\n{headers}\r\n").into_bytes()
}

impl<S: Read + Write> Connection<S> {
    pub fn over(stream: S) -> Self {
        Self {
            address: None,
            stream: BufReader::new(stream),
            has_answered: false,
        }
    }

    /// Sends a request without waiting for its answer.
    pub fn send(&mut self, method: &str, target: &str, headers: &[(&str, &str)]) {
        self.write(&head(method, target, headers));
    }

    /// Sends bytes.
    pub fn write(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    /// Reads the answer to a request of that method.
    pub fn receive(&mut self, method: &str) -> io::Result<Answer> {
        if self.stream.fill_buf().map_err(closed)?.is_empty() {
            return Err(ErrorKind::ConnectionAborted.into());
        }
        let status = self.line()?;
        let status = status
            .strip_prefix("HTTP/1.1 ")
            .or(status.strip_prefix("HTTP/1.0 "));
        let status = status.expect("it is HTTP/1.1, or 1.0 if that was requested");
        let mut answer = Answer {
            status: status[..3].parse().unwrap(),
            headers: Vec::new(),
            body: Vec::new(),
        };
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(':') else {
                break;
            };
            answer
                .headers
                .push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        assert_eq!(answer.header("transfer-encoding"), None, "{answer:?}");
        if answer.has_body(method) {
            let length = answer
                .header("content-length")
                .expect("a body has a Content-Length");
            answer.body = vec![0; length.parse().unwrap()];
            self.stream.read_exact(&mut answer.body)?;
        }
        self.has_answered = true;
        Ok(answer)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let whole = line.strip_suffix("\r\n").map(str::to_owned);
        whole.ok_or_else(|| {
            io::Error::new(
                ErrorKind::UnexpectedEof,
                format!("the answer ended at {line:?}"),
            )
        })
    }

    fn attempt(&mut self, method: &str, request: &[u8]) -> io::Result<Answer> {
        self.stream.get_mut().write_all(request).map_err(closed)?;
        self.receive(method)
    }

    /// Sends a request and waits for the answer; an error if the server closes the connection.
    pub fn try_get(&mut self, target: &str) -> io::Result<Answer> {
        self.try_ask("GET", target, &[])
    }

    /// The same with another method, or with headers.
    pub fn try_ask(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
    ) -> io::Result<Answer> {
        self.attempt(method, &head(method, target, headers))
    }

    /// Waits for the end of the connection; whether the server has closed it without sending
    /// another byte.
    pub fn is_closed(&mut self) -> bool {
        matches!(self.stream.read(&mut [0]), Ok(0))
    }
}

impl Connection<StreamOwned<ClientConnection, TcpStream>> {
    /// The TCP connection below TLS.
    pub fn raw(&mut self) -> &mut TcpStream {
        &mut self.stream.get_mut().sock
    }
}

impl Connection {
    pub fn open(address: SocketAddr) -> Self {
        Self::over_tcp(TcpStream::connect(address).unwrap(), address)
    }

    /// The same from another address of this machine, like another client.
    pub fn open_from(source: IpAddr, address: SocketAddr) -> Self {
        Self::over_tcp(stream_from(source, address), address)
    }

    fn over_tcp(stream: TcpStream, address: SocketAddr) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            address: Some(address),
            ..Self::over(stream)
        }
    }

    /// Sends a request and waits for the answer. If the server has closed the connection because it
    /// was idle, this opens a new one, as browsers do.
    pub fn ask(&mut self, method: &str, target: &str, headers: &[(&str, &str)]) -> Answer {
        let request = head(method, target, headers);
        let mut answer = self.attempt(method, &request);
        let is_closed = answer
            .as_ref()
            .is_err_and(|e| e.kind() == ErrorKind::ConnectionAborted);
        if self.has_answered && is_closed {
            *self = Self::open(self.address.unwrap());
            answer = self.attempt(method, &request);
        }
        answer.unwrap_or_else(|e| panic!("no answer to {method} {target}: {e}"))
    }

    pub fn get(&mut self, target: &str) -> Answer {
        self.ask("GET", target, &[])
    }

    /// Whether there is nothing to read: no answer, and no end of the connection.
    pub fn is_silent(&mut self) -> bool {
        let stream = self.stream.get_mut();
        stream.set_nonblocking(true).unwrap();
        let peeked = stream.peek(&mut [0]);
        stream.set_nonblocking(false).unwrap();
        matches!(peeked, Err(e) if e.kind() == ErrorKind::WouldBlock)
    }

    /// Closes the connection at once.
    pub fn hang_up(self) {
        self.stream.get_ref().shutdown(Shutdown::Both).unwrap();
    }
}

/// Connects from another address of this machine.
pub fn stream_from(source: IpAddr, address: SocketAddr) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .unwrap();
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(source, 0))?;
        socket.connect(address).await?.into_std()
    });
    let stream = stream.unwrap();
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The error of a connection that ended before an answer began.
fn closed(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => ErrorKind::ConnectionAborted.into(),
        _ => error,
    }
}
