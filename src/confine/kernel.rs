//! Landlock: the rules that the kernel enforces.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, PathFd,
    RestrictionStatus, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError,
    RulesetStatus, Scope,
};
use rustix::fs::{Mode, OFlags};

use super::allowed::AllowedFolders;
use super::program::{self, NULL, PROCESS};

/// The version whose kinds of access a server gives up. Later ones restrict connections to Unix
/// sockets, such as the one of the service manager.
const SERVER: ABI = ABI::V6;
/// The version whose kinds of access a trial child gives up: all that are known.
const CHILD: ABI = ABI::V10;

/// Restricts this thread, and those that it starts, to what a server needs.
pub(super) fn server(allowed: AllowedFolders) -> AllowedFolders {
    // Some container runtimes forbid Landlock, but not this.
    if let Err(error) = rustix::thread::set_no_new_privs(true) {
        tracing::warn!("privileges gained by executing files cannot be given up: {error}");
    }
    // Opened first: afterwards, it could not be.
    let process = rustix::fs::open(PROCESS, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let allowed = match process {
        Ok(process) => allowed.keeping(process),
        Err(_) => allowed,
    };
    match restrict_server(&allowed) {
        Ok(status) => match (status.ruleset, without(&status.landlock)) {
            (RulesetStatus::FullyEnforced, _) => allowed,
            (RulesetStatus::PartiallyEnforced, _) => allowed.partly_enforced(),
            (RulesetStatus::NotEnforced, why) => allowed.not_enforced(why),
        },
        Err(error) => allowed.not_enforced(&format!("Landlock failed: {error}")),
    }
}

/// Restricts this thread to reading what a trial child needs. Returns what is not in force.
pub(super) fn trial_child(read: Option<&[String]>) -> Vec<String> {
    let landlock = match restrict_child(read) {
        Ok(RestrictionStatus {
            ruleset: RulesetStatus::NotEnforced,
            landlock,
            ..
        }) => Some(without(&landlock).to_owned()),
        Ok(_) => None,
        Err(error) => Some(format!("Landlock failed: {error}")),
    };
    let filter = filter()
        .err()
        .map(|why| format!("there is no filter of system calls: {why}"));
    landlock.into_iter().chain(filter).collect()
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

fn without(status: &LandlockStatus) -> &'static str {
    match status {
        LandlockStatus::NotEnabled => {
            "Landlock is not enabled in this kernel (see its parameter lsm=)"
        }
        _ => "the kernel has no Landlock, or the container forbids it",
    }
}

fn restrict_server(allowed: &AllowedFolders) -> Result<RestrictionStatus, RulesetError> {
    let all = AccessFs::from_all(SERVER);
    let handled = if allowed.read().is_some() {
        all
    } else {
        all & !reading()
    };
    let rules = Ruleset::default()
        .handle_access(handled)?
        .scope(Scope::Signal)?
        .create()?;
    let mut rules = Rules { rules, handled };
    for path in allowed.read().into_iter().flatten() {
        rules.allow(path, reading())?;
    }
    for path in allowed.write() {
        rules.allow(path, writing() | reading())?;
    }
    for path in allowed.sockets() {
        rules.allow(path, AccessFs::MakeSock | AccessFs::RemoveFile)?;
    }
    for path in program::read().chain([PathBuf::from(PROCESS)]) {
        rules.allow(&path, reading())?;
    }
    for path in program::executed() {
        rules.allow(&path, AccessFs::Execute | AccessFs::ReadFile)?;
    }
    rules.allow(Path::new(NULL), AccessFs::ReadFile | AccessFs::WriteFile)?;
    rules.rules.restrict_self()
}

fn restrict_child(read: Option<&[String]>) -> Result<RestrictionStatus, RulesetError> {
    let all = AccessFs::from_all(CHILD);
    let handled = if read.is_some() {
        all
    } else {
        all & !reading()
    };
    let rules = Ruleset::default()
        .handle_access(handled)?
        .handle_access(AccessNet::from_all(CHILD))?
        .scope(Scope::from_all(CHILD))?
        .create()?;
    let mut rules = Rules { rules, handled };
    for folder in read.into_iter().flatten() {
        rules.allow(Path::new(folder), reading())?;
    }
    rules.rules.restrict_self()
}

fn reading() -> BitFlags<AccessFs> {
    AccessFs::ReadFile | AccessFs::ReadDir
}

/// Everything that changes regular files and folders; no devices, FIFOs, sockets and symbolic
/// links.
fn writing() -> BitFlags<AccessFs> {
    AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::MakeReg
        | AccessFs::MakeDir
        | AccessFs::RemoveFile
        | AccessFs::RemoveDir
        | AccessFs::Refer
}

struct Rules {
    rules: RulesetCreated,
    /// The kinds of access that rules can allow.
    handled: BitFlags<AccessFs>,
}

impl Rules {
    /// Allows some kinds of access to a file, or below a folder. Ignores what does not exist.
    fn allow(
        &mut self,
        path: &Path,
        access: impl Into<BitFlags<AccessFs>>,
    ) -> Result<(), RulesetError> {
        let Ok(handle) = PathFd::new(path) else {
            return Ok(());
        };
        let of_path = if path.is_dir() {
            access.into()
        } else {
            access.into() & AccessFs::from_file(SERVER)
        };
        let access = of_path & self.handled;
        if !access.is_empty() {
            (&mut self.rules).add_rule(PathBeneath::new(handle, access))?;
        }
        Ok(())
    }
}
