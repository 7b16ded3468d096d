//! The contract of [`Volume`], as one table of cases that every implementation passes.
//!
//! A case is a box and a step; a subject is a volume with the value that each of its voxels must
//! have. All subjects show the same numbers, stored or computed differently.

use std::path::Path;
use std::sync::Arc;

use ndarray::Array3;
use proptest::prelude::*;
use voltile_base::axes::Axes;
use voltile_base::metrics::Metrics;

use super::hdf5::{Opener, View};
use super::samples::with_samples;
use super::*;
use crate::volume::hdf5::ChunkStore;

/// The extents of most subjects; none is a multiple of a chunk's.
const SIZE: Xyz<u64> = Xyz {
    x: 23,
    y: 17,
    z: 13,
};
/// Along x, y and z.
const CHUNK: [usize; 3] = [8, 4, 4];

fn number(time: u64, at: Xyz<u64>) -> f64 {
    (1 + at.x + 30 * at.y + 600 * at.z + 9000 * time) as f64
}

type ValueAt = Box<dyn Fn(u64, Xyz<u64>) -> f64>;

struct Subject {
    name: &'static str,
    volume: Arc<dyn Volume>,
    value: ValueAt,
    /// The slices along z that are missing.
    missing: Range<u64>,
}

impl Subject {
    fn new(
        name: &'static str,
        volume: impl Volume + 'static,
        value: impl Fn(u64, Xyz<u64>) -> f64 + 'static,
    ) -> Self {
        Self {
            name,
            volume: Arc::new(volume),
            value: Box::new(value),
            missing: 0..0,
        }
    }

    fn expected(&self, request: &ReadRequest) -> Vec<f64> {
        let Region { start, size } = request.region;
        let mut all = Vec::new();
        for z in (start.z..start.z + size.z).step_by(request.step.z as usize) {
            for y in (start.y..start.y + size.y).step_by(request.step.y as usize) {
                for x in (start.x..start.x + size.x).step_by(request.step.x as usize) {
                    all.push((self.value)(request.time, Xyz::new(x, y, z)));
                }
            }
        }
        all
    }
}

fn in_memory(size: Xyz<u64>, value: impl Fn(Xyz<u64>) -> u16) -> Arc<dyn Volume> {
    Arc::new(MemoryVolume::of(VoxelType::U16, size, value))
}

fn slab(first: u64, depth: u64) -> Arc<dyn Volume> {
    in_memory(Xyz { z: depth, ..SIZE }, move |at| {
        number(
            0,
            Xyz {
                z: first + at.z,
                ..at
            },
        ) as u16
    })
}

/// Slabs of 2, 3, 1 and 7 slices, of which the second is missing.
fn stack() -> Subject {
    let open = |part: u64| {
        let (first, depth) = [(0, 2), (2, 3), (5, 1), (6, 7)][part as usize];
        Ok(slab(first, depth))
    };
    let present = vec![true, false, true, true];
    let parts = Series::new(slab(0, 2).shape().clone(), present, Box::new(open));
    let value = |_, at: Xyz<u64>| {
        if (2..5).contains(&at.z) {
            0.0
        } else {
            number(0, at)
        }
    };
    Subject {
        missing: 2..5,
        ..Subject::new("a stack with a gap", parts.along_z(&[2, 3, 1, 7]), value)
    }
}

fn series() -> Subject {
    let open = |time: u64| Ok(in_memory(SIZE, move |at| number(time, at) as u16));
    let shape = in_memory(SIZE, |_| 0).shape().clone();
    let volume = Series::new(shape, vec![true, true, false], Box::new(open));
    Subject::new("a series", volume, number)
}

fn repeated() -> Subject {
    let times = Xyz::new(3, 2, 1);
    let stored = in_memory(SIZE, |at| number(0, at) as u16);
    let value = move |_, at: Xyz<u64>| number(0, at.zip(times, |at, times| at / times));
    Subject::new("repeated voxels", Repeated::new(stored, times), value)
}

fn scaled() -> Subject {
    let scaling = Scaling {
        valid: [2.0, 1e6],
        lines: vec![[2.0, -1.0]],
        time: 0,
        space: Xyz::all(0),
    };
    let stored = in_memory(SIZE, |at| number(0, at) as u16);
    let value = |_, at| 2.0 * number(0, at).max(2.0) - 1.0; // values are clipped to the valid ones
    let volume = Mapped::new(stored, Values::scaled(scaling));
    Subject::new("scaled values", volume, value)
}

fn ids() -> Subject {
    let stored = in_memory(SIZE, |at| number(0, at) as u16);
    let volume = Mapped::new(stored, Values::ids(vec![(1, 77), (632, 88)]));
    let value = |_, at| match number(0, at) {
        1.0 => 77.0,
        632.0 => 88.0,
        number => number,
    };
    Subject::new("mapped ids", volume, value)
}

fn magnitude() -> Subject {
    let part = |factor: f32| -> Arc<dyn Volume> {
        Arc::new(MemoryVolume::of(VoxelType::F32, SIZE, move |at| {
            factor * number(0, at) as f32
        }))
    };
    let volume = Polar::new([part(3.0), part(4.0)], false);
    Subject::new("a magnitude", volume, |_, at| 5.0 * number(0, at))
}

fn write_datasets(path: &Path) {
    let file = ::hdf5::File::create(path).unwrap();
    let shape = (SIZE.z as usize, SIZE.y as usize, SIZE.x as usize);
    let data = Array3::from_shape_fn(shape, |(z, y, x)| {
        number(0, Xyz::new(x as u64, y as u64, z as u64)) as u16
    });
    let [x, y, z] = CHUNK;
    let new = || file.new_dataset_builder().with_data(&data);
    new().create("contiguous").unwrap();
    new().chunk((z, y, x)).create("chunked").unwrap();
    new().chunk((z, y, x)).deflate(1).create("gzip").unwrap();
    new().chunk(shape).deflate(1).create("one chunk").unwrap();
    new()
        .chunk((z, y, x))
        .shuffle()
        .fletcher32()
        .create("shuffle")
        .unwrap();
    let turned = data.view().permuted_axes([0, 2, 1]);
    let turned = turned.as_standard_layout().to_owned();
    file.new_dataset_builder()
        .with_data(&turned)
        .chunk((z, x, y))
        .deflate(1)
        .create("turned")
        .unwrap();
    let never = file.new_dataset::<u16>().shape(shape);
    let never = never.chunk((z, y, x)).deflate(1);
    never.fill_value(9_u16).create("never").unwrap();
}

/// A dataset of the file, which is read in the way that `access` names.
fn dataset(path: &Path, name: &'static str, cache_bytes: usize, access: Access) -> Subject {
    let opener = Opener::new(ChunkStore::new(
        cache_bytes,
        Metrics::default(),
        voltile_base::flow::activity::Activity::default(),
    ));
    let view = View::from_axes(Axes::new(if name == "turned" { "zxy" } else { "zyx" }).unwrap());
    let file = opener.open(&path.into()).unwrap();
    let volume = file.volume(name, &view).unwrap();
    assert_eq!(volume.shape().access, access, "{name}");
    Subject {
        name,
        volume: Arc::new(volume),
        value: match name {
            "never" => Box::new(|_, _| 9.0),
            _ => Box::new(number),
        },
        missing: 0..0,
    }
}

fn subjects(folder: &Path) -> Vec<Subject> {
    let path = folder.join("volume.h5");
    write_datasets(&path);
    let memory = MemoryVolume::of(VoxelType::U16, SIZE, |at| number(0, at) as u16);
    vec![
        Subject::new("memory", memory, number),
        stack(),
        series(),
        repeated(),
        scaled(),
        ids(),
        magnitude(),
        dataset(&path, "contiguous", 1 << 20, Access::Direct),
        dataset(&path, "chunked", 1 << 20, Access::Direct),
        dataset(&path, "gzip", 1 << 20, Access::Cached),
        dataset(&path, "turned", 1 << 20, Access::Cached),
        dataset(&path, "shuffle", 1 << 20, Access::Cached),
        dataset(&path, "one chunk", 1 << 8, Access::Uncached), // larger than the cache
        dataset(&path, "never", 1 << 20, Access::Cached),
    ]
}

/// Boxes along which every plane, chunk border and end of the volume is met.
fn requests(shape: &VolumeShape) -> Vec<ReadRequest> {
    let size = shape.size;
    let last = size.map(|extent| extent - 1);
    let plane =
        |axis: Xyz<bool>| axis.zip(size, |is_thin, extent| if is_thin { 1 } else { extent });
    let boxes = [
        (Xyz::all(0), size),
        (last, Xyz::all(1)),
        (Xyz::new(0, 0, 4), plane(Xyz::new(false, false, true))),
        (Xyz::new(0, 7, 0), plane(Xyz::new(false, true, false))),
        (Xyz::new(9, 0, 0), plane(Xyz::new(true, false, false))),
        (Xyz::new(7, 3, 1), Xyz::new(2, 2, 6)),
        (Xyz::new(5, 2, 3), Xyz::new(18, 15, 10)),
        (Xyz::new(1, 0, 2), Xyz::new(9, 3, 3)),
    ];
    let steps = [
        [1, 1, 1],
        [2, 1, 1],
        [1, 3, 2],
        [4, 4, 4],
        [16, 5, 1],
        [1, 1, 7],
    ];
    let mut all = Vec::new();
    for time in (0..shape.times).filter(|time| shape.has(*time)) {
        for (start, size) in boxes {
            for step in steps {
                all.push(ReadRequest::new(time, Region { start, size }).every(step.into()));
            }
        }
    }
    all
}

fn numbers(samples: &Samples) -> Vec<f64> {
    with_samples!(samples, voxels => voxels.iter().map(|voxel| voxel.to_f64()).collect())
}

fn assert_alike(found: &[f64], expected: &[f64], subject: &Subject, request: &ReadRequest) {
    let is_alike = |(found, expected): (&f64, &f64)| {
        found == expected || (found.is_nan() && expected.is_nan())
    };
    assert_eq!(found.len(), expected.len(), "{}, {request:?}", subject.name);
    let wrong = found.iter().zip(expected).position(|pair| !is_alike(pair));
    assert_eq!(wrong, None, "{}, {request:?}", subject.name);
}

fn check_reads(subject: &Subject, requests: &[ReadRequest]) {
    let mut samples = Samples::default();
    for request in requests {
        subject.volume.read(request, &mut samples).unwrap();
        let expected = subject.expected(request);
        assert_alike(&numbers(&samples), &expected, subject, request);
    }
}

#[test]
fn every_volume_reads_the_same_boxes_at_every_step() {
    let folder = tempfile::tempdir().unwrap();
    for subject in subjects(folder.path()) {
        check_reads(&subject, &requests(subject.volume.shape()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn every_volume_reads_any_box(
        boxes in prop::collection::vec(
            ((0..23u64, 0..17u64, 0..13u64), (1..70u64, 1..35u64, 1..14u64), (1..40u64, 1..20u64, 1..9u64)), 1..12,
        ),
    ) {
        let folder = tempfile::tempdir().unwrap();
        for subject in subjects(folder.path()) {
            let whole = subject.volume.shape().size;
            let mut requests = Vec::new();
            for (start, size, step) in &boxes {
                let [start, size, step] = [start, size, step].map(|(x, y, z)| Xyz::new(*x, *y, *z));
                let rest = whole.zip(start, |extent, start| extent - start);
                let region = Region { start, size: size.zip(rest, u64::min) };
                requests.push(ReadRequest::new(0, region).every(step));
            }
            check_reads(&subject, &requests);
        }
    }
}

#[test]
fn every_volume_writes_only_into_the_box_that_it_is_given() {
    let folder = tempfile::tempdir().unwrap();
    for subject in subjects(folder.path()) {
        for request in requests(subject.volume.shape()) {
            let size = request.size();
            let around = size.map(|extent| extent + 2);
            let mut samples = Samples::default();
            samples.reset(subject.volume.shape().voxel, around.volume() as usize);
            samples.bytes_mut().fill(0);
            let mut into = samples.as_box(around).unwrap();
            let part = into.part(Xyz::all(1), size);
            subject.volume.read_box(&request, part).unwrap();
            let mut expected = vec![0.0; around.volume() as usize];
            let mut inside = subject.expected(&request).into_iter();
            for z in 1..=size.z {
                for y in 1..=size.y {
                    for x in 1..=size.x {
                        let place = (z * around.y + y) * around.x + x;
                        expected[place as usize] = inside.next().unwrap();
                    }
                }
            }
            assert_alike(&numbers(&samples), &expected, &subject, &request);
        }
    }
}

#[test]
fn every_volume_names_its_gaps_and_the_parts_that_it_shows() {
    let folder = tempfile::tempdir().unwrap();
    for subject in subjects(folder.path()) {
        for request in requests(subject.volume.shape()) {
            let region = request.region;
            let mut missing: Vec<u64> = Vec::new();
            for gap in subject.volume.gaps(request.time, &region) {
                let across = Region {
                    start: Xyz { z: 0, ..gap.start },
                    size: Xyz { z: 0, ..gap.size },
                };
                assert_eq!(
                    across.start,
                    Xyz {
                        z: 0,
                        ..region.start
                    },
                    "{}",
                    subject.name
                );
                assert_eq!(
                    across.size,
                    Xyz {
                        z: 0,
                        ..region.size
                    },
                    "{}",
                    subject.name
                );
                missing.extend(gap.start.z..gap.end().z);
            }
            let wanted = region.start.z..region.end().z;
            let expected: Vec<u64> = wanted.filter(|z| subject.missing.contains(z)).collect();
            assert_eq!(missing, expected, "{}, {region:?}", subject.name);
            for part in subject.volume.parts(request.time, &region).unwrap() {
                let shown = ReadRequest::new(part.time, part.region);
                part.volume.read(&shown, &mut Samples::default()).unwrap();
            }
        }
    }
}

#[test]
fn what_was_never_written_is_the_fill_value() {
    let folder = tempfile::tempdir().unwrap();
    let mut unwritten = Vec::new();
    for subject in subjects(folder.path()) {
        for request in requests(subject.volume.shape()) {
            if subject
                .volume
                .is_written(request.time, &request.region)
                .unwrap()
            {
                continue;
            }
            let fill = subject.volume.shape().fill.as_ref().map(numbers).unwrap();
            let is_fill = |value: &f64| [*value] == fill[..];
            assert!(
                subject.expected(&request).iter().all(is_fill),
                "{}",
                subject.name
            );
            unwritten.push(subject.name);
        }
    }
    unwritten.dedup();
    assert_eq!(unwritten, ["never"]);
}

/// A volume of which nothing can be read.
#[derive(Debug)]
struct Unreadable(VolumeShape);

impl Volume for Unreadable {
    fn shape(&self) -> &VolumeShape {
        &self.0
    }

    fn read_box(&self, _request: &ReadRequest, _into: BoxMut<'_>) -> Result<(), ReadError> {
        Err(ReadError::Damaged {
            place: "a test".to_owned(),
            problem: "nothing can be read".to_owned(),
        })
    }
}

#[test]
fn an_error_of_a_member_is_one_of_the_volume() {
    let unreadable = |voxel| -> Arc<dyn Volume> {
        let shape = in_memory(SIZE, |_| 0).shape().clone();
        Arc::new(Unreadable(VolumeShape { voxel, ..shape }))
    };
    let series = || {
        let member = unreadable(VoxelType::U16);
        let shape = member.shape().clone();
        Series::new(
            shape,
            vec![true],
            Box::new(move |_| Ok(Arc::clone(&member))),
        )
    };
    let floats = || unreadable(VoxelType::F32);
    let all: [(&str, Arc<dyn Volume>); 6] = [
        ("series", Arc::new(series())),
        ("stack", Arc::new(series().along_z(&[SIZE.z]))),
        (
            "repeated",
            Arc::new(Repeated::new(unreadable(VoxelType::U16), Xyz::all(2))),
        ),
        (
            "ids",
            Arc::new(Mapped::new(
                unreadable(VoxelType::U16),
                Values::ids(Vec::new()),
            )),
        ),
        (
            "magnitude",
            Arc::new(Polar::new([floats(), floats()], false)),
        ),
        ("phase", Arc::new(Polar::new([floats(), floats()], true))),
    ];
    for (name, volume) in all {
        for step in [1, 3] {
            let request = ReadRequest::new(0, Region::whole(SIZE)).every(Xyz::all(step));
            let read = volume.read(&request, &mut Samples::default());
            assert!(matches!(read, Err(ReadError::Damaged { .. })), "{name}");
        }
    }
}
