//! `voltile warm`: has tiles made before anybody asks, by a server that runs or straight into a cache directory.

mod arguments;
mod journals;
mod tell;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use super::{Failure, Sources, load_sound, second_tier};
use crate::crew::Crew;
use crate::metrics::Metrics;
use crate::service::{RenderPool, TileService};
use crate::tile::Fingerprint;
use crate::warm::{
    DRAWN, Ending, Found, Hand, INFLATED, InProcess, Pace, Position, Probe, Report, Selection, Server, Stop,
    Title, Work, described, estimate, run as work_off,
};

use arguments::{Selecting, Target};
use tell::Tiles;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// A running server (http://HOST:PORT), or HDF5 files; behind them, if you like, as the ancestor's prefetch takes
    /// them: a token and LEVEL/X1,X2/Y1,Y2/Z1,Z2
    #[arg(value_name = "URL|FILE.h5|TOKEN CUTOUT")]
    targets: Vec<String>,
    /// Without a server: the configuration file; ./voltile.toml is read if it is there and nothing is named.
    #[arg(long, value_name = "FILE.toml")]
    config: Option<PathBuf>,
    /// Without a server: set one key, such as cache.chunks="4 GiB"; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Without a server: the cache directory to render into; default: cache.directory.
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
    /// Without a server: the demo volume.
    #[arg(long)]
    demo: bool,
    #[command(flatten)]
    selecting: Selecting,
    /// How many connections ask a server at once.
    #[arg(long, value_name = "N", default_value = "4")]
    clients: NonZeroUsize,
    /// How often a tile that a server refuses for now is asked for again, later and later.
    #[arg(long, value_name = "N", default_value_t = 8)]
    retries: u32,
    /// At most so many tiles a second.
    #[arg(long, value_name = "TILES", value_parser = arguments::rate)]
    rate: Option<f64>,
    /// Where to keep how far the work is, so that it goes on there after it was stopped; removed when it is finished.
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    /// Say how many tiles, bytes and minutes it would take; a few tiles are drawn to see.
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

/// Everything that a work is done with.
struct Job<'a> {
    arguments: &'a Arguments,
    work: &'a Work,
    title: &'a Title,
    /// Where the journal is kept, where that is known.
    journal: Option<PathBuf>,
    /// How many tiles are under way at once, and how many are drawn.
    threads: NonZeroUsize,
    drawers: usize,
    stop: &'a Stop,
}

fn over_http(
    arguments: &Arguments,
    url: &str,
    target: &Target,
    selection: &Selection,
    stop: &Stop,
) -> Result<(), Failure> {
    if arguments.into.is_some() || arguments.config.is_some() || !target.files.is_empty() || arguments.demo {
        let problem =
            "a server has its own files and its own cache directory; name a server, or files and --into";
        return Err(Failure::Usage(problem.to_owned()));
    }
    let mut server = Server::new(url, arguments.clients, arguments.retries)
        .map_err(|wrong| Failure::Usage(wrong.to_string()))?;
    let served = server.ask().map_err(anyhow::Error::msg)?;
    let work = chosen(selection, &served.datasets, served.caches.chunks)?;
    // A server that keeps tiles in memory alone has lost them once it was started again.
    let life = served.caches.disk.is_none().then_some(served.started);
    let tags = work.firsts().map(|tile| server.entity_tag(&tile)).collect::<Result<Vec<_>, _>>();
    let title = titled(selection, &work, &(server.address(), life, tags.map_err(anyhow::Error::msg)?));
    let journal = arguments.journal.clone().or_else(|| journals::of_server(server.address(), &title));
    let drawers = served.threads.min(arguments.clients.get());
    let job =
        Job { arguments, work: &work, title: &title, journal, threads: arguments.clients, drawers, stop };
    if arguments.dry_run {
        return job.foretell(&server, served.caches.disk.unwrap_or(served.caches.tiles));
    }
    let before = server.counters();
    job.work_off(&server, || {
        let after = server.counters();
        let since = |name: &str| Some(after.get(name)?.saturating_sub(*before.get(name)?));
        (since(DRAWN), since(INFLATED))
    })
}

fn in_process(
    arguments: &Arguments,
    target: &Target,
    selection: &Selection,
    stop: &Stop,
) -> Result<(), Failure> {
    let (metrics, crew) = (Metrics::default(), Crew::default());
    let mut layers =
        Sources { files: target.files.clone(), config: arguments.config.clone(), set: arguments.set.clone() }
            .layers();
    if arguments.demo {
        layers.files.push(super::serve::demo_volume()?);
        layers.config = arguments.config.clone();
    }
    let (mut settings, catalog) = load_sound(&layers, &metrics, &crew)?;
    if let Some(directory) = &arguments.into {
        settings.cache.directory = Some(directory.clone());
    }
    let Some(directory) = settings.cache.directory.clone().or(arguments.dry_run.then(PathBuf::new)) else {
        let problem =
            "where to? Name a server (http://HOST:PORT), a directory (--into DIR), or set cache.directory";
        return Err(Failure::Usage(problem.to_owned()));
    };
    let datasets = described(&catalog)?;
    let work = chosen(selection, &datasets, settings.cache.chunks as u64)?;
    let threads = settings.render.threads;
    let pool = RenderPool::new(threads, settings.render.queue, crew)?;
    let service = TileService::new(catalog, settings.cache.tiles, 0, pool, metrics.clone())?;
    let tier = if arguments.dry_run { None } else { Some(kept_in(&settings, &metrics)?) };
    let service = Arc::new(service.with_tier(tier));
    let hand = InProcess::new(Arc::clone(&service));
    let tags = work.firsts().map(|tile| hand.entity_tag(&tile)).collect::<Result<Vec<_>, _>>();
    let title = titled(selection, &work, &tags.map_err(anyhow::Error::msg)?);
    let journal = arguments.journal.clone().or_else(|| Some(journals::of_directory(&directory, &title)));
    let job = Job { arguments, work: &work, title: &title, journal, threads, drawers: threads.get(), stop };
    if arguments.dry_run {
        return job.foretell(&hand, settings.cache.disk as u64);
    }
    let (drawn, inflated) = (metrics.renders.get(), metrics.chunk_decoded_bytes.get());
    let counted =
        || (Some(metrics.renders.get() - drawn), Some(metrics.chunk_decoded_bytes.get() - inflated));
    let done = job.work_off(&hand, counted);
    service.finish_writing(Duration::ZERO);
    done
}

/// The second tier, which is all that this is for: where it cannot be had nothing is done.
fn kept_in(
    settings: &crate::config::Settings,
    metrics: &Metrics,
) -> Result<crate::tier::SecondTier, Failure> {
    let refused = || anyhow::anyhow!("the cache directory cannot be used");
    Ok(second_tier(settings, metrics)?.ok_or_else(refused)?)
}

fn chosen(selection: &Selection, datasets: &[crate::warm::Dataset], chunks: u64) -> Result<Work, Failure> {
    let work = Work::new(selection, datasets, chunks).map_err(|wrong| Failure::Usage(wrong.to_string()))?;
    for remark in work.remarks() {
        tracing::warn!("{remark}");
    }
    Ok(work)
}

/// What the journal is of: the work, and whatever else its tiles depend on.
fn titled(selection: &Selection, work: &Work, besides: &impl std::hash::Hash) -> Title {
    let digest = Fingerprint::of(&(work.digest().to_string(), besides.fingerprint()));
    Title { work: digest.to_string(), selection: selection.to_string(), tiles: work.total() }
}

/// A digest as a method, for what is hashed beside others.
trait Fingerprinted {
    fn fingerprint(&self) -> String;
}

impl<T: std::hash::Hash> Fingerprinted for T {
    fn fingerprint(&self) -> String {
        Fingerprint::of(self).to_string()
    }
}

impl Job<'_> {
    /// Says what it would come to.
    fn foretell(&self, probe: &dyn Probe, room: u64) -> Result<(), Failure> {
        let position = match self.journal.as_deref().map(|path| crate::warm::Journal::look(path, self.title))
        {
            Some(Found::This(position)) => position,
            _ => Position::default(),
        };
        let Self { arguments, work, .. } = self;
        let estimate = estimate(work, probe, position.done, self.drawers, arguments.rate, self.stop);
        if arguments.json {
            println!("{}", serde_json::to_string_pretty(&estimate)?);
        } else {
            println!("{estimate}");
        }
        if estimate.bytes > room {
            tracing::warn!(
                "the tiles come to more than the cache holds ({}): the first ones will be gone",
                tell::bytes(room)
            );
        }
        Ok(())
    }

    /// Does the work, and says what it came to; `counted` tells what was drawn and inflated meanwhile.
    fn work_off(
        &self,
        hand: &dyn Hand,
        counted: impl Fn() -> (Option<u64>, Option<u64>),
    ) -> Result<(), Failure> {
        let begun = self.begin(hand)?;
        let pace = Pace { threads: self.threads, rate: self.arguments.rate };
        let tiles = Tiles::new();
        let outcome = work_off(self.work, hand, begun, pace, self.stop, &tiles);
        tiles.finish();
        let ending = outcome.ending.clone();
        let (drawn, inflated) = counted();
        let report = Report::new(self.title.tiles, outcome, &self.work.forecast(), drawn, inflated);
        if self.arguments.json {
            println!("{}", serde_json::to_string_pretty(&report)?);
        } else {
            println!("{report}");
        }
        report.failures().for_each(|failure| eprintln!("voltile: {failure}"));
        match (ending, report.failed) {
            (Ending::Finished, 0) => Ok(()),
            (Ending::Finished, failed) => Err(anyhow::anyhow!(
                "{failed} of {} tiles failed; the same command tries them again",
                report.tiles
            )
            .into()),
            (Ending::Stopped, _) => {
                Err(anyhow::anyhow!("stopped; the same command goes on from here").into())
            }
            (Ending::Over(why), _) => {
                Err(anyhow::anyhow!("{why}; the same command goes on from here").into())
            }
        }
    }

    /// Opens the journal, and finds out where to begin.
    fn begin(&self, hand: &dyn Hand) -> Result<(Option<crate::warm::Journal>, Position), Failure> {
        let Some(path) = &self.journal else {
            tracing::warn!(
                "there is no folder for a journal: if this is stopped, it begins anew; see --journal"
            );
            return Ok((None, Position::default()));
        };
        let (journal, found) = journals::open(path, self.title)?;
        let position = match found {
            Found::This(position) if journals::is_still_there(self.work, hand, position.done) => position,
            Found::This(position) => {
                tracing::warn!("some tiles that were done are gone: all are looked for again");
                Position { done: 0, ..position }
            }
            Found::Other => {
                tracing::warn!(
                    "{} was of another selection, or of files that have changed since: this begins anew",
                    path.display()
                );
                Position::default()
            }
            Found::Nothing => Position::default(),
        };
        Ok((Some(journal), position))
    }
}

/// Hears Ctrl-C and SIGTERM: the first ends the work, with what is under way done and the journal written.
fn stop_on_signals() -> Result<Arc<Stop>, Failure> {
    use tokio::signal::unix::{SignalKind, signal};
    let stop = Arc::new(Stop::default());
    let told = Arc::clone(&stop);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let mut signals = {
        let _inside = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async {
            let (interrupt, terminate) = &mut signals;
            for times in 0.. {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                if times > 0 {
                    // Who says so twice means at once.
                    std::process::exit(1);
                }
                tracing::info!("stopping: tiles under way are finished first");
                told.tell();
            }
        });
    })?;
    Ok(stop)
}
