//! `voltile serve`: opens all files, listens, prints its addresses, and drains connections when
//! stopped.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use actix_web::dev::ServerHandle;
use actix_web::rt::System;
use clap::Args;
use tokio::sync::Notify;
use voltile_base::flow::start_thread;
use voltile_base::geometry::Plane;
use voltile_base::paint::Kind;
use voltile_base::simd;
use voltile_base::units;
use voltile_hdf5::store::Location;

use super::failure::Failure;
use super::folders::Folders;
use super::load::{
    NOTHING_TO_SERVE, choose_log_format, ensure_faultless, open, read_certificates, render_pool,
};
use super::log::LogWriter;
use super::reload::{self, Reloader};
use super::signals::ServerSignals;
use super::sources::{Sources, search};
use super::{limits, output, probe, signals, tiers};
use crate::catalog::Catalog;
use crate::config::{self, Layers, Memory, Settings};
use crate::http::systemd::{self, PassedSockets};
use crate::http::{self, Endpoint, ListenError, LiveSite, Sockets};
use crate::service::{ServicePart, TileService};

/// How much longer than `server.shutdown_timeout` the last writes may take; a write that takes
/// longer is hung.
const GRACE: Duration = Duration::from_secs(1);

/// The maximum number of tiles whose addresses are printed: the page shows the rest.
const MAX_SAMPLES: usize = 5;
/// The maximum number of files found in folders that are opened before the server listens. The
/// other files are opened afterwards, or when one is requested.
const MAX_FOUND: usize = 32;
const SUPERUSER: &str = "voltile runs as root, which it never needs: run it as a user who may only read the data files and \
     write the cache directory, such as with User= in a systemd unit or --user of the container";

#[derive(Debug, Args)]
pub(super) struct ServeArguments {
    #[command(flatten)]
    sources: Sources,
    /// The address to listen on, such as 127.0.0.1:8080; port 0 picks a free port. May be repeated.
    #[arg(long, value_name = "ADDRESS:PORT")]
    bind: Vec<String>,
    /// Serve the demo volume, which is created at first use.
    #[arg(long)]
    demo: bool,
    /// Stop when standard input ends: a program that starts the server gives it a pipe, and the
    /// server does not outlive it.
    #[arg(long)]
    stop_with_input: bool,
}

pub(super) fn run(log: &LogWriter, arguments: &ServeArguments) -> Result<(), Failure> {
    // First, because it changes the environment, which no other thread may read meanwhile. The only
    // other thread so far writes the log, and never reads it.
    let passed = PassedSockets::take().map_err(|error| Failure::Usage(error.to_string()))?;
    tracing::debug!("vector instructions: {}", simd::path().name());
    signals::outlive_hangups()?;
    let (mut layers, mut folders) = requested_layers(arguments)?;
    // Before folders are searched, which may log problems.
    choose_log_format(log, &config::load(&layers));
    if limits::is_superuser() {
        tracing::warn!("{SUPERUSER}");
    }
    search(&mut folders, &mut layers)?;
    let mut configuration = config::load(&layers);
    // Too little memory for a server is a fault.
    configuration.faults.extend(configuration.shortage.take());
    let signals = ServerSignals::listen(log)?;
    if arguments.stop_with_input {
        signals.stop_with_input()?;
    }
    if arguments.demo {
        ensure_demo()?;
    }
    let mut loaded = open(log, configuration, MAX_FOUND);
    let certificates = read_certificates(&mut loaded);
    let loaded = ensure_faultless(loaded)?;
    let settings = loaded.settings;
    let catalog = loaded.catalog;
    if catalog.datasets().next().is_none() && folders.is_empty() && loaded.unreachable.is_empty() {
        return Err(Failure::Usage(NOTHING_TO_SERVE.to_owned()));
    }
    ensure_accepted(&layers.files, &catalog)?;
    for fault in &loaded.unreachable {
        tracing::warn!("{fault}; the dataset is opened when its store answers");
    }
    for (file, fault) in &loaded.left_out {
        folders.note_broken(file.as_path(), fault.to_string());
    }
    tracing::info!("{}", memory_text(layers.memory, &settings));
    let sockets = Sockets::open(&settings.server, passed).map_err(not_listening)?;
    let service = open_service(catalog, &settings)?;
    let health = service.health();
    health.set(ServicePart::Files, &folders.problems());
    let site = Arc::new(LiveSite::new(Arc::clone(&service), &settings)?);
    let reloader = Reloader {
        log: log.clone(),
        layers,
        folders,
        service: Arc::clone(&service),
        site: Arc::clone(&site),
        certificates,
        watch: settings.files.watch,
        is_pending: false,
        started: settings.clone(),
    };
    let served = System::new().block_on(listen(site, reloader, &settings, sockets, &signals));
    finish_writing(service, settings.server.shutdown_timeout)?;
    served
}

/// The layers of settings without the files in folders, and the folders to search for them.
fn requested_layers(arguments: &ServeArguments) -> Result<(Layers, Folders), Failure> {
    let (mut layers, folders) = arguments.sources.unsearched_layers()?;
    layers.bind.clone_from(&arguments.bind);
    if arguments.demo {
        let demo = voltile_demo::default_path(std::env::var_os)?;
        layers.files.push(demo.into());
        // The demo counts as a file, so ./voltile.toml is not read by default.
        layers
            .config
            .clone_from(&arguments.sources.configured.config);
    }
    Ok((layers, folders))
}

/// Fails if a store refuses an object that was named on the command line.
fn ensure_accepted(files: &[Location], catalog: &Catalog) -> Result<(), Failure> {
    for file in files {
        if let Location::Object(address) = file
            && let Some(refusal) = catalog.store().refusal(address)
        {
            return Err(Failure::Work(anyhow::anyhow!("{file}: {refusal}")));
        }
    }
    Ok(())
}

/// Starts the render threads, and opens the tiers.
fn open_service(catalog: Catalog, settings: &Settings) -> Result<Arc<TileService>, Failure> {
    let pool = render_pool(&catalog, settings)?;
    pool.replace_stuck()?;
    let metrics = catalog.chunks().metrics().clone();
    let tiers = tiers::open(settings, &metrics, catalog.store())?;
    let store = catalog.store().clone();
    let tiles = settings.cache.tiles;
    let reach = settings.render.neighbours;
    let service = TileService::new(catalog, tiles, reach, pool, metrics)?
        .with_tiers(tiers)
        .with_boxes(settings.render.boxes)
        .with_reopening(settings.clone(), probe::run_trials(store))?;
    Ok(Arc::new(service))
}

/// Describes how the memory is divided, for the log.
fn memory_text(memory: Option<Memory>, settings: &Settings) -> String {
    let memory = memory.map_or_else(String::new, |memory| format!("{memory}; "));
    let cache = &settings.cache;
    let [tiles, chunks, boxes] =
        [cache.tiles, cache.chunks, settings.render.boxes].map(|bytes| units::bytes(bytes as u64));
    let threads = settings.render.threads;
    let trials = units::bytes(settings.files.trial_memory);
    let connections = settings.server.connections;
    format!(
        "memory: {memory}cache.tiles {tiles}, cache.chunks {chunks}, render.boxes {boxes}, render.threads {threads}, \
         server.connections {connections}, trials of files {trials}"
    )
}

/// Writes the tiles that wait for the tiers, on a thread of its own: a file system that does not
/// answer must not keep the process from ending.
fn finish_writing(service: Arc<TileService>, within: Duration) -> Result<(), Failure> {
    let (done, finished) = channel();
    start_thread("finish", move || {
        service.finish_writing(within);
        // Nobody receives it if the writes took too long.
        let _ = done.send(());
    })?;
    if finished.recv_timeout(within + GRACE).is_err() {
        tracing::warn!("not every tile was written: a file system does not answer");
    }
    Ok(())
}

/// Creates the demo volume if it is missing or outdated.
fn ensure_demo() -> Result<(), Failure> {
    let path = voltile_demo::default_path(std::env::var_os)?;
    tracing::info!("the demo volume is {}", path.display());
    Ok(voltile_demo::ensure(&path)?)
}

fn not_listening(error: ListenError) -> Failure {
    if error.is_misconfigured() {
        Failure::Usage(error.to_string())
    } else {
        Failure::Work(error.into())
    }
}

async fn listen(
    site: Arc<LiveSite>,
    reloader: Reloader,
    settings: &Settings,
    sockets: Sockets,
    signals: &ServerSignals,
) -> Result<(), Failure> {
    let descriptors = limits::max_connections(settings.server.workers.get());
    let certificates = reloader.certificates.clone();
    let listening = http::start(
        Arc::clone(&site),
        &settings.server,
        sockets,
        certificates,
        descriptors,
    )?;
    // Signals drain the server or make it reload from here on. This comes before its addresses are
    // printed, because a program that reads them may send a signal.
    let (order_sender, orders) = channel();
    let stop = signals.start_serving(order_sender);
    if !http::has_viewer() {
        tracing::info!(
            "this voltile was built without its viewer, and serves the simple page instead"
        );
    }
    let endpoints = listening.endpoints.iter();
    for endpoint in endpoints.filter(|endpoint| endpoint.is_everywhere()) {
        tracing::info!(
            "listening on all addresses of this machine; to open {endpoint} on another machine, replace its host by this machine's name"
        );
    }
    announce(announcement(
        &reloader.service.catalog(),
        settings,
        &listening.endpoints,
    ))?;
    systemd::ready(&reload::status(&reloader.service.catalog()));
    reloader.start(orders)?;
    let drain_delay = settings.server.drain_delay;
    actix_web::rt::spawn(stop_when_told(
        listening.server.handle(),
        site,
        stop,
        drain_delay,
    ));
    Ok(listening.server.await?)
}

/// Stops the server when `stop` is notified: `/readyz` is 503 from then on, and new connections are
/// accepted for `delay` longer.
async fn stop_when_told(
    server: ServerHandle,
    site: Arc<LiveSite>,
    stop: Arc<Notify>,
    delay: Duration,
) {
    stop.notified().await;
    systemd::stopping();
    site.drain();
    actix_web::rt::time::sleep(delay).await;
    server.stop(true).await;
}

/// The server's addresses, the address of its page, and a few tiles.
fn announcement(catalog: &Catalog, settings: &Settings, endpoints: &[Endpoint]) -> String {
    let mut text = String::new();
    for endpoint in endpoints {
        let _ = writeln!(text, "voltile listening on {endpoint}");
    }
    let mut endpoints = endpoints.iter();
    if let Some(endpoint) = endpoints.find(|endpoint| matches!(endpoint, Endpoint::Tcp(..))) {
        let base = format!("{endpoint}{}", settings.server.base_path);
        let mount = settings.server.mounts.first();
        let service = mount.map_or("", |mount| mount.tile_service.as_str());
        let _ = writeln!(text, "page {base}/");
        let datasets = catalog.datasets();
        let pairs = datasets.filter_map(|dataset| Some((dataset, dataset.first_channel()?)));
        let mut samples: Vec<_> = pairs.collect();
        // Labels come last.
        samples.sort_by_key(|(_, channel)| channel.kind == Kind::Labels);
        for (dataset, channel) in samples.into_iter().take(MAX_SAMPLES) {
            let path = dataset.sample_path(dataset.token.as_str(), channel, Plane::Xy);
            let _ = writeln!(text, "tile {base}/{service}/tilecache/{path}");
        }
    }
    text
}

/// Prints the text with one call, so that a program that has read its first line can read the rest
/// without waiting.
///
/// A server whose standard output is closed or full keeps running: `voltile serve | head -1` is a
/// common way to learn the address. Prints on a separate thread, because a pipe that nobody reads
/// would block.
fn announce(text: String) -> std::io::Result<()> {
    start_thread("announcement", move || {
        if let Err(failure) = output::print(&text) {
            tracing::warn!(
                "the server is running, but its addresses could not be printed: {failure}"
            );
        }
    })
}
