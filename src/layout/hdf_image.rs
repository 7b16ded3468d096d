//! The HDF5 Image and Palette Specification: datasets with the attribute `CLASS` of `IMAGE` or
//! `PALETTE`.
//!
//! Source: The HDF Group, "HDF5 Image and Palette Specification", version 1.2. `IMAGE_SUBCLASS`
//! says what an image holds: colours (`IMAGE_TRUECOLOR`), whose components are where
//! `INTERLACE_MODE` says; indices into a palette (`IMAGE_INDEXED`), to which `PALETTE` refers; or
//! intensities (`IMAGE_GRAYSCALE`). Palettes are red, green, blue in bytes, a row for each index;
//! other colour models are not known here.

use voltile_base::axes::Axes;
use voltile_base::paint::Kind;
use voltile_hdf5::volume::Values;

use super::contents::About;
use super::marks::Marks;
use super::{Layout, Rank};

pub(super) struct HdfImage;

impl Layout for HdfImage {
    fn marks(&self, about: &About<'_>) -> Option<Marks> {
        let text = |name| {
            about
                .attributes
                .text(name)
                .map(|text| text.trim().to_owned())
        };
        match text("CLASS")?.as_str() {
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
        let marks = Marks {
            rank: Some(Rank::Declared),
            ..Marks::because(because)
        };
        let marks = match (text("IMAGE_SUBCLASS")?.as_str(), about.rank()) {
            ("IMAGE_TRUECOLOR", 3) => Marks {
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
            ("IMAGE_GRAYSCALE" | "IMAGE_BITMAP", 2) => Marks {
                axes: Axes::new("yx").ok(),
                ..marks
            },
            _ => marks,
        };
        Some(marks).filter(|marks| marks.kind != Some(Kind::Rgb) || marks.axes.is_some())
    }
}

/// The axes of an image of colours, if there are three or four components.
fn interlaced(about: &About<'_>) -> Option<Axes> {
    let mode = about.attributes.text("INTERLACE_MODE");
    let letters = match mode.as_deref().map(str::trim) {
        Some("INTERLACE_LINE") => "ycx",
        Some("INTERLACE_PLANE") => "cyx",
        _ => "yxc",
    };
    let components = about.dataset.shape.get(letters.find('c')?)?;
    matches!(components, 3 | 4)
        .then(|| Axes::new(letters).ok())
        .flatten()
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
    let component = |value: &u64| u8::try_from(*value).ok();
    let components: Vec<u8> = table.ids()?.iter().map(component).collect::<Option<_>>()?;
    Some(
        components
            .chunks_exact(3)
            .map(|colour| [colour[0], colour[1], colour[2]])
            .collect(),
    )
}
