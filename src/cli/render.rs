//! `voltile render`: one tile without HTTP, by the same path as in a URL.

use std::fmt::Write;
use std::ops::Range;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use voltile_base::geometry::TileAddress;
use voltile_base::request::{TilePath, TileRequest};

use super::failure::Failure;
use super::load::load_without_faults;
use super::log::LogWriter;
use super::output;
use super::sources::Sources;
use crate::catalog::Catalog;
use crate::config::Mount;
use crate::service::{Client, Demand};

#[derive(Debug, Args)]
pub(super) struct RenderArguments {
    /// The tile's path, as in a URL: /ndtilecache/tilecache/TOKEN/CHANNEL/xy/0/0_0_0.png
    #[arg(value_name = "TILE_PATH")]
    path: String,
    /// The output file; - is standard output.
    #[arg(short, long, value_name = "TILE.png")]
    output: PathBuf,
    #[command(flatten)]
    sources: Sources,
}

pub(super) fn run(log: &LogWriter, arguments: &RenderArguments) -> Result<(), Failure> {
    let loaded = load_without_faults(log, &arguments.sources.layers()?)?;
    // Verify chunks before writing the file: there is no idle time later.
    loaded.catalog.chunks().verify_at_once();
    let request = requested_tile(&arguments.path, &loaded.settings.server.mounts)?;
    let service = loaded.into_service()?;
    let tile = actix_web::rt::System::new().block_on(async {
        let demand = Demand::wanted(Client::InProcess);
        let catalog = service.catalog();
        let plan = service
            .plan(&catalog, &request.token, demand, || {
                catalog.plan_tile(&request)
            })
            .await?;
        if plan.is_black() {
            output::complain(log, &outside_message(&catalog, &request));
        }
        service
            .fetch(&plan, demand, &std::sync::Arc::default(), None)
            .await
    })?;
    let file = &arguments.output;
    if file.as_os_str() == "-" {
        return output::print_bytes(&tile.bytes);
    }
    std::fs::write(file, &tile.bytes)
        .with_context(|| format!("{} cannot be written", file.display()))?;
    Ok(())
}

/// Parses the path of a tile.
fn requested_tile(text: &str, mounts: &[Mount]) -> anyhow::Result<TileRequest> {
    if let Some(path) = TilePath::split(path_of(text)).transpose()? {
        let mut services = mounts.iter().map(|mount| mount.tile_service.as_str());
        if services.any(|service| service == path.tile_service) {
            return Ok(path.request()?);
        }
    }
    let service = mounts
        .first()
        .map_or("", |mount| mount.tile_service.as_str());
    anyhow::bail!("{text:?} is not the path of a tile: it should begin with /{service}/tilecache/")
}

/// The message about a tile that shows nothing; it says which slices the channels have.
fn outside_message(catalog: &Catalog, request: &TileRequest) -> String {
    let TileAddress { plane, level, .. } = request.address;
    let mut text = format!(
        "{request} lies outside of the volume, or at a time point without data, so the tile is black"
    );
    let Some(dataset) = catalog.dataset(&request.token.token) else {
        return text;
    };
    let dataset = catalog.describe_dataset(dataset);
    for name in request.channels.names() {
        let Some(channel) = dataset.channel(name.as_str()) else {
            continue;
        };
        let Some(description) = channel.level(level.number()) else {
            continue;
        };
        let Range { start, end } = dataset.slices(channel, description, plane);
        let [columns, rows] = description.drawn[plane as usize];
        let _ = write!(
            text,
            "; level {} of {name} has the slices {start} to {} of {columns} × {rows} pixels in {plane}",
            level.number(),
            end - 1
        );
    }
    text
}

/// The path in a URL, without query and fragment. A text without a scheme counts as a path.
fn path_of(text: &str) -> &str {
    let path = match text.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or(text, |slash| &rest[slash..]),
        None => text,
    };
    path.split(['?', '#']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::path_of;

    #[test]
    fn a_url_is_taken_for_its_path() {
        assert_eq!(path_of("http://host:1/a/b.png?x=1"), "/a/b.png");
        assert_eq!(path_of("/a/b.png"), "/a/b.png");
    }
}
