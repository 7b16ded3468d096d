//! Whole streams and prefixes, made by three compressors from data similar to real volumes.

use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use libdeflater::{CompressionLvl, Compressor};
use proptest::prelude::*;

use super::*;

fn decode(bytes: &[u8], limit: usize, needed: usize) -> Result<Vec<u8>, FilterError> {
    Deflate
        .decode_first(bytes.into(), limit, needed)
        .map(Cow::into_owned)
}

/// A zlib stream by miniz_oxide (0), flate2 (1) or libdeflate (2).
fn deflated(bytes: &[u8], compressor: u8, level: u8) -> Vec<u8> {
    match compressor {
        0 => miniz_oxide::deflate::compress_to_vec_zlib(bytes, level % 11),
        1 => {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(u32::from(level % 10)));
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        _ => {
            let mut compressor =
                Compressor::new(CompressionLvl::new(i32::from(level % 13)).unwrap());
            let mut out = vec![0; compressor.zlib_compress_bound(bytes.len())];
            let length = compressor.zlib_compress(bytes, &mut out).unwrap();
            out.truncate(length);
            out
        }
    }
}

const EDGE: usize = 48;

/// The voxels of a cube in z, y, x order.
fn cube(voxel: impl Fn(usize, usize, usize) -> u8) -> Vec<u8> {
    let all = 0..EDGE * EDGE * EDGE;
    all.map(|i| voxel(i / EDGE / EDGE, i / EDGE % EDGE, i % EDGE))
        .collect()
}

/// Cubes similar to real volumes, which compress to different mixes of literals, matches and
/// distances.
fn kinds() -> Vec<(&'static str, Vec<u8>)> {
    let mut random = fastrand::Rng::with_seed(7);
    let noise: Vec<u8> = (0..EDGE * EDGE * EDGE)
        .map(|_| (0..4).map(|_| random.u8(..8)).sum())
        .collect();
    let rough = |z: usize, y: usize, x: usize| noise[(z * EDGE + y) * EDGE + x];
    let wave = |z: usize, y: usize, x: usize| {
        (100.0 + 60.0 * ((x as f64 / 9.0).sin() + (y as f64 / 7.0 + z as f64 / 5.0).cos())) as u8
    };
    let wide: Vec<u8> = cube(|z, y, x| wave(z, y, x) / 2 + rough(z, y, x));
    // 16 bits per voxel, shuffled: all low bytes, then all high bytes.
    let words = wide
        .iter()
        .zip(&noise)
        .map(|(value, low)| u16::from(*value) * 16 + u16::from(*low));
    let (low, high): (Vec<u8>, Vec<u8>) = words.map(|word| (word as u8, (word >> 8) as u8)).unzip();
    vec![
        ("electron micrographs", wide.clone()),
        ("smooth", cube(wave)),
        (
            "few photons",
            cube(|z, y, x| {
                if rough(z, y, x) > 22 {
                    rough(z, y, x) - 22
                } else {
                    0
                }
            }),
        ),
        (
            "noise of all bits",
            std::iter::repeat_with(|| random.u8(..))
                .take(noise.len())
                .collect(),
        ),
        (
            "labels",
            cube(|z, y, x| ((z / 16) * 7 + (y / 12) * 3 + (x + y / 5) / 11) as u8),
        ),
        (
            "padding around data",
            cube(|z, y, x| if z > 30 && y > 9 { wave(z, y, x) } else { 0 }),
        ),
        ("nothing", vec![0; noise.len()]),
        ("16 bits, shuffled", [low, high].concat()),
    ]
}

/// Checks the undocumented behaviour of libdeflate that `inflate_prefix` relies on.
#[test]
fn a_prefix_is_the_beginning_of_the_whole_at_every_cut() {
    for (kind, bytes) in kinds() {
        for compressor in 0..3 {
            for level in [1, 4, 6, 9] {
                let stream = deflated(&bytes, compressor, level);
                assert_eq!(
                    decode(&stream, bytes.len(), bytes.len()).as_ref(),
                    Ok(&bytes)
                );
                let slices = (1..EDGE).map(|slice| slice * EDGE * EDGE);
                let odd = (0..60).map(|i| 1 + i * 1777 % (bytes.len() - ROOM));
                for needed in slices.chain(odd) {
                    let story =
                        format!("{kind}, compressor {compressor}, level {level}, {needed} bytes");
                    let got = decode(&stream, bytes.len(), needed).unwrap();
                    assert!(got.len() >= needed && got == bytes[..got.len()], "{story}");
                    // Only stored blocks prevent a prefix, and only noise in all bits produces
                    // them.
                    assert!(
                        inflate_prefix(&stream, needed).unwrap().is_some()
                            || kind == "noise of all bits",
                        "{story}"
                    );
                }
            }
        }
    }
}

/// Noise in some bits, runs, periods and repetitions of earlier data, in any order.
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
                // A sum of two has a triangular distribution, which gives Huffman codes of many
                // lengths.
                3 => {
                    bytes.extend(
                        (0..length)
                            .map(|_| (random.u8(..) & mask) / 2 + (random.u8(..) & mask) / 2),
                    );
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
    fn the_beginning_of_a_stream_is_the_beginning_of_the_whole(
        bytes in data(),
        compressor in 0..3u8,
        level in 0..13u8,
        share in 0.0..1.0f64,
    ) {
        let needed = (bytes.len() as f64 * share) as usize;
        let stream = deflated(&bytes, compressor, level);
        prop_assert!(decode(&stream, bytes.len(), bytes.len()).as_ref() == Ok(&bytes));
        let got = decode(&stream, bytes.len(), needed).unwrap();
        prop_assert!(got.len() >= needed && got == bytes[..got.len()]);
    }
}

#[test]
fn a_buffer_that_is_used_again_shows_nothing_of_what_it_held() {
    let bytes: Vec<u8> = (0..100_000u32).map(|i| (i / 3 % 251) as u8).collect();
    let stream = deflated(&bytes, 0, 6);
    let limit = bytes.len() + 1;
    reused_buffer::give(vec![7; limit]);
    assert_eq!(decode(&stream, limit, limit).unwrap(), bytes);
    reused_buffer::give(vec![7; limit]);
    assert!(decode(&stream[..stream.len() - 8], limit, limit).is_err());
}

#[test]
fn a_beginning_is_no_longer_than_it_need_be_unless_a_stored_block_is_in_the_way() {
    let bytes: Vec<u8> = (0..200_000u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 28) as u8)
        .collect();
    assert_eq!(
        decode(&deflated(&bytes, 0, 6), bytes.len(), 1000)
            .unwrap()
            .len(),
        1000
    );
    assert_eq!(
        decode(&deflated(&bytes, 0, 0), bytes.len(), 1000)
            .unwrap()
            .len(),
        bytes.len()
    );
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
    let stored = [
        0x78, 0x9c, 0x4b, 0x4c, 0x4a, 0x06, 0x00, 0x02, 0x4d, 0x01, 0x27,
    ];
    assert_eq!(decode(&stored, 3, 3), Ok(b"abc".to_vec()));
    assert_eq!(decode(&stored, 9, 9), Ok(b"abc".to_vec()));
    assert!(decode(&stored, 2, 2).is_err());
    assert!(decode(&stored[..8], 3, 3).is_err());
    assert!(decode(&[0; 9], 4, 4).is_err());
}

#[test]
fn a_wrong_checksum_is_told_from_a_stream_that_breaks_off() {
    let bytes: Vec<u8> = (0..100_000u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 27) as u8)
        .collect();
    let stream = deflated(&bytes, 0, 6);
    let is_corrupt = |stream: &[u8], limit: usize| {
        matches!(decode(stream, limit, limit), Err(FilterError::Corrupt(_)))
    };
    let mut wrong = stream.clone();
    *wrong.last_mut().unwrap() ^= 1;
    assert!(is_corrupt(&wrong, bytes.len()));
    assert_eq!(
        decode(&wrong, bytes.len(), 1000).as_deref(),
        Ok(&bytes[..1000]),
        "a prefix has no checksum"
    );
    assert!(
        is_corrupt(&stream, bytes.len() - 1),
        "it is longer than a chunk"
    );
    for length in [1, 100, stream.len() / 2] {
        assert!(!is_corrupt(&stream[..length], bytes.len()), "{length}");
    }
}
