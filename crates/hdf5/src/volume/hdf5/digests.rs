//! Digests of whole files, for `files.identity = "content"`: computed once, and kept until the file
//! changes.
//!
//! The digest of `brain.h5` is kept in `.brain.h5.blake3` beside it, or else in the cache
//! directory, with the length and the modification time (seconds and nanoseconds) that the file
//! had. This record is one line:
//!
//! ```text
//! voltile digest 1 af1349b9… 1048576 1700000000 123456789
//! ```
//!
//! The record is locked while the file is read, so that processes that start together do not all
//! read it. Within a process, files are read one after the other, but none waits for a file that
//! does not answer.
//!
//! Whoever writes the record of a file decides which tiles are shown of it. So a record is believed
//! only if nobody but this user can have written it. Only users who may read the file may read its
//! record.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;
use voltile_base::tile::Fingerprint;

use super::bytes::FileBytes;
use super::identity::FileIdentity;

/// The folder of digests within a cache directory.
const FOLDER: &str = "digests";
/// The end of the names of records.
const ENDING: &str = ".blake3";
/// The first words of a record.
const HEAD: &str = "voltile digest 1";
/// Longer records are not read.
const LONGEST: u64 = 512;
/// The number of bytes that are read at once.
const PIECE: usize = 1 << 20;
/// How often progress is logged.
const PROGRESS: Duration = Duration::from_secs(10);
/// A thread does not wait for its turn if the read of another file makes no progress for this time.
const PATIENCE: Duration = Duration::from_secs(2);

/// Computes and keeps digests.
#[derive(Debug)]
pub struct Digests {
    /// A cache directory, for files whose folders cannot be written.
    cache: Option<PathBuf>,
    /// By the path of a file: its state when it was identified, and what identifies its contents.
    known: Mutex<HashMap<PathBuf, (String, Fingerprint)>>,
    /// Locked while a file is read.
    turn: Mutex<()>,
    /// The number of pieces that have been read so far, of all files together.
    pieces: AtomicU64,
}

impl Digests {
    /// `cache` is a cache directory; it has the digests of files whose folders cannot be written.
    pub fn new(cache: Option<PathBuf>) -> Self {
        Self {
            cache,
            known: Mutex::default(),
            turn: Mutex::default(),
            pieces: AtomicU64::default(),
        }
    }

    /// Identifies the contents of an open file. Reads all of it, unless its digest is known.
    pub(super) fn identify(&self, bytes: &FileBytes) -> io::Result<Fingerprint> {
        let path = &*bytes.path;
        let state = recorded_state(&bytes.identity);
        if let Some(known) = self.known_id(path, &state) {
            return Ok(known);
        }
        let _turn = self.wait_for_turn();
        // Another thread may have identified it meanwhile.
        if let Some(known) = self.known_id(path, &state) {
            return Ok(known);
        }
        let digest = self.find_or_compute(bytes, &state)?;
        let id = Fingerprint::digest(&(digest.as_bytes(), bytes.identity.length()));
        self.known.lock().insert(path.to_owned(), (state, id));
        Ok(id)
    }

    fn known_id(&self, path: &Path, state: &str) -> Option<Fingerprint> {
        let known = self.known.lock();
        let (known_state, id) = known.get(path)?;
        (known_state == state).then_some(*id)
    }

    /// Waits until no other file is being read. `None`, without the turn, if the read of another
    /// file makes no progress.
    fn wait_for_turn(&self) -> Option<MutexGuard<'_, ()>> {
        loop {
            let before = self.pieces.load(Ordering::Relaxed);
            if let Some(turn) = self.turn.try_lock_for(PATIENCE) {
                return Some(turn);
            }
            if self.pieces.load(Ordering::Relaxed) == before {
                return None;
            }
        }
    }

    /// The digest from a record, or computed from the file and recorded.
    fn find_or_compute(&self, bytes: &FileBytes, state: &str) -> io::Result<blake3::Hash> {
        let places = self.record_paths(&bytes.path);
        if let Some(digest) = places.iter().find_map(|place| recorded_at(place, state)) {
            return Ok(digest);
        }
        let opened = places
            .iter()
            .find_map(|place| Some((place, open_record(place)?)));
        let Some((place, mut record)) = opened else {
            tracing::warn!(
                "the digest of {} can be kept neither beside it nor in cache.directory: it is computed at every start",
                bytes.path.display()
            );
            return self.compute(bytes);
        };
        // Another process may be reading the file: its result is worth waiting for.
        flock(&record, FlockOperation::LockExclusive)?;
        if let Some(digest) = read_record(&mut record, state) {
            return Ok(digest);
        }
        let digest = self.compute(bytes)?;
        if let Err(error) = write_record(&mut record, digest, state, &bytes.path) {
            tracing::warn!("{} was not written: {error}", place.display());
        }
        Ok(digest)
    }

    /// Reads the whole file; fails if it changes meanwhile.
    fn compute(&self, bytes: &FileBytes) -> io::Result<blake3::Hash> {
        let path = bytes.path.display();
        let length = bytes.identity.length();
        let began = Instant::now();
        let mut logged = Instant::now();
        let mut hasher = blake3::Hasher::new();
        let mut piece = vec![0; PIECE];
        let mut at = 0;
        loop {
            let read = bytes.read_at(&mut piece, at)?;
            if read == 0 {
                break;
            }
            hasher.update(&piece[..read]);
            self.pieces.fetch_add(1, Ordering::Relaxed);
            at += read as u64;
            if logged.elapsed() >= PROGRESS {
                tracing::info!("digest of {path}: {} of {} MiB", at >> 20, length >> 20);
                logged = Instant::now();
            }
        }
        if began.elapsed() >= PROGRESS {
            tracing::info!("digest of {path}: done in {} s", began.elapsed().as_secs());
        }
        Ok(hasher.finalize())
    }

    /// Where the record of a file may be: beside it, or in the cache directory.
    fn record_paths(&self, path: &Path) -> Vec<PathBuf> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let mut places = vec![path.with_file_name(format!(".{name}{ENDING}"))];
        if let Some(cache) = &self.cache
            && is_cache(cache)
        {
            let name = format!("{}{ENDING}", Fingerprint::digest(&path));
            places.push(cache.join(FOLDER).join(name));
        }
        places
    }
}

/// The state of a file as a record has it: the length, and the modification time in seconds and
/// nanoseconds.
fn recorded_state(identity: &FileIdentity) -> String {
    let (seconds, nanoseconds) = identity.modified();
    format!("{} {seconds} {nanoseconds}", identity.length())
}

/// Whether a folder is a cache directory, or may become one: nothing is written to any other.
fn is_cache(folder: &Path) -> bool {
    match fs::read_dir(folder) {
        Ok(mut entries) => {
            folder.join("CACHEDIR.TAG").exists()
                || folder.join(FOLDER).exists()
                || entries.next().is_none()
        }
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// The digest in the record at a path, if it is of the file in this state.
fn recorded_at(place: &Path, state: &str) -> Option<blake3::Hash> {
    let mut record = options().read(true).open(place).ok().filter(is_own)?;
    // Fails while another process writes the record, or reads the file for it.
    flock(&record, FlockOperation::NonBlockingLockShared).ok()?;
    read_record(&mut record, state)
}

/// Opens a record for writing; creates the record and its folder if they do not exist. `None` if
/// that is not allowed, or if an existing record is not believed.
fn open_record(place: &Path) -> Option<File> {
    let folder = place.parent()?;
    if folder.ends_with(FOLDER) {
        fs::create_dir_all(folder).ok()?;
    }
    options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(place)
        .ok()
        .filter(is_own)
}

/// Whether a record belongs to this user, and nobody else can write it.
fn is_own(record: &File) -> bool {
    record.metadata().is_ok_and(|about| {
        about.is_file() && about.uid() == geteuid().as_raw() && about.mode() & 0o022 == 0
    })
}

/// Options to open a record, which another user may have replaced: by a symbolic link, which is not
/// followed, or by a pipe, which is not waited for.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .mode(0o600);
    options
}

/// The digest in a record, if it is of the file in this state.
fn read_record(record: &mut File, state: &str) -> Option<blake3::Hash> {
    let mut text = String::new();
    record.rewind().ok()?;
    Read::by_ref(record)
        .take(LONGEST)
        .read_to_string(&mut text)
        .ok()?;
    let line = text.strip_suffix('\n')?.strip_prefix(HEAD)?.trim_start();
    let (digest, recorded_state) = line.split_once(' ')?;
    if recorded_state != state {
        return None;
    }
    blake3::Hash::from_hex(digest).ok()
}

/// Writes a record, which can be read by the users who may read the file.
fn write_record(
    record: &mut File,
    digest: blake3::Hash,
    state: &str,
    path: &Path,
) -> io::Result<()> {
    let mode = path.metadata()?.mode();
    record.set_permissions(Permissions::from_mode(mode & 0o444 | 0o600))?;
    record.set_len(0)?;
    record.rewind()?;
    record.write_all(format!("{HEAD} {digest} {state}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    fn id(digests: &Digests, path: &Path) -> Fingerprint {
        digests
            .identify(&FileBytes::open(&path.canonicalize().unwrap(), None).unwrap())
            .unwrap()
    }

    fn written(path: &Path, text: &str, seconds: u64) {
        fs::write(path, text).unwrap();
        let file = OpenOptions::new().write(true).open(path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::new(seconds, 7))
            .unwrap();
    }

    #[test]
    fn a_file_does_not_wait_for_another_one_that_does_not_answer() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.h5");
        written(&path, "one", 1000);
        let digests = Digests::new(None);
        let stuck = digests.turn.lock();
        let expected = id(&Digests::new(None), &path);
        assert_eq!(id(&digests, &path), expected);
        drop(stuck);
        assert_eq!(id(&digests, &path), expected);
    }

    #[test]
    fn copies_have_one_digest_and_other_contents_another() {
        let place = tempfile::tempdir().unwrap();
        let [a, b] = ["a.h5", "b.h5"].map(|name| place.path().join(name));
        written(&a, "the same", 1000);
        written(&b, "the same", 2000);
        let digests = Digests::new(None);
        let before = id(&digests, &a);
        assert_eq!(before, id(&digests, &b));
        written(&b, "another!", 3000);
        assert_ne!(before, id(&digests, &b));
        let expected = blake3::hash(b"the same");
        let record = fs::read_to_string(place.path().join(".a.h5.blake3")).unwrap();
        assert_eq!(record, format!("voltile digest 1 {expected} 8 1000 7\n"));
    }

    #[test]
    fn a_digest_is_kept_until_length_or_modification_time_change() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.h5");
        written(&path, "one", 1000);
        let first = id(&Digests::new(None), &path);
        written(&path, "two", 1000);
        assert_eq!(
            id(&Digests::new(None), &path),
            first,
            "it is not read again"
        );
        written(&path, "two", 1001);
        let second = id(&Digests::new(None), &path);
        assert_ne!(second, first);
        for damaged in [
            "",
            "voltile digest 1",
            "voltile digest 1 00 3 1001 7\n",
            "dear diary\n",
        ] {
            fs::write(place.path().join(".a.h5.blake3"), damaged).unwrap();
            assert_eq!(id(&Digests::new(None), &path), second);
        }
    }

    #[test]
    fn a_record_is_believed_if_nobody_else_can_write_it_and_has_the_mode_of_its_file() {
        let place = tempfile::tempdir().unwrap();
        let (path, record) = (place.path().join("a.h5"), place.path().join(".a.h5.blake3"));
        written(&path, "one", 1000);
        fs::set_permissions(&path, Permissions::from_mode(0o460)).unwrap();
        let own = id(&Digests::new(None), &path);
        assert_eq!(fs::metadata(&record).unwrap().mode() & 0o777, 0o640);
        let forged = fs::read_to_string(&record).unwrap().replace(
            &blake3::hash(b"one").to_string(),
            &blake3::hash(b"two").to_string(),
        );
        fs::write(&record, forged).unwrap();
        assert_ne!(id(&Digests::new(None), &path), own, "it is this user's");
        for mode in [0o660, 0o602, 0o666] {
            fs::set_permissions(&record, Permissions::from_mode(mode)).unwrap();
            assert_eq!(id(&Digests::new(None), &path), own, "{mode:o}");
        }
        fs::set_permissions(&record, Permissions::from_mode(0o600)).unwrap();
        // Fails unless this user may give files away.
        if std::os::unix::fs::chown(&record, Some(65_534), None).is_ok() {
            assert_eq!(id(&Digests::new(None), &path), own);
        }
    }

    #[test]
    fn where_the_folder_cannot_be_written_the_cache_directory_keeps_it_and_no_other_folder() {
        let place = tempfile::tempdir().unwrap();
        let (data, cache, other) = (
            place.path().join("data"),
            place.path().join("cache"),
            place.path().join("other"),
        );
        fs::create_dir_all(&data).unwrap();
        fs::create_dir_all(&other).unwrap();
        fs::write(other.join("diary"), "").unwrap();
        let path = data.join("a.h5");
        written(&path, "one", 1000);
        // A folder in the place of the record: it cannot be written, whoever this user is.
        fs::create_dir(data.join(".a.h5.blake3")).unwrap();
        fs::set_permissions(&data, fs::Permissions::from_mode(0o755)).unwrap();
        let first = id(&Digests::new(Some(other.clone())), &path);
        assert_eq!(fs::read_dir(&other).unwrap().count(), 1);
        assert_eq!(id(&Digests::new(Some(cache.clone())), &path), first);
        written(&path, "two", 1000);
        assert_eq!(
            id(&Digests::new(Some(cache)), &path),
            first,
            "it is not read again"
        );
    }
}
