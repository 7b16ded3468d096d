//! `voltile warm`: renders tiles ahead of requests, through a running server or straight into a cache directory.

mod arguments;
mod job;
mod progress;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use super::log::Log;
use super::{Failure, Sources, directory_tier, load_sound, shared_tiers, signals};
use crate::base::description::DatasetDescription;
use crate::base::shard::Shard;
use crate::config::Settings;
use crate::flow::activity::Activity;
use crate::metrics::Metrics;
use crate::service::{RenderPool, TileService};
use crate::store::{Location, Store};
use crate::tier::{Directory, Tier, Tiers};
use crate::tools::warm::{Counted, DRAWN, EVICTED, INFLATED, InProcess, Selection, Server, Stop, Work};

use arguments::{Selecting, Target};
use job::Job;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// A running server (http://HOST:PORT, https://HOST, unix:/PATH/OF/A/SOCKET), or HDF5 files; optionally followed by a token and a cutout in the form of
    /// ndtilecache's prefetch: LEVEL/X1,X2/Y1,Y2/Z1,Z2
    #[arg(value_name = "URL|FILE.h5|TOKEN CUTOUT")]
    targets: Vec<String>,
    /// Without a server: the configuration file; default: ./voltile.toml if it exists and nothing is named.
    #[arg(long, value_name = "FILE.toml")]
    config: Option<PathBuf>,
    /// Without a server: set one key, such as cache.chunks="4 GiB"; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Without a server: the cache directory to render into; default: cache.directory. Tiles are also written to
    /// cache.store, if it is set.
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
    /// Without a server: the demo volume.
    #[arg(long)]
    demo: bool,
    #[command(flatten)]
    selecting: Selecting,
    /// Do only part I (from 0) of N parts of these tiles, on this or another machine.
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Number of connections to the server.
    #[arg(long, value_name = "N", default_value = "4")]
    clients: NonZeroUsize,
    /// How many times a tile is retried, with growing pauses, if the server refuses it as busy.
    #[arg(long, value_name = "N", default_value_t = 8)]
    retries: u32,
    /// At most this many tiles per second.
    #[arg(long, value_name = "TILES", value_parser = arguments::rate)]
    rate: Option<f64>,
    /// Print the number of tiles and of chunks to decode, and estimate bytes and time, without doing the work; a few
    /// tiles are rendered as samples.
    #[arg(long)]
    dry_run: bool,
    /// Print JSON for programs.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(log: &Log, arguments: &Arguments) -> Result<(), Failure> {
    let target = Target::of(&arguments.targets).map_err(Failure::Usage)?;
    let selection = arguments.selecting.selection(&target).map_err(Failure::Usage)?;
    let stop = stop_on_signals(log)?;
    match &target.url {
        Some(url) => over_http(log, arguments, url, &target, &selection, &stop),
        None => in_process(log, arguments, &target, &selection, &stop),
    }
}

/// On the first Ctrl-C or SIGTERM, stops the work after finishing tiles in flight. The second ends the process with
/// status 1, as for any unfinished work.
fn stop_on_signals(log: &Log) -> Result<Arc<Stop>, Failure> {
    let stop = Arc::new(Stop::default());
    let stopped = Arc::clone(&stop);
    signals::stop_then_exit(log, 1, move || {
        tracing::info!("stopping: finishing the tiles in flight");
        stopped.request();
    })?;
    Ok(stop)
}

fn over_http(
    log: &Log,
    arguments: &Arguments,
    url: &str,
    target: &Target,
    selection: &Selection,
    stop: &Stop,
) -> Result<(), Failure> {
    if let Some(problem) = misplaced(arguments, target) {
        return Err(Failure::Usage(problem));
    }
    let mut server =
        Server::new(url, arguments.retries).map_err(|wrong| Failure::Usage(wrong.to_string()))?;
    let site = server.ask().map_err(anyhow::Error::msg)?;
    let work = chosen(selection, &site.datasets, site.caches.chunks)?;
    let renderers = site.threads.min(arguments.clients.get());
    let job = Job { log, arguments, work: &work, threads: arguments.clients, renderers, stop };
    if arguments.dry_run {
        return job.estimate(&server, site.caches.disk.unwrap_or(site.caches.tiles) as u64);
    }
    let before = server.counters();
    job.run(&server, || {
        let after = server.counters();
        let since = |name: &str| Some(after.get(name)?.saturating_sub(*before.get(name)?));
        Counted { drawn: since(DRAWN), evicted: since(EVICTED), bytes_inflated: since(INFLATED) }
    })
}

fn in_process(
    log: &Log,
    arguments: &Arguments,
    target: &Target,
    selection: &Selection,
    stop: &Stop,
) -> Result<(), Failure> {
    let (metrics, activity) = (Metrics::default(), Activity::default());
    let mut layers =
        Sources { files: target.files.clone(), config: arguments.config.clone(), set: arguments.set.clone() }
            .layers()?;
    if arguments.demo {
        layers.files.push(super::serve::demo_volume()?.into());
        layers.config = arguments.config.clone();
    }
    let (settings, catalog) = load_sound(log, &layers, &metrics, &activity)?;
    let directory = arguments.into.clone().or_else(|| settings.cache.directory.clone());
    let budget = settings.cache.disk as u64;
    let tiers = if arguments.dry_run {
        Vec::new()
    } else {
        tiers(directory.as_deref(), &settings, &metrics, catalog.store())?
    };
    let work = chosen(selection, &catalog.describe(), settings.cache.chunks)?;
    let threads = settings.render.threads;
    let pool = RenderPool::new(threads, settings.render.queue, activity)?;
    let service = TileService::new(catalog, settings.cache.tiles, 0, pool, metrics.clone())?;
    let service = Arc::new(service.with_tiers(Tiers::of(tiers)));
    let producer = InProcess::new(Arc::clone(&service));
    let job = Job { log, arguments, work: &work, threads, renderers: threads.get(), stop };
    if arguments.dry_run {
        return job.estimate(&producer, budget);
    }
    let (drawn, inflated) = (metrics.renders.get(), metrics.chunk_decoded_bytes.get());
    let counted = || Counted {
        drawn: Some(metrics.renders.get() - drawn),
        evicted: Some(metrics.tier_evicted.get()),
        bytes_inflated: Some(metrics.chunk_decoded_bytes.get() - inflated),
    };
    let done = job.run(&producer, counted);
    service.finish_writing(Duration::ZERO);
    done
}

/// The option or file that makes no sense together with a server, if any.
fn misplaced(arguments: &Arguments, target: &Target) -> Option<String> {
    if let Some(other) = target.files.first() {
        // It may be an address with credentials.
        let other =
            Location::given(other.clone()).map_or_else(|error| error.to_string(), |file| file.to_string());
        return Some(format!("{other}: a server has its own files; select one of its datasets with --token"));
    }
    let without_server = [
        ("--into", arguments.into.is_some()),
        ("--config", arguments.config.is_some()),
        ("--set", !arguments.set.is_empty()),
        ("--demo", arguments.demo),
    ];
    let (option, _) = without_server.iter().find(|(_, is_given)| *is_given)?;
    Some(format!(
        "{option} cannot be used with a server, which has its own files, settings and cache directory"
    ))
}

const WHERE_TO: &str = "no target: name a server (http://HOST:PORT), a directory (--into DIR), or set cache.directory or \
                        cache.store";

/// The tiers that tiles are written to; at least one that is meant to last.
fn tiers(
    directory: Option<&Path>,
    settings: &Settings,
    metrics: &Metrics,
    store: &Store,
) -> Result<Vec<Tier>, Failure> {
    if directory.is_none() && settings.cache.store.is_none() {
        return Err(Failure::Usage(WHERE_TO.to_owned()));
    }
    let directory =
        directory.map(|directory| tier_in(directory, settings.cache.disk, metrics)).transpose()?;
    Ok(directory.into_iter().chain(shared_tiers(settings, metrics, store)?).collect())
}

/// The disk cache. Without one there is nothing to do, so failing to open it is an error.
fn tier_in(directory: &Path, budget: usize, metrics: &Metrics) -> Result<Tier, Failure> {
    if budget == 0 {
        return Err(Failure::Usage("cache.disk is 0: no tiles can be stored in a directory".to_owned()));
    }
    let opened = Directory::open(directory).map_err(|error| match error.is_misnamed() {
        true => Failure::Usage(error.to_string()),
        false => Failure::Work(error.into()),
    })?;
    directory_tier(opened, budget, metrics)
}

fn chosen(selection: &Selection, datasets: &[DatasetDescription], chunks: usize) -> Result<Work, Failure> {
    let work =
        Work::new(selection, datasets, chunks as u64).map_err(|wrong| Failure::Usage(wrong.to_string()))?;
    for remark in work.remarks() {
        tracing::warn!("{remark}");
    }
    Ok(work)
}
