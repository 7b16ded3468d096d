//! `voltile inspect`: what is inside a file, what a tile of it costs to read, and how to serve it.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;

use super::{Failure, Loaded, listed, load};
use crate::catalog::{Catalog, Channel, ChannelDescription, Dataset, DatasetDescription, SpelledOut};
use crate::config::Layers;
use crate::crew::Crew;
use crate::metrics::Metrics;
use crate::paint::Kind;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The HDF5 file.
    #[arg(value_name = "FILE.h5")]
    file: PathBuf,
    /// Print JSON for programs.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let layers = Layers { files: vec![arguments.file.clone()], ..Layers::default() };
    let Loaded { catalog, faults, .. } = load(&layers, &Metrics::default(), &Crew::default());
    if !faults.is_empty() {
        return Err(Failure::Work(anyhow::anyhow!("{}", listed(&faults))));
    }
    let mut text = String::new();
    for dataset in catalog.datasets() {
        let configuration = configuration(dataset, &arguments.file);
        let description = catalog.describe_dataset(dataset);
        text = if arguments.json {
            json(&description, &configuration)?
        } else {
            table(&catalog, dataset, &configuration)
        };
    }
    println!("{}", text.trim_end());
    Ok(())
}

fn json(description: &DatasetDescription, configuration: &str) -> Result<String, serde_json::Error> {
    let mut value = serde_json::to_value(description)?;
    if let Some(object) = value.as_object_mut() {
        object.insert("configuration".to_owned(), configuration.into());
    }
    serde_json::to_string_pretty(&value)
}

/// Everything for a person. Writing to a string cannot fail, so that its results say nothing.
fn table(catalog: &Catalog, dataset: &Dataset, configuration: &str) -> String {
    let description = catalog.describe_dataset(dataset);
    let mut out = String::new();
    for recognised in &description.layouts {
        let _ = writeln!(out, "layout     {}: {}", recognised.layout, recognised.because);
    }
    let _ = writeln!(out, "token      {}", description.token);
    for channel in &description.channels {
        describe_channel(&mut out, channel);
    }
    let _ = writeln!(out, "\nTo serve it with a configuration of your own:\n\n{configuration}");
    out
}

fn describe_channel(out: &mut String, channel: &ChannelDescription) {
    let label = channel.label.as_ref().map(|label| format!(" ({label})")).unwrap_or_default();
    let _ = writeln!(out, "\nchannel    {}{label}: {} of {}", channel.name, channel.kind, channel.dtype);
    if let Some(times) = channel.times {
        let _ = writeln!(out, "  times    {times}");
    }
    if let Some([x, y, z]) = channel.voxel_size {
        let unit = channel.voxel_unit.as_deref().unwrap_or("of an unknown unit");
        let _ = writeln!(out, "  voxel    {x} × {y} × {z} {unit} (x × y × z)");
    }
    if let Some([lo, hi]) = channel.window {
        let _ = writeln!(out, "  window   {lo} to {hi}");
    }
    let _ = writeln!(out, "  level    size (x × y × z)       voxels read for a tile: xy, xz, yz");
    for level in &channel.levels {
        let [x, y, z] = level.size;
        let read = level.voxels_read.map(thousands).join(", ");
        let from = if level.path.is_some() { "stored" } else { "made" };
        let _ = writeln!(out, "  {:<8} {:<22} {read} ({from})", level.level, format!("{x} × {y} × {z}"));
    }
    for level in &channel.levels {
        if let (Some(path), Some(storage)) = (&level.path, &level.storage) {
            let chunk = storage.chunk.as_ref().map(|chunk| format!(" by {chunk:?}")).unwrap_or_default();
            let filters =
                if storage.filters.is_empty() { "none".to_owned() } else { storage.filters.join(", ") };
            let _ = writeln!(
                out,
                "  stored   {path}, {:?}, {}{chunk}; filters: {filters}",
                storage.shape, storage.layout
            );
            if storage.layout == "chunked" && !storage.decoded_in_parallel {
                let _ = writeln!(out, "           decoded by the HDF5 library, one chunk at a time");
            }
            for filter in &storage.missing_filters {
                let _ =
                    writeln!(out, "           the filter {filter} cannot be decoded: tiles will be errors");
            }
        }
    }
}

fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| str::from_utf8(group).ok()).collect();
    groups.join("'")
}

/// The configuration that serves the same, every guess spelled out so that it can be changed.
fn configuration(dataset: &Dataset, file: &std::path::Path) -> String {
    let token = key(dataset.token.as_str());
    let mut out = format!("[datasets.{token}]\nfile = {}\n", quoted(&file.display().to_string()));
    for channel in dataset.channels.values() {
        let _ = write!(
            out,
            "\n[datasets.{token}.channels.{}]\n{}",
            key(channel.name.as_str()),
            channel_keys(channel)
        );
    }
    out
}

fn channel_keys(channel: &Channel) -> String {
    let mut out = String::new();
    if let Some(SpelledOut { levels, view }) = channel.spelled_out() {
        if let [(path, _)] = levels.as_slice() {
            let _ = writeln!(out, "path = {}", quoted(path));
        } else {
            let levels = levels.iter().map(|(path, f)| {
                format!("{{ path = {}, factor = [{}, {}, {}] }}", quoted(path), f.x, f.y, f.z)
            });
            let _ = writeln!(out, "levels = [{}]", levels.collect::<Vec<_>>().join(", "));
        }
        let _ = writeln!(out, "axes = \"{}\"", view.axes);
        if !view.fixed.is_empty() {
            let fixed: Vec<String> = view.fixed.iter().map(|(axis, at)| format!("{axis} = {at}")).collect();
            let _ = writeln!(out, "index = {{ {} }}", fixed.join(", "));
        }
    }
    let _ = writeln!(out, "kind = \"{}\"", channel.kind.name());
    if channel.kind == Kind::Image && channel.is_measured() {
        out.push_str("window = \"auto\"\n");
    }
    out
}

/// A TOML key: bare where it can be.
fn key(name: &str) -> String {
    let bare = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if bare { name.to_owned() } else { quoted(name) }
}

/// A TOML string: its escapes are JSON's, as far as paths and names go.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
