//! MINC 2: `/minc-2.0/image/0/image`.
//!
//! Source: the MINC 2.0 file format reference (McConnell Brain Imaging Centre), and nibabel's reader. The attribute
//! `dimorder` names the axes in storage order; `/minc-2.0/dimensions/xspace` etc. have the spacing in `step`, which
//! is negative if an axis is reversed. Higher numbers than 0 are downsampled copies. The tables `image-min` and
//! `image-max` next to the image map stored values to real ones slice by slice; this mapping is not applied.

use super::contents::{About, Contents};
use super::marks::Marks;
use super::{FoundChannel, Layout, VoxelSize, plain, usual_axes};
use crate::axes::Axes;
use crate::paint::Kind;
use crate::volume::hdf5::{OpenError, OpenFile};

const IMAGE: &str = "/minc-2.0/image/0/image";

pub(super) struct Minc;

impl Layout for Minc {
    fn name(&self) -> &'static str {
        "MINC 2"
    }

    fn marks(&self, about: &About<'_>) -> Option<Marks> {
        if about.path != IMAGE {
            return None;
        }
        let order = about.attributes.text("dimorder").and_then(|order| axes(&order));
        let is_coloured = order.as_ref().is_some_and(|axes| axes.to_string().contains('c'));
        Some(Marks {
            axes: order.or_else(|| usual_axes(about.rank())),
            kind: is_coloured.then_some(Kind::Rgb),
            voxel: voxel_size(about.file),
            remarks: scaling(about.file).into_iter().collect(),
            ..Marks::because(format!("it has {IMAGE}"))
        })
    }

    fn recognise(&self, contents: &Contents<'_>) -> Option<String> {
        contents.file.has(IMAGE).then(|| format!("it has {IMAGE}"))
    }

    fn channels(&self, contents: &Contents<'_>) -> Result<Vec<FoundChannel>, OpenError> {
        plain::channels(contents, |volume| volume.path == IMAGE)
    }
}

/// Parses the axes of a list such as "time,zspace,yspace,xspace".
fn axes(order: &str) -> Option<Axes> {
    let letter = |name: &str| match name.trim() {
        "time" => Some('t'),
        "zspace" => Some('z'),
        "yspace" => Some('y'),
        "xspace" => Some('x'),
        "vector_dimension" => Some('c'),
        _ => None,
    };
    Axes::new(&order.split(',').map(letter).collect::<Option<String>>()?).ok()
}

fn voxel_size(file: &OpenFile) -> Option<VoxelSize> {
    let dimension = |axis: char| file.attributes(&format!("/minc-2.0/dimensions/{axis}space"));
    let step = |axis| dimension(axis)?.numbers("step")?.first().map(|step| step.abs());
    let unit = dimension('x').and_then(|x| x.text("units"));
    VoxelSize::xyz(&[step('x')?, step('y')?, step('z')?], unit.as_deref())
}

/// A remark if slices have different scaling.
fn scaling(file: &OpenFile) -> Option<String> {
    let differ = |values: Vec<f64>| values.windows(2).any(|pair| pair[0] != pair[1]);
    let table = |name: &str| file.numbers(&format!("/minc-2.0/image/0/{name}")).is_some_and(differ);
    (table("image-min") || table("image-max")).then(|| {
        "its slices are scaled individually (image-min, image-max); tiles show stored values".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_as_the_file_orders_them() {
        let order = |text| axes(text).map(|axes| axes.to_string());
        assert_eq!(order("time,zspace,yspace,xspace").as_deref(), Some("tzyx"));
        assert_eq!(order("xspace,zspace,yspace").as_deref(), Some("xzy"));
        assert_eq!(order("zspace,yspace,xspace,vector_dimension").as_deref(), Some("zyxc"));
        assert_eq!(order("xfrequency,yspace"), None);
    }
}
