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
use redis::Cmd;

use super::entry::{self, FORMAT};
use super::{TierError, TileTier};
use crate::base::name::Name;
use crate::base::tile::TileKey;
use crate::config::RedisAddress;
use crate::metrics::TierCounters;
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

    fn ask<T: redis::FromRedisValue>(&self, command: Cmd, within: Duration) -> Result<T, TierError> {
        let value = self.lines.ask(command, Instant::now() + within)?;
        redis::from_redis_value(value)
            .map_err(|error| TierError::Refused { server: self.lines.server(), problem: error.to_string() })
    }
}

impl TileTier for Redis {
    fn get(&self, token: &Name, key: &TileKey) -> Result<Option<Bytes>, TierError> {
        let name = name_of(token, key);
        let stored: Option<Vec<u8>> = self.ask(redis::cmd("GET").arg(&name).to_owned(), self.limit)?;
        let opened = stored.map(|stored| entry::opened(key, stored)).transpose();
        opened.map_err(|problem| {
            // Without waiting: the tile is rendered, and replaces it.
            self.lines.tell(redis::cmd("DEL").arg(&name).to_owned(), Instant::now() + WRITE_TIMEOUT);
            TierError::Corrupt { place: format!("{name} in {}", self.lines.server()), problem }
        })
    }

    fn put(&self, token: &Name, key: &TileKey, png: &Bytes) -> Result<(), TierError> {
        let value = [png, &entry::trailer(key, png)[..]].concat();
        let mut command = redis::cmd("SET");
        command.arg(name_of(token, key)).arg(value).arg("EX").arg(self.expiry);
        self.ask(command, WRITE_TIMEOUT.max(self.limit))
    }

    fn has(&self, token: &Name, key: &TileKey) -> Result<bool, TierError> {
        self.ask(redis::cmd("EXISTS").arg(name_of(token, key)).to_owned(), self.limit)
    }

    fn takes_writes(&self) -> bool {
        !self.lines.is_resting()
    }

    fn problem(&self) -> Option<String> {
        self.lines.problem()
    }
}

/// The name of a tile's string, such as `voltile:1:brain:8d3f…`.
fn name_of(token: &Name, key: &TileKey) -> String {
    format!("voltile:{FORMAT}:{token}:{key}")
}
