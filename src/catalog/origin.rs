//! The origin of a tile: its dataset and channels, and whether their files have changed since they
//! were opened.
//!
//! A tile's key contains the state of its files when they were opened. A tile rendered after a file
//! was changed must not be stored under that key.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use voltile_base::flow::stalls::Unresponsive;
use voltile_base::name::Name;

use super::{Channel, Dataset};

/// The dataset and the channels that a tile is made from.
#[derive(Debug, Clone)]
pub struct Origin {
    /// The dataset.
    pub dataset: Arc<Dataset>,
    channels: Vec<Arc<Channel>>,
}

impl Origin {
    /// The origin of a tile made from these channels.
    pub(super) fn new(dataset: &Arc<Dataset>, channels: Vec<Arc<Channel>>) -> Self {
        Self {
            dataset: Arc::clone(dataset),
            channels,
        }
    }

    /// The origin of an answer that depends on all channels of a dataset.
    pub fn whole(dataset: &Arc<Dataset>) -> Self {
        Self::new(dataset, dataset.channels.values().cloned().collect())
    }

    /// The dataset's token.
    pub fn token(&self) -> &Name {
        &self.dataset.token
    }

    /// The paths of the files of the channels.
    pub fn files(&self) -> impl Iterator<Item = &Path> + Clone {
        self.channels.iter().flat_map(|channel| channel.files())
    }

    /// Whether parts of a channel are missing in its files.
    pub fn has_gaps(&self) -> bool {
        self.channels.iter().any(|channel| channel.has_gaps)
    }

    /// Whether voxels may be appended or rewritten while they are read: the dataset is live, or its
    /// files may grow and the last check has found a change.
    pub fn may_grow(&self) -> bool {
        let Dataset { live, growing, .. } = *self.dataset;
        live || (growing && self.was_found_changed())
    }

    /// Whether the last check of its files found a change.
    pub fn was_found_changed(&self) -> bool {
        self.channels.iter().any(|channel| channel.has_changed())
    }

    /// Whether its voxels are seen through windows that come from samples.
    pub fn has_sampled_window(&self) -> bool {
        self.channels
            .iter()
            .any(|channel| channel.has_sampled_window())
    }

    /// Has the files checked for changes, unless that was done recently, and returns whether one
    /// has changed. Growth of a growing dataset does not count: it is opened again at intervals
    /// anyway. Does not block.
    pub async fn has_changed(&self) -> Result<bool, Unresponsive> {
        for channel in &self.channels {
            channel.watch.check_soon().await?;
        }
        let ignores_growth = self.dataset.growing;
        Ok(self.channels.iter().any(|channel| {
            channel.watch.was_rewritten() || (channel.has_changed() && !ignores_growth)
        }))
    }

    /// Records that a read found a file of the channels changed.
    pub fn note_change(&self) {
        for channel in &self.channels {
            channel.watch.note_change();
        }
    }

    /// Whether no file of the channels had changed by `moment`, judging by modification times. May
    /// access the file system for every file.
    pub fn was_unchanged_at(&self, moment: Instant) -> bool {
        self.channels
            .iter()
            .all(|channel| channel.watch.was_unchanged_at(moment))
    }
}
