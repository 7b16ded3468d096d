//! Boxes of voxels in the data's own type, for programs that compute rather than look.

mod chunk;
mod imagej;
mod little_endian;
mod means;
mod segmentation;

use bytes::Bytes;
use voltile_base::flow::trace::{self, Stage};
use voltile_base::geometry::Xyz;
use voltile_base::paint::BoxFormat;
use voltile_base::text::joined;
use voltile_hdf5::volume::{ReadError, ReadPolicy, ReadRequest, Volume, VoxelType};

pub use self::imagej::imagej_has;
use self::little_endian::{append, interleave, paste};
use super::drawing::{Drawing, RenderError, Scratch};
use super::encode::EncodeError;
use crate::plan::{BoxEncoding, ChunkFormat, Coding, Cutout};

/// Reads a box and encodes it. A stored chunk that already has the format is passed through.
pub fn cutout(
    plan: &Cutout,
    encoding: BoxEncoding,
    policy: &ReadPolicy,
    scratch: &mut Scratch,
) -> Result<Vec<u8>, RenderError> {
    if let BoxEncoding::Chunk(format) | BoxEncoding::WrittenChunk(format) = &encoding
        && let Some((volume, place)) = whole_chunk(plan, format)
        && let Some(stored) = volume.stored_chunk(plan.time, place, policy.trace.as_deref())?
    {
        return Ok(stored);
    }
    if matches!(encoding, BoxEncoding::WrittenChunk(_)) && !is_written(plan)? {
        return Ok(Vec::new());
    }
    let trace = policy.trace.as_deref();
    let voxels = trace::drawing(trace, || voxels(plan, policy, scratch));
    // A box may be much larger than a tile: its buffers are not kept, also after an error.
    scratch.drawing = Drawing::default();
    let voxels = voxels?;
    Ok(trace::stage(trace, Stage::Encode, || {
        encode(voxels, plan, encoding)
    })?)
}

/// Encodes voxels that are little-endian, with components first.
fn encode(voxels: Vec<u8>, plan: &Cutout, encoding: BoxEncoding) -> Result<Vec<u8>, EncodeError> {
    match encoding {
        BoxEncoding::Chunk(format) | BoxEncoding::WrittenChunk(format) => {
            chunk::encode(voxels, plan, &format)
        }
        BoxEncoding::Segmentation(format) => chunk::segmentation(voxels, plan, format),
        BoxEncoding::File(BoxFormat::Raw) => {
            Ok(interleave(voxels, plan, plan.voxel.stored_bytes()))
        }
        BoxEncoding::File(BoxFormat::Tiff) => imagej::hyperstack(voxels, plan),
        BoxEncoding::File(BoxFormat::Npy) => {
            let mut file = npy_header(plan);
            file.extend(interleave(voxels, plan, plan.voxel.stored_bytes()));
            Ok(file)
        }
    }
}

/// The bytes of a box that is a stored chunk and needs neither encoding nor waiting; see
/// [`Volume::cached_stored_chunk`].
pub fn cached(plan: &Cutout, encoding: BoxEncoding) -> Option<Bytes> {
    let (BoxEncoding::Chunk(format) | BoxEncoding::WrittenChunk(format)) = encoding else {
        return None;
    };
    let (volume, place) = whole_chunk(plan, &format)?;
    volume.cached_stored_chunk(plan.time, place)
}

/// If a box is exactly a stored chunk, coded as the format asks for: the volume, and the place of
/// the chunk in the volume's grid of chunks.
fn whole_chunk<'a>(plan: &'a Cutout, format: &ChunkFormat) -> Option<(&'a dyn Volume, Xyz<u64>)> {
    let [volume] = plan.components.as_slice() else {
        return None;
    };
    if !plan.view.is_stored() || !plan.is_there {
        return None;
    }
    let chunk = volume.shape().chunk;
    let region = plan.region;
    let is_on_grid = region.start.zip(chunk, u64::is_multiple_of).everywhere();
    let coding = format.coding;
    let is_alike = volume.shape().coding.as_ref().is_ok_and(|stored| {
        stored.is_zlib == (coding == Coding::Zlib)
            && stored.is_big_endian == format.is_big_endian
            && stored.voxel == format.voxel
    });
    let is_passed = is_on_grid
        && format.size == chunk
        && is_alike
        && matches!(coding, Coding::Zlib | Coding::Identity);
    let place = region.start.zip(chunk, |start, edge| start / edge);
    is_passed.then_some((volume.as_ref(), place))
}

/// Whether any voxel of a box may have been written. Voxels never written have the fill value.
fn is_written(plan: &Cutout) -> Result<bool, ReadError> {
    // The voxels are zeros, which must be sent: the fill value may be another number.
    if !plan.is_there {
        return Ok(true);
    }
    let region = plan.view.stored_region(&plan.region);
    for volume in &plan.components {
        if volume.is_written(plan.time, &region)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The voxels of a box, little-endian, in the order channel or component, z, y, x with x fastest.
/// Missing voxels are zeros.
fn voxels(plan: &Cutout, policy: &ReadPolicy, scratch: &mut Scratch) -> Result<Vec<u8>, ReadError> {
    let mut all = own_voxels(plan, policy, scratch)?;
    let channel_bytes = all.len();
    for part in &plan.others {
        let voxels = own_voxels(part, policy, scratch)?;
        let start = all.len();
        all.resize(start + channel_bytes, 0);
        let into = &mut all[start..];
        let whole = plan.region.size;
        let width = plan.voxel.stored_bytes();
        paste(&voxels, part.region.size, into, whole, part.place, width);
    }
    Ok(all)
}

/// The voxels of a box, without the other channels.
fn own_voxels(
    plan: &Cutout,
    policy: &ReadPolicy,
    scratch: &mut Scratch,
) -> Result<Vec<u8>, ReadError> {
    let bytes = plan.region.voxels() as usize * plan.voxel.stored_bytes() * plan.components.len();
    if !plan.is_there {
        return Ok(vec![0; bytes]);
    }
    let mut all = Vec::with_capacity(bytes);
    for component in 0..plan.components.len() {
        let drawing = &mut scratch.drawing;
        if plan.view.is_stored() || plan.is_label {
            let request = ReadRequest::new(plan.time, plan.view.stored_region(&plan.region));
            let request = request.every(plan.view.downsample).with(policy);
            plan.components[component].read(&request, &mut drawing.level.field)?;
            append(&drawing.level.field, plan.voxel, &mut all);
        } else {
            let start = all.len();
            all.resize(start + bytes / plan.components.len(), 0);
            means::write(plan, component, policy, drawing, &mut all[start..])?;
        }
    }
    Ok(all)
}

/// The header of an `.npy` file, format version 1.0 (numpy.lib.format). It says, for example,
/// `{'descr': '|u1', 'fortran_order': False, 'shape': (9, 20, 30), }`.
fn npy_header(plan: &Cutout) -> Vec<u8> {
    let text = format!(
        "{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
        descr(plan.voxel),
        joined(plan.shape())
    );
    // Magic, version and length take 10 bytes; the header ends in a line feed at a multiple of 64.
    let length = (10 + text.len() + 1).next_multiple_of(64) - 10;
    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    header.extend((length as u16).to_le_bytes());
    header.extend(format!("{text:<width$}\n", width = length - 1).bytes());
    header
}

/// NumPy's code of a type: the byte order, the first letter of the type's name, and its bytes.
/// `<f4`, for example, is a little-endian float of four bytes.
fn descr(voxel: VoxelType) -> String {
    let bytes = voxel.stored_bytes();
    let order = if bytes == 1 { '|' } else { '<' };
    format!("{order}{}{bytes}", &voxel.name()[..1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_the_codes_of_numpy() {
        for (voxel, code) in [
            (VoxelType::Bool, "|b1"),
            (VoxelType::U8, "|u1"),
            (VoxelType::I8, "|i1"),
            (VoxelType::U16, "<u2"),
            (VoxelType::I16, "<i2"),
            (VoxelType::U32, "<u4"),
            (VoxelType::I32, "<i4"),
            (VoxelType::U64, "<u8"),
            (VoxelType::I64, "<i8"),
            (VoxelType::F16, "<f2"),
            (VoxelType::F32, "<f4"),
            (VoxelType::F64, "<f8"),
        ] {
            assert_eq!(descr(voxel), code);
        }
    }
}
