//! Kept-alive connections, each of which requests one tile after the other.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::connection::{Answer, Connection};

/// Requests in a row without a response after which a client assumes the server is gone.
const MOST_UNANSWERED: u32 = 3;
/// The number of failed requests whose reason is reported.
const MOST_TOLD: usize = 5;

/// A number of clients of one server.
pub(super) struct Load {
    /// The prefix of paths in messages.
    base: String,
    connections: Vec<Connection>,
}

/// The result of a run.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub requests: u64,
    pub statuses: BTreeMap<u16, u64>,
    pub unanswered: u64,
    /// Times of successful requests.
    pub times: Vec<Duration>,
    pub bytes: u64,
    pub took: Duration,
    pub problems: Vec<String>,
    /// Why a client gave up.
    pub gone: Option<String>,
}

impl Load {
    /// Clients of a host, not connected yet.
    pub fn new(host: &str, clients: NonZeroUsize) -> Self {
        let connections = std::iter::repeat_with(|| Connection::new(host)).take(clients.get()).collect();
        Self { base: format!("http://{host}"), connections }
    }

    pub fn clients(&self) -> usize {
        self.connections.len()
    }

    /// Requests each path once, in order, until the time is up.
    pub fn once(&mut self, paths: &[String], time: Duration) -> Loaded {
        self.ask(paths, paths.len(), time)
    }

    /// Requests the paths repeatedly, until the time is up.
    pub fn again(&mut self, paths: &[String], time: Duration) -> Loaded {
        self.ask(paths, usize::MAX, time)
    }

    fn ask(&mut self, paths: &[String], most: usize, time: Duration) -> Loaded {
        let (next, base) = (AtomicUsize::new(0), &self.base);
        let began = Instant::now();
        let until = began + time;
        let mut all = std::thread::scope(|scope| {
            let clients = self.connections.iter_mut().map(|connection| {
                let next = &next;
                scope.spawn(move || client(connection, base, paths, next, most, until))
            });
            let clients: Vec<_> = clients.collect();
            let mut all = Loaded::default();
            for client in clients {
                match client.join() {
                    Ok(loaded) => all.add(loaded),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            all
        });
        all.took = began.elapsed();
        all
    }
}

/// The loop of one client: requests the next path not taken by another client, until the time is up.
fn client(
    connection: &mut Connection,
    base: &str,
    paths: &[String],
    next: &AtomicUsize,
    most: usize,
    until: Instant,
) -> Loaded {
    let (mut loaded, mut in_a_row) = (Loaded::default(), 0);
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= most || (number > 0 && Instant::now() >= until) {
            return loaded;
        }
        let Some(path) = paths.get(number % paths.len().max(1)) else { return loaded };
        let began = Instant::now();
        loaded.requests += 1;
        match connection.get(path, &[]) {
            Ok(answer) => {
                in_a_row = 0;
                loaded.answered(answer, began, || format!("{base}{path}"));
            }
            Err(error) => {
                loaded.unanswered += 1;
                in_a_row += 1;
                loaded.tell(format!("{base}{path}: no answer: {error}"));
                if in_a_row >= MOST_UNANSWERED {
                    loaded.gone = Some(error.to_string());
                    return loaded;
                }
            }
        }
    }
}

impl Loaded {
    fn answered(&mut self, answer: Answer<'_>, began: Instant, url: impl FnOnce() -> String) {
        *self.statuses.entry(answer.status).or_default() += 1;
        if answer.status == 200 {
            self.times.push(began.elapsed());
            self.bytes += answer.body.len() as u64;
        } else {
            self.tell(format!("{}: {}", url(), answer.problem()));
        }
    }

    fn tell(&mut self, problem: String) {
        if self.problems.len() < MOST_TOLD {
            self.problems.push(problem);
        }
    }

    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        other
            .statuses
            .into_iter()
            .for_each(|(status, count)| *self.statuses.entry(status).or_default() += count);
        self.unanswered += other.unanswered;
        self.times.extend(other.times);
        self.bytes += other.bytes;
        other.problems.into_iter().for_each(|problem| self.tell(problem));
        self.gone = self.gone.take().or(other.gone);
    }
}
