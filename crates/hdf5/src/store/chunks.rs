//! Fetches stored chunks for the decoders. Each chunk is fetched once, chunks that lie close
//! together share a request, and many requests run at once.
//!
//! Bytes that have arrived are kept in memory for a while, because a chunk that was decoded in part
//! is likely to be decoded further soon. They are also written to the cache on a local disk, if
//! there is one.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use voltile_base::flow::cache::{Abandoned, Lookup, Waiter};
use voltile_base::flow::interest::Interest;
use voltile_base::flow::stalls::waiting_for_store;
use voltile_base::tile::TileKey;

use super::context::{ChunkFlight, land};
use super::error::StoreError;
use super::merge::{MergedRequest, merge};
use super::object::Object;

/// A request goes on for this long after its last waiter has left, because a client that gives up
/// may ask again at once.
const GRACE: Duration = Duration::from_millis(20);

/// Ranges that are on their way; none by default. Dropping this gives up the ranges that nobody
/// else waits for.
#[derive(Default)]
#[must_use]
pub struct Gathering(Vec<Waiter<Bytes, StoreError>>);

impl Gathering {
    /// Also waits for the ranges of another gathering.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Whether there is nothing to wait for: all ranges had arrived already.
    pub fn is_empty(&self) -> bool {
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

impl Object {
    /// Starts to fetch stored chunks.
    pub fn gather(self: &Arc<Self>, ranges: &[Range<u64>]) -> Result<Gathering, StoreError> {
        let mut waiters = Vec::new();
        let mut flights = Vec::new();
        for range in ranges.iter().filter(|range| !range.is_empty()) {
            match self.shared().stored.lookup(&(self.number, range.clone())) {
                Lookup::Ready(_) => {}
                Lookup::Wait(waiter) => waiters.push(waiter),
                Lookup::Lead(flight) => {
                    waiters.push(flight.join());
                    flights.push((range.clone(), flight));
                }
            }
        }
        launch(self, flights)?;
        Ok(Gathering(waiters))
    }

    /// Blocks the calling thread until ranges have arrived, or nobody is interested any more.
    pub fn wait(&self, gathering: Gathering, interest: Option<Interest>) -> Result<(), StoreError> {
        if gathering.is_empty() {
            return Ok(());
        }
        let arrived = async move {
            let Some(interest) = interest else {
                return gathering.done().await;
            };
            tokio::select! {
                arrived = gathering.done() => arrived,
                () = interest.gone() => Err(Abandoned.into()),
            }
        };
        waiting_for_store(|| self.shared().threads.wait(arrived))
    }

    /// The bytes of a stored chunk; blocks the calling thread until they have arrived.
    pub fn fetch(self: &Arc<Self>, range: &Range<u64>) -> Result<Bytes, StoreError> {
        match self.shared().stored.lookup(&(self.number, range.clone())) {
            Lookup::Ready(bytes) => Ok(bytes),
            Lookup::Wait(waiter) => match waiting_for_store(|| waiter.wait_blocking()) {
                // The caller that led the flight has given up the request.
                Err(StoreError::Abandoned(_)) => self.fetch(range),
                arrived => arrived,
            },
            Lookup::Lead(flight) => {
                let waiter = flight.join();
                launch(self, vec![(range.clone(), flight)])?;
                waiting_for_store(|| waiter.wait_blocking())
            }
        }
    }

    /// The bytes of a stored chunk, if they have arrived.
    pub(crate) fn arrived(&self, range: &Range<u64>) -> Option<Bytes> {
        self.shared().stored.get(&(self.number, range.clone()))
    }

    /// Drops the bytes of a stored chunk that could not be decoded, also from the cache on a disk.
    /// They are fetched again the next time that they are wanted. May block.
    pub fn forget(&self, range: &Range<u64>) {
        let shared = self.shared();
        shared.stored.discard(&(self.number, range.clone()));
        if let Some(cache) = shared.chunk_cache.get()
            && let Err(problem) = cache.remove(self.address().name(), &key(self, range))
        {
            shared.note_cache_problem(&problem);
        }
    }
}

/// Starts requests for ranges, which are merged if they lie close together. Ranges that came with
/// the metadata are handed out at once.
fn launch(object: &Arc<Object>, flights: Vec<(Range<u64>, ChunkFlight)>) -> Result<(), StoreError> {
    let mut unknown = Vec::new();
    for (range, flight) in flights {
        match object.known(&range) {
            Some(bytes) => land(flight, Ok(bytes)),
            None => unknown.push((range, flight)),
        }
    }
    for request in merge(unknown) {
        let fetching = fetch_parts(Arc::clone(object), request);
        // The handle is not needed: the task ends by itself.
        let _handle = object.shared().threads.spawn(fetching)?;
    }
    Ok(())
}

/// Makes one request, and hands its parts to the readers that wait for them. Gives up once no
/// reader waits any more.
async fn fetch_parts(
    object: Arc<Object>,
    MergedRequest { range, parts }: MergedRequest<ChunkFlight>,
) {
    let mut parts = land_cached(&object, parts).await;
    if parts.is_empty() {
        return;
    }
    let request = object.get(range.clone());
    tokio::pin!(request);
    let answer = loop {
        tokio::select! {
            answer = &mut request => break answer,
            () = unwanted(&parts) => {
                let mut wanted = Vec::new();
                for (part, flight) in parts {
                    if let Some(flight) = flight.still_wanted() {
                        wanted.push((part, flight));
                    }
                }
                parts = wanted;
                if parts.is_empty() {
                    return;
                }
            }
        }
    };
    for (part, flight) in parts {
        let bytes = match &answer {
            Ok(bytes) => cut_out(bytes, &range, &part),
            Err(error) => Err(error.clone()),
        };
        if let Ok(bytes) = &bytes {
            write_to_cache(&object, &part, bytes);
        }
        land(flight, bytes);
    }
}

/// Copies a part out of the bytes of a range. A slice would keep the bytes between the parts in
/// memory, too.
fn cut_out(bytes: &Bytes, range: &Range<u64>, part: &Range<u64>) -> Result<Bytes, StoreError> {
    let start = (part.start - range.start) as usize;
    let end = (part.end - range.start) as usize;
    let part = bytes.get(start..end).map(Bytes::copy_from_slice);
    part.ok_or_else(|| StoreError::invalid("the object ends before the bytes that are wanted"))
}

/// Returns [`GRACE`] after the waiters of all parts have left. New waiters may have joined
/// meanwhile: see [`ChunkFlight::unwanted`].
async fn unwanted(parts: &[(Range<u64>, ChunkFlight)]) {
    for (_, flight) in parts {
        flight.unwanted().await;
    }
    tokio::time::sleep(GRACE).await;
}

/// The key in the cache on a disk of a range of one version of an object.
fn key(object: &Object, range: &Range<u64>) -> TileKey {
    let public = object.address().public();
    TileKey::digest(&("stored bytes", public, object.version(), range))
}

/// Ends the flights of ranges that are in the cache on a disk, and returns the other ranges.
async fn land_cached(
    object: &Arc<Object>,
    parts: Vec<(Range<u64>, ChunkFlight)>,
) -> Vec<(Range<u64>, ChunkFlight)> {
    let Some(cache) = object.shared().chunk_cache.get().map(Arc::clone) else {
        return parts;
    };
    let object = Arc::clone(object);
    let task = tokio::task::spawn_blocking(move || {
        let mut missing = Vec::new();
        for (range, flight) in parts {
            let cached = cache.get(object.address().name(), &key(&object, &range));
            let cached = cached.unwrap_or_else(|problem| {
                object.shared().note_cache_problem(&problem);
                None
            });
            match cached {
                Some(bytes) if bytes.len() as u64 == range.end - range.start => {
                    object.shared().metrics.chunks_found.inc();
                    land(flight, Ok(bytes));
                }
                _ => missing.push((range, flight)),
            }
        }
        missing
    });
    // If the task panics, its flights end, and whoever waits for them asks again.
    task.await.unwrap_or_default()
}

/// Writes a range to the cache in the background, unless too many bytes wait for the disk.
fn write_to_cache(object: &Arc<Object>, range: &Range<u64>, bytes: &Bytes) {
    let shared = object.shared();
    let Some(cache) = shared.chunk_cache.get().map(Arc::clone) else {
        return;
    };
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let Ok(room) = Arc::clone(&shared.unwritten).try_acquire_many_owned(length) else {
        return shared.note_cache_problem("the disk takes chunks more slowly than they arrive");
    };
    let key = key(object, range);
    let object = Arc::clone(object);
    let bytes = bytes.clone();
    drop(tokio::task::spawn_blocking(move || {
        let _room = room;
        if let Err(problem) = cache.put(object.address().name(), &key, &bytes) {
            object.shared().note_cache_problem(&problem);
        }
    }));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::slice;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use parking_lot::Mutex;
    use tokio::sync::Semaphore;

    use super::*;
    use crate::store::blocks::BLOCK;
    use crate::store::context::ChunkCache;
    use crate::store::source::ObjectSource;
    use crate::store::transport::{RangeAnswer, RangeBytes, Transport};
    use crate::store::version::Version;

    /// An object of zeros.
    #[derive(Debug)]
    struct Zeros;

    impl Transport for Zeros {
        fn get<'a>(&'a self, range: Range<u64>, _: Option<&'a Version>) -> RangeAnswer<'a> {
            let bytes = vec![0; (range.end - range.start) as usize].into();
            let version = Version::new(1 << 40, None, None);
            Box::pin(async move { Ok(RangeBytes { version, bytes }) })
        }
    }

    /// A disk that tells when it is written to, and then waits until it may go on.
    struct SlowDisk(Sender<()>, Mutex<Receiver<()>>);

    impl ChunkCache for SlowDisk {
        fn get(&self, _: &str, _: &TileKey) -> Result<Option<Bytes>, String> {
            Ok(None)
        }

        fn put(&self, _: &str, _: &TileKey, _: &Bytes) -> Result<(), String> {
            self.0.send(()).unwrap();
            self.1.lock().recv().map_err(|error| error.to_string())
        }

        fn remove(&self, _: &str, _: &TileKey) -> Result<(), String> {
            Ok(())
        }
    }

    /// An object of zeros with a cache; at most `room` bytes may wait to be written to it.
    async fn cached_zeros(cache: Arc<dyn ChunkCache>, room: usize) -> Arc<Object> {
        let mut source = ObjectSource::read_by(Arc::new(Zeros));
        let shared = Arc::get_mut(&mut Arc::get_mut(&mut source).unwrap().shared).unwrap();
        shared.unwritten = Arc::new(Semaphore::new(room));
        shared.chunk_cache.get_or_init(|| cache);
        Object::open(source).await.unwrap()
    }

    /// A disk that tells the length of each entry that is written, and 0 for one that is removed.
    struct Entries(Sender<usize>, Mutex<BTreeMap<String, Bytes>>);

    impl ChunkCache for Entries {
        fn get(&self, _: &str, key: &TileKey) -> Result<Option<Bytes>, String> {
            Ok(self.1.lock().get(&key.to_string()).cloned())
        }

        fn put(&self, _: &str, key: &TileKey, bytes: &Bytes) -> Result<(), String> {
            self.1.lock().insert(key.to_string(), bytes.clone());
            self.0.send(bytes.len()).map_err(|error| error.to_string())
        }

        fn remove(&self, _: &str, key: &TileKey) -> Result<(), String> {
            assert!(self.1.lock().remove(&key.to_string()).is_some());
            self.0.send(0).map_err(|error| error.to_string())
        }
    }

    #[tokio::test]
    async fn a_forgotten_chunk_is_fetched_again_and_not_taken_from_the_disk() {
        let (told, written) = channel();
        let cache = Arc::new(Entries(told, Mutex::default()));
        let object = cached_zeros(cache, 1000).await;
        let range = 1 << 30..(1 << 30) + 1000;
        let gather = || object.gather(slice::from_ref(&range)).unwrap().done();
        gather().await.unwrap();
        assert_eq!(written.recv().unwrap(), 1000);
        object.forget(&range);
        assert_eq!(written.recv().unwrap(), 0);
        gather().await.unwrap();
        assert_eq!(written.recv().unwrap(), 1000);
        assert_eq!(object.shared().metrics.chunks_found.get(), 0);
    }

    #[tokio::test]
    async fn no_more_chunks_wait_for_a_slow_disk_than_there_is_room_for() {
        let (began, writes) = channel();
        let (go_on, may_end) = channel();
        let cache = Arc::new(SlowDisk(began, Mutex::new(may_end)));
        let object = cached_zeros(cache, 3000).await;
        let range = |number: u64| (number << 30) + BLOCK..(number << 30) + BLOCK + 1000;
        let ranges: Vec<Range<u64>> = (0..10).map(range).collect();
        object.gather(&ranges).unwrap().done().await.unwrap();
        assert_eq!(object.shared().metrics.chunk_errors.get(), 7);
        (0..3).for_each(|_| go_on.send(()).unwrap());
        (0..3).for_each(|_| writes.recv().unwrap());
        while object.shared().unwritten.available_permits() < 3000 {
            tokio::task::yield_now().await;
        }
        go_on.send(()).unwrap();
        object.gather(&[range(10)]).unwrap().done().await.unwrap();
        writes.recv().unwrap();
    }
}
