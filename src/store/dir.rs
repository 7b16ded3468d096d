//! An open directory, and file operations relative to it (`openat` etc.).
//!
//! Other users may have write access to a cache directory. So below its top no symbolic link is
//! followed, whether reading, writing or removing, and only regular files are read: a FIFO would
//! block, and a device may be endless.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// Files whose names begin so are neither tiles nor the marker: temporary files and leases.
pub(crate) const HIDDEN: &str = ".voltile-";

const DIRECTORY: OFlags = OFlags::DIRECTORY
    .union(OFlags::RDONLY)
    .union(OFlags::CLOEXEC);
const WITHIN: OFlags = OFlags::NOFOLLOW
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);
/// The umask decides who may read files, so that servers of several users can share the cache.
const MODE: Mode = Mode::from_raw_mode(0o666);

#[derive(Debug)]
pub(crate) struct Dir(OwnedFd);

/// Device and inode, which identify a directory among all that exist at the same time.
pub(crate) type Identity = (u64, u64);

/// A directory entry, opened if it is a file.
#[derive(Debug)]
pub(crate) enum Entry {
    /// A regular file, opened for reading, and its length.
    File(File, u64),
    /// Anything else: a symbolic link, a directory, a FIFO, a device.
    Other,
}

impl Dir {
    /// Opens the directory at a path. Symbolic links are followed: the operator chose this path.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(fs::open(path, DIRECTORY, Mode::empty())?))
    }

    pub fn identity(&self) -> io::Result<Identity> {
        let about = fs::fstat(&self.0)?;
        #[allow(
            clippy::useless_conversion,
            clippy::unnecessary_cast,
            reason = "narrower on other systems"
        )]
        Ok((about.st_dev as u64, about.st_ino.into()))
    }

    /// Opens a subdirectory; `None` if there is no entry of that name.
    pub fn child(&self, name: &OsStr) -> io::Result<Option<Self>> {
        match fs::openat(&self.0, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(child) => Ok(Some(Self(child))),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::NOTDIR | Errno::LOOP) => {
                let problem =
                    "it is not a directory, or a symbolic link, which is not followed here";
                Err(io::Error::new(ErrorKind::NotADirectory, problem))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a subdirectory and creates it if it is missing. [`ErrorKind::NotFound`] if it or this
    /// directory is removed concurrently.
    pub fn child_or_new(&self, name: &OsStr) -> io::Result<Self> {
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
    pub fn stat(&self, name: &OsStr) -> io::Result<Option<Stat>> {
        match fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens an entry for reading if it is a regular file; `None` if there is none.
    pub fn entry(&self, name: &OsStr) -> io::Result<Option<Entry>> {
        let file = match fs::openat(&self.0, name, WITHIN | OFlags::RDONLY, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            // A symbolic link; a socket.
            Err(Errno::LOOP | Errno::NXIO) => return Ok(Some(Entry::Other)),
            Err(error) => return Err(error.into()),
        };
        let stat = fs::fstat(&file)?;
        Ok(Some(if is(&stat, FileType::RegularFile) {
            Entry::File(file.into(), stat.st_size as u64)
        } else {
            Entry::Other
        }))
    }

    /// Opens a file to be locked, and creates it if it is missing. On NFS, only files open for
    /// writing can be locked; the file of another user may be readable only.
    pub fn lock_file(&self, name: &OsStr) -> io::Result<File> {
        let file = match fs::openat(&self.0, name, WITHIN | OFlags::RDWR | OFlags::CREATE, MODE) {
            Err(Errno::ACCESS) => fs::openat(&self.0, name, WITHIN | OFlags::RDONLY, MODE),
            opened => opened,
        };
        Ok(file?.into())
    }

    /// Removes a file, a symbolic link, or an empty directory; returns whether there was one.
    pub fn remove(&self, name: &OsStr) -> io::Result<bool> {
        match fs::unlinkat(&self.0, name, AtFlags::empty()) {
            // On systems other than Linux, unlinking a directory is EPERM.
            Err(error @ (Errno::ISDIR | Errno::PERM)) => {
                self.remove_dir(name).map_err(|_| error.into())
            }
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

    /// Writes a file of these parts under a temporary name, and renames it: it replaces an entry of
    /// that name as a whole.
    pub fn write(&self, name: &OsStr, parts: &[&[u8]]) -> io::Result<()> {
        let temporary = format!("{HIDDEN}{:016x}", fastrand::u64(..));
        let flags = WITHIN | OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let mut file = File::from(fs::openat(&self.0, &temporary, flags, MODE)?);
        let written = parts.iter().try_for_each(|part| file.write_all(part));
        written
            .and_then(|()| Ok(fs::renameat(&self.0, &temporary, &self.0, name)?))
            .inspect_err(|_| {
                if let Err(error) = self.remove(OsStr::new(&temporary)) {
                    tracing::debug!("the temporary file {temporary} was not removed: {error}");
                }
            })
    }
}

fn was_there(removed: rustix::io::Result<()>) -> io::Result<bool> {
    match removed {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether the metadata are those of an entry of this kind.
pub(crate) fn is(stat: &Stat, kind: FileType) -> bool {
    FileType::from_raw_mode(stat.st_mode) == kind
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn name(text: &str) -> &OsStr {
        OsStr::new(text)
    }

    fn text_of(dir: &Dir, file: &str) -> Option<String> {
        match dir.entry(name(file)).unwrap()? {
            Entry::File(file, _) => Some(io::read_to_string(file).unwrap()),
            Entry::Other => Some("other".to_owned()),
        }
    }

    #[test]
    fn nothing_but_regular_files_and_directories_is_opened() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let dir = Dir::open(place.path()).unwrap();
        std::fs::write(at("file"), "text").unwrap();
        std::fs::create_dir(at("directory")).unwrap();
        symlink("/dev/zero", at("zero")).unwrap();
        symlink("directory", at("link")).unwrap();
        symlink("nowhere", at("dangling")).unwrap();
        fs::mknodat(
            &dir.0,
            "fifo",
            FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        assert_eq!(text_of(&dir, "file").as_deref(), Some("text"));
        for other in ["directory", "zero", "link", "dangling", "fifo", "socket"] {
            assert_eq!(text_of(&dir, other).as_deref(), Some("other"), "{other}");
        }
        assert_eq!(text_of(&dir, "missing"), None);
        assert!(
            dir.child(name("directory")).unwrap().is_some()
                && dir.child(name("missing")).unwrap().is_none()
        );
        for other in ["file", "zero", "link", "dangling", "fifo"] {
            assert_eq!(
                dir.child(name(other)).unwrap_err().kind(),
                ErrorKind::NotADirectory,
                "{other}"
            );
            assert!(dir.child_or_new(name(other)).is_err(), "{other}");
        }
        for gone in ["file", "zero", "link", "fifo", "directory"] {
            assert!(
                dir.remove(name(gone)).unwrap() && !dir.remove(name(gone)).unwrap(),
                "{gone}"
            );
        }
        assert!(std::fs::metadata("/dev/zero").is_ok());
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_a_failed_one_leaves_nothing_behind() {
        let place = tempfile::tempdir().unwrap();
        let dir = Dir::open(place.path()).unwrap();
        for text in ["one", "three"] {
            dir.write(name("file"), &[text.as_bytes(), b"!"]).unwrap();
            assert_eq!(text_of(&dir, "file"), Some(format!("{text}!")));
        }
        std::fs::create_dir_all(place.path().join("full/folder")).unwrap();
        assert!(
            dir.write(name("full"), &[b"no file can replace a folder"])
                .is_err()
        );
        assert_eq!(dir.names().unwrap().len(), 2, "nothing is left over");
    }

    #[test]
    fn nothing_is_created_in_a_directory_that_was_removed() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("gone");
        std::fs::create_dir(&path).unwrap();
        let dir = Dir::open(&path).unwrap();
        std::fs::remove_dir(&path).unwrap();
        assert_eq!(
            dir.child_or_new(name("child")).unwrap_err().kind(),
            ErrorKind::NotFound
        );
        assert_eq!(
            dir.write(name("file"), &[]).unwrap_err().kind(),
            ErrorKind::NotFound
        );
    }
}
