//! A folder of small objects in a bucket, read and written whole: for caches.
//!
//! Operations are not retried, unlike reads of data files, and their timeouts are short. The folder
//! has its own circuit breakers, so that callers do not wait for a store that does not answer: one
//! for reads and one for writes, because a store that refuses writes may still be readable.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{GetOptions, ObjectStoreExt, PutPayload};
use prometheus_client::metrics::gauge::Gauge;
use voltile_base::flow::breaker::{Breaker, BreakerRule};

use super::bucket::{Bucket, BucketClient};
use super::cloud::{body, settings_error, store_error};
use super::context::StoreContext;
use super::error::StoreError;
use super::transport::receive_bytes;
use crate::store::address::Address;

/// A store whose recent failures outnumber its recent successes by `failures` gets only one
/// operation after each pause, until one succeeds.
const RULE: BreakerRule = BreakerRule {
    failures: 3,
    first_pause: Duration::from_secs(1),
    longest_pause: Duration::from_secs(15),
};

/// How long a lookup or a removal may take.
const LOOKUP_TIMEOUT: Duration = Duration::from_millis(500);
/// How long a write may take.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// A folder in a bucket of S3, Google Cloud Storage or Azure Blob Storage.
pub struct Folder {
    public: String,
    shared: Arc<StoreContext>,
    bucket: Arc<Bucket>,
    prefix: Path,
    reads: OperationGate,
    writes: OperationGate,
    /// 1 while the circuit breaker of reads is open.
    is_resting: Gauge,
}

/// Decides whether a kind of operation is tried.
struct OperationGate {
    /// The operation, as a participle for messages: `read` or `written to`.
    participle: &'static str,
    breaker: Breaker,
}

/// Why an operation failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FolderError {
    /// The circuit breaker is open: the store was not asked.
    Resting,
    /// The store failed, or did not answer in time.
    Failed(StoreError),
}

impl fmt::Debug for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Folder").field(&self.public).finish()
    }
}

impl Folder {
    pub(super) fn new(
        address: &Address,
        shared: Arc<StoreContext>,
        bucket: Arc<Bucket>,
        is_resting: Gauge,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            public: address.public().to_owned(),
            shared,
            bucket,
            prefix: Path::parse(address.key().trim_end_matches('/'))
                .map_err(|error| settings_error(&error))?,
            reads: OperationGate {
                participle: "read",
                breaker: Breaker::new(RULE),
            },
            writes: OperationGate {
                participle: "written to",
                breaker: Breaker::new(RULE),
            },
            is_resting,
        })
    }

    /// Its address, without credentials.
    pub fn public(&self) -> &str {
        &self.public
    }

    /// Whether a write would be tried now.
    pub fn is_writable(&self) -> bool {
        self.writes.breaker.permits()
    }

    /// Why objects cannot be read, or cannot be written, at present.
    pub fn fault(&self) -> Option<String> {
        let problem = if self.reads.breaker.is_open() {
            "cannot be read: requests keep failing"
        } else if self.writes.breaker.is_open() {
            "cannot be written to"
        } else {
            return None;
        };
        Some(format!("{} {problem}", self.public))
    }

    /// The bytes of an object; `None` if it does not exist. An object that is longer than
    /// `max_length` is cut off somewhere after that many bytes. Blocks.
    pub fn read(&self, name: &str, max_length: u64) -> Result<Option<Bytes>, FolderError> {
        let (bucket, path) = self.object(name);
        self.ask(&self.reads, LOOKUP_TIMEOUT, async move {
            let answer = bucket.get_opts(&path, GetOptions::default()).await;
            let answer = answer.map_err(store_error)?;
            let wanted = answer.meta.size.min(max_length);
            receive_bytes(body(answer), wanted).await
        })
    }

    /// Whether there is an object. Blocks.
    pub fn contains(&self, name: &str) -> Result<bool, FolderError> {
        let (bucket, path) = self.object(name);
        let head = async move { bucket.head(&path).await.map_err(store_error) };
        Ok(self.ask(&self.reads, LOOKUP_TIMEOUT, head)?.is_some())
    }

    /// Writes an object, replacing an existing one. Blocks.
    pub fn write(&self, name: &str, bytes: Bytes) -> Result<(), FolderError> {
        let (bucket, path) = self.object(name);
        let put = async move {
            let written = bucket.put(&path, PutPayload::from(bytes)).await;
            written.map_err(|error| match store_error(error) {
                // Nothing but the bucket can be missing when an object is written.
                StoreError::Missing => StoreError::invalid("there is no such bucket"),
                other => other,
            })
        };
        self.ask(&self.writes, WRITE_TIMEOUT, put).map(drop)
    }

    /// Removes an object. Blocks.
    pub fn remove(&self, name: &str) -> Result<(), FolderError> {
        let (bucket, path) = self.object(name);
        let remove = async move { bucket.delete(&path).await.map_err(store_error) };
        self.ask(&self.writes, LOOKUP_TIMEOUT, remove).map(drop)
    }

    /// A client for the bucket, and the path of an object in it.
    fn object(&self, name: &str) -> (BucketClient, Path) {
        let path = name.split('/').fold(self.prefix.clone(), Path::join);
        (self.bucket.client(), path)
    }

    /// Runs an operation, for at most the time `within`, if its circuit breaker lets it pass;
    /// `None` if the object is missing.
    fn ask<T: Send + 'static>(
        &self,
        gate: &OperationGate,
        within: Duration,
        operation: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<Option<T>, FolderError> {
        let participle = gate.participle;
        let Some(permit) = gate.breaker.permit().or_else(|| gate.breaker.probe()) else {
            self.note_whether_resting();
            return Err(FolderError::Resting);
        };
        let in_time = async move {
            let answer = tokio::time::timeout(within, operation).await;
            answer.unwrap_or_else(|_| {
                let problem = format!("it did not answer within {within:?}");
                Err(StoreError::unavailable(problem))
            })
        };
        // It is news if the circuit breaker has opened, or is closed again.
        let (outcome, is_news) = match self.shared.threads.wait(in_time) {
            Ok(value) => (Ok(Some(value)), permit.succeeded()),
            Err(StoreError::Missing) => (Ok(None), permit.succeeded()),
            Err(error) => {
                if let StoreError::Denied(_) = error {
                    // The next operation uses other credentials, if there are any.
                    let bucket = Arc::clone(&self.bucket);
                    let renewed = async move { Ok(bucket.instead_of(&bucket.client()).await) };
                    drop(self.shared.threads.wait(renewed));
                }
                (Err(FolderError::Failed(error)), permit.failed())
            }
        };
        self.note_whether_resting();
        match &outcome {
            Ok(_) if is_news => tracing::info!("{} can be {participle} again", self.public),
            Err(FolderError::Failed(error)) if is_news => {
                tracing::warn!(
                    "{} cannot be {participle} and will be tried again: {error}",
                    self.public
                );
            }
            _ => {}
        }
        outcome
    }

    fn note_whether_resting(&self) {
        self.is_resting.set(i64::from(self.reads.breaker.is_open()));
    }
}
