//! Files that refer to other files: masters of detectors, links in plain files, virtual datasets
//! over links, and raw files; complete, with missing parts, and hostile.
//!
//! A voxel of a frame shows the number of the frame, so that parts in the wrong order are noticed.

use std::fs;
use std::ops::Range;
use std::path::Path;

use hdf5::types::FixedAscii;
use ndarray::Array3;
use serde_json::Value;
use sha2::{Digest, Sha256};
use voltile_base::paint::Kind;

use crate::common::made::{self, found, names, only, put, zeros};
use crate::common::volumes;
use crate::common::{CHANGED, Place, Server, shared_data, wait_until};
use voltile::layout::{FoundChannel, Paths};

const ROWS: usize = 24;
const COLUMNS: usize = 30;

fn voxel(frame: usize, y: usize, x: usize) -> u16 {
    (frame * 1009 + y * 31 + x) as u16 + 1
}

fn frames(frames: Range<usize>) -> Array3<u16> {
    Array3::from_shape_fn((frames.len(), ROWS, COLUMNS), |(z, y, x)| {
        voxel(frames.start + z, y, x)
    })
}

/// Little-endian voxels of frames, as boxes hold them.
fn bytes(of: Range<usize>) -> Vec<u8> {
    frames(of)
        .iter()
        .flat_map(|voxel| voxel.to_le_bytes())
        .collect()
}

/// As many black frames.
fn black(count: usize) -> Vec<u8> {
    vec![0; 2 * count * ROWS * COLUMNS]
}

/// Writes frames at `/entry/data/data`, as data files of detectors hold them.
fn data_file(path: &Path, of: Range<usize>) {
    made::file(path, |file| {
        let frames = frames(of);
        let data = file
            .new_dataset_builder()
            .with_data(&frames)
            .chunk((1, ROWS, COLUMNS));
        data.deflate(4).create("entry/data/data").unwrap();
    });
}

/// Writes a master whose `/entry/data` holds these links, each by its name and its file.
fn master(path: &Path, links: &[(&str, &str)]) {
    made::file(path, |file| {
        let group = file.create_group("entry/data").unwrap();
        for (name, target) in links {
            group
                .link_external(target, "/entry/data/data", name)
                .unwrap();
        }
    });
}

/// The voxels of slices of a channel at full resolution.
fn slices(server: &Server, channel: &str, of: Range<usize>) -> Vec<u8> {
    let (start, end) = (of.start, of.end);
    let answer = server.get(&format!(
        "/voxels/{channel}/0/0-{COLUMNS}_0-{ROWS}_{start}-{end}.raw"
    ));
    assert_eq!(answer.status, 200, "{channel} {of:?}: {}", answer.text());
    answer.body
}

/// The size of a channel in x, y, z order, as the server describes it.
fn size(server: &Server, token: &str, channel: &str) -> Vec<u64> {
    let described = server.json(&format!("/datasets/{token}.json"));
    let channels = described["channels"].as_array().unwrap();
    let found = channels.iter().find(|found| found["name"] == channel);
    let found = found.unwrap_or_else(|| panic!("there is no {channel}: {described}"));
    found["levels"][0]["size"]
        .as_array()
        .unwrap()
        .iter()
        .map(|n| n.as_u64().unwrap())
        .collect()
}

fn stack_of(depth: u64) -> Vec<u64> {
    vec![COLUMNS as u64, ROWS as u64, depth]
}

/// The path, without its group, and the depth of each part of a channel.
fn parts(channel: &FoundChannel) -> Vec<(String, u64)> {
    let Paths::Parts(parts) = &channel.levels[0].paths else {
        panic!("it has no parts: {channel:?}")
    };
    let name = |path: &String| path.rsplit('/').next().unwrap().to_owned();
    parts
        .iter()
        .map(|part| (part.path.as_ref().map_or("-".to_owned(), name), part.depth))
        .collect()
}

fn named(parts: &[(&str, u64)]) -> Vec<(String, u64)> {
    parts
        .iter()
        .map(|(name, depth)| ((*name).to_owned(), *depth))
        .collect()
}

#[test]
fn numbered_parts_of_a_detector_are_one_stack_in_every_plane() {
    let place = Place::new();
    // Out of order, and of different lengths: the last is shorter.
    let links = [
        ("data_000003", "c.h5"),
        ("data_000001", "a.h5"),
        ("data_000002", "b.h5"),
    ];
    for (name, of) in [("a.h5", 0..5), ("b.h5", 5..10), ("c.h5", 10..12)] {
        data_file(&place.path(name), of);
    }
    master(&place.path("master.h5"), &links);
    let file = hdf5::File::append(place.path("master.h5")).unwrap();
    put(
        &file,
        "entry/instrument/detector/detectorSpecific/pixel_mask",
        &zeros::<u32>(&[ROWS, COLUMNS]),
    );
    put(
        &file,
        "entry/instrument/detector/detectorSpecific/flatfield",
        &zeros::<f32>(&[ROWS, COLUMNS]),
    );
    file.close().unwrap();
    let discovery = found(&place.path("master.h5"));
    assert_eq!(
        (discovery.layout, names(&discovery)),
        ("detector", vec!["data", "flatfield", "pixel_mask"])
    );
    assert_eq!(discovery.notices, []);
    assert_eq!(discovery.channels[2].kind, Kind::Labels);
    let server = place.serve(["master.h5"]);
    assert_eq!(size(&server, "master", "data"), stack_of(12));
    for (start, end) in [(0, 12), (4, 6), (3, 11), (9, 12), (11, 12), (5, 10)] {
        assert!(
            slices(&server, "master/data", start..end) == bytes(start..end),
            "{start}-{end}"
        );
    }
    // Across all parts, one voxel thick along y and along x.
    for (name, of, y, x) in [
        ("xz", "0-30_7-8_0-12", 7..8, 0..30),
        ("yz", "9-10_0-24_0-12", 0..24, 9..10),
    ] {
        let answer = server.get(&format!("/voxels/master/data/0/{of}.raw"));
        let mut expected = Vec::new();
        for z in 0..12 {
            for y in y.clone() {
                expected.extend(x.clone().flat_map(|x| voxel(z, y, x).to_le_bytes()));
            }
        }
        assert!(answer.body == expected, "{name}");
    }
    for plane in ["xy/11", "xz/3", "yz/4"] {
        assert_eq!(
            server
                .tile(&format!("master/data/{plane}/0_0_0.png"))
                .status,
            200,
            "{plane}"
        );
    }
    let inspected = place.run(["inspect", "master.h5"]);
    assert!(
        inspected.code == 0 && !inspected.err.contains("WARN"),
        "{}",
        inspected.err
    );
    assert!(
        inspected
            .out
            .contains("detector: /entry/data/data is in numbered parts"),
        "{}",
        inspected.out
    );
}

#[test]
fn parts_are_sorted_by_number_and_not_by_name() {
    let place = Place::new();
    data_file(&place.path("a.h5"), 0..2);
    data_file(&place.path("b.h5"), 2..4);
    // By name, the second comes first.
    master(
        &place.path("master.h5"),
        &[("data_999999", "a.h5"), ("data_1000000", "b.h5")],
    );
    let server = place.serve(["master.h5"]);
    assert!(slices(&server, "master/data", 0..4) == bytes(0..4));
}

#[test]
fn parts_in_the_file_itself_are_joined_too_if_the_group_is_one_of_detector_data() {
    let place = Place::new();
    for (name, class) in [("detector.nxs", Some("NXdetector")), ("other.h5", None)] {
        made::file(&place.path(name), |file| {
            let group = file.create_group("scan/frames").unwrap();
            put(&group, "img_000001", &frames(0..6).into_dyn());
            put(&group, "img_000002", &frames(6..12).into_dyn());
            if let Some(class) = class {
                let class = FixedAscii::<10>::from_ascii(class).unwrap();
                group
                    .new_attr_builder()
                    .with_data(&[class])
                    .create("NX_class")
                    .unwrap();
            }
        });
    }
    assert_eq!(
        names(&found(&place.path("other.h5"))),
        ["img_000001", "img_000002"]
    );
    let server = place.serve(["detector.nxs"]);
    assert!(slices(&server, "detector/img", 0..12) == bytes(0..12));
}

#[test]
fn missing_parts_are_black_named_in_a_warning_and_shown_once_they_are_there() {
    let place = Place::new();
    let links = [
        ("data_000001", "a.h5"),
        ("data_000002", "late.h5"),
        ("data_000005", "e.h5"),
        ("data_000006", "gone.h5"),
    ];
    data_file(&place.path("a.h5"), 0..4);
    data_file(&place.path("e.h5"), 16..18);
    master(&place.path("master.h5"), &links);
    let channel = only(&place.path("master.h5"));
    let expected = [
        ("data_000001", 4),
        ("data_000002", 4),
        ("-", 8),
        ("data_000005", 2),
        ("data_000006", 4),
    ];
    assert_eq!(parts(&channel), named(&expected));
    for command in ["inspect", "check"] {
        let outcome = place.run([command, "master.h5"]);
        assert_eq!(outcome.code, 0, "{}", outcome.err);
        for words in [
            "/entry/data/data_000002: the link was not followed",
            "there is no \"late.h5\"",
            "\"gone.h5\"",
            "(2 to 4, 6)",
        ] {
            let told = if command == "inspect" {
                &outcome.out
            } else {
                &outcome.err
            };
            assert!(
                told.contains(words),
                "{command}: {words:?} is not in {told}"
            );
        }
    }
    let server = place.serve(["master.h5"]);
    server.allow_error(CHANGED);
    server.wait_for_log("there is no \"gone.h5\"");
    let expected = [bytes(0..4), black(12), bytes(16..18), black(4)].concat();
    assert!(slices(&server, "master/data", 0..22) == expected);
    data_file(&place.path("new.h5"), 4..7);
    fs::rename(place.path("new.h5"), place.path("late.h5")).unwrap();
    wait_until("the part is shown", || {
        let answer = server.get(&format!(
            "/voxels/master/data/0/0-{COLUMNS}_0-{ROWS}_4-7.raw"
        ));
        answer.status == 200 && answer.body == bytes(4..7)
    });
    // It has three frames; the gap after it has two parts of four.
    assert_eq!(size(&server, "master", "data"), stack_of(4 + 3 + 8 + 2 + 4));
}

#[test]
fn a_part_that_is_replaced_while_it_is_served_is_shown_as_it_is_now() {
    let place = Place::new();
    data_file(&place.path("a.h5"), 0..4);
    data_file(&place.path("b.h5"), 4..8);
    master(
        &place.path("master.h5"),
        &[("data_000001", "a.h5"), ("data_000002", "b.h5")],
    );
    let server = place.serve(["master.h5"]);
    for error in [CHANGED, "a series: the dataset with index", "refers to"] {
        server.allow_error(error);
    }
    assert!(slices(&server, "master/data", 0..8) == bytes(0..8));
    // Another length, then another file outside of the folder.
    data_file(&place.path("new.h5"), 20..23);
    fs::rename(place.path("new.h5"), place.path("b.h5")).unwrap();
    let box_of = |end: usize| format!("/voxels/master/data/0/0-{COLUMNS}_0-{ROWS}_0-{end}.raw");
    wait_until("the new part is shown", || {
        let answer = server.get(&box_of(7));
        let old = answer.status == 200 && answer.body == bytes(0..7);
        assert!(
            old || [404, 500].contains(&answer.status)
                || answer.body == [bytes(0..4), bytes(20..23)].concat()
        );
        answer.status == 200 && !old
    });
    let outside = Place::new();
    data_file(&outside.path("secret.h5"), 40..43);
    fs::remove_file(place.path("b.h5")).unwrap();
    std::os::unix::fs::symlink(outside.path("secret.h5"), place.path("b.h5")).unwrap();
    wait_until("the part is a gap", || {
        let answer = server.get(&box_of(8));
        assert!(
            !(answer.status == 200 && answer.body.ends_with(&bytes(42..43))),
            "the link leads out of the folder"
        );
        answer.status == 200 && answer.body == [bytes(0..4), black(4)].concat()
    });
}

#[test]
fn a_part_that_exists_but_cannot_be_read_is_an_error_and_not_black() {
    let place = Place::new();
    data_file(&place.path("a.h5"), 0..4);
    data_file(&place.path("c.h5"), 8..12);
    fs::write(place.path("b.h5"), b"this is no HDF5 file").unwrap();
    master(
        &place.path("master.h5"),
        &[
            ("data_000001", "a.h5"),
            ("data_000002", "b.h5"),
            ("data_000003", "c.h5"),
        ],
    );
    let checked = place.run(["check", "master.h5"]);
    assert!(
        checked
            .err
            .contains("data_000002: the link was not followed")
            && checked.err.contains("b.h5"),
        "{}",
        checked.err
    );
    let server = place.serve(["master.h5"]);
    server.expect_error("b.h5: it is not an HDF5 file but text");
    assert!(slices(&server, "master/data", 0..4) == bytes(0..4));
    assert!(slices(&server, "master/data", 8..12) == bytes(8..12));
    assert_eq!(
        server
            .get(&format!(
                "/voxels/master/data/0/0-{COLUMNS}_0-{ROWS}_4-5.raw"
            ))
            .status,
        500
    );
}

#[test]
fn parts_of_another_shape_or_type_and_absurd_numbers_are_channels_of_their_own() {
    let place = Place::new();
    for (name, of) in [("a.h5", 0..4), ("e.h5", 16..20), ("far.h5", 30..34)] {
        data_file(&place.path(name), of);
    }
    made::file(&place.path("wide.h5"), |file| {
        drop(put(file, "entry/data/data", &zeros::<u16>(&[4, ROWS, 99])));
    });
    made::file(&place.path("float.h5"), |file| {
        drop(put(
            file,
            "entry/data/data",
            &zeros::<f32>(&[4, ROWS, COLUMNS]),
        ));
    });
    master(
        &place.path("master.h5"),
        &[
            ("data_000001", "a.h5"),
            ("data_000002", "wide.h5"),
            ("data_000003", "float.h5"),
            ("data_000005", "e.h5"),
            ("data_1000000000000", "far.h5"),
        ],
    );
    let discovery = found(&place.path("master.h5"));
    assert_eq!(
        names(&discovery),
        ["data", "data_000002", "data_000003", "data_1000000000000"]
    );
    assert_eq!(
        parts(&discovery.channels[0]),
        named(&[("data_000001", 4), ("-", 12), ("data_000005", 4)])
    );
    let server = place.serve(["master.h5"]);
    assert!(
        slices(&server, "master/data", 0..20) == [bytes(0..4), black(12), bytes(16..20)].concat()
    );
    assert!(slices(&server, "master/data_1000000000000", 0..4) == bytes(30..34));
    server.wait_for_log("shown by itself");
}

#[test]
fn links_in_plain_files_are_followed_below_their_folder_only() {
    let place = Place::new();
    for folder in ["data", "data/sub"] {
        fs::create_dir(place.path(folder)).unwrap();
    }
    data_file(&place.path("outside.h5"), 50..54);
    data_file(&place.path("data/sub/inside.h5"), 0..4);
    made::file(&place.path("data/scan.nxs"), |file| {
        let group = file.create_group("entry").unwrap();
        group
            .link_external("sub/inside.h5", "/entry/data/data", "tomo")
            .unwrap();
        group
            .link_external("sub/inside.h5", "/entry", "whole")
            .unwrap();
        group
            .link_external("../outside.h5", "/entry/data/data", "up")
            .unwrap();
        group
            .link_external("../../../../../../../../etc", "/", "etc")
            .unwrap();
        group.link_external("/etc/passwd", "/", "passwd").unwrap();
        group.link_external("scan.nxs", "/entry", "itself").unwrap();
        group
            .link_external("sub/inside.h5", "/nothing", "nothing")
            .unwrap();
    });
    let server = place.serve(["data/scan.nxs"]);
    assert!(
        slices(&server, "scan/tomo", 0..4) == bytes(0..4),
        "the whole file is not listed a second time"
    );
    assert_eq!(server.tile("scan/up/xy/0/0_0_0.png").status, 404);
    for name in [
        "\"../outside.h5\", which is not below its own folder",
        "../etc\", which is not below",
        "\"/etc/passwd\"",
        "there is no \"nothing\"",
    ] {
        server.wait_for_log(name);
    }
    let log = server.log();
    assert_eq!(log.matches("outside.h5").count(), 1, "{log}");
    place.write(
        "voltile.toml",
        "[datasets.scan]\nfile = \"data/scan.nxs\"\nallow_external = true\n",
    );
    let server = place.serve::<&str>([]);
    assert!(slices(&server, "scan/up", 0..4) == bytes(50..54));
}

#[test]
fn files_that_link_to_each_other_are_listed_once() {
    let place = Place::new();
    for (name, other) in [("a.h5", "b.h5"), ("b.h5", "a.h5")] {
        made::file(&place.path(name), |file| {
            put(
                file,
                &format!("raw_of_{}", &name[..1]),
                &frames(0..4).into_dyn(),
            );
            file.link_external(other, "/", "other").unwrap();
            let group = file.create_group("group").unwrap();
            group.link_external(other, "/group", "again").unwrap();
            group.link_external(other, "/group/back", "back").unwrap();
        });
    }
    let discovery = found(&place.path("a.h5"));
    assert_eq!(names(&discovery), ["raw_of_a", "raw_of_b"]);
    assert!(
        discovery.notices[0].text.contains("is there a loop?"),
        "{:?}",
        discovery.notices
    );
    let server = place.serve(["a.h5", "b.h5"]);
    for channel in ["a/raw_of_a", "a/raw_of_b", "b/raw_of_a", "b/raw_of_b"] {
        assert!(slices(&server, channel, 0..4) == bytes(0..4), "{channel}");
    }
}

#[test]
fn hundreds_of_links_are_served_or_named_in_a_short_warning() {
    let place = Place::new();
    data_file(&place.path("part.h5"), 0..2);
    let name = |number: usize| format!("data_{number:06}");
    made::file(&place.path("lost.h5"), |file| {
        let group = file.create_group("entry/data").unwrap();
        for number in 1..=300 {
            let target = if number == 150 {
                "part.h5".to_owned()
            } else {
                format!("{number}.h5")
            };
            group
                .link_external(&target, "/entry/data/data", &name(number))
                .unwrap();
        }
    });
    fs::create_dir(place.path("many")).unwrap();
    made::file(&place.path("whole.h5"), |file| {
        let group = file.create_group("entry/data").unwrap();
        for number in 0..300 {
            let target = format!("many/{number}.h5");
            fs::copy(place.path("part.h5"), place.path(&target)).unwrap();
            group
                .link_external(&target, "/entry/data/data", &name(number))
                .unwrap();
        }
    });
    let server = place.serve(["whole.h5", "lost.h5"]);
    assert_eq!(size(&server, "whole", "data"), stack_of(600));
    assert!(slices(&server, "whole/data", 596..600) == [bytes(0..2), bytes(0..2)].concat());
    assert_eq!(size(&server, "lost", "data"), stack_of(600));
    assert!(slices(&server, "lost/data", 296..301) == [black(2), bytes(0..2), black(1)].concat());
    server.wait_for_log("291 other links were not followed");
    assert!(server.log().len() < 10_000, "{}", server.log());
}

#[test]
fn soft_links_in_a_linked_file_are_followed_out_of_the_group_that_is_linked_to() {
    let place = Place::new();
    std::fs::create_dir(place.path("parts")).unwrap();
    made::file(&place.path("parts/data.h5"), |file| {
        put(file, "detector/raw", &frames(0..3).into_dyn());
        put(file, "detector/unlinked", &frames(3..6).into_dyn());
        let entry = file.create_group("entry").unwrap();
        put(&entry, "own", &frames(6..9).into_dyn());
        entry.link_soft("/detector/raw", "a_soft").unwrap();
        entry.link_soft("own", "relative").unwrap();
        entry.link_soft("/gone", "lost").unwrap();
        entry.link_soft("/entry", "loop").unwrap();
    });
    made::file(&place.path("master.h5"), |file| {
        file.link_external("parts/data.h5", "/entry", "linked")
            .unwrap();
        file.link_soft("/linked/own", "alias").unwrap();
    });
    let discovery = found(&place.path("master.h5"));
    assert_eq!(
        (names(&discovery), discovery.notices.len()),
        (vec!["a_soft", "own"], 0)
    );
    let server = place.serve(["master.h5"]);
    assert!(slices(&server, "master/a_soft", 0..3) == bytes(0..3));
    assert!(slices(&server, "master/own", 0..3) == bytes(6..9));
}

#[test]
fn a_file_without_volumes_tells_which_linked_files_are_missing() {
    let place = Place::new();
    made::file(&place.path("scan.nxs"), |file| {
        let group = file.create_group("entry").unwrap();
        group
            .link_external("/elsewhere/tomo.h5", "/data", "tomo")
            .unwrap();
        put(&group, "times", &zeros::<f64>(&[100]));
    });
    let words = "holds no dataset that looks like a volume; its data is in linked files that are missing: /elsewhere/tomo.h5\n";
    for (command, code) in [("inspect", 1), ("check", 1), ("serve", 2)] {
        let outcome = place.run([command, "scan.nxs"]);
        assert_eq!(outcome.code, code, "{}", outcome.err);
        assert!(outcome.err.contains(words), "{command}: {}", outcome.err);
    }
}

/// Writes `/entry/data/data`, a virtual dataset over `data_000001` and `data_000002` of the same
/// group, which are links.
fn virtual_over_links(path: &Path, links: [(&str, &str); 2]) {
    master(path, &links);
    let file = hdf5::File::append(path).unwrap();
    let (part, whole) = ((4, ROWS, COLUMNS), (8, ROWS, COLUMNS));
    let mut data = file
        .new_dataset_builder()
        .empty::<u16>()
        .shape(whole)
        .fill_value(9_u16);
    for (number, (name, _)) in links.iter().enumerate() {
        let place = (4 * number..4 * number + 4, .., ..);
        data = data.virtual_map(".", format!("/entry/data/{name}"), part, .., whole, place);
    }
    data.create("entry/data/data").unwrap();
    file.close().unwrap();
}

/// Serves the virtual dataset itself.
const ALL: &str = "[datasets.all]\nfile = 'scan/all.nxs'\n[datasets.all.channels.data]\npath = '/entry/data/data'\n";

#[test]
fn virtual_datasets_over_links_of_their_own_file_are_read() {
    let place = Place::new();
    fs::create_dir(place.path("scan")).unwrap();
    data_file(&place.path("scan/a.h5"), 0..4);
    data_file(&place.path("scan/b.h5"), 4..8);
    virtual_over_links(
        &place.path("scan/all.nxs"),
        [("data_000001", "a.h5"), ("data_000002", "b.h5")],
    );
    // Without a configuration, the frames are shown once.
    let channel = only(&place.path("scan/all.nxs"));
    assert_eq!((channel.name.as_str(), parts(&channel).len()), ("data", 2));
    place.write("voltile.toml", ALL);
    let checked = place.run(["check"]);
    assert_eq!(checked.code, 0, "{}", checked.err);
    let server = place.serve::<&str>([]);
    server.allow_error(CHANGED);
    assert!(slices(&server, "all/data", 0..8) == bytes(0..8));
    // A file that replaces one of them is not opened in its place, and served once the dataset has
    // been reopened.
    data_file(&place.path("scan/new.h5"), 20..24);
    fs::rename(place.path("scan/new.h5"), place.path("scan/b.h5")).unwrap();
    wait_until("the new file is shown", || {
        let answer = server.get(&format!("/voxels/all/data/0/0-{COLUMNS}_0-{ROWS}_0-8.raw"));
        let (old, new) = (bytes(0..8), [bytes(0..4), bytes(20..24)].concat());
        assert!(answer.status == 500 || answer.body == old || answer.body == new);
        answer.status == 200 && answer.body == new
    });
}

#[test]
fn virtual_datasets_over_links_out_of_the_folder_are_refused() {
    let place = Place::new();
    fs::create_dir(place.path("scan")).unwrap();
    data_file(&place.path("scan/a.h5"), 0..4);
    data_file(&place.path("secret.h5"), 4..8);
    virtual_over_links(
        &place.path("scan/all.nxs"),
        [("data_000001", "a.h5"), ("data_000002", "../secret.h5")],
    );
    place.write("voltile.toml", ALL);
    let checked = place.run(["check"]);
    assert_eq!(checked.code, 1);
    assert!(
        checked
            .err
            .contains("\"../secret.h5\", which is not below its own folder"),
        "{}",
        checked.err
    );
}

#[test]
fn a_truncated_file_behind_a_link_is_an_error_and_not_the_fill_value() {
    let place = Place::new();
    fs::create_dir(place.path("scan")).unwrap();
    data_file(&place.path("scan/a.h5"), 0..4);
    // Contiguous, so that the header comes before the voxels.
    let mut end = 0;
    made::file(&place.path("scan/b.h5"), |file| {
        let data = put(file, "entry/data/data", &frames(4..8).into_dyn());
        end = data.offset().unwrap() + bytes(0..4).len() as u64;
    });
    volumes::truncate(&place.path("scan/b.h5"), end - 10);
    virtual_over_links(
        &place.path("scan/all.nxs"),
        [("data_000001", "a.h5"), ("data_000002", "b.h5")],
    );
    place.write("voltile.toml", ALL);
    let server = place.serve::<&str>([]);
    server.expect_error("the library cannot read it");
    assert!(slices(&server, "all/data", 0..7) == bytes(0..7));
    assert_eq!(
        server
            .get(&format!("/voxels/all/data/0/0-{COLUMNS}_0-{ROWS}_7-8.raw"))
            .status,
        500
    );
}

#[test]
fn missing_sources_of_virtual_datasets_fail_the_check_and_have_the_fill_value() {
    let place = Place::new();
    data_file(&place.path("a.h5"), 0..4);
    virtual_over_links(
        &place.path("linked.nxs"),
        [("data_000001", "a.h5"), ("data_000002", "gone.h5")],
    );
    made::file(&place.path("direct.h5"), |file| {
        let (part, whole) = ((4, ROWS, COLUMNS), (8, ROWS, COLUMNS));
        let data = file
            .new_dataset_builder()
            .empty::<u16>()
            .shape(whole)
            .fill_value(9_u16);
        let data = data.virtual_map("a.h5", "/entry/data/data", part, .., whole, (0..4, .., ..));
        let data = data.virtual_map(
            "gone.h5",
            "/entry/data/data",
            part,
            ..,
            whole,
            (4..8, .., ..),
        );
        data.create("data").unwrap();
    });
    let fill = 9_u16.to_le_bytes().repeat(4 * ROWS * COLUMNS);
    for name in ["linked.nxs", "direct.h5"] {
        let checked = place.run(["check", name]);
        assert_eq!(checked.code, 1, "{name}");
        assert!(
            checked.err.contains("gone.h5") && checked.err.contains("1 thing is wrong"),
            "{}",
            checked.err
        );
        assert!(
            !checked.err.contains("refers to"),
            "it is missing, not refused: {}",
            checked.err
        );
        let server = place.serve([name]);
        server.wait_for_log("sources are missing");
        let channel = format!("{}/data", name.split('.').next().unwrap());
        assert!(
            slices(&server, &channel, 0..8) == [bytes(0..4), fill.clone()].concat(),
            "{name}"
        );
    }
}

#[test]
fn missing_raw_files_fail_the_check_and_are_called_missing() {
    let place = Place::new();
    made::file(&place.path("raw.h5"), |file| {
        let raw = file
            .new_dataset_builder()
            .empty::<u16>()
            .shape((4, ROWS, COLUMNS));
        raw.external("gone.bin", 0, 8 * ROWS * COLUMNS)
            .create("raw")
            .unwrap();
        put(file, "good", &frames(0..4).into_dyn());
    });
    let checked = place.run(["check", "raw.h5"]);
    assert_eq!(checked.code, 1);
    assert!(
        checked.err.contains("datasets.raw.channels.raw") && checked.err.contains("gone.bin"),
        "{}",
        checked.err
    );
    let server = place.serve(["raw.h5"]);
    server.wait_for_log("raw files are missing");
    server.expect_error("gone.bin: the file is missing");
    let answer = server.get(&format!("/voxels/raw/raw/0/0-{COLUMNS}_0-{ROWS}_0-1.raw"));
    assert_eq!(
        (answer.status, answer.problem().as_str()),
        (500, "a file that holds the data of this tile is missing")
    );
    assert!(slices(&server, "raw/good", 0..4) == bytes(0..4));
}

#[test]
fn clients_do_not_learn_in_which_folder_a_file_is_missing() {
    let place = Place::new();
    let elsewhere = place.path("elsewhere");
    for folder in ["data", "elsewhere"] {
        fs::create_dir(place.path(folder)).unwrap();
    }
    let shape = (4, ROWS, COLUMNS);
    made::file(&place.path("data/scan.h5"), |file| {
        let raw = file.new_dataset_builder().empty::<u16>().shape(shape);
        let target = elsewhere.join("gone.bin");
        raw.external(target.to_str().unwrap(), 0, 8 * ROWS * COLUMNS)
            .create("raw")
            .unwrap();
        let mosaic = file.new_dataset_builder().empty::<u16>().shape(shape);
        let source = elsewhere.join("gone.h5");
        mosaic
            .virtual_map(source.to_str().unwrap(), "data", shape, .., shape, ..)
            .create("mosaic")
            .unwrap();
    });
    place.write(
        "voltile.toml",
        "[datasets.scan]\nfile = \"data/scan.h5\"\nallow_external = true\n",
    );
    let server = place.serve::<&str>([]);
    server.expect_error("gone.bin: the file is missing");
    let notices = server.json("/datasets/scan.json")["notices"].to_string();
    assert!(
        notices.contains("gone.bin") && notices.contains("gone.h5"),
        "{notices}"
    );
    assert!(!notices.contains("elsewhere"), "{notices}");
}

/// The SHA-256 of all voxels of the first slices of a channel.
fn digest(server: &Server, channel: &str) -> String {
    let (token, name) = channel.split_once('/').unwrap();
    let described: Value = server.json(&format!("/datasets/{token}.json"));
    let channels = described["channels"].as_array().unwrap();
    let level = &channels
        .iter()
        .find(|channel| channel["name"] == name)
        .unwrap()["levels"][0]["size"];
    let answer = server.get(&format!(
        "/voxels/{channel}/0/0-{}_0-{}_0-{}.raw",
        level[0], level[1], level[2]
    ));
    assert_eq!(answer.status, 200, "{}", answer.text());
    Sha256::digest(&answer.body)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[test]
fn masters_of_real_detectors_are_stacks_as_h5py_reads_them() {
    let Some(data) = shared_data() else { return };
    let place = Place::new();
    let files = [
        "test_00_master.h5",
        "made/eig_master.h5",
        "made/eig_vds.h5",
        "made/eig_vds_dot.nxs",
    ]
    .map(|name| data.join("more").join(name));
    let server = place.serve(&files);
    const EIGER: &str = "82742472f77cdfadd291f96ae60bd383ca56353afc74420998ef4b9dafef8205";
    for (channel, expected) in [
        (
            "test_00_master/data",
            "96a12deebdc8a3421e923d2fc00a649326f0b5167b48ffd231941a415777308c",
        ),
        (
            "test_00_master/flatfield",
            "c55fb48abc008ef495bd4a882549123eb75a3607f926a8321a8d822c708be6ad",
        ),
        ("eig_master/data", EIGER),
        ("eig_vds/data", EIGER),
        ("eig_vds_dot/data", EIGER),
    ] {
        assert_eq!(digest(&server, channel), expected, "{channel}");
    }
}

#[test]
fn real_files_whose_data_is_elsewhere_say_so() {
    let Some(data) = shared_data() else { return };
    let place = Place::new();
    for (name, words) in [
        (
            "45657.nxs",
            "its data is in linked files that are missing: /dls/tmp/",
        ),
        ("h5ex_d_extern.h5", "h5ex_d_extern.data"),
    ] {
        let checked = place.run(["check".as_ref(), data.join("more").join(name).as_os_str()]);
        assert_eq!(checked.code, 1, "{name}");
        assert!(checked.err.contains(words), "{}", checked.err);
    }
}
