//! Boxes as hyperstacks of ImageJ: TIFF files with a page for each slice of each channel.
//!
//! ImageJ reads the voxel size from the resolution and the description of the first page. The
//! display range of a single channel is in the description, too. The ranges and look-up tables of
//! several channels are in two tags of ImageJ's own, as `ij/io/TiffEncoder.java` of ImageJ 1.54f
//! writes them.

use std::fmt::Write;
use std::io::Cursor;

use tiff::TiffResult;
use tiff::encoder::{Rational, TiffEncoder};
use tiff::tags::Tag;
use voltile_base::color::{Colour, Rgb};
use voltile_base::geometry::Xyz;
use voltile_hdf5::volume::VoxelType;

use super::little_endian::interleave;
use crate::encode::EncodeError;
use crate::plan::Cutout;

const METADATA_COUNTS: Tag = Tag::Unknown(50838);
const METADATA: Tag = Tag::Unknown(50839);

/// Whether ImageJ has images of this type: grey, or red, green and blue.
pub fn imagej_has(voxel: VoxelType, is_rgb: bool) -> bool {
    match voxel {
        VoxelType::U8 => true,
        VoxelType::I16 | VoxelType::U16 | VoxelType::F32 => !is_rgb,
        _ => false,
    }
}

/// Writes a box of voxels, given little-endian with components first.
pub(super) fn hyperstack(voxels: Vec<u8>, plan: &Cutout) -> Result<Vec<u8>, EncodeError> {
    // Red, green and blue take turns voxel by voxel, and channels section by section.
    let mut width = plan.voxel.stored_bytes();
    if !plan.is_rgb {
        width *= (plan.region.size.x * plan.region.size.y) as usize;
    }
    let voxels = interleave(voxels, plan, width);
    pages(&voxels, plan).map_err(|error| EncodeError::new(voxels.len(), error.to_string()))
}

/// The file. ImageJ reads only the first page, and expects the voxels of all pages in one run,
/// which therefore come before the pages.
fn pages(voxels: &[u8], plan: &Cutout) -> TiffResult<Vec<u8>> {
    let size = plan.region.size;
    let samples = if plan.is_rgb {
        plan.components.len()
    } else {
        1
    };
    let count = size.z * plan.channels() as u64;
    let page_bytes = voxels.len() as u64 / count.max(1);
    // 1 for unsigned integers, 2 for signed ones, 3 for floats.
    let format: u16 = match plan.voxel {
        VoxelType::I16 => 2,
        VoxelType::F32 => 3,
        _ => 1,
    };
    // 2 for RGB, 1 for grey with black as 0.
    let photometric: u16 = if samples > 1 { 2 } else { 1 };
    let mut file = Cursor::new(Vec::with_capacity(voxels.len()));
    let mut encoder = TiffEncoder::new(&mut file)?;
    let mut start = 0;
    for number in 0..count {
        let mut directory = encoder.image_directory()?;
        if number == 0 {
            start = directory.write_data(voxels)?;
            directory.write_tag(Tag::ImageDescription, description(plan).as_str())?;
            if !plan.others.is_empty() {
                let (counts, metadata) = metadata(plan);
                directory.write_tag(METADATA_COUNTS, counts.as_slice())?;
                directory.write_tag(METADATA, metadata.as_slice())?;
            }
        }
        directory.write_tag(Tag::ImageWidth, size.x as u32)?;
        directory.write_tag(Tag::ImageLength, size.y as u32)?;
        let bits = vec![8 * plan.voxel.stored_bytes() as u16; samples];
        directory.write_tag(Tag::BitsPerSample, bits.as_slice())?;
        directory.write_tag(Tag::SampleFormat, vec![format; samples].as_slice())?;
        directory.write_tag(Tag::SamplesPerPixel, samples as u16)?;
        // 1 is no compression.
        directory.write_tag(Tag::Compression, 1u16)?;
        directory.write_tag(Tag::PhotometricInterpretation, photometric)?;
        let page_start = start + number * page_bytes;
        directory.write_tag(Tag::StripOffsets, u32::try_from(page_start)?)?;
        directory.write_tag(Tag::StripByteCounts, u32::try_from(page_bytes)?)?;
        directory.write_tag(Tag::RowsPerStrip, size.y as u32)?;
        // 1 is no unit of TIFF's own: the unit is in the description.
        directory.write_tag(Tag::ResolutionUnit, 1u16)?;
        if let Some((voxel, _)) = &plan.voxel_size {
            directory.write_tag(Tag::XResolution, per_unit(voxel.x))?;
            directory.write_tag(Tag::YResolution, per_unit(voxel.y))?;
        }
        directory.finish()?;
    }
    Ok(file.into_inner())
}

/// The description that ImageJ writes into its own files.
fn description(plan: &Cutout) -> String {
    let slices = plan.region.size.z;
    let channels = plan.channels() as u64;
    let mode = if channels > 1 {
        "composite"
    } else {
        "grayscale"
    };
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
    if channels == 1 && plan.window.is_some() {
        let [least, most] = range(plan);
        let _ = writeln!(text, "min={least:?}\nmax={most:?}");
    }
    // The part of the box that a channel covers, as in `covered_red=0-10_0-20_5-9`, up to but not
    // including the second numbers.
    for part in plan
        .parts()
        .filter(|part| !part.is_there || part.region.size != plan.region.size)
    {
        let Xyz { x, y, z } = part.place;
        let size = if part.is_there {
            part.region.size
        } else {
            Xyz::all(0)
        };
        let _ = writeln!(
            text,
            "covered_{}={x}-{}_{y}-{}_{z}-{}",
            part.name,
            x + size.x,
            y + size.y,
            z + size.z
        );
    }
    text.push_str("loop=false\n");
    text
}

/// The display range of a channel, least first. ImageJ counts signed integers from the least one:
/// -32768 is 0.
fn range(plan: &Cutout) -> [f64; 2] {
    let (lo, hi) = plan.window.unwrap_or(plan.voxel.full_window()).limits();
    let zero = if plan.voxel == VoxelType::I16 {
        -f64::from(i16::MIN)
    } else {
        0.0
    };
    [lo.min(hi) + zero, lo.max(hi) + zero]
}

/// ImageJ's metadata in parts: the length of each part in bytes, and all parts. The first part
/// begins with `IJIJ`, and lists the kinds and numbers of the parts after it: one with the display
/// ranges of all channels, and a look-up table for each channel.
fn metadata(plan: &Cutout) -> (Vec<u32>, Vec<u8>) {
    let channels = plan.channels() as u32;
    // Five words of 4 bytes, and two numbers of 8 bytes for each channel.
    let mut counts = vec![5 * 4, 2 * 8 * channels];
    let mut parts = Vec::new();
    for (kind, count) in [("IJIJ", None), ("rang", Some(1)), ("luts", Some(channels))] {
        // ImageJ reads the four letters as a number, and all numbers here are little-endian.
        parts.extend(kind.bytes().rev());
        parts.extend(count.into_iter().flat_map(u32::to_le_bytes));
    }
    parts.extend(plan.parts().flat_map(range).flat_map(f64::to_le_bytes));
    for part in plan.parts() {
        let is_inverted = part
            .window
            .map(|window| window.limits())
            .is_some_and(|(lo, hi)| hi < lo);
        let colour = Colour::Pure(part.colour.unwrap_or([u8::MAX; 3]));
        let shades = (0..=u8::MAX).map(|shade| if is_inverted { u8::MAX - shade } else { shade });
        let colours: Vec<Rgb> = shades.map(|shade| colour.of_shade(shade)).collect();
        parts.extend(
            (0..3).flat_map(|component| colours.iter().map(move |colour| colour[component])),
        );
        counts.push(3 * 256);
    }
    (counts, parts)
}

/// The number of pixels for each unit of length: 1000000000/250000000 for pixels of 0.25 units.
fn per_unit(size: f64) -> Rational {
    const PRECISION: f64 = 1e9;
    let (n, d) = if size < 1.0 {
        (PRECISION, PRECISION * size)
    } else {
        (PRECISION / size, PRECISION)
    };
    let [n, d] = [n, d].map(|number| (number.round() as u32).max(1));
    Rational { n, d }
}
