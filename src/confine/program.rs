//! What the program itself needs: to run its own binary as a trial child, and what the C library
//! reads.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Folders of shared libraries, read by the dynamic linker.
const LIBRARIES: [&str; 4] = ["/lib", "/lib64", "/usr/lib", "/usr/lib64"];
/// Read by the dynamic linker; to resolve host names; to convert times in files; and for the number
/// of processors that a container may use.
const SYSTEM: [&str; 13] = [
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/gai.conf",
    "/etc/nsswitch.conf",
    "/etc/services",
    "/etc/protocols",
    "/etc/ssl/certs",
    "/etc/localtime",
    "/usr/share/zoneinfo",
    "/sys/fs/cgroup",
];
/// Where a process sees itself.
pub(super) const PROCESS: &str = "/proc/self";
/// A child's standard streams are directed there.
pub(super) const NULL: &str = "/dev/null";

/// Files and folders to be read.
pub(super) fn read() -> impl Iterator<Item = PathBuf> {
    LIBRARIES
        .iter()
        .chain(&SYSTEM)
        .map(PathBuf::from)
        .chain(mapped())
}

/// Files and folders to be executed: the binary, and the folder of the dynamic linker, which starts
/// it: packages are upgraded by putting another file in its place.
pub(super) fn executed() -> BTreeSet<PathBuf> {
    let linkers = mapped().into_iter().filter(|file| is_linker(file));
    let folders = linkers.filter_map(|file| file.parent().map(Path::to_owned));
    folders
        .chain(std::env::current_exe().ok())
        .chain([PathBuf::from("/proc/self/exe")])
        .collect()
}

/// The files that are mapped into this process: its binary, shared libraries and the dynamic
/// linker.
fn mapped() -> BTreeSet<PathBuf> {
    let maps = std::fs::read("/proc/self/maps").unwrap_or_default();
    maps.split(|byte| *byte == b'\n')
        .filter_map(mapped_file)
        .collect()
}

/// The file of a line such as `7f9c4a000000-7f9c4a026000 r-xp 00000000 fe:00 1234    /usr/lib/libc.so.6`.
fn mapped_file(line: &[u8]) -> Option<PathBuf> {
    let from = line.iter().position(|byte| *byte == b'/')?;
    Some(PathBuf::from(OsStr::from_bytes(&line[from..])))
}

fn is_linker(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().as_bytes();
    name.starts_with(b"ld-") || name.starts_with(b"ld.so") || name.starts_with(b"ld64.so")
}
