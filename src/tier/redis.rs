//! Redis as a cache of encoded tiles that several servers share.
//!
//! Each tile is one string with an expiry, in the same format as a file of the disk cache; its
//! checksum is verified. No call waits longer than its time limit, because a separate thread makes
//! the connections ([`pool`]). When several commands have failed, a circuit breaker opens: all
//! calls fail at once until that thread finds that the server answers again.

mod connection;
mod pool;
#[cfg(test)]
pub(super) mod tests;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redis::Cmd;
use voltile_base::metrics::TierCounters;
use voltile_base::name::Name;
use voltile_base::tile::TileKey;

use super::entry::{self, FORMAT};
use super::{Backend, TierError};
use crate::config::RedisAddress;
use pool::Pool;

/// The time limit of a lookup, and of each attempt to connect.
const LOOKUP_TIMEOUT: Duration = Duration::from_millis(50);
/// The time limit of a write: longer, because on a slow link sending a tile takes a while.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// Tiles in Redis.
pub struct Redis {
    pool: Arc<Pool>,
    /// In seconds.
    expiry: u64,
}

impl Redis {
    /// Connects, at first in the background: a server that is away is used once it is there.
    pub fn open(
        address: &RedisAddress,
        expiry: Duration,
        counters: &TierCounters,
    ) -> io::Result<Self> {
        Self::with_limit(address, expiry, counters, LOOKUP_TIMEOUT)
    }

    fn with_limit(
        address: &RedisAddress,
        expiry: Duration,
        counters: &TierCounters,
        limit: Duration,
    ) -> io::Result<Self> {
        let pool = Pool::start(address, limit, counters.open.clone())?;
        Ok(Self {
            pool,
            expiry: expiry.as_secs().max(1),
        })
    }

    fn run<T: redis::FromRedisValue>(
        &self,
        command: &Cmd,
        within: Duration,
    ) -> Result<T, TierError> {
        let value = self.pool.run(command, within)?;
        redis::from_redis_value(value).map_err(|error| self.pool.refused(&error))
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.pool.close();
    }
}

impl Backend for Redis {
    fn get(&self, token: &Name, key: &TileKey) -> Result<Option<Bytes>, TierError> {
        let name = name_of(token, key);
        let stored: Option<Vec<u8>> = self.run(redis::cmd("GET").arg(&name), self.pool.limit)?;
        let png = stored.map(|stored| entry::verify(key, stored)).transpose();
        png.map_err(|problem| {
            let removed = self.run(redis::cmd("DEL").arg(&name), self.pool.limit);
            TierError::corrupt(format!("{name} in {}", self.pool.server), problem, removed)
        })
    }

    fn put(&self, token: &Name, key: &TileKey, png: &Bytes) -> Result<(), TierError> {
        let value = [png, &entry::trailer(key, png)[..]].concat();
        let mut command = redis::cmd("SET");
        command
            .arg(name_of(token, key))
            .arg(value)
            .arg("EX")
            .arg(self.expiry);
        self.run(&command, WRITE_TIMEOUT.max(self.pool.limit))
    }

    fn has(&self, token: &Name, key: &TileKey) -> Result<bool, TierError> {
        self.run(
            redis::cmd("EXISTS").arg(name_of(token, key)),
            self.pool.limit,
        )
    }

    fn takes_writes(&self) -> bool {
        !self.pool.breaker.is_open()
    }

    fn problem(&self) -> Option<String> {
        self.pool.problem()
    }
}

/// The name of a tile's string, such as `voltile:1:brain:8d3f…`.
fn name_of(token: &Name, key: &TileKey) -> String {
    format!("voltile:{FORMAT}:{token}:{key}")
}
