//! `voltile cache`: shows and clears the contents of the cache directory. A server may be using it at the
//! same time.

use std::path::PathBuf;

use bytesize::ByteSize;
use clap::{Args, Subcommand};
use serde::Serialize;

use super::failure::Failure;
use super::load::listed;
use super::log::Log;
use super::output;
use crate::base::name::Name;
use crate::config::{self, Layers};
use crate::tier::{Contents, Directory};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Show the number of tiles of each token and their size on disk.
    Stats {
        #[command(flatten)]
        place: Place,
        /// Read every tile and compare its checksum; exit status 1 if any tile is damaged.
        #[arg(long)]
        verify: bool,
        /// Print JSON for programs.
        #[arg(long)]
        json: bool,
    },
    /// Remove the tiles of one token, or all tiles.
    Clear {
        /// The token; default: the tiles of all tokens are removed.
        #[arg(value_name = "TOKEN")]
        token: Option<String>,
        #[command(flatten)]
        place: Place,
    },
}

#[derive(Debug, Args)]
struct Place {
    /// The cache directory, instead of the configured directory.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["config", "set"])]
    directory: Option<PathBuf>,
    /// The configuration file; default: ./voltile.toml if it exists.
    #[arg(long, value_name = "FILE.toml")]
    config: Option<PathBuf>,
    /// Set one key, such as cache.directory=cache; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

/// A directory, and its budget if known.
struct Found {
    path: PathBuf,
    budget: Option<u64>,
}

impl Place {
    fn found(&self) -> Result<Found, Failure> {
        if let Some(path) = self.directory.clone() {
            return Ok(Found { path, budget: None });
        }
        let (config, set) = (self.config.clone(), self.set.clone());
        let loaded = config::load(&Layers { config, set, ..Layers::of_process() }.or_default_file());
        if !loaded.faults.is_empty() {
            return Err(Failure::Usage(listed(&loaded.faults)));
        }
        let cache = loaded.settings.cache;
        let missing =
            "no cache directory is configured: set cache.directory, or name one with --directory DIR";
        let path = cache.directory.ok_or_else(|| Failure::Usage(missing.to_owned()))?;
        Ok(Found { path, budget: Some(cache.disk as u64) })
    }
}

impl Found {
    /// The directory; `None` if nothing has been stored yet.
    fn open(&self) -> Result<Option<Directory>, Failure> {
        Directory::open_existing(&self.path).map_err(|error| {
            if error.is_misnamed() { Failure::Usage(error.to_string()) } else { Failure::Work(error.into()) }
        })
    }
}

pub(super) fn run(log: &Log, arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.what {
        What::Stats { place, verify, json } => stats(log, &place.found()?, *verify, *json),
        What::Clear { token, place } => clear(&place.found()?, token.as_deref()),
    }
}

/// The JSON output.
#[derive(Serialize)]
struct Stats<'a> {
    directory: String,
    /// Bytes; unknown if the directory was given by `--directory`.
    budget: Option<u64>,
    tiles: u64,
    /// Size of all files on disk.
    bytes: u64,
    /// Damaged tiles; unknown unless verified.
    corrupt: Option<usize>,
    tokens: &'a [Contents],
}

fn stats(log: &Log, found: &Found, verify: bool, json: bool) -> Result<(), Failure> {
    let directory = found.open()?;
    let contents = directory.map_or(Ok(Vec::new()), |directory| directory.contents(verify))?;
    let mut all = Contents { token: "all".to_owned(), ..Contents::default() };
    for token in &contents {
        all.tiles += token.tiles;
        all.bytes += token.bytes;
        all.damaged.extend_from_slice(&token.damaged);
    }
    all.corrupt = verify.then_some(all.damaged.len());
    if json {
        let (directory, budget) = (found.path.display().to_string(), found.budget);
        let Contents { tiles, bytes, corrupt, .. } = all;
        output::print_json(&Stats { directory, budget, tiles, bytes, corrupt, tokens: &contents })?;
    } else {
        output::print(&table(found, &contents, &all))?;
    }
    let damaged = all.damaged;
    for path in &damaged {
        output::complain(log, &format!("{} is damaged", path.display()));
    }
    match damaged.len() {
        0 => Ok(()),
        count => Err(Failure::Work(anyhow::anyhow!(
            "{count} {} damaged; a server renders a damaged tile again when it is requested; `voltile cache clear` removes all tiles",
            if count == 1 { "tile is" } else { "tiles are" }
        ))),
    }
}

fn table(found: &Found, contents: &[Contents], all: &Contents) -> String {
    let budget =
        found.budget.map(|bytes| format!(", which may take {}", ByteSize(bytes))).unwrap_or_default();
    let mut text = format!("{}{budget}\n", found.path.display());
    let width = contents.iter().map(|each| each.token.len()).max().unwrap_or_default().max(5);
    let other =
        |count: u64, what: &str| if count > 0 { format!("  and {count} {what}") } else { String::new() };
    for Contents { token, tiles, bytes, corrupt, unfinished, foreign, .. } in contents.iter().chain([all]) {
        let (token, bytes) = (output::escaped(token), ByteSize(*bytes).to_string());
        let corrupt = corrupt.map_or_else(String::new, |corrupt| format!("  {corrupt:>8} damaged"));
        let rest = other(*unfinished, "unfinished") + &other(*foreign, "that are not voltile's");
        text.push_str(&format!("  {token:<width$}  {tiles:>10} tiles  {bytes:>10}{corrupt}{rest}\n"));
    }
    text
}

fn clear(found: &Found, token: Option<&str>) -> Result<(), Failure> {
    let name = token.map(Name::new).transpose().map_err(|error| Failure::Usage(error.to_string()))?;
    let directory = found.open()?;
    let removed = directory.map_or(Ok(Vec::new()), |directory| directory.clear(name.as_ref()))?;
    if let (Some(token), []) = (token, removed.as_slice()) {
        return Err(Failure::Usage(unknown(found, token)?));
    }
    let mut text = String::new();
    for contents in &removed {
        let (token, size) = (output::escaped(&contents.token), ByteSize(contents.bytes));
        let tiles = if contents.tiles == 1 { "tile" } else { "tiles" };
        text.push_str(&format!(
            "removed {} {tiles} of {token}, {size}{}\n",
            contents.tiles,
            left_of(contents)
        ));
    }
    if removed.is_empty() {
        text = format!("{} has no tiles\n", found.path.display());
    }
    output::print(&text)
}

fn left_of(contents: &Contents) -> String {
    match contents.foreign {
        0 => String::new(),
        1 => "; 1 file that is not voltile's is left".to_owned(),
        count => format!("; {count} files that are not voltile's are left"),
    }
}

fn unknown(found: &Found, token: &str) -> Result<String, Failure> {
    let contents = found.open()?.map_or(Ok(Vec::new()), |directory| directory.contents(false))?;
    let known: Vec<&str> = contents.iter().map(|each| each.token.as_str()).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Ok(format!("{} has no tiles of a token {token:?}; it has tiles of: {known}", found.path.display()))
}
