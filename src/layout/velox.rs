//! Velox EMD (Thermo Fisher electron microscopes): `/Data/Image/<hash>/Data`.
//!
//! Source: the readers of `RosettaSciIO` and Bio-Formats; Thermo Fisher's format is not published. A dataset
//! is (row, column, frame). The pixel size is in JSON next to it and is not read, because it lacks z.

use super::contents::{About, Contents};
use super::marks::Marks;
use super::{FoundChannel, Layout, plain};
use crate::axes::{Axes, AxisName};
use crate::volume::hdf5::OpenError;

const NAME: &str = "Velox EMD";
const IMAGES: &str = "/Data/Image";

pub(super) struct Velox;

impl Layout for Velox {
    fn name(&self) -> &'static str {
        NAME
    }

    fn marks(&self, about: &About<'_>) -> Option<Marks> {
        let hash = about.path.strip_prefix(IMAGES)?.strip_prefix('/')?.strip_suffix("/Data")?;
        let is_image = !hash.contains('/') && about.rank() == 3;
        is_image.then(|| Marks {
            axes: Some(Axes::from_known([AxisName::Y, AxisName::X, AxisName::T])),
            ..Marks::because(format!("it has {IMAGES}/{hash}/Data"))
        })
    }

    fn recognise(&self, contents: &Contents<'_>) -> Option<String> {
        let is_likely = contents.root().iter().any(|name| name == "Data") && contents.file.has(IMAGES);
        is_likely.then(|| contents.marked_by(NAME)).flatten()
    }

    fn channels(&self, contents: &Contents<'_>) -> Result<Vec<FoundChannel>, OpenError> {
        plain::channels(contents, |volume| volume.marked_by(NAME).is_some())
    }
}
