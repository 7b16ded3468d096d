//! A directory that is held open, and what is done relative to it.
//!
//! Others may be able to write to a cache directory. So below its top no symbolic link is followed, whether something is
//! read, written or removed, and nothing but regular files is opened: a FIFO would block, and a device never ends.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// What the names of files begin with that are being written.
pub(super) const UNFINISHED: &str = ".voltile-";
/// How often a new name is thought up for such a file.
const MOST_NAMES: usize = 8;

/// An open directory.
#[derive(Debug)]
pub(super) struct Dir(OwnedFd);

/// Tells a directory from all others that exist at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

/// What stands under a name.
#[derive(Debug)]
pub(super) enum Entry {
    /// A regular file, opened for reading, and its length.
    File(File, u64),
    /// Anything else: a link, a directory, a FIFO, a device.
    Other,
}

/// What is known of a name without opening it.
#[derive(Debug, Clone, Copy)]
pub(super) struct About {
    pub kind: FileType,
    pub length: u64,
    pub modified: SystemTime,
}

impl Dir {
    /// The directory at a path that the operator chose: links to it are followed.
    pub fn at(path: &Path) -> io::Result<Self> {
        Ok(Self(fs::open(path, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?))
    }

    pub fn identity(&self) -> io::Result<Identity> {
        let about = fs::fstat(&self.0)?;
        #[allow(clippy::useless_conversion, clippy::unnecessary_cast, reason = "narrower on other systems")]
        Ok(Identity { device: about.st_dev as u64, inode: about.st_ino.into() })
    }

    /// A directory in this one; `None` where there is nothing of that name.
    pub fn child(&self, name: &OsStr) -> io::Result<Option<Self>> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        match fs::openat(&self.0, name, flags, Mode::empty()) {
            Ok(child) => Ok(Some(Self(child))),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::NOTDIR | Errno::LOOP) => {
                let problem = "it is no directory, or a symbolic link, which is not followed here";
                Err(io::Error::new(ErrorKind::NotADirectory, problem))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The same, made where it is missing. Fails with [`ErrorKind::NotFound`] where it is removed meanwhile, or this one.
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

    /// What is known of a name; `None` where there is nothing.
    pub fn about(&self, name: &OsStr) -> io::Result<Option<About>> {
        match fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(About::of(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens what stands under a name, if it is a regular file; `None` where there is nothing.
    pub fn open(&self, name: &OsStr) -> io::Result<Option<Entry>> {
        // Looked at first, because to open a device can do something by itself.
        match self.about(name)? {
            None => return Ok(None),
            Some(about) if about.kind != FileType::RegularFile => return Ok(Some(Entry::Other)),
            Some(_) => {}
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = match fs::openat(&self.0, name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            // It was put there since it was looked at.
            Err(Errno::LOOP | Errno::NXIO) => return Ok(Some(Entry::Other)),
            Err(error) => return Err(error.into()),
        };
        let about = About::of(&fs::fstat(&file)?);
        let is_file = about.kind == FileType::RegularFile;
        Ok(Some(if is_file { Entry::File(file.into(), about.length) } else { Entry::Other }))
    }

    /// Removes a file, a link, or an empty directory; whether there was one.
    pub fn remove(&self, name: &OsStr) -> io::Result<bool> {
        match fs::unlinkat(&self.0, name, AtFlags::empty()) {
            // The second is what systems other than Linux say of a directory.
            Err(error @ (Errno::ISDIR | Errno::PERM)) => self.remove_dir(name).map_err(|_| error.into()),
            removed => was_there(removed),
        }
    }

    /// Removes an empty directory; whether there was one.
    pub fn remove_dir(&self, name: &OsStr) -> io::Result<bool> {
        was_there(fs::unlinkat(&self.0, name, AtFlags::REMOVEDIR))
    }

    /// All names, in the order in which file systems keep what is asked of them next.
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

    /// A new file, to be put in the place of one that is finished. It is gone when it is dropped.
    pub fn unfinished(&self) -> io::Result<Unfinished<'_>> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // As any other file: readable for whom the umask lets, so that servers of several people can share.
        let mode = Mode::from_raw_mode(0o666);
        for _ in 0..MOST_NAMES {
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

/// A file that is being written.
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

    /// Puts it under a name, in place of whatever stood there.
    pub fn persist(mut self, name: &OsStr) -> io::Result<()> {
        fs::renameat(&self.dir.0, &self.name, &self.dir.0, name)?;
        self.is_there = false;
        Ok(())
    }

    /// Puts it under a name unless something stands there, which is [`ErrorKind::AlreadyExists`].
    pub fn persist_new(self, name: &OsStr) -> io::Result<()> {
        match fs::linkat(&self.dir.0, &self.name, &self.dir.0, name, AtFlags::empty()) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => Err(ErrorKind::AlreadyExists.into()),
            // Some file systems have no hard links.
            Err(_) => self.persist(name),
        }
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if self.is_there
            && let Err(error) = self.dir.remove(OsStr::new(&self.name))
        {
            tracing::debug!("{} is left over: {error}", self.name);
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
    fn a_file_appears_under_its_name_once_it_is_finished() {
        let place = tempfile::tempdir().unwrap();
        let dir = Dir::at(place.path()).unwrap();
        let written = |text: &str| {
            let mut file = dir.unfinished().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            file
        };
        drop(written("given up"));
        assert_eq!(dir.names().unwrap().len(), 0);
        written("one").persist_new(name("file")).unwrap();
        assert_eq!(written("two").persist_new(name("file")).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(text_of(&dir, "file").as_deref(), Some("one"));
        written("three").persist(name("file")).unwrap();
        assert_eq!(text_of(&dir, "file").as_deref(), Some("three"));
        assert_eq!(dir.names().unwrap().len(), 1, "nothing is left over");
    }

    #[test]
    fn nothing_is_made_in_a_directory_that_was_removed() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("gone");
        std::fs::create_dir(&path).unwrap();
        let dir = Dir::at(&path).unwrap();
        std::fs::remove_dir(&path).unwrap();
        assert_eq!(dir.child_made(name("child")).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(dir.unfinished().err().map(|error| error.kind()), Some(ErrorKind::NotFound));
    }
}
