//! What a server counts, as its `/metrics` says.

use std::collections::BTreeMap;

use super::client::{Answer, Client};

/// The counters by name, without `voltile_` and `_total`.
#[derive(Debug)]
pub(crate) struct Counts(BTreeMap<String, f64>);

impl Counts {
    /// The counters of a server; `None` if it has no `/metrics`.
    pub fn read(client: &Client) -> Option<Self> {
        let answer = client.get("/metrics").and_then(Answer::found).ok()?;
        let text = String::from_utf8_lossy(&answer.body);
        let lines = text
            .lines()
            .filter_map(|line| line.strip_prefix("voltile_")?.split_once("_total "));
        Some(Self(
            lines
                .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
                .collect(),
        ))
    }

    /// A count, or seconds; `None` if they are unknown.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }
}
