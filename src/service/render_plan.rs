//! The plan of a render: of a tile, an overview, a range, or a box of voxels.

use std::cell::RefCell;
use std::sync::Arc;

use voltile_base::metrics::Rendered;
use voltile_hdf5::volume::ReadPolicy;
use voltile_render::plan::{Overview, Plan, Visible};
use voltile_render::{RenderError, Scratch};

use super::footprint::Footprint;
use super::identified::PlannedBox;
use crate::catalog::range_of;

/// The plan of a tile, overview, range or box; cheap to clone.
#[derive(Debug, Clone)]
pub(super) enum RenderPlan {
    Tile(Arc<Plan>),
    Overview(Arc<Overview>),
    Range(Arc<Visible>),
    Box(PlannedBox),
}

impl RenderPlan {
    /// The stored voxels that it shows.
    pub fn footprint(&self) -> Footprint {
        match self {
            RenderPlan::Tile(plan) => Footprint::new(std::slice::from_ref(&**plan)),
            RenderPlan::Overview(plan) => Footprint::new(&plan.tiles),
            RenderPlan::Range(plan) => Footprint::new(&plan.tiles),
            RenderPlan::Box(planned) => Footprint::of_box(&planned.plan),
        }
    }

    /// The kind of its result, for metrics.
    pub fn rendered(&self) -> Rendered {
        match self {
            RenderPlan::Tile(_) => Rendered::Tile,
            RenderPlan::Overview(_) => Rendered::Overview,
            RenderPlan::Box(_) | RenderPlan::Range(_) => Rendered::Box,
        }
    }

    /// Whether tiers keep it: only pictures.
    pub fn is_for_tiers(&self) -> bool {
        matches!(self, RenderPlan::Tile(_) | RenderPlan::Overview(_))
    }

    /// Draws and encodes it, on a render thread.
    pub fn draw(&self, policy: &ReadPolicy) -> Result<Vec<u8>, RenderError> {
        with_scratch(|scratch| match self {
            RenderPlan::Tile(plan) => voltile_render::render(plan, policy, scratch),
            RenderPlan::Overview(plan) => voltile_render::overview(plan, policy, scratch),
            RenderPlan::Range(plan) => {
                let range = range_of(voltile_render::visible(plan, policy, scratch)?, plan.level);
                // Numbers can always be written.
                Ok(serde_json::to_vec(&range).unwrap_or_default())
            }
            RenderPlan::Box(planned) => {
                voltile_render::cutout(&planned.plan, planned.encoding, policy, scratch)
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
