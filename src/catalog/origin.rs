//! Where a tile comes from: whose it is, and whether its files are still what they were when they were opened.
//!
//! A key says which file is meant by the time that it had when it was opened. What is drawn after the file was changed is
//! no tile of that key. In memory that is over with the process; what is kept for longer must be asked for first.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::stored::StoredLevel;
use super::{Channel, Overview, Resolved};
use crate::name::Name;
use crate::volume::hdf5::FileIdentity;

/// Whose a tile is, and the channels that it shows.
#[derive(Debug, Clone)]
pub struct Origin {
    /// The dataset's token.
    pub token: Name,
    channels: Vec<Arc<Channel>>,
}

impl Origin {
    /// Whether no file of the channels was changed before that moment, as far as their times tell. May ask the file system
    /// for every file.
    pub fn was_unchanged_at(&self, moment: Instant) -> bool {
        self.channels.iter().all(|channel| channel.watch.was_unchanged_at(moment, || channel.changed_file()))
    }
}

impl Resolved<'_> {
    /// Where its tile comes from.
    pub fn origin(&self) -> Origin {
        Origin { token: self.token().clone(), channels: self.channels().cloned().collect() }
    }
}

impl Overview<'_> {
    /// Where its picture comes from.
    pub fn origin(&self) -> Option<Origin> {
        self.tiles().first().map(Resolved::origin)
    }
}

impl Channel {
    /// The first of its files that is not what it was, where there is one.
    fn changed_file(&self) -> Option<&FileIdentity> {
        let files: BTreeSet<&FileIdentity> = self.all_levels().flat_map(StoredLevel::files).collect();
        files.into_iter().find(|file| !file.is_current())
    }
}

/// When the files of a channel were looked at last.
#[derive(Debug, Default)]
pub(super) struct Watch(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    /// They were unchanged then.
    last: Option<Instant>,
    /// They are not any more. For good: chunks of what they were then may be kept.
    changed: bool,
}

impl Watch {
    /// Looks, unless somebody has since that moment.
    fn was_unchanged_at<'a>(
        &self,
        moment: Instant,
        changed: impl FnOnce() -> Option<&'a FileIdentity>,
    ) -> bool {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.changed || seen.last.is_some_and(|last| last >= moment) {
            return !seen.changed;
        }
        seen.last = Some(Instant::now());
        if let Some(file) = changed() {
            seen.changed = true;
            let path = file.path().display();
            tracing::warn!(
                "{path} was changed since it was opened: what is drawn of it is not kept in cache.directory. Start voltile again \
                 to serve it as it is"
            );
        }
        !seen.changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_are_looked_at_once_for_all_that_was_drawn_before_and_a_change_is_for_good() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.h5");
        fs::write(&path, "one").unwrap();
        let (identity, watch) = (FileIdentity::of(&path).unwrap(), Watch::default());
        let mut looks = 0;
        let mut ask = |moment| {
            watch.was_unchanged_at(moment, || {
                looks += 1;
                Some(&identity).filter(|identity| !identity.is_current())
            })
        };
        let (before, first) = (Instant::now(), ask(Instant::now()));
        assert!(first && ask(before));
        fs::write(&path, "three").unwrap();
        assert!(ask(before), "it was unchanged then");
        assert!(!ask(Instant::now()));
        fs::remove_file(&path).unwrap();
        assert!(!ask(before) && !ask(Instant::now()));
        assert_eq!(looks, 2);
    }
}
