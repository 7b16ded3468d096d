//! Chunks of labels as `compressed_segmentation`, as the precomputed format serves them: read from
//! the mapped file and encoded, without HTTP and compression, by one thread. `benches/RESULTS.md`
//! compares "encode" with PyPI's encoder.
//!
//! `VOLTILE_BENCH_LABELS` names an HDF5 file; without it nothing is measured. The name of its only
//! dataset contains `labels`; it has unsigned 64-bit numbers in unfiltered chunks of 64³, one after
//! the other along z. Each encoded chunk is first written next to the file (`0.cseg`, `1.cseg`, …),
//! so that a decoder can check it. "Encode" is the difference between reading with and without
//! encoding. The reported time is that of all chunks in sequence.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a benchmark is read, not called, and may panic with a message"
)]

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use voltile::catalog::{Catalog, Subject};
use voltile::config::{DatasetSettings, Settings};
use voltile_base::flow::activity::Activity;
use voltile_base::metrics::Metrics;
use voltile_base::name::Name;
use voltile_base::paint::BoxFormat;
use voltile_base::request::PrecomputedFile;
use voltile_hdf5::volume::ReadPolicy;
use voltile_render::plan::{AcceptedCodings, BoxEncoding, Cutout};
use voltile_render::{Scratch, cutout};

/// The edge of a chunk in voxels.
const EDGE: u64 = 64;
/// A chunk as it is read, without encoding.
const VOXELS: BoxEncoding = BoxEncoding::File(BoxFormat::Raw);

/// Reading chunks of labels, and reading and encoding them.
fn segmentation(criterion: &mut Criterion) {
    let Some(path) = std::env::var_os("VOLTILE_BENCH_LABELS") else {
        return;
    };
    let path = Path::new(&path);
    let activity = Activity::default();
    let catalog = open_catalog(path, &activity);
    // Other jobs count as running, so that each chunk is read by one thread.
    let _others = (activity.enter(), activity.enter());
    let chunks = chunks(&catalog);
    let mut scratch = Scratch::default();
    let policy = ReadPolicy::default();
    for (number, (plan, encoding)) in chunks.iter().enumerate() {
        let encoded = cutout(plan, *encoding, &policy, &mut scratch).unwrap();
        std::fs::write(path.with_file_name(format!("{number}.cseg")), encoded).unwrap();
    }
    let mut group = criterion.benchmark_group("segmentation");
    group
        .sample_size(10)
        .throughput(Throughput::Elements(chunks.len() as u64));
    // The time of all chunks. `encoding_of` turns a chunk's own encoding into the one to make.
    let mut time_all = |encoding_of: fn(BoxEncoding) -> BoxEncoding| {
        let began = Instant::now();
        for (plan, encoding) in &chunks {
            let encoding = encoding_of(*encoding);
            black_box(cutout(black_box(plan), encoding, &policy, &mut scratch).unwrap());
        }
        began.elapsed()
    };
    let read: fn(BoxEncoding) -> BoxEncoding = |_| VOXELS;
    let encode: fn(BoxEncoding) -> BoxEncoding = |encoding| encoding;
    for (name, encoding_of) in [("read", read), ("read and encode", encode)] {
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|times| (0..times).map(|_| time_all(encoding_of)).sum());
        });
    }
    group.bench_function("encode", |bencher| {
        bencher.iter_custom(|times| {
            let (mut both, mut only_read) = (Duration::ZERO, Duration::ZERO);
            // Alternately, so that both times are of the same moment.
            for _ in 0..times {
                both += time_all(encode);
                only_read += time_all(read);
            }
            both.saturating_sub(only_read)
        });
    });
    group.finish();
}

/// The catalogue of one file.
fn open_catalog(path: &Path, activity: &Activity) -> Catalog {
    let token = Name::nearest(&path.file_stem().unwrap().to_string_lossy());
    let datasets = [(token, DatasetSettings::of_file(path.to_owned()))]
        .into_iter()
        .collect();
    let opened = Catalog::open(
        &Settings {
            datasets,
            ..Settings::default()
        },
        &Metrics::default(),
        activity,
    );
    assert!(opened.faults.is_empty(), "{:?}", opened.faults);
    opened.catalog
}

/// The chunks of the only channel, and their encoding for a client that accepts no compression.
fn chunks(catalog: &Catalog) -> Vec<(Cutout, BoxEncoding)> {
    let dataset = catalog.datasets().next().unwrap();
    let channel = dataset.channels.values().next().unwrap();
    let depth = dataset.precomputed(channel).unwrap().scales[0].size.z;
    let chunk_at = |z: u64| {
        let name = format!(
            "{}/{}/0/0-{EDGE}_0-{EDGE}_{z}-{}",
            dataset.token,
            channel.name,
            z + EDGE
        );
        let Some(Ok(PrecomputedFile::Chunk(asked))) = PrecomputedFile::parse(&name) else {
            panic!("{name} is no chunk")
        };
        let planned = catalog
            .plan_precomputed(&asked, AcceptedCodings::default())
            .unwrap();
        match planned.subject {
            Subject::Box(cutout, encoding @ BoxEncoding::Segmentation(_)) => (cutout, encoding),
            other => panic!("{name} is not encoded as a segmentation: {other:?}"),
        }
    };
    (0..depth).step_by(EDGE as usize).map(chunk_at).collect()
}

criterion_group!(benches, segmentation);
criterion_main!(benches);
