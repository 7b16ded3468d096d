//! Reads objects for a process that must not open connections: it asks this one for ranges, over a pipe.
//!
//! A file is opened in a confined child process first (see [`crate::catalog::Trial`]). What the child asks for is kept
//! here, so that opening the object afterwards needs no further request.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::error::StoreError;
use super::object::Object;
use super::runtime;
use super::transport::{Part, Transport};
use super::version::Version;
use crate::address::Address;
use crate::cache::Lost;

/// A request of the child.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    number: u64,
    address: String,
    start: u64,
    end: u64,
}

impl Wanted {
    /// The path that stands for the address.
    pub fn path(&self) -> &Path {
        Path::new(&self.address)
    }

    /// The number of bytes asked for.
    pub fn length(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// The answer to a request; the bytes follow it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Answer {
    number: u64,
    result: Result<(Version, usize), StoreError>,
}

impl Answer {
    /// The number of bytes that follow.
    pub fn length(&self) -> usize {
        self.result.as_ref().map_or(0, |(_, length)| *length)
    }
}

/// Sends a request to the parent.
type Send = Box<dyn Fn(&Wanted) -> std::io::Result<()> + std::marker::Send + Sync>;

/// The child's side: its requests, and those who wait for an answer.
pub struct Relay {
    send: Send,
    next: AtomicU64,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Result<Part, StoreError>>>>,
}

static RELAY: OnceLock<Arc<Relay>> = OnceLock::new();

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relay").finish_non_exhaustive()
    }
}

impl Relay {
    /// Has all objects of this process read through `send` from now on.
    pub fn start(send: Send) -> Arc<Self> {
        let new = || Arc::new(Self { send, next: AtomicU64::new(0), waiting: Mutex::default() });
        Arc::clone(RELAY.get_or_init(new))
    }

    /// The relay, if this process reads through one.
    pub(super) fn in_force() -> Option<Arc<Self>> {
        RELAY.get().map(Arc::clone)
    }

    /// Takes the answer to a request.
    pub fn take(&self, answer: Answer, bytes: Vec<u8>) {
        let waiter = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&answer.number);
        if let Some(waiter) = waiter {
            let part = answer.result.map(|(version, _)| Part { version, bytes: bytes.into() });
            // Whoever asked may have given up.
            let _ = waiter.send(part);
        }
    }

    async fn part(&self, address: String, range: Range<u64>) -> Result<Part, StoreError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(number, sender);
        let wanted = Wanted { number, address, start: range.start, end: range.end };
        (self.send)(&wanted).map_err(|error| StoreError::invalid(error.to_string()))?;
        receiver.await.unwrap_or(Err(Lost.into()))
    }
}

/// An object that is read through the relay.
#[derive(Debug)]
pub(super) struct Relayed {
    pub relay: Arc<Relay>,
    pub address: Address,
}

impl Transport for Relayed {
    fn get<'a>(
        &'a self,
        range: Range<u64>,
        _: Option<&'a Version>,
    ) -> BoxFuture<'a, Result<Part, StoreError>> {
        Box::pin(self.relay.part(self.address.public().to_owned(), range))
    }
}

/// The parent's side: has a request answered in the background. `allowed` says whether the child may read an address.
pub fn answer(
    wanted: Wanted,
    allowed: bool,
    reply: impl FnOnce(Answer, Bytes) + std::marker::Send + 'static,
) {
    let task = async move {
        let part = if allowed { part(&wanted).await } else { Err(not_allowed()) };
        let (result, bytes) = match part {
            Ok(part) => (Ok((part.version, part.bytes.len())), part.bytes),
            Err(error) => (Err(error), Bytes::new()),
        };
        reply(Answer { number: wanted.number, result }, bytes);
    };
    if let Err(error) = runtime::spawn(task) {
        tracing::error!("a trial child gets no answer: {error}");
    }
}

fn not_allowed() -> StoreError {
    StoreError::Denied { problem: "this object is not on trial".to_owned() }
}

async fn part(wanted: &Wanted) -> Result<Part, StoreError> {
    let address = Address::of(Path::new(&wanted.address)).ok_or(StoreError::Missing)?;
    let object = Object::on_trial(&address).await?;
    let end = wanted.end.min(object.length());
    let range = wanted.start.min(end)..end;
    let bytes = object.exactly(range).await?;
    Ok(Part { version: object.version().clone(), bytes })
}
