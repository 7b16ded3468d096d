//! Slicing: decoding chunks and assembling slices, each compared with its limit; and strategies for
//! inflating.
//!
//! The volumes are generated in a temporary folder: 128 × 512 × 512 voxels like a micrograph's.
//! "policy" compares strategies for a chunk that is needed in part: decode all of it; decode a
//! prefix, and all of it the second time (what voltile does); or resume the stream. A limit is the
//! time of inflating or copying the same bytes and nothing else.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "a benchmark is read, not called, and may panic with a message"
)]

#[path = "common/mod.rs"]
mod common;

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use flate2::{Compression, Decompress, FlushDecompress, Status};
use libdeflater::Decompressor;
use ndarray::Array3;
use rayon::prelude::*;
use voltile_base::flow::activity::Activity;
use voltile_base::geometry::{
    Level, LevelView, Orthogonal, Placement, Plane, Region, Scaling, TileAddress, Xyz, patch,
};
use voltile_base::metrics::Metrics;
use voltile_base::paint::{Style, TileFormat};
use voltile_hdf5::volume::hdf5::{ChunkStore, Opener, View};
use voltile_hdf5::volume::{Missing, ReadPolicy, ReadRequest, Samples, Volume};
use voltile_render::plan::{Layer, Picture, Plan, Shading, Source};
use voltile_render::{Scratch, render};

use common::{Dice, micrograph};

const DEPTH: usize = 128;
const SIDE: usize = 512;
const CHUNK: usize = 64;

fn voxels() -> Array3<u8> {
    let mut dice = Dice(11);
    Array3::from_shape_fn((DEPTH, SIDE, SIDE), |(z, y, x)| {
        micrograph(x, y, z, dice.bell()) as u8
    })
}

/// Writes a file with one volume for each kind of storage; returns their names.
fn write_volumes(path: &Path) -> Vec<&'static str> {
    let file = hdf5::File::create(path).unwrap();
    let data = voxels();
    let new = || file.new_dataset_builder().with_data(&data);
    let cube = (CHUNK, CHUNK, CHUNK);
    new().create("contiguous").unwrap();
    new().chunk(cube).create("bare").unwrap();
    new().chunk(cube).deflate(4).create("gzip").unwrap();
    new()
        .chunk((1, SIDE, SIDE))
        .deflate(4)
        .create("planes")
        .unwrap();
    let wide = data.mapv(|v| u16::from(v) * 16);
    file.new_dataset_builder()
        .with_data(&wide)
        .chunk(cube)
        .shuffle()
        .deflate(4)
        .create("wide")
        .unwrap();
    vec!["contiguous", "bare", "gzip", "planes", "wide"]
}

/// A volume with a chunk cache of `budget` bytes.
fn volume(path: &Path, name: &str, budget: usize, activity: &Activity) -> Arc<dyn Volume> {
    let chunks = ChunkStore::new(budget, Metrics::default(), activity.clone());
    let opener = Opener::new(chunks);
    let view = View::zyx();
    Arc::new(
        opener
            .open(&path.into())
            .unwrap()
            .volume(name, &view)
            .unwrap(),
    )
}

/// The whole slice at index `at`.
fn slice(plane: Plane, at: u64) -> Region {
    let whole = Xyz::new(SIDE as u64, SIDE as u64, DEPTH as u64);
    let (mut start, mut size) = (Xyz::all(0), whole);
    start[plane.slice_axis()] = at % whole[plane.slice_axis()];
    size[plane.slice_axis()] = 1;
    Region { start, size }
}

/// Random slices of every storage layout in every plane, with a small chunk cache and with all
/// chunks cached.
fn slices(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume.h5");
    let names = write_volumes(&path);
    for (group, budget, reads_before) in
        [("slice cold", 8 << 20, 1), ("slice kept", 256 << 20, 300)]
    {
        let mut group = criterion.benchmark_group(group);
        group.sample_size(20);
        for name in &names {
            let volume = volume(&path, name, budget, &Activity::default());
            for plane in Plane::ALL {
                let mut dice = Dice(3);
                let mut into = Samples::default();
                let read_any = &mut || {
                    volume
                        .read(&ReadRequest::new(0, slice(plane, dice.roll())), &mut into)
                        .unwrap();
                };
                // Reading many slices before measuring caches all chunks, if the budget suffices.
                (0..reads_before).for_each(|_| read_any());
                group.bench_function(BenchmarkId::new(*name, plane), |bencher| {
                    bencher.iter(&mut *read_any);
                });
            }
        }
        group.finish();
    }
}

/// Bursts of random tiles, read with a small chunk cache and encoded, by one thread and by two.
fn tiles(criterion: &mut Criterion) {
    const BURST: u64 = 32;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume.h5");
    let names = write_volumes(&path);
    let mut group = criterion.benchmark_group("tiles cold");
    group
        .throughput(Throughput::Elements(BURST))
        .sample_size(20);
    for name in names {
        let activity = Activity::default();
        // Other jobs count as running, so that each tile is rendered by one thread.
        let _others = (activity.enter(), activity.enter());
        let volume = volume(&path, name, 8 << 20, &activity);
        for threads in [1, 2] {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            let mut dice = Dice(21);
            group.bench_function(BenchmarkId::new(name, threads), |bencher| {
                bencher.iter(|| {
                    let slices: Vec<u64> = (0..BURST).map(|_| dice.roll() % DEPTH as u64).collect();
                    let draw = |scratch: &mut Scratch, slice: u64| {
                        let plan = plan(&volume, slice);
                        drop(render(&plan, &ReadPolicy::default(), scratch).unwrap());
                    };
                    pool.install(|| slices.into_par_iter().for_each_init(Scratch::default, draw));
                });
            });
        }
    }
    group.finish();
}

/// The xy tile of a slice, displayed as stored.
fn plan(volume: &Arc<dyn Volume>, slice: u64) -> Plan {
    let stored = [(Level::FULL, 1, volume.shape().size)];
    let view = LevelView::choose(Level::FULL, &stored, Scaling::Zslices).unwrap();
    let address = TileAddress {
        plane: Plane::Xy,
        level: Level::FULL,
        slice,
        row: 0,
        column: 0,
    };
    let patch = patch(&address, &view, Placement::default(), Orthogonal::Stored);
    let source = Source {
        volume: Arc::clone(volume),
        time: 0,
        view,
        patch,
        missing: Missing::default(),
        projection: None,
    };
    let window = volume.shape().voxel.full_window();
    let picture = Picture::Grey(Layer {
        source,
        shading: Shading {
            window,
            gamma: None,
        },
    });
    Plan {
        picture,
        style: Style::default(),
        format: TileFormat::default(),
        shows_missing: false,
    }
}

/// A chunk of a micrograph: as gzip stores it, and uncompressed.
fn stored_chunk() -> (Vec<u8>, Vec<u8>) {
    let mut dice = Dice(5);
    let place = |i: usize| (i % CHUNK, i / CHUNK % CHUNK, i / CHUNK / CHUNK);
    let voxel = |i: usize| {
        let (x, y, z) = place(i);
        micrograph(x, y, z, dice.bell()) as u8
    };
    let bytes: Vec<u8> = (0..CHUNK * CHUNK * CHUNK).map(voxel).collect();
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), Compression::new(4));
    std::io::Write::write_all(&mut encoder, &bytes).unwrap();
    (encoder.finish().unwrap(), bytes)
}

/// A zlib stream that is inflated step by step, each time from where it stopped.
struct ResumableStream<'a> {
    stream: Decompress,
    stored: &'a [u8],
    out: Vec<u8>,
}

impl<'a> ResumableStream<'a> {
    fn new(stored: &'a [u8], size: usize) -> Self {
        Self {
            stream: Decompress::new(true),
            stored,
            out: vec![0; size],
        }
    }

    /// Inflates at least the first `wanted` bytes.
    fn inflate_to(&mut self, wanted: usize) -> &[u8] {
        while (self.stream.total_out() as usize) < wanted {
            let (from, to) = (
                self.stream.total_in() as usize,
                self.stream.total_out() as usize,
            );
            let done = self.stream.decompress(
                &self.stored[from..],
                &mut self.out[to..wanted],
                FlushDecompress::None,
            );
            if done.unwrap() == Status::StreamEnd {
                break;
            }
        }
        &self.out
    }
}

/// Inflates at least the first `wanted` bytes as voltile does: libdeflate stops before its buffer
/// would overflow, at most 512 bytes from its end.
fn inflate_prefix(stored: &[u8], wanted: usize, out: &mut Vec<u8>) {
    out.resize(wanted + 512, 0);
    let _ = Decompressor::new().zlib_decompress(stored, out);
}

fn inflate_whole(stored: &[u8], size: usize, out: &mut Vec<u8>) {
    out.resize(size, 0);
    Decompressor::new().zlib_decompress(stored, out).unwrap();
}

/// Random slices of chunks, each chunk used once; and a scroll through the 64 slices of one chunk,
/// from the first or from the middle.
fn policies(criterion: &mut Criterion) {
    let (stored, bytes) = stored_chunk();
    let (size, plane) = (bytes.len(), CHUNK * CHUNK);
    let mut group = criterion.benchmark_group("policy");
    group
        .throughput(Throughput::Bytes(size as u64))
        .sample_size(30);
    let (mut out, mut dice) = (Vec::new(), Dice(9));
    // The length of a prefix that ends with a random slice.
    let mut random = move || (dice.roll() as usize % CHUNK + 1) * plane;
    group.bench_function("random, whole", |b| {
        b.iter(|| inflate_whole(black_box(&stored), size, &mut out));
    });
    group.bench_function("random, beginning", |b| {
        b.iter(|| {
            let wanted = random();
            // voltile decodes almost whole chunks as a whole.
            if wanted >= size - size / 8 {
                inflate_whole(&stored, size, &mut out);
            } else {
                inflate_prefix(&stored, wanted, &mut out);
            }
        });
    });
    group.bench_function("random, resumable", |b| {
        b.iter(|| {
            black_box(ResumableStream::new(&stored, size).inflate_to(random()));
        });
    });
    for (name, first) in [
        ("scroll from the first", 1),
        ("scroll from the middle", CHUNK / 2),
    ] {
        group.bench_function(format!("{name}, whole"), |b| {
            b.iter(|| inflate_whole(black_box(&stored), size, &mut out));
        });
        group.bench_function(format!("{name}, beginning then whole"), |b| {
            b.iter(|| {
                inflate_prefix(&stored, first * plane, &mut out);
                inflate_whole(&stored, size, &mut out);
            });
        });
        group.bench_function(format!("{name}, resumed"), |b| {
            b.iter(|| {
                let mut resumed = ResumableStream::new(&stored, size);
                for n in first..=CHUNK {
                    black_box(resumed.inflate_to(n * plane));
                }
            });
        });
    }
    group.finish();
}

/// The upper bounds: inflating the bytes of a tile's 64 chunks, and copying a tile.
fn limits(criterion: &mut Criterion) {
    let (stored, bytes) = stored_chunk();
    let mut group = criterion.benchmark_group("limit");
    group.sample_size(20);
    let mut out = Vec::new();
    let chunks = (SIDE / CHUNK) * (SIDE / CHUNK);
    group.bench_function("inflate the chunks of an xy slice", |b| {
        b.iter(|| {
            for _ in 0..chunks {
                inflate_whole(black_box(&stored), bytes.len(), &mut out);
            }
        });
    });
    let tile = vec![7u8; SIDE * SIDE];
    let mut copy = vec![0; SIDE * SIDE];
    group.bench_function("copy a tile", |b| {
        b.iter(|| copy.copy_from_slice(black_box(&tile)));
    });
    group.finish();
}

criterion_group!(benches, limits, policies, tiles, slices);
criterion_main!(benches);
