use proptest::prelude::*;

use super::*;

/// Decodes as Neuroglancer does (`decodeChannel` in its
/// `compressed_segmentation/decode_uint64.ts`).
fn decoded<L: Label>(file: &[u8], size: Xyz<u64>) -> Vec<u64> {
    let words: Vec<u32> = file
        .chunks_exact(4)
        .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
        .collect();
    assert_eq!((file.len() % 4, words[0]), (0, 1));
    let (channel, size) = (&words[1..], size.map(|extent| extent as usize));
    let (columns, rows) = (size.x.div_ceil(8), size.y.div_ceil(8));
    let mut all = Vec::new();
    for z in 0..size.z {
        for y in 0..size.y {
            for x in 0..size.x {
                let block = x / 8 + columns * (y / 8 + rows * (z / 8));
                let (head, indices) = (channel[2 * block], channel[2 * block + 1] as usize);
                let (table, bits) = ((head & 0xff_ffff) as usize, (head >> 24) as usize);
                assert!([0, 1, 2, 4, 8, 16, 32].contains(&bits));
                let bit = bits * (x % 8 + 8 * (y % 8 + 8 * (z % 8)));
                let index = match bits {
                    0 => 0,
                    _ => channel[indices + bit / 32] as usize >> (bit % 32) & ((1 << bits) - 1),
                };
                let width = L::BYTES / 4;
                let label = &channel[table + index * width..][..width];
                all.push(
                    label
                        .iter()
                        .rev()
                        .fold(0, |sum, word| sum << 32 | u64::from(*word)),
                );
            }
        }
    }
    all
}

fn check(labels: &[u64], size: Xyz<u64>) -> usize {
    assert_eq!(labels.len() as u64, size.volume());
    let wide: Vec<u8> = labels
        .iter()
        .flat_map(|label| label.to_le_bytes())
        .collect();
    let file = encode::<u64>(&wide, size).unwrap();
    assert!(decoded::<u64>(&file, size) == labels, "{size}");
    let narrow: Vec<u64> = labels.iter().map(|label| label & 0xffff_ffff).collect();
    let bytes: Vec<u8> = narrow
        .iter()
        .flat_map(|label| (*label as u32).to_le_bytes())
        .collect();
    assert!(
        decoded::<u32>(&encode::<u32>(&bytes, size).unwrap(), size) == narrow,
        "{size}"
    );
    file.len()
}

#[test]
fn labels_come_back_with_every_number_of_distinct_ones() {
    for distinct in [1, 2, 3, 4, 5, 16, 17, 31, 32, 33, 255, 256, 257, 512] {
        for size in [
            Xyz::all(8),
            Xyz::new(17, 8, 9),
            Xyz::new(64, 3, 1),
            Xyz::new(1, 9, 23),
        ] {
            let label = |at: u64| {
                (at.wrapping_mul(0x9E37_79B9) >> 3) % distinct * 0x1_0000_0001 + u64::from(u32::MAX)
            };
            let labels: Vec<u64> = (0..size.volume()).map(label).collect();
            check(&labels, size);
        }
    }
}

#[test]
fn labels_that_hash_alike_are_told_apart() {
    // The hashes of multiples of 2^54 end alike.
    let labels: Vec<u64> = (0..512).map(|at| ((at % 300) << 54) | (at % 2)).collect();
    check(&labels, Xyz::all(8));
}

#[test]
fn few_labels_that_hash_alike_are_told_apart() {
    let wide = (0u64..)
        .map(|at| at * 0x12345)
        .filter(|label| block::short_hash(*label) == 0)
        .take(4);
    let palette: Vec<u64> = wide.collect();
    check(
        &(0..512).map(|at| palette[at % 4]).collect::<Vec<_>>(),
        Xyz::all(8),
    );
}

#[test]
fn equal_tables_are_written_once() {
    let size = Xyz::all(64);
    let blocks = 512 * 8;
    let one = check(&vec![7; 1 << 18], size);
    assert_eq!(one, 4 + blocks + 8);
    let two: Vec<u64> = (0..1 << 18).map(|at| 5 + at % 2).collect();
    assert_eq!(check(&two, size), 4 + blocks + 16 + 512 * 64);
}

proptest! {
    #[test]
    fn any_labels_come_back(
        x in 1u64..20, y in 1u64..20, z in 1u64..20,
        palette in prop::collection::vec(any::<u64>(), 1..40),
        seed in any::<u64>(), run in 1u64..9,
    ) {
        let size = Xyz::new(x, y, z);
        let label = |at: u64| {
            let mixed = ((at / run) ^ seed).wrapping_mul(0xD129_0F9C_1A4E_6B5B) >> 33;
            palette[mixed as usize % palette.len()]
        };
        check(&(0..size.volume()).map(label).collect::<Vec<_>>(), size);
    }
}
