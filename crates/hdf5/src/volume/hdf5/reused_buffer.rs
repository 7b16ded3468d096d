//! Reuses the buffer of an evicted chunk for the next chunk that this thread decodes.
//!
//! The thread that inserts a chunk into the cache also drops the chunks that are evicted for it.
//! Without reuse, their buffers would be returned to the malloc arenas of the threads that
//! allocated them, and this thread would allocate and clear a new one in its own arena: the arenas
//! then grow to one and a half times the size of the cached data.

use std::cell::Cell;
use std::ops::RangeInclusive;

/// The sizes in bytes of buffers that are reused: smaller ones are cheap to allocate, larger ones
/// take too much memory.
const REUSED_SIZES: RangeInclusive<usize> = 32 << 10..=2 << 20;

thread_local! {
    static BUFFER: Cell<Option<Vec<u8>>> = const { Cell::new(None) };
}

/// A buffer of `length` bytes with arbitrary contents.
pub(super) fn take(length: usize) -> Vec<u8> {
    match BUFFER.take() {
        Some(buffer) if buffer.len() == length => buffer,
        other => {
            BUFFER.set(other);
            vec![0; length]
        }
    }
}

/// Keeps a buffer for the next call of [`take`] on this thread.
pub(super) fn give(buffer: Vec<u8>) {
    if REUSED_SIZES.contains(&buffer.len()) {
        // Fails while the thread ends, when the buffer is no longer needed.
        let _ = BUFFER.try_with(|kept| kept.set(Some(buffer)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_of_the_same_length_is_taken_again_and_once() {
        give(vec![7; 1 << 16]);
        assert_eq!(
            (take(1 << 16), take(1 << 16)),
            (vec![7; 1 << 16], vec![0; 1 << 16])
        );
        give(vec![7; 1 << 16]);
        assert_eq!(take(1 << 15), vec![0; 1 << 15]);
        assert_eq!(take(1 << 16), vec![7; 1 << 16]);
    }

    #[test]
    fn what_is_too_small_or_too_large_is_not_kept() {
        for length in [1 << 10, 4 << 20] {
            give(vec![7; length]);
            assert!(take(length).iter().all(|byte| *byte == 0));
        }
    }
}
