//! The inflater beside libdeflate: on what compressors make, on what no compressor makes, and on what is damaged.

use std::io::Write;

use flate2::write::ZlibEncoder;
use flate2::{Compression, Decompress, FlushDecompress, Status};
use libdeflater::{CompressionLvl, Compressor, Decompressor};
use proptest::prelude::*;

use super::inflater::Reached;
use super::*;

/// What libdeflate makes of a stream that comes to at most `most` bytes.
fn by_libdeflate(stream: &[u8], most: usize) -> Option<Vec<u8>> {
    let mut out = vec![0; most];
    let length = Decompressor::new().zlib_decompress(stream, &mut out).ok()?;
    out.truncate(length);
    Some(out)
}

/// What ours makes of it, with tables that other streams were inflated by.
fn by_ours(stream: &[u8], most: usize) -> Option<Vec<u8>> {
    let mut out = vec![0xA5; most];
    match inflate_noise(stream, &mut out) {
        Ok(Reached::End(length)) => out.truncate(length),
        Ok(Reached::Full) | Err(Refused) => return None,
    }
    Some(out)
}

/// What zlib makes of the beginning of a stream that may be damaged: all that comes before the damage.
fn beginning_by_zlib(stream: &[u8], most: usize) -> Vec<u8> {
    let mut inflate = Decompress::new(true);
    let mut out = Vec::new();
    while out.len() < most {
        let mut byte = [0];
        let left = &stream[inflate.total_in() as usize..];
        let status = inflate.decompress(left, &mut byte, FlushDecompress::None);
        if inflate.total_out() as usize == out.len() {
            break;
        }
        out.push(byte[0]);
        if !matches!(status, Ok(Status::Ok | Status::BufError)) {
            break;
        }
    }
    out
}

/// A stream by one of three compressors that share no code.
fn deflated(bytes: &[u8], compressor: u8, level: u8) -> Vec<u8> {
    match compressor {
        0 => miniz_oxide::deflate::compress_to_vec_zlib(bytes, level % 11),
        1 => {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(u32::from(level % 10)));
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        _ => {
            let mut compressor = Compressor::new(CompressionLvl::new(i32::from(level % 13)).unwrap());
            let mut out = vec![0; compressor.zlib_compress_bound(bytes.len())];
            let length = compressor.zlib_compress(bytes, &mut out).unwrap();
            out.truncate(length);
            out
        }
    }
}

/// Noise of some bits, runs, periods and repetitions of what came before, in any order.
fn data() -> impl Strategy<Value = Vec<u8>> {
    let piece = (0..5u8, 0..9u32, 1..20_000usize, any::<u64>());
    prop::collection::vec(piece, 0..6).prop_map(|pieces| {
        let mut bytes: Vec<u8> = Vec::new();
        for (kind, bits, length, seed) in pieces {
            let mut random = fastrand::Rng::with_seed(seed);
            let mask = ((1u32 << bits) - 1) as u8;
            match kind {
                0 => bytes.extend(std::iter::repeat_n(mask, length)),
                1 => bytes.extend((0..length).map(|i| (i % (seed as usize % 40 + 1)) as u8)),
                2 if !bytes.is_empty() => {
                    let from = random.usize(..bytes.len());
                    let to = bytes.len().min(from + length);
                    bytes.extend_from_within(from..to);
                }
                // A sum of two is likelier in the middle, as noise is: its codes have many lengths.
                3 => {
                    bytes
                        .extend((0..length).map(|_| (random.u8(..) & mask) / 2 + (random.u8(..) & mask) / 2));
                }
                _ => bytes.extend((0..length).map(|_| random.u8(..) & mask)),
            }
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn any_stream_comes_to_what_was_deflated(bytes in data(), compressor in 0..3u8, level in 0..13u8, room in 0..400usize) {
        let stream = deflated(&bytes, compressor, level);
        prop_assert!(by_ours(&stream, bytes.len() + room).as_ref() == Some(&bytes));
    }

    #[test]
    fn where_room_ends_the_beginning_is_there(bytes in data(), compressor in 0..3u8, level in 0..13u8, share in 0.0..1.0f64) {
        prop_assume!(!bytes.is_empty());
        let stream = deflated(&bytes, compressor, level);
        let mut out = vec![0xA5; (bytes.len() as f64 * share) as usize];
        prop_assert_eq!(inflate_noise(&stream, &mut out), Ok(Reached::Full));
        prop_assert!(out == bytes[..out.len()]);
    }

    #[test]
    fn the_beginning_of_a_stream_is_the_beginning_of_the_whole(
        bytes in data(),
        compressor in 0..3u8,
        level in 0..13u8,
        share in 0.0..1.0f64,
    ) {
        let needed = (bytes.len() as f64 * share) as usize;
        let got = decode(&deflated(&bytes, compressor, level), bytes.len(), needed).unwrap();
        prop_assert!(got.len() >= needed && got == bytes[..got.len()]);
    }

    /// Ours may refuse what libdeflate takes, which is asked then; never the other way round.
    #[test]
    fn what_is_damaged_is_never_taken_for_something_else(
        bytes in data(),
        compressor in 0..3u8,
        level in 0..13u8,
        damage in prop::collection::vec((any::<prop::sample::Index>(), 0..8u32), 0..3),
        cut in prop::option::of(any::<prop::sample::Index>()),
        begin in any::<bool>(),
        share in 0.0..1.0f64,
    ) {
        let mut stream = deflated(&bytes, compressor, level);
        for (at, bit) in damage {
            // Headers are where most can go wrong.
            let at = if begin { at.index(stream.len().min(80)) } else { at.index(stream.len()) };
            stream[at] ^= 1 << bit;
        }
        if let Some(cut) = cut {
            stream.truncate(cut.index(stream.len()));
        }
        let most = bytes.len() + 300;
        if let Some(ours) = by_ours(&stream, most) {
            prop_assert!(Some(ours) == by_libdeflate(&stream, most));
        }
        let mut out = vec![0xA5; (bytes.len() as f64 * share) as usize];
        if inflate_noise(&stream, &mut out) == Ok(Reached::Full) {
            prop_assert!(out == beginning_by_zlib(&stream, out.len()));
        }
    }

    #[test]
    fn noise_is_not_left_to_libdeflate_and_comes_out_the_same(seed in any::<u64>(), compressor in 0..2u8, share in 0.1..1.0f64) {
        let mut random = fastrand::Rng::with_seed(seed);
        let bytes: Vec<u8> = (0..100_000).map(|_| (0..4).map(|_| random.u8(..10)).sum()).collect();
        let stream = deflated(&bytes, compressor, 6);
        prop_assert!(of_noise(&stream));
        let needed = (bytes.len() as f64 * share) as usize;
        let got = decode(&stream, bytes.len(), needed).unwrap();
        prop_assert!(got.len() >= needed && got == bytes[..got.len()]);
    }
}

/// A stream written bit by bit; its checksum is that of `bytes`.
#[derive(Default)]
struct Written {
    bits: Vec<bool>,
}

impl Written {
    /// A number, its lowest bit first.
    fn number(mut self, value: u32, count: u32) -> Self {
        self.bits.extend((0..count).map(|bit| value >> bit & 1 == 1));
        self
    }

    /// A code, its first bit highest.
    fn code(mut self, code: u32, count: u32) -> Self {
        self.bits.extend((0..count).rev().map(|bit| code >> bit & 1 == 1));
        self
    }

    /// The beginning of a last block of fixed codes.
    fn fixed() -> Self {
        Self::default().number(1, 1).number(1, 2)
    }

    /// A symbol in its fixed code.
    fn symbol(self, symbol: u32) -> Self {
        match symbol {
            0..144 => self.code(0b0011_0000 + symbol, 8),
            144..256 => self.code(0b1_1001_0000 + symbol - 144, 9),
            256..280 => self.code(symbol - 256, 7),
            _ => self.code(0b1100_0000 + symbol - 280, 8),
        }
    }

    /// The beginning of a last block whose codes have these lengths, each told by itself in a code of four bits.
    fn dynamic(literals: &[(usize, u32)], distances: &[u32]) -> Self {
        let mut all = vec![0; 286];
        literals.iter().for_each(|(symbol, length)| all[*symbol] = *length);
        all.extend(distances);
        let begun = Self::default().number(1, 1).number(2, 2);
        let begun = begun.number(286 - 257, 5).number(distances.len() as u32 - 1, 5).number(19 - 4, 4);
        // In the order in which they are told the lengths 16, 17 and 18 come first, and have no code.
        let begun = (0..19).fold(begun, |begun, place| begun.number(if place < 3 { 0 } else { 4 }, 3));
        all.iter().fold(begun, |begun, length| begun.code(*length, 4))
    }

    fn stream(self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = vec![0x78, 0x9C];
        let packed = |bits: &[bool]| bits.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit));
        stream.extend(self.bits.chunks(8).map(packed));
        stream.extend(simd_adler32::adler32(&bytes).to_be_bytes());
        stream
    }
}

#[test]
fn streams_that_no_compressor_makes_are_read_as_the_standard_says() {
    let same = |stream: &[u8], bytes: &[u8]| {
        assert_eq!(by_ours(stream, 1000).as_deref(), Some(bytes));
        assert_eq!(by_libdeflate(stream, 1000).as_deref(), Some(bytes));
    };
    same(&Written::fixed().symbol(256).stream(b""), b"");
    same(&Written::fixed().symbol(65).symbol(200).symbol(256).stream(&[65, 200]), &[65, 200]);
    // A match of the longest length, at a distance of 1; told as the last of the lengths.
    let repeated = Written::fixed().symbol(7).symbol(285).code(0, 5).symbol(256);
    same(&repeated.stream(&[7; 259]), &[7; 259]);
    // One distance alone, whose code leaves half of the bits unused.
    let single = [(65, 1), (257, 2), (256, 2)];
    let run = Written::dynamic(&single, &[1]).code(0, 1).code(0b11, 2).code(0, 1).code(0b10, 2);
    same(&run.stream(b"AAAA"), b"AAAA");
    // No distance at all, where there are literals alone.
    let alone = Written::dynamic(&[(65, 1), (256, 1)], &[0]).code(0, 1).code(0, 1).code(1, 1);
    same(&alone.stream(b"AA"), b"AA");
}

#[test]
fn streams_that_cannot_be_are_refused() {
    let refused = |stream: &[u8]| assert_eq!(by_ours(stream, 1000), None, "{stream:02x?}");
    let begun = || Written::fixed().symbol(65);
    refused(&begun().symbol(257).code(1, 5).symbol(256).stream(b"AAAA"));
    refused(&begun().symbol(286).symbol(256).stream(b"A"));
    refused(&begun().symbol(287).symbol(256).stream(b"A"));
    refused(&begun().symbol(257).code(30, 5).symbol(256).stream(b"AAAA"));
    refused(&begun().stream(b"A"));
    refused(&begun().symbol(256).stream(b"B"));
    refused(&Written::default().number(1, 1).number(3, 2).stream(b""));
    // No code for the end of the block.
    refused(&Written::dynamic(&[(65, 1), (66, 1)], &[1]).code(0, 1).stream(b"A"));
    // Too many codes; too few.
    refused(&Written::dynamic(&[(65, 1), (66, 1), (256, 1)], &[1]).code(1, 1).stream(b""));
    refused(&Written::dynamic(&[(65, 2), (256, 2)], &[1]).code(1, 2).stream(b""));
    // A distance that has no code.
    let none = Written::dynamic(&[(65, 1), (257, 2), (256, 2)], &[1]).code(0, 1);
    refused(&none.code(0b11, 2).code(1, 1).code(0b10, 2).stream(b"AAAA"));
    // A stored block whose length and complement disagree.
    refused(
        &Written::default().number(1, 1).number(0, 7).number(1, 16).number(1, 16).number(65, 8).stream(b"A"),
    );
    let good = begun().symbol(256).stream(b"A");
    assert_eq!(by_ours(&good, 1).as_deref(), Some(&b"A"[..]));
    for (method, flags) in [(0x79, 0x9C), (0x78, 0x9D), (0x78, 0xBB), (0x88, 0x1C)] {
        refused(&[&[method, flags], &good[2..]].concat());
    }
    (0..good.len()).for_each(|length| refused(&good[..length]));
}

#[test]
fn streams_of_blocks_that_are_not_worth_their_tables_are_refused() {
    let empty = |written: Written| written.number(0, 1).number(1, 2).symbol(256);
    let stream =
        |blocks| (0..blocks).fold(Written::default(), |written, _| empty(written)).number(1, 1).number(1, 2);
    let few = stream(10).symbol(65).symbol(256).stream(b"A");
    let many = stream(1000).symbol(65).symbol(256).stream(b"A");
    assert_eq!((by_ours(&few, 9), by_ours(&many, 9)), (Some(b"A".to_vec()), None));
    assert_eq!((by_libdeflate(&few, 9), by_libdeflate(&many, 9)), (Some(b"A".to_vec()), Some(b"A".to_vec())));
}

#[test]
fn a_buffer_that_is_used_again_shows_nothing_of_what_it_held() {
    let ramp: Vec<u8> = (0..100_000u32).map(|i| (i / 3 % 251) as u8).collect();
    let mut random = fastrand::Rng::with_seed(1);
    let noise: Vec<u8> = (0..100_000).map(|_| (0..4).map(|_| random.u8(..10)).sum()).collect();
    for (bytes, ours) in [(ramp, false), (noise, true)] {
        let stream = deflated(&bytes, 0, 6);
        let limit = bytes.len() + 1;
        // Ours is for streams of some length; the ramp's is short and for libdeflate.
        assert_eq!(of_noise(&stream), ours);
        spare::give(vec![7; limit]);
        assert_eq!(decode(&stream, limit, limit).unwrap(), bytes);
        spare::give(vec![7; limit]);
        assert!(decode(&stream[..stream.len() - 8], limit, limit).is_err());
    }
}

#[test]
fn what_is_not_noise_is_left_to_libdeflate() {
    let ramp: Vec<u8> = (0..200_000u32).map(|i| (i / 3 % 251) as u8).collect();
    let mut random = fastrand::Rng::with_seed(1);
    let full: Vec<u8> = (0..200_000).map(|_| random.u8(..)).collect();
    for bytes in [ramp, full, vec![0; 200_000]] {
        assert!(!of_noise(&deflated(&bytes, 1, 6)));
    }
    let little: Vec<u8> = (0..2000).map(|_| random.u8(..32)).collect();
    assert!(!of_noise(&deflated(&little, 1, 6)));
}

#[test]
fn a_beginning_is_no_longer_than_it_need_be_unless_a_stored_block_is_in_the_way() {
    let bytes: Vec<u8> = (0..200_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 28) as u8).collect();
    assert_eq!(decode(&deflated(&bytes, 0, 6), bytes.len(), 1000).unwrap().len(), 1000);
    assert_eq!(decode(&deflated(&bytes, 0, 0), bytes.len(), 1000).unwrap().len(), bytes.len());
}

#[test]
fn a_mark_that_the_data_happens_to_hold_costs_time_alone() {
    let bytes: Vec<u8> = MARK.into_iter().cycle().take(100_000).collect();
    for needed in 1000..1010 {
        let got = decode(&deflated(&bytes, 0, 6), bytes.len(), needed).unwrap();
        assert!(got == bytes[..got.len()] && got.len() >= needed);
    }
}

#[test]
fn a_stream_is_inflated_and_no_further_than_allowed() {
    // zlib.compress(b"abc")
    let stored = [0x78, 0x9c, 0x4b, 0x4c, 0x4a, 0x06, 0x00, 0x02, 0x4d, 0x01, 0x27];
    assert_eq!(decode(&stored, 3, 3), Ok(b"abc".to_vec()));
    assert_eq!(decode(&stored, 9, 9), Ok(b"abc".to_vec()));
    assert!(decode(&stored, 2, 2).is_err());
    assert!(decode(&stored[..8], 3, 3).is_err());
    assert!(decode(&[0; 9], 4, 4).is_err());
}
