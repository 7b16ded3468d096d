//! What this process may take of the machine: files, memory, time.
//!
//! Limits that cannot be set are left as they are: they guard against damage, and nothing else rests on them.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

/// Has the process keep as many files open as the system lets it: a volume may be spread over thousands.
pub(super) fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    set(Resource::Nofile, limit.maximum);
}

/// Has all threads share one arena of the C library's allocator, or one for every eight processors: to be called before
/// there is any other thread.
///
/// As it is, each thread has one of its own, which keeps what it once held: where the threads take turns at drawing, the
/// process comes to hold half as much again as it uses. Who sets `MALLOC_ARENA_MAX` knows better.
pub(super) fn share_arenas() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    if std::env::var_os("MALLOC_ARENA_MAX").is_none() {
        const PROCESSORS: usize = 8;
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let arenas = i32::try_from(processors.div_ceil(PROCESSORS)).unwrap_or(1);
        #[allow(unsafe_code, reason = "a call into the C library")]
        // SAFETY: it takes two numbers, and changes nothing but how many arenas are made from now on.
        let set = unsafe { libc::mallopt(libc::M_ARENA_MAX, arenas) };
        if set == 0 {
            tracing::debug!("the number of arenas cannot be set");
        }
    }
}

/// How many data files may be open at once: each takes two descriptors, and half of all are for clients.
pub(super) fn most_files() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit / 4).unwrap_or(usize::MAX)
}

/// Descriptors that are neither data files' nor clients': logs, the cache directory, libraries, trial children.
const RESERVE: usize = 64;
/// Descriptors of each HTTP thread's own.
const FOR_EACH_WORKER: usize = 4;

/// How many descriptors clients' connections may take: the half that data files do not, without a reserve.
pub(super) fn most_connections(workers: usize) -> usize {
    const LEAST: usize = 16;
    let half = most_files().saturating_mul(2);
    half.saturating_sub(RESERVE.saturating_add(FOR_EACH_WORKER.saturating_mul(workers))).max(LEAST)
}

/// Has the process end rather than take more memory than so many bytes; files that are mapped do not count.
pub(super) fn allow_memory(bytes: u64) {
    set(Resource::Data, Some(bytes));
    set(Resource::Core, Some(0));
}

/// Has the process end once it has computed for so many more seconds.
pub(super) fn allow_computing(seconds: u64) {
    let so_far = clock_gettime(ClockId::ProcessCPUTime).tv_sec;
    set(Resource::Cpu, u64::try_from(so_far).ok().map(|so_far| so_far + 1 + seconds));
}

/// Sets what holds now; what it may be set to stays as it is.
fn set(resource: Resource, current: Option<u64>) {
    let maximum = getrlimit(resource).maximum;
    let current = match (current, maximum) {
        (Some(current), Some(maximum)) => Some(current.min(maximum)),
        (current, maximum) => current.or(maximum),
    };
    if let Err(error) = setrlimit(resource, Rlimit { current, maximum }) {
        tracing::debug!("the limit of {resource:?} cannot be set to {current:?}: {error}");
    }
}
