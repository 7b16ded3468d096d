//! Decoding one chunk of 64³ voxels like a micrograph's: the time of each filter, compared with its
//! limit.
//!
//! The limit is the codec alone, into a reused buffer; for filters without a codec crate, copying
//! the chunk. Stored bytes are produced by the crates, or by the HDF5 library in a file of one
//! chunk. szip, nbit, lzf and both bloscs are missing: there is no encoder for them.

use std::fs::File;
use std::hint::black_box;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use criterion::{BenchmarkId, Criterion, Throughput};
use hdf5::DatasetBuilder;
use hdf5::filters::ScaleOffset;
use libdeflater::Decompressor;
use voltile_base::flow::activity::Activity;
use voltile_base::metrics::Metrics;
use voltile_hdf5::volume::hdf5::{ChunkStore, FilterSpec, Opener, decode_chunk};

use crate::common::{Dice, micrograph};

const EDGE: usize = 64;
const VOXELS: usize = EDGE * EDGE * EDGE;

/// Decodes stored bytes into a reused buffer.
type Limit = fn(&[u8], &mut [u8]);

/// A stored chunk, its filters, and the limit of decoding it.
struct StoredChunk {
    name: String,
    filters: Vec<FilterSpec>,
    bytes: Vec<u8>,
    /// The size of the decoded chunk in bytes.
    size: usize,
    limit: Limit,
}

fn voxels() -> Vec<u8> {
    let mut dice = Dice(5);
    let place = |i: usize| (i % EDGE, i / EDGE % EDGE, i / EDGE / EDGE);
    let voxel = |i: usize| {
        let (x, y, z) = place(i);
        micrograph(x, y, z, dice.bell()) as u8
    };
    (0..VOXELS).map(voxel).collect()
}

/// Noise with this standard deviation, in grey levels.
fn noise(levels: f32) -> Vec<u8> {
    let mut dice = Dice(7);
    (0..VOXELS)
        .map(|_| (128.0 + levels * dice.bell()).clamp(0.0, 255.0) as u8)
        .collect()
}

/// Twelve significant bits of sixteen, as cameras deliver.
fn wide() -> Vec<u16> {
    let mut dice = Dice(6);
    voxels()
        .into_iter()
        .map(|voxel| u16::from(voxel) * 16 + (dice.roll() % 16) as u16)
        .collect()
}

fn spec(id: i32, values: &[u32]) -> FilterSpec {
    FilterSpec {
        id,
        name: String::new(),
        values: values.to_vec(),
        available: true,
    }
}

fn inflate(stored: &[u8], out: &mut [u8]) {
    Decompressor::new().zlib_decompress(stored, out).unwrap();
}

/// Fills the output: with the stored bytes, and if these are fewer, with copies of the first one.
fn copy(stored: &[u8], out: &mut [u8]) {
    let length = stored.len().min(out.len());
    out[..length].copy_from_slice(&stored[..length]);
    out[length..].fill(stored[0]);
}

/// One LZ4 block after its header, which has big-endian numbers: the length of all decoded bytes (8
/// bytes), the length of a decoded block (4), the length of the compressed block (4).
fn lz4(bytes: &[u8]) -> Vec<u8> {
    let block = lz4_flex::block::compress(bytes);
    let mut stored = (bytes.len() as u64).to_be_bytes().to_vec();
    stored.extend((bytes.len() as u32).to_be_bytes());
    stored.extend((block.len() as u32).to_be_bytes());
    stored.extend(block);
    stored
}

/// Bytes that are bit-transposed block by block (the first bits of all elements, then all second
/// bits, …) and compressed with LZ4, each block after its compressed length.
fn bitshuffled(bytes: &[u8], element: usize) -> Vec<u8> {
    let block = 8192;
    let mut stored = (bytes.len() as u64).to_be_bytes().to_vec();
    stored.extend((block as u32).to_be_bytes());
    for bytes in bytes.chunks(block) {
        let count = bytes.len() / element;
        let mut planes = vec![0u8; bytes.len()];
        for (number, value) in bytes.chunks(element).enumerate() {
            for bit in 0..8 * element {
                let set = value[bit / 8] >> (bit % 8) & 1;
                planes[bit * count / 8 + number / 8] |= set << (number % 8);
            }
        }
        let packed = lz4_flex::block::compress(&planes);
        stored.extend((packed.len() as u32).to_be_bytes());
        stored.extend(packed);
    }
    stored
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(bytes, 3).unwrap()
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// The bytes that the HDF5 library stores for a chunk, and its filter specifications.
fn write_chunk<T: hdf5::H5Type>(
    folder: &Path,
    voxels: Vec<T>,
    filter: impl FnOnce(DatasetBuilder) -> DatasetBuilder,
) -> (Vec<FilterSpec>, Vec<u8>) {
    let path = folder.join(format!("{}.h5", folder.read_dir().unwrap().count()));
    let data = ndarray::Array3::from_shape_vec((EDGE, EDGE, EDGE), voxels).unwrap();
    let file = hdf5::File::create(&path).unwrap();
    let chunk = {
        // The builder keeps the file open.
        let builder = filter(file.new_dataset_builder())
            .chunk((EDGE, EDGE, EDGE))
            .with_data(&data);
        builder.create("raw").unwrap().chunk_info(0).unwrap()
    };
    file.close().unwrap();
    let mut bytes = vec![0; chunk.size as usize];
    File::open(&path)
        .unwrap()
        .read_exact_at(&mut bytes, chunk.addr)
        .unwrap();
    let chunks = ChunkStore::new(1 << 20, Metrics::default(), Activity::default());
    let opener = Opener::new(chunks);
    (
        opener
            .open(&path.into())
            .unwrap()
            .dataset("raw")
            .unwrap()
            .filters
            .clone(),
        bytes,
    )
}

fn stored_chunks(folder: &Path) -> Vec<StoredChunk> {
    let (narrow, wide) = (voxels(), wide());
    let wide_bytes: Vec<u8> = wide.iter().flat_map(|voxel| voxel.to_le_bytes()).collect();
    let (narrow_size, wide_size) = (VOXELS, 2 * VOXELS);
    let chunk = |name: &str, filters, bytes, size, limit: Limit| StoredChunk {
        name: name.to_owned(),
        filters,
        bytes,
        size,
        limit,
    };
    let by_library = |name: &str, (filters, bytes), size| chunk(name, filters, bytes, size, copy);
    let gzip = |name: &str, (filters, bytes), size| chunk(name, filters, bytes, size, inflate);
    let noisy = |levels: f32| {
        let name = format!("deflate, noise of {levels} grey levels");
        gzip(
            &name,
            write_chunk(folder, noise(levels), |builder| builder.deflate(4)),
            narrow_size,
        )
    };
    let mut all: Vec<StoredChunk> = [1.0, 3.0, 6.0, 12.0, 24.0].map(noisy).into();
    all.extend([
        gzip(
            "deflate, u8",
            write_chunk(folder, narrow.clone(), |builder| builder.deflate(4)),
            narrow_size,
        ),
        gzip(
            "shuffle and deflate, u16",
            write_chunk(folder, wide.clone(), |builder| builder.shuffle().deflate(4)),
            wide_size,
        ),
        chunk(
            "lz4, u8",
            vec![spec(32004, &[])],
            lz4(&narrow),
            narrow_size,
            |stored, out| {
                lz4_flex::block::decompress_into(&stored[16..], out).unwrap();
            },
        ),
        chunk(
            "zstd, u8",
            vec![spec(32015, &[])],
            zstd(&narrow),
            narrow_size,
            |stored, out| {
                zstd::bulk::decompress_to_buffer(stored, out).unwrap();
            },
        ),
        chunk(
            "bzip2, u8",
            vec![spec(307, &[9])],
            bzip2(&narrow),
            narrow_size,
            |stored, out| {
                bzip2::read::BzDecoder::new(stored).read_exact(out).unwrap();
            },
        ),
        chunk(
            "bitshuffle and lz4, u16",
            // Version 0.4, elements of 2 bytes, blocks of the default size, LZ4.
            vec![spec(32008, &[0, 4, 2, 0, 2])],
            bitshuffled(&wide_bytes, 2),
            wide_size,
            copy,
        ),
        by_library(
            "fletcher32, u8",
            write_chunk(folder, narrow.clone(), DatasetBuilder::fletcher32),
            narrow_size,
        ),
        by_library(
            "scaleoffset, u16",
            write_chunk(folder, wide, |builder| {
                builder.scale_offset(ScaleOffset::Integer(0))
            }),
            wide_size,
        ),
    ]);
    all
}

/// Each filter compared with its limit.
pub fn filters(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let mut group = criterion.benchmark_group("chunk");
    group.sample_size(20);
    for chunk in stored_chunks(folder.path()) {
        let StoredChunk {
            name,
            filters,
            bytes,
            size,
            limit,
        } = chunk;
        assert_eq!(
            decode_chunk(&filters, &bytes, size).unwrap().len(),
            size,
            "{name}"
        );
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_function(BenchmarkId::new(&name, "voltile"), |bencher| {
            bencher.iter(|| decode_chunk(&filters, black_box(&bytes), size).unwrap());
        });
        let mut out = vec![0; size];
        group.bench_function(BenchmarkId::new(&name, "limit"), |bencher| {
            bencher.iter(|| limit(black_box(&bytes), black_box(&mut out)));
        });
    }
    group.finish();
}

/// Unshuffling alone, by element size.
pub fn unshuffling(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("unshuffle");
    let bytes = vec![7u8; 2 * VOXELS];
    let mut out = vec![0; bytes.len()];
    group
        .sample_size(20)
        .throughput(Throughput::Bytes(bytes.len() as u64));
    for element in [2, 3, 4, 8] {
        let filters = [spec(2, &[element])];
        group.bench_function(
            BenchmarkId::new(format!("{element} bytes"), "voltile"),
            |bencher| {
                bencher.iter(|| decode_chunk(&filters, black_box(&bytes), bytes.len()).unwrap());
            },
        );
        group.bench_function(
            BenchmarkId::new(format!("{element} bytes"), "limit"),
            |bencher| {
                bencher.iter(|| copy(black_box(&bytes), black_box(&mut out)));
            },
        );
    }
    group.finish();
}
