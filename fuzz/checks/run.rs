//! The functions behind the fuzz targets in `fuzz/`, compiled with the feature `fuzzing` and for
//! this crate's tests.
//!
//! Each takes arbitrary bytes and panics if the code does something wrong with them. Nothing here
//! is part of the interface.

#[cfg(test)]
mod tests;

use std::fs;
use std::path::PathBuf;

use voltile_base::request::{
    BoxRequest, MCFC, PrecomputedFile, TilePath, TileRequest, VIKING, ZarrRequest, adjustments,
};
use voltile_hdf5::volume::hdf5::decoders;

use crate::config::{self, Layers};
use crate::http;

/// Runs the target of that name on one input.
///
/// # Panics
/// If the code under test does something wrong, or there is no such target.
pub fn run(target: &str, data: &[u8]) {
    match target {
        "addresses" => addresses(&String::from_utf8_lossy(data)),
        "configuration" => configuration(&String::from_utf8_lossy(data)),
        "requests" => http::fuzzing::run(data),
        name => assert!(decoders::run(name, data), "there is no target {name:?}"),
    }
}

/// The names of all targets; those of the decoders share a binary, `filter`.
pub fn targets() -> impl Iterator<Item = &'static str> {
    ["addresses", "configuration", "requests"]
        .into_iter()
        .chain(decoders::names())
}

/// Parses a path and a query as every kind of address.
fn addresses(text: &str) {
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    match TilePath::split(path) {
        Some(Ok(path)) => {
            path.is_overview();
            check_error(path.overview());
            check_error(path.request().inspect(survives_writing));
        }
        Some(Err(malformed)) => drop(malformed.to_string()),
        None => {}
    }
    check_error(ZarrRequest::parse(path));
    check_error(BoxRequest::parse(path, query));
    check_error(adjustments(query));
    if let Some(file) = PrecomputedFile::parse(path) {
        check_error(file);
    }
}

/// An error must have a message.
fn check_error<T, E: ToString>(parsed: Result<T, E>) {
    if let Err(error) = parsed {
        assert!(!error.to_string().is_empty());
    }
}

/// A request that is written as a path is read as the same request.
fn survives_writing(request: &TileRequest) {
    // No dataset can have one of these tokens, and only a path in Viking's form can name it.
    if [MCFC, VIKING].contains(&request.token.token.as_str()) {
        return;
    }
    let written = format!("/ocp/tilecache/{request}");
    let read = TilePath::split(&written).map(|path| path.and_then(|path| path.request()));
    assert_eq!(read, Some(Ok(request.clone())), "{written}");
}

/// Reads a configuration file, in which lines `#set KEY=VALUE` stand for options `--set`, and lines
/// `#env NAME=VALUE` for variables. Settings with faults must be complete too, as defaults replace
/// wrong values.
fn configuration(text: &str) {
    thread_local! {
        static FILE: PathBuf = std::env::temp_dir().join(format!("voltile-fuzz-{}.toml", std::process::id()));
    }
    let path = FILE.with(PathBuf::clone);
    assert!(
        fs::write(&path, text).is_ok(),
        "{} cannot be written",
        path.display()
    );
    let lines_after = |word| text.lines().filter_map(move |line| line.strip_prefix(word));
    let variables = lines_after("#env ").filter_map(|line| line.split_once('='));
    let layers = Layers {
        config: Some(path),
        set: lines_after("#set ").map(str::to_owned).collect(),
        env: variables
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        ..Layers::default()
    };
    let loaded = config::load(&layers);
    for fault in loaded.faults.iter().chain(&loaded.warnings) {
        assert!(!fault.problem.is_empty(), "{fault}");
    }
    assert!(!loaded.settings.server.mounts.is_empty());
}
