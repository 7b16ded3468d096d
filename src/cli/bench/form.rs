//! The arguments of `voltile bench`, as typed → as meant.
//!
//! ndtilecache's benchmark (`benchmarks/ndtilecache_benchmark.py` in neurodata/ndtilecache) is
//! called as `TOKEN CHANNEL RESOLUTION [--server HOST/SERVICE] [--min SLICE] [--max SLICE] [--x MIN
//! MAX] [--y MIN MAX] [--num PROCESSES]`. It requests every tile of xy slices from the minimum up
//! to but excluding the maximum, in columns and rows from MIN to MAX inclusive. That form is
//! accepted with its defaults, and its flags can be combined with others. Its tile names put `x`
//! first; here `--x` means columns, as it says.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::base::name::Name;
use crate::base::request::ChannelChoice;
use crate::cli::choices;
use crate::cli::sources::{Configured, Sources};
use crate::cli::warm;
use crate::geometry::{Level, Plane};
use crate::tools::bench::{Bounds, Choice, Limits, Pattern, State};
use crate::tools::client;
use crate::tools::warm::{Numbers, Selection};

/// Defaults of ndtilecache's benchmark.
mod ancestor {
    pub const SERVER: &str = "localhost/ndtilecache";
    pub const SLICES: (u64, u64) = (1, 1850);
    pub const TILES: [u64; 2] = [0, 1];
    pub const PROCESSES: usize = 4;
}

/// The usual limits of a row, of files and of a server.
const OF_FILES: Limits = Limits {
    time: Duration::from_millis(500),
    tiles: 512,
};
const OF_SERVER: Limits = Limits {
    time: Duration::from_secs(2),
    tiles: 4096,
};
/// The limits of a run that has none of its own. More tiles make no useful benchmark.
const MAX_LIMITS: Limits = Limits {
    time: Duration::from_secs(24 * 60 * 60),
    tiles: 1 << 22,
};
const CLIENTS: [usize; 3] = [1, 8, 32];

#[derive(Debug, Clone, Args)]
pub(in crate::cli) struct Arguments {
    /// HDF5 files; or the URL of a running server, such as http://127.0.0.1:8080; or, as in
    /// ndtilecache's benchmark, TOKEN CHANNEL LEVEL of the --server
    #[arg(value_name = "FILE.h5|URL")]
    what: Vec<PathBuf>,
    #[command(flatten)]
    configured: Configured,
    /// Only this dataset; may be repeated.
    #[arg(long, value_name = "TOKEN", value_delimiter = ',', value_parser = warm::name)]
    token: Vec<Name>,
    /// Only this channel; default: the first of each dataset that contains intensities.
    #[arg(long, value_name = "CHANNEL", value_delimiter = ',', value_parser = warm::name)]
    channel: Vec<Name>,
    /// Only this plane: xy, xz or yz; may be repeated.
    #[arg(long, value_name = "PLANE", value_delimiter = ',', value_parser = plane)]
    plane: Vec<Plane>,
    /// Only these levels: 0-2,4; default: all that viewers use.
    #[arg(long, value_name = "LEVELS")]
    level: Option<Numbers>,
    /// Order in which tiles are requested; default: random,scroll,walk.
    #[arg(long, value_name = "PATTERN", value_delimiter = ',', value_parser = choices::parser(Pattern::ALL))]
    pattern: Vec<Pattern>,
    /// Files only: what is in memory beforehand; default: all three states.
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = choices::parser(State::ALL))]
    state: Vec<State>,
    /// Files only: number of threads that render; default: 1 and render.threads, which is all
    /// cores.
    #[arg(long, value_name = "N", value_delimiter = ',')]
    threads: Vec<NonZeroUsize>,
    /// Servers only: number of connections; default: 1,8,32.
    #[arg(long, value_name = "N", value_delimiter = ',', alias = "num")]
    clients: Vec<NonZeroUsize>,
    /// Measuring time of each row; default: 0.5 for a file, 2 for a server.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds: Option<Duration>,
    /// Maximum number of tiles of each row; default: 512 for a file, 4096 for a server.
    #[arg(long, value_name = "N")]
    tiles: Option<NonZeroUsize>,
    /// Seed that selects the tiles: the same seed gives the same tiles.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(super) seed: u64,
    /// Print JSON for programs.
    #[arg(long)]
    pub(super) json: bool,
    /// The server, with or without http:// and its mount.
    #[arg(long, value_name = "HOST[/SERVICE]", alias = "server_name")]
    server: Option<String>,
    /// The first slice, as numbered in URLs.
    #[arg(long, value_name = "SLICE")]
    min: Option<u64>,
    /// The slice to stop before.
    #[arg(long, value_name = "SLICE")]
    max: Option<u64>,
    /// The first and the last column of tiles.
    #[arg(long, num_args = 2, value_names = ["MIN", "MAX"])]
    x: Vec<u64>,
    /// The first and the last row of tiles.
    #[arg(long, num_args = 2, value_names = ["MIN", "MAX"])]
    y: Vec<u64>,
}

/// What to measure, and how.
#[derive(Debug)]
pub(super) struct Plan {
    pub source: Source,
    pub selection: Selection,
    pub bounds: Bounds,
    pub patterns: Vec<Pattern>,
    pub limits: Limits,
}

#[derive(Debug)]
pub(super) enum Source {
    Files {
        sources: Sources,
        states: Vec<State>,
        /// Empty: one, and as many as configured.
        threads: Vec<NonZeroUsize>,
    },
    Server {
        url: String,
        clients: Vec<NonZeroUsize>,
        /// What to request if the server does not describe its datasets.
        undescribed: Option<Choice>,
    },
}

impl Arguments {
    pub(super) fn plan(&self) -> Result<Plan, String> {
        let words: Vec<String> = self
            .what
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let (url, rest) = match (&self.server, words.split_first()) {
            (Some(server), _) => (Some(server.clone()), words.as_slice()),
            (None, Some((first, rest))) if client::is_server(first) => (Some(first.clone()), rest),
            (None, _) => (None, words.as_slice()),
        };
        match (url, named(rest)) {
            (Some(url), None) if rest.is_empty() => self.of_server(url, None),
            (Some(_), None) => Err(format!(
                "a server may be followed by TOKEN CHANNEL LEVEL, not by {:?}",
                rest.join(" ")
            )),
            (Some(url), named) => self.of_server(url, named),
            (None, named @ Some(_)) if self.what.iter().all(|word| !word.exists()) => {
                self.of_server(ancestor::SERVER.to_owned(), named)
            }
            (None, _) => self.of_files(),
        }
    }

    fn of_files(&self) -> Result<Plan, String> {
        let clients = [("--clients", !self.clients.is_empty())];
        choices::refuse(
            &clients,
            "is for a server; files are measured with --threads",
        )?;
        let sources = Sources {
            files: self.what.clone(),
            configured: self.configured.clone(),
        };
        let (states, threads) = (
            chosen(
                &self.state,
                &State::ALL
                    .iter()
                    .map(|(state, ..)| *state)
                    .collect::<Vec<_>>(),
            ),
            sorted(&self.threads),
        );
        Ok(Plan {
            source: Source::Files {
                sources,
                states,
                threads,
            },
            selection: self.selection(),
            bounds: self.bounds(),
            patterns: chosen(&self.pattern, &Pattern::USUAL),
            limits: self.limits(OF_FILES),
        })
    }

    /// `named`: TOKEN CHANNEL LEVEL as in ndtilecache's benchmark, whose defaults are then used.
    fn of_server(&self, url: String, named: Option<(Name, Name, Level)>) -> Result<Plan, String> {
        let of_files = [
            ("--threads", !self.threads.is_empty()),
            ("--state", !self.state.is_empty()),
            ("--config", self.configured.config.is_some()),
            ("--set", !self.configured.set.is_empty()),
        ];
        choices::refuse(&of_files, "is for files; for a server use --clients")?;
        if named.is_some()
            && !(self.token.is_empty() && self.channel.is_empty() && self.level.is_none())
        {
            return Err(
                "TOKEN CHANNEL LEVEL cannot be combined with --token, --channel or --level"
                    .to_owned(),
            );
        }
        let own = match &named {
            Some((token, channel, level)) => {
                &self.with_defaults_of_ancestor(token, channel, *level)
            }
            None => self,
        };
        let (clients, bounds) = (chosen(&own.clients, &numbers(&CLIENTS)), own.bounds());
        let undescribed = named.and_then(|(token, channel, level)| {
            Choice::undescribed(token, channel, level, &bounds)
        });
        Ok(Plan {
            source: Source::Server {
                url,
                clients,
                undescribed,
            },
            selection: own.selection(),
            bounds,
            patterns: chosen(&own.pattern, &Pattern::USUAL),
            limits: own.limits(OF_SERVER),
        })
    }

    fn with_defaults_of_ancestor(&self, token: &Name, channel: &Name, level: Level) -> Self {
        let (first, end) = ancestor::SLICES;
        let tiles = |given: &[u64]| {
            if given.is_empty() {
                ancestor::TILES.to_vec()
            } else {
                given.to_vec()
            }
        };
        Self {
            token: vec![token.clone()],
            channel: vec![channel.clone()],
            level: Some(Numbers::single(level.number().into())),
            plane: chosen(&self.plane, &[Plane::Xy]),
            pattern: chosen(&self.pattern, &[Pattern::Sweep]),
            clients: chosen(&self.clients, &numbers(&[ancestor::PROCESSES])),
            seconds: self.seconds.or(Some(MAX_LIMITS.time)),
            tiles: self.tiles.or(NonZeroUsize::new(MAX_LIMITS.tiles)),
            min: self.min.or(Some(first)),
            max: self.max.or(Some(end)),
            x: tiles(&self.x),
            y: tiles(&self.y),
            ..self.clone()
        }
    }

    fn limits(&self, usual: Limits) -> Limits {
        let tiles = self
            .tiles
            .map_or(usual.tiles, NonZeroUsize::get)
            .min(MAX_LIMITS.tiles);
        Limits {
            time: self.seconds.unwrap_or(usual.time),
            tiles,
        }
    }

    fn selection(&self) -> Selection {
        Selection {
            tokens: self.token.clone(),
            channels: self
                .channel
                .iter()
                .cloned()
                .map(ChannelChoice::One)
                .collect(),
            planes: chosen(&self.plane, &Plane::ALL),
            levels: self.level.clone().unwrap_or_else(Numbers::all),
            ..Selection::default()
        }
    }

    fn bounds(&self) -> Bounds {
        let is_cut = self.min.is_some() || self.max.is_some();
        let slices = is_cut.then(|| self.min.unwrap_or(0)..self.max.unwrap_or(u64::MAX));
        Bounds {
            slices,
            rows: from_to(&self.y),
            columns: from_to(&self.x),
        }
    }
}

/// `TOKEN CHANNEL LEVEL`.
fn named(words: &[String]) -> Option<(Name, Name, Level)> {
    let [token, channel, level] = words else {
        return None;
    };
    let level = Level::new(u64::from(level.parse::<u8>().ok()?))?;
    Some((Name::new(token).ok()?, Name::new(channel).ok()?, level))
}

/// From the first to the last, inclusive.
fn from_to(given: &[u64]) -> Option<Range<u64>> {
    let [first, last] = *given else { return None };
    Some(first..last.saturating_add(1))
}

fn numbers(all: &[usize]) -> Vec<NonZeroUsize> {
    all.iter().copied().filter_map(NonZeroUsize::new).collect()
}

/// What was given, or else the usual.
fn chosen<T: Copy + Ord>(given: &[T], usual: &[T]) -> Vec<T> {
    if given.is_empty() {
        usual.to_vec()
    } else {
        sorted(given)
    }
}

pub(super) fn sorted<T: Copy + Ord>(given: &[T]) -> Vec<T> {
    let mut sorted = given.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    sorted
}

fn plane(text: &str) -> Result<Plane, String> {
    Plane::from_name(text).ok_or_else(|| "xy, xz or yz is expected".to_owned())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text
        .parse::<f64>()
        .ok()
        .filter(|seconds| *seconds > 0.0 && *seconds <= MAX_LIMITS.time.as_secs_f64());
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "seconds above 0 are expected, such as 0.5".to_owned())
}
