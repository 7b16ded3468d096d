//! Reads ranges of bytes of objects in object storage and on web servers.
//!
//! [`Object`] is the counterpart of an open file. All its bytes are of the version that it was
//! opened with: each request demands that version (`If-Match`), and the version of each answer is
//! compared. Requests run on threads of their own, so that a thread that decodes can wait for many
//! requests at once.
//!
//! ```text
//! Store ── Object ─┬─ MetadataBlocks   metadata, in aligned blocks of growing size
//!                  ├─ chunks           stored chunks, merged over small gaps, many at once
//!                  └─ ObjectSource     the state in which the object was last seen
//!                      ├─ Host         one server: retries, a circuit breaker
//!                      └─ Transport    one request, to a web server, cloud or parent process
//! ```
//!
//! A [`Folder`] holds small objects that are read and written whole: a cache of tiles.

pub mod address;
mod blocks;
mod bucket;
mod chunks;
mod cloud;
mod connections;
mod context;
mod error;
mod folder;
mod host;
mod location;
mod merge;
mod object;
mod profile;
mod relay;
mod sidecar;
mod source;
mod threads;
mod transport;
mod version;
mod web;
pub mod whole_file;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::Semaphore;
use voltile_base::flow::cache::Cache;
use voltile_base::metrics::StoreMetrics;

use crate::store::address::Address;
use connections::StoreClients;
use context::StoreContext;
use host::Host;
use source::ObjectSource;
use threads::Threads;
use transport::RangeBytes;

pub use chunks::Gathering;
pub use connections::install_cryptography;
pub use context::ChunkCache;
pub use error::StoreError;
pub use folder::{Folder, FolderError};
pub use location::Location;
pub use merge::Requests;
pub use object::Object;
pub use relay::{Relay, RelayAnswer, RelayRequest};
pub use version::Version;

/// The maximum number of bytes of stored chunks that are kept in memory after they have arrived:
/// enough for a dozen tiles. The same number of bytes may wait to be written to a disk.
const MAX_STORED_BYTES: usize = 128 << 20;

/// Opens objects, and holds their connections, threads and caches. Clones are handles to the same
/// store.
#[derive(Debug, Clone)]
pub struct Store(Arc<StoreState>);

#[derive(Debug)]
struct StoreState {
    shared: Arc<StoreContext>,
    connections: StoreClients,
    known: Mutex<KnownObjects>,
}

/// The servers and objects that have been asked for.
#[derive(Debug, Default)]
struct KnownObjects {
    hosts: BTreeMap<String, Arc<Host>>,
    sources: HashMap<Address, Arc<ObjectSource>>,
    /// Objects that a child process has read on trial. Each is kept, with the bytes that were read,
    /// until this process opens it.
    tried: HashMap<Address, Arc<Object>>,
}

impl Default for Store {
    fn default() -> Self {
        Self::new(None, StoreMetrics::default(), None)
    }
}

impl Store {
    /// A store that counts its requests in `metrics`. `metadata` is the cache directory in which it
    /// keeps metadata for the next start. If there is a relay, all objects are read through it.
    pub fn new(
        relay: Option<Arc<Relay>>,
        metrics: StoreMetrics,
        metadata: Option<PathBuf>,
    ) -> Self {
        let shared = StoreContext {
            threads: Threads::new(relay.is_none()),
            metrics,
            next_number: AtomicU64::new(0),
            metadata,
            chunk_cache: OnceLock::new(),
            unwritten: Arc::new(Semaphore::new(MAX_STORED_BYTES)),
            stored: Cache::new(MAX_STORED_BYTES, Gauge::default()),
        };
        Self(Arc::new(StoreState {
            shared: Arc::new(shared),
            connections: StoreClients::new(relay),
            known: Mutex::default(),
        }))
    }

    /// Keeps stored chunks in a cache from now on, unless there is one already.
    pub fn keep_chunks_in(&self, cache: Arc<dyn ChunkCache>) {
        self.0.shared.chunk_cache.get_or_init(|| cache);
    }

    /// Opens the object at an address; blocks until its first bytes have arrived.
    pub fn open(&self, address: &Address) -> Result<Arc<Object>, StoreError> {
        let tried = self.0.known.lock().tried.remove(address);
        if let Some(object) = tried
            && object.is_fresh()
        {
            return Ok(object);
        }
        let opening = Object::open(self.source(address)?);
        self.0.shared.threads.wait(opening)
    }

    /// The first `max_length` bytes of an object as text; `None` if there is no such object, or it
    /// cannot be read. Bytes that are not UTF-8 are replaced.
    pub fn text(&self, address: &Address, max_length: u64) -> Option<String> {
        let read = self.open(address).and_then(|object| {
            let mut bytes = vec![0; object.length().min(max_length) as usize];
            object.read_metadata(&mut bytes, 0)?;
            Ok(bytes)
        });
        match read {
            Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            Err(StoreError::Missing) => None,
            Err(error) => {
                tracing::warn!("{address} cannot be read: {error}");
                None
            }
        }
    }

    /// The folder at an address, which must not be on a web server. Makes no request: a store that
    /// is down now is used once it is up. `is_resting` is 1 while the folder is not read because
    /// requests keep failing.
    ///
    /// # Errors
    ///
    /// The settings for the store in the environment are wrong.
    pub fn folder(&self, address: &Address, is_resting: Gauge) -> Result<Folder, StoreError> {
        let bucket = self.0.connections.bucket(address)?;
        Folder::new(address, Arc::clone(&self.0.shared), bucket, is_resting)
    }

    /// Describes the servers that do not answer, and the open objects to which a store refuses
    /// access.
    pub fn unreachable(&self) -> Vec<String> {
        let known = self.0.known.lock();
        let hosts = known.hosts.values();
        let mut problems: Vec<String> = hosts.filter_map(|host| host.problem()).collect();
        for source in known.sources.values() {
            // The map holds one reference, an open object another one. If the object is not open,
            // whoever wanted to open it reports the refusal.
            if Arc::strong_count(source) > 1
                && let Some(refusal) = source.refusal()
            {
                problems.push(format!("{}: {refusal}", source.address));
            }
        }
        problems
    }

    /// Why the store refuses an object, if it did so when it was last asked.
    pub fn refusal(&self, address: &Address) -> Option<StoreError> {
        self.source(address).ok()?.refusal()
    }

    /// Reads all credentials again. They are also read again when they are refused.
    pub fn renew_credentials(&self) {
        self.0.connections.renew();
    }

    /// Whether the store of an object does not answer, or refuses access to the object. Asks the
    /// store, and blocks, unless the object was seen lately.
    pub fn is_unreachable(&self, address: &Address) -> bool {
        self.source(address)
            .is_ok_and(|source| source.is_out_of_date())
            && matches!(
                self.open(address),
                Err(StoreError::Unavailable { .. } | StoreError::Denied(_))
            )
    }

    /// The source of an object, made when it is first asked for.
    fn source(&self, address: &Address) -> Result<Arc<ObjectSource>, StoreError> {
        if let Some(source) = self.0.known.lock().sources.get(address) {
            return Ok(Arc::clone(source));
        }
        // Making a transport may read files with credentials: it is done without the lock, because
        // async threads take the lock.
        let transport = self.0.connections.transport(address)?;
        let shared = Arc::clone(&self.0.shared);
        let KnownObjects { hosts, sources, .. } = &mut *self.0.known.lock();
        let host = hosts
            .entry(address.server())
            .or_insert_with_key(|name| Arc::new(Host::new(name.clone(), shared.metrics.clone())));
        let source = sources.entry(address.clone()).or_insert_with(|| {
            Arc::new(ObjectSource {
                address: address.clone(),
                shared,
                transport,
                host: Arc::clone(host),
                status: Mutex::default(),
                checking: Arc::default(),
            })
        });
        Ok(Arc::clone(source))
    }

    /// The parent's side of a [`Relay`]: answers a request in the background. `address` is `None`
    /// if the child may not read the object. The bytes are kept, so that opening the object
    /// afterwards needs no further request. Blocks while the credentials of a bucket are read from
    /// files.
    pub fn answer(
        &self,
        wanted: RelayRequest,
        address: Option<Address>,
        reply: impl FnOnce(RelayAnswer, Bytes) + Send + 'static,
    ) {
        let store = self.clone();
        let source = match address {
            Some(address) => self.source(&address),
            None => Err(StoreError::Denied("this object is not on trial".to_owned())),
        };
        let task = async move {
            let part = match source {
                Ok(source) => store.requested_range(&wanted, source).await,
                Err(error) => Err(error),
            };
            let (result, bytes) = match part {
                Ok(part) => (Ok((part.version, part.bytes.len())), part.bytes),
                Err(error) => (Err(error), Bytes::new()),
            };
            let number = wanted.number;
            reply(RelayAnswer { number, result }, bytes);
        };
        if let Err(error) = self.0.shared.threads.spawn(task) {
            tracing::error!("a trial child gets no answer: {error}");
        }
    }

    /// The bytes that a child requests. The object is opened unless an earlier request of its trial
    /// has opened it.
    async fn requested_range(
        &self,
        wanted: &RelayRequest,
        source: Arc<ObjectSource>,
    ) -> Result<RangeBytes, StoreError> {
        let address = source.address.clone();
        let tried = self.0.known.lock().tried.get(&address).cloned();
        // An earlier trial may have kept another version.
        let object = match tried.filter(|tried| tried.is_fresh()) {
            Some(tried) => tried,
            None => {
                let opened = Object::open(source).await?;
                let mut known = self.0.known.lock();
                known.tried.insert(address, Arc::clone(&opened));
                opened
            }
        };
        let end = wanted.range.end.min(object.length());
        let start = wanted.range.start.min(end);
        let bytes = object.read_exactly(start..end).await?;
        Ok(RangeBytes {
            version: object.version().clone(),
            bytes,
        })
    }
}

#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used, reason = "only tests call it")]
impl Store {
    /// A folder in memory, and its bucket.
    pub fn folder_in_memory() -> (Folder, bucket::BucketClient) {
        let address = Address::parsed("s3://lab/tiles").unwrap().unwrap();
        let bucket = bucket::Bucket::open(&address, |_| {
            Ok(bucket::CredentialedClient {
                client: Arc::new(object_store::memory::InMemory::new()),
                credentials: None,
            })
        });
        let bucket = Arc::new(bucket.unwrap());
        let shared = Arc::clone(&Self::new(None, StoreMetrics::default(), None).0.shared);
        let client = bucket.client();
        let folder = Folder::new(&address, shared, bucket, Gauge::default());
        (folder.unwrap(), client)
    }
}
