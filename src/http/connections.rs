//! Client connections: limits on their number, timeouts, and one request at a time on each.
//!
//! [`Connections`] admits connections up to two limits, one in total and one for each client. If a
//! limit is reached, the connection that has been waiting longest for a request is closed in favour
//! of the new one; if none is waiting, the one whose client has gone longest without reading its
//! response; otherwise the new one is refused. The list is locked only when a connection begins and
//! ends, not for each request. [`stream::SequentialStream`] takes the place of the socket for
//! actix-http. [`bandwidth`] limits what each client is sent.

mod bandwidth;
mod exchange;
mod refusal;
mod stream;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use tokio::time::Instant;

use crate::flow::lock;
use crate::metrics;
use bandwidth::Bandwidth;
pub(super) use exchange::followed;
pub(super) use refusal::{NotTls, TLS_HANDSHAKE};
use refusal::{Refusal, RefusalLog};
pub(super) use stream::SequentialStream;

/// For how long a client must have read nothing before its connection may be evicted.
const STALLED: Duration = Duration::from_secs(1);

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
    log: RefusalLog,
    bandwidth: Bandwidth,
    /// The connections that have not been evicted.
    open: Mutex<Vec<Arc<Connection>>>,
}

/// One connection as [`Connections`] sees it.
#[derive(Debug)]
struct Connection {
    /// The address that it counts for; `None` on a Unix socket.
    client: Option<IpAddr>,
    state: Mutex<State>,
    is_evicted: AtomicBool,
}

#[derive(Debug)]
struct State {
    activity: Activity,
    /// Wakes the task of the connection.
    waker: Option<Waker>,
}

#[derive(Debug, Clone, Copy)]
enum Activity {
    /// Waiting since then for the first byte of a request, or for the rest of its head.
    Idle(Instant),
    /// The client has read nothing of a response since then.
    Stalled(Instant),
    /// A request is being answered.
    Busy,
}

impl Connections {
    pub fn new(limits: Limits, metrics: metrics::Connections) -> Self {
        let gauged = |limit: u64| i64::try_from(limit).unwrap_or(i64::MAX);
        metrics.limit.set(gauged(limits.connections as u64));
        metrics
            .client_limit
            .set(gauged(limits.for_each_client as u64));
        metrics
            .bandwidth_limit
            .set(gauged(limits.bandwidth.map_or(0, NonZeroU64::get)));
        let bandwidth = Bandwidth::new(limits.bandwidth);
        Self {
            limits,
            metrics,
            log: RefusalLog::default(),
            bandwidth,
            open: Mutex::default(),
        }
    }

    /// Admits a new connection, evicting another one if a limit is reached; `None` if none can be
    /// evicted. A peer on a Unix socket has no address.
    pub fn admit(self: &Arc<Self>, address: Option<IpAddr>) -> Option<Admission> {
        let client = address.map(counted_as);
        let mut open = lock(&self.open);
        let of_client = open
            .iter()
            .filter(|connection| connection.client == client)
            .count();
        let has_place = (client.is_none()
            || of_client < self.limits.for_each_client
            || self.evict(&mut open, |connection| connection.client == client))
            && (open.len() < self.limits.connections || self.evict(&mut open, |_| true));
        if !has_place {
            self.metrics.refused.inc();
            return None;
        }
        let state = State {
            activity: Activity::Idle(Instant::now()),
            waker: None,
        };
        let (state, is_evicted) = (Mutex::new(state), AtomicBool::new(false));
        let connection = Arc::new(Connection {
            client,
            state,
            is_evicted,
        });
        open.push(Arc::clone(&connection));
        self.metrics.open.inc();
        Some(Admission {
            all: Arc::clone(self),
            connection,
            address,
            waker: None,
        })
    }

    /// Closes the connection of lowest rank among those that match; false if there is none.
    fn evict(
        &self,
        open: &mut Vec<Arc<Connection>>,
        is_among: impl Fn(&Connection) -> bool,
    ) -> bool {
        let among = open
            .iter()
            .enumerate()
            .filter(|(_, connection)| is_among(connection));
        let ranked = among.filter_map(|(at, connection)| Some((connection.rank()?, at)));
        let Some((_, at)) = ranked.min() else {
            return false;
        };
        open.swap_remove(at).evict();
        self.metrics.evicted.inc();
        true
    }
}

impl Connection {
    /// Connections of lower rank are evicted first; those without a rank are never evicted.
    fn rank(&self) -> Option<(u8, Instant)> {
        match lock(&self.state).activity {
            Activity::Idle(since) => Some((0, since)),
            Activity::Stalled(since) if since.elapsed() >= STALLED => Some((1, since)),
            Activity::Stalled(_) | Activity::Busy => None,
        }
    }

    /// Makes the connection close itself, at once or after the response in progress.
    fn evict(&self) {
        self.is_evicted.store(true, Ordering::Release);
        let waker = lock(&self.state).waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The address that a connection counts for: IPv6 addresses are grouped by their /64 network, which
/// one client usually has to itself.
fn counted_as(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        v4 => v4,
    }
}

/// An admitted connection; its place is freed on drop.
#[derive(Debug)]
pub(super) struct Admission {
    all: Arc<Connections>,
    connection: Arc<Connection>,
    address: Option<IpAddr>,
    /// The waker that was stored in the connection's state.
    waker: Option<Waker>,
}

impl Admission {
    fn set_activity(&self, activity: Activity) {
        lock(&self.connection.state).activity = activity;
    }

    /// Whether the connection is to be closed; if not, the task will be woken when it is.
    fn is_evicted(&mut self, waker: &Waker) -> bool {
        // A task asks several times for each request, nearly always with the same waker.
        if !self
            .waker
            .as_ref()
            .is_some_and(|known| known.will_wake(waker))
        {
            self.waker = Some(waker.clone());
            lock(&self.connection.state).waker.clone_from(&self.waker);
        }
        // Read after the waker was stored: an earlier eviction is seen here, and a later one wakes
        // the task.
        self.connection.is_evicted.load(Ordering::Acquire)
    }

    /// Counts a refusal, and logs it unless it is a timeout: only a wrong port or a scanner
    /// explains the other kinds.
    fn count_refusal(&self, refusal: Refusal) {
        match refusal {
            Refusal::Late => self.all.metrics.head_timeout.inc(),
            _ => {
                self.all.log.add(self.address, refusal.detail());
                self.all.metrics.malformed.inc()
            }
        };
    }

    /// Counts and logs a failed TLS handshake.
    fn count_failed_handshake(&self, problem: &str) {
        self.all.log.add(self.address, problem);
        self.all.metrics.handshake.inc();
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        lock(&self.all.open).retain(|connection| !Arc::ptr_eq(connection, &self.connection));
        self.all.metrics.open.dec();
    }
}
