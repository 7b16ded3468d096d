//! Where journals are, unless somebody says: with the tiles, or with what programs keep of their work.

use std::env;
use std::path::{Path, PathBuf};

use crate::cli::Failure;
use crate::tile::Fingerprint;
use crate::warm::{Found, Hand, Journal, JournalError, Title, Work};

/// How many tiles of those that were done are looked for.
const LOOKED_FOR: u64 = 256;

/// The journal of a work into a directory. It lies beside the tiles, whose folder it is not in.
pub(super) fn of_directory(directory: &Path, title: &Title) -> PathBuf {
    directory.join("warm").join(name(&title.selection))
}

/// The journal of a work by a server, in the user's own folder for such things; `None` where there is none.
pub(super) fn of_server(address: &str, title: &Title) -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(folder.join("voltile").join("warm").join(name(&format!("{address} {}", title.selection))))
}

/// Works on other selections have journals of other names, so that one does not end what another has begun.
fn name(of: &str) -> String {
    format!("{}.journal", Fingerprint::of(&of))
}

/// Opens a journal, and tells what was found there.
pub(super) fn open(path: &Path, title: &Title) -> Result<(Journal, Found), Failure> {
    Journal::open(path, title).map_err(|error| match error {
        JournalError::Foreign { .. } => Failure::Usage(error.to_string()),
        other => other.into(),
    })
}

/// Whether tiles that were done are still there, as far as a few of them tell: somebody may have cleared them away.
pub(super) fn is_still_there(work: &Work, hand: &dyn Hand, done: u64) -> bool {
    let every = (done / LOOKED_FOR).max(1);
    let numbers = (0..done).step_by(usize::try_from(every).unwrap_or(usize::MAX));
    numbers.filter_map(|number| work.tiles(number).next()).all(|tile| hand.is_there(&tile))
}
