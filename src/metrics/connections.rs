//! Metrics of connections: how many are open, how many the server closed, by reason, and what was
//! sent over them.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::clock::Clock;

type Reason = [(&'static str, &'static str); 1];

/// The counters; clones share their values.
#[derive(Debug, Clone)]
pub struct Connections {
    /// Connections that are open.
    pub open: Gauge,
    /// How many may be open.
    pub limit: Gauge,
    /// How many one client may have open.
    pub client_limit: Gauge,
    /// Bytes per second that one client may be sent; 0: no limit.
    pub bandwidth_limit: Gauge,
    /// Bytes sent.
    pub sent: Counter,
    /// Time for which connections waited because their clients' bandwidth was used up.
    pub throttled: Clock,
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
    /// Closed because the TLS handshake failed.
    pub handshake: Counter,
}

impl Default for Connections {
    fn default() -> Self {
        let closed = Family::<Reason, Counter>::default();
        let reason = |name| closed.get_or_create(&[("reason", name)]).clone();
        Self {
            open: Gauge::default(),
            limit: Gauge::default(),
            client_limit: Gauge::default(),
            bandwidth_limit: Gauge::default(),
            sent: Counter::default(),
            throttled: Clock::default(),
            head_timeout: reason("head_timeout"),
            idle_timeout: reason("idle_timeout"),
            write_timeout: reason("write_timeout"),
            evicted: reason("evicted"),
            refused: reason("refused"),
            malformed: reason("malformed"),
            handshake: reason("handshake"),
            closed,
        }
    }
}

impl Connections {
    pub(super) fn register(&self, registry: &mut Registry) {
        let gauges: [(&str, &str, &Gauge); 4] = [
            ("connections", "Connections that are open", &self.open),
            (
                "connections_limit",
                "Connections that may be open",
                &self.limit,
            ),
            (
                "client_connections_limit",
                "Connections that one client may have open",
                &self.client_limit,
            ),
            (
                "client_bandwidth_limit_bytes",
                "Bytes per second that one client may be sent; 0: no limit",
                &self.bandwidth_limit,
            ),
        ];
        for (name, help, gauge) in gauges {
            registry.register(name, help, gauge.clone());
        }
        registry.register(
            "sent_bytes",
            "Bytes of HTTP sent to clients",
            self.sent.clone(),
        );
        let help = "Time for which connections waited for the bandwidth of their clients";
        registry.register("throttled_seconds", help, self.throttled.0.clone());
        let help = "Connections closed by the server, by reason";
        registry.register("connections_closed", help, self.closed.clone());
    }
}
