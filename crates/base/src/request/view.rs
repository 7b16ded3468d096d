//! Requests of pages that choose how channels are shown:
//! `/view/TOKEN/LAYERS/PLANE/[TIME/]SLICE/ROW_COLUMN_LEVEL.png` or `.jpg`, the overview of a slice,
//! which is `small.png` in place of the tile's file name, and the range of what is visible,
//! `/view/TOKEN/CHANNEL/range.json?plane=&slice=&level=&box=[&time=]`.
//!
//! A layer is `CHANNEL:LO:HI:GAMMA:MAP`: a channel, and the changes to it that
//! [`adjustments`](super::adjustments) reads from a query. In place of a slice there may be a slab,
//! `FIRST-LAST.max`: the projection of several slices.

use std::ops::Range;

use percent_encoding::percent_decode_str;

use super::adjust::number as finite;
use super::malformed::{MAX_CHANNELS, Malformed};
use super::{
    Adjustment, ChannelChoice, FIRST_TILE, OVERVIEW, PNG, SlabRequest, TileRequest, VersionedToken,
    decoded_segments, digits, level_of, number, planar, plane_of, query_value,
};
use crate::color::Colour;
use crate::geometry::TileAddress;
use crate::name::Name;
use crate::paint::{Finite, Projection, TileFormat};

/// The literal first segment of these paths.
pub const VIEW: &str = "view";
/// The end of the file names of lossy tiles.
const JPEG: &str = ".jpg";
/// The file name of a range.
const RANGE: &str = "range.json";

/// A request below `/view/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ViewRequest {
    /// A tile: each layer has a colour and both limits.
    Tile(TileRequest, TileFormat),
    /// An overview of a slice or slab, given as a request for its first tile at level 0.
    Overview(TileRequest),
    /// The range of what is visible.
    Range(RangeRequest),
}

/// The values that a rectangle of a slice or slab shows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RangeRequest {
    /// The channel.
    pub channel: Name,
    /// The first tile of the slice or slab, of this channel.
    pub first_tile: TileRequest,
    /// The columns of the rectangle, in pixels of the level from the left edge of the first tile.
    /// Not empty, but may reach beyond the slice.
    pub columns: Range<u64>,
    /// The rows of the rectangle, in pixels of the level from the top edge of the first tile. Not
    /// empty, but may reach beyond the slice.
    pub rows: Range<u64>,
}

impl ViewRequest {
    /// Parses the rest of a path after `/view/`, and the query.
    pub fn parse(path: &str, query: &str) -> Result<Self, Malformed> {
        let segments = decoded_segments(path)?;
        let mut segments: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
        if let [token, channel, RANGE] = *segments {
            return range(token, channel, query).map(ViewRequest::Range);
        }
        let [_, list, _, .., slices, file] = segments.as_mut_slice() else {
            return Err(Malformed::ViewShape);
        };
        let (channels, adjust) = layers(list)?;
        let (first, slab) = slab_of(slices)?;
        *slices = first;
        // `planar` knows only the names of PNG tiles: an overview gets the name of the first tile,
        // and `1_2_3.jpg` becomes `1_2_3.png`.
        let png_name;
        let make_request: fn(TileRequest) -> Self = if *file == OVERVIEW {
            *file = FIRST_TILE;
            ViewRequest::Overview
        } else if let Some(stem) = file.strip_suffix(JPEG) {
            png_name = format!("{stem}{PNG}");
            *file = &png_name;
            |tile| ViewRequest::Tile(tile, TileFormat::Jpeg)
        } else {
            |tile| ViewRequest::Tile(tile, TileFormat::Png)
        };
        let tile = planar(&segments, |_| Ok(channels.clone())).map_err(|error| match error {
            Malformed::Shape => Malformed::ViewShape,
            other => other,
        })?;
        Ok(make_request(TileRequest {
            slab,
            adjust,
            ..tile
        }))
    }

    /// The dataset.
    pub fn token(&self) -> &VersionedToken {
        match self {
            ViewRequest::Tile(tile, _) | ViewRequest::Overview(tile) => &tile.token,
            ViewRequest::Range(range) => &range.first_tile.token,
        }
    }

    /// The media type of the answer.
    pub fn content_type(&self) -> &'static str {
        match self {
            ViewRequest::Tile(_, format) => format.content_type(),
            ViewRequest::Overview(_) => TileFormat::Png.content_type(),
            ViewRequest::Range(_) => "application/json",
        }
    }
}

/// The number of the first slice as text, and the rest of a slab: `10-20.max` is 10, and the
/// greatest values of the slices before 20; `10` is 10 and no slab.
fn slab_of(text: &str) -> Result<(&str, Option<SlabRequest>), Malformed> {
    let Some((first, rest)) = text.split_once('-') else {
        return Ok((text, None));
    };
    let wrong = || Malformed::Slab(text.to_owned());
    let (end, mode) = rest.split_once('.').ok_or_else(wrong)?;
    let end = digits(end).ok_or_else(wrong)?;
    let projection = Projection::from_name(mode).ok_or_else(wrong)?;
    if digits(first).is_none_or(|first| first >= end) {
        return Err(wrong());
    }
    Ok((first, Some(SlabRequest { end, projection })))
}

/// The channels of a list of layers, and how each is drawn.
fn layers(list: &str) -> Result<(ChannelChoice, Vec<Adjustment>), Malformed> {
    let count = list.split(',').count();
    if count > MAX_CHANNELS {
        return Err(Malformed::TooManyChannels(count));
    }
    let mut channels = Vec::with_capacity(count);
    let mut adjust = Vec::with_capacity(count);
    for item in list.split(',') {
        let (channel, adjustment) = layer(item).ok_or_else(|| Malformed::Layer(item.to_owned()))?;
        channels.push(channel);
        adjust.push(adjustment);
    }
    Ok(match channels.as_slice() {
        // Unlike a composite, the tile of one channel can be grey.
        [(name, _)] => (ChannelChoice::One(name.clone()), adjust),
        _ => (ChannelChoice::Composite(channels), adjust),
    })
}

/// Parses `CHANNEL:LO:HI:GAMMA:MAP`.
fn layer(item: &str) -> Option<((Name, Colour), Adjustment)> {
    let mut parts = item.split(':');
    let name = Name::new(parts.next()?).ok()?;
    let lo = finite(parts.next()?)?;
    let hi = finite(parts.next()?)?;
    let gamma = finite(parts.next()?).filter(|gamma| gamma.get() > 0.0)?;
    let colour = Colour::from_word(parts.next()?)?;
    // Not finite if gamma is very small.
    let exponent = Finite::new(1.0 / gamma.get())?;
    let adjust = Adjustment {
        colour: Some(colour),
        lo: Some(lo),
        hi: Some(hi),
        gamma: Some(exponent).filter(|exponent| exponent.get() != 1.0),
    };
    parts.next().is_none().then_some(((name, colour), adjust))
}

/// Parses a request for the range of what is visible.
fn range(token: &str, channel: &str, query: &str) -> Result<RangeRequest, Malformed> {
    let value_of = |parameter| {
        let value = query_value(query, parameter).unwrap_or_default();
        percent_decode_str(value).decode_utf8_lossy()
    };
    let slices = value_of("slice");
    let (slice, slab) = slab_of(&slices)?;
    let address = TileAddress {
        plane: plane_of(&value_of("plane"))?,
        level: level_of(number("level", &value_of("level"))?)?,
        slice: number("slice", slice)?,
        row: 0,
        column: 0,
    };
    let corners = value_of("box");
    let [columns, rows] = rectangle(&corners).ok_or_else(|| Malformed::Parameter {
        parameter: "box",
        value: corners.to_string(),
        expected: "x0,y0,x1,y1 in pixels of the level, each end above its start",
    })?;
    let time_text = Some(value_of("time")).filter(|text| !text.is_empty());
    let time = time_text.map(|text| number("time", &text)).transpose()?;
    let token = VersionedToken::new(token)?;
    let channel = Name::new(channel)?;
    let first_tile = TileRequest {
        token,
        channels: ChannelChoice::One(channel.clone()),
        time,
        address,
        slab,
        adjust: Vec::new(),
    };
    Ok(RangeRequest {
        channel,
        first_tile,
        columns,
        rows,
    })
}

/// Parses `x0,y0,x1,y1`; `None` if that is not a rectangle, or is empty.
fn rectangle(text: &str) -> Option<[Range<u64>; 2]> {
    let numbers = text.split(',').map(digits).collect::<Option<Vec<_>>>()?;
    let [x0, y0, x1, y1] = *numbers else {
        return None;
    };
    (x0 < x1 && y0 < y1).then_some([x0..x1, y0..y1])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tile(path: &str) -> Result<TileRequest, Malformed> {
        match ViewRequest::parse(path, "")? {
            ViewRequest::Tile(tile, TileFormat::Png) => Ok(tile),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_layer_has_limits_a_gamma_and_a_map() {
        let request = tile("brain/raw:-1.5:2e3:2:fire/xz/7/40/1_2_3.png").unwrap();
        assert_eq!(
            request.channels,
            ChannelChoice::One(Name::new("raw").unwrap())
        );
        assert_eq!(
            (request.time, request.address.slice, request.address.row),
            (Some(7), 40, 1)
        );
        let finite = Finite::new;
        let adjust = Adjustment {
            colour: Colour::from_word("fire"),
            lo: finite(-1.5),
            hi: finite(2000.0),
            gamma: finite(0.5),
        };
        assert_eq!(request.adjust, [adjust]);
        let both = tile("brain/a:0:1:1:grey,b:1:0:1:00ff00/xy/0/0_0_0.png").unwrap();
        assert!(matches!(both.channels, ChannelChoice::Composite(channels) if channels.len() == 2));
        assert!(both.adjust.iter().all(|adjust| adjust.gamma.is_none()));
    }

    #[test]
    fn what_is_no_layer_is_malformed() {
        for wrong in [
            "raw",
            "raw:0:1:1",
            "raw:0:1:1:pink",
            "raw:0:1:0:grey",
            "raw:0:1:-1:grey",
            "raw:0:1:1e-320:grey",
            "raw:NaN:1:1:grey",
            "raw::1:1:grey",
            "raw:0:inf:1:grey",
            "raw:0:1:1:grey:",
            "r w:0:1:1:grey",
            "",
            "raw:0:1:1:grey,",
        ] {
            let error = tile(&format!("brain/{wrong}/xy/0/0_0_0.png"));
            assert!(
                matches!(error, Err(Malformed::Layer { .. } | Malformed::ViewShape)),
                "{wrong}: {error:?}"
            );
        }
        let seven = ["raw:0:1:1:grey"; 7].join(",");
        assert!(matches!(
            tile(&format!("a/{seven}/xy/0/0_0_0.png")),
            Err(Malformed::TooManyChannels(7))
        ));
        for path in [
            "",
            "brain",
            "brain/raw:0:1:1:grey/xy/0_0_0.png",
            "a/raw:0:1:1:grey/xy/1/2/3/0_0_0.png",
        ] {
            assert!(matches!(tile(path), Err(Malformed::ViewShape)), "{path}");
        }
    }

    #[test]
    fn a_slab_ends_before_its_last_number_and_says_how_it_is_projected() {
        let slab = |end, projection| Some(SlabRequest { end, projection });
        for (text, first, expected) in [
            ("40", 40, None),
            ("40-72.max", 40, slab(72, Projection::Max)),
            ("0-1.min", 0, slab(1, Projection::Min)),
            ("007-0900.mean", 7, slab(900, Projection::Mean)),
        ] {
            let request = tile(&format!("brain/raw:0:1:1:grey/xz/7/{text}/1_2_3.png")).unwrap();
            assert_eq!((request.address.slice, request.slab), (first, expected));
            let query = format!("plane=xy&slice={text}&level=2&box=0,0,1,1");
            let Ok(ViewRequest::Range(range)) = ViewRequest::parse("brain/raw/range.json", &query)
            else {
                panic!("{query}")
            };
            let range = range.first_tile;
            assert_eq!((range.address.slice, range.slab), (first, expected));
            let path = format!("brain/raw:0:1:1:grey/xz/{text}/small.png");
            let Ok(ViewRequest::Overview(overview)) = ViewRequest::parse(&path, "") else {
                panic!("{path}")
            };
            assert_eq!((overview.address.slice, overview.slab), (first, expected));
        }
        for wrong in [
            "40-40.max",
            "41-40.max",
            "40-72",
            "40-72.max.png",
            "40-72.MAX",
            "40-72.median",
            "-72.max",
            "40-.max",
            "-40-72.max",
            "40-18446744073709551616.max",
        ] {
            let error = tile(&format!("brain/raw:0:1:1:grey/xy/{wrong}/0_0_0.png"));
            assert!(
                matches!(error, Err(Malformed::Slab { .. })),
                "{wrong}: {error:?}"
            );
        }
    }

    #[test]
    fn a_tile_may_be_a_jpeg() {
        let path = "brain/raw:0:1:1:grey/xz/40-72.max/1_2_3.jpg";
        let Ok(ViewRequest::Tile(request, TileFormat::Jpeg)) = ViewRequest::parse(path, "") else {
            panic!("{path}")
        };
        assert_eq!((request.address.row, request.address.column), (1, 2));
        for wrong in [
            "small.jpg",
            "1_2_3.jpg.png",
            "1_2_3.png.jpg",
            ".jpg",
            "1_2_3.jpeg",
        ] {
            let path = format!("brain/raw:0:1:1:grey/xz/40/{wrong}");
            let error = ViewRequest::parse(&path, "");
            assert!(matches!(error, Err(Malformed::File { .. })), "{error:?}");
        }
    }

    #[test]
    fn a_range_is_asked_for_by_a_query() {
        let query = "plane=xy&time=1&slice=40&level=2&box=0%2C5,10,7";
        let Ok(ViewRequest::Range(range)) = ViewRequest::parse("brain/raw/range.json", query)
        else {
            panic!()
        };
        assert_eq!(
            (range.columns, range.rows, range.first_tile.time),
            (0..10, 5..7, Some(1))
        );
        let address = range.first_tile.address;
        assert_eq!((address.slice, address.level.number()), (40, 2));
        for wrong in [
            "",
            "plane=xy&slice=0&level=0",
            "plane=zz&slice=0&level=0&box=0,0,1,1",
            "plane=xy&slice=0&level=0&box=0,0,0,1",
            "plane=xy&slice=-1&level=0&box=0,0,1,1",
            "plane=xy&slice=0&level=64&box=0,0,1,1",
            "plane=xy&slice=0&level=0&box=0,0,1",
        ] {
            assert!(
                ViewRequest::parse("brain/raw/range.json", wrong).is_err(),
                "{wrong}"
            );
        }
    }
}
