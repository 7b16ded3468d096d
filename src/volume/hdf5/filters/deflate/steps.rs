//! The table that the fast loop goes by: what the next bits say, as far as they say it.
//!
//! A slot stands for one literal, for two of them, or for a match: the code of its length, that of its distance, and
//! how many bits more the distance has. What all of these have in common is done for any of them alike, without a branch
//! that depends on the data: sensor noise is literals and matches of three bytes in no order that a processor could
//! foresee. What does not fit a slot (long matches, near ones, long codes, the end of the block) is
//! special, and left to the caller.

use super::codes::{Canonical, Codes, mask};
use super::symbols;

/// How many bits choose a step. With the 13 that a distance has at most, two steps take 50 of the 64 bits that are
/// there after a refill, which leaves enough to look the next step up before the refill that follows.
pub(super) const STEP_BITS: usize = 12;
/// How many bits of a code choose a symbol among the literals and lengths, and among the distances.
pub(super) const LITERAL_BITS: usize = 10;
pub(super) const DISTANCE_BITS: usize = 8;

/// The matches that a step copies have at most this many bytes, and come from no nearer than that.
pub(super) const COPIED: u16 = 8;
/// The symbol of that length: 257 is that of 3.
const LAST_COPIED: u16 = 254 + COPIED;

/// What to do next. Kept as bytes, so that each field is read from memory by itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step([u8; 8]);

/// A step as one number: fields of two steps that follow each other can be added.
mod packed {
    pub(super) const SPECIAL: u64 = 1 << 56;
    pub(super) const COPY: u64 = 0xFF << 56;

    pub(super) const fn step(total: u8, code: u8, value: u16, length: u8) -> u64 {
        total as u64 | (code as u64) << 8 | (value as u64) << 32 | (length as u64) << 48
    }

    pub(super) const fn mask(bits: u8) -> u64 {
        ((1 << bits) - 1) << 16
    }
}

impl Step {
    /// How many bits of the stream it takes.
    #[inline(always)]
    pub(super) fn total(&self) -> u8 {
        self.0[0]
    }

    /// The literals, or the distance: of the bits behind the codes, those that belong to it are added.
    #[inline(always)]
    pub(super) fn value(&self, bits: u64) -> u32 {
        let [_, code, a, b, c, d, ..] = self.0;
        let behind = (bits >> (code & 63)) as u32 & u32::from(u16::from_le_bytes([a, b]));
        u32::from(u16::from_le_bytes([c, d])) + behind
    }

    /// How many bytes it makes.
    #[inline(always)]
    pub(super) fn length(&self) -> u32 {
        self.0[6].into()
    }

    /// All ones for a match, 0 for literals; `None` where it is special.
    #[inline(always)]
    pub(super) fn copies(&self) -> Option<u64> {
        let kind = i64::from(self.0[7] as i8);
        (kind <= 0).then_some(kind as u64)
    }
}

/// The steps of a block.
pub(super) struct Steps {
    steps: Box<[Step; 1 << STEP_BITS]>,
    /// By the bits behind a literal: what a second one adds, and in the lowest byte how many bits it takes.
    seconds: Box<[u64; 1 << STEP_BITS]>,
    /// By the bits behind a length: what its distance adds, and in the byte above the lowest how many bits its code has.
    distances: [u64; 1 << DISTANCE_BITS],
}

impl Steps {
    pub(super) fn new() -> Self {
        Self { steps: Box::new([Step([0; 8]); _]), seconds: Box::new([0; _]), distances: [0; _] }
    }

    /// What these bits say.
    #[inline(always)]
    pub(super) fn of(&self, bits: u64) -> &Step {
        &self.steps[bits as usize & mask(STEP_BITS)]
    }

    /// Becomes the table for these codes, the first of which have these lengths.
    pub(super) fn set(
        &mut self,
        lengths: &[u8],
        literals: &Codes<LITERAL_BITS>,
        distances: &Codes<DISTANCE_BITS>,
    ) {
        let mut codes = Canonical::of(lengths);
        self.set_seconds(literals, STEP_BITS.saturating_sub(codes.shortest()));
        self.set_distances(distances);
        if !codes.is_complete() {
            self.steps.fill(Step(packed::SPECIAL.to_le_bytes()));
        }
        for (&length, symbol) in lengths.iter().zip(0..).filter(|(length, _)| **length > 0) {
            let code = codes.next(length) & mask(STEP_BITS);
            let left = (STEP_BITS as u8).saturating_sub(length);
            let places = (code..1 << STEP_BITS).step_by(1 << length.min(STEP_BITS as u8));
            let first = |value, bytes| packed::step(length, length, value, bytes);
            match symbol {
                0..=255 if left > 0 => {
                    let alone = first(symbol, 1);
                    for (place, second) in places.zip(&*self.seconds) {
                        let second = if *second as u8 <= left { *second } else { 0 };
                        self.steps[place] = Step((alone + second).to_le_bytes());
                    }
                }
                257..=LAST_COPIED if left > 0 => {
                    let alone = first(0, (symbol - 254) as u8);
                    for (place, bits) in places.zip(0..) {
                        let distance = self.distances[bits & mask(DISTANCE_BITS)];
                        let known = (distance >> 8) as u8 <= left;
                        let step = if known { alone + distance } else { packed::SPECIAL };
                        self.steps[place] = Step(step.to_le_bytes());
                    }
                }
                _ => places.for_each(|place| self.steps[place] = Step(packed::SPECIAL.to_le_bytes())),
            }
        }
    }

    /// What a literal adds to one before it, for all that `bits` bits can say.
    fn set_seconds(&mut self, literals: &Codes<LITERAL_BITS>, bits: usize) {
        const NONE: u64 = u8::MAX as u64;
        for (bits, second) in self.seconds[..1 << bits].iter_mut().enumerate() {
            let slot = literals.first(bits);
            let is_literal = slot.is_whole() && slot.symbol < symbols::END;
            *second =
                if is_literal { packed::step(slot.length, slot.length, slot.symbol << 8, 1) } else { NONE };
        }
    }

    fn set_distances(&mut self, distances: &Codes<DISTANCE_BITS>) {
        const NONE: u64 = (u8::MAX as u64) << 8;
        for (bits, adds) in self.distances.iter_mut().enumerate() {
            let slot = distances.first(bits);
            let number =
                symbols::distance(slot.symbol).filter(|number| slot.is_whole() && number.base >= COPIED);
            *adds = number.map_or(NONE, |number| {
                let total = slot.length + number.extra;
                packed::step(total, slot.length, number.base, 0) | packed::mask(number.extra) | packed::COPY
            });
        }
    }
}
