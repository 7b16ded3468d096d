//! Where an object is read from, and in which state it was last seen.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::blocks::BLOCK;
use super::context::StoreContext;
use super::error::StoreError;
use super::host::Host;
use super::transport::{RETRY_PAUSE, RangeBytes, Transport};
use super::version::Version;
use crate::store::address::Address;

/// After an object was seen, it is assumed to be unchanged for this long. A request for its bytes
/// notices a change earlier.
const FRESH: Duration = Duration::from_secs(10);

/// Reads one object, whatever its version, and remembers the state in which it was last seen.
#[derive(Debug)]
pub(super) struct ObjectSource {
    pub address: Address,
    pub shared: Arc<StoreContext>,
    pub transport: Arc<dyn Transport>,
    pub host: Arc<Host>,
    pub status: Mutex<ObjectStatus>,
    /// Held while the object is being checked for changes.
    pub checking: Arc<tokio::sync::Mutex<()>>,
}

/// The state of an object, as far as requests have found out.
#[derive(Debug, Default)]
pub(super) struct ObjectStatus {
    /// The version that was seen last, and when. `None` if no version has been seen, or if a
    /// request has found that the object does not have that version any more.
    seen: Option<(Version, Instant)>,
    /// The last error of a store that did not answer or refused the object, and when it happened;
    /// `None` if the store has answered since. It is also the answer to whoever opens the object
    /// soon afterwards: an object is opened several times in a row, and each request may take long
    /// until it fails.
    failed: Option<(StoreError, Instant)>,
}

impl ObjectSource {
    /// The bytes in a range of whatever version the object has now.
    pub async fn get_current(&self, range: Range<u64>) -> Result<RangeBytes, StoreError> {
        let failed = self.status.lock().failed.clone();
        if let Some((error, at)) = failed
            && at.elapsed() < RETRY_PAUSE
        {
            return Err(error);
        }
        let part = self.ask(range, None).await;
        match &part {
            Ok(part) => self.status.lock().note(Some(&part.version)),
            Err(error) => self.note_failure(error),
        }
        part
    }

    /// The bytes in a range, if the object still has this version.
    pub async fn get(
        &self,
        range: Range<u64>,
        version: &Version,
    ) -> Result<RangeBytes, StoreError> {
        let part = self.ask(range, Some(version)).await;
        match &part {
            Ok(_) => self.note_whether_current(version, true),
            Err(StoreError::Changed | StoreError::Missing) => {
                self.note_whether_current(version, false);
            }
            Err(error) => {
                self.log_refusal(error);
                self.note_failure(error);
            }
        }
        part
    }

    /// Logs that the store refuses an open object, unless it did so before.
    fn log_refusal(&self, error: &StoreError) {
        if matches!(error, StoreError::Denied(_)) && self.refusal().is_none() {
            tracing::warn!(
                "{} cannot be read, and will be tried again: {error}",
                self.address
            );
        }
    }

    async fn ask(
        &self,
        range: Range<u64>,
        expected: Option<&Version>,
    ) -> Result<RangeBytes, StoreError> {
        self.host
            .get(self.transport.as_ref(), range, expected)
            .await
    }

    /// Whether the object was not seen lately, or a request has failed since it was seen.
    pub fn is_out_of_date(&self) -> bool {
        let status = self.status.lock();
        match &status.seen {
            Some((_, at)) => at.elapsed() >= FRESH || status.failed.is_some(),
            None => true,
        }
    }

    /// Whether the object had this version when it was last seen.
    pub fn had(&self, version: &Version) -> bool {
        matches!(&self.status.lock().seen, Some((seen, _)) if seen.matches(version))
    }

    /// Whether the object was last seen a while ago. False if it is known to have changed: then a
    /// check is of no use.
    pub fn needs_check(&self) -> bool {
        matches!(&self.status.lock().seen, Some((_, at)) if at.elapsed() >= FRESH)
    }

    /// Records an error if the store does not answer or refuses the object. Other errors, for
    /// example that the object is missing, are answers.
    fn note_failure(&self, error: &StoreError) {
        if let StoreError::Unavailable { .. } | StoreError::Denied(_) = error {
            self.status.lock().failed = Some((error.clone(), Instant::now()));
        }
    }

    /// The error with which the store last refused the object, unless it has answered since.
    pub fn refusal(&self) -> Option<StoreError> {
        match &self.status.lock().failed {
            Some((error @ StoreError::Denied(_), _)) => Some(error.clone()),
            _ => None,
        }
    }

    /// Records whether the object still has this version, unless another one has been seen
    /// meanwhile.
    fn note_whether_current(&self, version: &Version, is_current: bool) {
        let mut status = self.status.lock();
        if matches!(&status.seen, Some((seen, _)) if seen.matches(version)) {
            status.note(is_current.then_some(version));
        }
    }

    /// Asks for the object's version in the background, unless that is being done already. If the
    /// store does not answer, that says nothing about the object, and changes nothing.
    pub fn check(self: &Arc<Self>) {
        let Ok(running) = Arc::clone(&self.checking).try_lock_owned() else {
            return;
        };
        let source = Arc::clone(self);
        let check = async move {
            let _running = running;
            let part = match source.ask(0..1, None).await {
                // A server that ignores ranges still sends an object that lies in the range.
                Err(StoreError::NoRanges) => source.ask(0..BLOCK, None).await,
                answer => answer,
            };
            match &part {
                Ok(part) => source.status.lock().note(Some(&part.version)),
                Err(StoreError::Missing) => source.status.lock().note(None),
                Err(error @ StoreError::Denied(_)) => {
                    source.log_refusal(error);
                    source.note_failure(error);
                }
                Err(error) => tracing::debug!(
                    "{} could not be checked for changes: {error}",
                    source.address
                ),
            }
        };
        if let Err(error) = self.shared.threads.spawn(check) {
            tracing::error!("an object cannot be checked for changes: {error}");
        }
    }
}

impl ObjectStatus {
    /// Records the version that the object has now; `None` if it is not there, or has another one.
    fn note(&mut self, version: Option<&Version>) {
        self.seen = version.map(|version| (version.clone(), Instant::now()));
        self.failed = None;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    use bytes::Bytes;
    use prometheus_client::metrics::gauge::Gauge;
    use tokio::sync::Semaphore;
    use voltile_base::flow::cache::Cache;
    use voltile_base::metrics::StoreMetrics;

    use super::*;
    use crate::store::threads::Threads;
    use crate::store::transport::RangeAnswer;

    /// Refuses the first request, panics at the second one, and answers all others.
    #[derive(Debug, Default)]
    struct Recovering(AtomicU64);

    impl Transport for Recovering {
        fn get<'a>(&'a self, range: Range<u64>, _: Option<&'a Version>) -> RangeAnswer<'a> {
            let number = self.0.fetch_add(1, Ordering::Relaxed);
            Box::pin(async move {
                assert_ne!(number, 1, "the second request");
                if number == 0 {
                    return Err(StoreError::Denied("not yet".to_owned()));
                }
                let bytes = vec![0; (range.end - range.start) as usize];
                Ok(RangeBytes {
                    version: Version::new(1 << 20, None, None),
                    bytes: Bytes::from(bytes),
                })
            })
        }
    }

    impl ObjectSource {
        /// A source that nothing else uses, and that is not remembered.
        pub fn read_by(transport: Arc<dyn Transport>) -> Arc<Self> {
            let shared = StoreContext {
                threads: Threads::new(false),
                metrics: StoreMetrics::default(),
                next_number: AtomicU64::new(0),
                metadata: None,
                chunk_cache: OnceLock::new(),
                unwritten: Arc::new(Semaphore::new(0)),
                stored: Cache::new(0, Gauge::default()),
            };
            Arc::new(Self {
                address: Address::parsed("https://lab.example.org/a.h5")
                    .unwrap()
                    .unwrap(),
                shared: Arc::new(shared),
                transport,
                host: Arc::new(Host::new("lab".to_owned(), StoreMetrics::default())),
                status: Mutex::default(),
                checking: Arc::default(),
            })
        }
    }

    #[tokio::test]
    async fn a_refusal_ends_with_the_first_answer_and_a_check_with_a_panic() {
        let transport = Arc::<Recovering>::default();
        let source = ObjectSource::read_by(Arc::clone(&transport) as Arc<dyn Transport>);
        assert!(source.get_current(0..8).await.is_err() && source.refusal().is_some());
        assert!(source.get_current(0..8).await.is_err());
        assert_eq!(
            transport.0.load(Ordering::Relaxed),
            1,
            "it was refused a moment ago"
        );
        // The first check panics; another one is not held up by it.
        while source.refusal().is_some() {
            source.check();
            tokio::task::yield_now().await;
        }
        assert!(source.get_current(0..8).await.is_ok());
        assert!(!source.is_out_of_date());
    }
}
