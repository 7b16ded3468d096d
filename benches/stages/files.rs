//! Whole tiles of named files: the same tiles through the same code as a row of `voltile bench
//! FILE` with the pattern "random", one thread and the same seed, so that the two can be compared.
//!
//! `VOLTILE_BENCH_FILES` lists the files, separated as in `PATH`; without it nothing is measured.
//! "Cold" draws `VOLTILE_BENCH_TILES` (default 8) tiles of the whole level, seeded with
//! `VOLTILE_BENCH_SEED` (default 1). "Kept" draws 64 slices of the first column of tiles, whose
//! chunks fit any budget. The reported time is that of all tiles in sequence.

use std::path::Path;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, SamplingMode};
use voltile::catalog::Catalog;
use voltile::geometry::{Plane, TileAddress};
use voltile::tools::bench::{Bounds, Choice, Numbers, Selection};

use crate::layouts::{Drawer, opened};

/// Number of slices in "kept".
const KEPT: u64 = 64;

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap())
}

/// Each file in each plane, without decoded chunks in the cache and with all of them.
pub fn files(criterion: &mut Criterion) {
    let Some(files) = std::env::var_os("VOLTILE_BENCH_FILES") else {
        return;
    };
    for (group, cold) in [("file cold", true), ("file kept", false)] {
        let mut group = criterion.benchmark_group(group);
        group.sample_size(10).sampling_mode(SamplingMode::Flat);
        for file in std::env::split_paths(&files) {
            let (catalog, _metrics, activity) = opened(&file);
            // Other jobs count as running, so that each tile is rendered by one thread.
            let _others = (activity.enter(), activity.enter());
            for plane in Plane::ALL {
                let (addresses, mut drawer) = (tiles(&catalog, plane, cold), Drawer::new(&catalog));
                let mut turn = || {
                    addresses
                        .iter()
                        .map(|tile| drawer.tile(tile, cold))
                        .sum::<Duration>()
                };
                turn();
                let id = BenchmarkId::new(stem(&file), plane);
                group.bench_function(id, |bencher| {
                    bencher.iter_custom(|times| (0..times).map(|_| turn()).sum());
                });
            }
        }
        group.finish();
    }
}

fn stem(file: &Path) -> String {
    file.file_stem().unwrap().to_string_lossy().into_owned()
}

/// The tiles of a plane of level 0.
fn tiles(catalog: &Catalog, plane: Plane, cold: bool) -> Vec<TileAddress> {
    let first = Bounds {
        slices: Some(0..KEPT),
        rows: Some(0..1),
        columns: Some(0..1),
    };
    let bounds = if cold { Bounds::default() } else { first };
    let selection = Selection {
        planes: vec![plane],
        levels: Numbers::single(0),
        ..Selection::default()
    };
    let choice = Choice::new(catalog.describe(), &selection, &bounds).unwrap();
    let most = if cold {
        number("VOLTILE_BENCH_TILES", 8)
    } else {
        KEPT
    };
    choice.targets[0].random(most as usize, number("VOLTILE_BENCH_SEED", 1))
}
