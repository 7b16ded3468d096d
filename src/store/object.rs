//! An object that is open: one version of it, and what is known of later ones.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::blocks::{BLOCK, Blocks, PAGE};
use super::error::StoreError;
use super::host::Host;
use super::stored::{self, Gathering};
use super::transport::{self, Transport};
use super::version::Version;
use super::{RETRY, runtime, sidecar};
use crate::address::Address;

/// How long an object is taken to be unchanged after it was last seen so. Requests for its bytes find out earlier.
const FRESH: Duration = Duration::from_secs(10);

/// One version of an object.
#[derive(Debug)]
pub struct Object {
    number: u64,
    version: Version,
    source: Source,
    blocks: Blocks,
    latest: Arc<Latest>,
}

/// Where the object is.
#[derive(Debug, Clone)]
struct Source {
    address: Address,
    transport: Arc<dyn Transport>,
    host: Arc<Host>,
}

/// What is known of the object at an address at this time.
#[derive(Debug)]
struct Latest {
    /// `None` once a request has found that it is not the one that was opened.
    seen: Mutex<Option<(Version, Instant)>>,
    is_being_checked: AtomicBool,
    /// Why its store did not answer last, and when: an object is opened several times in a row, and it may take long until
    /// a request has failed.
    failed: Mutex<Option<(StoreError, Instant)>>,
    /// The object with what was read in its trial, until it is opened.
    on_trial: Mutex<Option<Arc<Object>>>,
}

type Known = Mutex<HashMap<String, Arc<Latest>>>;

static KNOWN: LazyLock<Known> = LazyLock::new(Mutex::default);

impl Object {
    /// Opens the object at an address; blocks until its first bytes have arrived.
    pub fn open(address: &Address) -> Result<Arc<Self>, StoreError> {
        if let Some(tried) = Latest::of(address.public()).tried() {
            return Ok(tried);
        }
        let address = address.clone();
        runtime::wait(async move { Self::opened(&address).await })
    }

    /// Whether its store does not answer. Asks it, and blocks, unless it has just answered.
    pub fn is_unreachable(address: &Address) -> bool {
        Latest::of(address.public()).is_out_of_date()
            && matches!(Self::open(address), Err(StoreError::Unavailable { .. }))
    }

    /// The object at an address while it is on trial. It is kept for the next time that it is opened.
    pub(super) async fn on_trial(address: &Address) -> Result<Arc<Self>, StoreError> {
        let latest = Latest::of(address.public());
        if let Some(known) = latest.on_trial.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            return Ok(known);
        }
        let opened = Self::opened(address).await?;
        *latest.on_trial.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&opened));
        Ok(opened)
    }

    async fn opened(address: &Address) -> Result<Arc<Self>, StoreError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let latest = Latest::of(address.public());
        if let Some(failure) = latest.failure() {
            return Err(failure);
        }
        let source = Source::of(address)?;
        let first = source.get(0..BLOCK, None).await.inspect_err(|error| latest.has_failed(error))?;
        let blocks = Blocks::default();
        blocks.add(0, &first.bytes);
        sidecar::load(address.public(), &first.version, &blocks);
        latest.set(Some(first.version.clone()));
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(Self { number, version: first.version, source, blocks, latest }))
    }

    /// Whether the object at the address that a path stands for is of this version, as far as is known. Never waits: if
    /// that was last checked a while ago, it is checked in the background.
    pub fn is_current(path: &Path, version: &Version) -> bool {
        let Some(address) = Address::of(path) else { return false };
        Latest::of(address.public()).is_of(version, &address)
    }

    /// The same for this object.
    pub fn is_unchanged(&self) -> bool {
        self.latest.is_of(&self.version, &self.source.address)
    }

    /// The number that tells it from all others in this process, and from other versions of it.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Its address, without credentials.
    pub fn address(&self) -> &str {
        self.source.address.public()
    }

    /// The last part of its address, for people.
    pub(super) fn name(&self) -> &str {
        let path = self.address().split('?').next().unwrap_or_default();
        path.rsplit('/').next().unwrap_or_default()
    }

    /// The version of all its bytes.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// The length in bytes.
    pub fn length(&self) -> u64 {
        self.version.length
    }

    /// Copies metadata; returns how many bytes the object has from `position` on, at most the buffer's length. Blocks the
    /// calling thread while what is missing is fetched.
    pub fn read_metadata(self: &Arc<Self>, into: &mut [u8], position: u64) -> Result<usize, StoreError> {
        let length = self.length().saturating_sub(position).min(into.len() as u64) as usize;
        let into = &mut into[..length];
        if self.blocks.copy(into, position) < length {
            let (object, range) = (Arc::clone(self), position..position + length as u64);
            let bytes = runtime::wait(async move { object.metadata(range).await })?;
            into.copy_from_slice(&bytes);
        }
        Ok(length)
    }

    /// The metadata in a range, which lies in the object.
    pub(super) async fn metadata(&self, range: Range<u64>) -> Result<Bytes, StoreError> {
        let mut into = vec![0; (range.end - range.start) as usize];
        let mut done = self.blocks.copy(&mut into, range.start);
        while done < into.len() {
            let missing = range.start + done as u64..range.end;
            let block = self.blocks.around(&missing, self.length());
            self.add_block(block).await?;
            let more = self.blocks.copy(&mut into[done..], missing.start);
            if more == 0 {
                return Err(StoreError::invalid("a block lacks the bytes that it was fetched for"));
            }
            done += more;
        }
        Ok(into.into())
    }

    /// The metadata in a range, which lies in the object: fetched without what is near to it, because whoever asks has
    /// already chosen blocks.
    pub(super) async fn exactly(&self, range: Range<u64>) -> Result<Bytes, StoreError> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        if let Some(known) = self.known(&range) {
            return Ok(known);
        }
        let pages = range.start / PAGE * PAGE..range.end.next_multiple_of(PAGE).min(self.length());
        self.add_block(pages).await?;
        self.known(&range)
            .ok_or_else(|| StoreError::invalid("a block lacks the bytes that it was fetched for"))
    }

    /// Fetches a block, which begins on a page.
    async fn add_block(&self, block: Range<u64>) -> Result<(), StoreError> {
        let bytes = self.get(block.clone()).await?;
        self.blocks.add(block.start, &bytes);
        Ok(())
    }

    /// Fetches pieces of metadata side by side, so that [`Object::read_metadata`] finds them.
    pub fn gather_metadata(self: &Arc<Self>, ranges: &[Range<u64>]) -> Result<(), StoreError> {
        let requests = super::merge::merged(&self.blocks.unknown(ranges, self.length()));
        let object = Arc::clone(self);
        runtime::wait(async move {
            let blocks = requests.into_iter().map(|request| object.add_block(request.range));
            futures_util::future::try_join_all(blocks).await.map(drop)
        })
    }

    /// Keeps the metadata that is known for the next start.
    pub fn save_metadata(&self) {
        if sidecar::is_on()
            && let Some(pages) = self.blocks.unsaved()
        {
            sidecar::save(self.address(), &self.version, &pages);
        }
    }

    /// Starts to fetch stored chunks.
    pub fn gather(self: &Arc<Self>, ranges: &[Range<u64>]) -> Result<Gathering, StoreError> {
        stored::gather(self, ranges)
    }

    /// The bytes of a stored chunk; blocks the calling thread until they have arrived.
    pub fn fetch(self: &Arc<Self>, range: &Range<u64>) -> Result<Bytes, StoreError> {
        stored::fetch(self, range)
    }

    /// The bytes of a stored chunk, if they have arrived.
    pub fn arrived(&self, range: &Range<u64>) -> Option<Bytes> {
        stored::arrived(self, range)
    }

    /// Forgets the bytes of a stored chunk, which are not what they should be: they are fetched again when wanted.
    pub fn forget(&self, range: &Range<u64>) {
        stored::forget(self, range);
    }

    /// Bytes that are known because they lie among the metadata.
    pub(super) fn known(&self, range: &Range<u64>) -> Option<Bytes> {
        let first = self.blocks.copy(&mut [0], range.start);
        if first == 0 {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(range.end - range.start).ok()?];
        (self.blocks.copy(&mut bytes, range.start) == bytes.len()).then(|| bytes.into())
    }

    /// Fetches a range of this version.
    pub(super) async fn get(&self, range: Range<u64>) -> Result<Bytes, StoreError> {
        let part = self.source.get(range, Some(&self.version)).await;
        match &part {
            Ok(_) => self.latest.is_still(&self.version),
            Err(StoreError::Changed | StoreError::Missing) => self.latest.is_not(&self.version),
            Err(error) => self.latest.has_failed(error),
        }
        Ok(part?.bytes)
    }
}

impl Source {
    fn of(address: &Address) -> Result<Self, StoreError> {
        let (transport, host) = (transport::to(address)?, Host::named(&address.server()));
        Ok(Self { address: address.clone(), transport, host })
    }

    async fn get(
        &self,
        range: Range<u64>,
        expected: Option<&Version>,
    ) -> Result<transport::Part, StoreError> {
        self.host.get(self.transport.as_ref(), range, expected).await
    }
}

impl Latest {
    fn of(address: &str) -> Arc<Self> {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || {
            Arc::new(Self {
                seen: Mutex::new(None),
                is_being_checked: AtomicBool::new(false),
                failed: Mutex::default(),
                on_trial: Mutex::default(),
            })
        };
        Arc::clone(known.entry(address.to_owned()).or_insert_with(new))
    }

    /// Takes the object that has been on trial, if it is still the latest.
    fn tried(&self) -> Option<Arc<Object>> {
        let tried = self.on_trial.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let seen = self.seen().clone();
        let is_latest = seen.is_some_and(|(seen, at)| seen.is_of(tried.version()) && at.elapsed() < FRESH);
        is_latest.then_some(tried)
    }

    /// Why the store did not answer a moment ago.
    fn failure(&self) -> Option<StoreError> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        failed.filter(|(_, at)| at.elapsed() < RETRY).map(|(error, _)| error)
    }

    /// Whether the object was not seen lately, or a request has failed since.
    fn is_out_of_date(&self) -> bool {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|(_, at)| *at);
        let seen = self.seen().as_ref().map(|(_, at)| *at).filter(|at| at.elapsed() < FRESH);
        seen.is_none_or(|seen| failed.is_some_and(|failed| failed >= seen))
    }

    fn has_failed(&self, error: &StoreError) {
        if let StoreError::Unavailable { .. } = error {
            let failed = Some((error.clone(), Instant::now()));
            *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = failed;
        }
    }

    fn set(&self, version: Option<Version>) {
        *self.seen() = version.map(|version| (version, Instant::now()));
    }

    /// Records that the object is of this version now, unless a later one has been seen.
    fn is_still(&self, version: &Version) {
        if let Some((seen, at)) = &mut *self.seen()
            && seen.is_of(version)
        {
            *at = Instant::now();
        }
    }

    /// Records that there is no object of this version any more. A later one may have been opened meanwhile.
    fn is_not(&self, version: &Version) {
        let mut seen = self.seen();
        if seen.as_ref().is_some_and(|(seen, _)| seen.is_of(version)) {
            *seen = None;
        }
    }

    fn seen(&self) -> MutexGuard<'_, Option<(Version, Instant)>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the object was of this version when it was last looked at. If that is a while ago, it is looked at again.
    fn is_of(self: &Arc<Self>, version: &Version, address: &Address) -> bool {
        let (is_of, is_fresh) = match &*self.seen() {
            Some((seen, at)) => (seen.is_of(version), at.elapsed() < FRESH),
            None => return false,
        };
        if !is_fresh {
            self.check(address.clone());
        }
        is_of
    }

    /// Looks at the object in the background. A store that does not answer says nothing about it.
    fn check(self: &Arc<Self>, address: Address) {
        if self.is_being_checked.swap(true, Ordering::AcqRel) {
            return;
        }
        let latest = Arc::clone(self);
        let look = async move {
            match look(&address).await {
                Ok(version) => latest.set(Some(version)),
                Err(StoreError::Missing) => latest.set(None),
                Err(error) => tracing::debug!("{address} could not be checked for changes: {error}"),
            }
            latest.is_being_checked.store(false, Ordering::Release);
        };
        if let Err(error) = runtime::spawn(look) {
            tracing::error!("an object cannot be checked for changes: {error}");
        }
    }
}

/// The version of the object at an address.
async fn look(address: &Address) -> Result<Version, StoreError> {
    let source = Source::of(address)?;
    let part = match source.get(0..1, None).await {
        // Some servers ignore ranges; a small object was opened nevertheless.
        Err(StoreError::NoRanges) => source.get(0..BLOCK, None).await?,
        answered => answered?,
    };
    Ok(part.version)
}
