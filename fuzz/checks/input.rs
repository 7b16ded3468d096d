//! Takes numbers from the front of a fuzzer's input.

/// The rest of an input; numbers past its end are 0.
pub(super) struct Input<'a>(pub &'a [u8]);

impl Input<'_> {
    pub fn byte(&mut self) -> u32 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        u32::from(*first)
    }

    /// Two bytes, the lower one first.
    pub fn short(&mut self) -> u32 {
        self.byte() | self.byte() << 8
    }
}
