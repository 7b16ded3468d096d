//! Counters for each dataset, bounded in number.
//!
//! A dataset holds a handle to its counters. Whoever opens the next generation of its files asks
//! for the same name and gets the same counters.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

use crate::name::Name;

/// The maximum number of datasets with counters of their own.
const MAX_DATASETS: usize = 256;
/// The label of all further datasets together.
const OTHERS: &str = "other";

/// The counters of one dataset.
#[derive(Debug, Default)]
pub struct DatasetCounters {
    requests: Counter,
    renders: Counter,
    bytes: Counter,
}

impl DatasetCounters {
    /// Counts an answered request, and the length of its body.
    pub fn count_request(&self, bytes: u64) {
        self.requests.inc();
        self.bytes.inc_by(bytes);
    }

    /// Counts a render.
    pub fn count_render(&self) {
        self.renders.inc();
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
        // A dataset of this name shares the label, which must not be listed twice.
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

    /// Registers the metrics of the visible datasets.
    pub(super) fn register(&self, registry: &mut Registry, visible: impl Fn(&Name) -> bool) {
        let listed = self.listed(visible);
        let counters = |counter: fn(&DatasetCounters) -> &Counter| {
            let mut by_dataset = Vec::new();
            for (dataset, counters) in &listed {
                by_dataset.push((dataset.clone(), counter(counters).clone()));
            }
            CounterByDataset(by_dataset)
        };
        let help = "Requests answered, by dataset";
        registry.register("dataset_requests", help, counters(|each| &each.requests));
        let help = "Renders, by dataset";
        registry.register("dataset_renders", help, counters(|each| &each.renders));
        let help = "Bytes of response bodies, by dataset";
        registry.register("dataset_sent_bytes", help, counters(|each| &each.bytes));
    }

    /// The visible datasets with their counters, and the sum of all datasets without counters of
    /// their own.
    fn listed(&self, visible: impl Fn(&Name) -> bool) -> Vec<(String, Arc<DatasetCounters>)> {
        let named = self.0.named.lock();
        let mut all: Vec<_> = named
            .iter()
            .filter(|(name, _)| visible(name))
            .map(|(name, counters)| (name.to_string(), Arc::clone(counters)))
            .collect();
        if named.len() >= MAX_DATASETS || self.0.others.requests.get() > 0 {
            all.push((OTHERS.to_owned(), Arc::clone(&self.0.others)));
        }
        all
    }
}

/// The same counter of each dataset.
#[derive(Debug)]
struct CounterByDataset(Vec<(String, Counter)>);

impl EncodeMetric for CounterByDataset {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        for (dataset, counter) in &self.0 {
            counter.encode(encoder.encode_family(&[("dataset", dataset.as_str())])?)?;
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
        assert_eq!(datasets.listed(|_| true).len(), MAX_DATASETS + 1);
        let shown = datasets.listed(|name| name.as_str() == "d7");
        assert_eq!(
            shown
                .iter()
                .map(|(name, _)| name.as_str())
                .collect::<Vec<_>>(),
            ["d7", "other"]
        );
    }
}
