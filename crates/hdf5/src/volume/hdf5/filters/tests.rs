//! All filters on chunks written by other programs, intact and damaged.

mod fixtures;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use proptest::prelude::*;

use self::fixtures::{FIXTURES, Fixture};
use super::*;

fn filter(id: i32, values: &[u32]) -> FilterSpec {
    FilterSpec {
        id,
        name: String::new(),
        values: values.to_vec(),
        available: false,
    }
}

fn pipeline(filters: &[(i32, &[u32])]) -> Pipeline {
    let filters: Vec<FilterSpec> = filters
        .iter()
        .map(|(id, values)| filter(*id, values))
        .collect();
    Pipeline::new(&filters)
}

/// The content of all fixtures: steps with occasional spikes.
fn voxels(count: usize, width: usize) -> Vec<u8> {
    let value = |i: usize| 1000 + i / 10 * 3 + if i % 50 == 49 { 57 } else { 0 };
    (0..count)
        .flat_map(|i| value(i).to_le_bytes()[..width].to_vec())
        .collect()
}

impl Fixture {
    fn pipeline(&self) -> Pipeline {
        pipeline(self.filters)
    }

    fn stored(&self) -> Vec<u8> {
        let digits = self.stored.as_bytes().chunks(2);
        digits
            .map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap())
            .collect()
    }

    fn size(&self) -> usize {
        self.count * self.width
    }
}

/// Damaged bytes must decode to a chunk or an error.
fn decode_damaged(pipeline: &Pipeline, stored: &[u8], size: usize) {
    if let Ok(bytes) = pipeline.decode(stored, 0, size, size) {
        assert_eq!(bytes.len(), size);
    }
}

#[test]
fn every_filter_is_undone() {
    for fixture in FIXTURES {
        let decoded = fixture
            .pipeline()
            .decode(&fixture.stored(), 0, fixture.size(), usize::MAX);
        assert_eq!(
            decoded,
            Ok(voxels(fixture.count, fixture.width)),
            "{}",
            fixture.name
        );
    }
}

/// Stores a chunk in a file, and has the library read it.
fn read_by_library<T: hdf5::H5Type + bytemuck::Pod>(fixture: &Fixture) -> Vec<u8> {
    let place = tempfile::tempdir().unwrap();
    let file = hdf5::File::create(place.path().join("chunk.h5")).unwrap();
    let filter = |(id, values): &(i32, &[u32])| hdf5::filters::Filter::user(*id, values);
    let builder = file
        .new_dataset_builder()
        .set_filters(&fixture.filters.iter().map(filter).collect::<Vec<_>>());
    let dataset = builder
        .chunk(fixture.count)
        .empty::<T>()
        .shape(fixture.count)
        .create("raw")
        .unwrap();
    library::write_chunk(&dataset, &[0], &fixture.stored()).unwrap();
    bytemuck::cast_slice(&dataset.read_raw::<T>().unwrap()).to_vec()
}

#[test]
fn the_library_undoes_those_that_it_does_not_have_with_ours() {
    register().unwrap();
    let has_foreign = |fixture: &&Fixture| {
        fixture
            .filters
            .iter()
            .all(|(id, _)| *id >= FIRST_FOREIGN || *id == 2)
    };
    for fixture in FIXTURES.iter().filter(has_foreign) {
        let read = if fixture.width == 4 {
            read_by_library::<u32>
        } else {
            read_by_library::<u16>
        };
        assert_eq!(
            read(fixture),
            voxels(fixture.count, fixture.width),
            "{}",
            fixture.name
        );
    }
}

#[test]
fn a_chunk_that_is_cut_or_has_a_wrong_bit_is_an_error_or_wrong_but_no_panic() {
    for fixture in FIXTURES {
        let (pipeline, stored) = (fixture.pipeline(), fixture.stored());
        for length in 0..stored.len() {
            decode_damaged(&pipeline, &stored[..length], fixture.size());
        }
        for bit in 0..8 * stored.len() {
            let mut damaged = stored.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            decode_damaged(&pipeline, &damaged, fixture.size());
        }
    }
}

#[test]
fn a_chunk_without_filters_must_be_whole() {
    let (unfiltered, deflated) = (pipeline(&[]), pipeline(&[(1, &[6])]));
    assert_eq!(unfiltered.decode(&[1; 48], 0, 48, 20).unwrap().len(), 48);
    assert_eq!(
        unfiltered.decode(&[1; 36], 0, 48, 20),
        Err(DecodeError::Length {
            found: 36,
            expected: 48
        })
    );
    assert_eq!(
        deflated.decode(&[1; 36], 1, 48, 20),
        Err(DecodeError::Length {
            found: 36,
            expected: 48
        })
    );
}

#[test]
fn a_chunk_that_comes_to_another_size_is_refused() {
    for fixture in FIXTURES {
        for size in [
            0,
            fixture.size() - fixture.width,
            fixture.size() + fixture.width,
            4 * fixture.size(),
        ] {
            let decoded = fixture.pipeline().decode(&fixture.stored(), 0, size, size);
            assert!(decoded.is_err(), "{} as {size} bytes", fixture.name);
        }
        assert!(
            fixture
                .pipeline()
                .decode(&[], 0, fixture.size(), usize::MAX)
                .is_err(),
            "{}",
            fixture.name
        );
    }
}

#[test]
fn compressors_may_follow_each_other() {
    for fixture in FIXTURES {
        let stored = fixture.stored();
        let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
        let mut twice = vec![0; compressor.zlib_compress_bound(stored.len())];
        let length = compressor.zlib_compress(&stored, &mut twice).unwrap();
        twice.truncate(length);
        let pipeline = pipeline(&[fixture.filters, &[(1, &[6])]].concat());
        let decoded = pipeline.decode(&twice, 0, fixture.size(), usize::MAX);
        assert_eq!(
            decoded,
            Ok(voxels(fixture.count, fixture.width)),
            "{}",
            fixture.name
        );
    }
}

#[test]
fn a_masked_filter_is_skipped() {
    let pipeline = pipeline(&[(2, &[2]), (1, &[4])]);
    assert_eq!(
        pipeline.decode(&[1, 2, 3, 4], 0b10, 4, 4),
        Ok(vec![1, 3, 2, 4])
    );
    assert_eq!(
        pipeline.decode(&[1, 2, 3, 4], 0b11, 4, 4),
        Ok(vec![1, 2, 3, 4])
    );
    assert_eq!(
        pipeline.decode(&[1, 2, 3, 4], u32::MAX, 4, 4),
        Ok(vec![1, 2, 3, 4])
    );
    let many = vec![(1, &[4][..]); 40];
    assert!(
        super::tests::pipeline(&many)
            .decode(&[1; 4], u32::MAX, 4, 4)
            .is_err(),
        "masks have 32 bits"
    );
}

#[test]
fn no_filters_leave_a_chunk_alone_but_for_its_length() {
    assert_eq!(pipeline(&[]).decode(&[1; 4], 0, 4, 4), Ok(vec![1; 4]));
    let wrong = pipeline(&[]).decode(&[1; 3], 0, 4, 4);
    assert_eq!(
        wrong,
        Err(DecodeError::Length {
            found: 3,
            expected: 4
        })
    );
}

#[test]
fn a_filter_that_is_not_known_is_an_error_only_for_chunks_that_it_was_applied_to() {
    let zfp = filter(32013, &[]);
    let pipeline = Pipeline::new(&[filter(2, &[2]), zfp.clone()]);
    assert!(!pipeline.is_complete());
    assert_eq!(
        pipeline.decode(&[1, 3, 2, 4], 2, 4, 4),
        Ok(vec![1, 2, 3, 4])
    );
    let error = pipeline.decode(&[1, 3, 2, 4], 0, 4, 4).unwrap_err();
    let error = error.at("a file".to_owned(), "[0]").to_string();
    assert!(error.contains("filter zfp (number 32013)"), "{error}");
    assert_eq!(describe(&zfp), "zfp (number 32013)");
    assert_eq!(
        describe(&FilterSpec {
            name: "mine".to_owned(),
            ..filter(300, &[])
        }),
        "mine (number 300)"
    );
}

#[test]
fn the_readme_lists_the_filters_that_are_decoded() {
    let readme = include_str!("../../../../../../README.md");
    let list = readme
        .split("- **Filters**: ")
        .nth(1)
        .unwrap()
        .split('.')
        .next()
        .unwrap();
    let listed: BTreeSet<&str> = list.split(',').map(str::trim).collect();
    assert_eq!(listed, FILTERS.iter().map(|filter| filter.name).collect());
}

#[test]
fn each_filter_has_a_number_of_its_own_and_a_corpus_with_a_chunk_that_it_decodes() {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/fuzz");
    for (number, filter) in FILTERS.iter().enumerate() {
        assert!(
            FILTERS[..number].iter().all(|other| other.id != filter.id),
            "{}",
            filter.name
        );
        let inputs = fs::read_dir(corpora.join(filter.name)).unwrap();
        let mut chunks = inputs.filter_map(|input| {
            fuzzing::one(filter, &fs::read(input.unwrap().path()).unwrap())
                .filter(|chunk| !chunk.is_empty())
        });
        assert!(
            chunks.next().is_some(),
            "no input for {} decodes to a chunk",
            filter.name
        );
    }
}

#[test]
fn an_error_says_which_filter_failed() {
    let error = pipeline(&[(32004, &[0])])
        .decode(&[0xff; 30], 0, 4, 4)
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("lz4") && text.contains("longer than a chunk"),
        "{text}"
    );
}

proptest! {
    #[test]
    fn garbage_does_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..400), which in 0..FIXTURES.len()) {
        let fixture = &FIXTURES[which];
        decode_damaged(&fixture.pipeline(), &bytes, fixture.size());
    }

    #[test]
    fn a_few_wrong_bytes_do_no_harm(
        wrong in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..9),
        which in 0..FIXTURES.len(),
    ) {
        let fixture = &FIXTURES[which];
        let mut stored = fixture.stored();
        for (place, byte) in wrong {
            let place = place.index(stored.len());
            stored[place] = byte;
        }
        decode_damaged(&fixture.pipeline(), &stored, fixture.size());
    }
}
