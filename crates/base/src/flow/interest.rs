//! Whether anybody still waits for work: known without a lock, so that work can end when nobody
//! does.

use tokio::sync::watch;

/// The interest in work; clones share it.
#[derive(Debug, Clone)]
pub struct Interest(watch::Receiver<()>);

/// Somebody is interested in work until this is dropped.
#[derive(Debug, Default)]
pub struct Interested(watch::Sender<()>);

impl Interested {
    /// The interest, for the work.
    pub fn interest(&self) -> Interest {
        Interest(self.0.subscribe())
    }
}

impl Interest {
    /// Whether anybody waits, or did a moment ago.
    pub fn is_there(&self) -> bool {
        self.0.has_changed().is_ok()
    }

    /// Returns once nobody waits any more.
    pub async fn gone(mut self) {
        // Nothing is ever sent: only the end is a change.
        let _end = self.0.changed().await;
    }
}
