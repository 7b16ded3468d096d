//! Redis as a cache of encoded tiles that several servers share.
//!
//! Each tile is one string with an expiry, in the format of a tile's file: its checksum is verified. Commands are run by
//! threads of their own ([`lines`]), and whoever asks waits for a limited time in all, whatever resolving the name,
//! connecting and reading take. When commands fail, a circuit breaker opens: nobody waits while it is open, and those
//! threads find out when the server is back.

mod connection;
mod lines;
#[cfg(test)]
mod tests;

use std::io;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::entry;
use super::marker::FORMAT;
use super::{TierError, TileTier};
use crate::config::RedisAddress;
use crate::metrics::TierCounters;
use crate::name::Name;
use crate::tile::TileKey;
use connection::{Answer, Command};
use lines::Lines;

/// How long a lookup may take. Also the limit of each connect, read and write.
const LOOKUP_TIMEOUT: Duration = Duration::from_millis(50);
/// How long a write may take in all: on a slow link, several times the limit of a lookup.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// Tiles in Redis.
pub struct Redis {
    lines: Lines,
    /// In seconds.
    expiry: u64,
    /// How long a lookup may take.
    limit: Duration,
}

impl Redis {
    /// Connects, at first in the background: a server that is away is used once it is there.
    pub fn open(address: &RedisAddress, expiry: Duration, counters: &TierCounters) -> io::Result<Self> {
        Self::with_limit(address, expiry, counters, LOOKUP_TIMEOUT)
    }

    fn with_limit(
        address: &RedisAddress,
        expiry: Duration,
        counters: &TierCounters,
        limit: Duration,
    ) -> io::Result<Self> {
        let lines = Lines::start(address, limit, counters.open.clone())?;
        Ok(Self { lines, expiry: expiry.as_secs().max(1), limit })
    }

    fn ask(&self, command: Command, within: Duration) -> Result<Answer, TierError> {
        self.lines.ask(command, Instant::now() + within)
    }

    fn unexpected(&self) -> TierError {
        let problem = "its answer is not one to this command".to_owned();
        TierError::Refused { server: self.lines.server(), problem }
    }
}

impl TileTier for Redis {
    fn get(&self, token: &Name, key: &TileKey) -> Result<Option<Bytes>, TierError> {
        let name = name_of(token, key);
        let stored = match self.ask(command("GET", &name), self.limit)? {
            Answer::Entry(stored) => stored,
            _ => return Err(self.unexpected()),
        };
        let opened = stored.map(|stored| entry::opened(key, stored)).transpose();
        opened.map_err(|problem| {
            // Without waiting: the tile is rendered, and replaces it.
            self.lines.tell(command("DEL", &name), Instant::now() + WRITE_TIMEOUT);
            TierError::Corrupt { place: format!("{name} in {}", self.lines.server()), problem }
        })
    }

    fn put(&self, token: &Name, key: &TileKey, png: &Bytes) -> Result<(), TierError> {
        let value = [png, &entry::trailer(key, png)[..]].concat();
        let mut command = command("SET", &name_of(token, key));
        command.extend([value, b"EX".to_vec(), self.expiry.to_string().into_bytes()]);
        match self.ask(command, WRITE_TIMEOUT.max(self.limit))? {
            Answer::Done => Ok(()),
            _ => Err(self.unexpected()),
        }
    }

    fn has(&self, token: &Name, key: &TileKey) -> Result<bool, TierError> {
        match self.ask(command("EXISTS", &name_of(token, key)), self.limit)? {
            Answer::Number(count) => Ok(count > 0),
            _ => Err(self.unexpected()),
        }
    }

    fn takes_writes(&self) -> bool {
        !self.lines.is_resting()
    }

    fn problem(&self) -> Option<String> {
        self.lines.problem()
    }
}

fn command(verb: &str, name: &str) -> Command {
    vec![verb.as_bytes().to_vec(), name.as_bytes().to_vec()]
}

/// The name of a tile's string, such as `voltile:1:brain:8d3f…`.
fn name_of(token: &Name, key: &TileKey) -> String {
    format!("voltile:{FORMAT}:{token}:{key}")
}
