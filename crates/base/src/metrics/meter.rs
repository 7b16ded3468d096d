//! Measures a read twice with the same clock: for the totals of the server, and for the trace of
//! one request.

use std::time::{Duration, Instant};

use super::Metrics;
use super::clock::Clock;
use crate::flow::trace::{Stage, Trace};

/// The totals, and the trace of the request that a read is for, if it has one.
#[derive(Debug, Clone, Copy)]
pub struct Meter<'a> {
    metrics: &'a Metrics,
    trace: Option<&'a Trace>,
}

impl<'a> Meter<'a> {
    /// Measures for a request, or for the totals alone.
    pub fn new(metrics: &'a Metrics, trace: Option<&'a Trace>) -> Self {
        Self { metrics, trace }
    }

    /// A stored chunk was read.
    pub fn read_chunk(&self, bytes: u64, span: Duration) {
        self.metrics.chunk_stored_bytes.inc_by(bytes);
        self.metrics.chunk_reading.add(span);
        if let Some(trace) = self.trace {
            trace.add_read(1, bytes);
            trace.add(Stage::Read, span);
        }
    }

    /// A chunk was decoded.
    pub fn decoded_chunk(&self, span: Duration) {
        self.metrics.chunk_decoding.add(span);
        if let Some(trace) = self.trace {
            trace.add(Stage::Decode, span);
        }
    }

    /// Reads and decodes a chunk through the HDF5 library.
    pub fn read_in_library<T>(&self, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let result = work();
        self.metrics.library.add(began.elapsed());
        if let Some(trace) = self.trace {
            trace.add(Stage::Read, began.elapsed());
        }
        result
    }

    /// Reads on the render thread: through the HDF5 library, or by copying unfiltered voxels.
    pub fn read_at_once<T>(&self, clock: &Clock, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let result = work();
        let span = began.elapsed();
        clock.add(span);
        if let Some(trace) = self.trace {
            trace.add(Stage::Read, span);
            trace.add_not_drawing(span);
        }
        result
    }

    /// Reads and decodes chunks on the render thread, or waits for other threads that do.
    pub fn fetch<T>(&self, work: impl FnOnce() -> T) -> T {
        let Some(trace) = self.trace else {
            return work();
        };
        let began = Instant::now();
        let result = work();
        trace.add_not_drawing(began.elapsed());
        result
    }

    /// A chunk was found decoded in the cache.
    pub fn found_chunk(&self) {
        self.metrics.chunk_hits.inc();
        if let Some(trace) = self.trace {
            trace.add_cached();
        }
    }
}
