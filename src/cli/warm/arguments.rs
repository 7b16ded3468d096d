//! The arguments that select tiles.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::base::name::Name;
use crate::geometry::Plane;
use crate::tools::client;
use crate::tools::warm::{Channels, Extent, Numbers, Selection};

#[derive(Debug, Args)]
#[command(next_help_heading = "Which tiles")]
pub(super) struct Selecting {
    /// Datasets: A,B; default: all.
    #[arg(long, value_name = "TOKENS", value_delimiter = ',', value_parser = name)]
    token: Vec<Name>,
    /// Channels to render separately: em,seg. Or as a composite, with colours as in URLs:
    /// em:R,er:G. May be repeated. Default: each channel separately.
    #[arg(long, value_name = "CHANNELS")]
    channel: Vec<Channels>,
    /// xy, xz, yz, or all; default: xy.
    #[arg(long, value_name = "PLANES", value_delimiter = ',', value_parser = ["xy", "xz", "yz", "all"])]
    plane: Vec<String>,
    /// Levels: 0-2,4; default: all that a viewer uses.
    #[arg(long, value_name = "LEVELS")]
    level: Option<Numbers>,
    /// Slices, as numbered in URLs at each level: 0-99,200-,0-1000:10; default: all.
    #[arg(long, value_name = "SLICES")]
    slice: Option<Numbers>,
    /// Time points: 0-9; default: the first.
    #[arg(long, value_name = "TIMES")]
    time: Option<Numbers>,
    /// A part of the volume at all levels: X1-X2,Y1-Y2,Z1-Z2 in voxels of level 0, or with a unit
    /// at the end (0-10,0-10,1-2um). The second number of each pair is excluded; * is a whole axis.
    /// Positions include the offset, as slice numbers do.
    #[arg(long = "box", value_name = "BOX")]
    within: Option<Extent>,
}

/// What to warm, and from where.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Target {
    pub url: Option<String>,
    /// As they were typed, perhaps with credentials.
    pub files: Vec<PathBuf>,
    /// The token before a cutout.
    token: Option<Name>,
    cutout: Option<(u64, Extent)>,
}

impl Target {
    /// Distinguishes URLs, files, and the arguments of ndtilecache's prefetch.
    pub fn parse(texts: &[String]) -> Result<Self, String> {
        let mut target = Self::default();
        let mut texts = texts.iter().peekable();
        while let Some(text) = texts.next() {
            let is_before_cutout = texts
                .peek()
                .is_some_and(|next| Extent::cutout(next).is_some());
            if client::is_server(text) {
                if let Some(other) = target.url.replace(text.clone()) {
                    return Err(format!(
                        "{other} and {text} are two servers; warm one server at a time"
                    ));
                }
            } else if let Some((level, extent)) = Extent::cutout(text) {
                if target
                    .cutout
                    .replace((level, extent.not_empty(text)?))
                    .is_some()
                {
                    return Err(
                        "there is more than one cutout; warm one cutout at a time".to_owned()
                    );
                }
            } else {
                match Name::new(text)
                    .ok()
                    .filter(|_| is_before_cutout && !Path::new(text).exists())
                {
                    Some(token) => target.token = Some(token),
                    None => target.files.push(text.into()),
                }
            }
        }
        Ok(target)
    }
}

impl Selecting {
    pub fn selection(&self, target: &Target) -> Result<Selection, String> {
        let default = Selection::default();
        let (mut planes, mut levels, mut within) =
            (default.planes, self.level.clone(), self.within);
        if let Some((level, cutout)) = target.cutout {
            if levels.is_some() || within.is_some() {
                return Err(
                    "a cutout already selects levels and a part: omit --level and --box".to_owned(),
                );
            }
            // From its level to the coarsest, which ndtilecache excluded.
            (levels, within) = (Some(Numbers::from_first(level)), Some(cutout));
            planes = Plane::ALL.to_vec();
        }
        if !self.plane.is_empty() {
            let is_named = |plane: &Plane| {
                self.plane
                    .iter()
                    .any(|name| name == plane.name() || name == "all")
            };
            planes = Plane::ALL.into_iter().filter(is_named).collect();
        }
        Ok(Selection {
            tokens: self.token.iter().chain(&target.token).cloned().collect(),
            channels: self
                .channel
                .iter()
                .flat_map(|channels| channels.0.clone())
                .collect(),
            planes,
            levels: levels.unwrap_or(default.levels),
            slices: self.slice.clone().unwrap_or(default.slices),
            times: self.time.clone().unwrap_or(default.times),
            within,
        })
    }
}

/// The name of a dataset or a channel.
pub(in crate::cli) fn name(text: &str) -> Result<Name, String> {
    Name::new(text).map_err(|e| e.to_string())
}

/// Tiles per second.
pub(super) fn rate(text: &str) -> Result<f64, String> {
    let rate = text
        .parse::<f64>()
        .ok()
        .filter(|rate| rate.is_finite() && *rate >= 0.001);
    rate.ok_or_else(|| "expected a number of tiles per second, 0.001 or more".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(texts: &[&str]) -> Target {
        Target::parse(
            &texts
                .iter()
                .map(|text| (*text).to_owned())
                .collect::<Vec<_>>(),
        )
        .unwrap()
    }

    #[test]
    fn the_ancestors_arguments_are_known_among_files_and_addresses() {
        let ancestor = target(&["http://host:1", "kasthuri11", "1/0,512/0,512/1,10"]);
        assert_eq!(ancestor.token, Some(Name::new("kasthuri11").unwrap()));
        assert!(ancestor.url.is_some() && ancestor.files.is_empty() && ancestor.cutout.is_some());
        let files = target(&["a.h5", "/b/c.h5", "0/0,1/0,1/0,1/"]);
        assert_eq!(
            files.files,
            [PathBuf::from("a.h5"), PathBuf::from("/b/c.h5")]
        );
        let alone = target(&["kasthuri11"]);
        assert_eq!(
            (alone.token, alone.files),
            (None, vec![PathBuf::from("kasthuri11")])
        );
    }
}
