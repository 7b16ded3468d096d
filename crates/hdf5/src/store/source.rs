//! The place of an object, with the transport that reads from there and the version last seen
//! there.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::blocks::BLOCK;
use super::context::StoreContext;
use super::error::StoreError;
use super::host::Host;
use super::transport::{RETRY, RangeBytes, Transport};
use super::version::Version;
use crate::store::address::Address;

/// How long an object is taken to be unchanged after it was last seen so. Requests for its bytes
/// find out earlier.
const FRESH: Duration = Duration::from_secs(10);

/// An address, the transport that reads from it, and the state in which the object was last seen.
#[derive(Debug)]
pub(super) struct ObjectSource {
    pub address: Address,
    pub shared: Arc<StoreContext>,
    pub transport: Arc<dyn Transport>,
    pub host: Arc<Host>,
    pub known: Mutex<ObjectStatus>,
}

#[derive(Debug, Default)]
pub(super) struct ObjectStatus {
    /// The version that was seen last, and when; `None` once a request has found that the object
    /// has it no more.
    seen: Option<(Version, Instant)>,
    is_being_checked: bool,
    /// Why its store did not answer last, or refused, and when: an object is opened several times
    /// in a row, and it may take long until a request has failed.
    failed: Option<(StoreError, Instant)>,
}

impl ObjectSource {
    /// The bytes in a range of whatever version the object has now.
    pub async fn first(&self, range: Range<u64>) -> Result<RangeBytes, StoreError> {
        let failed = self
            .known
            .lock()
            .failed
            .clone()
            .filter(|(_, at)| at.elapsed() < RETRY);
        if let Some((failure, _)) = failed {
            return Err(failure);
        }
        let part = self
            .ask(range, None)
            .await
            .inspect_err(|error| self.has_failed(error))?;
        self.known.lock().seen = Some((part.version.clone(), Instant::now()));
        Ok(part)
    }

    /// The bytes in a range of this version.
    pub async fn get(
        &self,
        range: Range<u64>,
        version: &Version,
    ) -> Result<RangeBytes, StoreError> {
        let part = self.ask(range, Some(version)).await;
        match &part {
            Ok(_) => self.note(version, true),
            Err(StoreError::Changed | StoreError::Missing) => self.note(version, false),
            Err(error) => {
                if matches!(error, StoreError::Denied { .. }) && self.refusal().is_none() {
                    tracing::warn!(
                        "{} cannot be read, and will be tried again: {error}",
                        self.address
                    );
                }
                self.has_failed(error);
            }
        }
        part
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

    /// Whether the object was not seen lately, or a request has failed since.
    pub fn is_out_of_date(&self) -> bool {
        let known = self.known.lock();
        known.has_failed_since()
            || known
                .seen
                .as_ref()
                .is_none_or(|(_, at)| at.elapsed() >= FRESH)
    }

    /// Whether the object was of this version when it was last seen, and whether that was lately.
    pub fn is_of(&self, version: &Version) -> (bool, bool) {
        let known = self.known.lock();
        known.seen.as_ref().map_or((false, true), |(seen, at)| {
            (seen.is_of(version), at.elapsed() < FRESH)
        })
    }

    fn has_failed(&self, error: &StoreError) {
        if let StoreError::Unavailable { .. } | StoreError::Denied { .. } = error {
            self.known.lock().failed = Some((error.clone(), Instant::now()));
        }
    }

    /// Why the store refuses the object, unless it has been seen since.
    pub fn refusal(&self) -> Option<StoreError> {
        let known = self.known.lock();
        let failure = known
            .failed
            .as_ref()
            .filter(|_| known.has_failed_since())
            .map(|(failure, _)| failure);
        failure
            .filter(|failure| matches!(failure, StoreError::Denied { .. }))
            .cloned()
    }

    /// Records that the object is, or is not, of this version now, unless another one has been seen
    /// meanwhile.
    fn note(&self, version: &Version, is_there: bool) {
        let seen = &mut self.known.lock().seen;
        if seen.as_ref().is_some_and(|(seen, _)| seen.is_of(version)) {
            *seen = seen
                .take()
                .filter(|_| is_there)
                .map(|(seen, _)| (seen, Instant::now()));
        }
    }

    /// Looks at the object in the background. A store that does not answer says nothing about it.
    pub fn check(self: &Arc<Self>) {
        if std::mem::replace(&mut self.known.lock().is_being_checked, true) {
            return;
        }
        let source = Arc::clone(self);
        let look = async move {
            let part = match source.ask(0..1, None).await {
                // Some servers ignore ranges; a small object was opened nevertheless.
                Err(StoreError::NoRanges) => source.ask(0..BLOCK, None).await,
                answered => answered,
            };
            let mut known = source.known.lock();
            known.is_being_checked = false;
            match part {
                Ok(part) => known.seen = Some((part.version, Instant::now())),
                Err(StoreError::Missing) => known.seen = None,
                Err(error @ StoreError::Denied { .. }) => {
                    known.failed = Some((error, Instant::now()));
                }
                Err(error) => tracing::debug!(
                    "{} could not be checked for changes: {error}",
                    source.address
                ),
            }
        };
        if let Err(error) = self.shared.threads.spawn(look) {
            tracing::error!("an object cannot be checked for changes: {error}");
        }
    }
}

impl ObjectStatus {
    /// Whether a request has failed since the object was last seen.
    fn has_failed_since(&self) -> bool {
        let failed = self.failed.as_ref().map(|(_, at)| at);
        failed.is_some_and(|failed| self.seen.as_ref().is_none_or(|(_, seen)| failed >= seen))
    }
}
