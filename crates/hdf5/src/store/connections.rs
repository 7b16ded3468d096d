//! The clients that read objects. All objects in a bucket share one client, and all objects on web
//! servers share another one.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::bucket::Bucket;
use super::cloud::{self, BucketObject};
use super::error::StoreError;
use super::relay::{Relay, RelayedObject};
use super::transport::Transport;
use super::web::{WebClients, WebObject};
use crate::store::address::{Address, Scheme};

/// The clients, each made when the first object needs it.
#[derive(Debug)]
pub(super) struct StoreClients {
    /// Set if all objects are read through another process.
    relay: Option<Arc<Relay>>,
    web: OnceLock<Result<Arc<WebClients>, StoreError>>,
    buckets: Mutex<HashMap<(Scheme, String), Arc<Bucket>>>,
}

impl StoreClients {
    pub fn new(relay: Option<Arc<Relay>>) -> Self {
        Self {
            relay,
            web: OnceLock::new(),
            buckets: Mutex::default(),
        }
    }

    /// The transport that fetches ranges of the object at an address.
    pub fn transport(&self, address: &Address) -> Result<Arc<dyn Transport>, StoreError> {
        if let Some(relay) = &self.relay {
            return Ok(Arc::new(RelayedObject {
                relay: Arc::clone(relay),
                address: address.clone(),
            }));
        }
        match address.scheme() {
            Scheme::Web => Ok(Arc::new(WebObject {
                address: address.clone(),
                clients: self.web()?,
            })),
            Scheme::S3 | Scheme::Gs | Scheme::Az => {
                let bucket = self.bucket(address)?;
                Ok(Arc::new(BucketObject::new(address, bucket)?))
            }
        }
    }

    fn web(&self) -> Result<Arc<WebClients>, StoreError> {
        let clients = self.web.get_or_init(|| {
            install_cryptography();
            let clients = WebClients::new().map(Arc::new);
            clients.map_err(|error| StoreError::Settings(error.to_string()))
        });
        clients.clone()
    }

    /// The bucket of an address, opened if no object of it has been asked for yet.
    pub fn bucket(&self, address: &Address) -> Result<Arc<Bucket>, StoreError> {
        let mut buckets = self.buckets.lock();
        let key = (address.scheme(), address.bucket().to_owned());
        if let Some(bucket) = buckets.get(&key) {
            return Ok(Arc::clone(bucket));
        }
        install_cryptography();
        let bucket = Arc::new(Bucket::open(address, cloud::client)?);
        buckets.insert(key, Arc::clone(&bucket));
        Ok(bucket)
    }

    /// Reads the credentials of all buckets again. Blocks the calling thread meanwhile.
    pub fn renew(&self) {
        // A copy, so that the lock is not held while files with credentials are read.
        let buckets = self.buckets.lock().clone();
        for bucket in buckets.values() {
            // Forced: clients are made anew even if the credentials are the same.
            bucket.renew(true);
        }
    }
}

/// Installs the cryptography that TLS uses in this process, unless one is installed already.
pub fn install_cryptography() {
    // An error means that another one was installed before.
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
}
