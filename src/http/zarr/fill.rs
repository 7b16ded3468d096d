//! Fill values in JSON, the same in Zarr v2 and v3.

use serde_json::{Number, Value, json};
use voltile_hdf5::volume::{Samples, Voxel, VoxelType, with_samples};

/// The value of chunks that do not exist, as Zarr writes it; 0 if the fill value is unknown,
/// because then all chunks exist.
pub(super) fn value(fill: Option<&Samples>, voxel: VoxelType) -> Value {
    match fill {
        Some(Samples::F32(values)) => real(values.first().copied().map_or(0.0, f64::from)),
        Some(Samples::F64(values)) => real(values.first().copied().unwrap_or_default()),
        Some(other) => {
            let whole =
                with_samples!(other, voxels => voxels.first().map_or(0, |voxel| voxel.to_whole()));
            integer(whole, voxel)
        }
        None => integer(0, voxel),
    }
}

/// A whole number; true or false for booleans.
fn integer(whole: i128, voxel: VoxelType) -> Value {
    if voxel == VoxelType::Bool {
        json!(whole != 0)
    } else {
        Number::from_i128(whole).map_or(json!(0), Value::Number)
    }
}

/// A floating-point number. JSON cannot express NaN and infinities: Zarr writes them as strings.
fn real(value: f64) -> Value {
    match value {
        value if value.is_nan() => json!("NaN"),
        f64::INFINITY => json!("Infinity"),
        f64::NEG_INFINITY => json!("-Infinity"),
        value => json!(value),
    }
}
