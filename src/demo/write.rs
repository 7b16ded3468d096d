//! The HDF5 file of the demo volume: which datasets it has, how they are chunked, and writing them.
//!
//! What the voxels hold is left to the painters. The odd thing: slices are painted on all cores, but libhdf5 compresses
//! on one, so the next slab is painted while the last one is written.

use std::path::Path;

use hdf5::types::VarLenAscii;
use hdf5::{Dataset, File, H5Type, Result};
use ndarray::{ArrayView, s};
use rayon::prelude::*;

use super::fluorescence;
use super::micrograph;
use super::survey::Place;
use super::timelapse;
use super::tissue::Tissue;

/// Root attribute that a finished demo volume has, with its version; written last.
pub(super) const VERSION_ATTRIBUTE: &str = "voltile_demo_version";

/// A voxel less deep than this belongs to the membrane or the gap: label 0.
const MEMBRANE: f32 = 4.0;

/// Slices in a chunk, and in what is painted at once.
const SLAB: usize = 16;
const CHUNK: [usize; 3] = [SLAB, 128, 128];

/// How large the datasets are.
pub(super) struct Extents {
    /// z, y, x of `/em`, `/nuclei`, `/actin` and `/segmentation`.
    pub volume: [usize; 3],
    /// t, z, y, x of `/time`.
    pub series: [usize; 4],
}

impl Extents {
    /// Those of the demo volume that people see.
    pub const FULL: Self = Self { volume: [48, 1024, 1024], series: [10, 12, 256, 256] };
}

/// Writes the whole file; until this returns it is not a demo volume.
pub(super) fn write(path: &Path, extents: &Extents, version: u32) -> Result<()> {
    let file = File::create(path)?;
    write_volume(&file, extents.volume)?;
    write_series(&file, extents.series)?;
    file.new_attr::<u32>().create(VERSION_ATTRIBUTE)?.write_scalar(&version)?;
    file.flush()?;
    file.close()
}

fn write_volume(file: &File, extents: [usize; 3]) -> Result<()> {
    let channels = Channels::create(file, extents)?;
    let tissue = Tissue::grow(extents);
    let starts = (0..extents[0]).step_by(SLAB);
    let mut painted: Option<Slab> = None;
    for start in starts {
        let (written, next) = rayon::join(
            || painted.take().map_or(Ok(()), |slab| channels.write(&slab)),
            || Slab::paint(&tissue, start, extents),
        );
        written?;
        painted = Some(next);
    }
    painted.map_or(Ok(()), |slab| channels.write(&slab))
}

fn write_series(file: &File, [frames, depth, height, width]: [usize; 4]) -> Result<()> {
    let chunk = [1, depth.min(CHUNK[0]), height.min(CHUNK[1]), width.min(CHUNK[2])];
    let voxel_size = [1.0, 0.2, 0.2];
    let dataset = create::<u16, 4>(
        file,
        "time",
        [frames, depth, height, width],
        chunk,
        ["t", "z", "y", "x"],
        voxel_size,
    )?;
    let painted: Vec<_> =
        (0..frames).into_par_iter().map(|t| timelapse::frame(t, [depth, height, width])).collect();
    for (t, frame) in painted.iter().enumerate() {
        dataset.write_slice(ArrayView::from_shape((depth, height, width), frame)?, s![t, .., .., ..])?;
    }
    Ok(())
}

/// The datasets that show the tissue.
struct Channels {
    em: Dataset,
    nuclei: Dataset,
    actin: Dataset,
    segmentation: Dataset,
}

impl Channels {
    fn create(file: &File, extents: [usize; 3]) -> Result<Self> {
        Ok(Self {
            em: create_channel::<u8>(file, "em", extents)?,
            nuclei: create_channel::<u16>(file, "nuclei", extents)?,
            actin: create_channel::<u16>(file, "actin", extents)?,
            segmentation: create_channel::<u32>(file, "segmentation", extents)?,
        })
    }

    fn write(&self, slab: &Slab) -> Result<()> {
        slab.write(&self.em, &slab.em)?;
        slab.write(&self.nuclei, &slab.nuclei)?;
        slab.write(&self.actin, &slab.actin)?;
        slab.write(&self.segmentation, &slab.segmentation)
    }
}

/// Some neighbouring slices of all channels, z y x.
struct Slab {
    start: usize,
    shape: (usize, usize, usize),
    em: Vec<u8>,
    nuclei: Vec<u16>,
    actin: Vec<u16>,
    segmentation: Vec<u32>,
}

impl Slab {
    /// The slices from `start` on.
    fn paint(tissue: &Tissue, start: usize, [depth, height, width]: [usize; 3]) -> Self {
        let slices = SLAB.min(depth - start);
        let (area, size) = (height * width, slices * height * width);
        let (mut em, mut segmentation) = (vec![0; size], vec![0; size]);
        let (mut nuclei, mut actin) = (vec![0; size], vec![0; size]);
        let em_slices = em.par_chunks_mut(area).zip(segmentation.par_chunks_mut(area));
        let light_slices = nuclei.par_chunks_mut(area).zip(actin.par_chunks_mut(area));
        em_slices.zip(light_slices).enumerate().for_each(|(slice, ((em, segmentation), (nuclei, actin)))| {
            tissue.survey(start + slice, height, width, |place| {
                let at = place.y * width + place.x;
                em[at] = micrograph::grey(place);
                nuclei[at] = fluorescence::nuclei(place);
                actin[at] = fluorescence::actin(place);
                segmentation[at] = label(place);
            });
        });
        Self { start, shape: (slices, height, width), em, nuclei, actin, segmentation }
    }

    fn write<T: H5Type>(&self, dataset: &Dataset, voxels: &[T]) -> Result<()> {
        let view = ArrayView::from_shape(self.shape, voxels)?;
        dataset.write_slice(view, s![self.start..self.start + self.shape.0, .., ..])
    }
}

fn label(place: &Place<'_>) -> u32 {
    if place.depth < MEMBRANE { 0 } else { place.cell.label }
}

fn create_channel<T: H5Type>(file: &File, name: &str, extents: [usize; 3]) -> Result<Dataset> {
    let chunk = [0, 1, 2].map(|axis| extents[axis].min(CHUNK[axis]));
    create::<T, 3>(file, name, extents, chunk, ["z", "y", "x"], [0.030, 0.004, 0.004])
}

/// An empty dataset that names its axes, and the size of its voxels (z, y, x, in micrometres) as PlantSeg and Fiji do.
fn create<T: H5Type, const RANK: usize>(
    file: &File,
    name: &str,
    extents: [usize; RANK],
    chunk: [usize; RANK],
    axes: [&str; RANK],
    voxel_size: [f64; 3],
) -> Result<Dataset> {
    let builder = file.new_dataset::<T>().chunk(chunk.to_vec());
    let builder = if size_of::<T>() > 1 { builder.shuffle() } else { builder };
    let dataset = builder.deflate(2).shape(extents.to_vec()).create(name)?;
    dataset.new_attr::<f64>().shape(3).create("element_size_um")?.write(&voxel_size)?;
    let labels = axes.iter().map(VarLenAscii::from_ascii).collect::<std::result::Result<Vec<_>, _>>();
    let labels = labels.map_err(|error| hdf5::Error::from(error.to_string()))?;
    dataset.new_attr::<VarLenAscii>().shape(RANK).create("DIMENSION_LABELS")?.write(&labels)?;
    Ok(dataset)
}
