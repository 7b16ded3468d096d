//! Requests counted by form, status and outcome, and their durations by form.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::histogram::TimeHistogram;
use crate::flow::trace::Outcome;

/// The kind of answer that a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// A tile.
    Tile,
    /// A tile, an overview or a range below `/view/`: as a page wants it.
    View,
    /// A thumbnail of a slice.
    Overview,
    /// A box of voxels.
    Box,
    /// Neuroglancer's precomputed format.
    Precomputed,
    /// OME-Zarr.
    Zarr,
    /// A metadata file of a viewer.
    Viewer,
    /// A page, or a file of one.
    Page,
    /// A description of datasets, or of the interface.
    Description,
    /// The state of the server: health and metrics.
    Health,
    /// Anything else: a malformed path, for example.
    #[default]
    Other,
}

impl Form {
    /// All forms in their order, each with its name.
    pub const ALL: [(Form, &'static str); 11] = [
        (Form::Tile, "tile"),
        (Form::View, "view"),
        (Form::Overview, "overview"),
        (Form::Box, "box"),
        (Form::Precomputed, "precomputed"),
        (Form::Zarr, "zarr"),
        (Form::Viewer, "viewer"),
        (Form::Page, "page"),
        (Form::Description, "description"),
        (Form::Health, "health"),
        (Form::Other, "other"),
    ];

    /// The name in metrics and logs.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// The statuses that are counted by themselves; all other statuses are counted together.
const STATUSES: [u16; 17] = [
    200, 204, 206, 301, 304, 307, 308, 400, 401, 404, 405, 413, 416, 421, 431, 500, 503,
];
/// The index of all other statuses.
const OTHER_STATUS: usize = STATUSES.len();

/// Counters for each form, status and outcome; clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct RequestCounts(
    Arc<[[[AtomicU64; Outcome::ALL.len()]; STATUSES.len() + 1]; Form::ALL.len()]>,
);

impl RequestCounts {
    pub fn count(&self, form: Form, status: u16, outcome: Outcome) {
        let known = STATUSES.iter().position(|known| *known == status);
        let index = known.unwrap_or(OTHER_STATUS);
        self.0[form as usize][index][outcome as usize].fetch_add(1, Ordering::Relaxed);
    }
}

impl EncodeMetric for RequestCounts {
    /// Leaves out what never happened.
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        for ((_, form), by_status) in Form::ALL.iter().zip(self.0.iter()) {
            for (index, by_outcome) in by_status.iter().enumerate() {
                let status = STATUSES
                    .get(index)
                    .map_or("other".to_owned(), u16::to_string);
                for ((_, outcome), count) in Outcome::ALL.iter().zip(by_outcome) {
                    let count = count.load(Ordering::Relaxed);
                    if count == 0 {
                        continue;
                    }
                    let labels = [
                        ("form", *form),
                        ("status", status.as_str()),
                        ("cache", *outcome),
                    ];
                    encoder
                        .encode_family(&labels)?
                        .encode_counter::<NoLabelSet, u64, f64>(&count, None)?;
                }
            }
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Counter
    }
}

/// Durations by form.
#[derive(Debug, Clone, Default)]
pub(super) struct RequestTimes([TimeHistogram; Form::ALL.len()]);

impl RequestTimes {
    pub fn observe(&self, form: Form, span: Duration) {
        self.0[form as usize].observe(span);
    }
}

impl EncodeMetric for RequestTimes {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        for ((_, form), times) in Form::ALL.iter().zip(&self.0) {
            times.encode(encoder.encode_family(&[("form", *form)])?)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_numbered_in_their_order() {
        assert!(
            Form::ALL
                .iter()
                .enumerate()
                .all(|(number, (form, _))| *form as usize == number)
        );
    }
}
