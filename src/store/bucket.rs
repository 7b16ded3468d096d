//! A bucket: a client with connections and credentials of its own, which is replaced when the credentials may have changed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use object_store::ObjectStore;

use super::error::StoreError;
use crate::store::address::Address;

/// Credentials that are refused are read again at most this often.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(10);

pub(super) type Client = Arc<dyn ObjectStore>;
/// Makes a client with the current credentials.
type Make = fn(&Address) -> Result<Client, StoreError>;

/// The bucket of an address.
#[derive(Debug)]
pub(super) struct Bucket {
    /// The address of any object in the bucket.
    address: Address,
    make: Make,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    client: Client,
    /// When the credentials were last read again.
    renewed: Option<Instant>,
}

impl Bucket {
    pub fn open(address: &Address, make: Make) -> Result<Self, StoreError> {
        let state = State { client: make(address)?, renewed: None };
        Ok(Self { address: address.clone(), make, state: Mutex::new(state) })
    }

    pub fn client(&self) -> Client {
        Arc::clone(&self.lock().client)
    }

    /// A client to try after `refused` was refused: its credentials may differ. `None` if the credentials of `refused` were
    /// read a moment ago.
    pub fn instead_of(&self, refused: &Client) -> Option<Client> {
        let mut state = self.lock();
        if Arc::ptr_eq(&state.client, refused) {
            if state.renewed.is_some_and(|at| at.elapsed() < SHORTEST_INTERVAL) {
                return None;
            }
            self.replace(&mut state);
        }
        Some(Arc::clone(&state.client))
    }

    /// Reads the credentials again.
    pub fn renew(&self) {
        self.replace(&mut self.lock());
    }

    fn replace(&self, state: &mut State) {
        state.renewed = Some(Instant::now());
        match (self.make)(&self.address) {
            Ok(client) => state.client = client,
            Err(error) => {
                tracing::warn!(
                    "the credentials for {} cannot be read again, and stay in use: {error}",
                    self.address.server()
                );
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
