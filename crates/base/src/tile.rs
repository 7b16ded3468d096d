//! Encoded tiles and their keys: the entries of the cache.
//!
//! A [`TileKey`] is a digest, through `Hash`, of a value with everything that decides a tile's
//! pixels. A field added to that value is part of the key automatically. The key is also the ETag.
//! Replicas share keys: the bytes that are digested are the same on all little-endian machines of
//! 64 bits, and tests pin some keys.

use std::fmt::{self, Write};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

/// A digest of a value, wide enough to rule out collisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 16]);

impl Fingerprint {
    /// The digest of everything that a value's `Hash` covers.
    pub fn digest(value: &impl Hash) -> Self {
        let mut digest = DigestInput(Vec::with_capacity(256));
        value.hash(&mut digest);
        // The first 16 of the 32 bytes.
        let [fingerprint, _] =
            bytemuck::cast::<[u8; 32], [[u8; 16]; 2]>(blake3::hash(&digest.0).into());
        Fingerprint(fingerprint)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Written at once: digit by digit it took as long as parsing the path of a request.
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 32];
        for (pair, byte) in text.as_chunks_mut::<2>().0.iter_mut().zip(self.0) {
            *pair = [
                DIGITS[usize::from(byte >> 4)],
                DIGITS[usize::from(byte & 15)],
            ];
        }
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

/// Identifies one rendering of one tile: equal keys mean equal bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TileKey(Fingerprint);

impl TileKey {
    /// The key of a rendering, given everything that decides its pixels and their encoding.
    pub fn digest(rendering: &impl Hash) -> Self {
        TileKey(Fingerprint::digest(rendering))
    }

    /// Parses a key as displayed; `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let mut digits = text.bytes();
        if text.len() != 32 || !digits.all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        let key = u128::from_str_radix(text, 16).ok()?;
        Some(TileKey(Fingerprint(key.to_be_bytes())))
    }

    /// The bytes of the digest.
    pub fn bytes(&self) -> &[u8; 16] {
        &self.0.0
    }

    /// The first byte: uniformly distributed, for sharding.
    pub fn first(&self) -> u8 {
        let [first, ..] = self.0.0;
        first
    }

    /// The strong entity tag, including quotes.
    pub fn etag(&self) -> String {
        // `format!` would allocate three times.
        let mut etag = String::with_capacity(34);
        // Writing to a string does not fail.
        let _ = write!(etag, "\"{self}\"");
        etag
    }
}

impl fmt::Display for TileKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for TileKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TileKey({self})")
    }
}

/// The bytes that a value's `Hash` writes. They are collected and then digested at once: a key has
/// some sixty parts of a few bytes, and to digest a part alone costs as much as sixty bytes.
struct DigestInput(Vec<u8>);

impl Hasher for DigestInput {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Unused: the digest does not fit in 64 bits.
    fn finish(&self) -> u64 {
        0
    }
}

/// An encoded tile or box of voxels, ready to send; cloning shares the bytes.
#[derive(Debug, Clone)]
pub struct Tile {
    /// The PNG of a tile, or a box in its own encoding.
    pub bytes: Bytes,
    /// The key of the rendering.
    pub key: TileKey,
    /// Whether it has been requested; shared by all clones.
    requested: Arc<AtomicBool>,
}

impl Tile {
    /// A newly made tile.
    pub fn new(key: TileKey, bytes: impl Into<Bytes>) -> Self {
        Self {
            bytes: bytes.into(),
            key,
            requested: Arc::default(),
        }
    }

    /// Marks the tile as requested; returns whether this is the first time.
    pub fn mark_requested(&self) -> bool {
        // Read before writing, so that the cache line of a popular tile does not bounce between
        // cores.
        !self.requested.load(Ordering::Relaxed) && !self.requested.swap(true, Ordering::Relaxed)
    }

    /// How many bytes of a cache budget the tile takes, including bookkeeping.
    pub fn weight(&self) -> usize {
        /// An estimate.
        const BOOKKEEPING: usize = 256;
        self.bytes.len() + BOOKKEEPING
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_deterministic_and_distinct() {
        assert_eq!(TileKey::digest(&("a", 1)), TileKey::digest(&("a", 1)));
        assert_ne!(TileKey::digest(&("a", 1)), TileKey::digest(&("a", 2)));
        assert_ne!(TileKey::digest(&("ab", "c")), TileKey::digest(&("a", "bc")));
    }

    #[test]
    fn only_one_clone_is_asked_first() {
        let tile = Tile::new(TileKey::digest(&7), Bytes::new());
        let same = tile.clone();
        assert_eq!(
            [&same, &tile, &same].map(Tile::mark_requested),
            [true, false, false]
        );
    }

    #[test]
    fn a_key_parses_as_displayed() {
        let key = TileKey::digest(&7);
        assert_eq!(TileKey::parse(&key.to_string()), Some(key));
        let shown = key.to_string();
        for wrong in [
            &shown[1..],
            &shown.to_uppercase(),
            &format!("{shown}00"),
            &shown.replace(&shown[..1], "ä"),
            "",
        ] {
            assert_eq!(TileKey::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_etag_is_a_quoted_token() {
        let etag = TileKey::digest(&7).etag();
        assert_eq!(etag.len(), 34);
        assert!(etag.starts_with('"') && etag.ends_with('"'));
    }
}
