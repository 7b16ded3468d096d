//! The listeners of [`events`](super::events): how many each client has, and when they are to end.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::service::Client;

/// The maximum number of listeners at one client address.
pub(super) const MAX_LISTENERS: usize = 32;

/// The listeners of a server.
#[derive(Default)]
pub(super) struct Listeners {
    counts: Mutex<HashMap<Client, usize>>,
    draining: watch::Sender<bool>,
}

impl Listeners {
    /// Ends all listeners. A listener that comes later ends at once.
    pub fn drain(&self) {
        self.draining.send_replace(true);
    }

    pub fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Becomes true when the listeners are to end.
    pub fn draining(&self) -> watch::Receiver<bool> {
        self.draining.subscribe()
    }

    /// Counts a listener of a client, unless it has too many.
    pub fn enter(self: &Arc<Self>, client: Client) -> Option<ListenerSeat> {
        let mut counts = self.counts.lock();
        let count = counts.entry(client).or_default();
        if *count == MAX_LISTENERS {
            return None;
        }
        *count += 1;
        Some(ListenerSeat {
            listeners: Arc::clone(self),
            client,
        })
    }
}

/// A listener in the count of its client; dropping it decrements the count.
pub(super) struct ListenerSeat {
    listeners: Arc<Listeners>,
    client: Client,
}

impl Drop for ListenerSeat {
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
