//! Files that say where their voxels lie in space: what is said of it, and that tiles and boxes
//! stay those of stored voxels.

use hdf5::Group;
use ndarray::{ArrayD, IxDyn, arr2};
use serde_json::{Value, json};

use crate::common::made::{characters, cube, file, found, numbers, put, text, zeros};
use crate::common::{Place, Server, fixture};

/// As Multiview Reconstruction and BigStitcher write it: the calibration makes voxels of 0.5 × 0.5
/// × 2 µm as long as they are thick, in units of 0.5 µm; what was found later is put before it.
/// Each view is a setup, its time point and its transforms.
fn xml(views: &[(u32, u32, &[&str])]) -> String {
    let last = |of: fn(&(u32, u32, &[&str])) -> u32| views.iter().map(of).max().unwrap();
    let setup = |id: u32| {
        format!(
            "<ViewSetup><id>{id}</id><name>angle {id}</name><size>40 30 20</size>\
             <voxelSize><unit>µm</unit><size>0.5 0.5 2.0</size></voxelSize></ViewSetup>"
        )
    };
    let transform = |affine: &&str| {
        format!(
            "<ViewTransform type=\"affine\"><Name>a</Name><affine>{affine}</affine></ViewTransform>"
        )
    };
    let view = |(setup, time, transforms): &(u32, u32, &[&str])| {
        let transforms: String = transforms.iter().map(transform).collect();
        format!(
            "<ViewRegistration timepoint=\"{time}\" setup=\"{setup}\">{transforms}</ViewRegistration>"
        )
    };
    let setups: String = (0..=last(|view| view.0)).map(setup).collect();
    let views: String = views.iter().map(view).collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><SpimData version=\"0.2\"><BasePath type=\"relative\">.</BasePath>\
         <SequenceDescription><ImageLoader format=\"bdv.hdf5\"><hdf5 type=\"relative\">cells.h5</hdf5></ImageLoader>\
         <ViewSetups>{setups}</ViewSetups>\
         <Timepoints type=\"range\"><first>0</first><last>{}</last></Timepoints></SequenceDescription>\
         <ViewRegistrations>{views}</ViewRegistrations></SpimData>",
        last(|view| view.1)
    )
}

const CALIBRATION: &str = "1.0 0.0 0.0 0.0 0.0 1.0 0.0 0.0 0.0 0.0 4.0 0.0";
const QUARTER_ABOUT_Z: &str = "0.0 -1.0 0.0 0.0 1.0 0.0 0.0 0.0 0.0 0.0 1.0 0.0";
const MOVED: &str = "1.0 0.0 0.0 10.0 0.0 1.0 0.0 20.0 0.0 0.0 1.0 30.0";
/// By 30° about y.
const TURNED: &str =
    "0.8660254037844387 0.0 0.5 0.0 0.0 1.0 0.0 0.0 -0.5 0.0 0.8660254037844387 0.0";
/// x by a quarter of z: a stack of a stage that moves askew.
const SHEARED: &str = "1.0 0.0 0.25 0.0 0.0 1.0 0.0 0.0 0.0 0.0 1.0 0.0";
const IDENTITY: &str = "1.0 0.0 0.0 0.0 0.0 1.0 0.0 0.0 0.0 0.0 1.0 0.0";

/// Serves a file with these views, and an XML file with them beside.
fn served(place: &Place, views: &[(u32, u32, &[&str])]) -> Server {
    write(place, views);
    place.serve([place.path("cells.h5")])
}

fn write(place: &Place, views: &[(u32, u32, &[&str])]) {
    file(&place.path("cells.h5"), |file| {
        for (setup, time, _) in views {
            put(
                file,
                &format!("t{time:05}/s{setup:02}/0/cells"),
                &cube([20, 30, 40]).mapv(u16::from),
            );
            put(
                file,
                &format!("t{time:05}/s{setup:02}/1/cells"),
                &zeros::<u16>(&[20, 15, 20]),
            );
            let name = format!("s{setup:02}/resolutions");
            if !file.link_exists(&format!("s{setup:02}")) {
                put(
                    file,
                    &name,
                    &arr2(&[[1.0, 1.0, 1.0], [2.0, 2.0, 1.0]]).into_dyn(),
                );
            }
        }
    });
    place.write("cells.xml", &xml(views));
}

fn channel(server: &Server, name: &str) -> Value {
    let described = server.json("/datasets/cells.json");
    described["channels"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["name"] == name)
        .unwrap()
        .clone()
}

fn rows(matrix: &Value) -> Vec<f64> {
    let rows = matrix
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|row| row.as_array().unwrap());
    rows.map(|number| number.as_f64().unwrap()).collect()
}

#[track_caller]
fn assert_close(found: &[f64], expected: &[f64]) {
    let is_close = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-9;
    assert!(
        found.len() == expected.len() && found.iter().zip(expected).all(is_close),
        "{found:?}, not {expected:?}"
    );
}

#[track_caller]
fn assert_placed(server: &Server, name: &str, expected: [f64; 12], words: Option<&str>) {
    let transform = &channel(server, name)["transform"];
    assert_close(&rows(&transform["matrix"]), &expected);
    assert_eq!(
        (
            transform["in_words"].as_str(),
            transform["nanometres"].as_f64()
        ),
        (words, Some(1000.0)),
        "{name}"
    );
}

#[test]
fn the_transforms_of_a_view_are_concatenated_the_last_of_them_first() {
    let place = Place::new();
    let server = served(
        &place,
        &[
            (0, 0, &[CALIBRATION]),
            (1, 0, &[MOVED, QUARTER_ABOUT_Z, CALIBRATION]),
            (2, 0, &[QUARTER_ABOUT_Z, MOVED, CALIBRATION]),
            (3, 0, &[SHEARED, CALIBRATION]),
            (4, 0, &[TURNED, CALIBRATION]),
        ],
    );
    assert_placed(
        &server,
        "s00",
        [0.5, 0.0, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0],
        None,
    );
    let words = "its axes x, y, z run along +y, -x, +z of space; moved by 5, 10, 15 µm (x, y, z)";
    assert_placed(
        &server,
        "s01",
        [
            0.0, -0.5, 0.0, 5.0, 0.5, 0.0, 0.0, 10.0, 0.0, 0.0, 2.0, 15.0,
        ],
        Some(words),
    );
    let words = "its axes x, y, z run along +y, -x, +z of space; moved by -10, 5, 15 µm (x, y, z)";
    assert_placed(
        &server,
        "s02",
        [
            0.0, -0.5, 0.0, -10.0, 0.5, 0.0, 0.0, 5.0, 0.0, 0.0, 2.0, 15.0,
        ],
        Some(words),
    );
    let sheared = Some("sheared by 0.25 (x for z)");
    assert_placed(
        &server,
        "s03",
        [0.5, 0.0, 0.5, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0],
        sheared,
    );
    let [cosine, sine] = [0.866_025_403_784_438_7, 0.5];
    let turned = [
        0.5 * cosine,
        0.0,
        2.0 * sine,
        0.0,
        0.0,
        0.5,
        0.0,
        0.0,
        -0.5 * sine,
        0.0,
        2.0 * cosine,
        0.0,
    ];
    assert_placed(
        &server,
        "s04",
        turned,
        Some("rotated by 30° about the axis 0, 1, 0"),
    );
    let inspected = place.run(["inspect", "cells.h5"]);
    assert!(
        inspected
            .out
            .contains("  space    sheared by 0.25 (x for z)\n"),
        "{}",
        inspected.out
    );
    assert_eq!(
        inspected.out.matches("  space  ").count(),
        4,
        "{}",
        inspected.out
    );
}

#[test]
fn a_hyperstack_of_several_setups_is_cut_in_their_space_and_turned_ones_are_refused() {
    let place = Place::new();
    let server = served(
        &place,
        &[
            (0, 0, &[CALIBRATION]),
            (1, 0, &[MOVED, CALIBRATION]),
            (2, 0, &[TURNED, CALIBRATION]),
        ],
    );
    let answer = server.get("/voxels/cells/s00,s01/0/0-40_0-30_0-20.tif");
    let (found, description, _) = crate::formats::voxels::pages(&answer);
    let stored = cube([20, 30, 40]);
    // The second one begins 10, 20 and 7.5 voxels from the first.
    let page = |[x0, y0, z0]: [usize; 3], z: usize| -> Vec<u8> {
        let one = |y: usize, x: usize| {
            let own = (z.checked_sub(z0), y.checked_sub(y0), x.checked_sub(x0));
            let (Some(z), Some(y), Some(x)) = own else {
                return 0;
            };
            u16::from(stored[[z, y, x]])
        };
        (0..30)
            .flat_map(|y| (0..40).flat_map(move |x| [y, x]))
            .collect::<Vec<_>>()
            .chunks(2)
            .flat_map(|at| one(at[0], at[1]).to_le_bytes())
            .collect()
    };
    let expected: Vec<Vec<u8>> = (0..20)
        .flat_map(|z| [page([0; 3], z), page([10, 20, 8], z)])
        .collect();
    let differ = found
        .iter()
        .zip(&expected)
        .filter(|(found, expected)| found != expected)
        .count();
    assert_eq!((found.len(), differ), (40, 0), "the pages that differ");
    assert!(
        description.contains("covered_s01=10-40_20-30_8-20\n"),
        "{description}"
    );
    let refused = server.get("/voxels/cells/s00,s02/0/0-4_0-4_0-4.tif");
    assert_eq!(refused.status, 404);
    let reason = "the voxels of s02 are";
    let problem = refused.problem();
    assert!(
        problem.contains(reason) && problem.contains("rotated"),
        "{problem}"
    );
}

#[test]
fn tiles_boxes_and_slice_numbers_stay_those_of_stored_voxels() {
    let (place, plain) = (Place::new(), Place::new());
    let views: [(u32, u32, &[&str]); 2] = [
        (0, 0, &[CALIBRATION]),
        (1, 0, &[MOVED, TURNED, CALIBRATION]),
    ];
    let server = served(&place, &views);
    write(&plain, &views);
    std::fs::remove_file(plain.path("cells.xml")).unwrap();
    let other = plain.serve([plain.path("cells.h5")]);
    for tile in [
        "cells/s01/xy/7/0_0_0.png",
        "mcfc/cells/s00:G,s01:M/xy/7/0_0_1.png",
    ] {
        assert!(
            server.tile(tile).picture() == other.tile(tile).picture(),
            "{tile}"
        );
    }
    let raw = "/voxels/cells/s01/0/3-9_4-8_5-7.raw";
    assert_eq!(server.get(raw).body, other.get(raw).body);
    assert_eq!(channel(&server, "s01")["offset"], Value::Null);
    assert_eq!(
        server.json("/neuroglancer/cells/s01/info")["scales"][0]["voxel_offset"],
        json!([0, 0, 0])
    );
}

#[test]
fn calibrations_in_units_of_the_voxel_size_are_understood_and_identities_say_nothing() {
    let place = Place::new();
    let micrometres = "0.5 0.0 0.0 7.0 0.0 0.5 0.0 0.0 0.0 0.0 2.0 0.0";
    let server = served(
        &place,
        &[(0, 0, &[micrometres]), (1, 0, &[IDENTITY]), (2, 0, &[])],
    );
    let moved = Some("moved by 7, 0, 0 µm (x, y, z)");
    assert_placed(
        &server,
        "s00",
        [0.5, 0.0, 0.0, 7.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0],
        moved,
    );
    for unregistered in ["s01", "s02"] {
        let by_size = [0.5, 0.0, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0];
        assert_placed(&server, unregistered, by_size, None);
    }
    let plain = Place::new();
    let server = served(&plain, &[(0, 0, &[IDENTITY]), (1, 0, &[CALIBRATION])]);
    assert_eq!(
        channel(&server, "s00")["transform"],
        Value::Null,
        "no file says more than the size of voxels"
    );
    assert_eq!(channel(&server, "s01")["transform"], Value::Null);
}

#[test]
fn transforms_that_differ_between_time_points_are_said_to_and_listed() {
    let place = Place::new();
    let drifted = "1.0 0.0 0.0 3.0 0.0 1.0 0.0 0.0 0.0 0.0 1.0 0.0";
    let server = served(
        &place,
        &[
            (0, 0, &[CALIBRATION]),
            (0, 1, &[CALIBRATION]),
            (0, 2, &[drifted, CALIBRATION]),
            (1, 0, &[MOVED, CALIBRATION]),
            (1, 1, &[MOVED, CALIBRATION]),
            (1, 2, &[MOVED, CALIBRATION]),
        ],
    );
    let by_time = |channel: &Value| -> Vec<(u64, f64)> {
        let all = channel["transform"]["by_time"].as_array().unwrap().iter();
        all.map(|each| (each["time"].as_u64().unwrap(), rows(&each["matrix"])[3]))
            .collect()
    };
    let drifting = channel(&server, "s00");
    assert_eq!(by_time(&drifting), [(0, 0.0), (2, 1.5)]);
    let words = drifting["transform"]["in_words"].as_str().unwrap();
    assert_eq!(
        words,
        "nothing at the first time point; other time points have transforms"
    );
    assert_eq!(by_time(&channel(&server, "s01")), [], "it does not vary");
    let listed = &server.json("/datasets.json")["datasets"][0]["channels"][0]["transform"];
    assert_eq!(
        (
            listed["by_time"].as_array().unwrap().len(),
            rows(&listed["matrix"])[3]
        ),
        (0, 0.0)
    );
}

#[test]
fn a_registration_that_cannot_be_understood_is_named_and_left_out() {
    let place = Place::new();
    write(
        &place,
        &[
            (0, 0, &[CALIBRATION]),
            (1, 0, &["1 2 3"]),
            (2, 0, &["1 0 0 0 1 0 0 0 0 0 1 0"]),
        ],
    );
    let found = found(&place.path("cells.h5"));
    for (setup, channel) in found.channels.iter().enumerate().skip(1) {
        let named =
            format!("cells.xml: the registration of setup {setup} at time point 0 is left out");
        assert!(
            channel.notices.len() == 1 && channel.notices[0].text.starts_with(&named),
            "{:?}",
            channel.notices
        );
        assert_eq!(channel.transforms.first(), None);
    }
    assert!(found.channels[0].notices.is_empty());
}

#[test]
fn ome_zarr_has_the_translation_and_the_rest_under_a_key_of_its_own() {
    let place = Place::new();
    let views: [(u32, u32, &[&str]); 3] = [
        (0, 0, &[MOVED, CALIBRATION]),
        (1, 0, &[MOVED, SHEARED, CALIBRATION]),
        (2, 0, &[MOVED, CALIBRATION]),
    ];
    let server = served(&place, &views);
    let transformations = |path: &str, level: usize| {
        let attributes = server.json(&format!("/zarr/0.4/{path}.ome.zarr/.zattrs"));
        attributes["multiscales"][0]["datasets"][level]["coordinateTransformations"].clone()
    };
    let scale = json!({"type": "scale", "scale": [2.0, 0.5, 0.5]});
    let at = |z: f64, y: f64, x: f64| json!({"type": "translation", "translation": [z, y, x]});
    assert_eq!(
        transformations("cells/s00", 0),
        json!([scale, at(15.0, 10.0, 5.0)])
    );
    // The centre of a voxel of level 1 is half a voxel of level 0 further.
    assert_eq!(transformations("cells/s01", 1)[1], at(15.0, 10.25, 5.25));
    let own = |path: &str| server.json(path)["voltile"].clone();
    let affine = json!({"coordinateTransformations": [{
        "type": "affine",
        "affine": [[2.0, 0.0, 0.0, 15.0], [0.0, 0.5, 0.0, 10.0], [0.5, 0.0, 0.5, 5.0]],
    }]});
    assert_eq!(own("/zarr/0.4/cells/s01.ome.zarr/.zattrs"), affine);
    assert_eq!(
        server.json("/zarr/0.5/cells/s01.ome.zarr/zarr.json")["attributes"]["voltile"],
        affine
    );
    assert_eq!(
        own("/zarr/0.4/cells/s00.ome.zarr/.zattrs"),
        Value::Null,
        "scale and translation say everything"
    );
    let omero = &server.json("/zarr/0.4/cells.ome.zarr/.zattrs")["omero"]["channels"];
    let labels: Vec<&str> = omero
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["label"].as_str().unwrap())
        .collect();
    assert_eq!(
        labels,
        ["angle 0", "angle 2"],
        "one image has channels of one place"
    );
}

#[test]
fn a_configured_voxel_size_replaces_what_the_file_says_of_space() {
    let place = Place::new();
    write(&place, &[(0, 0, &[MOVED, CALIBRATION])]);
    place.write(
        "voltile.toml",
        "[datasets.cells]\nfile = \"cells.h5\"\nvoxel_size = [100, 100, 300]\n",
    );
    let server = place.serve([""; 0]);
    assert_eq!(channel(&server, "s00")["transform"], Value::Null);
}

#[test]
fn a_rechunked_file_lies_where_the_original_does() {
    let place = Place::new();
    write(
        &place,
        &[
            (0, 0, &[MOVED, SHEARED, CALIBRATION]),
            (0, 1, &[MOVED, CALIBRATION]),
        ],
    );
    let outcome = place.run(["pyramid", "cells.h5", "--rechunk", "again.h5"]);
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    let transforms = |name: &str| found(&place.path(name)).channels.remove(0).transforms;
    assert!(transforms("cells.h5").vary());
    assert_eq!(transforms("again.h5"), transforms("cells.h5"));
}

#[test]
fn minc_files_have_direction_cosines_and_starts() {
    let place = Place::new();
    file(&place.path("cells.h5"), |file| {
        let image = put(file, "minc-2.0/image/0/image", &cube([20, 30, 40]));
        text(&image, "dimorder", "zspace,yspace,xspace");
        let dimension = |name: &str, step: f64, start: f64, cosines: [f64; 3]| {
            let at = put(
                file,
                &format!("minc-2.0/dimensions/{name}"),
                &zeros::<i32>(&[1]),
            );
            numbers(&at, "step", &[step]);
            numbers(&at, "start", &[start]);
            numbers(&at, "direction_cosines", &cosines);
            text(&at, "units", "mm");
        };
        dimension("xspace", 0.5, 10.0, [0.8, 0.6, 0.0]);
        dimension("yspace", -0.25, 20.0, [-0.6, 0.8, 0.0]);
        dimension("zspace", 2.0, 30.0, [0.0, 0.0, 1.0]);
    });
    let server = place.serve([place.path("cells.h5")]);
    let transform = &channel(&server, "image")["transform"];
    let expected = [
        0.4, 0.15, 0.0, -4.0, 0.3, -0.2, 0.0, 22.0, 0.0, 0.0, 2.0, 30.0,
    ];
    assert_close(&rows(&transform["matrix"]), &expected);
    let words = "mirrored along z; rotated by";
    assert!(
        transform["in_words"].as_str().unwrap().starts_with(words),
        "{transform}"
    );
    assert_eq!(
        channel(&server, "image")["voxel_size"],
        json!([0.5, 0.25, 2.0])
    );
}

#[test]
fn imaris_files_begin_at_the_least_extent() {
    for (least, begins) in [([100.0, -20.0, 0.0], true), ([0.0; 3], false)] {
        let place = Place::new();
        file(&place.path("cells.h5"), |file| {
            let group = "DataSet/ResolutionLevel 0/TimePoint 0/Channel 0";
            put(file, &format!("{group}/Data"), &cube([20, 30, 40]));
            let group: Group = file.group(group).unwrap();
            let image = file.create_group("DataSetInfo/Image").unwrap();
            for (axis, (name, extent)) in [("X", 40.0), ("Y", 30.0), ("Z", 20.0)]
                .into_iter()
                .enumerate()
            {
                characters(&group, &format!("ImageSize{name}"), &extent.to_string());
                characters(&image, &format!("ExtMin{axis}"), &least[axis].to_string());
                characters(
                    &image,
                    &format!("ExtMax{axis}"),
                    &(least[axis] + extent / 2.0).to_string(),
                );
            }
            characters(&image, "Unit", "um");
        });
        let server = place.serve([place.path("cells.h5")]);
        let transform = channel(&server, "c0")["transform"].clone();
        if begins {
            let expected = [
                0.5, 0.0, 0.0, 100.25, 0.0, 0.5, 0.0, -19.75, 0.0, 0.0, 0.5, 0.25,
            ];
            assert_close(&rows(&transform["matrix"]), &expected);
            assert_eq!(
                transform["in_words"],
                "moved by 100.25, -19.75, 0.25 µm (x, y, z)"
            );
        } else {
            assert_eq!(
                transform,
                Value::Null,
                "extents that begin at 0 say nothing"
            );
        }
    }
}

#[test]
fn axes_of_itk_that_are_turned_are_told_with_their_position() {
    let place = Place::new();
    std::fs::copy(
        fixture("makers").join("itk_turned.h5"),
        place.path("cells.h5"),
    )
    .unwrap();
    let server = place.serve([place.path("cells.h5")]);
    let transform = &channel(&server, "VoxelData")["transform"];
    let expected = [
        -0.5, 0.0, 0.0, 10.0, 0.0, 0.0, 2.0, 20.0, 0.0, -0.25, 0.0, 30.0,
    ];
    assert_close(&rows(&transform["matrix"]), &expected);
    let words = "its axes x, y, z run along -x, -z, +y of space; moved by 10, 20, 30 mm (x, y, z)";
    assert_eq!(transform["in_words"], words);
}

#[test]
fn axes_of_vtk_that_are_turned_are_told_with_the_position_of_the_first_point() {
    let place = Place::new();
    file(&place.path("cells.vtkhdf"), |file| {
        put(file, "VTKHDF/PointData/density", &cube([4, 5, 6]));
        let image = file.group("VTKHDF").unwrap();
        numbers(&image, "WholeExtent", &[2, 7, 0, 4, 1, 4]);
        numbers(&image, "Spacing", &[0.5, 0.25, 2.0]);
        numbers(&image, "Origin", &[10.0, 20.0, 30.0]);
        // x runs along y of space, y along -x.
        let columns = [0.0, -1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0];
        numbers(&image, "Direction", &columns);
    });
    let server = place.serve([place.path("cells.vtkhdf")]);
    let transform = &channel(&server, "density")["transform"];
    let expected = [
        0.0, -0.25, 0.0, 10.0, 0.5, 0.0, 0.0, 21.0, 0.0, 0.0, 2.0, 32.0,
    ];
    assert_close(&rows(&transform["matrix"]), &expected);
}

#[test]
fn labels_are_drawn_at_their_place_in_turned_axes_too() {
    let place = Place::new();
    file(&place.path("cells.h5"), |file| {
        let turned = arr2(&[[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]).into_dyn();
        let line = |values: [f64; 3]| ArrayD::from_shape_vec(IxDyn(&[3]), values.to_vec()).unwrap();
        // The axis x of the image runs along y of space: labels that begin at y 3 begin at its
        // voxel 6.
        for (number, origin, directions) in [(0, [0.0; 3], &turned), (1, [0.0, 3.0, 4.0], &turned)]
        {
            let group = format!("ITKImage/{number}");
            let size = if number == 0 { [20, 30, 40] } else { [4, 5, 6] };
            put(file, &format!("{group}/VoxelData"), &cube(size));
            put(file, &format!("{group}/Spacing"), &line([0.5, 0.5, 2.0]));
            put(file, &format!("{group}/Origin"), &line(origin));
            put(file, &format!("{group}/Directions"), directions);
        }
    });
    let second = found(&place.path("cells.h5")).channels[1].name.to_string();
    let settings = format!("file = \"cells.h5\"\nchannels.\"{second}\".kind = \"labels\"\n");
    place.write("voltile.toml", &format!("[datasets.cells]\n{settings}"));
    let server = place.serve([""; 0]);
    assert_eq!(channel(&server, &second)["offset"], json!([6, 0, 2]));
}
