//! An open directory, and file operations relative to it (`openat` etc.).
//!
//! Other users may have write access to a cache directory. So below its top no symbolic link is followed, whether
//! reading, writing or removing, and only regular files are opened: a FIFO would block, and a device may be endless.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// Prefix of the names of temporary files.
pub(super) const UNFINISHED: &str = ".voltile-";
/// Attempts to find an unused name for a temporary file.
const MAX_NAMES: usize = 8;

#[derive(Debug)]
pub(super) struct Dir(OwnedFd);

/// Identifies a directory among all that exist at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

/// A directory entry, opened if it is a file.
#[derive(Debug)]
pub(super) enum Entry {
    /// A regular file, opened for reading, and its length.
    File(File, u64),
    /// Anything else: a symbolic link, a directory, a FIFO, a device.
    Other,
}

/// Metadata of a directory entry, read without opening it.
#[derive(Debug, Clone, Copy)]
pub(super) struct About {
    pub kind: FileType,
    pub length: u64,
    pub modified: SystemTime,
}

impl Dir {
    /// Opens the directory at a path. Symbolic links are followed: the operator chose this path.
    pub fn at(path: &Path) -> io::Result<Self> {
        Ok(Self(fs::open(path, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?))
    }

    pub fn identity(&self) -> io::Result<Identity> {
        let about = fs::fstat(&self.0)?;
        #[allow(clippy::useless_conversion, clippy::unnecessary_cast, reason = "narrower on other systems")]
        Ok(Identity { device: about.st_dev as u64, inode: about.st_ino.into() })
    }

    /// Opens a subdirectory; `None` if there is no entry of that name.
    pub fn child(&self, name: &OsStr) -> io::Result<Option<Self>> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        match fs::openat(&self.0, name, flags, Mode::empty()) {
            Ok(child) => Ok(Some(Self(child))),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::NOTDIR | Errno::LOOP) => {
                let problem = "it is not a directory, or a symbolic link, which is not followed here";
                Err(io::Error::new(ErrorKind::NotADirectory, problem))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a subdirectory and creates it if it is missing. [`ErrorKind::NotFound`] if it or this directory is
    /// removed concurrently.
    pub fn child_made(&self, name: &OsStr) -> io::Result<Self> {
        if let Some(child) = self.child(name)? {
            return Ok(child);
        }
        match fs::mkdirat(&self.0, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        self.child(name)?.ok_or_else(|| ErrorKind::NotFound.into())
    }

    /// The metadata of an entry; `None` if there is none.
    pub fn about(&self, name: &OsStr) -> io::Result<Option<About>> {
        match fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(About::of(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens an entry if it is a regular file; `None` if there is none.
    pub fn open(&self, name: &OsStr) -> io::Result<Option<Entry>> {
        // Checked before opening, because opening a device can have side effects.
        match self.about(name)? {
            None => return Ok(None),
            Some(about) if about.kind != FileType::RegularFile => return Ok(Some(Entry::Other)),
            Some(_) => {}
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = match fs::openat(&self.0, name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            // It was replaced since the check.
            Err(Errno::LOOP | Errno::NXIO) => return Ok(Some(Entry::Other)),
            Err(error) => return Err(error.into()),
        };
        let about = About::of(&fs::fstat(&file)?);
        let is_file = about.kind == FileType::RegularFile;
        Ok(Some(if is_file { Entry::File(file.into(), about.length) } else { Entry::Other }))
    }

    /// Removes a file, a symbolic link, or an empty directory; returns whether there was one.
    pub fn remove(&self, name: &OsStr) -> io::Result<bool> {
        match fs::unlinkat(&self.0, name, AtFlags::empty()) {
            // On systems other than Linux, unlinking a directory is EPERM.
            Err(error @ (Errno::ISDIR | Errno::PERM)) => self.remove_dir(name).map_err(|_| error.into()),
            removed => was_there(removed),
        }
    }

    /// Removes an empty directory; returns whether there was one.
    pub fn remove_dir(&self, name: &OsStr) -> io::Result<bool> {
        was_there(fs::unlinkat(&self.0, name, AtFlags::REMOVEDIR))
    }

    /// All names, sorted by inode number: file systems read inodes fastest in that order.
    pub fn names(&self) -> io::Result<Vec<Box<OsStr>>> {
        let mut names = Vec::new();
        for entry in fs::Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                names.push((entry.ino(), Box::from(name)));
            }
        }
        names.sort_unstable_by_key(|(inode, _)| *inode);
        Ok(names.into_iter().map(|(_, name)| name).collect())
    }

    /// Creates a temporary file, which is removed when dropped unless it is persisted.
    pub fn unfinished(&self) -> io::Result<Unfinished<'_>> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // The umask decides who may read it, so that servers of several users can share the cache.
        let mode = Mode::from_raw_mode(0o666);
        for _ in 0..MAX_NAMES {
            let name = format!("{UNFINISHED}{:016x}", fastrand::u64(..));
            match fs::openat(&self.0, &name, flags, mode) {
                Ok(file) => return Ok(Unfinished { dir: self, name, file: file.into(), is_there: true }),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }
}

fn was_there(removed: rustix::io::Result<()>) -> io::Result<bool> {
    match removed {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

impl About {
    fn of(stat: &Stat) -> Self {
        let kind = FileType::from_raw_mode(stat.st_mode);
        let seconds = u64::try_from(stat.st_mtime).unwrap_or_default();
        let nanoseconds = u32::try_from(stat.st_mtime_nsec).unwrap_or_default().min(999_999_999);
        let since = Duration::new(seconds, nanoseconds);
        let modified = SystemTime::UNIX_EPOCH.checked_add(since).unwrap_or(SystemTime::UNIX_EPOCH);
        Self { kind, length: u64::try_from(stat.st_size).unwrap_or_default(), modified }
    }
}

/// A temporary file that is being written.
pub(super) struct Unfinished<'a> {
    dir: &'a Dir,
    name: String,
    file: File,
    is_there: bool,
}

impl Unfinished<'_> {
    pub fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Renames it, replacing any existing entry of that name.
    pub fn persist(mut self, name: &OsStr) -> io::Result<()> {
        fs::renameat(&self.dir.0, &self.name, &self.dir.0, name)?;
        self.is_there = false;
        Ok(())
    }

    /// Gives it a name; [`ErrorKind::AlreadyExists`] if there is an entry of that name.
    pub fn persist_new(self, name: &OsStr) -> io::Result<()> {
        match fs::linkat(&self.dir.0, &self.name, &self.dir.0, name, AtFlags::empty()) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => Err(ErrorKind::AlreadyExists.into()),
            // Some file systems do not support hard links.
            Err(_) => self.persist(name),
        }
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if self.is_there
            && let Err(error) = self.dir.remove(OsStr::new(&self.name))
        {
            tracing::debug!("temporary file {} was not removed: {error}", self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn name(text: &str) -> &OsStr {
        OsStr::new(text)
    }

    fn text_of(dir: &Dir, file: &str) -> Option<String> {
        match dir.open(name(file)).unwrap()? {
            Entry::File(file, _) => Some(io::read_to_string(file).unwrap()),
            Entry::Other => Some("other".to_owned()),
        }
    }

    #[test]
    fn nothing_but_regular_files_and_directories_is_opened() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let dir = Dir::at(place.path()).unwrap();
        std::fs::write(at("file"), "text").unwrap();
        std::fs::create_dir(at("directory")).unwrap();
        symlink("/dev/zero", at("zero")).unwrap();
        symlink("directory", at("link")).unwrap();
        symlink("nowhere", at("dangling")).unwrap();
        fs::mknodat(&dir.0, "fifo", FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        assert_eq!(text_of(&dir, "file").as_deref(), Some("text"));
        for other in ["directory", "zero", "link", "dangling", "fifo", "socket"] {
            assert_eq!(text_of(&dir, other).as_deref(), Some("other"), "{other}");
        }
        assert_eq!(text_of(&dir, "missing"), None);
        assert!(
            dir.child(name("directory")).unwrap().is_some() && dir.child(name("missing")).unwrap().is_none()
        );
        for other in ["file", "zero", "link", "dangling", "fifo"] {
            assert_eq!(dir.child(name(other)).unwrap_err().kind(), ErrorKind::NotADirectory, "{other}");
            assert!(dir.child_made(name(other)).is_err(), "{other}");
        }
        for gone in ["file", "zero", "link", "fifo", "directory"] {
            assert!(dir.remove(name(gone)).unwrap() && !dir.remove(name(gone)).unwrap(), "{gone}");
        }
        assert!(std::fs::metadata("/dev/zero").is_ok());
    }

    #[test]
    fn a_file_gets_its_name_only_when_complete() {
        let place = tempfile::tempdir().unwrap();
        let dir = Dir::at(place.path()).unwrap();
        let written = |text: &str| {
            let mut file = dir.unfinished().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            file
        };
        drop(written("abandoned"));
        assert_eq!(dir.names().unwrap().len(), 0);
        written("one").persist_new(name("file")).unwrap();
        assert_eq!(written("two").persist_new(name("file")).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(text_of(&dir, "file").as_deref(), Some("one"));
        written("three").persist(name("file")).unwrap();
        assert_eq!(text_of(&dir, "file").as_deref(), Some("three"));
        assert_eq!(dir.names().unwrap().len(), 1, "nothing is left over");
    }

    #[test]
    fn nothing_is_created_in_a_directory_that_was_removed() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("gone");
        std::fs::create_dir(&path).unwrap();
        let dir = Dir::at(&path).unwrap();
        std::fs::remove_dir(&path).unwrap();
        assert_eq!(dir.child_made(name("child")).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(dir.unfinished().err().map(|error| error.kind()), Some(ErrorKind::NotFound));
    }
}
