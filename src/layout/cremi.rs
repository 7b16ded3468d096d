//! CREMI: `/volumes/raw`, `/volumes/labels/neuron_ids`, `/volumes/labels/clefts`.
//!
//! Source: the CREMI challenge's data format and its Python package (`CremiFile`). `resolution` is
//! z, y, x in nanometres. Labels may cover only part of the image: their `offset`, in the same
//! order and unit, is the position of their first voxel; without it, they start where the image
//! does. Many other programs write a `resolution` like this one.

use voltile_base::geometry::Xyz;

use super::contents::About;
use super::marks::Marks;
use super::{Layout, VoxelSize};

pub(super) struct Cremi;

impl Layout for Cremi {
    fn marks(&self, about: &About<'_>) -> Option<Marks> {
        let is_own = ["/volumes/raw", "/volumes/labels/"]
            .iter()
            .any(|path| about.path.starts_with(path));
        let unit = is_own.then_some("nm");
        let resolution = about.attributes.numbers("resolution");
        let voxel = resolution.and_then(|resolution| VoxelSize::zyx(&resolution, unit));
        let offset = about
            .attributes
            .numbers("offset")
            .unwrap_or_else(|| vec![0.0; 3]);
        Some(Marks {
            because: is_own.then(|| format!("it has {}", about.path)),
            origin: origin(&offset).filter(|_| is_own && voxel.is_some()),
            voxel,
            ..Marks::default()
        })
    }
}

/// A position given in z, y, x order.
fn origin(offset: &[f64]) -> Option<Xyz<f64>> {
    let [z, y, x] = *offset else { return None };
    let origin = Xyz::new(x, y, z);
    (x.is_finite() && y.is_finite() && z.is_finite()).then_some(origin)
}
