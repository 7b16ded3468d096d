//! Buckets. The client of a bucket, which has connections and credentials of its own, is replaced
//! when the credentials have changed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use object_store::ObjectStore;
use parking_lot::Mutex;

use super::error::StoreError;
use crate::store::address::Address;

/// The minimum time between two readings of credentials that were refused.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(10);

pub(super) type BucketClient = Arc<dyn ObjectStore>;
/// Makes a client with the current credentials.
type MakeClient = fn(&Address) -> Result<CredentialedClient, StoreError>;

/// A client, with the means to tell whether its credentials have changed.
#[derive(Debug)]
pub(super) struct CredentialedClient {
    pub client: BucketClient,
    /// A digest of the credentials; `None` if a service issues them.
    pub credentials: Option<blake3::Hash>,
}

/// The bucket of an address.
#[derive(Debug)]
pub(super) struct Bucket {
    /// The address of any object in the bucket.
    address: Address,
    make_client: MakeClient,
    current: Mutex<CredentialedClient>,
    /// When refused credentials were last read again. The lock is held while they are read.
    last_renewal: tokio::sync::Mutex<Option<Instant>>,
}

impl Bucket {
    pub fn open(address: &Address, make_client: MakeClient) -> Result<Self, StoreError> {
        Ok(Self {
            address: address.clone(),
            make_client,
            current: Mutex::new(make_client(address)?),
            last_renewal: tokio::sync::Mutex::default(),
        })
    }

    pub fn client(&self) -> BucketClient {
        Arc::clone(&self.current.lock().client)
    }

    /// A client with other credentials than those of the client `refused`; `None` if there are no
    /// others. Reads the credentials again, unless that was done less than [`SHORTEST_INTERVAL`]
    /// ago.
    pub async fn instead_of(self: &Arc<Self>, refused: &BucketClient) -> Option<BucketClient> {
        let mut last_renewal = self.last_renewal.lock().await;
        let is_due = last_renewal.is_none_or(|at| at.elapsed() >= SHORTEST_INTERVAL);
        if is_due && Arc::ptr_eq(&self.client(), refused) {
            *last_renewal = Some(Instant::now());
            let bucket = Arc::clone(self);
            // Not forced: connections stay open if the credentials are the same.
            if let Err(error) = tokio::task::spawn_blocking(move || bucket.renew(false)).await {
                tracing::error!(
                    "the credentials for {} were not read again: {error}",
                    self.address.server()
                );
            }
        }
        let client = self.client();
        (!Arc::ptr_eq(&client, refused)).then_some(client)
    }

    /// Reads the credentials again, and makes a client with them; blocks. If they are the same, the
    /// present client stays with its connections, unless `is_forced`.
    pub fn renew(&self, is_forced: bool) {
        match (self.make_client)(&self.address) {
            Ok(new) => {
                let mut current = self.current.lock();
                let is_same = new.credentials.is_some() && new.credentials == current.credentials;
                if is_forced || !is_same {
                    *current = new;
                }
            }
            Err(error) => {
                tracing::warn!(
                    "the credentials for {} cannot be read again, and stay in use: {error}",
                    self.address.server()
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;

    fn made(credentials: Option<&[u8]>) -> Result<CredentialedClient, StoreError> {
        Ok(CredentialedClient {
            client: Arc::new(InMemory::new()),
            credentials: credentials.map(blake3::hash),
        })
    }

    fn bucket(make: MakeClient) -> Arc<Bucket> {
        Arc::new(Bucket::open(&Address::parsed("s3://lab/a.h5").unwrap().unwrap(), make).unwrap())
    }

    #[tokio::test]
    async fn a_client_is_kept_while_the_credentials_are_equal() {
        let bucket = bucket(|_| made(Some(b"key")));
        let client = bucket.client();
        assert!(bucket.instead_of(&client).await.is_none());
        assert!(Arc::ptr_eq(&bucket.client(), &client));
        bucket.current.lock().credentials = Some(blake3::hash(b"an older key"));
        bucket.renew(false);
        assert!(bucket.instead_of(&client).await.is_some());
        let client = bucket.client();
        bucket.renew(true);
        assert!(!Arc::ptr_eq(&bucket.client(), &client));
    }

    #[tokio::test]
    async fn a_service_is_asked_for_other_credentials_but_not_again_at_once() {
        let bucket = bucket(|_| made(None));
        let client = bucket.client();
        // Both were refused; the second waits for what the first finds.
        let (first, second) = tokio::join!(bucket.instead_of(&client), bucket.instead_of(&client));
        let (first, second) = (first.unwrap(), second.unwrap());
        assert!(Arc::ptr_eq(&first, &second) && !Arc::ptr_eq(&first, &client));
        assert!(bucket.instead_of(&first).await.is_none());
    }
}
