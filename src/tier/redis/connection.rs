//! One connection to a Redis server: of an answer, no more than the longest entry is read, and in a limited time.
//!
//! Whoever listens at the address may send anything, and without end. The connections of the crate `redis` read on until its
//! parser has enough, so only the parser is used.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use redis::{Cmd, Parser, RedisError, RedisResult, Value, cmd};

use crate::config::RedisAddress;
use crate::tier::entry;

/// The most bytes that are read of an answer: an entry, its length, and line breaks.
const LONGEST: u64 = entry::LONGEST + 64;
/// A command and its answer may take so many times as long as one read.
const READS: u32 = 20;

pub(super) struct Connection {
    socket: Bounded,
    parser: Parser,
    /// How long a command and its answer may take.
    limit: Duration,
}

/// A socket of which a limited number of bytes can be read, and for a limited time.
struct Bounded {
    socket: TcpStream,
    left: u64,
    until: Instant,
}

impl Bounded {
    fn in_time(&mut self) -> io::Result<&mut TcpStream> {
        if Instant::now() >= self.until {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it takes too long"));
        }
        Ok(&mut self.socket)
    }
}

impl Read for Bounded {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = into.len().min(self.left as usize);
        if most == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "its answer is longer than any entry"));
        }
        let read = self.in_time()?.read(&mut into[..most])?;
        self.left -= read as u64;
        Ok(read)
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.in_time()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Connection {
    /// Connects, and logs in. Each attempt to connect, each read and each write takes at most `limit`.
    pub fn to(address: &RedisAddress, limit: Duration) -> RedisResult<Self> {
        let socket = connected(address, limit)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(limit))?;
        socket.set_write_timeout(Some(limit))?;
        let socket = Bounded { socket, left: 0, until: Instant::now() };
        let limit = limit.saturating_mul(READS);
        let mut connection = Self { socket, parser: Parser::new(), limit };
        if let Some(password) = &address.password {
            connection.log_in(cmd("AUTH").arg(&address.user).arg(password), "it refuses the password")?;
        }
        if address.database > 0 {
            connection.log_in(cmd("SELECT").arg(address.database), "it refuses the database")?;
        }
        Ok(connection)
    }

    /// The server's own words are left out: they might repeat the password.
    fn log_in(&mut self, command: &Cmd, refusal: &'static str) -> RedisResult<()> {
        self.run(command).map(drop).map_err(|error| match is_answer(&error) {
            true => (redis::ErrorKind::AuthenticationFailed, refusal).into(),
            false => error,
        })
    }

    /// Runs a command. After an error that is no answer, the connection must not be used again.
    pub fn run(&mut self, command: &Cmd) -> RedisResult<Value> {
        self.socket.until = Instant::now() + self.limit;
        self.socket.left = LONGEST;
        self.socket.write_all(&command.get_packed_command())?;
        self.parser.parse_value(&mut self.socket)?.extract_error()
    }
}

/// Connects to the first of the server's addresses that accepts.
fn connected(address: &RedisAddress, limit: Duration) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(io::ErrorKind::InvalidInput, "its name has no address");
    for address in (address.host.as_str(), address.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, limit) {
            Ok(socket) => return Ok(socket),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Whether the server answered with an error, so that the connection can be used again.
pub(super) fn is_answer(error: &RedisError) -> bool {
    matches!(error.kind(), redis::ErrorKind::Server(_) | redis::ErrorKind::Extension)
}
