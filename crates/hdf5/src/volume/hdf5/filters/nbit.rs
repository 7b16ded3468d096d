//! nbit (filter 5) of atomic numbers: only their significant bits, packed.
//!
//! Decoding puts the bits where the type has them, padded with zeros. Compounds and arrays are not
//! voxels, and are not decoded.

use super::bits::{IntegerLayout, PackedNumbers};
use super::{Decoder, FilterError};

/// The filter's parameters in the dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NBit {
    /// All bits are significant, and the filter does nothing.
    Idle,
    /// Each number has `precision` significant bits; the lowest of them is bit `offset` of the element.
    Packed {
        elements: IntegerLayout,
        precision: u32,
        offset: u32,
    },
}

impl NBit {
    /// Parses the filter's parameters; `None` if they are not of atomic numbers, or invalid.
    pub fn new(values: &[u32]) -> Option<Self> {
        const ATOMIC: u32 = 1;
        let &[_length, idle, count, class, width, ref rest @ ..] = values else {
            return None;
        };
        if idle != 0 {
            return Some(NBit::Idle);
        }
        if class != ATOMIC {
            return None;
        }
        let &[order, precision, offset] = rest else {
            return None;
        };
        let elements = IntegerLayout::new(count, width, order)?;
        let fits =
            precision > 0 && u64::from(precision) + u64::from(offset) <= u64::from(8 * width);
        fits.then_some(NBit::Packed {
            elements,
            precision,
            offset,
        })
    }
}

impl Decoder for NBit {
    fn decode(&self, bytes: &[u8], limit: usize) -> Result<Vec<u8>, FilterError> {
        match *self {
            NBit::Idle => Ok(bytes.to_vec()),
            NBit::Packed {
                elements,
                precision,
                offset,
            } => elements.unpack(
                PackedNumbers {
                    bytes,
                    bits: precision,
                },
                limit,
                |number| number << offset,
            ),
        }
    }

    fn bound(&self, before: usize, _size: usize) -> usize {
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_numbers_go_where_their_bits_belong() {
        let twelve = NBit::new(&[8, 0, 2, 1, 2, 0, 12, 0]).unwrap();
        assert_eq!(
            twelve.decode(&[0x12, 0x3a, 0xbc], 4),
            Ok(vec![0x23, 0x01, 0xbc, 0x0a])
        );
        let upper = NBit::new(&[8, 0, 2, 1, 2, 1, 12, 4]).unwrap();
        assert_eq!(
            upper.decode(&[0x12, 0x3a, 0xbc], 4),
            Ok(vec![0x12, 0x30, 0xab, 0xc0])
        );
        assert!(twelve.decode(&[0x12, 0x3a], 4).is_err());
        assert!(twelve.decode(&[0x12, 0x3a, 0xbc], 3).is_err());
    }

    #[test]
    fn other_kinds_are_not_decoded() {
        assert_eq!(NBit::new(&[8, 1, 2, 1, 2, 0, 16, 0]), Some(NBit::Idle));
        assert_eq!(NBit::new(&[8, 0, 2, 1, 2, 0, 12, 8]), None, "bits outside");
        assert_eq!(NBit::new(&[5, 0, 2, 4, 2]), None, "no number");
        assert_eq!(NBit::new(&[8, 0, 2, 1, 3, 0, 12, 0]), None, "three bytes");
        assert_eq!(NBit::new(&[1]), None);
    }
}
