//! `voltile bench`: a table of how many tiles of a file this machine renders in a second, and of
//! how long each stage of a tile takes.

use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use voltile_base::name::Name;

use super::failure::Failure;
use super::load::load_without_faults;
use super::log::LogWriter;
use super::output;
use super::sources::Sources;
use super::warm;
use crate::tools::bench::{
    BenchRow, BenchSubject, Bottleneck, TilePattern, bottleneck, measure, prepare,
};

/// The longest time that may be measured.
const MAX_SECONDS: f64 = 86_400.0;

#[derive(Debug, Args)]
pub(super) struct BenchArguments {
    #[command(flatten)]
    sources: Sources,
    /// The dataset; default: the first.
    #[arg(long, value_name = "TOKEN", value_parser = warm::name)]
    token: Option<Name>,
    /// The channel; default: the first that holds intensities.
    #[arg(long, value_name = "CHANNEL", value_parser = warm::name)]
    channel: Option<Name>,
    /// The level.
    #[arg(long, value_name = "LEVEL", default_value_t = 0)]
    level: u8,
    /// How long to measure, all rows together; longer if single tiles take long.
    #[arg(long, value_name = "SECONDS", default_value = "8", value_parser = seconds)]
    seconds: Duration,
    /// Print JSON for programs.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(log: &LogWriter, arguments: &BenchArguments) -> Result<(), Failure> {
    let loaded = load_without_faults(log, &arguments.sources.layers()?)?;
    let catalog = &loaded.catalog;
    let end = Instant::now() + arguments.seconds;
    let subject = BenchSubject::choose(
        &catalog.describe(),
        arguments.token.as_ref(),
        arguments.channel.as_ref(),
        arguments.level,
    )
    .map_err(Failure::Usage)?;
    let threads = loaded.settings.render.threads.get();
    prepare(catalog, &subject)?;
    if !arguments.json {
        output::stream(&heading(&subject, threads))?;
    }
    let mut rows = Vec::new();
    let mut rows_left = (subject.grids.len() * TilePattern::ALL.len()) as u32;
    for grid in &subject.grids {
        for pattern in TilePattern::ALL {
            let time = end.saturating_duration_since(Instant::now()) / rows_left;
            let row = measure(catalog, grid, pattern, threads, time)?;
            if !arguments.json {
                output::stream(&line(&row))?;
            }
            rows.push(row);
            rows_left -= 1;
        }
    }
    let bottleneck = bottleneck(&rows);
    if !arguments.json {
        return output::stream(&last_line(&bottleneck));
    }
    output::print_json(&json!({
        "subject": subject,
        "threads": threads,
        "rows": rows,
        "bottleneck": bottleneck,
    }))
}

/// The heading of the table; its columns are as wide as those of [`line`].
fn heading(subject: &BenchSubject, threads: usize) -> String {
    let BenchSubject {
        token,
        channel,
        level,
        size: [x, y, z],
        dtype,
        ..
    } = subject;
    let all_threads = output::counted(threads as u64, "thread");
    format!(
        "{token} {channel}, level {level}: {x} × {y} × {z} of {dtype}\n\n\
         {:>46} {:>29}\n\
         plane pattern {:>9} {:>9} {:>9} {:>9} {:>11} {all_threads:>11} {:>8}\n",
        "milliseconds of a tile",
        "tiles per second",
        "read",
        "inflate",
        "draw",
        "encode",
        "1 thread",
        "tiles",
    )
}

/// A row of the table.
fn line(row: &BenchRow) -> String {
    let stages = row.stages.by_name();
    let times: String = stages
        .map(|(_, milliseconds)| format!(" {milliseconds:9.3}"))
        .concat();
    format!(
        "{:5} {:7}{times} {:11.1} {:11.1} {:8}\n",
        row.plane, row.pattern, row.tiles_per_second, row.tiles_per_second_all, row.tiles,
    )
}

fn last_line(bottleneck: &Bottleneck) -> String {
    let Bottleneck { stage, share } = bottleneck;
    let percent = 100.0 * share;
    format!(
        "\nbottleneck: {stage} takes {percent:.0} % of a tile's time, in the mean of the rows\n"
    )
}

fn seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .filter(|seconds| *seconds > 0.0 && *seconds <= MAX_SECONDS)
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("seconds from above 0 to {MAX_SECONDS} are expected, such as 8"))
}
