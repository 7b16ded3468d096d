//! What a process counts while it makes tiles: this process, or a server that has `/metrics`.

use std::collections::BTreeMap;

use super::client::{Answer, Client};

/// The counters by name, without `voltile_` and `_total`: their values, or their growth.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Counts(BTreeMap<String, f64>);

impl Counts {
    /// The counters of a server; `None` if it has no `/metrics`.
    pub fn read(client: &Client) -> Option<Self> {
        let answer = client.get("/metrics").and_then(Answer::found).ok()?;
        Some(Self::parse(&String::from_utf8_lossy(&answer.body)))
    }

    /// The counters in a text of the OpenMetrics format.
    pub fn parse(text: &str) -> Self {
        let lines = text
            .lines()
            .filter_map(|line| line.strip_prefix("voltile_")?.split_once("_total "));
        Self(
            lines
                .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
                .collect(),
        )
    }

    /// Adds a counter.
    pub fn set(&mut self, name: &str, value: f64) {
        self.0.insert(name.to_owned(), value);
    }

    /// The growth since then; `None` if the process was restarted meanwhile.
    pub fn since(&self, before: &Self) -> Option<Self> {
        let growth = |(name, now): (&String, &f64)| {
            let growth = now - before.0.get(name).copied().unwrap_or_default();
            (growth >= 0.0).then(|| (name.clone(), growth))
        };
        self.0.iter().map(growth).collect::<Option<_>>().map(Self)
    }

    /// A count; 0 if it is unknown.
    pub fn count(&self, name: &str) -> u64 {
        self.0.get(name).map_or(0, |count| *count as u64)
    }

    /// A count, or seconds; `None` if they are unknown.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, more: Self) {
        more.0
            .into_iter()
            .for_each(|(name, count)| *self.0.entry(name).or_default() += count);
    }
}
