//! Warming a running server: every tile is requested as by a viewer, and the response discarded.
//!
//! Requests carry `Sec-Purpose: prefetch`, as browsers send for content not yet visible: the server
//! then prefetches no neighbours of them, and decodes chunks whole at once. A tile refused as busy
//! is retried with growing pauses.

use std::time::Duration;

use super::run::{Counters, Outcome, Producer, Stop};
use crate::base::description::SiteDescription;
use crate::base::request::TileRequest;
use crate::tools::client::{Answer, Client, Method};
use crate::tools::counts::Counts;

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
    pub fn new(url: &str, retries: u32) -> Result<Self, String> {
        let client = Client::new(url)?;
        Ok(Self {
            client,
            below: String::new(),
            retries,
        })
    }

    /// Requests the description.
    pub fn describe(&mut self) -> Result<SiteDescription, String> {
        let site = self.client.description()?;
        self.below = site.tilecache();
        Ok(site)
    }
}

/// A failed attempt that may be retried.
struct Failure {
    why: String,
    /// In seconds.
    retry_after: Option<u64>,
    /// Whether there was no response at all.
    is_silent: bool,
}

impl Producer for Server {
    fn fill(&self, tile: &TileRequest, stop: &Stop) -> Outcome {
        let path = format!("{}/{tile}", self.below);
        let mut retries = 0;
        loop {
            let failure = match self.client.request(&Method::GET, &path, &[PREFETCH]) {
                Ok(answer) => match read(&answer) {
                    Ok(outcome) => return outcome,
                    Err(refused) => refused,
                },
                Err(error) => Failure {
                    why: error,
                    retry_after: None,
                    is_silent: true,
                },
            };
            if stop.is_requested() || retries < self.retries && stop.wait(failure.pause(retries)) {
                return Outcome::Stopped;
            }
            if retries == self.retries {
                return match self.client.get("/healthz").and_then(Answer::found) {
                    Err(gone) if failure.is_silent => {
                        Outcome::Over(format!("the server is gone: {gone}"))
                    }
                    _ => Outcome::Failed(failure.why),
                };
            }
            retries += 1;
        }
    }

    fn counters(&self) -> Option<Counters> {
        let counts = Counts::read(&self.client)?;
        let count = |name: &str| counts.get(name).map(|count| count as u64);
        Some(Counters {
            evicted: count("tier_evicted")?,
            bytes_inflated: count("chunk_decoded_bytes")?,
        })
    }
}

/// The result of a response, or a reason to retry.
fn read(answer: &Answer) -> Result<Outcome, Failure> {
    match answer.status {
        200 if answer.body.starts_with(PNG) => Ok(Outcome::Rendered(answer.body.len() as u64)),
        200 => Ok(Outcome::Failed(
            answer.wrong(format!("its {} bytes are not a PNG", answer.body.len())),
        )),
        408 | 429 | 502 | 503 | 504 => {
            let retry_after = answer
                .header("retry-after")
                .and_then(|value| value.trim().parse().ok());
            Err(Failure {
                why: answer.problem(),
                retry_after,
                is_silent: false,
            })
        }
        _ => Ok(Outcome::Failed(answer.problem())),
    }
}

impl Failure {
    /// The pause before the next attempt, after this many retries: what the server says, or twice
    /// the previous one.
    fn pause(&self, retries: u32) -> Duration {
        let own = SOON.saturating_mul(1 << retries.min(10)).min(LATE);
        self.retry_after.map_or(own, |seconds| {
            Duration::from_secs(seconds).clamp(own, MAX_PAUSE)
        })
    }
}
