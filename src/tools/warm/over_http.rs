//! Warming a running server: every tile is requested as by a viewer, and the response discarded.
//!
//! Requests carry `Sec-Purpose: prefetch`, as browsers send for content not yet visible: the server then
//! prefetches no neighbours of them, and decodes chunks whole at once. A tile refused as busy is retried with
//! growing pauses.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::estimate::{Probe, Sample};
use super::run::{Outcome, Producer, Stop};
use crate::base::description::SiteDescription;
use crate::base::request::TileRequest;
use crate::tools::client::{Answer, Client, Method, NotAServer};

/// Marks a request as a prefetch (the Fetch standard, section 3.7).
const PREFETCH: (&str, &str) = ("sec-purpose", "prefetch");
/// The pause before a retry, at first and at most.
const SOON: Duration = Duration::from_millis(250);
const LATE: Duration = Duration::from_secs(15);
/// The longest pause accepted from the server.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// The counter of inflated bytes.
pub const INFLATED: &str = "voltile_chunk_decoded_bytes_total";
/// The counter of tiles drawn.
pub const DRAWN: &str = "voltile_renders_total";
/// The counter of tiles evicted from the disk cache.
pub const EVICTED: &str = "voltile_tier_evicted_total";
/// The PNG signature.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

/// A running server.
#[derive(Debug)]
pub struct Server {
    client: Client,
    /// The prefix of tile paths.
    below: String,
    tries: u32,
}

impl Server {
    /// The server at a URL; a tile refused as busy is retried this many times. Sends nothing yet.
    pub fn new(url: &str, retries: u32) -> Result<Self, NotAServer> {
        let client = Client::new(url)?;
        Ok(Self { client, below: String::new(), tries: retries.saturating_add(1) })
    }

    /// Requests the description.
    pub fn ask(&mut self) -> Result<SiteDescription, String> {
        let site = self.client.description()?;
        self.below = site.tilecache();
        Ok(site)
    }

    /// All counters of the server by name; empty if unavailable.
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
        format!("{}/{tile}", self.below)
    }

    /// Requests a tile, with retries.
    fn ask_again(&self, path: &str, stop: &Stop) -> Outcome {
        let mut last = Tried::Unanswered(String::new());
        for tried in 0..self.tries {
            if tried > 0 && stop.wait(last.wait(tried)) {
                return Outcome::Stopped;
            }
            last = match self.client.ask(&Method::GET, path, &[PREFETCH]) {
                Ok(answer) => match answered(&answer) {
                    Ok(outcome) => return outcome,
                    Err(refused) => refused,
                },
                Err(error) => Tried::Unanswered(error.to_string()),
            };
            if stop.is_requested() {
                return Outcome::Stopped;
            }
        }
        match last {
            Tried::Refused { why, .. } => Outcome::Failed(why),
            Tried::Unanswered(why) => self.without_answer(why),
        }
    }

    /// Why a tile got no response: this tile failed, or the server is gone.
    fn without_answer(&self, why: String) -> Outcome {
        match self.client.get("/healthz").and_then(Answer::found) {
            Ok(_) => Outcome::Failed(why),
            Err(gone) => Outcome::Over(format!("the server is gone: {gone}")),
        }
    }
}

/// A failed attempt that may be retried.
enum Tried {
    Refused { why: String, retry_after: Option<u64> },
    Unanswered(String),
}

impl Producer for Server {
    fn fill(&self, tile: &TileRequest, stop: &Stop) -> Outcome {
        self.ask_again(&self.path(tile), stop)
    }
}

impl Probe for Server {
    fn render(&self, tile: &TileRequest) -> Option<Sample> {
        let inflated = || self.counters().get(INFLATED).copied().unwrap_or_default();
        let before = inflated();
        let began = Instant::now();
        let outcome = self.fill(tile, &Stop::default());
        let took = began.elapsed();
        let Outcome::Rendered(bytes) = outcome else { return None };
        Some(Sample { bytes, inflated: inflated().saturating_sub(before), took })
    }
}

/// The result of a response, or a reason to retry.
fn answered(answer: &Answer) -> Result<Outcome, Tried> {
    match answer.status {
        200 if answer.body.starts_with(PNG) => Ok(Outcome::Rendered(answer.body.len() as u64)),
        200 => Ok(Outcome::Failed(answer.wrong(format!("its {} bytes are not a PNG", answer.body.len())))),
        status if is_for_now(status) => {
            let retry_after = answer.header("retry-after").and_then(|value| value.trim().parse().ok());
            Err(Tried::Refused { why: answer.problem(), retry_after })
        }
        _ => Ok(Outcome::Failed(answer.problem())),
    }
}

/// Whether a retry may succeed: the server, or a proxy in front of it, is overloaded.
fn is_for_now(status: u16) -> bool {
    matches!(status, 408 | 429 | 502 | 503 | 504)
}

impl Tried {
    /// The pause after `tried` attempts: what the server says, or twice the previous one.
    fn wait(&self, tried: u32) -> Duration {
        let own = SOON.saturating_mul(1 << (tried - 1).min(10)).min(LATE);
        match self {
            Tried::Refused { retry_after: Some(seconds), .. } => {
                Duration::from_secs(*seconds).clamp(own.min(MAX_PAUSE), MAX_PAUSE)
            }
            _ => own,
        }
    }
}
