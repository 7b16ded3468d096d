//! Whole tiles, from the request to the PNG, by one thread: for files of each layout and each kind
//! of storage.
//!
//! Cold: no decoded chunk is cached, but the file is in the system's page cache. Kept: all chunks
//! are cached. The volumes are 128 × 512 × 512 voxels like a micrograph's; each tile is of a random
//! slice.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion};
use hdf5::types::FixedAscii;
use hdf5::{DatasetBuilder, H5Type, Location};
use ndarray::Array3;
use voltile::catalog::{Catalog, Subject};
use voltile::config::{DatasetSettings, Settings};
use voltile_base::flow::activity::Activity;
use voltile_base::geometry::{Axis, Level, Plane, Region, TileAddress};
use voltile_base::metrics::Metrics;
use voltile_base::name::Name;
use voltile_base::request::{ChannelChoice, TileRequest};
use voltile_hdf5::volume::{ReadPolicy, ReadRequest, Samples, Volume};
use voltile_render::plan::{Picture, Plan};
use voltile_render::{Scratch, render};

use crate::common::{Dice, micrograph};

const DEPTH: usize = 128;
const SIDE: usize = 512;

fn voxels() -> Array3<u8> {
    let mut dice = Dice(11);
    Array3::from_shape_fn((DEPTH, SIDE, SIDE), |(z, y, x)| {
        micrograph(x, y, z, dice.bell()) as u8
    })
}

/// A file of one dataset, without any metadata.
pub fn plain(path: &Path, storage: impl FnOnce(DatasetBuilder) -> DatasetBuilder) {
    let file = hdf5::File::create(path).unwrap();
    put(&file, "raw", &voxels(), storage);
    file.close().unwrap();
}

fn put<T: H5Type>(
    file: &hdf5::File,
    name: &str,
    voxels: &Array3<T>,
    storage: impl FnOnce(DatasetBuilder) -> DatasetBuilder,
) {
    storage(file.new_dataset_builder())
        .with_data(voxels)
        .create(name)
        .unwrap();
}

/// The name of a layout, and the function that creates a file of it.
type Layout = (&'static str, fn(&Path));

/// Every layout and kind of storage.
const LAYOUTS: [Layout; 6] = [
    ("64³ gzip", |path| {
        plain(path, |builder| builder.chunk((64, 64, 64)).deflate(4));
    }),
    ("64³", |path| {
        plain(path, |builder| builder.chunk((64, 64, 64)));
    }),
    ("(1,512,512) gzip", |path| {
        plain(path, |builder| builder.chunk((1, SIDE, SIDE)).deflate(4));
    }),
    ("contiguous", |path| plain(path, |builder| builder)),
    ("BigDataViewer", big_data_viewer),
    ("Imaris", imaris),
];

/// As Fiji exports: unsigned 16-bit numbers stored as signed ones, in chunks of 16³, with a level
/// of half the size.
fn big_data_viewer(path: &Path) {
    let file = hdf5::File::create(path).unwrap();
    let factors = ndarray::arr2(&[[1.0, 1.0, 1.0], [2.0, 2.0, 1.0]]);
    file.new_dataset_builder()
        .with_data(&factors)
        .create("s00/resolutions")
        .unwrap();
    let full = voxels().mapv(|voxel| i16::from(voxel) * 16);
    let half = full.slice(ndarray::s![.., ..;2, ..;2]).to_owned();
    for (name, voxels) in [("t00000/s00/0/cells", &full), ("t00000/s00/1/cells", &half)] {
        put(&file, name, voxels, |builder| {
            builder.chunk((16, 16, 16)).deflate(6)
        });
    }
    file.close().unwrap();
}

/// As Imaris writes: chunks of 16 × 256 × 256, gzip at level 2, and a level of half the size.
fn imaris(path: &Path) {
    let file = hdf5::File::create(path).unwrap();
    let full = voxels();
    let half = full.slice(ndarray::s![.., ..;2, ..;2]).to_owned();
    for (level, voxels, side) in [(0, &full, "512"), (1, &half, "256")] {
        let path = format!("DataSet/ResolutionLevel {level}/TimePoint 0/Channel 0");
        put(&file, &format!("{path}/Data"), voxels, |builder| {
            builder.chunk((16, 256, 256)).deflate(2)
        });
        let group = file.group(&path).unwrap();
        for (axis, size) in [("X", side), ("Y", side), ("Z", "128")] {
            write_characters(&group, &format!("ImageSize{axis}"), size);
        }
    }
    let image = file.create_group("DataSetInfo/Image").unwrap();
    for (axis, extent) in ["512.0", "512.0", "128.0"].iter().enumerate() {
        write_characters(&image, &format!("ExtMin{axis}"), "0.0");
        write_characters(&image, &format!("ExtMax{axis}"), extent);
    }
    file.close().unwrap();
}

/// Writes an attribute in Imaris's form: an array of single characters.
fn write_characters(at: &Location, name: &str, value: &str) {
    let value: Vec<FixedAscii<1>> = value
        .bytes()
        .map(|byte| FixedAscii::from_ascii(&[byte]).unwrap())
        .collect();
    at.new_attr_builder()
        .with_data(&value)
        .create(name)
        .unwrap();
}

/// The catalogue of one file, opened as by a server.
pub fn open_catalog(path: &Path) -> (Catalog, Metrics, Activity) {
    let (metrics, activity) = (Metrics::default(), Activity::default());
    let token = Name::nearest(&path.file_stem().unwrap().to_string_lossy());
    let datasets = [(token, DatasetSettings::of_file(path.to_owned()))]
        .into_iter()
        .collect();
    let settings = Settings {
        datasets,
        ..Settings::default()
    };
    let opened = Catalog::open(&settings, &metrics, &activity);
    assert!(opened.faults.is_empty(), "{:?}", opened.faults);
    (opened.catalog, metrics, activity)
}

/// Draws tiles of the first channel on one thread.
struct Drawer<'a> {
    catalog: &'a Catalog,
    scratch: Scratch,
}

impl<'a> Drawer<'a> {
    fn new(catalog: &'a Catalog) -> Self {
        Self {
            catalog,
            scratch: Scratch::default(),
        }
    }

    fn plan(&self, address: &TileAddress) -> Plan {
        let dataset = self.catalog.datasets().next().unwrap();
        let channel = dataset.channels.values().next().unwrap();
        if channel.window().is_none() {
            channel.keep(&channel.survey().unwrap().into());
        }
        let request = TileRequest {
            token: dataset.token.clone().into(),
            channels: ChannelChoice::One(channel.name.clone()),
            time: None,
            address: *address,
            slab: None,
            adjust: Vec::new(),
        };
        let planned = black_box(self.catalog.plan_tile(&request).unwrap());
        match planned.subject {
            Subject::Tile(plan) => plan,
            other => panic!("expected a tile: {other:?}"),
        }
    }

    fn volume(&self, address: &TileAddress) -> Arc<dyn Volume> {
        match self.plan(address).picture {
            Picture::Grey(layer) => layer.source.volume,
            other => panic!("expected a grey tile: {other:?}"),
        }
    }

    /// Draws one tile; returns the time that it took. If `cold`, chunks are dropped from the cache
    /// before the measurement.
    fn tile(&mut self, address: &TileAddress, cold: bool) -> Duration {
        if cold {
            self.catalog.chunks().clear();
        }
        let began = Instant::now();
        let plan = self.plan(address);
        black_box(render(&plan, &ReadPolicy::default(), &mut self.scratch).unwrap());
        began.elapsed()
    }
}

/// The tile of a random slice.
fn random_tile(plane: Plane, dice: &mut Dice) -> TileAddress {
    let extent = if plane.slice_axis() == Axis::Z {
        DEPTH
    } else {
        SIDE
    } as u64;
    TileAddress {
        plane,
        level: Level::FULL,
        slice: dice.roll() % extent,
        row: 0,
        column: 0,
    }
}

/// Each layout in each plane, without decoded chunks in the cache and with all of them.
pub fn tiles(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    for (number, (_, make)) in LAYOUTS.iter().enumerate() {
        make(&folder.path().join(format!("{number}.h5")));
    }
    for (group, cold) in [("tile cold", true), ("tile kept", false)] {
        let mut group = criterion.benchmark_group(group);
        group.sample_size(10);
        for (number, (name, _)) in LAYOUTS.iter().enumerate() {
            let (catalog, _metrics, activity) =
                open_catalog(&folder.path().join(format!("{number}.h5")));
            // Other jobs count as running, so that each tile is rendered by one thread.
            let _others = (activity.enter(), activity.enter());
            for plane in Plane::ALL {
                let (mut drawer, mut dice) = (Drawer::new(&catalog), Dice(3));
                let volume = drawer.volume(&random_tile(plane, &mut dice));
                // Decode all chunks into the cache.
                volume
                    .read(
                        &ReadRequest::new(0, Region::whole(volume.shape().size)),
                        &mut Samples::default(),
                    )
                    .unwrap();
                let mut tile = || drawer.tile(&random_tile(plane, &mut dice), cold);
                group.bench_function(BenchmarkId::new(*name, plane), |bencher| {
                    bencher.iter_custom(|times| (0..times).map(|_| tile()).sum());
                });
            }
        }
        group.finish();
    }
}
