//! Inflates zlib streams (RFC 1950, RFC 1951), block by block: quickly where all is plain, else symbol by symbol.

use simd_adler32::adler32;

use super::Refused;
use super::codes::Codes;
use super::header::{Block, Lengths};
use super::source::Source;
use super::steps::{DISTANCE_BITS, LITERAL_BITS, Steps};
use super::target::Target;
use crate::deflate::{self, END_OF_BLOCK};

/// Blocks of fewer bytes, on average, are not worth the tables that each of them has made: zlib's have 10 KB and more. A
/// stream may have so many blocks whatever its length.
const LEAST_BLOCK: usize = 1024;
const MOST_BLOCKS: usize = 16;

/// How far a stream was inflated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reached {
    /// To its end, which came after so many bytes; its checksum is theirs.
    End(usize),
    /// As far as there was room. It goes on, and its checksum was not looked at.
    Full,
}

/// Tables that are kept from stream to stream.
pub(super) struct Inflater {
    literals: Codes<LITERAL_BITS>,
    distances: Codes<DISTANCE_BITS>,
    steps: Steps,
}

/// Why symbols were not followed any further.
enum Stop {
    /// The block has ended.
    End,
    /// There is no room for what comes next.
    Full,
}

impl Inflater {
    pub(super) fn new() -> Self {
        Self { literals: Codes::new(), distances: Codes::new(), steps: Steps::new() }
    }

    /// Inflates a zlib stream into the front of `out`.
    ///
    /// # Errors
    /// Where it is not a zlib stream, or a strange one; `out` holds anything then.
    pub(super) fn inflate(&mut self, stream: &[u8], out: &mut [u8]) -> Result<Reached, Refused> {
        let (method, data) = stream.split_at_checked(2).ok_or(Refused)?;
        check_method(method)?;
        let mut source = Source::new(data);
        let mut target = Target::new(out)?;
        let mut blocks = MOST_BLOCKS + stream.len() / LEAST_BLOCK;
        loop {
            blocks = blocks.checked_sub(1).ok_or(Refused)?;
            let (block, last) = Block::read(&mut source)?;
            let stop = match block {
                Block::Stored(bytes) if target.append(bytes) => Stop::End,
                Block::Stored(_) => Stop::Full,
                Block::Coded(lengths) => {
                    self.set(&lengths)?;
                    self.follow(&mut source, &mut target)?
                }
            };
            match stop {
                Stop::Full => return Ok(Reached::Full),
                Stop::End if last => break,
                Stop::End => {}
            }
        }
        let told = source.bytes(4)?.first_chunk().ok_or(Refused)?;
        let made = target.made();
        if u32::from_be_bytes(*told) == adler32(&made) { Ok(Reached::End(made.len())) } else { Err(Refused) }
    }

    /// Has the tables for the codes of a block.
    fn set(&mut self, lengths: &Lengths) -> Result<(), Refused> {
        self.literals.set(lengths.literals())?;
        self.distances.set(lengths.distances())?;
        self.steps.set(lengths.literals(), &self.literals, &self.distances);
        Ok(())
    }

    /// Follows the symbols of a block.
    fn follow(&self, source: &mut Source<'_>, target: &mut Target<'_>) -> Result<Stop, Refused> {
        loop {
            self.run(source, target)?;
            // Near the end of the stream, of the room, or of the block: one symbol by itself.
            source.refill_at_end();
            let symbol = self.symbol(source)?;
            if source.overrun() {
                return Err(Refused);
            }
            let fits = match symbol {
                Symbol::End => return Ok(Stop::End),
                Symbol::Literal(byte) => target.append(&[byte]),
                Symbol::Match { length, distance } => target.copy(length, distance)?,
            };
            if !fits {
                return Ok(Stop::Full);
            }
        }
    }

    /// Takes steps as long as there is much of the stream, and much room, and none is special.
    #[inline(never)]
    fn run(&self, source: &mut Source<'_>, target: &mut Target<'_>) -> Result<(), Refused> {
        // Copies that nobody else knows of stay in registers.
        let (mut from, mut to) = (*source, target.reborrow());
        let mut went_on = Ok(from.refill());
        while went_on == Ok(true) {
            // Looked up before the refill, so that neither waits for the other.
            let step = self.steps.of(from.bits());
            if !from.refill() {
                break;
            }
            went_on = to.take(step, from.bits());
            if went_on != Ok(true) {
                break;
            }
            from.skip(step.total());
            let step = self.steps.of(from.bits());
            went_on = to.take(step, from.bits());
            if went_on == Ok(true) {
                from.skip(step.total());
            }
        }
        let length = to.length();
        target.go_on_from(length);
        *source = from;
        went_on.map(|_| ())
    }

    /// The next symbol, for which 56 bits must be there.
    #[inline(always)]
    fn symbol(&self, source: &mut Source<'_>) -> Result<Symbol, Refused> {
        let slot = self.literals.of(source.bits());
        source.skip(slot.length);
        match slot.symbol {
            END_OF_BLOCK => Ok(Symbol::End),
            literal @ ..END_OF_BLOCK => Ok(Symbol::Literal(literal as u8)),
            symbol => {
                let length = deflate::length(symbol).ok_or(Refused)?;
                let length = usize::from(length.base) + source.take(length.extra);
                let slot = self.distances.of(source.bits());
                source.skip(slot.length);
                let distance = deflate::distance(slot.symbol).ok_or(Refused)?;
                let distance = usize::from(distance.base) + source.take(distance.extra);
                Ok(Symbol::Match { length, distance })
            }
        }
    }
}

/// A symbol, with what follows it.
enum Symbol {
    End,
    Literal(u8),
    Match { length: usize, distance: usize },
}

/// Whether the first two bytes announce deflate, without a dictionary (RFC 1950, section 2.2).
fn check_method(method: &[u8]) -> Result<(), Refused> {
    let [method, flags] = *method else { return Err(Refused) };
    let deflate = method & 0x0F == 8 && method >> 4 <= 7;
    let dictionary = flags & 0x20 != 0;
    let checks = u16::from_be_bytes([method, flags]).is_multiple_of(31);
    if deflate && !dictionary && checks { Ok(()) } else { Err(Refused) }
}
