//! Resolves paths in a file step by step, so that every link is checked before it is followed.
//!
//! A file can refer to other files: by external links, as raw files, and as sources of virtual
//! datasets. The target, with symbolic links resolved, must lie below the folder of the referring
//! file; otherwise an untrusted volume could expose any file that the server can read.
//! `allow_external` disables this check.
//!
//! The library itself follows only hard links, with one exception: it opens the sources of virtual
//! datasets by name, also where the name leads through further links. Therefore sources are audited
//! before the dataset is read, sources that cannot be audited are refused, and our file driver
//! opens only audited files ([`super::admission`]). A source that does not exist has the fill
//! value.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use hdf5::plist::DatasetCreate;
use hdf5::plist::dataset_create::Layout;
use hdf5::{Dataset, Group};

use super::bytes::is_regular;
use super::external::RawFile;
use super::file::StoredFile;
use super::grid::Stripes;
use super::identity::FileIdentity;
use super::library::{self, Link, VirtualSource};
use super::{OpenError, Opener};
use crate::store::address::Address;
use crate::store::{Location, StoreError};

/// The maximum number of soft and external links on a path, and the maximum nesting of virtual
/// datasets.
const MAX_LINKS: usize = 32;
/// The maximum number of virtual sources audited for one dataset.
const MAX_SOURCES: usize = 100_000;

/// Which other files a file may refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkPolicy {
    /// Files below its own folder.
    BelowTheFile,
    /// Any file.
    Anywhere,
}

/// The target of a path, and the file that contains it.
#[derive(Debug)]
pub(super) struct FoundObject<T> {
    pub file: Arc<StoredFile>,
    pub object: T,
    /// The files that the path leads through before `file`, and the symbolic links by which files
    /// were opened.
    pub passed: Vec<FileIdentity>,
}

/// An object in a file.
#[derive(Debug)]
pub(super) enum Node {
    Group(Group),
    Dataset(Dataset),
}

/// The end of a path: the last group, and the name of the final hard link in it; `None` if the path
/// ends at the group.
pub(super) struct PathEnd {
    pub file: Arc<StoredFile>,
    pub group: Group,
    pub name: Option<String>,
    /// As in [`FoundObject`].
    passed: Vec<FileIdentity>,
}

/// Added to the error if an object cannot be opened in a file that is being written.
const UNREADABLE_WHILE_WRITTEN: &str = ". While a file is being written in SWMR mode, the HDF5 library may not open contiguous datasets whose \
    first voxels were written after that began (HDF5 issue 5251): store it in chunks, write it before, or wait until the writer has \
    closed the file";

/// Resolves paths under the policy of an opener.
///
/// Some of its functions take an [`Audit`] if the library will follow the links by itself: the
/// audit notes the files to which external links lead.
pub(super) struct Follower<'a> {
    pub opener: &'a Opener,
    /// Whether references that the policy forbids are logged: a layout that only looks for an
    /// object treats any error as absence.
    pub logs_refusals: bool,
}

/// The files that reading a dataset opens, all of them allowed.
#[derive(Debug, Default)]
pub(super) struct Audited {
    /// All files that contain its voxels, including missing ones.
    pub files: BTreeSet<FileIdentity>,
    /// The raw files of the dataset itself, in order.
    pub raw: Vec<RawFile>,
    /// The files that it refers to and that do not exist.
    pub missing: MissingFiles,
    /// The parts of it whose sources do not exist, each by axis.
    pub gaps: Vec<Vec<Stripes>>,
}

/// The files that a dataset refers to and that do not exist, each named once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MissingFiles {
    /// Raw files: reading voxels from them is an error.
    pub raw: BTreeSet<PathBuf>,
    /// The sources of virtual datasets, or what is missing on the way to them: their voxels are
    /// missing.
    pub sources: BTreeSet<String>,
}

/// The state of an audit.
#[derive(Default)]
struct Audit {
    /// The findings so far.
    result: Audited,
    /// The sources visited, as (file, dataset); each with a text that names what is missing, if
    /// anything is.
    seen: HashMap<(Location, String), Option<String>>,
    /// The files that contain virtual datasets, or links on the way to their sources.
    holders: Vec<Arc<StoredFile>>,
    /// The sources that links lead to, by the file and the path at which the links begin.
    linked: Vec<(Arc<StoredFile>, String)>,
    /// The files that the library may open, by the paths that it will use.
    admitted: Vec<(PathBuf, FileIdentity)>,
    /// The folders of symbolic links by which a file is opened: the library resolves relative names
    /// in that file against them too.
    link_folders: HashMap<Location, Vec<PathBuf>>,
}

impl Audit {
    fn finish(self) -> Result<Audited, OpenError> {
        // The library opens a source under the admission of the referring file or of the first
        // file.
        for holder in &self.holders {
            for (name, identity) in &self.admitted {
                holder.admission.admit(name.clone(), identity.clone());
            }
        }
        // Where the library does not find a source, it reads the fill value without an error. But
        // these sources exist.
        for (file, path) in &self.linked {
            let handles = file.handles.get();
            let is_found = handles.and_then(|handles| library::finds(&handles.file, path));
            if !matches!(is_found, Ok(true)) {
                let problem = "it is a source of a virtual dataset, and the library cannot follow the links to it";
                return Err(OpenError::object(&file.location, path, problem));
            }
        }
        Ok(self.result)
    }
}

impl Follower<'_> {
    /// Finds the dataset at `path` and audits all files that reading it would open.
    pub fn dataset(
        &self,
        file: &Arc<StoredFile>,
        path: &str,
    ) -> Result<(FoundObject<Dataset>, Audited), OpenError> {
        let found = self.unaudited_dataset(file, path, None)?;
        let mut audit = Audit::default();
        audit.result.files.extend(found.passed.iter().cloned());
        self.audit(&found, &mut audit, 0)?;
        audit.finish().map(|audited| (found, audited))
    }

    /// The group or dataset at `path`. The dataset is not audited and must not be read.
    pub fn node(&self, file: &Arc<StoredFile>, path: &str) -> Result<FoundObject<Node>, OpenError> {
        self.follow(file, path, None)
    }

    /// The end of the link `name` in a group; `path` is its path, for errors.
    pub fn member(
        &self,
        file: &Arc<StoredFile>,
        group: Group,
        path: &str,
        name: String,
    ) -> Result<PathEnd, OpenError> {
        self.walk_from(file, group, path, VecDeque::from([name]), None)
    }

    /// The files that the link at `path` could lead to, in their current state, whether or not they
    /// exist.
    pub fn awaited(&self, file: &Arc<StoredFile>, path: &str) -> Vec<FileIdentity> {
        let Some((group, name)) = path.rsplit_once('/') else {
            return Vec::new();
        };
        let Ok(FoundObject {
            file,
            object: Node::Group(group),
            ..
        }) = self.node(file, group)
        else {
            return Vec::new();
        };
        match library::link(&group, name) {
            Ok(Link::External { file: target, .. }) => places(&file, &target)
                .iter()
                .map(|place| FileIdentity::of_unresolved(place))
                .collect(),
            _ => Vec::new(),
        }
    }

    fn unaudited_dataset(
        &self,
        file: &Arc<StoredFile>,
        path: &str,
        audit: Option<&mut Audit>,
    ) -> Result<FoundObject<Dataset>, OpenError> {
        let found = self.follow(file, path, audit)?;
        match found.object {
            Node::Dataset(object) => Ok(FoundObject {
                file: found.file,
                object,
                passed: found.passed,
            }),
            Node::Group(_) => {
                let problem = "it is a group; a dataset is expected";
                Err(OpenError::object(&found.file.location, path, problem))
            }
        }
    }

    /// The file that contains the object at `path`, without opening the object.
    pub fn file_of(&self, file: &Arc<StoredFile>, path: &str) -> Result<FileIdentity, OpenError> {
        self.walk(file, path, None)
            .map(|end| end.file.identity().clone())
    }

    fn follow(
        &self,
        file: &Arc<StoredFile>,
        path: &str,
        audit: Option<&mut Audit>,
    ) -> Result<FoundObject<Node>, OpenError> {
        let end = self.walk(file, path, audit)?;
        let object = match end.name {
            Some(name) => open_object(&end.file, &end.group, path, &name)?,
            None => Node::Group(end.group),
        };
        Ok(FoundObject {
            file: end.file,
            object,
            passed: end.passed,
        })
    }

    /// Follows a path up to its last hard link.
    fn walk(
        &self,
        file: &Arc<StoredFile>,
        path: &str,
        audit: Option<&mut Audit>,
    ) -> Result<PathEnd, OpenError> {
        let ahead = components(path).collect();
        self.walk_from(file, root(file)?, path, ahead, audit)
    }

    /// Follows the names in `ahead`, beginning at a group; `path` is for errors.
    fn walk_from(
        &self,
        file: &Arc<StoredFile>,
        group: Group,
        path: &str,
        mut ahead: VecDeque<String>,
        mut audit: Option<&mut Audit>,
    ) -> Result<PathEnd, OpenError> {
        let mut end = PathEnd {
            file: Arc::clone(file),
            group,
            name: None,
            passed: Vec::new(),
        };
        let mut links = 0;
        while let Some(name) = ahead.pop_front() {
            let wrong = |problem: String| OpenError::object(&end.file.location, path, problem);
            match library::link(&end.group, &name).map_err(|e| wrong(e.to_string()))? {
                Link::Missing => return Err(OpenError::missing(&end.file.location, path, &name)),
                Link::Hard if ahead.is_empty() => end.name = Some(name),
                Link::Hard => {
                    let group = library::open_group(&end.group, &name);
                    end.group = group.map_err(|e| {
                        wrong(format!("{name:?} cannot be opened as a group ({e})"))
                    })?;
                }
                Link::Soft(target) => {
                    if target.starts_with('/') {
                        end.group = root(&end.file)?;
                    }
                    prepend(&mut ahead, &target);
                    links += 1;
                }
                Link::External {
                    file: file_name,
                    path: target,
                } => {
                    self.enter_file(&mut end, path, &file_name, audit.as_deref_mut())?;
                    prepend(&mut ahead, &target);
                    links += 1;
                }
            }
            if links > MAX_LINKS {
                let problem = "too many links on its path; is there a loop?";
                return Err(OpenError::object(&end.file.location, path, problem));
            }
        }
        Ok(end)
    }

    /// Goes on in the file to which an external link leads, by the file's name in the link.
    fn enter_file(
        &self,
        end: &mut PathEnd,
        path: &str,
        name: &str,
        audit: Option<&mut Audit>,
    ) -> Result<(), OpenError> {
        end.passed.push(end.file.identity().clone());
        end.file = match audit {
            None => {
                let (next, alias) = self.external_file(&end.file, path, name)?;
                end.passed.extend(alias);
                next
            }
            Some(audit) => {
                let next = self.source_file(&end.file, name, audit)?;
                next.ok_or_else(|| OpenError::missing(&end.file.location, path, name))?
            }
        };
        end.group = root(&end.file)?;
        Ok(())
    }

    /// The file to which `from` refers by `name`, and the symbolic link that leads to it, if one
    /// does; `path` is for errors.
    fn external_file(
        &self,
        from: &Arc<StoredFile>,
        path: &str,
        name: &str,
    ) -> Result<(Arc<StoredFile>, Option<FileIdentity>), OpenError> {
        if let Location::Object(address) = &from.location {
            return Ok((self.object_beside(from, address, path, name)?, None));
        }
        let missing = || OpenError::missing(&from.location, path, name);
        let target = places(from, name).into_iter().find(|place| place.exists());
        let target = target.ok_or_else(missing)?;
        let resolved = self.resolve(from, name, &target)?.ok_or_else(missing)?;
        let alias = (target != resolved).then(|| FileIdentity::of_unresolved(&target));
        let file = self.opener.open_resolved(Location::Path(resolved))?;
        Ok((file, alias))
    }

    /// The object to which `from` refers by `name`. It must lie beside `from` (at `address`),
    /// unless the policy allows any.
    fn object_beside(
        &self,
        from: &StoredFile,
        address: &Address,
        path: &str,
        name: &str,
    ) -> Result<Arc<StoredFile>, OpenError> {
        let missing = || OpenError::missing(&from.location, path, name);
        let target = address.beside(relative_name(name)).map_err(|_| missing())?;
        // An object that must not be read is not even requested.
        if !target.is_beside(address) {
            self.ensure_anywhere(from, name)?;
        }
        if let Err(StoreError::Missing) = self.opener.files.store().open(&target) {
            return Err(missing());
        }
        // Opening it reports all other errors: the object may exist.
        self.opener.open_resolved(Location::Object(target))
    }

    /// Checks and collects, recursively, all files that reading the dataset would open; returns
    /// whether it is a virtual dataset all of whose sources are missing. `depth` is 0 for the
    /// dataset to be opened, 1 for its sources, and so on.
    fn audit(
        &self,
        found: &FoundObject<Dataset>,
        audit: &mut Audit,
        depth: usize,
    ) -> Result<bool, OpenError> {
        let name = path_of(&found.object);
        let wrong = |problem: String| OpenError::object(&found.file.location, &name, problem);
        if depth > MAX_LINKS {
            return Err(wrong(
                "virtual datasets are nested too deeply; is there a loop?".to_owned(),
            ));
        }
        let result = &mut audit.result;
        result.files.insert(found.file.identity().clone());
        let creation = found.object.dcpl().map_err(|e| wrong(e.to_string()))?;
        if found.file.bytes.is_remote() {
            ensure_in_one_file(&creation).map_err(|problem| self.logged(wrong(problem)))?;
            return Ok(false);
        }
        let raw = self.raw_files(found, &creation)?;
        if depth > 0 && !raw.is_empty() && !library::looks_beside_files() {
            return Err(wrong(
                "its raw files cannot be located (look_beside_files was not called)".to_owned(),
            ));
        }
        for file in &raw {
            result.files.insert(file.identity.clone());
            result.files.extend(file.alias.clone());
            if !file.identity.exists() {
                result.missing.raw.insert(file.identity.path().to_owned());
            }
        }
        if depth == 0 {
            result.raw = raw;
        }
        if creation.layout() != Layout::Virtual {
            return Ok(false);
        }
        audit.holders.push(Arc::clone(&found.file));
        let sources = library::virtual_sources(&creation).map_err(|e| wrong(e.to_string()))?;
        let mut are_all_missing = !sources.is_empty();
        for source in sources {
            let is_missing = match self.audit_mapping(found, &source, audit, depth) {
                Ok(is_missing) => is_missing,
                // Reading the source reports the error.
                Err(_) if self.opener.policy == LinkPolicy::Anywhere => false,
                Err(error) => return Err(error),
            };
            are_all_missing &= is_missing;
            if depth == 0 && is_missing && audit.result.gaps.len() < MAX_SOURCES {
                audit.result.gaps.extend(source.place);
            }
        }
        Ok(are_all_missing)
    }

    /// The raw files of a dataset. Missing ones are included; reading them is an error.
    fn raw_files(
        &self,
        found: &FoundObject<Dataset>,
        creation: &DatasetCreate,
    ) -> Result<Vec<RawFile>, OpenError> {
        let name = path_of(&found.object);
        let wrong = |problem: String| OpenError::object(&found.file.location, &name, problem);
        let mut raw_files = Vec::new();
        for raw in library::raw_files(creation).map_err(|e| wrong(e.to_string()))? {
            let subject = format!("its raw file {:?}", raw.name);
            let target = found.file.folder().join(&raw.name);
            let identity = match self.resolve(&found.file, &raw.name, &target)? {
                Some(resolved) if !is_regular(&resolved) => {
                    return Err(wrong(format!("{subject} is not a regular file")));
                }
                Some(resolved) => {
                    let Opener { files, growing, .. } = self.opener;
                    let identity = files.identity(&resolved, *growing);
                    identity.map_err(|e| wrong(format!("{subject} cannot be inspected: {e}")))?
                }
                None => FileIdentity::missing(&target),
            };
            let alias = (target != identity.path()).then(|| FileIdentity::of_unresolved(&target));
            raw_files.push(RawFile {
                identity,
                alias,
                position: raw.offset,
                length: raw.size,
            });
        }
        Ok(raw_files)
    }

    /// Checks one mapping of a virtual dataset; returns whether its source is missing. Names with
    /// `%b` denote a numbered series of files or datasets, which ends before the first missing one.
    fn audit_mapping(
        &self,
        found: &FoundObject<Dataset>,
        VirtualSource { file, dataset, .. }: &VirtualSource,
        audit: &mut Audit,
        depth: usize,
    ) -> Result<bool, OpenError> {
        let is_series = is_numbered(file) || is_numbered(dataset);
        for number in 0.. {
            let file = numbered(file, number);
            let dataset = numbered(dataset, number);
            let missing = self.audit_source(found, &file, &dataset, audit, depth)?;
            if let Some(missing) = missing {
                let is_first = number == 0;
                if is_first {
                    audit.result.missing.sources.insert(missing);
                }
                return Ok(is_first);
            }
            if !is_series {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// Checks one source. If it does not exist, or is a virtual dataset all of whose sources are
    /// missing, it reads as the fill value, which is no error: returns a text for people that names
    /// what is missing.
    fn audit_source(
        &self,
        found: &FoundObject<Dataset>,
        file: &str,
        dataset: &str,
        audit: &mut Audit,
        depth: usize,
    ) -> Result<Option<String>, OpenError> {
        let Some(source) = self.source_file(&found.file, file, audit)? else {
            // The name that the file gives, not the path: whoever reads the text may not be allowed
            // to know where files are.
            return Ok(Some(file.to_owned()));
        };
        let key = (source.location.clone(), dataset.to_owned());
        if let Some(known) = audit.seen.get(&key) {
            return Ok(known.clone());
        }
        audit.seen.insert(key.clone(), None);
        if audit.seen.len() > MAX_SOURCES {
            let problem = format!("it has more than {MAX_SOURCES} sources, too many to check");
            let name = path_of(&found.object);
            return Err(OpenError::object(&found.file.location, &name, problem));
        }
        let missing = match self.unaudited_dataset(&source, dataset, Some(audit)) {
            Ok(nested) => {
                let file_name = source.location.as_path().file_name();
                let name = file_name.unwrap_or_default().to_string_lossy().into_owned();
                if !nested.passed.is_empty() {
                    audit.holders.push(Arc::clone(&source));
                    audit.linked.push((source, dataset.to_owned()));
                }
                let are_all_missing = self.audit(&nested, audit, depth + 1)?;
                are_all_missing.then(|| format!("all sources of {dataset} in {name}"))
            }
            Err(missing @ OpenError::Missing { .. }) => Some(missing.to_string()),
            Err(other) => return Err(other),
        };
        audit.seen.insert(key, missing.clone());
        Ok(missing)
    }

    /// The file from which the library would read a source: the first that exists of the paths that
    /// it tries.
    fn source_file(
        &self,
        from: &Arc<StoredFile>,
        name: &str,
        audit: &mut Audit,
    ) -> Result<Option<Arc<StoredFile>>, OpenError> {
        if name == "." {
            return Ok(Some(Arc::clone(from)));
        }
        let files = &mut audit.result.files;
        let mut found = None;
        // The library also tries the working directory, where our file driver opens nothing.
        for target in places(from, name) {
            if target.exists()
                && let Some(resolved) = self.resolve(from, name, &target)?
            {
                found = Some((target, resolved));
                break;
            }
            // If a readable file appeared there, the library would read it.
            files.insert(FileIdentity::missing(&target));
        }
        let Some((target, resolved)) = found else {
            return Ok(None);
        };
        if target != resolved {
            // If the symbolic link were redirected, the library would read another file.
            files.insert(FileIdentity::of_unresolved(&target));
            let folders = audit
                .link_folders
                .entry(Location::Path(resolved.clone()))
                .or_default();
            folders.extend(target.parent().map(Path::to_owned));
        }
        let opened = self.opener.open_resolved(Location::Path(resolved.clone()));
        // A file that cannot be opened is admitted nevertheless, so that reading it is an error and
        // not the fill value.
        let identity = match &opened {
            Ok(file) => Some(file.identity().clone()),
            Err(_) => FileIdentity::of_path(&resolved).ok(),
        };
        if let Some(identity) = identity {
            files.insert(identity.clone());
            for folder in audit.link_folders.get(&from.location).into_iter().flatten() {
                audit
                    .admitted
                    .push((folder.join(relative_name(name)), identity.clone()));
            }
            audit.admitted.push((target, identity));
        }
        opened.map(Some)
    }

    /// Resolves the symbolic links of `target`, to which `from` refers by `name`; `None` if it does
    /// not exist. Fails if it lies outside the folder of `from` and the policy forbids that.
    fn resolve(
        &self,
        from: &StoredFile,
        name: &str,
        target: &Path,
    ) -> Result<Option<PathBuf>, OpenError> {
        let resolved = target.canonicalize().ok();
        let inside = match &resolved {
            Some(resolved) => resolved.starts_with(from.folder()),
            // A missing file cannot be resolved, so its path is checked as written.
            None => !climbs(from.folder(), target),
        };
        if !inside {
            self.ensure_anywhere(from, name)?;
        }
        Ok(resolved)
    }

    /// Fails if links must not leave the folder of their file.
    fn ensure_anywhere(&self, from: &StoredFile, name: &str) -> Result<(), OpenError> {
        if self.opener.policy == LinkPolicy::Anywhere {
            return Ok(());
        }
        Err(self.logged(OpenError::Refused {
            file: from.location.clone(),
            name: name.to_owned(),
        }))
    }

    /// Logs a refusal, if refusals are logged, and returns it.
    fn logged(&self, refusal: OpenError) -> OpenError {
        if self.logs_refusals {
            tracing::warn!("{refusal}");
        }
        refusal
    }
}

/// The root group of a file.
pub(super) fn root(file: &StoredFile) -> Result<Group, OpenError> {
    file.handles
        .root()
        .map_err(|e| OpenError::object(&file.location, "/", e.to_string()))
}

/// The path of a dataset, for messages.
fn path_of(dataset: &Dataset) -> String {
    library::path_of(dataset).unwrap_or_default()
}

/// Opens the object of the hard link `name` in a group; `path` is for errors.
fn open_object(
    file: &StoredFile,
    group: &Group,
    path: &str,
    name: &str,
) -> Result<Node, OpenError> {
    let is_dataset = library::object_info(group, name).is_ok_and(|info| info.is_dataset);
    let opened = if is_dataset {
        library::open_dataset(group, name).map(Node::Dataset)
    } else {
        library::open_group(group, name).map(Node::Group)
    };
    opened.map_err(|e| {
        let kind = if is_dataset { "dataset" } else { "group" };
        let hint = if file.bytes.is_growing() {
            UNREADABLE_WHILE_WRITTEN
        } else {
            ""
        };
        let problem = format!("it cannot be opened as a {kind} ({e}){hint}");
        OpenError::object(&file.location, path, problem)
    })
}

/// The names on a path. Empty ones and `.` are left out.
fn components(path: &str) -> impl DoubleEndedIterator<Item = String> + '_ {
    path.split('/')
        .filter(|part| !part.is_empty() && *part != ".")
        .map(str::to_owned)
}

/// Puts the names on a link's path before the names that are still ahead.
fn prepend(ahead: &mut VecDeque<String>, target: &str) {
    for part in components(target).rev() {
        ahead.push_front(part);
    }
}

/// Fails if the data of a dataset in a store lies elsewhere: in raw files, or in the sources of a
/// virtual dataset.
fn ensure_in_one_file(creation: &DatasetCreate) -> Result<(), String> {
    let raw_files = library::raw_files(creation).map_err(|e| e.to_string())?;
    let is_virtual = creation.layout() == Layout::Virtual;
    if !is_virtual && raw_files.is_empty() {
        return Ok(());
    }
    let what = if is_virtual {
        "it is a virtual dataset"
    } else {
        "its data is in external raw files"
    };
    Err(format!(
        "{what}, which voltile reads from local disks only; copy the files to one, or store the data in this file"
    ))
}

/// The paths that the library tries for a file reference: first the name itself if it is absolute,
/// then the name in the folder of the referring file.
fn places(from: &StoredFile, name: &str) -> Vec<PathBuf> {
    let beside = from.folder().join(relative_name(name));
    if Path::new(name).is_absolute() {
        vec![PathBuf::from(name), beside]
    } else {
        vec![beside]
    }
}

/// The name under which a file is looked for beside the referring file: a relative name as it is,
/// and the last component of an absolute name.
fn relative_name(name: &str) -> &str {
    if name.starts_with('/') {
        name.rsplit('/').next().unwrap_or(name)
    } else {
        name
    }
}

/// Whether a path as written, without resolving links, leads out of the folder.
fn climbs(folder: &Path, target: &Path) -> bool {
    let inside = target.strip_prefix(folder);
    !inside.is_ok_and(|inside| inside.components().all(|part| part != Component::ParentDir))
}

/// Whether a name is a pattern for a numbered series.
fn is_numbered(pattern: &str) -> bool {
    pattern.replace("%%", "").contains("%b")
}

/// Expands a pattern: `%b` is the number, `%%` a percent sign.
fn numbered(pattern: &str, number: u64) -> String {
    // A zero byte, which no name contains, stands for `%%` meanwhile.
    pattern
        .replace("%%", "\0")
        .replace("%b", &number.to_string())
        .replace('\0', "%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_names_are_told_from_names_with_percent_signs() {
        assert_eq!(numbered("part%b.h5", 12), "part12.h5");
        assert_eq!(numbered("100%%b", 3), "100%b");
        assert!(is_numbered("a%b") && is_numbered("%%%b"));
        assert!(!is_numbered("100%") && !is_numbered("a%%b"));
    }

    #[test]
    fn a_target_climbs_by_its_spelling() {
        let folder = Path::new("/data/set");
        assert!(!climbs(folder, Path::new("/data/set/sub/raw.bin")));
        assert!(climbs(folder, Path::new("/data/set/../raw.bin")));
        assert!(climbs(folder, Path::new("/data/raw.bin")));
    }
}
