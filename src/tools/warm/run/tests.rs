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
    fn new(instead: &[(u64, Outcome)]) -> Self {
        let named = instead
            .iter()
            .map(|(slice, outcome)| (path(*slice), outcome.clone()));
        Self {
            filled: Mutex::default(),
            instead: named.collect(),
        }
    }

    fn filled(&self) -> Vec<String> {
        lock(&self.filled).clone()
    }
}

impl Producer for Scripted {
    fn fill(&self, tile: &TileRequest, _stop: &Stop) -> Outcome {
        let tile = tile.to_string();
        lock(&self.filled).push(tile.clone());
        self.instead
            .get(&tile)
            .cloned()
            .unwrap_or(Outcome::Rendered(10))
    }

    fn counters(&self) -> Option<Counters> {
        let filled = lock(&self.filled).len() as u64;
        Some(Counters {
            evicted: 0,
            bytes_inflated: 3 * filled,
        })
    }
}

fn path(slice: u64) -> String {
    format!("a/c/xy/{slice}/0_0_0.png")
}

/// Runs a work; also returns how many tiles progress was reported for, and how many of these
/// failed.
fn done(work: &Work, producer: &dyn Producer, threads: usize) -> (Report, (u64, u64)) {
    let progress = Progress::new("a test".to_owned(), "tiles");
    let threads = NonZeroUsize::new(threads).unwrap();
    let report = run(work, producer, threads, None, &Stop::default(), &progress);
    (
        report,
        (progress.bar.position(), progress.failed.into_inner()),
    )
}

#[test]
fn every_tile_is_filled_once_by_many_threads() {
    let work = slices(500);
    let producer = Scripted::new(&[(7, Outcome::Stored), (8, Outcome::Empty)]);
    let (report, tried) = done(&work, &producer, 8);
    assert_eq!(
        (report.rendered, report.stored, report.empty, report.bytes),
        (498, 1, 1, 4980)
    );
    assert_eq!((report.ending, report.failed), (Ending::Finished, 0));
    assert_eq!(
        report.counters,
        Some(Counters {
            evicted: 0,
            bytes_inflated: 1500
        })
    );
    let filled: BTreeSet<String> = producer.filled().into_iter().collect();
    assert_eq!(
        (producer.filled().len(), filled.len(), tried),
        (500, 500, (500, 0))
    );
}

#[test]
fn a_failed_tile_is_listed_and_the_work_ends_where_no_tile_can_succeed() {
    let work = slices(100);
    let over = Scripted::new(&[
        (9, Outcome::Failed("broken".into())),
        (59, Outcome::Over("gone".into())),
    ]);
    let (report, tried) = done(&work, &over, 1);
    assert_eq!(
        (report.ending, report.rendered, report.failed),
        (Ending::Over("gone".into()), 58, 1)
    );
    assert_eq!(report.failures, [format!("{}: broken", path(9))]);
    assert_eq!(tried, (59, 1));
    let stopped = Scripted::new(&[(79, Outcome::Stopped)]);
    let (report, _) = done(&work, &stopped, 1);
    assert_eq!((report.ending, report.rendered), (Ending::Stopped, 79));
}

#[test]
fn turns_are_no_closer_than_the_rate_and_end_with_the_work() {
    let (work, stop) = (slices(11), Stop::default());
    let threads = NonZeroUsize::new(4).unwrap();
    let progress = Progress::new("a test".to_owned(), "tiles");
    let run = |rate| {
        run(
            &work,
            &Scripted::default(),
            threads,
            Some(rate),
            &stop,
            &progress,
        )
    };
    let report = run(200.0);
    assert!(report.rendered == 11 && report.seconds >= 0.05);
    stop.request();
    let report = run(0.001);
    assert_eq!((report.ending, report.rendered), (Ending::Stopped, 0));
}
