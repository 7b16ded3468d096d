//! One warming job, run or estimated: the journal, the progress, the final report.

use crate::units::bytes;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::PathBuf;

use super::journals;
use super::tell::Tiles;
use super::{Arguments, Failure};
use crate::cli::output;
use crate::warm::{
    Begun, Counted, Ending, Found, Journal, Pace, Position, Probe, Producer, Report, Runs, Stop, Title, Work,
    estimate, run,
};

pub(super) struct Job<'a> {
    pub arguments: &'a Arguments,
    pub work: &'a Work,
    pub title: &'a Title,
    /// The numbers of the tiles to be done.
    pub part: Range<u64>,
    /// The path of the journal, if known.
    pub journal: Option<PathBuf>,
    /// The number of tiles in flight at once, and the number rendered at once.
    pub threads: NonZeroUsize,
    pub drawers: usize,
    pub stop: &'a Stop,
}

impl Job<'_> {
    /// Prints an estimate.
    pub fn foretell(&self, probe: &dyn Probe, room: u64) -> Result<(), Failure> {
        let position = match self.journal.as_deref().map(|path| Journal::look(path, self.title)) {
            Some(Found::This(position)) => position,
            _ => Position::default(),
        };
        let Self { arguments, work, part, .. } = self;
        let tiles = (part.end - part.start, position.done.cut(part).count());
        let estimate = estimate(work, probe, tiles, self.drawers, arguments.rate, self.stop);
        if arguments.json {
            output::print_json(&estimate)?;
        } else {
            output::print(&format!("{estimate}\n"))?;
        }
        if estimate.bytes > room {
            tracing::warn!(
                "the tiles take more than the cache holds ({}): the first ones will be evicted",
                bytes(room)
            );
        }
        Ok(())
    }

    /// Does the work and prints a report; `counted` returns what was rendered and inflated since the start.
    pub fn work_off(&self, producer: &dyn Producer, counted: impl Fn() -> Counted) -> Result<(), Failure> {
        let begun = self.begin(producer)?;
        let pace = Pace { threads: self.threads, rate: self.arguments.rate };
        let tiles = Tiles::new();
        let outcome = run(self.work, producer, begun, pace, self.stop, &tiles);
        tiles.finish();
        let ending = outcome.ending.clone();
        let report = Report::new(outcome, &self.work.forecast(), counted());
        if self.arguments.json {
            output::print_json(&report)?;
        } else {
            output::print(&format!("{report}\n"))?;
        }
        if let Some(evicted) = report.evicted.filter(|evicted| *evicted > 0) {
            tracing::warn!(
                "{evicted} tiles were removed from the cache directory to keep to cache.disk: it is too small for all"
            );
        }
        report.failures().for_each(|failure| output::complain(&failure));
        match (ending, report.failed) {
            (Ending::Finished, 0) => Ok(()),
            (Ending::Finished, failed) => Err(anyhow::anyhow!(
                "{failed} of {} tiles failed; the same command retries them",
                report.tiles
            )
            .into()),
            (Ending::Stopped, _) => {
                Err(anyhow::anyhow!("stopped; the same command resumes from here").into())
            }
            (Ending::Over(why), _) => {
                Err(anyhow::anyhow!("{why}; the same command resumes from here").into())
            }
        }
    }

    /// Opens the journal, and determines where to start.
    fn begin(&self, producer: &dyn Producer) -> Result<Begun, Failure> {
        let part = self.part.clone();
        let Some(path) = &self.journal else {
            tracing::warn!(
                "there is no folder for a journal: a stopped run cannot be resumed; see --journal"
            );
            return Ok(Begun { journal: None, part, position: Position::default() });
        };
        let (journal, found) = journals::open(path, self.title, self.arguments.shard.is_some())?;
        let is_there =
            |position: &Position| journals::is_still_there(self.work, producer, &position.done.cut(&part));
        let position = match found {
            Found::This(position) if is_there(&position) => position,
            Found::This(position) => {
                tracing::warn!("some finished tiles are gone: checking all of them again");
                Position { done: Runs::default(), ..position }
            }
            Found::Other => {
                tracing::warn!(
                    "{} belongs to another selection, or to files that have changed since: starting over",
                    path.display()
                );
                Position::default()
            }
            Found::Nothing => Position::default(),
        };
        Ok(Begun { journal: Some(journal), part, position })
    }
}
