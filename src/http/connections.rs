//! Client connections: they are counted, wait a limited time for each request's head and between
//! requests, and pass on one request at a time.
//!
//! [`SequentialStream`] takes the place of the socket for actix-http.

mod progress;
mod stream;
#[cfg(test)]
mod tests;

use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;

pub(super) use progress::AnswerFollower;
pub(super) use stream::SequentialStream;

/// How long a connection waits for its client.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectionTimeouts {
    /// Until the head of a request is complete.
    pub head: Duration,
    /// Between requests.
    pub idle: Duration,
}

/// Counts a connection until it is closed.
#[derive(Debug)]
pub(super) struct OpenConnection(Gauge);

impl OpenConnection {
    pub fn new(count: Gauge) -> Self {
        count.inc();
        Self(count)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}
