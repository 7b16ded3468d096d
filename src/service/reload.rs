//! Serving other settings without a restart: datasets that have changed are opened first, then the
//! catalogue is replaced in one step.

use std::collections::{BTreeMap, BTreeSet};

use voltile_base::name::Name;

use super::tile_service::TileService;
use super::trials::TrialResults;
use crate::catalog::access::Grants;
use crate::catalog::{Catalog, OpenedCatalog, tell};
use crate::config::{DatasetSettings, Fault, Settings};

/// The changes of a reload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reloaded {
    /// Datasets that were opened: they are new, or their settings or files have changed.
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
    /// up other datasets.
    ///
    /// Unless `may_expose`, it is a fault if a protected dataset would become public: a
    /// configuration that is being written may lack the rules of access at its end.
    pub fn reload(&self, mut settings: Settings, may_expose: bool) -> Result<Reloaded, Vec<Fault>> {
        self.pool.stalls().watch_thread(false);
        let (catalog, before) = self.live.with_settings();
        let served: BTreeMap<&Name, &DatasetSettings> = before
            .datasets
            .iter()
            .filter(|(token, _)| catalog.dataset(token).is_some())
            .collect();
        let mut to_open = catalog.to_open(&settings, &before);
        let TrialResults { refused, pending } = self.try_files(&settings, &to_open, &served);
        to_open.retain(|token| !pending.contains(token));
        let mut waiting = BTreeSet::new();
        let is_pending = !pending.is_empty();
        for token in pending {
            match served.get(&token).copied() {
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
        settings.datasets.retain(|token, _| {
            opened.catalog.dataset(token).is_some() || opened.catalog.closed().contains_key(token)
        });
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

    /// Opens the files of the datasets `to_open` in child processes.
    fn try_files(
        &self,
        settings: &Settings,
        to_open: &[Name],
        served: &BTreeMap<&Name, &DatasetSettings>,
    ) -> TrialResults {
        let Some(reopener) = self.reopener.as_ref().filter(|_| !to_open.is_empty()) else {
            return TrialResults::default();
        };
        let mut changed = settings.clone();
        changed.datasets.retain(|token, _| to_open.contains(token));
        reopener.try_files(&changed, |token| {
            let wanted = settings.datasets.get(token);
            wanted.is_some_and(|wanted| {
                wanted.found_in.is_some() || served.get(token) == Some(&wanted)
            })
        })
    }

    /// Notes which of the served datasets could not be opened again.
    fn note_datasets(&self, reloaded: &Reloaded, opened: &OpenedCatalog) {
        for token in &reloaded.opened {
            self.health.set_dataset(token, None);
        }
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
    let mut exposed = Vec::new();
    for dataset in before.datasets() {
        let token = &dataset.token;
        let was_protected = !before.access().shows(token, &nobody);
        if was_protected && after.dataset(token).is_some() && after.access().shows(token, &nobody) {
            exposed.push(token.to_string());
        }
    }
    exposed
}

fn would_expose(datasets: &[String]) -> String {
    format!(
        "these protected datasets would become public: {}; if that is meant, reload with SIGHUP",
        datasets.join(", ")
    )
}

fn log_warnings(opened: &OpenedCatalog) {
    for warning in &opened.warnings {
        tracing::warn!("{warning}");
    }
    tell(&opened.notices);
}
