//! Confines the calling thread by what the kernel offers: Landlock, and the filter of system calls.

use std::collections::BTreeSet;
use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, LandlockStatus, PathBeneath, PathFd, RestrictionStatus,
    Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

/// The newest version of Landlock that is known here: a trial child gives up all kinds of access
/// that this version knows.
const KNOWN_VERSION: ABI = ABI::V10;

/// Restricts this thread to reading what a trial child needs. Returns the protections that are
/// not in force.
pub(super) fn trial_child(read: Option<&BTreeSet<PathBuf>>) -> Vec<String> {
    let mut lacking = Vec::new();
    match restrict(read) {
        Ok(status) if status.ruleset == RulesetStatus::NotEnforced => {
            lacking.push(reason(&status.landlock).to_owned());
        }
        Ok(_) => {}
        Err(error) => lacking.push(format!("Landlock failed: {error}")),
    }
    if let Err(why) = filter() {
        lacking.push(format!("there is no filter of system calls: {why}"));
    }
    lacking
}

/// Filters the system calls of this thread.
#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
))]
fn filter() -> Result<(), String> {
    super::syscalls::filter().map_err(|error| error.to_string())
}

#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
)))]
fn filter() -> Result<(), String> {
    Err("voltile has none for this processor".to_owned())
}

/// Why Landlock restricts nothing.
fn reason(status: &LandlockStatus) -> &'static str {
    match status {
        LandlockStatus::NotEnabled => {
            "Landlock is not enabled in this kernel (see its parameter lsm=)"
        }
        _ => "the kernel has no Landlock, or the container forbids it",
    }
}

/// Applies Landlock: only the folders `read` can be read (`None`: everything can), no file can be
/// written, and there is no network. Folders that do not exist are passed over.
fn restrict(read: Option<&BTreeSet<PathBuf>>) -> Result<RestrictionStatus, RulesetError> {
    let reading = AccessFs::ReadFile | AccessFs::ReadDir;
    // The accesses that are denied unless a rule below allows them.
    let mut handled = AccessFs::from_all(KNOWN_VERSION);
    if read.is_none() {
        handled &= !reading;
    }
    let mut rules = Ruleset::default()
        .handle_access(handled)?
        .handle_access(AccessNet::from_all(KNOWN_VERSION))?
        .scope(Scope::from_all(KNOWN_VERSION))?
        .create()?;
    for folder in read.into_iter().flatten() {
        if let Ok(folder) = PathFd::new(folder) {
            rules = rules.add_rule(PathBeneath::new(folder, reading))?;
        }
    }
    rules.restrict_self()
}
