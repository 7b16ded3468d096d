//! Kept-alive connections, each of which requests one tile after the other.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::tools::client::{Answer, Client, Method};

/// Requests in a row without a response after which a client assumes the server is gone.
const MAX_UNANSWERED: u32 = 3;
/// The number of failed requests whose reason is reported.
const MAX_TOLD: usize = 5;

/// A number of clients of one server, with a connection each.
pub(super) struct Load {
    clients: Vec<Client>,
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
    /// Clients of the same server as another, not connected yet.
    pub fn new(like: &Client, clients: NonZeroUsize) -> Self {
        Self { clients: std::iter::repeat_with(|| like.another()).take(clients.get()).collect() }
    }

    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Requests each path once, in order, until the time is up.
    pub fn once(&self, paths: &[String], time: Duration) -> Loaded {
        self.ask(paths, paths.len(), time)
    }

    /// Requests the paths repeatedly, until the time is up.
    pub fn again(&self, paths: &[String], time: Duration) -> Loaded {
        self.ask(paths, usize::MAX, time)
    }

    fn ask(&self, paths: &[String], most: usize, time: Duration) -> Loaded {
        let next = AtomicUsize::new(0);
        let began = Instant::now();
        let until = began + time;
        let mut all = std::thread::scope(|scope| {
            let next = &next;
            let start = |client| scope.spawn(move || load(client, paths, next, most, until));
            let clients: Vec<_> = self.clients.iter().map(start).collect();
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
fn load(client: &Client, paths: &[String], next: &AtomicUsize, most: usize, until: Instant) -> Loaded {
    let (mut loaded, mut in_a_row, mut memory) = (Loaded::default(), 0, Vec::new());
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= most || (number > 0 && Instant::now() >= until) {
            return loaded;
        }
        let Some(path) = paths.get(number % paths.len().max(1)) else { return loaded };
        let began = Instant::now();
        loaded.requests += 1;
        match client.ask_into(std::mem::take(&mut memory), &Method::GET, path, &[]) {
            Ok(answer) => {
                in_a_row = 0;
                loaded.answered(&answer, began);
                memory = answer.body;
            }
            Err(error) => {
                loaded.unanswered += 1;
                in_a_row += 1;
                loaded.tell(error.to_string());
                if in_a_row >= MAX_UNANSWERED {
                    loaded.gone = Some(error.problem);
                    return loaded;
                }
            }
        }
    }
}

impl Loaded {
    fn answered(&mut self, answer: &Answer, began: Instant) {
        *self.statuses.entry(answer.status).or_default() += 1;
        if answer.status == 200 {
            self.times.push(began.elapsed());
            self.bytes += answer.body.len() as u64;
        } else {
            self.tell(answer.problem());
        }
    }

    fn tell(&mut self, problem: String) {
        if self.problems.len() < MAX_TOLD {
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
