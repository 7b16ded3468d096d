//! The problems at present, for `/readyz`: each part of the service notes its own problems here.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use voltile_base::name::Name;

use crate::catalog::Catalog;
use crate::tier::Backend;

/// The problems at present.
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
    /// The last reload of the configuration failed, so nothing has changed.
    Configuration,
    /// Files in the folders that are served, which had to be left out.
    Files,
    /// A tier, without which tiles are served.
    Tier(Backend),
    /// A store that does not answer, or refuses an object: the datasets in it are unavailable.
    Store,
}

impl ServicePart {
    /// The name in `/readyz`.
    pub fn name(self) -> &'static str {
        match self {
            ServicePart::Configuration => "configuration",
            ServicePart::Files => "files",
            ServicePart::Tier(backend) => backend.key(),
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

    /// Replaces the problems of a part; returns whether they are new.
    pub fn set(&self, part: ServicePart, problems: &[String]) -> bool {
        let before = self.0.lock().parts.insert(part, problems.to_vec());
        !problems.is_empty() && before.as_deref() != Some(problems)
    }

    /// The problem of a dataset that cannot be reopened.
    pub fn of_dataset(&self, token: &Name) -> Option<String> {
        self.0.lock().datasets.get(token).cloned()
    }

    /// Forgets the problems of datasets that are not served any more, or were opened.
    pub fn follow(&self, catalog: &Catalog, opened: &[Name]) {
        let mut problems = self.0.lock();
        let datasets = &mut problems.datasets;
        datasets.retain(|token, _| catalog.dataset(token).is_some() && !opened.contains(token));
    }

    /// The problems of the parts.
    pub fn of_parts(&self) -> Vec<(ServicePart, String)> {
        let mut problems = Vec::new();
        for (part, all) in &self.0.lock().parts {
            problems.extend(all.iter().map(|problem| (*part, problem.clone())));
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_set_and_cleared() {
        let (health, token) = (Health::default(), Name::nearest("brain"));
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
