//! Requests tiles from a running server, over any number of connections.
//!
//! What can be requested comes from the server's own descriptions; from a server without any, such as
//! ndtilecache, tiles can still be requested by token, channel, level and bounds. If the server has
//! `/metrics`, they show what it did meanwhile. Note that load and server often share a machine, and then
//! compete for its cores.

mod load;
mod share;
mod told;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use super::pattern::{Case, Pattern, cases};
use super::row::Limits;
use super::sample::Percentiles;
use super::target::Target;
use crate::base::description::{MountDescription, SiteDescription};
use crate::tools::client::{self, Client};

use load::{Load, Loaded};
pub use share::{ServerSeconds, ServerShare};
pub use told::told;

/// A server to request tiles from.
#[derive(Debug)]
pub struct Remote {
    client: Client,
    /// The prefix of tile paths.
    below: String,
    targets: Vec<Target>,
    limits: Limits,
}

/// Whether the tiles were requested before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Turn {
    /// Not by us.
    First,
    /// Just before: the server may have cached them.
    Again,
}

impl Turn {
    /// `first` or `again`.
    pub fn name(self) -> &'static str {
        match self {
            Turn::First => "first",
            Turn::Again => "again",
        }
    }
}

/// The result of requesting the tiles of one pattern.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RemoteRow {
    /// The dataset.
    pub token: String,
    /// The channel.
    pub channel: String,
    /// The plane, or several joined by `+`.
    pub plane: String,
    /// The level.
    pub level: u8,
    /// The order in which tiles were requested.
    pub pattern: Pattern,
    /// Whether they were requested just before.
    pub turn: Turn,
    /// The number of connections, each with one request at a time.
    pub clients: usize,
    /// The number of requests sent.
    pub requests: u64,
    /// The number of responses by status.
    pub statuses: BTreeMap<u16, u64>,
    /// The number of requests without a response, or with a broken one.
    pub unanswered: u64,
    /// Tiles (responses with status 200) per second.
    pub tiles_per_second: f64,
    /// Megabytes (10^6) of PNGs per second.
    pub mb_per_second: f64,
    /// The mean length of a PNG in bytes.
    pub png_bytes: f64,
    /// The time from a request to the last byte of a tile, in milliseconds.
    pub latency: Percentiles,
    /// The total time in seconds.
    pub seconds: f64,
    /// The processor time of this client per request, in microseconds: sending it, receiving its response, counting.
    pub client_micros: f64,
    /// What the server reports to have done meanwhile, for all its clients.
    pub server: Option<ServerShare>,
    /// Why the first few failed requests failed.
    pub problems: Vec<String>,
}

impl RemoteRow {
    /// Requests that returned no tile.
    pub fn failed(&self) -> u64 {
        self.requests - self.statuses.get(&200).copied().unwrap_or(0)
    }
}

/// Why a server cannot be measured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotReached {
    /// The URL is not that of a server, or names a mount that does not exist.
    #[error("{0}")]
    Address(String),
    /// Nothing responds there.
    #[error("{0}")]
    Silent(String),
    /// The server does not describe its datasets.
    #[error("{0}")]
    Undescribed(String),
}

/// The server no longer responds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the server at {base} no longer responds: {problem}")]
pub struct Gone {
    /// The server's address.
    pub base: String,
    /// Why the last request failed.
    pub problem: String,
}

impl Remote {
    /// The server at a URL, which may include the mount that tile paths start with.
    ///
    /// # Errors
    /// If the URL is invalid, nothing responds there, or the server does not describe its datasets.
    pub fn described(url: &str, limits: Limits) -> Result<Self, NotReached> {
        let (client, mount) = address(url).map_err(NotReached::Address)?;
        // Any response shows that the server is running.
        client.get("/healthz").map_err(NotReached::Silent)?;
        let site = client.description().map_err(NotReached::Undescribed)?;
        let below = match mount {
            None => site.tilecache(),
            Some(mount) => below_mount(&site, &mount).map_err(NotReached::Address)?,
        };
        let targets: Vec<Target> = site.datasets.iter().flat_map(Target::described).collect();
        if targets.is_empty() {
            return Err(NotReached::Undescribed(format!("{}: no dataset is served", client.base())));
        }
        Ok(Self { client, below, targets, limits })
    }

    /// A server without descriptions: its mount is that of the URL, or none.
    ///
    /// # Errors
    /// If the URL is invalid.
    pub fn undescribed(url: &str, target: Target, limits: Limits) -> Result<Self, NotReached> {
        let (client, mount) = address(url).map_err(NotReached::Address)?;
        let mount = mount.map(|mount| format!("/{mount}")).unwrap_or_default();
        Ok(Self { client, below: format!("{mount}/tilecache"), targets: vec![target], limits })
    }

    /// Every channel that can be measured.
    pub fn targets(&self) -> Vec<Target> {
        self.targets.clone()
    }

    /// The scheme and host.
    pub fn base(&self) -> &str {
        self.client.base()
    }

    /// Whether it runs on this machine.
    pub fn is_here(&self) -> bool {
        self.client.is_here()
    }

    /// Requests the tiles of a channel: every pattern with each number of clients, twice. `watch` receives
    /// each row as soon as it is measured.
    ///
    /// # Errors
    /// If the server no longer responds. Rows measured until then have been passed to `watch`.
    pub fn measure(
        &self,
        target: &Target,
        patterns: &[Pattern],
        clients: &[NonZeroUsize],
        seed: u64,
        mut watch: impl FnMut(RemoteRow),
    ) -> Result<(), Gone> {
        for (turn, clients) in clients.iter().enumerate() {
            // Each number of clients requests different tiles, not requested before.
            let load = Load::new(&self.client, *clients);
            for case in cases(target, patterns, self.limits.tiles, seed.wrapping_add(turn as u64)) {
                self.rows(&load, target, &case, &mut watch)?;
            }
        }
        Ok(())
    }

    fn rows(
        &self,
        load: &Load,
        target: &Target,
        case: &Case,
        watch: &mut impl FnMut(RemoteRow),
    ) -> Result<(), Gone> {
        let path = |tile| format!("{}/{}", self.below, target.path(tile));
        let mut paths: Vec<String> = case.tiles.iter().map(path).collect();
        for turn in [Turn::First, Turn::Again] {
            let before = ServerShare::ask(&self.client);
            let spent = processor_time();
            let loaded = match (turn, case.pattern) {
                (Turn::First, _) | (_, Pattern::Sweep) => load.once(&paths, self.limits.time),
                (Turn::Again, _) => load.again(&paths, self.limits.time),
            };
            let spent = processor_time().saturating_sub(spent);
            let server = before.and_then(|before| ServerShare::ask(&self.client)?.since(&before));
            paths.truncate((loaded.requests as usize).max(1));
            let gone = loaded.gone.clone();
            watch(row(target, case, turn, load.clients(), loaded, spent, server));
            if let Some(problem) = gone {
                return Err(Gone { base: self.base().to_owned(), problem });
            }
        }
        Ok(())
    }
}

fn row(
    target: &Target,
    case: &Case,
    turn: Turn,
    clients: usize,
    loaded: Loaded,
    spent: Duration,
    server: Option<ServerShare>,
) -> RemoteRow {
    let seconds = loaded.took.as_secs_f64().max(f64::MIN_POSITIVE);
    let tiles = loaded.times.len() as f64;
    RemoteRow {
        token: target.token.clone(),
        channel: target.channel.clone(),
        plane: case.planes(),
        level: case.level,
        pattern: case.pattern,
        turn,
        clients,
        requests: loaded.requests,
        statuses: loaded.statuses,
        unanswered: loaded.unanswered,
        tiles_per_second: tiles / seconds,
        mb_per_second: loaded.bytes as f64 / seconds / 1e6,
        png_bytes: loaded.bytes as f64 / tiles.max(1.0),
        latency: Percentiles::of(loaded.times),
        seconds,
        client_micros: spent.as_secs_f64() * 1e6 / loaded.requests.max(1) as f64,
        server,
        problems: loaded.problems,
    }
}

/// The processor time of this process until now.
fn processor_time() -> Duration {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(spent.tv_sec.unsigned_abs(), spent.tv_nsec.unsigned_abs() as u32)
}

/// The server of a URL, and its mount if it names one.
fn address(url: &str) -> Result<(Client, Option<String>), String> {
    let client = Client::new(url).map_err(|e| e.to_string())?;
    let mut segments = client::path_of(url).split('/').skip(1).filter(|segment| !segment.is_empty());
    let mount = segments.next().map(str::to_owned);
    match (segments.next(), segments.next()) {
        (None | Some("tilecache"), None) => Ok((client, mount)),
        _ => Err(format!(
            "{url:?} is not the URL of a server: the host may be followed by a mount, as in {}/ndtilecache, and nothing else",
            client.base()
        )),
    }
}

fn below_mount(site: &SiteDescription, name: &str) -> Result<String, String> {
    let mount = site.mounts.iter().find(|mount| mount.tile_service == name);
    mount.map(MountDescription::tilecache).ok_or_else(|| {
        let names: Vec<&str> = site.mounts.iter().map(|mount| mount.tile_service.as_str()).collect();
        format!("the server has no tile service {name:?}; it has {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_name_a_mount_and_no_more() {
        let mount = |url: &str| address(url).map(|(_, mount)| mount);
        assert_eq!(mount("http://host:1"), Ok(None));
        assert_eq!(mount("host:1/"), Ok(None));
        assert_eq!(mount("localhost/ndtilecache"), Ok(Some("ndtilecache".to_owned())));
        assert_eq!(mount("https://host/a/tilecache/?x"), Ok(Some("a".to_owned())));
        assert_eq!(mount("unix:/run/a.sock"), Ok(None));
        assert_eq!(mount("unix:/run/a.sock:/b"), Ok(Some("b".to_owned())));
        for wrong in ["http://host/a/b", "http://host/a/tilecache/k", "ftp://host", ""] {
            assert!(mount(wrong).is_err(), "{wrong}");
        }
    }
}
