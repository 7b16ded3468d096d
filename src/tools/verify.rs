//! Verifies a running server by making the requests that viewers make, from outside.
//!
//! Each viewer has a file with its own rules, which cites the viewer's sources: a table of requests, and what the
//! response to each must be ([`request`]). Apart from the client and the types of
//! descriptions, no module of the server is used, so that its mistakes about itself are not repeated here. A check
//! passes, passes with a remark, or fails with a reason.

mod catmaid;
mod neuroglancer;
mod openseadragon;
mod report;
mod request;
mod viking;
mod zarr;

use crate::base::description::SiteDescription;
use crate::tools::client::Client;

pub use report::{Outcome, Report, Viewer};

/// Runs the checks of the given viewers, or of all, for the datasets with these tokens, or for all.
pub fn verify(client: &Client, viewers: &[Viewer], tokens: &[String]) -> Report {
    let mut report = Report::default();
    let site = report.read("descriptions", "/datasets.json", described(client, tokens));
    let is_wanted = |viewer: &Viewer| viewers.is_empty() || viewers.contains(viewer);
    let viewers = Viewer::ALL.iter().map(|(viewer, ..)| *viewer).filter(is_wanted);
    let Some(site) = &site else { return report };
    for viewer in viewers {
        report.viewer = Some(viewer);
        match viewer {
            Viewer::Catmaid => catmaid::play(client, site, &mut report),
            Viewer::Viking => viking::play(client, site, &mut report),
            Viewer::Openseadragon => openseadragon::play(client, site, &mut report),
            Viewer::Neuroglancer => neuroglancer::play(client, site, &mut report),
            Viewer::Zarr => zarr::play(client, site, &mut report),
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
