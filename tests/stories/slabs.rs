//! Slabs: the greatest, the least and the mean of several slices, as pages want them.

use ndarray::{ArrayD, IxDyn};
use serde_json::{Value, json};

use crate::common::picture::{Picture, TILE};
use crate::common::wire::Answer;
use crate::common::{Place, Server, fixture, fixture_json, made};
use crate::fixtures::{list, wrong_tile, wrongs};

/// Sections, rows and columns of `em`.
const SIZE: [usize; 3] = [9, 40, 30];
/// The value that stands for missing data.
const FILL: u16 = 65_535;

fn voxel(z: usize, y: usize, x: usize) -> u16 {
    (1000 + 977 * z * z + 31 * y + 57 * x) as u16 % 5000
}

/// Where data is missing: a corner in all sections, and a diagonal in each.
fn is_missing(z: usize, y: usize, x: usize) -> bool {
    (y < 3 && x < 4) || (x + z) % 7 == y % 7
}

/// `em`, behind an offset of ten sections: `raw`, `holes` with a fill value, `float` with NaN,
/// and labels.
fn served(place: &Place, settings: &str) -> Server {
    let all = |value: fn(usize, usize, usize) -> u16| {
        ArrayD::from_shape_fn(IxDyn(&SIZE), |at| value(at[0], at[1], at[2]))
    };
    let holes = |z, y, x| {
        if is_missing(z, y, x) {
            FILL
        } else {
            voxel(z, y, x)
        }
    };
    made::file(&place.path("em.h5"), |file| {
        made::put(file, "raw", &all(voxel));
        made::put(file, "holes", &all(holes));
        made::put(
            file,
            "float",
            &all(holes).mapv(|v| if v == FILL { f64::NAN } else { f64::from(v) }),
        );
        made::put(file, "labels", &all(voxel).mapv(u32::from));
    });
    place.write(
        "voltile.toml",
        &format!(
            "{settings}\n[datasets.em]\nfile = \"em.h5\"\noffset = [0, 0, 10]\n[datasets.em.channels.holes]\n\
             missing = [{FILL}]\n[datasets.em.channels.float]\n[datasets.em.channels.raw]\n[datasets.em.channels.labels]\n"
        ),
    );
    place.serve::<&str>([])
}

fn found(server: &Server, path: &str) -> Answer {
    let answer = server.get(path);
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer
}

fn shown(server: &Server, rest: &str) -> Picture {
    found(server, &format!("/view/em/{rest}/0_0_0.png")).picture()
}

/// The projection of the voxels that are there, shaded in the window from 0 to 5000, and the
/// opacity.
fn projected(mode: &str, voxels: impl Iterator<Item = Option<u16>>) -> (u8, u8) {
    let there: Vec<f64> = voxels.flatten().map(f64::from).collect();
    let value = match mode {
        "max" => there.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        "min" => there.iter().copied().fold(f64::INFINITY, f64::min),
        _ => there.iter().sum::<f64>() / there.len() as f64,
    };
    if there.is_empty() {
        return (0, 0);
    }
    ((value * 255.0 / 5000.0 + 0.5).floor() as u8, 255)
}

#[test]
fn slabs_of_all_types_are_what_numpy_makes_of_them() {
    let expected = fixture_json("slabs.json");
    let entries = list(&expected);
    assert!(entries.len() > 450, "there are only {}", entries.len());
    let place = Place::new();
    let server = place.serve(["--config".as_ref(), fixture("voltile.toml").as_os_str()]);
    let wrong = wrongs(&server, entries, wrong_tile);
    let few = &wrong[..wrong.len().min(20)];
    assert!(wrong.is_empty(), "{} are wrong: {few:#?}", wrong.len());
}

#[test]
fn missing_voxels_are_left_out_and_a_column_of_nothing_else_is_transparent() {
    let place = Place::new();
    let server = served(&place, "");
    let (depth, _, columns) = (SIZE[0], SIZE[1], SIZE[2]);
    for mode in ["max", "min", "mean"] {
        let column = |slices: std::ops::Range<usize>, y: usize, x: usize| {
            let there = slices.map(move |z| Some(voxel(z, y, x)).filter(|_| !is_missing(z, y, x)));
            projected(mode, there)
        };
        for layer in ["holes:0:5000:1:grey", "float:0:5000:1:grey"] {
            for (first, last) in [(0, 2), (3, 6), (0, depth)] {
                let slab = format!("{}-{}.{mode}", first + 10, last + 10);
                let tile = shown(&server, &format!("{layer}/xy/{slab}"));
                assert_eq!(tile.mode, "LA", "{layer} {slab}");
                for (place, pixel) in tile.pixels.as_chunks::<2>().0.iter().enumerate() {
                    let (y, x) = (place / TILE, place % TILE);
                    let expected = if y < SIZE[1] && x < columns {
                        column(first..last, y, x)
                    } else {
                        (0, 255)
                    };
                    assert_eq!((pixel[0], pixel[1]), expected, "{layer} {slab} {y} {x}");
                }
            }
            // Along x, in which a row of voxels becomes one.
            let tile = shown(&server, &format!("{layer}/yz/1-4.{mode}"));
            for (z, y) in (0..depth).flat_map(|z| (0..SIZE[1]).map(move |y| (z, y))) {
                let there = (1..4).map(|x| Some(voxel(z, y, x)).filter(|_| !is_missing(z, y, x)));
                let pixel = &tile.pixels[2 * (z * TILE + y)..][..2];
                assert_eq!(
                    (pixel[0], pixel[1]),
                    projected(mode, there),
                    "{layer} {z} {y}"
                );
            }
        }
    }
    // Of two layers, what is missing in one adds nothing; what is missing in both is transparent.
    let path = "holes:0:5000:1:ff0000,float:0:5000:1:00ff00/xy/10-13.max";
    let both = shown(&server, path);
    assert_eq!(both.mode, "RGBA");
    assert_eq!(both.pixels[..4], [0, 0, 0, 0]);
    let (y, x) = (20, 20);
    let there = (0..3).map(|z| Some(voxel(z, y, x)).filter(|_| !is_missing(z, y, x)));
    let shade = projected("max", there).0;
    assert_eq!(
        both.pixels[4 * (y * TILE + x)..][..4],
        [shade, shade, 0, 255]
    );
}

#[test]
fn what_lies_outside_does_not_count() {
    let place = Place::new();
    let server = served(&place, "");
    let layer = "raw:0:5000:1:grey";
    let all = shown(&server, &format!("{layer}/xy/10-19.mean"));
    for slab in ["0-19", "10-1000", "0-18446744073709551615"] {
        assert!(
            shown(&server, &format!("{layer}/xy/{slab}.mean")) == all,
            "{slab}"
        );
    }
    let mean = |y, x| projected("mean", (0..SIZE[0]).map(|z| Some(voxel(z, y, x)))).0;
    assert!(all == Picture::of_plane(SIZE[1], SIZE[2], mean));
    let black = Picture::of_plane(0, 0, |_, _| 0);
    for slab in ["0-10.max", "19-20.min", "500-600.mean"] {
        assert!(
            shown(&server, &format!("{layer}/xy/{slab}")) == black,
            "{slab}"
        );
    }
    for mode in ["max", "min", "mean"] {
        let one = shown(&server, &format!("{layer}/xy/14-15.{mode}"));
        assert!(one == shown(&server, &format!("{layer}/xy/14")), "{mode}");
    }
}

#[test]
fn each_slab_has_a_key_of_its_own() {
    let place = Place::new();
    let server = served(&place, "");
    let etag = |slab: &str| {
        let path = format!("/view/em/raw:0:5000:1:grey/xy/{slab}/0_0_0.png");
        found(&server, &path).etag().to_owned()
    };
    let slabs = [
        "10",
        "10-12.max",
        "10-12.min",
        "10-12.mean",
        "10-13.max",
        "11-13.max",
    ];
    let mut etags: Vec<String> = slabs.map(etag).into();
    etags.sort_unstable();
    etags.dedup();
    assert_eq!(etags.len(), slabs.len());
    let path = "/view/em/raw:0:5000:1:grey/xy/10-12.max/0_0_0.png";
    let again = server.ask("GET", path, &[("If-None-Match", &etag("10-12.max"))]);
    assert_eq!(again.status, 304);
}

#[test]
fn a_slab_of_too_many_slices_is_refused_with_the_number_that_would_do() {
    let place = Place::new();
    let limit = 4 * SIZE[1] * SIZE[2] + 1;
    let server = served(
        &place,
        &format!("[render]\nmax_voxels_per_tile = {limit}\n"),
    );
    let tile = |slab: &str| server.get(&format!("/view/em/raw:0:5000:1:grey/{slab}"));
    for served in [
        "xy/10-14.max/0_0_0.png",
        "xy/18-1000.max/0_0_0.png",
        "xy/10-19.max/0_1_0.png",
    ] {
        assert_eq!(
            tile(served).status,
            200,
            "{served}: {}",
            tile(served).text()
        );
    }
    let refused = tile("xy/10-15.max/0_0_0.png");
    assert_eq!(refused.status, 404);
    for part in [
        "5 slices of level 0",
        "raw",
        "6000 voxels",
        "limit of 4801",
        "at most 4 slices",
    ] {
        assert!(
            refused.problem().contains(part),
            "{part}: {}",
            refused.problem()
        );
    }
    let described = server.json("/datasets.json");
    let levels = &described["datasets"][0]["channels"][0]["levels"];
    // A slice of xz has 9 × 30 voxels, one of yz 9 × 40.
    assert_eq!(levels[0]["slab"], json!([4, 17, 13]));
}

#[test]
fn labels_have_no_slabs_and_ordinary_tiles_have_none() {
    let place = Place::new();
    let server = served(&place, "");
    let problem = |path: &str| {
        let answer = server.get(path);
        assert_eq!(answer.status, 404, "{path}");
        answer.problem()
    };
    for path in [
        "labels:0:1:1:grey/xy/10-12.max/0_0_0.png",
        "labels:0:1:1:grey/xy/10-12.max/small.png",
    ] {
        assert!(
            problem(&format!("/view/em/{path}")).contains("holds labels"),
            "{path}"
        );
    }
    let wrong = problem("/view/em/raw:0:1:1:grey/xy/12-10.max/0_0_0.png");
    assert!(wrong.contains("FIRST-LAST.max"), "{wrong}");
    problem("/ndtilecache/tilecache/em/raw/xy/10-12.max/0_0_0.png");
}

#[test]
fn the_range_and_the_overview_are_those_of_the_slab() {
    let place = Place::new();
    let server = served(&place, "");
    let range = |slab: &str| {
        let query = format!(
            "plane=xy&slice={slab}&level=0&box=0,0,{},{}",
            SIZE[2], SIZE[1]
        );
        server.json(&format!("/view/em/holes/range.json?{query}"))
    };
    let values = |mode: &str| -> Vec<f64> {
        let mut all = Vec::new();
        for (y, x) in (0..SIZE[1]).flat_map(|y| (0..SIZE[2]).map(move |x| (y, x))) {
            let there = (2..5)
                .filter(|z| !is_missing(*z, y, x))
                .map(|z| f64::from(voxel(z, y, x)));
            let there: Vec<f64> = there.collect();
            if !there.is_empty() {
                all.push(match mode {
                    "max" => there.iter().copied().fold(0.0, f64::max),
                    _ => there.iter().sum::<f64>() / there.len() as f64,
                });
            }
        }
        all.sort_unstable_by(f64::total_cmp);
        all
    };
    for mode in ["max", "mean"] {
        let (found, values) = (range(&format!("12-15.{mode}")), values(mode));
        assert_eq!(found["voxels"], json!(values.len()), "{mode}");
        assert_eq!(
            (&found["min"], &found["max"]),
            (&json!(values[0]), &json!(values[values.len() - 1])),
            "{mode}"
        );
    }
    let small = |slab: &str, layer: &str| {
        let answer = found(&server, &format!("/view/em/{layer}/xy/{slab}/small.png"));
        image::load_from_memory(&answer.body).unwrap()
    };
    let overview = small("12-15.max", "raw:0:5000:1:grey");
    assert_eq!(
        (overview.width() as usize, overview.height() as usize),
        (SIZE[2], SIZE[1])
    );
    for (x, y, pixel) in overview.to_luma8().enumerate_pixels() {
        let column = (2..5).map(|z| Some(voxel(z, y as usize, x as usize)));
        assert_eq!(pixel.0[0], projected("max", column).0, "{x} {y}");
    }
    let slice = small("12", "raw:0:5000:1:ff0000").to_rgb8();
    assert_eq!(
        slice.get_pixel(3, 4).0,
        [
            projected("max", std::iter::once(Some(voxel(2, 4, 3)))).0,
            0,
            0
        ]
    );
}

#[test]
fn a_chunk_is_decoded_once_for_the_whole_slab() {
    let place = Place::new();
    made::file(&place.path("em.h5"), |file| {
        let data = ArrayD::from_shape_fn(IxDyn(&[64, 512, 512]), |at| {
            (3 * at[0] + 5 * at[1] + 7 * at[2]) as u16 % 1000
        });
        let builder = file.new_dataset_builder().with_data(&data).deflate(1);
        builder.chunk((64, 64, 64)).create("raw").unwrap();
    });
    let value = |z: usize, y: usize, x: usize| ((3 * z + 5 * y + 7 * x) % 1000) as u16;
    // A cache that holds a quarter of the 64 chunks, each of half a MiB.
    place.write(
        "voltile.toml",
        "[cache]\nchunks = \"8 MiB\"\n[datasets.em]\nfile = \"em.h5\"\n",
    );
    let server = place.serve::<&str>([]);
    let reads = |path: &str| {
        let before = server.count("voltile_chunk_reads_total");
        let tile = shown(&server, path);
        (tile, server.count("voltile_chunk_reads_total") - before)
    };
    let (tile, count) = reads("raw:0:1000:1:grey/xy/10-42.max");
    assert_eq!(count, 64);
    let greatest = |y, x| (10..42).map(|z| value(z, y, x)).max().unwrap();
    let shade = |v: u16| ((f64::from(v) * 510.0 + 1000.0) / 2000.0).floor() as u8;
    assert!(tile == Picture::of_plane(TILE, TILE, |y, x| shade(greatest(y, x))));
    let (_, count) = reads("raw:0:1000:1:grey/yz/100-130.mean");
    assert!(count <= 2 * 8, "{count}: some were cached");
}

#[test]
fn the_levels_of_slabs_are_projected_and_not_the_slabs_averaged() {
    let place = Place::new();
    let server = served(&place, "");
    // The voxels of level 1, as the server gives them, are means of 2 × 2.
    let level = found(&server, "/voxels/em/raw/1/0-15_0-20_0-9.raw").body;
    let voxel = |z: usize, y: usize, x: usize| {
        let at = 2 * ((z * 20 + y) * 15 + x);
        u16::from_le_bytes([level[at], level[at + 1]])
    };
    for mode in ["max", "min", "mean"] {
        let path = format!("/view/em/raw:0:5000:1:grey/xy/11-16.{mode}/0_0_1.png");
        let column = |y, x| projected(mode, (1..6).map(|z| Some(voxel(z, y, x)))).0;
        let tile = found(&server, &path).picture();
        assert!(tile == Picture::of_plane(20, 15, column), "{mode}");
    }
    let described: Value = server.json("/datasets/em.json");
    assert_eq!(described["offset"], json!([0, 0, 10]));
}
