//! A set of Huffman codes as a table over the next bits (RFC 1951, section 3.2.2).

use super::Refused;
use crate::deflate::{Canonical, LONGEST_CODE};

/// What the next bits stand for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    /// The symbol; for a slot that leads to others, where they begin.
    pub(super) symbol: u16,
    /// How long its code is.
    pub(super) length: u8,
    /// How many bits more choose among the slots it leads to; 0 for a symbol.
    further: u8,
}

impl Slot {
    /// No symbol has these bits.
    const NONE: Slot = Slot { symbol: u16::MAX, length: 0, further: 0 };

    /// Whether it is a symbol's, all of whose code lies within the first bits.
    pub(super) fn is_whole(self) -> bool {
        self.further == 0 && self.length > 0
    }
}

/// Codes whose first `BITS` bits choose a slot; those of longer codes lead to others.
pub(super) struct Codes<const BITS: usize> {
    slots: Vec<Slot>,
}

impl<const BITS: usize> Codes<BITS> {
    pub(super) fn new() -> Self {
        Self { slots: vec![Slot::NONE; 1 << BITS] }
    }

    /// Becomes the codes that have these lengths, by symbol; 0 for symbols that do not occur.
    ///
    /// # Errors
    /// Where codes are told that cannot be, or fewer than the bits allow: only a single code of one bit may leave the other
    /// unused, as zlib has it for literals and distances.
    pub(super) fn set(&mut self, lengths: &[u8]) -> Result<(), Refused> {
        let canonical = Canonical::of(lengths);
        check(&canonical)?;
        self.slots.truncate(1 << BITS);
        self.slots.fill(Slot::NONE);
        self.lead_to_longer(&canonical);
        let mut codes = canonical;
        for (&length, symbol) in lengths.iter().zip(0..).filter(|(length, _)| **length > 0) {
            let code = codes.next(length);
            let slot = Slot { symbol, length, further: 0 };
            let (slots, code, step) = match self.slots[code & mask(BITS)] {
                first if usize::from(length) > BITS => {
                    let begin = usize::from(first.symbol);
                    (begin..begin + (1 << first.further), code >> BITS, usize::from(length) - BITS)
                }
                _ => (0..1 << BITS, code, usize::from(length)),
            };
            self.slots[slots][code..].iter_mut().step_by(1 << step).for_each(|to| *to = slot);
        }
        Ok(())
    }

    /// Makes room for codes of more than `BITS` bits: as many slots for each beginning as its longest code asks for.
    fn lead_to_longer(&mut self, canonical: &Canonical) {
        let mut codes = canonical.clone();
        for length in BITS as u8 + 1..=LONGEST_CODE as u8 {
            for _ in 0..canonical.count(length) {
                let further = length - BITS as u8;
                self.slots[codes.next(length) & mask(BITS)] = Slot { symbol: 0, length: 0, further };
            }
        }
        for first in 0..1 << BITS {
            let further = self.slots[first].further;
            if further > 0 {
                self.slots[first].symbol = self.slots.len() as u16;
                self.slots.resize(self.slots.len() + (1 << further), Slot::NONE);
            }
        }
    }

    /// The symbol that these bits begin with; length 0 where there is none.
    #[inline(always)]
    pub(super) fn of(&self, bits: u64) -> Slot {
        let slot = self.slots[bits as usize & mask(BITS)];
        if slot.further == 0 {
            return slot;
        }
        let further = (bits >> BITS) as usize & mask(slot.further.into());
        self.slots.get(usize::from(slot.symbol) + further).copied().unwrap_or(Slot::NONE)
    }

    /// What the first bits alone say.
    pub(super) fn first(&self, bits: usize) -> Slot {
        self.slots[bits & mask(BITS)]
    }
}

pub(super) const fn mask(bits: usize) -> usize {
    (1 << bits) - 1
}

fn check(codes: &Canonical) -> Result<(), Refused> {
    let few = (2..=LONGEST_CODE as u8).all(|length| codes.count(length) == 0);
    if codes.is_complete() || (codes.left() > 0 && few) { Ok(()) } else { Err(Refused) }
}
