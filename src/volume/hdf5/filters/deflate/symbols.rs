//! What the symbols of lengths and distances stand for (RFC 1951, section 3.2.5).

/// The symbol that ends a block.
pub(super) const END: u16 = 256;

/// A number that a symbol and some bits behind it tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number {
    /// The least one.
    pub(super) base: u16,
    /// How many bits follow, which are added.
    pub(super) extra: u8,
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

/// The length that a symbol above [`END`] tells.
#[inline]
pub(super) fn length(symbol: u16) -> Option<Number> {
    LENGTHS.get(usize::from(symbol).wrapping_sub(257)).copied()
}

/// The distance that a symbol tells.
#[inline]
pub(super) fn distance(symbol: u16) -> Option<Number> {
    DISTANCES.get(usize::from(symbol)).copied()
}
