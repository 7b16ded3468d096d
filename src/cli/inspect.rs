//! `voltile inspect`: the contents of a file, the cost of reading its tiles, and how to serve it.
//!
//! [`table`] writes the text, [`configuration`] the configuration that serves the file. The JSON
//! equals `/datasets/TOKEN/about.json`, with the configuration added.

mod configuration;
mod table;

use std::path::PathBuf;

use clap::Args;

use super::failure::Failure;
use super::load::{fault_list, load};
use super::log::LogWriter;
use super::output;
use crate::catalog::{advice, tell};
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
    let file = super::sources::location(arguments.file.clone())?;
    let layers = Layers {
        files: vec![file.clone()],
        ..Layers::default()
    };
    let mut configured = config::load(&layers);
    for dataset in configured.settings.datasets.values_mut() {
        dataset.lists_all = arguments.all;
    }
    let loaded = load(log, configured);
    if !loaded.faults.is_empty() {
        tell(&loaded.notices);
        return Err(anyhow::Error::msg(fault_list(&loaded.faults)).into());
    }
    let catalog = loaded.catalog;
    let Some(dataset) = catalog.datasets().next() else {
        return Err(Failure::Work(anyhow::anyhow!("{file} was not opened")));
    };
    let configuration = configuration::configuration(&catalog, dataset, &file);
    let inspection = catalog.inspect(dataset);
    let warnings = advice::warnings(&inspection, &file);
    if arguments.json {
        let mut value = inspection.json(&warnings)?;
        value["configuration"] = configuration.into();
        output::print_json(&value)
    } else {
        let text = table::table(&inspection, &warnings, &configuration);
        output::print(&format!("{}\n", text.trim_end()))
    }
}
