//! Those who listen to [`events`](super::events): how many at each client, and when they are to
//! end.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::service::Client;

/// The maximum number of listeners at one client address.
pub(super) const MAX_LISTENERS: usize = 32;

/// The listeners of a server.
pub(super) struct Listeners {
    counts: Mutex<HashMap<Client, usize>>,
    draining: watch::Sender<bool>,
}

impl Default for Listeners {
    fn default() -> Self {
        Self {
            counts: Mutex::default(),
            draining: watch::Sender::new(false),
        }
    }
}

impl Listeners {
    /// Ends all streams, and the streams to come. The server reports that it accepts no more
    /// requests.
    pub fn drain(&self) {
        self.draining.send_replace(true);
    }

    pub fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Becomes true when they are to end.
    pub fn draining(&self) -> watch::Receiver<bool> {
        self.draining.subscribe()
    }

    /// Counts a listener of a client, unless it has too many.
    pub fn enter(self: &Arc<Self>, client: Client) -> Option<Seat> {
        let mut counts = self.counts.lock();
        let count = counts.entry(client).or_default();
        if *count == MAX_LISTENERS {
            return None;
        }
        *count += 1;
        Some(Seat {
            listeners: Arc::clone(self),
            client,
        })
    }
}

/// A listener in the count of its client; dropping it decrements the count.
pub(super) struct Seat {
    listeners: Arc<Listeners>,
    client: Client,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut counts = self.listeners.counts.lock();
        if let Some(count) = counts.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.client);
            }
        }
    }
}
