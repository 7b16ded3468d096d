//! What a block says before its data: its kind, and how long the codes of its symbols are.

use super::Refused;
use super::codes::Codes;
use super::source::Source;
use crate::deflate::{Canonical, END_OF_BLOCK, LENGTH_ORDER};

/// Literals, the end of the block, and lengths; two of them never occur.
const LITERALS: usize = 288;
const DISTANCES: usize = 32;
/// The longest code of a code length.
const LENGTH_BITS: usize = 7;

/// The lengths of the codes of a block's symbols.
#[derive(Debug)]
pub(super) struct Lengths {
    all: [u8; LITERALS + DISTANCES],
    /// How many of them are those of literals and lengths; those of distances follow.
    literals: usize,
    distances: usize,
}

/// The beginning of a block.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one at a time, looked at and gone")]
pub(super) enum Block<'a> {
    /// Bytes as they are.
    Stored(&'a [u8]),
    /// Symbols.
    Coded(Lengths),
}

impl<'a> Block<'a> {
    /// Reads what comes before the data of a block, and whether it is the last one (RFC 1951, section 3.2.3).
    pub(super) fn read(source: &mut Source<'a>) -> Result<(Self, bool), Refused> {
        source.refill_at_end();
        let last = source.take(1) == 1;
        let block = match source.take(2) {
            0 => Self::Stored(stored(source)?),
            1 => Self::Coded(Lengths::fixed()),
            2 => Self::Coded(Lengths::read(source)?),
            _ => return Err(Refused),
        };
        if source.overrun() { Err(Refused) } else { Ok((block, last)) }
    }
}

/// Bytes, behind their number and its complement.
fn stored<'a>(source: &mut Source<'a>) -> Result<&'a [u8], Refused> {
    let [a, b, c, d] = *source.bytes(4)?.first_chunk().ok_or(Refused)?;
    let length = u16::from_le_bytes([a, b]);
    if u16::from_le_bytes([c, d]) != !length {
        return Err(Refused);
    }
    source.bytes(length.into())
}

impl Lengths {
    pub(super) fn literals(&self) -> &[u8] {
        &self.all[..self.literals]
    }

    pub(super) fn distances(&self) -> &[u8] {
        &self.all[self.literals..self.literals + self.distances]
    }

    /// Whether the symbols that these codes are made for are noise of few bits: literals with many short matches among
    /// them, found by chance and anywhere. The length of a code tells how often its symbol was counted. The bounds were
    /// found with noise of 1 to 30 grey levels, and with files from microscopes.
    pub(super) fn are_of_noise(&self) -> bool {
        const ALL: u32 = 1 << 15;
        let share = |lengths: &[u8], longest: u8| -> u32 {
            let some = lengths.iter().filter(|length| (1..=longest).contains(*length));
            some.map(|length| ALL >> length).sum()
        };
        let (bytes, lengths) = self.literals().split_at(257);
        let matches = share(lengths, 15);
        let long = share(lengths.get(6..).unwrap_or_default(), 15);
        let near = share(self.distances().get(..6).unwrap_or(self.distances()), 15);
        // Two literals of 6 bits are taken in one step.
        let pays = matches > ALL / 20 || (matches > ALL / 64 && share(bytes, 6) > ALL / 2);
        pays && matches < ALL / 16 * 15 && long < ALL / 64 && near < ALL / 32
    }

    /// Those that need not be told (RFC 1951, section 3.2.6).
    fn fixed() -> Self {
        let mut all = [5; LITERALS + DISTANCES];
        all[..144].fill(8);
        all[144..256].fill(9);
        all[256..280].fill(7);
        all[280..LITERALS].fill(8);
        Self { all, literals: LITERALS, distances: DISTANCES }
    }

    /// Those that a block tells, in codes of their own (RFC 1951, section 3.2.7).
    fn read(source: &mut Source<'_>) -> Result<Self, Refused> {
        let (literals, distances) = (source.take(5) + 257, source.take(5) + 1);
        let told = source.take(4) + 4;
        if literals > 286 || distances > 30 {
            return Err(Refused);
        }
        let mut of_lengths = [0; LENGTH_ORDER.len()];
        for symbol in &LENGTH_ORDER[..told] {
            source.refill_at_end();
            of_lengths[*symbol] = source.take(3) as u8;
        }
        let mut codes = Codes::<LENGTH_BITS>::new();
        codes.set(&of_lengths)?;
        if !Canonical::of(&of_lengths).is_complete() {
            return Err(Refused);
        }
        let mut all = [0; LITERALS + DISTANCES];
        let mut at = 0;
        while at < literals + distances {
            source.refill_at_end();
            let slot = codes.of(source.bits());
            source.skip(slot.length);
            let (value, times) = match slot.symbol {
                length @ 0..=15 => (length as u8, 1),
                16 => (*all[..at].last().ok_or(Refused)?, 3 + source.take(2)),
                17 => (0, 3 + source.take(3)),
                18 => (0, 11 + source.take(7)),
                _ => return Err(Refused),
            };
            all[..literals + distances].get_mut(at..at + times).ok_or(Refused)?.fill(value);
            at += times;
        }
        // Without a code for it the block would not end.
        if all[usize::from(END_OF_BLOCK)] == 0 { Err(Refused) } else { Ok(Self { all, literals, distances }) }
    }
}
