//! More files as other programs write them, like [`layouts`](crate::layouts): formats of single
//! laboratories, attributes of libraries, and plain files.

use std::path::Path;

use voltile_base::paint::Kind;

use crate::common::Place;
use crate::common::made::{
    CORNER, SIZE, SMALL, axes, cube, file, found, levels, names, numbers, only, put, put_text,
    text, times, value, voxel, zeros,
};
use crate::common::picture::Picture;
use hdf5::types::{VarLenArray, VarLenUnicode};
use hdf5::{Dataset, ObjectReference1};
use ndarray::{ArrayD, IxDyn};

#[test]
fn minc_names_the_order_of_its_axes() {
    let place = Place::new();
    let path = place.path("brain.mnc");
    file(&path, |file| {
        let image = put(
            file,
            "minc-2.0/image/0/image",
            &cube(SMALL)
                .permuted_axes(IxDyn(&[2, 0, 1]))
                .as_standard_layout()
                .to_owned(),
        );
        text(&image, "dimorder", "xspace,zspace,yspace");
        put(file, "minc-2.0/image/0/image-min", &zeros::<f64>(&[7]));
        put(
            file,
            "minc-2.0/image/0/image-max",
            &ArrayD::from_shape_fn(IxDyn(&[7]), |at| 51.0 * at[0] as f64),
        );
        put(file, "minc-2.0/image/1/image", &zeros::<u8>(&SMALL));
        for (axis, step) in [("x", -1.5), ("y", 2.0), ("z", 3.0)] {
            let dimension = put(
                file,
                &format!("minc-2.0/dimensions/{axis}space"),
                &zeros::<i32>(&[1]),
            );
            numbers(&dimension, "step", &[step]);
            text(&dimension, "units", "mm");
        }
    });
    let channel = only(&path);
    assert_eq!(
        (
            found(&path).layout,
            channel.name.as_str(),
            axes(&channel).as_str()
        ),
        ("MINC 2", "image", "xzy")
    );
    assert_eq!(
        (voxel(&channel), channel.facts.voxel_unit.as_deref()),
        (Some([1.5, 2.0, 3.0]), Some("mm"))
    );
    assert_eq!(value(&path, &channel, CORNER.0), (SIZE, CORNER.1));
    assert!(channel.notices.is_empty());
    // Each slice along x has its own scale: 255 is 51 x.
    let server = place.serve([&path]);
    let answer = server.get("/voxels/brain/image/0/0-7_4-5_1-2.raw");
    let real: Vec<f32> = answer
        .body
        .chunks_exact(4)
        .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()))
        .collect();
    let expected: Vec<f32> = (0..7_u8)
        .map(|x| (f64::from(140 + x) * (51.0 * f64::from(x) / 255.0)) as f32)
        .collect();
    assert_eq!(real, expected);
}

#[test]
fn minc_says_what_is_labels() {
    let place = Place::new();
    let path = place.path("atlas.mnc");
    file(&path, |file| {
        let image = put(file, "minc-2.0/image/0/image", &cube([9, 20, 20]));
        text(&image, "dimorder", "zspace,yspace,xspace");
        text(&file.group("minc-2.0").unwrap(), "class", "label__");
        put(file, "minc-2.0/image/0/image-min", &zeros::<f64>(&[9]));
        put(
            file,
            "minc-2.0/image/0/image-max",
            &ArrayD::from_shape_fn(IxDyn(&[9]), |at| at[0] as f64),
        );
    });
    let channel = only(&path);
    assert_eq!(
        (channel.kind, channel.facts.labels_because.as_deref()),
        (Kind::Labels, Some("its class is label__"))
    );
    assert!(
        channel.levels[0].view.values.is_none(),
        "ids are not scaled"
    );
}

/// A MATLAB file: an array of rows, columns and slices, which HDF5 stores as slices, columns, rows;
/// and other variables.
fn matlab(path: &Path) {
    let file = hdf5::File::with_options()
        .with_fcpl(|plist| plist.userblock(512))
        .create(path)
        .unwrap();
    let stored = cube(SMALL)
        .permuted_axes(IxDyn(&[0, 2, 1]))
        .as_standard_layout()
        .to_owned();
    text(&put(&file, "vol", &stored), "MATLAB_class", "uint8");
    let mask = put(&file, "inside", &stored.mapv(|voxel| u8::from(voxel > 110)));
    text(&mask, "MATLAB_class", "logical");
    numbers(&mask, "MATLAB_int_decode", &[1_i32]);
    text(
        &put(&file, "note", &zeros::<u16>(&[40, 30])),
        "MATLAB_class",
        "char",
    );
    text(
        &put(&file, "scale", &zeros::<f64>(&[1, 1])),
        "MATLAB_class",
        "double",
    );
    text(
        &put(&file, "#refs#/a", &zeros::<u8>(&[40, 30])),
        "MATLAB_class",
        "uint8",
    );
}

#[test]
fn matlab_stores_columns_first() {
    let place = Place::new();
    let path = place.path("results.mat");
    matlab(&path);
    let found = found(&path);
    assert_eq!(
        (found.layout, names(&found)),
        ("MATLAB 7.3", vec!["inside", "vol"])
    );
    let [mask, volume] = &found.channels[..] else {
        panic!("two arrays")
    };
    assert_eq!((axes(volume).as_str(), axes(mask).as_str()), ("zxy", "zxy"));
    assert_eq!(value(&path, volume, CORNER.0), (SIZE, CORNER.1));
    // True is white.
    let server = place.serve([&path]);
    let tile = server.tile("results/inside/xy/1/0_0_0.png").picture();
    assert_eq!(
        tile,
        Picture::of_plane(5, 7, |y, x| if 100 + 10 * y + x > 110 { 255 } else { 0 })
    );
}

fn label(dataset: &Dataset, labels: &[&str]) {
    let labels: Vec<VarLenUnicode> = labels.iter().map(|label| label.parse().unwrap()).collect();
    dataset
        .new_attr_builder()
        .with_data(&labels)
        .create("DIMENSION_LABELS")
        .unwrap();
}

#[test]
fn dimension_labels_name_the_axes() {
    let place = Place::new();
    let path = place.path("labelled.h5");
    file(&path, |file| {
        let data = put(file, "imaging", &zeros::<u16>(&[3, 2, 5, 7, 2]));
        label(&data, &["t", "z", "y", "x", "c"]);
        numbers(&data, "element_size_um", &[2.0, 0.5, 0.25]);
        label(
            &put(file, "words", &zeros::<u16>(&[20, 5, 30])),
            &["row", "Time", "column"],
        );
        label(&put(file, "half", &zeros::<u16>(&SMALL)), &["x", "", "z"]);
    });
    let found = found(&path);
    assert_eq!(
        (found.layout, names(&found)),
        (
            "dimension labels",
            vec!["half", "imaging_0", "imaging_1", "words"]
        )
    );
    let all: Vec<String> = found.channels.iter().map(axes).collect();
    assert_eq!(all, ["zyx", "tzyxc", "tzyxc", "ytx"]);
    assert_eq!(voxel(&found.channels[1]), Some([0.25, 0.5, 2.0]));
}

#[test]
fn dimension_scales_give_axes_and_voxel_sizes() {
    let place = Place::new();
    let path = place.path("scales.h5");
    file(&path, |file| {
        let data = put(file, "density", &zeros::<f32>(&[7, 5, 3]));
        let scales = [("x", 7, 0.5), ("lines", 5, 2.0), ("depth", 3, 10.0)];
        let references = scales.map(|(name, count, step)| {
            let values = ArrayD::from_shape_fn(IxDyn(&[count]), |at| 100.0 - step * at[0] as f64);
            let scale = put(file, &format!("axes/{name}"), &values);
            text(&scale, "CLASS", "DIMENSION_SCALE");
            text(
                &scale,
                "NAME",
                if name == "lines" {
                    "y"
                } else {
                    "This is a dimension"
                },
            );
            VarLenArray::from([file
                .reference::<ObjectReference1>(&format!("axes/{name}"))
                .unwrap()])
        });
        data.new_attr_builder()
            .with_data(&references)
            .create("DIMENSION_LIST")
            .unwrap();
    });
    let channel = only(&path);
    assert_eq!(
        (axes(&channel).as_str(), voxel(&channel)),
        ("xyz", Some([0.5, 2.0, 10.0]))
    );
}

#[test]
fn n5_and_paintera_have_levels_in_a_group() {
    let place = Place::new();
    let path = place.path("paintera.h5");
    file(&path, |file| {
        for (name, shape, factors) in [
            ("s0", [4, 40, 60], [1, 1, 1]),
            ("s1", [4, 20, 30], [2, 2, 1]),
            ("s3", [2, 5, 8], [8, 8, 2]),
        ] {
            let raw = put(file, &format!("volumes/raw/{name}"), &zeros::<u8>(&shape));
            if name != "s0" {
                numbers(&raw, "downsamplingFactors", &factors);
            }
            put(
                file,
                &format!("volumes/segments/data/{name}"),
                &zeros::<u64>(&shape),
            );
        }
        let group = |path: &str| file.group(path).unwrap();
        numbers(&group("volumes/raw"), "resolution", &[4.0, 5.0, 40.0]);
        numbers(&group("volumes/segments/data"), "multiScale", &[1_u8]);
        text(
            &group("volumes/segments"),
            "painteraData",
            r#"{"type":"label"}"#,
        );
    });
    let found = found(&path);
    assert_eq!(
        (found.layout, names(&found)),
        ("N5 in HDF5", vec!["raw", "data"])
    );
    let [raw, labels] = &found.channels[..] else {
        panic!("two pyramids")
    };
    let expected = [
        ("/volumes/raw/s0", Some([1, 1, 1])),
        ("/volumes/raw/s1", Some([2, 2, 1])),
        ("/volumes/raw/s3", Some([8, 8, 2])),
    ];
    assert_eq!(
        (levels(raw), voxel(raw)),
        (expected.to_vec(), Some([4.0, 5.0, 40.0]))
    );
    assert_eq!(
        (labels.kind, labels.levels.len(), labels.levels[1].factor),
        (Kind::Labels, 3, None)
    );
}

#[test]
fn luxendo_has_factors_in_dataset_names() {
    let place = Place::new();
    let [stack, main] = ["Cam_left_00000.lux.h5", "main.lux.h5"].map(|name| place.path(name));
    file(&stack, |file| {
        put(file, "Data", &cube([6, 20, 20]).mapv(u16::from));
        put(file, "Data_2_2_2", &zeros::<u16>(&[3, 10, 10]));
        put(file, "Data_4_4_1", &zeros::<u16>(&[6, 5, 5]));
        put_text(
            file,
            "metadata",
            r#"{"processingInformation":{"voxel_size_um":{"width":0.3,"height":0.4,"depth":2.0}}}"#,
        );
    });
    file(&main, |file| {
        for time in ["timepoint_3", "timepoint_4"] {
            let view = file
                .create_group(&format!("{time}/channel_0/view_0"))
                .unwrap();
            for (level, data) in [("res_0", "Data"), ("res_1", "Data_2_2_2")] {
                let level = view.create_group(level).unwrap();
                level
                    .link_external("Cam_left_00000.lux.h5", data, "data")
                    .unwrap();
            }
        }
    });
    let channel = only(&stack);
    assert_eq!(
        (found(&stack).layout, channel.name.as_str(), voxel(&channel)),
        ("Luxendo", "Data", Some([0.3, 0.4, 2.0]))
    );
    let expected = [
        ("/Data", Some([1, 1, 1])),
        ("/Data_2_2_2", Some([2, 2, 2])),
        ("/Data_4_4_1", Some([4, 4, 1])),
    ];
    let mut all = levels(&channel);
    all.sort();
    assert_eq!(all, expected);
    let linked = only(&main);
    assert_eq!(
        (linked.name.as_str(), times(&linked), linked.levels.len()),
        ("channel_0", vec![true, true], 2)
    );
    assert_eq!(value(&main, &linked, [19, 3, 1]), ([20, 20, 6], 149.0));
}

#[test]
fn an_ndstore_export_has_a_group_for_each_channel() {
    let place = Place::new();
    let path = place.path("cutout.h5");
    file(&path, |file| {
        for (channel, kind, shape) in [
            ("image", "image", &[2, 5, 7][..]),
            ("synapses", "annotation", &[2, 5, 7]),
            ("calcium", "timeseries", &[6, 2, 5, 7]),
        ] {
            put(file, &format!("{channel}/CUTOUT"), &zeros::<u32>(shape));
            put_text(file, &format!("{channel}/CHANNELTYPE"), kind);
            put_text(file, &format!("{channel}/DATATYPE"), "uint32");
        }
    });
    let found = found(&path);
    assert_eq!(
        (found.layout, names(&found)),
        ("ndstore export", vec!["calcium", "image", "synapses"])
    );
    let kinds: Vec<Kind> = found.channels.iter().map(|channel| channel.kind).collect();
    assert_eq!(kinds, [Kind::Image, Kind::Image, Kind::Labels]);
    assert_eq!(
        (axes(&found.channels[0]), axes(&found.channels[1])),
        ("tzyx".to_owned(), "zyx".to_owned())
    );
}

#[test]
fn nwb_stores_width_before_height() {
    let place = Place::new();
    let path = place.path("session.nwb");
    file(&path, |file| {
        text(file, "nwb_version", "2.6.0");
        put(
            file,
            "acquisition/imaging/data",
            &zeros::<u16>(&[6, 20, 30]),
        );
        put(file, "acquisition/running/data", &zeros::<f64>(&[60, 30]));
        put(
            file,
            "processing/ophys/masks/image_mask",
            &zeros::<f32>(&[60, 20, 30]),
        );
        text(
            &file.group("acquisition/imaging").unwrap(),
            "neurodata_type",
            "TwoPhotonSeries",
        );
        text(
            &file.group("acquisition/running").unwrap(),
            "neurodata_type",
            "TimeSeries",
        );
        let spacing = put(
            file,
            "general/optophysiology/plane/grid_spacing",
            &ndarray::arr1(&[0.5, 0.6, 2.0]).into_dyn(),
        );
        text(&spacing, "unit", "micrometers");
        file.link_soft(
            "/general/optophysiology/plane",
            "acquisition/imaging/imaging_plane",
        )
        .unwrap();
    });
    let channel = only(&path);
    assert_eq!(
        (
            found(&path).layout,
            channel.name.as_str(),
            channel.facts.label.as_deref()
        ),
        ("NWB", "data", Some("imaging"))
    );
    assert_eq!(
        (axes(&channel).as_str(), value(&path, &channel, [19, 29, 0])),
        ("txy", ([20, 30, 1], 0.0))
    );
    assert_eq!(
        (voxel(&channel), channel.facts.voxel_unit.as_deref()),
        (Some([0.5, 0.6, 2.0]), Some("µm"))
    );
}

#[test]
fn nwb_of_old_versions_stores_height_before_width() {
    let place = Place::new();
    for (version, expected) in [
        ("2.1.0", ["yx", "tyx", "tzyx"]),
        ("NWB-2.0.2", ["yx", "tyx", "tzyx"]),
        ("2.10.0", ["xy", "txy", "txyz"]),
    ] {
        let path = place.path("old.nwb");
        file(&path, |file| {
            text(file, "nwb_version", version);
            put(
                file,
                "acquisition/a_volumes/data",
                &zeros::<u16>(&[6, 5, 20, 30]),
            );
            put(file, "acquisition/frames/data", &zeros::<u16>(&[6, 20, 30]));
            let image = put(file, "acquisition/images/one", &zeros::<u16>(&[20, 30]));
            text(&image, "neurodata_type", "GrayscaleImage");
            for (name, kind) in [
                ("a_volumes", "TwoPhotonSeries"),
                ("frames", "OpticalSeries"),
            ] {
                text(
                    &file.group(&format!("acquisition/{name}")).unwrap(),
                    "neurodata_type",
                    kind,
                );
            }
        });
        let found = found(&path);
        let mut all: Vec<String> = found.channels.iter().map(axes).collect();
        all.sort_by_key(String::len);
        assert_eq!(all, expected, "{version}");
    }
}

#[test]
fn nwb_has_colours_in_videos_and_not_in_series_of_microscopes() {
    let place = Place::new();
    let path = place.path("colours.nwb");
    file(&path, |file| {
        text(file, "nwb_version", "2.6.0");
        for (name, kind) in [("planes", "TwoPhotonSeries"), ("video", "OpticalSeries")] {
            put(
                file,
                &format!("acquisition/{name}/data"),
                &zeros::<u8>(&[6, 20, 30, 3]),
            );
            text(
                &file.group(&format!("acquisition/{name}")).unwrap(),
                "neurodata_type",
                kind,
            );
        }
        let spacing = ndarray::arr1(&[0.5, 0.6]).into_dyn();
        put(file, "general/optophysiology/plane/grid_spacing", &spacing);
        file.link_soft(
            "/general/optophysiology/plane",
            "acquisition/video/imaging_plane",
        )
        .unwrap();
    });
    let found = found(&path);
    let of = |label: &str| {
        found
            .channels
            .iter()
            .find(|one| one.facts.label.as_deref() == Some(label))
            .unwrap()
    };
    assert_eq!(
        (of("planes").kind, axes(of("planes")).as_str()),
        (Kind::Image, "txyz")
    );
    assert_eq!(
        (of("video").kind, axes(of("video")).as_str()),
        (Kind::Rgb, "txyc")
    );
    assert_eq!(
        voxel(of("video")),
        Some([0.5, 0.6, 0.5]),
        "a plane is as thick as its voxels are wide"
    );
}

/// A NeXus file whose data lie with the detector and are only linked to where they are described.
fn nexus(path: &Path) {
    file(path, |file| {
        let group = |path: &str, class: &str| {
            let group = file.create_group(path).unwrap();
            text(&group, "NX_class", class);
            group
        };
        text(file, "default", "entry");
        text(&group("entry", "NXentry"), "default", "plot");
        group("entry/detector", "NXdetector");
        put(file, "entry/detector/a_dark", &zeros::<u16>(&[7, 20, 30]));
        put(file, "entry/detector/tomogram", &cube([7, 20, 30]));
        let plot = group("entry/plot", "NXdata");
        text(&plot, "signal", "shown");
        let names: Vec<VarLenUnicode> =
            ["x", "y", "depth"].map(|name| name.parse().unwrap()).into();
        plot.new_attr_builder()
            .with_data(&names)
            .create("axes")
            .unwrap();
        for (name, count, step) in [("x", 7, 0.5), ("y", 20, 0.25), ("depth", 30, 2.0)] {
            let positions = ArrayD::from_shape_fn(IxDyn(&[count]), |at| at[0] as f64 * step);
            text(&put(&plot, name, &positions), "units", "mm");
        }
        file.link_soft("/entry/detector/tomogram", "entry/plot/shown")
            .unwrap();
        file.link_soft("/nowhere", "entry/plot/lost").unwrap();
    });
}

#[test]
fn nexus_lists_the_default_plot_first_and_describes_data_where_it_is_linked_to() {
    let place = Place::new();
    nexus(&place.path("scan.nxs"));
    let found = found(&place.path("scan.nxs"));
    assert_eq!(
        (found.layout, names(&found)),
        ("NeXus", vec!["tomogram", "a_dark"])
    );
    let [tomogram, dark] = &found.channels[..] else {
        panic!("two volumes")
    };
    assert_eq!(
        (axes(tomogram).as_str(), voxel(tomogram)),
        ("xyz", Some([0.5, 0.25, 2.0]))
    );
    assert_eq!(axes(dark), "zyx");
    let server = place.serve([place.path("scan.nxs")]);
    let described = server.json("/datasets.json")["datasets"][0]["channels"].clone();
    assert_eq!(
        (&described[0]["name"], &described[1]["name"]),
        (&"tomogram".into(), &"a_dark".into())
    );
    assert!(
        server.printed().contains("/scan/tomogram/xy/"),
        "{}",
        server.printed()
    );
    let inspected = place.run(["inspect", "scan.nxs"]).out;
    assert!(
        inspected.find("channel    tomogram") < inspected.find("channel    a_dark"),
        "{inspected}"
    );
}

#[test]
fn velox_has_frames_along_the_last_axis() {
    let place = Place::new();
    let path = place.path("image.emd");
    file(&path, |file| {
        put(file, "Data/Image/0a1b2c/Data", &zeros::<u16>(&[20, 30, 6]));
        put(file, "Data/Image/0a1b2c/Metadata", &zeros::<u8>(&[5000, 6]));
        put(file, "Data/Spectrum/3d/Data", &zeros::<u16>(&[4096, 60]));
    });
    let channel = only(&path);
    assert_eq!(
        (
            found(&path).layout,
            channel.name.as_str(),
            axes(&channel).as_str()
        ),
        ("Velox EMD", "Data", "yxt")
    );
    assert!(channel.notices[0].text.contains("Metadata is not JSON"));
}

#[test]
fn catmaid_has_a_dataset_for_each_section() {
    let place = Place::new();
    let path = place.path("1_2_stack.hdf");
    file(&path, |file| {
        for z in [0, 2] {
            let section = |n: usize| {
                ArrayD::from_shape_fn(IxDyn(&[n, n]), move |at| {
                    (100 * z + 10 * at[0] + at[1]) as u8
                })
            };
            put(file, &format!("0/{z}/data"), &section(8));
            put(file, &format!("1/{z}/data"), &section(4));
        }
    });
    let channel = only(&path);
    assert_eq!(
        (found(&path).layout, channel.name.as_str()),
        ("CATMAID", "data")
    );
    assert_eq!(
        levels(&channel),
        [
            ("/0/0/data", Some([1, 1, 1])),
            ("/1/0/data", Some([2, 2, 1]))
        ]
    );
    let server = place.serve([&path]);
    let tile = |path: &str| server.tile(&format!("1_2_stack/data/{path}.png")).picture();
    let value = |z: usize, y: usize, x: usize| (100 * z + 10 * y + x) as u8;
    assert_eq!(
        tile("xy/2/0_0_0"),
        Picture::of_plane(8, 8, |y, x| value(2, y, x))
    );
    assert_eq!(
        tile("xy/1/0_0_0"),
        Picture::of_plane(0, 0, |_, _| 0),
        "a missing section is black"
    );
    assert_eq!(
        tile("xy/2/0_0_1"),
        Picture::of_plane(4, 4, |y, x| value(2, y, x)),
        "each scale is a level"
    );
    assert_eq!(
        tile("xz/3/0_0_0"),
        Picture::of_plane(3, 8, |z, x| if z == 1 { 0 } else { value(z, 3, x) })
    );
}

#[test]
fn the_picture_shown_first_is_one_that_exists() {
    let place = Place::new();
    let view = cube(SMALL).mapv(u16::from);
    file(&place.path("late.h5"), |file| {
        let factors = ndarray::arr2(&[[1.0, 1.0, 1.0]]).into_dyn();
        for setup in ["s00", "s01"] {
            put(file, &format!("{setup}/resolutions"), &factors);
        }
        for cells in ["t00018/s00", "t00020/s00", "t00019/s01"] {
            put(file, &format!("{cells}/0/cells"), &view);
        }
    });
    for (name, sections) in [("far.hdf", [1000, 1001]), ("split.hdf", [0, 4])] {
        file(&place.path(name), |file| {
            for z in sections {
                put(
                    file,
                    &format!("0/{z}/data"),
                    &zeros::<u8>(&[8, 8]).mapv(|v| v + 7),
                );
            }
        });
    }
    let server = place.serve(["late.h5", "far.hdf", "split.hdf"]);
    let about = |token: &str| server.json(&format!("/datasets/{token}.json"))["channels"].clone();
    let existing = |first: u64, middle: u64, slice: u64| serde_json::json!({"first_time": first, "middle_time": middle, "middle_slice": slice});
    let middle = SMALL[0] as u64 / 2;
    let late = about("late");
    assert_eq!(late[0]["existing"], existing(18, 18, middle));
    assert_eq!(late[1]["existing"], existing(19, 19, middle));
    assert_eq!(late[0]["times"], 21, "numbers are those of the file");
    assert_eq!(about("far")[0]["existing"], existing(0, 0, 1000));
    assert_eq!(about("split")[0]["existing"], existing(0, 0, 4));

    let samples = server.printed();
    let sample = |path: &str| samples.contains(&format!("/tilecache/{path}\n"));
    assert!(
        sample(&format!("late/s00/xy/18/{middle}/0_0_0.png"))
            && sample("far/data/xy/1000/0_0_0.png")
            && sample("split/data/xy/4/0_0_0.png"),
        "{samples}"
    );
    let tile = |path: &str| server.tile(&format!("{path}/0_0_0.png")).picture();
    let black = Picture::of_plane(0, 0, |_, _| 0);
    let first = tile("late/s00/xy/18/1");
    assert_ne!(first, black);
    assert_eq!(
        tile("late/s00/xy/1"),
        first,
        "no time is the first that exists"
    );
    assert_eq!(tile("late/s00/xy/0/1"), black, "time 0 is not there");
    assert_eq!(tile("late/s01/xy/1"), tile("late/s01/xy/19/1"));
    assert_eq!(
        tile("mcfc/late/s00:R,s01:G/xy/1"),
        tile("mcfc/late/s00:R,s01:G/xy/18/1")
    );
    let voxels = |query: &str| {
        let answer = server.get(&format!("/voxels/late/s00/0/0-4_0-3_0-1.raw{query}"));
        (answer.status, answer.body)
    };
    assert_eq!(voxels(""), voxels("?time=18"));
    let projects = server.json("/projects.json").to_string();
    assert!(projects.contains("/late/s00/xy/18/"), "{projects}");
}

#[test]
fn plain_files_have_volumes_levels_and_other_datasets() {
    let place = Place::new();
    let path = place.path("plain.h5");
    file(&path, |file| {
        put(file, "raw", &zeros::<u8>(&[9, 81, 100]));
        put(file, "raw_2", &zeros::<u8>(&[9, 41, 50]));
        put(file, "raw_4", &zeros::<u8>(&[9, 21, 25]));
        put(file, "seg_0", &zeros::<u32>(&[9, 81, 100]));
        put(file, "pyramid/level_0", &zeros::<u8>(&[9, 81, 100]));
        put(file, "pyramid/level_1", &zeros::<u8>(&[5, 41, 50]));
        put(file, "vectors", &zeros::<u8>(&[81, 100, 3]));
        put(file, "centroids", &zeros::<f64>(&[3000, 3]));
        put(file, "matrices", &zeros::<f64>(&[3000, 4, 4]));
        put(file, "histogram", &zeros::<u64>(&[256, 256]));
        put(file, "thumbnail", &zeros::<u8>(&[256, 256]));
    });
    let found = found(&path);
    assert_eq!(
        (found.layout, names(&found)),
        (
            "plain",
            vec![
                "histogram",
                "raw",
                "seg_0",
                "vectors_0",
                "vectors_1",
                "vectors_2",
                "pyramid"
            ]
        )
    );
    let expected = [
        ("/raw", Some([1, 1, 1])),
        ("/raw_2", Some([2, 2, 1])),
        ("/raw_4", Some([4, 4, 1])),
    ];
    assert_eq!(levels(&found.channels[1]), expected);
    assert_eq!(
        levels(&found.channels[6]),
        [
            ("/pyramid/level_0", Some([1, 1, 1])),
            ("/pyramid/level_1", None)
        ]
    );
    assert_eq!(found.channels[2].kind, Kind::Labels);
}

#[test]
fn small_datasets_are_channels_if_there_are_no_larger_ones() {
    let place = Place::new();
    let path = place.path("toy.h5");
    file(&path, |file| {
        put(file, "toy", &cube([2, 3, 4]));
    });
    assert_eq!(value(&path, &only(&path), [3, 2, 1]), ([4, 3, 2], 123.0));
}
