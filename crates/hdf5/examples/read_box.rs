//! Finds the datasets of an HDF5 file, and reads the first slice of one from several threads.

use std::error::Error;

use rayon::prelude::*;
use voltile_base::flow::activity::Activity;
use voltile_base::geometry::{Region, Xyz};
use voltile_base::metrics::Metrics;
use voltile_hdf5::store::Location;
use voltile_hdf5::volume::hdf5::{ChunkStore, Opener, View};
use voltile_hdf5::volume::{ReadRequest, Samples, Volume};

/// Reads the first slice of a dataset with axes z, y, x: one row of voxels by each thread at a
/// time. All threads share one cache of decoded chunks.
pub fn first_slice(
    file: &str,
    dataset: &str,
) -> Result<Vec<Samples>, Box<dyn Error + Send + Sync>> {
    let chunks = ChunkStore::new(64 << 20, Metrics::default(), Activity::default());
    let opener = Opener::new(chunks);
    let file = opener.open(&Location::given(file.into())?)?;
    if !file.datasets()?.datasets.iter().any(|path| path == dataset) {
        return Err(format!("there is no dataset {dataset}").into());
    }
    let volume = file.volume(dataset, &View::zyx())?;
    let size = volume.shape().size;
    let read_row = |y| {
        let row = Region {
            start: Xyz::new(0, y, 0),
            size: Xyz::new(size.x, 1, 1),
        };
        let mut voxels = Samples::U8(Vec::new());
        volume.read(&ReadRequest::new(0, row), &mut voxels)?;
        Ok(voxels)
    };
    (0..size.y).into_par_iter().map(read_row).collect()
}

/// The file and the dataset are arguments.
#[allow(dead_code, reason = "a unit test calls only `first_slice`")]
fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, dataset] = &arguments[..] else {
        return Err("usage: read_box FILE DATASET".into());
    };
    for (y, row) in first_slice(file, dataset)?.iter().enumerate() {
        println!("row {y}: {row:?}");
    }
    Ok(())
}
