//! Warming a server that runs: every tile is asked for as a viewer would, and thrown away.
//!
//! Tiles are asked for with `Sec-Purpose: prefetch`, as browsers ask for what nobody looks at yet: the server then renders
//! no neighbours of them, and decodes chunks whole at once. What is refused for now is asked for again, later and later.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ureq::http::Method;

use super::estimate::{Drawn, Probe};
use super::run::{Filled, Hand, Stop};
use super::served::Served;
use crate::connection::{self, Connection};
use crate::request::TileRequest;
use crate::verify::{Answer, Client, NotAServer};

/// Says that nobody looks at the answer yet (the Fetch standard, section 3.7).
const PREFETCH: (&str, &str) = ("sec-purpose", "prefetch");
/// Asks for the entity tag alone: nothing is drawn for it.
const KNOWN: (&str, &str) = ("if-none-match", "*");
/// How long is waited before a tile is asked for again, at first and at most.
const SOON: Duration = Duration::from_millis(250);
const LATE: Duration = Duration::from_secs(15);
/// The longest wait that a server may ask for.
const LONGEST: Duration = Duration::from_secs(60);
/// The counters that tell what a server does for us.
pub const INFLATED: &str = "voltile_chunk_decoded_bytes_total";
/// The same for tiles drawn.
pub const DRAWN: &str = "voltile_renders_total";
/// The same for tiles removed from its cache directory.
pub const EVICTED: &str = "voltile_tier_evicted_total";
/// What every PNG begins with.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

/// A server that runs.
#[derive(Debug)]
pub struct Server {
    client: Client,
    /// Those over which nothing is asked just now: as many as threads ever asked at once.
    idle: Mutex<Vec<Connection>>,
    mount: String,
    tries: u32,
}

impl Server {
    /// The server at an address; a tile that is refused for now is asked for again so many times. Nothing is asked yet.
    pub fn new(url: &str, retries: u32) -> Result<Self, NotAServer> {
        let client = Client::new(url)?;
        Ok(Self { client, idle: Mutex::default(), mount: String::new(), tries: retries.saturating_add(1) })
    }

    /// Asks what is served.
    pub fn ask(&mut self) -> Result<Served, String> {
        let answer = self.client.get("/datasets.json")?.found()?;
        let served: Served = serde_json::from_slice(&answer.body).map_err(|e| {
            answer
                .wrong(format!("it cannot be read: {e}; is this a voltile of the same version as this one?"))
        })?;
        let mount = served.mounts.first().ok_or_else(|| answer.wrong("no mount is served"))?;
        self.mount = format!("/{}/tilecache", mount.tile_service);
        Ok(served)
    }

    /// The scheme and host.
    pub fn address(&self) -> &str {
        self.client.base()
    }

    /// What identifies a tile's bytes; nothing is drawn.
    pub fn entity_tag(&self, tile: &TileRequest) -> Result<String, String> {
        let answer = self.client.ask(&Method::GET, &self.path(tile), &[KNOWN, PREFETCH])?;
        let tag = answer.header("etag").map(str::to_owned);
        tag.ok_or_else(|| answer.wrong(format!("the status is {}, and there is no ETag", answer.status)))
    }

    /// Every counter of the server by name; none where they cannot be had.
    pub fn counters(&self) -> BTreeMap<String, u64> {
        let Ok(answer) = self.client.get("/metrics").and_then(Answer::found) else { return BTreeMap::new() };
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let pair = |line: &str| {
            let (name, value) = line.split_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        text.lines().filter(|line| !line.starts_with('#')).filter_map(pair).collect()
    }

    fn path(&self, tile: &TileRequest) -> String {
        format!("{}/{tile}", self.mount)
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.address())
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for a tile until it is not refused any more, as often as may be.
    fn ask_again(&self, connection: &mut Connection, path: &str, stop: &Stop) -> Filled {
        let mut last = Tried::Unanswered(String::new());
        for tried in 0..self.tries {
            if tried > 0 && stop.wait(last.wait(tried)) {
                return Filled::Stopped;
            }
            last = match connection.get(path, &[PREFETCH]) {
                Ok(answer) => match answered(&answer, || self.url(path)) {
                    Ok(filled) => return filled,
                    Err(refused) => refused,
                },
                Err(error) => Tried::Unanswered(format!("{}: no answer: {error}", self.url(path))),
            };
            if stop.is_told() {
                return Filled::Stopped;
            }
        }
        match last {
            Tried::Refused { why, .. } => Filled::Failed(why),
            Tried::Unanswered(why) => self.without_answer(why),
        }
    }

    /// Why a tile cannot be had that no answer came for: for its own sake, or because there is no server any more.
    fn without_answer(&self, why: String) -> Filled {
        match self.client.get("/healthz").and_then(Answer::found) {
            Ok(_) => Filled::Failed(why),
            Err(gone) => Filled::Over(format!("the server is gone: {gone}")),
        }
    }
}

/// A try that another one may better.
enum Tried {
    Refused { why: String, retry_after: Option<u64> },
    Unanswered(String),
}

impl Hand for Server {
    fn fill(&self, tile: &TileRequest, stop: &Stop) -> Filled {
        let kept = self.idle().pop();
        let mut connection = kept.unwrap_or_else(|| Connection::new(self.client.host()));
        let filled = self.ask_again(&mut connection, &self.path(tile), stop);
        self.idle().push(connection);
        filled
    }
}

impl Probe for Server {
    fn draw(&self, tile: &TileRequest) -> Option<Drawn> {
        let inflated = || self.counters().get(INFLATED).copied().unwrap_or_default();
        let before = inflated();
        let began = Instant::now();
        let filled = self.fill(tile, &Stop::default());
        let took = began.elapsed();
        let Filled::Made(bytes) = filled else { return None };
        Some(Drawn { bytes, inflated: inflated().saturating_sub(before), took })
    }
}

/// What came of an answer; or that it is to be asked for again.
fn answered(answer: &connection::Answer<'_>, url: impl Fn() -> String) -> Result<Filled, Tried> {
    let why = || format!("{}: {}", url(), answer.problem());
    match answer.status {
        200 if answer.body.starts_with(PNG) => Ok(Filled::Made(answer.body.len() as u64)),
        200 => Ok(Filled::Failed(format!("{}: its {} bytes are no PNG", url(), answer.body.len()))),
        status if is_for_now(status) => {
            let retry_after = answer.header("retry-after").and_then(|value| value.trim().parse().ok());
            Err(Tried::Refused { why: why(), retry_after })
        }
        _ => Ok(Filled::Failed(why())),
    }
}

/// Whether another try may end better: too much is asked of the server, or of what stands before it.
fn is_for_now(status: u16) -> bool {
    matches!(status, 408 | 429 | 502 | 503 | 504)
}

impl Tried {
    /// How long to wait after so many tries: what the server says, or twice as long every time.
    fn wait(&self, tried: u32) -> Duration {
        let own = SOON.saturating_mul(1 << (tried - 1).min(10)).min(LATE);
        match self {
            Tried::Refused { retry_after: Some(seconds), .. } => {
                Duration::from_secs(*seconds).clamp(own.min(LONGEST), LONGEST)
            }
            _ => own,
        }
    }
}
