//! The file format of a tile: the PNG, followed by a trailer that proves it complete and identifies
//! it.
//!
//! A trailer rather than a header, because any image viewer can then show the file: PNG readers
//! stop at the last PNG chunk. A truncated file has no trailer.

use bytes::Bytes;
use voltile_base::geometry::TILE;
use voltile_base::tile::TileKey;

/// The format version of the directory structure and of tile files. It does not cover the meaning
/// of keys, which include a version of their own.
pub(super) const FORMAT: u32 = 1;

/// The length of the trailer. Its fields, with their offsets:
///
/// ```text
/// 0   magic              8 bytes
/// 8   format             4 bytes
/// 12  length of the PNG  8 bytes
/// 20  key                16 bytes
/// 36  checksum           16 bytes
/// ```
pub(super) const TRAILER: usize = CHECKSUM + 16;
/// The maximum length of a tile's file; a longer file is not read. It is that of RGB pixels with a
/// filter byte per row, a quarter more in case the encoder expands them, and 64 KiB for other PNG
/// chunks.
pub(super) const MAX_LENGTH: u64 = {
    let pixels = TILE * (3 * TILE + 1);
    (pixels + pixels / 4 + (64 << 10) + TRAILER) as u64
};

const MAGIC: &[u8; 8] = b"\0voltile";
/// The offset of the checksum in the trailer.
const CHECKSUM: usize = 8 + 4 + 8 + 16;

/// The trailer of a tile; integers are little-endian.
pub(super) fn trailer(key: &TileKey, png: &[u8]) -> [u8; TRAILER] {
    let format = FORMAT.to_le_bytes();
    let length = (png.len() as u64).to_le_bytes();
    let mut trailer = [0; TRAILER];
    let (fields, checksum) = trailer.split_at_mut(CHECKSUM);
    fields.copy_from_slice(&[&MAGIC[..], &format, &length, key.bytes()].concat());
    let mut digest = blake3::Hasher::new();
    digest
        .update(fields)
        .update(png)
        .finalize_xof()
        .fill(checksum);
    trailer
}

/// Verifies a complete file and returns its PNG, or what is wrong.
pub(super) fn verify(key: &TileKey, mut file: Vec<u8>) -> Result<Bytes, &'static str> {
    let length = file
        .len()
        .checked_sub(TRAILER)
        .filter(|length| *length > 0)
        .ok_or("it is too short")?;
    let (png, stored) = file.split_at(length);
    let expected = trailer(key, png);
    let problems = [
        (
            0..8,
            "it has no trailer: it is truncated, or was not written by voltile",
        ),
        (8..12, "it has another format"),
        (12..20, "its length is not the one in its trailer"),
        (20..CHECKSUM, "it is another tile"),
        (CHECKSUM..TRAILER, "its checksum is wrong"),
    ];
    for (part, problem) in problems {
        if stored[part.clone()] != expected[part] {
            return Err(problem);
        }
    }
    file.truncate(length);
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(key: &TileKey, png: &[u8]) -> Vec<u8> {
        [png, &trailer(key, png)].concat()
    }

    #[test]
    fn a_tile_is_read_back_with_its_own_key_only() {
        let (key, other) = (TileKey::digest(&1), TileKey::digest(&2));
        let file = sealed(&key, b"png");
        assert_eq!(verify(&key, file.clone()).unwrap(), "png");
        assert_eq!(verify(&other, file), Err("it is another tile"));
    }

    #[test]
    fn any_changed_byte_or_length_is_detected() {
        let key = TileKey::digest(&1);
        let file = sealed(&key, b"a picture");
        for at in 0..file.len() {
            let mut damaged = file.clone();
            damaged[at] ^= 4;
            assert!(verify(&key, damaged).is_err(), "byte {at}");
            assert!(
                verify(&key, file[..at].to_vec()).is_err(),
                "cut off at {at}"
            );
            assert!(verify(&key, [&file[..], &[0]].concat()).is_err());
        }
        assert!(verify(&key, sealed(&key, b"")).is_err(), "no tile is empty");
    }
}
