//! dclab's files of deformability cytometry (`.rtdc`): `/events/image` and `/events/mask`, a frame
//! for each event.
//!
//! Source: the documentation of dclab, "DC data file format specification". The root's attribute
//! `imaging:pixel size` is the edge of a pixel in micrometres. The other datasets of `/events` are
//! no images: a feature is a list with a number for each event, and `/events/trace` holds the
//! signals of each event. There may be fewer masks than images.
//!
//! Example: `/events/image` of 5000 × 80 × 250, in a file whose `imaging:pixel size` is 0.34, is an
//! image with 5000 time points (axes tyx) and pixels of 0.34 × 0.34 µm.

use voltile_base::axes::{Axes, AxisName};
use voltile_base::notice::Notice;

use super::Rank;
use super::contents::About;
use super::marks::Marks;
use super::spacing::Spacing;

const IMAGE: &str = "/events/image";
const MASK: &str = "/events/mask";

pub(super) fn marks(about: &About<'_>) -> Option<Marks> {
    if !about.path.starts_with("/events/") {
        return None;
    }
    let edge = about.file.attributes("/").number("imaging:pixel size")?;
    if about.rank() != 3 {
        return Some(Marks {
            rank: Some(Rank::Beside),
            ..Marks::default()
        });
    }
    let axes = Axes::from_known([AxisName::T, AxisName::Y, AxisName::X]);
    let pixel = Spacing::new(edge, None, Some("µm"));
    let in_space = Marks::from_spacings(axes, &about.dataset.shape, |_, _| Some(pixel.clone()));
    let is_image = about.path == IMAGE;
    let labels = Marks::labels_if(about.path == MASK, "it is the mask of dclab");
    Some(Marks {
        because: is_image.then(|| format!("it has {IMAGE} and the attribute imaging:pixel size")),
        rank: is_image.then_some(Rank::Declared),
        notices: other_length(about).into_iter().collect(),
        ..labels.or(in_space)
    })
}

/// A notice if a dataset does not have as many frames as there are images.
fn other_length(about: &About<'_>) -> Option<Notice> {
    let frames = *about.dataset.shape.first()?;
    let images = *about.file.dataset(IMAGE).ok()?.shape.first()?;
    (frames != images).then(|| {
        Notice::warning(format!(
            "it has {frames} frames, and the image {images}: they belong together by number"
        ))
    })
}
