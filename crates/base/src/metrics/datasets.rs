//! Counters for each dataset, bounded in number.
//!
//! A dataset holds a handle to its counters. Whoever opens the next generation of its files asks
//! for the same name and gets the same counters.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use crate::name::Name;

/// The maximum number of datasets with counters of their own.
const MAX_DATASETS: usize = 256;
/// The label of all further datasets together.
const OTHERS: &str = "other";

/// The counters of one dataset.
#[derive(Debug, Default)]
pub struct DatasetCounters {
    requests: AtomicU64,
    renders: AtomicU64,
    bytes: AtomicU64,
}

impl DatasetCounters {
    /// Counts an answered request, and the length of its body.
    pub fn count_request(&self, bytes: u64) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a render.
    pub fn count_render(&self) {
        self.renders.fetch_add(1, Ordering::Relaxed);
    }
}

/// The counters of all datasets; clones share them.
#[derive(Debug, Clone, Default)]
pub struct DatasetMetrics(Arc<CountersByDataset>);

#[derive(Debug, Default)]
struct CountersByDataset {
    named: Mutex<BTreeMap<Name, Arc<DatasetCounters>>>,
    others: Arc<DatasetCounters>,
}

impl DatasetMetrics {
    /// The counters of the dataset with this name.
    pub fn counters(&self, dataset: &Name) -> Arc<DatasetCounters> {
        // A label must not be listed twice.
        if dataset.as_str() == OTHERS {
            return Arc::clone(&self.0.others);
        }
        let mut named = self.0.named.lock();
        match named.get(dataset) {
            Some(counters) => Arc::clone(counters),
            None if named.len() < MAX_DATASETS => {
                Arc::clone(named.entry(dataset.clone()).or_default())
            }
            None => Arc::clone(&self.0.others),
        }
    }

    /// The counters of the visible datasets, and the sum of all datasets without counters of their
    /// own.
    pub(super) fn listed(&self, visible: impl Fn(&Name) -> bool) -> VisibleCounters {
        let named = self.0.named.lock();
        let mut all: Vec<_> = named
            .iter()
            .filter(|(name, _)| visible(name))
            .map(|(name, counters)| (name.as_str().to_owned(), Arc::clone(counters)))
            .collect();
        if named.len() >= MAX_DATASETS || self.0.others.requests.load(Ordering::Relaxed) > 0 {
            all.push((OTHERS.to_owned(), Arc::clone(&self.0.others)));
        }
        VisibleCounters(all)
    }
}

/// Counters with the label of each.
#[derive(Debug, Clone)]
pub(super) struct VisibleCounters(Vec<(String, Arc<DatasetCounters>)>);

impl VisibleCounters {
    /// The metrics: name, help, values.
    pub fn metrics(&self) -> [(&'static str, &'static str, PerDataset); 3] {
        let metrics: [(&str, &str, CounterOf); 3] = [
            (
                "dataset_requests",
                "Requests answered, by dataset",
                |counters| &counters.requests,
            ),
            ("dataset_renders", "Renders, by dataset", |counters| {
                &counters.renders
            }),
            (
                "dataset_sent_bytes",
                "Bytes of response bodies, by dataset",
                |counters| &counters.bytes,
            ),
        ];
        metrics.map(|(name, help, counter)| {
            let all = self.clone();
            (name, help, PerDataset { all, counter })
        })
    }
}

/// Picks one of a dataset's counters.
type CounterOf = fn(&DatasetCounters) -> &AtomicU64;

/// The same counter of each dataset.
#[derive(Debug)]
pub(super) struct PerDataset {
    all: VisibleCounters,
    counter: CounterOf,
}

impl EncodeMetric for PerDataset {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        for (name, counters) in &self.all.0 {
            let count = (self.counter)(counters).load(Ordering::Relaxed);
            let labels = [("dataset", name.as_str())];
            encoder
                .encode_family(&labels)?
                .encode_counter::<NoLabelSet, u64, f64>(&count, None)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Counter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_counters_and_late_names_share_them() {
        let datasets = DatasetMetrics::default();
        let counters = |number: usize| datasets.counters(&Name::nearest(&format!("d{number}")));
        for number in 0..MAX_DATASETS {
            assert!(Arc::ptr_eq(&counters(number), &counters(number)));
        }
        assert!(!Arc::ptr_eq(&counters(0), &counters(1)));
        assert!(Arc::ptr_eq(
            &counters(MAX_DATASETS),
            &counters(MAX_DATASETS + 1)
        ));
        assert_eq!(datasets.listed(|_| true).0.len(), MAX_DATASETS + 1);
        let shown = datasets.listed(|name| name.as_str() == "d7").0;
        assert_eq!(
            shown
                .iter()
                .map(|(name, _)| name.as_str())
                .collect::<Vec<_>>(),
            ["d7", "other"]
        );
    }
}
