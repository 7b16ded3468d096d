//! lzf (filter 32000): Marc Lehmann's format, as h5py writes it.

use super::Broken;
use super::cursor::Cursor;

/// Decodes to at most `limit` bytes; the format does not say how many it comes to.
pub(super) fn decode(bytes: &[u8], limit: usize) -> Result<Vec<u8>, Broken> {
    let mut out = Vec::with_capacity(limit);
    let mut input = Cursor(bytes);
    while let Ok(control) = input.byte() {
        if control < 32 {
            let run = input.take(usize::from(control) + 1)?;
            if run.len() > limit - out.len() {
                return Err("it is longer than a chunk".into());
            }
            out.extend_from_slice(run);
        } else {
            let mut length = usize::from(control >> 5) + 2;
            if control >> 5 == 7 {
                length += usize::from(input.byte()?);
            }
            let distance = usize::from(control & 31) << 8 | usize::from(input.byte()?);
            repeat(&mut out, distance + 1, length, limit)?;
        }
    }
    Ok(out)
}

/// Appends `length` bytes that were written `distance` bytes ago; they may reach into those that they append.
pub(super) fn repeat(out: &mut Vec<u8>, distance: usize, length: usize, limit: usize) -> Result<(), Broken> {
    let from = out.len().checked_sub(distance).ok_or("it refers to what lies before its start")?;
    if length > limit - out.len() {
        return Err("it is longer than a chunk".into());
    }
    let mut missing = length;
    while missing > 0 {
        let piece = missing.min(out.len() - from);
        if piece == 0 {
            return Err("it refers to itself".into());
        }
        out.extend_from_within(from..from + piece);
        missing -= piece;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_references_are_decoded() {
        assert_eq!(decode(&[2, b'a', b'b', b'c', 0x20, 2], 6), Ok(b"abcabc".to_vec()));
        assert_eq!(decode(&[0, b'x', 0xe0, 3, 0], 13), Ok(vec![b'x'; 13]));
        assert_eq!(decode(&[], 6), Ok(Vec::new()));
    }

    #[test]
    fn nothing_is_read_or_written_outside() {
        for broken in
            [&[2, b'a'][..], &[0x20, 0], &[0, b'x', 0x20, 1], &[0, b'x', 0xe0], &[0, b'x', 0xe0, 200, 0]]
        {
            assert!(decode(broken, 12).is_err(), "{broken:?}");
        }
    }
}
