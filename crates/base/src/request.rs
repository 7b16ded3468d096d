//! A well-formed tile request, not yet known to exist: the common result of all URL forms.
//!
//! Parsing knows the grammar of paths and nothing of datasets. Errors are [`Malformed`], which
//! clients get as a 404. Repeated slashes are merged; the path is split before its segments are
//! percent-decoded.

mod adjust;
mod boxes;
mod malformed;
mod precomputed;
mod view;
mod zarr;

use std::borrow::Cow;
use std::fmt;

use percent_encoding::percent_decode_str;

pub use adjust::{Adjustment, adjustments};
pub use boxes::{BoxRequest, VOXELS};
use malformed::MAX_CHANNELS;
pub use malformed::Malformed;
pub use precomputed::{
    NEUROGLANCER, PrecomputedChunk, PrecomputedFile, PrecomputedVolume, SEGMENT_PROPERTIES,
};
pub use view::{RangeRequest, VIEW, ViewRequest};
pub use zarr::{
    LABELS, OME_ZARR, REFERENCES, ZARR, ZarrChunk, ZarrDocument, ZarrNode, ZarrPart, ZarrRequest,
    ZarrVersion,
};

use crate::color::Colour;
use crate::geometry::{Level, Plane, TileAddress, Xyz};
use crate::name::{Name, NotAName};
use crate::paint::Projection;

/// The literal second segment of every tile path.
const TILECACHE: &str = "tilecache";
/// The literal first segment of composites; reserved, so no token may have this name.
pub const MCFC: &str = "mcfc";
/// The literal first segment of the tiled-viewer form; reserved, so no token may have this name.
pub const VIKING: &str = "viking";
/// The file name under which CATMAID requests the thumbnail of a slice, next to the slice's tiles.
const OVERVIEW: &str = "small.png";
/// The end of the file names of tiles.
const PNG: &str = ".png";
/// The file name of the first tile of a slice, which stands for the slice.
const FIRST_TILE: &str = "0_0_0.png";
/// Separates a token and a version.
const VERSION: char = '@';

/// A dataset as it is named in a path: `TOKEN` is any version of the dataset, `TOKEN@VERSION` only
/// this one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct VersionedToken {
    /// The token.
    pub token: Name,
    /// The version that the dataset must have, if it matters; not yet known to exist.
    pub version: Option<Name>,
}

impl VersionedToken {
    /// Parses a segment of a path.
    pub fn new(segment: &str) -> Result<Self, NotAName> {
        match segment.split_once(VERSION) {
            Some((token, version)) => Ok(Self {
                token: Name::new(token)?,
                version: Some(Name::new(version)?),
            }),
            None => Ok(Name::new(segment)?.into()),
        }
    }
}

impl From<Name> for VersionedToken {
    fn from(token: Name) -> Self {
        Self {
            token,
            version: None,
        }
    }
}

impl fmt::Display for VersionedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.version {
            Some(version) => write!(f, "{}{VERSION}{version}", self.token),
            None => self.token.fmt(f),
        }
    }
}

/// A tile, requested by name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TileRequest {
    /// The dataset.
    pub token: VersionedToken,
    /// The channels to show.
    pub channels: ChannelChoice,
    /// The time point, if the path has one.
    pub time: Option<u64>,
    /// The tile's address.
    pub address: TileAddress,
    /// The rest of a slab that begins at the slice of the address; `None` for a single slice.
    pub slab: Option<SlabRequest>,
    /// Changes to how channels are drawn, by channel position; usually empty.
    pub adjust: Vec<Adjustment>,
}

/// The slices of a slab, after the first, and how they become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SlabRequest {
    /// One more than the number of the last slice, in slices of the level; greater than the number
    /// of the first slice.
    pub end: u64,
    /// How the voxels along the normal of the plane become one.
    pub projection: Projection,
}

/// The channels a tile shows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ChannelChoice {
    /// One channel as it is.
    One(Name),
    /// One to six channels, each in a colour, summed.
    Composite(Vec<(Name, Colour)>),
}

impl ChannelChoice {
    /// Parses the channels of a composite as written in its path: `NAME:COLOUR,NAME:COLOUR`. The
    /// default colour of a channel depends on its position.
    pub fn composite(list: &str) -> Result<Self, Malformed> {
        let count = list.split(',').count();
        if count > MAX_CHANNELS {
            return Err(Malformed::TooManyChannels(count));
        }
        list.split(',')
            .zip(Colour::BY_POSITION)
            .map(|(item, colour)| composite_item(item, colour))
            .collect::<Result<_, _>>()
            .map(ChannelChoice::Composite)
    }

    /// The names of the channels.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        let (one, several) = match self {
            ChannelChoice::One(name) => (Some(name), &[][..]),
            ChannelChoice::Composite(channels) => (None, channels.as_slice()),
        };
        one.into_iter().chain(several.iter().map(|(name, _)| name))
    }
}

impl fmt::Display for ChannelChoice {
    /// As written in a path.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChannelChoice::One(name) => name.fmt(f),
            ChannelChoice::Composite(channels) => {
                let items: Vec<String> = channels
                    .iter()
                    .map(|(name, colour)| format!("{name}:{colour}"))
                    .collect();
                f.write_str(&items.join(","))
            }
        }
    }
}

impl fmt::Display for TileRequest {
    /// The path below a mount's `tilecache`, without adjustments.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(self.channels, ChannelChoice::Composite(_)) {
            write!(f, "{MCFC}/")?;
        }
        let address = &self.address;
        write!(f, "{}/{}/{}/", self.token, self.channels, address.plane)?;
        if let Some(time) = self.time {
            write!(f, "{time}/")?;
        }
        write!(f, "{}", address.slice)?;
        if let Some(SlabRequest { end, projection }) = self.slab {
            write!(f, "-{end}.{}", projection.name())?;
        }
        let level = address.level.number();
        write!(f, "/{}_{}_{level}.png", address.row, address.column)
    }
}

/// The first segment of a path, and what follows it.
pub fn first_segment(path: &str) -> (&str, &str) {
    let path = path.trim_start_matches('/');
    path.split_once('/').unwrap_or((path, ""))
}

/// A path split at its slashes: the mount's name, and the segments after `tilecache`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TilePath<'a> {
    /// The first segment.
    pub tile_service: &'a str,
    segments: Vec<Cow<'a, str>>,
}

impl<'a> TilePath<'a> {
    /// Splits the path of a URL; `None` unless it starts with `/{tile_service}/tilecache`.
    pub fn split(path: &'a str) -> Option<Result<Self, Malformed>> {
        let mut raw = path.split('/').filter(|segment| !segment.is_empty());
        let tile_service = raw.next()?;
        if raw.next()? != TILECACHE {
            return None;
        }
        // Long enough for nearly every path: to grow, it would take the allocator's lock, which all
        // threads share.
        let mut segments = Vec::with_capacity(8);
        for segment in raw {
            match decode(segment) {
                Ok(segment) => segments.push(segment),
                Err(malformed) => return Some(Err(malformed)),
            }
        }
        Some(Ok(Self {
            tile_service,
            segments,
        }))
    }

    /// Whether it requests a slice's thumbnail: `small.png` in place of a tile's file name.
    pub fn is_overview(&self) -> bool {
        self.segments.last().is_some_and(|file| file == OVERVIEW)
            && self.segments.first().is_some_and(|first| first != VIKING)
    }

    /// Parses the request for a slice's thumbnail, as a request for the slice's first tile.
    pub fn overview(&self) -> Result<TileRequest, Malformed> {
        let mut segments: Vec<&str> = self.segments.iter().map(AsRef::as_ref).collect();
        segments.pop();
        segments.push(FIRST_TILE);
        tile_request(&segments)
    }

    /// Parses the segments after `tilecache` as a tile request.
    pub fn request(&self) -> Result<TileRequest, Malformed> {
        tile_request(&self.segments.iter().map(AsRef::as_ref).collect::<Vec<_>>())
    }
}

/// Parses the segments after `tilecache`.
fn tile_request(segments: &[&str]) -> Result<TileRequest, Malformed> {
    match segments {
        [MCFC, rest @ ..] => planar(rest, ChannelChoice::composite),
        [VIKING, rest @ ..] => viking(rest),
        rest => planar(rest, |name| Ok(ChannelChoice::One(Name::new(name)?))),
    }
}

/// The segments of a path, percent-decoded.
fn decoded_segments(path: &str) -> Result<Vec<Cow<'_, str>>, Malformed> {
    let segments = path.split('/').filter(|segment| !segment.is_empty());
    segments.map(decode).collect()
}

/// A segment of a path, percent-decoded.
fn decode(segment: &str) -> Result<Cow<'_, str>, Malformed> {
    let decoded = percent_decode_str(segment).decode_utf8();
    decoded.map_err(|_| Malformed::Encoding(segment.to_owned()))
}

/// `TOKEN/CHANNELS/PLANE/[TIME/]SLICE/ROW_COLUMN_LEVEL.png`, the form shared by simple and mcfc
/// paths.
fn planar(
    segments: &[&str],
    channels: impl Fn(&str) -> Result<ChannelChoice, Malformed>,
) -> Result<TileRequest, Malformed> {
    let (token, choice, plane, time, slice, file) = match *segments {
        [token, choice, plane, slice, file] => (token, choice, plane, None, slice, file),
        [token, choice, plane, time, slice, file] => {
            (token, choice, plane, Some(time), slice, file)
        }
        _ => return Err(Malformed::Shape),
    };
    let [row, column, level] = file_numbers(file, ["", "", ""], "ROW_COLUMN_LEVEL.png")?;
    let address = TileAddress {
        plane: plane_of(plane)?,
        level: level_of(level)?,
        slice: number("slice", slice)?,
        row,
        column,
    };
    let time = time.map(|text| number("time", text)).transpose()?;
    Ok(TileRequest {
        token: VersionedToken::new(token)?,
        channels: channels(choice)?,
        time,
        address,
        slab: None,
        adjust: Vec::new(),
    })
}

/// `TOKEN/volume/CHANNEL/LEVEL/XCOLUMN_YROW_ZSLICE.png`: the xy plane at the first time point.
fn viking(segments: &[&str]) -> Result<TileRequest, Malformed> {
    let [token, volume, channel, level, file] = *segments else {
        return Err(Malformed::Shape);
    };
    if volume != "volume" {
        return Err(Malformed::Volume(volume.to_owned()));
    }
    let [column, row, slice] = file_numbers(file, ["X", "Y", "Z"], "XCOLUMN_YROW_ZSLICE.png")?;
    let level = level_of(number("level", level)?)?;
    let address = TileAddress {
        plane: Plane::Xy,
        level,
        slice,
        row,
        column,
    };
    let channels = ChannelChoice::One(Name::new(channel)?);
    let token = VersionedToken::new(token)?;
    Ok(TileRequest {
        token,
        channels,
        time: None,
        address,
        slab: None,
        adjust: Vec::new(),
    })
}

/// Parses `NAME:COLOUR`; the colour may be left out, then it is that of the position.
fn composite_item(item: &str, by_position: Colour) -> Result<(Name, Colour), Malformed> {
    let wrong = || Malformed::ChannelItem(item.to_owned());
    let (name, colour) = item.split_once(':').unwrap_or((item, ""));
    let colour = if colour.is_empty() {
        by_position
    } else {
        Colour::from_text(colour).ok_or_else(wrong)?
    };
    Ok((Name::new(name).map_err(|_| wrong())?, colour))
}

/// The three numbers of a file name, each after its prefix, joined by underscores, before `.png`.
fn file_numbers(
    file: &str,
    prefixes: [&str; 3],
    expected: &'static str,
) -> Result<[u64; 3], Malformed> {
    let wrong = || Malformed::File {
        file: file.to_owned(),
        expected,
    };
    let stem = file.strip_suffix(PNG).ok_or_else(wrong)?;
    let mut parts = stem.split('_');
    let mut numbers = [0; 3];
    for (prefix, value) in prefixes.into_iter().zip(&mut numbers) {
        let part = parts.next().and_then(|part| part.strip_prefix(prefix));
        *value = part.and_then(digits).ok_or_else(wrong)?;
    }
    if parts.next().is_some() {
        Err(wrong())
    } else {
        Ok(numbers)
    }
}

/// Parses `X_Y_Z`, the ranges of a box along the axes; `None` if one of the ranges is missing or
/// cannot be parsed, or if there are more than three.
fn ranges<T>(text: &str, range: impl Fn(&str) -> Option<T>) -> Option<Xyz<T>> {
    let mut parsed = text.split('_').map(range);
    let along_axes = Xyz::new(parsed.next()??, parsed.next()??, parsed.next()??);
    parsed.next().is_none().then_some(along_axes)
}

fn level_of(level: u64) -> Result<Level, Malformed> {
    Level::new(level).ok_or(Malformed::Level(level))
}

fn plane_of(name: &str) -> Result<Plane, Malformed> {
    Plane::from_name(name).ok_or_else(|| Malformed::Plane(name.to_owned()))
}

/// The first value of a parameter in a query, as it is written there.
fn query_value<'q>(query: &'q str, parameter: &str) -> Option<&'q str> {
    query
        .split('&')
        .find_map(|pair| pair.strip_prefix(parameter)?.strip_prefix('='))
}

fn number(what: &'static str, text: &str) -> Result<u64, Malformed> {
    digits(text).ok_or_else(|| Malformed::Number {
        what,
        text: text.to_owned(),
    })
}

/// A number of ASCII digits only; leading zeros are allowed, signs and overflow are not.
pub fn digits(text: &str) -> Option<u64> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests;
