//! Works done by producers that fail and stop on command.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use voltile_base::flow::interest::Interested;

use super::super::tests::slices;
use super::*;

/// The tiles it filled, and the results to return for others.
#[derive(Default)]
struct Scripted {
    filled: RefCell<Vec<String>>,
    instead: BTreeMap<String, TileOutcome>,
}

impl Scripted {
    fn new(instead: &[(u64, TileOutcome)]) -> Self {
        let named = instead
            .iter()
            .map(|(slice, outcome)| (path(*slice), outcome.clone()));
        Self {
            filled: RefCell::default(),
            instead: named.collect(),
        }
    }
}

impl Producer for Scripted {
    async fn fill(&self, tile: &TileRequest, _interest: &Interest) -> TileOutcome {
        let tile = tile.to_string();
        self.filled.borrow_mut().push(tile.clone());
        let outcome = self.instead.get(&tile).cloned();
        outcome.unwrap_or(TileOutcome::Rendered(10))
    }
}

fn path(slice: u64) -> String {
    format!("a/c/xy/{slice}/0_0_0.png")
}

/// Runs a work; also returns how many tiles progress was reported for, and how many of these
/// failed.
async fn done(work: &WarmWork, producer: &Scripted, at_once: usize) -> (WarmReport, (u64, u64)) {
    let progress = Progress::new("a test".to_owned(), "tiles");
    let at_once = NonZeroUsize::new(at_once).unwrap();
    let interested = Interested::default();
    let interest = interested.interest();
    let report = run(work, producer, at_once, None, &interest, &progress).await;
    (
        report,
        (progress.bar.position(), progress.failed.into_inner()),
    )
}

#[tokio::test]
async fn every_tile_is_filled_once() {
    let work = slices(500);
    let producer = Scripted::new(&[(7, TileOutcome::Stored), (8, TileOutcome::Empty)]);
    let (report, tried) = done(&work, &producer, 8).await;
    assert_eq!(
        (report.rendered, report.stored, report.empty, report.bytes),
        (498, 1, 1, 4980)
    );
    assert_eq!((report.ending, report.failed), (Ending::Finished, 0));
    let filled = producer.filled.into_inner();
    let different: BTreeSet<&String> = filled.iter().collect();
    assert_eq!((filled.len(), different.len(), tried), (500, 500, (500, 0)));
}

#[tokio::test]
async fn a_failed_tile_is_listed_and_the_work_ends_where_no_tile_can_succeed() {
    let over = Scripted::new(&[
        (9, TileOutcome::Failed("broken".into())),
        (59, TileOutcome::Over("gone".into())),
    ]);
    let (report, tried) = done(&slices(100), &over, 1).await;
    assert_eq!(
        (report.ending, report.rendered, report.failed),
        (Ending::Over("gone".into()), 58, 1)
    );
    assert_eq!(report.failures, [format!("{}: broken", path(9))]);
    assert_eq!(tried, (59, 1));
}

#[tokio::test]
async fn a_rate_is_kept_to_and_a_wait_ends_with_the_work() {
    let work = slices(11);
    let progress = Progress::new("a test".to_owned(), "tiles");
    let four = NonZeroUsize::new(4).unwrap();
    let interested = Interested::default();
    let interest = interested.interest();
    let producer = Scripted::default();
    let report = run(&work, &producer, four, Some(200.0), &interest, &progress).await;
    assert!(report.rendered == 11 && report.seconds >= 0.05);
    drop(interested);
    let report = run(&work, &producer, four, Some(0.001), &interest, &progress).await;
    assert_eq!((report.ending, report.rendered), (Ending::Stopped, 0));
}
