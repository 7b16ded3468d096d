//! Unix sockets in the file system: they take the place of stale ones, and are removed at the end.

use std::fs::{self, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};

/// The length of the system's queue of connections that have not been accepted.
pub(super) const BACKLOG: i32 = 1024;

/// The file of a socket; removed on drop, unless another one has taken its place.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    identity: SocketIdentity,
}

/// Device, inode, and time of the last change. The inode is not enough: a file system may give the
/// inode of a removed file to the next one.
type SocketIdentity = (u64, u64, i64, i64);

fn identity(file: &Metadata) -> SocketIdentity {
    (file.dev(), file.ino(), file.ctime(), file.ctime_nsec())
}

/// Listens at a path. The file of a socket that nothing listens on is replaced. The permissions are
/// set before anybody can connect, so a user whom `mode` excludes never can.
pub(super) fn listener(path: &Path, mode: u32) -> io::Result<(UnixListener, SocketFile)> {
    let address = SocketAddrUnix::new(path)?;
    remove_stale(path, &address)?;
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    bind(&socket, &address)?;
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    let metadata = fs::symlink_metadata(path)?;
    let file = SocketFile {
        path: path.to_owned(),
        identity: identity(&metadata),
    };
    listen(&socket, BACKLOG)?;
    Ok((UnixListener::from(socket), file))
}

/// Removes the file of a socket that nothing listens on; fails if another file is there.
fn remove_stale(path: &Path, address: &SocketAddrUnix) -> io::Result<()> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        metadata => metadata?,
    };
    if !metadata.file_type().is_socket() {
        let problem = "there is a file that is not a socket; move it, or choose another path";
        return Err(io::Error::new(ErrorKind::AddrInUse, problem));
    }
    // Not blocking: a live socket with a full queue must not delay this process.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let probe = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match connect(&probe, address) {
        Err(Errno::CONNREFUSED) => fs::remove_file(path),
        // AGAIN: its queue is full. PROTOTYPE: it is a socket of another type.
        Ok(()) | Err(Errno::AGAIN | Errno::PROTOTYPE) => {
            let problem =
                "another process accepts connections there; stop it, or choose another path";
            Err(io::Error::new(ErrorKind::AddrInUse, problem))
        }
        Err(error) => Err(error.into()),
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Ok(file) = fs::symlink_metadata(&self.path)
            && identity(&file) == self.identity
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(
                "the socket {} could not be removed: {error}",
                self.path.display()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixDatagram, UnixStream};

    use super::*;

    #[test]
    fn a_socket_takes_the_place_of_a_stale_one_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("http.sock");
        let in_use = || listener(&path, 0o600).unwrap_err().kind() == ErrorKind::AddrInUse;
        fs::write(&path, "").unwrap();
        assert!(in_use(), "a file");
        fs::remove_file(&path).unwrap();
        let datagram = UnixDatagram::bind(&path).unwrap();
        assert!(in_use(), "a socket of another type");
        drop(datagram);
        let (live, file) = listener(&path, 0o640).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        assert!(
            UnixStream::connect(&path).is_ok() && in_use(),
            "a live socket"
        );
        drop(live);
        // Longer than the steps of the file system's clock.
        std::thread::sleep(std::time::Duration::from_millis(50));
        let (_second, second) = listener(&path, 0o600).unwrap();
        drop(file);
        assert!(path.exists(), "a successor's file is not removed");
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn a_path_that_does_not_fit_into_an_address_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        assert!(listener(&directory.path().join("a".repeat(120)), 0o600).is_err());
        assert!(listener(&directory.path().join("missing/http.sock"), 0o600).is_err());
    }
}
