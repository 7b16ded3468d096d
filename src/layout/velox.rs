//! Velox EMD (Thermo Fisher electron microscopes): `/Data/Image/<hash>/Data`.
//!
//! Source: the readers of `RosettaSciIO` and Bio-Formats; Thermo Fisher's format is not published.
//! A dataset is (row, column, frame). Next to it, each column of `Metadata` is the JSON of a frame:
//! the detector's name, after which the channel is named, and the size of a pixel.
//!
//! Example: `/Data/Image/2f3a/Data` of 1024 × 1024 × 1, next to `Metadata` with the `DetectorName`
//! "HAADF" and a `PixelSize` of "2e-9" in the units "m", is the channel `HAADF` with the axes yxt
//! and pixels of 2e-9 × 2e-9 m.

use serde_json::Value;
use voltile_base::axes::{Axes, AxisName};
use voltile_base::notice::Notice;

use super::contents::About;
use super::marks::Marks;
use super::spacing::Spacing;

const IMAGES: &str = "/Data/Image/";

pub(super) fn marks(about: &About<'_>) -> Option<Marks> {
    let hash = about.path.strip_prefix(IMAGES)?.strip_suffix("/Data")?;
    if hash.contains('/') || about.rank() != 3 {
        return None;
    }
    let axes = Axes::from_known([AxisName::Y, AxisName::X, AxisName::T]);
    let metadata = metadata(about);
    let notice = metadata.is_none().then(|| {
        Notice::warning(
            "it has no Metadata, or its Metadata is not JSON; its detector and voxel size are unknown",
        )
    });
    let metadata = metadata.unwrap_or_default();
    let detector = detector(&metadata);
    Some(Marks {
        because: Some(format!("it has {}", about.path)),
        // A name with a slash would count as a path.
        named_by: detector.map(|name| name.replace('/', "_")),
        label: detector.map(str::to_owned),
        notices: notice.into_iter().collect(),
        ..Marks::from_spacings(axes, &about.dataset.shape, |axis, _| {
            spacing(&metadata, axis)
        })
    })
}

/// The JSON of the first frame, after which its column is filled with zeros.
fn metadata(about: &About<'_>) -> Option<Value> {
    let table = about.file.dataset(&about.beside("Metadata")).ok()?;
    let bytes = table.first_column()?;
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    serde_json::from_slice(&bytes[..end]).ok()
}

/// The spacing along x or y: the size of a pixel. Most files have numbers as texts.
fn spacing(metadata: &Value, axis: AxisName) -> Option<Spacing> {
    let (name, unit) = match axis {
        AxisName::X => ("width", "PixelUnitX"),
        _ => ("height", "PixelUnitY"),
    };
    let result = &metadata["BinaryResult"];
    let size = &result["PixelSize"][name];
    let step = size
        .as_f64()
        .or_else(|| size.as_str()?.trim().parse().ok())?;
    Some(Spacing::new(step, None, Some(result[unit].as_str()?)))
}

/// The name of the image's detector: by its index in the list of detectors, else as the image
/// states it.
fn detector(metadata: &Value) -> Option<&str> {
    listed_detector(metadata)
        .or_else(|| metadata["BinaryResult"]["Detector"].as_str())
        .map(str::trim)
        .filter(|name| !name.is_empty())
}

/// The name in the list of detectors: `HAADF` for the index 1, if `Detector-1` is called so.
fn listed_detector(metadata: &Value) -> Option<&str> {
    let index = match &metadata["BinaryResult"]["DetectorIndex"] {
        Value::Null => return None,
        Value::String(text) => text.clone(),
        number => number.to_string(),
    };
    metadata["Detectors"][format!("Detector-{index}")]["DetectorName"].as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metadata_name_the_detector_and_give_the_size_of_a_pixel() {
        let metadata = serde_json::json!({
            "BinaryResult": {"DetectorIndex": "1", "Detector": "other", "PixelUnitX": "m", "PixelUnitY": "m",
                "PixelSize": {"width": "2e-9", "height": "3e-9"}},
            "Detectors": {"Detector-0": {"DetectorName": "BF"}, "Detector-1": {"DetectorName": "HAADF"}},
        });
        assert_eq!(detector(&metadata), Some("HAADF"));
        let step = |axis| spacing(&metadata, axis).map(|spacing| spacing.step);
        assert_eq!(
            (step(AxisName::X), step(AxisName::Y)),
            (Some(2e-9), Some(3e-9))
        );
        assert_eq!(
            detector(&serde_json::json!({"BinaryResult": {"Detector": "Ceta"}})),
            Some("Ceta")
        );
        assert_eq!(
            (detector(&Value::Null), spacing(&Value::Null, AxisName::X)),
            (None, None)
        );
    }
}
