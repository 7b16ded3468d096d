//! A memory-mapped file from which bytes are copied. If the file shrinks during a copy, the result
//! is an error, not a crash.
//!
//! A slice across contiguous data needs a few bytes from each of many rows: with a mapping, each
//! costs a cache line; with `pread`, a system call (`benches/RESULTS.md` has both). But accessing a
//! page beyond the end of the file, or one that the disk fails to read, raises SIGBUS. The signal
//! handler here marks the mapping as broken and maps a page of zeros in place of the missing one;
//! the copy continues and its result is discarded. Each thread registers the range that it copies
//! from, so that the handler ignores other faults. Display servers use the same technique for
//! memory shared by clients.
#![allow(unsafe_code, reason = "maps memory and handles a signal")]

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Part of the range is beyond the end of the file, or cannot be read from the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gone;

/// A read-only mapping of the start of a file.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    length: usize,
    /// Set when a page was missing: the mapping then contains zeros that are not in the file.
    broken: AtomicBool,
}

// SAFETY: the mapping is only ever read, through `lend`; `broken` is atomic.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `length` bytes of a file for reading.
    pub fn new(file: &File, length: u64) -> io::Result<Self> {
        install()?;
        let length = usize::try_from(length).map_err(io::Error::other)?;
        // SAFETY: a new mapping at an address of the system's choice touches no memory of ours.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(start.cast()) {
            Some(start) if !ptr::eq(start.as_ptr(), libc::MAP_FAILED.cast()) => Ok(Self {
                start,
                length,
                broken: AtomicBool::new(false),
            }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The number of mapped bytes.
    pub fn length(&self) -> u64 {
        self.length as u64
    }

    /// Starts reading a range into the page cache (MADV_WILLNEED); it may extend beyond the
    /// mapping.
    pub fn announce(&self, range: &Range<usize>) {
        let start = page_of(range.start.min(self.length));
        let end = range.end.min(self.length);
        // SAFETY: the range lies within the mapping; the advice changes no memory. Failures can be
        // ignored.
        unsafe {
            libc::madvise(
                self.start.as_ptr().add(start).cast(),
                end.saturating_sub(start),
                libc::MADV_WILLNEED,
            );
        }
    }

    /// Reads a range into the page cache and maps its pages (MADV_POPULATE_READ). Returns false if
    /// that fails, as it does before Linux 5.14.
    pub fn populate(&self, range: &Range<usize>) -> bool {
        if range.start > range.end || range.end > self.length {
            return false;
        }
        let start = page_of(range.start);
        // SAFETY: the range lies within the mapping; the advice changes no memory.
        let status = unsafe {
            libc::madvise(
                self.start.as_ptr().add(start).cast(),
                range.end - start,
                libc::MADV_POPULATE_READ,
            )
        };
        status == 0
    }

    /// Calls `work` with a range of the file, from which it copies. Its result is discarded if
    /// bytes were missing. `work` must not wait for other threads.
    pub fn lend<T>(&self, range: Range<usize>, work: impl FnOnce(&[u8]) -> T) -> Result<T, Gone> {
        if range.start > range.end || range.end > self.length {
            return Err(Gone);
        }
        // SAFETY: the range lies within the mapping, which lives as long as `self`, and the handler
        // replaces missing pages. Strictly, the bytes of a shared slice must not change, but other
        // processes may write to the file. `work` only copies elements, each read once; no decision
        // depends on two reads being equal, any byte value is valid, and the copy is discarded if
        // the file has changed. The copy loops take slices instead of raw pointers because they are
        // shared with chunks in memory. libdeflate gets the slice as a pointer. It keeps the bits
        // that it has loaded in variables, decides by these alone, and checks its own pointers, so
        // it neither reads nor writes out of bounds when bytes change.
        let bytes = unsafe {
            std::slice::from_raw_parts(self.start.as_ptr().add(range.start), range.len())
        };
        let watch = Watch {
            start: bytes.as_ptr() as usize,
            length: bytes.len(),
            broken: &raw const self.broken,
        };
        let watching = Watching(WATCHED.replace(Some(watch)));
        let result = work(bytes);
        drop(watching);
        // The flag is set before the page of zeros becomes visible, so that threads that received
        // no signal themselves see it, too.
        if self.broken.load(Ordering::SeqCst) {
            Err(Gone)
        } else {
            Ok(result)
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was created by `new`, and no slice of it outlives `lend`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// The range from which a thread is copying.
#[derive(Clone, Copy)]
struct Watch {
    start: usize,
    length: usize,
    broken: *const AtomicBool,
}

/// Restores the thread's previous watch on drop, even if `work` panics: the handler writes through
/// its pointer.
struct Watching(Option<Watch>);

impl Drop for Watching {
    fn drop(&mut self) {
        WATCHED.set(self.0);
    }
}

thread_local! {
    // Constant-initialised and without destructor, so that reading it in a signal handler does not
    // allocate.
    static WATCHED: Cell<Option<Watch>> = const { Cell::new(None) };
}

/// The page size; a power of two.
static PAGE: AtomicUsize = AtomicUsize::new(4096);

/// The start of the page that contains an address.
fn page_of(address: usize) -> usize {
    address & !(PAGE.load(Ordering::Relaxed) - 1)
}

/// The previous action for SIGBUS.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Installs the handler once per process.
fn install() -> io::Result<()> {
    static INSTALLED: OnceLock<i32> = OnceLock::new();
    let error = *INSTALLED.get_or_init(|| {
        // SAFETY: queries a system constant.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        PAGE.store(
            usize::try_from(page).unwrap_or(4096).next_power_of_two(),
            Ordering::Relaxed,
        );
        // SAFETY: an all-zero sigaction is valid; the pointers are valid for the calls.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut before);
            let _ = BEFORE.set(before);
            let mut ours: libc::sigaction = std::mem::zeroed();
            ours.sa_sigaction = on_bus_error as *const () as usize;
            ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigemptyset(&raw mut ours.sa_mask);
            match libc::sigaction(libc::SIGBUS, &raw const ours, ptr::null_mut()) {
                0 => 0,
                _ => io::Error::last_os_error()
                    .raw_os_error()
                    .unwrap_or(libc::EINVAL),
            }
        }
    });
    if error == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(error))
    }
}

/// Replaces a missing page of the watched range by zeros; any other SIGBUS is passed to the
/// previous handler.
///
/// Uses only what is async-signal-safe: atomics, a constant thread-local, and system calls.
extern "C" fn on_bus_error(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: with SA_SIGINFO the system passes a valid siginfo_t.
    let address = unsafe { (*info).si_addr() } as usize;
    let watched = WATCHED.get().filter(|watch| {
        // The copy loop may load a vector that starts before the range, within the same page.
        (page_of(watch.start)..watch.start + watch.length).contains(&address)
    });
    let Some(watch) = watched else {
        return pass_on(signal, info, context);
    };
    // SAFETY: this thread's `errno`, which must be preserved for the interrupted code.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: the flag belongs to the mapping in `lend`, which lives until the watch is removed.
    unsafe { (*watch.broken).store(true, Ordering::SeqCst) };
    // SAFETY: the page lies within our own mapping; MAP_FIXED replaces it atomically.
    let placed = unsafe {
        libc::mmap(
            page_of(address) as *mut libc::c_void,
            PAGE.load(Ordering::Relaxed),
            libc::PROT_READ,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
            -1,
            0,
        )
    };
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    if placed == libc::MAP_FAILED {
        pass_on(signal, info, context);
    }
}

/// Calls the previous handler; if it takes no `siginfo_t`, reinstalls it instead.
fn pass_on(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let before = BEFORE.get();
    if let Some(before) = before
        && before.sa_flags & libc::SA_SIGINFO != 0
        && ![libc::SIG_DFL, libc::SIG_IGN].contains(&before.sa_sigaction)
    {
        // SAFETY: with SA_SIGINFO the field is a function of this type.
        let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) =
            unsafe { std::mem::transmute(before.sa_sigaction) };
        return handler(signal, info, context);
    }
    // SAFETY: the action was returned by the system. The faulting instruction is retried and raises
    // the signal again.
    unsafe {
        match before {
            Some(before) => _ = libc::sigaction(signal, before, ptr::null_mut()),
            None => _ = libc::signal(signal, libc::SIG_DFL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(bytes: usize) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; bytes]).unwrap();
        file
    }

    #[test]
    fn bytes_are_lent_and_nothing_beyond_the_mapping() {
        let file = file(10_000);
        let mapping = Mapping::new(&file, 10_000).unwrap();
        assert_eq!(mapping.lend(9_990..10_000, <[u8]>::to_vec), Ok(vec![7; 10]));
        assert_eq!(mapping.lend(9_990..10_001, <[u8]>::to_vec), Err(Gone));
        assert_eq!(mapping.lend(0..0, <[u8]>::to_vec), Ok(vec![]));
    }

    #[test]
    fn only_bytes_of_the_file_are_populated() {
        let file = file(10_000);
        let mapping = Mapping::new(&file, 10_000).unwrap();
        assert!(mapping.populate(&(9_000..10_000)));
        assert!(!mapping.populate(&(9_000..10_001)));
        file.set_len(0).unwrap();
        assert!(!mapping.populate(&(9_000..10_000)));
    }

    #[test]
    fn a_panic_while_bytes_are_lent_leaves_nothing_watched() {
        let file = file(10_000);
        let mapping = Mapping::new(&file, 10_000).unwrap();
        let lent = std::panic::AssertUnwindSafe(|| mapping.lend(0..10, |_| panic!("on purpose")));
        assert!(std::panic::catch_unwind(lent).is_err());
        assert!(WATCHED.get().is_none());
    }

    #[test]
    fn a_file_that_was_cut_off_is_noticed_and_the_process_lives() {
        let file = file(1 << 20);
        let mapping = Mapping::new(&file, 1 << 20).unwrap();
        file.set_len(5_000).unwrap();
        assert_eq!(mapping.lend(0..4096, <[u8]>::to_vec), Ok(vec![7; 4096]));
        assert_eq!(mapping.lend(0..1 << 20, <[u8]>::to_vec), Err(Gone));
        // The zeros that replaced missing pages are never returned, even when the file grows again.
        file.set_len(1 << 20).unwrap();
        assert_eq!(mapping.lend(0..4096, <[u8]>::to_vec), Err(Gone));
        assert_eq!(
            Mapping::new(&file, 1 << 20)
                .unwrap()
                .lend(0..8, <[u8]>::to_vec),
            Ok(vec![7; 8])
        );
    }

    #[test]
    fn threads_that_copy_while_a_file_is_cut_off_see_whole_data_or_an_error() {
        let file = file(1 << 22);
        let mapping = Mapping::new(&file, 1 << 22).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while let Ok(bytes) = mapping.lend(0..1 << 22, <[u8]>::to_vec) {
                        assert!(bytes.iter().all(|byte| *byte == 7));
                    }
                });
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
            file.set_len(4096 * 3).unwrap();
        });
    }
}
