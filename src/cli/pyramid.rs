//! `voltile pyramid`: writes the levels that files lack, to sidecars next to them or to a rechunked
//! volume.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::Args;
use voltile_base::flow::activity::Activity;
use voltile_base::shard::Shard;
use voltile_base::text::joined;
use voltile_hdf5::store::Location;

use super::failure::Failure;
use super::load::load_without_faults;
use super::log::LogWriter;
use super::output;
use super::sources::Sources;
use crate::catalog::{Catalog, sidecar_path};
use crate::layout::inventory::Role;
use crate::tools::progress::Progress;
use crate::tools::pyramid::{PyramidWork, ShardReport, WantedChannel};

#[derive(Debug, Args)]
pub(super) struct PyramidArguments {
    #[command(flatten)]
    sources: Sources,
    /// With a configuration: only the dataset of this token; may be repeated.
    #[arg(long, value_name = "TOKEN")]
    token: Vec<String>,
    /// Where to write the sidecar, instead of next to the file; `serve` looks for it only next to
    /// the file.
    #[arg(long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Write a new volume with all levels instead, with a chunk shape that suits all three planes.
    #[arg(long, value_name = "OUT.h5", conflicts_with = "output")]
    rechunk: Option<PathBuf>,
    /// Store the metadata of the new volume together instead of between its chunks: for files that
    /// will be read from object storage or a web server. Needs HDF5 1.10 to be read.
    #[arg(long, requires = "rechunk")]
    paged: bool,
    /// Number of threads that read and average; default: render.threads.
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Do only part I (from 0) of N parts, on this or another machine; assemble the pyramid with
    /// --assemble when all are done.
    #[arg(long, value_name = "I/N", conflicts_with = "assemble")]
    shard: Option<Shard>,
    /// Assemble what all shards have made; an error while anything is missing.
    #[arg(long, conflicts_with = "threads")]
    assemble: bool,
}

pub(super) fn run(log: &LogWriter, arguments: &PyramidArguments) -> Result<(), Failure> {
    let loaded = load_without_faults(log, &arguments.sources.layers()?)?;
    // Verify chunks before writing files: there is no idle time later.
    loaded.catalog.chunks().verify_at_once();
    let files = by_file(&loaded.catalog, &arguments.token)?;
    let output_option = arguments.output.as_ref().map(|_| "--output");
    let rechunk_option = arguments.rechunk.as_ref().map(|_| "--rechunk");
    if let Some(option) = output_option.or(rechunk_option)
        && files.len() != 1
    {
        return Err(Failure::Usage(format!(
            "{option} is for one file; there are {}; name one file, or one dataset with --token",
            files.len()
        )));
    }
    let threads = arguments.threads.unwrap_or(loaded.settings.render.threads);
    let chunks = loaded.catalog.chunks();
    let mut failed = 0;
    for (number, (file, wanted)) in (0..).zip(&files) {
        let outcome = make_levels(arguments, number, file, wanted, threads, chunks.activity());
        if let Err(failure) = outcome {
            output::complain(log, &failure.to_string());
            failed += 1;
        }
    }
    tracing::debug!("{} chunks decoded", chunks.metrics().chunk_reads.get());
    match failed {
        0 => Ok(()),
        _ => Err(anyhow::anyhow!("{failed} of {} files failed", files.len()).into()),
    }
}

/// The selected channels, by file.
fn by_file(
    catalog: &Catalog,
    tokens: &[String],
) -> Result<BTreeMap<Location, Vec<WantedChannel>>, Failure> {
    let datasets = catalog.datasets();
    let known: Vec<&str> = datasets.map(|dataset| dataset.token.as_str()).collect();
    if let Some(token) = tokens.iter().find(|token| !known.contains(&token.as_str())) {
        return Err(Failure::Usage(format!(
            "there is no dataset {token:?}; known tokens: {}",
            joined(known)
        )));
    }
    let mut files: BTreeMap<Location, Vec<WantedChannel>> = BTreeMap::new();
    for dataset in catalog.datasets() {
        let is_named = tokens.iter().any(|token| token == dataset.token.as_str());
        if !tokens.is_empty() && !is_named {
            continue;
        }
        for channel in dataset.channels.values() {
            let wanted = WantedChannel {
                channel: channel.clone(),
                scaling: dataset.style.scaling,
                voxel_size: dataset.style.voxel_size,
            };
            files.entry(channel.file.clone()).or_default().push(wanted);
        }
    }
    Ok(files)
}

/// Makes the missing levels of a file and prints their names; fails if any level could not be made.
/// `number` is the file's place among all files of the command.
fn make_levels(
    arguments: &PyramidArguments,
    number: u64,
    file: &Location,
    wanted: &[WantedChannel],
    threads: NonZeroUsize,
    activity: &Activity,
) -> Result<(), Failure> {
    let (location, role) = output_of(arguments, file)?;
    let target = local(&location, "voltile writes local files only")?;
    if role == Role::Volume {
        measure_windows(wanted);
    }
    let mut work = PyramidWork::plan(file, target, role, wanted)?;
    work.number = number;
    work.paged = arguments.paged;
    if work.is_empty() {
        return output::print(&format!("{file} has all levels; nothing to do\n"));
    }
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let progress = Progress::new(name.into_owned(), "voxels");
    let (text, failed) = if let Some(shard) = &arguments.shard {
        let report = work.run_shard(shard, threads, activity, &progress)?;
        (shard_text(shard, &work, &report), report.failed)
    } else {
        let report = if arguments.assemble {
            work.assemble()?
        } else {
            work.run(threads, activity, &progress)?
        };
        (levels_text(&work, &report.levels), report.failed)
    };
    progress.finish();
    output::print(&text)?;
    if failed.is_empty() {
        return Ok(());
    }
    let mut problem = format!("{file}:");
    for (channel, levels, why) in &failed {
        problem.push_str(&format!(
            "\n  the levels {} of the channel {channel} could not be made: {why}",
            joined(levels)
        ));
    }
    Err(anyhow::Error::msg(problem).into())
}

/// The file to write, and whether it becomes a sidecar or a new volume.
fn output_of(arguments: &PyramidArguments, file: &Location) -> Result<(Location, Role), Failure> {
    if let Some(volume) = &arguments.rechunk {
        return Ok((super::sources::location(volume.clone())?, Role::Volume));
    }
    let advice = format!(
        "levels are looked for beside a file; write a local copy that has all levels: voltile pyramid --rechunk FILE.h5 {file}"
    );
    let path = local(file, &advice)?;
    let sidecar = match &arguments.output {
        Some(output) => output.clone(),
        None => sidecar_path(path),
    };
    Ok((super::sources::location(sidecar)?, Role::Sidecar))
}

/// The path of a file. Fails for an object in a store; the error ends with `advice`.
fn local<'a>(file: &'a Location, advice: &str) -> Result<&'a Path, Failure> {
    file.path()
        .ok_or_else(|| Failure::Usage(format!("{file} is not on a local disk; {advice}")))
}

/// Measures the windows of channels on the original: a rechunked volume takes them over, because
/// percentiles measured on the new volume would differ.
fn measure_windows(wanted: &[WantedChannel]) {
    for WantedChannel { channel, .. } in wanted {
        match channel.survey() {
            Ok(survey) => channel.keep(&survey.into()),
            Err(error) => tracing::warn!(
                "cannot compute the window of the channel {}: {error}",
                channel.name
            ),
        }
    }
}

/// Describes the levels that were written.
fn levels_text(work: &PyramidWork, levels: &[(String, Vec<u8>)]) -> String {
    if levels.is_empty() {
        return String::new();
    }
    let mut text = format!("{}\n", work.output.display());
    for (channel, levels) in levels {
        text.push_str(&format!("  {channel}: levels {}\n", joined(levels)));
    }
    text
}

/// Describes the pieces that a shard made, and the pieces that are missing.
fn shard_text(shard: &Shard, work: &PyramidWork, report: &ShardReport) -> String {
    let rest = match report.missing {
        0 => "all pieces are there: --assemble puts them together".to_owned(),
        missing => format!("{missing} of all are missing"),
    };
    format!(
        "{}: shard {shard}: {} of {} pieces; {rest}\n",
        work.output.display(),
        report.pieces,
        report.all
    )
}
