//! The current catalogue, and the settings that it was opened with.
//!
//! A request keeps the catalogue that it started with, so that no tile is made from two generations
//! of a file, and no answer follows the access rules of two configurations.

use std::sync::Arc;

use crate::catalog::{Catalog, Dataset};
use crate::config::Settings;
use tokio::sync::watch;

/// The current catalogue, replaced as a whole.
#[derive(Debug)]
pub(super) struct LiveCatalog(watch::Sender<LiveState>);

/// Tells that the catalogue was replaced.
#[derive(Debug)]
pub struct Changes(watch::Receiver<LiveState>);

#[derive(Debug)]
struct LiveState {
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

    /// Replaces everything.
    pub fn replace(&self, catalog: Catalog, settings: Settings) {
        self.0.send_modify(|state| {
            let catalog = catalog
                .taking(&state.catalog, |token| {
                    state.settings.datasets.get(token) == settings.datasets.get(token)
                })
                .after(&state.catalog);
            *state = LiveState {
                catalog: Arc::new(catalog),
                settings: Arc::new(settings),
            };
        });
    }

    /// Replaces one dataset, unless it has been replaced or removed since `before` was taken;
    /// `None` if it could not be opened until now.
    pub fn put(&self, dataset: Arc<Dataset>, before: Option<&Arc<Dataset>>) {
        self.0.send_if_modified(|state| {
            let is_same = match (state.catalog.dataset(&dataset.token), before) {
                (Some(now), Some(before)) => Arc::ptr_eq(now, before),
                (None, None) => state.catalog.closed().contains_key(&dataset.token),
                _ => false,
            };
            if is_same {
                state.catalog = Arc::new(state.catalog.with(dataset).after(&state.catalog));
            }
            is_same
        });
    }

    /// Tells at once that there is a catalogue, and then each change.
    pub fn changes(&self) -> Changes {
        let mut changes = self.0.subscribe();
        changes.mark_changed();
        Changes(changes)
    }
}

impl Changes {
    /// Waits until the catalogue has been replaced since the last call; an error if there is no
    /// service any more.
    pub async fn changed(&mut self) -> Result<(), watch::error::RecvError> {
        self.0.changed().await
    }
}
