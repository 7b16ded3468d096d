//! `voltile serve`: opens all files, listens, prints its addresses, and drains connections when stopped.

use std::fmt::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use actix_web::dev::ServerHandle;
use actix_web::rt::System;
use clap::Args;
use tokio::sync::Notify;

use super::signals::ServerSignals;
use super::{Failure, Sources, limits, load_sound, log, output, probe, second_tier};
use crate::activity::Activity;
use crate::catalog::Catalog;
use crate::config::Settings;
use crate::demo;
use crate::geometry::Plane;
use crate::http::{self, Site};
use crate::metrics::Metrics;
use crate::service::{RenderPool, TileService};
use crate::simd;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    sources: Sources,
    /// The address to listen on, such as 127.0.0.1:8080; port 0 picks a free port.
    #[arg(long, value_name = "ADDRESS:PORT")]
    bind: Option<String>,
    /// Serve the demo volume, which is created at first use.
    #[arg(long)]
    demo: bool,
}

pub(super) fn run(arguments: Arguments) -> Result<(), Failure> {
    let signals = ServerSignals::listen()?;
    tracing::debug!("vector instructions: {}", simd::path().name());
    let mut layers = arguments.sources.layers();
    layers.bind = arguments.bind;
    if arguments.demo {
        layers.files.push(demo_volume()?);
        layers.config = arguments.sources.config;
    }
    let metrics = Metrics { log_lines_lost: log::lost(), ..Metrics::default() };
    let activity = Activity::default();
    let (settings, catalog) = load_sound(&layers, &metrics, &activity)?;
    let addresses = addresses(&settings)?;
    let pool = RenderPool::new(settings.render.threads, settings.render.queue, activity)?;
    let tier = second_tier(&settings, &metrics)?;
    let service = TileService::new(catalog, settings.cache.tiles, settings.render.neighbours, pool, metrics)?;
    let service = service.with_tier(tier).with_reopening(settings.clone(), Box::new(probe::refused))?;
    let service = Arc::new(service);
    let served = System::new().block_on(listen(&service, &settings, &addresses, &signals));
    service.finish_writing(settings.server.shutdown_timeout);
    served
}

/// Creates the demo volume if necessary, and returns its path.
pub(super) fn demo_volume() -> Result<PathBuf, Failure> {
    let path = demo::default_path(std::env::var_os)?;
    tracing::info!("the demo volume is {}", path.display());
    demo::ensure(&path)?;
    Ok(path)
}

fn addresses(settings: &Settings) -> Result<Vec<SocketAddr>, Failure> {
    let bind = settings.server.bind.as_str();
    let found: Vec<SocketAddr> = bind
        .to_socket_addrs()
        .map_err(|e| Failure::Usage(format!("server.bind: {bind:?} cannot be resolved to an address: {e}")))?
        .collect();
    // A name may resolve to several addresses, but they cannot share a port chosen by the system.
    Ok(if found.iter().any(|address| address.port() == 0) {
        found.into_iter().take(1).collect()
    } else {
        found
    })
}

async fn listen(
    service: &Arc<TileService>,
    settings: &Settings,
    bind: &[SocketAddr],
    signals: &ServerSignals,
) -> Result<(), Failure> {
    let site = Site::new(Arc::clone(service), settings)?;
    let descriptors = limits::most_connections(settings.server.workers.get());
    let (server, addresses) = http::start(site, &settings.server, bind, descriptors)
        .map_err(|e| anyhow::anyhow!("{} cannot be listened on: {e}", settings.server.bind.as_str()))?;
    // From here on signals drain the server; before its addresses are printed.
    let stop = signals.serving();
    if !http::has_viewer() {
        tracing::info!("this voltile was built without its viewer: it serves the simple page instead");
    }
    announce(announcement(&service.catalog(), settings, &addresses))?;
    actix_web::rt::spawn(stop_when_told(server.handle(), stop));
    Ok(server.await?)
}

async fn stop_when_told(server: ServerHandle, stop: Arc<Notify>) {
    stop.notified().await;
    server.stop(true).await;
}

/// The server's addresses, the address of its page, and one tile of every dataset.
fn announcement(catalog: &Catalog, settings: &Settings, addresses: &[SocketAddr]) -> String {
    let mut text = String::new();
    for address in addresses {
        let _ = writeln!(text, "voltile listening on http://{address}");
    }
    if let Some(address) = addresses.first() {
        let _ = writeln!(text, "page http://{address}/");
        let service = settings.server.mounts.first().map_or("", |mount| mount.tile_service.as_str());
        for dataset in catalog.datasets() {
            if let Some(channel) = dataset.channels.values().next() {
                let path = dataset.sample_path(channel, Plane::Xy);
                let _ = writeln!(text, "tile http://{address}/{service}/tilecache/{path}");
            }
        }
    }
    text
}

/// Prints everything at once, so that whoever reads the first line can read the others too.
///
/// A server whose standard output is closed or full keeps running: `voltile serve | head -1` is a common way to learn
/// the address. Prints on a separate thread, because a pipe that nobody reads would block.
fn announce(text: String) -> std::io::Result<()> {
    let print = move || {
        if let Err(failure) = output::print(&text) {
            tracing::warn!("the server is running, but its addresses could not be printed: {failure}");
        }
    };
    thread::Builder::new().name("announcement".to_owned()).spawn(print).map(drop)
}
