//! One connection to a Redis server: commands, and their answers, in its protocol (RESP2).
//!
//! Only the kinds of answers that voltile's commands have are understood. Whoever listens at the address may send anything,
//! so an answer is read no further than the longest one that is right, and must be complete in a limited time.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use crate::config::RedisAddress;
use crate::tier::entry;

/// The longest line, in bytes: a length, a number, a status or an error.
const LONGEST_LINE: u64 = 4 << 10;
/// What is wrong with bytes that are no answer.
const NOT_REDIS: &str = "its answer is not that of a Redis server";
/// A command and its whole answer may take so many times as long as one read.
const READS: u32 = 20;

/// The name of a command, and its arguments.
pub(super) type Command = Vec<Vec<u8>>;

/// What a server answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// That it has done what it was told.
    Done,
    /// A number.
    Number(i64),
    /// A string, no longer than the longest entry; `None` if there is none of that name.
    Entry(Option<Vec<u8>>),
}

/// Why a command has no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The server says what is wrong. The connection can be used again.
    #[error("{0}")]
    Refused(String),
    /// The connection failed, or what came is no answer. It must not be used again.
    #[error(transparent)]
    Broken(#[from] io::Error),
}

impl Failure {
    /// Whether the server had closed the connection.
    pub fn is_closed(&self) -> bool {
        use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, UnexpectedEof};
        let closed = [BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, UnexpectedEof];
        matches!(self, Failure::Broken(error) if closed.contains(&error.kind()))
    }
}

#[derive(Debug)]
pub(super) struct Connection {
    input: BufReader<Timed>,
    /// How long a command and its whole answer may take.
    limit: Duration,
}

/// A socket that is neither read nor written to after a point in time.
#[derive(Debug)]
struct Timed {
    socket: TcpStream,
    until: Instant,
}

impl Timed {
    fn in_time(&mut self) -> io::Result<&mut TcpStream> {
        if Instant::now() >= self.until {
            return Err(io::Error::new(ErrorKind::TimedOut, "it takes too long"));
        }
        Ok(&mut self.socket)
    }
}

impl Read for Timed {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.in_time()?.read(into)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.in_time()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Connection {
    /// Connects, and logs in. Each attempt to connect, each read and each write takes at most `limit`.
    pub fn to(address: &RedisAddress, limit: Duration) -> Result<Self, Failure> {
        let socket = connected(address, limit)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(limit))?;
        socket.set_write_timeout(Some(limit))?;
        let input = BufReader::new(Timed { socket, until: Instant::now() });
        let mut connection = Self { input, limit: limit.saturating_mul(READS) };
        // Its own words are left out: they might repeat the password.
        let refused = |failure, what: &str| match failure {
            Failure::Refused(_) => io::Error::other(format!("it refuses {what} of its address")).into(),
            broken => broken,
        };
        if let Some(password) = &address.password {
            let words = [Some("AUTH"), address.user.as_deref(), Some(password)];
            let command: Command = words.into_iter().flatten().map(|word| word.as_bytes().to_vec()).collect();
            connection.run(&command).map_err(|failure| refused(failure, "user and password"))?;
        }
        if address.database > 0 {
            let command = vec![b"SELECT".to_vec(), address.database.to_string().into_bytes()];
            connection.run(&command).map_err(|failure| refused(failure, "the database"))?;
        }
        Ok(connection)
    }

    /// Runs a command.
    pub fn run(&mut self, command: &Command) -> Result<Answer, Failure> {
        if !self.input.buffer().is_empty() {
            return Err(wrong("it sends what it was not asked for").into());
        }
        let mut text = format!("*{}\r\n", command.len()).into_bytes();
        for word in command {
            text.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            text.extend_from_slice(word);
            text.extend_from_slice(b"\r\n");
        }
        let timed = self.input.get_mut();
        timed.until = Instant::now() + self.limit;
        timed.write_all(&text)?;
        self.answer()
    }

    fn answer(&mut self) -> Result<Answer, Failure> {
        let line = self.line()?;
        let (kind, rest) = line.split_at_checked(1).unwrap_or_default();
        let number = || rest.parse::<i64>().map_err(|_| wrong(NOT_REDIS));
        match kind {
            "+" => Ok(Answer::Done),
            "-" => Err(Failure::Refused(rest.to_owned())),
            ":" => Ok(Answer::Number(number()?)),
            "$" => match number()? {
                -1 => Ok(Answer::Entry(None)),
                length => Ok(Answer::Entry(Some(self.entry(length)?))),
            },
            _ => Err(wrong(NOT_REDIS).into()),
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        self.input.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let text = line.strip_suffix(b"\r\n").ok_or_else(|| wrong(NOT_REDIS))?;
        Ok(String::from_utf8_lossy(text).into_owned())
    }

    fn entry(&mut self, length: i64) -> io::Result<Vec<u8>> {
        let fits = u64::try_from(length).ok().filter(|length| *length <= entry::LONGEST);
        let length = fits.ok_or_else(|| {
            wrong(&format!("its answer has {length} bytes, and no entry has more than {}", entry::LONGEST))
        })?;
        let mut bytes = vec![0; length as usize + 2];
        self.input.read_exact(&mut bytes)?;
        match bytes.ends_with(b"\r\n") {
            true => bytes.truncate(length as usize),
            false => return Err(wrong(NOT_REDIS)),
        }
        Ok(bytes)
    }
}

fn wrong(problem: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, problem)
}

/// Connects to the first of the server's addresses that accepts.
fn connected(address: &RedisAddress, limit: Duration) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(ErrorKind::NotFound, "its name has no address");
    for address in (address.host.as_str(), address.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, limit) {
            Ok(socket) => return Ok(socket),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}
