//! nbit (filter 5) of atomic numbers: only their significant bits, packed.
//!
//! Decoding puts the bits where the type has them, padded with zeros: of the 16-bit numbers 0x1230
//! and 0xabc0, whose 12 significant bits begin at bit 4, the bytes 12 3a bc are stored. The packed
//! numbers of compounds and arrays, which are no voxels, are not decoded.

use super::bits::{IntegerLayout, PackedNumbers};
use super::{Decoder, FilterError, Unchanged, boxed};

/// The significant bits of each number.
#[derive(Debug)]
struct NBit {
    elements: IntegerLayout,
    /// The number of significant bits.
    precision: u32,
    /// The position of the lowest significant bit in the element.
    offset: u32,
}

/// Parses the filter's parameters; `None` if they are invalid, or if the packed numbers are not
/// atomic.
pub(super) fn parse(values: &[u32]) -> Option<Box<dyn Decoder>> {
    const ATOMIC: u32 = 1;
    match *values {
        // All bits are significant: nothing is packed.
        [_length, unpacked, _count, _class, _width, ..] if unpacked != 0 => boxed(Unchanged),
        [_length, 0, count, ATOMIC, width, order, precision, offset] => {
            let elements = IntegerLayout::new(count, width, order)?;
            let end = u64::from(precision) + u64::from(offset);
            if precision == 0 || end > u64::from(8 * width) {
                return None;
            }
            boxed(NBit {
                elements,
                precision,
                offset,
            })
        }
        _ => None,
    }
}

impl Decoder for NBit {
    fn decode(&self, bytes: &[u8], limit: usize) -> Result<Vec<u8>, FilterError> {
        let packed = PackedNumbers {
            bytes,
            bits: self.precision,
        };
        self.elements
            .unpack(packed, limit, |number| number << self.offset)
    }

    fn most_stored(&self, input: usize, _size: usize) -> usize {
        input
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_numbers_go_where_their_bits_belong() {
        let twelve = parse(&[8, 0, 2, 1, 2, 0, 12, 0]).unwrap();
        assert_eq!(
            twelve.decode(&[0x12, 0x3a, 0xbc], 4),
            Ok(vec![0x23, 0x01, 0xbc, 0x0a])
        );
        let upper = parse(&[8, 0, 2, 1, 2, 1, 12, 4]).unwrap();
        assert_eq!(
            upper.decode(&[0x12, 0x3a, 0xbc], 4),
            Ok(vec![0x12, 0x30, 0xab, 0xc0])
        );
        assert!(twelve.decode(&[0x12, 0x3a], 4).is_err());
        assert!(twelve.decode(&[0x12, 0x3a, 0xbc], 3).is_err());
    }

    #[test]
    fn numbers_that_are_not_packed_stay_as_they_are() {
        let idle = parse(&[8, 1, 2, 1, 2, 0, 16, 0]).unwrap();
        assert_eq!(idle.decode(&[1, 2, 3, 4], 4), Ok(vec![1, 2, 3, 4]));
        assert!(idle.decode(&[1, 2, 3, 4], 3).is_err());
    }

    #[test]
    fn other_kinds_are_not_decoded() {
        for (values, why) in [
            (&[8, 0, 2, 1, 2, 0, 12, 8][..], "bits outside"),
            (&[5, 0, 2, 4, 2], "no number"),
            (&[8, 0, 2, 1, 3, 0, 12, 0], "three bytes"),
            (&[1], "too few parameters"),
        ] {
            assert!(parse(values).is_none(), "{why}");
        }
    }
}
