//! Requests tiles from a running server, over any number of connections.
//!
//! What can be requested comes from the server's own descriptions; from a server without any, such
//! as ndtilecache, tiles can still be requested by token, channel, level and bounds. If the server
//! has `/metrics`, they show what it did meanwhile. Note that load and server often share a
//! machine, and then compete for its cores.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::pattern::{Course, Pattern, cases};
use super::row::{Limits, RemoteRow, Turn};
use super::sample::Percentiles;
use super::server_work::ServerWork;
use super::target::Target;
use super::team::{Done, Team, Worker};
use crate::base::description::{DatasetDescription, MountDescription, SiteDescription};
use crate::base::request::TileRequest;
use crate::tools::client::{self, Client, Method};
use crate::tools::counts::Counts;

/// Requests in a row without a response after which a client assumes the server is gone.
const MAX_UNANSWERED: u32 = 3;

/// A server to request tiles from.
#[derive(Debug)]
pub struct Remote {
    client: Client,
    /// The prefix of tile paths.
    below: String,
    /// What it serves, or why it does not tell.
    datasets: Result<Vec<DatasetDescription>, String>,
    limits: Limits,
}

/// A client with a connection of its own, which is kept.
struct Caller<'a> {
    client: Client,
    /// The prefix of tile paths.
    below: &'a str,
    /// The body of the last response, whose memory is used again.
    body: Vec<u8>,
    unanswered_in_a_row: u32,
}

impl Worker for Caller<'_> {
    fn work(&mut self, request: &TileRequest, done: &mut Done) -> Result<(), String> {
        let path = format!("{}/{request}", self.below);
        match self
            .client
            .request_into(std::mem::take(&mut self.body), &Method::GET, &path, &[])
        {
            Ok(answer) => {
                self.unanswered_in_a_row = 0;
                *done.statuses.entry(answer.status).or_default() += 1;
                if answer.status != 200 {
                    return Err(answer.problem());
                }
                done.png_bytes += answer.body.len() as u64;
                self.body = answer.body;
                Ok(())
            }
            Err(error) => {
                done.unanswered += 1;
                self.unanswered_in_a_row += 1;
                if self.has_given_up() {
                    done.gone = Some(error.clone());
                }
                Err(error)
            }
        }
    }

    fn has_given_up(&self) -> bool {
        self.unanswered_in_a_row >= MAX_UNANSWERED
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
}

impl Remote {
    /// The server at a URL, which may include the mount that tile paths start with.
    ///
    /// # Errors
    /// If the URL is invalid, or nothing responds there.
    pub fn new(url: &str, limits: Limits) -> Result<Self, NotReached> {
        let (client, mount) = address(url).map_err(NotReached::Address)?;
        // Any response shows that the server is running.
        client.get("/healthz").map_err(NotReached::Silent)?;
        let site = client.description();
        let below = match (&site, mount) {
            (Ok(site), None) => site.tilecache(),
            (Ok(site), Some(mount)) => below_mount(site, &mount).map_err(NotReached::Address)?,
            (Err(_), mount) => {
                mount.map(|mount| format!("/{mount}")).unwrap_or_default() + "/tilecache"
            }
        };
        Ok(Self {
            client,
            below,
            datasets: site.map(|site| site.datasets),
            limits,
        })
    }

    /// What it serves.
    ///
    /// # Errors
    /// It does not describe its datasets.
    pub fn datasets(&self) -> Result<Vec<DatasetDescription>, String> {
        self.datasets.clone()
    }

    /// The scheme and host.
    pub fn base(&self) -> &str {
        self.client.base()
    }

    /// What to know when reading the rows.
    pub fn remarks(&self) -> Vec<String> {
        let here = "the server is on this machine, and shares its CPU cores with the clients";
        let here = self.client.is_here().then(|| here.to_owned());
        let undescribed = self.datasets.as_ref().err().map(|why| {
            format!("the server gave no description; requesting the tiles named on the command line ({why})")
        });
        undescribed.into_iter().chain(here).collect()
    }

    /// Requests the tiles of a channel: every pattern with each number of clients, twice. `watch`
    /// receives each row as soon as it is measured. Returns why the server no longer responds, if
    /// it does not.
    ///
    /// # Errors
    /// Those of `watch`.
    pub fn measure<E>(
        &self,
        target: &Target,
        patterns: &[Pattern],
        clients: &[NonZeroUsize],
        seed: u64,
        mut watch: impl FnMut(RemoteRow) -> Result<(), E>,
    ) -> Result<Option<String>, E> {
        let gone = |problem| {
            Ok(Some(format!(
                "the server at {} no longer responds: {problem}",
                self.base()
            )))
        };
        for (turn, clients) in clients.iter().enumerate() {
            // Each number of clients requests different tiles, not requested before.
            let caller = |_| Caller {
                client: self.client.another(),
                below: &self.below,
                body: Vec::new(),
                unanswered_in_a_row: 0,
            };
            let mut team = match Team::new((0..clients.get()).map(caller)) {
                Ok(team) => team,
                Err(error) => return gone(error.to_string()),
            };
            for case in cases(
                target,
                patterns,
                self.limits.tiles,
                seed.wrapping_add(turn as u64),
            ) {
                let mut tiles = case.tiles.as_slice();
                for turn in [Turn::First, Turn::Again] {
                    let (row, problem) = self.row(&mut team, &case.course, turn, tiles);
                    tiles = &tiles[..(row.requests as usize).clamp(1, tiles.len())];
                    watch(row)?;
                    if let Some(problem) = problem {
                        return gone(problem);
                    }
                }
            }
        }
        Ok(None)
    }

    /// The row of one turn, and why a client gave up.
    fn row(
        &self,
        team: &mut Team<'_>,
        course: &Course,
        turn: Turn,
        requests: &[TileRequest],
    ) -> (RemoteRow, Option<String>) {
        let is_once = turn == Turn::First || course.pattern == Pattern::Sweep;
        let most = if is_once { requests.len() } else { usize::MAX };
        let read_counts =
            || Counts::read(&self.client).filter(|counts| counts.get("renders").is_some());
        let (before, spent, began) = (read_counts(), processor_time(), Instant::now());
        team.round(requests, most, began + self.limits.time);
        let seconds = began.elapsed().as_secs_f64().max(f64::MIN_POSITIVE);
        let spent = processor_time().saturating_sub(spent);
        let growth = before.and_then(|before| read_counts()?.since(&before));
        let done = team.take();
        let tiles = done.times.len() as f64;
        let count = (done.times.len() + done.failed) as u64;
        let row = RemoteRow {
            course: course.clone(),
            turn,
            clients: team.threads(),
            requests: count,
            statuses: done.statuses,
            unanswered: done.unanswered,
            tiles_per_second: tiles / seconds,
            mb_per_second: done.png_bytes as f64 / seconds / 1e6,
            png_bytes: done.png_bytes as f64 / tiles.max(1.0),
            latency: Percentiles::new(done.times),
            seconds,
            client_micros: spent.as_secs_f64() * 1e6 / count.max(1) as f64,
            server: growth.map(|growth| ServerWork::new(&growth)),
            problems: done.problems,
        };
        (row, done.gone)
    }
}

/// The processor time of this process until now.
fn processor_time() -> Duration {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        spent.tv_sec.unsigned_abs(),
        spent.tv_nsec.unsigned_abs() as u32,
    )
}

/// The server of a URL, and its mount if it names one.
fn address(url: &str) -> Result<(Client, Option<String>), String> {
    let client = Client::new(url)?;
    let mut segments = client::path_of(url)
        .split('/')
        .skip(1)
        .filter(|segment| !segment.is_empty());
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
        let names: Vec<&str> = site
            .mounts
            .iter()
            .map(|mount| mount.tile_service.as_str())
            .collect();
        format!(
            "the server has no tile service {name:?}; it has {}",
            names.join(", ")
        )
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
        assert_eq!(
            mount("localhost/ndtilecache"),
            Ok(Some("ndtilecache".to_owned()))
        );
        assert_eq!(
            mount("https://host/a/tilecache/?x"),
            Ok(Some("a".to_owned()))
        );
        assert_eq!(mount("unix:/run/a.sock"), Ok(None));
        assert_eq!(mount("unix:/run/a.sock:/b"), Ok(Some("b".to_owned())));
        for wrong in [
            "http://host/a/b",
            "http://host/a/tilecache/k",
            "ftp://host",
            "",
        ] {
            assert!(mount(wrong).is_err(), "{wrong}");
        }
    }
}
