//! Confinement: a process gives up what it does not need, as far as the kernel lets it.
//!
//! A server keeps the right to read the folders of its files and to write its cache, a trial child
//! only the right to read the folders of the files on trial. No new privileges
//! (`PR_SET_NO_NEW_PRIVS`) and Landlock apply to both, a system call filter (seccomp) to the child.
//! All three apply to the calling thread and to those that it starts: a process must be confined
//! before it starts its second thread.
//!
//! Nothing here fails: what the kernel does not offer is reported, and the process runs without it.

mod allowed;
#[cfg(target_os = "linux")]
mod kernel;
mod needs;
#[cfg(target_os = "linux")]
mod program;
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

pub use allowed::{AllowedFolders, Lack};
pub use needs::Needs;
use needs::folders;

/// What a trial child is told before its first trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// Whether the child is to confine itself.
    pub confined: bool,
    /// The only folders that it may read; `None`: all.
    pub read: Option<Vec<String>>,
    /// The memory that it may take, in bytes.
    pub memory: u64,
}

impl Bounds {
    /// The bounds of a child that opens these files; each with whether its links may lead anywhere.
    pub fn of<'a>(
        confined: bool,
        memory: u64,
        files: impl IntoIterator<Item = (&'a Path, bool)>,
    ) -> Self {
        let mut read = Some(BTreeSet::new());
        for (file, anywhere) in files {
            read = read.filter(|_| !anywhere);
            read.iter_mut().for_each(|read| read.extend(folders(file)));
        }
        let text = |folder: PathBuf| folder.to_string_lossy().into_owned();
        Self {
            confined,
            memory,
            read: read.map(|read| read.into_iter().map(text).collect()),
        }
    }
}

/// Confines a server to what it needs. Folders to be written are created if they are missing.
pub fn server(needs: &Needs) -> AllowedFolders {
    let allowed = AllowedFolders::new(needs);
    #[cfg(target_os = "linux")]
    return kernel::server(allowed);
    #[cfg(not(target_os = "linux"))]
    return allowed.not_enforced(ELSEWHERE);
}

/// Confines a trial child. Returns what is not in force, and why; empty if everything is.
pub fn trial_child(bounds: &Bounds) -> Vec<String> {
    if !bounds.confined {
        return vec!["files.confinement is \"off\"".to_owned()];
    }
    #[cfg(target_os = "linux")]
    return kernel::trial_child(bounds.read.as_deref());
    #[cfg(not(target_os = "linux"))]
    return vec![ELSEWHERE.to_owned()];
}

/// Whether this process has all rights of the machine's superuser. The superuser of a user
/// namespace, such as that of a rootless container, has not.
pub fn is_superuser() -> bool {
    // Each line: the first user in the namespace, the first one outside of it, and how many.
    let is_mapped = |map: String| {
        let mut numbers = map.lines().next().unwrap_or_default().split_whitespace();
        (numbers.next(), numbers.next()) != (Some("0"), Some("0"))
    };
    rustix::process::geteuid().is_root()
        && !std::fs::read_to_string("/proc/self/uid_map").is_ok_and(is_mapped)
}

#[cfg(not(target_os = "linux"))]
const ELSEWHERE: &str = "only Linux offers what voltile uses";
