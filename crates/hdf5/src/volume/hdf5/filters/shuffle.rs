//! shuffle (filter 2): the first bytes of all elements, then all second bytes, and so on. These are
//! the *byte planes*. Bytes after the last whole element are stored last, as they are.

use std::borrow::Cow;

use voltile_base::simd::multiversion;

use super::{Bytes, Decoder, FilterError};

/// The filter's parameter: the size of an element.
#[derive(Debug)]
pub(super) struct Shuffle(usize);

impl Shuffle {
    pub fn new(values: &[u32]) -> Self {
        Self(values.first().map_or(1, |size| *size as usize))
    }
}

impl Decoder for Shuffle {
    fn decode(&self, bytes: &[u8], _limit: usize) -> Result<Vec<u8>, FilterError> {
        Ok(decode(bytes, self.0))
    }

    fn decode_first<'a>(
        &self,
        bytes: Bytes<'a>,
        limit: usize,
        needed: usize,
    ) -> Result<Bytes<'a>, FilterError> {
        // All bytes are there, or all are needed.
        if bytes.len() >= limit || needed >= limit {
            return self.decode(&bytes, limit).map(Cow::Owned);
        }
        if bytes.len() < self.needed_for(needed, limit) {
            return Err("it ends before the requested data".into());
        }
        if self.0 <= 1 {
            return Ok(Cow::Owned(bytes[..needed].to_vec()));
        }
        let element_count = limit / self.0;
        let needed_count = needed.div_ceil(self.0);
        let planes = bytes.chunks(element_count.max(1)).take(self.0);
        let plane_starts: Vec<u8> = planes
            .flat_map(|plane| plane.iter().take(needed_count))
            .copied()
            .collect();
        Ok(Cow::Owned(decode(&plane_starts, self.0)))
    }

    fn most_stored(&self, input: usize, _size: usize) -> usize {
        input
    }

    /// All byte planes except the last one, and the start of the last one: the first 200 bytes of
    /// 1000 elements of 2 bytes need 1100.
    fn needed_for(&self, needed: usize, size: usize) -> usize {
        let count = size.checked_div(self.0).unwrap_or(0);
        match self.0 {
            _ if needed >= size => usize::MAX,
            0 | 1 => needed,
            // Includes bytes after the last whole element.
            element if needed > count * element => size,
            element => (element - 1) * count + needed.div_ceil(element),
        }
    }
}

/// Reassembles the bytes of each element: of elements of 2 bytes, 1 3 5 2 4 6 become 1 2 3 4 5 6.
pub(super) fn decode(bytes: &[u8], element: usize) -> Vec<u8> {
    let mut out = vec![0; bytes.len()];
    unshuffle(bytes, &mut out, element);
    out
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
        for (value, place) in plane
            .iter()
            .zip(elements[byte..].iter_mut().step_by(element))
        {
            *place = *value;
        }
    }
}

/// Unshuffles elements of 2 to the power of `rounds` bytes, far faster than plane by plane: each
/// round merges two halves byte by byte.
///
/// Two elements of 4 bytes, a0 a1 a2 a3 and b0 b1 b2 b3, need two rounds:
///
/// ```text
/// planes    a0 b0 a1 b1 │ a2 b2 a3 b3
/// merged    a0 a2 b0 b2 │ a1 a3 b1 b3
/// elements  a0 a1 a2 a3   b0 b1 b2 b3
/// ```
fn interleave(planes: &[u8], elements: &mut [u8], rounds: u32) {
    let mut scratch = if rounds > 1 {
        vec![0; planes.len()]
    } else {
        Vec::new()
    };
    // Rounds write to `elements` and to `scratch` by turns, the last one to `elements`.
    let (mut from, mut to): (&mut [u8], &mut [u8]) = if rounds.is_multiple_of(2) {
        (elements, &mut scratch)
    } else {
        (&mut scratch, elements)
    };
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
    /// Not inlined: the caller's code does not show the compiler that the slices do not overlap, so
    /// it would not vectorise.
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
            let (shuffle, whole) = (Shuffle(element), decode(&shuffled, element));
            for needed in 1..size {
                let enough = shuffle.needed_for(needed, size);
                if enough < size {
                    let some = |length: usize| {
                        shuffle.decode_first(shuffled[..length].into(), size, needed)
                    };
                    assert!(some(enough - 1).is_err());
                    let some = some(enough).unwrap();
                    assert!(
                        some.len() >= needed && *some == whole[..some.len()],
                        "{element} {needed}"
                    );
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
