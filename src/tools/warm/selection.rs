//! The selection of tiles to warm.

use std::str::FromStr;

use voltile_base::geometry::Plane;
use voltile_base::name::Name;
use voltile_base::request::ChannelChoice;

use super::numbers::Numbers;

/// The tiles to warm, as the user selects them.
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
}

/// The channels of one option: `em,seg` are two separate channels, `em:R,er:G` is a picture of two
/// channels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Channels(pub Vec<ChannelChoice>);

impl FromStr for Channels {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains(':') {
            let composite = ChannelChoice::composite(text).map_err(|e| e.to_string())?;
            return Ok(Self(vec![composite]));
        }
        let mut channels = Vec::new();
        for name in text.split(',') {
            let name = Name::new(name.trim()).map_err(|e| e.to_string())?;
            channels.push(ChannelChoice::One(name));
        }
        Ok(Self(channels))
    }
}
