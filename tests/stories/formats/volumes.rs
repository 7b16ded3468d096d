//! Volumes of noise, with their configuration: every type as an image and as labels, every storage,
//! derived levels, time points, colours, and chunks that were never written.

use std::fmt::Write;

use hdf5::{File, H5Type};
use ndarray::{Array3, ArrayD, Dimension, IxDyn};

use crate::common::{Place, made};

/// The dataset whose channels are all stored in different ways.
pub const STORAGES: &str = "storages";

/// Noise, so that nothing compresses well.
fn noise(at: &[usize]) -> u64 {
    let mixed = at.iter().fold(7, |mixed, at| mixed * 1009 + at);
    (mixed as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20
}

fn data<T>(shape: &[usize], voxel: impl Fn(u64) -> T) -> ArrayD<T> {
    ArrayD::from_shape_fn(IxDyn(shape), |at| voxel(noise(at.slice())))
}

/// A dataset with a configuration; `channels` are the names, the paths and further keys.
fn configure(text: &mut String, token: &str, keys: &str, channels: &[(&str, &str, &str)]) {
    write!(text, "[datasets.{token}]\nfile = \"{token}.h5\"\n{keys}\n").unwrap();
    for (name, path, keys) in channels {
        write!(
            text,
            "[datasets.{token}.channels.{name}]\npath = \"/{path}\"\n{keys}\n"
        )
        .unwrap();
    }
}

/// Writes the files, and the configuration `voltile.toml`.
pub fn write(place: &Place) {
    let mut text = String::new();
    types(place, &mut text);
    storages(place, &mut text);
    levels(place, &mut text);
    axes(place, &mut text);
    place.write("voltile.toml", &text);
}

fn types(place: &Place, text: &mut String) {
    fn put<T: H5Type>(file: &File, name: &str, voxel: impl Fn(u64) -> T) {
        // In runs of eight, as labels have them.
        let data = Array3::from_shape_fn((19, 70, 45), |(z, y, x)| voxel(noise(&[z, y, x / 8])));
        let builder = file
            .new_dataset_builder()
            .with_data(&data)
            .chunk((16, 16, 16));
        builder.shuffle().deflate(3).create(name).unwrap();
    }
    made::file(&place.path("types.h5"), |file| {
        put(file, "u8", |value| value as u8);
        put(file, "i8", |value| value as i8);
        put(file, "u16", |value| value as u16);
        put(file, "i16", |value| value as i16);
        put(file, "u32", |value| value as u32);
        put(file, "i32", |value| value as i32);
        put(file, "u64", |value| value << 20 | value);
        put(file, "i64", |value| (value << 20 | value).cast_signed());
        put(file, "f32", |value| value as f32 - 1e12);
        put(file, "f64", |value| value as f64 - 1e12);
        put(file, "bool", |value| value % 2 == 0);
    });
    let reals = [
        ("f32", "f32", "kind = \"image\""),
        ("f64", "f64", "kind = \"image\""),
    ];
    let integers = ["u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "bool"];
    let names = integers.map(|path| (format!("l{path}"), path));
    let images = integers.map(|path| (path, path, "kind = \"image\""));
    let labels = names
        .each_ref()
        .map(|(name, path)| (&**name, *path, "kind = \"labels\""));
    configure(text, "types", "", &[&images[..], &labels, &reals].concat());
}

fn storages(place: &Place, text: &mut String) {
    made::file(&place.path("storages.h5"), |file| {
        let builder = file.new_dataset_builder();
        let bytes = data(&[70, 64, 96], |value| value as u8);
        builder
            .with_data(&bytes)
            .chunk((32, 32, 32))
            .deflate(6)
            .create("gzip")
            .unwrap();
        let words = data(&[40, 50, 60], |value| value as u16);
        let builder = || file.new_dataset_builder().with_data(&words);
        builder().create("contiguous").unwrap();
        builder().chunk((32, 32, 32)).create("plain").unwrap();
        builder()
            .chunk((32, 32, 32))
            .shuffle()
            .deflate(1)
            .fletcher32()
            .create("shuffled")
            .unwrap();
        builder()
            .chunk((1, 50, 60))
            .shuffle()
            .deflate(4)
            .create("flat")
            .unwrap();
        let holes = file
            .new_dataset_builder()
            .empty::<i16>()
            .shape((64, 64, 64))
            .chunk((32, 32, 32));
        let holes = holes
            .shuffle()
            .deflate(1)
            .fill_value(-777i16)
            .create("holes")
            .unwrap();
        let part = data(&[32, 32, 32], |value| value as i16);
        holes
            .write_slice(&part, ndarray::s![0..32, 32..64, 0..32])
            .unwrap();
        let never = file
            .new_dataset_builder()
            .empty::<u8>()
            .shape((20, 30, 40))
            .chunk((16, 16, 16));
        never.fill_value(7u8).create("never").unwrap();
        let turned = data(&[60, 50, 40], |value| value as u16);
        file.new_dataset_builder()
            .with_data(&turned)
            .chunk((16, 8, 2))
            .create("turned")
            .unwrap();
    });
    let names = [
        "gzip",
        "contiguous",
        "plain",
        "shuffled",
        "flat",
        "holes",
        "never",
    ];
    let channels = names.map(|name| (name, name, ""));
    configure(
        text,
        STORAGES,
        "",
        &[&channels[..], &[("turned", "turned", "axes = \"xyz\"")]].concat(),
    );
}

fn levels(place: &Place, text: &mut String) {
    made::file(&place.path("isotropic.h5"), |file| {
        let bytes = data(&[9, 301, 1201], |value| value as u8);
        file.new_dataset_builder()
            .with_data(&bytes)
            .chunk((8, 64, 64))
            .deflate(1)
            .create("raw")
            .unwrap();
    });
    let keys = "voxel_size = [4.5, 4.5, 40]\noffset = [7, -70, 13]\nscaling = \"isotropic\"";
    configure(text, "isotropic", keys, &[("raw", "raw", "")]);
    made::file(&place.path("wide.h5"), |file| {
        made::put(file, "raw", &data(&[3, 700, 1100], |value| value as i16));
        made::put(file, "ids", &data(&[3, 700, 1100], |value| value as u32));
    });
    configure(
        text,
        "wide",
        "",
        &[("raw", "raw", ""), ("ids", "ids", "kind = \"labels\"")],
    );
}

fn axes(place: &Place, text: &mut String) {
    made::file(&place.path("series.h5"), |file| {
        let movie = data(&[3, 2, 5, 40, 50], |value| value as u16);
        let builder = file
            .new_dataset_builder()
            .with_data(&movie)
            .chunk((1, 1, 5, 32, 32));
        builder.deflate(4).create("movie").unwrap();
        made::put(file, "bytes", &data(&[3, 5, 40, 50], |value| value as u8));
        let cells = data(&[3, 5, 40, 50], |value| value);
        file.new_dataset_builder()
            .with_data(&cells)
            .chunk((1, 5, 40, 50))
            .deflate(4)
            .create("cells")
            .unwrap();
        made::put(file, "mask", &data(&[5, 40, 50], |value| value as i32));
        made::put(file, "other", &data(&[5, 40, 51], |value| value as u8));
    });
    configure(
        text,
        "series",
        "voxel_size = [100, 100, 500]\noffset = [10, 20, -2]",
        &[
            ("a", "movie", "axes = \"tczyx\"\nindex = { c = 0 }"),
            ("b", "movie", "axes = \"tczyx\"\nindex = { c = 1 }"),
            ("bytes", "bytes", "axes = \"tzyx\""),
            ("cells", "cells", "axes = \"tzyx\"\nkind = \"labels\""),
            ("mask", "mask", "kind = \"labels\""),
            ("other", "other", "kind = \"labels\""),
        ],
    );
    made::file(&place.path("rgb.h5"), |file| {
        made::put(file, "raw", &data(&[5, 20, 30, 3], |value| value as u8));
    });
    configure(
        text,
        "rgb",
        "",
        &[("raw", "raw", "axes = \"zyxc\"\nkind = \"rgb\"")],
    );
}
