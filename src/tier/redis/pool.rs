//! Connections to Redis. A separate thread makes them, so that commands wait for a limited time,
//! however long it takes to resolve the name, to connect and to log in.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use prometheus_client::metrics::gauge::Gauge;
use redis::{Cmd, RedisError, Value};
use voltile_base::flow::breaker::{Breaker, BreakerRule, Permit};
use voltile_base::flow::start_thread;

use super::connection::{Connection, is_answer};
use crate::config::RedisAddress;
use crate::tier::TierError;

/// The maximum number of connections. A lookup uses one for less than a millisecond.
const MAX_CONNECTIONS: usize = 8;
/// The breaker opens after three commands have waited for the server in vain.
const BREAKER_RULE: BreakerRule = BreakerRule {
    failures: 3,
    first_pause: Duration::from_millis(500),
    longest_pause: Duration::from_secs(10),
};

/// The connections to a server, made when they are needed.
pub(super) struct Pool {
    /// Shown without credentials.
    pub server: RedisAddress,
    /// The time limit of a lookup, and of each attempt to connect.
    pub limit: Duration,
    pub breaker: Breaker,
    /// 1 while the breaker is open.
    open: Gauge,
    state: Mutex<PoolState>,
    changed: Condvar,
}

#[derive(Default)]
struct PoolState {
    idle: Vec<Connection>,
    /// The number of connections that are idle or in use.
    connections: usize,
    /// The number of threads that wait for a connection.
    waiting: usize,
    /// Why the breaker is open.
    problem: Option<String>,
    is_closed: bool,
}

impl Pool {
    /// Starts the thread, and waits briefly until it is known whether the server answers.
    pub fn start(address: &RedisAddress, limit: Duration, open: Gauge) -> io::Result<Arc<Self>> {
        let pool = Arc::new(Self {
            server: address.clone(),
            limit,
            breaker: Breaker::opened(BREAKER_RULE),
            open,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        pool.open.set(1);
        let connecting = Arc::clone(&pool);
        start_thread("redis", move || connecting.connect())?;
        let mut state = pool.state.lock();
        pool.changed.wait_while_for(
            &mut state,
            |state| pool.breaker.is_open() && state.problem.is_none(),
            2 * limit,
        );
        drop(state);
        Ok(pool)
    }

    /// Ends the thread.
    pub fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Why the server is not asked at present; `None` while it is asked.
    pub fn problem(&self) -> Option<String> {
        if !self.breaker.is_open() {
            return None;
        }
        let problem = self.state.lock().problem.clone();
        Some(problem.unwrap_or_else(|| format!("{} has not answered yet", self.server)))
    }

    /// Runs a command and waits for its result for at most `within`; fails at once while the
    /// breaker is open.
    pub fn run(&self, command: &Cmd, within: Duration) -> Result<Value, TierError> {
        let until = Instant::now() + within;
        let permit = self.breaker.permit().ok_or(TierError::Resting)?;
        while let Some(mut connection) = self.take(until) {
            let result = connection.run(command, until);
            match result {
                Err(error) if !is_answer(&error) => {
                    self.state.lock().connections -= 1;
                    // The server may have closed the connection since its last command: then
                    // another one is tried.
                    if !error.is_connection_dropped() {
                        return Err(self.failed(permit, &describe(&error, within)));
                    }
                }
                answer => {
                    self.give(connection);
                    self.succeeded(permit);
                    return answer.map_err(|error| self.refused(&error));
                }
            }
        }
        Err(self.failed(permit, &timeout_message(within)))
    }

    /// The error for an answer that is not the expected one.
    pub fn refused(&self, error: &dyn ToString) -> TierError {
        TierError::Refused {
            server: self.server.to_string(),
            problem: error.to_string(),
        }
    }

    /// Makes connections: while somebody waits for one, and to find out whether the server answers
    /// again.
    fn connect(&self) {
        while let Some(permit) = self.next_attempt() {
            let connection =
                Connection::open(&self.server, self.limit).and_then(|mut connection| {
                    connection.run(&redis::cmd("PING"), Instant::now() + self.limit)?;
                    Ok(connection)
                });
            match connection {
                Ok(connection) => {
                    self.succeeded(permit);
                    self.state.lock().connections += 1;
                    self.give(connection);
                }
                Err(error) => drop(self.failed(permit, &describe(&error, self.limit))),
            }
        }
    }

    /// Waits until a connection is to be made; `None` at the end.
    fn next_attempt(&self) -> Option<Permit<'_>> {
        let mut state = self.state.lock();
        loop {
            if state.is_closed {
                return None;
            }
            let is_needed = state.waiting > state.idle.len() && state.connections < MAX_CONNECTIONS;
            if let Some(permit) = self.breaker.probe() {
                return Some(permit);
            }
            if is_needed && let Some(permit) = self.breaker.permit() {
                return Some(permit);
            }
            match self.breaker.until_probe() {
                Some(time) => drop(self.changed.wait_for(&mut state, time)),
                None => self.changed.wait(&mut state),
            }
        }
    }

    /// Waits for a connection; `None` if there is none in time, or the breaker opens.
    fn take(&self, until: Instant) -> Option<Connection> {
        let mut state = self.state.lock();
        state.waiting += 1;
        self.changed.notify_all();
        while state.idle.is_empty() && !self.breaker.is_open() && Instant::now() < until {
            self.changed.wait_until(&mut state, until);
        }
        state.waiting -= 1;
        state.idle.pop()
    }

    fn give(&self, connection: Connection) {
        self.state.lock().idle.push(connection);
        self.changed.notify_all();
    }

    /// Notes that the server has answered.
    fn succeeded(&self, permit: Permit<'_>) {
        if permit.succeeded() {
            self.open.set(0);
            if self.state.lock().problem.take().is_some() {
                tracing::info!("cache.redis: {} answers again", self.server);
            }
        }
    }

    /// Notes a failure, and returns the error about it.
    fn failed(&self, permit: Permit<'_>, problem: &str) -> TierError {
        let error = TierError::Unreachable {
            server: self.server.to_string(),
            problem: problem.to_owned(),
        };
        permit.failed();
        if self.breaker.is_open() {
            self.open.set(1);
            let mut state = self.state.lock();
            if state.problem.replace(error.to_string()).is_none() {
                tracing::warn!(
                    "cache.redis: {error}; tiles are served without it until it answers again"
                );
            }
            // The idle connections may have been closed, too.
            state.connections -= std::mem::take(&mut state.idle).len();
            self.changed.notify_all();
        }
        error
    }
}

/// The message for the error of a command that may take as long as `within`.
fn describe(error: &RedisError, within: Duration) -> String {
    // The system's own words for a timeout are "Resource temporarily unavailable".
    if error.is_timeout() {
        timeout_message(within)
    } else {
        error.to_string()
    }
}

fn timeout_message(within: Duration) -> String {
    format!("it did not answer within {within:?}")
}
