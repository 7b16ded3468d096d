//! The journal of a work: records progress, so that a stopped or killed run can be resumed.
//!
//! The first line of JSON identifies the work; later lines record how many tiles are done, and which failed.
//! The order of tiles never changes, so a number is sufficient. Lines are only appended; an incomplete line
//! can only be the last, and is ignored. A journal of other work, or of files that have changed since, is not
//! resumed.
//!
//! One process at a time uses it, holding a file lock, which ends with the process.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The format version.
const FORMAT: u32 = 1;
/// The maximum number of failures that are recorded; all are counted.
pub const MOST_FAILURES: usize = 10_000;

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// An I/O error.
    #[error("the journal {} cannot be {doing}: {problem}", path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// The failed operation: "written" or the like.
        doing: &'static str,
        /// The system's error.
        problem: io::Error,
    },
    /// Another process holds the lock.
    #[error("another voltile is running this job: it holds the journal {}", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The file is not a journal.
    #[error("{} is not a journal of voltile warm; name another file with --journal", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
}

/// A tile that failed, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Its path below a mount.
    pub tile: String,
    /// Why.
    pub why: String,
}

/// The progress of a work.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Position {
    /// This many tiles in order are done, or failed.
    pub done: u64,
    /// Those that failed.
    pub failures: Vec<Failure>,
}

/// The contents of a journal file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// A journal of another selection, or of files that have changed since.
    Other,
    /// This work's journal.
    This(Position),
}

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    voltile_warm: u32,
    work: String,
    selection: String,
    tiles: u64,
}

/// A line after the header.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Done(u64),
    Failed(Failure),
    /// A tile that failed before and has succeeded since.
    Mended(String),
}

/// A journal open for writing.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
}

/// What identifies a journal: a digest of the work, the selection in words, and the number of tiles.
#[derive(Debug, Clone)]
pub struct Title {
    /// The digest of the work.
    pub work: String,
    /// The selection, for people who read the file.
    pub selection: String,
    /// How many tiles there are.
    pub tiles: u64,
}

impl Journal {
    /// Opens the journal at a path, or creates one, and returns what it contained; unless it is of this work,
    /// it is started over.
    pub fn open(path: &Path, title: &Title) -> Result<(Self, Found), JournalError> {
        let failed = |doing| move |problem| JournalError::System { path: path.to_owned(), doing, problem };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed("made"))?;
        }
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).clone();
        let mut file = options.open(path).map_err(failed("opened"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(JournalError::Busy { path: path.to_owned() }),
            Err(TryLockError::Error(problem)) => return Err(failed("locked")(problem)),
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed("read"))?;
        let found = read(&bytes, title).ok_or_else(|| JournalError::Foreign { path: path.to_owned() })?;
        let mut journal = Self { path: path.to_owned(), file };
        match &found {
            // A line torn by a kill must not be joined with the next one.
            Found::This(_) => journal.write_behind(whole_lines(&bytes)).map_err(failed("written"))?,
            Found::Nothing | Found::Other => journal.begin(title).map_err(failed("written"))?,
        }
        Ok((journal, found))
    }

    /// Reads the progress recorded at a path, without changing it.
    pub fn look(path: &Path, title: &Title) -> Found {
        fs::read(path).ok().and_then(|bytes| read(&bytes, title)).unwrap_or(Found::Nothing)
    }

    fn write_behind(&mut self, length: usize) -> io::Result<()> {
        self.file.set_len(length as u64)?;
        self.file.seek(SeekFrom::End(0)).map(drop)
    }

    fn begin(&mut self, title: &Title) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        let Title { work, selection, tiles } = title.clone();
        self.add(&Header { voltile_warm: FORMAT, work, selection, tiles })
    }

    /// Records that this many tiles in order are done, or failed.
    pub fn done(&mut self, tiles: u64) -> Result<(), JournalError> {
        self.add_line(&Line::Done(tiles))
    }

    /// Records a failed tile.
    pub fn failed(&mut self, failure: &Failure) -> Result<(), JournalError> {
        self.add_line(&Line::Failed(failure.clone()))
    }

    /// Records that a tile that had failed is done.
    pub fn mended(&mut self, tile: &str) -> Result<(), JournalError> {
        self.add_line(&Line::Mended(tile.to_owned()))
    }

    fn add_line(&mut self, line: &Line) -> Result<(), JournalError> {
        let path = self.path.clone();
        self.add(line).map_err(|problem| JournalError::System { path, doing: "written", problem })
    }

    fn add(&mut self, line: &impl Serialize) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.file.write_all(&text)
    }

    /// Removes it when the work is finished.
    pub fn remove(self) -> Result<(), JournalError> {
        let failed = |problem| JournalError::System { path: self.path.clone(), doing: "removed", problem };
        fs::remove_file(&self.path).map_err(failed)
    }
}

/// The length of all complete lines.
fn whole_lines(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1)
}

/// The contents of a file; `None` if it is not a journal.
fn read(bytes: &[u8], title: &Title) -> Option<Found> {
    let whole = bytes.get(..whole_lines(bytes))?;
    let mut lines = whole.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let Some(first) = lines.next() else {
        // Killed before the first line was complete.
        let torn = bytes.is_empty() || br#"{"voltile_warm""#.starts_with(bytes.get(..15).unwrap_or(bytes));
        return torn.then_some(Found::Nothing);
    };
    let header: Header = serde_json::from_slice(first).ok()?;
    if (header.voltile_warm, &header.work, header.tiles) != (FORMAT, &title.work, title.tiles) {
        return Some(Found::Other);
    }
    let mut position = Position::default();
    for line in lines.filter_map(|line| serde_json::from_slice(line).ok()) {
        match line {
            Line::Done(done) => position.done = position.done.max(done),
            Line::Failed(failure) if position.failures.len() < MOST_FAILURES => {
                position.failures.push(failure);
            }
            Line::Failed(_) => {}
            Line::Mended(tile) => position.failures.retain(|failure| failure.tile != tile),
        }
    }
    Some(Found::This(position))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn title(work: &str) -> Title {
        Title { work: work.to_owned(), selection: "level all".to_owned(), tiles: 99 }
    }

    fn failure(tile: &str) -> Failure {
        Failure { tile: tile.to_owned(), why: "broken".to_owned() }
    }

    #[test]
    fn a_work_goes_on_where_it_was_also_behind_a_torn_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/journal");
        let (mut journal, found) = Journal::open(&path, &title("a")).unwrap();
        assert_eq!(found, Found::Nothing);
        journal.done(7).unwrap();
        journal.failed(&failure("x")).unwrap();
        journal.failed(&failure("y")).unwrap();
        journal.mended("x").unwrap();
        journal.done(12).unwrap();
        drop(journal);
        let whole = fs::read(&path).unwrap();
        for torn in 0..6 {
            fs::write(&path, [&whole[..], &b"{\"done\":14}"[..torn]].concat()).unwrap();
            let (journal, found) = Journal::open(&path, &title("a")).unwrap();
            assert_eq!(found, Found::This(Position { done: 12, failures: vec![failure("y")] }));
            drop(journal);
            assert_eq!(fs::read(&path).unwrap(), whole);
        }
        let (mut journal, _) = Journal::open(&path, &title("a")).unwrap();
        journal.done(20).unwrap();
        assert!(matches!(Journal::look(&path, &title("a")), Found::This(Position { done: 20, .. })));
        journal.remove().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn whatever_a_kill_leaves_of_the_first_line_is_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        drop(Journal::open(&path, &title("a")).unwrap());
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            assert_eq!(Journal::open(&path, &title("a")).unwrap().1, Found::Nothing, "{length}");
            assert_eq!(fs::read(&path).unwrap(), whole);
        }
    }

    #[test]
    fn another_work_begins_anew_and_another_file_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let (mut journal, _) = Journal::open(&path, &title("a")).unwrap();
        journal.done(5).unwrap();
        assert!(matches!(Journal::open(&path, &title("a")), Err(JournalError::Busy { .. })));
        drop(journal);
        assert_eq!(Journal::open(&path, &title("b")).unwrap().1, Found::Other);
        assert_eq!(Journal::open(&path, &title("b")).unwrap().1, Found::This(Position::default()));
        for foreign in ["hello\n", "{}\n", "[datasets]", "\n\n"] {
            fs::write(&path, foreign).unwrap();
            assert!(
                matches!(Journal::open(&path, &title("a")), Err(JournalError::Foreign { .. })),
                "{foreign}"
            );
            assert_eq!(fs::read_to_string(&path).unwrap(), foreign);
        }
    }
}
