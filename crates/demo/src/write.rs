//! The HDF5 file of the demo volume. Voxels are painted on all cores, while one thread compresses
//! and writes the voxels painted before.

use std::{path::Path, sync::mpsc::sync_channel, thread::scope};

use hdf5::{Dataset, File, FileBuilder, H5Type, Result, types::VarLenAscii};
use ndarray::{Array3, Array4, s};
use rayon::prelude::*;

use super::{film, tissue};

/// The root attribute with the version. It is created first, so that its name is near the file's
/// start, and its value is written last.
pub(crate) const VERSION_ATTRIBUTE: &str = "voltile_demo_version";

/// The extents of the tissue's datasets (z, y, x), and of the time series (t, z, y, x).
pub(crate) type Shapes = ([usize; 3], [usize; 4]);
pub(crate) const FULL: Shapes = ([48, 1024, 1024], [10, 12, 256, 256]);
/// The largest chunk: t, z, y, x. Smaller datasets have smaller chunks.
const CHUNK: [usize; 4] = [1, 16, 128, 128];

/// Options to open or create a file without libhdf5's locks: a child process that is started while
/// the file is open would hold them further. Simultaneous runs exclude each other with a lock file.
pub(crate) fn without_locks() -> FileBuilder {
    let mut options = File::with_options();
    options.with_fapl(|access| access.file_locking(false));
    options
}

pub(crate) fn write(path: &Path, (volume, series): Shapes, version: u32) -> Result<()> {
    let file = without_locks().create(path)?;
    let mark = file.new_attr::<u32>().create(VERSION_ATTRIBUTE)?;
    write_volume(&file, volume)?;
    write_series(&file, series)?;
    mark.write_scalar(&version)?;
    file.close()
}

fn write_volume(file: &File, shape @ [depth, height, width]: [usize; 3]) -> Result<()> {
    let voxel_size = [0.030, 0.004, 0.004];
    let em = create::<u8>(file, "em", &shape, voxel_size)?;
    let nuclei = create::<u16>(file, "nuclei", &shape, voxel_size)?;
    let actin = create::<u16>(file, "actin", &shape, voxel_size)?;
    let segmentation = create::<u32>(file, "segmentation", &shape, voxel_size)?;
    let scene = tissue::grow(shape);
    // A part has as many slices and rows as a chunk, and all columns.
    let [_, part_depth, part_height, _] = CHUNK;
    let corners = (0..depth)
        .step_by(part_depth)
        .flat_map(|z| (0..height).step_by(part_height).map(move |y| (z, y)));
    let mut parts = corners.map(|(z, y)| {
        let slices = z..depth.min(z + part_depth);
        let rows = y..height.min(y + part_height);
        let voxels: Vec<_> = slices
            .clone()
            .into_par_iter()
            .map(|z| scene.slice(z, rows.clone(), width, tissue::voxel))
            .collect();
        let part_shape = (slices.len(), rows.len(), width);
        let voxels = Array3::from_shape_vec(part_shape, voxels.concat());
        (s![slices, rows, ..], voxels)
    });
    // While one part is written, the next one is painted.
    let (sender, painted) = sync_channel(0);
    scope(|threads| {
        // Painting ends early if writing has failed, because sending then fails.
        threads.spawn(move || parts.try_for_each(|part| sender.send(part).ok()));
        for (place, voxels) in painted {
            let voxels = voxels?;
            em.write_slice(&voxels.map(|voxel| voxel.0), place)?;
            nuclei.write_slice(&voxels.map(|voxel| voxel.1), place)?;
            actin.write_slice(&voxels.map(|voxel| voxel.2), place)?;
            segmentation.write_slice(&voxels.map(|voxel| voxel.3), place)?;
        }
        Ok(())
    })
}

fn write_series(file: &File, shape @ [frames, depth, height, width]: [usize; 4]) -> Result<()> {
    // The slices of all time points, in the order t, z.
    let voxels = (0..frames * depth)
        .into_par_iter()
        .flat_map_iter(|i| film::slice(i / depth, i % depth, height, width))
        .collect();
    create::<u16>(file, "time", &shape, [1.0, 0.2, 0.2])?
        .write(&Array4::from_shape_vec(shape, voxels)?)
}

/// Creates an empty dataset. Its attributes name its axes and give the size of its voxels (z, y, x,
/// in micrometres), as in files of PlantSeg and Fiji.
fn create<T: H5Type>(
    file: &File,
    name: &str,
    shape: &[usize],
    voxel_size: [f64; 3],
) -> Result<Dataset> {
    // The dataset's first axis among t, z, y, x: 1 if it has no time axis.
    let first_axis = CHUNK.len() - shape.len();
    let chunk: Vec<usize> = shape
        .iter()
        .zip(&CHUNK[first_axis..])
        .map(|(extent, length)| *extent.min(length))
        .collect();
    let mut builder = file.new_dataset::<T>().chunk(chunk);
    if size_of::<T>() > 1 {
        builder = builder.shuffle();
    }
    let dataset = builder.deflate(2).shape(shape).create(name)?;
    dataset
        .new_attr::<f64>()
        .shape(3)
        .create("element_size_um")?
        .write(&voxel_size)?;
    let mut axes = Vec::new();
    for axis in &["t", "z", "y", "x"][first_axis..] {
        axes.push(VarLenAscii::from_ascii(axis).map_err(|error| error.to_string())?);
    }
    dataset
        .new_attr::<VarLenAscii>()
        .shape(shape.len())
        .create("DIMENSION_LABELS")?
        .write(&axes)?;
    Ok(dataset)
}
