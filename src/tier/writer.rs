//! Writes tiles behind the answers that they are part of: a queue of so many bytes, and one thread.
//!
//! Where the disk is slower than the render threads the queue fills, and tiles are dropped: they can be drawn again, and
//! nobody waits for them.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::metrics::Metrics;
use crate::name::Name;
use crate::tile::TileKey;

/// How many bytes of tiles may wait: 32 MiB.
const MOST: usize = 32 << 20;

/// A tile that is to be written.
pub(super) struct Waiting {
    pub token: Name,
    pub key: TileKey,
    pub png: Bytes,
    /// Asked before it is written: whether it still is what its key says. May take a while.
    pub still_so: Box<dyn FnOnce() -> bool + Send>,
}

/// The queue and its thread. When it is dropped, what waits is written first: see [`Writer::finish`] for a bound.
pub(super) struct Writer {
    queue: Arc<Queue>,
    metrics: Metrics,
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Waiting>,
    /// Of those that wait and of the one that is being written.
    bytes: usize,
    /// Nothing more is taken.
    closed: bool,
}

impl Writer {
    /// Starts the thread.
    pub fn start(
        write: impl Fn(&Name, &TileKey, &Bytes) + Send + 'static,
        metrics: Metrics,
    ) -> io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let (own, dropped) = (Arc::clone(&queue), metrics.clone());
        thread::Builder::new().name("tier-writer".to_owned()).spawn(move || {
            while let Some(Waiting { token, key, png, still_so }) = own.next() {
                if still_so() {
                    write(&token, &key, &png);
                } else {
                    dropped.tier_dropped.inc();
                }
                own.done(png.len());
            }
        })?;
        Ok(Self { queue, metrics })
    }

    /// Has a tile written when its turn comes; drops it where too much waits.
    pub fn write(&self, tile: Waiting) {
        let mut state = self.queue.lock();
        if state.closed || state.bytes + tile.png.len() > MOST {
            drop(state);
            self.metrics.tier_dropped.inc();
            return;
        }
        state.bytes += tile.png.len();
        state.waiting.push_back(tile);
        self.queue.changed.notify_all();
    }

    /// Takes nothing more, and waits until all is written, though not for longer than so; answers how many tiles were
    /// dropped then.
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
        self.metrics.tier_dropped.inc_by(dropped.len() as u64);
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
    /// The next tile, as soon as there is one; `None` once there will be none any more.
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
