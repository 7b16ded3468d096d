//! shuffle (filter 2): the first bytes of all elements, then all second bytes, and so on.

use super::Broken;
use crate::simd::multiversion;

/// Reassembles the bytes of each element; leftover bytes at the end were never shuffled.
pub(super) fn decode(bytes: &[u8], element: usize) -> Vec<u8> {
    let mut out = vec![0; bytes.len()];
    unshuffle(bytes, &mut out, element);
    out
}

/// The length of the prefix of a shuffled chunk of `size` bytes needed for its first `needed` bytes: all byte
/// planes except the last, and the start of that.
pub(super) fn needed_for(needed: usize, element: usize, size: usize) -> usize {
    let count = size.checked_div(element).unwrap_or(0);
    if element <= 1 || needed > count * element {
        return if element <= 1 { needed } else { size };
    }
    (element - 1) * count + needed.div_ceil(element)
}

/// The first `needed` of `size` bytes, from the prefix of which [`needed_for`] gives the length.
pub(super) fn decode_some(
    bytes: &[u8],
    element: usize,
    size: usize,
    needed: usize,
) -> Result<Vec<u8>, Broken> {
    if bytes.len() < needed_for(needed, element, size) {
        return Err("it ends before the requested data".into());
    }
    let elements = needed.div_ceil(element.max(1));
    if element <= 1 {
        return Ok(bytes[..needed].to_vec());
    }
    let planes = bytes.chunks((size / element).max(1)).take(element);
    let begun: Vec<u8> = planes.flat_map(|plane| plane.iter().take(elements)).copied().collect();
    Ok(decode(&begun, element))
}

/// Unshuffles `bytes` into `target`, which has the same length.
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
    if element == 3 {
        return triples(planes, elements);
    }
    for (byte, plane) in planes.chunks_exact(count).enumerate() {
        for (value, place) in plane.iter().zip(elements[byte..].iter_mut().step_by(element)) {
            *place = *value;
        }
    }
}

/// For element sizes that are a power of two: `rounds` of merging two halves byte by byte, which is far
/// faster.
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

multiversion! {
    /// Interleaves the byte planes of 3-byte elements, such as RGB.
    fn triples(planes: &[u8], elements: &mut [u8]) {
        let (first, others) = planes.split_at(planes.len() / 3);
        let (second, third) = others.split_at(first.len());
        let bytes = first.iter().zip(second).zip(third);
        for (((a, b), c), triple) in bytes.zip(elements.as_chunks_mut().0) {
            *triple = [*a, *b, *c];
        }
    }
}

multiversion! {
    /// The first bytes of both halves, then their second bytes, and so on.
    ///
    /// Not inlined, because the compiler could then no longer see that the slices do not overlap, and would not
    /// vectorise.
    #[inline(never)]
    fn merge(halves: &[u8], merged: &mut [u8]) {
        let (first, second) = halves.split_at(halves.len() / 2);
        for ((a, b), pair) in first.iter().zip(second).zip(merged.as_chunks_mut().0) {
            *pair = [*a, *b];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_elements_come_from_the_beginning_of_each_plane() {
        for element in [1, 2, 3, 4, 8] {
            let size = 24 * element + usize::from(element > 2);
            let shuffled: Vec<u8> = (0..size as u8).collect();
            let whole = decode(&shuffled, element);
            for needed in 1..size {
                let enough = needed_for(needed, element, size);
                if enough < size {
                    let some = decode_some(&shuffled[..enough], element, size, needed).unwrap();
                    assert!(some.len() >= needed && some == whole[..some.len()], "{element} {needed}");
                    assert!(decode_some(&shuffled[..enough - 1], element, size, needed).is_err());
                }
            }
        }
    }

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
