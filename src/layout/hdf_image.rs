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
//!
//! Example: a dataset of 3 × 480 × 640 with `IMAGE_TRUECOLOR` and `INTERLACE_PLANE` is a picture in
//! colour with the axes cyx.

use voltile_base::axes::{Axes, AxisName};
use voltile_base::notice::Notice;
use voltile_base::paint::{Kind, Window};
use voltile_hdf5::volume::Values;

use super::contents::About;
use super::marks::Marks;
use super::{Rank, range};

pub(super) fn marks(about: &About<'_>) -> Option<Marks> {
    let class = about.attributes.text("CLASS")?;
    if class.trim() == "PALETTE" {
        return Some(Marks {
            unlisted_as: Some("a palette"),
            ..Marks::default()
        });
    }
    if class.trim() != "IMAGE" {
        return None;
    }
    let mut marks = Marks {
        rank: Some(Rank::Declared),
        ..Marks::because(format!("{} has the attribute CLASS: IMAGE", about.path))
    };
    if let Some(origin) = about.attributes.text("DISPLAY_ORIGIN")
        && origin.trim() != "UL"
    {
        marks.notices.push(other_origin(origin.trim()));
    }
    let rank = about.dataset.shape.len();
    let subclass = about.attributes.text("IMAGE_SUBCLASS").unwrap_or_default();
    let is_true_colour = match subclass.trim() {
        "IMAGE_TRUECOLOR" => true,
        "" => about.is_colour(),
        _ => false,
    };
    if is_true_colour && matches!(rank, 3 | 4) {
        marks.kind = Some(Kind::Rgb);
        marks.axes = Some(colour_axes(about)?);
        return Some(marks);
    }
    if rank == 2 {
        marks.axes = Axes::new("yx").ok();
    }
    if subclass.trim() == "IMAGE_INDEXED" && rank == 2 {
        marks.values = palette(about).map(Values::palette);
        marks.kind = marks.values.as_ref().map(|_| Kind::Rgb);
    } else {
        marks.range = display_range(about);
        marks.is_inverted = about.attributes.flag("IMAGE_WHITE_IS_ZERO") == Some(true);
    }
    Some(marks)
}

fn display_range(about: &About<'_>) -> Option<Window> {
    match about.attributes.numbers("IMAGE_MINMAXRANGE")?[..] {
        [least, greatest] => range(least, greatest),
        _ => None,
    }
}

/// The notice about an image whose first pixel is not the upper left one.
fn other_origin(origin: &str) -> Notice {
    Notice::warning(format!(
        "its first pixel is to be displayed elsewhere than at the upper left (DISPLAY_ORIGIN is {origin}); it is shown as \
         stored, from top to bottom and from left to right"
    ))
}

/// The axes of a picture in colour, or of a stack of such pictures, if there are three or four
/// components.
fn colour_axes(about: &About<'_>) -> Option<Axes> {
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
    let model = about.file.attributes(&path).text("PAL_COLORMODEL");
    if model.is_some_and(|model| model.trim() != "RGB") {
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
    Some(components?.as_chunks::<3>().0.to_vec())
}
