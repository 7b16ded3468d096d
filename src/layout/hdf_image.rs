//! The HDF5 Image and Palette Specification: datasets with the attribute `CLASS` of `IMAGE` or
//! `PALETTE`.
//!
//! Source: The HDF Group, "HDF5 Image and Palette Specification", version 1.2. `IMAGE_SUBCLASS`
//! says what an image holds: colours (`IMAGE_TRUECOLOR`), whose components are where
//! `INTERLACE_MODE` says; indices into a palette (`IMAGE_INDEXED`), to which `PALETTE` refers; or
//! intensities (`IMAGE_GRAYSCALE`). Four axes of colours are a stack of pictures. Without a
//! subclass, three or four bytes along the last axis are a colour, as in h5web. `IMAGE_MINMAXRANGE`
//! is the range to be displayed, which `IMAGE_WHITE_IS_ZERO` inverts. `DISPLAY_ORIGIN` is not
//! applied. Palettes are red, green, blue in bytes, a row for each index; other colour models are
//! not known here.

use voltile_base::axes::{Axes, AxisName};
use voltile_base::notice::Notice;
use voltile_base::paint::Kind;
use voltile_hdf5::volume::Values;

use super::contents::About;
use super::marks::Marks;
use super::{Layout, Rank, range};

pub(super) struct HdfImage;

impl Layout for HdfImage {
    fn marks(&self, about: &About<'_>) -> Option<Marks> {
        match about.attributes.text("CLASS")?.trim() {
            "PALETTE" => {
                return Some(Marks {
                    aside: Some("a palette"),
                    ..Marks::default()
                });
            }
            "IMAGE" => {}
            _ => return None,
        }
        let because = format!("{} has the attribute CLASS: IMAGE", about.path);
        let origin = about.attributes.text("DISPLAY_ORIGIN");
        let other = origin
            .as_deref()
            .map(str::trim)
            .filter(|origin| *origin != "UL");
        let marks = Marks {
            rank: Some(Rank::Declared),
            notices: other.map(other_origin).into_iter().collect(),
            ..Marks::because(because)
        };
        let limits = about.attributes.numbers("IMAGE_MINMAXRANGE");
        let range = limits.and_then(|limits| match *limits {
            [least, greatest] => range(least, greatest),
            _ => None,
        });
        let is_inverted = about.attributes.flag("IMAGE_WHITE_IS_ZERO") == Some(true);
        let subclass = about.attributes.text("IMAGE_SUBCLASS").unwrap_or_default();
        let marks = match (subclass.trim(), about.dataset.shape.len()) {
            ("IMAGE_TRUECOLOR", 3 | 4) => Marks {
                kind: Some(Kind::Rgb),
                axes: interlaced(about),
                ..marks
            },
            ("", 3 | 4) if about.is_colour() => Marks {
                kind: Some(Kind::Rgb),
                axes: interlaced(about),
                ..marks
            },
            ("IMAGE_INDEXED", 2) => {
                let colours = palette(about).map(Values::palette);
                let kind = colours.as_ref().map(|_| Kind::Rgb);
                Marks {
                    kind,
                    values: colours,
                    axes: Axes::new("yx").ok(),
                    ..marks
                }
            }
            (_, rank) => Marks {
                axes: Axes::new("yx").ok().filter(|_| rank == 2),
                range,
                is_inverted,
                ..marks
            },
        };
        Some(marks).filter(|marks| marks.kind != Some(Kind::Rgb) || marks.axes.is_some())
    }
}

/// The notice about an image whose first pixel is not the upper left one.
fn other_origin(origin: &str) -> Notice {
    Notice::warning(format!(
        "its first pixel is to be displayed elsewhere than at the upper left (DISPLAY_ORIGIN is {origin}); it is shown as \
         stored, from top to bottom and from left to right"
    ))
}

/// The axes of an image of colours, or of a stack of them, if there are three or four components.
fn interlaced(about: &About<'_>) -> Option<Axes> {
    let mode = about.attributes.text("INTERLACE_MODE");
    let letters = match mode.as_deref().map(str::trim) {
        Some("INTERLACE_LINE") => "ycx",
        Some("INTERLACE_PLANE") => "cyx",
        _ => "yxc",
    };
    let sections = if about.dataset.shape.len() == 4 {
        "z"
    } else {
        ""
    };
    let axes = Axes::new(&format!("{sections}{letters}")).ok()?;
    let components = about.dataset.shape.get(axes.position(AxisName::C)?)?;
    matches!(components, 3 | 4).then_some(axes)
}

/// The colours of the first palette.
fn palette(about: &About<'_>) -> Option<Vec<[u8; 3]>> {
    let path = about.dataset.referenced("PALETTE")?;
    let attributes = about.file.attributes(&path)?;
    if attributes
        .text("PAL_COLORMODEL")
        .is_some_and(|model| model.trim() != "RGB")
    {
        return None;
    }
    let table = about.file.dataset(&path).ok()?;
    if table.shape.last() != Some(&3) {
        return None;
    }
    let components: Option<Vec<u8>> = table
        .ids()?
        .iter()
        .map(|value| u8::try_from(*value).ok())
        .collect();
    Some(
        components?
            .chunks_exact(3)
            .map(|colour| [colour[0], colour[1], colour[2]])
            .collect(),
    )
}
