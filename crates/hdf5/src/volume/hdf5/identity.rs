//! Identifies a file or an object in its current state, to detect that it was replaced or modified,
//! and to make keys.
//!
//! A file has changed if its path leads to another state. Keys of tiles are made from path and
//! state, or from the file's contents if they have been identified: then copies of a file have the
//! same keys.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use voltile_base::flow::stalls;
use voltile_base::tile::Fingerprint;

use super::library_lock;
use crate::store::{Location, Object, Version};

/// Hashes files into the key of what is made from them, together with the rules of access that
/// protect it. The order of the files matters unless their contents are identified.
#[derive(Debug)]
pub struct KeyOf<'a> {
    files: Vec<&'a FileIdentity>,
    access: Option<Fingerprint>,
}

impl<'a> KeyOf<'a> {
    /// The files, and the rules of access; `None`: the files are public.
    pub fn files(
        files: impl IntoIterator<Item = &'a FileIdentity>,
        access: Option<Fingerprint>,
    ) -> Self {
        Self {
            files: files.into_iter().collect(),
            access,
        }
    }
}

impl Hash for KeyOf<'_> {
    /// If the contents of any file are identified, only contents and the names of missing files are
    /// hashed of the files. The identities left out are symbolic links that lead to the files.
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let Self { files, access } = self;
        // Public data has the same keys as in earlier versions.
        if let Some(access) = access {
            access.hash(hasher);
        }
        if files.iter().all(|file| file.content.is_none()) {
            return files.hash(hasher);
        }
        let contents: BTreeSet<Fingerprint> =
            files.iter().filter_map(|file| file.content).collect();
        let missing = files.iter().filter(|file| !file.exists());
        let missing: BTreeSet<_> = missing.filter_map(|file| file.path().file_name()).collect();
        (contents, missing).hash(hasher);
    }
}

/// A file in one state: location, device, inode, length and modification time. If any of these
/// differs, the contents may have changed; an edit that preserves length and modification time is
/// not detected. The state of an object in a store is its version.
///
/// A missing file has an identity too, which changes when the file appears.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileIdentity {
    location: Location,
    state: Presence,
    /// Identifies a file that may grow while it is open: the same in all states between which it
    /// has only grown. `None` for all other files.
    growth: Option<Fingerprint>,
    /// Identifies the contents: equal for equal contents, wherever they are. `None` if keys are
    /// made from location and state instead.
    content: Option<Fingerprint>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Presence {
    Missing,
    File(FileState),
    Object(Arc<Object>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FileState {
    device: u64,
    inode: u64,
    length: u64,
    /// Seconds and nanoseconds since 1970.
    modified: (i64, i64),
}

impl FileIdentity {
    /// The device and the inode of a file; `None` for objects in stores, and if it is missing.
    pub fn device_and_inode(&self) -> Option<(u64, u64)> {
        match &self.state {
            Presence::File(file) => Some((file.device, file.inode)),
            Presence::Missing | Presence::Object(_) => None,
        }
    }

    /// When a file was modified, in milliseconds since 1970; 0 for objects in stores, and if it is
    /// missing.
    pub fn modified_milliseconds(&self) -> i64 {
        let (seconds, nanoseconds) = self.modified();
        seconds
            .saturating_mul(1000)
            .saturating_add(nanoseconds / 1_000_000)
    }

    /// The file (of any type) at a path in its current state; symbolic links are resolved.
    pub fn of_path(path: &Path) -> io::Result<Self> {
        let resolved = path.canonicalize()?;
        let metadata = resolved.metadata()?;
        Ok(Self::new(&resolved, &metadata))
    }

    /// The file at a path with this metadata.
    pub(super) fn new(path: &Path, metadata: &std::fs::Metadata) -> Self {
        Self::in_state(
            path.into(),
            Presence::File(FileState::from_metadata(metadata)),
        )
    }

    /// The file at a path whose symbolic links are kept, so that the identity changes when a link
    /// is redirected.
    pub(super) fn of_unresolved(path: &Path) -> Self {
        match path.metadata() {
            Ok(metadata) => Self::new(path, &metadata),
            Err(_) => Self::missing(path),
        }
    }

    /// A file that does not exist.
    pub(super) fn missing(path: &Path) -> Self {
        Self::in_state(path.into(), Presence::Missing)
    }

    /// An open object.
    pub(super) fn of_object(object: Arc<Object>) -> Self {
        let location = Location::Object(object.address().clone());
        Self::in_state(location, Presence::Object(object))
    }

    fn in_state(location: Location, state: Presence) -> Self {
        Self {
            location,
            state,
            growth: None,
            content: None,
        }
    }

    /// Marks this as the identity of a file that may grow while it is open, if `is_growing`.
    pub(super) fn growing_if(self, is_growing: bool) -> Self {
        if !is_growing {
            return self;
        }
        let growth = Some(Fingerprint::digest(&("growing", &self)));
        Self { growth, ..self }
    }

    /// Whether the file may grow while it is open, because it is being written.
    pub fn is_growing(&self) -> bool {
        self.growth.is_some()
    }

    /// Identifies a growing file; does not change as long as the file only grows.
    pub fn growth(&self) -> Option<Fingerprint> {
        self.growth
    }

    /// This identity with the growth of `before`: an earlier state, if one is known, since which
    /// the file has only grown.
    pub(super) fn continuing(self, before: Option<&Self>) -> Self {
        Self {
            growth: before.map_or(self.growth, |before| before.growth),
            ..self
        }
    }

    /// Whether the file was modified within this time before now, if the clock of its file system
    /// agrees with ours.
    pub fn was_modified_within(&self, time: Duration) -> bool {
        let (seconds, _) = self.modified();
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        seconds.saturating_add_unsigned(time.as_secs()) >= now.as_secs().cast_signed()
    }

    /// This identity with a digest of the contents, from which keys are then made.
    pub(super) fn containing(self, content: Fingerprint) -> Self {
        Self {
            content: Some(content),
            ..self
        }
    }

    /// Where it is. Symbolic links are resolved, except by [`FileIdentity::of_unresolved`].
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// The path of a file, or the public address of an object.
    pub fn path(&self) -> &Path {
        self.location.as_path()
    }

    /// The object, if it is one.
    pub fn object(&self) -> Option<&Object> {
        match &self.state {
            Presence::Object(object) => Some(object),
            Presence::Missing | Presence::File(_) => None,
        }
    }

    /// The version of an object.
    pub fn version(&self) -> Option<&Version> {
        self.object().map(Object::version)
    }

    /// Whether the file existed when the identity was made.
    pub fn exists(&self) -> bool {
        self.state != Presence::Missing
    }

    /// The length in bytes; 0 for a missing file.
    pub fn length(&self) -> u64 {
        match &self.state {
            Presence::Missing => 0,
            Presence::File(state) => state.length,
            Presence::Object(object) => object.length(),
        }
    }

    /// The modification time of a file in seconds and nanoseconds; 0 for anything else.
    pub(super) fn modified(&self) -> (i64, i64) {
        match &self.state {
            Presence::File(state) => state.modified,
            Presence::Missing | Presence::Object(_) => (0, 0),
        }
    }

    /// Whether the file at this path is unchanged. Queries the file system for a file. For an
    /// object it answers from the state last seen, without waiting for the store.
    pub fn is_current(&self) -> bool {
        if let Presence::Object(object) = &self.state {
            return object.is_current();
        }
        let _reading = stalls::reading(&self.path().into(), library_lock::is_held_here());
        match self.path().metadata() {
            Ok(metadata) => self.is_of(&metadata),
            // Any error counts as missing.
            Err(_) => self.state == Presence::Missing,
        }
    }

    /// Whether a growing file was replaced by another one, or has become shorter. Queries the file
    /// system.
    pub fn was_rewritten(&self) -> bool {
        if !self.is_growing() {
            return false;
        }
        let _reading = stalls::reading(&self.path().into(), library_lock::is_held_here());
        let now = self.path().metadata();
        !now.is_ok_and(|metadata| self.is_of_grown(&metadata))
    }

    /// Whether this metadata is that of the unchanged file.
    pub(super) fn is_of(&self, metadata: &std::fs::Metadata) -> bool {
        self.state == Presence::File(FileState::from_metadata(metadata))
    }

    /// Whether this metadata is that of the same file, unchanged or grown.
    pub(super) fn is_of_grown(&self, metadata: &std::fs::Metadata) -> bool {
        let Presence::File(then) = &self.state else {
            return false;
        };
        then.grows_to(&FileState::from_metadata(metadata))
    }

    /// Whether it is the same file as `before`, which has grown since, or not changed.
    pub(super) fn has_grown_from(&self, before: &Self) -> bool {
        let (Presence::File(now), Presence::File(then)) = (&self.state, &before.state) else {
            return false;
        };
        then.grows_to(now)
    }
}

impl FileState {
    /// Whether `now` is a state of the same file, unchanged or grown.
    fn grows_to(&self, now: &Self) -> bool {
        self.device == now.device && self.inode == now.inode && self.length <= now.length
    }

    fn from_metadata(metadata: &std::fs::Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

impl Hash for FileIdentity {
    /// Omits the device number: it may differ after a reboot or on another machine that mounts the
    /// same disk, and the cached tiles would be lost. The state of a file is hashed as an `Option`,
    /// as in earlier versions, so that keys stay the same.
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        if let Some(content) = self.content {
            return content.hash(hasher);
        }
        self.location.hash(hasher);
        match &self.state {
            Presence::Missing => None::<()>.hash(hasher),
            Presence::File(FileState {
                device: _,
                inode,
                length,
                modified,
            }) => Some((inode, length, modified)).hash(hasher),
            Presence::Object(object) => object.version().hash(hasher),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::{Duration, SystemTime};

    fn touch(path: &Path, seconds: u64) {
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
            .unwrap();
    }

    #[test]
    fn a_file_that_is_left_alone_stays_itself_and_one_that_is_edited_or_replaced_does_not() {
        let place = tempfile::tempdir().unwrap();
        let (path, other) = (place.path().join("a.h5"), place.path().join("b.h5"));
        fs::write(&path, "one").unwrap();
        touch(&path, 1000);
        let identity = FileIdentity::of_path(&path).unwrap();
        assert!(identity.is_current());
        assert_eq!(
            FileIdentity::of_path(&place.path().join("../").join(place.path()).join("a.h5"))
                .unwrap(),
            identity
        );
        // Edited in place, then the modification time is restored.
        fs::write(&path, "two").unwrap();
        assert!(!identity.is_current());
        touch(&path, 1000);
        assert!(
            identity.is_current(),
            "an edit that keeps length and time cannot be seen"
        );
        // Replaced by a file of the same length and time.
        fs::write(&other, "ten").unwrap();
        touch(&other, 1000);
        fs::rename(&other, &path).unwrap();
        assert!(!identity.is_current());
        fs::remove_file(&path).unwrap();
        assert!(!identity.is_current());
    }

    #[test]
    fn the_key_of_identified_contents_depends_on_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            fs::write(place.path().join(name), text).unwrap();
            FileIdentity::of_path(&place.path().join(name)).unwrap()
        };
        let (one, two) = (Fingerprint::digest(&1), Fingerprint::digest(&2));
        let key = |files: &[&FileIdentity]| {
            Fingerprint::digest(&KeyOf::files(files.iter().copied(), None))
        };
        let (a, b) = (
            file("a", "").containing(one),
            file("b", "longer").containing(one),
        );
        let other = file("c", "").containing(two);
        assert_eq!(
            (key(&[&a]), Fingerprint::digest(&a)),
            (key(&[&b]), Fingerprint::digest(&b))
        );
        assert_ne!(key(&[&a]), key(&[&other]));
        assert_eq!(key(&[&a, &other]), key(&[&other, &b, &file("link", "")]));
        let under =
            |rule: i32| Fingerprint::digest(&KeyOf::files([&a], Some(Fingerprint::digest(&rule))));
        assert!(
            key(&[&a]) != under(1) && under(1) != under(2),
            "rules of access count, too"
        );
        let missing = |folder: &str| FileIdentity::missing(&Path::new(folder).join("gone.raw"));
        assert_eq!(key(&[&a, &missing("/x")]), key(&[&b, &missing("/y")]));
        assert_ne!(key(&[&a, &missing("/x")]), key(&[&a]));
        let (d, e) = (file("d", ""), file("e", ""));
        assert_ne!(
            key(&[&d]),
            key(&[&e]),
            "paths count as long as contents are unknown"
        );
        let set = std::collections::BTreeSet::from([d.clone(), e.clone()]);
        assert_eq!(
            key(&[&d, &e]),
            Fingerprint::digest(&set),
            "as in caches of earlier versions"
        );
    }

    #[test]
    fn a_missing_file_changes_when_it_appears() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("late.h5");
        let identity = FileIdentity::missing(&path);
        assert!(identity.is_current());
        fs::write(&path, "here").unwrap();
        assert!(!identity.is_current());
    }

    #[test]
    fn files_that_changed_lately_are_told() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.h5");
        fs::write(&path, "now").unwrap();
        let lately = |path: &Path| {
            FileIdentity::of_path(path)
                .unwrap()
                .was_modified_within(Duration::from_secs(60))
        };
        assert!(lately(&path));
        touch(&path, 1000);
        assert!(!lately(&path));
    }

    #[test]
    fn a_file_that_grew_is_told_from_one_that_shrank() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.h5");
        fs::write(&path, "four").unwrap();
        let identity = FileIdentity::of_path(&path).unwrap();
        fs::write(&path, "longer").unwrap();
        assert!(identity.is_of_grown(&path.metadata().unwrap()) && !identity.is_current());
        fs::write(&path, "two").unwrap();
        assert!(!identity.is_of_grown(&path.metadata().unwrap()));
    }
}
