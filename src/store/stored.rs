//! Stored chunks on their way from a store to the decoders: each fetched once, merged over small gaps, many at once.
//!
//! What has arrived is kept for a while, because a chunk that was decoded in part is decoded further soon.

use std::ops::Range;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use prometheus_client::metrics::gauge::Gauge;

use super::error::StoreError;
use super::kept;
use super::merge::merged;
use super::object::Object;
use super::runtime;
use crate::cache::{Cache, Flight, Lookup, Waiter};

/// How many bytes that have arrived are kept: the stored chunks of a dozen tiles.
const KEPT: usize = 128 << 20;
/// How often a request that takes long is checked for whether anybody still waits for it.
const CHECKS: Duration = Duration::from_millis(20);

/// The number of an object, and a range of its bytes.
pub(super) type Key = (u64, Range<u64>);
pub(super) type Arriving = Flight<Key, Bytes, StoreError>;

static STORED: LazyLock<Cache<Key, Bytes, StoreError>> = LazyLock::new(|| Cache::new(KEPT, Gauge::default()));

/// Ranges that are on their way. Dropping this gives up those that nobody else waits for.
#[must_use]
pub struct Gathering(Vec<Waiter<Bytes, StoreError>>);

impl Gathering {
    /// Nothing to wait for.
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// Also waits for what another one waits for.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Whether there is nothing to wait for.
    pub fn is_done(&self) -> bool {
        self.0.is_empty()
    }

    /// Waits until all ranges have arrived; fails with the first that does not.
    pub async fn done(self) -> Result<(), StoreError> {
        for waiter in self.0 {
            waiter.wait().await?;
        }
        Ok(())
    }
}

/// Starts to fetch ranges of an object.
pub(super) fn gather(object: &Arc<Object>, ranges: &[Range<u64>]) -> Result<Gathering, StoreError> {
    let (mut waiters, mut flights) = (Vec::new(), Vec::new());
    for range in ranges.iter().filter(|range| !range.is_empty()) {
        match STORED.lookup(&(object.number(), range.clone())) {
            Lookup::Ready(_) => {}
            Lookup::Wait(waiter) => waiters.push(waiter),
            Lookup::Lead(flight) => {
                waiters.push(flight.join());
                flights.push((range.clone(), flight));
            }
        }
    }
    launch(object, flights)?;
    Ok(Gathering(waiters))
}

/// The bytes of a range, which blocks the calling thread until they have arrived.
pub(super) fn fetch(object: &Arc<Object>, range: &Range<u64>) -> Result<Bytes, StoreError> {
    match STORED.lookup(&(object.number(), range.clone())) {
        Lookup::Ready(bytes) => Ok(bytes),
        Lookup::Wait(waiter) => match waiter.wait_blocking() {
            // Whoever asked for it before has given up.
            Err(StoreError::Lost(_)) => fetch(object, range),
            arrived => arrived,
        },
        Lookup::Lead(flight) => {
            let waiter = flight.join();
            launch(object, vec![(range.clone(), flight)])?;
            waiter.wait_blocking()
        }
    }
}

/// The bytes of a range, if they have arrived.
pub(super) fn arrived(object: &Object, range: &Range<u64>) -> Option<Bytes> {
    STORED.get(&(object.number(), range.clone()))
}

/// Drops the bytes of a range.
pub(super) fn forget(object: &Object, range: &Range<u64>) {
    STORED.remove_if(&(object.number(), range.clone()), |_| true);
}

/// Starts the requests for ranges that lie close together, but for those that came with the metadata.
fn launch(object: &Arc<Object>, flights: Vec<(Range<u64>, Arriving)>) -> Result<(), StoreError> {
    let mut unknown = Vec::with_capacity(flights.len());
    for (range, flight) in flights {
        match object.known(&range) {
            Some(bytes) => land(flight, Ok(bytes)),
            None => unknown.push((range, flight)),
        }
    }
    let flights = unknown;
    let ranges: Vec<Range<u64>> = flights.iter().map(|(range, _)| range.clone()).collect();
    let mut flights: Vec<Option<(Range<u64>, Arriving)>> = flights.into_iter().map(Some).collect();
    for request in merged(&ranges) {
        let parts = request.parts.iter().filter_map(|at| flights[*at].take()).collect();
        // The task ends by itself.
        drop(runtime::spawn(bring(Arc::clone(object), request.range, parts))?);
    }
    Ok(())
}

/// Makes one request, and hands its parts to those who wait for them; ends when nobody does.
async fn bring(object: Arc<Object>, range: Range<u64>, parts: Vec<(Range<u64>, Arriving)>) {
    let mut parts = kept::found(&object, parts).await;
    if parts.is_empty() {
        return;
    }
    let request = object.get(range.clone());
    tokio::pin!(request);
    let answer = loop {
        tokio::select! {
            answer = &mut request => break answer,
            () = tokio::time::sleep(CHECKS) => {
                let is_wanted = |flight: &Arriving| flight.interest().is_there();
                if parts.iter().any(|(_, flight)| is_wanted(flight)) {
                    continue;
                }
                parts = parts.into_iter().filter_map(|(range, flight)| Some((range, flight.still_wanted()?))).collect();
                if parts.is_empty() {
                    return;
                }
            }
        }
    };
    for (part, flight) in parts {
        let bytes = answer.as_ref().map_err(Clone::clone).and_then(|bytes| {
            let (start, end) = (part.start - range.start, part.end - range.start);
            if end > bytes.len() as u64 {
                return Err(StoreError::invalid("the object ends before the bytes that are wanted"));
            }
            // A copy, so that the gaps between the parts are not kept with them.
            let bytes = &bytes[start as usize..end as usize];
            Ok(Bytes::copy_from_slice(bytes))
        });
        if let Ok(bytes) = &bytes {
            kept::keep(&object, &part, bytes);
        }
        land(flight, bytes);
    }
}

pub(super) fn land(flight: Arriving, bytes: Result<Bytes, StoreError>) {
    flight.land(bytes.map(|bytes| {
        let weight = bytes.len();
        (bytes, weight)
    }));
}
