//! One warming job, run or estimated: the progress, the final report.

use crate::base::units::bytes;
use std::num::NonZeroUsize;

use super::progress::Progress;
use super::{Arguments, Failure};
use crate::cli::log::Log;
use crate::cli::output;
use crate::tools::warm::{Counted, Ending, Pace, Probe, Producer, Report, Stop, Work, estimate, run};

pub(super) struct Job<'a> {
    pub log: &'a Log,
    pub arguments: &'a Arguments,
    pub work: &'a Work,
    /// The number of tiles in flight at once, and the number rendered at once.
    pub threads: NonZeroUsize,
    pub renderers: usize,
    pub stop: &'a Stop,
}

impl Job<'_> {
    /// Prints an estimate; `room` is the size of the cache in bytes.
    pub fn estimate(&self, probe: &dyn Probe, room: u64) -> Result<(), Failure> {
        let Self { arguments, work, .. } = self;
        let part = work.part(arguments.shard.as_ref());
        let estimate =
            estimate(work, probe, part.end - part.start, self.renderers, arguments.rate, self.stop);
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

    /// Does the work and prints a report; `counted` returns what was counted since the start.
    pub fn run(&self, producer: &dyn Producer, counted: impl Fn() -> Counted) -> Result<(), Failure> {
        let Self { arguments, work, stop, .. } = self;
        let part = work.part(arguments.shard.as_ref());
        let pace = Pace { threads: self.threads, rate: arguments.rate };
        let progress = Progress::begin(part.end - part.start);
        let report = run(work, producer, part, pace, stop, &|bytes, failed| progress.advance(bytes, failed));
        progress.finish();
        let report = Report { counted: counted(), ..report };
        if arguments.json {
            output::print_json(&report)?;
        } else {
            output::print(&format!("{report}\n"))?;
        }
        if let Some(evicted) = report.counted.evicted.filter(|evicted| *evicted > 0) {
            tracing::warn!(
                "{evicted} tiles were removed from the cache directory to keep to cache.disk: it is too small for all"
            );
        }
        report.failures().for_each(|failure| output::complain(self.log, &failure));
        match (report.ending, report.failed) {
            (Ending::Finished, 0) => Ok(()),
            (Ending::Finished, failed) => Err(anyhow::anyhow!(
                "{failed} of {} tiles failed; the same command retries them",
                report.tiles
            )
            .into()),
            (Ending::Stopped, _) => Err(anyhow::anyhow!("stopped; the same command does the rest").into()),
            (Ending::Over(why), _) => Err(anyhow::anyhow!("{why}; the same command does the rest").into()),
        }
    }
}
