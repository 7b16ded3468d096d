//! Windows in which something can be seen, missing values, and channels that begin elsewhere than
//! the first.

use ndarray::{ArrayD, IxDyn};
use serde_json::{Value, json};

use crate::common::picture::{Picture, TILE};
use crate::common::{Place, Server, made};

/// The shade of a value in a window of integers.
fn shade(value: f64, [lo, hi]: [f64; 2]) -> u8 {
    (((value - lo) * 255.0 / (hi - lo) + 0.5).floor()).clamp(0.0, 255.0) as u8
}

fn tile(server: &Server, path: &str) -> Picture {
    let answer = server.tile(path);
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.picture()
}

fn window(server: &Server, token: &str, channel: &str) -> Value {
    let described = server.json(&format!("/datasets/{token}.json"));
    let channels = described["channels"].as_array().unwrap();
    channels.iter().find(|one| one["name"] == channel).unwrap()["window"].clone()
}

#[test]
fn dark_bytes_and_masks_are_stretched_and_other_bytes_are_not() {
    let place = Place::new();
    let bytes = |value: fn(usize) -> u8| {
        ArrayD::from_shape_fn(IxDyn(&[3, 40, 50]), |at| value(at[1] * 50 + at[2]))
    };
    made::file(&place.path("em.h5"), |file| {
        made::put(file, "dark", &bytes(|i| (i % 21) as u8));
        made::put(file, "binary", &bytes(|i| u8::from(i % 3 == 0)));
        made::put(file, "wide", &bytes(|i| (i % 251) as u8));
        made::put(file, "constant", &bytes(|_| 200));
    });
    let server = place.serve([place.path("em.h5")]);
    let expect = |channel: &str, shade: &dyn Fn(usize) -> u8| {
        let expected = Picture::of_plane(40, 50, |y, x| shade(y * 50 + x));
        assert!(
            tile(&server, &format!("em/{channel}/xy/1/0_0_0.png")) == expected,
            "{channel}"
        );
    };
    expect("dark", &|i| shade((i % 21) as f64, [0.0, 20.0]));
    expect("binary", &|i| if i % 3 == 0 { 255 } else { 0 });
    expect("wide", &|i| (i % 251) as u8);
    expect("constant", &|_| 200);
    assert_eq!(window(&server, "em", "dark"), json!([0.0, 20.0]));
    assert_eq!(window(&server, "em", "wide"), Value::Null);
}

#[test]
fn a_series_is_visible_although_its_first_frame_is_blank_or_a_flash() {
    let place = Place::new();
    let series = |first: u16| {
        ArrayD::from_shape_fn(IxDyn(&[6, 2, 30, 40]), |at| match (at[0], first) {
            (0, 0) => 0,
            (0, flash) => flash + 20 * at[3] as u16,
            _ => (500 + at[2] * 40 + at[3]) as u16,
        })
    };
    made::file(&place.path("live.h5"), |file| {
        for (name, first) in [("blank", 0), ("flash", 30_000)] {
            let dataset = made::put(file, name, &series(first));
            made::text(
                &dataset,
                "axistags",
                r#"{"axes":[{"key":"t"},{"key":"z"},{"key":"y"},{"key":"x"}]}"#,
            );
        }
    });
    let server = place.serve([place.path("live.h5")]);
    for name in ["blank", "flash"] {
        let limits: [f64; 2] = serde_json::from_value(window(&server, "live", name)).unwrap();
        assert!(
            limits[0] >= 500.0 && limits[1] <= 1700.0,
            "{name}: {limits:?}"
        );
        for time in [1, 3, 5] {
            let shown = tile(&server, &format!("live/{name}/xy/{time}/1/0_0_0.png"));
            let expected =
                Picture::of_plane(30, 40, |y, x| shade((500 + y * 40 + x) as f64, limits));
            assert!(shown == expected, "{name} at {time}");
        }
    }
}

#[test]
fn every_time_of_a_short_series_is_within_its_window() {
    let place = Place::new();
    // Three times of a cell: the first one is by far the brightest.
    let ranges: [(u16, u16); 3] = [(8_600, 25_500), (0, 7_000), (200, 8_000)];
    let value = |time: usize, y: usize, x: usize| {
        let (least, greatest) = ranges[time];
        least + ((40 * y + x) * usize::from(greatest - least) / 1199) as u16
    };
    made::file(&place.path("cell.h5"), |file| {
        let series = ArrayD::from_shape_fn(IxDyn(&[3, 2, 30, 40]), |at| value(at[0], at[2], at[3]));
        let dataset = made::put(file, "raw", &series);
        made::text(
            &dataset,
            "axistags",
            r#"{"axes":[{"key":"t"},{"key":"z"},{"key":"y"},{"key":"x"}]}"#,
        );
    });
    let server = place.serve([place.path("cell.h5")]);
    let limits: [f64; 2] = serde_json::from_value(window(&server, "cell", "raw")).unwrap();
    assert!(limits[0] < 100.0 && limits[1] > 25_000.0, "{limits:?}");
    for time in 0..3 {
        let shown = tile(&server, &format!("cell/raw/xy/{time}/1/0_0_0.png"));
        let expected =
            Picture::of_plane(30, 40, |y, x| shade(f64::from(value(time, y, x)), limits));
        assert!(shown == expected, "time {time}");
        let white = shown.pixels.iter().filter(|pixel| **pixel == 255).count();
        assert!(white < 30 * 40 / 20, "time {time}: {white} white pixels");
    }
}

#[test]
fn what_most_voxels_have_is_no_fill() {
    let place = Place::new();
    // Tissue of little contrast in front of zeros, which are a part of each ten voxels.
    let value = |zeros: usize, x: usize| {
        if x % 10 < zeros {
            0
        } else {
            (20_000 + x) as u16
        }
    };
    made::file(&place.path("brain.h5"), |file| {
        for (name, zeros) in [("some", 4), ("half", 5), ("most", 6)] {
            let data = ArrayD::from_shape_fn(IxDyn(&[2, 30, 400]), |at| value(zeros, at[2]));
            made::put(file, name, &data);
        }
    });
    let server = place.serve([place.path("brain.h5")]);
    let limits = |name| serde_json::from_value::<[f64; 2]>(window(&server, "brain", name)).unwrap();
    assert_eq!(
        (limits("some"), limits("half")),
        ([20_004.0, 20_399.0], [20_005.0, 20_399.0])
    );
    assert_eq!(limits("most"), [0.0, 20_399.0]);
    let shown = tile(&server, "brain/most/xy/1/0_0_0.png");
    let expected = Picture::of_plane(30, 400, |_, x| {
        shade(f64::from(value(6, x)), [0.0, 20_399.0])
    });
    assert!(shown == expected);
}

#[test]
fn windows_wider_than_the_greatest_float_are_shaded_like_others() {
    let place = Place::new();
    // From the least to the greatest float, and infinity at both ends.
    let share = |x: usize| x as f64 / 39.0;
    let value = |x: usize| match x {
        0 => f64::NEG_INFINITY,
        39 => f64::INFINITY,
        x => f64::MAX * (2.0 * share(x) - 1.0),
    };
    made::file(&place.path("wide.h5"), |file| {
        made::put(
            file,
            "raw",
            &ArrayD::from_shape_fn(IxDyn(&[1, 30, 40]), |at| value(at[2])),
        );
    });
    let server = place.serve([place.path("wide.h5")]);
    let limits: [f64; 2] = serde_json::from_value(window(&server, "wide", "raw")).unwrap();
    assert!((limits[1] - limits[0]).is_infinite(), "{limits:?}");
    let expected = |[lo, hi]: [f64; 2], gamma: f64| {
        let shade = |v: f64| {
            let share = ((v / 4.0 - lo / 4.0) / (hi / 4.0 - lo / 4.0)).clamp(0.0, 1.0);
            (255.0 * share.powf(1.0 / gamma) + 0.5).floor() as u8
        };
        Picture::of_plane(30, 40, |_, x| shade(value(x)))
    };
    assert!(tile(&server, "wide/raw/xy/0/0_0_0.png") == expected(limits, 1.0));
    for (window, gamma) in [
        ([-1.5e308, 1.5e308], 1.0),
        ([1.5e308, -1.5e308], 1.0),
        ([-1.5e308, 1.5e308], 2.2),
    ] {
        let layer = format!("raw:{:e}:{:e}:{gamma}:grey", window[0], window[1]);
        let answer = server.get(&format!("/view/wide/{layer}/xy/0/0_0_0.png"));
        assert_eq!(answer.status, 200, "{layer}: {}", answer.text());
        assert!(answer.picture() == expected(window, gamma), "{layer}");
    }
}

#[test]
fn missing_values_are_black_and_left_out_of_windows_and_means() {
    let place = Place::new();
    let bad = |y: usize, x: usize| (y < 2 && x < 2) || (x == 7 && y == 5);
    let value = |y: usize, x: usize| {
        if bad(y, x) {
            65_535
        } else {
            (1000 + 10 * y + x) as u16
        }
    };
    made::file(&place.path("ct.h5"), |file| {
        made::put(
            file,
            "raw",
            &ArrayD::from_shape_fn(IxDyn(&[1, 20, 30]), |at| value(at[1], at[2])),
        );
        let real = |y: usize, x: usize| {
            if bad(y, x) {
                f32::NAN
            } else {
                (10 * y + x) as f32
            }
        };
        let between = |x: usize| if x.is_multiple_of(2) { 99u16 } else { 101 };
        made::put(
            file,
            "between",
            &ArrayD::from_shape_fn(IxDyn(&[1, 20, 30]), |at| between(at[2])),
        );
        made::put(
            file,
            "real",
            &ArrayD::from_shape_fn(IxDyn(&[1, 20, 30]), |at| real(at[1], at[2])),
        );
    });
    place.write(
        "voltile.toml",
        "[datasets.ct]\nfile = \"ct.h5\"\n[datasets.ct.channels.raw]\nmissing = [65535]\n[datasets.ct.channels.real]\nmissing = [nan]\n\
         [datasets.ct.channels.between]\nmissing = [100]\n",
    );
    let server = place.serve::<&str>([]);
    let limits: [f64; 2] = serde_json::from_value(window(&server, "ct", "raw")).unwrap();
    assert!(limits[1] < 1300.0, "{limits:?}");
    let shown = tile(&server, "ct/raw/xy/0/0_0_0.png");
    let shaded = |y, x| {
        if bad(y, x) {
            0
        } else {
            shade(f64::from(value(y, x)), limits)
        }
    };
    assert!(shown == Picture::of_plane(20, 30, shaded));

    // Level 1: a box of missing values is one, and a box with one of them is the mean of the
    // others.
    let boxed = server.get("/voxels/ct/raw/1/0-15_0-10_0-1.raw").body;
    let means: Vec<u16> = boxed
        .chunks_exact(2)
        .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
        .collect();
    let expected = |y: usize, x: usize| {
        let some: Vec<u32> = [(0, 0), (0, 1), (1, 0), (1, 1)]
            .iter()
            .map(|(dy, dx)| (2 * y + dy, 2 * x + dx))
            .filter(|(y, x)| !bad(*y, *x))
            .map(|(y, x)| u32::from(value(y, x)))
            .collect();
        let count = some.len() as u32;
        if count == 0 {
            65_535
        } else {
            ((2 * some.iter().sum::<u32>() + count) / (2 * count)) as u16
        }
    };
    for (number, mean) in means.iter().enumerate() {
        assert_eq!(*mean, expected(number / 15, number % 15), "{number}");
    }
    assert_eq!((means[0], means[2 * 15 + 3]), (65_535, expected(2, 3)));
    let coarse = tile(&server, "ct/raw/xy/0/0_0_1.png");
    let shaded = |y, x| match expected(y, x) {
        65_535 => 0,
        mean => shade(f64::from(mean), limits),
    };
    assert!(coarse == Picture::of_plane(10, 15, shaded));

    // A mean of other values may equal a missing value, and is not missing.
    let between = tile(&server, "ct/between/xy/0/0_0_1.png");
    assert!(between == Picture::of_plane(10, 15, |_, _| 128));

    let boxed = server.get("/voxels/ct/real/1/0-15_0-10_0-1.raw").body;
    let means: Vec<f32> = boxed
        .chunks_exact(4)
        .map(|word| f32::from_le_bytes([word[0], word[1], word[2], word[3]]))
        .collect();
    assert!(means[0].is_nan());
    assert!(
        means[1..].iter().all(|mean| mean.is_finite()),
        "a box with one NaN has the mean of the others"
    );
}

/// `raw` of 4 × 600 × 700 and labels of 2 × 50 × 60, which begin at x 480, y 500, z 1.
fn placed(place: &Place) -> Server {
    made::file(&place.path("cremi.h5"), |file| {
        made::put(
            file,
            "raw",
            &ArrayD::from_shape_fn(IxDyn(&[4, 600, 700]), |at| (at[2] % 256) as u8),
        );
        made::put(
            file,
            "ids",
            &ArrayD::from_shape_fn(IxDyn(&[2, 50, 60]), |at| id(at[0], at[1], at[2])),
        );
    });
    place.write(
        "voltile.toml",
        "[datasets.cremi]\nfile = \"cremi.h5\"\nvoxel_size = [4.0, 4.0, 8.0]\noffset = [0, 0, 10]\n\
         [datasets.cremi.channels.ids]\nkind = \"labels\"\noffset = [480, 500, 1]\n",
    );
    place.serve::<&str>([])
}

fn id(z: usize, y: usize, x: usize) -> u32 {
    (1 + 10_000 * z + 100 * (y / 5) + x / 5) as u32
}

/// Whether a pixel of a coloured tile is black.
fn is_black(picture: &Picture, row: usize, column: usize) -> bool {
    picture.pixels[3 * (row * TILE + column)..][..3] == [0; 3]
}

#[test]
fn labels_are_drawn_at_their_place_over_the_image() {
    let place = Place::new();
    let server = placed(&place);
    let described = server.json("/datasets/cremi.json");
    let ids = described["channels"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["name"] == "ids")
        .unwrap();
    assert_eq!(ids["offset"], json!([480, 500, 1]));
    assert_eq!(
        (&ids["levels"][0]["size"], &ids["levels"][0]["drawn"][0]),
        (&json!([60, 50, 2]), &json!([540, 550]))
    );

    // The part of the labels in each of four tiles: rows and columns of the tile, and the first
    // voxel shown.
    for (row, column, rows, columns) in [
        (0, 0, 500..512, 480..512),
        (0, 1, 500..512, 0..28),
        (1, 0, 0..38, 480..512),
        (1, 1, 0..38, 0..28),
    ] {
        let shown = tile(&server, &format!("cremi/ids/xy/11/{row}_{column}_0.png"));
        for (y, x) in (0..TILE)
            .step_by(3)
            .flat_map(|y| (0..TILE).step_by(2).map(move |x| (y, x)))
        {
            let is_inside = rows.contains(&y) && columns.contains(&x);
            assert_eq!(
                is_black(&shown, y, x),
                !is_inside,
                "{row} {column}: {y} {x}"
            );
        }
    }
    // The colours are those of the same ids served by themselves.
    let alone = Place::new();
    alone.write(
        "voltile.toml",
        &format!(
            "[datasets.cremi]\nfile = {:?}\n[datasets.cremi.channels.ids]\npath = \"/ids\"\nkind = \"labels\"\n",
            place.path("cremi.h5")
        ),
    );
    let alone = alone.serve::<&str>([]);
    let (shown, own) = (
        tile(&server, "cremi/ids/xy/12/1_1_0.png"),
        tile(&alone, "cremi/ids/xy/1/0_0_0.png"),
    );
    for (y, x) in (0..38).flat_map(|y| (0..28).map(move |x| (y, x))) {
        let at = |picture: &Picture, y: usize, x: usize| {
            picture.pixels[3 * (y * TILE + x)..][..3].to_vec()
        };
        assert_eq!(at(&shown, y, x), at(&own, y + 12, x + 32), "{y} {x}");
    }
    for outside in [
        "xy/10/0_0_0",
        "xy/13/1_1_0",
        "xy/11/2_0_0",
        "xz/499/0_0_0",
        "xz/550/0_0_0",
        "yz/479/0_0_0",
    ] {
        let shown = tile(&server, &format!("cremi/ids/{outside}.png"));
        assert!(shown.pixels.iter().all(|part| *part == 0), "{outside}");
    }
    // xz with square pixels: z is twice as thick, and the labels begin at its second section.
    let shown = tile(&server, "cremi/ids/xz/510/0_0_0.png");
    let inside: Vec<usize> = (0..TILE)
        .filter(|row| !is_black(&shown, *row, 500))
        .collect();
    assert_eq!(inside, [2, 3, 4, 5]);
    // At level 1 the offset is halved, and that of z is not.
    let shown = tile(&server, "cremi/ids/xy/11/0_0_1.png");
    let inside = |row, column| !is_black(&shown, row, column);
    assert_eq!(
        [
            inside(250, 240),
            inside(274, 269),
            inside(249, 240),
            inside(250, 239)
        ],
        [true, true, false, false]
    );
}

#[test]
fn other_formats_say_where_a_channel_begins() {
    let place = Place::new();
    let server = placed(&place);
    let scales = server.json("/neuroglancer/cremi/ids/info")["scales"].clone();
    assert_eq!(scales[0]["voxel_offset"], json!([480, 500, 11]));
    // The dataset's offset and the channel's are rounded down each, as in tiles.
    place.write(
        "odd.toml",
        "[datasets.odd]\nfile = \"cremi.h5\"\noffset = [0, 0, 7]\nscaling = \"isotropic\"\n\
         [datasets.odd.channels.ids]\nkind = \"labels\"\noffset = [481, 501, 3]\n",
    );
    let odd = place.serve(["--config", "odd.toml"]);
    assert_eq!(
        odd.json("/neuroglancer/odd/ids/info")["scales"][1]["voxel_offset"],
        json!([240, 250, 3 + 1])
    );
    let zarr = server.json("/zarr/0.4/cremi/ids.ome.zarr/.zattrs");
    let transformations = &zarr["multiscales"][0]["datasets"][0]["coordinateTransformations"];
    assert_eq!(
        transformations[1]["translation"],
        json!([88.0, 2000.0, 1920.0])
    );
    let boxed = server.get("/voxels/cremi/ids/0/0-60_0-50_1-2.raw");
    let first = u32::from_le_bytes(boxed.body[..4].try_into().unwrap());
    assert_eq!(
        first,
        id(1, 0, 0),
        "boxes count from the channel's own first voxel"
    );
}

#[test]
fn a_series_of_a_trillion_time_points_is_sampled_at_nine() {
    let place = Place::new();
    made::file(&place.path("long.h5"), |file| {
        let builder = file
            .new_dataset_builder()
            .empty::<u8>()
            .shape((1usize << 40, 4, 64, 64));
        builder.chunk((1, 4, 64, 64)).create("raw").unwrap();
    });
    let server = place.serve([place.path("long.h5")]);
    assert!(tile(&server, "long/raw/xy/0/0/0_0_0.png") == Picture::of_plane(0, 0, |_, _| 0));
    assert!(server.peak_memory() < 1 << 30);
}
