//! Encoding: our two profiles compared with the crates' encoders, on each kind of content.
//!
//! Uses Criterion because it is maintained and scripts can read its estimates from files. Sizes are
//! printed first: an encoder must be fast *and* produce small files.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "a benchmark is read, not called, and may panic with a message"
)]

#[path = "common/mod.rs"]
mod common;

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{ExtendedColorType, ImageEncoder};
use libdeflater::{CompressionLvl, Compressor};
use voltile_base::paint::PngProfile;
use voltile_render::plan::PixelKind;
use voltile_render::{EncodeBuffers, encode};

use common::{Picture, SIDE};

/// A name, and the function that encodes a picture and returns the size of the PNG.
type Encoder = (&'static str, fn(&Picture, &mut EncodeBuffers) -> usize);

/// The encoders. The last is a reference for sizes: zlib's lowest level applied to the best filter
/// of each row.
const ENCODERS: [Encoder; 5] = [
    ("voltile fast", |p, b| ours(p, PngProfile::Fast, b)),
    ("voltile small", |p, b| ours(p, PngProfile::Small, b)),
    ("image fast adaptive", |p, _| image_crate(p)),
    ("png fastest", |p, _| png_crate(p)),
    ("libdeflate 1 adaptive", |p, _| libdeflate_adaptive(p)),
];

fn kind(picture: &Picture) -> PixelKind {
    if picture.bytes == 1 {
        PixelKind::Grey
    } else {
        PixelKind::Rgb
    }
}

fn ours(picture: &Picture, profile: PngProfile, buffers: &mut EncodeBuffers) -> usize {
    encode(&picture.pixels, kind(picture), profile, buffers).map_or(0, |png| png.len())
}

fn image_crate(picture: &Picture) -> usize {
    let colour = if picture.bytes == 1 {
        ExtendedColorType::L8
    } else {
        ExtendedColorType::Rgb8
    };
    let mut png = Vec::with_capacity(picture.pixels.len());
    let encoder =
        PngEncoder::new_with_quality(&mut png, CompressionType::Fast, FilterType::Adaptive);
    encoder
        .write_image(&picture.pixels, SIDE as u32, SIDE as u32, colour)
        .unwrap();
    png.len()
}

fn png_crate(picture: &Picture) -> usize {
    let mut png = Vec::with_capacity(picture.pixels.len());
    let mut encoder = png::Encoder::new(&mut png, SIDE as u32, SIDE as u32);
    encoder.set_color(if picture.bytes == 1 {
        png::ColorType::Grayscale
    } else {
        png::ColorType::Rgb
    });
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Fastest);
    encoder
        .write_header()
        .unwrap()
        .write_image_data(&picture.pixels)
        .unwrap();
    png.len()
}

/// The rows that an adaptive encoder filters and does not compress, deflated by libdeflate at level
/// 1.
fn libdeflate_adaptive(picture: &Picture) -> usize {
    let mut stored = Vec::new();
    let mut encoder = png::Encoder::new(&mut stored, SIDE as u32, SIDE as u32);
    encoder.set_color(if picture.bytes == 1 {
        png::ColorType::Grayscale
    } else {
        png::ColorType::Rgb
    });
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::NoCompression);
    encoder.set_filter(png::Filter::Adaptive);
    encoder
        .write_header()
        .unwrap()
        .write_image_data(&picture.pixels)
        .unwrap();
    // The headers of the PNG and of its stored blocks are compressed too: some hundred bytes, which
    // hardly count beside 150,000.
    let mut compressor = Compressor::new(CompressionLvl::new(1).unwrap());
    let mut out = vec![0; compressor.zlib_compress_bound(stored.len())];
    compressor.zlib_compress(&stored, &mut out).unwrap()
}

fn encoders(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("encode");
    group.sample_size(50);
    for picture in common::pictures() {
        let mut buffers = EncodeBuffers::default();
        for (name, encoder) in ENCODERS {
            println!(
                "bytes {:>14} {:>22} {:>8}",
                picture.name,
                name,
                encoder(&picture, &mut buffers)
            );
        }
        group.throughput(Throughput::Bytes(picture.pixels.len() as u64));
        for (name, encoder) in ENCODERS {
            group.bench_with_input(
                BenchmarkId::new(name, picture.name),
                &picture,
                |bencher, picture| {
                    bencher.iter(|| encoder(black_box(picture), &mut buffers));
                },
            );
        }
    }
    group.finish();
}

criterion_group!(benches, encoders);
criterion_main!(benches);
