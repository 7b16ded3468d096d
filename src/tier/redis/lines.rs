//! Connections to Redis, each with a thread that runs commands on it.
//!
//! A thread that still waits for a server's answer is busy, but nobody waits for it any longer than they want to.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use prometheus_client::metrics::gauge::Gauge;
use redis::{Cmd, RedisResult, Value};

use super::connection::{Connection, is_answer};
use crate::config::RedisAddress;
use crate::flow::breaker::{Breaker, Permit, Rule};
use crate::tier::TierError;

/// The number of connections. A lookup takes less than a millisecond of one.
const LINES: usize = 8;
/// The maximum number of commands that wait for a connection.
const MAX_WAITING: usize = 256;
/// Three tiles may wait for a server in vain.
const RULE: Rule =
    Rule { failures: 3, first_pause: Duration::from_millis(500), longest_pause: Duration::from_secs(10) };

/// The connections of a server, made when they are needed.
pub(super) struct Lines(Arc<Shared>);

struct Shared {
    /// Shown without credentials.
    server: RedisAddress,
    /// How long each connect, read and write may take.
    limit: Duration,
    breaker: Breaker,
    open: Gauge,
    /// Why the breaker is open.
    problem: Mutex<Option<String>>,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Task>,
    closed: bool,
}

struct Task {
    command: Cmd,
    /// Nobody waits for the result after this.
    until: Instant,
    /// `None`: nobody waits at all.
    answer: Option<SyncSender<RedisResult<Value>>>,
}

/// What a thread does next.
enum Next<'a> {
    Run(Task),
    Probe(Permit<'a>),
    End,
}

impl Lines {
    /// Starts the threads, and waits briefly until it is known whether the server answers.
    pub fn start(address: &RedisAddress, limit: Duration, open: Gauge) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            server: address.clone(),
            limit,
            breaker: Breaker::opened(RULE),
            open,
            problem: Mutex::default(),
            queue: Mutex::default(),
            changed: Condvar::new(),
        });
        shared.open.set(1);
        let (tried, is_tried) = sync_channel(1);
        shared.start(move |shared, line| {
            shared.breaker.probe().into_iter().for_each(|permit| shared.probe(line, permit));
            // Nobody waits for it if this took long.
            let _ = tried.send(());
        })?;
        // Whether the server answered is known to the breaker.
        let _ = is_tried.recv_timeout(2 * limit);
        for _ in 1..LINES {
            shared.start(|_, _| {})?;
        }
        Ok(Self(shared))
    }

    /// The server's address without credentials.
    pub fn server(&self) -> String {
        self.0.server.to_string()
    }

    /// Whether the server is not asked at present.
    pub fn is_resting(&self) -> bool {
        self.0.breaker.is_open()
    }

    /// Why the server is not asked, if it is not.
    pub fn problem(&self) -> Option<String> {
        if !self.0.breaker.is_open() {
            return None;
        }
        Some(self.0.problem().clone().unwrap_or_else(|| format!("{} has not answered yet", self.0.server)))
    }

    /// Runs a command, and waits for its result until then at most; not at all while the breaker is open.
    pub fn ask(&self, command: Cmd, until: Instant) -> Result<Value, TierError> {
        let shared = &self.0;
        let permit = shared.breaker.permit().ok_or(TierError::Resting)?;
        let (answer, result) = sync_channel(1);
        if !shared.queue(Task { command, until, answer: Some(answer) }) {
            return Err(shared.failed(permit, "too many commands wait for it".to_owned()));
        }
        match result.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Ok(value)) => {
                shared.succeeded(permit);
                Ok(value)
            }
            Ok(Err(error)) if is_answer(&error) => {
                shared.succeeded(permit);
                Err(TierError::Refused { server: shared.server.to_string(), problem: error.to_string() })
            }
            Ok(Err(error)) => Err(shared.failed(permit, error.to_string())),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                Err(shared.failed(permit, "it did not answer in time".to_owned()))
            }
        }
    }

    /// Runs a command some time; it is lost if the server cannot be reached.
    pub fn tell(&self, command: Cmd, until: Instant) {
        self.0.queue(Task { command, until, answer: None });
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.changed.notify_all();
    }
}

impl Shared {
    /// Starts a thread with a line of its own, which does something else first.
    fn start(
        self: &Arc<Self>,
        first: impl FnOnce(&Self, &mut Option<Connection>) + Send + 'static,
    ) -> io::Result<()> {
        let shared = Arc::clone(self);
        let work = move || {
            let mut line = None;
            first(&shared, &mut line);
            shared.work(&mut line);
        };
        thread::Builder::new().name("redis".to_owned()).spawn(work).map(drop)
    }

    /// Queues a command; returns whether there was room.
    fn queue(&self, task: Task) -> bool {
        let mut queue = self.lock();
        let has_room = queue.waiting.len() < MAX_WAITING;
        if has_room {
            queue.waiting.push_back(task);
            self.changed.notify_one();
        }
        has_room
    }

    fn work(&self, line: &mut Option<Connection>) {
        loop {
            match self.next() {
                Next::Run(Task { command, until, answer }) => {
                    if Instant::now() >= until {
                        continue;
                    }
                    let result = self.run(line, &command);
                    match answer {
                        // Ignore the error: nobody waits any more.
                        Some(answer) => drop(answer.send(result)),
                        None => drop(result.inspect_err(|error| {
                            tracing::debug!("{}: a command failed: {error}", self.server);
                        })),
                    }
                }
                Next::Probe(permit) => self.probe(line, permit),
                Next::End => return,
            }
        }
    }

    fn next(&self) -> Next<'_> {
        let mut queue = self.lock();
        loop {
            if queue.closed {
                return Next::End;
            }
            if let Some(task) = queue.waiting.pop_front() {
                return Next::Run(task);
            }
            if let Some(permit) = self.breaker.probe() {
                return Next::Probe(permit);
            }
            queue = match self.breaker.until_probe() {
                Some(time) => {
                    self.changed.wait_timeout(queue, time).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Runs a command on this line. A connection that was closed since its last command is made again once.
    fn run(&self, line: &mut Option<Connection>, command: &Cmd) -> RedisResult<Value> {
        if let Some(connection) = line {
            match connection.run(command) {
                Err(error) if is_answer(&error) => return Err(error),
                Err(error) => {
                    *line = None;
                    if !error.is_connection_dropped() {
                        return Err(error);
                    }
                }
                result => return result,
            }
        }
        let mut connection = Connection::to(&self.server, self.limit)?;
        let result = connection.run(command);
        if !result.as_ref().is_err_and(|error| !is_answer(error)) {
            *line = Some(connection);
        }
        result
    }

    /// Finds out on a new connection whether the server answers.
    fn probe(&self, line: &mut Option<Connection>, permit: Permit<'_>) {
        *line = None;
        match self.run(line, &redis::cmd("PING")) {
            Ok(_) => self.succeeded(permit),
            Err(error) => drop(self.failed(permit, error.to_string())),
        }
    }

    fn succeeded(&self, permit: Permit<'_>) {
        if permit.succeeded() {
            self.open.set(0);
            if self.problem().take().is_some() {
                tracing::info!("cache.redis: {} answers again", self.server);
            }
        }
    }

    fn failed(&self, permit: Permit<'_>, problem: String) -> TierError {
        let error = TierError::Unreachable { server: self.server.to_string(), problem };
        permit.failed();
        if self.breaker.is_open() {
            self.open.set(1);
            if self.problem().replace(error.to_string()).is_none() {
                tracing::warn!("cache.redis: {error}; tiles are served without it until it answers again");
            }
            // The threads are to see when the next probe is due: none may be between looking and waiting.
            drop(self.lock());
            self.changed.notify_one();
        }
        error
    }

    fn problem(&self) -> MutexGuard<'_, Option<String>> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
