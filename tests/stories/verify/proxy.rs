//! A minimal proxy that forwards one connection after the other, and changes requests and answers.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crate::common::Server;

/// An HTTP message: first line, headers, body.
#[derive(Clone)]
pub struct Message {
    pub first: String,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Message {
    /// Reads a message; a body has a Content-Length.
    fn read(stream: &mut TcpStream, may_have_body: bool) -> Option<Self> {
        let (mut bytes, mut byte) = (Vec::new(), [0]);
        while !bytes.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).ok()?;
            bytes.push(byte[0]);
        }
        let head = String::from_utf8(bytes).unwrap();
        let mut lines = head.trim_end().split("\r\n").map(str::to_owned);
        let first = lines.next()?;
        let pair = |line: String| {
            line.split_once(": ").map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        };
        let mut message = Self { first, headers: lines.filter_map(pair).collect(), body: Vec::new() };
        if let Some(length) = message.get("content-length").filter(|_| may_have_body) {
            message.body = vec![0; length.parse().unwrap()];
            stream.read_exact(&mut message.body).ok()?;
        }
        Some(message)
    }

    fn write(&self, stream: &mut TcpStream) {
        let headers: String =
            self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = format!("{}\r\n{headers}\r\n", self.first);
        // The client may have left.
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&self.body));
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub fn drop_header(&mut self, name: &str) {
        self.headers.retain(|(key, _)| key != name);
    }

    pub fn set(&mut self, name: &str, value: &str) {
        self.drop_header(name);
        self.headers.push((name.to_owned(), value.to_owned()));
    }

    pub fn set_status(&mut self, status: u16) {
        self.first = format!("HTTP/1.1 {status} Changed");
    }

    pub fn set_body(&mut self, body: impl Into<Vec<u8>>) {
        self.body = body.into();
        self.set("content-length", &self.body.len().to_string());
    }

    pub fn replace(&mut self, from: &str, to: &str) {
        let text = String::from_utf8(self.body.clone()).unwrap();
        assert!(text.contains(from), "{from} is not in {text}");
        self.set_body(text.replace(from, to));
    }

    pub fn method(&self) -> &str {
        self.first.split(' ').next().unwrap()
    }

    pub fn path(&self) -> &str {
        self.first.split(' ').nth(1).unwrap()
    }

    pub fn is_tile(&self) -> bool {
        self.path().contains("/tilecache/") && self.path().contains(".png")
    }

    pub fn is_viking_tile(&self) -> bool {
        self.is_tile() && self.path().contains("/viking/")
    }
}

/// The changes to a request before it is forwarded, and to its answer.
#[derive(Clone, Copy)]
pub struct Change {
    pub request: fn(&mut Message),
    pub answer: fn(&Message, &mut Message),
}

/// A proxy in front of a server.
pub struct Proxy {
    pub address: SocketAddr,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    pub fn start(server: &Server, change: Change) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, upstream, stopped) = (listener.local_addr().unwrap(), server.address, Arc::default());
        let stop = Arc::<AtomicBool>::clone(&stopped);
        let thread = thread::spawn(move || {
            for client in listener.incoming() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                forward(client.unwrap(), upstream, change);
            }
        });
        Self { address, stopped, thread: Some(thread) }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
        let _ = self.thread.take().unwrap().join();
    }
}

/// Forwards one request and its answer, then closes the connection.
fn forward(mut client: TcpStream, upstream: SocketAddr, change: Change) {
    let Some(request) = Message::read(&mut client, true) else { return };
    let mut forwarded = request.clone();
    (change.request)(&mut forwarded);
    forwarded.set("connection", "close");
    let mut server = TcpStream::connect(upstream).unwrap();
    forwarded.write(&mut server);
    let has_body = request.method() != "HEAD";
    let mut answer = Message::read(&mut server, has_body).expect("the server answers");
    answer.set("connection", "close");
    (change.answer)(&request, &mut answer);
    answer.write(&mut client);
}
