//! The origin of a tile: its dataset, and whether its files have changed since they were opened.
//!
//! A tile's key contains the state of its files when they were opened. A tile rendered after a file was changed must
//! not be stored under that key.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::{Channel, Dataset, Overview, Resolved};
use crate::metrics::DatasetCounters;
use crate::name::Name;

/// The dataset and the channels of a tile.
#[derive(Debug, Clone)]
pub struct Origin {
    /// The dataset's token.
    pub token: Name,
    /// The dataset's counters.
    pub counters: Arc<DatasetCounters>,
    channels: Vec<Arc<Channel>>,
}

impl Origin {
    /// The origin of something made from these channels.
    pub(super) fn of(dataset: &Dataset, channels: Vec<Arc<Channel>>) -> Self {
        Self { token: dataset.token.clone(), counters: Arc::clone(&dataset.counters), channels }
    }

    /// The paths of the files of the channels.
    pub fn files(&self) -> impl Iterator<Item = &Path> + Clone {
        self.channels.iter().flat_map(|channel| channel.files())
    }

    /// Records that a read found a file of the channels changed.
    pub fn note_change(&self) {
        self.channels.iter().for_each(|channel| channel.note_change());
    }

    /// Whether no file of the channels had changed by `moment`, judging by modification times. May access the file
    /// system for every file.
    pub fn was_unchanged_at(&self, moment: Instant) -> bool {
        self.channels.iter().all(|channel| channel.watch.was_unchanged_at(moment))
    }
}

impl Resolved {
    /// The origin of its tile.
    pub fn origin(&self) -> Origin {
        Origin::of(self.dataset(), self.channels().cloned().collect())
    }
}

impl Overview {
    /// The origin of its picture.
    pub fn origin(&self) -> Option<Origin> {
        self.tiles().first().map(Resolved::origin)
    }
}
