//! The trace of one request: how it was answered, how long each stage of its render took, and how
//! much was read.
//!
//! Whoever answers a request makes a [`Trace`] and hands it on as an argument. During a render it
//! travels in the read requests, and so reaches the volumes. Several threads may add to it at once.

mod request_id;

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub use request_id::RequestId;

/// The stages of a render.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Waiting for a render thread.
    Queue,
    /// Reading stored bytes: chunks, unfiltered voxels, or anything through libhdf5, which decodes
    /// as well.
    Read,
    /// Decoding chunks.
    Decode,
    /// Copying voxels from decoded chunks, averaging, windowing, colouring.
    Draw,
    /// Encoding pixels or voxels.
    Encode,
}

impl Stage {
    /// All stages in their order, each with its name in metrics and `Server-Timing`.
    pub const ALL: [(Stage, &'static str); 5] = [
        (Stage::Queue, "queue"),
        (Stage::Read, "read"),
        (Stage::Decode, "decode"),
        (Stage::Draw, "draw"),
        (Stage::Encode, "encode"),
    ];
}

/// Where the bytes of an answer came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Outcome {
    /// The answer is not one that is cached: a document, an error, a 304.
    #[default]
    None,
    /// The cache of encoded tiles.
    Hit,
    /// A render that another request had started.
    Wait,
    /// The disk cache.
    Disk,
    /// A cache that several servers share.
    Shared,
    /// The shared black image.
    Black,
    /// A stored chunk, sent as it is.
    Passed,
    /// A render.
    Miss,
}

impl Outcome {
    /// All outcomes in their order, each with its name.
    pub const ALL: [(Outcome, &'static str); 8] = [
        (Outcome::None, "none"),
        (Outcome::Hit, "hit"),
        (Outcome::Wait, "wait"),
        (Outcome::Disk, "disk"),
        (Outcome::Shared, "shared"),
        (Outcome::Black, "black"),
        (Outcome::Passed, "passed"),
        (Outcome::Miss, "miss"),
    ];

    /// The name in metrics, logs and `Server-Timing`.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// A record of how one request was answered. All its values can be added to by several threads.
#[derive(Debug, Default)]
pub struct Trace {
    id: Option<RequestId>,
    outcome: AtomicU8,
    /// Nanoseconds of each stage, summed over threads.
    stages: [AtomicU64; Stage::ALL.len()],
    /// Nanoseconds within [`Trace::draw`] in which the render thread read and decoded, or waited
    /// for other threads that do.
    not_drawing: AtomicU64,
    chunks_read: AtomicU64,
    chunks_cached: AtomicU64,
    stored_bytes: AtomicU64,
}

impl Trace {
    /// The trace of a request.
    pub fn new(id: RequestId) -> Self {
        Self {
            id: Some(id),
            ..Self::default()
        }
    }

    /// The request's id; empty if it has none.
    pub fn id(&self) -> &str {
        self.id.as_ref().map_or("", RequestId::as_str)
    }

    /// The request's id, for callers that clone it to keep it longer than the request.
    pub fn request_id(&self) -> Option<&RequestId> {
        self.id.as_ref()
    }

    /// Records how the request is answered.
    pub fn set_outcome(&self, outcome: Outcome) {
        self.outcome.store(outcome as u8, Ordering::Relaxed);
    }

    /// How the request is answered.
    pub fn outcome(&self) -> Outcome {
        let number = usize::from(self.outcome.load(Ordering::Relaxed));
        let outcome = Outcome::ALL.get(number);
        outcome.map_or(Outcome::None, |(outcome, _)| *outcome)
    }

    /// Adds to the duration of a stage.
    pub fn add(&self, stage: Stage, span: Duration) {
        add(&self.stages[stage as usize], nanoseconds(span));
    }

    /// The duration of a stage, summed over the threads that took part.
    pub fn stage(&self, stage: Stage) -> Duration {
        Duration::from_nanos(self.stages[stage as usize].load(Ordering::Relaxed))
    }

    /// Runs work that draws. Adds its time to the stage, without the time that was spent reading,
    /// decoding or waiting in between.
    pub fn draw<T>(&self, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        // Only the render thread adds to this duration, so the difference is its own.
        let before = self.not_drawing.load(Ordering::Relaxed);
        let result = work();
        let after = self.not_drawing.load(Ordering::Relaxed);
        let not_drawing = Duration::from_nanos(after.saturating_sub(before));
        self.add(Stage::Draw, began.elapsed().saturating_sub(not_drawing));
        result
    }

    /// Adds a time that the render thread spent reading, decoding or waiting.
    pub(crate) fn add_not_drawing(&self, span: Duration) {
        add(&self.not_drawing, nanoseconds(span));
    }

    /// Adds chunks that were read, with their stored size.
    pub fn add_read(&self, chunks: u64, bytes: u64) {
        add(&self.chunks_read, chunks);
        add(&self.stored_bytes, bytes);
    }

    /// Adds a chunk that was found decoded in the cache.
    pub(crate) fn add_cached(&self) {
        add(&self.chunks_cached, 1);
    }

    /// The chunks read.
    pub fn chunks_read(&self) -> u64 {
        self.chunks_read.load(Ordering::Relaxed)
    }

    /// The chunks found decoded in the cache.
    pub fn chunks_cached(&self) -> u64 {
        self.chunks_cached.load(Ordering::Relaxed)
    }

    /// The stored bytes read.
    pub fn stored_bytes(&self) -> u64 {
        self.stored_bytes.load(Ordering::Relaxed)
    }
}

fn add(to: &AtomicU64, number: u64) {
    to.fetch_add(number, Ordering::Relaxed);
}

fn nanoseconds(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Runs work that draws, and measures it if there is a trace.
pub fn drawing<T>(trace: Option<&Trace>, work: impl FnOnce() -> T) -> T {
    match trace {
        Some(trace) => trace.draw(work),
        None => work(),
    }
}

/// Runs a stage, and measures it if there is a trace.
pub fn stage<T>(trace: Option<&Trace>, stage: Stage, work: impl FnOnce() -> T) -> T {
    let Some(trace) = trace else { return work() };
    let began = Instant::now();
    let result = work();
    trace.add(stage, began.elapsed());
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_and_outcomes_are_numbered_in_their_order() {
        assert!(
            Stage::ALL
                .iter()
                .enumerate()
                .all(|(number, (stage, _))| *stage as usize == number)
        );
        assert!(
            Outcome::ALL
                .iter()
                .enumerate()
                .all(|(number, (outcome, _))| *outcome as usize == number)
        );
        let trace = Trace::default();
        for (outcome, _) in Outcome::ALL {
            trace.set_outcome(outcome);
            assert_eq!(trace.outcome(), outcome);
        }
    }

    #[test]
    fn drawing_leaves_out_what_was_reading() {
        let (trace, long) = (Trace::default(), Duration::from_secs(3600));
        trace.draw(|| trace.add_not_drawing(long));
        assert!(trace.stage(Stage::Draw) < long);
        trace.draw(|| trace.add(Stage::Read, long));
        assert_eq!(trace.stage(Stage::Read), long);
    }
}
