//! One connection to a Redis server. Answers are limited in time, and to the length of the longest
//! entry.
//!
//! Whoever listens at the address may send anything, without end. The `redis` crate's own
//! connections have no such limit, so only the crate's parser is used.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use redis::{Cmd, Parser, RedisError, RedisResult, Value, cmd};

use crate::config::RedisAddress;
use crate::tier::entry;

/// The maximum length of an answer: an entry, its length, and line breaks.
const MAX_ANSWER: u64 = entry::MAX_LENGTH + 64;
/// Logging in may take this many times as long as connecting.
const LOGIN_FACTOR: u32 = 20;

pub(super) struct Connection {
    socket: BoundedSocket,
    parser: Parser,
}

/// A socket from which a limited number of bytes can be read, and for a limited time.
struct BoundedSocket {
    socket: TcpStream,
    /// The number of bytes that may still be read.
    bytes_left: u64,
    /// Later reads and writes fail.
    deadline: Instant,
}

impl BoundedSocket {
    fn time_left(&self) -> io::Result<Option<Duration>> {
        match self.deadline.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::Error::new(
                ErrorKind::TimedOut,
                "it did not answer in time",
            )),
            time => Ok(Some(time)),
        }
    }
}

impl Read for BoundedSocket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = into.len().min(self.bytes_left as usize);
        if most == 0 {
            return Err(io::Error::new(
                ErrorKind::InvalidData,
                "its answer is longer than any entry",
            ));
        }
        self.socket.set_read_timeout(self.time_left()?)?;
        let read = self.socket.read(&mut into[..most])?;
        self.bytes_left -= read as u64;
        Ok(read)
    }
}

impl Write for BoundedSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(self.time_left()?)?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Connection {
    /// Connects, and logs in. Each attempt to connect takes at most `limit`.
    pub fn open(address: &RedisAddress, limit: Duration) -> RedisResult<Self> {
        let socket = connect(address, limit)?;
        socket.set_nodelay(true)?;
        let until = Instant::now() + limit.saturating_mul(LOGIN_FACTOR);
        let mut connection = Self {
            socket: BoundedSocket {
                socket,
                bytes_left: 0,
                deadline: until,
            },
            parser: Parser::new(),
        };
        if let Some(password) = &address.password {
            let command = cmd("AUTH").arg(&address.user).arg(password).to_owned();
            connection.log_in(&command, until, "it refuses the password")?;
        }
        if address.database > 0 {
            let command = cmd("SELECT").arg(address.database).to_owned();
            connection.log_in(&command, until, "it refuses the database")?;
        }
        Ok(connection)
    }

    /// Runs a command. If the server refuses it, the error says `refusal` and not the server's own
    /// words, which might repeat the password.
    fn log_in(&mut self, command: &Cmd, until: Instant, refusal: &'static str) -> RedisResult<()> {
        match self.run(command, until) {
            Ok(_) => Ok(()),
            Err(error) if is_answer(&error) => {
                Err((redis::ErrorKind::AuthenticationFailed, refusal).into())
            }
            Err(error) => Err(error),
        }
    }

    /// Runs a command. After any error that the server has not sent itself
    /// ([`is_answer`]), the connection must not be used again.
    pub fn run(&mut self, command: &Cmd, until: Instant) -> RedisResult<Value> {
        self.socket.deadline = until;
        self.socket.bytes_left = MAX_ANSWER;
        self.socket.write_all(&command.get_packed_command())?;
        self.parser.parse_value(&mut self.socket)?.extract_error()
    }
}

/// Connects to the first of the server's addresses that accepts.
fn connect(address: &RedisAddress, limit: Duration) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(ErrorKind::InvalidInput, "its name has no address");
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
    matches!(
        error.kind(),
        redis::ErrorKind::Server(_) | redis::ErrorKind::Extension
    )
}
