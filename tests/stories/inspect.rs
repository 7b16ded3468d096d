//! `voltile inspect`: its description of a file is right, and the configuration it prints serves
//! the same tiles.

use std::path::Path;
use std::process::Command;

use crate::common::{PROGRAM, Place, fixture, made, outcome};
use hdf5::plist::dataset_create::{AllocTime, FillTime};
use ndarray::{ArrayD, IxDyn, s};
use serde_json::{Value, json};

/// Fixtures that need no configuration, and their least number of channels.
const FILES: [(&str, usize); 10] = [
    ("axes.h5", 20),
    ("enums.h5", 4),
    ("filters.h5", 5),
    ("floats.h5", 6),
    ("labels.h5", 8),
    ("layouts.h5", 5),
    ("odd name (1) ü.h5", 1),
    ("rgb.h5", 3),
    ("series.h5", 3),
    ("types_big.h5", 8),
];

fn inspected(place: &Place, file: &Path) -> Value {
    let outcome = place.run(["inspect".as_ref(), file.as_os_str(), "--json".as_ref()]);
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    serde_json::from_str(&outcome.out).expect("it is JSON")
}

#[test]
fn a_file_is_described_for_people_with_a_line_for_each_channel_first() {
    let place = Place::new();
    let file = fixture("series.h5");
    let told = place.run(["inspect".as_ref(), file.as_os_str()]).out;
    let described = inspected(&place, &file);
    let (first, lines) = told.split_once('\n').unwrap();
    assert_eq!(first, "token      series");
    for (line, channel) in lines.lines().zip(described["channels"].as_array().unwrap()) {
        let name = channel["name"].as_str().unwrap();
        assert!(line.starts_with(&format!("  {name} ")), "{line}");
        for known in [&channel["kind"], &channel["dtype"]] {
            assert!(line.contains(known.as_str().unwrap()), "{line}");
        }
        if let Some(times) = channel["times"].as_u64() {
            assert!(line.contains(&format!(", {times} time")), "{line}");
        }
    }
}

#[test]
fn render_says_that_a_tile_lies_outside_and_which_slices_there_are() {
    let place = Place::new();
    let file = fixture("wide.h5");
    let last = inspected(&place, &file)["channels"]
        .as_array()
        .unwrap()
        .iter()
        .find(|channel| channel["name"] == "raw")
        .map(|channel| channel["levels"][0]["size"][2].as_u64().unwrap() - 1)
        .unwrap();
    let rendered = |slice: u64| {
        let tile = format!("/ndtilecache/tilecache/wide/raw/xy/{slice}/0_0_0.png");
        let output = place.path("tile.png");
        let words = [
            "render".as_ref(),
            tile.as_ref(),
            "-o".as_ref(),
            output.as_os_str(),
            file.as_os_str(),
        ];
        let outcome = place.run(words);
        assert_eq!(outcome.code, 0, "{}", outcome.err);
        outcome.err
    };
    assert!(!rendered(last).contains("outside"));
    let said = rendered(last + 1);
    assert!(
        said.contains(
            "lies outside of the volume, or at a time point without data, so the tile is black"
        ) && said.contains(&format!("level 0 of raw has the slices 0 to {last} of ")),
        "{said}"
    );
}

#[test]
fn a_file_is_described_for_programs() {
    let place = Place::new();
    let described = inspected(&place, &fixture("wide.h5"));
    assert_eq!(
        (&described["token"], &described["layouts"]),
        (
            &json!("wide"),
            &json!([{"layout": "plain", "because": "it is an HDF5 file of no known layout"}])
        )
    );
    let channel = described["channels"]
        .as_array()
        .unwrap()
        .iter()
        .find(|channel| channel["name"] == "raw")
        .unwrap();
    assert_eq!(
        (&channel["kind"], &channel["dtype"], &channel["times"]),
        (&json!("image"), &json!("uint8"), &Value::Null)
    );
    let level = &channel["levels"][0];
    let size: Vec<u64> = level["size"]
        .as_array()
        .unwrap()
        .iter()
        .map(|n| n.as_u64().unwrap())
        .collect();
    let shape: Vec<u64> = level["storage"]["shape"]
        .as_array()
        .unwrap()
        .iter()
        .map(|n| n.as_u64().unwrap())
        .collect();
    assert_eq!(
        size.iter().rev().copied().collect::<Vec<_>>(),
        shape,
        "sizes are x, y, z; shapes are as stored"
    );
    assert_eq!(
        (&level["path"], &level["factor"]),
        (&json!("/raw"), &json!([1, 1, 1]))
    );
    assert!(
        level["voxels_read"]
            .as_array()
            .unwrap()
            .iter()
            .all(|read| read.as_u64().unwrap() > 0)
    );
    assert_eq!(
        channel["levels"][1]["path"],
        Value::Null,
        "the second level is derived"
    );
}

#[test]
fn series_colours_and_filters_are_described() {
    let place = Place::new();
    let series = inspected(&place, &fixture("series.h5"));
    let times: Vec<_> = series["channels"]
        .as_array()
        .unwrap()
        .iter()
        .map(|channel| &channel["times"])
        .collect();
    assert_eq!(times[..2], [3, 3]);
    let filters = inspected(&place, &fixture("filters.h5")).to_string();
    let bad = inspected(&place, &fixture("bad/missing.h5"));
    assert!(
        filters.contains("fletcher32") && filters.contains("deflate"),
        "{filters}"
    );
    let lacking = bad["channels"]
        .as_array()
        .unwrap()
        .iter()
        .find(|channel| channel["name"] == "filter")
        .unwrap();
    assert!(
        lacking["levels"][0]["storage"]["missing_filters"]
            .to_string()
            .contains("32016"),
        "{lacking}"
    );
}

#[test]
fn a_file_is_described_for_people() {
    let place = Place::new();
    let outcome = place.run(["inspect".as_ref(), fixture("series.h5").as_os_str()]);
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    let configuration = &inspected(&place, &fixture("series.h5"))["configuration"];
    assert!(
        outcome.out.contains(configuration.as_str().unwrap().trim()),
        "it ends with the configuration"
    );
    for word in [
        "plain",
        "series",
        "times",
        "chunk",
        "/data",
        "xy, xz, yz",
        "labels",
        "image",
    ] {
        assert!(
            outcome.out.contains(word),
            "{word} is not in:\n{}",
            outcome.out
        );
    }
}

#[test]
fn the_configuration_it_prints_serves_the_same_pixels() {
    let place = Place::new();
    let mut configuration = String::new();
    let mut least_pictures = Vec::new();
    for (name, channels) in FILES {
        let described = inspected(&place, &fixture(name));
        configuration += described["configuration"].as_str().unwrap();
        let token = described["token"].as_str().unwrap();
        least_pictures.push((format!("/{token}/"), 3 * channels));
    }
    place.write("voltile.toml", &configuration);
    let check = place.run(["check"]);
    assert_eq!(check.code, 0, "{}", check.err);
    let by_themselves = place.serve(FILES.map(|(name, _)| fixture(name)));
    let configured = place.serve::<&str>([]);
    let pictures = by_themselves.pictures();
    for (token, least) in least_pictures {
        let count = pictures.iter().filter(|path| path.contains(&token)).count();
        assert!(count >= least, "{token} has only {count} pictures");
    }
    let mut one = by_themselves.connect();
    let mut other = configured.connect();
    for path in pictures {
        let (one, other) = (one.get(&path), other.get(&path));
        assert_eq!((one.status, other.status), (200, 200), "{path}");
        assert!(one.body == other.body, "{path}");
    }
}

#[test]
fn a_file_that_cannot_be_inspected_is_named() {
    let place = Place::new();
    for name in [
        "bad/empty.h5",
        "bad/text.h5",
        "bad/header_only.h5",
        "bad/no_volumes.h5",
        "bad/absent.h5",
    ] {
        for json in [None, Some("--json")] {
            let mut command = place.voltile(["inspect".as_ref(), fixture(name).as_os_str()]);
            let outcome = outcome(command.args(json));
            assert_eq!((outcome.code, outcome.out.as_str()), (1, ""), "{name}");
            assert!(
                outcome.err.contains(name.trim_start_matches("bad/")),
                "{name}: {}",
                outcome.err
            );
        }
    }
}

#[test]
fn the_readable_channels_of_a_damaged_file_are_described() {
    let place = Place::new();
    for name in [
        "bad/gzip.h5",
        "bad/cut_flat.h5",
        "bad/truncated.h5",
        "refused/refused_virtual.h5",
    ] {
        let described = inspected(&place, &fixture(name));
        let good = described["channels"]
            .as_array()
            .unwrap()
            .iter()
            .any(|channel| channel["name"] == "good");
        assert!(good, "{name}: {described}");
    }
}

/// Writes a file with one channel, and inspects it.
fn made_and_inspected(write: impl FnOnce(&hdf5::File)) -> (Place, Value) {
    let place = Place::new();
    made::file(&place.path("made.h5"), write);
    let described = inspected(&place, &place.path("made.h5"));
    assert_eq!(described["channels"].as_array().unwrap().len(), 1);
    (place, described)
}

/// Noise that does not compress.
fn noise(shape: &[usize]) -> ArrayD<u8> {
    let mut state = 1u32;
    ArrayD::from_shape_fn(IxDyn(shape), |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    })
}

#[test]
fn chunks_are_counted_as_libhdf5_counts_them() {
    let mut sizes = Vec::new();
    let (_place, described) = made_and_inspected(|file| {
        let builder = file
            .new_dataset_builder()
            .empty::<u16>()
            .shape((6, 100, 150))
            .chunk((2, 40, 40));
        let raw = builder.deflate(4).create("raw").unwrap();
        raw.write_slice(
            &ndarray::Array3::<u16>::from_elem((4, 100, 150), 7),
            s![..4, .., ..],
        )
        .unwrap();
        file.flush().unwrap();
        sizes.extend(
            (0..raw.num_chunks().unwrap()).map(|number| raw.chunk_info(number).unwrap().size),
        );
    });
    let level = &described["channels"][0]["levels"][0];
    let raw = 2 * 3 * 4 * (2 * 40 * 40 * 2);
    let stored = sizes.iter().sum::<u64>();
    assert_eq!(
        level["stored"],
        json!({"datasets": 1, "unreadable": 0, "chunks": 36, "chunks_written": 24, "stored_bytes": stored, "raw_bytes": raw})
    );
    assert_eq!(level["compression"], json!(f64::from(raw) / stored as f64));
    assert_eq!(level["axes"], "zyx");
}

#[test]
fn a_tile_reads_the_chunks_that_inspect_predicts() {
    let shape = [70, 90, 700];
    let (place, described) = made_and_inspected(|file| {
        let voxels = noise(&shape);
        let builder = file.new_dataset_builder().with_data(&voxels);
        builder
            .chunk((16, 32, 50))
            .deflate(1)
            .create("raw")
            .unwrap();
    });
    for (plane, axis) in [("xy", 0), ("xz", 1), ("yz", 2)] {
        for level in [0, 1] {
            let predicted = &described["channels"][0]["levels"][level]["tile"][plane];
            let as_stored = "datasets.made.channels.raw.window=full";
            let server = place.serve([
                "made.h5",
                "--set",
                "render.neighbours=0",
                "--set",
                as_stored,
            ]);
            let slice = if axis == 0 {
                shape[0] / 2
            } else {
                shape[axis].div_ceil(1 << level) / 2
            };
            let tile = server.tile(&format!("made/raw/{plane}/{slice}/0_0_{level}.png"));
            assert_eq!(tile.status, 200);
            let reads = server.count("voltile_chunk_reads_total");
            assert_eq!(predicted["reads"], reads, "{plane} at level {level}");
            assert_eq!(
                predicted["bytes_inflated"],
                reads * 16 * 32 * 50,
                "{plane} at level {level}"
            );
            let stored = &described["channels"][0]["levels"][0]["stored"];
            let mean = stored["stored_bytes"].as_u64().unwrap()
                / stored["chunks_written"].as_u64().unwrap();
            assert_eq!(
                predicted["bytes_read"],
                reads * mean,
                "{plane} at level {level}"
            );
        }
    }
    let xy = &described["channels"][0]["levels"][0]["tile"]["xy"];
    assert_eq!(xy["bytes_wanted"], 90 * 512);
}

#[test]
fn only_the_wanted_pages_of_unfiltered_chunks_are_read() {
    let (_place, described) = made_and_inspected(|file| {
        file.new_dataset_builder()
            .with_data(&noise(&[64, 128, 128]))
            .chunk((64, 64, 64))
            .create("raw")
            .unwrap();
    });
    let tile = &described["channels"][0]["levels"][0]["tile"];
    // A plane of a chunk is a page of 4096 bytes; a tile touches four chunks.
    let xy =
        json!({"bytes_wanted": 128 * 128, "reads": 4, "bytes_read": 4 * 4096, "bytes_inflated": 0});
    assert_eq!(tile["xy"], xy);
    // One line of each of 64 planes in two chunks; each plane is a page.
    assert_eq!(tile["xz"]["bytes_read"], 2 * 64 * 4096);
    assert_eq!(described["warnings"], json!([]));
}

/// The warnings about a file: the problem and the remedy.
fn warned(described: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let warnings = described["warnings"].as_array().unwrap().iter();
    warnings
        .map(|warning| (text(&warning["problem"]), text(&warning["mend"])))
        .collect()
}

#[test]
fn chunks_that_are_expensive_in_some_planes_give_a_warning_with_the_remedy() {
    let (place, described) = made_and_inspected(|file| {
        let builder = file
            .new_dataset_builder()
            .empty::<u8>()
            .shape((600, 1024, 1024));
        let raw = builder
            .chunk((1, 512, 512))
            .deflate(1)
            .create("raw")
            .unwrap();
        raw.write_slice(
            &ndarray::Array3::<u8>::zeros((1, 512, 512)),
            s![..1, ..512, ..512],
        )
        .unwrap();
    });
    let warned = warned(&described);
    assert_eq!(warned.len(), 1, "{warned:?}");
    let (problem, mend) = &warned[0];
    assert!(
        problem.contains("xz and yz")
            && problem.contains("[1, 512, 512]")
            && problem.contains("128.0 MiB"),
        "{problem}"
    );
    let file = place.path("made.h5");
    let file = file.to_str().unwrap();
    assert_eq!(
        *mend,
        format!(
            "voltile pyramid {file} --rechunk {}",
            file.replace("made.h5", "made.rechunked.h5")
        )
    );
    let outcome = place.run(["inspect", "made.h5"]);
    assert!(
        outcome
            .out
            .contains("  fix it   voltile pyramid made.h5 --rechunk made.rechunked.h5"),
        "{}",
        outcome.out
    );
}

#[test]
fn a_server_says_the_same_of_a_file_without_its_folder() {
    let (place, mut described) = made_and_inspected(|file| {
        let builder = file
            .new_dataset_builder()
            .empty::<u8>()
            .shape((600, 1024, 1024));
        let raw = builder
            .chunk((1, 512, 512))
            .deflate(1)
            .create("raw")
            .unwrap();
        raw.write_slice(
            &ndarray::Array3::<u8>::zeros((1, 512, 512)),
            s![..1, ..512, ..512],
        )
        .unwrap();
        made::numbers(&raw, "element_size_um", &[2.0, 0.5, 0.5]);
        made::text(file, "sample", "mouse 7, µ-opioid");
        made::text(file, "long", &"x".repeat(3000));
        let settings = file.create_group("microscope/settings").unwrap();
        made::characters(&settings, "objective", "Plan-Apochromat 63x");
        made::numbers(&settings, "gain", &[7_i64]);
        made::numbers(&settings, "curve", &[0.5; 100]);
    });
    let attributes = json!({
        "/": {"long": "x".repeat(2000) + "…", "sample": "mouse 7, µ-opioid"},
        "/raw": {"element_size_um": "2.0, 0.5, 0.5"},
        "/microscope/settings": {"curve": "100 values", "gain": "7", "objective": "Plan-Apochromat 63x"},
    });
    assert_eq!(described["attributes"], attributes);
    let from = described["channels"][0]["voxel_size_from"]
        .as_str()
        .unwrap();
    assert!(from.starts_with("/raw"), "{from}");
    described.as_object_mut().unwrap().remove("configuration");
    described["warnings"][0]["mend"] = json!("voltile pyramid made.h5");
    let server = place.serve(["made.h5"]);
    assert_eq!(server.json("/datasets/made/about.json"), described);
    assert_eq!(server.get("/datasets/other/about.json").status, 404);
}

#[test]
fn contiguous_data_gives_a_warning_for_the_plane_across_its_lines() {
    let (_place, described) = made_and_inspected(|file| {
        let builder = file
            .new_dataset_builder()
            .empty::<u8>()
            .shape((300, 1024, 1024))
            .no_chunk();
        builder
            .alloc_time(Some(AllocTime::Early))
            .fill_time(FillTime::Never)
            .create("raw")
            .unwrap();
    });
    let warned = warned(&described);
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert!(
        warned[0].0.contains("a tile in yz") && warned[0].0.contains("contiguous"),
        "{warned:?}"
    );
    assert!(warned[0].1.contains("--rechunk"), "{warned:?}");
}

#[test]
fn levels_whose_costs_are_those_of_the_stored_level_are_told_with_the_limit_only() {
    let (_place, described) = made_and_inspected(|file| {
        let builder = file
            .new_dataset_builder()
            .empty::<u8>()
            .shape((300, 16384, 16384));
        let raw = builder
            .chunk((300, 512, 512))
            .deflate(1)
            .create("raw")
            .unwrap();
        raw.write_slice(
            &ndarray::Array3::<u8>::zeros((300, 512, 512)),
            s![..300, ..512, ..512],
        )
        .unwrap();
    });
    let warned = warned(&described);
    assert!(
        warned[0].0.contains("one read of ") && warned[0].0.contains(", which inflates to"),
        "{warned:?}"
    );
    assert!(
        warned[1]
            .0
            .contains("is not stored; in some planes, a tile needs more voxels"),
        "{warned:?}"
    );
}

#[test]
fn levels_that_are_too_expensive_to_derive_give_a_warning_with_the_remedy() {
    let (_place, described) = made_and_inspected(|file| {
        let builder = file
            .new_dataset_builder()
            .empty::<u16>()
            .shape((64, 16384, 16384));
        let raw = builder.chunk((64, 64, 64)).create("raw").unwrap();
        raw.write_slice(
            &ndarray::Array3::<u16>::zeros((64, 64, 64)),
            s![..64, ..64, ..64],
        )
        .unwrap();
    });
    let warned = warned(&described);
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert!(
        warned[0].0.contains("the levels 4, 5 are not stored"),
        "{warned:?}"
    );
    assert!(
        warned[0].1.starts_with("voltile pyramid /") && !warned[0].1.contains("--rechunk"),
        "{warned:?}"
    );
    assert!(
        warned[0].0.contains("a tile takes up to")
            && warned[0]
                .0
                .contains("more voxels than render.max_voxels_per_tile"),
        "{warned:?}"
    );
    let planes = &described["channels"][0]["levels"][5]["planes"];
    assert_eq!(
        *planes,
        json!(["xz", "yz"]),
        "an xy tile would read too many voxels"
    );
}

#[test]
fn a_file_of_hundreds_of_thousands_of_chunks_can_be_inspected() {
    let (_place, described) = made_and_inspected(|file| {
        let builder = file
            .new_dataset_builder()
            .empty::<u8>()
            .shape((160, 320, 252))
            .chunk((4, 4, 4));
        builder
            .alloc_time(Some(AllocTime::Early))
            .fill_time(FillTime::Never)
            .create("raw")
            .unwrap();
    });
    let stored = &described["channels"][0]["levels"][0]["stored"];
    assert_eq!(
        (&stored["chunks"], &stored["chunks_written"]),
        (&json!(201_600), &json!(201_600))
    );
    assert!(
        warned(&described)[0].0.contains("small or narrow"),
        "{:?}",
        warned(&described)
    );
}

#[test]
fn stored_levels_smaller_than_a_tile_are_listed() {
    let (place, described) = made_and_inspected(|file| {
        for (name, edge) in [("raw/s0", 80), ("raw/s1", 40), ("raw/s2", 20)] {
            made::put(file, name, &noise(&[3, edge, edge]));
        }
    });
    let paths: Vec<&Value> = described["channels"][0]["levels"]
        .as_array()
        .unwrap()
        .iter()
        .map(|level| &level["path"])
        .collect();
    assert_eq!(paths, ["/raw/s0", "/raw/s1", "/raw/s2"]);
    let outcome = place.run(["inspect", "made.h5"]);
    for word in ["by the axes zyx", "20 × 20 × 3", "4 × 4 × 1", "/raw/s2"] {
        assert!(
            outcome.out.contains(word),
            "{word} is not in:\n{}",
            outcome.out
        );
    }
}

#[test]
fn a_reader_that_closes_the_pipe_early_causes_no_error() {
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg("\"$0\" inspect \"$1\" | true")
        .arg(PROGRAM)
        .arg(fixture("wide.h5"))
        .env_clear();
    assert_eq!(outcome(&mut command).err, "");
}
