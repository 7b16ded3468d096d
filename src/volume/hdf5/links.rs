//! Follows paths through a file by hand, so that no link is taken without asking where it leads.
//!
//! A file can name other files: by external links, as raw storage, as parts of virtual datasets. What such a name
//! resolves to must lie below the folder of the file that names it, symbolic links resolved; otherwise a volume
//! that someone was sent could show any file that the server may read. `allow_external` lifts the rule. The library
//! itself is only ever given hard links to follow, except within the sources of virtual datasets, which it opens by
//! itself: these are audited before the dataset is read, whatever the audit cannot make out is refused, and the library's
//! file driver opens the files that were audited and no others ([`super::admission`]).

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hdf5::plist::dataset_create::Layout;
use hdf5::{Dataset, Group, LocationType};

use super::OpenError;
use super::bytes::is_regular;
use super::external::RawFile;
use super::file::{Files, StoredFile};
use super::identity::FileIdentity;
use super::library::{self, Link};

/// How many soft and external links may follow each other, and how deep virtual datasets may nest.
const MOST_LINKS: usize = 32;
/// How many parts of virtual datasets are audited for one dataset.
const MOST_PARTS: usize = 100_000;

/// Which files a file may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkPolicy {
    /// Those below its own folder.
    BelowTheFile,
    /// Any.
    Anywhere,
}

/// What a path led to, and the file that holds it.
#[derive(Debug)]
pub(super) struct Found<T> {
    pub file: Arc<StoredFile>,
    pub object: T,
    /// The files that were left on the way there, and the links by which.
    pub passed: Vec<FileIdentity>,
}

/// An object of a file.
#[derive(Debug)]
pub(super) enum Node {
    Group(Group),
    Dataset(Dataset),
}

/// Where a path ends: the last group on it, and the hard link there that is its last step; the group itself where
/// there is no further step.
struct End {
    file: Arc<StoredFile>,
    group: Group,
    name: Option<String>,
    /// The files that were left on the way, and the links by which.
    passed: Vec<FileIdentity>,
}

/// Follows paths under one policy.
pub(super) struct Follower<'a> {
    pub files: &'a Files,
    pub policy: LinkPolicy,
    /// Whether somebody may be appending to the files.
    pub growing: bool,
}

/// What reading a dataset opens, all of it found allowed.
#[derive(Debug, Default)]
pub(super) struct Audited {
    /// Every file that its voxels come from, and those that are named but missing.
    pub files: Vec<FileIdentity>,
    /// The raw files that hold the dataset's own voxels, in order.
    pub raw: Vec<RawFile>,
}

/// An audit under way.
#[derive(Default)]
struct Audit {
    /// The parts that have been looked at.
    seen: HashSet<(PathBuf, String)>,
    files: BTreeSet<FileIdentity>,
    /// The files that name others.
    holders: Vec<Arc<StoredFile>>,
    /// What the library may open, by the names that it will use.
    admitted: Vec<(PathBuf, FileIdentity)>,
    /// The folders of symbolic links by which a file is opened: the library looks there for what the file names.
    link_folders: HashMap<PathBuf, Vec<PathBuf>>,
}

impl Audit {
    fn finish(self, raw: Vec<RawFile>) -> Audited {
        // The library asks under the file that it came from, or that of the first dataset.
        for holder in &self.holders {
            for (name, identity) in &self.admitted {
                holder.admission.admit(name.clone(), identity.clone());
            }
        }
        Audited { files: self.files.into_iter().collect(), raw }
    }
}

impl Follower<'_> {
    /// The dataset at `path`, once everything that reading it would open has been found allowed; and what that is.
    pub fn dataset(
        &self,
        file: &Arc<StoredFile>,
        path: &str,
    ) -> Result<(Found<Dataset>, Audited), OpenError> {
        let found = self.unaudited_dataset(file, path, true)?;
        let mut audit = Audit::default();
        audit.files.extend(found.passed.iter().cloned());
        let raw = self.audit(&found, &mut audit, 0)?;
        Ok((found, audit.finish(raw)))
    }

    /// The group or dataset at `path`. A dataset had this way must not be read.
    pub fn node(&self, file: &Arc<StoredFile>, path: &str) -> Result<Found<Node>, OpenError> {
        self.follow(file, path, true)
    }

    fn unaudited_dataset(
        &self,
        file: &Arc<StoredFile>,
        path: &str,
        may_leave: bool,
    ) -> Result<Found<Dataset>, OpenError> {
        let Found { file, object, passed } = self.follow(file, path, may_leave)?;
        match object {
            Node::Dataset(object) => Ok(Found { file, object, passed }),
            Node::Group(_) => {
                Err(OpenError::object(&file, path, "it is a group; a dataset is expected".to_owned()))
            }
        }
    }

    /// The file that holds what is at `path`, without opening that.
    pub fn file_of(&self, file: &Arc<StoredFile>, path: &str) -> Result<FileIdentity, OpenError> {
        self.walk(file, path, true).map(|end| end.file.identity().clone())
    }

    fn follow(&self, file: &Arc<StoredFile>, path: &str, may_leave: bool) -> Result<Found<Node>, OpenError> {
        let End { file, group, name, passed } = self.walk(file, path, may_leave)?;
        let Some(name) = name else { return Ok(Found { file, object: Node::Group(group), passed }) };
        let wrong = |what: &str, e: hdf5::Error| {
            OpenError::object(&file, path, format!("it cannot be opened as a {what} ({e})"))
        };
        let object = if is_dataset(&group, &name) {
            Node::Dataset(library::open_dataset(&group, &name).map_err(|e| wrong("dataset", e))?)
        } else {
            Node::Group(group.group(&name).map_err(|e| wrong("group", e))?)
        };
        Ok(Found { file, object, passed })
    }

    /// Follows a path up to its last hard link; `may_leave` says whether external links are taken at all.
    fn walk(&self, file: &Arc<StoredFile>, path: &str, may_leave: bool) -> Result<End, OpenError> {
        let mut end = End { file: Arc::clone(file), group: root(file)?, name: None, passed: Vec::new() };
        let mut ahead: VecDeque<String> = components(path).collect();
        let mut links = 0;
        while let Some(name) = ahead.pop_front() {
            let wrong = |problem: String| OpenError::object(&end.file, path, problem);
            match library::link(&end.group, &name).map_err(|e| wrong(e.to_string()))? {
                Link::Missing => return Err(OpenError::missing(&end.file, path, &name)),
                Link::Hard if ahead.is_empty() => end.name = Some(name),
                Link::Hard => {
                    let group = end.group.group(&name);
                    end.group =
                        group.map_err(|e| wrong(format!("{name:?} cannot be opened as a group ({e})")))?;
                }
                Link::Soft(target) => {
                    if target.starts_with('/') {
                        end.group = root(&end.file)?;
                    }
                    prepend(&mut ahead, &target);
                    links += 1;
                }
                Link::External { file: other, path: target } if may_leave => {
                    end.passed.push(end.file.identity().clone());
                    let (next, alias) = self.external_file(&end.file, path, &other)?;
                    end.passed.extend(alias);
                    end.file = next;
                    end.group = root(&end.file)?;
                    prepend(&mut ahead, &target);
                    links += 1;
                }
                // The library would follow it by its own rules, which are not ours.
                Link::External { file: other, .. } => {
                    return Err(refused(&end.file, &other, "by a link within a virtual dataset"));
                }
            }
            if links > MOST_LINKS {
                return Err(OpenError::object(&end.file, path, "its links lead in a circle".to_owned()));
            }
        }
        Ok(end)
    }

    fn external_file(
        &self,
        from: &Arc<StoredFile>,
        path: &str,
        name: &str,
    ) -> Result<(Arc<StoredFile>, Option<FileIdentity>), OpenError> {
        let target = places(from, name)
            .into_iter()
            .find(|place| place.exists())
            .ok_or_else(|| OpenError::missing(from, path, name))?;
        match self.allowed(from, name, &target)? {
            Some(resolved) => {
                let alias = (target != resolved).then(|| FileIdentity::at(&target));
                Ok((self.files.open_resolved(resolved, self.growing)?, alias))
            }
            None => Err(OpenError::missing(from, path, name)),
        }
    }

    /// Checks and collects every file that reading the dataset would open, and theirs in turn; returns its raw files.
    fn audit(
        &self,
        found: &Found<Dataset>,
        audit: &mut Audit,
        depth: usize,
    ) -> Result<Vec<RawFile>, OpenError> {
        let name = found.object.name();
        let wrong = |problem: String| OpenError::object(&found.file, &name, problem);
        if depth > MOST_LINKS {
            return Err(wrong("virtual datasets refer to each other without end".to_owned()));
        }
        audit.files.insert(found.file.identity().clone());
        let raw = self.raw_files(found)?;
        if depth > 0 && !raw.is_empty() && !library::looks_beside_files() {
            return Err(wrong("the process was not prepared to look for raw files beside it".to_owned()));
        }
        audit.files.extend(raw.iter().map(|raw| raw.identity.clone()));
        audit.files.extend(raw.iter().filter_map(|raw| raw.alias.clone()));
        if found.object.layout() != Layout::Virtual {
            return Ok(raw);
        }
        audit.holders.push(Arc::clone(&found.file));
        for (file, dataset) in library::virtual_sources(&found.object).map_err(|e| wrong(e.to_string()))? {
            match self.audit_mapping(found, &file, &dataset, audit, depth) {
                // Who allows everything is told by the library what it cannot read, when it is read.
                Err(_) if self.policy == LinkPolicy::Anywhere => {}
                checked => checked?,
            }
        }
        Ok(raw)
    }

    /// The raw files that hold a dataset's voxels; one that is missing is among them, and an error where it is read.
    fn raw_files(&self, found: &Found<Dataset>) -> Result<Vec<RawFile>, OpenError> {
        let name = found.object.name();
        let wrong = |problem: String| OpenError::object(&found.file, &name, problem);
        let raw_files = library::raw_files(&found.object).map_err(|e| wrong(e.to_string()))?;
        let raw_file = |raw: library::RawFileEntry| {
            let target = found.file.folder().join(&raw.name);
            let target_path = target.clone();
            let identity = match self.allowed(&found.file, &raw.name, &target)? {
                Some(resolved) if !is_regular(&resolved) => {
                    return Err(wrong(format!("its raw file {:?} is not a regular file", raw.name)));
                }
                Some(resolved) => FileIdentity::of(&resolved)
                    .map_err(|e| wrong(format!("its raw file {:?} cannot be looked at: {e}", raw.name)))?,
                None => FileIdentity::missing(target),
            };
            let alias = (target_path != identity.path()).then(|| FileIdentity::at(&target_path));
            Ok(RawFile { identity, alias, position: raw.offset, length: raw.size })
        };
        raw_files.into_iter().map(raw_file).collect()
    }

    /// Checks one mapping of a virtual dataset; names with `%b` stand for numbered files or datasets, up to the first
    /// that is missing.
    fn audit_mapping(
        &self,
        found: &Found<Dataset>,
        file: &str,
        dataset: &str,
        audit: &mut Audit,
        depth: usize,
    ) -> Result<(), OpenError> {
        if !is_numbered(file) && !is_numbered(dataset) {
            return self
                .audit_part(found, &numbered(file, 0), &numbered(dataset, 0), audit, depth)
                .map(|_| ());
        }
        let mut number = 0;
        while self.audit_part(found, &numbered(file, number), &numbered(dataset, number), audit, depth)? {
            number += 1;
        }
        Ok(())
    }

    /// Checks one part; `false` where it does not exist, which is no fault: it reads as the fill value.
    fn audit_part(
        &self,
        found: &Found<Dataset>,
        file: &str,
        dataset: &str,
        audit: &mut Audit,
        depth: usize,
    ) -> Result<bool, OpenError> {
        let Some(source) = self.part_file(&found.file, file, audit)? else { return Ok(false) };
        if !audit.seen.insert((source.path.clone(), dataset.to_owned())) {
            return Ok(true);
        }
        if audit.seen.len() > MOST_PARTS {
            let problem = format!("it is made of more than {MOST_PARTS} parts, which are too many to check");
            return Err(OpenError::object(&found.file, &found.object.name(), problem));
        }
        match self.unaudited_dataset(&source, dataset, false) {
            Ok(part) => self.audit(&part, audit, depth + 1).map(|_| true),
            Err(OpenError::Missing { .. }) => Ok(false),
            Err(unclear) => Err(unclear),
        }
    }

    /// The file that the library would take a part from: the first there is of those that it tries.
    fn part_file(
        &self,
        from: &Arc<StoredFile>,
        name: &str,
        audit: &mut Audit,
    ) -> Result<Option<Arc<StoredFile>>, OpenError> {
        if name == "." {
            return Ok(Some(Arc::clone(from)));
        }
        let mut tried = places(from, name);
        // Last it tries the working directory, where nothing of the file's can be.
        tried.push(PathBuf::from(last_component(name)));
        let found = tried.iter().find(|place| place.exists());
        let found = found.map(|target| Ok(self.allowed(from, name, target)?.zip(Some(target))));
        let Some((resolved, target)) = found.transpose()?.flatten() else {
            audit.files.extend(places(from, name).into_iter().map(FileIdentity::missing));
            return Ok(None);
        };
        // Those before it would be taken in its place as soon as they appear, and so would another target of a link.
        let before = tried.iter().take_while(|place| *place != target).cloned().map(FileIdentity::missing);
        audit.files.extend(before);
        if *target != resolved {
            audit.files.insert(FileIdentity::at(target));
            let folders = audit.link_folders.entry(resolved.clone()).or_default();
            folders.extend(target.parent().map(Path::to_owned));
        }
        let opened = self.files.open_resolved(resolved.clone(), self.growing);
        // One that cannot be opened here is admitted all the same, so that reading it is an error and not the fill value.
        let identity = match &opened {
            Ok(file) => Some(file.identity().clone()),
            Err(_) => FileIdentity::of(&resolved).ok(),
        };
        if let Some(identity) = identity {
            audit.files.insert(identity.clone());
            for folder in audit.link_folders.get(&from.path).into_iter().flatten() {
                audit.admitted.push((folder.join(last_component(name)), identity.clone()));
            }
            audit.admitted.push((target.clone(), identity));
        }
        opened.map(Some)
    }

    /// Where `target`, which `from` names, lies without symbolic links; `None` where nothing lies there. Fails where that
    /// is outside the folder of `from`.
    fn allowed(&self, from: &StoredFile, name: &str, target: &Path) -> Result<Option<PathBuf>, OpenError> {
        let resolved = target.canonicalize().ok();
        let inside = match &resolved {
            Some(resolved) => resolved.starts_with(from.folder()),
            // What does not exist must at least not climb out by its name.
            None => !climbs(from.folder(), target),
        };
        if inside || self.policy == LinkPolicy::Anywhere {
            return Ok(resolved);
        }
        Err(refused(from, name, "which is not below its own folder"))
    }
}

/// A refusal. It is logged also where a layout only asks what there is, and would take it for nothing.
fn refused(from: &StoredFile, name: &str, why: &'static str) -> OpenError {
    let refused = OpenError::Refused { path: from.path.clone(), name: name.to_owned(), why };
    tracing::warn!("{refused}");
    refused
}

fn root(file: &StoredFile) -> Result<Group, OpenError> {
    file.handle.group("/").map_err(|e| OpenError::object(file, "/", e.to_string()))
}

fn is_dataset(group: &Group, name: &str) -> bool {
    group.loc_type_by_name(name).is_ok_and(|kind| kind == LocationType::Dataset)
}

fn components(path: &str) -> impl DoubleEndedIterator<Item = String> + '_ {
    path.split('/').filter(|part| !part.is_empty() && *part != ".").map(str::to_owned)
}

fn prepend(ahead: &mut VecDeque<String>, target: &str) {
    for part in components(target).rev() {
        ahead.push_front(part);
    }
}

/// Where the library looks for a file that another one names: as it is, where absolute, then beside that one.
fn places(from: &StoredFile, name: &str) -> Vec<PathBuf> {
    let beside = from.folder().join(last_component(name));
    if Path::new(name).is_absolute() { vec![PathBuf::from(name), beside] } else { vec![beside] }
}

/// The last component of an absolute name; a relative name as it is.
fn last_component(name: &str) -> &str {
    if name.starts_with('/') { name.rsplit('/').next().unwrap_or(name) } else { name }
}

/// Whether a path leaves the folder by its very spelling.
fn climbs(folder: &Path, target: &Path) -> bool {
    let Ok(inside) = target.strip_prefix(folder) else { return true };
    inside.components().any(|part| part == std::path::Component::ParentDir)
}

/// Whether a name stands for numbered ones.
fn is_numbered(pattern: &str) -> bool {
    pattern.replace("%%", "").contains("%b")
}

/// The name of a numbered part: `%b` is the number, `%%` a percent sign.
fn numbered(pattern: &str, number: u64) -> String {
    pattern.replace("%%", "\0").replace("%b", &number.to_string()).replace('\0', "%")
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
