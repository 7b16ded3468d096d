//! deflate (filter 1): a zlib stream.
//!
//! libdeflate inflates most streams faster than anything else we know. In sensor noise of few bits, though, a compressor
//! finds a match of three or four bytes every few literals, by chance, and no processor can foresee which of the two
//! comes next: half of the time goes into turning back from wrong guesses. An [`Inflater`] of our own has no such
//! branches, and takes half of the time where it gains most. The codes of the first block tell for which streams it is
//! likely to gain anything ([`of_noise`]). What it finds odd is left to libdeflate as well, which alone says what is
//! damaged.

mod codes;
mod header;
mod inflater;
mod source;
mod steps;
mod target;
#[cfg(test)]
mod tests;

use std::cell::RefCell;

use libdeflater::{DecompressionError, Decompressor};

use self::header::Block;
use self::inflater::{Inflater, Reached};
use self::source::Source;
use super::super::spare;
use super::Broken;

/// A stream that is not inflated by our own means: damaged, or merely strange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Refused;

/// Where a stream is shorter, the tables that the inflater makes of its codes take longer than they save.
const WORTH_TABLES: usize = 8 * 1024;

/// How much room is left behind what is needed: libdeflate fills its buffer but for at most one match of 258 bytes.
const ROOM: usize = 512;
/// Where in that room a mark stands: further than libdeflate ever writes ahead of what it has decoded.
const AHEAD: usize = 128;
const MARK: [u8; 8] = [0xA5, 0x3C, 0x96, 0x0F, 0x69, 0xC3, 0x5A, 0xF1];

/// Inflates a stream that comes to at most `limit` bytes: all of it, or its first `needed` bytes where that is much less.
/// Only a whole stream has its checksum checked.
pub(super) fn decode(bytes: &[u8], limit: usize, needed: usize) -> Result<Vec<u8>, Broken> {
    if needed >= limit - limit / 8 || limit - needed <= ROOM {
        return whole(bytes, limit);
    }
    match beginning_of_noise(bytes, needed) {
        Some(begun) => Ok(begun),
        None => beginning(bytes, needed)?.map_or_else(|| whole(bytes, limit), Ok),
    }
}

/// The first `needed` bytes, or all where there are fewer; `None` where it is not for our own inflater to say.
fn beginning_of_noise(bytes: &[u8], needed: usize) -> Option<Vec<u8>> {
    if !of_noise(bytes) {
        return None;
    }
    let mut out = vec![0; needed];
    if let Reached::End(length) = inflate_noise(bytes, &mut out).ok()? {
        out.truncate(length);
    }
    Some(out)
}

/// The first `needed` bytes, or all where there are no more than a few behind them; `None` where it is unknown how far
/// they go.
///
/// libdeflate writes a stream from front to back and stops where its buffer is full, but does not say how far it came. A
/// mark a little behind what is needed tells: it was overwritten, or (before a stored block that does not fit, say) it
/// was not.
fn beginning(bytes: &[u8], needed: usize) -> Result<Option<Vec<u8>>, Broken> {
    let mut out = vec![0; needed + ROOM];
    let mark = needed + AHEAD..needed + AHEAD + MARK.len();
    out[mark.clone()].copy_from_slice(&MARK);
    match Decompressor::new().zlib_decompress(bytes, &mut out) {
        Ok(length) => out.truncate(length),
        Err(DecompressionError::InsufficientSpace) if out[mark] != MARK => out.truncate(needed),
        Err(DecompressionError::InsufficientSpace) => return Ok(None),
        Err(DecompressionError::BadData) => return Err(NONSENSE.into()),
    }
    Ok(Some(out))
}

const NONSENSE: &str = "its zlib stream makes no sense";

fn whole(bytes: &[u8], limit: usize) -> Result<Vec<u8>, Broken> {
    let mut out = spare::take(limit);
    let length = inflate(bytes, &mut out)?;
    out.truncate(length);
    Ok(out)
}

/// Inflates a stream into the front of `target`; returns how much that was.
pub(super) fn inflate(bytes: &[u8], target: &mut [u8]) -> Result<usize, Broken> {
    if of_noise(bytes)
        && let Ok(Reached::End(length)) = inflate_noise(bytes, target)
    {
        return Ok(length);
    }
    Decompressor::new().zlib_decompress(bytes, target).map_err(|e| match e {
        DecompressionError::BadData => Broken::from(NONSENSE),
        DecompressionError::InsufficientSpace => Broken::from("its zlib stream is longer than a chunk"),
    })
}

/// Whether a stream begins like one that our own inflater is the faster one for.
fn of_noise(bytes: &[u8]) -> bool {
    let data = bytes.get(2..).filter(|data| data.len() >= WORTH_TABLES);
    let first = data.and_then(|data| Block::read(&mut Source::new(data)).ok());
    matches!(first, Some((Block::Coded(lengths), _)) if lengths.are_of_noise())
}

fn inflate_noise(bytes: &[u8], target: &mut [u8]) -> Result<Reached, Refused> {
    thread_local! {
        static INFLATER: RefCell<Inflater> = RefCell::new(Inflater::new());
    }
    INFLATER.with_borrow_mut(|inflater| inflater.inflate(bytes, target))
}
