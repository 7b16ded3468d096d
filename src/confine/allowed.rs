//! The folders that a confined server can reach: told at the start, and asked before other settings
//! take effect.

use std::collections::BTreeSet;
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::needs::{Needs, resolved};
use crate::config::Settings;
use crate::store::Location;

/// The most folders named in one line of the log.
const MAX_NAMED: usize = 8;

/// The folders that this process can read and write until it ends.
#[derive(Debug, Clone)]
pub struct AllowedFolders {
    /// Symbolic links are resolved, and no folder is below another one.
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
    /// Where Unix sockets can be created.
    sockets: Vec<PathBuf>,
    /// The dataset because of which reading is not restricted.
    anywhere: Option<String>,
    /// Folders that are needed but do not exist.
    missing: Vec<PathBuf>,
    force: Force,
    /// `/proc/self`, kept open: its inode, which has the permission to be read, is made anew once
    /// nobody uses it.
    _process: Option<Arc<OwnedFd>>,
}

/// What the kernel enforces.
#[derive(Debug, Clone)]
enum Force {
    Full,
    /// An older kernel's share of it.
    Partial,
    /// Nothing of the folders, and why.
    Nothing(String),
}

/// Something that settings need and that a confined process cannot get until it is started again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lack {
    /// This folder or file cannot be read.
    Reading(PathBuf),
    /// Files cannot be created in this folder.
    Writing(PathBuf),
    /// This dataset needs `allow_external`.
    Anywhere(String),
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lack::Reading(path) => {
                write!(
                    f,
                    "{} is outside of the folders that voltile may read",
                    path.display()
                )
            }
            Lack::Writing(path) => {
                write!(
                    f,
                    "{} is outside of the folders that voltile may write",
                    path.display()
                )
            }
            Lack::Anywhere(token) => {
                write!(
                    f,
                    "datasets.{token}.allow_external needs all folders, but voltile may read only some"
                )
            }
        }?;
        f.write_str(
            " since it was started, and they cannot be changed while it runs: restart it (see files.confinement)",
        )
    }
}

impl AllowedFolders {
    /// What is asked of the kernel. Creates the folders to be written.
    pub(super) fn new(needs: &Needs) -> Self {
        let missing = needs.made();
        let there = |folders: &BTreeSet<PathBuf>| {
            topmost(
                folders
                    .iter()
                    .filter(|folder| folder.is_dir())
                    .map(|folder| resolved(folder)),
            )
        };
        Self {
            read: there(&needs.read),
            write: there(&needs.write),
            sockets: there(&needs.sockets),
            anywhere: needs.anywhere.clone(),
            missing,
            force: Force::Full,
            _process: None,
        }
    }

    /// Everything: `files.confinement = "off"`.
    pub fn unconfined() -> Self {
        Self::new(&Needs::default()).not_enforced("files.confinement is \"off\"")
    }

    pub(super) fn not_enforced(self, why: &str) -> Self {
        Self {
            force: Force::Nothing(why.to_owned()),
            ..self
        }
    }

    #[cfg(target_os = "linux")]
    pub(super) fn partly_enforced(self) -> Self {
        Self {
            force: Force::Partial,
            ..self
        }
    }

    #[cfg(target_os = "linux")]
    pub(super) fn keeping(self, process: OwnedFd) -> Self {
        Self {
            _process: Some(Arc::new(process)),
            ..self
        }
    }

    /// The folders to be read; `None`: all.
    pub(super) fn read(&self) -> Option<&[PathBuf]> {
        self.anywhere.is_none().then_some(&self.read)
    }

    /// The folders to be written.
    pub(super) fn write(&self) -> &[PathBuf] {
        &self.write
    }

    /// The folders in which Unix sockets are created.
    pub(super) fn sockets(&self) -> &[PathBuf] {
        &self.sockets
    }

    /// Folders that did not exist when the process was confined, and that it therefore cannot
    /// reach.
    pub fn missing(&self) -> &[PathBuf] {
        match self.force {
            Force::Nothing(_) => &[],
            Force::Full | Force::Partial => &self.missing,
        }
    }

    /// The first thing that these settings need and that this process cannot get. Files that were
    /// found in a folder are not asked for: those that cannot be read are left out.
    pub fn lacks(&self, settings: &Settings) -> Option<Lack> {
        if let Force::Nothing(_) = self.force {
            return None;
        }
        let needs = Needs::of_named(settings);
        let reading = || needs.read.iter().find_map(|folder| self.lacks_path(folder));
        let outside = |needed: &BTreeSet<PathBuf>, folders: &[PathBuf]| {
            needed
                .iter()
                .find(|folder| !lies_in(folder, folders))
                .cloned()
                .map(Lack::Writing)
        };
        let writing = || {
            outside(&needs.write, &self.write).or_else(|| outside(&needs.sockets, &self.sockets))
        };
        let anywhere = || {
            needs
                .anywhere
                .clone()
                .filter(|_| self.anywhere.is_none())
                .map(Lack::Anywhere)
        };
        reading().or_else(writing).or_else(anywhere)
    }

    /// Whether a file cannot be read. An object in a store can be if what connections take can be.
    pub fn lacks_file(&self, file: &Location) -> Option<Lack> {
        self.lacks_path(file.path().unwrap_or(Path::new("/etc")))
    }

    /// Whether a file or folder, with symbolic links resolved, cannot be read.
    fn lacks_path(&self, path: &Path) -> Option<Lack> {
        let can_read = match self.force {
            Force::Nothing(_) => true,
            Force::Full | Force::Partial => {
                self.anywhere.is_some() || lies_in(path, &self.read) || lies_in(path, &self.write)
            }
        };
        (!can_read).then(|| Lack::Reading(path.to_owned()))
    }
}

impl fmt::Display for AllowedFolders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let extent = match &self.force {
            Force::Nothing(why) => {
                return write!(f, "reading and writing are not restricted: {why}");
            }
            Force::Full => "",
            Force::Partial => ", as far as this kernel's Landlock goes",
        };
        match &self.anywhere {
            None => write!(f, "reading is restricted to {}", named(&self.read))?,
            Some(token) => write!(
                f,
                "reading is not restricted, as datasets.{token}.allow_external = true"
            )?,
        }
        write!(f, "; writing is restricted to {}", named(&self.write))?;
        if !self.sockets.is_empty() {
            write!(f, ", and to sockets in {}", named(&self.sockets))?;
        }
        f.write_str(extent)
    }
}

/// The first folders of a list.
fn named(folders: &[PathBuf]) -> String {
    let mut names: Vec<String> = folders
        .iter()
        .take(MAX_NAMED)
        .map(|folder| folder.display().to_string())
        .collect();
    match folders.len() {
        0 => return "no folder".to_owned(),
        count if count > MAX_NAMED => names.push(format!("{} more folders", count - MAX_NAMED)),
        _ => {}
    }
    names.join(", ")
}

fn lies_in(path: &Path, folders: &[PathBuf]) -> bool {
    let path = resolved(path);
    folders.iter().any(|folder| path.starts_with(folder))
}

/// The folders that are not below another one.
fn topmost(folders: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut top: Vec<PathBuf> = Vec::new();
    // A folder is sorted before those below it, which follow it directly.
    for folder in folders.collect::<BTreeSet<_>>() {
        if !top.last().is_some_and(|above| folder.starts_with(above)) {
            top.push(folder);
        }
    }
    top
}
