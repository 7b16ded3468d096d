//! `voltile serve`: opens everything, listens, says where, and drains when it is told to stop.

use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;

use actix_web::rt::System;
use clap::Args;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Failure, Sources, limits, load_sound, probe, second_tier};
use crate::catalog::Catalog;
use crate::config::Settings;
use crate::crew::Crew;
use crate::demo;
use crate::geometry::Plane;
use crate::http::{self, Site};
use crate::metrics::Metrics;
use crate::service::{RenderPool, TileService};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    sources: Sources,
    /// Where to listen, such as 127.0.0.1:8080; port 0 takes any that is free.
    #[arg(long, value_name = "ADDRESS:PORT")]
    bind: Option<String>,
    /// Serve the demo volume, which is made at first use.
    #[arg(long)]
    demo: bool,
}

pub(super) fn run(arguments: Arguments) -> Result<(), Failure> {
    let mut layers = arguments.sources.layers();
    layers.bind = arguments.bind;
    if arguments.demo {
        layers.files.push(demo_volume()?);
        layers.config = arguments.sources.config;
    }
    let (metrics, crew) = (Metrics::default(), Crew::default());
    let (settings, catalog) = load_sound(&layers, &metrics, &crew)?;
    let addresses = addresses(&settings)?;
    let pool = RenderPool::new(settings.render.threads, settings.render.queue, crew)?;
    let tier = second_tier(&settings, &metrics)?;
    let service = TileService::new(catalog, settings.cache.tiles, settings.render.neighbours, pool, metrics)?;
    let service = service.with_tier(tier).with_reopening(settings.clone(), Box::new(probe::harmful))?;
    let service = Arc::new(service);
    let served = System::new().block_on(listen(&service, &settings, &addresses));
    service.finish_writing(settings.server.shutdown_timeout);
    served
}

/// Where the demo volume is, once it is made.
pub(super) fn demo_volume() -> Result<PathBuf, Failure> {
    let path = demo::default_path()?;
    tracing::info!("the demo volume is {}", path.display());
    demo::ensure(&path)?;
    Ok(path)
}

fn addresses(settings: &Settings) -> Result<Vec<SocketAddr>, Failure> {
    let bind = settings.server.bind.as_str();
    let found: Vec<SocketAddr> = bind
        .to_socket_addrs()
        .map_err(|e| {
            Failure::Usage(format!("server.bind: {bind:?} is not an address that can be found: {e}"))
        })?
        .collect();
    // One name may stand for several addresses; a port that the system chooses can only be one's.
    Ok(if found.iter().any(|address| address.port() == 0) {
        found.into_iter().take(1).collect()
    } else {
        found
    })
}

async fn listen(service: &Arc<TileService>, settings: &Settings, bind: &[SocketAddr]) -> Result<(), Failure> {
    let site = Site::new(Arc::clone(service), settings)?;
    let descriptors = limits::most_connections(settings.server.workers.get());
    let (server, addresses) = http::start(site, &settings.server, bind, descriptors)
        .map_err(|e| anyhow::anyhow!("{} cannot be listened on: {e}", settings.server.bind.as_str()))?;
    // Listened for before anybody knows that we are here.
    let signals = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    if !http::has_viewer() {
        tracing::info!("this voltile was built without its viewer: the page is the simple one");
    }
    announce(&service.catalog(), settings, &addresses)?;
    let handle = server.handle();
    actix_web::rt::spawn(async move {
        told_to_stop(signals).await;
        tracing::info!("stopping: requests in flight are answered first");
        handle.stop(true).await;
    });
    Ok(server.await?)
}

async fn told_to_stop((mut interrupt, mut terminate): (Signal, Signal)) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

/// Says on standard output where the server is, where its page is, and one tile of every dataset: all at once, so that
/// whoever waits for the first line has the others too.
fn announce(catalog: &Catalog, settings: &Settings, addresses: &[SocketAddr]) -> std::io::Result<()> {
    let mut text = Vec::new();
    for address in addresses {
        writeln!(text, "voltile listening on http://{address}")?;
    }
    if let Some(address) = addresses.first() {
        writeln!(text, "page http://{address}/")?;
        let service = settings.server.mounts.first().map_or("", |mount| mount.tile_service.as_str());
        for dataset in catalog.datasets() {
            if let Some(channel) = dataset.channels.values().next() {
                let path = dataset.sample_path(channel, Plane::Xy);
                writeln!(text, "tile http://{address}/{service}/tilecache/{path}")?;
            }
        }
    }
    let mut out = std::io::stdout().lock();
    out.write_all(&text)?;
    out.flush()
}
