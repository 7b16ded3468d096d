//! Follows paths through a file by hand, so that no link is taken without asking where it leads.
//!
//! A file can name other files: by external links, as raw storage, as parts of virtual datasets. What such a name
//! resolves to must lie below the folder of the file that names it, symbolic links resolved; otherwise a volume
//! that someone was sent could show any file that the server may read. `allow_external` lifts the rule. The library
//! itself is only ever given hard links to follow, and only datasets that have been audited are read.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hdf5::plist::dataset_create::Layout;
use hdf5::{Dataset, Group, LocationType};

use super::OpenError;
use super::file::{Files, StoredFile};
use super::library::{self, Link};

/// How many soft and external links may follow each other, and how deep virtual datasets may nest.
const MOST_LINKS: usize = 32;
/// How many numbered parts of a virtual dataset are looked at.
const MOST_NUMBERED_PARTS: u64 = 100_000;

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
}

/// An object of a file.
#[derive(Debug)]
pub(super) enum Node {
    Group(Group),
    Dataset(Dataset),
}

/// Follows paths under one policy.
pub(super) struct Follower<'a> {
    pub files: &'a Files,
    pub policy: LinkPolicy,
}

impl Follower<'_> {
    /// The dataset at `path`, once everything that reading it would open has been found allowed.
    pub fn dataset(&self, file: &Arc<StoredFile>, path: &str) -> Result<Found<Dataset>, OpenError> {
        let found = self.unaudited_dataset(file, path)?;
        self.audit(&found, 0)?;
        Ok(found)
    }

    fn unaudited_dataset(&self, file: &Arc<StoredFile>, path: &str) -> Result<Found<Dataset>, OpenError> {
        let Found { file, object } = self.follow(file, path)?;
        match object {
            Node::Dataset(object) => Ok(Found { file, object }),
            Node::Group(_) => {
                Err(OpenError::object(&file, path, "it is a group; a dataset is expected".to_owned()))
            }
        }
    }

    /// The group or dataset at `path`. A dataset had this way must not be read.
    pub fn follow(&self, file: &Arc<StoredFile>, path: &str) -> Result<Found<Node>, OpenError> {
        let mut file = Arc::clone(file);
        let mut group = root(&file)?;
        let mut ahead: VecDeque<String> = components(path).collect();
        let mut links = 0;
        while let Some(name) = ahead.pop_front() {
            let wrong = |problem: String| OpenError::object(&file, path, problem);
            match library::link(&group, &name).map_err(|e| wrong(e.to_string()))? {
                Link::Missing => return Err(wrong(format!("there is no {name:?} in {}", group.name()))),
                Link::Hard if ahead.is_empty() && is_dataset(&group, &name) => {
                    let dataset = library::open_dataset(&group, &name)
                        .map_err(|e| wrong(format!("it cannot be opened as a dataset ({e})")))?;
                    return Ok(Found { file, object: Node::Dataset(dataset) });
                }
                Link::Hard => {
                    group = group
                        .group(&name)
                        .map_err(|e| wrong(format!("{name:?} cannot be opened as a group ({e})")))?;
                }
                Link::Soft(target) => {
                    if target.starts_with('/') {
                        group = root(&file)?;
                    }
                    prepend(&mut ahead, &target);
                    links += 1;
                }
                Link::External { file: other, path: target } => {
                    file = self.external_file(&file, path, &other)?;
                    group = root(&file)?;
                    prepend(&mut ahead, &target);
                    links += 1;
                }
            }
            if links > MOST_LINKS {
                return Err(OpenError::object(&file, path, "its links lead in a circle".to_owned()));
            }
        }
        Ok(Found { file, object: Node::Group(group) })
    }

    fn external_file(
        &self,
        from: &Arc<StoredFile>,
        path: &str,
        name: &str,
    ) -> Result<Arc<StoredFile>, OpenError> {
        let candidates = places(from, name);
        let target = candidates.iter().find(|candidate| candidate.exists()).ok_or_else(|| {
            OpenError::object(from, path, format!("it links to the file {name:?}, which does not exist"))
        })?;
        self.allow(from, name, target)?;
        self.files.open(target)
    }

    /// Checks every file that reading the dataset would open, and theirs in turn.
    fn audit(&self, found: &Found<Dataset>, depth: usize) -> Result<(), OpenError> {
        if self.policy == LinkPolicy::Anywhere {
            return Ok(());
        }
        let name = found.object.name();
        let wrong = |problem: String| OpenError::object(&found.file, &name, problem);
        if depth > MOST_LINKS {
            return Err(wrong("virtual datasets refer to each other without end".to_owned()));
        }
        for raw in library::raw_files(&found.object).map_err(|e| wrong(e.to_string()))? {
            self.allow(&found.file, &raw, &found.file.folder().join(&raw))?;
        }
        if found.object.layout() != Layout::Virtual {
            return Ok(());
        }
        for (file, dataset) in library::virtual_sources(&found.object).map_err(|e| wrong(e.to_string()))? {
            self.audit_source(found, &file, &dataset, depth)?;
        }
        Ok(())
    }

    /// Checks one mapping of a virtual dataset; names with `%b` stand for numbered files or datasets.
    fn audit_source(
        &self,
        found: &Found<Dataset>,
        file: &str,
        dataset: &str,
        depth: usize,
    ) -> Result<(), OpenError> {
        let numbered = file.contains('%') || dataset.contains('%');
        for number in 0..if numbered { MOST_NUMBERED_PARTS } else { 1 } {
            let (file, dataset) = (numbered_name(file, number), numbered_name(dataset, number));
            if !self.audit_part(found, &file, &dataset, depth)? {
                break;
            }
        }
        Ok(())
    }

    /// Checks one part; `false` where it does not exist, which is no fault: it reads as the fill value.
    fn audit_part(
        &self,
        found: &Found<Dataset>,
        file: &str,
        dataset: &str,
        depth: usize,
    ) -> Result<bool, OpenError> {
        let source = if file == "." {
            Arc::clone(&found.file)
        } else {
            // The library tries these and the working directory: none that exists may lie outside.
            let mut candidates = places(&found.file, file);
            candidates.push(PathBuf::from(last_component(file)));
            candidates.retain(|candidate| candidate.exists());
            for candidate in &candidates {
                self.allow(&found.file, file, candidate)?;
            }
            let Some(first) = candidates.first() else { return Ok(false) };
            self.files.open(first)?
        };
        match self.unaudited_dataset(&source, dataset) {
            Ok(part) => self.audit(&part, depth + 1).map(|()| true),
            Err(refused @ OpenError::Refused { .. }) => Err(refused),
            Err(_) => Ok(false),
        }
    }

    /// Fails where `target`, which `from` names, lies outside the folder of `from`.
    fn allow(&self, from: &StoredFile, name: &str, target: &Path) -> Result<(), OpenError> {
        if self.policy == LinkPolicy::Anywhere {
            return Ok(());
        }
        let refused = || OpenError::Refused { path: from.path.clone(), name: name.to_owned() };
        let resolved = match target.canonicalize() {
            Ok(resolved) => resolved,
            // What does not exist must at least not climb out by its name.
            Err(_) if climbs(from.folder(), target) => return Err(refused()),
            Err(_) => return Ok(()),
        };
        if resolved.starts_with(from.folder()) { Ok(()) } else { Err(refused()) }
    }
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

/// Where the library would look for a file that another one names: as it is, then beside that one.
fn places(from: &StoredFile, name: &str) -> Vec<PathBuf> {
    let beside = from.folder().join(last_component(name));
    if Path::new(name).is_absolute() {
        vec![PathBuf::from(name), beside]
    } else {
        vec![from.folder().join(name)]
    }
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

/// The name of a numbered part: `%b` is the number, `%%` a percent sign.
fn numbered_name(pattern: &str, number: u64) -> String {
    pattern.replace("%%", "\0").replace("%b", &number.to_string()).replace('\0', "%")
}
