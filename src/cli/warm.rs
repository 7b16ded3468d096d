//! `voltile warm`: renders tiles ahead of requests, through a running server or straight into a
//! cache directory.

mod arguments;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use indicatif::{HumanCount, HumanDuration};

use super::failure::Failure;
use super::load::{Sound, load_sound};
use super::log::Log;
use super::sources::{Configured, Sources};
use super::tiers::{directory_tier, shared_tiers};
use super::{choices, output, signals};
use crate::base::description::DatasetDescription;
use crate::base::shard::Shard;
use crate::base::units::bytes;
use crate::config::Settings;
use crate::metrics::Metrics;
use crate::service::{RenderPool, TileService};
use crate::store::Store;
use crate::tier::{Directory, Tier, Tiers};
use crate::tools::progress::Progress;
use crate::tools::warm::{
    self, Ending, Estimate, InProcess, Producer, Report, Selection, Server, Stop, Work,
};

use arguments::{Selecting, Target};

pub(super) use arguments::name;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// A running server (http://HOST:PORT, https://HOST, unix:/PATH/OF/A/SOCKET), or HDF5 files;
    /// optionally followed by a token and a cutout in the form of ndtilecache's prefetch:
    /// LEVEL/X1,X2/Y1,Y2/Z1,Z2
    #[arg(value_name = "URL|FILE.h5|TOKEN CUTOUT")]
    targets: Vec<String>,
    #[command(flatten)]
    configured: Configured,
    /// Without a server: the cache directory to render into; default: cache.directory. Tiles are
    /// also written to cache.store, if it is set.
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
    /// Print the number of tiles and of chunks to decode, and estimate bytes and time, without
    /// doing the work; a few tiles are rendered as samples.
    #[arg(long)]
    dry_run: bool,
    /// Print JSON for programs.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(log: &Log, arguments: &Arguments) -> Result<(), Failure> {
    let target = Target::parse(&arguments.targets).map_err(Failure::Usage)?;
    let selection = arguments
        .selecting
        .selection(&target)
        .map_err(Failure::Usage)?;
    let stop = Arc::new(Stop::default());
    let stopped = Arc::clone(&stop);
    // The second Ctrl-C or SIGTERM ends the process with status 1, as for any unfinished work.
    signals::stop_then_exit(log, 1, move || {
        tracing::info!("stopping: finishing the tiles in flight");
        stopped.request();
    })?;
    match &target.url {
        Some(url) => over_http(log, arguments, url, &target, &selection, &stop),
        None => in_process(log, arguments, &target, &selection, &stop),
    }
}

/// One warming job.
struct Job<'a> {
    log: &'a Log,
    arguments: &'a Arguments,
    work: Work,
    /// The number of tiles in flight at once, and the number rendered at once.
    threads: NonZeroUsize,
    renderers: usize,
    /// The size of the cache in bytes.
    room: u64,
    stop: &'a Stop,
}

fn over_http(
    log: &Log,
    arguments: &Arguments,
    url: &str,
    target: &Target,
    selection: &Selection,
    stop: &Stop,
) -> Result<(), Failure> {
    refuse_local(arguments, target)?;
    let mut server = Server::new(url, arguments.retries).map_err(Failure::Usage)?;
    let site = server.describe().map_err(anyhow::Error::msg)?;
    let work = chosen(arguments, selection, &site.datasets, site.caches.chunks)?;
    let renderers = site.threads.min(arguments.clients.get());
    let room = site.caches.disk.unwrap_or(site.caches.tiles) as u64;
    Job {
        log,
        arguments,
        work,
        threads: arguments.clients,
        renderers,
        room,
        stop,
    }
    .run(&server)
}

fn in_process(
    log: &Log,
    arguments: &Arguments,
    target: &Target,
    selection: &Selection,
    stop: &Stop,
) -> Result<(), Failure> {
    let mut layers = Sources {
        files: target.files.clone(),
        configured: arguments.configured.clone(),
    }
    .layers()?;
    if arguments.demo {
        layers.files.push(super::serve::demo_volume()?.into());
        layers.config = arguments.configured.config.clone();
    }
    let Sound {
        settings,
        catalog,
        metrics,
        activity,
    } = load_sound(log, &layers)?;
    let directory = arguments
        .into
        .as_ref()
        .or(settings.cache.directory.as_ref());
    let tiers = match arguments.dry_run {
        true => Vec::new(),
        false => tiers(directory, &settings, &metrics, catalog.store())?,
    };
    let work = chosen(
        arguments,
        selection,
        &catalog.describe(),
        settings.cache.chunks,
    )?;
    let threads = settings.render.threads;
    let pool = RenderPool::new(threads, settings.render.queue, activity)?;
    let service = TileService::new(catalog, settings.cache.tiles, 0, pool, metrics)?;
    let service = Arc::new(service.with_tiers(Tiers::new(tiers)));
    let room = settings.cache.disk as u64;
    let job = Job {
        log,
        arguments,
        work,
        threads,
        renderers: threads.get(),
        room,
        stop,
    };
    let done = job.run(&InProcess::new(Arc::clone(&service))?);
    service.finish_writing(Duration::ZERO);
    done
}

impl Job<'_> {
    fn run(&self, producer: &dyn Producer) -> Result<(), Failure> {
        let Self {
            arguments,
            work,
            stop,
            ..
        } = self;
        if arguments.dry_run {
            let estimate = warm::estimate(work, producer, self.renderers, arguments.rate, stop);
            if estimate.bytes > self.room {
                tracing::warn!(
                    "the tiles take more than the cache holds ({}): the first tiles will be evicted",
                    bytes(self.room)
                );
            }
            return output::print_as(arguments.json, &estimate, estimate_text);
        }
        let progress = Progress::new("warming".to_owned(), "tiles");
        let report = warm::run(
            work,
            producer,
            self.threads,
            arguments.rate,
            stop,
            &progress,
        );
        progress.finish();
        output::print_as(arguments.json, &report, report_text)?;
        if let Some(evicted) = report
            .counters
            .map(|counters| counters.evicted)
            .filter(|evicted| *evicted > 0)
        {
            tracing::warn!(
                "{evicted} tiles were removed from the cache directory to keep to cache.disk: cache.disk is too small for all tiles"
            );
        }
        report
            .failures
            .iter()
            .for_each(|failure| output::complain(self.log, failure));
        let Report { failed, tiles, .. } = report;
        if failed > report.failures.len() as u64 {
            output::complain(
                self.log,
                &format!("and {} more", failed - report.failures.len() as u64),
            );
        }
        let problem = match report.ending {
            Ending::Finished if failed == 0 => return Ok(()),
            Ending::Finished => {
                format!("{failed} of {tiles} tiles failed; the same command retries them")
            }
            Ending::Stopped => "stopped; the same command does the rest".to_owned(),
            Ending::Over(why) => format!("{why}; the same command does the rest"),
        };
        Err(Failure::Work(anyhow::Error::msg(problem)))
    }
}

fn estimate_text(estimate: &Estimate) -> String {
    let (tiles, chunks) = (HumanCount(estimate.tiles), HumanCount(estimate.chunks_read));
    let (size, time) = (bytes(estimate.bytes), duration(estimate.seconds));
    let inflated = bytes(estimate.bytes_inflated);
    let samples = estimate.samples;
    format!(
        "{tiles} tiles, about {size}, about {time}\n{chunks} chunks to decode, {inflated} inflated\n\
         estimated from {samples} tiles\n"
    )
}

fn report_text(report: &Report) -> String {
    let done = report.rendered + report.stored + report.empty;
    let [done, tiles, rendered, stored, empty, failed] = [
        done,
        report.tiles,
        report.rendered,
        report.stored,
        report.empty,
        report.failed,
    ]
    .map(HumanCount);
    let (size, time) = (bytes(report.bytes), duration(report.seconds));
    let inflated = report
        .counters
        .map(|counters| format!("{} inflated\n", bytes(counters.bytes_inflated)));
    format!(
        "{done} of {tiles} tiles in {time}: {rendered} rendered ({size}), {stored} there already, {empty} empty, \
         {failed} failed\n{}",
        inflated.unwrap_or_default()
    )
}

fn duration(seconds: f64) -> HumanDuration {
    HumanDuration(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

/// An error if a file or option is given that makes no sense together with a server.
fn refuse_local(arguments: &Arguments, target: &Target) -> Result<(), Failure> {
    if let Some(file) = target.files.first() {
        let file = super::sources::file(file.clone())?;
        let problem = "a server has its own files; select one of its datasets with --token";
        return Err(Failure::Usage(format!("{file}: {problem}")));
    }
    let local = [
        ("--into", arguments.into.is_some()),
        ("--config", arguments.configured.config.is_some()),
        ("--set", !arguments.configured.set.is_empty()),
        ("--demo", arguments.demo),
    ];
    let why = "cannot be used with a server, which has its own files, settings and cache directory";
    choices::refuse(&local, why).map_err(Failure::Usage)
}

/// The tiers that tiles are written to; at least one of them must keep tiles across restarts.
fn tiers(
    directory: Option<&PathBuf>,
    settings: &Settings,
    metrics: &Metrics,
    store: &Store,
) -> Result<Vec<Tier>, Failure> {
    let problem = match directory {
        None if settings.cache.store.is_none() => Some(
            "no target: name a server (http://HOST:PORT), a directory (--into DIR), or set cache.directory or cache.store",
        ),
        Some(_) if settings.cache.disk == 0 => {
            Some("cache.disk is 0: no tiles can be stored in a directory")
        }
        _ => None,
    };
    if let Some(problem) = problem {
        return Err(Failure::Usage(problem.to_owned()));
    }
    let mut tiers = Vec::new();
    if let Some(path) = directory {
        let directory = Directory::open(path).map_err(super::tiers::unusable)?;
        tiers.push(directory_tier(directory, settings.cache.disk, metrics)?);
    }
    tiers.extend(shared_tiers(settings, metrics, store)?);
    Ok(tiers)
}

fn chosen(
    arguments: &Arguments,
    selection: &Selection,
    datasets: &[DatasetDescription],
    chunks: usize,
) -> Result<Work, Failure> {
    let work = Work::new(selection, datasets, chunks as u64).map_err(Failure::Usage)?;
    for remark in work.remarks() {
        tracing::warn!("{remark}");
    }
    Ok(match &arguments.shard {
        Some(shard) => work.shard(shard),
        None => work,
    })
}
