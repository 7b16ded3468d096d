//! blosclz: blosc's own codec, derived from FastLZ.
//!
//! A stream of instructions, as in [`lzf`](super::super::lzf), in which matches may be longer and
//! farther back:
//!
//! ```text
//! 000nnnnn               n + 1 literal bytes follow
//! nnnddddd dddddddd      n + 2 bytes are copied from d + 1 bytes back (n is 1 to 6)
//! 111ddddd m… dddddddd   9 + all m bytes are copied from d + 1 bytes back; m ends with the first
//!                        byte that is not 255
//! ```
//!
//! In a match, thirteen set bits d mean that two more bytes e follow: the copied bytes begin
//! e + 8192 bytes back.

use super::super::FilterError;
use super::super::cursor::ByteCursor;
use super::super::lzf::LzOutput;

/// Thirteen set bits d: two more bytes are to be added to this distance.
const FAR: usize = 8191;

/// Decodes a stream that must decode to exactly `size` bytes.
pub(super) fn decode(bytes: &[u8], size: usize) -> Result<Vec<u8>, FilterError> {
    let mut out = LzOutput::new(size);
    let mut input = ByteCursor(bytes);
    // The first instruction is a run of literals; its upper bits have another meaning.
    let mut control = input.byte()? & 31;
    loop {
        if control < 32 {
            out.append(&mut input, usize::from(control) + 1)?;
        } else {
            let (distance, length) = read_match(control, &mut input)?;
            out.repeat(distance, length)?;
        }
        match input.byte() {
            Ok(next) => control = next,
            Err(_) => break,
        }
    }
    let out = out.into_bytes();
    if out.len() == size {
        Ok(out)
    } else {
        Err("a blosclz stream is too short".into())
    }
}

/// Reads the rest of a match after its first byte: its distance and its length.
fn read_match(control: u8, input: &mut ByteCursor<'_>) -> Result<(usize, usize), FilterError> {
    let mut length = usize::from(control >> 5) + 2;
    if control >> 5 == 7 {
        loop {
            let more = input.byte()?;
            length += usize::from(more);
            if more != 255 {
                break;
            }
        }
    }
    let high = usize::from(control & 31);
    let low = usize::from(input.byte()?);
    if (high, low) != (31, 255) {
        return Ok(((high << 8 | low) + 1, length));
    }
    let far = usize::from(u16::from_be_bytes(input.array()?));
    Ok((far + FAR + 1, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_references_are_decoded() {
        assert_eq!(
            decode(&[2, b'a', b'b', b'c', 0x20, 2], 6),
            Ok(b"abcabc".to_vec())
        );
        assert_eq!(
            decode(&[0, b'x', 0xe0, 255, 3, 0], 268),
            Ok(vec![b'x'; 268])
        );
        assert_eq!(
            decode(&[0x60, b'x'], 1),
            Ok(vec![b'x']),
            "the upper bits of the first byte"
        );
    }

    #[test]
    fn a_far_reference_has_its_distance_behind_it() {
        let literals: Vec<u8> = (0..8704u32).map(|i| (i * i / 7) as u8).collect();
        let mut stored: Vec<u8> = literals
            .chunks(32)
            .flat_map(|run| [&[31], run].concat())
            .collect();
        stored.extend([0x3f, 255, 1, 0]);
        let expected = [literals.as_slice(), &literals[8704 - 8192 - 256..][..3]].concat();
        assert_eq!(decode(&stored, expected.len()), Ok(expected));
    }

    #[test]
    fn nothing_is_read_or_written_outside() {
        for broken in [
            &[][..],
            &[2, b'a'],
            &[0, b'x', 0x20],
            &[0, b'x', 0x20, 1],
            &[0, b'x', 0xe0, 200, 0],
        ] {
            assert!(decode(broken, 12).is_err(), "{broken:?}");
        }
    }
}
