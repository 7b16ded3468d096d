//! The journal of a work: records progress, so that a stopped or killed run can be resumed.
//!
//! The first line of JSON identifies the work; later lines record which tiles are done, and which failed. The order of
//! tiles never changes, so their numbers are sufficient. Lines are only appended; an incomplete line can only be the
//! last, and is ignored. A journal of other work, or of files that have changed since, is not resumed.
//!
//! A run of the whole work holds a file lock, which ends with the process. Shards, which run on several machines, share
//! nothing: each process appends to a file of its own, named after the journal, and reads those of all others when it
//! begins. So it does not matter which process did a tile, and into how many shards the work was divided then.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::numbers::Runs;

/// The format version.
const FORMAT: u32 = 2;
/// The extension of journals.
const ENDING: &str = "journal";
/// The number of random hexadecimal digits in the name of a shard's journal.
const DIGITS: usize = 16;
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
    /// Its number in the work.
    pub number: u64,
    /// Why.
    pub why: String,
}

/// The progress of a work.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Position {
    /// The numbers of tiles that are done, or failed.
    pub done: Runs,
    /// Those that failed.
    pub failures: Vec<Failure>,
    /// The paths of those that had failed and have succeeded since.
    pub mended: BTreeSet<String>,
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
    Done(Range<u64>),
    Failed(Failure),
    /// A tile that failed before and has succeeded since.
    Mended(String),
}

/// A journal open for writing.
#[derive(Debug)]
pub struct Journal {
    /// The journal of the whole work, which the files of shards are named after.
    base: PathBuf,
    /// The file that this process writes.
    path: PathBuf,
    file: File,
    title: Title,
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
    /// Opens the journal at a path for the whole work, or creates one, and returns what it and those of shards
    /// contained; unless it is of this work, it is started over.
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
        let mut journal = Self { base: path.to_owned(), path: path.to_owned(), file, title: title.clone() };
        match &found {
            // A line torn by a kill must not be joined with the next one.
            Found::This(_) => journal.write_behind(whole_lines(&bytes)).map_err(failed("written"))?,
            Found::Nothing | Found::Other => journal.begin(title).map_err(failed("written"))?,
        }
        Ok((journal, found.and(of_shards(path, title))))
    }

    /// Creates the journal of a shard next to the one at a path, and returns what that and those of other shards
    /// contain.
    pub fn of_shard(path: &Path, title: &Title) -> Result<(Self, Found), JournalError> {
        let found = match Self::look(path, title) {
            // It is left alone, not started over.
            Found::Other => Found::Nothing,
            found => found,
        };
        let folder = folder_of(path);
        let own = folder.join(format!("{}{:0DIGITS$x}.{ENDING}", prefix(path), fastrand::u64(..)));
        let failed = |doing| {
            let path = own.clone();
            move |problem| JournalError::System { path, doing, problem }
        };
        fs::create_dir_all(folder).map_err(failed("made"))?;
        let file = File::create_new(&own).map_err(failed("made"))?;
        let mut journal = Self { base: path.to_owned(), path: own.clone(), file, title: title.clone() };
        journal.begin(title).map_err(failed("written"))?;
        Ok((journal, found))
    }

    /// Reads the progress recorded at a path, and by shards, without changing it.
    pub fn look(path: &Path, title: &Title) -> Found {
        look(path, title).and(of_shards(path, title))
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

    /// Records that the tiles with these numbers are done, or failed.
    pub fn done(&mut self, tiles: Range<u64>) -> Result<(), JournalError> {
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

    /// Whether it is that of a shard.
    pub fn is_shard(&self) -> bool {
        self.path != self.base
    }

    /// Removes it, and those of all shards, when the work is finished. If it is a shard's, returns how many tiles of the
    /// whole work are not done yet; the journals stay until all are.
    pub fn finish(self) -> Result<u64, JournalError> {
        let Self { base, path, file, title } = self;
        // Other machines see what was written once the file is closed.
        drop(file);
        if path != base {
            let Found::This(position) = Self::look(&base, &title) else { return Ok(title.tiles) };
            let left = title.tiles.saturating_sub(position.done.count()) + position.failures.len() as u64;
            if left > 0 {
                return Ok(left);
            }
        }
        for path in shards(&base).iter().chain([&base]) {
            match fs::remove_file(path) {
                Err(problem) if problem.kind() == io::ErrorKind::NotFound => {}
                Err(problem) => {
                    return Err(JournalError::System { path: path.clone(), doing: "removed", problem });
                }
                Ok(()) => {}
            }
        }
        Ok(0)
    }
}

impl Found {
    /// The progress recorded in both.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Found::This(one), Found::This(other)) => Found::This(one.and(other)),
            (Found::Nothing | Found::Other, found @ Found::This(_)) | (found, _) => found,
        }
    }
}

impl Position {
    fn and(self, other: Self) -> Self {
        let done = Runs::of(self.done.into_iter().chain(other.done).collect());
        let mended: BTreeSet<String> = self.mended.into_iter().chain(other.mended).collect();
        let mut failures = self.failures;
        failures.extend(other.failures);
        failures.sort_by_key(|failure| failure.number);
        failures.dedup_by_key(|failure| failure.number);
        failures.retain(|failure| !mended.contains(&failure.tile));
        failures.truncate(MOST_FAILURES);
        Self { done, failures, mended }
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// What the names of shards' journals begin with.
fn prefix(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!("{}.", name.strip_suffix(&format!(".{ENDING}")).unwrap_or(&name))
}

/// The journals of shards next to the one at a path.
fn shards(path: &Path) -> Vec<PathBuf> {
    let prefix = prefix(path);
    let is_shard = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let digits = name.strip_prefix(&prefix).and_then(|rest| rest.strip_suffix(&format!(".{ENDING}")));
        digits.is_some_and(|digits| {
            digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    };
    let entries = fs::read_dir(folder_of(path)).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(is_shard).collect()
}

/// What the journals of shards contain. Those of other work are ignored, and so are those that cannot be read: at worst,
/// tiles are looked at again.
fn of_shards(path: &Path, title: &Title) -> Found {
    shards(path).iter().map(|path| look(path, title)).fold(Found::Nothing, Found::and)
}

fn look(path: &Path, title: &Title) -> Found {
    fs::read(path).ok().and_then(|bytes| read(&bytes, title)).unwrap_or(Found::Nothing)
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
    let (mut position, mut done) = (Position::default(), Vec::new());
    for line in lines.filter_map(|line| serde_json::from_slice(line).ok()) {
        match line {
            Line::Done(tiles) => done.push(tiles),
            Line::Failed(failure) => {
                position.mended.remove(&failure.tile);
                if position.failures.len() < MOST_FAILURES {
                    position.failures.push(failure);
                }
            }
            Line::Mended(tile) => {
                position.failures.retain(|failure| failure.tile != tile);
                position.mended.insert(tile);
            }
        }
    }
    position.done = Runs::of(done);
    Some(Found::This(position))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn title(work: &str) -> Title {
        Title { work: work.to_owned(), selection: "level all".to_owned(), tiles: 99 }
    }

    fn failure(tile: &str) -> Failure {
        Failure { tile: tile.to_owned(), number: 3, why: "broken".to_owned() }
    }

    fn position(done: Range<u64>, failed: &[&str], mended: &[&str]) -> Position {
        let failures = failed.iter().map(|tile| failure(tile)).collect();
        let mended = mended.iter().map(|tile| (*tile).to_owned()).collect();
        Position { done: done.into(), failures, mended }
    }

    #[test]
    fn shards_know_what_others_have_done_and_the_last_removes_all_journals() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/some.journal");
        let shard = || Journal::of_shard(&path, &title("a")).unwrap();
        let ((mut one, _), (mut two, found)) = (shard(), shard());
        assert_eq!(found, Found::This(Position::default()));
        one.done(0..30).unwrap();
        one.failed(&failure("x")).unwrap();
        two.done(60..99).unwrap();
        fs::write(folder.path().join("state/some.0123456789abcdef.journal"), "{}\n").unwrap();
        assert_eq!(Journal::of_shard(&path, &title("b")).unwrap().1, Found::Nothing, "it is other work");
        let (mut third, found) = shard();
        let Found::This(before) = found else { panic!() };
        assert_eq!((before.done, before.failures), (Runs::of(vec![0..30, 60..99]), vec![failure("x")]));
        third.mended("x").unwrap();
        third.done(30..40).unwrap();
        assert_eq!((one.finish().unwrap(), two.finish().unwrap(), third.finish().unwrap()), (20, 20, 20));
        let (mut whole, found) = Journal::open(&path, &title("a")).unwrap();
        let Found::This(before) = found else { panic!() };
        assert_eq!((before.done, before.failures), (Runs::of(vec![0..40, 60..99]), vec![]));
        whole.done(40..60).unwrap();
        let (last, _) = shard();
        assert_eq!(last.finish().unwrap(), 0);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 0);
        assert_eq!(whole.finish().unwrap(), 0, "it is no error that the files are gone");
    }

    #[test]
    fn a_work_goes_on_where_it_was_also_behind_a_torn_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/journal");
        let (mut journal, found) = Journal::open(&path, &title("a")).unwrap();
        assert_eq!(found, Found::Nothing);
        journal.done(0..7).unwrap();
        journal.failed(&failure("x")).unwrap();
        journal.failed(&failure("y")).unwrap();
        journal.mended("x").unwrap();
        journal.done(7..12).unwrap();
        drop(journal);
        let whole = fs::read(&path).unwrap();
        for torn in 0..6 {
            fs::write(&path, [&whole[..], &b"{\"done\":{}"[..torn]].concat()).unwrap();
            let (journal, found) = Journal::open(&path, &title("a")).unwrap();
            assert_eq!(found, Found::This(position(0..12, &["y"], &["x"])));
            drop(journal);
            assert_eq!(fs::read(&path).unwrap(), whole);
        }
        let (mut journal, _) = Journal::open(&path, &title("a")).unwrap();
        journal.done(12..20).unwrap();
        assert_eq!(Journal::look(&path, &title("a")), Found::This(position(0..20, &["y"], &["x"])));
        assert_eq!(journal.finish().unwrap(), 0);
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
        journal.done(0..5).unwrap();
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
