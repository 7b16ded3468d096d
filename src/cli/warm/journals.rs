//! Default paths of journals: in the cache directory, or in the user's state directory.

use std::env;
use std::path::{Path, PathBuf};

use crate::cli::Failure;
use crate::tile::Fingerprint;
use crate::warm::{Found, Journal, JournalError, Producer, Runs, Title, Work};

/// About how many of the finished tiles are checked.
const LOOKED_FOR: u64 = 256;

/// The journal of a job that writes to a directory: in its folder `warm`, separate from the tiles.
pub(super) fn of_directory(directory: &Path, title: &Title) -> PathBuf {
    directory.join("warm").join(name(&title.selection))
}

/// The journal of a job that uses a server or a store, in the user's state directory; `None` if there is none.
pub(super) fn of_address(address: &str, title: &Title) -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(folder.join("voltile").join("warm").join(name(&format!("{address} {}", title.selection))))
}

/// Jobs with different selections have journals with different names, so that one does not overwrite another's.
fn name(of: &str) -> String {
    format!("{}.journal", Fingerprint::of(&of))
}

/// Opens a journal, or that of a shard, and returns what was contained.
pub(super) fn open(path: &Path, title: &Title, is_shard: bool) -> Result<(Journal, Found), Failure> {
    let opened = if is_shard { Journal::of_shard(path, title) } else { Journal::open(path, title) };
    opened.map_err(|error| match error {
        JournalError::Foreign { .. } => Failure::Usage(error.to_string()),
        other => other.into(),
    })
}

/// Whether finished tiles still exist, judging by a sample: they may have been deleted.
pub(super) fn is_still_there(work: &Work, producer: &dyn Producer, done: &Runs) -> bool {
    let every = (done.count() / LOOKED_FOR).max(1);
    let places = (0..done.count()).step_by(usize::try_from(every).unwrap_or(usize::MAX));
    let numbers = places.filter_map(|place| done.nth(place));
    numbers.filter_map(|number| work.tiles(number).next()).all(|tile| producer.is_there(&tile))
}
