//! Chunk indexes: every voxel is read from where it was written, whichever index the file uses.
//!
//! The latest file format has five kinds of chunk index, the earliest has another. Which one a
//! dataset gets depends on its maximum shape, on when its space is allocated, and on the file. The
//! library reports wrong coordinates for one of them. All six are covered, with every combination
//! of fixed, extendible and unlimited axes.

use std::fs;
use std::ops::Range;
use std::path::Path;

use voltile_base::axes::{Axes, AxisName};
use voltile_base::geometry::{Region, Xyz};
use voltile_hdf5::volume::hdf5::{OpenFile, View};
use voltile_hdf5::volume::{ReadRequest, Samples, Volume};

use crate::common::made;
use crate::common::picture::Picture;
use crate::common::{Place, Server};
use hdf5::plist::dataset_create::AllocTime;
use hdf5::{Extent, File, Hyperslab, SimpleExtents, SliceOrIndex};
use ndarray::{ArrayD, Dimension, IxDyn};
use serde_json::json;

/// A pseudo-random number for each position; never 0, which is the value of voxels that were not
/// written.
fn noise(at: &[usize]) -> u16 {
    let mixed = at.iter().fold(7_u64, |mixed, n| {
        (mixed ^ *n as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    });
    ((mixed ^ (mixed >> 29)) >> 7) as u16 | 1
}

/// How far an axis can grow beyond its extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    No,
    Some,
    Unlimited,
}

/// Every combination for `rank` axes.
fn rooms(rank: usize) -> Vec<Vec<Room>> {
    (0..rank).fold(vec![Vec::new()], |shorter, _| {
        let longer = |rooms: Vec<Room>| {
            [Room::No, Room::Some, Room::Unlimited]
                .map(|room| rooms.iter().copied().chain([room]).collect())
        };
        shorter.into_iter().flat_map(longer).collect()
    })
}

/// A shape and that of its chunks.
type Shapes = (&'static [usize], &'static [usize]);

/// Shapes that are not multiples of their chunks, and that differ along all axes.
const SHAPES: [Shapes; 4] = [
    (&[13, 17], &[3, 4]),
    (&[6, 11, 9], &[4, 3, 2]),
    (&[3, 5, 7, 6], &[2, 2, 3, 4]),
    (&[3, 2, 5, 4, 7], &[2, 1, 2, 3, 4]),
];

/// One dataset.
#[derive(Debug)]
struct Case {
    name: String,
    shape: &'static [usize],
    chunk: &'static [usize],
    rooms: Vec<Room>,
    gzip: bool,
    /// Space for all chunks is allocated when the dataset is created.
    early: bool,
    /// Some chunks are never written.
    holes: bool,
}

impl Case {
    fn extents(&self) -> SimpleExtents {
        let axes = self.shape.iter().zip(self.chunk).zip(&self.rooms);
        let extent = |((shape, chunk), room): ((&usize, &usize), &Room)| match room {
            Room::No => Extent::new(*shape, Some(*shape)),
            Room::Some => Extent::new(*shape, Some(shape + 2 * chunk + 1)),
            Room::Unlimited => Extent::new(*shape, None),
        };
        SimpleExtents::from_vec(axes.map(extent).collect())
    }

    /// The boxes that are written: everything, or all except the chunks that are first along the
    /// first axis and not first along the last.
    fn boxes(&self) -> Vec<Vec<Range<usize>>> {
        let all: Vec<Range<usize>> = self.shape.iter().map(|extent| 0..*extent).collect();
        if !self.holes {
            return vec![all];
        }
        let (mut later, mut first) = (all.clone(), all);
        later[0].start = self.chunk[0];
        first[0].end = self.chunk[0];
        let last = self.shape.len() - 1;
        first[last].end = self.chunk[last];
        vec![later, first]
    }

    fn voxel(&self, at: &[usize]) -> u16 {
        let holds =
            |range: &[Range<usize>]| range.iter().zip(at).all(|(range, at)| range.contains(at));
        if self.boxes().iter().any(|range| holds(range)) {
            noise(at)
        } else {
            0
        }
    }

    fn write(&self, file: &File) {
        let builder = file
            .new_dataset::<u16>()
            .shape(self.extents())
            .chunk(self.chunk.to_vec());
        let builder = if self.gzip {
            builder.deflate(1)
        } else {
            builder
        };
        let builder = if self.early {
            builder.alloc_time(Some(AllocTime::Early))
        } else {
            builder
        };
        let dataset = builder.create(self.name.as_str()).unwrap();
        for range in self.boxes() {
            let shape: Vec<usize> = range.iter().map(Range::len).collect();
            let voxel = |at: IxDyn| {
                let at: Vec<usize> = at
                    .slice()
                    .iter()
                    .zip(&range)
                    .map(|(at, range)| at + range.start)
                    .collect();
                noise(&at)
            };
            let slab: Vec<SliceOrIndex> = range.iter().cloned().map(SliceOrIndex::from).collect();
            let data = ArrayD::from_shape_fn(IxDyn(&shape), voxel);
            dataset.write_slice(&data, Hyperslab::from(slab)).unwrap();
        }
    }

    /// The number of chunks, and the number of stored chunks.
    fn chunks(&self) -> (u64, u64) {
        let count = |range: &[Range<usize>]| -> usize {
            range
                .iter()
                .zip(self.chunk)
                .map(|(range, chunk)| range.len().div_ceil(*chunk))
                .product()
        };
        let all: Vec<Range<usize>> = self.shape.iter().map(|extent| 0..*extent).collect();
        let stored = if self.early {
            count(&all)
        } else {
            self.boxes().iter().map(|range| count(range)).sum()
        };
        (count(&all) as u64, stored as u64)
    }

    /// Reads the first, a middle and the last slice of each plane, at each time and of each
    /// channel.
    fn assert_read(&self, file: &OpenFile) {
        let axes = Axes::new(["yx", "zyx", "tzyx", "tczyx"][self.shape.len() - 2]).unwrap();
        let extent = |axis| axes.position(axis).map_or(1, |place| self.shape[place]);
        let size = Xyz::new(AxisName::X, AxisName::Y, AxisName::Z).map(|axis| extent(axis) as u64);
        for channel in 0..extent(AxisName::C) {
            let fixed = vec![(AxisName::C, channel as u64)];
            let fixed = if axes.position(AxisName::C).is_some() {
                fixed
            } else {
                Vec::new()
            };
            let view = View {
                axes: axes.clone(),
                fixed,
                reinterpret_as: None,
                size: None,
                values: None,
                part: None,
                repeat: Xyz::all(1),
            };
            let volume = file.volume(&self.name, &view).unwrap();
            let tally = volume.tally(1).unwrap();
            assert_eq!(
                (tally.chunks, tally.chunks_written),
                self.chunks(),
                "{self:?}"
            );
            for time in 0..extent(AxisName::T) {
                for region in slices(size) {
                    let mut read = Samples::default();
                    volume
                        .read(&ReadRequest::new(time as u64, region), &mut read)
                        .unwrap();
                    let voxel = |at: Xyz<u64>| {
                        let along = |axis| match axis {
                            AxisName::T => time,
                            AxisName::C => channel,
                            AxisName::Z => at.z as usize,
                            AxisName::Y => at.y as usize,
                            AxisName::X => at.x as usize,
                        };
                        self.voxel(&axes.iter().map(along).collect::<Vec<_>>())
                    };
                    assert!(
                        read == expected(&region, voxel),
                        "{self:?} at {time}: {region:?}"
                    );
                }
            }
        }
    }
}

/// The first, a middle and the last slice in each plane.
fn slices(size: Xyz<u64>) -> Vec<Region> {
    let along = |extent: u64| [0, extent / 2, extent - 1];
    let xy = along(size.z).map(|z| (Xyz::new(0, 0, z), Xyz::new(size.x, size.y, 1)));
    let xz = along(size.y).map(|y| (Xyz::new(0, y, 0), Xyz::new(size.x, 1, size.z)));
    let yz = along(size.x).map(|x| (Xyz::new(x, 0, 0), Xyz::new(1, size.y, size.z)));
    [xy, xz, yz]
        .concat()
        .into_iter()
        .map(|(start, size)| Region { start, size })
        .collect()
}

fn expected(region: &Region, voxel: impl Fn(Xyz<u64>) -> u16) -> Samples {
    let mut voxels = Vec::new();
    for z in 0..region.size.z {
        for y in 0..region.size.y {
            let x = 0..region.size.x;
            voxels.extend(x.map(|x| {
                voxel(Xyz::new(x, y, z).zip(region.start, |within, start| within + start))
            }));
        }
    }
    Samples::U16(voxels)
}

/// Every combination of axes for one shape, with and without a filter and with space allocated
/// early.
fn cases((shape, chunk): Shapes) -> Vec<Case> {
    let mut cases = Vec::new();
    for (number, rooms) in rooms(shape.len()).into_iter().enumerate() {
        let name = |how: &str| format!("{number}_{how}");
        let case = |how: &str, gzip, early, holes| Case {
            name: name(how),
            shape,
            chunk,
            rooms: rooms.clone(),
            gzip,
            early,
            holes,
        };
        cases.push(case("plain", false, false, number % 2 == 0));
        cases.push(case("gzip", true, false, number % 2 == 1));
        if !rooms.contains(&Room::Unlimited) {
            cases.push(case("early", false, true, number % 2 == 1));
        }
    }
    for (how, gzip) in [("single_plain", false), ("single_gzip", true)] {
        let rooms = vec![Room::No; shape.len()];
        cases.push(Case {
            name: how.to_owned(),
            shape,
            chunk: shape,
            rooms,
            gzip,
            early: false,
            holes: false,
        });
    }
    cases
}

/// The number of occurrences of a sequence of bytes.
fn count(file: &[u8], sign: &[u8]) -> usize {
    file.windows(sign.len())
        .filter(|window| *window == sign)
        .count()
}

/// Reads every case of a shape from a file in the newest format, and from one in the oldest.
fn every_index_finds_its_chunks(shapes: Shapes) {
    let folder = tempfile::tempdir().unwrap();
    let (newest, oldest) = (
        folder.path().join("newest.h5"),
        folder.path().join("oldest.h5"),
    );
    let cases = cases(shapes);
    let files = [
        // With a user block: addresses are relative to its end.
        (
            &newest,
            File::with_options()
                .with_fapl(|a| a.libver_latest())
                .with_fcpl(|c| c.userblock(512))
                .create(&newest),
        ),
        (
            &oldest,
            File::with_options()
                .with_fapl(|a| a.libver_earliest())
                .create(&oldest),
        ),
    ];
    for (path, file) in files {
        let file = file.unwrap();
        cases.iter().for_each(|case| case.write(&file));
        file.close().unwrap();
        let file = made::open(path);
        cases.iter().for_each(|case| case.assert_read(&file));
    }
    // The files have the indexes that are tested.
    let unlimited = |case: &&Case| {
        case.rooms
            .iter()
            .filter(|room| **room == Room::Unlimited)
            .count()
    };
    let with =
        |count: fn(usize) -> bool| cases.iter().filter(|case| count(unlimited(case))).count();
    let not_fixed = cases
        .iter()
        .filter(|case| case.early || case.chunk == case.shape)
        .count();
    let bytes = fs::read(&newest).unwrap();
    assert_eq!(
        count(&bytes, b"EAHD"),
        with(|unlimited| unlimited == 1),
        "extensible arrays"
    );
    assert_eq!(
        count(&bytes, b"FAHD"),
        with(|unlimited| unlimited == 0) - not_fixed,
        "fixed arrays"
    );
    let trees = count(&bytes, b"BTHD\0\x0a") + count(&bytes, b"BTHD\0\x0b");
    assert_eq!(
        trees,
        with(|unlimited| unlimited > 1),
        "B-trees of version 2"
    );
    assert!(
        count(&fs::read(&oldest).unwrap(), b"TREE\x01") >= cases.len(),
        "B-trees of version 1"
    );
}

#[test]
fn every_index_finds_its_chunks_along_two_axes() {
    every_index_finds_its_chunks(SHAPES[0]);
}

#[test]
fn every_index_finds_its_chunks_along_three_axes() {
    every_index_finds_its_chunks(SHAPES[1]);
}

#[test]
fn every_index_finds_its_chunks_along_four_axes() {
    every_index_finds_its_chunks(SHAPES[2]);
}

#[test]
#[ignore = "slow: writes and reads files of every index"]
fn every_index_finds_its_chunks_along_five_axes() {
    every_index_finds_its_chunks(SHAPES[3]);
}

/// The shape of the volumes that are served.
const SHAPE: [usize; 3] = [30, 40, 50];

fn shade(z: usize, y: usize, x: usize) -> u8 {
    (noise(&[z, y, x]) >> 8) as u8
}

/// A file of volumes whose only unlimited axis is not the first.
fn grown(path: &Path) {
    let file = File::with_options()
        .with_fapl(|access| access.libver_latest())
        .create(path)
        .unwrap();
    let data = ArrayD::from_shape_fn(IxDyn(&SHAPE), |at| shade(at[0], at[1], at[2]));
    for (name, most) in [
        ("raw", [Some(30), Some(40), None]),
        ("middle", [Some(30), None, Some(50)]),
        ("roomy", [Some(64), Some(70), None]),
    ] {
        for gzip in [false, true] {
            let axes = SHAPE
                .iter()
                .zip(most)
                .map(|(extent, most)| Extent::new(*extent, most));
            let builder = file
                .new_dataset::<u8>()
                .shape(SimpleExtents::from_vec(axes.collect()));
            let builder = builder.chunk((10, 16, 16));
            let builder = if gzip { builder.deflate(4) } else { builder };
            let name = if gzip {
                format!("{name}_gzip")
            } else {
                name.to_owned()
            };
            builder.create(name.as_str()).unwrap().write(&data).unwrap();
        }
    }
    file.close().unwrap();
}

/// Every channel of a server has the voxels that [`grown`] wrote.
fn assert_shown(server: &Server) {
    let [depth, rows, columns] = SHAPE;
    for dataset in server.json("/datasets.json")["datasets"]
        .as_array()
        .unwrap()
    {
        let token = dataset["token"].as_str().unwrap();
        let channels = dataset["channels"].as_array().unwrap();
        assert_eq!(channels.len(), 6);
        for channel in channels {
            let name = channel["name"].as_str().unwrap();
            let tile = |plane: &str, slice: usize| {
                server
                    .tile(&format!("{token}/{name}/{plane}/{slice}/0_0_0.png"))
                    .picture()
            };
            for slice in [0, 15, 29] {
                assert_eq!(
                    tile("xy", slice),
                    Picture::of_plane(rows, columns, |y, x| shade(slice, y, x)),
                    "{name}"
                );
                assert_eq!(
                    tile("xz", slice),
                    Picture::of_plane(depth, columns, |z, x| shade(z, slice, x)),
                    "{name}"
                );
                assert_eq!(
                    tile("yz", slice),
                    Picture::of_plane(depth, rows, |z, y| shade(z, y, slice)),
                    "{name}"
                );
            }
        }
    }
}

#[test]
fn volumes_that_grow_along_any_axis_are_served_counted_and_rechunked() {
    let place = Place::new();
    grown(&place.path("grown.h5"));
    assert_shown(&place.serve(["grown.h5"]));
    let inspected = place.run(["inspect", "grown.h5", "--json"]);
    assert_eq!(inspected.code, 0, "{}", inspected.err);
    let described: serde_json::Value = serde_json::from_str(&inspected.out).unwrap();
    for channel in described["channels"].as_array().unwrap() {
        let stored = &channel["levels"][0]["stored"];
        assert_eq!(
            [&stored["chunks"], &stored["chunks_written"]],
            [&json!(36), &json!(36)],
            "{channel}"
        );
    }
    let copied = place.run(["pyramid", "grown.h5", "--rechunk", "copied.h5"]);
    assert_eq!(copied.code, 0, "{}", copied.err);
    assert_shown(&place.serve(["copied.h5"]));
}
