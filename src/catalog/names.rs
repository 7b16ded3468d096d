//! Names and properties of labels: where the table of a channel is, and the table once it has been
//! read.
//!
//! A table is read when it is first needed. A text file is read again once it has changed; a table
//! in the HDF5 file of the channel is opened anew with the file. The tables that were used last are
//! kept in memory, to a budget.

mod proposed;
mod stored;
mod table;
mod text;

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use prometheus_client::metrics::gauge::Gauge;
use voltile_base::flow::cache::{Abandoned, Cache, Lookup};
use voltile_base::flow::stalls::{self, Stalls, Unresponsive};
use voltile_hdf5::volume::hdf5::{FileIdentity, OpenFile};

pub(super) use proposed::propose;
pub use table::{Column, Labels};

use crate::config::NamesSettings;

/// How long a read of a table makes reads of other tables wait.
const LONGEST_READ: Duration = Duration::from_secs(10);
/// The size in bytes of a cache entry without its table.
const BOOKKEEPING: usize = 1024;

/// The tables of names that were used last. Clones share them.
#[derive(Clone)]
pub(super) struct Tables {
    /// By [`Names::key`]: the identity of the text file when it was read, if the table is in one;
    /// and the table, or why it could not be read.
    cache: Cache<u64, (Option<FileIdentity>, ReadLabels), Abandoned>,
    /// The maximum size in bytes of all tables together, and of a table that is being read.
    max_bytes: usize,
    /// Tables are read one after the other, unless a read takes too long.
    turns: Arc<ReadingTurns>,
}

/// The turns in which tables are read.
#[derive(Debug, Default)]
struct ReadingTurns {
    /// When the running read began; `None` if no table is being read.
    began: Mutex<Option<Instant>>,
    /// Notified when a read ends.
    ended: Condvar,
}

impl ReadingTurns {
    /// Runs `read` when no other read runs, or when the other read has taken [`LONGEST_READ`], as
    /// its file may never answer.
    fn run<T>(&self, read: impl FnOnce() -> T) -> T {
        let mut running = self.began.lock();
        while let Some(left) = running.and_then(|began| LONGEST_READ.checked_sub(began.elapsed())) {
            self.ended.wait_for(&mut running, left);
        }
        let began = Instant::now();
        *running = Some(began);
        drop(running);
        let result = read();
        let mut running = self.began.lock();
        // Another read has begun meanwhile if this one took too long.
        if *running == Some(began) {
            *running = None;
        }
        self.ended.notify_all();
        result
    }
}

impl Tables {
    /// `box_bytes` is the memory for boxes of voxels; tables may take a quarter of it. `held` shows
    /// how many bytes the tables take.
    pub fn new(box_bytes: usize, held: Gauge) -> Self {
        // At most 1 GiB, well within the 32-bit offsets of columns.
        let max_bytes = (box_bytes / 4).min(1 << 30);
        Self {
            cache: Cache::new(max_bytes, held),
            max_bytes,
            turns: Arc::default(),
        }
    }
}

impl std::fmt::Debug for Tables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tables").finish_non_exhaustive()
    }
}

/// Why there is no table.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NoNames {
    /// It cannot be read, or is wrong.
    #[error("{0}")]
    Wrong(String),
    /// It is larger than the memory for tables.
    #[error("{0}")]
    TooLarge(String),
    /// Another request was reading it and was stopped.
    #[error(transparent)]
    Abandoned(#[from] Abandoned),
}

/// The table of a channel.
#[derive(Debug)]
pub struct Names {
    settings: NamesSettings,
    /// The file of the channel.
    file: OpenFile,
    tables: Tables,
    /// The key of this table in the cache. It is random, so that a reopened HDF5 file does not find
    /// its old table.
    key: u64,
    /// Held while the table is read on behalf of requests.
    reading: Arc<tokio::sync::Mutex<()>>,
    reads: AtomicUsize,
}

type ReadLabels = Result<Arc<Labels>, NoNames>;

impl Names {
    /// The table that the settings name: a text file, or a group or dataset in `file`. Its contents
    /// are not read.
    pub(super) fn open(
        settings: &NamesSettings,
        file: &OpenFile,
        tables: &Tables,
    ) -> Result<Self, String> {
        let names = Self {
            settings: settings.clone(),
            file: file.clone(),
            tables: tables.clone(),
            key: fastrand::u64(..),
            reading: Arc::default(),
            reads: AtomicUsize::new(0),
        };
        let checked = match (&settings.file, &settings.path) {
            (Some(text), _) => identity(text).map(drop),
            (None, Some(path)) if !file.has(path) => {
                Err("there is no such group or dataset".to_owned())
            }
            // Without a path, the table is in the root group.
            _ => Ok(()),
        };
        checked.map_err(|problem| format!("{}: {problem}", names.place()))?;
        Ok(names)
    }

    /// The table as it was last read; `None` if it is not in memory or has a problem.
    pub(super) fn known(&self) -> Option<Arc<Labels>> {
        self.tables.cache.peek(&self.key)?.1.ok()
    }

    /// The text file that holds the table, if one does.
    pub fn text_file(&self) -> Option<&Path> {
        self.settings.file.as_deref()
    }

    /// How often the table has been read.
    pub fn reads(&self) -> usize {
        self.reads.load(Ordering::Relaxed)
    }

    /// The table, read on a thread for blocking work unless it is known. Errors do not name its
    /// file. Fails if the file is stuck.
    pub async fn get(self: &Arc<Self>, stalls: &Stalls) -> Result<ReadLabels, Unresponsive> {
        let reading = Arc::clone(&self.reading).lock_owned().await;
        let names = Arc::clone(self);
        let stalls = stalls.clone();
        let read = tokio::task::spawn_blocking(move || {
            let _reading = reading;
            stalls.watched(|| names.read())
        });
        read.await
            .unwrap_or_else(|error| Ok(Err(NoNames::Wrong(error.to_string()))))
    }

    /// The table, read unless it is known. Blocks.
    pub fn read(&self) -> ReadLabels {
        let current = self.text_file().map(identity).transpose();
        let current = current.map_err(NoNames::Wrong)?;
        let cache = &self.tables.cache;
        let flight = match cache.lookup_if(&self.key, |(cached, _)| *cached == current) {
            Lookup::Ready((_, labels)) => return labels,
            Lookup::Wait(waiter) => return waiter.wait_blocking()?.1,
            Lookup::Lead(flight) => flight,
        };
        // The number of bytes that the table may still take; 0 once it is too large.
        let room = Cell::new(self.tables.max_bytes);
        let labels = self.tables.turns.run(|| match self.text_file() {
            Some(file) => text::read(file, &self.settings, &room),
            None => stored::read(&self.file, self.path(), &self.settings, &room),
        });
        let labels = labels.map(Arc::new).map_err(|problem| match room.get() {
            0 => NoNames::TooLarge(format!("the table of names is too large: {problem}")),
            _ => NoNames::Wrong(format!("the table of names is wrong: {problem}")),
        });
        if let Err(problem) = &labels {
            tracing::error!("{}: {problem}", self.place());
        }
        let weight = BOOKKEEPING + labels.as_ref().map_or(0, |labels| labels.bytes());
        // A failure because the file is stuck is not cached, so the next request reads again.
        flight.land(if stalls::was_refused() {
            Err(Abandoned)
        } else {
            Ok(((current, labels.clone()), weight))
        });
        self.reads.fetch_add(1, Ordering::Relaxed);
        labels
    }

    /// Where the table is, for operators.
    pub(super) fn place(&self) -> String {
        match self.text_file() {
            Some(file) => file.display().to_string(),
            None => format!("{} in {}", self.path(), self.file.location()),
        }
    }

    /// The path of the table in the HDF5 file.
    fn path(&self) -> &str {
        self.settings.path.as_deref().unwrap_or("/")
    }
}

/// Reads the table at a path until the time `until`, to see whether the library survives it.
pub(super) fn try_out(file: &OpenFile, path: &str, until: Instant) {
    for column in file.columns(path).into_iter().flatten() {
        let read = column.read(&mut |_| {
            if Instant::now() > until {
                return Err(String::new());
            }
            Ok(())
        });
        // The error is reported when the table is read for use.
        if read.is_err() {
            return;
        }
    }
}

fn identity(text: &Path) -> Result<FileIdentity, String> {
    let _reading = stalls::reading(&text.into(), false);
    FileIdentity::of_path(text)
        .map_err(|error| format!("the table of names cannot be opened: {error}"))
}
