//! `voltile check`: reads a configuration, opens every file, and lists every fault at once.

use voltile_base::notice::Severity;

use super::failure::Failure;
use super::load::{NOTHING_TO_SERVE, fault_list, load, read_certificates};
use super::log::LogWriter;
use super::output;
use super::sources::Sources;
use crate::catalog::tell;
use crate::config;

pub(super) fn run(log: &LogWriter, sources: &Sources) -> Result<(), Failure> {
    let mut configuration = config::load(&sources.layers()?);
    // Too little memory for a server is a fault.
    configuration.faults.extend(configuration.shortage.take());
    let mut loaded = load(log, configuration);
    // Only for the faults that this adds.
    read_certificates(&mut loaded);
    // A server serves the other datasets in spite of an error; here errors count as faults.
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
        return Err(anyhow::Error::msg(fault_list(&loaded.faults)).into());
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
