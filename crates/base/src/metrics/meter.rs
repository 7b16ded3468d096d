//! Measures reads. Each duration is taken once, and added both to the totals of the server and to
//! the trace of the request that the read is for.

use std::time::{Duration, Instant};

use super::Metrics;
use super::clock::Clock;
use crate::flow::trace::{Stage, Trace};

/// Adds measurements of reads to the totals, and to the trace of the request that the reads are
/// for, if there is one.
#[derive(Debug, Clone, Copy)]
pub struct Meter<'a> {
    metrics: &'a Metrics,
    trace: Option<&'a Trace>,
}

impl<'a> Meter<'a> {
    /// A meter for the reads of one request. Without a trace, it adds to the totals alone.
    pub fn new(metrics: &'a Metrics, trace: Option<&'a Trace>) -> Self {
        Self { metrics, trace }
    }

    /// Adds a stored chunk that was read: its stored size, and how long the read took.
    pub fn read_chunk(&self, bytes: u64, span: Duration) {
        self.metrics.chunk_stored_bytes.inc_by(bytes);
        self.metrics.chunk_reading.add(span);
        if let Some(trace) = self.trace {
            trace.add_read(1, bytes);
            trace.add(Stage::Read, span);
        }
    }

    /// Adds the time that it took to decode a chunk.
    pub fn decoded_chunk(&self, span: Duration) {
        self.metrics.chunk_decoding.add(span);
        if let Some(trace) = self.trace {
            trace.add(Stage::Decode, span);
        }
    }

    /// Runs `work`, which reads and decodes a chunk through the HDF5 library, and adds its duration
    /// as time spent reading.
    pub fn read_in_library<T>(&self, work: impl FnOnce() -> T) -> T {
        self.read(&self.metrics.library, work)
    }

    /// Runs `work`, which reads voxels on the render thread itself: through the HDF5 library, or by
    /// copying unfiltered voxels. Adds its duration to `clock`, and to the trace as time spent
    /// reading, not drawing.
    pub fn read_at_once<T>(&self, clock: &Clock, work: impl FnOnce() -> T) -> T {
        self.fetch(|| self.read(clock, work))
    }

    fn read<T>(&self, clock: &Clock, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let result = work();
        let span = began.elapsed();
        clock.add(span);
        if let Some(trace) = self.trace {
            trace.add(Stage::Read, span);
        }
        result
    }

    /// Runs `work`, in which the render thread reads and decodes chunks, or waits for other threads
    /// that do. Its duration does not count as drawing.
    pub fn fetch<T>(&self, work: impl FnOnce() -> T) -> T {
        let Some(trace) = self.trace else {
            return work();
        };
        let began = Instant::now();
        let result = work();
        trace.add_not_drawing(began.elapsed());
        result
    }

    /// Counts a chunk that was found decoded in the cache.
    pub fn found_chunk(&self) {
        self.metrics.chunk_hits.inc();
        if let Some(trace) = self.trace {
            trace.add_cached();
        }
    }
}
