//! The metadata of OME-Zarr, without the version: 0.4 and 0.5 write it in different places.

use serde_json::{Value, json};
use voltile_base::geometry::{Affine, Xyz};
use voltile_base::name::Name;
use voltile_base::timing::Timing;
use voltile_base::units::{MICROMETRE, in_nanometres};

use super::omero;
use crate::catalog::{ArrayLevel, Multiscale, NotFound, ZarrImage};

/// The attribute of groups, beside the attributes of OME-Zarr, for facts that OME-Zarr cannot
/// express.
pub(super) const OWN: &str = "voltile";
/// The transform of an image counts as scale and translation if, divided by the voxel size, each of
/// its factors differs from that of the identity by at most this.
const MAX_DEVIATION: f64 = 1e-3;

/// The metadata of an image's group.
pub(super) fn image(image: &ZarrImage) -> Value {
    let arrays = image.multiscale();
    let name = image.name().as_str();
    let mut value = json!({"multiscales": [multiscale(&arrays, name)]});
    if let Some(omero) = omero::metadata(&arrays, name) {
        value["omero"] = omero;
    }
    add_own(&mut value, &arrays);
    // Where data cannot be shown, chunks have the fill value; the notices tell readers why.
    let errors: Vec<_> = image.errors().collect();
    if !errors.is_empty() {
        value[OWN]["notices"] = json!(errors);
    }
    value
}

/// The metadata of the group of label images.
pub(super) fn labels(image: &ZarrImage) -> Result<Value, NotFound> {
    let names: Vec<&str> = image.labels().map(Name::as_str).collect();
    if names.is_empty() {
        Err(NotFound::Other("the image has no labels".to_owned()))
    } else {
        Ok(json!({"labels": names}))
    }
}

/// The metadata of a label image's group.
pub(super) fn label(arrays: &Multiscale<'_>, name: &str) -> Value {
    let label = json!({"source": {"image": "../../"}});
    let mut value = json!({"multiscales": [multiscale(arrays, name)], "image-label": label});
    add_own(&mut value, arrays);
    value
}

/// Adds the affine transform from indices of level 0 to space, if scale and translation do not
/// express it. As in OME-Zarr 0.6, it has a row for each spatial axis: a factor for each spatial
/// axis, and the shift; all in the order of the array's axes.
fn add_own(value: &mut Value, arrays: &Multiscale<'_>) {
    let space = ImageSpace::new(arrays);
    let Some(transform) = space.transform else {
        return;
    };
    let unscaled = transform.divided(space.voxel);
    if unscaled.only_moves(Xyz::all(MAX_DEVIATION)) {
        return;
    }
    let has_z = arrays.axes.has_z;
    let rows = transform.rows().map(|[x, y, z, shift]| {
        let factors = spatial([x, y, z].map(Value::from), has_z);
        [factors, vec![shift.into()]].concat().into()
    });
    let affine = spatial(rows, has_z);
    value[OWN] = json!({"coordinateTransformations": [{"type": "affine", "affine": affine}]});
}

/// Values of the spatial axes, in the order of the array's axes.
fn spatial([x, y, z]: [Value; 3], has_z: bool) -> Vec<Value> {
    if has_z { vec![z, y, x] } else { vec![y, x] }
}

fn multiscale(arrays: &Multiscale<'_>, name: &str) -> Value {
    let space = ImageSpace::new(arrays);
    let datasets: Vec<Value> = arrays
        .levels
        .iter()
        .map(|level| dataset(arrays, level, &space))
        .collect();
    json!({"name": name, "axes": axes(arrays, &space), "datasets": datasets})
}

/// Where the voxels of an image lie.
pub(super) struct ImageSpace {
    /// The size of a voxel of level 0, in `unit`.
    pub voxel: Xyz<f64>,
    pub unit: Option<&'static str>,
    /// From indices of level 0 to space, in `unit`.
    transform: Option<Affine>,
    /// The seconds between time points, if they are evenly spaced.
    step: Option<f64>,
}

impl ImageSpace {
    /// The unit is nanometres if the file's unit is smaller than micrometres, else micrometres. A
    /// size without a known unit is kept, for the ratios between its axes.
    pub fn new(arrays: &Multiscale<'_>) -> Self {
        let first = arrays.first();
        let step = first.facts.timing.as_ref().and_then(Timing::even_step);
        let stated = arrays.dataset.voxel_size(first);
        let (voxel, unit) = stated.unwrap_or((Xyz::all(1.0), None));
        let (factor, unit) = match unit.as_deref().and_then(in_nanometres) {
            None => (1.0, None),
            Some(nanometres) if nanometres < MICROMETRE => (nanometres, Some("nanometer")),
            Some(nanometres) => (nanometres / MICROMETRE, Some("micrometer")),
        };
        let transform = arrays
            .transform()
            .map(|transform| transform.in_unit(factor));
        Self {
            voxel: voxel.map(|size| size * factor),
            unit,
            transform,
            step,
        }
    }
}

fn axes(arrays: &Multiscale<'_>, space: &ImageSpace) -> Vec<Value> {
    let mut axes = Vec::new();
    for letter in arrays.axes.letters() {
        let (kind, unit) = match letter {
            't' => ("time", space.step.map(|_| "second")),
            'c' => ("channel", None),
            _ => ("space", space.unit),
        };
        let mut axis = json!({"name": letter, "type": kind});
        if let Some(unit) = unit {
            axis["unit"] = unit.into();
        }
        axes.push(axis);
    }
    axes
}

/// A level with its transformations. Coordinates are those of voxel centres: at a factor of 4, the
/// first voxel stands for voxels 0 to 3 of level 0, and its centre is at 1.5.
fn dataset(arrays: &Multiscale<'_>, level: &ArrayLevel, space: &ImageSpace) -> Value {
    let scale = level
        .factor
        .map(|factor| factor as f64)
        .zip(space.voxel, |factor, voxel| factor * voxel);
    let centre = level.factor.map(|factor| (factor - 1) as f64 / 2.0);
    let translation = match space.transform {
        Some(transform) => transform.apply(centre),
        None => arrays
            .position()
            .zip(centre, |offset, centre| offset as f64 + centre)
            .zip(space.voxel, |centre, voxel| centre * voxel),
    };
    let axes = arrays.axes;
    // Time points that are not evenly spaced count as steps of 1.
    let step = space.step.unwrap_or(1.0);
    let scale = axes.chosen(step, 1.0, [scale.z, scale.y, scale.x]);
    let translation = axes.chosen(0.0, 0.0, [translation.z, translation.y, translation.x]);
    json!({
        "path": level.level.number().to_string(),
        "coordinateTransformations": [
            {"type": "scale", "scale": scale},
            {"type": "translation", "translation": translation},
        ],
    })
}
