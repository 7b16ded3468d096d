//! The command line: parses the arguments and runs the commands.
//!
//! Each command has a file of its own. Exit status: 0 success, 1 the work failed, 2 the command or
//! its configuration is invalid. Results go to standard output through `output`, everything else to
//! standard error through `log`.

mod bench;
mod cache;
mod check;
mod completions;
mod failure;
mod folders;
mod inspect;
mod limits;
mod load;
mod log;
mod man;
mod memory;
mod output;
mod probe;
mod pyramid;
mod references;
mod reload;
mod render;
mod serve;
mod signals;
mod sources;
mod tiers;
mod warm;

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser, Subcommand};
use voltile_base::simd;
use voltile_hdf5::volume::hdf5::look_beside_files;

use self::failure::Failure;
use self::log::LogWriter;
use crate::config;

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
    Serve(serve::ServeArguments),
    /// Show what is in a file, and the configuration that would serve it.
    Inspect(inspect::InspectArguments),
    /// Render one tile without HTTP.
    Render(render::RenderArguments),
    /// Compute and store the levels that files lack, so that they need not be computed for every
    /// tile.
    Pyramid(pyramid::PyramidArguments),
    /// Write where the stored chunks of a volume lie, in kerchunk's format, for programs that read
    /// its files themselves.
    References(references::ReferencesArguments),
    /// Render tiles ahead of requests: through a running server, or straight into a cache
    /// directory.
    Warm(Box<warm::WarmArguments>),
    /// Measure how many tiles of a file this machine renders in a second, and which stage limits
    /// it.
    Bench(bench::BenchArguments),
    /// Read a configuration, open every file, and list every problem.
    Check(sources::Sources),
    /// Show what is in the cache directory, or clear it.
    #[command(subcommand)]
    Cache(cache::CacheCommand),
    /// Help with the configuration file.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Run the trials given on standard input (see files.trial).
    #[command(hide = true)]
    Probe,
    /// Write the manual pages of all commands into a directory.
    Man(man::ManArguments),
    /// Print the completions of a shell.
    Completions(completions::CompletionsArguments),
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print an annotated example with every key.
    Example,
}

/// Runs the command line of this process, and returns its exit status.
pub fn run() -> ExitCode {
    #[allow(
        unsafe_code,
        reason = "libhdf5 takes this setting only from the environment"
    )]
    // SAFETY: this is the first thing the process does, so it has only one thread.
    unsafe {
        look_beside_files();
    }
    limits::close_for_children();
    limits::allow_many_files();
    limits::share_arenas();
    let command = match Cli::try_parse() {
        Ok(cli) => cli.command,
        Err(message) => return print_message(&with_tip(message)),
    };
    let log = match command {
        // Starts the second thread: everything above must come before it.
        Command::Serve(_) => LogWriter::queued(),
        _ => LogWriter::direct(),
    };
    log.install();
    finish(&log, run_command(&log, command))
}

fn run_command(log: &LogWriter, command: Command) -> Result<(), Failure> {
    simd::requested().map_err(Failure::Usage)?;
    match command {
        Command::Serve(arguments) => serve::run(log, &arguments),
        Command::Inspect(arguments) => inspect::run(log, &arguments),
        Command::Render(arguments) => render::run(log, &arguments),
        Command::Pyramid(arguments) => pyramid::run(log, &arguments),
        Command::References(arguments) => references::run(log, &arguments),
        Command::Warm(arguments) => warm::run(log, &arguments),
        Command::Bench(arguments) => bench::run(log, &arguments),
        Command::Check(sources) => check::run(log, &sources),
        Command::Cache(command) => cache::run(log, &command),
        Command::Probe => probe::run(),
        Command::Man(arguments) => man::run(&arguments, Cli::command()),
        Command::Completions(arguments) => completions::run(&arguments, &Cli::command()),
        Command::Config(ConfigCommand::Example) => output::print(config::EXAMPLE),
    }
}

/// Reports a failure, and returns the exit status.
fn finish(log: &LogWriter, outcome: Result<(), Failure>) -> ExitCode {
    let status = match outcome {
        Ok(()) | Err(Failure::NobodyReads) => 0,
        Err(failure) => {
            output::complain(log, &failure.to_string());
            if matches!(failure, Failure::Usage(_)) {
                2
            } else {
                1
            }
        }
    };
    log.flush();
    ExitCode::from(status)
}

/// Adds a tip if the error is about `--port`, an option that users know from other programs.
fn with_tip(mut message: clap::Error) -> clap::Error {
    let is_port = |argument: &ContextValue| argument.to_string().starts_with("--port");
    if message.get(ContextKind::InvalidArg).is_some_and(is_port) {
        let tip = "the address to listen on has the port: --bind 127.0.0.1:8080";
        let tips = ContextValue::StyledStrs(vec![tip.into()]);
        message.insert(ContextKind::Suggested, tips);
    }
    message
}

/// Prints the requested help or version, or the error in the command.
fn print_message(message: &clap::Error) -> ExitCode {
    let log = LogWriter::direct();
    if message.use_stderr() {
        log.message(output::terminal_safe(&message.render().to_string()).trim_end());
        return ExitCode::from(2);
    }
    finish(&log, output::as_failure(message.print()))
}
