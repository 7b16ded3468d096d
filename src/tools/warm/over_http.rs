//! Warming a running server: every tile is requested as by a viewer, and the response discarded.
//!
//! Requests carry `Sec-Purpose: prefetch`, as browsers send for content not yet visible: the server then
//! prefetches no neighbours of them, and decodes chunks whole at once. A tile refused as busy is retried with
//! growing pauses.

use std::time::Duration;

use super::run::{Counters, Outcome, Producer, Stop};
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
/// The PNG signature.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

/// A running server.
#[derive(Debug)]
pub struct Server {
    client: Client,
    /// The prefix of tile paths.
    below: String,
    retries: u32,
}

impl Server {
    /// The server at a URL; a tile refused as busy is retried this many times. Sends nothing yet.
    pub fn new(url: &str, retries: u32) -> Result<Self, NotAServer> {
        let client = Client::new(url)?;
        Ok(Self { client, below: String::new(), retries })
    }

    /// Requests the description.
    pub fn describe(&mut self) -> Result<SiteDescription, String> {
        let site = self.client.description()?;
        self.below = site.tilecache();
        Ok(site)
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
enum Failure {
    Refused { why: String, retry_after: Option<u64> },
    NoAnswer(String),
}

impl Producer for Server {
    fn fill(&self, tile: &TileRequest, stop: &Stop) -> Outcome {
        let path = format!("{}/{tile}", self.below);
        let mut retries = 0;
        loop {
            let failure = match self.client.ask(&Method::GET, &path, &[PREFETCH]) {
                Ok(answer) => match read(&answer) {
                    Ok(outcome) => return outcome,
                    Err(refused) => refused,
                },
                Err(error) => Failure::NoAnswer(error.to_string()),
            };
            if stop.is_requested() || retries < self.retries && stop.wait(failure.pause(retries)) {
                return Outcome::Stopped;
            }
            if retries == self.retries {
                return match failure {
                    Failure::Refused { why, .. } => Outcome::Failed(why),
                    Failure::NoAnswer(why) => self.without_answer(why),
                };
            }
            retries += 1;
        }
    }

    fn counters(&self) -> Option<Counters> {
        let answer = self.client.get("/metrics").ok()?.found().ok()?;
        let text = String::from_utf8_lossy(&answer.body);
        let count = |name: &str| {
            let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
            text.lines().find_map(value)
        };
        Some(Counters {
            evicted: count("voltile_tier_evicted_total")?,
            bytes_inflated: count("voltile_chunk_decoded_bytes_total")?,
        })
    }
}

/// The result of a response, or a reason to retry.
fn read(answer: &Answer) -> Result<Outcome, Failure> {
    match answer.status {
        200 if answer.body.starts_with(PNG) => Ok(Outcome::Rendered(answer.body.len() as u64)),
        200 => Ok(Outcome::Failed(answer.wrong(format!("its {} bytes are not a PNG", answer.body.len())))),
        408 | 429 | 502 | 503 | 504 => {
            let retry_after = answer.header("retry-after").and_then(|value| value.trim().parse().ok());
            Err(Failure::Refused { why: answer.problem(), retry_after })
        }
        _ => Ok(Outcome::Failed(answer.problem())),
    }
}

impl Failure {
    /// The pause before the next attempt, after this many retries: what the server says, or twice the previous one.
    fn pause(&self, retries: u32) -> Duration {
        let own = SOON.saturating_mul(1 << retries.min(10)).min(LATE);
        match self {
            Failure::Refused { retry_after: Some(seconds), .. } => {
                Duration::from_secs(*seconds).clamp(own, MAX_PAUSE)
            }
            _ => own,
        }
    }
}
