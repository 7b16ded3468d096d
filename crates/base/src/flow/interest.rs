//! Whether anybody still waits for work: known without a lock, so that work can end when nobody
//! does.

use std::sync::{Arc, Weak};

/// The interest in work; clones share it.
#[derive(Debug, Clone)]
pub struct Interest(Weak<()>);

impl Interest {
    /// Interest that is there until `waiting` and all of its clones have been dropped.
    pub fn of(waiting: &Arc<()>) -> Self {
        Self(Arc::downgrade(waiting))
    }

    /// Whether anybody waits, or did a moment ago.
    pub fn is_there(&self) -> bool {
        self.0.strong_count() > 0
    }
}
