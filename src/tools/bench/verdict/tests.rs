//! Tests of clear cases and of borderline ones.

use super::super::pattern::Pattern;
use super::super::row::ChunkUse;
use super::super::sample::Percentiles;
use std::path::Path;

use super::*;
use crate::base::description::StorageDescription;
use crate::volume::ReadCost;

fn storage(chunk: Option<Vec<u64>>, filters: &[&str]) -> StorageDescription {
    StorageDescription {
        layout: if chunk.is_some() {
            "chunked".to_owned()
        } else {
            "contiguous".to_owned()
        },
        shape: vec![256, 2048, 2048],
        chunk,
        filters: filters.iter().map(|name| (*name).to_owned()).collect(),
        missing_filters: Vec::new(),
        decoded_in_parallel: true,
        reading: "by voltile's own threads, chunks side by side".to_owned(),
    }
}

/// A level whose tiles take these bytes read, inflated and wanted, by plane.
fn subject(storage: StorageDescription, derived: bool, tiles: [(u64, u64, u64); 3]) -> Subject {
    let cost = |(bytes_read, bytes_inflated, bytes_wanted)| TileCost {
        bytes_wanted,
        cost: ReadCost {
            reads: 64,
            bytes_read,
            bytes_inflated,
        },
        store: None,
    };
    Subject {
        token: "a".to_owned(),
        channel: "raw".to_owned(),
        dtype: "uint8".to_owned(),
        level: 0,
        size: [2048, 2048, 256],
        derived,
        storage: Some(storage),
        tile: ["xy", "xz", "yz"]
            .into_iter()
            .zip(tiles.map(cost))
            .collect(),
        file: Path::new("/data/a.h5").into(),
    }
}

/// 64³ gzip, planes of 512² gzip, contiguous data, and 64³ unfiltered.
fn cubes() -> Subject {
    let xy = (11 << 20, 16 << 20, 256 << 10);
    let across = (3 << 20, 8 << 20, 128 << 10);
    subject(
        storage(Some(vec![64; 3]), &["deflate (gzip) (number 1)"]),
        false,
        [xy, across, across],
    )
}

fn planes() -> Subject {
    let across = (50 << 20, 64 << 20, 128 << 10);
    let storage = storage(Some(vec![1, 512, 512]), &["deflate (gzip) (number 1)"]);
    subject(
        storage,
        false,
        [(200 << 10, 256 << 10, 256 << 10), across, across],
    )
}

fn flat() -> Subject {
    let yz = (256 * 512 * 4096, 0, 128 << 10);
    subject(
        storage(None, &[]),
        false,
        [(1 << 20, 0, 256 << 10), (1 << 20, 0, 128 << 10), yz],
    )
}

fn bare() -> Subject {
    let across = (2 << 20, 0, 128 << 10);
    subject(
        storage(Some(vec![64; 3]), &[]),
        false,
        [(256 << 10, 0, 256 << 10), across, across],
    )
}

fn course(plane: &str, pattern: Pattern) -> Course {
    let (token, channel, plane) = ("a".to_owned(), "raw".to_owned(), plane.to_owned());
    Course {
        token,
        channel,
        plane,
        level: 0,
        pattern,
    }
}

pub(in super::super) fn row(plane: &str, state: State, stages: Stages) -> Row {
    let (disk_bytes, decoded) = (Some(if state == State::Disk { 1 << 30 } else { 0 }), 0);
    Row {
        course: course(plane, Pattern::Random),
        state,
        threads: 1,
        tiles: 100,
        failed: 0,
        tiles_per_second: 1e3 / stages.sum(),
        voxel_mb_per_second: 1.0,
        voxel_bytes: (256 << 10) as f64,
        latency: Percentiles::default(),
        stages,
        chunks: ChunkUse {
            decoded,
            ..ChunkUse::default()
        },
        png_bytes: 150_000.0,
        disk_bytes,
    }
}

pub(in super::super) fn inflating() -> Stages {
    let reading = ReadTimes {
        read: 0.9,
        inflate: 28.0,
        ..ReadTimes::default()
    };
    Stages {
        reading,
        draw: 0.2,
        encode: 0.6,
        plan: 0.0,
    }
}

fn copying(read: f64) -> Stages {
    let reading = ReadTimes {
        read,
        ..ReadTimes::default()
    };
    Stages {
        reading,
        draw: 0.01,
        encode: 0.3,
        plan: 0.0,
    }
}

/// The names of what would help.
fn helps(verdict: &Verdict) -> Vec<&str> {
    verdict.helps.iter().map(|help| help.help).collect()
}

fn judged(subject: Subject, row: Row) -> Verdict {
    let mut verdicts = verdicts(&[row], &[subject], false);
    assert_eq!(verdicts.len(), 1);
    verdicts.remove(0)
}

#[test]
fn cubes_of_gzip_are_limited_by_inflating() {
    for plane in ["xy", "xz", "yz"] {
        let verdict = judged(cubes(), row(plane, State::Chunks, inflating()));
        assert_eq!(verdict.limit, Limit::Inflate, "{plane}");
        assert_eq!(helps(&verdict), ["more_threads", "lighter_filter"]);
        assert!(
            verdict.says.starts_with("inflating chunks takes 94 %"),
            "{}",
            verdict.says
        );
    }
}

#[test]
fn planes_asked_for_across_are_limited_by_the_shape_of_chunks() {
    for plane in ["xz", "yz", "xy+xz+yz"] {
        let verdict = judged(planes(), row(plane, State::Chunks, inflating()));
        assert_eq!(
            (verdict.limit, helps(&verdict)),
            (Limit::ChunkShape, vec!["rechunk"]),
            "{plane}"
        );
        assert!(
            verdict.helps[0]
                .how
                .ends_with("voltile pyramid /data/a.h5 --rechunk /data/a.rechunked.h5")
        );
        assert!(
            verdict.says.contains("[1, 512, 512]") && verdict.says.contains("64.0 MiB"),
            "{}",
            verdict.says
        );
    }
    assert_eq!(
        judged(planes(), row("xy", State::Chunks, inflating())).limit,
        Limit::Inflate
    );
}

#[test]
fn data_in_one_piece_is_read_badly_across_its_lines_alone() {
    let across = judged(flat(), row("yz", State::Disk, copying(60.0)));
    assert_eq!(across.limit, Limit::ChunkShape);
    assert!(across.says.contains("contiguous"), "{}", across.says);
    assert_eq!(
        judged(flat(), row("xy", State::Disk, copying(4.0))).limit,
        Limit::Disk
    );
    assert_eq!(
        judged(flat(), row("xy", State::Warm, copying(0.04))).limit,
        Limit::Encoder
    );
}

#[test]
fn cheap_tiles_are_limited_by_the_encoder_and_the_small_profile_may_be_why() {
    let encoding = row("xy", State::Warm, copying(0.05));
    assert_eq!(
        helps(&judged(bare(), encoding.clone())),
        ["more_threads", "more_tiles_kept"]
    );
    let small = verdicts(&[encoding], &[bare()], true).remove(0);
    assert_eq!(
        (small.limit, helps(&small)),
        (Limit::Encoder, vec!["fast_png", "more_tiles_kept"])
    );
}

#[test]
fn what_did_not_come_from_the_disk_is_not_laid_on_it() {
    let mut row = row("xy", State::Disk, copying(4.0));
    assert_eq!(judged(bare(), row.clone()).limit, Limit::Disk);
    row.disk_bytes = Some(0);
    assert_eq!(judged(bare(), row.clone()).limit, Limit::Memory);
    row.disk_bytes = None;
    assert_eq!(judged(bare(), row).limit, Limit::Disk);
}

#[test]
fn a_level_derived_of_many_voxels_should_be_stored() {
    let derived = Subject {
        derived: true,
        ..cubes()
    };
    let many = |wanted: u64| {
        let mut derived = derived.clone();
        derived
            .tile
            .values_mut()
            .for_each(|tile| tile.bytes_wanted = wanted);
        derived
    };
    let verdict_of = |wanted, stages| judged(many(wanted), row("xy", State::Chunks, stages));
    let stored = verdict_of(1 << 20, inflating());
    assert_eq!(
        (stored.limit, helps(&stored)),
        (Limit::MadeLevel, vec!["store_levels"])
    );
    let averaging = Stages {
        draw: 5.0,
        encode: 0.3,
        ..Stages::default()
    };
    assert_eq!(verdict_of(1 << 20, averaging).limit, Limit::MadeLevel);
    assert_eq!(
        verdict_of(256 << 10, inflating()).limit,
        Limit::Inflate,
        "a small one is not worth it"
    );
}

#[test]
fn chunks_that_do_not_stay_want_a_larger_cache_and_waiting_wants_nothing() {
    let mut forgetting = row("xy", State::Warm, inflating());
    forgetting.chunks.decoded = 640;
    assert_eq!(
        helps(&judged(cubes(), forgetting)),
        ["more_chunks_kept", "more_threads"]
    );
    let reading = ReadTimes {
        wait: 20.0,
        inflate: 10.0,
        ..ReadTimes::default()
    };
    let waiting = Stages {
        reading,
        encode: 0.5,
        ..Stages::default()
    };
    let waiting = judged(cubes(), row("xy", State::Chunks, waiting));
    assert_eq!((waiting.limit, helps(&waiting)), (Limit::Waiting, vec![]));
    let reading = ReadTimes {
        library: 9.0,
        ..ReadTimes::default()
    };
    let library = Stages {
        reading,
        encode: 0.5,
        ..Stages::default()
    };
    assert_eq!(
        judged(cubes(), row("xy", State::Chunks, library)).limit,
        Limit::Library
    );
}

#[test]
fn rows_that_are_limited_alike_are_told_together() {
    let scroll = Row {
        course: course("xz", Pattern::Scroll),
        ..row("xz", State::Chunks, inflating())
    };
    let rows = [
        row("xy", State::Chunks, inflating()),
        row("xz", State::Chunks, inflating()),
        scroll,
    ];
    let all = verdicts(&rows, &[cubes()], false);
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].rows, "level 0 random xy, xz, scroll xz");
    let empty = Row {
        tiles: 0,
        ..row("xy", State::Chunks, Stages::default())
    };
    assert!(verdicts(&[empty], &[cubes()], false).is_empty());
}

#[test]
fn chunks_of_which_cubes_would_save_nothing_are_not_said_to_lie_across() {
    // Five slices in all: whatever its shape, a chunk cannot contain more than those in vain.
    let mut thin = subject(
        storage(Some(vec![5, 64, 64]), &[]),
        false,
        [(5 << 18, 0, 1 << 18); 3],
    );
    thin.size = [2048, 2048, 5];
    // So few voxels that all fit into a page.
    let mut tiny = subject(
        storage(Some(vec![2, 2, 2]), &[]),
        false,
        [(16 << 10, 0, 24); 3],
    );
    tiny.size = [2, 3, 4];
    for subject in [thin, tiny] {
        let rows = [row("xy", State::Chunks, copying(0.9))];
        let verdicts = verdicts(&rows, &[subject], false);
        assert_eq!(verdicts[0].limit, Limit::Memory, "{}", verdicts[0].says);
    }
}
