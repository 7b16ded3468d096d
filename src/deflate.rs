//! What RFC 1951 fixes of a deflated stream, for who writes one and who reads one: which codes symbols have, and what the
//! symbols of lengths and distances stand for (sections 3.2.2, 3.2.5 and 3.2.7).

/// The longest code of all.
pub(crate) const LONGEST_CODE: usize = 15;
/// The order in which the lengths of the codes of code lengths are told.
pub(crate) const LENGTH_ORDER: [usize; 19] =
    [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
/// The symbol that ends a block.
pub(crate) const END_OF_BLOCK: u16 = 256;

/// A number that a symbol and some bits behind it tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Number {
    /// The least one.
    pub(crate) base: u16,
    /// How many bits follow, which are added.
    pub(crate) extra: u8,
}

const fn number(base: u16, extra: u8) -> Number {
    Number { base, extra }
}

/// The lengths, from symbol 257 on.
const LENGTHS: [Number; 29] = {
    let mut all = [number(0, 0); 29];
    let (mut symbol, mut base) = (0, 3);
    while symbol < 28 {
        let extra = if symbol < 8 { 0 } else { symbol as u8 / 4 - 1 };
        all[symbol] = number(base, extra);
        base += 1 << extra;
        symbol += 1;
    }
    all[28] = number(258, 0);
    all
};

/// The distances, from symbol 0 on.
const DISTANCES: [Number; 30] = {
    let mut all = [number(0, 0); 30];
    let (mut symbol, mut base) = (0, 1u16);
    while symbol < 30 {
        let extra = if symbol < 4 { 0 } else { symbol as u8 / 2 - 1 };
        all[symbol] = number(base, extra);
        base = base.wrapping_add(1 << extra);
        symbol += 1;
    }
    all
};

/// The length that a symbol above [`END_OF_BLOCK`] tells.
#[inline]
pub(crate) fn length(symbol: u16) -> Option<Number> {
    LENGTHS.get(usize::from(symbol).wrapping_sub(257)).copied()
}

/// The distance that a symbol tells.
#[inline]
pub(crate) fn distance(symbol: u16) -> Option<Number> {
    DISTANCES.get(usize::from(symbol)).copied()
}

/// The codes of symbols in their order, by the lengths alone.
#[derive(Debug, Clone)]
pub(crate) struct Canonical {
    counts: [u16; LONGEST_CODE + 1],
    next: [u16; LONGEST_CODE + 1],
}

impl Canonical {
    /// For lengths of at most 15.
    pub(crate) fn of(lengths: &[u8]) -> Self {
        let mut counts = [0; LONGEST_CODE + 1];
        lengths.iter().for_each(|length| counts[usize::from(length & 15)] += 1);
        counts[0] = 0;
        let mut next = [0u16; LONGEST_CODE + 1];
        for length in 1..=LONGEST_CODE {
            next[length] = (next[length - 1].wrapping_add(counts[length - 1])) << 1;
        }
        Self { counts, next }
    }

    /// How many codes have that length.
    pub(crate) fn count(&self, length: u8) -> u16 {
        self.counts[usize::from(length)]
    }

    /// The next code of that length, as it stands in a stream: its first bit lowest.
    #[inline]
    pub(crate) fn next(&mut self, length: u8) -> usize {
        let code = &mut self.next[usize::from(length)];
        let reversed = code.reverse_bits() >> (16 - u32::from(length));
        *code = code.wrapping_add(1);
        reversed.into()
    }

    /// How many codes of the longest length are left over; fewer than none where there are too many codes.
    pub(crate) fn left(&self) -> i32 {
        self.counts[1..].iter().fold(1, |left, count| 2 * left - i32::from(*count))
    }

    /// Whether all bits stand for something.
    pub(crate) fn is_complete(&self) -> bool {
        self.left() == 0
    }
}
