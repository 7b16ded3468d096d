//! Fill values in JSON, the same in Zarr v2 and v3.

use serde_json::{Value, json};
use voltile_hdf5::volume::{Samples, Voxel, VoxelType, with_samples};

/// The value of chunks that do not exist, as Zarr writes it; 0 if it is unknown, and then all
/// chunks exist.
pub(super) fn value(fill: Option<&Samples>, voxel: VoxelType) -> Value {
    let is_bool = voxel == VoxelType::Bool;
    match fill {
        Some(Samples::F32(values)) => real(values.first().copied().map_or(0.0, f64::from)),
        Some(Samples::F64(values)) => real(values.first().copied().unwrap_or_default()),
        Some(other) => {
            let value =
                with_samples!(other, voxels => voxels.first().map_or(0, |voxel| voxel.to_whole()));
            if is_bool {
                json!(value != 0)
            } else {
                integer(value)
            }
        }
        None if is_bool => json!(false),
        None => json!(0),
    }
}

fn integer(value: i128) -> Value {
    match u64::try_from(value) {
        Ok(value) => json!(value),
        Err(_) => json!(i64::try_from(value).unwrap_or_default()),
    }
}

fn real(value: f64) -> Value {
    match value {
        value if value.is_nan() => json!("NaN"),
        f64::INFINITY => json!("Infinity"),
        f64::NEG_INFINITY => json!("-Infinity"),
        value => json!(value),
    }
}
