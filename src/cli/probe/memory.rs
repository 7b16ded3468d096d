//! The memory limit of a trial child.
//!
//! The allocated memory is measured while a trial runs, and a child that exceeds the limit ends
//! itself with [`EXCEEDED`]. If allocations failed instead, libhdf5 would report that like any
//! damaged object, so the file would survive its trial, and the server, which has no memory limit,
//! would then take the memory.
//!
//! The system knows how much is allocated, but a confined process cannot read `/proc`. Hence the
//! system's limit (`RLIMIT_DATA`) is set [`ROOM`] above ours, and a measurement allocates [`ROOM`]
//! for a moment: that fails if more than our limit is allocated already.

use std::io;
use std::thread;
use std::time::Duration;

use signal_hook::low_level;
use voltile_base::flow::start_thread;

use crate::cli::limits;

/// The exit status of a child that exceeds its memory limit.
pub(super) const EXCEEDED: i32 = 77;
/// The difference between the system's limit and ours: 1 TiB.
const ROOM: u64 = 1 << 40;
/// The interval between two measurements: too short for much more than the limit to be written.
const INTERVAL: Duration = Duration::from_millis(5);

/// Limits the memory of this process to `max_bytes` bytes, on a thread of its own. If the memory
/// cannot be measured, allocations beyond the limit fail.
pub(super) fn watch(max_bytes: u64) -> io::Result<()> {
    limits::dump_no_core();
    limits::allow_memory(max_bytes + ROOM);
    if !limits::has_room(ROOM) {
        tracing::debug!("the memory of this process cannot be measured");
        limits::allow_memory(max_bytes);
        return Ok(());
    }
    start_thread("memory", end_if_exceeded)
}

/// Ends the process if the limit is exceeded twice in a row. Once is no reason: a damaged length
/// may lead to an allocation that libhdf5 frees at once, when the file proves to be shorter.
fn end_if_exceeded() {
    let mut was_exceeded = false;
    loop {
        let is_exceeded = !limits::has_room(ROOM);
        if is_exceeded && was_exceeded {
            // Without exit handlers: libhdf5's must not run while another thread is in the library.
            low_level::exit(EXCEEDED);
        }
        was_exceeded = is_exceeded;
        thread::sleep(INTERVAL);
    }
}
