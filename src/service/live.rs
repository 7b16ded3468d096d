//! The current catalogue, and the settings that it was opened with.
//!
//! A request keeps the catalogue that it started with, so that no tile is made from two generations
//! of a file, and no answer follows the access rules of two configurations.

use std::sync::Arc;

use tokio::sync::watch;

use crate::catalog::access::AccessRules;
use crate::catalog::{Catalog, OpenedDataset, OpeningOutcome};
use crate::config::Settings;

/// The current catalogue, replaced as a whole.
#[derive(Debug)]
pub(super) struct LiveCatalog(watch::Sender<LiveState>);

/// The catalogue, and the settings that it was opened with.
#[derive(Debug)]
pub(crate) struct LiveState {
    catalog: Arc<Catalog>,
    settings: Arc<Settings>,
}

impl LiveCatalog {
    pub fn new(catalog: Catalog) -> Self {
        Self(watch::Sender::new(LiveState {
            catalog: Arc::new(catalog),
            settings: Arc::default(),
        }))
    }

    pub fn get(&self) -> Arc<Catalog> {
        Arc::clone(&self.0.borrow().catalog)
    }

    /// The catalogue, and the settings that it was opened with.
    pub fn with_settings(&self) -> (Arc<Catalog>, Arc<Settings>) {
        let state = self.0.borrow();
        (Arc::clone(&state.catalog), Arc::clone(&state.settings))
    }

    pub fn set_settings(&self, settings: Settings) {
        self.0
            .send_modify(|state| state.settings = Arc::new(settings));
    }

    /// Serves other settings from now on, with the datasets that were opened for them.
    pub fn replace(&self, settings: Settings, access: AccessRules, opened: &[OpenedDataset]) {
        self.0.send_modify(|state| {
            let next = state.catalog.following(&settings, access).with(opened);
            *state = LiveState {
                catalog: Arc::new(next.after(&state.catalog)),
                settings: Arc::new(settings),
            };
        });
    }

    /// Applies the outcomes of attempts to open datasets: replaces each dataset or leaves it out,
    /// unless the dataset or its settings have been replaced or removed meanwhile.
    pub fn put(&self, opened: &[OpenedDataset]) {
        self.0.send_if_modified(|state| {
            let mut current = Vec::new();
            for attempt in opened {
                let token = &attempt.dataset.token;
                let before = attempt.before.as_ref().map(Arc::as_ptr);
                let is_unreplaced = state.catalog.dataset(token).map(Arc::as_ptr) == before;
                let is_wanted =
                    state.settings.datasets.get(token) == Some(&*attempt.dataset.settings);
                let is_done = matches!(
                    attempt.outcome,
                    OpeningOutcome::Open | OpeningOutcome::LeftOut
                );
                if is_done && is_wanted && is_unreplaced {
                    current.push(attempt);
                }
            }
            if current.is_empty() {
                return false;
            }
            let next = state.catalog.with(current.iter().copied());
            state.catalog = Arc::new(next.after(&state.catalog));
            for attempt in current {
                if attempt.outcome == OpeningOutcome::LeftOut {
                    let settings = Arc::make_mut(&mut state.settings);
                    settings.datasets.remove(&attempt.dataset.token);
                }
            }
            true
        });
    }

    /// Notifies at once of the current catalogue, then of each change.
    pub fn changes(&self) -> watch::Receiver<LiveState> {
        let mut changes = self.0.subscribe();
        changes.mark_changed();
        changes
    }
}
