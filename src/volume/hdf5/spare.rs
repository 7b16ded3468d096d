//! The buffer of a chunk that went out of the cache, for the one that is decoded next.
//!
//! Whoever brings a chunk to the cache drops those that make way for it: what a thread has left over it uses next, and
//! nothing is shared. Else the buffer would go back to the arena of the thread that once took it, and another would be
//! taken, and cleared, from this thread's: where threads take turns at bringing most of what is kept, the arenas come to
//! hold half as much again as there is in them.

use std::cell::Cell;
use std::ops::RangeInclusive;

/// The bytes of buffers that are kept: smaller ones cost nothing, larger ones are too much to have lying by.
const KEPT: RangeInclusive<usize> = 32 << 10..=2 << 20;

thread_local! {
    static SPARE: Cell<Option<Vec<u8>>> = const { Cell::new(None) };
}

/// A buffer of so many bytes, whatever they are.
pub(super) fn take(length: usize) -> Vec<u8> {
    match SPARE.take() {
        Some(spare) if spare.len() == length => spare,
        other => {
            SPARE.set(other);
            vec![0; length]
        }
    }
}

/// Leaves a buffer to the chunk that this thread decodes next.
pub(super) fn give(buffer: Vec<u8>) {
    if KEPT.contains(&buffer.len()) {
        // A thread that ends decodes nothing more.
        let _ = SPARE.try_with(|spare| spare.set(Some(buffer)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_of_the_same_length_is_taken_again_and_once() {
        give(vec![7; 1 << 16]);
        assert_eq!((take(1 << 16), take(1 << 16)), (vec![7; 1 << 16], vec![0; 1 << 16]));
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
