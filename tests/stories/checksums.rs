//! Chunks decoded in part are finished while the server is idle, and corrupt ones are found.
//!
//! A corrupt chunk has one bit flipped such that its stream still inflates to the right length:
//! only the checksum differs.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::common::picture::{Picture, TILE};
use crate::common::wire::Answer;
use crate::common::{MOUNT, Place, Server, wait_until};
use libdeflater::{DecompressionError, Decompressor};
use ndarray::Array3;

const FINISHED: &str = "voltile_chunks_finished_total";
const REFUSED: &str = "voltile_chunks_refused_total";
const READS: &str = "voltile_chunk_reads_total";
const WRITES: &str = "voltile_tier_writes_total";

const EDGE: usize = 64;
/// z, y, x: two layers of sixteen chunks, half of them in each tile of a row.
const SHAPE: (usize, usize, usize) = (2 * EDGE, EDGE, 1024);
const CHUNKS: u64 = 2 * 16;
/// The slice requested first: it needs a small part of a chunk.
const FIRST: usize = 3;

fn voxel(z: usize, y: usize, x: usize) -> u8 {
    let noise = ((z * 131 + y * 37 + x * 11).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u8;
    (z + y / 2 + x / 9) as u8 / 2 + noise % 23
}

/// Writes the volume; returns the address and the stored size of its first chunk.
fn volume(path: &Path) -> (u64, usize) {
    let file = hdf5::File::create(path).unwrap();
    let data = Array3::from_shape_fn(SHAPE, |(z, y, x)| voxel(z, y, x));
    let builder = file
        .new_dataset_builder()
        .with_data(&data)
        .chunk((EDGE, EDGE, EDGE));
    let raw = builder.deflate(4).create("raw").unwrap();
    file.flush().unwrap();
    let first = raw.chunk_info(0).unwrap();
    assert_eq!(first.offset, [0, 0, 0]);
    (first.addr, first.size as usize)
}

/// A bit of the file: if it is flipped, the first chunk still inflates to its length, but its slice
/// [`FIRST`] differs.
struct Flip {
    address: u64,
    bit: u8,
}

impl Flip {
    fn find(path: &Path, (address, size): (u64, usize)) -> Self {
        let mut stream = vec![0; size];
        OpenOptions::new()
            .read(true)
            .open(path)
            .unwrap()
            .read_exact_at(&mut stream, address)
            .unwrap();
        let shown = (FIRST + 1) * EDGE * EDGE;
        let inflate = |stream: &[u8], whole: &mut [u8]| {
            Decompressor::new()
                .deflate_decompress(&stream[2..], whole)
                .is_ok_and(|length| length == whole.len())
        };
        let (mut right, mut wrong) = (vec![0; EDGE * EDGE * EDGE], vec![0; EDGE * EDGE * EDGE]);
        assert!(inflate(&stream, &mut right));
        for at in size / 100..size / 20 {
            for bit in 0..8 {
                stream[at] ^= 1 << bit;
                if inflate(&stream, &mut wrong)
                    && wrong[shown - EDGE * EDGE..shown] != right[shown - EDGE * EDGE..shown]
                {
                    assert!(
                        Decompressor::new()
                            .zlib_decompress(&stream, &mut wrong)
                            .is_err()
                    );
                    return Self {
                        address: address + at as u64,
                        bit,
                    };
                }
                stream[at] ^= 1 << bit;
            }
        }
        panic!("no bit can be flipped unnoticed");
    }

    /// Flips the bit, or flips it back.
    fn apply(&self, path: &Path) {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, self.address).unwrap();
        byte[0] ^= 1 << self.bit;
        file.write_all_at(&byte, self.address).unwrap();
    }
}

/// Writes the volume with its first chunk corrupt.
fn corrupt(place: &Place) -> Flip {
    let path = place.path("cubes.h5");
    let stored = volume(&path);
    let flip = Flip::find(&path, stored);
    flip.apply(&path);
    flip
}

fn tile_path(tile: &str) -> String {
    format!("cubes/raw/{tile}.png")
}

fn tile(server: &Server, tile: &str) -> Answer {
    server.tile(&tile_path(tile))
}

fn xy(z: usize, column: usize) -> String {
    format!("xy/{z}/0_{column}_0")
}

/// The right tile of a slice.
fn right(z: usize, column: usize) -> Picture {
    Picture::of_plane(EDGE, TILE, |y, x| voxel(z, y, x + column * TILE))
}

/// Tiles of all kinds that touch the first chunk, without the one requested first.
fn touching() -> Vec<String> {
    let others = [
        "xy/0/0_0_1",
        "xz/7/0_0_0",
        "yz/63/0_0_0",
        "xz/31/0_0_1",
        "xy/1/0_0_1",
    ];
    [xy(0, 0), xy(63, 0)]
        .into_iter()
        .chain(others.map(str::to_owned))
        .collect()
}

/// Tiles that do not touch it.
fn others() -> [(usize, usize); 4] {
    [(FIRST, 1), (64, 0), (127, 0), (127, 1)]
}

/// Waits until a tile that touches the corrupt chunk is an error: tiles that were drawn before it
/// was found are removed one after another.
fn wait_for_error(server: &Server, which: &str) {
    wait_until("the tile is an error", || {
        let answer = tile(server, which);
        answer.status == 500 && answer.header("etag").is_none()
    });
}

/// A server of the volume with the corrupt chunk.
fn served_corrupt<'a>(place: &Place, arguments: impl IntoIterator<Item = &'a str>) -> Server {
    let server = place.serve(arguments);
    server.expect_error("every tile that touches this chunk is an error until the file is mended");
    server.allow_error("a tile could not be rendered: /raw in ");
    server
}

#[test]
fn a_corrupt_chunk_is_found_in_idle_time_and_is_an_error_until_it_is_mended() {
    let place = Place::new();
    let flip = corrupt(&place);
    let server = served_corrupt(&place, ["cubes.h5"]);
    let first = tile(&server, &xy(FIRST, 0));
    assert_eq!(
        first.status, 200,
        "it is answered before the chunk is verified"
    );
    for which in touching() {
        tile(&server, &which);
    }
    wait_until("the chunk is refused", || server.count(REFUSED) == 1);
    for which in std::iter::once(xy(FIRST, 0)).chain(touching()) {
        wait_for_error(&server, &which);
    }
    for (z, column) in others() {
        let answer = tile(&server, &xy(z, column));
        assert_eq!(
            answer.picture(),
            right(z, column),
            "slice {z}, column {column}"
        );
        let path = format!("{MOUNT}/{}", tile_path(&xy(z, column)));
        let asked = server.ask("GET", &path, &[("If-None-Match", answer.etag())]);
        assert_eq!(asked.status, 304, "slice {z}, column {column}");
    }
    assert_eq!(server.count(REFUSED), 1);
    server.wait_for_log("every tile that touches this chunk");
    let log = server.log();
    let lines: Vec<_> = log
        .lines()
        .filter(|line| line.contains("every tile that touches this chunk"))
        .collect();
    assert_eq!(lines.len(), 1, "it is logged once:\n{log}");
    assert!(
        lines[0].contains("checksum")
            && lines[0].contains("[0, 0, 0]")
            && lines[0].contains("cubes.h5")
    );
    flip.apply(&place.path("cubes.h5"));
    for z in [FIRST, 0, 63] {
        wait_until("the mended chunk is served", || {
            let answer = tile(&server, &xy(z, 0));
            answer.status == 200 && answer.picture() == right(z, 0)
        });
    }
}

#[test]
fn with_verify_always_a_corrupt_chunk_is_an_error_at_once_and_with_never_it_is_not_noticed() {
    let place = Place::new();
    corrupt(&place);
    let always = place.serve(["cubes.h5", "--set", "render.verify=always"]);
    always.expect_error("every tile that touches this chunk is an error until the file is mended");
    always.expect_error("a tile could not be rendered: /raw in ");
    for which in std::iter::once(xy(FIRST, 0)).chain(touching()) {
        assert_eq!(tile(&always, &which).status, 500, "{which}");
    }
    assert_eq!(tile(&always, &xy(FIRST, 1)).picture(), right(FIRST, 1));
    let never = place.serve([
        "cubes.h5",
        "--set",
        "render.verify=never",
        "--set",
        "render.neighbours=0",
    ]);
    let first = tile(&never, &xy(FIRST, 0));
    assert!(first.status == 200 && first.picture() != right(FIRST, 0));
    assert_eq!(tile(&never, &xy(FIRST + 1, 0)).status, 200);
    assert!(tile(&never, &xy(FIRST, 0)).body == first.body);
    assert_eq!((never.count(REFUSED), never.count(FINISHED)), (0, 0));
}

#[test]
fn chunks_decoded_in_part_are_finished_and_right() {
    let place = Place::new();
    volume(&place.path("cubes.h5"));
    let as_stored = "datasets.cubes.channels.raw.window=full";
    let server = place.serve([
        "cubes.h5",
        "--set",
        "render.neighbours=0",
        "--set",
        as_stored,
    ]);
    for (z, column) in [(FIRST, 0), (FIRST, 1), (64 + 40, 0), (64 + 40, 1)] {
        assert_eq!(tile(&server, &xy(z, column)).picture(), right(z, column));
    }
    assert_eq!(server.count(READS), CHUNKS);
    wait_until("every chunk is finished", || {
        server.count(FINISHED) == CHUNKS
    });
    for z in 0..SHAPE.0 {
        assert_eq!(
            tile(&server, &xy(z, z % 2)).picture(),
            right(z, z % 2),
            "{z}"
        );
    }
    let slice = |y: usize| Picture::of_plane(SHAPE.0, TILE, |z, x| voxel(z, y, x));
    assert_eq!(tile(&server, "xz/50/0_0_0").picture(), slice(50));
    let counted = server.metrics();
    assert_eq!(
        (counted[READS], counted[FINISHED]),
        (CHUNKS, CHUNKS),
        "nothing was decoded again"
    );
    assert_eq!(
        counted["voltile_chunk_cache_bytes"] >> 10,
        (CHUNKS * (64 * 64 * 64 + 256)) >> 10
    );
}

#[test]
fn only_verified_tiles_are_written_to_the_disk_cache() {
    let place = Place::new();
    corrupt(&place);
    let arguments = [
        "cubes.h5",
        "--set",
        "cache.directory=kept",
        "--set",
        "render.neighbours=0",
        "--set",
        "render.threads=1",
    ];
    let mut server = served_corrupt(&place, arguments);
    assert_eq!(tile(&server, &xy(FIRST, 0)).status, 200);
    assert_eq!(tile(&server, &xy(FIRST, 1)).picture(), right(FIRST, 1));
    wait_until("the chunk is refused", || server.count(REFUSED) == 1);
    wait_until("the other tile is written", || server.count(WRITES) == 1);
    wait_for_error(&server, &xy(FIRST, 0));
    server.stop();
    let again = served_corrupt(&place, arguments);
    assert_eq!(tile(&again, &xy(FIRST, 1)).picture(), right(FIRST, 1));
    assert_eq!(again.count("voltile_tier_hits_total"), 1);
    assert_eq!(
        tile(&again, &xy(FIRST, 0)).status,
        200,
        "a new process does not know of the corrupt chunk"
    );
    assert_eq!(
        again.count("voltile_tier_hits_total"),
        1,
        "its tile is rendered again"
    );
    wait_until("the chunk is refused again", || again.count(REFUSED) == 1);
}

#[test]
fn a_tile_rendered_just_before_the_end_is_verified_and_written() {
    let place = Place::new();
    volume(&place.path("cubes.h5"));
    let arguments = [
        "cubes.h5",
        "--set",
        "cache.directory=kept",
        "--set",
        "render.neighbours=0",
    ];
    let mut server = place.serve(arguments);
    tile(&server, &xy(FIRST, 0));
    server.stop();
    let again = place.serve(arguments);
    assert_eq!(tile(&again, &xy(FIRST, 0)).picture(), right(FIRST, 0));
    assert_eq!(
        (again.count("voltile_tier_hits_total"), again.renders()),
        (1, 0)
    );
}

#[test]
fn a_stream_that_breaks_off_still_shows_the_slices_before_the_damage() {
    let place = Place::new();
    let path = place.path("cubes.h5");
    let (address, size) = volume(&path);
    // A run of ones is invalid in its codes.
    let mut bytes = fs::read(&path).unwrap();
    let stream = address as usize..address as usize + size;
    bytes[stream.start + size * 3 / 4..][..400].fill(0xFF);
    let inflated = Decompressor::new()
        .deflate_decompress(&bytes[stream][2..], &mut vec![0; EDGE * EDGE * EDGE]);
    assert_eq!(
        inflated,
        Err(DecompressionError::BadData),
        "the stream breaks off"
    );
    fs::write(&path, &bytes).unwrap();
    // A neighbour that is rendered at the same time may meet the damage first, for no request.
    let server = place.serve(["cubes.h5", "--set", "render.neighbours=0"]);
    server.expect_error("its zlib stream is invalid");
    let path = format!("{MOUNT}/{}", tile_path(&xy(FIRST, 0)));
    let first = server.ask("GET", &path, &[("X-Request-Id", "first")]);
    assert_eq!(first.picture(), right(FIRST, 0));
    wait_until("the other seven chunks are finished", || {
        server.count(FINISHED) >= 7
    });
    server.wait_for_log("slices before the damage are shown");
    let log = server.log();
    let line = log
        .lines()
        .find(|line| line.contains("slices before the damage"))
        .unwrap();
    assert!(
        line.contains("request=\"first\""),
        "the idle thread knows for whom it reads: {line}"
    );
    for z in [FIRST, 0, 10, 20] {
        assert_eq!(tile(&server, &xy(z, 0)).picture(), right(z, 0), "{z}");
    }
    assert_eq!(
        (tile(&server, &xy(63, 0)).status, server.count(REFUSED)),
        (500, 0)
    );
}

#[test]
fn a_corrupt_chunk_of_which_all_was_wanted_is_refused_at_once() {
    let place = Place::new();
    corrupt(&place);
    // Nothing is finished while requests keep coming: the tile of the last slice must do it.
    let server = served_corrupt(&place, ["cubes.h5", "--set", "render.neighbours=0"]);
    assert_eq!(tile(&server, &xy(EDGE - 1, 0)).status, 500);
    assert_eq!(server.count(REFUSED), 1);
    assert_eq!(
        tile(&server, &xy(FIRST, 0)).status,
        500,
        "its beginning is not shown either"
    );
}
