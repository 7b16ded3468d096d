//! `voltile warm`: renders tiles ahead of requests, through a running server or straight into a cache directory.

mod arguments;
mod job;
mod journals;
mod signals;
mod tell;

use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use super::{Failure, Sources, directory_tier, load_sound, shared_tiers};
use crate::activity::Activity;
use crate::config::Settings;
use crate::description::DatasetDescription;
use crate::metrics::Metrics;
use crate::request::TileRequest;
use crate::service::{RenderPool, TileService};
use crate::shard::Shard;
use crate::tier::{Directory, Tier, Tiers};
use crate::tile::Fingerprint;
use crate::warm::{Counted, DRAWN, EVICTED, INFLATED, InProcess, Selection, Server, Stop, Title, Work};

use arguments::{Selecting, Target};
use job::Job;
use signals::stop_on_signals;

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
    /// File that records progress, so that a stopped run can be resumed; removed when the run is complete.
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    /// Estimate the number of tiles, bytes and minutes without doing the work; a few tiles are rendered as samples.
    #[arg(long)]
    dry_run: bool,
    /// Print JSON for programs.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let target = Target::of(&arguments.targets).map_err(Failure::Usage)?;
    let selection = arguments.selecting.selection(&target).map_err(Failure::Usage)?;
    let stop = stop_on_signals()?;
    match &target.url {
        Some(url) => over_http(arguments, url, &target, &selection, &stop),
        None => in_process(arguments, &target, &selection, &stop),
    }
}

fn over_http(
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
    // A server without a disk cache has lost its tiles after a restart.
    let life = site.caches.disk.is_none().then_some(site.started);
    let tags = tags(&work, |tile| server.entity_tag(tile));
    let title = titled(selection, &work, &(server.address(), life, tags));
    let journal = arguments.journal.clone().or_else(|| journals::of_address(server.address(), &title));
    let drawers = site.threads.min(arguments.clients.get());
    let (part, threads) = (part(arguments, &work), arguments.clients);
    let job = Job { arguments, work: &work, title: &title, part, journal, threads, drawers, stop };
    if arguments.dry_run {
        return job.foretell(&server, site.caches.disk.unwrap_or(site.caches.tiles) as u64);
    }
    let before = server.counters();
    job.work_off(&server, || {
        let after = server.counters();
        let since = |name: &str| Some(after.get(name)?.saturating_sub(*before.get(name)?));
        Counted { drawn: since(DRAWN), inflated: since(INFLATED), evicted: since(EVICTED) }
    })
}

fn in_process(
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
        layers.files.push(super::serve::demo_volume()?);
        layers.config = arguments.config.clone();
    }
    let (settings, catalog) = load_sound(&layers, &metrics, &activity)?;
    let directory = arguments.into.clone().or_else(|| settings.cache.directory.clone());
    let budget = settings.cache.disk as u64;
    let tiers =
        if arguments.dry_run { Vec::new() } else { tiers(directory.as_deref(), &settings, &metrics)? };
    let work = chosen(selection, &catalog.describe(), settings.cache.chunks)?;
    let threads = settings.render.threads;
    let pool = RenderPool::new(threads, settings.render.queue, activity)?;
    let service = TileService::new(catalog, settings.cache.tiles, 0, pool, metrics.clone())?;
    let service = Arc::new(service.with_tiers(Tiers::of(tiers)));
    let producer = InProcess::new(Arc::clone(&service));
    let title = titled(selection, &work, &tags(&work, |tile| producer.entity_tag(tile)));
    let in_directory = || Some(journals::of_directory(directory.as_ref()?, &title));
    let of_store = || journals::of_address(settings.cache.store.as_ref()?.to_str()?, &title);
    let journal = arguments.journal.clone().or_else(in_directory).or_else(of_store);
    let (part, drawers) = (part(arguments, &work), threads.get());
    let job = Job { arguments, work: &work, title: &title, part, journal, threads, drawers, stop };
    if arguments.dry_run {
        return job.foretell(&producer, budget);
    }
    let (drawn, inflated) = (metrics.renders.get(), metrics.chunk_decoded_bytes.get());
    let counted = || Counted {
        drawn: Some(metrics.renders.get() - drawn),
        inflated: Some(metrics.chunk_decoded_bytes.get() - inflated),
        evicted: Some(metrics.tier_evicted.get()),
    };
    let done = job.work_off(&producer, counted);
    service.finish_writing(Duration::ZERO);
    done
}

/// The option or file that makes no sense together with a server, if any.
fn misplaced(arguments: &Arguments, target: &Target) -> Option<String> {
    if let Some(other) = target.files.first() {
        let other = other.display();
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
fn tiers(directory: Option<&Path>, settings: &Settings, metrics: &Metrics) -> Result<Vec<Tier>, Failure> {
    if directory.is_none() && settings.cache.store.is_none() {
        return Err(Failure::Usage(WHERE_TO.to_owned()));
    }
    let directory =
        directory.map(|directory| tier_in(directory, settings.cache.disk, metrics)).transpose()?;
    Ok(directory.into_iter().chain(shared_tiers(settings, metrics)?).collect())
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

/// The numbers of the tiles to be done.
fn part(arguments: &Arguments, work: &Work) -> Range<u64> {
    arguments.shard.map_or(0..work.total(), |shard| work.part(&shard))
}

/// What the journal belongs to: the work, and everything else that its tiles depend on.
fn titled(selection: &Selection, work: &Work, besides: &impl std::hash::Hash) -> Title {
    let digest = Fingerprint::of(&(work.digest().to_string(), Fingerprint::of(besides).to_string()));
    Title { work: digest.to_string(), selection: selection.to_string(), tiles: work.total() }
}

/// The ETags of the first tiles: they change if windows or rendering change. An error is reported when the tile's
/// turn comes.
fn tags(work: &Work, tag: impl Fn(&TileRequest) -> Result<String, String>) -> Vec<String> {
    work.firsts().map(|tile| tag(&tile).unwrap_or_else(|why| why)).collect()
}
