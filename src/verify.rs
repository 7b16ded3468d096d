//! Verifies a running server by making the requests that viewers make, from outside.
//!
//! Each viewer has a file with its own rules, which cites the viewer's sources. No other module of the server
//! is used, so that its mistakes about itself are not repeated here. A check passes, passes with a remark, or
//! fails with a reason.

mod catmaid;
mod client;
mod openseadragon;
mod report;
mod served;
mod viking;

pub(crate) use client::Answer;
pub use client::{Client, NotAServer};
pub use report::{Finding, Outcome, Report};
pub use served::Served;
pub(crate) use served::{Dataset as ServedDataset, Level as ServedLevel, ask};

/// The viewer to imitate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Viewer {
    /// CATMAID: its importer, its canary tile, its tile layers.
    Catmaid,
    /// Viking: its volume file and its URL form.
    Viking,
    /// OpenSeadragon and pages built on it: the whole pyramid, with browser caching.
    Openseadragon,
}

impl Viewer {
    /// All of them.
    pub const ALL: [Viewer; 3] = [Viewer::Catmaid, Viewer::Viking, Viewer::Openseadragon];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Viewer::Catmaid => "catmaid",
            Viewer::Viking => "viking",
            Viewer::Openseadragon => "openseadragon",
        }
    }
}

/// Runs the checks of the given viewers for the datasets with these tokens, or for all.
pub fn verify(client: &Client, viewers: &[Viewer], tokens: &[String]) -> Report {
    let mut report = Report::default();
    let served = match ask(client, tokens) {
        Ok(served) => served,
        Err(reason) => {
            report.add(None, "descriptions", "/datasets.json", Err(reason));
            return report;
        }
    };
    report.add(None, "descriptions", "/datasets.json", Ok(None));
    for viewer in viewers {
        match viewer {
            Viewer::Catmaid => catmaid::play(client, &served, &mut report),
            Viewer::Viking => viking::play(client, &served, &mut report),
            Viewer::Openseadragon => openseadragon::play(client, &served, &mut report),
        }
    }
    report
}
