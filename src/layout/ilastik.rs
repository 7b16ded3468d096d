//! ilastik: the attribute `axistags`, on data at any path (`/data`, `/exported_data`,
//! `/volume/data`, …).
//!
//! Source: ilastik's "Import/Export" documentation and vigra's `AxisTags.toJSON`. The tags are
//! JSON: axes in storage order, each with its `resolution` (0 if unknown); `axis_units` has their
//! units. `drange` is the range of the data, and the display range of floats; `display_mode` is how
//! ilastik shows them. Exported probabilities have one channel per class. Integers are labels if
//! ilastik shows them in random colours, or if the file has the name that ilastik gives to exported
//! labels: `<name>_Object Identities.h5`, `<name>_Simple Segmentation.h5`, ….
//!
//! Example: `/exported_data` in `cells_Object Identities.h5`, with tags for z, y, x of the
//! `resolution` 30, 6, 6 and the `axis_units` nm, has the axes zyx, voxels of 6 × 6 × 30 nm (x × y
//! × z), and holds labels.

use serde_json::Value;
use voltile_base::axes::{Axes, AxisName};
use voltile_base::notice::Notice;
use voltile_base::paint::{Kind, Window};

use super::contents::About;
use super::marks::Marks;
use super::spacing::{Spacing, in_one_unit};
use super::{VoxelSize, range};

/// The results of workflows that hold labels, as ilastik writes them at the end of the names of
/// exported files.
const LABELS: [&str; 5] = [
    "Object Identities",
    "Simple Segmentation",
    "Object Predictions",
    "Multicut Segmentation",
    "Tracking Result",
];

pub(super) fn marks(about: &About<'_>) -> Option<Marks> {
    let tags = about.attributes.text("axistags")?;
    let tags: Value = serde_json::from_str(&tags).unwrap_or_default();
    let Some(axes) = axes(&tags) else {
        let notice = Notice::warning(
            "its attribute axistags does not list axes as ilastik writes them; its axes are guessed",
        );
        return Some(Marks {
            notices: vec![notice],
            ..Marks::default()
        });
    };
    let units = about
        .attributes
        .text("axis_units")
        .and_then(|json| serde_json::from_str(&json).ok());
    let labels = labels_because(about).map(Marks::labels).unwrap_or_default();
    Some(Marks {
        because: Some(format!("{} has the attribute axistags", about.path)),
        kind: labels.kind.or_else(|| colour(about, &axes)),
        voxel: voxel_size(&tags, &units.unwrap_or_default()),
        range: display_range(about),
        axes: Some(axes),
        ..labels
    })
}

/// The keys of vigra's axis tags, in storage order: tyx for
/// `{"axes": [{"key": "t"}, {"key": "y"}, {"key": "x"}]}`.
fn axes(tags: &Value) -> Option<Axes> {
    let axes = tags["axes"].as_array()?.iter();
    let keys: Option<String> = axes.map(|axis| axis["key"].as_str()).collect();
    Axes::new(&keys?).ok()
}

/// The resolutions along x, y and z; differing units are converted to nanometres.
fn voxel_size(tags: &Value, units: &Value) -> Option<VoxelSize> {
    let axes = tags["axes"].as_array()?;
    let [x, y, z] = ["x", "y", "z"].map(|letter| {
        let axis = axes.iter().find(|axis| axis["key"] == letter)?;
        let step = axis["resolution"].as_f64()?;
        Some(Spacing::new(step, None, units[letter].as_str()))
    });
    let [x, y, z] = in_one_unit([x?, y?, z?])?;
    VoxelSize::xyz(&[x.step, y.step, z.step], x.unit.as_deref())
}

/// Why a dataset holds labels; `None` if nothing says so.
fn labels_because(about: &About<'_>) -> Option<String> {
    if !about.is_integer() {
        return None;
    }
    if about.attributes.text("display_mode").as_deref() == Some("random-colortable") {
        return Some("display_mode is random-colortable".to_owned());
    }
    let stem = about.file.location().stem()?;
    exported_labels(&stem).map(|result| format!("its file is named {result}"))
}

/// The result in [`LABELS`] that a file is named after: `Object Identities` for
/// `cells_Object Identities`.
fn exported_labels(stem: &str) -> Option<&'static str> {
    let stem = letters(stem);
    LABELS
        .into_iter()
        .find(|result| stem.ends_with(&letters(result)))
}

/// The letters and digits of a text, in lower case.
fn letters(text: &str) -> String {
    text.chars()
        .filter(char::is_ascii_alphanumeric)
        .collect::<String>()
        .to_ascii_lowercase()
}

/// [`Kind::Rgb`] if ilastik shows the dataset as a picture in colour.
fn colour(about: &About<'_>, axes: &Axes) -> Option<Kind> {
    let components = axes
        .position(AxisName::C)
        .and_then(|position| about.dataset.shape.get(position));
    let is_colour = about.attributes.text("display_mode").as_deref() == Some("rgba");
    (is_colour && matches!(components, Some(3 | 4))).then_some(Kind::Rgb)
}

fn display_range(about: &About<'_>) -> Option<Window> {
    if !about.is_integer()
        && let Some([lo, hi]) = about.attributes.numbers("drange").as_deref()
        && lo < hi
    {
        return range(*lo, *hi);
    }
    match about.attributes.text("display_mode")?.as_str() {
        "binary-mask" => range(0.0, 1.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axistags_are_read_in_stored_order() {
        let read =
            |json: &str| axes(&serde_json::from_str(json).unwrap()).map(|axes| axes.to_string());
        let json = r#"{"axes":[{"key":"t","typeFlags":8},{"key":"y"},{"key":"x"}]}"#;
        assert_eq!(read(json).as_deref(), Some("tyx"));
        assert_eq!(read("{}"), None);
    }

    #[test]
    fn exported_labels_are_recognised_by_their_file() {
        for name in [
            "2d3c_Object Identities",
            "smallVideoSimpleSegmentation",
            "a_Object-Identities",
        ] {
            assert!(exported_labels(name).is_some(), "{name}");
        }
        for name in ["2d_Probabilities", "Simple Segmentation training data"] {
            assert_eq!(exported_labels(name), None, "{name}");
        }
    }

    #[test]
    fn resolutions_are_voxel_sizes_if_all_are_known() {
        let tags = |z: f64| {
            serde_json::json!({"axes": [{"key": "z", "resolution": z}, {"key": "y", "resolution": 4.0},
            {"key": "x", "resolution": 5.0}]})
        };
        let size = |z, units| voxel_size(&tags(z), &units).map(|voxel| (voxel.size, voxel.unit));
        let (same, mixed) = (
            serde_json::json!({"x": "nm", "y": "nm", "z": "nm"}),
            serde_json::json!({"x": "nm", "y": "nm", "z": "µm"}),
        );
        assert_eq!(
            size(40.0, same),
            Some((
                voltile_base::geometry::Xyz::new(5.0, 4.0, 40.0),
                Some("nm".to_owned())
            ))
        );
        assert_eq!(
            size(0.04, mixed),
            Some((
                voltile_base::geometry::Xyz::new(5.0, 4.0, 40.0),
                Some("nm".to_owned())
            ))
        );
        assert_eq!(
            size(40.0, Value::Null),
            Some((voltile_base::geometry::Xyz::new(5.0, 4.0, 40.0), None))
        );
        assert_eq!(size(0.0, Value::Null), None);
    }
}
