//! One suite that every output format passes: boxes of levels, read as the clients of the format
//! read them, hold the voxels that the HDF5 library reads, or that follow from these.
//!
//! A [`Case`] is a box of a level at a time point. A [`Format`] reads it in each way that the
//! format has. The volumes are the fixtures and those of [`volumes`], which have every type of
//! voxel, every storage, levels that are derived, time points, colours, labels and chunks that were
//! never written.

mod library;
pub mod precomputed;
mod references;
mod volumes;
pub mod voxels;
pub mod zarr;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use ndarray::{ArrayD, ArrayViewD, ArrayViewMutD, Axis, IxDyn, Slice, indices};
use serde_json::Value;

use crate::common::wire::Connection;
use crate::common::{Place, Server, fixture};
use library::Library;
use references::References;

/// Larger levels are not compared.
const MAX_VOXELS: usize = 1 << 20;
/// Parts of larger levels are not compared.
const FEW_VOXELS: usize = 1 << 19;

/// A box of a level of a channel.
pub struct Case<'a> {
    pub token: &'a str,
    /// The channel and the level in `/datasets.json`.
    pub channel: &'a Value,
    pub level: &'a Value,
    pub time: usize,
    /// z, y, x.
    pub region: [Range<usize>; 3],
}

impl Case<'_> {
    pub fn name(&self) -> &str {
        self.channel["name"].as_str().unwrap()
    }

    pub fn number(&self) -> u64 {
        self.level["level"].as_u64().unwrap()
    }

    pub fn has_times(&self) -> bool {
        !self.channel["times"].is_null()
    }

    /// The number of colours.
    pub fn components(&self) -> usize {
        if self.channel["kind"] == "rgb" { 3 } else { 1 }
    }
}

/// Voxels of a box.
#[derive(Clone, PartialEq)]
pub struct Block {
    /// As in `/datasets.json`.
    pub dtype: String,
    /// The axes are: colour, z, y, x, little-endian bytes.
    pub bytes: ArrayD<u8>,
}

/// An output format.
pub trait Format {
    fn name(&self) -> String;

    /// The box, once for each way to read it; none if the format does not offer it.
    fn read(&self, connection: &mut Connection, case: &Case<'_>) -> Vec<Block>;
}

/// The name of a type, of its letter and the number of its bytes.
pub fn dtype(kind: char, width: usize) -> String {
    match kind {
        'b' => "bool".to_owned(),
        'u' => format!("uint{}", 8 * width),
        'i' => format!("int{}", 8 * width),
        _ => format!("float{}", 8 * width),
    }
}

/// The number of bytes of a voxel.
pub fn width(dtype: &str) -> usize {
    let bits = dtype.trim_start_matches(|c: char| !c.is_ascii_digit());
    bits.parse().map_or(1, |bits: usize| bits / 8)
}

/// Bytes with these axes and a last one of the bytes of a voxel, with the axes of a [`Block`].
pub fn arranged(mut bytes: ArrayD<u8>, axes: &str) -> ArrayD<u8> {
    let mut axes = axes.to_owned();
    for axis in "czyx".chars() {
        if !axes.contains(axis) {
            bytes.insert_axis_inplace(Axis(0));
            axes.insert(0, axis);
        }
    }
    let order: Vec<usize> = "czyx"
        .chars()
        .map(|axis| axes.find(axis).unwrap())
        .collect();
    standard(bytes.permuted_axes([order, vec![axes.len()]].concat()))
}

/// The array with its last axis contiguous, then the axis before it, and so on.
fn standard(array: ArrayD<u8>) -> ArrayD<u8> {
    if array.is_standard_layout() {
        array
    } else {
        array.as_standard_layout().into_owned()
    }
}

/// Copies whole rows: this test is compiled without optimisation, so a loop over bytes is slow.
/// The bytes of a voxel and the voxels of a row must be contiguous in both arrays.
fn copy_rows(mut from: ArrayViewD<'_, u8>, mut to: ArrayViewMutD<'_, u8>) {
    let bytes = Axis(from.ndim() - 1);
    let voxels = Axis(from.ndim() - 2);
    assert!(from.merge_axes(voxels, bytes) && to.merge_axes(voxels, bytes));
    for (from, mut to) in from.rows().into_iter().zip(to.rows_mut()) {
        to.as_slice_mut()
            .unwrap()
            .copy_from_slice(from.as_slice().unwrap());
    }
}

/// A region of an array that is read chunk by chunk. Chunks have a last axis of the bytes of a
/// voxel; those that are `None` hold the fill value.
pub fn assembled(
    edges: &[usize],
    region: &[Range<usize>],
    fill: &[u8],
    mut chunk: impl FnMut(&[usize]) -> Option<ArrayD<u8>>,
) -> ArrayD<u8> {
    let last = region.len();
    let shape: Vec<usize> = region.iter().map(Range::len).chain([fill.len()]).collect();
    let count = region.iter().map(Range::len).product();
    let mut all = ArrayD::from_shape_vec(shape, fill.repeat(count)).unwrap();
    let first: Vec<usize> = region
        .iter()
        .zip(edges)
        .map(|(range, edge)| range.start / edge)
        .collect();
    let ends = region
        .iter()
        .zip(edges)
        .map(|(range, edge)| range.end.div_ceil(*edge));
    let counts: Vec<usize> = ends.zip(&first).map(|(end, first)| end - first).collect();
    for at in indices(IxDyn(&counts)) {
        let place: Vec<usize> = first
            .iter()
            .enumerate()
            .map(|(axis, first)| first + at[axis])
            .collect();
        let Some(chunk) = chunk(&place) else { continue };
        let common = |axis: usize| {
            let start = place[axis] * edges[axis];
            region[axis].start.max(start)..region[axis].end.min(start + edges[axis])
        };
        let part = chunk.slice_each_axis(|of| match of.axis.index() {
            axis if axis < last => {
                let (range, start) = (common(axis), place[axis] * edges[axis]);
                Slice::from(range.start - start..range.end - start)
            }
            _ => Slice::from(..),
        });
        let into = all.slice_each_axis_mut(|of| match of.axis.index() {
            axis if axis < last => {
                let (range, start) = (common(axis), region[axis].start);
                Slice::from(range.start - start..range.end - start)
            }
            _ => Slice::from(..),
        });
        copy_rows(part, into);
    }
    all
}

/// The boxes of a level that are compared: all of it, and, if `has_parts`, one in its middle and
/// its last voxel.
fn boxes(size: [usize; 3], has_parts: bool) -> Vec<[Range<usize>; 3]> {
    let middle = size.map(|extent| extent / 8..(extent * 3).div_ceil(4));
    let parts = [middle, size.map(|extent| extent - 1..extent)];
    let all = [size.map(|extent| 0..extent)];
    all.into_iter()
        .chain(parts.into_iter().filter(|_| has_parts))
        .collect()
}

/// Compares every level of every channel at the first and the last time point; parts of levels
/// only if `has_parts`. Returns the number of boxes and of voxels that each format had.
fn compare(
    server: &Server,
    library: &Library,
    has_parts: bool,
) -> BTreeMap<String, (usize, usize)> {
    let mut formats: Vec<Box<dyn Format>> = Vec::new();
    formats.extend(
        ["npy", "raw", "tif"].map(|kind| Box::new(voxels::Voxels(kind)) as Box<dyn Format>),
    );
    formats.extend(zarr::FORMATS.map(|format| Box::new(format) as Box<dyn Format>));
    formats.extend(precomputed::CLIENTS.map(|client| Box::new(client) as Box<dyn Format>));
    formats.push(Box::new(References(library.folder.clone())));
    let mut connection = server.connect();
    let mut counts = BTreeMap::new();
    for dataset in server.json("/datasets.json")["datasets"]
        .as_array()
        .unwrap()
    {
        for channel in dataset["channels"].as_array().unwrap() {
            let times = channel["times"].as_u64().unwrap_or(1) as usize;
            for level in channel["levels"].as_array().unwrap() {
                let size = [2, 1, 0].map(|axis| level["size"][axis].as_u64().unwrap() as usize);
                if size.iter().product::<usize>() > MAX_VOXELS {
                    continue;
                }
                for time in if times > 1 {
                    vec![0, times - 1]
                } else {
                    vec![0]
                } {
                    let token = dataset["token"].as_str().unwrap();
                    let known = library.level(token, channel, level, time);
                    let is_small = size.iter().product::<usize>() <= FEW_VOXELS;
                    for region in boxes(size, has_parts && is_small) {
                        let case = Case {
                            token,
                            channel,
                            level,
                            time,
                            region,
                        };
                        compare_box(
                            &mut connection,
                            &formats,
                            &case,
                            known.as_ref(),
                            &mut counts,
                        );
                    }
                }
            }
        }
    }
    counts
}

/// Compares a box in all formats: with the level, if it is known, and else with the first format.
fn compare_box(
    connection: &mut Connection,
    formats: &[Box<dyn Format>],
    case: &Case<'_>,
    level: Option<&Block>,
    counts: &mut BTreeMap<String, (usize, usize)>,
) {
    let within = |level: &Block| {
        let part = level.bytes.slice_each_axis(|of| match of.axis.index() {
            axis @ 1..4 => Slice::from(case.region[axis - 1].clone()),
            _ => Slice::from(..),
        });
        let mut bytes = ArrayD::zeros(part.raw_dim());
        copy_rows(part, bytes.view_mut());
        Block {
            dtype: level.dtype.clone(),
            bytes,
        }
    };
    let mut expected = level.map(within);
    for format in formats {
        for found in format.read(connection, case) {
            let expected = expected.get_or_insert_with(|| found.clone());
            let what = format!(
                "{} {}/{} level {}",
                format.name(),
                case.token,
                case.name(),
                case.number()
            );
            let wanted = library::converted(expected, &found.dtype);
            let shapes = (found.bytes.shape(), wanted.shape());
            let is_equal = library::are_equal(&found.bytes, &wanted, &found.dtype);
            assert!(
                is_equal,
                "{what} time {} {:?} {shapes:?}",
                case.time, case.region
            );
            let count = counts.entry(format.name()).or_insert((0, 0));
            *count = (
                count.0 + 1,
                count.1 + found.bytes.len() / width(&found.dtype),
            );
        }
    }
}

/// The formats in the order of [`assert_counts`].
const NAMES: [&str; 11] = [
    "npy",
    "raw",
    "tif",
    "zarr 0.4",
    "zarr 0.5",
    "zarr 0.4, all channels",
    "zarr 0.5, all channels",
    "references",
    "precomputed, browser",
    "precomputed, requests",
    "precomputed, plain",
];

/// The number of boxes of each format must not become smaller.
fn assert_counts(counts: &BTreeMap<String, (usize, usize)>, least: [usize; 11]) {
    for (format, least) in NAMES.iter().zip(least) {
        let boxes = counts.get(*format).map_or(0, |count| count.0);
        assert!(boxes >= least, "{format}: {boxes} boxes, {counts:?}");
    }
    println!("boxes and voxels: {counts:?}");
}

fn served(place: &Place, config: &Path) -> (Server, Library) {
    let address = format!("server.references={}", references::PUBLIC);
    let server = place.serve([
        "--config".as_ref(),
        config.as_os_str(),
        "--set".as_ref(),
        address.as_ref(),
    ]);
    (server, Library::of(config))
}

#[test]
#[ignore = "slow: reads every fixture in every format"]
fn every_format_has_the_voxels_of_the_fixtures() {
    let place = Place::new();
    let (server, library) = served(&place, &fixture("voltile.toml"));
    let counts = compare(&server, &library, false);
    assert_counts(
        &counts,
        [350, 350, 300, 350, 350, 165, 165, 260, 1300, 0, 0],
    );
}

#[test]
#[ignore = "slow: reads every type and storage in every format"]
fn every_format_has_the_voxels_of_every_type_and_storage() {
    let place = Place::new();
    volumes::write(&place);
    let (server, library) = served(&place, &place.path("voltile.toml"));
    let counts = compare(&server, &library, true);
    assert_counts(&counts, [125, 125, 72, 125, 125, 66, 66, 105, 420, 65, 65]);
}
