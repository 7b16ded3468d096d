//! `voltile warm`: renders tiles ahead of requests, through a running server or straight into a
//! cache directory.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use indicatif::{HumanCount, HumanDuration};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};
use voltile_base::description::DatasetDescription;
use voltile_base::flow::interest::{Interest, Interested};
use voltile_base::geometry::Plane;
use voltile_base::name::Name;
use voltile_base::shard::Shard;
use voltile_base::units::bytes;

use super::failure::Failure;
use super::load::{LoadedCatalog, load_without_faults};
use super::log::LogWriter;
use super::sources::{ConfigurationChoice, Sources};
use super::tiers::{directory_tier, shared_tiers};
use super::{output, signals};
use crate::tier::{Directory, Tier, Tiers};
use crate::tools::progress::Progress;
use crate::tools::warm::{
    self, Channels, Ending, InProcess, Numbers, Producer, RemoteServer, Selection, WarmReport,
    WarmWork,
};

#[derive(Debug, Args)]
pub(super) struct WarmArguments {
    /// A running server (http://HOST:PORT, https://HOST, unix:/PATH/OF/A/SOCKET), or HDF5 files.
    #[arg(value_name = "URL|FILE.h5")]
    targets: Vec<String>,
    #[command(flatten)]
    configured: ConfigurationChoice,
    /// Without a server: the cache directory to render into; default: cache.directory. Tiles are
    /// also written to cache.store, if it is set.
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
    #[command(flatten)]
    selecting: SelectionArguments,
    /// Do only part I (from 0) of N parts of the tiles, on this or another machine.
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Number of connections to the server.
    #[arg(long, value_name = "N", default_value = "4")]
    clients: NonZeroUsize,
    /// How many times a tile is retried, with growing pauses, if the server refuses it as busy.
    #[arg(long, value_name = "N", default_value_t = 8)]
    retries: u32,
    /// At most this many tiles per second.
    #[arg(long, value_name = "TILES", value_parser = rate)]
    rate: Option<f64>,
    /// Print the number of tiles, and render none.
    #[arg(long)]
    dry_run: bool,
    /// Print JSON for programs.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Which tiles")]
struct SelectionArguments {
    /// Datasets: A,B; default: all.
    #[arg(long, value_name = "TOKENS", value_delimiter = ',', value_parser = name)]
    token: Vec<Name>,
    /// em,seg renders each of these channels separately; em:R,er:G renders a composite, with
    /// colours as in URLs. May be repeated. Default: each channel separately.
    #[arg(long, value_name = "CHANNELS")]
    channel: Vec<Channels>,
    /// xy, xz, yz, or all.
    #[arg(long, value_name = "PLANES", value_delimiter = ',', value_parser = ["xy", "xz", "yz", "all"],
          default_value = "xy")]
    plane: Vec<String>,
    /// Levels that viewers use: 0-2,4.
    #[arg(long, value_name = "LEVELS", default_value = "all")]
    level: Numbers,
    /// Slices, as numbered in URLs at each level: 0-99,200-,0-1000:10.
    #[arg(long, value_name = "SLICES", default_value = "all")]
    slice: Numbers,
    /// Time points: 0-9.
    #[arg(long, value_name = "TIMES", default_value = "0")]
    time: Numbers,
}

impl SelectionArguments {
    fn selection(&self) -> Selection {
        let mut planes = Plane::ALL.to_vec();
        if !self.plane.iter().any(|name| name == "all") {
            planes.retain(|plane| self.plane.iter().any(|name| name == plane.name()));
        }
        let channels = self.channel.iter().flat_map(|channels| &channels.0);
        Selection {
            tokens: self.token.clone(),
            channels: channels.cloned().collect(),
            planes,
            levels: self.level.clone(),
            slices: self.slice.clone(),
            times: self.time.clone(),
        }
    }
}

/// The name of a dataset or a channel.
pub(super) fn name(text: &str) -> Result<Name, String> {
    Name::new(text).map_err(|error| error.to_string())
}

/// Tiles per second: at most 1000, because timers are no finer than a millisecond.
fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (0.001..=1000.0).contains(&rate) => Ok(rate),
        _ => Err("expected a number of tiles per second, 0.001 to 1000".to_owned()),
    }
}

pub(super) fn run(log: &LogWriter, arguments: &WarmArguments) -> Result<(), Failure> {
    let interested = Interested::default();
    let interest = interested.interest();
    signals::stop_then_exit(log, move || {
        tracing::info!("stopping: finishing the tiles in flight");
        // Tells the job to stop.
        drop(interested);
    })?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let job = WarmJob {
        log,
        arguments,
        interest,
        runtime,
    };
    let mut targets = arguments.targets.iter();
    match targets.find(|target| warm::is_server(target)) {
        Some(server) => job.over_http(server),
        None => job.in_process(),
    }
}

/// One warming job.
struct WarmJob<'a> {
    log: &'a LogWriter,
    arguments: &'a WarmArguments,
    /// Gone (see [`Interest`]) when the user has asked to stop.
    interest: Interest,
    runtime: Runtime,
}

impl WarmJob<'_> {
    fn over_http(&self, address: &str) -> Result<(), Failure> {
        let arguments = self.arguments;
        let only_local = [
            ("another server or file", arguments.targets.len() > 1),
            ("--into", arguments.into.is_some()),
            ("--config", arguments.configured.config.is_some()),
            ("--set", !arguments.configured.set.is_empty()),
        ];
        if let Some((option, _)) = only_local.iter().find(|(_, is_given)| *is_given) {
            return Err(Failure::Usage(format!(
                "{option} cannot be used with a server, which has its own files, settings and cache directory; select one of \
                 its datasets with --token"
            )));
        }
        let mut server = RemoteServer::new(address, arguments.retries).map_err(Failure::Usage)?;
        let site = self.runtime.block_on(server.describe());
        let site = site.map_err(anyhow::Error::msg)?;
        let work = self.work(&site.datasets)?;
        if arguments.dry_run {
            return self.print_count(&work);
        }
        let report = self.fill(&work, &server, arguments.clients);
        self.print_report(&report)
    }

    fn in_process(&self) -> Result<(), Failure> {
        let arguments = self.arguments;
        let layers = Sources {
            files: arguments.targets.iter().map(PathBuf::from).collect(),
            configured: arguments.configured.clone(),
        }
        .layers()?;
        let loaded = load_without_faults(self.log, &layers)?;
        let work = self.work(&loaded.catalog.describe())?;
        if arguments.dry_run {
            return self.print_count(&work);
        }
        let tiers = tiers(arguments.into.as_ref(), &loaded)?;
        let threads = loaded.settings.render.threads;
        let service = loaded.into_service()?.with_tiers(Tiers::new(tiers));
        let mut report = self.fill(&work, &InProcess(&service), threads);
        // Verifies nothing more: only writes the tiles that are queued.
        service.finish_writing(Duration::ZERO);
        let metrics = service.metrics();
        let evicted = metrics.tier_evicted.get();
        if evicted > 0 {
            tracing::warn!(
                "{evicted} tiles were removed from the cache directory to keep to cache.disk: cache.disk is too small for all tiles"
            );
        }
        report.evicted = Some(evicted);
        report.bytes_inflated = Some(metrics.chunk_decoded_bytes.get());
        self.print_report(&report)
    }

    fn work(&self, datasets: &[DatasetDescription]) -> Result<WarmWork, Failure> {
        let selection = self.arguments.selecting.selection();
        let shard = self.arguments.shard.as_ref();
        WarmWork::new(&selection, datasets, shard).map_err(Failure::Usage)
    }

    fn fill(&self, work: &WarmWork, producer: &impl Producer, at_once: NonZeroUsize) -> WarmReport {
        let progress = Progress::new("warming".to_owned(), "tiles");
        let rate = self.arguments.rate;
        let run = warm::run(work, producer, at_once, rate, &self.interest, &progress);
        let report = self.runtime.block_on(run);
        progress.finish();
        report
    }

    fn print_count(&self, work: &WarmWork) -> Result<(), Failure> {
        let count = json!({ "tiles": work.total() });
        output::print_as(self.arguments.json, &count, |_| {
            format!("{} tiles\n", HumanCount(work.total()))
        })
    }

    /// Prints the report; fails if a tile failed, or if the run did not finish.
    fn print_report(&self, report: &WarmReport) -> Result<(), Failure> {
        output::print_as(self.arguments.json, report, report_text)?;
        for failure in &report.failures {
            output::complain(self.log, failure);
        }
        let WarmReport { failed, tiles, .. } = report;
        let problem = match &report.ending {
            Ending::Finished if *failed == 0 => return Ok(()),
            Ending::Finished => {
                format!("{failed} of {tiles} tiles failed; the same command retries them")
            }
            Ending::Stopped => "stopped; the same command does the rest".to_owned(),
            Ending::Over(why) => format!("{why}; the same command does the rest"),
        };
        Err(Failure::Work(anyhow::Error::msg(problem)))
    }
}

fn report_text(report: &WarmReport) -> String {
    let done = report.rendered + report.stored + report.empty;
    let time = Duration::try_from_secs_f64(report.seconds).unwrap_or(Duration::MAX);
    format!(
        "{} of {} tiles in {}: {} rendered ({}), {} there already, {} empty, {} failed\n",
        HumanCount(done),
        HumanCount(report.tiles),
        HumanDuration(time),
        HumanCount(report.rendered),
        bytes(report.bytes),
        HumanCount(report.stored),
        HumanCount(report.empty),
        HumanCount(report.failed)
    )
}

/// The tiers that tiles are written to. Fails if no directory and no store of objects is among
/// them: Redis alone may lose tiles.
fn tiers(into: Option<&PathBuf>, loaded: &LoadedCatalog) -> Result<Vec<Tier>, Failure> {
    let settings = &loaded.settings;
    let metrics = loaded.catalog.chunks().metrics();
    let mut tiers = Vec::new();
    if let Some(path) = into.or(settings.cache.directory.as_ref()) {
        if settings.cache.disk == 0 {
            let problem = "cache.disk is 0: no tiles can be stored in a directory";
            return Err(Failure::Usage(problem.to_owned()));
        }
        let directory = Directory::open(path).map_err(super::tiers::unusable)?;
        tiers.push(directory_tier(directory, settings.cache.disk, metrics)?);
    } else if settings.cache.store.is_none() {
        let problem = "no target: name a server (http://HOST:PORT), a directory (--into DIR), or set cache.directory or \
                       cache.store";
        return Err(Failure::Usage(problem.to_owned()));
    }
    tiers.extend(shared_tiers(settings, metrics, loaded.catalog.store())?);
    Ok(tiers)
}
