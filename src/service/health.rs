//! The current problems, for `/readyz`. The parts of the service record their problems here.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use voltile_base::name::Name;

use crate::catalog::Catalog;
use crate::tier::TierKind;

/// The current problems of datasets and of parts of the service.
#[derive(Debug, Default)]
pub struct Health(Mutex<Problems>);

#[derive(Debug, Clone, Default)]
struct Problems {
    datasets: BTreeMap<Name, String>,
    parts: BTreeMap<ServicePart, Vec<String>>,
}

/// A part of the service that may have problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServicePart {
    /// The configuration: its last reload failed, so the settings before it are still in force.
    Configuration,
    /// The files in served folders: some cannot be served.
    Files,
    /// A tier that fails. Tiles are served without it.
    Tier(TierKind),
    /// A store that does not answer, or that refuses an object. Its datasets are unavailable.
    Store,
}

impl ServicePart {
    /// The name in `/readyz`.
    pub fn name(self) -> &'static str {
        match self {
            ServicePart::Configuration => "configuration",
            ServicePart::Files => "files",
            ServicePart::Tier(kind) => kind.key(),
            ServicePart::Store => "store",
        }
    }
}

impl Health {
    /// Sets or clears the problem of a dataset.
    pub fn set_dataset(&self, token: &Name, problem: Option<String>) {
        let mut problems = self.0.lock();
        match problem {
            Some(problem) => _ = problems.datasets.insert(token.clone(), problem),
            None => _ = problems.datasets.remove(token),
        }
    }

    /// Replaces the problems of a part. Returns whether there are problems that differ from the
    /// problems before.
    pub fn set(&self, part: ServicePart, problems: &[String]) -> bool {
        let previous = self.0.lock().parts.insert(part, problems.to_vec());
        !problems.is_empty() && previous.as_deref() != Some(problems)
    }

    /// The problem of a dataset, if it could not be reopened.
    pub fn of_dataset(&self, token: &Name) -> Option<String> {
        self.0.lock().datasets.get(token).cloned()
    }

    /// Forgets the problems of datasets that are no longer served, or that have just been opened.
    pub fn forget_outdated(&self, catalog: &Catalog, opened: &[Name]) {
        let mut problems = self.0.lock();
        let datasets = &mut problems.datasets;
        datasets.retain(|token, _| catalog.dataset(token).is_some() && !opened.contains(token));
    }

    /// Each problem, with the part that has it.
    pub fn of_parts(&self) -> Vec<(ServicePart, String)> {
        let mut pairs = Vec::new();
        for (part, problems) in &self.0.lock().parts {
            pairs.extend(problems.iter().map(|problem| (*part, problem.clone())));
        }
        pairs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_set_and_cleared() {
        let health = Health::default();
        let token = Name::nearest("brain");
        health.set_dataset(&token, Some("gone".to_owned()));
        assert_eq!(health.of_dataset(&token).as_deref(), Some("gone"));
        health.set_dataset(&token, None);
        assert_eq!(health.of_dataset(&token), None);
        let broken = ["a key is wrong".to_owned()];
        assert!(
            health.set(ServicePart::Configuration, &broken)
                && !health.set(ServicePart::Configuration, &broken)
        );
        assert_eq!(
            health.of_parts(),
            [(ServicePart::Configuration, broken[0].clone())]
        );
        assert!(!health.set(ServicePart::Configuration, &[]) && health.of_parts().is_empty());
    }
}
