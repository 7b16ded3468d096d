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
    /// Tiles not written: too many were waiting, their files had changed, or the tier did not
    /// answer.
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
    /// `tier` names the tier in help texts.
    pub(super) fn register(
        &self,
        registry: &mut Registry,
        prefix: &str,
        tier: &str,
        has_breaker: bool,
    ) {
        let name = |metric: &str| format!("{prefix}_{metric}");
        let help = format!("Tiles found in {tier}");
        registry.register(name("hits"), help, self.hits.clone());
        let help = format!("Tiles not found in {tier}");
        registry.register(name("misses"), help, self.misses.clone());
        let help = format!("Tiles written to {tier}");
        registry.register(name("writes"), help, self.writes.clone());
        let help =
            format!("Tiles that were not written to {tier}: queue full, file changed, or away");
        registry.register(name("dropped"), help, self.dropped.clone());
        let help = format!("Tiles in {tier} found damaged, and removed");
        registry.register(name("corrupt"), help, self.corrupt.clone());
        let help = format!("Failed reads from and writes to {tier}");
        registry.register(name("errors"), help, self.errors.clone());
        let help = format!("Time of lookups in {tier}");
        registry.register(name("lookup_seconds"), help, self.lookups.clone());
        if has_breaker {
            let help = format!("Lookups in {tier} that were not made: circuit breaker open");
            registry.register(name("skipped"), help, self.skipped.clone());
            let help = format!("1 while the circuit breaker of {tier} is open");
            registry.register(name("breaker_open"), help, self.open.clone());
        }
    }
}
