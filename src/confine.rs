//! Confinement of the child process that tries files: it gives up the rights that it does not need,
//! as far as the kernel lets it.
//!
//! The child keeps only the right to read the folders of the files on trial. No new privileges
//! (`PR_SET_NO_NEW_PRIVS`), Landlock and a system call filter (seccomp) apply to the calling thread
//! and to the threads that it starts: the child must be confined before it starts its second
//! thread.
//!
//! Nothing here fails: a protection that the kernel lacks is reported, and the child runs without
//! it. The server itself is restricted from outside, by the service manager or the container.

#[cfg(target_os = "linux")]
mod kernel;
#[cfg(all(
    target_os = "linux",
    any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    )
))]
mod syscalls;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use voltile_base::paths::folder_of;

/// The limits that a trial child gets before its first trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// The only folders that the child may read; `None`: all.
    pub read: Option<BTreeSet<PathBuf>>,
    /// The memory that the child may take, in bytes.
    pub memory: u64,
}

impl Bounds {
    /// The bounds of a child that opens `files`: each is a path, and whether the links in that file
    /// may lead anywhere.
    pub fn of<'a>(memory: u64, files: impl IntoIterator<Item = (&'a Path, bool)>) -> Self {
        let mut read = BTreeSet::new();
        for (file, may_lead_anywhere) in files {
            if may_lead_anywhere {
                return Self { read: None, memory };
            }
            // If the path has symbolic links, the folder of their target is read, too.
            let resolved = file.canonicalize().ok();
            for path in [Some(file), resolved.as_deref()].into_iter().flatten() {
                // `/` lies in no folder.
                if path.parent().is_some() {
                    read.insert(folder_of(path).to_owned());
                }
            }
        }
        let read = Some(read);
        Self { read, memory }
    }
}

/// Confines a trial child. Returns the protections that are not in force, and why.
pub fn trial_child(bounds: &Bounds) -> Vec<String> {
    #[cfg(target_os = "linux")]
    return kernel::trial_child(bounds.read.as_ref());
    #[cfg(not(target_os = "linux"))]
    return vec!["only Linux offers what voltile uses".to_owned()];
}
