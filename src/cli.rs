//! The command line: parses the arguments and runs the commands.
//!
//! Each command has a file of its own. Exit status: 0 success, 1 the work failed, 2 the command or its configuration
//! is invalid. Results go to standard output through `output`, everything else to standard error through `log`.

mod bar;
mod bench;
mod blocks;
mod cache;
mod check;
mod choices;
mod completions;
mod confinement;
mod folders;
mod inspect;
mod limits;
mod log;
mod man;
mod memory;
mod output;
mod probe;
mod pyramid;
mod reload;
mod render;
mod serve;
mod signals;
mod verify;
mod warm;

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::base::simd;
use crate::catalog::{Catalog, Opened};
use crate::config::{self, Fault, Layers, Settings};
use crate::flow::activity::Activity;
use crate::http::Certificates;
use crate::metrics::Metrics;
use crate::store::{Location, Store};
use crate::tier::{Backend, Directory, Objects, Redis, Tier, TierError, Tiers};
use crate::volume::hdf5::{Files, look_beside_files};
use folders::Folders;
use log::Log;

/// Why a command failed; decides the exit status.
#[derive(Debug)]
enum Failure {
    Work(anyhow::Error),
    /// The command or its configuration is invalid.
    Usage(String),
    /// The reader of standard output has closed it: not an error.
    NobodyReads,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Work(error) => write!(f, "{error:#}"),
            Failure::Usage(text) => f.write_str(text),
            Failure::NobodyReads => f.write_str("standard output was closed"),
        }
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::Work(error.into())
    }
}

/// Tiles straight from raw HDF5 volumes.
#[derive(Debug, Parser)]
#[command(name = "voltile", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve files, or the datasets of a configuration, over HTTP.
    Serve(serve::Arguments),
    /// Show what is in a file, and the configuration that would serve it.
    Inspect(inspect::Arguments),
    /// Render one tile without HTTP.
    Render(render::Arguments),
    /// Compute and store the levels that files lack, so that they need not be computed for every tile.
    Pyramid(pyramid::Arguments),
    /// Render tiles ahead of requests: through a running server, or straight into a cache directory.
    Warm(Box<warm::Arguments>),
    /// Measure how fast tiles are rendered from a file or served by a running server, and what limits that.
    Bench(Box<bench::Arguments>),
    /// Read a configuration, open every file, and list every problem.
    Check(check::Arguments),
    /// Make the requests that viewers make to a running server, and report what keeps a viewer black.
    Verify(verify::Arguments),
    /// Show what is in the cache directory, or clear it.
    Cache(cache::Arguments),
    /// Help with the configuration file.
    Config(ConfigArguments),
    /// Run the trials given on standard input (see files.trial).
    #[command(hide = true)]
    Probe,
    /// Write the manual pages of all commands into a directory.
    #[command(hide = true)]
    Man(man::Arguments),
    /// Print the completions of a shell.
    #[command(hide = true)]
    Completions(completions::Arguments),
}

#[derive(Debug, Args)]
struct ConfigArguments {
    #[command(subcommand)]
    what: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print an annotated example with every key.
    Example,
}

/// The sources of the settings; shared by all commands that need datasets.
#[derive(Debug, Args)]
struct Sources {
    /// HDF5 files to serve without a configuration, or folders, in which and below which they are searched for (see
    /// files.depth): the token is the name of the file without its extension, the channels are discovered. Files may be in
    /// object storage (s3://, gs://, az://) or on a web server (https://).
    #[arg(value_name = "FILE.h5 | FOLDER")]
    files: Vec<PathBuf>,
    /// The configuration file; default: ./voltile.toml if it exists and no FILE is given.
    #[arg(long, value_name = "FILE.toml")]
    config: Option<PathBuf>,
    /// Set one key, such as render.threads=4; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl Sources {
    fn layers(&self) -> Result<Layers, Failure> {
        let (mut layers, mut folders) = self.with_folders()?;
        search(&mut folders, &mut layers)?;
        Ok(layers)
    }

    /// The layers of settings, before folders are searched.
    fn with_folders(&self) -> Result<(Layers, Folders), Failure> {
        let (config, set) = (self.config.clone(), self.set.clone());
        let files = self.files.iter().cloned().map(file).collect::<Result<_, _>>()?;
        let mut layers = Layers { config, files, set, memory: memory::available(), ..Layers::of_process() }
            .or_default_file();
        let folders = Folders::among(&mut layers.files);
        layers.folders = folders.paths().to_vec();
        Ok((layers, folders))
    }
}

/// Searches the folders, as deep as the settings say.
fn search(folders: &mut Folders, layers: &mut Layers) -> std::io::Result<()> {
    if !folders.is_empty() {
        layers.found.clear();
        let depth = config::load(layers).settings.files.depth;
        layers.found = folders.files(depth)?;
    }
    Ok(())
}

/// A file or an address on the command line. Not parsed by clap, whose errors repeat what was typed, with its credentials.
fn file(given: PathBuf) -> Result<Location, Failure> {
    Location::given(given).map_err(|error| Failure::Usage(error.to_string()))
}

/// How long an exiting server may take to write the rest of its log.
const LOG_PATIENCE: Duration = Duration::from_secs(2);

/// Runs the command line of this process, and returns its exit status.
pub fn run() -> ExitCode {
    #[allow(unsafe_code, reason = "the library reads this from the environment only")]
    // SAFETY: this is the first thing the process does, so it has only one thread.
    unsafe {
        look_beside_files();
    }
    let log = Log::install();
    limits::allow_many_files();
    limits::share_arenas();
    let command = match Cli::try_parse() {
        Ok(cli) => cli.command,
        Err(told) => return shown(&log, &told),
    };
    // Starts the second thread: everything above must come before it.
    match command {
        // They confine themselves first. Until then, lines are queued.
        Command::Serve(_) => {}
        Command::Probe => log.discard(),
        _ => log.start_writing(),
    }
    // Other commands wait until their messages are written; a server must end even if nobody reads its log.
    let patience = matches!(command, Command::Serve(_)).then_some(LOG_PATIENCE);
    // Also writes the message of a panic of this thread.
    let _flushed = FlushedLog(&log, patience);
    ended(&log, done(&log, command), patience)
}

fn done(log: &Log, command: Command) -> Result<(), Failure> {
    simd::requested().map_err(|error| Failure::Usage(error.to_string()))?;
    match command {
        Command::Serve(arguments) => serve::run(log, arguments),
        Command::Inspect(arguments) => inspect::run(log, &arguments),
        Command::Render(arguments) => render::run(log, &arguments),
        Command::Pyramid(arguments) => pyramid::run(log, &arguments),
        Command::Warm(arguments) => warm::run(log, &arguments),
        Command::Bench(arguments) => bench::run(log, &arguments),
        Command::Check(arguments) => check::run(log, &arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Cache(arguments) => cache::run(log, &arguments),
        Command::Probe => probe::run(),
        Command::Man(arguments) => man::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments),
        Command::Config(ConfigArguments { what: ConfigCommand::Example }) => {
            output::print(&config::example())
        }
    }
}

/// Reports a failure, and returns the exit status.
fn ended(log: &Log, outcome: Result<(), Failure>, patience: Option<Duration>) -> ExitCode {
    let status = match &outcome {
        Ok(()) | Err(Failure::NobodyReads) => 0,
        Err(Failure::Work(_)) => 1,
        Err(Failure::Usage(_)) => 2,
    };
    if let (1.., Err(failure)) = (status, outcome) {
        log.message(&output::terminal_safe(&format!("voltile: {failure}")), patience);
    }
    log.flush(patience);
    ExitCode::from(status)
}

/// Prints the requested help or version, or the error in the command.
fn shown(log: &Log, told: &clap::Error) -> ExitCode {
    if told.use_stderr() {
        log.message(output::terminal_safe(&told.render().to_string()).trim_end(), None);
        log.flush(None);
        return ExitCode::from(2);
    }
    let printed = match told.print() {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(Failure::NobodyReads),
        printed => printed.map_err(|error| output::not_written(&error)),
    };
    ended(log, printed, None)
}

/// Writes the rest of the log when dropped.
struct FlushedLog<'a>(&'a Log, Option<Duration>);

impl Drop for FlushedLog<'_> {
    fn drop(&mut self) {
        self.0.flush(self.1);
    }
}

/// Settings, and the catalogue opened with them.
struct Loaded {
    settings: Settings,
    catalog: Catalog,
    faults: Vec<Fault>,
    /// Channels that can be served, but with errors for some tiles.
    undecodable: Vec<Fault>,
    /// Channels that can be served, although files of theirs are missing.
    incomplete: Vec<Fault>,
    /// Files in folders that cannot be opened.
    left_out: Vec<(Location, Fault)>,
    /// Datasets that cannot be opened until their store answers.
    unreachable: Vec<Fault>,
}

/// Opens the files of settings, as [`open`] does. A store that does not answer is a fault.
fn load(log: &Log, read: config::Loaded, metrics: &Metrics, activity: &Activity) -> Loaded {
    let mut loaded = open(log, read, metrics, activity);
    loaded.faults.append(&mut loaded.unreachable);
    loaded.faults.sort();
    loaded
}

/// Logs in the configured format from now on. A faulty configuration is reported as text.
fn choose_log_format(log: &Log, read: &config::Loaded) {
    if read.faults.is_empty() {
        log.choose_format(read.settings.log.format);
    }
}

/// Opens the files of settings; logs warnings and collects faults.
fn open(log: &Log, read: config::Loaded, metrics: &Metrics, activity: &Activity) -> Loaded {
    choose_log_format(log, &read);
    let config::Loaded { mut settings, mut faults, warnings, .. } = read;
    let metadata = settings.cache.directory.as_ref().map(|directory| directory.join("objects"));
    let store = Store::new(None, metrics.stores.clone(), metadata);
    let refused = probe::refused(&settings, &store);
    let files = Files::new(store).at_most(limits::most_files());
    files.refuse(refused);
    let opened = Catalog::open_among(files, &settings, metrics, activity);
    let Opened { catalog, faults: of_files, undecodable, incomplete, unopened, unreachable, warnings: more } =
        opened;
    let left_out = unopened.into_iter().filter_map(|(token, fault)| {
        let dataset = settings.datasets.remove(&token)?;
        Some((dataset.file?, fault))
    });
    let left_out: Vec<(Location, Fault)> = left_out.collect();
    for (_, fault) in &left_out {
        tracing::warn!("left out: {fault}");
    }
    for warning in warnings.iter().map(ToString::to_string).chain(more) {
        tracing::warn!("{warning}");
    }
    faults.extend(of_files);
    faults.extend(settings.cache.directory.as_deref().and_then(misnamed));
    faults.sort();
    Loaded { settings, catalog, faults, undecodable, incomplete, left_out, unreachable }
}

/// The fault of a cache directory with foreign content or of another format, or that is not a directory.
fn misnamed(directory: &Path) -> Option<Fault> {
    let error = Directory::open_existing(directory).err().filter(TierError::is_misnamed)?;
    Some(Fault { key: "cache.directory".to_owned(), problem: error.to_string() })
}

/// Opens the tiers that are configured, and the cache directory, which keeps stored chunks too.
fn tiers(
    settings: &Settings,
    metrics: &Metrics,
    store: &Store,
) -> Result<(Option<Tiers>, Option<Directory>), Failure> {
    let directory = cache_directory(settings, metrics)?;
    let mut tiers = Vec::new();
    if let Some(directory) = &directory {
        if settings.cache.blocks > 0 {
            blocks::keep(directory, settings.cache.blocks, metrics, store)?;
        }
        if settings.cache.disk > 0 {
            tiers.push(directory_tier(directory.tiles(), settings.cache.disk, metrics)?);
        }
    }
    tiers.extend(shared_tiers(settings, metrics, store)?);
    Ok((Tiers::of(tiers), directory))
}

/// The cache directory, if it is needed. A server runs without a directory that cannot be used now.
fn cache_directory(settings: &Settings, metrics: &Metrics) -> Result<Option<Directory>, Failure> {
    let cache = &settings.cache;
    let needed = cache.directory.as_ref().filter(|_| cache.disk > 0 || cache.blocks > 0);
    needed.map_or(Ok(None), |path| match Directory::open(path) {
        Err(error) if error.is_misnamed() => Err(Failure::Usage(format!("cache.directory: {error}"))),
        Err(error) => {
            metrics.tier.errors.inc();
            Ok(Some(Directory::unavailable(path, &error)))
        }
        Ok(directory) => Ok(Some(directory)),
    })
}

fn directory_tier(directory: Directory, budget: usize, metrics: &Metrics) -> Result<Tier, Failure> {
    let directory = directory.kept_to(budget as u64, metrics)?;
    Ok(Tier::start(Backend::Directory, directory, metrics.tier.clone())?)
}

/// The tiers that are configured to be shared between servers.
fn shared_tiers(
    settings: &Settings,
    metrics: &Metrics,
    store: &Store,
) -> Result<impl Iterator<Item = Tier> + use<>, Failure> {
    let (redis, objects) = (redis_tier(settings, metrics)?, objects_tier(settings, metrics, store)?);
    Ok(redis.into_iter().chain(objects))
}

fn redis_tier(settings: &Settings, metrics: &Metrics) -> Result<Option<Tier>, Failure> {
    let Some(address) = &settings.cache.redis else { return Ok(None) };
    let redis = Redis::open(address, settings.cache.redis_expiry, &metrics.redis)?;
    Ok(Some(Tier::start(Backend::Redis, redis, metrics.redis.clone())?))
}

fn objects_tier(settings: &Settings, metrics: &Metrics, store: &Store) -> Result<Option<Tier>, Failure> {
    let Some(address) = &settings.cache.store else { return Ok(None) };
    let objects = Objects::open(store, address, &metrics.tile_store)
        .map_err(|error| Failure::Usage(format!("cache.store: {error}")))?;
    Ok(Some(Tier::start(Backend::Objects, objects, metrics.tile_store.clone())?))
}

/// Reads the certificate and key for TLS, if configured; adds to the faults.
fn certificates(loaded: &mut Loaded) -> Option<Arc<Certificates>> {
    let files = loaded.settings.server.tls.as_ref()?;
    if loaded.faults.iter().any(|fault| fault.key.starts_with("server.tls")) {
        return None;
    }
    match Certificates::read(files) {
        Ok(certificates) => Some(Arc::new(certificates)),
        Err(faults) => {
            loaded.faults.extend(faults);
            loaded.faults.sort();
            None
        }
    }
}

/// All faults in one text, one per line.
fn listed(faults: &[Fault]) -> String {
    let count = faults.len();
    let lines: Vec<String> = faults.iter().map(|fault| format!("  {fault}")).collect();
    format!("{count} {} wrong:\n{}", if count == 1 { "thing is" } else { "things are" }, lines.join("\n"))
}

/// Settings and catalogue without faults, and with at least one dataset.
fn load_sound(
    log: &Log,
    layers: &Layers,
    metrics: &Metrics,
    activity: &Activity,
) -> Result<(Settings, Catalog), Failure> {
    let loaded = faultless(load(log, config::load(layers), metrics, activity))?;
    if loaded.catalog.datasets().next().is_none() {
        return Err(Failure::Usage(NOTHING_TO_SERVE.to_owned()));
    }
    Ok((loaded.settings, loaded.catalog))
}

/// Settings and catalogue without faults.
fn faultless(loaded: Loaded) -> Result<Loaded, Failure> {
    if !loaded.faults.is_empty() {
        return Err(Failure::Usage(listed(&loaded.faults)));
    }
    log_unreadable(&loaded);
    Ok(loaded)
}

/// Logs at the start which tiles will be errors, and which files are missing.
fn log_unreadable(loaded: &Loaded) {
    for fault in &loaded.undecodable {
        tracing::error!("{fault}");
    }
    for fault in &loaded.incomplete {
        tracing::warn!("{fault}");
    }
}

const NOTHING_TO_SERVE: &str = "there is nothing to serve. Name a file:\n  \
    voltile serve my.h5\nor a configuration (see `voltile config example`):\n  \
    voltile serve --config voltile.toml\nor look at the demo volume:\n  voltile serve --demo";
