//! Verifies a running server by making the requests that viewers make, from outside.
//!
//! Each viewer has a file with its own rules, which cites the viewer's sources. Apart from the client and the types of
//! descriptions, no module of the server is used, so that its mistakes about itself are not repeated here. A check
//! passes, passes with a remark, or fails with a reason.

mod answer;
mod catmaid;
mod neuroglancer;
mod openseadragon;
mod report;
mod viking;
mod zarr;

use crate::base::description::SiteDescription;
use crate::tools::client::Client;

pub use report::{Outcome, Report};

/// The viewer to imitate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
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
    /// All of them.
    pub const ALL: [Viewer; 5] =
        [Viewer::Catmaid, Viewer::Viking, Viewer::Openseadragon, Viewer::Neuroglancer, Viewer::Zarr];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Viewer::Catmaid => "catmaid",
            Viewer::Viking => "viking",
            Viewer::Openseadragon => "openseadragon",
            Viewer::Neuroglancer => "neuroglancer",
            Viewer::Zarr => "zarr",
        }
    }
}

/// Runs the checks of the given viewers for the datasets with these tokens, or for all.
pub fn verify(client: &Client, viewers: &[Viewer], tokens: &[String]) -> Report {
    let mut report = Report::default();
    let site = match described(client, tokens) {
        Ok(site) => site,
        Err(reason) => {
            report.add(None, "descriptions", "/datasets.json", Err(reason));
            return report;
        }
    };
    report.add(None, "descriptions", "/datasets.json", Ok(None));
    for viewer in viewers {
        match viewer {
            Viewer::Catmaid => catmaid::play(client, &site, &mut report),
            Viewer::Viking => viking::play(client, &site, &mut report),
            Viewer::Openseadragon => openseadragon::play(client, &site, &mut report),
            Viewer::Neuroglancer => neuroglancer::play(client, &site, &mut report),
            Viewer::Zarr => zarr::play(client, &site, &mut report),
        }
    }
    report
}

/// The description of the server, with only the given datasets, or all if none is given.
fn described(client: &Client, tokens: &[String]) -> Result<SiteDescription, String> {
    let mut site = client.description()?;
    let wrong = |problem: &str| Err(format!("{}/datasets.json: {problem}", client.base()));
    if let Some(unknown) = tokens.iter().find(|token| site.datasets.iter().all(|d| d.token != **token)) {
        return wrong(&format!("there is no dataset {unknown:?}"));
    }
    site.datasets.retain(|dataset| tokens.is_empty() || tokens.contains(&dataset.token));
    if site.datasets.is_empty() { wrong("no dataset is served") } else { Ok(site) }
}
