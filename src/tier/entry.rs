//! One tile as a file: the PNG, and behind its end a trailer by which it is known to be whole and the right one.
//!
//! Behind and not before, so that the file is a picture for every program that shows pictures: readers of PNG stop at
//! its last chunk. A file that was cut off has no trailer.

use bytes::Bytes;

use super::marker::FORMAT;
use crate::geometry::TILE;
use crate::tile::TileKey;

/// How long the trailer is: magic, format, length of the PNG, key, checksum.
pub(super) const TRAILER: usize = CHECKSUM + 16;
/// What is longer is no tile, and is not read into memory: the pixels of the largest one, in colour and with a byte before
/// each row, a quarter more for an encoder that makes them longer, and what else is in the file.
pub(super) const LONGEST: u64 = {
    let pixels = TILE * (3 * TILE + 1);
    (pixels + pixels / 4 + (64 << 10) + TRAILER) as u64
};

const MAGIC: &[u8; 8] = b"\0voltile";
/// Where the checksum stands: behind 8 bytes of magic, 4 of the format, 8 of the length and 16 of the key.
const CHECKSUM: usize = 8 + 4 + 8 + 16;

/// The trailer of a tile.
pub(super) fn trailer(key: &TileKey, png: &[u8]) -> [u8; TRAILER] {
    let mut trailer = [0; TRAILER];
    let (told, checksum) = trailer.split_at_mut(CHECKSUM);
    told.copy_from_slice(&told_of(key, png.len() as u64));
    let mut digest = blake3::Hasher::new();
    digest.update(told).update(png).finalize_xof().fill(checksum);
    trailer
}

/// What the trailer says before its checksum; numbers are little-endian.
fn told_of(key: &TileKey, length: u64) -> [u8; CHECKSUM] {
    let mut told = [0; CHECKSUM];
    let parts = [&MAGIC[..], &FORMAT.to_le_bytes(), &length.to_le_bytes(), key.bytes()];
    told.iter_mut().zip(parts.concat()).for_each(|(to, from)| *to = from);
    told
}

/// Whether the end of a file of that length says that it is this tile; its checksum is not looked at.
pub(super) fn claims(key: &TileKey, end: &[u8], length: u64) -> Result<(), &'static str> {
    let png = length.checked_sub(TRAILER as u64).filter(|png| *png > 0).ok_or("it is too short")?;
    let (magic, rest) = end.split_at_checked(MAGIC.len()).ok_or("it is too short")?;
    let (format, rest) = rest.split_at_checked(4).ok_or("it is too short")?;
    let (claimed, rest) = rest.split_at_checked(8).ok_or("it is too short")?;
    let own = rest.get(..16).ok_or("it is too short")?;
    match () {
        () if magic != MAGIC => Err("its end was not written by voltile, or is cut off"),
        () if format != FORMAT.to_le_bytes() => Err("it is of another format"),
        () if claimed != png.to_le_bytes() => Err("it is not as long as it says"),
        () if own != key.bytes() => Err("it is another tile"),
        () => Ok(()),
    }
}

/// The PNG in a whole file, once everything about it is right.
pub(super) fn opened(key: &TileKey, mut file: Vec<u8>) -> Result<Bytes, &'static str> {
    let (png, end) = file.split_at(file.len().saturating_sub(TRAILER));
    claims(key, end, file.len() as u64)?;
    if end != trailer(key, png) {
        return Err("its checksum is wrong");
    }
    file.truncate(file.len() - TRAILER);
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(key: &TileKey, png: &[u8]) -> Vec<u8> {
        [png, &trailer(key, png)].concat()
    }

    #[test]
    fn what_was_sealed_can_be_opened_by_its_key_alone() {
        let (key, other) = (TileKey::of(&1), TileKey::of(&2));
        let file = sealed(&key, b"png");
        assert_eq!(opened(&key, file.clone()).unwrap(), "png");
        assert_eq!(opened(&other, file), Err("it is another tile"));
    }

    #[test]
    fn every_byte_counts_and_so_does_the_length() {
        let key = TileKey::of(&1);
        let file = sealed(&key, b"a picture");
        for at in 0..file.len() {
            let mut damaged = file.clone();
            damaged[at] ^= 4;
            assert!(opened(&key, damaged).is_err(), "byte {at}");
            assert!(opened(&key, file[..at].to_vec()).is_err(), "cut off at {at}");
            assert!(opened(&key, [&file[..], &[0]].concat()).is_err());
        }
        assert!(opened(&key, sealed(&key, b"")).is_err(), "no tile is empty");
    }
}
