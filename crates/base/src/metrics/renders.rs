//! How long the stages of renders took, by what was rendered.

use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;

use super::histogram::TimeHistogram;
use crate::flow::trace::{Stage, Trace};

/// The kind of result that a render makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rendered {
    /// A tile.
    Tile,
    /// A thumbnail of a slice.
    Overview,
    /// A box of voxels, also as a chunk of a chunked format.
    Box,
}

impl Rendered {
    const ALL: [Rendered; 3] = [Rendered::Tile, Rendered::Overview, Rendered::Box];

    fn name(self) -> &'static str {
        match self {
            Rendered::Tile => "tile",
            Rendered::Overview => "overview",
            Rendered::Box => "box",
        }
    }
}

/// Histograms for each kind of render and each stage.
#[derive(Debug, Clone, Default)]
pub(super) struct RenderTimes([[TimeHistogram; Stage::ALL.len()]; Rendered::ALL.len()]);

impl RenderTimes {
    pub fn observe(&self, rendered: Rendered, trace: &Trace) {
        for (histogram, stage) in self.0[rendered as usize].iter().zip(Stage::ALL) {
            histogram.observe(trace.stage(stage));
        }
    }
}

impl EncodeMetric for RenderTimes {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        for (rendered, histograms) in Rendered::ALL.iter().zip(&self.0) {
            for (stage, histogram) in Stage::ALL.iter().zip(histograms) {
                let labels = [("form", rendered.name()), ("stage", stage.name())];
                histogram.encode(encoder.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}
