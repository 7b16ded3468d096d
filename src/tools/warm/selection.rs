//! What to warm: tokens, channels, planes, levels, slices, times, a part of the volume.

use std::str::FromStr;

use super::extent::Extent;
use super::numbers::Numbers;
use crate::base::name::Name;
use crate::base::request::ChannelChoice;
use crate::geometry::Plane;

/// The selection.
#[derive(Debug, Clone, PartialEq)]
pub struct Selection {
    /// The datasets; empty: all.
    pub tokens: Vec<Name>,
    /// The channels, alone or composited; empty: each separately.
    pub channels: Vec<ChannelChoice>,
    /// The planes.
    pub planes: Vec<Plane>,
    /// The levels.
    pub levels: Numbers,
    /// The slices, numbered as in URLs at each level.
    pub slices: Numbers,
    /// The time points.
    pub times: Numbers,
    /// The part of the volume.
    pub within: Option<Extent>,
}

impl Default for Selection {
    /// Every channel of every dataset separately, in xy, all levels and slices, at the first time
    /// point.
    fn default() -> Self {
        Self {
            tokens: Vec::new(),
            channels: Vec::new(),
            planes: vec![Plane::Xy],
            levels: Numbers::all(),
            slices: Numbers::all(),
            times: Numbers::single(0),
            within: None,
        }
    }
}

/// The channels of one option: `em,seg` are two separate ones, `em:R,er:G` two in one picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Channels(pub Vec<ChannelChoice>);

impl FromStr for Channels {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains(':') {
            let composite = ChannelChoice::composite(text).map_err(|e| e.to_string())?;
            return Ok(Self(vec![composite]));
        }
        let channel = |name: &str| {
            Name::new(name.trim())
                .map(ChannelChoice::One)
                .map_err(|e| e.to_string())
        };
        text.split(',')
            .map(channel)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}
