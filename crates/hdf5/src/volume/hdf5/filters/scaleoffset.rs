//! scaleoffset (filter 6) of integers: differences from the minimum, packed into as few bits as the
//! largest needs.
//!
//! A chunk starts with a header of 21 bytes: the number of bits (4 bytes), the length of the
//! minimum (1), the minimum (8), and 8 bytes that are not used. If the dataset has a fill value, a
//! difference with all bits set stands for it. Example: with 4 bits and the minimum 100, the bytes
//! 07 f0 after the header are the numbers 100, 107, and 115 or the fill value.
//!
//! Floats, for which this filter is lossy, are left to the library. BigDataViewer writes all
//! integers with this filter.

use super::bits::{IntegerLayout, PackedNumbers};
use super::cursor::ByteCursor;
use super::{Decoder, FilterError, Unchanged, boxed};

/// The size of the header before the packed numbers.
const HEADER: usize = 21;

/// The filter's parameters in the dataset.
#[derive(Debug)]
struct ScaleOffset {
    elements: IntegerLayout,
    /// The fill value, if the dataset has one.
    fill: Option<u64>,
}

/// Parses the filter's parameters; `None` for floats and invalid values.
pub(super) fn parse(values: &[u32]) -> Option<Box<dyn Decoder>> {
    const INTEGER_SCALE: u32 = 2;
    const INTEGER_CLASS: u32 = 0;
    let [
        INTEGER_SCALE,
        bits,
        count,
        INTEGER_CLASS,
        width,
        _signed,
        order,
        filled,
        low,
        high,
        ..,
    ] = *values
    else {
        return None;
    };
    let elements = IntegerLayout::new(count, width, order)?;
    // Whoever made the dataset asked for all bits: chunks are not packed, and have no header.
    if bits == 8 * width {
        return boxed(Unchanged);
    }
    let fill = (filled == 1).then_some(u64::from(high) << 32 | u64::from(low));
    boxed(ScaleOffset { elements, fill })
}

impl Decoder for ScaleOffset {
    fn decode(&self, bytes: &[u8], limit: usize) -> Result<Vec<u8>, FilterError> {
        let ScaleOffset { elements, fill } = *self;
        let (bits, minimum) = header(bytes)?;
        let packed = PackedNumbers {
            bytes: bytes.get(HEADER..).unwrap_or_default(),
            bits,
        };
        let width = elements.width;
        let all_bits = 8 * width as u32;
        if bits > all_bits {
            return Err(format!("numbers of {bits} bits do not fit in {width} bytes").into());
        }
        if bits == all_bits {
            return full_width(packed.bytes, elements, limit);
        }
        elements.unpack(packed, limit, |difference| match fill {
            Some(fill) if difference == (1 << bits) - 1 => fill,
            _ => minimum.wrapping_add(difference),
        })
    }

    fn most_stored(&self, input: usize, _size: usize) -> usize {
        // The library may store one byte more than the packed numbers need.
        input.saturating_add(HEADER + 1)
    }
}

/// Numbers that need all bits are stored unchanged, in the byte order of the machine that wrote
/// them, which is assumed to be little-endian.
fn full_width(bytes: &[u8], elements: IntegerLayout, limit: usize) -> Result<Vec<u8>, FilterError> {
    let mut out = ByteCursor(bytes).take(elements.bytes(limit)?)?.to_vec();
    if elements.big_endian {
        out.chunks_exact_mut(elements.width)
            .for_each(<[u8]>::reverse);
    }
    Ok(out)
}

/// The number of bits and the minimum. Of a longer minimum only 8 bytes count, as in the library.
fn header(bytes: &[u8]) -> Result<(u32, u64), FilterError> {
    let mut input = ByteCursor(bytes);
    let bits = u32::from_le_bytes(input.array()?);
    let length = usize::from(input.byte()?).min(8);
    let mut minimum = [0; 8];
    minimum[..length].copy_from_slice(input.take(length)?);
    Ok((bits, u64::from_le_bytes(minimum)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(bits: u32, least: i64, packed: &[u8]) -> Vec<u8> {
        [
            &bits.to_le_bytes()[..],
            &[8],
            &least.to_le_bytes(),
            &[0; 8],
            packed,
        ]
        .concat()
    }

    fn parameters(count: u32, element: u32, order: u32, fill: Option<u32>) -> Box<dyn Decoder> {
        let mut values = [
            2, 0, count, 0, element, 1, order, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ];
        (values[7], values[8]) = (u32::from(fill.is_some()), fill.unwrap_or(0));
        parse(&values).unwrap()
    }

    #[test]
    fn distances_are_added_to_the_least_value() {
        let bytes = stored(4, -3, &[0x07, 0xf0]);
        assert_eq!(
            parameters(3, 1, 0, None).decode(&bytes, 3),
            Ok(vec![253, 4, 12])
        );
        assert_eq!(
            parameters(3, 2, 1, None).decode(&bytes, 6),
            Ok(vec![0xff, 0xfd, 0, 4, 0, 12])
        );
        assert_eq!(
            parameters(3, 1, 0, Some(99)).decode(&bytes, 3),
            Ok(vec![253, 4, 99])
        );
    }

    #[test]
    fn the_odd_widths_are_none_and_all() {
        assert_eq!(
            parameters(3, 1, 0, None).decode(&stored(0, 7, &[0]), 3),
            Ok(vec![7; 3])
        );
        let whole = stored(16, 1, &[1, 2, 3, 4]);
        assert_eq!(
            parameters(2, 2, 0, None).decode(&whole, 4),
            Ok(vec![1, 2, 3, 4])
        );
        assert_eq!(
            parameters(2, 2, 1, None).decode(&whole, 4),
            Ok(vec![2, 1, 4, 3])
        );
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert!(
            parameters(3, 1, 0, None)
                .decode(&stored(9, 0, &[0; 9]), 3)
                .is_err()
        );
        assert!(
            parameters(3, 1, 0, None)
                .decode(&stored(4, 0, &[0]), 3)
                .is_err()
        );
        assert!(
            parameters(4, 1, 0, None)
                .decode(&stored(4, 0, &[0; 9]), 3)
                .is_err()
        );
        assert!(parameters(3, 1, 0, None).decode(&[1, 0, 0, 0], 3).is_err());
        assert!(parse(&[0, 3, 9, 1, 4, 0, 0, 0, 0, 0]).is_none(), "floats");
    }
}
