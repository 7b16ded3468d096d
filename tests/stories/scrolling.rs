//! Scrolling: the next slices are prefetched, prefetching yields to requests, and tiles have the
//! same pixels however their chunks are read: in part, whole, from the cache, mapped, through
//! libhdf5, by a prefetch, by several threads.

use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::common::picture::Picture;
use crate::common::volumes::{self, SLOW_LEVEL, Stored};
use crate::common::wire::Connection;
use crate::common::{ATTEMPTS, MOUNT, Place, Server, until_in_time, wait_until};
use ndarray::Array3;

const RENDERED: &str = "voltile_neighbours_rendered_total";
const GIVEN_UP: &str = "voltile_neighbours_given_up_total";
const WAITED: &str = "voltile_tile_cache_waits_total";
const RENDERS: &str = "voltile_renders_total";
const HITS: &str = "voltile_tile_cache_hits_total";

fn plane_path(z: usize) -> String {
    format!("planes/raw/xy/{z}/0_0_0.png")
}

#[test]
fn the_next_slices_are_prefetched() {
    let place = Place::new();
    volumes::planes(&place.path("planes.h5"), 10, 1, Stored::Gzip);
    let server = place.serve(["planes.h5"]);
    server.tile(&plane_path(4));
    wait_until("two slices ahead and one behind are rendered", || {
        server.count(RENDERED) == 3
    });
    assert_eq!(server.renders(), 1, "prefetched tiles are counted apart");
    for z in [5, 6, 3] {
        assert_eq!(server.tile(&plane_path(z)).picture(), volumes::plane(1, z));
    }
    assert_eq!(server.renders(), 1, "they are served from the cache");
}

/// Writes a volume in gzip chunks of 32 slices.
fn thick(path: &Path) {
    let data = Array3::from_shape_fn((64, 256, 256), |(z, y, x)| voxel(z, y, x));
    let file = hdf5::File::create(path).unwrap();
    file.new_dataset_builder()
        .with_data(&data)
        .chunk((32, 128, 128))
        .deflate(1)
        .create("raw")
        .unwrap();
}

#[test]
fn a_scroll_decodes_each_chunk_once() {
    let place = Place::new();
    thick(&place.path("thick.h5"));
    // Without finishing chunks in between, which `checksums` tests, and without a sample, which
    // reads chunks too.
    let server = place.serve([
        "thick.h5",
        "--set",
        "render.neighbours=0",
        "--set",
        "render.verify=never",
        "--set",
        "datasets.thick.channels.raw.window=full",
    ]);
    let decoded = || server.count("voltile_chunk_reads_total");
    let see = |z: usize| {
        let expected = Picture::of_plane(256, 256, |y, x| voxel(z, y, x));
        assert_eq!(
            server
                .tile(&format!("thick/raw/xy/{z}/0_0_0.png"))
                .picture(),
            expected,
            "{z}"
        );
    };
    (0..32).for_each(see);
    assert_eq!(decoded(), 4 + 4, "the prefix for the first slice, then all");
    (32..64).for_each(see);
    assert_eq!(decoded(), 4 + 4 + 4);
}

#[test]
fn a_tile_decodes_only_the_rows_it_needs_of_a_chunk_of_one_slice() {
    let place = Place::new();
    let data = Array3::from_shape_fn((1, 1000, 1000), |(z, y, x)| voxel(z, y, x));
    let file = hdf5::File::create(place.path("flat.h5")).unwrap();
    file.new_dataset_builder()
        .with_data(&data)
        .chunk((1, 500, 500))
        .deflate(1)
        .create("raw")
        .unwrap();
    file.close().unwrap();
    // Without a sample, which reads all chunks of so small a volume.
    let server = place.serve([
        "flat.h5",
        "--set",
        "render.neighbours=0",
        "--set",
        "render.verify=never",
        "--set",
        "datasets.flat.channels.raw.window=full",
    ]);
    let expected = Picture::of_plane(512, 512, |y, x| voxel(0, y, x));
    assert_eq!(server.tile("flat/raw/xy/0/0_0_0.png").picture(), expected);
    let decoded = server.count("voltile_chunk_decoded_bytes_total");
    assert!(
        decoded < 2 * 500 * 500 + 2 * 20 * 500,
        "only the first rows of the second row of chunks: {decoded}"
    );
}

#[test]
fn no_slices_beyond_the_volume_are_prefetched_and_prefetching_can_be_off() {
    let place = Place::new();
    volumes::planes(&place.path("planes.h5"), 2, 1, Stored::Flat);
    let server = place.serve(["planes.h5"]);
    server.tile(&plane_path(1));
    wait_until("the only other slice is rendered", || {
        server.count(RENDERED) == 1
    });
    server.tile(&plane_path(0));
    let without = place.serve(["planes.h5", "--set", "render.neighbours=0"]);
    (0..2).for_each(|z| drop(without.tile(&plane_path(z))));
    assert_eq!((server.count(RENDERED), without.count(RENDERED)), (1, 0));
}

#[test]
fn a_prefetch_yields_to_a_request() {
    let place = Place::new();
    volumes::slow(&place.path("slow.h5"), 4 * ATTEMPTS);
    place.write(
        "voltile.toml",
        "[render]\nthreads = 1\nmax_voxels_per_tile = 10_000_000_000\n\
         [datasets.slow]\nfile = \"slow.h5\"\n[datasets.slow.channels.raw]\nwindow = [0, 200]\n",
    );
    let server = place.serve::<&str>([]);
    // The neighbours of a slow tile are slow too. Others are requested after several delays, one of
    // which ends while a neighbour is being rendered.
    until_in_time(|attempt| {
        let z = 4 * attempt;
        server.tile(&format!("slow/raw/xy/{z}/0_0_{SLOW_LEVEL}.png"));
        thread::sleep(Duration::from_millis(30 * (1 + attempt as u64 % 10)));
        server.tile(&format!("slow/raw/xy/{z}/1_1_0.png"));
        (server.count(GIVEN_UP) > 0).then_some(())
    });
}

#[test]
fn a_request_that_joined_an_interrupted_prefetch_gets_its_tile() {
    let place = Place::new();
    volumes::slow(&place.path("slow.h5"), 4 * ATTEMPTS);
    place.write(
        "voltile.toml",
        "[render]\nthreads = 1\nmax_voxels_per_tile = 10_000_000_000\n\
         [datasets.slow]\nfile = \"slow.h5\"\n[datasets.slow.channels.raw]\nwindow = [0, 200]\n",
    );
    let server = place.serve::<&str>([]);
    until_in_time(|attempt| {
        let z = 4 * attempt;
        server.tile(&format!("slow/raw/xy/{z}/0_0_{SLOW_LEVEL}.png"));
        let before = server.metrics();
        let mut joined = Connection::open(server.address);
        let neighbour = format!("{MOUNT}/slow/raw/xy/{}/0_0_{SLOW_LEVEL}.png", z + 1);
        joined.send("GET", &neighbour, &[]);
        wait_until("the request is known", || {
            let now = server.metrics();
            [WAITED, RENDERS, HITS]
                .iter()
                .any(|name| now[*name] > before[*name])
        });
        server.tile(&format!("slow/raw/xy/{z}/1_1_0.png"));
        assert_eq!(joined.receive("GET").unwrap().status, 200);
        let now = server.metrics();
        let has_both = [WAITED, GIVEN_UP]
            .iter()
            .all(|name| now[*name] > before[*name]);
        has_both.then_some(())
    });
}

/// A voxel of [`mixture`] and [`thick`].
fn voxel(z: usize, y: usize, x: usize) -> u8 {
    let noise = ((z * 131 + y * 37 + x * 11).wrapping_mul(0x9E37_79B9) >> 13) as u8;
    (z * 3 + y / 2 + x / 3) as u8 ^ (noise & 7)
}

const SHAPE: (usize, usize, usize) = (70, 90, 110);

/// Writes one volume in every way that voltile reads differently.
fn mixture(path: &Path) -> [&'static str; 6] {
    let file = hdf5::File::create(path).unwrap();
    let data = Array3::from_shape_fn(SHAPE, |(z, y, x)| voxel(z, y, x));
    let new = || file.new_dataset_builder().with_data(&data);
    new().create("flat").unwrap();
    new().chunk((16, 32, 48)).create("bare").unwrap();
    new()
        .chunk((16, 32, 48))
        .deflate(4)
        .create("deflated")
        .unwrap();
    new()
        .chunk((64, 64, 64))
        .shuffle()
        .deflate(1)
        .fletcher32()
        .create("checked")
        .unwrap();
    new().chunk((16, 32, 48)).nbit().create("packed").unwrap();
    let wide = data.mapv(u16::from);
    file.new_dataset_builder()
        .with_data(&wide)
        .chunk((64, 64, 64))
        .shuffle()
        .deflate(4)
        .create("wide")
        .unwrap();
    ["flat", "bare", "deflated", "checked", "packed", "wide"]
}

/// The path and the pixels of a tile, chosen by a number.
fn chosen(names: &[&str], number: usize) -> (String, Picture) {
    let name = names[number % names.len()];
    let (depth, height, width) = SHAPE;
    let (plane, slice, picture) = match number / 7 % 3 {
        0 => {
            let z = number / 21 % depth;
            (
                "xy",
                z,
                Picture::of_plane(height, width, |y, x| voxel(z, y, x)),
            )
        }
        1 => {
            let y = number / 21 % height;
            (
                "xz",
                y,
                Picture::of_plane(depth, width, |z, x| voxel(z, y, x)),
            )
        }
        _ => {
            let x = number / 21 % width;
            (
                "yz",
                x,
                Picture::of_plane(depth, height, |z, y| voxel(z, y, x)),
            )
        }
    };
    (
        format!("{MOUNT}/mixture/{name}/{plane}/{slice}/0_0_0.png"),
        picture,
    )
}

fn walk_all(server: &Server, names: &[&str], walks: usize, steps: usize) {
    thread::scope(|scope| {
        for walk in 0..walks {
            scope.spawn(move || {
                let mut connection = server.connect();
                for step in 0..steps {
                    // Random tiles alternate with a scroll.
                    let number = (walk * 7919 + step).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
                    let scroll = (step / 2) * 21 + walk * 7 + walk % names.len();
                    let (path, expected) =
                        chosen(names, if step % 2 == 0 { number } else { scroll });
                    let answer = connection.get(&path);
                    assert_eq!((answer.status, answer.picture()), (200, expected), "{path}");
                }
            });
        }
    });
}

#[test]
fn all_ways_to_read_voxels_give_the_same_pixels_concurrently() {
    walk_through_a_mixture(40);
}

#[test]
#[ignore = "slow: requests thousands of tiles"]
fn all_ways_to_read_voxels_give_the_same_pixels_for_long() {
    walk_through_a_mixture(200);
}

/// Four clients each request this many tiles.
fn walk_through_a_mixture(steps: usize) {
    let place = Place::new();
    let names = mixture(&place.path("mixture.h5"));
    // Without samples, whose values would be sorted at each start.
    let windows = names.map(|name| {
        let window = if name == "wide" {
            "[0, 255]"
        } else {
            "\"full\""
        };
        format!("[datasets.mixture.channels.{name}]\nwindow = {window}\n")
    });
    place.write(
        "voltile.toml",
        &format!(
            "[datasets.mixture]\nfile = \"mixture.h5\"\n{}",
            windows.concat()
        ),
    );
    // Caches that are too small, and ones that keep everything.
    for (chunks, tiles) in [("2 MiB", "64 KiB"), ("64 MiB", "64 MiB"), ("2 MiB", "0")] {
        let caches = [
            format!("cache.chunks={chunks}"),
            format!("cache.tiles={tiles}"),
        ];
        let server = place.serve([
            "--set",
            &caches[0],
            "--set",
            &caches[1],
            "--set",
            "render.threads=2",
        ]);
        walk_all(&server, &names, 4, steps);
    }
}
