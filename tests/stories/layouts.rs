//! Files as microscopes, programs and pipelines write them: each opens without configuration with
//! the right channels, time points, levels, voxel sizes and names. The files are written here;
//! [`layouts_genuine`](crate::layouts_genuine) opens real ones.

use voltile_base::paint::{Kind, Window};

use crate::common::Place;
use crate::common::made::{
    CORNER, SIZE, SMALL, axes, characters, cube, file, found, levels, names, numbers, only, put,
    text, times, value, voxel, zeros,
};
use ndarray::{ArrayD, IxDyn};
use voltile::layout::FoundChannel;

const NUCLEI: &str = r#"<?xml version="1.0"?><SpimData version="0.2"><SequenceDescription>
    <ImageLoader format="bdv.hdf5"><hdf5 type="relative">cells.h5</hdf5></ImageLoader>
    <ViewSetups>
      <ViewSetup><id>0</id><name>nuclei</name><voxelSize><unit>um</unit><size>0.5 0.25 2.0</size></voxelSize></ViewSetup>
    </ViewSetups>
    <Timepoints type="range"><first>0</first><last>3</last></Timepoints>
    <MissingViews><MissingView timepoint="2" setup="0"/></MissingViews>
    </SequenceDescription></SpimData>"#;

/// A BigDataViewer file: setup 0 at times 0 and 2, setup 1 at time 0.
fn big_data_viewer(file: &hdf5::File) {
    for setup in ["s00", "s01"] {
        let resolutions = ndarray::arr2(&[[1.0, 1.0, 1.0], [2.0, 2.0, 1.0]]).into_dyn();
        put(file, &format!("{setup}/resolutions"), &resolutions);
    }
    text(&file.group("s01").unwrap(), "dataType", "uint8");
    for cells in ["t00000/s00", "t00002/s00"] {
        put(
            file,
            &format!("{cells}/0/cells"),
            &cube(SMALL).mapv(|voxel| i16::from(voxel) - 200),
        );
        put(file, &format!("{cells}/1/cells"), &zeros::<i16>(&[2, 3, 4]));
    }
    put(file, "t00000/s01/0/cells", &cube(SMALL));
}

#[test]
fn big_data_viewer_without_its_xml() {
    let place = Place::new();
    let path = place.path("cells.h5");
    file(&path, big_data_viewer);
    let found = found(&path);
    assert_eq!(
        (found.layout, names(&found)),
        ("BigDataViewer", vec!["s00", "s01"])
    );
    let [legacy, typed] = &found.channels[..] else {
        panic!("two setups")
    };
    let paths = [
        ("/t00000/s00/0/cells", Some([1, 1, 1])),
        ("/t00000/s00/1/cells", Some([2, 2, 1])),
    ];
    assert_eq!(levels(legacy), paths);
    assert_eq!(
        (times(legacy), times(typed)),
        (vec![true, false, true], vec![true, false, false])
    );
    assert_eq!((&legacy.facts.label, voxel(legacy)), (&None, None));
    // 146 - 200 as a signed 16-bit number that means an unsigned one.
    assert_eq!(value(&path, legacy, CORNER.0), (SIZE, 65_482.0));
    assert_eq!(value(&path, typed, CORNER.0), (SIZE, CORNER.1));
}

#[test]
fn big_data_viewer_with_its_xml() {
    let place = Place::new();
    let path = place.path("cells.h5");
    file(&path, big_data_viewer);
    for (name, used) in [
        ("cells.xml", true),
        ("other.xml", true),
        ("readme.txt", false),
    ] {
        let xml = place.write(name, NUCLEI);
        let found = found(&path);
        let [nuclei, other] = &found.channels[..] else {
            panic!("two setups")
        };
        assert_eq!(
            (nuclei.facts.label.as_deref(), &other.facts.label),
            (used.then_some("nuclei"), &None),
            "{name}"
        );
        assert_eq!(
            (voxel(nuclei), voxel(other)),
            (used.then_some([0.5, 0.25, 2.0]), None)
        );
        assert_eq!(nuclei.facts.voxel_unit.as_deref(), used.then_some("µm"));
        let expected = if used {
            vec![true, false, false, false]
        } else {
            vec![true, false, true]
        };
        assert_eq!(
            times(nuclei),
            expected,
            "the XML lists a missing view and more times"
        );
        assert_eq!(found.because.contains(name), used);
        std::fs::remove_file(xml).unwrap();
    }
}

#[test]
fn xml_of_more_than_16_mib_beside_big_data_viewers_files_is_not_read_and_told() {
    let place = Place::new();
    let path = place.path("cells.h5");
    file(&path, big_data_viewer);
    let filled =
        |length: usize| NUCLEI.replace("</SpimData>", &("<a/>".repeat(length / 4) + "</SpimData>"));
    place.write("cells.xml", &filled((16 << 20) - 2048));
    assert_eq!(
        found(&path).channels[0].facts.label.as_deref(),
        Some("nuclei")
    );
    for name in ["cells.xml", "other.xml"] {
        let xml = place.write(name, &filled(17 << 20));
        let told = place.run(["inspect", "cells.h5"]);
        assert!(
            told.code == 0 && !told.out.contains("nuclei"),
            "{}",
            told.out
        );
        let said = told.out + &told.err;
        assert!(said.contains(name) && said.contains("16 MiB"), "{said}");
        std::fs::remove_file(xml).unwrap();
    }
    // What is read of a folder is bounded, too.
    for number in 0..9 {
        place.write(
            &format!("{number}.xml"),
            &filled(3 << 20).replace("cells.h5", "others.h5"),
        );
    }
    place.write("z.xml", NUCLEI);
    let told = place.run(["inspect", "cells.h5"]);
    assert!(
        told.out.contains("nuclei"),
        "those of other files are not parsed: {}{}",
        told.out,
        told.err
    );
}

#[test]
fn xml_beside_big_data_viewers_files_that_is_broken_is_told() {
    let place = Place::new();
    let path = place.path("cells.h5");
    file(&path, big_data_viewer);
    place.write("cells.xml", &NUCLEI.replace("</ViewSetups>", ""));
    let found = found(&path);
    assert_eq!(
        (names(&found), &found.channels[0].facts.label),
        (vec!["s00", "s01"], &None)
    );
    let [notice] = &found.notices[..] else {
        panic!("{:?}", found.notices)
    };
    assert!(
        notice.text.starts_with("cells.xml cannot be parsed (")
            && notice.text.ends_with("are not used"),
        "{notice:?}"
    );
}

#[test]
fn volumes_whose_inventory_is_of_another_version_or_damaged_are_plain_files_and_told() {
    let place = Place::new();
    let path = place.path("volume.h5");
    for (inventory, said) in [
        (r#"{"version": 2}"#, "is of version 2, and this voltile"),
        (r#"{"version": 1}"#, "cannot be read (missing field"),
        ("{", "is not JSON ("),
    ] {
        file(&path, |file| {
            text(file, "voltile_inventory", inventory);
            put(file, "image/0", &zeros::<u8>(&[1, 1, 9, 20, 30]));
        });
        let found = found(&path);
        assert_eq!((found.layout, names(&found)), ("plain", vec!["0"]));
        assert!(
            found.notices.len() == 1 && found.notices[0].text.contains(said),
            "{inventory}: {:?}",
            found.notices
        );
    }
}

#[test]
fn datasets_without_voxels_whose_name_suggests_labels_are_no_channels() {
    let place = Place::new();
    let path = place.path("empty.h5");
    file(&path, |file| {
        put(file, "raw", &zeros::<u8>(&[9, 20, 30]));
        put(file, "a/instances", &zeros::<u32>(&[9, 20, 0]));
        put(file, "b/instances", &zeros::<u32>(&[0, 20, 30]));
    });
    assert_eq!(names(&found(&path)), ["raw"]);
}

#[test]
fn big_data_viewer_with_cells_in_partitions() {
    let place = Place::new();
    let path = place.path("cells.h5");
    file(&place.path("cells-00.h5"), |part| {
        put(part, "t00000/s00/0/cells", &cube(SMALL));
    });
    file(&path, |main| {
        put(
            main,
            "s00/resolutions",
            &ndarray::arr2(&[[1.0, 1.0, 1.0]]).into_dyn(),
        );
        let cells = main.create_group("t00000/s00/0").unwrap();
        cells
            .link_external("cells-00.h5", "t00000/s00/0/cells", "cells")
            .unwrap();
        let lost = main.create_group("t00001/s00/0").unwrap();
        lost.link_external("cells-01.h5", "t00001/s00/0/cells", "cells")
            .unwrap();
    });
    let channel = only(&path);
    assert_eq!(
        times(&channel),
        [true, false],
        "a missing partition is a gap"
    );
    assert_eq!(value(&path, &channel, CORNER.0), (SIZE, CORNER.1));
    std::fs::remove_file(place.path("cells-00.h5")).unwrap();
    let outcome = place.run(["inspect".as_ref(), path.as_os_str()]);
    assert!(outcome.err.contains("cells-00.h5"), "{}", outcome.err);
}

/// The number in an attribute of Imaris.
fn size_of(size: [&str; 3], axis: usize) -> usize {
    size[axis].parse().unwrap()
}

/// An Imaris file: two channels at two times, padded, and a level that is halved and rounded down.
fn imaris(file: &hdf5::File) {
    for (time, channel) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        for (level, size, padded) in [
            (0, ["7", "5", "2"], [4, 8, 8]),
            (1, ["3", "2", "2"], [4, 4, 4]),
        ] {
            let path =
                format!("DataSet/ResolutionLevel {level}/TimePoint {time}/Channel {channel}");
            let image = |at: usize, n: usize| at < size_of(size, n);
            let data = ArrayD::from_shape_fn(IxDyn(&padded), |at| {
                let inside = image(at[0], 2) && image(at[1], 1) && image(at[2], 0);
                if inside {
                    (100 * at[0] + 10 * at[1] + at[2]) as u8
                } else {
                    255
                }
            });
            put(file, &format!("{path}/Data"), &data);
            put(file, &format!("{path}/Histogram"), &zeros::<u64>(&[256]));
            let group = file.group(&path).unwrap();
            ["X", "Y", "Z"]
                .iter()
                .zip(size)
                .for_each(|(axis, n)| characters(&group, &format!("ImageSize{axis}"), n));
        }
    }
    put(file, "Thumbnail/Data", &zeros::<u8>(&[256, 1024]));
    let about = file.create_group("DataSetInfo/Channel 1").unwrap();
    for (name, value) in [
        ("Name", "tubulin "),
        ("Color", "1.000 0.500 0.000"),
        ("ColorRange", "10.500 200.000"),
    ] {
        characters(&about, name, value);
    }
    let times = file.create_group("DataSetInfo/TimeInfo").unwrap();
    characters(&times, "TimePoint1", "2009-11-20 12:31:57.500");
    characters(&times, "TimePoint2", "2009-11-20 12:33:27.500");
    let image = file.create_group("DataSetInfo/Image").unwrap();
    characters(&image, "Unit", "um");
    for (axis, extent) in ["0.7", "1.0", "1.0"].iter().enumerate() {
        characters(&image, &format!("ExtMin{axis}"), "0.0");
        characters(&image, &format!("ExtMax{axis}"), extent);
    }
}

#[test]
fn imaris_with_padding_names_colours_and_ranges() {
    let place = Place::new();
    let path = place.path("cells.ims");
    file(&path, imaris);
    let found = found(&path);
    assert_eq!((found.layout, names(&found)), ("Imaris", vec!["c0", "c1"]));
    let [unnamed, tubulin] = &found.channels[..] else {
        panic!("two channels")
    };
    assert_eq!(
        (&unnamed.facts.label, &unnamed.facts.colour, unnamed.range),
        (&None, &None, None)
    );
    assert_eq!(
        (
            tubulin.facts.label.as_deref(),
            tubulin.facts.colour.as_deref()
        ),
        (Some("tubulin"), Some("#ff8000"))
    );
    assert_eq!(
        tubulin.range,
        Some(Window::Real {
            lo: 10.5,
            hi: 200.0
        })
    );
    assert_eq!(
        (voxel(tubulin), tubulin.facts.voxel_unit.as_deref()),
        (Some([0.7 / 7.0, 0.2, 0.5]), Some("µm"))
    );
    assert_eq!(
        tubulin.facts.voxel_size_from.as_deref(),
        Some("/DataSetInfo/Image: ExtMin, ExtMax")
    );
    assert_eq!(times(tubulin), [true, true]);
    let timing = tubulin.facts.timing.as_ref().unwrap();
    assert_eq!(
        (timing.step, timing.began.as_deref()),
        (90.0, Some("2009-11-20T12:31:57.500"))
    );
    let factors: Vec<_> = levels(tubulin)
        .into_iter()
        .map(|(_, factor)| factor)
        .collect();
    assert_eq!(factors, [Some([1, 1, 1]), Some([2, 2, 1])]);
    assert_eq!(
        value(&path, tubulin, CORNER.0),
        (SIZE, CORNER.1),
        "without the padding"
    );
}

#[test]
fn imaris_with_a_file_for_each_channel() {
    let place = Place::new();
    let (path, part) = (place.path("cells.ims"), place.path("cells--C00--T00000.h5"));
    file(&part, |part| {
        let data = put(part, "ResolutionLevel 0/Data", &cube(SMALL));
        numbers(&data, "element_size_um", &[1.0, 1.0, 10.0]);
        let group = part.group("ResolutionLevel 0").unwrap();
        [("X", "7"), ("Y", "5"), ("Z", "2")]
            .into_iter()
            .for_each(|(axis, n)| characters(&group, &format!("ImageSize{axis}"), n));
    });
    file(&path, |main| {
        let time = main
            .create_group("DataSet/ResolutionLevel 0/TimePoint 0")
            .unwrap();
        time.link_external("./cells--C00--T00000.h5", "ResolutionLevel 0", "Channel 0")
            .unwrap();
        let image = main.create_group("DataSetInfo/Image").unwrap();
        let hints = [("Sample", "0.1"), ("Line", "0.1"), ("Plane", "0.3")];
        hints.into_iter().for_each(|(name, size)| {
            characters(&image, &format!("RecordingEntry{name}Spacing"), size);
        });
    });
    let whole = only(&path);
    assert_eq!(value(&path, &whole, CORNER.0), (SIZE, CORNER.1));
    assert_eq!(
        (voxel(&whole), times(&whole)),
        (Some([0.1, 0.1, 0.3]), vec![true])
    );
    let alone = only(&part);
    assert_eq!(
        (alone.name.as_str(), voxel(&alone)),
        ("c0", Some([1.0, 1.0, 10.0]))
    );
    assert_eq!(value(&part, &alone, CORNER.0), (SIZE, CORNER.1));
}

#[test]
fn ilastik_with_axistags_units_and_a_range() {
    let place = Place::new();
    let path = place.path("probabilities.h5");
    file(&path, |file| {
        let data = put(file, "exported_data", &zeros::<f32>(&[3, 5, 7, 2]));
        let axis = |key: &str, resolution: f64| {
            format!(r#"{{"key":"{key}","typeFlags":2,"resolution":{resolution}}}"#)
        };
        let tags = [
            axis("y", 4.0),
            axis("z", 0.05),
            axis("x", 4.0),
            axis("c", 0.0),
        ]
        .join(",");
        text(&data, "axistags", &format!(r#"{{"axes":[{tags}]}}"#));
        text(&data, "axis_units", r#"{"x":"nm","y":"nm","z":"µm"}"#);
        numbers(&data, "drange", &[0.0, 0.5]);
        text(&data, "display_mode", "grayscale");
        let ids = put(file, "objects", &zeros::<u32>(&SMALL));
        text(
            &ids,
            "axistags",
            r#"{"axes":[{"key":"z"},{"key":"y"},{"key":"x"}]}"#,
        );
        text(&ids, "display_mode", "random-colortable");
    });
    let found = found(&path);
    assert_eq!(
        (found.layout, names(&found)),
        (
            "ilastik",
            vec!["exported_data_0", "exported_data_1", "objects"]
        )
    );
    let second = &found.channels[1];
    assert_eq!((axes(second).as_str(), second.kind), ("yzxc", Kind::Image));
    assert_eq!(
        (voxel(second), second.facts.voxel_unit.as_deref()),
        (Some([4.0, 4.0, 50.0]), Some("nm"))
    );
    assert_eq!(second.range, Some(Window::Real { lo: 0.0, hi: 0.5 }));
    assert_eq!(found.channels[2].kind, Kind::Labels);
}

#[test]
fn axistags_that_list_no_axes_are_told() {
    let place = Place::new();
    let path = place.path("broken.h5");
    file(&path, |file| {
        let data = put(file, "data", &zeros::<u8>(&[3, 50, 70]));
        text(&data, "axistags", "{'axes': [z, y, x]}");
    });
    let found = found(&path);
    assert_eq!(axes(&found.channels[0]), "zyx");
    let notices = &found.channels[0].notices;
    assert!(notices[0].text.contains("axistags"), "{notices:?}");
}

#[test]
fn cremi_with_labels_at_an_offset() {
    let place = Place::new();
    let path = place.path("sample.h5");
    file(&path, |file| {
        let raw = put(file, "volumes/raw", &cube([4, 20, 20]));
        let ids = put(
            file,
            "volumes/labels/neuron_ids",
            &zeros::<u64>(&[2, 10, 10]),
        );
        put(file, "volumes/labels/clefts", &zeros::<u64>(&[2, 10, 10]));
        [&raw, &ids]
            .into_iter()
            .for_each(|volume| numbers(volume, "resolution", &[40.0, 4.0, 4.0]));
        numbers(&ids, "offset", &[40.0, 20.0, 24.0]);
        put(file, "annotations/locations", &zeros::<f64>(&[500, 3]));
    });
    let found = found(&path);
    assert_eq!(
        (found.layout, names(&found)),
        ("CREMI", vec!["raw", "clefts", "neuron_ids"])
    );
    let [raw, clefts, ids] = &found.channels[..] else {
        panic!("three volumes")
    };
    assert_eq!(
        [raw.kind, clefts.kind, ids.kind],
        [Kind::Image, Kind::Labels, Kind::Labels]
    );
    assert_eq!(
        (voxel(raw), voxel(ids)),
        (Some([4.0, 4.0, 40.0]), Some([4.0, 4.0, 40.0]))
    );
    assert_eq!(
        voxel(clefts),
        voxel(ids),
        "volumes of the same shape have the same voxel size"
    );
    let origin = |channel: &FoundChannel| {
        channel
            .transforms
            .first()
            .map(|first| <[f64; 3]>::from(first.translation()))
    };
    assert_eq!(origin(ids), Some([24.0, 20.0, 40.0]), "in nanometres");
    assert_eq!(
        origin(raw),
        Some([0.0; 3]),
        "an image without an offset begins at 0"
    );
    assert!(ids.notices.is_empty() && raw.notices.is_empty());
}

#[test]
fn flyem_and_gala_have_labels_in_a_stack() {
    let place = Place::new();
    let [labels, image] = ["labels.h5", "image.h5"].map(|name| place.path(name));
    file(&labels, |file| {
        let ids = ArrayD::from_shape_fn(IxDyn(&[4, 20, 20]), |at| {
            (at[0] * 400 + at[1] * 20 + at[2]) as i32
        });
        put(file, "stack", &ids);
        // More rows than fit 65,536 values, and ids that need 64 bits.
        let table = ArrayD::from_shape_fn(IxDyn(&[40_000, 2]), |at| {
            (at[0] + 100) as u64 + at[1] as u64 * (1 << 60)
        });
        put(file, "transforms", &table);
    });
    file(&image, |file| {
        put(file, "stack", &cube([4, 20, 20]));
    });
    let both = found(&labels);
    assert_eq!(names(&both), ["stack", "superpixels"]);
    assert!(
        both.channels
            .iter()
            .all(|channel| channel.kind == Kind::Labels && channel.notices.is_empty())
    );
    let server = place.serve([&labels]);
    let ids = |channel: &str| {
        let answer = server.get(&format!("/voxels/labels/{channel}/0/0-20_4-6_0-1.raw"));
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body
    };
    let bytes = |ids: Vec<u64>| {
        ids.iter()
            .flat_map(|id| id.to_le_bytes())
            .collect::<Vec<u8>>()
    };
    let body = |id: u64| if id < 100 { id } else { id + (1 << 60) };
    assert_eq!(
        ids("stack"),
        bytes((80..120).map(body).collect()),
        "an id that is not listed is a body"
    );
    assert_eq!(
        ids("superpixels"),
        (80..120_i32)
            .flat_map(i32::to_le_bytes)
            .collect::<Vec<u8>>()
    );
    assert_eq!(
        (found(&image).layout, only(&image).kind),
        ("FlyEM/gala", Kind::Image)
    );
}

#[test]
fn superpixels_have_a_name_of_their_own_and_are_served_by_path_too() {
    let place = Place::new();
    let path = place.path("seg.h5");
    file(&path, |file| {
        put(
            file,
            "stack",
            &ArrayD::from_shape_fn(IxDyn(&[4, 20, 20]), |at| (at[2] + 1) as u32),
        );
        put(
            file,
            "transforms",
            &ArrayD::from_shape_fn(IxDyn(&[20, 2]), |at| (at[0] + 1 + 100 * at[1]) as u64),
        );
        put(file, "superpixels", &zeros::<u8>(&[4, 20, 20]));
    });
    assert_eq!(
        names(&found(&path)),
        ["stack", "stack_superpixels", "superpixels"]
    );
    // What `inspect` prints is equivalent.
    let inspected = place.run(["inspect", "seg.h5"]);
    let printed = inspected
        .out
        .split("your own configuration:\n")
        .nth(1)
        .unwrap();
    assert_eq!(
        printed.matches("stored_values = true").count(),
        1,
        "{printed}"
    );
    place.write("voltile.toml", printed);
    let server = place.serve::<&str>([]);
    let ids = |channel: &str| {
        server
            .get(&format!("/voxels/seg/{channel}/0/0-20_0-1_0-1.raw"))
            .body
    };
    assert_eq!(
        ids("stack"),
        (101..121_u64)
            .flat_map(u64::to_le_bytes)
            .collect::<Vec<u8>>()
    );
    assert_eq!(
        ids("stack_superpixels"),
        (1..21_u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>()
    );
    assert_eq!(ids("superpixels"), [0; 20]);
}

#[test]
fn a_table_of_bodies_that_cannot_be_used_is_remarked() {
    let place = Place::new();
    file(&place.path("seg.h5"), |file| {
        put(
            file,
            "stack",
            &ArrayD::from_shape_fn(IxDyn(&[4, 20, 20]), |at| (at[2] + 1) as u32),
        );
        put(file, "transforms", &zeros::<f64>(&[20, 2]));
    });
    let stack = only(&place.path("seg.h5"));
    assert_eq!(stack.kind, Kind::Labels);
    assert!(
        stack.notices[0]
            .text
            .starts_with("its ids are shown as stored, not the ids of bodies"),
        "{stack:?}"
    );
}

#[test]
fn plantseg_and_fiji_have_element_sizes() {
    let place = Place::new();
    let path = place.path("ovule.h5");
    file(&path, |file| {
        let raw = put(file, "raw", &zeros::<u16>(&[2, 8, 9, 10]));
        numbers(&raw, "element_size_um", &[0.25, 0.1, 0.125]);
        put(file, "label", &zeros::<u16>(&[8, 9, 10]));
        put(file, "predictions", &zeros::<f32>(&[8, 9, 10]));
    });
    let found = found(&path);
    assert_eq!(
        (found.layout, names(&found)),
        (
            "PlantSeg/Fiji",
            vec!["label", "predictions", "raw_0", "raw_1"]
        )
    );
    let kinds: Vec<Kind> = found.channels.iter().map(|channel| channel.kind).collect();
    assert_eq!(kinds, [Kind::Labels, Kind::Image, Kind::Image, Kind::Image]);
    assert!(
        found
            .channels
            .iter()
            .all(|channel| voxel(channel) == Some([0.125, 0.1, 0.25]))
    );
    assert_eq!(
        (
            axes(&found.channels[3]).as_str(),
            found.channels[3].facts.voxel_unit.as_deref()
        ),
        ("czyx", Some("µm"))
    );
}

#[test]
fn fiji_has_a_group_for_each_time_point() {
    let place = Place::new();
    let path = place.path("movie.h5");
    file(&path, |file| {
        for time in [1, 2, 4] {
            for channel in 0..2 {
                let data = put(file, &format!("t{time}/channel{channel}"), &cube(SMALL));
                numbers(&data, "element_size_um", &[2.0, 0.5, 0.5]);
            }
        }
    });
    let found = found(&path);
    assert_eq!(
        (found.layout, names(&found)),
        ("Fiji HDF5", vec!["channel0", "channel1"])
    );
    let second = &found.channels[1];
    assert_eq!(
        (times(second), voxel(second)),
        (vec![true, true, false, true], Some([0.5, 0.5, 2.0]))
    );
    assert_eq!(value(&path, second, CORNER.0), (SIZE, CORNER.1));
}
