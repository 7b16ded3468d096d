//! A web server with faults: it serves the files of a folder by range, one state of each at a time,
//! and misbehaves as it is told, for all paths or for one.
//!
//! Every request is kept, so that a story can tell what was asked for, how often, and how many
//! requests had to wait for one another. The port is held while the server is down: nobody else
//! gets it, and connections to it are refused.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use actix_web::http::header::HttpDate;
use percent_encoding::percent_decode_str;
use rustix::net::{AddressFamily, SocketType, bind, listen, shutdown, socket, sockopt};

/// How requests for a path are answered. By default, as a sound server does.
#[derive(Debug, Clone, Default)]
pub struct Manner {
    /// The time before an answer.
    pub delay: Duration,
    /// A fault, and the number of answers that have it; later answers are sound.
    pub fault: Option<(Fault, usize)>,
    pub tags: Tags,
    /// `If-Match` is not compared.
    pub ignores_match: bool,
}

/// A fault of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Another status, with a header line or "".
    Status(u16, String),
    /// Status 403, but for reads.
    ReadOnly,
    /// Status 403, unless this is in the header `Authorization`.
    Unless(String),
    /// The second half of the body is missing, and so it is in `Content-Length`.
    Short,
    /// The connection ends in the middle of the body.
    Cut,
    /// The body is sent twice, and `Content-Length` says so. `Content-Range` is that of one.
    Twice,
    /// The first half of the body is sent twice, in place of the second: a repeated request went
    /// wrong.
    Stutter,
    /// `Content-Range` says that the bytes are from elsewhere.
    Elsewhere,
    /// `Content-Range` gives this length.
    Total(u64),
    /// The whole object, whatever range is asked for.
    Whole,
    /// No answer. The connection stays open.
    Silence,
    /// The first byte of the body, and one more each second.
    Drip,
    /// No answer. The connection is closed.
    Close,
    /// This, in place of an answer.
    Bytes(Vec<u8>),
}

/// The headers that distinguish the states of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tags {
    /// A strong `ETag`, and `Last-Modified`.
    #[default]
    Strong,
    /// A weak one, and `Last-Modified`.
    Weak,
    /// `Last-Modified` only.
    Times,
    /// Nothing.
    None,
}

/// A request, and its answer.
#[derive(Debug, Clone)]
pub struct Asked {
    pub method: String,
    pub path: String,
    pub query: String,
    pub range: Option<Range<u64>>,
    /// The names in lower case.
    pub headers: HashMap<String, String>,
    /// 0 if the connection ended before there was an answer.
    pub status: u16,
    /// The bytes of the body.
    pub sent: u64,
    pub began: Instant,
    pub ended: Instant,
}

/// The server; it ends when this is dropped.
pub struct ObjectServer {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    /// Bound to the port, but not listening.
    _held: OwnedFd,
}

struct Shared {
    folder: PathBuf,
    manners: Mutex<HashMap<String, Manner>>,
    asked: Mutex<Vec<Asked>>,
    listener: Mutex<Option<Arc<TcpListener>>>,
    connections: Mutex<Vec<TcpStream>>,
    is_down: AtomicBool,
    waiting: AtomicUsize,
}

/// A request as it was read.
struct Request {
    method: String,
    path: String,
    query: String,
    headers: HashMap<String, String>,
    body: Vec<u8>,
}

/// An answer as it will be written.
struct Reply {
    status: u16,
    head: String,
    body: Vec<u8>,
    /// How much of the body is written before the connection is closed.
    closes_after: Option<usize>,
}

fn bound(address: SocketAddr) -> OwnedFd {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    sockopt::set_socket_reuseport(&socket, true).unwrap();
    sockopt::set_socket_reuseaddr(&socket, true).unwrap();
    bind(&socket, &address).unwrap();
    socket
}

impl ObjectServer {
    /// Serves the files of a folder.
    pub fn of(folder: PathBuf) -> Self {
        let held = bound(SocketAddr::from(([127, 0, 0, 1], 0)));
        let address = TcpListener::from(held.try_clone().unwrap())
            .local_addr()
            .unwrap();
        let shared = Shared {
            folder,
            manners: Mutex::default(),
            asked: Mutex::default(),
            listener: Mutex::default(),
            connections: Mutex::default(),
            is_down: AtomicBool::new(true),
            waiting: AtomicUsize::new(0),
        };
        let server = Self {
            address,
            shared: Arc::new(shared),
            _held: held,
        };
        server.come_back();
        server
    }

    /// The address of a file.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    /// Sets how requests for a path are answered from now on; "" stands for all other paths.
    pub fn answer(&self, path: &str, manner: Manner) {
        self.shared
            .manners
            .lock()
            .unwrap()
            .insert(path.to_owned(), manner);
    }

    /// The next requests for a path go wrong, after those that are being answered.
    pub fn fail(&self, path: &str, fault: Fault, times: usize) {
        self.answer(
            path,
            Manner {
                fault: Some((fault, times)),
                ..Manner::default()
            },
        );
    }

    /// The same until [`ObjectServer::mend`].
    pub fn break_down(&self, path: &str, fault: Fault) {
        self.fail(path, fault, usize::MAX);
    }

    /// Requests for all paths are answered as a sound server does.
    pub fn mend(&self) {
        self.shared.manners.lock().unwrap().clear();
    }

    /// Refuses connections, and ends those that there are.
    pub fn go_down(&self) {
        self.shared.is_down.store(true, Ordering::SeqCst);
        if let Some(listener) = self.shared.listener.lock().unwrap().take() {
            shutdown(&listener, rustix::net::Shutdown::Both).unwrap();
        }
        for connection in self.shared.connections.lock().unwrap().drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// Accepts connections again.
    pub fn come_back(&self) {
        let socket = bound(self.address);
        listen(&socket, 128).unwrap();
        let listener = Arc::new(TcpListener::from(socket));
        *self.shared.listener.lock().unwrap() = Some(Arc::clone(&listener));
        self.shared.is_down.store(false, Ordering::SeqCst);
        let shared = Arc::clone(&self.shared);
        thread::spawn(move || {
            while let Ok((connection, _)) = listener.accept() {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.serve(connection));
            }
        });
    }

    /// The number of requests that are being answered late, or not at all.
    pub fn waiting(&self) -> usize {
        self.shared.waiting.load(Ordering::SeqCst)
    }

    /// All requests that have been answered, or given up, in the order of their end.
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap().clone()
    }

    /// The same, which are then forgotten.
    pub fn take_asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.shared.asked.lock().unwrap())
    }
}

impl Drop for ObjectServer {
    fn drop(&mut self) {
        self.go_down();
    }
}

/// The length of the longest chain of requests in which each began after the one before had
/// ended.
pub fn longest_chain(asked: &[Asked]) -> usize {
    let mut by_end: Vec<&Asked> = asked.iter().collect();
    by_end.sort_by_key(|asked| asked.ended);
    let (mut count, mut last) = (0, None);
    for asked in by_end {
        if last.is_none_or(|last| asked.began >= last) {
            count += 1;
            last = Some(asked.ended);
        }
    }
    count
}

/// The bytes that were sent more than once, of each path.
pub fn sent_twice(asked: &[Asked]) -> Vec<(String, Range<u64>)> {
    let whole = asked.iter().filter(|asked| asked.status == 206);
    let mut ranges: Vec<(String, Range<u64>)> = whole
        .filter_map(|asked| Some((asked.path.clone(), asked.range.clone()?)))
        .collect();
    ranges.sort_by_key(|(path, range)| (path.clone(), range.start, range.end));
    let both = |pair: &[(String, Range<u64>)]| {
        let ((path, one), (other_path, other)) = (&pair[0], &pair[1]);
        (path == other_path && other.start < one.end)
            .then(|| (path.clone(), other.start..one.end.min(other.end)))
    };
    ranges.windows(2).filter_map(both).collect()
}

impl Shared {
    fn serve(&self, connection: TcpStream) {
        // It fails if the connection has ended.
        let Ok(known) = connection.try_clone() else {
            return;
        };
        self.connections.lock().unwrap().push(known);
        if self.is_down.load(Ordering::SeqCst) {
            let _ = connection.shutdown(Shutdown::Both);
        }
        let mut connection = BufReader::new(connection);
        while let Ok(Some(request)) = Request::read(&mut connection) {
            if self.respond(&request, &mut connection).is_err() {
                break;
            }
        }
        let _ = connection.get_ref().shutdown(Shutdown::Both);
    }

    /// The manner for a path; uses up one of its faults.
    fn manner(&self, path: &str) -> Manner {
        let mut manners = self.manners.lock().unwrap();
        let key = if manners.contains_key(path) { path } else { "" };
        let Some(manner) = manners.get_mut(key) else {
            return Manner::default();
        };
        let now = manner.clone();
        manner.fault = manner
            .fault
            .take()
            .and_then(|(fault, times)| Some((fault, times.checked_sub(1)?)));
        manner.fault = manner.fault.take().filter(|(_, times)| *times > 0);
        now
    }

    /// Answers a request. An error ends the connection.
    fn respond(&self, request: &Request, connection: &mut BufReader<TcpStream>) -> io::Result<()> {
        let began = Instant::now();
        let manner = self.manner(&request.path);
        let fault = manner.fault.as_ref().map(|(fault, _)| fault);
        let waits = if fault == Some(&Fault::Silence) {
            Duration::MAX
        } else {
            manner.delay
        };
        let mut asked = Asked {
            method: request.method.clone(),
            path: request.path.clone(),
            query: request.query.clone(),
            range: request.range(),
            headers: request.headers.clone(),
            status: 0,
            sent: 0,
            began,
            ended: began,
        };
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let is_there = is_there_after(waits, connection.get_mut());
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        let reply = if is_there {
            self.reply(request, &manner)
        } else {
            Err(io::ErrorKind::BrokenPipe.into())
        };
        if let Ok(reply) = &reply {
            asked.status = reply.status;
            asked.sent = reply.closes_after.unwrap_or(reply.body.len()) as u64;
        }
        asked.ended = Instant::now();
        self.asked.lock().unwrap().push(asked);
        let reply = reply?;
        let stream = connection.get_mut();
        stream.write_all(reply.head.as_bytes())?;
        if fault == Some(&Fault::Drip) {
            for byte in &reply.body {
                stream.write_all(&[*byte])?;
                if !is_there_after(Duration::from_secs(1), stream) {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
            }
            return Ok(());
        }
        if request.method != "HEAD" {
            stream.write_all(&reply.body[..reply.closes_after.unwrap_or(reply.body.len())])?;
        }
        if reply.closes_after.is_some() {
            Err(io::ErrorKind::ConnectionAborted.into())
        } else {
            Ok(())
        }
    }

    fn reply(&self, request: &Request, manner: &Manner) -> io::Result<Reply> {
        let fault = manner.fault.as_ref().map(|(fault, _)| fault);
        match fault {
            Some(Fault::Status(status, line)) => {
                let line = if line.is_empty() {
                    String::new()
                } else {
                    format!("{line}\r\n")
                };
                return Ok(Reply::new(*status, &line, b"no\n".to_vec()));
            }
            Some(Fault::ReadOnly) if !matches!(request.method.as_str(), "GET" | "HEAD") => {
                return Ok(Reply::new(403, "", b"no\n".to_vec()));
            }
            Some(Fault::Unless(key))
                if !request
                    .headers
                    .get("authorization")
                    .is_some_and(|sent| sent.contains(key)) =>
            {
                return Ok(Reply::new(403, "", b"no\n".to_vec()));
            }
            Some(Fault::Close) => return Err(io::ErrorKind::ConnectionAborted.into()),
            Some(Fault::Bytes(bytes)) => {
                return Ok(Reply {
                    status: 1,
                    head: String::new(),
                    closes_after: Some(bytes.len()),
                    body: bytes.clone(),
                });
            }
            _ => {}
        }
        match request.method.as_str() {
            "PUT" => return self.put(request),
            "POST" => return self.delete(request),
            _ => {}
        }
        let Ok(file) = File::open(self.folder.join(&request.path)) else {
            return Ok(Reply::new(404, "", b"not found\n".to_vec()));
        };
        let state = file.metadata()?;
        if !state.is_file() {
            return Ok(Reply::new(403, "", b"a folder\n".to_vec()));
        }
        let etag = format!(
            "\"{}-{}-{}-{}\"",
            state.ino(),
            state.len(),
            state.mtime(),
            state.mtime_nsec()
        );
        let asked = request.headers.get("if-match");
        if asked.is_some_and(|asked| *asked != etag) && !manner.ignores_match {
            return Ok(Reply::new(412, "", Vec::new()));
        }
        let modified = HttpDate::from(state.modified()?);
        let tags = match manner.tags {
            Tags::Strong => format!("ETag: {etag}\r\nLast-Modified: {modified}\r\n"),
            Tags::Weak => format!("ETag: W/{etag}\r\nLast-Modified: {modified}\r\n"),
            Tags::Times => format!("Last-Modified: {modified}\r\n"),
            Tags::None => String::new(),
        };
        let wanted = request.range().filter(|_| fault != Some(&Fault::Whole));
        let Some(wanted) = wanted else {
            let mut all = vec![0; usize::try_from(state.len()).unwrap()];
            file.read_exact_at(&mut all, 0)?;
            return Ok(Reply::new(200, &tags, all));
        };
        if wanted.start >= state.len() {
            return Ok(Reply::new(
                416,
                &format!("Content-Range: bytes */{}\r\n", state.len()),
                Vec::new(),
            ));
        }
        let end = wanted.end.min(state.len());
        let mut body = vec![0; usize::try_from(end - wanted.start).unwrap()];
        file.read_exact_at(&mut body, wanted.start)?;
        let half = body.len() / 2;
        let (mut first, mut total, mut closes_after) = (wanted.start, state.len(), None);
        match fault {
            Some(Fault::Short) => body.truncate(half),
            Some(Fault::Cut) => closes_after = Some(half),
            Some(Fault::Twice) => body.extend_from_within(..),
            Some(Fault::Stutter) => body.copy_within(..half, half),
            Some(Fault::Elsewhere) => first += 1,
            Some(Fault::Total(other)) => total = *other,
            _ => {}
        }
        let range = format!("{tags}Content-Range: bytes {first}-{}/{total}\r\n", end - 1);
        Ok(Reply {
            closes_after,
            ..Reply::new(206, &range, body)
        })
    }
}

impl Shared {
    /// Stores an object in one step.
    fn put(&self, request: &Request) -> io::Result<Reply> {
        let path = self.folder.join(&request.path);
        fs::create_dir_all(path.parent().unwrap())?;
        let next = path.with_extension("next");
        fs::write(&next, &request.body)?;
        fs::rename(&next, &path)?;
        Ok(Reply::new(200, "ETag: \"stored\"\r\n", Vec::new()))
    }

    /// Removes the objects that S3's request for several names.
    fn delete(&self, request: &Request) -> io::Result<Reply> {
        let body = String::from_utf8_lossy(&request.body);
        let keys = body
            .split("<Key>")
            .skip(1)
            .filter_map(|rest| rest.split("</Key>").next());
        let mut deleted = String::new();
        for key in keys {
            fs::remove_file(self.folder.join(&request.path).join(key))?;
            deleted += &format!("<Deleted><Key>{key}</Key></Deleted>");
        }
        let result = format!("<?xml version=\"1.0\"?><DeleteResult>{deleted}</DeleteResult>");
        Ok(Reply::new(
            200,
            "Content-Type: application/xml\r\n",
            result.into_bytes(),
        ))
    }
}

impl Reply {
    fn new(status: u16, lines: &str, body: Vec<u8>) -> Self {
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status} {status}\r\nContent-Length: {length}\r\nAccept-Ranges: bytes\r\n{lines}\r\n"
        );
        Self {
            status,
            head,
            body,
            closes_after: None,
        }
    }
}

impl Request {
    /// The next request; `None` at the end of the connection.
    fn read(connection: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut lines = connection.by_ref().lines();
        let Some(first) = lines.next().transpose()? else {
            return Ok(None);
        };
        let mut words = first.split(' ');
        let (method, target) = (
            words.next().unwrap_or_default(),
            words.next().unwrap_or_default(),
        );
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let path = percent_decode_str(path.trim_start_matches('/'))
            .decode_utf8_lossy()
            .into_owned();
        let mut headers = HashMap::new();
        for line in lines {
            let line = line?;
            let Some((name, value)) = line.split_once(':') else {
                break;
            };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let length = headers
            .get("content-length")
            .and_then(|length: &String| length.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        connection.read_exact(&mut body)?;
        Ok(Some(Self {
            method: method.to_owned(),
            path,
            query: query.to_owned(),
            headers,
            body,
        }))
    }

    fn range(&self) -> Option<Range<u64>> {
        let (first, last) = self
            .headers
            .get("range")?
            .strip_prefix("bytes=")?
            .split_once('-')?;
        Some(first.parse().ok()?..last.parse::<u64>().ok()? + 1)
    }
}

/// Whether the client is still connected after a while. It sends nothing before it has been
/// answered.
fn is_there_after(time: Duration, connection: &mut TcpStream) -> bool {
    if time.is_zero() {
        return true;
    }
    let limit = (time != Duration::MAX).then_some(time);
    let read = connection
        .set_read_timeout(limit)
        .and_then(|()| connection.read(&mut [0]));
    let is_there = matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
    is_there && connection.set_read_timeout(None).is_ok()
}
