//! The HDF5 files in folders that are served, and in the folders below them.
//!
//! A folder is read again only when its modification time has changed, which adding, removing and
//! renaming files does. A file that may become an HDF5 file without a change of the folder, such as
//! an empty file or a file just written, is looked at in each search.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, Metadata, OpenOptions};
use std::io;
use std::mem;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use voltile_base::text::joined;
use voltile_hdf5::store::Location;
use voltile_hdf5::volume::hdf5::{is_hdf5, tree_at};

use crate::catalog::sidecar_path;

/// The maximum number of HDF5 files that are served.
const MAX_FILES: usize = 10_000;
/// The maximum number of entries of folders that one search looks at.
const MAX_ENTRIES: usize = 100_000;
/// How long after its last change a folder can change again and keep its modification time: file
/// systems may store times to two seconds (FAT).
const FOLDER_SETTLES: Duration = Duration::from_secs(3);
/// How long after its last change a file counts as still being written.
const FILE_SETTLES: Duration = Duration::from_secs(60);
/// The shortest pause between two searches, in multiples of the time that the last one took.
const PAUSE_FACTOR: u32 = 10;

/// Differs if a file or folder has changed: its device, inode and length, and the times of the last
/// change of its contents (`mtime`), and of its contents or attributes (`ctime`).
type FileStamp = (u64, u64, u64, [(i64, i64); 2]);

fn stamp(about: &Metadata) -> FileStamp {
    let times = [
        (about.mtime(), about.mtime_nsec()),
        (about.ctime(), about.ctime_nsec()),
    ];
    (about.dev(), about.ino(), about.len(), times)
}

fn stamp_at(path: &Path) -> Option<FileStamp> {
    path.metadata().ok().map(|about| stamp(&about))
}

/// The stamp of a file, and whether the file counts as still being written.
type FileState = (FileStamp, bool);

fn state_of(path: &Path) -> Option<FileState> {
    let about = path.metadata().ok()?;
    Some((stamp(&about), is_younger(&about, FILE_SETTLES)))
}

/// The folders to serve, and the files in them that could not be opened.
#[derive(Debug, Default)]
pub(super) struct Folders {
    folders: Vec<PathBuf>,
    /// The contents of the folders, and of all folders below, at the last search.
    listings: HashMap<PathBuf, FolderListing>,
    /// Files that could not be opened, with the reason. They are not tried again until their state
    /// differs: they have changed, or no longer count as being written.
    broken: BTreeMap<PathBuf, (FileState, String)>,
    /// The files that are not open yet and are being tried, with their state before the trial.
    tried: BTreeMap<PathBuf, FileState>,
    /// The problems of the last search.
    remarks: BTreeSet<String>,
    /// How long the last search took.
    took: Duration,
}

impl Folders {
    /// Takes the folders out of a list of files and folders.
    pub fn among(files: &mut Vec<Location>) -> Self {
        let folders = files
            .extract_if(.., |file| file.path().is_some_and(Path::is_dir))
            .map(|folder| folder.as_path().to_owned())
            .collect();
        Self {
            folders,
            ..Self::default()
        }
    }

    pub fn paths(&self) -> &[PathBuf] {
        &self.folders
    }

    pub fn is_empty(&self) -> bool {
        self.folders.is_empty()
    }

    /// The HDF5 files in the folders and up to `depth` folders below, except files known to be
    /// broken; the files of each folder are sorted by name. The search leaves out hidden files and
    /// folders, levels made by `voltile pyramid`, parts of other files, trees of other formats,
    /// links to folders, and folders on other file systems. It logs problems that the previous
    /// search did not have.
    pub fn files(&mut self, depth: usize) -> io::Result<Vec<PathBuf>> {
        let began = Instant::now();
        let mut search = FolderSearch {
            before: mem::take(&mut self.listings),
            ..FolderSearch::default()
        };
        search.run(&self.folders, depth)?;
        for remark in search.remarks.difference(&self.remarks) {
            tracing::warn!("{remark}");
        }
        let mut files = search.files;
        self.listings = search.listings;
        self.remarks = search.remarks;
        self.took = began.elapsed();
        let found: HashSet<&PathBuf> = files.iter().collect();
        self.broken
            .retain(|path, (state, _)| found.contains(path) && state_of(path) == Some(*state));
        files.retain(|path| !self.broken.contains_key(path));
        Ok(files)
    }

    /// The shortest time until the next search: searches must not keep a slow file system busy.
    pub fn pause(&self) -> Duration {
        PAUSE_FACTOR * self.took
    }

    /// Notes the files that are not open yet, and are about to be tried or being tried. A file that
    /// is being tried already keeps its noted state: it may have changed since that trial began.
    pub fn note_tried<'p>(&mut self, paths: impl Iterator<Item = &'p Path>) {
        let before = mem::take(&mut self.tried);
        for path in paths {
            if let Some(state) = before.get(path).copied().or_else(|| state_of(path)) {
                self.tried.insert(path.to_owned(), state);
            }
        }
    }

    /// Notes that a file could not be opened. It is tried again when its state differs from the
    /// state before the trial.
    pub fn note_broken(&mut self, path: &Path, problem: String) {
        let tried = self.tried.remove(path);
        if let Some(state) = tried.or_else(|| state_of(path)) {
            self.broken.insert(path.to_owned(), (state, problem));
        }
    }

    /// Lets every folder be read again, and broken files be tried again.
    pub fn forget(&mut self) {
        self.listings.clear();
        self.broken.clear();
    }

    /// Why files are left out.
    pub fn problems(&self) -> Vec<String> {
        self.broken
            .values()
            .map(|(_, problem)| problem)
            .chain(&self.remarks)
            .cloned()
            .collect()
    }
}

/// One search through all folders: the named folders first, then the folders in them, and so on.
#[derive(Debug, Default)]
struct FolderSearch {
    /// The listings of the previous search.
    before: HashMap<PathBuf, FolderListing>,
    listings: HashMap<PathBuf, FolderListing>,
    files: Vec<PathBuf>,
    /// The folders searched, by device and inode: a folder may be mounted or named twice.
    seen: HashSet<(u64, u64)>,
    /// The number of entries looked at; more than [`MAX_ENTRIES`] if the search ended early.
    entries: usize,
    remarks: BTreeSet<String>,
}

impl FolderSearch {
    fn run(&mut self, folders: &[PathBuf], depth: usize) -> io::Result<()> {
        let named = folders.iter().map(|folder| (None, folder.clone()));
        let mut at_depth: Vec<(Option<SearchRoot>, PathBuf)> = named.collect();
        for _ in 0..=depth {
            let mut below = Vec::new();
            for (root, folder) in at_depth {
                if self.entries > MAX_ENTRIES {
                    break;
                }
                let message = |error: &io::Error| format!("{}: {error}", folder.display());
                match self.visit(root.as_ref(), &folder) {
                    Ok(folders) => below.extend(folders),
                    Err(error) if root.is_none() => {
                        return Err(io::Error::new(error.kind(), message(&error)));
                    }
                    // The folder was removed since the folder above was read.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => {
                        self.remarks.insert(message(&error));
                    }
                }
            }
            at_depth = below;
        }
        self.conclude(folders, depth);
        Ok(())
    }

    /// Adds the files of a folder to the search; returns the folders in it, with their root. A
    /// folder without a root is one that the user named.
    fn visit(
        &mut self,
        root: Option<&SearchRoot>,
        folder: &Path,
    ) -> io::Result<Vec<(Option<SearchRoot>, PathBuf)>> {
        // Only a folder that the user named may be a symbolic link.
        let about = if root.is_none() {
            folder.metadata()?
        } else {
            folder.symlink_metadata()?
        };
        let is_searched = about.is_dir() && root.is_none_or(|root| root.device == about.dev());
        if !is_searched || !self.seen.insert((about.dev(), about.ino())) {
            return Ok(Vec::new());
        }
        let listing = match self.before.remove(folder) {
            Some(listing) if listing.is_current(&about) => listing,
            _ => FolderListing::read(folder, &about, root, MAX_ENTRIES - self.entries)?,
        };
        if let Some(format) = listing.tree
            && root.is_none()
        {
            self.remarks.insert(format!(
                "{} is {format}, which is not searched for HDF5 files",
                folder.display()
            ));
        }
        if let Some((path, error)) = &listing.unreadable {
            self.remarks.insert(format!(
                "{}: {error}. It is not known whether this is an HDF5 file; to have it served, let the server's user read it",
                path.display()
            ));
        }
        self.entries += listing.entries;
        self.files.extend(listing.files.iter().cloned());
        let root = match root {
            Some(root) => root.clone(),
            None => SearchRoot {
                device: about.dev(),
                resolved: folder.canonicalize()?.into(),
            },
        };
        let mut below = Vec::new();
        for inner in &listing.folders {
            below.push((Some(root.clone()), inner.clone()));
        }
        self.listings.insert(folder.to_owned(), listing);
        Ok(below)
    }

    /// Cuts the list of files to the limit; adds a remark if the search met a limit or found no
    /// file.
    fn conclude(&mut self, folders: &[PathBuf], depth: usize) {
        let all = joined(folders.iter().map(|folder| folder.display()));
        if self.files.is_empty() && !folders.is_empty() {
            self.remarks.insert(format!(
                "no HDF5 file was found in {all}, nor up to {depth} folders below (files.depth). HDF5 files are \
                 recognised by their first bytes, whatever they are called. Not looked at are hidden files and folders, \
                 Zarr and N5 trees, folders on other file systems, and symbolic links to folders"
            ));
        }
        if self.entries > MAX_ENTRIES || self.files.len() > MAX_FILES {
            self.remarks.insert(format!(
                "{all}: the search for HDF5 files ended after {MAX_FILES} files or {MAX_ENTRIES} entries of folders, and \
                 the rest is not served: name only folders that hold HDF5 files, or set a smaller files.depth"
            ));
        }
        self.files.truncate(MAX_FILES);
    }
}

/// The folder named by the user, from which a search started.
#[derive(Debug, Clone)]
struct SearchRoot {
    device: u64,
    /// Its path without symbolic links.
    resolved: Rc<Path>,
}

/// The contents of a folder when it was read.
#[derive(Debug, Default)]
struct FolderListing {
    stamp: FileStamp,
    /// Whether every later change of the folder changes its stamp.
    is_settled: bool,
    /// The format, if the folder is a tree of another format, such as Zarr.
    tree: Option<&'static str>,
    /// The number of entries that were looked at.
    entries: usize,
    /// The HDF5 files.
    files: Vec<PathBuf>,
    /// The first file that cannot be read, with the error.
    unreadable: Option<(PathBuf, String)>,
    /// The files that may become HDF5 files without a change of the folder, and the symbolic links,
    /// with the state of each when it was looked at.
    unsettled: Vec<(PathBuf, Option<FileStamp>)>,
    folders: Vec<PathBuf>,
}

impl FolderListing {
    /// Reads a folder. In a folder that was found below its root, symbolic links must lead to files
    /// below the root, and nothing is taken from a tree of another format.
    fn read(
        folder: &Path,
        about: &Metadata,
        root: Option<&SearchRoot>,
        entries_left: usize,
    ) -> io::Result<Self> {
        let mut listing = Self {
            stamp: stamp(about),
            is_settled: !is_younger(about, FOLDER_SETTLES),
            tree: tree_at(folder),
            ..Self::default()
        };
        if listing.tree.is_some() && root.is_some() {
            return Ok(listing);
        }
        let mut paths = Vec::new();
        for entry in fs::read_dir(folder)? {
            if listing.entries > entries_left {
                // A later search may get further, even if the folder does not change.
                listing.is_settled = false;
                break;
            }
            let entry = entry?;
            listing.entries += 1;
            let path = entry.path();
            let Ok(file_type) = entry.file_type() else {
                continue;
            };
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            if file_type.is_symlink() && !path.is_dir() {
                listing.unsettled.push((path.clone(), stamp_at(&path)));
            }
            if file_type.is_dir() {
                if listing.tree.is_none() {
                    listing.folders.push(path);
                }
            } else if file_type.is_file()
                || (file_type.is_symlink() && path.is_file() && is_inside(root, &path))
            {
                paths.push(path);
            }
        }
        paths.sort();
        listing.folders.sort();
        listing.add_files(&paths);
        Ok(listing)
    }

    /// Adds the HDF5 files among the files of the folder, which are sorted, and notes the files
    /// that may become HDF5 files or readable.
    fn add_files(&mut self, paths: &[PathBuf]) {
        for path in paths {
            if is_sidecar(path, paths) || is_part(path, paths) {
                continue;
            }
            let stamp = stamp_at(path);
            match content_of(path) {
                Ok(FileContent::Hdf5) => self.files.push(path.clone()),
                Ok(FileContent::Foreign) => {}
                Ok(FileContent::Unsettled) => self.unsettled.push((path.clone(), stamp)),
                // The file was removed since the folder was read.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    self.unsettled.push((path.clone(), stamp));
                    if self.unreadable.is_none() {
                        self.unreadable = Some((path.clone(), error.to_string()));
                    }
                }
            }
        }
    }

    /// Whether reading the folder again would find the same files.
    fn is_current(&self, about: &Metadata) -> bool {
        let mut unsettled = self.unsettled.iter();
        self.is_settled
            && self.stamp == stamp(about)
            && unsettled.all(|(path, stamp)| stamp_at(path) == *stamp)
    }
}

/// Whether a path leads below the root. Without a root, in a folder that the user named, links may
/// lead anywhere.
fn is_inside(root: Option<&SearchRoot>, path: &Path) -> bool {
    let Some(root) = root else { return true };
    path.canonicalize()
        .is_ok_and(|to| to.starts_with(&root.resolved))
}

/// Whether the file holds the levels of another file among `all`, which are sorted.
fn is_sidecar(path: &Path, all: &[PathBuf]) -> bool {
    let volume = path.with_extension("");
    sidecar_path(&volume) == path && all.binary_search(&volume).is_ok()
}

/// Whether the file holds data of another file among `all`, which are sorted: frames of a
/// detector's master file, or a channel and time point of BigDataProcessor.
fn is_part(path: &Path, all: &[PathBuf]) -> bool {
    let Some(name) = path.file_stem().and_then(OsStr::to_str) else {
        return false;
    };
    let Some(whole) = detector_master(name).or_else(|| bigdata_run(name)) else {
        return false;
    };
    // If `run_master.h5` exists, no file comes before it in the order from `run_master.` on.
    let before = path.with_file_name(format!("{whole}."));
    let next = all.get(all.partition_point(|other| *other < before));
    next.is_some_and(|other| other.file_stem() == Some(OsStr::new(&whole)))
}

/// The stem of the master file of a detector's frames: `run_master` for `run_data_000001`.
fn detector_master(name: &str) -> Option<String> {
    let (run, number) = name.rsplit_once("_data_")?;
    is_number(number).then(|| format!("{run}_master"))
}

/// The stem of the first file of BigDataProcessor: `run` for `run--C00--T00001`.
fn bigdata_run(name: &str) -> Option<String> {
    let (run, place) = name.split_once("--C")?;
    let (channel, time) = place.split_once("--T")?;
    (is_number(channel) && is_number(time)).then(|| run.to_owned())
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

enum FileContent {
    Hdf5,
    Foreign,
    /// The file is no HDF5 file yet, and may become one without a change of its folder.
    Unsettled,
}

/// The content of a file by its first bytes and its age.
fn content_of(path: &Path) -> io::Result<FileContent> {
    // Opening a FIFO that has taken the place of the file would block.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    let about = file.metadata()?;
    if !about.is_file() {
        return Ok(FileContent::Unsettled);
    }
    if is_hdf5(&file)? {
        return Ok(FileContent::Hdf5);
    }
    // Programs that copy or write HDF5 files may fill in the beginning last.
    let mut first = [0; 8];
    let length = file.read_at(&mut first, 0)?;
    let is_blank = first[..length].iter().all(|byte| *byte == 0);
    if is_blank || is_younger(&about, FILE_SETTLES) {
        return Ok(FileContent::Unsettled);
    }
    Ok(FileContent::Foreign)
}

/// Whether the last change is less than `limit` ago, lies in the future, or is unknown.
fn is_younger(about: &Metadata, limit: Duration) -> bool {
    let age = about
        .modified()
        .ok()
        .and_then(|modified| SystemTime::now().duration_since(modified).ok());
    age.is_none_or(|age| age < limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGNATURE: [u8; 8] = *b"\x89HDF\r\n\x1a\n";

    #[test]
    fn hdf5_files_are_found_by_their_signature() {
        let place = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| fs::write(place.path().join(name), bytes).unwrap();
        let behind_user_block = [vec![0; 512], SIGNATURE.to_vec()].concat();
        write("b.ims", &SIGNATURE);
        write("a.mat", &behind_user_block);
        write("a.mat.pyramid", &SIGNATURE);
        write("lone.pyramid", &SIGNATURE);
        write(".hidden.h5", &SIGNATURE);
        write("text.h5", b"not HDF5");
        write("empty.h5", b"");
        fs::create_dir(place.path().join("folder.h5")).unwrap();
        let mut paths = vec![place.path().join("b.ims").into(), place.path().into()];
        let mut folders = Folders::among(&mut paths);
        assert_eq!(paths, [Location::from(place.path().join("b.ims"))]);
        let mut found = || -> Vec<String> {
            let files = folders.files(4).unwrap();
            files
                .iter()
                .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
                .collect()
        };
        assert_eq!(found(), ["a.mat", "b.ims", "lone.pyramid"]);
        folders.note_broken(&place.path().join("b.ims"), "b is broken".to_owned());
        assert_eq!(folders.files(4).unwrap().len(), 2);
        assert_eq!(folders.problems(), ["b is broken"]);
        write("b.ims", &behind_user_block);
        assert_eq!(folders.files(4).unwrap().len(), 3);
        assert!(folders.problems().is_empty());
    }

    #[test]
    fn a_file_that_changes_while_it_is_tried_is_tried_again() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.h5");
        fs::write(&path, SIGNATURE).unwrap();
        let mut folders = Folders::among(&mut vec![place.path().into()]);
        let listed = |folders: &mut Folders| folders.files(0).unwrap().len();
        folders.note_tried([&*path].into_iter());
        fs::write(&path, [&SIGNATURE[..], b"whole"].concat()).unwrap();
        // The next look, before the attempt has ended.
        folders.note_tried([&*path].into_iter());
        folders.note_broken(&path, "it is truncated".to_owned());
        assert_eq!(listed(&mut folders), 1);
        folders.note_tried([&*path].into_iter());
        folders.note_broken(&path, "it is damaged".to_owned());
        assert_eq!(listed(&mut folders), 0);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named_until_it_can() {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("locked.h5");
        fs::write(&path, SIGNATURE).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
        // The superuser reads every file.
        let is_readable = fs::File::open(&path).is_ok();
        let mut folders = Folders::among(&mut vec![place.path().into()]);
        assert_eq!(folders.files(0).unwrap().len(), usize::from(is_readable));
        let is_named = |folders: &Folders| {
            let problems = folders.problems();
            problems.iter().any(|problem| problem.contains("locked.h5"))
        };
        assert_eq!(is_named(&folders), !is_readable);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(folders.files(0).unwrap(), [path]);
        assert!(!is_named(&folders));
    }

    #[test]
    fn a_folder_that_cannot_be_read_is_named() {
        let place = tempfile::tempdir().unwrap();
        let gone = place.path().join("gone");
        fs::create_dir(&gone).unwrap();
        let mut folders = Folders::among(&mut vec![gone.clone().into()]);
        fs::remove_dir(&gone).unwrap();
        assert!(folders.files(4).unwrap_err().to_string().contains("gone"));
    }

    #[test]
    fn only_changed_folders_are_read_again() {
        let place = tempfile::tempdir().unwrap();
        let old = SystemTime::now() - Duration::from_secs(100);
        let age = |path: &Path| fs::File::open(path).unwrap().set_modified(old).unwrap();
        let path = |name: &str| place.path().join(name);
        for (folder, file) in [
            ("one", "one/a.h5"),
            ("two", "two/b.h5"),
            ("three", "three/text"),
        ] {
            fs::create_dir(path(folder)).unwrap();
            fs::write(
                path(file),
                if folder == "three" {
                    b"not HDF5"
                } else {
                    &SIGNATURE
                },
            )
            .unwrap();
            age(&path(file));
            age(&path(folder));
        }
        let mut folders = Folders::among(&mut vec![place.path().into()]);
        assert_eq!(
            folders.files(1).unwrap(),
            [path("one/a.h5"), path("two/b.h5")]
        );
        // Contents that change without the folder are not seen.
        fs::write(path("three/text"), SIGNATURE).unwrap();
        age(&path("three/text"));
        assert_eq!(folders.files(1).unwrap().len(), 2);
        // A changed folder is read.
        fs::write(path("three/empty"), b"").unwrap();
        assert_eq!(folders.files(1).unwrap().len(), 3);
        age(&path("three"));
        assert_eq!(folders.files(1).unwrap().len(), 3);
        // Files that may be being written are looked at.
        fs::write(path("three/empty"), SIGNATURE).unwrap();
        assert_eq!(folders.files(1).unwrap().len(), 4);
        assert_eq!(folders.files(0).unwrap(), [] as [PathBuf; 0]);
        assert_eq!(folders.problems().len(), 1);
    }
}
