//! Metrics of connections: how many are open, and how many may be.

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The gauges; clones share their values.
#[derive(Debug, Clone, Default)]
pub struct ConnectionMetrics {
    /// Connections that are open.
    pub open: Gauge,
    /// How many may be open.
    pub limit: Gauge,
}

impl ConnectionMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "connections",
            "Connections that are open",
            self.open.clone(),
        );
        registry.register(
            "connections_limit",
            "Connections that may be open",
            self.limit.clone(),
        );
    }
}
