//! Metrics of connections: how many are open, and how many the server closed, by reason.

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
    /// Closed because a request's head did not arrive in time.
    pub head_timeout: Counter,
    /// Closed because they were idle for too long.
    pub idle_timeout: Counter,
    /// Closed because the client did not read a response for too long.
    pub write_timeout: Counter,
    /// Closed as the longest idle one, to make room for a new connection.
    pub evicted: Counter,
    /// New connections refused because all others were busy.
    pub refused: Counter,
    /// Closed because the input was not HTTP.
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
