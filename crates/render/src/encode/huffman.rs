//! Length-limited Huffman codes, as deflate uses them (RFC 1951, section 3.2.2).
//!
//! Lengths come from the usual merging of the two rarest nodes. Lengths above the limit are reduced
//! to it, and shorter ones extended until the code is complete again, as in zlib: slightly worse
//! than optimal, and fast.

use super::bits::Bits;

/// Deeper leaves of a tree are counted at this depth, which exceeds all limits of lengths.
const LONGEST: usize = 32;

/// Code lengths for symbols with these counts; 0 for a count of 0, at most `limit`.
///
/// A single symbol gets a code of one bit. There are at most 286 symbols, and at most 2^`limit` of
/// them may occur.
pub(super) fn lengths(counts: &[u32], limit: usize) -> Vec<u8> {
    let mut symbols: Vec<(u32, u16)> = counts
        .iter()
        .zip(0..)
        .filter(|(count, _)| **count > 0)
        .map(|(count, symbol)| (*count, symbol))
        .collect();
    symbols.sort_unstable();
    let mut lengths = vec![0; counts.len()];
    if let [(_, only)] = symbols[..] {
        lengths[usize::from(only)] = 1;
        return lengths;
    }
    let mut codes_of_length = limit_lengths(tree_depths(&symbols), limit);
    // The rarest get the longest codes.
    let mut length = limit;
    for (_, symbol) in symbols {
        while codes_of_length[length] == 0 && length > 1 {
            length -= 1;
        }
        codes_of_length[length] = codes_of_length[length].saturating_sub(1);
        lengths[usize::from(symbol)] = length as u8;
    }
    lengths
}

/// The number of leaves of the Huffman tree at each depth, for symbols sorted by count.
///
/// Nodes are numbered: the leaves first, then inner nodes, which are created in order of count. So
/// the two rarest nodes without a parent are at the front of the leaves or of the inner nodes.
fn tree_depths(symbols: &[(u32, u16)]) -> [u32; LONGEST + 1] {
    let leaves = symbols.len();
    let mut counts: Vec<u64> = symbols.iter().map(|(count, _)| u64::from(*count)).collect();
    let mut parents = vec![0usize; 2 * leaves];
    // The first leaf and the first inner node without a parent.
    let mut leaf = 0;
    let mut inner = leaves;
    while counts.len() + 1 < 2 * leaves {
        let mut sum = 0;
        for _ in 0..2 {
            let is_inner = leaf == leaves || (inner < counts.len() && counts[inner] < counts[leaf]);
            let rarest = if is_inner { &mut inner } else { &mut leaf };
            sum += counts[*rarest];
            parents[*rarest] = counts.len();
            *rarest += 1;
        }
        counts.push(sum);
    }
    // Parents come after their children, and the root is last.
    let mut depths = vec![0usize; counts.len()];
    let mut leaves_of_depth = [0; LONGEST + 1];
    for node in (0..counts.len().saturating_sub(1)).rev() {
        depths[node] = (depths[parents[node]] + 1).min(LONGEST);
        if node < leaves {
            leaves_of_depth[depths[node]] += 1;
        }
    }
    leaves_of_depth
}

/// Shortens lengths above `limit`, and lengthens shorter ones until the code is complete again.
/// Takes and returns the number of codes of each length.
fn limit_lengths(mut codes_of_length: [u32; LONGEST + 1], limit: usize) -> [u32; LONGEST + 1] {
    for length in limit + 1..=LONGEST {
        codes_of_length[limit] += std::mem::take(&mut codes_of_length[length]);
    }
    // A slot is a code of `limit` bits; a code that is n bits shorter takes up 2^n slots.
    let slots = 1u64 << limit;
    let mut taken: u64 = (1..=limit)
        .map(|length| u64::from(codes_of_length[length]) << (limit - length))
        .sum();
    while taken > slots {
        // One code of `limit` bits becomes the sibling of a shorter code, which grows by a bit:
        // this frees one slot.
        let Some(shorter) = (1..limit).rev().find(|length| codes_of_length[*length] > 0) else {
            break;
        };
        codes_of_length[limit] -= 1;
        codes_of_length[shorter] -= 1;
        codes_of_length[shorter + 1] += 2;
        taken -= 1;
    }
    codes_of_length
}

/// The canonical codes for lengths of at most 15 (RFC 1951, section 3.2.2), as deflate writes them.
pub(super) fn codes(lengths: &[u8]) -> Vec<Bits> {
    let mut counts = [0u16; 16];
    lengths
        .iter()
        .for_each(|length| counts[usize::from(length & 15)] += 1);
    counts[0] = 0;
    let mut next_codes = [0u16; 16];
    for length in 1..16 {
        next_codes[length] = next_codes[length - 1].wrapping_add(counts[length - 1]) << 1;
    }
    let codes = lengths.iter().map(|&length| {
        if length == 0 {
            return Bits::default();
        }
        let next = &mut next_codes[usize::from(length & 15)];
        // Bits are written from the lowest on, but codes from their highest: they are reversed.
        let bits = next.reverse_bits() >> (16 - u32::from(length & 15));
        *next = next.wrapping_add(1);
        Bits::new(bits.into(), length.into())
    });
    codes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_example_of_the_standard_comes_out() {
        // RFC 1951, section 3.2.2: ABCDEFGH with lengths 3, 3, 3, 3, 3, 2, 4, 4.
        let codes = codes(&[3, 3, 3, 3, 3, 2, 4, 4]);
        let reversed = |value: u16, length: u32| {
            Bits::new((value.reverse_bits() >> (16 - length)).into(), length)
        };
        assert_eq!(codes[0], reversed(0b010, 3));
        assert_eq!(codes[5], reversed(0b00, 2));
        assert_eq!(codes[7], reversed(0b1111, 4));
    }

    #[test]
    fn a_code_of_one_symbol_has_one_bit() {
        assert_eq!(lengths(&[0, 7, 0], 14), [0, 1, 0]);
        assert_eq!(lengths(&[0, 0], 14), [0, 0]);
    }

    #[test]
    fn lengths_for_fibonacci_counts_stay_within_the_limit() {
        let mut counts = vec![1u32, 1];
        while counts.len() < 40 {
            counts.push(counts[counts.len() - 1] + counts[counts.len() - 2]);
        }
        for limit in [7, 9, 14] {
            is_complete(&lengths(&counts, limit), limit);
        }
    }

    fn is_complete(lengths: &[u8], limit: usize) {
        let taken: u64 = lengths
            .iter()
            .filter(|n| **n > 0)
            .map(|n| 1u64 << (limit - usize::from(*n)))
            .sum();
        assert_eq!(taken, 1 << limit, "{lengths:?}");
    }

    proptest! {
        #[test]
        fn codes_are_complete_and_rarer_symbols_never_have_shorter_ones(
            counts in prop::collection::vec(prop_oneof![Just(0u32), 1..10u32, 1..300_000u32], 2..286),
        ) {
            prop_assume!(counts.iter().filter(|n| **n > 0).count() > 1);
            let lengths = lengths(&counts, 14);
            is_complete(&lengths, 14);
            for (a, la) in counts.iter().zip(&lengths) {
                prop_assert_eq!(*a == 0, *la == 0);
                for (b, lb) in counts.iter().zip(&lengths) {
                    prop_assert!(a <= b || *a == 0 || *b == 0 || la <= lb);
                }
            }
        }
    }
}
