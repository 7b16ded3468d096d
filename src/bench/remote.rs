//! Tiles had from a running server, over as many connections as are wanted.
//!
//! What there is to ask for comes from the server's own descriptions; of a server that has none, as the ancestor
//! (ndtilecache) does not, tiles can still be asked for that somebody names by token, channel, level and bounds. Where it
//! has `/metrics`, they tell what it did meanwhile. The odd thing: load and server often share a machine, and then share
//! its processors.

mod load;
mod share;
mod told;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use serde::Serialize;

use super::pattern::{Case, Pattern, cases};
use super::row::Limits;
use super::sample::Percentiles;
use super::target::Target;
use crate::verify::{Client, Served, ask};

use load::{Load, Loaded};
pub use share::{ServerSeconds, ServerShare};
pub use told::told;

/// A server that tiles are had from.
#[derive(Debug)]
pub struct Remote {
    client: Client,
    /// What stands before a tile's path.
    below: String,
    targets: Vec<Target>,
    limits: Limits,
}

/// How often the tiles were asked for before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Turn {
    /// Never, by us.
    First,
    /// Just now: the server may have kept them.
    Again,
}

impl Turn {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Turn::First => "first",
            Turn::Again => "again",
        }
    }
}

/// What came of asking for the tiles of one pattern.
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
    /// The order in which tiles were asked for.
    pub pattern: Pattern,
    /// Whether they were asked for just before.
    pub turn: Turn,
    /// How many connections there were, each with one request at a time.
    pub clients: usize,
    /// How many requests were sent.
    pub requests: u64,
    /// How many answers there were of each status.
    pub statuses: BTreeMap<u16, u64>,
    /// How many requests had no answer, or a broken one.
    pub unanswered: u64,
    /// Tiles (answers of status 200) in a second.
    pub tiles_per_second: f64,
    /// Millions of bytes of PNGs in a second.
    pub mb_per_second: f64,
    /// The mean length of a PNG in bytes.
    pub png_bytes: f64,
    /// The time from a request to the last byte of a tile, in milliseconds.
    pub latency: Percentiles,
    /// How long it took altogether, in seconds.
    pub seconds: f64,
    /// What the server says it did meanwhile, for all its clients.
    pub server: Option<ServerShare>,
    /// What was wrong with the first few requests that failed.
    pub problems: Vec<String>,
}

impl RemoteRow {
    /// Requests that no tile came of.
    pub fn failed(&self) -> u64 {
        self.requests - self.statuses.get(&200).copied().unwrap_or(0)
    }
}

/// Why a server cannot be measured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotReached {
    /// The address is not one of a server, or names something that it has not.
    #[error("{0}")]
    Address(String),
    /// Nothing answers there.
    #[error("{0}")]
    Silent(String),
    /// What answers does not describe what it serves.
    #[error("{0}")]
    Undescribed(String),
}

/// The server does not answer any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the server at {base} does not answer any more: {problem}")]
pub struct Gone {
    /// The server's address.
    pub base: String,
    /// What the last request failed of.
    pub problem: String,
}

impl Remote {
    /// The server at an address, which may name the mount below which tiles are.
    ///
    /// # Errors
    /// Where the address is wrong, nothing answers there, or it does not describe what it serves.
    pub fn described(url: &str, limits: Limits) -> Result<Self, NotReached> {
        let (client, mount) = address(url).map_err(NotReached::Address)?;
        // Whatever it answers, it is there.
        client.get("/healthz").map_err(NotReached::Silent)?;
        let served = ask(&client, &[]).map_err(NotReached::Undescribed)?;
        let below = match mount {
            None => served.tilecache(),
            Some(mount) => below_mount(&served, &mount).map_err(NotReached::Address)?,
        };
        let targets = served.datasets.iter().flat_map(Target::served).collect();
        Ok(Self { client, below, targets, limits })
    }

    /// The same of a server that describes nothing: its mount is that of the address, or none.
    ///
    /// # Errors
    /// Where the address is wrong.
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

    /// Asks for the tiles of a channel: every pattern by so many clients each, twice. `watch` is told each row as it is
    /// there.
    ///
    /// # Errors
    /// Where the server does not answer any more. What it answered until then has been told.
    pub fn measure(
        &self,
        target: &Target,
        patterns: &[Pattern],
        clients: &[NonZeroUsize],
        seed: u64,
        mut watch: impl FnMut(RemoteRow),
    ) -> Result<(), Gone> {
        for (turn, clients) in clients.iter().enumerate() {
            // Each number of clients asks for tiles of its own, which the server has not been asked for before.
            let mut load = Load::new(self.client.host(), *clients);
            for case in cases(target, patterns, self.limits.tiles, seed.wrapping_add(turn as u64)) {
                self.rows(&mut load, target, &case, &mut watch)?;
            }
        }
        Ok(())
    }

    fn rows(
        &self,
        load: &mut Load,
        target: &Target,
        case: &Case,
        watch: &mut impl FnMut(RemoteRow),
    ) -> Result<(), Gone> {
        let path = |tile| format!("{}/{}", self.below, target.path(tile));
        let mut paths: Vec<String> = case.tiles.iter().map(path).collect();
        for turn in [Turn::First, Turn::Again] {
            let before = ServerShare::ask(&self.client);
            let loaded = match (turn, case.pattern) {
                (Turn::First, _) | (_, Pattern::Sweep) => load.once(&paths, self.limits.time),
                (Turn::Again, _) => load.again(&paths, self.limits.time),
            };
            let server = before.and_then(|before| ServerShare::ask(&self.client)?.since(&before));
            paths.truncate((loaded.requests as usize).max(1));
            let gone = loaded.gone.clone();
            watch(row(target, case, turn, load.clients(), loaded, server));
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
        server,
        problems: loaded.problems,
    }
}

/// The server of an address, and the mount that it names.
fn address(url: &str) -> Result<(Client, Option<String>), String> {
    let client = Client::new(url).map_err(|e| e.to_string())?;
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = rest.split(['?', '#']).next().unwrap_or_default();
    let mut segments = path.split('/').skip(1).filter(|segment| !segment.is_empty());
    let mount = segments.next().map(str::to_owned);
    match (segments.next(), segments.next()) {
        (None | Some("tilecache"), None) => Ok((client, mount)),
        _ => Err(format!(
            "{url:?} is not the address of a server: behind the host there may be a mount, as in {}/ndtilecache, and no more",
            client.base()
        )),
    }
}

fn below_mount(served: &Served, mount: &str) -> Result<String, String> {
    let names: Vec<&str> = served.mounts.iter().map(|mount| mount.tile_service.as_str()).collect();
    if names.contains(&mount) {
        return Ok(format!("/{mount}/tilecache"));
    }
    Err(format!("the server has no tile service {mount:?}; there is {}", names.join(", ")))
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
        assert_eq!(mount("http://host/a/tilecache/?x"), Ok(Some("a".to_owned())));
        for wrong in ["http://host/a/b", "http://host/a/tilecache/k", "https://host", ""] {
            assert!(mount(wrong).is_err(), "{wrong}");
        }
    }
}
