//! Tiles and ranges as a page wants them: drawn from the voxels with any range, gamma and colour
//! map, after everything else.

use ndarray::{ArrayD, IxDyn};
use serde_json::json;

use crate::common::picture::{Picture, TILE};
use crate::common::volumes::{self, ENDLESS_LEVEL, SLOW_LEVEL};
use crate::common::wire::{Answer, Connection};
use crate::common::{MOUNT, Place, Server, fixture, made, wait_until};

const EDGE: usize = 40;

fn voxel(y: usize, x: usize) -> u16 {
    (100 + y * EDGE + x) as u16
}

/// `em`: a 16-bit ramp from 100 to 1699, the same as floats from -1 to 1, all bytes in order, and
/// labels.
fn served(place: &Place, settings: &str) -> Server {
    made::file(&place.path("em.h5"), |file| {
        let ramp = ArrayD::from_shape_fn(IxDyn(&[2, EDGE, EDGE]), |at| voxel(at[1], at[2]));
        made::put(file, "raw", &ramp);
        made::put(
            file,
            "float",
            &ramp.mapv(|v| (f32::from(v) - 900.0) / 800.0),
        );
        made::put(
            file,
            "bytes",
            &ArrayD::from_shape_fn(IxDyn(&[2, 16, 16]), |at| (16 * at[1] + at[2]) as u8),
        );
        made::put(file, "labels", &ramp.mapv(u32::from));
    });
    place.write(
        "voltile.toml",
        &format!("{settings}\n[datasets.em]\nfile = \"em.h5\"\n"),
    );
    place.serve::<&str>([])
}

fn view(server: &Server, layers: &str) -> Answer {
    let answer = server.get(&format!("/view/em/{layers}/xy/0/0_0_0.png"));
    assert_eq!(answer.status, 200, "{layers}: {}", answer.text());
    assert_eq!(answer.header("content-type"), Some("image/png"));
    answer
}

/// The rule of windows and gamma: an inverted window has its limits swapped.
fn shade(v: f64, lo: f64, hi: f64, gamma: f64) -> u8 {
    let share = ((v - lo) / (hi - lo)).clamp(0.0, 1.0);
    (255.0 * share.powf(1.0 / gamma) + 0.5).floor() as u8
}

/// A colour tile with a given colour for each voxel of an edge, black elsewhere.
fn coloured(edge: usize, colour: impl Fn(usize, usize) -> [u8; 3]) -> Picture {
    let mut pixels = vec![0; 3 * TILE * TILE];
    for (row, column) in (0..edge).flat_map(|row| (0..edge).map(move |column| (row, column))) {
        pixels[3 * (row * TILE + column)..][..3].copy_from_slice(&colour(row, column));
    }
    Picture {
        mode: "RGB",
        pixels,
    }
}

#[test]
fn range_and_gamma_are_applied_to_the_voxels_and_not_to_shades() {
    let place = Place::new();
    let server = served(&place, "");
    for (lo, hi, gamma) in [
        (100.0, 1699.0, 1.0),
        (900.0, 910.0, 1.0),
        (1200.0, 200.0, 1.0),
        (-5000.5, 1e5, 1.0),
        (200.0, 1200.0, 2.2),
        (1200.0, 200.0, 0.5),
    ] {
        let tile = view(&server, &format!("raw:{lo}:{hi}:{gamma}:grey")).picture();
        let expected = Picture::of_plane(EDGE, EDGE, |y, x| {
            shade(f64::from(voxel(y, x)), lo, hi, gamma)
        });
        assert!(tile == expected, "[{lo}, {hi}] {gamma}");
    }
    for (lo, hi, gamma) in [(-1.0, 1.0, 1.0), (0.25, 0.26, 1.0), (0.5, -0.5, 3.0)] {
        let tile = view(&server, &format!("float:{lo}:{hi}:{gamma}:grey")).picture();
        let value = |y, x| f64::from((f32::from(voxel(y, x)) - 900.0) / 800.0);
        assert!(
            tile == Picture::of_plane(EDGE, EDGE, |y, x| shade(value(y, x), lo, hi, gamma)),
            "[{lo}, {hi}] {gamma}"
        );
    }
    assert_eq!(
        server.log().matches("a sample was taken").count(),
        0,
        "no window was measured"
    );
}

/// ImageJ's `fire`: 32 colours, and 7 between any two of them, cut to integers (`LutLoader.java`).
fn fire(shade: usize) -> [u8; 3] {
    const R: [u8; 32] = [
        0, 0, 1, 25, 49, 73, 98, 122, 146, 162, 173, 184, 195, 207, 217, 229, 240, 252, 255, 255,
        255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
    ];
    const G: [u8; 32] = [
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 14, 35, 57, 79, 101, 117, 133, 147, 161, 175, 190,
        205, 219, 234, 248, 255, 255, 255, 255,
    ];
    const B: [u8; 32] = [
        0, 61, 96, 130, 165, 192, 220, 227, 210, 181, 151, 122, 93, 64, 35, 5, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 35, 98, 160, 223, 255,
    ];
    [R, G, B].map(|part| {
        let (place, share) = (shade / 8, (shade % 8) as f64 / 8.0);
        ((1.0 - share) * f64::from(part[place]) + share * f64::from(part[(place + 1).min(31)]))
            as u8
    })
}

#[test]
fn each_map_gives_each_shade_its_colour() {
    let place = Place::new();
    let server = served(&place, "");
    let mapped = |map: &str| view(&server, &format!("bytes:0:255:1:{map}")).picture();
    let shown =
        |colour: &dyn Fn(usize) -> [u8; 3]| coloured(16, |row, column| colour(16 * row + column));
    assert!(mapped("fire") == shown(&fire));
    let cyanhot = include_bytes!("../../crates/base/src/maps/cyanhot.lut");
    let of_table = |shade: usize| [0, 1, 2].map(|part| cyanhot[256 * part + shade]);
    assert!(mapped("cyanhot") == shown(&of_table));
    assert!(mapped("inverted") == shown(&|shade| [255 - shade as u8; 3]));
    let scaled = |shade: usize, part: usize| ((2 * shade * part + 255) / 510) as u8;
    assert!(mapped("fF8003") == shown(&|shade| [255, 128, 3].map(|part| scaled(shade, part))));
    // As matplotlib and ImageJ give them.
    for (map, colours) in [
        (
            "cyanhot",
            [[0, 0, 0], [0, 92, 191], [0, 189, 255], [255, 255, 255]],
        ),
        (
            "viridis",
            [[68, 1, 84], [59, 82, 139], [33, 145, 140], [253, 231, 37]],
        ),
        (
            "magma",
            [[0, 0, 4], [81, 18, 124], [183, 55, 121], [252, 253, 191]],
        ),
        (
            "coolwarm",
            [
                [59, 76, 192],
                [141, 176, 254],
                [221, 220, 220],
                [180, 4, 38],
            ],
        ),
    ] {
        let tile = mapped(map);
        for (shade, colour) in [0, 64, 128, 255].into_iter().zip(colours) {
            let at = 3 * (shade / 16 * TILE + shade % 16);
            assert_eq!(tile.pixels[at..at + 3], colour, "{map} {shade}");
        }
        assert_eq!(
            tile.pixels[3 * 16..3 * 17],
            [0; 3],
            "outside of the volume it is black"
        );
    }
}

#[test]
fn layers_are_added_in_their_colours_up_to_255() {
    let place = Place::new();
    let server = served(&place, "");
    let tile = view(
        &server,
        "raw:100:1000:1:ff8000,float:-1:1:2:grey,raw:100:1699:1:0000ff",
    )
    .picture();
    let expected = |y: usize, x: usize| {
        let v = f64::from(voxel(y, x));
        let scaled = |shade: u8, part: u32| (2 * u32::from(shade) * part + 255) / 510;
        let first = shade(v, 100.0, 1000.0, 1.0);
        let grey = u32::from(shade(
            f64::from((voxel(y, x) as f32 - 900.0) / 800.0),
            -1.0,
            1.0,
            2.0,
        ));
        let blue = u32::from(shade(v, 100.0, 1699.0, 1.0));
        [
            scaled(first, 255) + grey,
            scaled(first, 128) + grey,
            grey + blue,
        ]
        .map(|sum| sum.min(255) as u8)
    };
    assert!(tile == coloured(EDGE, expected));
}

#[test]
fn the_range_in_force_gives_the_ordinary_tile() {
    let place = Place::new();
    let server = served(&place, "");
    let ordinary = server.tile("em/raw/xy/0/0_0_0.png");
    let window = server.json("/datasets/em.json")["channels"]
        .as_array()
        .unwrap()
        .iter()
        .find(|channel| channel["name"] == "raw")
        .unwrap()["window"]
        .clone();
    let same = view(
        &server,
        &format!("raw:{}:{}:1.0:grey", window[0], window[1]),
    );
    assert!(same.picture() == ordinary.picture());
    let etag = same.etag().to_owned();
    let again = format!(
        "/view/em/raw:{}:{}:1:grey/xy/0/0_0_0.png",
        window[0], window[1]
    );
    assert_eq!(
        server
            .ask("GET", &again, &[("If-None-Match", &etag)])
            .status,
        304
    );
    let renders = server.renders();
    view(&server, &format!("raw:{}:{}:1:grey", window[0], window[1]));
    assert_eq!(server.renders(), renders, "it was kept in memory");
}

#[test]
fn only_images_are_adjusted_and_wrong_addresses_say_what_is_expected() {
    let place = Place::new();
    let server = served(&place, "");
    let problem = |path: &str| {
        let answer = server.get(&format!("/view/{path}"));
        assert_eq!(answer.status, 404, "{path}");
        answer.problem()
    };
    assert!(problem("em/labels:0:1:1:grey/xy/0/0_0_0.png").contains("holds labels"));
    assert!(problem("em/raw:0:1:1:grey,labels:0:1:1:grey/xy/0/0_0_0.png").contains("holds labels"));
    assert!(
        problem("em/labels/range.json?plane=xy&slice=0&level=0&box=0,0,1,1")
            .contains("holds labels")
    );
    assert!(problem("em/raw:0:1:1/xy/0/0_0_0.png").contains("CHANNEL:LO:HI:GAMMA:MAP"));
    assert!(problem("em/raw:0:1:1:pink/xy/0/0_0_0.png").contains("viridis"));
    assert!(problem("em/raw/range.json?plane=xy&slice=0&level=0&box=0,0,0,1").contains("box"));
    assert!(problem("em/raw:0:1:1:grey/xy/0_0_0.png").contains("/view/TOKEN/LAYERS"));
    let colours = Place::new();
    colours.write(
        "voltile.toml",
        &format!(
            "[datasets.rgb]\nfile = {:?}\n[datasets.rgb.channels.three]\npath = \"/three\"\naxes = \"zyxc\"\nkind = \"rgb\"\n",
            fixture("rgb.h5")
        ),
    );
    let rgb = colours.serve::<&str>([]);
    let answer = rgb.get("/view/rgb/three:0:1:1:grey/xy/0/0_0_0.png");
    assert!(
        answer.status == 404 && answer.problem().contains("holds rgb"),
        "{answer:?}"
    );
}

#[test]
fn the_server_can_be_told_not_to_adjust() {
    let place = Place::new();
    let server = served(&place, "[server]\nadjust = false\n");
    assert_eq!(server.json("/datasets.json")["adjust"], json!(false));
    for path in [
        "em/raw:0:1:1:grey/xy/0/0_0_0.png",
        "em/raw/range.json?plane=xy&slice=0&level=0&box=0,0,1,1",
    ] {
        assert_eq!(server.get(&format!("/view/{path}")).status, 404, "{path}");
    }
    let other = Place::new();
    assert_eq!(
        served(&other, "").json("/datasets.json")["adjust"],
        json!(true)
    );
}

#[test]
fn the_range_is_that_of_the_voxels_in_the_rectangle() {
    let place = Place::new();
    let server = served(&place, "");
    let range = |channel: &str, of: &str| {
        server.json(&format!(
            "/view/em/{channel}/range.json?plane=xy&slice=1&{of}"
        ))
    };
    let mut values: Vec<u16> = (3..30)
        .flat_map(|y| (5..35).map(move |x| voxel(y, x)))
        .collect();
    values.sort_unstable();
    let (last, cut) = (values.len() - 1, (values.len() - 1) / 1000);
    let expected = json!({
        "low": f64::from(values[cut]), "high": f64::from(values[last - cut]), "min": f64::from(values[0]),
        "max": f64::from(values[last]), "voxels": values.len(), "level": 0,
    });
    assert_eq!(range("raw", "level=0&box=5,3,35,30"), expected);
    assert_eq!(range("raw", "level=0&time=0&box=5%2C3%2C35%2C30"), expected);
    let all = range("float", "level=0&box=0,0,100000,5000000000");
    assert_eq!(
        (&all["min"], &all["max"], &all["voxels"]),
        (&json!(-1.0), &json!(0.998_75_f32), &json!(1600))
    );
    assert_eq!(
        (&all["low"], &all["high"]),
        (
            &json!((101.0 - 900.0) / 800.0_f32),
            &json!((1698.0 - 900.0) / 800.0_f32)
        )
    );
    let mean = range("raw", "level=1&box=0,0,1,1");
    assert_eq!(
        (&mean["min"], &mean["voxels"], &mean["level"]),
        (&json!(121.0), &json!(1), &json!(1)),
        "of a mean of four"
    );
    let nothing =
        json!({ "low": null, "high": null, "min": null, "max": null, "voxels": 0, "level": 0 });
    assert_eq!(range("raw", "level=0&box=40,40,50,50"), nothing);
    assert_eq!(
        server.json("/view/em/raw/range.json?plane=xy&slice=2&level=0&box=0,0,40,40"),
        nothing,
        "no such slice"
    );
    // In the plane xz the rows are sections.
    let section = server.json("/view/em/raw/range.json?plane=xz&slice=7&level=0&box=2,0,5,1");
    let expected = json!([f64::from(voxel(7, 2)), f64::from(voxel(7, 4)), 3]);
    assert_eq!(
        json!([section["min"], section["max"], section["voxels"]]),
        expected
    );
}

#[test]
fn missing_values_are_not_in_the_range() {
    let place = Place::new();
    made::file(&place.path("gaps.h5"), |file| {
        let values = ArrayD::from_shape_fn(IxDyn(&[1, 40, 40]), |at| {
            if at[1] < 20 { -9999.0 } else { at[2] as f32 }
        });
        let dataset = made::put(file, "raw", &values);
        made::numbers(&dataset, "_FillValue", &[-9999.0_f32]);
    });
    let server = place.serve(["gaps.h5"]);
    for (level, voxels, max) in [(0, 800, 39.0), (1, 200, 38.5)] {
        let range = server.json(&format!(
            "/view/gaps/raw/range.json?plane=xy&slice=0&level={level}&box=0,0,512,512"
        ));
        assert_eq!(
            (&range["voxels"], &range["max"]),
            (&json!(voxels), &json!(max)),
            "{range}"
        );
        assert!(range["min"].as_f64().unwrap() >= 0.0, "{range}");
    }
}

#[test]
fn a_large_rectangle_is_read_at_a_coarser_level() {
    let place = Place::new();
    volumes::slow(&place.path("slow.h5"), 1);
    let server = place.serve(["slow.h5", "--set", "render.max_voxels_per_tile=2000000"]);
    let range = |of: &str| server.json(&format!("/view/slow/raw/range.json?plane=xy&slice=0&{of}"));
    let small = range("level=0&box=100,100,612,356");
    assert_eq!(
        small,
        json!({ "low": 100.0, "high": 100.0, "min": 100.0, "max": 100.0, "voxels": 131_072, "level": 0 })
    );
    let large = range("level=0&box=0,0,3000,3000");
    // A tile of level 1 is made of 2^20 stored voxels. The three that are read are the second of
    // each row: 512 voxels wide.
    assert_eq!(
        (&large["level"], &large["voxels"]),
        (&json!(1), &json!(1500 * 512))
    );
    // Coarser levels are too costly: more tiles are left out.
    let whole = range("level=0&box=0,0,16384,8192");
    assert!(
        whole["level"].as_u64() <= Some(1) && whole["voxels"].as_u64().unwrap() <= 1 << 22,
        "{whole}"
    );
    assert!(whole["voxels"].as_u64().unwrap() >= 1 << 20, "{whole}");
}

/// `slow`, whose planes take a while at [`SLOW_LEVEL`], and `endless`, which takes minutes.
fn busy(place: &Place, threads: usize) -> Server {
    volumes::slow(&place.path("slow.h5"), 60);
    volumes::endless(&place.path("endless.h5"));
    place.write(
        "voltile.toml",
        &format!(
            "[render]\nthreads = {threads}\ndeadline = \"10m\"\nneighbours = 0\nmax_voxels_per_tile = 100_000_000_000\n\
             [datasets.slow]\nfile = \"slow.h5\"\n[datasets.slow.channels.raw]\nwindow = [0, 200]\n\
             [datasets.endless]\nfile = \"endless.h5\"\n"
        ),
    );
    place.serve::<&str>([])
}

fn sent(server: &Server, path: &str) -> Connection {
    let mut connection = server.connect();
    connection.send("GET", path, &[]);
    connection
}

/// A view that takes minutes; each `hi` is another.
fn endless(hi: usize) -> String {
    format!("/view/endless/raw:0:{hi}:1:fire/xy/0/0_0_{ENDLESS_LEVEL}.png")
}

#[test]
#[ignore = "slow: draws tiles that take a second each"]
fn views_come_after_everything_else() {
    let place = Place::new();
    let server = busy(&place, 1);
    let mut first = sent(
        &server,
        &format!("{MOUNT}/slow/raw/xy/0/0_0_{SLOW_LEVEL}.png"),
    );
    wait_until("it is rendered", || server.renders() == 1);
    let mut view = sent(
        &server,
        &format!("/view/slow/raw:0:9:1:grey/xy/1/0_0_{SLOW_LEVEL}.png"),
    );
    wait_until("the view waits", || {
        server.count("voltile_renders_waiting") == 1
    });
    let mut others: Vec<Connection> = (2..6)
        .map(|slice| {
            sent(
                &server,
                &format!("{MOUNT}/slow/raw/xy/{slice}/0_0_{SLOW_LEVEL}.png"),
            )
        })
        .collect();
    wait_until("all wait", || {
        server.count("voltile_renders_waiting") + server.renders() == 6
    });
    first.receive("GET").unwrap();
    for other in &mut others {
        assert!(view.is_silent(), "the view came before a tile");
        assert_eq!(other.receive("GET").unwrap().status, 200);
    }
    assert_eq!(view.receive("GET").unwrap().status, 200);
}

#[test]
fn a_browser_that_gives_up_its_views_has_the_next_one_rendered_at_once() {
    let place = Place::new();
    let server = busy(&place, 1);
    // A handle is dragged: each position asks for tiles, and gives up those of the last.
    let old: Vec<Connection> = (1..=5).map(|hi| sent(&server, &endless(hi))).collect();
    wait_until("one is rendered, and the others wait", || {
        (server.renders(), server.count("voltile_renders_waiting")) == (1, 4)
    });
    old.into_iter().for_each(Connection::hang_up);
    let newest = server.get("/view/slow/raw:0:200:1:grey/xy/0/0_0_0.png");
    assert!(newest.picture() == Picture::of_plane(TILE, TILE, |_, _| 128));
    wait_until("all others were given up", || {
        let metrics = server.metrics();
        metrics["voltile_renders_abandoned_total"] + metrics["voltile_renders_stopped_total"] == 5
    });
    assert_eq!(server.count("voltile_renders_waiting"), 0);
}

#[test]
fn views_are_never_written_to_the_disk_cache() {
    let place = Place::new();
    let mut server = served(&place, "[cache]\ndirectory = \"cache\"\n");
    let (layer, tile) = ("raw:100:1699:1:grey", "em/bytes/xy/0/0_0_0.png");
    view(&server, layer);
    server.tile(tile);
    server.stop();
    let server = place.serve::<&str>([]);
    server.tile(tile);
    assert_eq!(server.renders(), 0, "the tile was found on the disk");
    view(&server, layer);
    assert_eq!(server.renders(), 1, "the view was rendered again");
}

#[test]
fn views_of_protected_datasets_need_the_secret() {
    let place = Place::new();
    place.write("lab.txt", "a-secret-of-this-year\n");
    let server = served(
        &place,
        "[[access]]\nsecrets = \"lab.txt\"\ndatasets = [\"em\"]\n",
    );
    let path = "/view/em/raw:100:1699:1:grey/xy/0/0_0_0.png";
    assert_eq!(server.get(path).status, 401);
    assert_eq!(
        server
            .get(&format!("/k/a-secret-of-this-year{path}"))
            .status,
        200
    );
}
