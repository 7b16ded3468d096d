//! The results: one line per check.

use std::fmt;

use serde::Serialize;

use super::request::{Checked, Request, send_all};
use crate::tools::client::Client;

/// The viewer to imitate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Viewer {
    /// CATMAID: its importer, its canary tile, its tile layers.
    Catmaid,
    /// Viking: its volume file and its URL form.
    Viking,
    /// OpenSeadragon and pages built on it: the whole pyramid, with browser caching.
    Openseadragon,
    /// Neuroglancer and other clients of the precomputed format.
    Neuroglancer,
    /// Readers of OME-Zarr.
    Zarr,
}

impl Viewer {
    /// All of them: the name of each on the command line, and what it is.
    pub const ALL: &'static [(Viewer, &'static str, &'static str)] = &[
        (Viewer::Catmaid, "catmaid", "CATMAID: its importer, its canary tile, its tile layers"),
        (Viewer::Viking, "viking", "Viking: its volume file and its URL form"),
        (
            Viewer::Openseadragon,
            "openseadragon",
            "OpenSeadragon and pages built on it: the whole pyramid, with browser caching",
        ),
        (Viewer::Neuroglancer, "neuroglancer", "Neuroglancer and other clients of its precomputed format"),
        (Viewer::Zarr, "zarr", "readers of OME-Zarr 0.4 and 0.5"),
    ];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(viewer, ..)| *viewer == self).map_or("", |(_, name, _)| name)
    }
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The viewer gets what it needs.
    Pass,
    /// The viewer works, but something could be better.
    Note,
    /// The viewer does not work.
    Fail,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The viewer; `None` if it concerns all.
    pub viewer: Option<Viewer>,
    /// The name of the check.
    pub check: &'static str,
    /// What was checked: a dataset, a stack, a channel.
    pub subject: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Why it failed, or what could be better.
    pub reason: Option<String>,
}

/// The results of all checks, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The findings.
    pub findings: Vec<Finding>,
    /// The viewer whose checks are run.
    #[serde(skip)]
    pub(super) viewer: Option<Viewer>,
}

impl Report {
    pub(super) fn add(&mut self, check: &'static str, subject: &str, checked: Checked) {
        let (outcome, reason) = match checked {
            Ok(None) => (Outcome::Pass, None),
            Ok(remark) => (Outcome::Note, remark),
            Err(reason) => (Outcome::Fail, Some(reason)),
        };
        let (viewer, subject) = (self.viewer, subject.to_owned());
        self.findings.push(Finding { viewer, check, subject, outcome, reason });
    }

    /// Adds a check that reads something; returns what was read.
    pub(super) fn read<T>(
        &mut self,
        check: &'static str,
        subject: &str,
        read: Result<T, String>,
    ) -> Option<T> {
        let (value, checked) = match read {
            Ok(value) => (Some(value), Ok(None)),
            Err(reason) => (None, Err(reason)),
        };
        self.add(check, subject, checked);
        value
    }

    /// Makes requests of checks, whose requests follow one another.
    pub(super) fn run(&mut self, client: &Client, subject: &str, requests: &[Request]) {
        for requests in requests.chunk_by(|one, next| one.check == next.check) {
            self.add(requests[0].check, subject, send_all(client, requests));
        }
    }

    /// The number of checks with this outcome.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.findings.iter().filter(|finding| finding.outcome == outcome).count()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = match self.outcome {
            Outcome::Pass => "pass",
            Outcome::Note => "note",
            Outcome::Fail => "FAIL",
        };
        let viewer = self.viewer.map_or("", Viewer::name);
        write!(f, "{outcome}  {viewer:<13}  {:<13}  {}", self.check, self.subject)?;
        match &self.reason {
            Some(reason) => write!(f, "\n      {reason}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.findings.iter().try_for_each(|finding| writeln!(f, "{finding}"))?;
        let [pass, note, fail] =
            [Outcome::Pass, Outcome::Note, Outcome::Fail].map(|outcome| self.count(outcome));
        write!(f, "{pass} passed, {note} passed with a note, {fail} failed")
    }
}
