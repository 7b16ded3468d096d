//! Files written for a story in the manner of other programs, and what is discovered in them.
//!
//! The voxel at (x, y, z) of [`cube`] is 100 z + 10 y + x, so that swapped axes are noticed.

use std::path::Path;

use hdf5::types::{FixedAscii, VarLenUnicode};
use hdf5::{Dataset, Group, H5Type, Location};
use ndarray::{ArrayD, IxDyn};
use voltile::layout::{self, Discovery, FoundChannel, Paths};
use voltile_base::flow::activity::Activity;
use voltile_base::geometry::{Region, Xyz};
use voltile_base::metrics::Metrics;
use voltile_hdf5::volume::hdf5::{ChunkStore, Hdf5Volume, OpenFile, Opener};
use voltile_hdf5::volume::{ReadRequest, Samples, Volume};

/// The shape of a small [`cube`]: sections, rows, columns.
pub const SMALL: [usize; 3] = [2, 5, 7];
/// Its last voxel (x, y, z), and the value.
pub const CORNER: ([u64; 3], f64) = ([6, 4, 1], 146.0);
/// Its size in x, y, z order.
pub const SIZE: [u64; 3] = [7, 5, 2];

/// Creates a file. One that exists is removed and not overwritten: a process that still has it open
/// may hold its lock.
pub fn create(path: &Path) -> hdf5::File {
    if path.exists() {
        std::fs::remove_file(path).unwrap();
    }
    hdf5::File::create(path).unwrap()
}

/// Writes a file.
pub fn file(path: &Path, write: impl FnOnce(&hdf5::File)) {
    let file = create(path);
    write(&file);
    file.close().unwrap();
}

/// A volume of sections, rows and columns, whose values show their position.
pub fn cube([z, y, x]: [usize; 3]) -> ArrayD<u8> {
    ArrayD::from_shape_fn(IxDyn(&[z, y, x]), |at| {
        (100 * at[0] + 10 * at[1] + at[2]) as u8
    })
}

/// Zeros.
pub fn zeros<T: Default + Clone>(shape: &[usize]) -> ArrayD<T> {
    ArrayD::from_elem(IxDyn(shape), T::default())
}

/// Writes a dataset and the groups of its path.
pub fn put<T: H5Type>(group: &Group, path: &str, data: &ArrayD<T>) -> Dataset {
    group
        .new_dataset_builder()
        .with_data(data)
        .create(path)
        .unwrap()
}

/// Writes a dataset of one string.
pub fn put_text(group: &Group, path: &str, value: &str) {
    let value: VarLenUnicode = value.parse().unwrap();
    group
        .new_dataset_builder()
        .with_data(&[value])
        .create(path)
        .unwrap();
}

/// Writes a string attribute.
pub fn text(at: &Location, name: &str, value: &str) {
    let value: VarLenUnicode = value.parse().unwrap();
    at.new_attr_builder()
        .with_data(&[value])
        .create(name)
        .unwrap();
}

/// Writes a string attribute as Imaris does: an array of single characters.
pub fn characters(at: &Location, name: &str, value: &str) {
    let value: Vec<FixedAscii<1>> = value
        .bytes()
        .map(|byte| FixedAscii::from_ascii(&[byte]).unwrap())
        .collect();
    at.new_attr_builder()
        .with_data(&value)
        .create(name)
        .unwrap();
}

/// Writes an attribute of numbers.
pub fn numbers<T: H5Type>(at: &Location, name: &str, values: &[T]) {
    at.new_attr_builder()
        .with_data(values)
        .create(name)
        .unwrap();
}

/// Opens a file as the catalogue does.
pub fn open(path: &Path) -> OpenFile {
    let chunks = ChunkStore::new(1 << 20, Metrics::default(), Activity::default());
    Opener::new(chunks).open(&path.into()).unwrap()
}

/// Discovers the layout and the channels of a file.
pub fn found(path: &Path) -> Discovery {
    layout::discover(&open(path)).unwrap()
}

/// The channel of a file that has one.
pub fn only(path: &Path) -> FoundChannel {
    let mut found = found(path);
    assert_eq!(names(&found).len(), 1, "{:?}", names(&found));
    found.channels.remove(0)
}

/// The names of the channels.
pub fn names(found: &Discovery) -> Vec<&str> {
    found
        .channels
        .iter()
        .map(|channel| channel.name.as_str())
        .collect()
}

/// The first path and the factor (x, y, z) of each level.
pub fn levels(channel: &FoundChannel) -> Vec<(&str, Option<[u64; 3]>)> {
    let level = |level: &'_ layout::FoundLevel| level.factor.map(|f| [f.x, f.y, f.z]);
    channel
        .levels
        .iter()
        .map(|found| (found.paths.first().unwrap(), level(found)))
        .collect()
}

/// The axes of the finest level.
pub fn axes(channel: &FoundChannel) -> String {
    channel.levels[0].view.axes.to_string()
}

/// The size of a voxel in x, y, z order.
pub fn voxel(channel: &FoundChannel) -> Option<[f64; 3]> {
    channel.facts.voxel_size.map(Into::into)
}

/// Which time points there are.
pub fn times(channel: &FoundChannel) -> Vec<bool> {
    match &channel.levels[0].paths {
        Paths::Times(times) => times.iter().map(Option::is_some).collect(),
        other => panic!("there are no time points: {other:?}"),
    }
}

/// The size of the finest level in x, y, z order, at the first time point that exists.
pub fn size(path: &Path, channel: &FoundChannel) -> [u64; 3] {
    let size = finest(path, channel).shape().size;
    [size.x, size.y, size.z]
}

/// The same, and the value at a position.
pub fn value(path: &Path, channel: &FoundChannel, [x, y, z]: [u64; 3]) -> ([u64; 3], f64) {
    let mut read = Samples::default();
    let region = Region {
        start: Xyz::new(x, y, z),
        size: Xyz::all(1),
    };
    finest(path, channel)
        .read(&ReadRequest::new(0, region), &mut read)
        .unwrap();
    let value = match &read {
        Samples::U8(voxels) => f64::from(voxels[0]),
        Samples::U16(voxels) => f64::from(voxels[0]),
        other => panic!("unexpected type: {other:?}"),
    };
    (size(path, channel), value)
}

fn finest(path: &Path, channel: &FoundChannel) -> Hdf5Volume {
    let level = &channel.levels[0];
    open(path)
        .volume(level.paths.first().unwrap(), &level.view)
        .unwrap()
}
