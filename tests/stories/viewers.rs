//! Other viewers: requests as in their source code find what the viewers need.
//!
//! The rules are those of the programs, with the place in their source code: CATMAID
//! (github.com/catmaid/CATMAID), Viking (github.com/jamesra/Viking), ndtilecache
//! (github.com/neurodata/ndtilecache).

use crate::common::picture::TILE;
use crate::common::wire::Answer;
use crate::common::{Place, Server, fixture, made};
use ndarray::{ArrayD, IxDyn};
use serde_json::{Value, json};

/// Sections, rows and columns of the volume: two by two tiles, and a level that fits in one.
const SHAPE: [usize; 3] = [6, 600, 700];
/// The number of the first section.
const OFFSET: usize = 2;

/// Never 0, so that black pixels are outside.
fn voxel(z: usize, y: usize, x: usize) -> u8 {
    let mixed = ((z * SHAPE[1] + y) * SHAPE[2] + x).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((mixed >> 40) as u8).max(1)
}

/// `em` (raw and labels, thick sections that start at [`OFFSET`]), `cube` (levels halve z),
/// `series` and `wide`.
fn served(place: &Place) -> Server {
    made::file(&place.path("em.h5"), |file| {
        made::put(
            file,
            "raw",
            &ArrayD::from_shape_fn(IxDyn(&SHAPE), |at| voxel(at[0], at[1], at[2])),
        );
        made::put(
            file,
            "labels",
            &ArrayD::from_shape_fn(IxDyn(&[6, 600, 700]), |at| 1 + at[1] as u32 / 300),
        );
    });
    let series = fixture("series.h5");
    place.write(
        "voltile.toml",
        &format!(
            "[[server.mounts]]\ntile_service = \"ndtilecache\"\n\
             [[server.mounts]]\ntile_service = \"catmaid\"\ncontent_type = \"image/png\"\n\
             [datasets.em]\nfile = \"em.h5\"\nvoxel_size = [4, 4, 40]\noffset = [0, 0, {OFFSET}]\n\
             [datasets.cube]\nfile = \"em.h5\"\nscaling = \"isotropic\"\northogonal = \"stored\"\n\
             [datasets.series]\nfile = {series:?}\n[datasets.series.channels.first]\npath = \"/data\"\naxes = \"tczyx\"\n\
             [datasets.wide]\nfile = {:?}\n",
            fixture("wide.h5")
        ),
    );
    place.serve::<&str>([])
}

/// The path of an address, whose host must be the requested one.
fn below(url: &str) -> &str {
    url.strip_prefix(HOST)
        .unwrap_or_else(|| panic!("{url} has another host"))
}

/// The host of all requests.
const HOST: &str = "http://voltile.test";

/// Parses "(1, 2.5, 3)" like CATMAID's `Double3D.from_str` (`fields.py`).
fn triple(value: &Value) -> [f64; 3] {
    let text = value
        .as_str()
        .unwrap()
        .strip_prefix('(')
        .unwrap()
        .strip_suffix(')')
        .unwrap();
    let numbers: Vec<f64> = text
        .split(',')
        .map(|number| number.trim().parse().unwrap())
        .collect();
    numbers.try_into().unwrap()
}

fn stack<'a>(projects: &'a Value, project: &str, title: &str) -> &'a Value {
    let project = projects
        .as_array()
        .unwrap()
        .iter()
        .find(|p| p["project"]["title"] == project)
        .unwrap();
    project["project"]["stacks"]
        .as_array()
        .unwrap()
        .iter()
        .find(|stack| stack["title"] == title)
        .unwrap()
}

/// `CATMAID.DefaultTileSource.prototype.getTileURL` (`tile-source.js`, source type 1).
fn catmaid_url(mirror: &Value, z: u64, col: u64, row: u64, zoom: usize) -> String {
    let (base, extension) = (
        mirror["url"].as_str().unwrap(),
        mirror["fileextension"].as_str().unwrap(),
    );
    format!("{base}{z}/{row}_{col}_{zoom}.{extension}")
}

fn is_black(answer: &Answer) -> bool {
    answer.picture().pixels.iter().all(|value| *value == 0)
}

#[test]
fn catmaids_importer_finds_all_its_fields_and_the_first_tile() {
    let place = Place::new();
    let server = served(&place);
    let projects = server.json("/projects.json");
    assert_eq!(projects.as_array().unwrap().len(), 4);
    for project in projects.as_array().unwrap() {
        for stack in project["project"]["stacks"].as_array().unwrap() {
            // PreStack (`control/importer.py`): required fields, and the translation must match.
            assert!(stack["title"].is_string());
            ["dimension", "resolution", "translation"]
                .iter()
                .for_each(|name| assert!(triple(&stack[*name])[0] >= 0.0));
            if stack["orientation"] == 2 {
                continue; // Not of tiles.
            }
            assert!(matches!(stack["orientation"].as_u64(), Some(0 | 1)));
            for mirror in stack["mirrors"].as_array().unwrap() {
                assert!(
                    mirror["title"].is_string() && mirror["url"].as_str().unwrap().ends_with('/')
                );
                assert_eq!(
                    (&mirror["tile_width"], &mirror["tile_height"]),
                    (&json!(512), &json!(512))
                );
                // check_http_accessibility (the same file).
                let first = format!("{}0/0_0_0.png", mirror["url"].as_str().unwrap());
                assert_eq!(server.get(below(&first)).status, 200, "{first}");
            }
            let position = |i: usize| {
                stack["mirrors"][i]["url"]
                    .as_str()
                    .unwrap()
                    .contains("/catmaid/")
            };
            assert!(
                position(0) && !position(1),
                "the mirror that WebGL can draw comes first"
            );
        }
    }
}

#[test]
fn catmaid_finds_voxels_at_the_edges_of_all_levels_and_black_tiles_beyond() {
    let place = Place::new();
    let server = served(&place);
    let projects = server.json("/projects.json");
    for (project, title) in [
        ("em", "raw xy"),
        ("em", "raw xz"),
        ("cube", "raw xy"),
        ("cube", "raw xz"),
        ("series", "first xy"),
    ] {
        let stack = stack(&projects, project, title);
        let (mirror, dimension) = (&stack["mirrors"][0], triple(&stack["dimension"]));
        let [x, y, z] = triple(&stack["canary_location"]).map(|number| number as u64);
        // AbstractTileSource.prototype.getCanaryUrl (`tile-source.js`).
        let canary = server.get(below(&catmaid_url(mirror, z, x / 512, y / 512, 0)));
        assert!(!is_black(&canary), "{project} {title}");
        for (zoom, factor) in stack["downsample_factors"]
            .as_array()
            .unwrap()
            .iter()
            .map(triple)
            .enumerate()
        {
            // TileLayer.prototype.tilesForLocation (`layers/tile-layer.js`): lc, lr and z.
            let last = |axis: usize| {
                ((dimension[axis] / factor[axis] - 1.0) / 512.0)
                    .floor()
                    .max(0.0) as u64
            };
            let slice = (z as f64 / factor[2]).floor() as u64;
            let [inside, right, below_it] =
                [(last(0), last(1)), (last(0) + 1, 0), (0, last(1) + 1)].map(|(col, row)| {
                    server.get(below(&catmaid_url(mirror, slice, col, row, zoom)))
                });
            assert!(!is_black(&inside), "{project} {title} {zoom}");
            assert!(
                is_black(&right) && is_black(&below_it),
                "{project} {title} {zoom}"
            );
        }
    }
}

#[test]
fn catmaids_stacks_have_the_dimensions_and_position_of_the_volume() {
    let place = Place::new();
    let projects = served(&place).json("/projects.json");
    let (xy, xz) = (
        stack(&projects, "em", "raw xy"),
        stack(&projects, "em", "raw xz"),
    );
    // The stack's own axes: columns, rows, slices (`stack.js`, stackToProjectX and the others).
    assert_eq!(
        (triple(&xy["dimension"]), triple(&xy["resolution"])),
        ([700.0, 600.0, 8.0], [4.0, 4.0, 40.0])
    );
    assert_eq!(
        triple(&xz["dimension"]),
        [700.0, 60.0, 600.0],
        "ten rows per section"
    );
    assert_eq!(
        (triple(&xz["resolution"]), triple(&xz["translation"])),
        ([4.0; 3], [0.0, 0.0, 80.0])
    );
    let stored = stack(&projects, "cube", "raw xz");
    assert_eq!(
        (triple(&stored["dimension"]), &stored["orientation"]),
        ([700.0, 6.0, 600.0], &json!(1))
    );
    assert_eq!(
        stored["downsample_factors"],
        json!(["(1, 1, 1)", "(2, 2, 2)"])
    );
    assert_eq!(xy["downsample_factors"], json!(["(1, 1, 1)", "(2, 2, 1)"]));
}

#[test]
fn catmaids_zy_stacks_are_cut_out_of_precomputed_chunks() {
    let place = Place::new();
    made::file(&place.path("em.h5"), |file| {
        drop(made::put(file, "raw", &made::cube([70, 80, 90])));
    });
    made::file(&place.path("flat.h5"), |file| {
        drop(made::put(file, "raw", &made::cube([7, 80, 90])));
    });
    place.write(
        "voltile.toml",
        "[datasets.em]\nfile = \"em.h5\"\noffset = [1, 2, 3]\nvoxel_size = [4, 5, 40]\n\
         [datasets.flat]\nfile = \"flat.h5\"\n",
    );
    let server = place.serve::<&str>([]);
    let projects = server.json("/projects.json");
    let zy = stack(&projects, "em", "raw zy");
    // Columns are z, rows are y, slices are x.
    assert_eq!(
        (triple(&zy["dimension"]), triple(&zy["resolution"])),
        ([70.0, 80.0, 90.0], [40.0, 5.0, 4.0])
    );
    assert_eq!(
        (&zy["orientation"], triple(&zy["translation"])),
        (&json!(2), [4.0, 10.0, 120.0])
    );
    let mirror = &zy["mirrors"][0];
    assert_eq!(mirror["tile_source_type"], 14);
    let (root, axes) = mirror["url"]
        .as_str()
        .unwrap()
        .split_once("/%SCALE_DATASET%/")
        .unwrap();
    assert_eq!(axes, "2_1_0");
    // `getTileURL` for the canary: the whole first chunk, offset included.
    let info = server.json(&format!("{}/info", below(root)));
    let shape: Vec<u64> = info["scales"][0]["chunk_sizes"][0]
        .as_array()
        .unwrap()
        .iter()
        .map(|edge| edge.as_u64().unwrap())
        .collect();
    let bounds = format!("1-{}_2-{}_3-{}", 1 + shape[0], 2 + shape[1], 3 + shape[2]);
    let chunk = server.get(&format!("{}/0/{bounds}", below(root)));
    assert_eq!(
        (chunk.status, chunk.body.len() as u64),
        (200, shape.iter().product())
    );
    let is_zy = |stack: &Value| stack["title"].as_str().unwrap().ends_with("zy");
    let flat = projects
        .as_array()
        .unwrap()
        .iter()
        .find(|p| p["project"]["title"] == "flat")
        .unwrap();
    assert!(
        !flat["project"]["stacks"]
            .as_array()
            .unwrap()
            .iter()
            .any(is_zy),
        "its first chunk is clipped"
    );
}

/// Width, height and pixels of a PNG of any size, as grey.
fn small(answer: &Answer) -> (u32, u32, Vec<u8>) {
    assert_eq!(answer.status, 200, "{answer:?}");
    let grey = image::load_from_memory(&answer.body).unwrap().to_luma8();
    (grey.width(), grey.height(), grey.into_raw())
}

#[test]
fn an_overview_shows_the_whole_slice_in_192_pixels() {
    let place = Place::new();
    let server = served(&place);
    // DefaultTileSource.prototype.getOverviewURL (`tile-source.js`); 192 as in FlixServer and
    // CATMAID's overview map.
    let (width, height, pixels) = small(&server.tile("em/raw/xy/4/small.png"));
    assert_eq!((width, height), (192, 164));
    let mean = pixels.iter().map(|value| f64::from(*value)).sum::<f64>() / pixels.len() as f64;
    let section =
        (0..SHAPE[1]).flat_map(|y| (0..SHAPE[2]).map(move |x| f64::from(voxel(4 - OFFSET, y, x))));
    let expected = section.sum::<f64>() / (SHAPE[1] * SHAPE[2]) as f64;
    assert!((mean - expected).abs() < 1.0, "{mean} and not {expected}");
    assert!(
        small(&server.tile("em/raw/xy/1/small.png"))
            .2
            .iter()
            .all(|v| *v == 0),
        "before the first section"
    );
    assert_eq!(small(&server.tile("em/raw/xz/4/small.png")).0, 192);
    assert_eq!(
        small(&server.tile("em/raw/yz/4/small.png")).1,
        (192 * 30) / 300,
        "square pixels"
    );
    let coloured = server.tile("mcfc/em/raw:R/xy/4/small.png");
    let coloured = image::load_from_memory(&coloured.body).unwrap().to_rgb8();
    assert!(
        coloured.pixels().any(|p| p.0[0] > 0)
            && coloured.pixels().all(|p| p.0[1] == 0 && p.0[2] == 0)
    );
    let labels = image::load_from_memory(&server.tile("em/labels/xy/4/small.png").body)
        .unwrap()
        .to_rgb8();
    let mut colours: Vec<_> = labels.pixels().map(|pixel| pixel.0).collect();
    colours.sort_unstable();
    colours.dedup();
    assert_eq!(
        colours.len(),
        2,
        "two ids have two colours, without blending"
    );
    assert!(
        !small(&server.tile("series/first/xy/1/0/small.png"))
            .2
            .is_empty()
    );
}

#[test]
fn an_overview_shows_the_requested_slice_even_if_levels_halve_z() {
    let place = Place::new();
    let server = served(&place);
    let brightness = |z: usize| small(&server.tile(&format!("cube/raw/xy/{z}/small.png"))).2;
    assert!(brightness(0) == brightness(1) && brightness(0) != brightness(2));
}

#[test]
fn an_overview_has_the_headers_and_errors_of_a_tile() {
    let place = Place::new();
    let server = served(&place);
    let target = "/catmaid/tilecache/em/raw/xy/4/small.png";
    let first = server.get(target);
    assert_eq!(first.header("content-type"), Some("image/png"));
    let known = server.ask("GET", target, &[("If-None-Match", first.etag())]);
    assert_eq!(
        (
            known.status,
            server.get(target).body == first.body,
            server.renders()
        ),
        (304, true, 1)
    );
    for wrong in [
        "em/raw/xy/x/small.png",
        "em/none/xy/4/small.png",
        "em/small.png",
        "viking/em/volume/raw/0/small.png",
        "em/raw/xy/4/Small.png",
    ] {
        let answer = server.tile(wrong);
        assert_eq!(answer.status, 404, "{wrong}");
        answer.problem();
    }
}

/// `OCPTileServerMapping.TileFullPath` and `TileTextureFileName` (Viking, `VolumeModel`):
/// `ToString("D3")` pads with zeros, and a slash at the end of the host stays.
fn viking_url(
    volume: &str,
    server: &roxmltree::Node<'_, '_>,
    x: u64,
    y: u64,
    level: u64,
    section: u64,
) -> String {
    let of = |name: &str| server.attribute(name).unwrap().to_owned();
    let channel = server
        .children()
        .find(|node| node.has_tag_name("Channel"))
        .unwrap()
        .attribute("Name")
        .unwrap();
    format!(
        "{}/{volume}/{}/{channel}/{level:03}/{}X{x:03}_Y{y:03}_Z{section:03}{}",
        of("host"),
        of("CoordSpaceName"),
        of("FilePrefix"),
        of("FilePostfix")
    )
}

#[test]
fn viking_opens_the_volume_and_finds_its_tiles() {
    let place = Place::new();
    let server = served(&place);
    let answer = server.get("/ndtilecache/tilecache/viking/em/volume.vikingxml");
    let text = answer.text();
    let document = roxmltree::Document::parse(&text).unwrap();
    let volume = document.root_element();
    // Volume.Initialize, LoadDefaultsFromVolumeElement and ParseScale (Viking, `VolumeModel`).
    assert_eq!(
        (volume.tag_name().name(), volume.attribute("name")),
        ("Volume", Some("em"))
    );
    assert_eq!(
        (
            volume.attribute("num_stos"),
            volume.attribute("num_sections")
        ),
        (Some("0"), Some("6"))
    );
    let scale = volume
        .children()
        .find(|node| node.has_tag_name("Scale"))
        .unwrap();
    assert_eq!(
        (
            scale.attribute("UnitsOfMeasure"),
            scale.attribute("UnitsPerPixel")
        ),
        (Some("nm"), Some("4"))
    );
    let sections = volume
        .children()
        .filter(|node| node.has_tag_name("Section"));
    let sections: Vec<u64> = sections
        .map(|node| node.attribute("Number").unwrap().parse().unwrap())
        .collect();
    assert_eq!(sections, [2, 3, 4, 5, 6, 7]);
    let servers: Vec<_> = volume
        .children()
        .filter(|node| node.has_tag_name("OCPTileServer"))
        .collect();
    assert_eq!(servers.len(), 2, "one for each channel");
    for tiles in servers {
        let number = |name: &str| -> u64 { tiles.attribute(name).unwrap().parse().unwrap() };
        assert_eq!(
            (number("TileXDim"), number("TileYDim")),
            (TILE as u64, TILE as u64)
        );
        assert_eq!(
            (number("GridXDim"), number("GridYDim"), number("MaxLevel")),
            (2, 2, 1),
            "rounded up"
        );
        for level in 0..=number("MaxLevel") {
            // PopulateLevels.
            let [width, height] =
                ["GridXDim", "GridYDim"].map(|name| number(name).div_ceil(1 << level));
            let url = viking_url("em", &tiles, width - 1, height - 1, level, 4);
            for url in [url.clone(), url.replace("viking/em", "viking//em")] {
                let tile = server.get(below(&url));
                assert!(!is_black(&tile), "{url}");
                assert_eq!(
                    tile.header("content-length"),
                    Some(tile.body.len().to_string().as_str())
                );
            }
        }
    }
}

#[test]
fn viking_finds_the_xml_under_all_prefixes_and_in_both_cases() {
    let place = Place::new();
    let server = served(&place);
    // AppendDefaultVolumeFilenameIfMissing writes volume.vikingxml in one place and
    // volume.VikingXML in others; ndstore had it at ca/TOKEN/ and sd/TOKEN/ (`urls.py`).
    let expected = server.get("/ndtilecache/em/volume.vikingxml");
    assert_eq!(
        (expected.status, expected.header("content-type")),
        (200, Some("text/xml; charset=utf-8"))
    );
    for target in [
        "tilecache/em/volume.VikingXML",
        "tilecache/viking//em/volume.vikingxml",
        "sd/em/Volume.VikingXML",
        "ca/em/volume.vikingxml",
    ] {
        assert!(
            server.get(&format!("/ndtilecache/{target}")).body == expected.body,
            "{target}"
        );
    }
    let other = server.get("/catmaid/em/volume.vikingxml").text();
    assert!(
        other.contains("http://voltile.test/catmaid/tilecache/viking\""),
        "{other}"
    );
    for wrong in [
        "/ndtilecache/nothing/volume.vikingxml",
        "/nowhere/em/volume.vikingxml",
        "/ndtilecache/x/em/volume.vikingxml",
    ] {
        assert_eq!(server.get(wrong).status, 404, "{wrong}");
    }
}

#[test]
fn viking_gets_no_levels_with_other_section_numbers() {
    let place = Place::new();
    let text = served(&place)
        .get("/ndtilecache/cube/volume.vikingxml")
        .text();
    assert!(
        text.contains("MaxLevel=\"0\"") && !text.contains("MaxLevel=\"1\""),
        "{text}"
    );
}

#[test]
fn old_clients_find_in_info_the_fields_that_ndtilecache_reads() {
    let place = Place::new();
    let server = served(&place);
    let info = server.json("/ndtilecache/em/info/");
    // Dataset.fetchDataset (ndtilecache, `ocptilecache/dataset.py`).
    let dataset = &info["dataset"];
    assert_eq!(
        (&dataset["imagesize"]["0"], &dataset["imagesize"]["1"]),
        (&json!([700, 600, 6]), &json!([350, 300, 6]))
    );
    assert_eq!(
        (&dataset["offset"]["0"], &dataset["voxelres"]["1"]),
        (&json!([0, 0, 2]), &json!([8.0, 8.0, 40.0]))
    );
    assert_eq!(
        (&dataset["scalinglevels"], &dataset["scaling"]),
        (&json!(1), &json!("zslices"))
    );
    assert_eq!(
        (&dataset["timerange"], &dataset["resolutions"]),
        (&json!([0, 0]), &json!([0, 1]))
    );
    let channel = |name: &str| {
        let channel = &info["channels"][name];
        (
            channel["channel_type"].clone(),
            channel["datatype"].clone(),
            channel["windowrange"].clone(),
        )
    };
    assert_eq!(
        channel("raw"),
        (json!("image"), json!("uint8"), json!([0.0, 0.0]))
    );
    assert_eq!(channel("labels").0, json!("annotation"));
    assert_eq!(info["project"]["name"], "em");
    for target in [
        "em/info",
        "ca/em/info/",
        "sd/em/info/",
        "tilecache/em/info/",
    ] {
        assert_eq!(
            server.json(&format!("/ndtilecache/{target}")),
            info,
            "{target}"
        );
    }
    let series = server.json("/ndtilecache/series/info/");
    assert_eq!(
        (
            &series["dataset"]["timerange"],
            &series["channels"]["first"]["channel_type"]
        ),
        (&json!([0, 2]), &json!("timeseries"))
    );
    assert_eq!(
        server.json("/catmaid/cube/info/")["dataset"]["scaling"],
        "xyz"
    );
    assert_eq!(server.get("/ndtilecache/nothing/info/").status, 404);
}
