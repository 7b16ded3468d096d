//! Rights and resource limits of this process: files, memory, CPU time.
//!
//! A limit that cannot be set is left as it is: the limits guard against damage, and nothing else
//! depends on them.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

/// Raises the soft limit of open files to the hard limit: a volume may be spread over thousands of
/// files.
pub(super) fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    set(Resource::Nofile, limit.maximum);
}

/// Keeps child processes from inheriting descriptors that were open when this process started, such
/// as a secret's descriptor.
pub(super) fn close_for_children() {
    let open = std::fs::read_dir("/dev/fd").into_iter().flatten().flatten();
    let numbers = open.filter_map(|entry| entry.file_name().to_str()?.parse::<libc::c_int>().ok());
    for number in numbers.filter(|number| *number > libc::STDERR_FILENO) {
        #[allow(unsafe_code, reason = "a call into the C library")]
        // SAFETY: it takes numbers, and only sets a flag of a descriptor.
        unsafe {
            libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC);
        }
    }
}

/// Limits glibc malloc to one arena for every eight processors. Must be called before any other
/// thread starts.
///
/// By default each thread has its own arena, which keeps freed memory: as threads take turns
/// rendering, the process ends up holding half as much again as it uses. A `MALLOC_ARENA_MAX` in
/// the environment takes precedence.
pub(super) fn share_arenas() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    if std::env::var_os("MALLOC_ARENA_MAX").is_none() {
        const PROCESSORS_PER_ARENA: usize = 8;
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let arenas = i32::try_from(processors.div_ceil(PROCESSORS_PER_ARENA)).unwrap_or(1);
        #[allow(unsafe_code, reason = "a call into the C library")]
        // SAFETY: it takes two numbers, and only changes how many arenas are created from now on.
        let set = unsafe { libc::mallopt(libc::M_ARENA_MAX, arenas) };
        if set == 0 {
            tracing::debug!("the number of arenas cannot be set");
        }
    }
}

/// The number of data files that may be open at once: each takes a descriptor, and half of all
/// descriptors are for clients.
pub(super) fn max_files() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit / 2).unwrap_or(usize::MAX)
}

/// Descriptors used for neither data files nor clients: logs, the cache directory, libraries, trial
/// children.
const OTHER_DESCRIPTORS: usize = 64;
/// Descriptors owned by each HTTP thread.
const WORKER_DESCRIPTORS: usize = 4;

/// The number of descriptors that are left for client connections: the half that data files do not
/// take, without the descriptors that the rest of the server needs.
pub(super) fn max_connections(workers: usize) -> usize {
    // For a system whose limit is too low for all of these.
    const LEAST: usize = 16;
    let others = OTHER_DESCRIPTORS.saturating_add(WORKER_DESCRIPTORS.saturating_mul(workers));
    max_files().saturating_sub(others).max(LEAST)
}

/// The memory of the machine in bytes. Not from `/proc/meminfo`, which a service manager may hide.
pub(super) fn physical_memory() -> Option<u64> {
    #[allow(unsafe_code, reason = "calls into the C library")]
    // SAFETY: they only return numbers.
    let (pages, page_size) = unsafe {
        (
            libc::sysconf(libc::_SC_PHYS_PAGES),
            libc::sysconf(libc::_SC_PAGESIZE),
        )
    };
    let pages = u64::try_from(pages).ok()?;
    pages.checked_mul(u64::try_from(page_size).ok()?)
}

/// Whether this process has all rights of the machine's superuser. The superuser of a user
/// namespace, as in a rootless container, does not.
pub(super) fn is_superuser() -> bool {
    if !rustix::process::geteuid().is_root() {
        return false;
    }
    // Each line has the first user in the namespace, the first user outside of it, and the count:
    // `0 0 4294967295` on the machine itself, `0 1000 1` in a rootless container. An unreadable map
    // counts as the machine's.
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let mut users = map.split_whitespace().take(2);
    users.all(|user| user == "0")
}

/// Makes allocations fail beyond `bytes` of memory; mapped files do not count.
pub(super) fn allow_memory(bytes: u64) {
    set(Resource::Data, Some(bytes));
}

/// Whether this many bytes more can be allocated within the limit. Takes them for a moment, and
/// writes nothing to them.
pub(super) fn has_room(bytes: u64) -> bool {
    let Ok(length) = usize::try_from(bytes) else {
        return false;
    };
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // Without MAP_NORESERVE the system may refuse a mapping that is larger than its memory.
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    #[allow(unsafe_code, reason = "calls into the C library")]
    // SAFETY: a new mapping, where the system likes, that nothing uses and that is unmapped at
    // once.
    unsafe {
        let mapped = libc::mmap(std::ptr::null_mut(), length, access, kind, -1, 0);
        mapped != libc::MAP_FAILED && libc::munmap(mapped, length) == 0
    }
}

/// Keeps a crash from writing the memory of the process to a file.
pub(super) fn dump_no_core() {
    set(Resource::Core, Some(0));
}

/// Kills the process after `seconds` more of CPU time.
pub(super) fn allow_cpu_seconds(seconds: u64) {
    let so_far = clock_gettime(ClockId::ProcessCPUTime).tv_sec;
    // Plus 1, because the time so far is rounded down.
    let limit = so_far.unsigned_abs() + 1 + seconds;
    set(Resource::Cpu, Some(limit));
}

/// Sets the soft limit, at most to the hard limit, which stays as it is; `None` is unlimited.
fn set(resource: Resource, wanted: Option<u64>) {
    let maximum = getrlimit(resource).maximum;
    let current = wanted.into_iter().chain(maximum).min();
    if let Err(error) = setrlimit(resource, Rlimit { current, maximum }) {
        tracing::debug!("the limit of {resource:?} cannot be set to {current:?}: {error}");
    }
}
