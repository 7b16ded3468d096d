//! Integers with padding bits, as 12-bit cameras write them.

/// The significant bits of an integer; the rest is padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignificantBits {
    /// The number of significant bits.
    pub precision: u32,
    /// The number of padding bits below them.
    pub offset: u32,
    /// Whether the integer is in two's complement.
    pub signed: bool,
}

impl SignificantBits {
    /// Shifts and sign-extends integers of `width` bytes (at most 8) in place, so that all bits are
    /// significant: with a precision of 12 and an offset of 4, 0xF23F becomes 0x0F23 if it is
    /// unsigned, and 0xFF23 if it is signed.
    pub(super) fn widen(self, bytes: &mut [u8], width: usize, big_endian: bool) {
        for element in bytes.chunks_exact_mut(width.clamp(1, 8)) {
            if big_endian {
                element.reverse();
            }
            let mut padded = [0; 8];
            padded[..element.len()].copy_from_slice(element);
            let value = self.value(u64::from_le_bytes(padded));
            element.copy_from_slice(&value.to_le_bytes()[..element.len()]);
            if big_endian {
                element.reverse();
            }
        }
    }

    /// The value in 64 bits: shifts the padding out at both ends, and extends the sign. The shifts
    /// are checked, because a damaged file may name any precision and offset.
    fn value(self, bits: u64) -> u64 {
        let unused = 64u32.saturating_sub(self.precision);
        let leftmost = bits
            .checked_shr(self.offset)
            .unwrap_or(0)
            .checked_shl(unused)
            .unwrap_or(0);
        if self.signed {
            (leftmost as i64).checked_shr(unused).unwrap_or(0) as u64
        } else {
            leftmost.checked_shr(unused).unwrap_or(0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_goes_and_signs_spread() {
        let mut bytes = [0x3f, 0xf2, 0x1f, 0x70];
        let bits = SignificantBits {
            precision: 12,
            offset: 4,
            signed: false,
        };
        bits.widen(&mut bytes, 2, false);
        assert_eq!(bytes, [0x23, 0x0f, 0x01, 0x07]);
        let mut bytes = [0xf8, 0x01, 0x07, 0xff];
        SignificantBits {
            precision: 12,
            offset: 0,
            signed: true,
        }
        .widen(&mut bytes, 2, true);
        assert_eq!(bytes, [0xf8, 0x01, 0x07, 0xff]);
        let mut bytes = [0x01, 0x08];
        SignificantBits {
            precision: 12,
            offset: 0,
            signed: true,
        }
        .widen(&mut bytes, 2, false);
        assert_eq!(bytes, [0x01, 0xf8]);
    }

    #[test]
    fn no_precision_or_offset_panics() {
        for (precision, offset) in [(0, 0), (64, 0), (64, 64), (99, 99), (1, 63)] {
            for signed in [false, true] {
                SignificantBits {
                    precision,
                    offset,
                    signed,
                }
                .widen(&mut [7; 16], 8, false);
            }
        }
    }
}
