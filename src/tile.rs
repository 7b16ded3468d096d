//! What the cache holds and what identifies it: encoded tiles and their keys.
//!
//! A [`TileKey`] is a digest of a value that holds everything that decides a tile's pixels, taken through its
//! `Hash`. Whoever adds a field to such a value has it in the key, by the type. The key is also the ETag.

use std::fmt::{self, Write};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

/// A digest of a value, wide enough that two values never meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 16]);

impl Fingerprint {
    /// The digest of everything in a value that its `Hash` tells.
    pub fn of(value: &impl Hash) -> Self {
        let mut digest = Digest(blake3::Hasher::new());
        value.hash(&mut digest);
        let mut fingerprint = [0; 16];
        digest.0.finalize_xof().fill(&mut fingerprint);
        Fingerprint(fingerprint)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Digit by digit: as numbers, a hit spent as long on them as on reading its path.
        let digits = self.0.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        digits
            .filter_map(|digit| char::from_digit(digit.into(), 16))
            .try_for_each(|digit| f.write_char(digit))
    }
}

/// Identifies one rendering of one tile: equal keys mean equal bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TileKey(Fingerprint);

impl TileKey {
    /// The key of a rendering, given everything that decides its pixels and their encoding.
    pub fn of(rendering: &impl Hash) -> Self {
        TileKey(Fingerprint::of(rendering))
    }

    /// The key as it is shown; `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes().as_chunks::<2>();
        let (pairs, []) = digits else { return None };
        let mut key = [0; 16];
        if pairs.len() != key.len() {
            return None;
        }
        for (byte, pair) in key.iter_mut().zip(pairs) {
            let digit =
                |at: usize| (pair[at] as char).to_digit(16).filter(|_| !pair[at].is_ascii_uppercase());
            *byte = (digit(0)? << 4 | digit(1)?) as u8;
        }
        Some(TileKey(Fingerprint(key)))
    }

    /// The bytes of the digest.
    pub fn bytes(&self) -> &[u8; 16] {
        &self.0.0
    }

    /// The first byte: as good as random, for what is to be spread evenly.
    pub fn first(&self) -> u8 {
        let [first, ..] = self.0.0;
        first
    }

    /// The strong entity tag, quotes included.
    pub fn etag(&self) -> String {
        format!("\"{self}\"")
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

/// Feeds what `Hash` gives into a digest wide enough that two renderings never meet.
struct Digest(blake3::Hasher);

impl Hasher for Digest {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Unused: the digest is longer than this can return.
    fn finish(&self) -> u64 {
        0
    }
}

/// An encoded tile, ready to send; cloning shares the bytes.
#[derive(Debug, Clone)]
pub struct Tile {
    /// The PNG.
    pub png: Bytes,
    /// What the tile is a rendering of.
    pub key: TileKey,
    /// Whether anybody has asked for it; shared by all clones.
    asked: Arc<AtomicBool>,
}

impl Tile {
    /// A tile that was just made.
    pub fn new(key: TileKey, png: impl Into<Bytes>) -> Self {
        Self { png: png.into(), key, asked: Arc::default() }
    }

    /// Notes that it was asked for; true the first time.
    pub fn is_asked_first(&self) -> bool {
        // Read before it is written, so that a tile that many ask for is not passed from core to core.
        !self.asked.load(Ordering::Relaxed) && !self.asked.swap(true, Ordering::Relaxed)
    }

    /// How many bytes the tile takes from a cache budget, its bookkeeping included.
    pub fn weight(&self) -> usize {
        const BOOKKEEPING: usize = 256;
        self.png.len() + BOOKKEEPING
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_tell_renderings_apart_and_stay_the_same() {
        assert_eq!(TileKey::of(&("a", 1)), TileKey::of(&("a", 1)));
        assert_ne!(TileKey::of(&("a", 1)), TileKey::of(&("a", 2)));
        assert_ne!(TileKey::of(&("ab", "c")), TileKey::of(&("a", "bc")));
    }

    #[test]
    fn only_one_of_all_who_ask_is_the_first() {
        let tile = Tile::new(TileKey::of(&7), Bytes::new());
        let same = tile.clone();
        assert_eq!([&same, &tile, &same].map(Tile::is_asked_first), [true, false, false]);
    }

    #[test]
    fn a_key_is_read_as_it_is_shown() {
        let key = TileKey::of(&7);
        assert_eq!(TileKey::parse(&key.to_string()), Some(key));
        let shown = key.to_string();
        for wrong in
            [&shown[1..], &shown.to_uppercase(), &format!("{shown}00"), &shown.replace(&shown[..1], "ä"), ""]
        {
            assert_eq!(TileKey::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_etag_is_a_quoted_token() {
        let etag = TileKey::of(&7).etag();
        assert_eq!(etag.len(), 34);
        assert!(etag.starts_with('"') && etag.ends_with('"'));
    }
}
