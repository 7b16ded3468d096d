//! Boxes as hyperstacks of ImageJ: TIFF files with a page for each slice of each channel. ImageJ reads the voxel size from the
//! resolution and the description of the first page.

use std::fmt::Write;
use std::io::Cursor;

use tiff::TiffResult;
use tiff::encoder::{Rational, TiffEncoder};
use tiff::tags::Tag;

use super::little_endian::interleaved;
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

/// Writes a box of voxels, given little-endian with components first.
pub(super) fn hyperstack(voxels: Vec<u8>, plan: &Cutout) -> Result<Vec<u8>, EncodeError> {
    let voxel = plan.voxel.stored_bytes();
    let section = (plan.region.size.x * plan.region.size.y) as usize * voxel;
    let voxels = interleaved(voxels, plan, if plan.is_rgb { voxel } else { section });
    pages(&voxels, plan).map_err(|error| EncodeError::new(voxels.len(), error.to_string()))
}

/// ImageJ reads only the first page, and expects the voxels of all pages after another.
fn pages(voxels: &[u8], plan: &Cutout) -> TiffResult<Vec<u8>> {
    let (size, samples) = (plan.region.size, if plan.is_rgb { plan.components.len() } else { 1 });
    let count = size.z * plan.channels();
    let page = voxels.len() as u64 / count.max(1);
    // Of unsigned and signed integers, and of floats.
    let format: u16 = match plan.voxel {
        VoxelType::I16 => 2,
        VoxelType::F32 => 3,
        _ => 1,
    };
    let photometric: u16 = if samples > 1 { 2 } else { 1 };
    let mut file = Cursor::new(Vec::with_capacity(voxels.len()));
    let mut encoder = TiffEncoder::new(&mut file)?;
    let mut start = 0;
    for number in 0..count {
        let mut directory = encoder.image_directory()?;
        if number == 0 {
            start = directory.write_data(voxels)?;
            directory.write_tag(Tag::ImageDescription, description(plan).as_str())?;
        }
        directory.write_tag(Tag::ImageWidth, size.x as u32)?;
        directory.write_tag(Tag::ImageLength, size.y as u32)?;
        let bits = vec![8 * plan.voxel.stored_bytes() as u16; samples];
        directory.write_tag(Tag::BitsPerSample, bits.as_slice())?;
        directory.write_tag(Tag::SampleFormat, vec![format; samples].as_slice())?;
        directory.write_tag(Tag::SamplesPerPixel, samples as u16)?;
        directory.write_tag(Tag::Compression, 1u16)?;
        directory.write_tag(Tag::PhotometricInterpretation, photometric)?;
        directory.write_tag(Tag::StripOffsets, u32::try_from(start + number * page)?)?;
        directory.write_tag(Tag::StripByteCounts, u32::try_from(page)?)?;
        directory.write_tag(Tag::RowsPerStrip, size.y as u32)?;
        directory.write_tag(Tag::ResolutionUnit, 1u16)?;
        if let Some((voxel, _)) = &plan.voxel_size {
            directory.write_tag(Tag::XResolution, per_unit(voxel.x))?;
            directory.write_tag(Tag::YResolution, per_unit(voxel.y))?;
        }
        directory.finish()?;
    }
    Ok(file.into_inner())
}

/// What ImageJ writes into its own files.
fn description(plan: &Cutout) -> String {
    let (slices, channels) = (plan.region.size.z, plan.channels());
    let mode = if channels > 1 { "composite" } else { "grayscale" };
    let mut text = format!(
        "ImageJ=1.54f\nimages={}\nchannels={channels}\nslices={slices}\nhyperstack=true\nmode={mode}\n",
        slices * channels
    );
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
