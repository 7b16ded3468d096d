//! Client connections: limits on their number, timeouts, and one request at a time on each.
//!
//! [`Connections`] admits connections up to two limits, one in total and one for each client. If a limit is reached,
//! the connection that has been waiting longest for a request is closed in favour of the new one; if none is waiting,
//! the one whose client has gone longest without reading its response; otherwise the new one is refused. The lock is
//! taken only when a connection begins and ends, not for each request. [`stream::SequentialStream`] takes the place
//! of the socket for actix-http. [`bandwidth`] limits what each client is sent.

mod alarm;
mod answer;
mod bandwidth;
mod connection;
mod garbage;
mod head;
mod input;
mod refusal;
mod stream;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::metrics;
use bandwidth::{Bandwidth, Throttle};
use connection::{Client, Connection, Doing};
use garbage::Garbage;
use refusal::Refusal;
pub(super) use refusal::{NotTls, TLS_HANDSHAKE};
pub(super) use stream::SequentialStream;

/// Whether these bytes begin with the complete and acceptable head of a request.
#[cfg(any(test, feature = "fuzzing"))]
pub(super) fn is_complete_head(bytes: &[u8]) -> bool {
    matches!(head::parse(bytes), head::Head::Complete(_))
}

/// For how many milliseconds a client must have read nothing before its connection may be evicted.
const STALLED: u64 = 1000;

/// Limits on the number of connections, and timeouts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Connections in total.
    pub connections: usize,
    /// Connections of one client; those on a Unix socket have no such limit.
    pub for_each_client: usize,
    /// Bytes per second sent to one client.
    pub bandwidth: Option<NonZeroU64>,
    /// Until the head of a request is complete.
    pub head: Duration,
    /// Between requests.
    pub idle: Duration,
    /// Without being able to write a byte.
    pub write: Duration,
}

/// All connections; shared by the worker threads.
#[derive(Debug)]
pub(super) struct Connections {
    limits: Limits,
    metrics: metrics::Connections,
    garbage: Garbage,
    bandwidth: Bandwidth,
    began: Instant,
    table: Mutex<Table>,
}

/// The connections that are open, and how many of them have not been asked to close: in total and for each client.
#[derive(Debug, Default)]
struct Table {
    connections: HashMap<u64, Arc<Connection>>,
    next: u64,
    open: usize,
    by_client: HashMap<Client, usize>,
}

impl Connections {
    pub fn new(limits: Limits, metrics: metrics::Connections) -> Self {
        let gauged = |limit: u64| i64::try_from(limit).unwrap_or(i64::MAX);
        metrics.limit.set(gauged(limits.connections as u64));
        metrics.client_limit.set(gauged(limits.for_each_client as u64));
        metrics.bandwidth_limit.set(gauged(limits.bandwidth.map_or(0, NonZeroU64::get)));
        let bandwidth = Bandwidth::new(limits.bandwidth);
        let (garbage, table) = Default::default();
        Self { limits, metrics, garbage, bandwidth, began: Instant::now(), table }
    }

    /// Admits a new connection, evicting another one if a limit is reached; `None` if none can be evicted. A peer on a
    /// Unix socket has no address.
    pub fn admit(self: &Arc<Self>, address: Option<IpAddr>) -> Option<Admission> {
        let (client, now) = (address.map(counted_as), self.now());
        let mut table = self.table();
        let of_client = table.by_client.get(&client).copied().unwrap_or(0);
        let has_place = (client.is_none()
            || of_client < self.limits.for_each_client
            || self.evict(&mut table, now, |connection| connection.client == client))
            && (table.open < self.limits.connections || self.evict(&mut table, now, |_| true));
        if !has_place {
            self.metrics.refused.inc();
            return None;
        }
        let connection = Arc::new(Connection::new(client, Doing::Idle(now)));
        let id = table.add(Arc::clone(&connection));
        self.metrics.open.inc();
        Some(Admission { all: Arc::clone(self), connection, id, address })
    }

    /// Closes the connection of lowest rank among those that match; false if there is none.
    fn evict(&self, table: &mut Table, now: u64, is_among: impl Fn(&Connection) -> bool) -> bool {
        let open = table
            .connections
            .values()
            .filter(|connection| !connection.is_told_to_close() && is_among(connection));
        let ranked = open.filter_map(|connection| Some((rank(connection.doing(), now)?, connection)));
        let Some((_, connection)) = ranked.min_by_key(|(rank, _)| *rank) else { return false };
        let connection = Arc::clone(connection);
        table.discount(connection.client);
        connection.tell_to_close();
        self.metrics.evicted.inc();
        true
    }

    fn remove(&self, id: u64) {
        let mut table = self.table();
        if let Some(connection) = table.connections.remove(&id) {
            self.metrics.open.dec();
            if !connection.is_told_to_close() {
                table.discount(connection.client);
            }
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        self.time(Instant::now())
    }

    fn time(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.began).as_millis()).unwrap_or(u64::MAX >> 2)
    }
}

impl Table {
    fn add(&mut self, connection: Arc<Connection>) -> u64 {
        let id = self.next;
        self.next += 1;
        self.open += 1;
        *self.by_client.entry(connection.client).or_default() += 1;
        self.connections.insert(id, connection);
        id
    }

    fn discount(&mut self, client: Client) {
        self.open = self.open.saturating_sub(1);
        if let Some(count) = self.by_client.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                self.by_client.remove(&client);
            }
        }
    }
}

/// Connections of lower rank are evicted first; those without a rank are never evicted.
fn rank(doing: Doing, now: u64) -> Option<(u8, u64)> {
    match doing {
        Doing::Idle(since) => Some((0, since)),
        Doing::Stalled(since) if now.saturating_sub(since) >= STALLED => Some((1, since)),
        Doing::Stalled(_) | Doing::Busy => None,
    }
}

/// The address that a connection counts for: IPv6 addresses are grouped by their /64 network, which one client
/// usually has to itself.
fn counted_as(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        v4 => v4,
    }
}

/// An admitted connection; its place in the table is freed on drop.
#[derive(Debug)]
pub(super) struct Admission {
    all: Arc<Connections>,
    connection: Arc<Connection>,
    id: u64,
    address: Option<IpAddr>,
}

impl Admission {
    fn limits(&self) -> &Limits {
        &self.all.limits
    }

    fn metrics(&self) -> &metrics::Connections {
        &self.all.metrics
    }

    fn throttle(&self) -> Throttle {
        self.all.bandwidth.throttle(self.connection.client)
    }

    fn set_idle(&self, since: Instant) {
        self.connection.set_doing(Doing::Idle(self.all.time(since)));
    }

    fn set_stalled(&self, since: Instant) {
        self.connection.set_doing(Doing::Stalled(self.all.time(since)));
    }

    fn set_busy(&self) {
        self.connection.set_doing(Doing::Busy);
    }

    /// Counts a refusal, and logs it unless it is a timeout: only a wrong port or a scanner explains the other kinds.
    fn refused(&self, refusal: &Refusal) {
        match refusal {
            Refusal::Late => self.metrics().head_timeout.inc(),
            Refusal::Malformed(_) | Refusal::TooLarge => {
                self.all.garbage.tell(self.address, refusal.detail());
                self.metrics().malformed.inc()
            }
        };
    }

    /// Counts and logs a failed TLS handshake.
    fn failed_handshake(&self, problem: &str) {
        self.all.garbage.tell(self.address, problem);
        self.metrics().handshake.inc();
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.all.remove(self.id);
    }
}
