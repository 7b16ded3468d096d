//! The channels of files that hold more than pictures: the data come first, the axes are those that
//! the file declares, and a notice explains why a dataset cannot be served. See also
//! [`layouts`](crate::layouts) and [`makers`](crate::makers).

use std::fs;
use std::path::Path;

use hdf5::types::VarLenArray;
use hdf5::{Dataset, ObjectReference1};
use ndarray::{ArrayD, IxDyn};
use serde_json::{Value, json};
use voltile::layout::FoundChannel;
use voltile_base::paint::Kind;

use crate::common::made::{
    axes, cube, file, found, names, numbers, only, put, put_text, size, text, voxel, zeros,
};
use crate::common::{Place, fixture};

/// The names of the channels of the only dataset, as they are listed.
fn listed(described: &Value) -> Vec<&str> {
    described["channels"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect()
}

/// Gives the dimensions of a dataset scales, which lie in the root group.
fn scale(file: &hdf5::File, data: &Dataset, scales: &[&str]) {
    let reference =
        |name: &&str| VarLenArray::from([file.reference::<ObjectReference1>(name).unwrap()]);
    let references: Vec<_> = scales.iter().map(reference).collect();
    data.new_attr_builder()
        .with_data(&references)
        .create("DIMENSION_LIST")
        .unwrap();
}

/// Writes a scale with positions; of netCDF's dimensions without coordinates, the values are
/// arbitrary.
fn positions(file: &hdf5::File, name: &str, count: usize) -> Dataset {
    let values = ArrayD::from_shape_fn(IxDyn(&[count]), |at| at[0] as i16);
    let scale = put(file, name, &values);
    text(&scale, "CLASS", "DIMENSION_SCALE");
    text(&scale, "NAME", name);
    scale
}

/// A granule of a satellite: temperatures, where they are, and how good they are.
fn granule(path: &Path) {
    file(path, |file| {
        put(file, "a_lat", &zeros::<f32>(&[40, 50]));
        put(file, "navigation/longitude", &zeros::<f32>(&[40, 50]));
        text(
            &put(file, "navigation/where", &zeros::<f32>(&[40, 50])),
            "units",
            "degrees_north",
        );
        put(file, "l2p_flags", &zeros::<i16>(&[40, 50]));
        put(file, "scan_lines", &zeros::<f64>(&[40, 20]));
        put(file, "trace", &zeros::<f32>(&[3, 5, 400]));
        put(file, "frames/trace", &zeros::<f32>(&[1, 7, 400]));
        put(file, "sst", &zeros::<f32>(&[40, 50]));
        put(file, "winds/speed", &zeros::<f32>(&[4, 40, 50]));
    });
}

#[test]
fn the_data_come_first_and_coordinates_and_flags_are_not_listed_beside_them() {
    let place = Place::new();
    granule(&place.path("granule.h5"));
    let inspect = |arguments: &[&str]| -> Value {
        let outcome = place.run(["inspect", "granule.h5", "--json"].iter().chain(arguments));
        serde_json::from_str(&outcome.out).unwrap()
    };
    assert_eq!(
        listed(&inspect(&[])),
        ["speed", "trace", "sst", "scan_lines"],
        "the largest first"
    );
    let all = inspect(&["--all"]);
    let beside = ["frames_trace", "a_lat", "l2p_flags", "longitude", "where"];
    let expected: Vec<&str> = ["speed", "trace", "sst", "scan_lines"]
        .into_iter()
        .chain(beside)
        .collect();
    assert_eq!(listed(&all), expected);
}

#[test]
fn what_lies_beside_the_data_is_served_if_it_is_configured_or_there_is_nothing_else() {
    let place = Place::with(
        "[datasets.granule]\nfile = \"granule.h5\"\n[datasets.granule.channels.a_lat]\nwindow = [0, 1]",
    );
    granule(&place.path("granule.h5"));
    let served = place
        .serve(["--config", "voltile.toml"])
        .json("/datasets/granule.json");
    assert_eq!(listed(&served).last(), Some(&"a_lat"));
    let path = place.path("where.h5");
    file(&path, |file| {
        put(file, "lat", &zeros::<f32>(&[40, 50]));
        put(file, "lon", &zeros::<f32>(&[40, 50]));
    });
    assert_eq!(names(&found(&path)), ["lat", "lon"]);
}

#[test]
fn flags_are_known_by_the_name_of_their_group() {
    let place = Place::new();
    file(&place.path("scan.h5"), |file| {
        put(file, "data/raw", &zeros::<u8>(&[9, 30, 30]));
        put(file, "quality1/data", &zeros::<u8>(&[40, 50]));
    });
    let inspect = place.run(["inspect", "scan.h5", "--json"]);
    assert_eq!(
        listed(&serde_json::from_str(&inspect.out).unwrap()),
        ["raw"]
    );
}

#[test]
fn tables_are_listed_without_their_coordinates_if_there_is_nothing_else() {
    let place = Place::new();
    let path = place.path("table.nc");
    file(&path, |file| {
        put(file, "lat_bnds", &zeros::<f64>(&[400, 2]));
        put(file, "rain", &zeros::<f64>(&[400, 5]));
        put(file, "_i_table/sorted", &zeros::<f64>(&[400, 1024]));
    });
    assert_eq!(names(&found(&path)), ["rain"]);
}

#[test]
fn cells_of_matlab_are_searched_if_there_is_no_other_volume() {
    let place = Place::new();
    let path = place.path("cells.mat");
    let written = |variable: &str| {
        file(&path, |file| {
            for name in ["#refs#/b", variable] {
                text(
                    &put(file, name, &zeros::<u8>(&[40, 50])),
                    "MATLAB_class",
                    "uint8",
                );
            }
        });
        names(&found(&path))
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(written("#refs#/c"), ["b", "c"]);
    assert_eq!(written("stack"), ["stack"]);
}

#[test]
fn a_declared_signal_is_never_set_aside_by_its_name() {
    let place = Place::new();
    let path = place.path("lrmecs.nxs");
    file(&path, |file| {
        put(file, "Histogram1/other", &zeros::<u16>(&[200, 900]));
        let signal = put(file, "Histogram1/data", &zeros::<u16>(&[148, 750]));
        numbers(&signal, "signal", &[1_i32]);
        numbers(
            &put(file, "Thumbnail/data", &zeros::<u16>(&[64, 64])),
            "signal",
            &[1_i32],
        );
        for group in ["Histogram1", "Thumbnail"] {
            text(&file.group(group).unwrap(), "NX_class", "NXdata");
        }
    });
    let outcome = place.run(["inspect", "lrmecs.nxs", "--json"]);
    let described: Value = serde_json::from_str(&outcome.out).unwrap();
    assert_eq!(
        listed(&described),
        ["Histogram1_data", "Thumbnail_data", "other"],
        "{}",
        outcome.err
    );
}

#[test]
fn a_file_without_channels_says_what_its_largest_dataset_is() {
    let place = Place::new();
    file(&place.path("none.h5"), |file| {
        put(file, "a_scalar", &ArrayD::from_elem(IxDyn(&[]), 1.0));
        put(file, "list", &zeros::<f64>(&[30]));
        put(file, "thumbnail", &zeros::<u8>(&[64, 64]));
    });
    let refused = place.run(["inspect", "none.h5"]).err;
    let expected = "/thumbnail: it is a thumbnail, by its name (of 3 datasets, none is a volume)";
    assert!(
        refused.contains(expected) && !refused.contains("cannot be opened"),
        "{refused}"
    );
    file(&place.path("none.h5"), |file| {
        put(file, "a_scalar", &ArrayD::from_elem(IxDyn(&[]), 1.0));
        put(file, "point", &zeros::<f32>(&[2048, 1, 1]));
    });
    let refused = place.run(["inspect", "none.h5"]).err;
    assert!(
        refused.contains("/point: it is an array whose pictures would have a single voxel"),
        "{refused}"
    );
}

#[test]
fn packed_coordinates_are_unpacked_before_they_are_a_voxel_size() {
    let place = Place::new();
    let path = place.path("goes.nc");
    file(&path, |file| {
        for (name, standard, offset) in [
            ("y", "projection_y_coordinate", 0.128_f32),
            ("x", "projection_x_coordinate", -0.101),
        ] {
            let scale = positions(file, name, 40);
            text(&scale, "standard_name", standard);
            text(&scale, "units", "rad");
            numbers(&scale, "scale_factor", &[0.00028_f32]);
            numbers(&scale, "add_offset", &[offset]);
        }
        scale(
            file,
            &put(file, "radiance", &zeros::<i16>(&[40, 40])),
            &["y", "x"],
        );
    });
    let channel = only(&path);
    let [x, y, _] = voxel(&channel).unwrap();
    assert!(
        (x - 0.00028).abs() < 1e-9 && (y - 0.00028).abs() < 1e-9,
        "{x} {y}"
    );
    assert!((channel.transforms.first().unwrap().translation().x + 0.101).abs() < 1e-6);
    assert_eq!(channel.facts.voxel_unit.as_deref(), Some("rad"));
}

#[test]
fn signed_integers_that_stand_for_unsigned_ones_are_served_as_these() {
    let place = Place::new();
    file(&place.path("height.nc"), |file| {
        let height = put(
            file,
            "height",
            &ArrayD::from_shape_fn(IxDyn(&[20, 30]), |at| at[1] as i16 - 2),
        );
        text(&height, "_Unsigned", "true");
        numbers(&height, "_FillValue", &[-1_i16]);
    });
    let server = place.serve(["height.nc"]);
    let described = server.json("/datasets/height.json");
    let channel = &described["channels"][0];
    assert_eq!(
        (&channel["dtype"], &channel["missing"]),
        (&json!("uint16"), &json!(["65535"]))
    );
    assert_eq!(
        server.get("/voxels/height/height/0/0-3_0-1_0-1.raw").body[..],
        [0xfe, 0xff, 0xff, 0xff, 0, 0]
    );
}

#[test]
fn dimensions_called_nx_and_ntimes_and_coordinates_with_a_standard_name_tell_the_axes() {
    let place = Place::new();
    let path = place.path("grid.nc");
    file(&path, |file| {
        for (name, count) in [("nx", 30), ("ny", 20), ("ntimes", 3), ("a", 30), ("b", 20)] {
            positions(file, name, count);
        }
        text(&file.dataset("a").unwrap(), "standard_name", "longitude");
        text(&file.dataset("b").unwrap(), "long_name", "latitude");
        scale(
            file,
            &put(file, "rain", &zeros::<f32>(&[30, 20, 3])),
            &["nx", "ny", "ntimes"],
        );
        scale(
            file,
            &put(file, "snow", &zeros::<f32>(&[30, 20])),
            &["a", "b"],
        );
        for (name, count) in [("scan_line", 20), ("ground_pixel", 30)] {
            positions(file, name, count);
        }
        let swath = ["scan_line", "ground_pixel", "ntimes"];
        scale(
            file,
            &put(file, "swath", &zeros::<f32>(&[20, 30, 3])),
            &swath,
        );
    });
    let found = found(&path);
    let all: Vec<String> = found.channels.iter().map(axes).collect();
    assert_eq!(
        (names(&found), all.join(" ")),
        (vec!["rain", "snow", "swath"], "xyt xy yxt".to_owned())
    );
}

#[test]
fn axes_of_which_none_is_in_space_do_not_make_a_picture_of_one_column() {
    let place = Place::new();
    let path = place.path("mean.nc");
    file(&path, |file| {
        for (name, count) in [("time", 30), ("lat", 20), ("plev", 17)] {
            positions(file, name, count);
        }
        scale(
            file,
            &put(file, "zonal", &zeros::<f32>(&[30, 17, 20])),
            &["time", "plev", "lat"],
        );
        scale(
            file,
            &put(file, "hovmoeller", &zeros::<f32>(&[30, 20])),
            &["time", "lat"],
        );
    });
    let found = found(&path);
    let sizes: Vec<[u64; 3]> = found
        .channels
        .iter()
        .map(|channel| size(&path, channel))
        .collect();
    // The plane yz of the first shows something, and the page opens there.
    assert_eq!(
        (names(&found), sizes),
        (vec!["hovmoeller", "zonal"], vec![[20, 30, 1], [1, 20, 17]])
    );
}

fn spectral(path: &Path, shape: &[usize], axes: &[&str]) -> FoundChannel {
    file(path, |file| {
        put(file, "Experiments/map/data", &zeros::<f32>(shape));
        for (place, name) in axes.iter().enumerate() {
            let group = file
                .create_group(&format!("Experiments/map/axis-{place}"))
                .unwrap();
            text(&group, "name", name);
            text(&group, "units", if name.len() > 1 { "nm" } else { "µm" });
            numbers(&group, "scale", &[0.5]);
        }
    });
    only(path)
}

#[test]
fn the_positions_of_a_spectrum_are_slices_or_a_remark_names_them() {
    let place = Place::new();
    let path = place.path("lumi.hspy");
    let map = spectral(&path, &[20, 30, 33], &["y", "x", "Wavelength"]);
    assert_eq!(
        (axes(&map).as_str(), size(&path, &map), map.notices.len()),
        ("yxz", [30, 20, 33], 0)
    );
    let stack = spectral(&path, &[9, 20, 30, 33], &["z", "y", "x", "Wavelength"]);
    assert_eq!(
        (axes(&stack).as_str(), size(&path, &stack)),
        ("zyxc", [30, 20, 9])
    );
    assert!(
        stack.notices[0].text.contains("33 positions")
            && stack.notices[0].text.contains("index = { c"),
        "{:?}",
        stack.notices
    );
}

#[test]
fn more_than_64_channels_are_a_spectrum_and_fewer_are_channels() {
    let place = Place::new();
    let path = place.path("many.h5");
    let tagged = |shape: &[usize], keys: &str| {
        file(&path, |file| {
            let data = put(file, "data", &zeros::<u8>(shape));
            let tags: Vec<Value> = keys
                .chars()
                .map(|key| json!({"key": key.to_string()}))
                .collect();
            text(&data, "axistags", &json!({"axes": tags}).to_string());
        });
        found(&path).channels
    };
    let many = tagged(&[65, 1, 1, 20, 30], "ctzyx");
    assert_eq!(
        (many.len(), axes(&many[0]).as_str(), size(&path, &many[0])),
        (1, "ztcyx", [30, 20, 65])
    );
    assert_eq!(tagged(&[64, 20, 30], "cyx").len(), 64);
    assert_eq!(tagged(&[100, 9, 20, 30], "czyx").len(), 1);
}

#[test]
fn vectors_of_minc_are_colours_only_as_bytes() {
    let place = Place::new();
    let path = place.path("field.mnc");
    file(&path, |file| {
        let image = put(
            file,
            "minc-2.0/image/0/image",
            &zeros::<f64>(&[9, 20, 30, 3]),
        );
        text(&image, "dimorder", "zspace,yspace,xspace,vector_dimension");
    });
    let found = found(&path);
    assert_eq!(names(&found), ["image_0", "image_1", "image_2"]);
    assert!(
        found
            .channels
            .iter()
            .all(|channel| channel.kind == Kind::Image)
    );
    file(&path, |file| {
        let image = put(
            file,
            "minc-2.0/image/0/image",
            &zeros::<u8>(&[9, 20, 30, 3]),
        );
        text(&image, "dimorder", "zspace,yspace,xspace,vector_dimension");
    });
    assert_eq!(only(&path).kind, Kind::Rgb);
}

#[test]
fn bytes_with_three_or_four_components_are_colours_by_their_name() {
    let place = Place::new();
    let path = place.path("render.hdf5");
    file(&path, |file| {
        put(file, "colors", &zeros::<u8>(&[20, 30, 4]));
        put(file, "depth", &zeros::<f32>(&[20, 30]));
        put(file, "images", &zeros::<u8>(&[50, 16, 16, 3]));
        put(file, "small/image", &zeros::<u8>(&[15, 30, 3]));
        put(file, "normals", &zeros::<u8>(&[20, 30, 3]));
        let tags = r#"{"axes":[{"key":"y"},{"key":"x"},{"key":"z"}]}"#;
        text(
            &put(file, "tagged_image", &zeros::<u8>(&[20, 30, 3])),
            "axistags",
            tags,
        );
    });
    let found = found(&path);
    let coloured: Vec<&str> = found
        .channels
        .iter()
        .filter(|one| one.kind == Kind::Rgb)
        .map(|one| one.name.as_str())
        .collect();
    assert_eq!(coloured, ["colors", "images"]);
    let remarks = &found
        .channels
        .iter()
        .find(|one| one.name.as_str() == "colors")
        .unwrap()
        .notices;
    assert_eq!(
        remarks
            .iter()
            .map(|notice| notice.text.as_str())
            .collect::<Vec<_>>(),
        ["its opacity is not drawn"]
    );
}

#[test]
fn integers_named_in_a_part_of_a_word_are_labels_if_voxels_are_like_their_neighbours() {
    let place = Place::new();
    let path = place.path("cells.h5");
    let patches = ArrayD::from_shape_fn(IxDyn(&[40, 40]), |at| (at[1] / 4) as i32);
    file(&path, |file| {
        put(file, "PartitioningSchemeIds", &patches);
        put(file, "mySegmentation", &patches);
        let noise = ArrayD::from_shape_fn(IxDyn(&[40, 40]), |at| (7 * at[1] + at[0]) as i32);
        put(file, "LabelFree", &noise);
        put(file, "Counts", &patches);
    });
    let labels: Vec<String> = found(&path)
        .channels
        .iter()
        .filter(|one| one.kind == Kind::Labels)
        .map(|one| one.name.to_string())
        .collect();
    assert_eq!(labels, ["PartitioningSchemeIds", "mySegmentation"]);
}

#[test]
fn channels_with_a_filter_that_cannot_be_decoded_stay_out_of_documents_of_chunks() {
    let place = Place::new();
    let server = place.serve([fixture("bad/missing.h5")]);
    server.allow_error("cannot decode");
    let described = server.json("/datasets/missing.json");
    let channel = described["channels"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["name"] == "filter")
        .unwrap();
    for format in ["neuroglancer", "zarr"] {
        let why = channel["left_out"][format].as_str().unwrap();
        assert!(
            why.contains("32016") && why.contains("cannot decode"),
            "{format}: {why}"
        );
    }
    let answer = server.get("/zarr/0.4/missing/filter.ome.zarr/.zattrs");
    assert!(
        answer.status == 404 && answer.text().contains("32016"),
        "{answer:?}"
    );
    assert_eq!(server.get("/neuroglancer/missing/filter/info").status, 404);
}

#[test]
fn parts_are_not_listed_beside_the_file_that_they_belong_to() {
    let place = Place::new();
    let folder = place.path("run");
    fs::create_dir(&folder).unwrap();
    for name in [
        "a_master.h5",
        "a_data_000001.h5",
        "a_data_000002.h5",
        "b_data_000001.h5",
        "cells.ims",
        "cells--C00--T00000.h5",
        "other--C00--T00000.h5",
    ] {
        file(&folder.join(name), |file| {
            put(file, "data", &cube([9, 20, 20]));
        });
    }
    let site = place.serve([&folder]).json("/datasets.json");
    let tokens: Vec<&str> = site["datasets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["token"].as_str().unwrap())
        .collect();
    assert_eq!(
        tokens,
        ["a_master", "b_data_000001", "cells", "other--C00--T00000"]
    );
}

#[test]
fn a_part_of_complex_numbers_is_chosen_by_its_index() {
    let place = Place::with(
        "[datasets.c]\nfile = \"complex.h5\"\n[datasets.c.channels.angle]\npath = \"/wide\"\nindex = { c = 1 }\n\
         [datasets.c.channels.plain]\npath = \"/wide\"\n",
    );
    fs::copy(fixture("makers/complex.h5"), place.path("complex.h5")).unwrap();
    let server = place.serve(["--config", "voltile.toml"]);
    let row = |server: &crate::common::Server, channel: &str| {
        server
            .get(&format!("/voxels/{channel}/0/0-20_3-4_1-2.raw"))
            .body
    };
    let found = place.serve(["complex.h5"]);
    assert_eq!(row(&server, "c/angle"), row(&found, "complex/wide_phase"));
    assert_eq!(
        row(&server, "c/plain"),
        row(&found, "complex/wide_magnitude")
    );
    assert_eq!(
        listed(&found.json("/datasets/complex.json"))[..2],
        ["narrow_magnitude", "wide_magnitude"]
    );
    let place = Place::with(
        "[datasets.c]\nfile = \"complex.h5\"\n[datasets.c.channels.a]\npath = \"/wide\"\nindex = { c = 4 }",
    );
    fs::copy(fixture("makers/complex.h5"), place.path("complex.h5")).unwrap();
    let refused = place.run(["check", "--config", "voltile.toml"]);
    assert!(
        format!("{}{}", refused.out, refused.err).contains("0 (magnitude), 1 (phase)"),
        "{}",
        refused.err
    );
}

#[derive(Clone, Copy, hdf5::H5Type)]
#[repr(C)]
struct Pair {
    height: f32,
    count: i32,
}

#[test]
fn what_may_be_a_picture_and_is_not_shown_is_named_with_the_reason() {
    let place = Place::new();
    file(&place.path("mixed.h5"), |file| {
        put(file, "raw", &zeros::<u16>(&[4, 40, 50]));
        let pair = Pair {
            height: 1.0,
            count: 1,
        };
        for name in ["pairs", "deep/pairs"] {
            put(file, name, &ArrayD::from_elem(IxDyn(&[40, 50]), pair));
        }
        let jpeg = VarLenArray::from_slice(&[0xff_u8, 0xd8, 0xff]);
        put(file, "jpegs", &ArrayD::from_elem(IxDyn(&[3]), jpeg));
        put(file, "six", &zeros::<u8>(&[2, 2, 2, 2, 20, 20]));
        // Tables and texts are no pictures.
        put(file, "table", &ArrayD::from_elem(IxDyn(&[40]), pair));
        put_text(file, "title", "a text");
        put(file, "quality_flags", &zeros::<u8>(&[40, 50]));
        put(file, "matrix", &zeros::<f64>(&[3, 3]));
    });
    let server = place.serve(["mixed.h5"]);
    let described = server.json("/datasets/mixed.json");
    assert_eq!(listed(&described), ["raw"]);
    let notice = |severity: &str, about: &str, text: &str| json!({ "severity": severity, "about": about, "text": text });
    let expected = json!([
        notice(
            "warning",
            "/six",
            "it is not shown: its shape is [2, 2, 2, 2, 20, 20]; a volume has 2 to 5 axes"
        ),
        notice(
            "warning",
            "mixed",
            "2 datasets are not shown (/pairs, /deep/pairs): the elements are compounds that are \
            neither complex numbers nor colours"
        ),
        notice(
            "warning",
            "/jpegs",
            "it is not shown: the elements are lists of any length, as of encoded pictures (JPEG, PNG)"
        ),
        notice(
            "info",
            "mixed",
            "beside the data lie coordinates, flags or what the layout does not describe, which are not \
            listed: /quality_flags; `voltile inspect --all` lists them"
        ),
    ]);
    assert_eq!(described["notices"], expected);
    let list = server.json("/datasets.json").to_string();
    assert!(list.contains(r#""warnings":3"#), "{list}");
    let inspected = place.run(["inspect", "mixed.h5"]).out;
    assert!(
        inspected.contains("warning    /jpegs: it is not shown: "),
        "{inspected}"
    );
    // If nothing is left, the reason is one that may be a picture, not the largest table.
    file(&place.path("none.h5"), |file| {
        let jpeg = VarLenArray::from_slice(&[0xff_u8, 0xd8, 0xff]);
        put(file, "jpegs", &ArrayD::from_elem(IxDyn(&[3]), jpeg));
        put(file, "list", &zeros::<f64>(&[3000]));
    });
    let refused = place.run(["inspect", "none.h5"]).err;
    assert!(
        refused.contains("; /jpegs: the elements are lists of any length"),
        "{refused}"
    );
}

#[test]
fn a_component_and_a_dataset_of_one_name_are_both_listed() {
    let place = Place::new();
    file(&place.path("names.h5"), |file| {
        put(file, "a", &zeros::<u8>(&[40, 50, 2]));
        put(file, "a_0", &zeros::<u8>(&[40, 50]));
    });
    let found = found(&place.path("names.h5"));
    assert_eq!(names(&found), ["a_0", "a_1", "a_0_2"]);
}

#[test]
fn bodies_and_neurons_are_labels_if_neighbouring_voxels_are_alike() {
    let place = Place::new();
    let noise = |at: IxDyn| (at[0] * 7919 + at[1] * 104_729 + at[2] * 15_485_863) as u16 % 60_013;
    file(&place.path("words.h5"), |file| {
        put(
            file,
            "neurons",
            &ArrayD::from_shape_fn(IxDyn(&[3, 40, 50]), noise),
        );
        let regions = |at: IxDyn| (at[1] / 10) as u16;
        put(
            file,
            "bodies",
            &ArrayD::from_shape_fn(IxDyn(&[3, 40, 50]), regions),
        );
    });
    let kinds: Vec<_> = found(&place.path("words.h5"))
        .channels
        .iter()
        .map(|channel| (channel.name.to_string(), channel.kind))
        .collect();
    let expected = [
        ("bodies".to_owned(), Kind::Labels),
        ("neurons".to_owned(), Kind::Image),
    ];
    assert_eq!(kinds, expected);
}
