//! shuffle (filter 2): first bytes of all elements first, then all second bytes, and so on.

/// Puts the bytes of each element together again; what is left over at the end was never shuffled.
pub(super) fn decode(bytes: &[u8], element: usize) -> Vec<u8> {
    let mut out = vec![0; bytes.len()];
    unshuffle(bytes, &mut out, element);
    out
}

/// Unshuffles `bytes` into `target`, which is as long.
pub(super) fn unshuffle(bytes: &[u8], target: &mut [u8], element: usize) {
    let count = bytes.len().checked_div(element).unwrap_or(0);
    if element <= 1 || count == 0 {
        target.copy_from_slice(bytes);
        return;
    }
    let (planes, rest) = bytes.split_at(count * element);
    let (elements, tail) = target.split_at_mut(planes.len());
    tail.copy_from_slice(rest);
    if element.is_power_of_two() {
        return interleave(planes, elements, element.trailing_zeros());
    }
    for (byte, plane) in planes.chunks_exact(count).enumerate() {
        for (value, place) in plane.iter().zip(elements[byte..].iter_mut().step_by(element)) {
            *place = *value;
        }
    }
}

/// The same for elements of a power of two: as many rounds of merging two halves byte by byte, which is far faster.
fn interleave(planes: &[u8], elements: &mut [u8], rounds: u32) {
    let mut other = if rounds > 1 { vec![0; planes.len()] } else { Vec::new() };
    let (mut from, mut to): (&mut [u8], &mut [u8]) =
        if rounds.is_multiple_of(2) { (elements, &mut other) } else { (&mut other, elements) };
    merge(planes, to);
    for _ in 1..rounds {
        std::mem::swap(&mut from, &mut to);
        merge(from, to);
    }
}

/// The first bytes of both halves, then their second bytes, and so on.
///
/// Inlined, the compiler no longer sees that the slices lie apart, and gives up on vectors.
#[inline(never)]
fn merge(halves: &[u8], merged: &mut [u8]) {
    let (first, second) = halves.split_at(halves.len() / 2);
    for ((a, b), pair) in first.iter().zip(second).zip(merged.as_chunks_mut().0) {
        *pair = [*a, *b];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_is_undone_and_its_tail_left_alone() {
        assert_eq!(decode(&[1, 3, 5, 2, 4, 6, 9], 2), [1, 2, 3, 4, 5, 6, 9]);
        assert_eq!(decode(&[1, 4, 2, 5, 3, 6, 9], 3), [1, 2, 3, 4, 5, 6, 9]);
        assert_eq!(decode(&[1, 2, 3], 1), [1, 2, 3]);
        assert_eq!(decode(&[1, 2, 3], 8), [1, 2, 3]);
        assert_eq!(decode(&[1, 2, 3], 0), [1, 2, 3]);
        assert!(decode(&[], 2).is_empty());
    }
}
