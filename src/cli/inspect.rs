//! `voltile inspect`: the contents of a file, the cost of reading its tiles, and how to serve it.
//!
//! [`table`] writes the text, [`configuration`] the configuration that serves the file. The JSON
//! equals `/datasets/TOKEN/about.json`, with the configuration added.

mod configuration;
mod table;

use std::path::PathBuf;

use clap::Args;
use serde_json::Value;
use voltile_base::flow::activity::Activity;
use voltile_base::metrics::Metrics;

use super::failure::Failure;
use super::load::{listed, load};
use super::log::LogWriter;
use super::output;
use crate::catalog::advice::{self, Warning};
use crate::catalog::{Inspection, tell};
use crate::config::{self, Layers};

#[derive(Debug, Args)]
pub(super) struct InspectArguments {
    /// The HDF5 file.
    #[arg(value_name = "FILE.h5")]
    file: PathBuf,
    /// List all channels: also coordinates, flags, tables and other datasets beside the data.
    #[arg(long)]
    all: bool,
    /// Print JSON for programs.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(log: &LogWriter, arguments: &InspectArguments) -> Result<(), Failure> {
    let file = super::sources::file(arguments.file.clone())?;
    let layers = Layers {
        files: vec![file.clone()],
        ..Layers::default()
    };
    let mut configured = config::load(&layers);
    for dataset in configured.settings.datasets.values_mut() {
        dataset.lists_all = arguments.all;
    }
    let loaded = load(log, configured, &Metrics::default(), &Activity::default());
    if !loaded.faults.is_empty() {
        tell(&loaded.notices);
        return Err(Failure::Work(anyhow::anyhow!("{}", listed(&loaded.faults))));
    }
    let catalog = loaded.catalog;
    let Some(dataset) = catalog.datasets().next() else {
        return Err(Failure::Work(anyhow::anyhow!("{file} was not opened")));
    };
    let configuration = configuration::configuration(&catalog, dataset, &file);
    let inspection = catalog.inspect(dataset);
    let warnings = advice::warnings(&inspection, &file);
    if arguments.json {
        output::print_json(&as_json(&inspection, &warnings, &configuration)?)
    } else {
        let text = table::table(&inspection, &warnings, &configuration);
        output::print(&format!("{}\n", text.trim_end()))
    }
}

/// The server's description of the file, and the configuration that serves it.
fn as_json(
    inspection: &Inspection,
    warnings: &[Warning],
    configuration: &str,
) -> Result<Value, serde_json::Error> {
    let mut value = inspection.json(warnings)?;
    if let Some(object) = value.as_object_mut() {
        object.insert("configuration".to_owned(), configuration.into());
    }
    Ok(value)
}
