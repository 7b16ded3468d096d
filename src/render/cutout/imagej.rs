//! Boxes as hyperstacks of ImageJ: TIFF files with a page for each slice. ImageJ reads the voxel size from the resolution and
//! the description of the first page.

use std::fmt::Write;
use std::io::Cursor;

use bytemuck::{Pod, Zeroable};
use tiff::TiffResult;
use tiff::encoder::colortype::{ColorType, Gray8, Gray16, Gray32Float, GrayI16, RGB8};
use tiff::encoder::{Rational, TiffEncoder, TiffValue};
use tiff::tags::{ResolutionUnit, Tag};

use crate::render::encode::EncodeError;
use crate::render::plan::Cutout;
use crate::volume::VoxelType;

/// Whether ImageJ has images of this type, or such colours.
pub fn imagej_has(voxel: VoxelType, is_rgb: bool) -> bool {
    match voxel {
        VoxelType::U8 => true,
        VoxelType::I16 | VoxelType::U16 | VoxelType::F32 => !is_rgb,
        _ => false,
    }
}

/// Writes a box of voxels, given little-endian with colours last.
pub(super) fn hyperstack(voxels: &[u8], plan: &Cutout) -> Result<Vec<u8>, EncodeError> {
    let written = match plan.voxel {
        VoxelType::U8 if plan.components.len() > 1 => pages::<RGB8>(voxels, plan),
        VoxelType::I16 => pages::<GrayI16>(voxels, plan),
        VoxelType::U16 => pages::<Gray16>(voxels, plan),
        VoxelType::F32 => pages::<Gray32Float>(voxels, plan),
        // Other types have been refused.
        _ => pages::<Gray8>(voxels, plan),
    };
    written.map_err(|error| EncodeError::new(voxels.len(), error.to_string()))
}

fn pages<C: ColorType<Inner: Pod>>(voxels: &[u8], plan: &Cutout) -> TiffResult<Vec<u8>>
where
    [C::Inner]: TiffValue,
{
    let size = plan.region.size;
    let (width, height) = (size.x as u32, size.y as u32);
    let mut file = Cursor::new(Vec::with_capacity(voxels.len()));
    let mut encoder = TiffEncoder::new(&mut file)?;
    let mut page = vec![C::Inner::zeroed(); (size.x * size.y) as usize * C::BITS_PER_SAMPLE.len()];
    for (number, slice) in voxels.chunks_exact(size_of_val(page.as_slice()).max(1)).enumerate() {
        bytemuck::cast_slice_mut(&mut page).copy_from_slice(slice);
        let mut image = encoder.new_image::<C>(width, height)?;
        image.rows_per_strip(height)?;
        image.resolution_unit(ResolutionUnit::None);
        if let Some((voxel, _)) = &plan.voxel_size {
            image.x_resolution(per_unit(voxel.x));
            image.y_resolution(per_unit(voxel.y));
        }
        if number == 0 {
            image.encoder().write_tag(Tag::ImageDescription, description(plan).as_str())?;
        }
        image.write_data(&page)?;
    }
    drop(encoder);
    Ok(file.into_inner())
}

/// What ImageJ writes into its own files.
fn description(plan: &Cutout) -> String {
    let slices = plan.region.size.z;
    let mut text =
        format!("ImageJ=1.54f\nimages={slices}\nslices={slices}\nhyperstack=true\nmode=grayscale\n");
    if let Some((voxel, unit)) = &plan.voxel_size {
        // The tag has only ASCII; ImageJ understands this escape.
        let unit = unit.replace('µ', "\\u00B5");
        if !unit.is_empty() && unit.is_ascii() && !unit.contains(char::is_control) {
            let _ = writeln!(text, "unit={unit}");
        }
        let _ = writeln!(text, "spacing={}", voxel.z);
    }
    text.push_str("loop=false\n");
    text
}

/// The number of pixels for each unit of length.
fn per_unit(size: f64) -> Rational {
    const DIGITS: f64 = 1e9;
    let (n, d) = if size < 1.0 { (DIGITS, DIGITS * size) } else { (DIGITS / size, DIGITS) };
    let whole = |number: f64| (number.round() as u32).max(1);
    Rational { n: whole(n), d: whole(d) }
}
