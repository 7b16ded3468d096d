//! Works done by producers that fail and stop on command.

use std::collections::{BTreeMap, BTreeSet};

use super::super::tests::slices;
use super::*;

/// The tiles it filled, and the results to return for others.
#[derive(Default)]
struct Scripted {
    filled: Mutex<Vec<String>>,
    instead: BTreeMap<String, Outcome>,
}

impl Scripted {
    fn of(instead: &[(u64, Outcome)]) -> Self {
        let named = instead.iter().map(|(slice, outcome)| (path(*slice), outcome.clone()));
        Self { filled: Mutex::default(), instead: named.collect() }
    }

    fn filled(&self) -> Vec<String> {
        lock(&self.filled).clone()
    }
}

impl Producer for Scripted {
    fn fill(&self, tile: &TileRequest, _stop: &Stop) -> Outcome {
        let tile = tile.to_string();
        lock(&self.filled).push(tile.clone());
        self.instead.get(&tile).cloned().unwrap_or(Outcome::Rendered(10))
    }
}

fn path(slice: u64) -> String {
    format!("a/c/xy/{slice}/0_0_0.png")
}

/// Runs a work; also returns how many tiles progress was reported for, and how many of these failed.
fn done(work: &Work, part: Range<u64>, producer: &dyn Producer, threads: usize) -> (Report, (u64, u64)) {
    let count = Mutex::new((0, 0));
    let progress = |_bytes: u64, failed: bool| {
        let mut count = lock(&count);
        *count = (count.0 + 1, count.1 + u64::from(failed));
    };
    let pace = Pace { threads: NonZeroUsize::new(threads).unwrap(), rate: None };
    let report = run(work, producer, part, pace, &Stop::default(), &progress);
    (report, count.into_inner().unwrap())
}

#[test]
fn every_tile_is_filled_once_by_many_threads() {
    let work = slices(500);
    let producer = Scripted::of(&[(7, Outcome::Stored), (8, Outcome::Black)]);
    let (report, count) = done(&work, 0..500, &producer, 8);
    assert_eq!((report.made, report.held, report.black, report.bytes), (498, 1, 1, 4980));
    assert_eq!((report.ending, report.failed), (Ending::Finished, 0));
    let filled: BTreeSet<String> = producer.filled().into_iter().collect();
    assert_eq!((producer.filled().len(), filled.len(), count), (500, 500, (500, 0)));
}

#[test]
fn a_part_is_filled_and_no_other_tile() {
    let (work, producer) = (slices(100), Scripted::default());
    let (report, _) = done(&work, 20..30, &producer, 3);
    assert_eq!((report.tiles, report.made), (10, 10));
    // Slices are iterated from far to near.
    let filled: BTreeSet<String> = producer.filled().into_iter().collect();
    assert_eq!(filled, (70..80).map(path).collect());
}

#[test]
fn a_failed_tile_is_listed_and_the_work_ends_where_no_tile_can_succeed() {
    let work = slices(100);
    let over = Scripted::of(&[(90, Outcome::Failed("broken".into())), (40, Outcome::Over("gone".into()))]);
    let (report, count) = done(&work, 0..100, &over, 1);
    assert_eq!((report.ending, report.made, report.failed), (Ending::Over("gone".into()), 58, 1));
    assert_eq!(report.failures, [Failure { tile: path(90), why: "broken".into() }]);
    assert_eq!(count, (59, 1));
    let stopped = Scripted::of(&[(20, Outcome::Stopped)]);
    let (report, _) = done(&work, 0..100, &stopped, 1);
    assert_eq!((report.ending, report.made), (Ending::Stopped, 79));
}

#[test]
fn turns_are_no_closer_than_the_rate_and_end_with_the_work() {
    let (work, stop) = (slices(11), Stop::default());
    let pace = Pace { threads: NonZeroUsize::new(4).unwrap(), rate: Some(200.0) };
    let report = run(&work, &Scripted::default(), 0..11, pace, &stop, &|_, _| {});
    assert!(report.made == 11 && report.seconds >= 0.05);
    stop.request();
    let slow = Pace { rate: Some(0.001), ..pace };
    let report = run(&work, &Scripted::default(), 0..11, slow, &stop, &|_, _| {});
    assert_eq!((report.ending, report.made), (Ending::Stopped, 0));
}
