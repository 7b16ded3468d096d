//! lzf (filter 32000): Marc Lehmann's format, as written by h5py.
//!
//! A stream of instructions, which begin with these bytes (in bits):
//!
//! ```text
//! 000nnnnn                     n + 1 literal bytes follow
//! nnnddddd dddddddd            n + 2 bytes are copied from d + 1 bytes back (n is 1 to 6)
//! 111ddddd nnnnnnnn dddddddd   n + 9 bytes are copied from d + 1 bytes back
//! ```

use super::cursor::ByteCursor;
use super::{FilterError, ensure_fits};

/// Bytes are copied in pieces of this length, even where fewer are wanted: a constant length halves
/// the time. No run of literals is longer.
const PIECE: usize = 32;

/// Decodes to at most `limit` bytes; the format does not state the decoded size.
pub(super) fn decode(bytes: &[u8], limit: usize) -> Result<Vec<u8>, FilterError> {
    let mut out = LzOutput::new(limit);
    let mut input = ByteCursor(bytes);
    while let Ok(control) = input.byte() {
        if control < 32 {
            out.append(&mut input, usize::from(control) + 1)?;
        } else {
            let mut length = usize::from(control >> 5) + 2;
            if control >> 5 == 7 {
                length += usize::from(input.byte()?);
            }
            let distance = usize::from(control & 31) << 8 | usize::from(input.byte()?);
            out.repeat(distance + 1, length)?;
        }
    }
    Ok(out.into_bytes())
}

/// The output of a decoder that copies from its earlier output.
pub(super) struct LzOutput {
    /// The decoded bytes, then room up to one piece beyond the limit: pieces are copied whole.
    bytes: Vec<u8>,
    /// The number of decoded bytes.
    length: usize,
    /// The maximum number of decoded bytes.
    limit: usize,
}

impl LzOutput {
    /// No bytes yet, and at most `limit` in the end.
    pub fn new(limit: usize) -> Self {
        Self {
            bytes: vec![0; limit.saturating_add(PIECE)],
            length: 0,
            limit,
        }
    }

    pub fn into_bytes(mut self) -> Vec<u8> {
        self.bytes.truncate(self.length);
        self.bytes
    }

    /// The length after appending `more` bytes; fails if it exceeds the limit.
    fn end(&self, more: usize) -> Result<usize, FilterError> {
        ensure_fits(more, self.limit - self.length)?;
        Ok(self.length + more)
    }

    /// Appends the next `length` bytes of the input, at most [`PIECE`].
    pub fn append(&mut self, input: &mut ByteCursor<'_>, length: usize) -> Result<(), FilterError> {
        // The run and the bytes after it; `None` near the end of the input.
        let piece = input.0.first_chunk::<PIECE>();
        let run = input
            .take(length)
            .map_err(|_| "a run of literals ends too early")?;
        let end = self.end(length)?;
        match piece {
            Some(piece) => self.bytes[self.length..][..PIECE].copy_from_slice(piece),
            None => self.bytes[self.length..end].copy_from_slice(run),
        }
        self.length = end;
        Ok(())
    }

    /// Appends `length` bytes from `distance` bytes back. If the distance is shorter, these bytes
    /// repeat: "xy" and 5 bytes from 2 bytes back give "xyxyxyx".
    pub fn repeat(&mut self, distance: usize, length: usize) -> Result<(), FilterError> {
        let from = self
            .length
            .checked_sub(distance)
            .ok_or("a match refers to data before the start")?;
        let start = self.length;
        let end = self.end(length)?;
        if distance >= PIECE {
            (0..length).step_by(PIECE).for_each(|done| {
                self.bytes
                    .copy_within(from + done..from + done + PIECE, start + done);
            });
        } else {
            // Byte by byte, because a piece would overlap its own source.
            (0..length).for_each(|done| self.bytes[start + done] = self.bytes[from + done]);
        }
        self.length = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn literals_and_references_are_decoded() {
        assert_eq!(
            decode(&[2, b'a', b'b', b'c', 0x20, 2], 6),
            Ok(b"abcabc".to_vec())
        );
        assert_eq!(decode(&[0, b'x', 0xe0, 3, 0], 13), Ok(vec![b'x'; 13]));
        assert_eq!(decode(&[], 6), Ok(Vec::new()));
    }

    /// Byte by byte.
    fn slowly(bytes: &[u8], limit: usize) -> Option<Vec<u8>> {
        let (mut out, mut rest) = (Vec::new(), bytes.iter().copied().map(usize::from));
        while let Some(control) = rest.next() {
            if control < 32 {
                for _ in 0..=control {
                    out.push(rest.next()? as u8);
                }
            } else {
                let more = if control >> 5 == 7 { rest.next()? } else { 0 };
                let distance = ((control & 31) << 8) + rest.next()? + 1;
                let from = out.len().checked_sub(distance)?;
                (0..(control >> 5) + 2 + more).for_each(|i| out.push(out[from + i]));
            }
        }
        (out.len() <= limit).then_some(out)
    }

    proptest! {
        #[test]
        fn any_stream_is_decoded_as_byte_by_byte(
            pieces in prop::collection::vec((0..300usize, prop::collection::vec(any::<u8>(), 1..33), 2..9usize), 0..40),
            cut in 0..3usize, limit in 0..5000usize,
        ) {
            let mut stored = Vec::new();
            for (distance, literals, length) in pieces {
                stored.push(literals.len() as u8 - 1);
                stored.extend(&literals);
                stored.push((length.min(7) << 5 | distance >> 8) as u8);
                stored.extend((length > 6).then_some(17 * length as u8));
                stored.push(distance as u8);
            }
            let stored = &stored[..stored.len() - cut.min(stored.len())];
            prop_assert_eq!(decode(stored, limit).ok(), slowly(stored, limit));
        }
    }

    #[test]
    fn nothing_is_read_or_written_outside() {
        for broken in [
            &[2, b'a'][..],
            &[0x20, 0],
            &[0, b'x', 0x20, 1],
            &[0, b'x', 0xe0],
            &[0, b'x', 0xe0, 200, 0],
        ] {
            assert!(decode(broken, 12).is_err(), "{broken:?}");
        }
    }
}
