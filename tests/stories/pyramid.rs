//! `voltile pyramid`: stored levels have the same pixels as derived ones, a killed run can be
//! resumed, and no file is overwritten or mistaken for another.
//!
//! `VOLTILE_KILLS` sets the number of kills, for a longer test.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::made::{characters, file, numbers, put};
use crate::common::picture::Picture;
use crate::common::volumes::{Stored, invert, planes};
use crate::common::{MOUNT, Outcome, Place, Server, fixture, outcome, wait_until};
use hdf5::plist::file_create::FileSpaceStrategy;
use ndarray::{Array3, ArrayD, IxDyn};
use serde_json::Value;

/// A pseudo-random number for each position.
pub fn noise(at: &[usize]) -> u64 {
    let mixed = at.iter().fold(7_u64, |mixed, n| {
        (mixed ^ *n as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    });
    mixed ^ (mixed >> 29)
}

/// Counts positions itself: `ndarray` copies each into a type of its own, which takes most of the
/// time.
pub fn array<T>(shape: &[usize], voxel: impl Fn(&[usize]) -> T) -> ArrayD<T> {
    let mut next = vec![0; shape.len()];
    ArrayD::from_shape_simple_fn(shape, || {
        let value = voxel(&next);
        let mut axis = shape.len();
        while axis > 0 {
            axis -= 1;
            next[axis] += 1;
            if next[axis] < shape[axis] {
                break;
            }
            next[axis] = 0;
        }
        value
    })
}

fn pyramid(place: &Place, arguments: &[&Path]) -> Outcome {
    outcome(place.voltile(["pyramid"]).args(arguments))
}

/// Makes a sidecar and returns its path.
fn sidecar_of(place: &Place, file: &Path) -> PathBuf {
    let made = pyramid(place, &[file]);
    assert_eq!(made.code, 0, "{}: {}", file.display(), made.err);
    beside(file)
}

pub fn beside(file: &Path) -> PathBuf {
    PathBuf::from(format!("{}.pyramid", file.display()))
}

/// The pixels and the ETag of a tile.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    picture: Picture,
    etag: String,
}

/// Tiles of every channel: each plane and level, two slices, two times.
fn tiles(server: &Server) -> BTreeMap<String, Seen> {
    let described = server.json("/datasets.json");
    let mut connection = server.connect();
    let mut seen = BTreeMap::new();
    for dataset in described["datasets"].as_array().unwrap() {
        for channel in dataset["channels"].as_array().unwrap() {
            let size = &channel["levels"][0]["size"];
            let longest = size
                .as_array()
                .unwrap()
                .iter()
                .map(|n| n.as_u64().unwrap())
                .max()
                .unwrap();
            let times = channel["times"]
                .as_u64()
                .map_or(vec![String::new()], |times| {
                    [0, times - 1]
                        .iter()
                        .map(|time| format!("{time}/"))
                        .collect()
                });
            for (plane, axis) in [("xy", 2), ("xz", 1), ("yz", 0)] {
                let extent = size[axis].as_u64().unwrap();
                for level in (0..).take_while(|level| *level == 0 || longest >= 1 << (level - 1)) {
                    for slice in [0, (extent - 1) >> level] {
                        for time in &times {
                            let (token, name) =
                                (dataset["token"].as_str(), channel["name"].as_str());
                            let (token, name) = (token.unwrap(), name.unwrap());
                            let path =
                                format!("{token}/{name}/{plane}/{time}{slice}/0_0_{level}.png");
                            let answer = connection.get(&format!("{MOUNT}/{path}"));
                            if answer.status == 200 {
                                let picture = Picture::decode(&answer.body);
                                let etag = answer.header("etag").unwrap().to_owned();
                                seen.insert(path, Seen { picture, etag });
                            }
                        }
                    }
                }
            }
        }
    }
    seen
}

fn assert_same_pixels(name: &str, one: &BTreeMap<String, Seen>, other: &BTreeMap<String, Seen>) {
    let paths = |of: &BTreeMap<String, Seen>| of.keys().cloned().collect::<Vec<_>>();
    assert_eq!(paths(one), paths(other), "{name}");
    for (path, seen) in one {
        assert!(seen.picture == other[path].picture, "{name}: {path}");
    }
}

/// The number of levels that a server has from sidecars.
fn from_sidecars(server: &Server) -> usize {
    server
        .get("/datasets.json")
        .text()
        .matches(".pyramid\"")
        .count()
}

/// A BigDataViewer file: a setup with unsigned numbers, a stored level and a missing time, and a
/// second setup.
fn big_data_viewer(path: &Path) {
    file(path, |file| {
        for (setup, time) in [(0, 0), (0, 2), (1, 0), (1, 1), (1, 2)] {
            let data = array(&[9, 150, 170], |at| {
                noise(&[setup, time, at[0], at[1] / 3, at[2]]) as i16
            });
            put(file, &format!("/t{time:05}/s{setup:02}/0/cells"), &data);
            if setup == 0 {
                let level = array(&[5, 38, 43], |at| {
                    noise(&[time, at[0], at[1], at[2], 9]) as i16
                });
                put(file, &format!("/t{time:05}/s{setup:02}/1/cells"), &level);
            }
        }
        for (setup, factors) in [
            (0, vec![1.0, 1.0, 1.0, 4.0, 4.0, 2.0]),
            (1, vec![1.0, 1.0, 1.0]),
        ] {
            let shape = [factors.len() / 3, 3];
            let factors = ArrayD::from_shape_vec(IxDyn(&shape), factors).unwrap();
            put(file, &format!("/s{setup:02}/resolutions"), &factors);
        }
    });
}

/// An Imaris file whose chunks exceed the image, with a stored level.
fn imaris(path: &Path) {
    file(path, |file| {
        for (level, size, stored) in [
            (0, [7, 90, 130], [8, 96, 144]),
            (1, [7, 45, 65], [8, 48, 72]),
        ] {
            let group = format!("/DataSet/ResolutionLevel {level}/TimePoint 0/Channel 0");
            let data = array(&stored, |at| noise(at) as u8);
            put(file, &format!("{group}/Data"), &data);
            let group = file.group(&group).unwrap();
            for (axis, extent) in ["Z", "Y", "X"].iter().zip(size) {
                characters(&group, &format!("ImageSize{axis}"), &extent.to_string());
            }
        }
    });
}

/// Writes `/u16` in chunks that do not divide its extents.
fn chunked(file: &hdf5::File) {
    let data = array(&[70, 131, 300], |at| noise(at) as u16);
    let builder = file.new_dataset_builder().with_data(&data);
    let builder = builder.chunk((25, 40, 70)).deflate(1);
    builder.create("u16").unwrap();
}

/// Numbers of many types, in chunks that are not aligned with those of the new levels.
fn kinds(path: &Path) {
    file(path, |file| {
        let shape = [70, 131, 300];
        chunked(file);
        put(file, "u8", &array(&shape, |at| noise(at) as u8));
        put(file, "i32", &array(&shape, |at| (noise(at) as i32) >> 12));
        put(file, "u64", &array(&[9, 90, 80], noise));
        put(
            file,
            "f32",
            &array(&shape, |at| noise(at) as u16 as f32 / 1000.0),
        );
        put(
            file,
            "f64",
            &array(&[5, 131, 300], |at| (noise(at) % 1000) as f64 / 1000.0),
        );
        put(
            file,
            "segmentation",
            &array(&shape, |at| {
                (at[0] / 5 + 9 * (at[1] / 7) + at[2] / 11) as u32
            }),
        );
        let colours = put(file, "rgb", &array(&[5, 90, 200, 3], |at| noise(at) as u8));
        numbers(&colours, "element_size_um", &[0.5, 0.25, 0.25]);
    });
}

#[test]
#[ignore = "slow: makes many pyramids"]
fn stored_levels_have_the_pixels_of_derived_ones() {
    let place = Place::new();
    let mut files: Vec<PathBuf> = Vec::new();
    for (name, write) in [
        ("bdv.h5", big_data_viewer as fn(&Path)),
        ("i.ims", imaris),
        ("kinds.h5", kinds),
    ] {
        write(&place.path(name));
        files.push(place.path(name));
    }
    for name in [
        "axes.h5",
        "levels.h5",
        "series.h5",
        "floats.h5",
        "labels.h5",
        "rgb.h5",
        "enums.h5",
    ] {
        fs::copy(fixture(name), place.path(name)).unwrap();
        files.push(place.path(name));
    }
    for path in files {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let before = tiles(&place.serve([&path]));
        sidecar_of(&place, &path);
        let after = tiles(&place.serve([&path]));
        assert!(after.len() > 20, "{name}");
        assert_same_pixels(&name, &before, &after);
        let (kept, changed): (Vec<_>, Vec<_>) = before
            .iter()
            .partition(|(path, seen)| after[*path].etag == seen.etag);
        assert!(
            kept.iter().any(|(path, _)| path.ends_with("_0.png")),
            "{name}: level 0 is unchanged"
        );
        assert!(
            !changed.is_empty(),
            "{name}: keys include the source of a level"
        );
        assert!(
            !changed.iter().any(|(path, _)| path.ends_with("_0.png")),
            "{name}"
        );
    }
}

#[test]
#[ignore = "slow: makes many pyramids"]
fn levels_made_for_isotropic_scaling_are_used_only_with_it() {
    let place = Place::new();
    kinds(&place.path("kinds.h5"));
    let channels = "[datasets.a.channels.u16]\npath = \"/u16\"\n[datasets.a.channels.f32]\npath = \"/f32\"\n\
                    [datasets.a.channels.s]\npath = \"/segmentation\"\nkind = \"labels\"\n";
    let configured = |scaling: &str| {
        place.write(
            "voltile.toml",
            &format!("[datasets.a]\nfile = \"kinds.h5\"\nscaling = \"{scaling}\"\n{channels}"),
        )
    };
    configured("isotropic");
    let before = tiles(&place.serve::<&str>([]));
    let made = place.run(["pyramid", "--token", "a"]);
    assert_eq!(made.code, 0, "{}", made.err);
    let server = place.serve::<&str>([]);
    assert_eq!(
        from_sidecars(&server),
        0,
        "all advertised levels are stored in the file"
    );
    assert_same_pixels("isotropic", &before, &tiles(&server));
    drop(server);
    let deep = place.run(["inspect", "kinds.h5"]);
    assert!(
        deep.out.contains("made with scaling = \"isotropic\""),
        "{}",
        deep.out
    );
    configured("zslices");
    let server = place.serve::<&str>([]);
    server.wait_for_log("this is \"zslices\"");
    let flat = tiles(&server);
    fs::remove_file(place.path("kinds.h5.pyramid")).unwrap();
    assert_same_pixels("flat", &tiles(&place.serve::<&str>([])), &flat);
}

/// The voxels of a level in a sidecar, and its shape.
fn stored(sidecar: &Path, path: &str) -> (Vec<f64>, Vec<usize>) {
    let dataset = hdf5::File::open(sidecar).unwrap().dataset(path).unwrap();
    (dataset.read_raw::<f64>().unwrap(), dataset.shape())
}

#[test]
fn a_voxel_of_a_level_is_the_mean_of_its_box_or_for_labels_the_first_voxel() {
    let place = Place::new();
    let path = place.path("kinds.h5");
    kinds(&path);
    let sidecar = sidecar_of(&place, &path);
    for name in ["u8", "u16", "i32", "f32", "segmentation"] {
        let dataset = hdf5::File::open(&path).unwrap().dataset(name).unwrap();
        let original: Array3<f64> = dataset.read().unwrap();
        let (depth, height, width) = original.dim();
        for level in [1, 3, 7] {
            let step = 1_usize << level;
            let (made, shape) = stored(&sidecar, &format!("{name}/s{level}"));
            let (rows, columns) = (height.div_ceil(step), width.div_ceil(step));
            assert_eq!(shape, [1, 1, depth, rows, columns], "{name}");
            for (place, made) in made.iter().enumerate().step_by(7) {
                let (z, y, x) = (
                    place / (rows * columns),
                    place / columns % rows,
                    place % columns,
                );
                let edge = |at: usize, extent: usize| at * step..extent.min((at + 1) * step);
                let positions =
                    edge(y, height).flat_map(|y| edge(x, width).map(move |x| [z, y, x]));
                let voxels: Vec<f64> = positions.map(|at| original[at]).collect();
                let mean = voxels.iter().sum::<f64>() / voxels.len() as f64;
                let expected = match name {
                    "segmentation" => voxels[0],
                    "f32" => mean,
                    _ => (mean + 0.5).floor(),
                };
                assert!(
                    (made - expected).abs() <= 1e-12 * expected.abs(),
                    "{name} {step} at {place}: {made} {expected}"
                );
            }
        }
    }
}

#[test]
fn levels_too_expensive_to_derive_are_served_once_they_are_stored() {
    let place = Place::new();
    let path = place.path("kinds.h5");
    file(&path, chunked);
    let limited = ["--set", "render.max_voxels_per_tile=20000", "kinds.h5"];
    let tile = "kinds/u16/xy/3/0_0_2.png";
    let server = place.serve(limited);
    let answer = server.tile(tile);
    assert_eq!(answer.status, 404);
    assert!(
        answer.text().contains("voltile pyramid FILE"),
        "{}",
        answer.text()
    );
    drop(server);
    sidecar_of(&place, &path);
    assert_eq!(place.serve(limited).tile(tile).status, 200);
}

#[test]
fn a_sidecar_does_not_change_measured_windows() {
    let place = Place::new();
    let path = place.path("kinds.h5");
    file(&path, chunked);
    let window = || {
        let server = place.serve([&path]);
        assert_eq!(server.tile("kinds/u16/xy/3/0_0_1.png").status, 200);
        let text = server.json("/datasets.json").to_string();
        let at = text.find("\"window\":[").expect("it is measured");
        text[at..at + 40].to_owned()
    };
    let before = window();
    sidecar_of(&place, &path);
    assert_eq!(window(), before);
}

#[test]
fn a_sidecar_fits_a_copy_of_its_file_but_not_an_edited_one() {
    let place = Place::new();
    let path = place.path("planes.h5");
    let held = planes(&path, 70, 3, Stored::Flat);
    let sidecar = sidecar_of(&place, &path);
    let copy = place.path("copy.h5");
    fs::write(&copy, fs::read(&path).unwrap()).unwrap();
    fs::rename(&sidecar, beside(&copy)).unwrap();
    let inspected =
        |file: &Path| place.run(["inspect".as_ref(), file.as_os_str(), "--json".as_ref()]);
    let found = inspected(&copy);
    assert!(found.err.is_empty(), "{}", found.err);
    invert(&copy, &(held[3].start..held[3].start + 1));
    let edited = inspected(&copy);
    assert!(
        edited.out.contains("copy.h5.pyramid is ignored"),
        "{}",
        edited.out
    );
    let tile = |server: &Server| Picture::decode(&server.tile("copy/raw/xy/3/0_0_1.png").body);
    let stale = tile(&place.serve([&copy]));
    let again = pyramid(&place, &[&copy]);
    assert_eq!(again.code, 1, "it is not overwritten");
    assert!(
        again.err.contains("is there already") && again.err.contains("remove it"),
        "{}",
        again.err
    );
    fs::remove_file(beside(&copy)).unwrap();
    assert_eq!(
        tile(&place.serve([&copy])),
        stale,
        "tiles are of the edited file"
    );
}

#[test]
fn a_foreign_file_with_the_name_of_a_sidecar_is_ignored_and_not_changed() {
    let place = Place::new();
    let path = place.path("planes.h5");
    planes(&path, 5, 3, Stored::Gzip);
    for foreign in [
        b"hello".to_vec(),
        fs::read(fixture("wide.h5")).unwrap(),
        Vec::new(),
    ] {
        fs::write(beside(&path), &foreign).unwrap();
        let inspected = place.run(["inspect".as_ref(), path.as_os_str()]);
        assert_eq!(inspected.code, 0);
        assert!(inspected.out.contains("is ignored"), "{}", inspected.out);
        assert_eq!(pyramid(&place, &[&path]).code, 1);
        assert_eq!(fs::read(beside(&path)).unwrap(), foreign);
    }
    fs::remove_file(beside(&path)).unwrap();
    let sidecar = sidecar_of(&place, &path);
    let served = place.run(["inspect".as_ref(), sidecar.as_os_str()]);
    assert_eq!(served.code, 1);
    assert!(
        served.err.contains("open that file instead"),
        "{}",
        served.err
    );
}

#[test]
fn inspect_shows_which_levels_come_from_a_sidecar() {
    let place = Place::new();
    let path = place.path("wide.h5");
    fs::copy(fixture("wide.h5"), &path).unwrap();
    let bare = place.run(["inspect".as_ref(), path.as_os_str()]).out;
    sidecar_of(&place, &path);
    let text = place.run(["inspect".as_ref(), path.as_os_str()]).out;
    assert!(
        !bare.contains("wide.h5.pyramid") && text.contains("(from wide.h5.pyramid)"),
        "{text}"
    );
    let json = place
        .run(["inspect".as_ref(), path.as_os_str(), "--json".as_ref()])
        .out;
    let described: Value = serde_json::from_str(&json).unwrap();
    let level = |number: usize| &described["channels"][0]["levels"][number];
    assert_eq!(
        (&level(0)["sidecar"], level(1)["sidecar"].as_str()),
        (&Value::Null, Some("wide.h5.pyramid"))
    );
    let configuration = described["configuration"].as_str().unwrap();
    assert!(
        !configuration.contains("pyramid"),
        "the configuration names only datasets of the file: {configuration}"
    );
}

#[test]
#[ignore = "slow: makes many pyramids"]
fn a_rechunked_volume_is_served_like_the_original() {
    let place = Place::new();
    for (name, write) in [
        ("bdv.h5", big_data_viewer as fn(&Path)),
        ("i.ims", imaris),
        ("kinds.h5", kinds),
    ] {
        write(&place.path(name));
    }
    for name in ["series.h5", "enums.h5", "levels.h5"] {
        fs::copy(fixture(name), place.path(name)).unwrap();
    }
    for name in [
        "bdv.h5",
        "i.ims",
        "kinds.h5",
        "series.h5",
        "enums.h5",
        "levels.h5",
    ] {
        let (path, token) = (place.path(name), name.split('.').next().unwrap());
        let output = place.path("new").join(format!("{token}.h5"));
        fs::create_dir_all(place.path("new")).unwrap();
        let made = pyramid(&place, &[&path, "--rechunk".as_ref(), &output]);
        assert_eq!(made.code, 0, "{name}: {}", made.err);
        let server = place.serve([&output]);
        assert_eq!(server.problems(), [""; 0], "{name}");
        let rechunked = tiles(&server);
        assert_same_pixels(name, &tiles(&place.serve([&path])), &rechunked);
        let again = pyramid(&place, &[&output]);
        assert_eq!(again.code, 0, "{}", again.err);
        assert!(
            again.out.contains("has all levels"),
            "{name}: {}",
            again.out
        );
        assert!(!beside(&output).exists() && !beside(&path).exists());
        let over = pyramid(&place, &[&path, "--rechunk".as_ref(), &output]);
        assert_eq!(over.code, 1, "it is not overwritten");
    }
}

/// The strategy of a file ("page" or not), its page size, and the smallest byte offset of a chunk
/// of the dataset.
fn pages(path: &Path, dataset: &str) -> (bool, u64, u64) {
    let file = hdf5::File::open(path).unwrap();
    let creation = file.create_plist().unwrap();
    let strategy = creation.get_file_space_strategy().unwrap();
    let paged = matches!(
        strategy,
        FileSpaceStrategy::FreeSpaceManager { paged: true, .. }
    );
    let dataset = file.dataset(dataset).unwrap();
    let first = (0..dataset.num_chunks().unwrap())
        .map(|chunk| dataset.chunk_info(chunk).unwrap().addr)
        .min();
    (
        paged,
        creation.get_file_space_page_size().unwrap(),
        first.unwrap(),
    )
}

#[test]
fn a_paged_volume_has_its_metadata_together_and_the_same_voxels() {
    let place = Place::new();
    let path = place.path("a.h5");
    let data = array(&[130, 140, 150], |at| noise(at) as u16);
    file(&path, |file| drop(put(file, "/raw", &data)));
    let (plain, paged) = (place.path("plain.h5"), place.path("paged.h5"));
    for (output, options) in [(&plain, &[][..]), (&paged, &[Path::new("--paged")])] {
        let made = pyramid(
            &place,
            &[&[&path, Path::new("--rechunk"), output], options].concat(),
        );
        assert_eq!(made.code, 0, "{}", made.err);
    }
    let level = "/raw/s0";
    let (is_paged, page, first) = pages(&paged, level);
    assert!(is_paged && page == 4 << 20, "{page}");
    assert!(
        first >= page,
        "no chunk lies in the page of metadata: {first}"
    );
    let (is_paged, _, first) = pages(&plain, level);
    assert!(!is_paged && first < page, "{first}");
    let voxels = |path: &Path| {
        let file = hdf5::File::open(path).unwrap();
        file.dataset(level)
            .unwrap()
            .read_dyn::<u16>()
            .unwrap()
            .into_raw_vec_and_offset()
            .0
    };
    let wanted = data.into_raw_vec_and_offset().0;
    assert!(voxels(&plain) == wanted && voxels(&paged) == wanted);
    let before = tiles(&place.serve([&plain]));
    // The same name, so that the tiles have the same addresses.
    fs::remove_file(&plain).unwrap();
    fs::rename(&paged, &plain).unwrap();
    assert_same_pixels("paged", &before, &tiles(&place.serve([&plain])));
    let sidecar = pyramid(&place, &[&path, Path::new("--paged")]);
    assert!(
        sidecar.code == 2 && sidecar.err.contains("--rechunk"),
        "{}",
        sidecar.err
    );
}

#[test]
fn channels_that_cannot_be_read_are_left_out_and_the_others_made() {
    let place = Place::new();
    let path = place.path("planes.h5");
    let held = planes(&path, 9, 3, Stored::Gzip);
    invert(&path, &(held[4].start + 5..held[4].start + 40));
    let only = pyramid(&place, &[&path]);
    assert_eq!(only.code, 1);
    assert!(
        only.err.contains("/raw") && only.err.contains("could not be made"),
        "{}",
        only.err
    );
    let left: Vec<_> = fs::read_dir(path.parent().unwrap())
        .unwrap()
        .flatten()
        .map(|e| e.file_name())
        .collect();
    assert_eq!(left, ["planes.h5"]);
    for name in ["gzip.h5", "missing.h5"] {
        let path = place.path(name);
        fs::copy(fixture("bad").join(name), &path).unwrap();
        let made = pyramid(&place, &[&path]);
        assert_eq!(made.code, 1, "{name}: {}", made.err);
        let server = place.serve([&path]);
        assert!(
            from_sidecars(&server) == 0
                || server
                    .tile(&format!("{}/good/xy/0/0_0_1.png", &name[..name.len() - 3]))
                    .status
                    == 200
        );
        assert!(
            beside(&path).exists(),
            "{name}: the good channel has its levels"
        );
        let sound = hdf5::File::open(beside(&path)).unwrap();
        assert!(sound.group("good").is_ok(), "{name}");
        if name == "missing.h5" {
            assert!(
                made.err.contains("32016") && sound.group("filter").is_err(),
                "{}",
                made.err
            );
        }
    }
}

#[test]
fn an_output_that_cannot_be_written_is_an_error_with_the_reason() {
    let place = Place::new();
    let path = place.path("planes.h5");
    planes(&path, 3, 3, Stored::Gzip);
    let nowhere = place.path("absent/out.pyramid");
    fs::write(place.path("absent"), b"a file, not a folder").unwrap();
    let made = pyramid(&place, &[&path, "--output".as_ref(), &nowhere]);
    assert_eq!(made.code, 1);
    assert!(
        made.err.contains("cannot create the folder"),
        "{}",
        made.err
    );
    let two = pyramid(
        &place,
        &[&path, &fixture("wide.h5"), "--output".as_ref(), &nowhere],
    );
    assert_eq!(two.code, 2, "{}", two.err);
}

#[test]
fn each_stored_chunk_is_decoded_about_once() {
    let place = Place::new();
    let path = place.path("chunks.h5");
    file(&path, |file| {
        let mut data = Array3::<u8>::zeros((130, 260, 600));
        fastrand::Rng::with_seed(7).fill(data.as_slice_mut().unwrap());
        let builder = file
            .new_dataset_builder()
            .with_data(&data)
            .chunk((30, 50, 70))
            .deflate(1);
        builder.create("raw").unwrap();
    });
    let made = outcome(
        place
            .voltile(["pyramid".as_ref(), path.as_os_str()])
            .env("VOLTILE_LOG", "voltile=debug"),
    );
    let logged = made
        .err
        .split(" chunks decoded")
        .next()
        .and_then(|log| log.rsplit(' ').next());
    let (decoded, chunks): (usize, usize) = (logged.unwrap().parse().unwrap(), 5 * 6 * 9);
    // A chunk of which only a prefix was wanted at first is decoded again.
    assert!(
        (chunks..chunks * 3 / 2).contains(&decoded),
        "{decoded} for {chunks}"
    );
}

/// The number of finished pieces in a work folder.
fn pieces_in(folder: &Path) -> usize {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files
        .filter(|file| {
            file.path()
                .extension()
                .is_some_and(|ending| ending == "piece")
        })
        .count()
}

/// The shape and the voxels of every dataset of a file.
pub fn everything(path: &Path) -> BTreeMap<String, (Vec<usize>, Vec<f64>)> {
    let file = hdf5::File::open(path).unwrap();
    let mut found = BTreeMap::new();
    for group in file.groups().unwrap() {
        for dataset in group.datasets().unwrap() {
            found.insert(
                dataset.name(),
                (dataset.shape(), dataset.read_raw::<f64>().unwrap()),
            );
        }
    }
    found
}

/// Kills a run once it has come to some point; `false` if it ended before.
fn killed(mut command: Command, is_there: impl Fn() -> bool) -> bool {
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("it is there or has ended", || {
        is_there() || child.try_wait().unwrap().is_some()
    });
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert!(
        status.success() || status.signal() == Some(9),
        "it ended with {status}"
    );
    !status.success()
}

#[test]
#[ignore = "slow: kills many runs"]
fn killed_runs_can_be_resumed_and_give_the_same_levels() {
    let kills: usize = std::env::var("VOLTILE_KILLS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(5);
    let place = Place::new();
    let path = place.path("series.h5");
    file(&path, |file| {
        let data = array(&[40, 24, 160, 190], |at| {
            noise(&at[1..]) as u16 ^ at[0] as u16
        });
        let builder = file
            .new_dataset_builder()
            .with_data(&data)
            .chunk((1, 8, 64, 64))
            .deflate(1);
        builder.create("raw").unwrap();
        put(
            file,
            "labels",
            &array(&[70, 300, 700], |at| {
                (at[0] / 9 + at[1] / 13 + at[2] / 17) as u32
            }),
        );
        put(file, "f", &array(&[20, 300, 700], |at| noise(at) as f32));
    });
    let original = fs::read(&path).unwrap();
    let (undisturbed, disturbed) = (place.path("undisturbed"), place.path("disturbed"));
    let command = |output: &Path| {
        let arguments: [&Path; 4] = ["pyramid".as_ref(), &path, "--output".as_ref(), output];
        place.voltile(arguments)
    };
    assert_eq!(outcome(&mut command(&undisturbed)).code, 0);
    let expected = everything(&undisturbed);
    assert!(expected.len() > 20);
    let work = place.path("disturbed.work");
    let is_assembling = || {
        let mut files = fs::read_dir(&work).into_iter().flatten().flatten();
        files.any(|file| file.file_name().to_string_lossy().ends_with(".whole.h5"))
    };
    let finish = || {
        let pieces = pieces_in(&work);
        let last = outcome(&mut command(&disturbed));
        assert_eq!(last.code, 0, "{}", last.err);
        assert_eq!(
            last.err.contains("by an earlier run"),
            pieces > 0,
            "{}",
            last.err
        );
        assert!(
            everything(&disturbed) == expected,
            "the levels are the same"
        );
        assert!(!work.exists(), "no work is left");
        fs::remove_file(&disturbed).unwrap();
    };
    let mut pieces_kept = 0;
    for kill in 0..kills {
        // Four kills come after some more pieces, and the fifth while the file is assembled.
        let is_fifth = kill % 5 == 4;
        let pieces = pieces_in(&work) + 1 + (noise(&[kill, 4]) % 3) as usize;
        let is_time = || is_assembling() || (!is_fifth && pieces_in(&work) >= pieces);
        let was_killed = killed(command(&disturbed), is_time);
        pieces_kept += pieces_in(&work);
        assert_eq!(
            disturbed.exists(),
            !was_killed,
            "the file appears once it is complete"
        );
        if disturbed.exists() {
            assert!(everything(&disturbed) == expected);
            fs::remove_file(&disturbed).unwrap();
        } else if is_fifth {
            finish();
        }
    }
    finish();
    assert!(pieces_kept > 0, "no run was killed after some pieces");
    assert!(
        fs::read(&path).unwrap() == original,
        "the original is unchanged"
    );
}
