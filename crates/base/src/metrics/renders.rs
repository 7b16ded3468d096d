//! How long the stages of renders took, by what was rendered.

use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;

use super::Form;
use super::histogram::TimeHistogram;
use crate::flow::trace::{Stage, Trace};

/// The forms of what is rendered. Ranges and chunks of chunked formats count as boxes of voxels.
const RENDERED: [Form; 3] = [Form::Tile, Form::Overview, Form::Box];

/// Histograms for each form of [`RENDERED`] and each stage.
#[derive(Debug, Clone, Default)]
pub(super) struct RenderTimes([[TimeHistogram; Stage::ALL.len()]; RENDERED.len()]);

impl RenderTimes {
    /// Adds a render, unless its form is not in [`RENDERED`].
    pub fn observe(&self, form: Form, trace: &Trace) {
        let Some(index) = RENDERED.iter().position(|rendered| *rendered == form) else {
            return;
        };
        for (histogram, (stage, _)) in self.0[index].iter().zip(Stage::ALL) {
            histogram.observe(trace.stage(stage));
        }
    }
}

impl EncodeMetric for RenderTimes {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        for (form, histograms) in RENDERED.iter().zip(&self.0) {
            for ((_, stage), histogram) in Stage::ALL.iter().zip(histograms) {
                let labels = [("form", form.name()), ("stage", *stage)];
                histogram.encode(encoder.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}
