//! A wrong index of an intact file is detected.

use std::path::Path;
use std::sync::Arc;

use ndarray::{Array3, s};
use voltile_base::flow::activity::Activity;
use voltile_base::metrics::Metrics;

use super::*;
use crate::volume::hdf5::{ChunkStore, Opener, StoredDataset};

/// A dataset of 4 × 4 × 4 chunks, of which the second half along z is not written.
fn dataset(path: &Path, gzip: bool) -> Arc<StoredDataset> {
    let file = hdf5::File::create(path).unwrap();
    let builder = file
        .new_dataset::<u16>()
        .shape((16, 16, 16))
        .chunk((4, 4, 4));
    let raw = if gzip { builder.deflate(1) } else { builder }
        .create("raw")
        .unwrap();
    let data = Array3::from_shape_fn((8, 16, 16), |(z, y, x)| (z * 7919 + y * 131 + x * x) as u16);
    raw.write_slice(&data, s![..8, .., ..]).unwrap();
    // An open dataset would keep the file locked.
    drop(raw);
    file.close().unwrap();
    let chunks = ChunkStore::new(1 << 20, Metrics::default(), Activity::default());
    let opener = Opener::new(chunks);
    opener.open(&path.into()).unwrap().dataset("raw").unwrap()
}

fn check(dataset: &StoredDataset, entries: &[Entry]) -> Result<(), String> {
    let handle = &dataset.handle().unwrap();
    SpotCheck {
        file: &dataset.file,
        handle,
        grid: &dataset.grid,
    }
    .run(entries)
}

/// The error for a changed list of the dataset's chunks.
fn wrong(dataset: &StoredDataset, change: impl Fn(&mut Vec<Entry>)) -> String {
    let mut entries = dataset.entries(None).unwrap().to_vec();
    change(&mut entries);
    check(dataset, &entries).unwrap_err()
}

#[test]
fn a_list_that_disagrees_with_the_library_is_told() {
    let folder = tempfile::tempdir().unwrap();
    for gzip in [false, true] {
        let dataset = dataset(&folder.path().join(format!("{gzip}.h5")), gzip);
        assert_eq!(dataset.entries(None).unwrap().len(), 32);
        check(&dataset, dataset.entries(None).unwrap()).unwrap();
        let turned = wrong(&dataset, |entries| {
            let addresses: Vec<(u64, u32)> = entries
                .iter()
                .map(|entry| (entry.address, entry.length))
                .collect();
            let entries = entries.iter_mut().zip(addresses.into_iter().rev());
            entries.for_each(|(entry, there)| (entry.address, entry.length) = there);
        });
        assert!(
            turned.contains("not the ones stored") || turned.contains("is listed with"),
            "{turned}"
        );
        let moved = wrong(&dataset, |entries| {
            entries.iter_mut().for_each(|entry| entry.address += 1);
        });
        assert!(moved.contains("not the ones stored there"), "{moved}");
        let masked = wrong(&dataset, |entries| {
            entries.iter_mut().for_each(|entry| entry.mask = 1);
        });
        assert!(masked.contains("filter mask 0x1"), "{masked}");
        let short = wrong(&dataset, |entries| entries.truncate(8));
        assert!(
            short.contains("is not listed, but a lookup finds it"),
            "{short}"
        );
        let beyond = wrong(&dataset, |entries| {
            entries.iter_mut().for_each(|entry| entry.number += 32);
        });
        assert!(
            beyond.contains("at [8, ")
                && beyond.contains("is listed, but a lookup does not find it"),
            "{beyond}"
        );
        let twice = wrong(&dataset, |entries| entries[5].number = 6);
        assert!(twice.contains("[0, 4, 8] is listed twice"), "{twice}");
    }
}

#[test]
fn a_chunk_behind_the_end_of_the_file_is_damage_of_that_chunk() {
    let folder = tempfile::tempdir().unwrap();
    for gzip in [false, true] {
        let path = folder.path().join(format!("{gzip}.h5"));
        let dataset = dataset(&path, gzip);
        let entries = dataset.entries(None).unwrap();
        let ends = entries.iter().map(Entry::end);
        let middle = ends.clone().min().unwrap().midpoint(ends.max().unwrap());
        std::fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(middle)
            .unwrap();
        check(&dataset, entries).unwrap();
    }
}

#[test]
fn unlisted_chunks_are_counted_past_those_that_are_listed() {
    let entry = |number| Entry {
        number,
        address: 0,
        length: 0,
        mask: 0,
    };
    let entries: Vec<Entry> = [0, 1, 4, 7, 8].map(entry).to_vec();
    let missing: Vec<u64> = (0..6).map(|place| unlisted(&entries, place)).collect();
    assert_eq!(missing, [2, 3, 5, 6, 9, 10]);
    assert_eq!(unlisted(&[], 3), 3);
}

#[test]
fn places_are_spread_and_each_comes_once() {
    assert!(spread(0).is_empty());
    assert_eq!(spread(1), [0]);
    assert_eq!(spread(2), [0, 1]);
    assert_eq!(spread(3), [1, 2, 0]);
    assert_eq!(spread(36), [12, 23, 35, 0]);
    for count in [1, 2, 3, 4, 5, u64::MAX] {
        assert!(spread(count).iter().all(|place| *place < count));
    }
}
