//! szip (filter 4): the decoded size (4 bytes, little-endian), then numbers in the entropy coding
//! of CCSDS 121.0-B ([`aec`]).
//!
//! Numbers are coded in lines. Each line is padded to whole blocks, which are one interval of the
//! coder: lines of 3 in blocks of 2 are coded as 4 numbers. Numbers of 32 and 64 bits are too long
//! for the coder: they are shuffled first, and then each byte is coded as a number.

mod aec;

use self::aec::StreamCoding;
use super::cursor::ByteCursor;
use super::{Decoder, FilterError, ensure_fits, shuffle};

/// The filter's parameters in the dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Szip {
    coding: StreamCoding,
    /// Numbers per line, without the padding.
    line: usize,
    /// Bytes per number if numbers are coded byte by byte, otherwise 1.
    planes: usize,
    big_endian: bool,
}

impl Szip {
    /// Parses the filter's parameters; `None` if they are invalid.
    pub fn new(values: &[u32]) -> Option<Self> {
        const BIG_ENDIAN: u32 = 16;
        const NEAREST_NEIGHBOUR: u32 = 32;
        let &[options, block, bits, line] = values else {
            return None;
        };
        let is_valid = matches!(block, 2..=64)
            && block.is_multiple_of(2)
            && matches!(bits, 1..=24 | 32 | 64)
            && matches!(line, 1..=0x1_0000);
        let is_long = bits >= 32;
        is_valid.then(|| Self {
            coding: StreamCoding {
                bits: if is_long { 8 } else { bits },
                block: block as usize,
                interval: line.div_ceil(block) as usize,
                predicted: options & NEAREST_NEIGHBOUR != 0,
            },
            line: line as usize,
            planes: if is_long { bits as usize / 8 } else { 1 },
            big_endian: options & BIG_ENDIAN != 0,
        })
    }
}

impl Decoder for Szip {
    fn decode(&self, bytes: &[u8], limit: usize) -> Result<Vec<u8>, FilterError> {
        let Szip {
            coding,
            line,
            planes,
            big_endian,
        } = *self;
        let mut input = ByteCursor(bytes);
        let size = input.size_le()?;
        ensure_fits(size, limit)?;
        // The decoded bytes per coded number.
        let width = (coding.bits as usize).div_ceil(8).next_power_of_two();
        if size % (width * planes) != 0 {
            return Err(format!("{size} bytes cannot be numbers of {}", width * planes).into());
        }
        let numbers = size / width;
        // Whole lines are padded to whole blocks; the last line may be shorter.
        let coded = numbers / line * coding.numbers_per_interval() + numbers % line;
        let mut out = Vec::with_capacity(size);
        aec::decode(input.0, coding, coded, |padded| {
            let unpadded = &padded[..line.min(padded.len())];
            append(&mut out, unpadded, width, big_endian);
        })?;
        Ok(if planes > 1 {
            shuffle::decode(&out, planes)
        } else {
            out
        })
    }
}

/// Appends numbers as `width` bytes each: 1, 2 or 4.
fn append(out: &mut Vec<u8>, numbers: &[u32], width: usize, big_endian: bool) {
    match (width, big_endian) {
        (1, _) => out.extend(numbers.iter().map(|number| *number as u8)),
        (2, false) => out.extend(
            numbers
                .iter()
                .flat_map(|number| (*number as u16).to_le_bytes()),
        ),
        (2, true) => out.extend(
            numbers
                .iter()
                .flat_map(|number| (*number as u16).to_be_bytes()),
        ),
        (_, false) => out.extend(numbers.iter().flat_map(|number| number.to_le_bytes())),
        (_, true) => out.extend(numbers.iter().flat_map(|number| number.to_be_bytes())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_lines_are_cut_where_they_were_filled_up() {
        // Lines of three in blocks of two, no prediction; the blocks are stored raw (their id is
        // 111).
        let parameters = Szip::new(&[4, 2, 8, 3]).unwrap();
        let blocks = [[1, 2], [3, 0], [4, 5], [6, 0]];
        let text: String = blocks
            .iter()
            .map(|[a, b]| format!("111{a:08b}{b:08b}"))
            .collect();
        let mut stored = vec![5, 0, 0, 0];
        stored.extend(text.as_bytes().chunks(8).map(|bits| {
            let bits = bits.iter().chain(&[b'0'; 8]).take(8);
            bits.fold(0, |byte, bit| byte << 1 | (bit - b'0'))
        }));
        assert_eq!(parameters.decode(&stored, 5), Ok(vec![1, 2, 3, 4, 5]));
        assert!(parameters.decode(&stored, 4).is_err());
        assert!(parameters.decode(&stored[..8], 5).is_err());
    }

    #[test]
    fn parameters_that_cannot_be_are_refused() {
        for broken in [
            [4, 0, 8, 3],
            [4, 3, 8, 3],
            [4, 66, 8, 3],
            [4, 8, 0, 3],
            [4, 8, 25, 3],
            [4, 8, 8, 0],
        ] {
            assert_eq!(Szip::new(&broken), None, "{broken:?}");
        }
        assert_eq!(Szip::new(&[4, 8, 8]), None);
    }
}
