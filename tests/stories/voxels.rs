//! Boxes of voxels for analysis: NumPy files, raw bytes and hyperstacks, of any level, in the
//! data's own type. That they hold the voxels of the file is shown by [`crate::formats`].

use ndarray::{Array3, Array4, ArrayD, Dimension, IxDyn, Zip, s};

use crate::common::wire::Answer;
use crate::common::{Place, Server, fixture, made};
use crate::formats::voxels::{npy, pages};

fn get(server: &Server, path: &str) -> Answer {
    server.get(&format!("/voxels/{path}"))
}

const SHAPE: (usize, usize, usize) = (19, 70, 45);

fn volume<T>(of: fn(u64) -> T) -> Array3<T> {
    Array3::from_shape_fn(SHAPE, |(z, y, x)| {
        of((z * 7919 + y * 131 + x * 3) as u64 * 0x9E37_79B9)
    })
}

#[test]
fn raw_boxes_tell_shape_and_type_in_headers_and_time_points_are_chosen() {
    let place = Place::new();
    let data = Array4::from_shape_fn((3, 5, 6, 7), |(t, z, y, x)| {
        (t * 100 + z * 42 + y * 7 + x) as i16 - 200
    });
    let file = hdf5::File::create(place.path("a.h5")).unwrap();
    file.new_dataset_builder()
        .with_data(&data)
        .chunk((1, 4, 4, 4))
        .deflate(1)
        .create("raw")
        .unwrap();
    file.close().unwrap();
    place.write(
        "voltile.toml",
        "[datasets.a]\nfile = \"a.h5\"\n[datasets.a.channels.raw]\npath = \"/raw\"\naxes = \"tzyx\"\n",
    );
    let server = place.serve::<&str>([]);
    let answer = get(&server, "a/raw/0/1-7_2-6_0-5.raw?time=2");
    assert_eq!(
        (
            answer.header("x-voltile-shape"),
            answer.header("x-voltile-type")
        ),
        (Some("5,4,6"), Some("int16"))
    );
    let expected: Vec<u8> = data
        .slice(s![2, .., 2..6, 1..7])
        .iter()
        .flat_map(|voxel| voxel.to_le_bytes())
        .collect();
    assert!(answer.body == expected);
    assert!(
        answer
            .header("access-control-expose-headers")
            .unwrap()
            .contains("X-Voltile-Shape")
    );
    assert_eq!(get(&server, "a/raw/0/0-1_0-1_0-1.npy?time=3").status, 404);
}

#[test]
fn raw_boxes_list_the_parts_that_the_file_lacks() {
    let place = Place::new();
    made::file(&place.path("there.h5"), |file| {
        made::put(file, "data", &ArrayD::from_elem(IxDyn(&[4, 6, 8]), 7_u8));
    });
    made::file(&place.path("half.h5"), |file| {
        let (part, whole) = ((4, 6, 8), (8, 6, 8));
        let data = file.new_dataset_builder().empty::<u8>().shape(whole);
        let data = data.virtual_map("there.h5", "data", part, .., whole, (0..4, .., ..));
        let data = data.virtual_map("gone.h5", "data", part, .., whole, (4..8, .., ..));
        data.create("raw").unwrap();
    });
    let server = place.serve(["half.h5"]);
    for (path, expected) in [
        ("raw/0/0-8_0-6_0-8.raw", Some("0-8_0-6_4-8")),
        ("raw/0/2-5_1-3_3-6.raw", Some("2-5_1-3_4-6")),
        ("raw/0/2-5_1-3_0-4.raw", Some("")),
        ("raw/0/2-5_1-3_0-4.npy", None),
        ("raw/1/0-2_0-2_0-8.raw", None),
    ] {
        let answer = get(&server, &format!("half/{path}"));
        assert_eq!(
            (answer.status, answer.header("x-voltile-missing")),
            (200, expected),
            "{path}"
        );
    }
}

#[test]
fn the_list_of_missing_parts_names_those_of_every_component_once_and_is_short() {
    let place = Place::new();
    made::file(&place.path("colours.h5"), |file| {
        let whole = (1, 16, 16, 3);
        let mut data = file.new_dataset_builder().empty::<u8>().shape(whole);
        for (component, row) in [(0, 2), (1, 2), (2, 5)] {
            let region = (.., row..row + 1, .., component..component + 1);
            data = data.virtual_map("gone.h5", "data", (1, 1, 16, 1), .., whole, region);
        }
        data.create("rgb").unwrap();
    });
    made::file(&place.path("columns.h5"), |file| {
        let whole = (1, 4, 600);
        let mut data = file.new_dataset_builder().empty::<u8>().shape(whole);
        for x in (0..600).step_by(2) {
            let region = (.., .., x..x + 1);
            data = data.virtual_map("gone.h5", "data", (1, 4, 1), .., whole, region);
        }
        data.create("raw").unwrap();
    });
    let server = place.serve(["colours.h5", "columns.h5"]);
    for (path, expected) in [
        (
            "colours/rgb/0/0-16_0-16_0-1.raw",
            Some("0-16_2-3_0-1,0-16_5-6_0-1"),
        ),
        (
            "columns/raw/0/0-5_0-4_0-1.raw",
            Some("0-1_0-4_0-1,2-3_0-4_0-1,4-5_0-4_0-1"),
        ),
        ("columns/raw/0/0-600_0-4_0-1.raw", None),
    ] {
        let answer = get(&server, path);
        assert_eq!(
            (answer.status, answer.header("x-voltile-missing")),
            (200, expected),
            "{path}"
        );
    }
}

#[test]
fn what_does_not_exist_is_404_what_is_too_large_413_and_what_is_known_304() {
    let place = Place::new();
    let file = hdf5::File::create(place.path("a.h5")).unwrap();
    file.new_dataset_builder()
        .with_data(&volume(|value| value as u8))
        .create("raw")
        .unwrap();
    file.close().unwrap();
    let server = place.serve(["a.h5", "--set", "render.max_voxels_per_box=1000"]);
    for (path, part) in [
        ("b/raw/0/0-1_0-1_0-1.npy", "there is no dataset b"),
        ("a/b/0/0-1_0-1_0-1.npy", "has no channel b"),
        ("a/raw/9/0-1_0-1_0-1.npy", "has the levels 0 to"),
        ("a/raw/0/0-46_0-1_0-1.npy", "reaches beyond level 0"),
        ("a/raw/0/0-1_0-1_19-20.npy", "45 × 70 × 19"),
        (
            "a/raw/0/18446744073709551614-18446744073709551615_0-1_0-1.npy",
            "reaches beyond",
        ),
        ("a/raw/0/1-1_0-1_0-1.npy", "is not a box"),
        ("a/raw/0/0-1_0-1_0-1.png", "is not a box"),
        ("a/raw/0-1_0-1_0-1.npy", "too few segments"),
    ] {
        let answer = get(&server, path);
        assert_eq!(answer.status, 404, "{path}");
        assert!(
            answer.problem().contains(part),
            "{path}: {}",
            answer.problem()
        );
    }
    let large = get(&server, "a/raw/0/0-45_0-70_0-1.npy");
    assert_eq!(large.status, 413);
    assert!(
        large.problem().contains("3150 stored voxels")
            && large.problem().contains("max_voxels_per_box")
    );
    let wasteful = place.serve(["a.h5", "--set", "render.max_voxels_per_box=100"]);
    assert_eq!(
        get(&wasteful, "a/raw/0/0-1_0-70_0-1.npy").status,
        200,
        "unfiltered voxels are copied one by one"
    );
    let known = get(&server, "a/raw/0/0-4_0-4_0-4.npy");
    let again = server.ask(
        "GET",
        "/voxels/a/raw/0/0-4_0-4_0-4.npy",
        &[("if-none-match", known.etag())],
    );
    assert_eq!(again.status, 304);
}

#[test]
fn a_thin_box_through_many_compressed_chunks_is_refused() {
    let place = Place::new();
    let file = hdf5::File::create(place.path("a.h5")).unwrap();
    file.new_dataset_builder()
        .with_data(&volume(|value| value as u8))
        .chunk((19, 64, 45))
        .deflate(1)
        .create("raw")
        .unwrap();
    file.close().unwrap();
    let server = place.serve(["a.h5", "--set", "render.max_voxels_per_box=100"]);
    let answer = get(&server, "a/raw/0/0-1_0-70_0-1.npy");
    assert_eq!(answer.status, 413);
    assert!(
        answer
            .problem()
            .contains("70 stored voxels, but the chunks that hold them have 109440"),
        "{answer:?}"
    );
}

#[test]
fn a_tile_service_cannot_take_the_place_of_other_addresses() {
    let place = Place::with("[[server.mounts]]\ntile_service = \"voxels\"\n");
    let outcome = place.run(["check"]);
    assert_ne!(outcome.code, 0);
    assert!(
        outcome.err.contains("\"voxels\" cannot be a tile service"),
        "{}",
        outcome.err
    );
}

#[test]
fn a_box_of_a_derived_level_decodes_each_chunk_once() {
    let place = Place::new();
    let data = Array3::from_shape_fn((48, 800, 700), |(z, y, x)| {
        ((z * 7 + y * 3 + x) % 251) as u8
    });
    let file = hdf5::File::create(place.path("a.h5")).unwrap();
    file.new_dataset_builder()
        .with_data(&data)
        .chunk((16, 200, 350))
        .deflate(1)
        .create("raw")
        .unwrap();
    file.close().unwrap();
    // Without finishing chunks in between, and without a sample, which reads chunks too.
    let server = place.serve([
        "a.h5",
        "--set",
        "render.neighbours=0",
        "--set",
        "render.verify=never",
        "--set",
        "datasets.a.channels.raw.window=full",
    ]);
    // 26 MB: read in several parts.
    let voxels = npy(&get(&server, "a/raw/1/0-350_0-400_0-48.npy"));
    let means = Zip::from(data.slice(s![.., ..;2, ..;2]))
        .and(data.slice(s![.., ..;2, 1..;2]))
        .and(data.slice(s![.., 1..;2, ..;2]))
        .and(data.slice(s![.., 1..;2, 1..;2]))
        .map_collect(|a, b, c, d| {
            let sum = u32::from(*a) + u32::from(*b) + u32::from(*c) + u32::from(*d);
            ((sum + 2) / 4) as u8
        });
    let expected = means.into_raw_vec_and_offset().0;
    assert!(voxels == ("|u1".to_owned(), vec![48, 400, 350], expected));
    assert_eq!(server.count("voltile_chunk_reads_total"), 3 * 4 * 2);
}

#[test]
fn a_hyperstack_for_imagej_has_the_voxels_and_their_size() {
    let place = Place::new();
    let data = volume(|value| value as u16);
    let file = hdf5::File::create(place.path("a.h5")).unwrap();
    file.new_dataset_builder()
        .with_data(&data)
        .create("raw")
        .unwrap();
    file.close().unwrap();
    place.write(
        "voltile.toml",
        "[datasets.a]\nfile = \"a.h5\"\nvoxel_size = [4, 5, 40]\n",
    );
    let server = place.serve::<&str>([]);
    let (found, description, resolutions) = pages(&get(&server, "a/raw/0/5-33_17-60_3-19.tif"));
    let expected: Vec<Vec<u8>> = (3..19)
        .map(|z| {
            data.slice(s![z, 17..60, 5..33])
                .iter()
                .flat_map(|voxel| voxel.to_le_bytes())
                .collect()
        })
        .collect();
    assert!(found == expected);
    // ImageJ reads only the first page, and takes what follows its voxels for the other slices.
    let (file, all) = (
        get(&server, "a/raw/0/5-33_17-60_3-19.tif").body,
        expected.concat(),
    );
    assert!(
        (0..64).any(|start| file[start..].starts_with(&all)),
        "the voxels lie together at the beginning"
    );
    for line in [
        "ImageJ=",
        "images=16\n",
        "slices=16\n",
        "hyperstack=true\n",
        "unit=nm\n",
        "spacing=40\n",
    ] {
        assert!(description.contains(line), "{description}");
    }
    assert_eq!(resolutions, [0.25, 0.2], "pixels for each nanometre");
    let (coarse, description, resolutions) = pages(&get(&server, "a/raw/1/0-3_0-2_0-1.tif"));
    assert_eq!((coarse.len(), resolutions), (1, vec![0.125, 0.1]));
    assert!(description.contains("images=1\n"), "{description}");
}

#[test]
fn types_that_imagej_does_not_have_are_refused_and_colours_are_not() {
    let place = Place::new();
    made::file(&place.path("a.h5"), |file| {
        made::put(file, "ids", &made::zeros::<u32>(&[4, 20, 20]));
    });
    place.write(
        "voltile.toml",
        &format!(
            "[datasets.a]\nfile = \"a.h5\"\n[datasets.rgb]\nfile = {:?}\n[datasets.rgb.channels.three]\npath = \"/three\"\n\
             axes = \"zyxc\"\nkind = \"rgb\"\n",
            fixture("rgb.h5")
        ),
    );
    let server = place.serve::<&str>([]);
    let refused = get(&server, "a/ids/0/0-1_0-1_0-1.tif");
    assert!(
        refused.status == 404 && refused.problem().contains(".npy"),
        "{refused:?}"
    );
    let (found, ..) = pages(&get(&server, "rgb/three/0/0-8_0-6_0-2.tif"));
    assert!(found.concat() == npy(&get(&server, "rgb/three/0/0-8_0-6_0-2.npy")).2);
}

#[test]
fn several_channels_are_one_hyperstack() {
    let place = Place::new();
    let voxel =
        |channel: usize, at: &[usize]| (1000 * channel + 100 * at[0] + 10 * at[1] + at[2]) as u16;
    let data =
        |channel: usize| ArrayD::from_shape_fn(IxDyn(&[4, 8, 9]), |at| voxel(channel, at.slice()));
    made::file(&place.path("cells.h5"), |file| {
        (0..3).for_each(|channel| drop(made::put(file, &format!("c{channel}"), &data(channel))));
        made::put(file, "bytes", &made::zeros::<u8>(&[4, 8, 9]));
    });
    let server = place.serve(["cells.h5"]);
    let answer = get(&server, "cells/c0,c2/0/2-8_1-5_1-3.tif");
    let (found, description, _) = pages(&answer);
    let page = |channel: usize, z: usize| -> Vec<u8> {
        (1..5)
            .flat_map(|y| (2..8).flat_map(move |x| voxel(channel, &[z, y, x]).to_le_bytes()))
            .collect()
    };
    // As in ImageJ, the channel changes faster than the slice.
    assert_eq!(found, [page(0, 1), page(2, 1), page(0, 2), page(2, 2)]);
    for line in [
        "images=4\n",
        "channels=2\n",
        "slices=2\n",
        "mode=composite\n",
    ] {
        assert!(description.contains(line), "{description}");
    }
    let problem = |path: &str| {
        let refused = get(&server, path);
        assert_eq!(refused.status, 404, "{path}");
        refused.problem()
    };
    let refused = problem("cells/c0,bytes/0/0-1_0-1_0-1.tif");
    assert!(
        refused.contains("cannot be in one file: their voxels are uint16 and uint8; ask for each"),
        "{refused}"
    );
    assert!(problem("cells/c0,c9/0/0-1_0-1_0-1.tif").contains("c9"));
    assert!(problem("cells/c0,c1/0/0-1_0-1_0-1.npy").contains("one channel"));
}

const OFFSETS: &str = "[datasets.cells]\nfile = \"cells.h5\"\nvoxel_size = [4, 4, 40]\n\
    [datasets.cells.channels.c0]\npath = \"/c0\"\nwindow = [100, 900]\n\
    [datasets.cells.channels.c1]\npath = \"/c1\"\nwindow = [900, 100]\noffset = [3, -2, 1]\n\
    [datasets.cells.channels.far]\npath = \"/c1\"\nwindow = \"auto\"\noffset = [900, 0, 0]\n";

#[test]
fn channels_at_other_positions_are_cut_in_one_space_and_what_they_do_not_cover_is_zero_and_named() {
    let place = Place::new();
    let voxel = |channel: usize, at: [usize; 3]| {
        (1 + 8000 * channel + 400 * at[0] + 20 * at[1] + at[2]) as u16
    };
    let (first, second) = ([6, 12, 18], [5, 9, 11]);
    made::file(&place.path("cells.h5"), |file| {
        for (channel, size) in [first, second].into_iter().enumerate() {
            let data =
                ArrayD::from_shape_fn(IxDyn(&size), |at| voxel(channel, [at[0], at[1], at[2]]));
            made::put(file, &format!("c{channel}"), &data);
        }
    });
    place.write("voltile.toml", OFFSETS);
    let server = place.serve::<&str>([]);
    // The mean of what there is of a box at a level.
    let stored = |channel: usize, [z, y, x]: [usize; 3], level: u32| -> u16 {
        let (size, step) = ([first, second][channel], 1 << level);
        let (mut sum, mut count) = (0, 0);
        for y in y * step..((y + 1) * step).min(size[1]) {
            for x in x * step..((x + 1) * step).min(size[2]) {
                (sum, count) = (sum + u32::from(voxel(channel, [z, y, x])), count + 1);
            }
        }
        ((2 * sum + count) / (2 * count)) as u16
    };
    for (level, [x0, x1], [y0, y1], [z0, z1], shift, covered) in [
        (0, [0, 18], [0, 12], [0, 6], [1, -2, 3], "3-14_0-7_1-6"),
        (0, [5, 12], [2, 6], [2, 4], [1, -2, 3], ""),
        // Of an offset of 3 and -2 there remain 1 and -1.
        (1, [0, 9], [0, 6], [0, 6], [1, -1, 1], "1-7_0-4_1-6"),
    ] {
        let (found, description, _) = pages(&get(
            &server,
            &format!("cells/c0,c1,far/{level}/{x0}-{x1}_{y0}-{y1}_{z0}-{z1}.tif"),
        ));
        let page = |channel: usize, z: usize| -> Vec<u8> {
            let size = [first, second][channel].map(|extent| extent as i64);
            let size = [
                size[0],
                (size[1] + (1 << level) - 1) >> level,
                (size[2] + (1 << level) - 1) >> level,
            ];
            let shift = if channel == 0 { [0; 3] } else { shift };
            let mut all = Vec::new();
            for (y, x) in (y0..y1).flat_map(|y| (x0..x1).map(move |x| (y, x))) {
                let own: [i64; 3] =
                    std::array::from_fn(|axis| [z, y, x][axis] as i64 - shift[axis]);
                let is_there = (0..3).all(|axis| (0..size[axis]).contains(&own[axis]));
                let value = if is_there {
                    stored(channel, own.map(|at| at as usize), level)
                } else {
                    0
                };
                all.extend(value.to_le_bytes());
            }
            all
        };
        let nothing = vec![0; 2 * (x1 - x0) * (y1 - y0)];
        let expected: Vec<Vec<u8>> = (z0..z1)
            .flat_map(|z| [page(0, z), page(1, z), nothing.clone()])
            .collect();
        assert!(found == expected, "level {level}, {x0}-{x1}");
        let line = format!("covered_c1={covered}\n");
        assert!(
            description.contains(&line) != covered.is_empty(),
            "{description}"
        );
        assert!(
            description.contains("covered_far=0-0_0-0_0-0\n")
                && !description.contains("covered_c0"),
            "{description}"
        );
    }
}

#[test]
fn a_hyperstack_has_the_display_ranges_and_the_colours_in_force() {
    use tiff::decoder::Decoder;
    use tiff::tags::Tag;
    let place = Place::new();
    made::file(&place.path("cells.h5"), |file| {
        (0..2).for_each(|channel| {
            drop(made::put(
                file,
                &format!("c{channel}"),
                &made::zeros::<i16>(&[2, 8, 9]),
            ));
        });
    });
    place.write(
        "voltile.toml",
        &OFFSETS[..OFFSETS.find("[datasets.cells.channels.far]").unwrap()],
    );
    let server = place.serve::<&str>([]);
    let answer = get(&server, "cells/c0,c1/0/0-9_0-8_0-2.tif");
    let mut file = Decoder::new(std::io::Cursor::new(&answer.body)).unwrap();
    // ImageJ's tags, in the byte order of the file: the length of a header and of all parts; and
    // these.
    let counts = file.get_tag_u32_vec(Tag::Unknown(50838)).unwrap();
    assert_eq!(counts, [20, 32, 768, 768]);
    let parts = file.get_tag_u8_vec(Tag::Unknown(50839)).unwrap();
    let (header, parts) = parts.split_at(20);
    assert_eq!(header, b"JIJIgnar\x01\0\0\0stul\x02\0\0\0");
    let (ranges, tables) = parts.split_at(32);
    let ranges: Vec<f64> = ranges
        .as_chunks()
        .0
        .iter()
        .map(|bytes| f64::from_le_bytes(*bytes))
        .collect();
    // ImageJ adds 32768 to signed integers. The second window is inverted: so is its table.
    assert_eq!(ranges, [32868.0, 33668.0, 32868.0, 33668.0]);
    let channels = server.json("/datasets/cells.json")["channels"].clone();
    for (number, table) in tables.chunks(768).enumerate() {
        let letter = channels[number]["composite_colour"].as_str().unwrap();
        let has = match letter {
            "G" => [0, 1, 0],
            "M" => [1, 0, 1],
            other => panic!("{other}"),
        };
        for shade in 0..256 {
            let value = if number == 1 { 255 - shade } else { shade };
            let found = [0, 1, 2].map(|part| usize::from(table[256 * part + shade]));
            assert_eq!(
                found,
                has.map(|part| part * value),
                "channel {number}, shade {shade}"
            );
        }
    }
    let (_, alone, _) = pages(&get(&server, "cells/c0/0/0-9_0-8_0-2.tif"));
    assert!(alone.contains("min=32868.0\nmax=33668.0\n"), "{alone}");
    let other = place.serve(["--set", "datasets.cells.channels.c0.window=[0,1]"]);
    assert_ne!(
        get(&other, "cells/c0,c1/0/0-9_0-8_0-2.tif").etag(),
        answer.etag(),
        "the range is part of the file"
    );
    let npy = |server: &Server| get(server, "cells/c0/0/0-9_0-8_0-2.npy").etag().to_owned();
    assert_eq!(npy(&other), npy(&server), "and of no other");
}

#[test]
fn the_mean_of_equal_floats_is_that_float() {
    fn check<T: hdf5::H5Type + Copy>(value: T, voxel: &[u8]) {
        let place = Place::new();
        made::file(&place.path("a.h5"), |file| {
            let data = ArrayD::from_elem(IxDyn(&[3, 37, 29]), value);
            file.new_dataset_builder()
                .with_data(&data)
                .chunk((2, 16, 16))
                .deflate(1)
                .create("raw")
                .unwrap();
        });
        let server = place.serve(["a.h5"]);
        for level in 1..=5_usize {
            let (x, y) = (29_usize.div_ceil(1 << level), 37_usize.div_ceil(1 << level));
            let (_, _, bytes) = npy(&get(&server, &format!("a/raw/{level}/0-{x}_0-{y}_0-3.npy")));
            assert!(bytes == voxel.repeat(3 * y * x), "level {level}");
            let tile = server
                .tile(&format!("a/raw/xy/1/0_0_{level}.png"))
                .picture();
            let lightest = tile.pixels.iter().max();
            assert_eq!(
                lightest,
                Some(&0),
                "level {level}: nothing is above the window"
            );
        }
    }
    check(0.1_f32, &0.1_f32.to_le_bytes());
    for value in [0.1, -1.0 / 3.0] {
        check::<f64>(value, &value.to_le_bytes());
    }
}

#[test]
fn a_hyperstack_that_its_places_cannot_count_is_refused_at_once() {
    let place = Place::new();
    made::file(&place.path("large.h5"), |file| {
        let builder = file
            .new_dataset_builder()
            .empty::<u16>()
            .shape((1, 1 << 17, 1 << 17))
            .chunk((1, 512, 512));
        builder.create("raw").unwrap();
    });
    let limits = [
        "render.boxes=\"128GiB\"",
        "render.max_voxels_per_box=100000000000",
    ];
    let server = place.serve(["large.h5", "--set", limits[0], "--set", limits[1]]);
    let refused = get(&server, "large/raw/0/0-65536_0-65536_0-1.tif");
    assert!(
        refused.status == 413 && refused.problem().contains("TIFF"),
        "{refused:?}"
    );
}
