//! HTTP/1.1 as it is on the wire: no more of it than the stories need, and stricter than a browser.
//!
//! A body has its length in `Content-Length` or there is none; anything else fails the story, because there are viewers
//! that drop such answers. What is asked goes out exactly as written, so that odd paths stay odd.

use std::fmt;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};

use super::PATIENCE;
use super::picture::Picture;

/// An answer.
#[derive(Clone, PartialEq)]
pub struct Answer {
    pub status: u16,
    /// In the order in which they came, names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    /// The value of a header, which must not be there twice.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let first = values.next();
        assert_eq!(values.next(), None, "{name} is there twice");
        first
    }

    pub fn etag(&self) -> &str {
        self.header("etag").expect("it has an ETag")
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("it is UTF-8")
    }

    /// What a body of JSON holds.
    pub fn json(&self) -> serde_json::Value {
        assert_eq!((self.status, self.header("content-type")), (200, Some("application/json")), "{self:?}");
        serde_json::from_slice(&self.body).expect("it is JSON")
    }

    /// The pixels of a tile.
    pub fn picture(&self) -> Picture {
        assert_eq!(self.status, 200, "{}", String::from_utf8_lossy(&self.body));
        Picture::decode(&self.body)
    }

    /// What a problem body says, once it is one (RFC 9457).
    pub fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let body: serde_json::Value = serde_json::from_slice(&self.body).expect("it is JSON");
        assert_eq!(body["status"], self.status);
        assert!(body["title"].is_string() && body["type"].is_string(), "{body}");
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
        let body: String = String::from_utf8_lossy(&self.body).chars().take(400).collect();
        write!(f, "{} {:?} {body:?}", self.status, self.headers)
    }
}

/// A connection that is kept alive.
pub struct Connection {
    address: SocketAddr,
    stream: BufReader<TcpStream>,
    has_answered: bool,
}

/// What a request begins with.
fn head(method: &str, target: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("{method} {target} HTTP/1.1\r\nHost: voltile.test\r\n{headers}\r\n").into_bytes()
}

impl Connection {
    pub fn open(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).unwrap(), address)
    }

    /// The same from another address of this machine, as another client has it.
    pub fn open_from(source: IpAddr, address: SocketAddr) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let stream = runtime.block_on(async {
            let socket = tokio::net::TcpSocket::new_v4()?;
            socket.bind(SocketAddr::new(source, 0))?;
            socket.connect(address).await?.into_std()
        });
        let stream = stream.unwrap();
        stream.set_nonblocking(false).unwrap();
        Self::over(stream, address)
    }

    fn over(stream: TcpStream, address: SocketAddr) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { address, stream: BufReader::new(stream), has_answered: false }
    }

    /// Sends a request and does not wait for its answer.
    pub fn send(&mut self, method: &str, target: &str, headers: &[(&str, &str)]) {
        self.write(&head(method, target, headers));
    }

    /// Sends bytes as they are.
    pub fn write(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    /// Reads the answer to a request of that method.
    pub fn receive(&mut self, method: &str) -> io::Result<Answer> {
        if self.stream.fill_buf().map_err(closed)?.is_empty() {
            return Err(ErrorKind::ConnectionAborted.into());
        }
        let status = self.line()?;
        let status = status.strip_prefix("HTTP/1.1 ").or(status.strip_prefix("HTTP/1.0 "));
        let status = status.expect("it speaks HTTP/1.1, or 1.0 where it was asked so");
        let mut answer =
            Answer { status: status[..3].parse().unwrap(), headers: Vec::new(), body: Vec::new() };
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(':') else { break };
            answer.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        assert_eq!(answer.header("transfer-encoding"), None, "{answer:?}");
        if answer.has_body(method) {
            let length = answer.header("content-length").expect("a body has a Content-Length");
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
        whole.ok_or_else(|| io::Error::new(ErrorKind::UnexpectedEof, format!("the answer ended at {line:?}")))
    }

    /// Asks, and waits for the answer. A server closes connections that were idle for some seconds, which a slow machine
    /// lets pass: then it is asked over a new one, as browsers do.
    pub fn ask(&mut self, method: &str, target: &str, headers: &[(&str, &str)]) -> Answer {
        let request = head(method, target, headers);
        let mut answer = self.attempt(method, &request);
        let is_closed = answer.as_ref().is_err_and(|e| e.kind() == ErrorKind::ConnectionAborted);
        if self.has_answered && is_closed {
            *self = Self::open(self.address);
            answer = self.attempt(method, &request);
        }
        answer.unwrap_or_else(|e| panic!("no answer to {method} {target}: {e}"))
    }

    fn attempt(&mut self, method: &str, request: &[u8]) -> io::Result<Answer> {
        self.stream.get_mut().write_all(request).map_err(closed)?;
        self.receive(method)
    }

    pub fn get(&mut self, target: &str) -> Answer {
        self.ask("GET", target, &[])
    }

    /// Whether nothing has been answered yet.
    pub fn is_silent(&mut self) -> bool {
        let stream = self.stream.get_mut();
        stream.set_nonblocking(true).unwrap();
        let peeked = stream.peek(&mut [0]);
        stream.set_nonblocking(false).unwrap();
        matches!(peeked, Err(e) if e.kind() == ErrorKind::WouldBlock)
    }

    /// Whether the server has closed the connection without another byte.
    pub fn is_closed(&mut self) -> bool {
        matches!(self.stream.read(&mut [0]), Ok(0))
    }

    /// Goes away without waiting for anything.
    pub fn hang_up(self) {
        self.stream.get_ref().shutdown(Shutdown::Both).unwrap();
    }
}

/// The error of a connection that ended before an answer began.
fn closed(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => ErrorKind::ConnectionAborted.into(),
        _ => error,
    }
}
