//! Trees that are read without the library have the same chunks as the library lists, and damaged
//! ones are errors.

use std::cell::{Cell, RefCell};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use hdf5::file::LibraryVersion;
use hdf5::{Extent, H5Type, SimpleExtents};
use ndarray::{ArrayD, IxDyn};
use voltile_base::flow::activity::Activity;
use voltile_base::metrics::Metrics;

use super::*;
use crate::volume::hdf5::index::ChunkIndex;
use crate::volume::hdf5::{ChunkStore, OpenFile, Opener, Storage, StoredDataset, library};

fn open(path: &Path) -> Option<OpenFile> {
    let chunks = ChunkStore::new(1 << 20, Metrics::default(), Activity::default());
    let opener = Opener::new(chunks);
    opener.open(&path.into()).ok()
}

fn dataset(path: &Path, name: &str) -> Arc<StoredDataset> {
    open(path).unwrap().dataset(name).unwrap()
}

fn index(dataset: &StoredDataset) -> ChunkIndex {
    ChunkIndex::new(
        Arc::clone(&dataset.file),
        dataset.handle().unwrap().name().into(),
        grid(dataset),
    )
}

fn sorted(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort_by_key(|entry| entry.number);
    entries
}

/// A dataset's file in memory, of which every read is recorded.
struct InMemory {
    bytes: RefCell<Vec<u8>>,
    calls: Cell<usize>,
    reads: RefCell<Vec<Range<u64>>>,
}

impl InMemory {
    fn read(dataset: &StoredDataset) -> Self {
        let bytes = RefCell::new(fs::read(dataset.file.location.as_path()).unwrap());
        Self {
            bytes,
            calls: Cell::new(0),
            reads: RefCell::default(),
        }
    }

    fn with<T>(&self, dataset: &StoredDataset, work: impl FnOnce(&Metadata<'_>) -> T) -> T {
        let read_many = |ranges: &[Range<u64>]| {
            self.calls.set(self.calls.get() + 1);
            self.reads.borrow_mut().extend_from_slice(ranges);
            let bytes = self.bytes.borrow();
            let read = |range: &Range<u64>| {
                Bytes::copy_from_slice(&bytes[range.start as usize..range.end as usize])
            };
            Ok(ranges.iter().map(read).collect())
        };
        let superblock = index(dataset).superblock().unwrap();
        let length = self.bytes.borrow().len() as u64;
        work(&Metadata {
            superblock,
            length,
            read_many: &read_many,
        })
    }

    fn tree(&self, dataset: &StoredDataset) -> Result<Option<ChunkTree>, IndexError> {
        self.with(dataset, |metadata| {
            index(dataset).tree(&dataset.handle().unwrap(), metadata)
        })
    }

    fn entries(&self, dataset: &StoredDataset) -> Result<Vec<Entry>, IndexError> {
        let tree = self.tree(dataset)?.unwrap();
        self.with(dataset, |metadata| {
            entries(metadata, &tree, &grid(dataset), None)
        })
    }

    /// The byte of the file that the root begins at.
    fn root(&self, dataset: &StoredDataset) -> usize {
        let root = self.tree(dataset).unwrap().unwrap().root.unwrap();
        self.with(dataset, |metadata| metadata.position(root)) as usize
    }

    /// The number of levels of the tree.
    fn levels(&self, dataset: &StoredDataset) -> usize {
        let level = self.root(dataset) + 5;
        usize::from(self.bytes.borrow()[level]) + 1
    }

    fn problem(&self, dataset: &StoredDataset) -> String {
        match self.entries(dataset) {
            Err(IndexError::Wrong(problem)) => problem,
            other => panic!("{other:?}"),
        }
    }
}

/// The grid of its elements, as the library knows it.
fn grid(dataset: &StoredDataset) -> Grid {
    let Storage::Chunked { chunk } = &dataset.storage else {
        panic!("it has chunks")
    };
    Grid::new(&dataset.shape, chunk)
}

/// Compares a dataset's own index with the library's; whether it is a tree.
fn assert_equal(dataset: &StoredDataset) -> bool {
    let (name, index) = (dataset.place(), index(dataset));
    let handle = &dataset.handle().unwrap();
    let direct = index
        .read_directly(handle, None)
        .unwrap_or_else(|e| panic!("{name}: {e:?}"));
    let is_tree = library::is_version_1_btree(handle).unwrap();
    assert_eq!(direct.is_some(), is_tree, "{name}");
    let Some(direct) = direct else {
        let file = InMemory::read(dataset);
        // An error where a file keeps metadata elsewhere, in an image of the library's cache.
        assert!(!matches!(file.tree(dataset), Ok(Some(_))), "{name}");
        return false;
    };
    let listed = index.read_through_library(handle, None).unwrap();
    assert!(sorted(direct) == sorted(listed), "{name}");
    let file = InMemory::read(dataset);
    let root = file.tree(dataset).unwrap().unwrap().root;
    let levels = if root.is_some() {
        file.levels(dataset)
    } else {
        0
    };
    file.calls.set(0);
    file.entries(dataset).unwrap();
    assert!(
        file.calls.get() <= levels + 3,
        "{name}: {} calls for {levels} levels",
        file.calls.get()
    );
    true
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let Ok(listed) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut files = Vec::new();
    for path in listed.map(|entry| entry.unwrap().path()) {
        // Files that are known to crash the library are not opened.
        let is_damaged = path
            .file_name()
            .is_some_and(|name| name == "bad" || name == "fuzz");
        match path.is_dir() {
            true if !is_damaged => files.extend(files_below(&path)),
            true => {}
            false => files.push(path),
        }
    }
    files.sort();
    files
}

/// The number of trees among the datasets of all files below a folder.
fn trees_below(folder: &Path) -> usize {
    let is_chunked =
        |dataset: &Arc<StoredDataset>| matches!(dataset.storage, Storage::Chunked { .. });
    let mut trees = 0;
    for file in files_below(folder).iter().filter_map(|path| open(path)) {
        let datasets = file
            .datasets()
            .map(|listing| listing.datasets)
            .unwrap_or_default();
        let datasets = datasets.iter().filter_map(|path| file.dataset(path).ok());
        trees += datasets
            .filter(is_chunked)
            .filter(|d| assert_equal(d))
            .count();
    }
    trees
}

#[test]
fn trees_of_fixtures_and_real_files_are_read_as_the_library_reads_them() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    assert!(trees_below(&project.join("fixtures")) >= 15);
    let shared = project.join("../shared/data");
    if shared.is_dir() {
        assert!(trees_below(&shared) >= 20);
    }
}

/// A file to be made.
struct Make {
    /// The oldest version whose format may be used, and the newest.
    versions: (LibraryVersion, LibraryVersion),
    user_block: u64,
    sizes: usize,
    /// Half the maximum number of children.
    k: u32,
}

const USUAL: Make = Make {
    versions: (LibraryVersion::Earliest, LibraryVersion::latest()),
    user_block: 0,
    sizes: 8,
    k: 32,
};

fn make(path: &Path, made: &Make) -> hdf5::File {
    let mut builder = hdf5::File::with_options();
    builder.with_fapl(|access| access.libver_bounds(made.versions.0, made.versions.1));
    let sizes = made.sizes.try_into().unwrap();
    let sizes = hdf5::plist::file_create::SizeofInfo {
        sizeof_addr: sizes,
        sizeof_size: sizes,
    };
    builder.with_fcpl(|creation| {
        creation
            .userblock(made.user_block)
            .istore_k(made.k)
            .sizes(sizes)
    });
    builder.create(path).unwrap()
}

/// Pseudo-random voxels.
fn voxels<T: Clone>(shape: &[usize], voxel: impl Fn(u64) -> T) -> ArrayD<T> {
    let mixed = |at: IxDyn| {
        let mix = |mixed: u64, n: &usize| (mixed ^ *n as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        ndarray::Dimension::slice(&at).iter().fold(7, mix) >> 40
    };
    ArrayD::from_shape_fn(IxDyn(shape), |at| voxel(mixed(at)))
}

/// Writes a dataset that can grow along every axis, except for the chunks of its second row of
/// chunks.
fn write<T: H5Type + Clone>(
    file: &hdf5::File,
    name: &str,
    data: &ArrayD<T>,
    chunk: &[usize],
    gzip: bool,
) {
    let extents = data
        .shape()
        .iter()
        .map(|extent| Extent::new(*extent, None))
        .collect();
    let builder = file
        .new_dataset::<T>()
        .shape(SimpleExtents::from_vec(extents))
        .chunk(chunk);
    let builder = if gzip {
        builder.shuffle().deflate(1).fletcher32()
    } else {
        builder
    };
    let dataset = builder.create(name).unwrap();
    let rows = data.shape()[0];
    for rows in [0..chunk[0].min(rows), (2 * chunk[0]).min(rows)..rows]
        .into_iter()
        .filter(|r| !r.is_empty())
    {
        let part = data
            .slice_axis(ndarray::Axis(0), (rows.clone()).into())
            .to_owned();
        let mut slab = vec![hdf5::SliceOrIndex::from(rows)];
        slab.extend(
            data.shape()[1..]
                .iter()
                .map(|extent| hdf5::SliceOrIndex::from(0..*extent)),
        );
        dataset
            .write_slice(&part, hdf5::Hyperslab::from(slab))
            .unwrap();
    }
}

/// Shapes of 2 to 5 axes, and those of their chunks.
const SHAPES: [(&[usize], &[usize]); 4] = [
    (&[41, 37], &[4, 3]),
    (&[13, 17, 9], &[4, 3, 2]),
    (&[5, 6, 7, 8], &[2, 2, 3, 3]),
    (&[4, 3, 5, 4, 7], &[1, 2, 2, 3, 4]),
];

#[test]
fn trees_of_every_rank_and_format_are_read_as_the_library_reads_them() {
    let folder = tempfile::tempdir().unwrap();
    let (oldest, newest) = (LibraryVersion::Earliest, LibraryVersion::latest());
    let formats = [
        (oldest, newest),
        (oldest, LibraryVersion::V18),
        (LibraryVersion::V18, LibraryVersion::V18),
    ];
    for (number, versions) in formats.into_iter().chain([(newest, newest)]).enumerate() {
        for (user_block, sizes, k) in [(0, 8, 32), (512, 8, 1), (2048, 4, 3), (0, 4, 32)] {
            let path = folder
                .path()
                .join(format!("{number}_{user_block}_{sizes}.h5"));
            let file = make(
                &path,
                &Make {
                    versions,
                    user_block,
                    sizes,
                    k,
                },
            );
            for (shape, chunk) in SHAPES {
                let rank = shape.len();
                write(
                    &file,
                    &format!("u16_{rank}"),
                    &voxels(shape, |n| n as u16),
                    chunk,
                    false,
                );
                write(
                    &file,
                    &format!("f64_{rank}"),
                    &voxels(shape, |n| n as f64),
                    chunk,
                    true,
                );
            }
            let empty = file
                .new_dataset::<u8>()
                .shape((30, 20))
                .chunk((3, 2))
                .create("empty")
                .unwrap();
            // Attributes make the header longer than the first read, and longer than its first
            // block.
            for attribute in 0..100 {
                let text = [attribute as u8; 60];
                empty
                    .new_attr_builder()
                    .with_data(&text)
                    .create(format!("a{attribute}").as_str())
                    .unwrap();
            }
            drop(empty);
            file.close().unwrap();
            let file = open(&path).unwrap();
            let names = file.datasets().unwrap().datasets;
            assert_eq!(names.len(), 2 * SHAPES.len() + 1);
            for name in names {
                let is_tree = assert_equal(&file.dataset(&name).unwrap());
                assert_eq!(
                    is_tree,
                    versions.1 == LibraryVersion::V18 || versions.0 == oldest,
                    "{versions:?} {name}"
                );
            }
        }
    }
}

#[test]
fn a_tree_in_a_file_that_was_moved_behind_a_user_block_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.h5");
    let file = make(&path, &USUAL);
    write(
        &file,
        "raw",
        &voxels(&[13, 17, 9], |n| n as u16),
        &[4, 3, 2],
        true,
    );
    file.close().unwrap();
    // The superblock still gives the base address 0.
    let moved = [vec![7; 1024], fs::read(&path).unwrap()].concat();
    fs::write(&path, moved).unwrap();
    assert!(assert_equal(&dataset(&path, "raw")));
}

#[test]
fn a_large_tree_takes_one_call_for_each_level() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.h5");
    let file = make(&path, &USUAL);
    file.new_dataset_builder()
        .with_data(&voxels(&[50, 50, 44], |n| n as u8))
        .chunk((1, 1, 1))
        .create("raw")
        .unwrap();
    file.close().unwrap();
    let dataset = dataset(&path, "raw");
    assert!(assert_equal(&dataset));
    let file = InMemory::read(&dataset);
    assert_eq!(file.levels(&dataset), 3);
    file.calls.set(0);
    assert_eq!(file.entries(&dataset).unwrap().len(), 50 * 50 * 44);
    assert_eq!(file.calls.get(), 4);
}

/// A tree of several levels with few children each.
fn small(folder: &Path) -> Arc<StoredDataset> {
    let path = folder.join("small.h5");
    let file = make(&path, &Make { k: 2, ..USUAL });
    write(
        &file,
        "raw",
        &voxels(&[12, 6, 8], |n| n as u16),
        &[4, 3, 2],
        true,
    );
    file.close().unwrap();
    dataset(&path, "raw")
}

#[test]
fn a_damaged_tree_is_an_error_that_names_the_byte() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = small(folder.path());
    let file = InMemory::read(&dataset);
    let intact = file.bytes.borrow().clone();
    let root = file.root(&dataset);
    let levels = file.levels(&dataset);
    assert!(levels >= 3);
    // The first child's address, after the head and the first key; the second's, after another key.
    let (first, second) = (root + 24 + 40, root + 24 + 40 + 8 + 40);
    let address = |at: usize| intact[at..at + 8].to_vec();
    let child = u64::from_le_bytes(address(first).try_into().unwrap()) as usize;
    let beyond = (intact.len() as u64 + 5).to_le_bytes().to_vec();
    let cases = [
        (
            root,
            b"SNOD".to_vec(),
            format!(
                "\"TREE\" of a B-tree node is expected at byte {root} of the file, but \"SNOD\" is there"
            ),
        ),
        (
            root + 4,
            vec![0],
            format!(
                "is expected at byte {} of the file, but 0 is there",
                root + 4
            ),
        ),
        (
            root + 5,
            vec![77],
            "a B-tree node of level 76 is expected at byte".to_owned(),
        ),
        (
            root + 6,
            vec![9, 1],
            "at most 4 children is expected".to_owned(),
        ),
        (
            child + 5,
            vec![0],
            format!(
                "a B-tree node of level {} is expected at byte {}",
                levels - 2,
                child + 5
            ),
        ),
        // The root is its own child.
        (
            first,
            (root as u64).to_le_bytes().to_vec(),
            format!("of level {} is expected at byte {}", levels - 2, root + 5),
        ),
        (
            second,
            address(first),
            "one that is the child of two nodes is there".to_owned(),
        ),
        (
            first,
            vec![0xFF; 8],
            format!("the address of a child of a B-tree node is expected at byte {first}"),
        ),
        (
            first,
            beyond,
            format!(
                "refers to byte {}, but the file ends at byte {}",
                intact.len() + 5,
                intact.len()
            ),
        ),
    ];
    for (at, damage, wanted) in cases {
        *file.bytes.borrow_mut() = intact.clone();
        file.bytes.borrow_mut()[at..at + damage.len()].copy_from_slice(&damage);
        let problem = file.problem(&dataset);
        assert!(
            problem.contains(&wanted),
            "{problem:?} instead of {wanted:?}"
        );
    }
    *file.bytes.borrow_mut() = intact[..root + 30].to_vec();
    assert!(file.entries(&dataset).is_err());
}

#[test]
fn no_change_of_a_byte_makes_the_reader_fail_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = small(folder.path());
    let file = InMemory::read(&dataset);
    let whole = file.entries(&dataset).unwrap().len();
    let mut reads = file.reads.take();
    reads.sort_by_key(|range| range.start);
    reads.dedup();
    let (mut errors, mut others) = (0, 0);
    for at in reads
        .into_iter()
        .flat_map(|range| range.start as usize..range.end as usize)
    {
        let intact = file.bytes.borrow()[at];
        for damage in [1, 0x80, 0xFF] {
            file.bytes.borrow_mut()[at] = intact ^ damage;
            file.calls.set(0);
            match file.tree(&dataset).map(|tree| tree.is_some()) {
                Ok(true) => match file.entries(&dataset) {
                    Ok(entries) => {
                        assert!(entries.len() <= 4 * whole, "{at} ^ {damage}");
                        others += 1;
                    }
                    Err(_) => errors += 1,
                },
                Ok(false) => others += 1,
                Err(_) => errors += 1,
            }
            assert!(
                file.calls.get() <= 64,
                "{at} ^ {damage}: {} calls",
                file.calls.get()
            );
        }
        file.bytes.borrow_mut()[at] = intact;
    }
    // Keys between nodes, attributes and unused space do not matter.
    assert!(errors > 500 && others > 500, "{errors} {others}");
}

#[test]
fn a_tree_is_given_up_when_its_time_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = small(folder.path());
    let late = index(&dataset).read_directly(&dataset.handle().unwrap(), Some(Instant::now()));
    assert!(
        matches!(late, Err(IndexError::Wrong(problem)) if problem.contains("within the time limit"))
    );
}
