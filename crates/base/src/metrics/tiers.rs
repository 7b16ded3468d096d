//! The counters of each tier: a store of encoded tiles outside of this process's memory.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::histogram::TimeHistogram;

/// The counters of one tier; clones share their values.
#[derive(Debug, Clone, Default)]
pub struct TierCounters {
    /// Tiles found there.
    pub hits: Counter,
    /// Tiles looked up there and not found.
    pub misses: Counter,
    /// Tiles written.
    pub writes: Counter,
    /// Tiles not written: too many were waiting, their files had changed, or the tier was away.
    pub dropped: Counter,
    /// Tiles that were found damaged.
    pub corrupt: Counter,
    /// Failed reads and writes.
    pub errors: Counter,
    /// Lookups that were not made, because the circuit breaker was open.
    pub skipped: Counter,
    /// 1 while the circuit breaker is open.
    pub open: Gauge,
    lookups: TimeHistogram,
}

impl TierCounters {
    /// Records how long a lookup took.
    pub fn observe_lookup(&self, span: Duration) {
        self.lookups.observe(span);
    }

    /// Registers all metrics with this prefix; the circuit breaker's metrics only if there is one.
    pub(super) fn register(
        &self,
        registry: &mut Registry,
        prefix: &str,
        what: &str,
        has_breaker: bool,
    ) {
        let counters: [(&str, String, &Counter); 6] = [
            ("hits", format!("Tiles found in {what}"), &self.hits),
            ("misses", format!("Tiles not found in {what}"), &self.misses),
            ("writes", format!("Tiles written to {what}"), &self.writes),
            (
                "dropped",
                format!("Tiles that were not written to {what}: queue full, file changed, or away"),
                &self.dropped,
            ),
            (
                "corrupt",
                format!("Tiles in {what} found damaged, and removed"),
                &self.corrupt,
            ),
            (
                "errors",
                format!("Failed reads from and writes to {what}"),
                &self.errors,
            ),
        ];
        for (name, help, counter) in counters {
            registry.register(format!("{prefix}_{name}"), help, counter.clone());
        }
        let help = format!("Time of lookups in {what}");
        let name = format!("{prefix}_lookup_seconds");
        registry.register(name, help, self.lookups.clone());
        if has_breaker {
            let help = format!("Lookups in {what} that were not made: circuit breaker open");
            registry.register(format!("{prefix}_skipped"), help, self.skipped.clone());
            let help = format!("1 while the circuit breaker of {what} is open");
            registry.register(format!("{prefix}_breaker_open"), help, self.open.clone());
        }
    }
}
