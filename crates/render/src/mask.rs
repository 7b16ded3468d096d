//! Missing pixels: which voxels of a field stand for missing data.

use voltile_hdf5::volume::{Missing, Samples, Voxel, with_samples};

/// The voxels of a field that stand for missing data, besides NaN.
pub(super) struct MissingMask<'a> {
    /// The values that stand for missing data; `None` in a field of means, where a mean may equal
    /// one of these values by chance.
    pub values: Option<&'a Missing>,
    /// The indices of missing voxels in the field, in ascending order.
    pub places: Vec<usize>,
}

impl MissingMask<'_> {
    /// Whether a voxel of the field is missing.
    pub fn has<T: Voxel>(&self, place: usize, voxel: T) -> bool {
        let is_value = self.values.is_some_and(|values| values.has(voxel));
        is_value || voxel.to_f64().is_nan() || self.places.binary_search(&place).is_ok()
    }

    /// Fills `opacity` with 0 for each missing voxel of the field and 255 for every other voxel;
    /// clears it if no voxel is missing.
    pub fn opacity(&self, field: &Samples, opacity: &mut Vec<u8>) {
        opacity.clear();
        with_samples!(field, voxels => {
            let has_value = self.values.is_some_and(|values| values.has_any(voxels));
            if has_value || !self.places.is_empty() || has_nan(voxels) {
                let each = voxels.iter().enumerate();
                opacity.extend(each.map(|(place, voxel)| if self.has(place, *voxel) { 0 } else { 255 }));
            }
        });
    }
}

/// Whether any voxel is NaN. Looks at all voxels of a group without branches, so that the loop is
/// vectorised.
fn has_nan<T: Voxel>(voxels: &[T]) -> bool {
    const TOGETHER: usize = 256;
    let mut groups = voxels.chunks(TOGETHER);
    T::IS_FLOAT
        && groups.any(|group| {
            group
                .iter()
                .fold(false, |any, voxel| any | voxel.to_f64().is_nan())
        })
}

#[cfg(test)]
mod tests {
    use voltile_base::paint::Number;
    use voltile_hdf5::volume::VoxelType;

    use super::*;

    #[test]
    fn values_places_and_nan_are_missing_and_a_field_without_any_has_no_opacity() {
        let missing = Missing::new(&[Number::Whole(7)], VoxelType::U8);
        let mask = MissingMask {
            values: Some(&missing),
            places: vec![2],
        };
        let mut opacity = vec![9];
        mask.opacity(&Samples::U8(vec![1, 7, 3, 4]), &mut opacity);
        assert_eq!(opacity, [255, 0, 0, 255]);
        let means = MissingMask {
            values: None,
            places: Vec::new(),
        };
        means.opacity(&Samples::U8(vec![1, 7]), &mut opacity);
        assert!(opacity.is_empty());
        let mut floats = vec![1.0_f32; 600];
        floats[599] = f32::NAN;
        means.opacity(&Samples::F32(floats), &mut opacity);
        assert_eq!((opacity.len(), opacity[598], opacity[599]), (600, 255, 0));
    }
}
