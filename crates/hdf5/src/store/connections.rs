//! The clients that read objects. All objects in a bucket share one client, and so do all objects
//! on web servers.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::bucket::Bucket;
use super::cloud::{self, Cloud};
use super::error::StoreError;
use super::relay::{Relay, Relayed};
use super::transport::Transport;
use super::web::{Clients, Web};
use crate::store::address::{Address, Scheme};

/// The clients.
#[derive(Debug)]
pub(super) struct StoreClients {
    /// Set if all objects are read through another process.
    relay: Option<Arc<Relay>>,
    web: OnceLock<Result<Arc<Clients>, StoreError>>,
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

    /// Fetches ranges of the object at an address.
    pub fn to(&self, address: &Address) -> Result<Arc<dyn Transport>, StoreError> {
        if let Some(relay) = &self.relay {
            return Ok(Arc::new(Relayed {
                relay: Arc::clone(relay),
                address: address.clone(),
            }));
        }
        Ok(match address.scheme() {
            Scheme::Web => Arc::new(Web {
                address: address.clone(),
                clients: self.web()?,
            }),
            Scheme::S3 | Scheme::Gs | Scheme::Az => {
                Arc::new(Cloud::to(address, self.bucket(address)?)?)
            }
        })
    }

    fn web(&self) -> Result<Arc<Clients>, StoreError> {
        let clients = self.web.get_or_init(|| {
            install_cryptography();
            Clients::new().map(Arc::new)
        });
        clients.clone()
    }

    /// The bucket of an address.
    pub fn bucket(&self, address: &Address) -> Result<Arc<Bucket>, StoreError> {
        let mut known = self.buckets.lock();
        let key = (address.scheme(), address.bucket().to_owned());
        if let Some(bucket) = known.get(&key) {
            return Ok(Arc::clone(bucket));
        }
        install_cryptography();
        let bucket = Arc::new(Bucket::open(address, cloud::client)?);
        known.insert(key, Arc::clone(&bucket));
        Ok(bucket)
    }

    /// Reads all credentials again; blocks.
    pub fn renew(&self) {
        let known = self.buckets.lock().clone();
        known.values().for_each(|bucket| bucket.renew(true));
    }
}

/// Chooses the implementation of TLS's cryptography for this process, if nobody has.
pub fn install_cryptography() {
    // An error means that one was installed before.
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
}
