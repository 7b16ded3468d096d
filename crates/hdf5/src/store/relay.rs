//! Reads objects for a child process that must not open connections: the child requests ranges from
//! its parent, over a pipe.
//!
//! Before the program voltile opens a file itself, a confined child process opens it. The parent
//! answers the child's requests with [`Store::answer`](super::Store::answer). It keeps the bytes,
//! so that it need not fetch them again.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use voltile_base::flow::cache::Abandoned;

use super::error::StoreError;
use super::transport::{RangeAnswer, RangeBytes, Transport};
use super::version::Version;
use crate::store::address::Address;

/// A request of the child.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayRequest {
    /// The answer to this request has the same number.
    pub(super) number: u64,
    /// The public address of the object.
    pub address: String,
    /// The requested bytes.
    pub(super) range: Range<u64>,
}

impl RelayRequest {
    /// The number of requested bytes.
    pub fn length(&self) -> u64 {
        self.range.end.saturating_sub(self.range.start)
    }
}

/// The answer to a request. The requested bytes follow it in the pipe.
#[derive(Debug, Serialize, Deserialize)]
pub struct RelayAnswer {
    /// The number of the request.
    pub(super) number: u64,
    /// The version of the object, and the number of bytes that follow.
    pub(super) result: Result<(Version, usize), StoreError>,
}

impl RelayAnswer {
    /// The number of bytes that follow.
    pub fn length(&self) -> usize {
        self.result.as_ref().map_or(0, |(_, length)| *length)
    }
}

/// Sends a request to the parent.
pub(super) type SendRequest = Box<dyn Fn(&RelayRequest) -> std::io::Result<()> + Send + Sync>;

/// The child's side: sends its requests, and hands each answer to the reader that waits for it.
pub struct Relay {
    send: SendRequest,
    next_number: AtomicU64,
    /// The readers that wait for answers, by the numbers of their requests.
    waiters: Mutex<HashMap<u64, oneshot::Sender<Result<RangeBytes, StoreError>>>>,
}

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relay").finish_non_exhaustive()
    }
}

impl Relay {
    /// A relay that sends its requests with `send`.
    pub fn new(send: SendRequest) -> Self {
        Self {
            send,
            next_number: AtomicU64::new(0),
            waiters: Mutex::default(),
        }
    }

    /// Hands an answer and its bytes to the reader that waits for them.
    pub fn take(&self, answer: RelayAnswer, bytes: Vec<u8>) {
        let waiter = self.waiters.lock().remove(&answer.number);
        if let Some(waiter) = waiter {
            let part = answer.result.map(|(version, _)| RangeBytes {
                version,
                bytes: bytes.into(),
            });
            // The reader may have given up.
            let _ = waiter.send(part);
        }
    }

    async fn request(&self, address: String, range: Range<u64>) -> Result<RangeBytes, StoreError> {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        self.waiters.lock().insert(number, sender);
        let request = RelayRequest {
            number,
            address,
            range,
        };
        if let Err(error) = (self.send)(&request) {
            self.waiters.lock().remove(&number);
            return Err(StoreError::invalid(error.to_string()));
        }
        receiver.await.unwrap_or(Err(Abandoned.into()))
    }
}

/// An object that is read through the relay.
#[derive(Debug)]
pub(super) struct RelayedObject {
    pub relay: Arc<Relay>,
    pub address: Address,
}

impl Transport for RelayedObject {
    fn get<'a>(&'a self, range: Range<u64>, _: Option<&'a Version>) -> RangeAnswer<'a> {
        // No version is sent: the caller compares the version of the answer with the expected one.
        Box::pin(self.relay.request(self.address.public().to_owned(), range))
    }
}
