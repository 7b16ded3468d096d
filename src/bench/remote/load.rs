//! Connections that ask for tiles, each for one after the other, kept alive.

use std::collections::BTreeMap;
use std::io::Read;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ureq::Agent;

/// Longer than any tile takes that a person would wait for.
const PATIENCE: Duration = Duration::from_secs(60);
/// The most bytes of one answer.
const MOST_BYTES: u64 = 64 << 20;
/// How many requests in a row may have no answer before a client takes the server to be gone.
const MOST_UNANSWERED: u32 = 3;
/// Of so many requests that failed the reason is told.
const MOST_TOLD: usize = 5;

/// So many clients of one server.
pub(super) struct Load {
    agents: Vec<Agent>,
}

/// What came of asking.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub requests: u64,
    pub statuses: BTreeMap<u16, u64>,
    pub unanswered: u64,
    /// Of tiles alone.
    pub times: Vec<Duration>,
    pub bytes: u64,
    pub took: Duration,
    pub problems: Vec<String>,
    /// Why a client gave up.
    pub gone: Option<String>,
}

impl Load {
    /// Clients, none of which has asked yet.
    pub fn new(clients: NonZeroUsize) -> Self {
        let agent = || -> Agent {
            let config = Agent::config_builder().http_status_as_error(false).max_redirects(0);
            // One limit for a whole call would have each call look the host's name up, on a thread of its own.
            let config = config.max_redirects_will_error(false).timeout_connect(Some(PATIENCE));
            let config = config.timeout_recv_response(Some(PATIENCE)).timeout_recv_body(Some(PATIENCE));
            config.max_idle_connections(1).build().into()
        };
        Self { agents: std::iter::repeat_with(agent).take(clients.get()).collect() }
    }

    pub fn clients(&self) -> usize {
        self.agents.len()
    }

    /// Asks for each address once, in order, until the time is up.
    pub fn once(&self, urls: &[String], time: Duration) -> Loaded {
        self.ask(urls, urls.len(), time)
    }

    /// Asks for them again and again, until the time is up.
    pub fn again(&self, urls: &[String], time: Duration) -> Loaded {
        self.ask(urls, usize::MAX, time)
    }

    fn ask(&self, urls: &[String], most: usize, time: Duration) -> Loaded {
        let next = AtomicUsize::new(0);
        let began = Instant::now();
        let until = began + time;
        let mut all = std::thread::scope(|scope| {
            let clients = self.agents.iter().map(|agent| {
                let next = &next;
                scope.spawn(move || client(agent, urls, next, most, until))
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

/// What one client does: the next address that nobody has taken, until the time is up.
fn client(agent: &Agent, urls: &[String], next: &AtomicUsize, most: usize, until: Instant) -> Loaded {
    let (mut loaded, mut body, mut in_a_row) = (Loaded::default(), Vec::new(), 0);
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= most || (number > 0 && Instant::now() >= until) {
            return loaded;
        }
        let Some(url) = urls.get(number % urls.len().max(1)) else { return loaded };
        let began = Instant::now();
        loaded.requests += 1;
        match answer(agent, url, &mut body) {
            Ok(status) => {
                in_a_row = 0;
                *loaded.statuses.entry(status).or_default() += 1;
                if status == 200 {
                    loaded.times.push(began.elapsed());
                    loaded.bytes += body.len() as u64;
                } else {
                    loaded.tell(problem(url, status, &body));
                }
            }
            Err(error) => {
                loaded.unanswered += 1;
                in_a_row += 1;
                loaded.tell(format!("{url}: no answer: {error}"));
                if in_a_row >= MOST_UNANSWERED {
                    loaded.gone = Some(error);
                    return loaded;
                }
            }
        }
    }
}

/// The status of an answer, whose body is read to its end.
fn answer(agent: &Agent, url: &str, body: &mut Vec<u8>) -> Result<u16, String> {
    let mut response = agent.get(url).call().map_err(|e| e.to_string())?;
    body.clear();
    let reader = response.body_mut().with_config().limit(MOST_BYTES).reader();
    // Its memory is kept from one answer to the next.
    let mut reader = reader.take(MOST_BYTES);
    reader.read_to_end(body).map_err(|e| e.to_string())?;
    Ok(response.status().as_u16())
}

/// What a problem body says, as far as there is one.
fn problem(url: &str, status: u16, body: &[u8]) -> String {
    let detail: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let detail = detail.and_then(|body| Some(format!(": {}", body.get("detail")?.as_str()?)));
    format!("{url}: the status is {status}{}", detail.unwrap_or_default())
}

impl Loaded {
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
