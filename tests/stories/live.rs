//! Files that are being written in SWMR mode while they are served: what is complete is served
//! without errors and may be cached, what is not is neither an error nor cached, and the end of the
//! file is followed.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime};

use hdf5::{Dataset, DatasetBuilder, Extent, File};
use ndarray::{Array2, Array3, s};

use crate::common::picture::Picture;
use crate::common::volumes;
use crate::common::wire::Answer;
use crate::common::{CHANGED, Place, Server, wait_until};
use crate::events::Events;

const EDGE: usize = volumes::EDGE;
const KEPT: &str = "public, max-age=3600";

fn slice(z: usize) -> Array2<u8> {
    Array2::from_shape_fn((EDGE, EDGE), |(y, x)| volumes::voxel(0, z, y, x))
}

/// The program of a microscope.
struct Writer {
    file: File,
    raw: Dataset,
}

impl Writer {
    /// Creates a file with two slices, to which others can be appended while it is read.
    fn create(path: &Path, thickness: usize) -> Self {
        let file = file(path);
        let raw = dataset(&file, "raw", thickness);
        let mut writer = Self { file, raw };
        writer.extend(2);
        writer.write(0..2);
        writer.file.start_swmr().unwrap();
        writer
    }

    fn extend(&mut self, slices: usize) {
        self.raw.resize((slices, EDGE, EDGE)).unwrap();
    }

    fn write(&mut self, slices: std::ops::Range<usize>) {
        for z in slices {
            self.raw.write_slice(&slice(z), s![z, .., ..]).unwrap();
        }
        self.file.flush().unwrap();
    }

    fn append(&mut self, slices: std::ops::Range<usize>) {
        self.extend(slices.end);
        self.write(slices);
    }

    fn close(self) {
        drop(self.raw);
        self.file.close().unwrap();
    }
}

fn file(path: &Path) -> File {
    File::with_options()
        .with_fapl(|access| access.libver_v110())
        .create(path)
        .unwrap()
}

fn dataset(file: &File, name: &str, thickness: usize) -> Dataset {
    let shape = [
        Extent::resizable(0),
        Extent::fixed(EDGE),
        Extent::fixed(EDGE),
    ];
    let chunk = (thickness, EDGE, EDGE);
    file.new_dataset_builder()
        .deflate(4)
        .empty::<u8>()
        .shape(shape)
        .chunk(chunk)
        .create(name)
        .unwrap()
}

/// A tile of a slice of the only channel of `a.h5`, which must not be an error.
fn tile(server: &Server, z: usize) -> Answer {
    let answer = server.tile(&format!("a/raw/xy/{z}/0_0_0.png"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer
}

/// Whether it shows a slice, and how it may be cached.
fn shown(answer: &Answer, z: usize) -> (bool, &str) {
    (
        answer.picture() == volumes::plane(0, z),
        answer.header("cache-control").unwrap(),
    )
}

fn described(server: &Server) -> serde_json::Value {
    server.json("/datasets.json")["datasets"][0].take()
}

fn slices(server: &Server) -> u64 {
    described(server)["channels"][0]["levels"][0]["size"][2]
        .as_u64()
        .unwrap()
}

/// Bytes are shown as they are, which takes no sample.
const EXACT: [&str; 3] = ["a.h5", "--set", "datasets.a.channels.raw.window=full"];

#[test]
fn a_file_that_is_being_written_is_live_without_a_setting_and_an_ordinary_one_when_it_is_closed() {
    let place = Place::new();
    let mut writer = Writer::create(&place.path("a.h5"), 1);
    let server = place.serve(EXACT);
    let mut events = Events::of(&server, "");
    assert_eq!(
        (&described(&server)["live"], &described(&server)["version"]),
        (&true.into(), &().into())
    );
    assert_eq!(shown(&tile(&server, 0), 0), (true, KEPT));
    for slices_there in 3..6 {
        writer.append(slices_there - 1..slices_there);
        wait_until("the slice is in the list", || {
            assert_eq!(shown(&tile(&server, 0), 0), (true, KEPT));
            slices(&server) == slices_there as u64
        });
        assert_eq!(
            shown(&tile(&server, slices_there - 1), slices_there - 1),
            (true, "no-store"),
            "the newest"
        );
        assert_eq!(
            shown(&tile(&server, slices_there - 2), slices_there - 2),
            (true, KEPT),
            "the one before"
        );
        let array = server.json("/zarr/0.4/a.ome.zarr/0/.zarray");
        assert_eq!(array["shape"][0], slices_there);
        assert_eq!(
            server.json("/neuroglancer/a/raw/info")["scales"][0]["size"][2],
            slices_there
        );
    }
    events.wait_for("\"changed\":[\"a\"]");
    let refused = server.tile("a@0123456789ab/raw/xy/0/0_0_0.png");
    assert!(
        refused.status == 404 && refused.problem().contains("being written"),
        "{}",
        refused.problem()
    );
    let live = tile(&server, 0);
    writer.close();
    wait_until("it is an ordinary dataset", || {
        assert!(shown(&tile(&server, 4), 4).0);
        described(&server)["live"] == false
    });
    let version = described(&server)["version"].as_str().unwrap().to_owned();
    assert_eq!(shown(&tile(&server, 4), 4), (true, KEPT));
    assert_ne!(tile(&server, 0).etag(), live.etag());
    assert_eq!(
        server
            .tile(&format!("a@{version}/raw/xy/4/0_0_0.png"))
            .status,
        200
    );
    let log = server.log();
    assert!(log.contains("is not live any more"), "{log}");
    assert!(
        !log.contains("has changed since") && !log.contains("cannot be"),
        "{log}"
    );
}

#[test]
fn chunks_that_are_not_there_yet_are_fill_and_no_cache_has_them() {
    let place = Place::new();
    let mut writer = Writer::create(&place.path("a.h5"), 4);
    let server = place.serve(EXACT);
    writer.append(2..3);
    wait_until("the third slice is shown", || {
        slices(&server) == 3 && shown(&tile(&server, 2), 2).0
    });
    // The chunk of four slices is not complete: it is written again with the fourth.
    assert_eq!(shown(&tile(&server, 0), 0), (true, "no-store"));
    writer.extend(9);
    writer.write(0..0);
    wait_until("there is room for nine slices", || slices(&server) == 9);
    let black = Picture::of_plane(EDGE, EDGE, |_, _| 0);
    for z in 3..9 {
        let answer = tile(&server, z);
        assert_eq!(
            (answer.picture() == black, answer.header("cache-control")),
            (true, Some("no-store"))
        );
    }
    let path = "/ndtilecache/tilecache/a/raw/xy/5/0_0_0.png";
    let again = server.ask("GET", path, &[("If-None-Match", tile(&server, 5).etag())]);
    assert_eq!(again.status, 200, "what is not complete is not confirmed");
    assert_eq!(
        server
            .get("/voxels/a/raw/0/0-40_0-40_0-9.npy")
            .header("cache-control"),
        Some("no-store")
    );
    assert_eq!(server.get("/zarr/0.4/a.ome.zarr/0/1/0/0").status, 404);
    let before = server.renders();
    assert_eq!(tile(&server, 5).picture(), black);
    assert!(server.renders() > before, "it was not in the cache");
    writer.write(3..9);
    wait_until("all slices are shown", || {
        (0..9).all(|z| shown(&tile(&server, z), z).0)
    });
    assert_eq!(
        shown(&tile(&server, 7), 7),
        (true, KEPT),
        "its chunk is whole"
    );
    assert_eq!(shown(&tile(&server, 8), 8), (true, "no-store"));
    writer.close();
}

#[test]
fn chunks_stay_decoded_and_measured_windows_stay_while_the_file_grows() {
    let place = Place::new();
    let mut writer = Writer::create(&place.path("a.h5"), 1);
    writer.append(2..6);
    let settings = ["datasets.a.channels.raw.window=auto", "render.neighbours=0"];
    let server = place.serve(["a.h5", "--set", settings[0], "--set", settings[1]]);
    let first = tile(&server, 1);
    assert_eq!(
        first.header("cache-control"),
        Some("no-cache"),
        "the window may change"
    );
    let window = described(&server)["channels"][0]["window"].clone();
    writer.append(6..9);
    wait_until("the slices are in the list", || slices(&server) == 9);
    assert_eq!(described(&server)["channels"][0]["window"], window);
    let before = server.count("voltile_chunk_reads_total");
    assert_eq!(tile(&server, 1).picture(), first.picture());
    assert_eq!(
        server.count("voltile_chunk_reads_total"),
        before,
        "the chunk was decoded before"
    );
    writer.close();
}

#[test]
fn the_mark_of_a_writer_that_crashed_is_told_and_does_not_make_a_dataset_live() {
    let place = Place::new();
    let writer = Writer::create(&place.path("writing.h5"), 1);
    fs::copy(place.path("writing.h5"), place.path("a.h5")).unwrap();
    writer.close();
    let long_ago = SystemTime::now() - Duration::from_secs(90);
    fs::OpenOptions::new()
        .write(true)
        .open(place.path("a.h5"))
        .unwrap()
        .set_modified(long_ago)
        .unwrap();
    let server = place.serve(EXACT);
    assert!(
        server
            .log()
            .contains("marked as being written in SWMR mode, but has not changed"),
        "{}",
        server.log()
    );
    assert_eq!(described(&server)["live"], false);
    assert!(described(&server)["version"].is_string());
    assert_eq!(shown(&tile(&server, 1), 1), (true, KEPT));
}

#[test]
fn a_marked_file_is_an_ordinary_one_if_so_configured() {
    let place = Place::new();
    let writer = Writer::create(&place.path("a.h5"), 1);
    let server = place.serve([&EXACT[..], &["--set", "datasets.a.growing=false"]].concat());
    assert_eq!(described(&server)["live"], false);
    assert_eq!(shown(&tile(&server, 1), 1), (true, KEPT));
    writer.close();
}

#[test]
fn a_file_that_is_being_copied_into_a_folder_is_not_in_the_list_before_it_is_whole() {
    let place = Place::new();
    volumes::planes(&place.path("whole.h5"), 4, 0, volumes::Stored::Gzip);
    let bytes = fs::read(place.path("whole.h5")).unwrap();
    fs::create_dir(place.path("served")).unwrap();
    volumes::planes(&place.path("served/other.h5"), 4, 0, volumes::Stored::Gzip);
    fs::write(place.path("served/a.h5"), &bytes[..bytes.len() - 10]).unwrap();
    let server = place.serve(["served"]);
    let tokens = || {
        server.json("/datasets.json")["datasets"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(tokens(), 1);
    assert!(
        server
            .get("/readyz")
            .text()
            .contains("10 bytes are missing")
    );
    thread::sleep(Duration::from_millis(50));
    fs::write(place.path("served/a.h5"), &bytes).unwrap();
    wait_until("it is in the list", || tokens() == 2);
    assert!(shown(&tile(&server, 1), 1).0);
}

/// Adds filters to a dataset.
type Filtered = fn(DatasetBuilder) -> DatasetBuilder;

/// The bytes of a file while a microscope writes it: each slice in one chunk, `slices` of them so
/// far.
fn recorded(
    place: &Place,
    slices: usize,
    filtered: Filtered,
    voxel: fn(usize, usize, usize) -> u8,
) -> Vec<u8> {
    let path = place.path("recorded.h5");
    let file = file(&path);
    let shape = [
        Extent::resizable(slices),
        Extent::fixed(EDGE),
        Extent::fixed(EDGE),
    ];
    let builder = filtered(file.new_dataset_builder());
    let builder = builder.empty::<u8>().shape(shape).chunk((1, EDGE, EDGE));
    let raw = builder.create("raw").unwrap();
    file.start_swmr().unwrap();
    let voxels = Array3::from_shape_fn((slices, EDGE, EDGE), |(z, y, x)| voxel(z, y, x));
    raw.write(&voxels).unwrap();
    file.flush().unwrap();
    let bytes = fs::read(&path).unwrap();
    drop(raw);
    file.close().unwrap();
    bytes
}

/// Writes a file from its beginning, as programs do that create it again: it stays the same file
/// for the system.
fn write_anew(path: &Path, bytes: &[u8]) {
    let inode = fs::metadata(path).unwrap().ino();
    fs::write(path, bytes).unwrap();
    assert_eq!(fs::metadata(path).unwrap().ino(), inode);
}

fn first_run(z: usize, y: usize, x: usize) -> u8 {
    volumes::voxel(0, z, y, x)
}

fn second_run(z: usize, y: usize, x: usize) -> u8 {
    volumes::voxel(1, z, y, x)
}

#[test]
fn an_acquisition_that_is_started_again_under_the_same_name_shows_nothing_of_the_one_before() {
    let kinds: [(&str, Filtered); 3] = [
        ("fletcher32", DatasetBuilder::fletcher32),
        ("shuffle", DatasetBuilder::shuffle),
        ("gzip of noise", |builder| builder.deflate(4)),
    ];
    for (kind, filtered) in kinds {
        let place = Place::new();
        let path = place.path("a.h5");
        fs::write(&path, recorded(&place, 8, filtered, first_run)).unwrap();
        let server = place.serve(EXACT);
        for z in 0..7 {
            assert_eq!(
                shown(&tile(&server, z), z),
                (true, KEPT),
                "{kind}: slice {z} of the first run"
            );
        }
        write_anew(&path, &recorded(&place, 9, filtered, second_run));
        wait_until("the second run is served", || slices(&server) == 9);
        let wrong: Vec<usize> = (0..9)
            .filter(|z| tile(&server, *z).picture() != volumes::plane(1, *z))
            .collect();
        assert!(
            wrong.is_empty(),
            "{kind}: slices {wrong:?} are not those of the second run"
        );
        assert_eq!(tile(&server, 0).header("cache-control"), Some(KEPT));
    }
}

#[test]
fn a_range_is_measured_again_when_an_acquisition_is_started_again() {
    let place = Place::new();
    let path = place.path("a.h5");
    fs::write(
        &path,
        recorded(&place, 8, DatasetBuilder::fletcher32, first_run),
    )
    .unwrap();
    let server = place.serve(["a.h5", "--set", "datasets.a.channels.raw.window=auto"]);
    tile(&server, 0);
    let window = || described(&server)["channels"][0]["window"].clone();
    let first = window();
    assert!(first.is_array() || first.is_object(), "{first}");
    let dim = |z, y, x| second_run(z, y, x) / 8;
    write_anew(&path, &recorded(&place, 9, DatasetBuilder::fletcher32, dim));
    wait_until("the second run is served", || slices(&server) == 9);
    tile(&server, 0);
    assert_ne!(window(), first);
}

#[test]
fn a_growing_file_that_was_overwritten_is_never_mixed_with_the_one_before() {
    let place = Place::new();
    let path = place.path("a.h5");
    let halves = |path: &Path, slices: usize, voxel: fn(usize, usize, usize) -> u8| {
        let file = File::create(path).unwrap();
        let voxels = Array3::from_shape_fn((slices, EDGE, EDGE), |(z, y, x)| voxel(z, y, x));
        let builder = file
            .new_dataset_builder()
            .chunk((1, EDGE / 2, EDGE))
            .fletcher32();
        builder.with_data(&voxels).create("raw").unwrap();
        file.close().unwrap();
    };
    halves(&path, 8, first_run);
    let server = place.serve([&EXACT[..], &["--set", "datasets.a.growing=true"]].concat());
    // The upper half of a slice is decoded.
    assert_eq!(server.get("/voxels/a/raw/0/0-40_0-20_0-1.npy").status, 200);
    let other = place.path("other.h5");
    halves(&other, 9, second_run);
    write_anew(&path, &fs::read(&other).unwrap());
    wait_until("the file is open in its new state", || slices(&server) == 9);
    let answer = tile(&server, 0);
    assert!(
        answer.picture() == volumes::plane(1, 0),
        "the tile mixes two states of the file"
    );
}

#[test]
fn tiles_of_a_live_file_that_is_written_anew_are_errors_until_it_can_be_opened() {
    let place = Place::new();
    let path = place.path("a.h5");
    fs::write(
        &path,
        recorded(&place, 8, DatasetBuilder::fletcher32, first_run),
    )
    .unwrap();
    let server = place.serve(EXACT);
    server.allow_error(CHANGED);
    assert_eq!(shown(&tile(&server, 0), 0), (true, KEPT));
    // The program has created the file, and does not write in SWMR mode yet.
    let bytes = recorded(&place, 8, DatasetBuilder::fletcher32, second_run);
    write_anew(&path, &bytes[..bytes.len() / 2]);
    wait_until("the tile of the first run is not shown", || {
        server.tile("a/raw/xy/0/0_0_0.png").status == 500
    });
    fs::write(&path, &bytes).unwrap();
    wait_until("the second run is shown", || {
        let answer = server.tile("a/raw/xy/0/0_0_0.png");
        assert!(answer.status == 500 || answer.picture() == volumes::plane(1, 0));
        answer.status == 200
    });
}
