//! Where an object is read from, and in which state it was last seen.

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

/// After an object was seen, it is assumed to be unchanged for this long. A request for its bytes
/// notices a change earlier.
const FRESH: Duration = Duration::from_secs(10);

/// An address, the transport that reads from it, and the state in which the object was last seen.
#[derive(Debug)]
pub(super) struct ObjectSource {
    pub address: Address,
    pub shared: Arc<StoreContext>,
    pub transport: Arc<dyn Transport>,
    pub host: Arc<Host>,
    pub status: Mutex<ObjectStatus>,
}

/// The state of an object, as far as requests have found out.
#[derive(Debug, Default)]
pub(super) struct ObjectStatus {
    /// The version that was seen last, and when. `None` if no version has been seen, or if a
    /// request has found that the object does not have that version any more.
    seen: Option<(Version, Instant)>,
    is_being_checked: bool,
    /// The last error of a store that did not answer or refused the object, and when it happened.
    /// It is also the answer to whoever opens the object soon afterwards: an object is opened
    /// several times in a row, and each request may take long until it fails.
    failed: Option<(StoreError, Instant)>,
}

impl ObjectSource {
    /// The bytes in a range of the version that the object has now.
    pub async fn first(&self, range: Range<u64>) -> Result<RangeBytes, StoreError> {
        let failed = self.status.lock().failed.clone();
        if let Some((error, at)) = failed
            && at.elapsed() < RETRY
        {
            return Err(error);
        }
        let part = self.ask(range, None).await;
        match &part {
            Ok(part) => self.status.lock().seen = Some((part.version.clone(), Instant::now())),
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
            Ok(_) => self.note_seen(version),
            Err(StoreError::Changed | StoreError::Missing) => self.note_gone(version),
            Err(error) => {
                if matches!(error, StoreError::Denied { .. }) && self.refusal().is_none() {
                    tracing::warn!(
                        "{} cannot be read, and will be tried again: {error}",
                        self.address
                    );
                }
                self.note_failure(error);
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

    /// Whether the object was not seen lately, or a request has failed since it was seen.
    pub fn is_out_of_date(&self) -> bool {
        let status = self.status.lock();
        match &status.seen {
            Some((_, at)) => at.elapsed() >= FRESH || status.has_failed_since(),
            None => true,
        }
    }

    /// Whether the object had this version when it was last seen; and whether that is fresh, so
    /// that no check is needed. An object that has lost its version needs none either.
    pub fn is_of(&self, version: &Version) -> (bool, bool) {
        match &self.status.lock().seen {
            Some((seen, at)) => (seen.is_of(version), at.elapsed() < FRESH),
            None => (false, true),
        }
    }

    /// Records an error of the store. Other errors are facts about the object.
    fn note_failure(&self, error: &StoreError) {
        if let StoreError::Unavailable { .. } | StoreError::Denied { .. } = error {
            self.status.lock().failed = Some((error.clone(), Instant::now()));
        }
    }

    /// The error with which the store last refused the object, unless it has been seen since.
    pub fn refusal(&self) -> Option<StoreError> {
        let status = self.status.lock();
        match &status.failed {
            Some((error @ StoreError::Denied { .. }, _)) if status.has_failed_since() => {
                Some(error.clone())
            }
            _ => None,
        }
    }

    /// Records that the object still has this version, unless another one has been seen meanwhile.
    fn note_seen(&self, version: &Version) {
        if let Some((seen, at)) = &mut self.status.lock().seen
            && seen.is_of(version)
        {
            *at = Instant::now();
        }
    }

    /// Records that the object has lost this version, unless another one has been seen meanwhile.
    fn note_gone(&self, version: &Version) {
        let mut status = self.status.lock();
        if matches!(&status.seen, Some((seen, _)) if seen.is_of(version)) {
            status.seen = None;
        }
    }

    /// Asks for the object's version in the background. If the store does not answer, that says
    /// nothing about the object, and changes nothing.
    pub fn check(self: &Arc<Self>) {
        if std::mem::replace(&mut self.status.lock().is_being_checked, true) {
            return;
        }
        let source = Arc::clone(self);
        let check = async move {
            let part = match source.ask(0..1, None).await {
                // Some servers ignore ranges. Small objects on them can be opened nevertheless.
                Err(StoreError::NoRanges) => source.ask(0..BLOCK, None).await,
                answer => answer,
            };
            let mut status = source.status.lock();
            status.is_being_checked = false;
            match part {
                Ok(part) => status.seen = Some((part.version, Instant::now())),
                Err(StoreError::Missing) => status.seen = None,
                Err(error @ StoreError::Denied { .. }) => {
                    status.failed = Some((error, Instant::now()));
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
    /// Whether a request has failed since the object was last seen.
    fn has_failed_since(&self) -> bool {
        match (&self.failed, &self.seen) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some((_, failed_at)), Some((_, seen_at))) => failed_at >= seen_at,
        }
    }
}
