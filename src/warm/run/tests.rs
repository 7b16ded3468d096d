//! Works done by hands that fail, wait and give up on command.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::super::tests::slices;
use super::super::{Found, Title};
use super::*;

/// The tiles it filled, and the results to return for others.
#[derive(Default)]
struct Told {
    filled: Mutex<Vec<String>>,
    instead: BTreeMap<String, Filled>,
}

impl Told {
    fn of(instead: &[(u64, Filled)]) -> Self {
        let named = instead.iter().map(|(slice, filled)| (path(*slice), filled.clone()));
        Self { filled: Mutex::default(), instead: named.collect() }
    }

    fn filled(&self) -> Vec<String> {
        lock(&self.filled).clone()
    }
}

impl Producer for Told {
    fn fill(&self, tile: &TileRequest, _stop: &Stop) -> Filled {
        let tile = tile.to_string();
        lock(&self.filled).push(tile.clone());
        self.instead.get(&tile).cloned().unwrap_or(Filled::Made(10))
    }
}

#[derive(Default)]
struct Count(Mutex<(u64, u64, u64)>);

impl Progress for Count {
    fn begin(&self, total: u64, done: u64) {
        *lock(&self.0) = (total, done, 0);
    }

    fn advance(&self, _bytes: u64, failed: bool) {
        let mut count = lock(&self.0);
        count.1 += 1;
        count.2 += u64::from(failed);
    }
}

fn path(slice: u64) -> String {
    format!("a/c/xy/{slice}/0_0_0.png")
}

fn title(work: &Work) -> Title {
    Title { work: work.digest().to_string(), selection: String::new(), tiles: work.total() }
}

/// Resumes a work from its journal.
fn on(work: &Work, journal: &Path, producer: &dyn Producer, threads: usize) -> (Outcome, Count) {
    let (journal, found) = Journal::open(journal, &title(work)).unwrap();
    let position = if let Found::This(position) = found { position } else { Position::default() };
    let (pace, count) = (Pace { threads: NonZeroUsize::new(threads).unwrap(), rate: None }, Count::default());
    let begun = Begun { journal: Some(journal), part: 0..work.total(), position };
    (run(work, producer, begun, pace, &Stop::default(), &count), count)
}

#[test]
fn every_tile_is_filled_once_by_many_hands_and_the_journal_is_gone() {
    let (work, folder) = (slices(500), tempfile::tempdir().unwrap());
    let journal = folder.path().join("journal");
    let told = Told::of(&[(7, Filled::Held), (8, Filled::Black)]);
    let (outcome, count) = on(&work, &journal, &told, 8);
    assert_eq!((outcome.made, outcome.held, outcome.black, outcome.bytes), (498, 1, 1, 4980));
    assert_eq!((outcome.ending, outcome.failed), (Ending::Finished, 0));
    let filled: BTreeSet<String> = told.filled().into_iter().collect();
    assert_eq!((told.filled().len(), filled.len(), *lock(&count.0)), (500, 500, (500, 500, 0)));
    assert!(!journal.exists());
}

#[test]
fn where_nothing_more_can_be_had_it_ends_and_goes_on_there_with_what_had_failed_first() {
    let (work, folder) = (slices(100), tempfile::tempdir().unwrap());
    let journal = folder.path().join("journal");
    // Slices are iterated from far to near.
    let over = Told::of(&[(90, Filled::Failed("broken".into())), (40, Filled::Over("gone".into()))]);
    let (outcome, _) = on(&work, &journal, &over, 1);
    assert_eq!((outcome.ending, outcome.made, outcome.failed), (Ending::Over("gone".into()), 58, 1));
    assert_eq!(outcome.failures, [Failure { tile: path(90), number: 9, why: "broken".into() }]);
    // It fails again, and the work is stopped once more before it is done.
    let again = Told::of(&[(90, Filled::Failed("broken".into())), (20, Filled::Stopped)]);
    let (outcome, count) = on(&work, &journal, &again, 1);
    assert_eq!((outcome.before, outcome.made, outcome.failed), (59, 20, 1));
    assert_eq!((again.filled().first(), *lock(&count.0)), (Some(&path(90)), (100, 79, 0)));
    let well = Told::default();
    let (outcome, _) = on(&work, &journal, &well, 1);
    assert_eq!((outcome.before, outcome.made, outcome.failed), (79, 1 + 21, 0));
    assert_eq!(well.filled().first(), Some(&path(90)));
    assert!(outcome.ending == Ending::Finished && !journal.exists());
}

#[test]
fn a_tile_that_takes_long_is_not_passed_over_when_the_work_goes_on() {
    let (work, folder) = (slices(60), tempfile::tempdir().unwrap());
    let journal = folder.path().join("journal");
    /// Fills all but the first, which is abandoned when all others are done.
    struct Slow(Mutex<u64>, Condvar);
    impl Producer for Slow {
        fn fill(&self, tile: &TileRequest, _stop: &Stop) -> Filled {
            let mut filled = lock(&self.0);
            if tile.address.slice == 59 {
                let all = self.1.wait_while(filled, |filled| *filled < 59);
                drop(all.unwrap_or_else(PoisonError::into_inner));
                return Filled::Stopped;
            }
            *filled += 1;
            self.1.notify_all();
            Filled::Made(1)
        }
    }
    let (outcome, _) = on(&work, &journal, &Slow(Mutex::new(0), Condvar::new()), 2);
    assert_eq!((outcome.ending, outcome.made), (Ending::Stopped, 59));
    assert_eq!(Journal::look(&journal, &title(&work)), Found::This(Position::default()));
}

#[test]
fn turns_are_no_closer_than_the_rate_and_end_with_the_work() {
    let (work, stop) = (slices(11), Stop::default());
    let pace = Pace { threads: NonZeroUsize::new(4).unwrap(), rate: Some(200.0) };
    let begun = || Begun { journal: None, part: 0..11, position: Position::default() };
    let outcome = run(&work, &Told::default(), begun(), pace, &stop, &Count::default());
    assert!(outcome.made == 11 && outcome.took >= Duration::from_millis(50));
    stop.tell();
    let slow = Pace { rate: Some(0.001), ..pace };
    let outcome = run(&work, &Told::default(), begun(), slow, &stop, &Count::default());
    assert_eq!((outcome.ending, outcome.made), (Ending::Stopped, 0));
}
