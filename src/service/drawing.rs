//! The subject of a render: a tile, an overview, a range, or a box of voxels.

use std::cell::RefCell;
use std::sync::Arc;

use bytes::Bytes;
use voltile_base::flow::trace::{Outcome, Trace};
use voltile_base::metrics::{Metrics, Rendered};
use voltile_hdf5::volume::ReadPolicy;
use voltile_render::plan::{BoxEncoding, Cutout, Overview, Plan, Visible};
use voltile_render::{RenderError, Scratch};

use super::boxes::HeldMemory;
use super::footprint::Footprint;
use crate::catalog::range_of;

/// The plan of a picture or box.
pub(super) enum Drawing {
    Tile(Plan),
    Overview(Overview),
    Range(Visible),
    /// A box of voxels, and the memory in which it is made: held for as long as this is.
    Box(
        Cutout,
        BoxEncoding,
        #[expect(dead_code, reason = "it is held")] Option<Arc<HeldMemory>>,
    ),
}

impl Drawing {
    /// The stored voxels that it shows.
    pub fn footprint(&self) -> Footprint {
        match self {
            Drawing::Tile(plan) => Footprint::new(std::slice::from_ref(plan)),
            Drawing::Overview(plan) => Footprint::new(&plan.tiles),
            Drawing::Range(plan) => Footprint::new(&plan.tiles),
            Drawing::Box(plan, ..) => Footprint::of_box(plan),
        }
    }

    /// The kind of its result, for metrics.
    pub fn rendered(&self) -> Rendered {
        match self {
            Drawing::Tile(_) => Rendered::Tile,
            Drawing::Overview(_) => Rendered::Overview,
            Drawing::Box(..) | Drawing::Range(_) => Rendered::Box,
        }
    }

    /// Whether tiers keep it: only pictures.
    pub fn is_for_tiers(&self) -> bool {
        matches!(self, Drawing::Tile(_) | Drawing::Overview(_))
    }

    /// A box that is a stored chunk, if it can be sent as it is and is in memory: it needs no
    /// render thread. Never blocks.
    pub fn stored_chunk(&self, metrics: &Metrics, trace: Option<&Trace>) -> Option<Bytes> {
        let Drawing::Box(plan, encoding, _) = self else {
            return None;
        };
        let chunk = voltile_render::cached_box(plan, *encoding)?;
        metrics.chunks_passed.inc();
        if let Some(trace) = trace {
            trace.set_outcome(Outcome::Passed);
        }
        Some(chunk)
    }

    /// Draws and encodes it, on a render thread.
    pub fn draw(&self, policy: &ReadPolicy) -> Result<Vec<u8>, RenderError> {
        with_scratch(|scratch| match self {
            Drawing::Tile(plan) => voltile_render::render(plan, policy, scratch),
            Drawing::Overview(plan) => voltile_render::overview(plan, policy, scratch),
            Drawing::Range(plan) => {
                let range = range_of(voltile_render::visible(plan, policy, scratch)?, plan.level);
                // Numbers can always be written.
                Ok(serde_json::to_vec(&range).unwrap_or_default())
            }
            Drawing::Box(plan, encoding, _) => {
                voltile_render::cutout(plan, *encoding, policy, scratch)
            }
        })
    }
}

/// Runs a job with the thread's buffers. A nested job, started by work stealing, gets fresh ones.
fn with_scratch<T>(job: impl FnOnce(&mut Scratch) -> T) -> T {
    thread_local! {
        static SCRATCH: RefCell<Scratch> = RefCell::default();
    }
    let mut scratch = SCRATCH.take();
    let result = job(&mut scratch);
    SCRATCH.set(scratch);
    result
}
