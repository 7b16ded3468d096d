//! The table that the fast loop goes by: what the next bits say, as far as they say it.
//!
//! A slot stands for one literal, for two of them, or for a match: the code of its length, that of its distance, and
//! how many bits more the distance has. What all of these have in common is done for any of them alike, without a branch
//! that depends on the data: sensor noise is literals and matches of three bytes in no order that a processor could
//! foresee. What does not fit a slot (long matches, near ones, long codes, the end of the block) is
//! special, and left to the caller.

use super::codes::{Codes, Slot, mask};
use crate::deflate::{self, Canonical, END_OF_BLOCK};

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
    /// What a second literal adds to one before it.
    seconds: Rows,
    /// What a distance adds to a length.
    distances: Rows,
}

/// What can be told from the bits that a code leaves of a step: for each number of them a row, of all that they can be.
struct Rows(Box<[u64; 1 << STEP_BITS]>);

impl Rows {
    fn new() -> Self {
        Self(Box::new([0; _]))
    }

    /// For `left` bits, fewer than a step has.
    fn of(&self, left: usize) -> &[u64] {
        &self.0[1 << left..2 << left]
    }

    /// Fills those rows that the codes of these lengths ask for.
    fn set(&mut self, lengths: &[u8], told: impl Fn(usize, usize) -> u64) {
        let used = lengths.iter().fold(0u32, |used, length| used | 1 << (length & 15));
        for length in (1..=STEP_BITS).filter(|length| used >> length & 1 == 1) {
            let left = STEP_BITS - length;
            let row = &mut self.0[1 << left..2 << left];
            row.iter_mut().enumerate().for_each(|(bits, told_by)| *told_by = told(bits, left));
        }
    }
}

impl Steps {
    pub(super) fn new() -> Self {
        Self { steps: Box::new([Step([0; 8]); _]), seconds: Rows::new(), distances: Rows::new() }
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
        let copied = usize::from(LAST_COPIED) + 1;
        self.seconds.set(&lengths[..256], |bits, left| second(literals.first(bits), left));
        self.distances.set(&lengths[257..copied.min(lengths.len())], |bits, left| {
            distance(distances.first(bits), left)
        });
        let mut codes = Canonical::of(lengths);
        if !codes.is_complete() {
            self.steps.fill(Step(packed::SPECIAL.to_le_bytes()));
        }
        for (&length, symbol) in lengths.iter().zip(0..).filter(|(length, _)| **length > 0) {
            let code = codes.next(length) & mask(STEP_BITS);
            let taken = usize::from(length).min(STEP_BITS);
            let fits = usize::from(length) <= STEP_BITS;
            let slots = self.steps[code..].iter_mut().step_by(1 << taken);
            let first = |value, bytes| packed::step(length, length, value, bytes);
            let (alone, row) = match symbol {
                0..=255 if fits => (first(symbol, 1), self.seconds.of(STEP_BITS - taken)),
                257..=LAST_COPIED if fits => {
                    (first(0, (symbol - 254) as u8), self.distances.of(STEP_BITS - taken))
                }
                _ => {
                    slots.for_each(|slot| *slot = Step(packed::SPECIAL.to_le_bytes()));
                    continue;
                }
            };
            slots.zip(row).for_each(|(slot, told)| *slot = Step((alone + told).to_le_bytes()));
        }
    }
}

/// What a literal adds to one before it that leaves so many bits; nothing where they do not tell one.
fn second(slot: Slot, left: usize) -> u64 {
    if slot.is_whole() && slot.symbol < END_OF_BLOCK && usize::from(slot.length) <= left {
        packed::step(slot.length, slot.length, slot.symbol << 8, 1)
    } else {
        0
    }
}

/// What a distance adds to a length that leaves so many bits. Where they do not tell one that is far enough, the step
/// becomes a special one.
fn distance(slot: Slot, left: usize) -> u64 {
    let known = slot.is_whole() && usize::from(slot.length) <= left;
    let number = deflate::distance(slot.symbol).filter(|number| known && number.base >= COPIED);
    number.map_or(packed::SPECIAL, |number| {
        let total = slot.length + number.extra;
        packed::step(total, slot.length, number.base, 0) | packed::mask(number.extra) | packed::COPY
    })
}
