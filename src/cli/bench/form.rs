//! The arguments of `voltile bench`, as typed → as meant.
//!
//! ndtilecache's benchmark (`benchmarks/ndtilecache_benchmark.py` in neurodata/ndtilecache) is called as
//! `TOKEN CHANNEL RESOLUTION [--server HOST/SERVICE] [--min SLICE] [--max SLICE] [--x MIN MAX] [--y MIN MAX]
//! [--num PROCESSES]`. It requests every tile of xy slices from the minimum up to but excluding the maximum,
//! in columns and rows from MIN to MAX inclusive. That form is accepted with its defaults, and its flags can
//! be combined with others. Its tile names put `x` first; here `--x` means columns, as it says.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::cli::sources::Sources;
use crate::geometry::{Level, Plane};
use crate::tools::bench::{Bounds, Limits, Pattern, Selection, State, Target};
use crate::tools::client;

/// Defaults of ndtilecache's benchmark.
mod ancestor {
    pub const SERVER: &str = "localhost/ndtilecache";
    pub const SLICES: (u64, u64) = (1, 1850);
    pub const TILES: [u64; 2] = [0, 1];
    pub const PROCESSES: usize = 4;
}

const SECONDS: f64 = 0.5;
const SECONDS_OF_SERVER: f64 = 2.0;
const TILES: usize = 512;
const TILES_OF_SERVER: usize = 4096;
/// Time limit of a run that has none of its own.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// More tiles than this make no useful benchmark.
const MAX_TILES: usize = 1 << 22;
const CLIENTS: [usize; 3] = [1, 8, 32];

#[derive(Debug, Args)]
pub(in crate::cli) struct Arguments {
    /// HDF5 files; or the URL of a running server, such as http://127.0.0.1:8080; or, as in ndtilecache's
    /// benchmark, TOKEN CHANNEL LEVEL of the --server
    #[arg(value_name = "FILE.h5|URL")]
    what: Vec<PathBuf>,
    /// The configuration file; default: ./voltile.toml if it exists and nothing else is named.
    #[arg(long, value_name = "FILE.toml")]
    config: Option<PathBuf>,
    /// Set one key, such as cache.chunks=64MiB; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Only this dataset; may be repeated.
    #[arg(long, value_name = "TOKEN", value_delimiter = ',')]
    token: Vec<String>,
    /// Only this channel; default: the first of each dataset that contains intensities.
    #[arg(long, value_name = "CHANNEL", value_delimiter = ',')]
    channel: Vec<String>,
    /// Only this plane: xy, xz or yz; may be repeated.
    #[arg(long, value_name = "PLANE", value_delimiter = ',', value_parser = plane)]
    plane: Vec<Plane>,
    /// Only this level; default: all that viewers use.
    #[arg(long, value_name = "LEVEL", value_delimiter = ',')]
    level: Vec<u8>,
    /// Order in which tiles are requested; default: random,scroll,walk.
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    pattern: Vec<Pattern>,
    /// Files only: what is in memory beforehand; default: all three states.
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    state: Vec<State>,
    /// Files only: number of threads that render; default: 1 and render.threads, which is all cores.
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
    seed: u64,
    /// Print JSON for programs.
    #[arg(long)]
    json: bool,
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

#[derive(Debug)]
pub(super) enum Form {
    Files(Files),
    Server(Server),
}

#[derive(Debug)]
pub(super) struct Files {
    pub sources: Sources,
    pub patterns: Vec<Pattern>,
    pub states: Vec<State>,
    /// Empty: one, and as many as configured.
    threads: Vec<NonZeroUsize>,
    pub limits: Limits,
}

#[derive(Debug)]
pub(super) struct Server {
    pub url: String,
    pub patterns: Vec<Pattern>,
    pub clients: Vec<NonZeroUsize>,
    pub limits: Limits,
    /// TOKEN CHANNEL LEVEL, if given.
    named: Option<Named>,
}

/// `TOKEN CHANNEL LEVEL` as in ndtilecache's benchmark, and the slices that it would request.
#[derive(Debug)]
struct Named {
    token: String,
    channel: String,
    level: Level,
    slices: Range<u64>,
}

impl Arguments {
    pub(super) fn form(&self) -> Result<Form, String> {
        let words: Vec<String> = self.what.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let (url, rest) = match (&self.server, words.split_first()) {
            (Some(server), _) => (Some(server.clone()), words.as_slice()),
            (None, Some((first, rest))) if client::is_server(first) => (Some(first.clone()), rest),
            (None, _) => (None, words.as_slice()),
        };
        match (url, rest) {
            (Some(url), []) => self.of_server(url, None),
            (Some(url), rest) => {
                let named = self.named(rest).ok_or_else(|| {
                    format!("a server may be followed by TOKEN CHANNEL LEVEL, not by {:?}", rest.join(" "))
                })?;
                self.of_server(url, Some(named))
            }
            (None, rest) => match self.named(rest).filter(|_| self.what.iter().all(|word| !word.exists())) {
                Some(named) => self.of_server(ancestor::SERVER.to_owned(), Some(named)),
                None => self.of_files(),
            },
        }
    }

    /// `TOKEN CHANNEL LEVEL`.
    fn named(&self, words: &[String]) -> Option<Named> {
        let [token, channel, level] = words else { return None };
        let level = Level::new(u64::from(level.parse::<u8>().ok()?))?;
        let (first, end) = ancestor::SLICES;
        let slices = self.min.unwrap_or(first)..self.max.unwrap_or(end);
        Some(Named { token: token.clone(), channel: channel.clone(), level, slices })
    }

    fn of_files(&self) -> Result<Form, String> {
        if !self.clients.is_empty() {
            return Err("--clients is for a server; files are measured with --threads".to_owned());
        }
        let sources =
            Sources { files: self.what.clone(), config: self.config.clone(), set: self.set.clone() };
        Ok(Form::Files(Files {
            sources,
            patterns: self.patterns(&Pattern::USUAL),
            states: if self.state.is_empty() { State::ALL.to_vec() } else { sorted(&self.state) },
            threads: sorted(&self.threads),
            limits: self.limits(SECONDS, TILES),
        }))
    }

    fn of_server(&self, url: String, named: Option<Named>) -> Result<Form, String> {
        let twice = !(self.token.is_empty() && self.channel.is_empty() && self.level.is_empty());
        if named.is_some() && twice {
            return Err(
                "TOKEN CHANNEL LEVEL cannot be combined with --token, --channel or --level".to_owned()
            );
        }
        let of_files = [
            ("--threads", self.threads.is_empty()),
            ("--state", self.state.is_empty()),
            ("--config", self.config.is_none()),
            ("--set", self.set.is_empty()),
        ];
        if let Some((flag, _)) = of_files.iter().find(|(_, absent)| !absent) {
            return Err(format!("{flag} is for files; for a server use --clients"));
        }
        let (clients, patterns, limits) = match &named {
            Some(_) => {
                let limits = Limits {
                    time: self.seconds.unwrap_or(DAY),
                    tiles: self.tiles.map_or(MAX_TILES, NonZeroUsize::get),
                };
                (&[ancestor::PROCESSES][..], self.patterns(&[Pattern::Sweep]), limits)
            }
            None => (
                &CLIENTS[..],
                self.patterns(&Pattern::USUAL),
                self.limits(SECONDS_OF_SERVER, TILES_OF_SERVER),
            ),
        };
        let usual = clients.iter().filter_map(|clients| NonZeroUsize::new(*clients)).collect();
        let clients = if self.clients.is_empty() { usual } else { sorted(&self.clients) };
        Ok(Form::Server(Server { url, patterns, clients, limits, named }))
    }

    fn patterns(&self, usual: &[Pattern]) -> Vec<Pattern> {
        if self.pattern.is_empty() { usual.to_vec() } else { sorted(&self.pattern) }
    }

    fn limits(&self, seconds: f64, tiles: usize) -> Limits {
        Limits {
            time: self.seconds.unwrap_or(Duration::from_secs_f64(seconds)),
            tiles: self.tiles.map_or(tiles, NonZeroUsize::get).min(MAX_TILES),
        }
    }

    /// The selection of what to measure.
    pub(super) fn selection(&self) -> Selection {
        let bounds = Bounds {
            slices: (self.min.is_some() || self.max.is_some())
                .then(|| self.min.unwrap_or(0)..self.max.unwrap_or(u64::MAX)),
            rows: from_to(&self.y),
            columns: from_to(&self.x),
        };
        Selection {
            tokens: self.token.clone(),
            channels: self.channel.clone(),
            planes: self.plane.clone(),
            levels: self.level.clone(),
            bounds,
        }
    }

    pub fn seed(&self) -> u64 {
        self.seed
    }

    pub fn json(&self) -> bool {
        self.json
    }
}

impl Files {
    /// The numbers of render threads: as given, or one and the configured number.
    pub fn threads(&self, render: NonZeroUsize) -> Vec<NonZeroUsize> {
        if self.threads.is_empty() { sorted(&[NonZeroUsize::MIN, render]) } else { self.threads.clone() }
    }
}

impl Server {
    /// The selection, with the defaults of ndtilecache's benchmark if its form was used.
    pub fn selection(&self, given: Selection) -> Selection {
        let Some(Named { token, channel, level, slices }) = &self.named else { return given };
        let usual = from_to(&ancestor::TILES);
        Selection {
            tokens: vec![token.clone()],
            channels: vec![channel.clone()],
            planes: if given.planes.is_empty() { vec![Plane::Xy] } else { given.planes },
            levels: vec![level.number()],
            bounds: Bounds {
                slices: Some(slices.clone()),
                rows: given.bounds.rows.or_else(|| usual.clone()),
                columns: given.bounds.columns.or(usual),
            },
        }
    }

    /// The target of a server without descriptions, if enough was given.
    pub fn unseen(&self, selection: &Selection) -> Option<Target> {
        let Named { token, channel, level, .. } = self.named.as_ref()?;
        Target::unseen(token, channel, *level, &selection.bounds)
    }
}

/// From the first to the last, inclusive.
fn from_to(given: &[u64]) -> Option<Range<u64>> {
    let [first, last] = *given else { return None };
    Some(first..last.saturating_add(1))
}

fn sorted<T: Copy + Ord>(given: &[T]) -> Vec<T> {
    let mut sorted = given.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    sorted
}

fn plane(text: &str) -> Result<Plane, String> {
    Plane::from_name(text).ok_or_else(|| "xy, xz or yz is expected".to_owned())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| *seconds > 0.0 && *seconds <= DAY.as_secs_f64());
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "seconds above 0 are expected, such as 0.5".to_owned())
}
