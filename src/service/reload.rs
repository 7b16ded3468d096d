//! Serving other settings without a restart: datasets that have changed are opened first, then the
//! catalogue is replaced in one step.

use std::collections::BTreeSet;

use voltile_base::name::Name;

use super::tile_service::TileService;
use super::trials::Shown;
use crate::catalog::access::Grants;
use crate::catalog::{Catalog, Opened, tell};
use crate::config::{Fault, Settings};

/// What a reload changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reloaded {
    /// Datasets that were opened: new ones, and those with other settings or changed files.
    pub opened: Vec<Name>,
    /// Datasets that are not served any more.
    pub removed: Vec<Name>,
    /// Whether the rules of access have changed: which datasets are protected, and by which
    /// secrets.
    pub access: bool,
    /// Whether any other setting differs.
    pub settings: bool,
    /// Datasets that could not be opened; if they were served before, their previous state is still
    /// served.
    pub unopened: Vec<(Name, Fault)>,
    /// Whether the trials of some datasets go on: another reload opens these datasets. Until then,
    /// their previous state is served.
    pub is_pending: bool,
}

impl Reloaded {
    /// Whether nothing has changed.
    pub fn is_nothing(&self) -> bool {
        self.opened.is_empty() && self.removed.is_empty() && !self.access && !self.settings
    }
}

impl TileService {
    /// Serves these settings from now on. If anything new cannot be opened, nothing changes, and
    /// all faults are returned.
    ///
    /// Datasets with the same settings and unchanged files stay open, with their cached tiles and
    /// chunks. A dataset with the same settings whose changed files cannot be opened stays as it is
    /// (its tiles are errors), and `/readyz` reports it. Blocks while files are opened. Datasets
    /// that are optional, or whose files alone have changed, wait for their trials without holding
    /// up others.
    ///
    /// Unless `may_expose`, it is a fault if a protected dataset would become public: a
    /// configuration that is being written may lack the rules of access at its end.
    pub fn reload(&self, mut settings: Settings, may_expose: bool) -> Result<Reloaded, Vec<Fault>> {
        self.pool.stalls().watch_thread(false);
        let (catalog, before) = self.live.with_settings();
        let mut to_open = catalog.to_open(&settings, &before);
        let mut changed = settings.clone();
        changed.datasets.retain(|token, _| to_open.contains(token));
        let served = |token: &Name| {
            before
                .datasets
                .get(token)
                .filter(|_| catalog.dataset(token).is_some())
        };
        let may_wait = |token: &Name| {
            let wanted = settings.datasets.get(token);
            wanted.is_some_and(|wanted| wanted.found_in.is_some() || served(token) == Some(wanted))
        };
        let Shown { refused, pending } = match &self.reopener {
            Some(reopener) if !to_open.is_empty() => reopener.try_files(&changed, may_wait),
            _ => Shown::default(),
        };
        to_open.retain(|token| !pending.contains(token));
        let mut waiting = BTreeSet::new();
        let is_pending = !pending.is_empty();
        for token in pending {
            match served(&token) {
                Some(known) => _ = settings.datasets.insert(token, known.clone()),
                None if catalog.closed().contains_key(&token) => _ = waiting.insert(token),
                None => _ = settings.datasets.remove(&token),
            }
        }
        let opened = catalog.reload(&settings, &before, &to_open, waiting, refused);
        if !opened.faults.is_empty() {
            return Err(opened.faults);
        }
        let exposed = exposed(&catalog, &opened.catalog);
        if !exposed.is_empty() && !may_expose {
            return Err(vec![Fault {
                key: "access".to_owned(),
                problem: would_expose(&exposed),
            }]);
        }
        to_open.retain(|token| opened.catalog.dataset(token).is_some());
        to_open.retain(|token| !opened.unopened.iter().any(|(other, _)| other == token));
        let is_known = |token: &Name| {
            opened.catalog.dataset(token).is_some() || opened.catalog.closed().contains_key(token)
        };
        settings.datasets.retain(|token, _| is_known(token));
        let reloaded = Reloaded {
            opened: to_open,
            removed: removed(&catalog, &opened.catalog),
            access: catalog.access() != opened.catalog.access(),
            settings: settings != *before,
            unopened: opened.unopened.clone(),
            is_pending,
        };
        self.note_datasets(&reloaded, &opened);
        if !reloaded.is_nothing() {
            log_warnings(&opened);
            if !exposed.is_empty() {
                tracing::warn!(
                    "protected until now, and public from now on: {}",
                    exposed.join(", ")
                );
            }
            self.live.replace(opened.catalog, settings);
            if let Some(reopener) = &self.reopener {
                reopener.note_reload();
            }
        }
        Ok(reloaded)
    }

    /// Notes which of the served datasets could not be opened again.
    fn note_datasets(&self, reloaded: &Reloaded, opened: &Opened) {
        reloaded
            .opened
            .iter()
            .for_each(|token| self.health.set_dataset(token, None));
        for (token, fault) in &opened.unopened {
            if opened.catalog.dataset(token).is_some() {
                if self.health.of_dataset(token).as_ref() != Some(&fault.problem) {
                    tracing::warn!(
                        "the dataset {token} cannot be reopened yet: {}",
                        fault.problem
                    );
                }
                self.health.set_dataset(token, Some(fault.problem.clone()));
            }
        }
        self.health
            .retain_datasets(|token| opened.catalog.dataset(token).is_some());
    }
}

fn removed(before: &Catalog, after: &Catalog) -> Vec<Name> {
    let tokens = before.datasets().map(|dataset| &dataset.token);
    tokens
        .filter(|token| after.dataset(token).is_none())
        .cloned()
        .collect()
}

/// The datasets that were protected, and are public in the next catalogue.
fn exposed(before: &Catalog, after: &Catalog) -> Vec<String> {
    let nobody = Grants::default();
    let tokens = before.datasets().map(|dataset| &dataset.token);
    let is_exposed = |token: &&Name| {
        let was_protected = !before.access().shows(token, &nobody);
        was_protected && after.dataset(token).is_some() && after.access().shows(token, &nobody)
    };
    tokens.filter(is_exposed).map(ToString::to_string).collect()
}

fn would_expose(datasets: &[String]) -> String {
    format!(
        "these protected datasets would become public: {}; if that is meant, reload with SIGHUP",
        datasets.join(", ")
    )
}

fn log_warnings(opened: &Opened) {
    opened
        .warnings
        .iter()
        .for_each(|warning| tracing::warn!("{warning}"));
    tell(&opened.notices);
}
