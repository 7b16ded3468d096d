//! Requests to one server: a bounded number at once, repeated when they fail, and given up while
//! the server is down.

use std::future::pending;
use std::ops::Range;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use voltile_base::flow::breaker::{Breaker, Rule};
use voltile_base::metrics::StoreMetrics;

use super::error::StoreError;
use super::transport::{MAX_AT_ONCE, RETRY, RangeBytes, Transport, WAITING};
use super::version::Version;

/// How often a request is made before its failure is reported.
const ATTEMPTS: u32 = 4;
/// The pause before the second attempt; each further one is preceded by one twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The time from the first attempt after which none is repeated.
const PATIENCE: Duration = Duration::from_secs(20);

/// An answer that arrives more slowly is given up, in bytes per second: 64 of them at once take a
/// megabit.
const SLOWEST: u64 = 2 << 10;

/// A request that takes this many times as long as usual is raced by another one.
const SLOW: f64 = 8.0;
/// A request that has taken less than this is not raced.
const SOONEST_RACE: Duration = Duration::from_secs(2);
/// This many bytes are taken to last as long as the wait for the first one: a rough estimate, for
/// which [`SLOW`] leaves room.
const UNIT: f64 = (256 << 10) as f64;

/// A server that fails this often in a row is not asked, but for one request after each pause.
const RULE: Rule = Rule {
    failures: 8,
    first_pause: Duration::from_secs(1),
    longest_pause: Duration::from_secs(15),
};

/// A server.
#[derive(Debug)]
pub(super) struct Host {
    name: String,
    permits: Semaphore,
    breaker: Breaker,
    metrics: StoreMetrics,
    problem: Mutex<Option<String>>,
    pace: Pace,
}

/// How long answers take: the seconds for each [`UNIT`] of their length, and one more, averaged
/// over the last ones; `None` before the first.
#[derive(Debug, Default)]
struct Pace(Mutex<Option<f64>>);

impl Pace {
    fn units(range: &Range<u64>) -> f64 {
        1.0 + range.end.saturating_sub(range.start) as f64 / UNIT
    }

    fn add(&self, range: &Range<u64>, took: Duration) {
        let new = took.as_secs_f64() / Self::units(range);
        let mut average = self.0.lock();
        *average = Some(average.map_or(new, |old| old + (new - old) / 8.0));
    }

    /// After which time a request is slow; `None` if that cannot be told yet.
    fn slow(&self, range: &Range<u64>) -> Option<Duration> {
        let average = (*self.0.lock())?;
        let slow = SLOW * average * Self::units(range);
        Some(
            Duration::try_from_secs_f64(slow)
                .unwrap_or(WAITING)
                .clamp(SOONEST_RACE, WAITING),
        )
    }
}

impl Host {
    pub fn new(name: String, metrics: StoreMetrics) -> Self {
        let permits = Semaphore::new(MAX_AT_ONCE);
        Self {
            name,
            permits,
            breaker: Breaker::new(RULE),
            metrics,
            problem: Mutex::default(),
            pace: Pace::default(),
        }
    }

    /// The last failure, while the server does not answer.
    pub fn problem(&self) -> Option<String> {
        let problem = self.problem.lock().clone();
        let problem = problem.filter(|_| self.breaker.is_open())?;
        Some(format!("{} is unavailable: {problem}", self.name))
    }

    /// The bytes in a range, of the expected version.
    pub async fn get(
        &self,
        transport: &dyn Transport,
        range: Range<u64>,
        expected: Option<&Version>,
    ) -> Result<RangeBytes, StoreError> {
        let began = Instant::now();
        let mut pause = FIRST_PAUSE;
        for attempt in 1.. {
            let result = self.attempt(transport, range.clone(), expected).await;
            let is_last = attempt == ATTEMPTS || began.elapsed() + pause > PATIENCE;
            match result {
                Err((error, true)) if !is_last => {
                    self.metrics.retries.inc();
                    tracing::debug!("a request to {} is repeated: {error}", self.name);
                }
                Err((error, _)) => return Err(error),
                Ok(part) => return Ok(part),
            }
            tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
            pause *= 2;
        }
        Err(self.refusal())
    }

    /// One request. The error says whether it is to be repeated.
    async fn attempt(
        &self,
        transport: &dyn Transport,
        range: Range<u64>,
        expected: Option<&Version>,
    ) -> Result<RangeBytes, (StoreError, bool)> {
        let Ok(_place) = self.permits.acquire().await else {
            return Err((self.refusal(), false));
        };
        let Some(permit) = self.breaker.permit().or_else(|| self.breaker.probe()) else {
            self.metrics.refused.inc();
            return Err((self.refusal(), false));
        };
        let began = Instant::now();
        let patience = patience(&range);
        let answer = timeout(patience, self.raced(transport, &range, expected)).await;
        let in_time = answer.unwrap_or_else(|_| Err(silence()));
        let received = match &in_time {
            Ok(part) => Some(part.bytes.len() as u64),
            // A fact about the object, and no failure of the store.
            Err(StoreError::Missing | StoreError::Changed) => Some(0),
            Err(_) => None,
        };
        self.metrics.observe(began.elapsed(), received);
        match in_time {
            Ok(part) => {
                self.recover(permit.succeeded());
                match expected {
                    Some(expected) if !expected.is_of(&part.version) => {
                        Err((StoreError::Changed, false))
                    }
                    _ => Ok(part),
                }
            }
            Err(error) if error.may_pass() => {
                let is_down = permit.failed();
                self.note(&error, is_down);
                Err((error, true))
            }
            // It answered: the object is at fault, not the server.
            Err(error) => {
                self.recover(permit.succeeded());
                Err((error, false))
            }
        }
    }

    /// One request. While it takes much longer than earlier requests did, a second one races it,
    /// and is replaced now and then: a server that was slow when both began may answer the next one
    /// at once.
    async fn raced(
        &self,
        transport: &dyn Transport,
        range: &Range<u64>,
        expected: Option<&Version>,
    ) -> Result<RangeBytes, StoreError> {
        let ask = async || {
            let began = Instant::now();
            let answer = transport.get(range.clone(), expected).await;
            answer.inspect(|_| self.pace.add(range, began.elapsed()))
        };
        let first = ask();
        let Some(mut pause) = self.pace.slow(range) else {
            return first.await;
        };
        tokio::pin!(first);
        if let Ok(answer) = timeout(pause, &mut first).await {
            return answer;
        }
        loop {
            pause = (2 * pause).min(WAITING);
            let second = async {
                if let Ok(_place) = self.permits.try_acquire() {
                    self.metrics.retries.inc();
                    if let Ok(part) = ask().await {
                        return part;
                    }
                }
                pending().await
            };
            tokio::select! {
                answer = &mut first => return answer,
                second = timeout(pause, second) => {
                    if let Ok(part) = second {
                        return Ok(part);
                    }
                }
            }
        }
    }

    fn note(&self, error: &StoreError, is_down: bool) {
        let text = match error {
            StoreError::Unavailable { problem, .. } => problem.clone(),
            other => other.to_string(),
        };
        if is_down {
            self.metrics.unreachable.inc();
            tracing::warn!(
                "{} is unavailable ({text}); its datasets are, too, until it answers",
                self.name
            );
        }
        if self.breaker.is_open() {
            *self.problem.lock() = Some(text);
        }
    }

    fn recover(&self, is_back: bool) {
        if is_back {
            self.metrics.unreachable.dec();
            *self.problem.lock() = None;
            tracing::info!("{} answers again", self.name);
        }
    }

    /// The error without a request, while the server does not answer.
    fn refusal(&self) -> StoreError {
        let retry_after = self.breaker.until_probe().unwrap_or(RETRY).max(RETRY);
        let problem = self.problem.lock().clone();
        StoreError::Unavailable {
            problem: problem.unwrap_or_else(|| "it failed repeatedly".to_owned()),
            retry_after,
        }
    }
}

/// How long a request may take: an answer that keeps arriving over a slow line, beside other
/// answers, is waited for. (Silence ends a request earlier.)
fn patience(range: &Range<u64>) -> Duration {
    WAITING + Duration::from_secs(range.end.saturating_sub(range.start) / SLOWEST)
}

fn silence() -> StoreError {
    StoreError::Unavailable {
        problem: "it does not answer in time".to_owned(),
        retry_after: RETRY,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::future::BoxFuture;

    use super::*;

    /// Answers after a while.
    #[derive(Debug)]
    struct Slow(Duration);

    impl Transport for Slow {
        fn get<'a>(
            &'a self,
            range: Range<u64>,
            _: Option<&'a Version>,
        ) -> BoxFuture<'a, Result<RangeBytes, StoreError>> {
            Box::pin(async move {
                tokio::time::sleep(self.0).await;
                let bytes = Bytes::from(vec![0; (range.end - range.start) as usize]);
                Ok(RangeBytes {
                    version: Version::new(1 << 30, None, None),
                    bytes,
                })
            })
        }
    }

    /// Answers at once, but for a time in which answers take very long.
    #[derive(Debug)]
    struct Trickling {
        began: tokio::time::Instant,
        slow: Range<Duration>,
    }

    impl Transport for Trickling {
        fn get<'a>(
            &'a self,
            range: Range<u64>,
            expected: Option<&'a Version>,
        ) -> BoxFuture<'a, Result<RangeBytes, StoreError>> {
            let is_slow = self.slow.contains(&self.began.elapsed());
            let answer = Slow(Duration::from_secs(if is_slow { 3600 } else { 0 }));
            Box::pin(async move { answer.get(range, expected).await })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_answer_is_raced_by_others_until_the_server_is_fast_again() {
        let (host, began) = (
            Host::new("slow".to_owned(), StoreMetrics::default()),
            tokio::time::Instant::now(),
        );
        let server = Trickling {
            began,
            slow: Duration::from_secs(1)..Duration::from_secs(60),
        };
        assert!(host.get(&server, 0..1 << 20, None).await.is_ok());
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(host.get(&server, 0..1 << 20, None).await.is_ok());
        let took = began.elapsed();
        assert!((60..76).contains(&took.as_secs()), "{took:?}");
        assert!(
            (3..=6).contains(&host.metrics.retries.get()),
            "{}",
            host.metrics.retries.get()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn long_answers_may_take_long_and_short_ones_may_not() {
        let host = Host::new("slow".to_owned(), StoreMetrics::default());
        let slow = Slow(Duration::from_secs(120));
        assert!(host.get(&slow, 0..1 << 20, None).await.is_ok());
        let error = host.get(&slow, 0..100, None).await.unwrap_err();
        assert!(error.to_string().contains("in time"), "{error}");
    }
}
