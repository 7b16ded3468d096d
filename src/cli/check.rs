//! `voltile check`: reads a configuration, opens every file, and lists every fault at once.

use voltile_base::notice::Severity;

use super::failure::Failure;
use super::load::{NOTHING_TO_SERVE, certificates, listed, load};
use super::log::LogWriter;
use super::output;
use super::sources::Sources;
use crate::catalog::tell;
use crate::config;

pub(super) fn run(log: &LogWriter, sources: &Sources) -> Result<(), Failure> {
    let mut read = config::load(&sources.layers()?);
    read.faults.extend(read.shortage.take());
    let mut loaded = load(log, read);
    certificates(&mut loaded);
    // A server would serve the other datasets; here errors count as faults.
    let (errors, rest): (Vec<_>, Vec<_>) = loaded
        .notices
        .drain(..)
        .partition(|(severity, _)| *severity == Severity::Error);
    tell(&rest);
    loaded
        .faults
        .extend(errors.into_iter().map(|(_, fault)| fault));
    loaded.faults.extend(loaded.catalog.names_faults());
    loaded.faults.sort();
    if !loaded.faults.is_empty() {
        return Err(Failure::Work(anyhow::anyhow!("{}", listed(&loaded.faults))));
    }
    let datasets: Vec<_> = loaded.catalog.datasets().collect();
    if datasets.is_empty() {
        return Err(Failure::Usage(NOTHING_TO_SERVE.to_owned()));
    }
    let channels = datasets.iter().map(|dataset| dataset.channels.len());
    output::print(&format!(
        "all is well: {} datasets with {} channels\n",
        datasets.len(),
        channels.sum::<usize>()
    ))
}
