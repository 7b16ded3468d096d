//! `voltile cache`: shows and clears the contents of the cache directory. A server may be using it
//! at the same time.

use std::fmt::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;
use voltile_base::name::Name;
use voltile_base::text::joined;
use voltile_base::units;

use super::failure::Failure;
use super::load::fault_list;
use super::log::LogWriter;
use super::sources::ConfigurationChoice;
use super::{output, tiers};
use crate::config;
use crate::tier::{Directory, TokenContents};

#[derive(Debug, Subcommand)]
pub(super) enum CacheCommand {
    /// Show the number of tiles of each token and their size on disk.
    Stats {
        #[command(flatten)]
        place: DirectoryChoice,
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
        place: DirectoryChoice,
    },
}

#[derive(Debug, Args)]
pub(super) struct DirectoryChoice {
    /// The cache directory, instead of the configured directory.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["config", "set"])]
    directory: Option<PathBuf>,
    #[command(flatten)]
    configured: ConfigurationChoice,
}

/// The minimum width of the column of tokens, in characters.
const MIN_WIDTH: usize = 5;

/// The cache directory of a command.
struct OpenedCache {
    path: PathBuf,
    /// `cache.disk` in bytes; unknown if the directory was given by `--directory`.
    budget: Option<usize>,
    directory: Directory,
}

impl DirectoryChoice {
    fn open(&self) -> Result<OpenedCache, Failure> {
        let (path, budget) = if let Some(path) = &self.directory {
            (path.clone(), None)
        } else {
            let loaded = config::load(&self.configured.layers().or_default_file());
            if !loaded.faults.is_empty() {
                return Err(Failure::Usage(fault_list(&loaded.faults)));
            }
            let Some(path) = loaded.settings.cache.directory else {
                let problem = "no cache directory is configured: set cache.directory, or name one with --directory DIR";
                return Err(Failure::Usage(problem.to_owned()));
            };
            (path, Some(loaded.settings.cache.disk))
        };
        let directory = Directory::open_existing(&path).map_err(tiers::unusable)?;
        Ok(OpenedCache {
            path,
            budget,
            directory,
        })
    }
}

pub(super) fn run(log: &LogWriter, command: &CacheCommand) -> Result<(), Failure> {
    match command {
        CacheCommand::Stats {
            place,
            verify,
            json,
        } => stats(log, &place.open()?, *verify, *json),
        CacheCommand::Clear { token, place } => clear(&place.open()?, token.as_deref()),
    }
}

fn stats(log: &LogWriter, cache: &OpenedCache, verify: bool, json: bool) -> Result<(), Failure> {
    let contents = cache.directory.contents(verify)?;
    let mut all = TokenContents {
        token: "all".to_owned(),
        ..TokenContents::default()
    };
    for token in &contents {
        all.tiles += token.tiles;
        all.bytes += token.bytes;
        all.damaged.extend_from_slice(&token.damaged);
    }
    all.corrupt = verify.then_some(all.damaged.len());
    let summary = json!({
        "directory": cache.path.display().to_string(), "budget": cache.budget, "tiles": all.tiles,
        "bytes": all.bytes, "corrupt": all.corrupt, "tokens": contents,
    });
    output::print_as(json, &summary, |_| table(cache, &contents, &all))?;
    for path in &all.damaged {
        output::complain(log, &format!("{} is damaged", path.display()));
    }
    match all.damaged.len() {
        0 => Ok(()),
        count => Err(Failure::Work(anyhow::anyhow!(
            "{count} {} damaged; a server renders a damaged tile again when it is requested; `voltile cache clear` removes all tiles",
            if count == 1 { "tile is" } else { "tiles are" }
        ))),
    }
}

fn table(cache: &OpenedCache, contents: &[TokenContents], all: &TokenContents) -> String {
    let budget = cache.budget.map_or_else(String::new, |bytes| {
        format!(", which may take {}", units::bytes(bytes as u64))
    });
    let mut text = format!("{}{budget}\n", cache.path.display());
    let rows: Vec<_> = contents
        .iter()
        .chain([all])
        .map(|row| (output::escaped(&row.token), row))
        .collect();
    let widths = rows.iter().map(|(token, _)| token.chars().count());
    let width = widths.max().unwrap_or_default().max(MIN_WIDTH);
    for (token, row) in rows {
        let tiles = row.tiles;
        let bytes = units::bytes(row.bytes);
        let _ = write!(text, "  {token:<width$}  {tiles:>10} tiles  {bytes:>10}");
        if let Some(corrupt) = row.corrupt {
            let _ = write!(text, "  {corrupt:>8} damaged");
        }
        if row.unfinished > 0 {
            let _ = write!(text, "  and {} unfinished", row.unfinished);
        }
        text.push('\n');
    }
    text
}

fn clear(cache: &OpenedCache, token: Option<&str>) -> Result<(), Failure> {
    let name = token.map(Name::new).transpose();
    let name = name.map_err(|error| Failure::Usage(error.to_string()))?;
    let removed = cache.directory.clear(name.as_ref())?;
    let path = cache.path.display();
    if let Some(token) = token
        && removed.is_empty()
    {
        let contents = cache.directory.contents(false)?;
        let mut known = joined(contents.iter().map(|kept| &kept.token));
        if contents.is_empty() {
            known = "none".to_owned();
        }
        return Err(Failure::Usage(format!(
            "{path} has no tiles of a token {token:?}; it has tiles of: {known}"
        )));
    }
    let mut text = String::new();
    for cleared in &removed {
        let token = output::escaped(&cleared.token);
        let size = units::bytes(cleared.bytes);
        let tiles = output::counted(cleared.tiles, "tile");
        let _ = writeln!(text, "removed {tiles} of {token}, {size}");
    }
    if text.is_empty() {
        text = format!("{path} has no tiles\n");
    }
    output::print(&text)
}
