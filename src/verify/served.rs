//! The part of `/datasets.json` that the checks need.

use serde::Deserialize;

use super::client::Client;

/// The datasets and mounts of a server.
#[derive(Debug, Deserialize)]
pub struct Served {
    pub(crate) mounts: Vec<Mount>,
    pub(crate) datasets: Vec<Dataset>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Mount {
    pub tile_service: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Dataset {
    pub token: String,
    pub offset: [i64; 3],
    pub channels: Vec<Channel>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Channel {
    pub name: String,
    pub kind: Option<String>,
    pub times: Option<u64>,
    pub levels: Vec<Level>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Level {
    pub level: u8,
    pub size: [u64; 3],
    pub factor: [u64; 3],
    pub drawn: [[u64; 2]; 3],
    pub planes: Vec<String>,
}

/// Requests the description; keeps only the given tokens, or all if none is given.
pub(crate) fn ask(client: &Client, tokens: &[String]) -> Result<Served, String> {
    let answer = client.get("/datasets.json")?.found()?;
    let mut served: Served =
        serde_json::from_slice(&answer.body).map_err(|e| answer.wrong(format!("it cannot be read: {e}")))?;
    if let Some(unknown) = tokens.iter().find(|token| served.datasets.iter().all(|d| d.token != **token)) {
        return Err(answer.wrong(format!("there is no dataset {unknown:?}")));
    }
    served.datasets.retain(|dataset| tokens.is_empty() || tokens.contains(&dataset.token));
    match (served.mounts.is_empty(), served.datasets.is_empty()) {
        (true, _) => Err(answer.wrong("no mount is served")),
        (_, true) => Err(answer.wrong("no dataset is served")),
        _ => Ok(served),
    }
}

impl Served {
    /// The prefix of tile paths on the first mount.
    pub(crate) fn tilecache(&self) -> String {
        let mount = self.mounts.first().map_or("", |mount| mount.tile_service.as_str());
        format!("/{mount}/tilecache")
    }
}

impl Dataset {
    /// The number of a slice in the middle of a level, along an axis (0 is x).
    pub fn middle(&self, level: &Level, axis: usize) -> Option<u64> {
        let (offset, factor) = (self.offset.get(axis)?, i64::try_from(*level.factor.get(axis)?).ok()?);
        let first = offset.checked_div_euclid(factor)?;
        (level.size.get(axis)? / 2).checked_add_signed(first)
    }
}
