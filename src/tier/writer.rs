//! Writes tiles to a tier after they were served: a queue bounded in bytes, and one thread.
//!
//! If the tier is slower than the render threads, the queue fills up and tiles are dropped: they can be rendered
//! again, and no request waits for them.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use prometheus_client::metrics::counter::Counter;

use crate::base::name::Name;
use crate::base::tile::TileKey;

/// The capacity of the queue in bytes of tiles.
const MAX_BYTES: usize = 32 << 20;

/// A tile to be written.
pub(super) struct Waiting {
    pub token: Name,
    pub key: TileKey,
    pub png: Bytes,
    /// Called before writing: whether the tile still matches its key. May block.
    pub still_so: Box<dyn FnOnce() -> bool + Send>,
}

/// The queue and its thread. Dropping it does not discard queued tiles: see [`Writer::finish`] for a time limit.
pub(super) struct Writer {
    queue: Arc<Queue>,
    /// Counts the tiles that are not written.
    dropped: Counter,
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Waiting>,
    /// Bytes of the queued tiles and of the one being written.
    bytes: usize,
    /// No more tiles are accepted.
    closed: bool,
}

impl Writer {
    pub fn start(
        write: impl Fn(&Name, &TileKey, &Bytes) + Send + 'static,
        dropped: Counter,
    ) -> io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let (own, skipped) = (Arc::clone(&queue), dropped.clone());
        thread::Builder::new().name("tier-writer".to_owned()).spawn(move || {
            while let Some(Waiting { token, key, png, still_so }) = own.next() {
                if still_so() {
                    write(&token, &key, &png);
                } else {
                    skipped.inc();
                }
                own.done(png.len());
            }
        })?;
        Ok(Self { queue, dropped })
    }

    /// Queues a tile; drops it if the queue is full or closed.
    pub fn write(&self, tile: Waiting) {
        let mut state = self.queue.lock();
        if state.closed || state.bytes + tile.png.len() > MAX_BYTES {
            drop(state);
            self.dropped.inc();
            return;
        }
        state.bytes += tile.png.len();
        state.waiting.push_back(tile);
        self.queue.changed.notify_all();
    }

    /// Closes the queue and waits until everything is written, for at most `within`; returns the number of tiles
    /// dropped after that.
    pub fn finish(&self, within: Duration) -> usize {
        let until = Instant::now() + within;
        let mut state = self.queue.lock();
        state.closed = true;
        self.queue.changed.notify_all();
        while state.bytes > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let woken = self.queue.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        let dropped = std::mem::take(&mut state.waiting);
        self.dropped.inc_by(dropped.len() as u64);
        dropped.len()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue.lock().closed = true;
        self.queue.changed.notify_all();
    }
}

impl Queue {
    /// Waits for the next tile; `None` once the queue is closed and empty.
    fn next(&self) -> Option<Waiting> {
        let mut state = self.lock();
        loop {
            if let Some(tile) = state.waiting.pop_front() {
                return Some(tile);
            }
            if state.closed {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn done(&self, bytes: usize) {
        self.lock().bytes -= bytes;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
