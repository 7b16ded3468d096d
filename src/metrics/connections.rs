//! Counters of connections: how many are open, and why they were closed where that was not the client's doing.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

type Reason = [(&'static str, &'static str); 1];

/// The counters; clones share their values.
#[derive(Debug, Clone)]
pub struct Connections {
    /// Connections that are open.
    pub open: Gauge,
    closed: Family<Reason, Counter>,
    /// A request's head did not arrive in time.
    pub head_timeout: Counter,
    /// No request came for too long.
    pub idle_timeout: Counter,
    /// An answer was not read for too long.
    pub write_timeout: Counter,
    /// Idle for the longest time of all where a new one had to have its place.
    pub evicted: Counter,
    /// New ones, where all others were busy.
    pub refused: Counter,
    /// What came was no HTTP.
    pub malformed: Counter,
}

impl Default for Connections {
    fn default() -> Self {
        let closed = Family::<Reason, Counter>::default();
        let reason = |name| closed.get_or_create(&[("reason", name)]).clone();
        Self {
            open: Gauge::default(),
            head_timeout: reason("head_timeout"),
            idle_timeout: reason("idle_timeout"),
            write_timeout: reason("write_timeout"),
            evicted: reason("evicted"),
            refused: reason("refused"),
            malformed: reason("malformed"),
            closed,
        }
    }
}

impl Connections {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("connections", "Connections that are open", self.open.clone());
        let help = "Connections closed by the server, by reason";
        registry.register("connections_closed", help, self.closed.clone());
    }
}
