//! Files that change while they are served: truncated, damaged, mended, replaced, removed.
//!
//! The tiles of a changed file are errors until it has been reopened; then a tile that touches
//! missing or damaged bytes is an error, and all others are right. Of each volume it is known which
//! bytes of the file hold which plane.

use std::fs;
use std::thread;
use std::time::Duration;

use crate::common::picture::Picture;
use crate::common::volumes::{self, Stored};
use crate::common::wire::Answer;
use crate::common::{CHANGED, MOUNT, Place, Server, wait_until};
use ndarray::Array3;

/// The planes of each volume.
const PLANES: usize = 8;

/// A server of a volume stored in that way.
fn served(place: &Place, stored: Stored) -> Server {
    let server = place.serve(["planes.h5"].iter().chain(stored.settings()));
    server.allow_error(CHANGED);
    server
}

/// The error of a chunk with inverted bytes.
fn of_damaged_chunk(stored: Stored) -> &'static str {
    if stored == Stored::Gzip {
        "its zlib stream is invalid"
    } else {
        "the library cannot read it"
    }
}

fn xy(server: &Server, z: usize) -> Answer {
    server.tile(&format!("planes/raw/xy/{z}/0_0_0.png"))
}

/// Every plane is right, or if it is lost, an error that reveals no paths.
fn assert_planes(server: &Server, place: &Place, is_lost: impl Fn(usize) -> bool, story: &str) {
    for z in 0..PLANES {
        let answer = xy(server, z);
        if is_lost(z) {
            assert_eq!(answer.status, 500, "{story}: plane {z}");
            let (detail, directory) = (answer.problem(), place.path(""));
            assert!(
                !detail.contains(directory.to_str().unwrap()) && !detail.contains("planes"),
                "{detail}"
            );
            assert_eq!(answer.header("etag"), None);
        } else {
            assert_eq!(answer.picture(), volumes::plane(1, z), "{story}: plane {z}");
        }
    }
}

/// Waits until the next request notices a change of a file: the server checks a file at most every
/// 200 ms.
fn notice() {
    thread::sleep(Duration::from_millis(250));
}

/// Waits until a plane of the present file is served.
fn wait_for_plane(server: &Server, seed: usize, z: usize) {
    wait_until("the file is reopened", || {
        let answer = xy(server, z);
        answer.status == 200 && answer.picture() == volumes::plane(seed, z)
    });
}

#[test]
fn a_file_truncated_while_served_loses_what_is_missing_until_it_is_restored() {
    for stored in [Stored::Flat, Stored::Gzip, Stored::Packed] {
        let (place, story) = (Place::new(), format!("{stored:?}"));
        let path = place.path("planes.h5");
        let bytes = volumes::planes(&path, PLANES, 1, stored);
        let server = served(&place, stored);
        server.expect_error("a tile could not be rendered: /raw in ");
        assert_eq!(xy(&server, 0).status, 200);
        let whole = fs::read(&path).unwrap();
        let length = (bytes[4].start + bytes[4].end) / 2;
        volumes::truncate(&path, length);
        notice();
        // What is stored before the cut can be read once the file has been reopened.
        let is_lost = |z: usize| bytes[z].end > length;
        assert!((1..PLANES).any(is_lost) && !(1..PLANES).all(is_lost));
        wait_for_plane(&server, 1, 1);
        for _ in 0..2 {
            assert_planes(&server, &place, is_lost, &story);
        }
        for across in ["xz", "yz"] {
            assert_eq!(
                server
                    .tile(&format!("planes/raw/{across}/3/0_0_0.png"))
                    .status,
                500,
                "{story}"
            );
        }
        assert_eq!(
            server.tile("planes/raw/xy/4/0_0_2.png").status,
            500,
            "{story}: a derived level"
        );
        server.wait_for_log(path.to_str().unwrap());
        fs::write(&path, &whole).unwrap();
        notice();
        wait_for_plane(&server, 1, PLANES - 1);
        assert_planes(&server, &place, |_| false, &story);
        assert_eq!(
            server.tile("planes/raw/xz/3/0_0_0.png").status,
            200,
            "{story}"
        );
    }
}

#[test]
fn a_file_truncated_before_anything_was_read_loses_only_what_is_missing() {
    let place = Place::new();
    let path = place.path("planes.h5");
    let bytes = volumes::planes(&path, PLANES, 1, Stored::Flat);
    let server = served(&place, Stored::Flat);
    server.expect_error("the file ends at byte");
    let length = bytes[2].end;
    volumes::truncate(&path, length);
    notice();
    wait_for_plane(&server, 1, 2);
    assert_planes(&server, &place, |z| z > 2, "flat");
}

#[test]
fn a_damaged_chunk_is_an_error_until_it_is_mended() {
    for stored in [Stored::Gzip, Stored::Packed] {
        let (place, story) = (Place::new(), format!("{stored:?}"));
        let path = place.path("planes.h5");
        let bytes = volumes::planes(&path, PLANES, 1, stored);
        let server = served(&place, stored);
        server.expect_error(of_damaged_chunk(stored));
        let middle = (bytes[3].start + bytes[3].end) / 2;
        volumes::invert(&path, &(middle..middle + 8));
        notice();
        wait_for_plane(&server, 1, 0);
        let errors = server.count("voltile_render_errors_total");
        for _ in 0..2 {
            assert_planes(&server, &place, |z| z == 3, &story);
        }
        assert_eq!(
            server.count("voltile_render_errors_total"),
            errors + 2,
            "{story}: errors are not cached"
        );
        volumes::invert(&path, &(middle..middle + 8));
        notice();
        wait_for_plane(&server, 1, 3);
        assert_planes(&server, &place, |_| false, &story);
    }
}

#[test]
fn a_scroll_shows_the_slices_before_the_damage_of_a_chunk() {
    let place = Place::new();
    let path = place.path("thick.h5");
    let voxel = |z: usize, y: usize, x: usize| ((z * 31 + y * 17 + x * x * 7) % 251) as u8;
    let file = hdf5::File::create(&path).unwrap();
    let data = Array3::from_shape_fn((64, 256, 256), |(z, y, x)| voxel(z, y, x));
    let raw = file
        .new_dataset_builder()
        .with_data(&data)
        .chunk((32, 256, 256))
        .deflate(1)
        .create("raw");
    let last = raw.unwrap().chunk_info(1).unwrap();
    file.close().unwrap();
    let end = last.addr + last.size;
    volumes::invert(&path, &(end - 64..end));
    let server = place.serve(["thick.h5", "--set", "render.neighbours=0"]);
    server.expect_error("its zlib stream is invalid");
    for z in (30..41).chain([33, 40]) {
        let expected = Picture::of_plane(256, 256, |y, x| voxel(z, y, x));
        assert_eq!(
            server
                .tile(&format!("thick/raw/xy/{z}/0_0_0.png"))
                .picture(),
            expected,
            "{z}"
        );
    }
    assert_eq!(server.tile("thick/raw/xy/63/0_0_0.png").status, 500);
}

#[test]
fn all_clients_that_wait_for_a_damaged_chunk_get_the_error() {
    let place = Place::new();
    let path = place.path("planes.h5");
    let bytes = volumes::planes(&path, PLANES, 1, Stored::Gzip);
    volumes::invert(&path, &bytes[3]);
    let server = served(&place, Stored::Gzip);
    server.expect_error(of_damaged_chunk(Stored::Gzip));
    let mut clients: Vec<_> = (0..60).map(|_| server.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(
            "GET",
            &format!("{}/planes/raw/xy/{}/0_0_0.png", MOUNT, 2 + number % 2),
            &[],
        );
    }
    for (number, mut client) in clients.into_iter().enumerate() {
        let answer = client.receive("GET").unwrap();
        assert_eq!(answer.status, if number % 2 == 0 { 200 } else { 500 });
    }
    assert_planes(&server, &place, |z| z == 3, "afterwards");
}

#[test]
fn a_replaced_file_is_served_once_it_has_been_reopened() {
    let place = Place::new();
    let path = place.path("planes.h5");
    volumes::planes(&path, PLANES, 1, Stored::Gzip);
    let server = served(&place, Stored::Gzip);
    let old = xy(&server, 0);
    volumes::planes(&place.path("new.h5"), PLANES, 2, Stored::Gzip);
    fs::rename(place.path("new.h5"), &path).unwrap();
    notice();
    let tile = format!("{MOUNT}/planes/raw/xy/0/0_0_0.png");
    let asked = server.ask("GET", &tile, &[("If-None-Match", old.etag())]);
    assert!(
        asked.status == 500 || asked.picture() == volumes::plane(2, 0),
        "no 304 for tiles of the old file"
    );
    wait_for_plane(&server, 2, 0);
    for z in 0..PLANES {
        assert_eq!(xy(&server, z).picture(), volumes::plane(2, z));
    }
    assert_ne!(xy(&server, 0).header("etag"), old.header("etag"));
    let asked = server.ask("GET", &tile, &[("If-None-Match", old.etag())]);
    assert_eq!(
        asked.status, 200,
        "a tile of the old file is not confirmed for the new one"
    );
    server.wait_for_log("was reopened");
}

#[test]
fn a_removed_file_gives_errors_until_it_is_back() {
    for stored in [Stored::Gzip, Stored::Packed] {
        let place = Place::new();
        let (path, aside) = (place.path("planes.h5"), place.path("aside"));
        volumes::planes(&path, PLANES, 1, stored);
        let server = served(&place, stored);
        assert_eq!(xy(&server, 0).status, 200);
        fs::rename(&path, &aside).unwrap();
        notice();
        assert_planes(&server, &place, |_| true, "removed");
        fs::rename(&aside, &path).unwrap();
        wait_for_plane(&server, 1, 0);
        assert_planes(&server, &place, |_| false, "back again");
    }
}

#[test]
fn a_file_overwritten_with_inverted_bytes_gives_errors_and_nothing_worse() {
    let place = Place::new();
    let path = place.path("planes.h5");
    volumes::planes(&path, PLANES, 1, Stored::Gzip);
    let server = place.serve(["planes.h5", "--set", "render.neighbours=0"]);
    server.allow_error(CHANGED);
    assert_eq!(xy(&server, 0).status, 200);
    let length = fs::metadata(&path).unwrap().len();
    volumes::invert(&path, &(0..length));
    notice();
    for _ in 0..3 {
        assert_planes(&server, &place, |_| true, "rubbish");
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(server.get("/").status, 200);
    volumes::invert(&path, &(0..length));
    wait_for_plane(&server, 1, 0);
    assert_planes(&server, &place, |_| false, "mended");
}
