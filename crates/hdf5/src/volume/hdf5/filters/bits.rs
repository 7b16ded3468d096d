//! Bit streams, most significant bit first: read sequentially, or unpacked as numbers of equal
//! width.

use super::{FilterError, ensure_fits};

/// Reads numbers of any width from a byte slice.
#[derive(Debug)]
pub(super) struct BitReader<'a> {
    rest: &'a [u8],
    /// The next bits, most significant first.
    window: u64,
    /// How many bits of the window have been taken from `rest`. The bits after them are 0 or, in
    /// advance, the first bits of `rest`, which the next refill sets again.
    held: u32,
}

impl<'a> BitReader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            window: 0,
            held: 0,
        }
    }

    /// The next `count` bits (at most 32) as a number; `None` if fewer are left.
    #[inline]
    pub fn read(&mut self, count: u32) -> Option<u32> {
        if self.held < count {
            self.refill();
            if self.held < count {
                return None;
            }
        }
        // If `count` is 0, the shift is by 64 bits, which `checked_shr` refuses.
        let value = self.window.checked_shr(64 - count).unwrap_or(0);
        self.drop_bits(count);
        Some(value as u32)
    }

    /// The number of zeros before the next one bit, which is consumed too.
    #[inline]
    pub fn unary(&mut self) -> Option<u32> {
        let mut zeros = 0;
        loop {
            if self.held == 0 {
                self.refill();
                if self.held == 0 {
                    return None;
                }
            }
            let leading = self.window.leading_zeros();
            if leading < self.held {
                self.drop_bits(leading + 1);
                return Some(zeros + leading);
            }
            zeros += self.held;
            self.drop_bits(self.held);
        }
    }

    #[inline]
    fn drop_bits(&mut self, count: u32) {
        self.window = self.window.checked_shl(count).unwrap_or(0);
        self.held -= count;
    }

    /// Fills the window to at least 56 bits, or with all bits that are left.
    #[inline]
    fn refill(&mut self) {
        if let Some(next) = self.rest.first_chunk() {
            self.window |= u64::from_be_bytes(*next) >> self.held;
            // As many whole bytes as fit with fewer than 64 bits held.
            let taken = (63 - self.held) / 8;
            self.rest = &self.rest[taken as usize..];
            self.held += taken * 8;
            return;
        }
        while self.held <= 56
            && let Some((byte, rest)) = self.rest.split_first()
        {
            self.window |= u64::from(*byte) << (56 - self.held);
            self.rest = rest;
            self.held += 8;
        }
    }
}

/// Numbers of `bits` bits (at most 64), packed without gaps: the 12-bit numbers 0x123 and 0xabc are
/// the bytes 12 3a bc.
#[derive(Debug, Clone, Copy)]
pub(super) struct PackedNumbers<'a> {
    pub bytes: &'a [u8],
    pub bits: u32,
}

/// The number and the format of unpacked integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IntegerLayout {
    pub count: usize,
    /// Bytes per element: 1, 2, 4 or 8.
    pub width: usize,
    pub big_endian: bool,
}

impl IntegerLayout {
    /// From filter parameters: order 0 is little-endian, 1 big-endian.
    pub fn new(count: u32, width: u32, order: u32) -> Option<Self> {
        let count = count as usize;
        let width = width as usize;
        let is_known = matches!(width, 1 | 2 | 4 | 8) && order < 2;
        is_known.then_some(Self {
            count,
            width,
            big_endian: order == 1,
        })
    }

    /// The size of all elements in bytes; fails if it exceeds `limit`.
    pub fn bytes(&self, limit: usize) -> Result<usize, FilterError> {
        let bytes = self.count.saturating_mul(self.width);
        ensure_fits(bytes, limit)?;
        Ok(bytes)
    }

    /// Unpacks one number per element, and maps it to the value of the element. Fails if the
    /// elements have more than `limit` bytes.
    pub fn unpack(
        self,
        packed: PackedNumbers<'_>,
        limit: usize,
        to_value: impl Fn(u64) -> u64,
    ) -> Result<Vec<u8>, FilterError> {
        let mut out = vec![0; self.bytes(limit)?];
        if (packed.bytes.len() as u64) * 8 < self.count as u64 * u64::from(packed.bits) {
            return Err("it ends too early".into());
        }
        match self.width {
            1 => fill::<1>(&mut out, packed, self.big_endian, to_value),
            2 => fill::<2>(&mut out, packed, self.big_endian, to_value),
            4 => fill::<4>(&mut out, packed, self.big_endian, to_value),
            _ => fill::<8>(&mut out, packed, self.big_endian, to_value),
        }
        Ok(out)
    }
}

/// Unpacks numbers to elements of `N` bytes, which fill `out`.
fn fill<const N: usize>(
    out: &mut [u8],
    packed: PackedNumbers<'_>,
    big_endian: bool,
    to_value: impl Fn(u64) -> u64,
) {
    let put = |number: u64, target: &mut [u8; N]| {
        target.copy_from_slice(&to_value(number).to_le_bytes()[..N]);
        if big_endian {
            target.reverse();
        }
    };
    let targets = out.as_chunks_mut::<N>().0;
    let unpacked = unpack_by_eights(packed, targets, &put);
    for (index, target) in targets.iter_mut().enumerate().skip(unpacked) {
        put(packed.number(index), target);
    }
}

/// Unpacks numbers in groups of eight, which takes a third of the time that it takes one by one:
/// eight numbers of n bits are n whole bytes. Returns how many numbers were unpacked: all in whole
/// groups, or none if they have more than 16 bits.
fn unpack_by_eights<const N: usize>(
    packed: PackedNumbers<'_>,
    targets: &mut [[u8; N]],
    put: &impl Fn(u64, &mut [u8; N]),
) -> usize {
    macro_rules! unpack_if_bits_are {
        ($($bits:literal)*) => {
            match packed.bits {
                $($bits => {
                    let groups = packed.bytes.as_chunks().0;
                    let targets = targets.as_chunks_mut::<8>().0;
                    let pairs = groups.iter().zip(targets);
                    let count = 8 * pairs.len();
                    pairs.for_each(|(group, targets)| {
                        let numbers = eight::<$bits>(group).into_iter();
                        numbers.zip(targets).for_each(|(number, target)| put(number, target));
                    });
                    count
                })*
                _ => 0,
            }
        };
    }
    unpack_if_bits_are!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16)
}

/// The eight numbers of `BITS` bits in `BITS` bytes, at offsets known at compile time.
#[inline(always)]
fn eight<const BITS: usize>(bytes: &[u8; BITS]) -> [u64; 8] {
    let mut word = [0; 16];
    word[..BITS].copy_from_slice(bytes);
    let word = u128::from_be_bytes(word);
    std::array::from_fn(|number| (word << (number * BITS) >> (128 - BITS)) as u64)
}

impl PackedNumbers<'_> {
    /// The number with this index. One that is too long for [`PackedNumbers::part`] is joined from
    /// two parts: the lower one has 32 bits.
    #[inline(always)]
    fn number(self, index: usize) -> u64 {
        let position = index * self.bits as usize;
        match self.bits {
            0 => 0,
            1..=57 => self.part(position, self.bits),
            bits => {
                self.part(position, bits - 32) << 32 | self.part(position + bits as usize - 32, 32)
            }
        }
    }

    /// The number of `bits` bits that begins at the bit `position`; bits past the end are 0. `bits`
    /// is 1 to 57, because up to 7 of the 64 bits that are read lie before the number.
    #[inline(always)]
    fn part(self, position: usize, bits: u32) -> u64 {
        let bytes = self.bytes.get(position / 8..).unwrap_or_default();
        let window = bytes.first_chunk().copied().unwrap_or_else(|| {
            // Fewer than eight bytes are left.
            let mut last = [0; 8];
            last[..bytes.len()].copy_from_slice(bytes);
            last
        });
        u64::from_be_bytes(window) << (position % 8) >> (64 - bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_read_across_bytes_until_they_end() {
        let mut reader = BitReader::new(&[0b1010_0110, 0xff, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(
            (reader.read(3), reader.read(0), reader.read(9)),
            (Some(5), Some(0), Some(0b0_0110_1111))
        );
        assert_eq!(reader.read(4), Some(0b1111));
        assert_eq!(
            (reader.read(32), reader.read(32)),
            (Some(0x0001_0203), Some(0x0405_0607))
        );
        assert_eq!((reader.read(8), reader.read(1)), (Some(8), None));
    }

    #[test]
    fn zeros_are_counted_over_any_length() {
        let mut bytes = vec![0; 20];
        bytes.extend([0b0001_0110, 0]);
        let mut reader = BitReader::new(&bytes);
        assert_eq!(
            (
                reader.unary(),
                reader.unary(),
                reader.unary(),
                reader.unary()
            ),
            (Some(163), Some(1), Some(0), None)
        );
    }

    #[test]
    fn numbers_of_any_width_are_unpacked_in_either_byte_order() {
        for bits in 0..=64 {
            let numbers: Vec<u64> = (1..30u64)
                .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15))
                .collect();
            let cut = |number: u64| number.checked_shr(64 - bits).unwrap_or(0);
            let text: String = numbers
                .iter()
                .map(|n| format!("{n:064b}")[..bits as usize].to_owned())
                .collect();
            let bytes: Vec<u8> = text
                .as_bytes()
                .chunks(8)
                .map(|eight| {
                    eight
                        .iter()
                        .chain(&[b'0'; 8])
                        .take(8)
                        .fold(0, |byte, bit| byte << 1 | (bit - b'0'))
                })
                .collect();
            let elements = IntegerLayout {
                count: numbers.len(),
                width: 8,
                big_endian: bits % 2 == 1,
            };
            let packed = PackedNumbers {
                bytes: &bytes,
                bits,
            };
            let expected: Vec<u8> = numbers
                .iter()
                .flat_map(|n| {
                    if bits % 2 == 1 {
                        cut(*n).to_be_bytes()
                    } else {
                        cut(*n).to_le_bytes()
                    }
                })
                .collect();
            assert_eq!(
                elements.unpack(packed, expected.len(), |n| n),
                Ok(expected),
                "{bits} bits"
            );
        }
    }

    #[test]
    fn too_few_bits_and_too_many_elements_are_refused() {
        let elements = IntegerLayout {
            count: 3,
            width: 2,
            big_endian: false,
        };
        let packed = |bytes| PackedNumbers { bytes, bits: 12 };
        assert_eq!(
            elements
                .unpack(packed(&[0x12, 0x3a, 0xbc, 0xde, 0xf0]), 6, |n| n + 1)
                .unwrap()[..2],
            [0x24, 1]
        );
        assert!(
            elements
                .unpack(packed(&[0x12, 0x3a, 0xbc, 0xde]), 6, |n| n)
                .is_err()
        );
        assert!(elements.unpack(packed(&[0; 9]), 5, |n| n).is_err());
    }
}
