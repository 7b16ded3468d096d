//! Files that are rewritten, replaced or appended to while they are served: no tile is made from
//! two generations of a file, cached tiles of an old generation are not served, and no other file
//! is served in its place.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::common::picture::Picture;
use crate::common::volumes::{self, Stored};
use crate::common::wire::Answer;
use crate::common::{CHANGED, MOUNT, Place, Server, wait_until};
use hdf5::Extent;
use ndarray::{Array3, s};

const EDGE: usize = 40;
const PLANES: usize = 8;
/// The voxels of files that must not be served.
const SECRET: u8 = 0xEE;

fn voxel(z: usize, y: usize, x: usize) -> u8 {
    (z * 31 + y * 17 + x * x * 7) as u8 % 200
}

fn plane(z: usize) -> Picture {
    Picture::of_plane(EDGE, EDGE, |y, x| voxel(z, y, x))
}

fn volume() -> Array3<u8> {
    Array3::from_shape_fn((PLANES, EDGE, EDGE), |(z, y, x)| voxel(z, y, x))
}

/// A server of files that will change; tiles that are being rendered then fail.
fn served<'a>(place: &Place, arguments: impl IntoIterator<Item = &'a str>) -> Server {
    let server = place.serve(arguments);
    server.allow_error(CHANGED);
    server
}

/// Waits until the next request notices a change of a file: the server checks a file at most every
/// 200 ms.
fn notice() {
    thread::sleep(Duration::from_millis(250));
}

fn is_shown(answer: &Answer, expected: &Picture) -> bool {
    answer.status == 200 && answer.picture() == *expected
}

fn shows_secret(answer: &Answer) -> bool {
    answer.status == 200 && answer.picture().pixels.contains(&SECRET)
}

#[test]
fn no_tile_mixes_the_old_and_the_new_layout_of_a_file_overwritten_in_place() {
    let place = Place::new();
    let path = place.path("planes.h5");
    volumes::planes(&path, PLANES, 1, Stored::Flat);
    let server = served(&place, ["planes.h5"]);
    let tile = |z: usize| server.tile(&format!("planes/raw/xy/{z}/0_0_0.png"));
    let old: Vec<Answer> = (0..PLANES).map(tile).collect();
    assert!(
        old.iter()
            .enumerate()
            .all(|(z, answer)| is_shown(answer, &volumes::plane(1, z)))
    );
    // Another dataset comes first, so that all voxels have other offsets.
    let other = hdf5::File::create(place.path("other.h5")).unwrap();
    other
        .new_dataset_builder()
        .with_data(&volume())
        .create("first")
        .unwrap();
    let seeds = Array3::from_shape_fn((PLANES, EDGE, EDGE), |(z, y, x)| voxel(z + 9, y, x));
    other
        .new_dataset_builder()
        .with_data(&seeds)
        .create("raw")
        .unwrap();
    other.close().unwrap();
    fs::write(&path, fs::read(place.path("other.h5")).unwrap()).unwrap();
    notice();
    let check = |z: usize, answer: &Answer| {
        assert!(
            answer.status == 500 || is_shown(answer, &plane(z + 9)),
            "plane {z}: {answer:?}"
        );
    };
    wait_until("all planes of the new file are served", || {
        let are_new = old.iter().enumerate().map(|(z, old)| {
            let path = format!("{MOUNT}/planes/raw/xy/{z}/0_0_0.png");
            let answers = [
                tile(z),
                server.ask("GET", &path, &[("If-None-Match", old.etag())]),
            ];
            answers.iter().for_each(|answer| check(z, answer));
            answers.iter().all(|answer| answer.status == 200)
        });
        are_new.collect::<Vec<_>>().iter().all(|is_new| *is_new)
    });
    server.wait_for_log("has changed since it was opened");
}

#[test]
#[ignore = "slow: replaces a file many times"]
fn each_tile_of_a_file_that_is_replaced_repeatedly_is_of_one_generation() {
    let place = Place::new();
    let path = place.path("planes.h5");
    volumes::planes(&path, PLANES, 1, Stored::Gzip);
    let server = served(&place, ["planes.h5"]);
    server.allow_error("a tile could not be rendered: /raw in ");
    for round in 1..16 {
        let seed = 1 + round % 2;
        if round % 3 == 0 {
            volumes::planes(&place.path("new.h5"), PLANES, seed, Stored::Flat);
            fs::rename(place.path("new.h5"), &path).unwrap();
        } else {
            volumes::planes(&place.path("new.h5"), PLANES, seed, Stored::Gzip);
            fs::write(&path, fs::read(place.path("new.h5")).unwrap()).unwrap();
        }
        // In every fourth round the next generation comes before this one has been served.
        let mut requests = 0;
        wait_until("the new generation is served", || {
            let seeds = (0..PLANES).filter_map(|z| {
                let answer = server.tile(&format!("planes/raw/xy/{z}/0_0_0.png"));
                let is_of = |seed: &usize| answer.picture() == volumes::plane(*seed, z);
                (answer.status != 500).then(|| (1..3).find(is_of).expect("it is of one generation"))
            });
            requests += PLANES;
            seeds.collect::<Vec<_>>().contains(&seed) || (round % 4 == 0 && requests > 20)
        });
    }
}

/// `whole.h5` with `/raw`, a virtual dataset over `part.h5`.
fn virtual_over_part(place: &Place) {
    let part = hdf5::File::create(place.path("part.h5")).unwrap();
    part.new_dataset_builder()
        .with_data(&volume())
        .chunk((1, EDGE, EDGE))
        .create("raw")
        .unwrap();
    part.close().unwrap();
    let shape = (PLANES, EDGE, EDGE);
    let whole = hdf5::File::create(place.path("whole.h5")).unwrap();
    let mapped = whole.new_dataset_builder().empty::<u8>().shape(shape);
    mapped
        .virtual_map("part.h5", "raw", shape, .., shape, ..)
        .create("raw")
        .unwrap();
    whole.close().unwrap();
}

#[test]
fn a_truncated_source_of_a_virtual_dataset_is_an_error_and_not_black() {
    let place = Place::new();
    virtual_over_part(&place);
    let server = served(&place, ["whole.h5"]);
    server.expect_error("the library cannot read it");
    let tile = |z: usize| server.tile(&format!("whole/raw/xy/{z}/0_0_0.png"));
    assert_eq!(tile(0).picture(), plane(0));
    let whole = fs::read(place.path("part.h5")).unwrap();
    volumes::truncate(&place.path("part.h5"), whole.len() as u64 / 2);
    notice();
    for _ in 0..4 {
        for z in 0..PLANES {
            let answer = tile(z);
            assert!(
                answer.status == 500 || is_shown(&answer, &plane(z)),
                "plane {z}: {answer:?}"
            );
        }
        assert_eq!(tile(PLANES - 1).status, 500, "it lies beyond the end");
        thread::sleep(Duration::from_millis(150));
    }
    // Extended again with zeros, it is a third generation.
    let mut zeros = whole[..whole.len() / 2].to_vec();
    zeros.resize(whole.len(), 0);
    fs::write(place.path("part.h5"), zeros).unwrap();
    notice();
    (0..PLANES).for_each(|z| drop(tile(z)));
    fs::write(place.path("part.h5"), whole).unwrap();
    notice();
    wait_until("the source is whole again", || {
        is_shown(&tile(PLANES - 1), &plane(PLANES - 1))
    });
    for z in 0..PLANES {
        assert_eq!(tile(z).picture(), plane(z), "no damaged tile was cached");
    }
}

#[test]
fn a_missing_source_of_a_virtual_dataset_is_read_once_it_exists() {
    let place = Place::new();
    virtual_over_part(&place);
    fs::rename(place.path("part.h5"), place.path("later.h5")).unwrap();
    let server = served(&place, ["whole.h5"]);
    let tile = || server.tile("whole/raw/xy/1/0_0_0.png");
    assert_eq!(
        tile().picture(),
        Picture::of_plane(0, 0, |_, _| 0),
        "the fill value"
    );
    fs::rename(place.path("later.h5"), place.path("part.h5")).unwrap();
    wait_until("the source is read", || is_shown(&tile(), &plane(1)));
}

/// A folder with `v.h5`, whose `/raw` is stored in `raw.bin` and whose `/parts` is virtual over
/// `part.h5`; and files outside of it that must not be served.
fn with_secrets_outside() -> Place {
    let place = Place::new();
    fs::create_dir(place.path("data")).unwrap();
    let shape = (PLANES, EDGE, EDGE);
    fs::write(
        place.path("data/raw.bin"),
        volume().into_raw_vec_and_offset().0,
    )
    .unwrap();
    fs::write(place.path("secret.bin"), vec![SECRET; PLANES * EDGE * EDGE]).unwrap();
    for (name, data) in [
        ("data/part.h5", volume()),
        ("secret.h5", Array3::from_elem(shape, SECRET)),
    ] {
        let file = hdf5::File::create(place.path(name)).unwrap();
        file.new_dataset_builder()
            .with_data(&data)
            .create("raw")
            .unwrap();
        file.close().unwrap();
    }
    let file = hdf5::File::create(place.path("data/v.h5")).unwrap();
    let raw = file.new_dataset_builder().empty::<u8>().shape(shape);
    raw.external("raw.bin", 0, PLANES * EDGE * EDGE)
        .create("raw")
        .unwrap();
    let parts = file.new_dataset_builder().empty::<u8>().shape(shape);
    parts
        .virtual_map("part.h5", "raw", shape, .., shape, ..)
        .create("parts")
        .unwrap();
    file.close().unwrap();
    place
}

fn replace_by_link(path: &Path, target: &Path) {
    fs::remove_file(path).unwrap();
    symlink(target, path).unwrap();
}

#[test]
fn a_link_in_place_of_an_audited_file_is_not_followed() {
    for (channel, file, secret) in [
        ("raw", "data/raw.bin", "secret.bin"),
        ("parts", "data/part.h5", "secret.h5"),
    ] {
        for read_before in [false, true] {
            let place = with_secrets_outside();
            let server = served(&place, ["data/v.h5"]);
            let tile = |z: usize| server.tile(&format!("v/{channel}/xy/{z}/0_0_0.png"));
            if read_before {
                assert_eq!(tile(1).picture(), plane(1));
            }
            replace_by_link(&place.path(file), &place.path(secret));
            for _ in 0..4 {
                for z in 0..PLANES {
                    assert!(!shows_secret(&tile(z)), "{channel}, plane {z}");
                }
                thread::sleep(Duration::from_millis(120));
            }
            // An error, or no such channel once the file has been reopened.
            assert!(
                [404, 500].contains(&tile(2).status),
                "{channel}: the link leads out of the folder"
            );
        }
    }
}

#[test]
fn a_folder_replaced_by_a_link_is_not_followed() {
    let place = with_secrets_outside();
    // The folder becomes a link to another one after the server has started.
    fs::create_dir(place.path("other")).unwrap();
    fs::copy(place.path("secret.h5"), place.path("other/part.h5")).unwrap();
    fs::copy(place.path("secret.bin"), place.path("other/raw.bin")).unwrap();
    let server = served(&place, ["data/v.h5"]);
    fs::rename(place.path("data"), place.path("moved")).unwrap();
    symlink(place.path("other"), place.path("data")).unwrap();
    for channel in ["raw", "parts"] {
        for z in 0..PLANES {
            assert!(
                !shows_secret(&server.tile(&format!("v/{channel}/xy/{z}/0_0_0.png"))),
                "{channel}, plane {z}"
            );
        }
    }
}

#[test]
fn pipes_and_devices_are_refused_without_being_opened() {
    let fifo = |path: &Path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    let place = with_secrets_outside();
    fs::remove_file(place.path("data/raw.bin")).unwrap();
    fifo(&place.path("data/raw.bin"));
    fs::remove_file(place.path("data/part.h5")).unwrap();
    fifo(&place.path("data/part.h5"));
    fifo(&place.path("fifo.h5"));
    place.write(
        "voltile.toml",
        "[datasets.v]\nfile = \"data/v.h5\"\nchannels = { raw = { path = \"/raw\" }, parts = { path = \"/parts\" } }\n\
         [datasets.f]\nfile = \"fifo.h5\"\n",
    );
    let checked = place.run(["check"]);
    assert_eq!(checked.code, 1, "{}", checked.err);
    let output = format!("{}{}", checked.out, checked.err);
    assert_eq!(output.matches("not a regular file").count(), 3, "{output}");
}

/// Appends planes to a file, as an instrument does.
fn append(path: &Path, from: usize, to: usize) {
    // A process that another story has just started may hold the lock of the last writer for a
    // moment.
    let mut opened = None;
    wait_until("the file can be locked", || {
        opened = hdf5::File::append(path).ok();
        opened.is_some()
    });
    let file = opened.unwrap();
    let raw = file.dataset("raw").unwrap();
    raw.resize((to, EDGE, EDGE)).unwrap();
    raw.write_slice(&volume().slice(s![from..to, .., ..]), s![from..to, .., ..])
        .unwrap();
    file.close().unwrap();
}

fn growing(path: &Path) {
    let file = hdf5::File::create(path).unwrap();
    let resizable = [
        Extent::resizable(2),
        Extent::fixed(EDGE),
        Extent::fixed(EDGE),
    ];
    let raw = file
        .new_dataset_builder()
        .empty::<u8>()
        .shape(resizable)
        .chunk((1, EDGE, EDGE))
        .create("raw")
        .unwrap();
    raw.write(&volume().slice(s![0..2, .., ..])).unwrap();
    file.close().unwrap();
}

#[test]
fn a_growing_file_is_served_without_errors_and_soon_with_its_new_planes() {
    let place = Place::with("[datasets.g]\nfile = \"g.h5\"\ngrowing = true\n");
    growing(&place.path("g.h5"));
    let server = place.serve::<&str>([]);
    let tile = |z: usize| server.tile(&format!("g/raw/xy/{z}/0_0_0.png"));
    assert_eq!(tile(1).picture(), plane(1));
    for planes in 3..5 {
        append(&place.path("g.h5"), planes - 1, planes);
        wait_until("the new plane is shown", || {
            assert_eq!(tile(1).picture(), plane(1), "earlier planes stay");
            is_shown(&tile(planes - 1), &plane(planes - 1))
        });
    }
}

#[test]
fn an_appended_file_gives_errors_until_it_is_reopened_if_it_is_not_configured_as_growing() {
    let place = Place::new();
    growing(&place.path("g.h5"));
    let server = served(&place, ["g.h5"]);
    let tile = |z: usize| server.tile(&format!("g/raw/xy/{z}/0_0_0.png"));
    assert_eq!(tile(1).picture(), plane(1));
    append(&place.path("g.h5"), 2, 3);
    wait_until("the new plane is shown", || is_shown(&tile(2), &plane(2)));
    assert_eq!(tile(1).picture(), plane(1));
}

#[test]
fn a_link_with_a_new_target_is_another_file() {
    let place = Place::new();
    volumes::planes(&place.path("v1.h5"), PLANES, 1, Stored::Gzip);
    volumes::planes(&place.path("v2.h5"), PLANES, 2, Stored::Gzip);
    symlink(place.path("v1.h5"), place.path("planes.h5")).unwrap();
    let outer = hdf5::File::create(place.path("outer.h5")).unwrap();
    outer.link_external("planes.h5", "/raw", "raw").unwrap();
    outer.close().unwrap();
    place.write(
        "voltile.toml",
        "[datasets.planes]\nfile = \"planes.h5\"\n\
         [datasets.outer]\nfile = \"outer.h5\"\nchannels = { raw = { path = \"/raw\" } }\n",
    );
    let server = served(&place, []);
    let tile = |token: &str| server.tile(&format!("{token}/raw/xy/3/0_0_0.png"));
    for token in ["planes", "outer"] {
        assert_eq!(tile(token).picture(), volumes::plane(1, 3), "{token}");
    }
    symlink(place.path("v2.h5"), place.path("next")).unwrap();
    fs::rename(place.path("next"), place.path("planes.h5")).unwrap();
    for token in ["planes", "outer"] {
        wait_until("the new file is shown", || {
            is_shown(&tile(token), &volumes::plane(2, 3))
        });
    }
}

#[test]
fn a_dataset_that_appears_in_the_source_of_a_virtual_one_is_read() {
    let place = Place::new();
    virtual_over_part(&place);
    fs::remove_file(place.path("part.h5")).unwrap();
    hdf5::File::create(place.path("part.h5"))
        .unwrap()
        .close()
        .unwrap();
    let server = served(&place, ["whole.h5"]);
    let tile = || server.tile("whole/raw/xy/1/0_0_0.png");
    assert_eq!(
        tile().picture(),
        Picture::of_plane(0, 0, |_, _| 0),
        "the fill value"
    );
    let next = hdf5::File::create(place.path("next.h5")).unwrap();
    next.new_dataset_builder()
        .with_data(&volume())
        .create("raw")
        .unwrap();
    next.close().unwrap();
    fs::write(
        place.path("part.h5"),
        fs::read(place.path("next.h5")).unwrap(),
    )
    .unwrap();
    wait_until("the dataset is read", || is_shown(&tile(), &plane(1)));
}

#[test]
fn a_link_in_place_of_a_raw_file_below_a_virtual_dataset_is_not_followed() {
    let place = with_secrets_outside();
    fs::rename(place.path("data/raw.bin"), place.path("data/real.bin")).unwrap();
    symlink(place.path("data/real.bin"), place.path("data/raw.bin")).unwrap();
    let shape = (PLANES, EDGE, EDGE);
    let file = hdf5::File::create(place.path("data/w.h5")).unwrap();
    let mapped = file.new_dataset_builder().empty::<u8>().shape(shape);
    mapped
        .virtual_map("v.h5", "raw", shape, .., shape, ..)
        .create("deep")
        .unwrap();
    file.close().unwrap();
    let server = served(&place, ["data/w.h5"]);
    let tile = |z: usize| server.tile(&format!("w/deep/xy/{z}/0_0_0.png"));
    assert_eq!(tile(1).picture(), plane(1));
    replace_by_link(&place.path("data/raw.bin"), &place.path("secret.bin"));
    for _ in 0..3 {
        assert!((0..PLANES).all(|z| !shows_secret(&tile(z)) || z == 1));
        thread::sleep(Duration::from_millis(250));
        assert!((0..PLANES).all(|z| !shows_secret(&tile(z))));
    }
}

#[test]
fn virtual_datasets_can_be_nested_across_symbolic_links() {
    let place = Place::new();
    fs::create_dir(place.path("sub")).unwrap();
    let shape = (PLANES, EDGE, EDGE);
    let leaf = hdf5::File::create(place.path("sub/leaf.h5")).unwrap();
    leaf.new_dataset_builder()
        .with_data(&volume())
        .create("raw")
        .unwrap();
    leaf.close().unwrap();
    for (name, source) in [("sub/middle.h5", "leaf.h5"), ("top.h5", "link.h5")] {
        let file = hdf5::File::create(place.path(name)).unwrap();
        let mapped = file.new_dataset_builder().empty::<u8>().shape(shape);
        mapped
            .virtual_map(source, "raw", shape, .., shape, ..)
            .create("raw")
            .unwrap();
        file.close().unwrap();
    }
    symlink(place.path("sub/middle.h5"), place.path("link.h5")).unwrap();
    let server = place.serve(["top.h5"]);
    assert_eq!(server.tile("top/raw/xy/2/0_0_0.png").picture(), plane(2));
}
