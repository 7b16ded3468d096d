//! Where a tile comes from: whose it is, and whether its files are still what they were when they were opened.
//!
//! A tile's key names its files by their state when they were opened. A tile that is drawn after a file was changed must not
//! be kept under that key.

use std::sync::Arc;
use std::time::Instant;

use super::{Channel, Overview, Resolved};
use crate::name::Name;

/// Whose a tile is, and the channels that it shows.
#[derive(Debug, Clone)]
pub struct Origin {
    /// The dataset's token.
    pub token: Name,
    channels: Vec<Arc<Channel>>,
}

impl Origin {
    /// Whether no file of the channels was changed before that moment, as far as their times tell. May ask the file system
    /// for every file.
    pub fn was_unchanged_at(&self, moment: Instant) -> bool {
        self.channels.iter().all(|channel| channel.watch.was_unchanged_at(moment))
    }
}

impl Resolved {
    /// Where its tile comes from.
    pub fn origin(&self) -> Origin {
        Origin { token: self.token().clone(), channels: self.channels().cloned().collect() }
    }
}

impl Overview {
    /// Where its picture comes from.
    pub fn origin(&self) -> Option<Origin> {
        self.tiles().first().map(Resolved::origin)
    }
}
