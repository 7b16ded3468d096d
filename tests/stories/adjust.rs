//! Adjustable mounts: the parameters of CATMAID's tile source 9 change the tile, its key and its
//! ETag. Other mounts ignore query strings.

use crate::common::picture::{Picture, TILE};
use crate::common::wire::Answer;
use crate::common::{Place, Server, made};
use ndarray::{ArrayD, IxDyn};

/// The edge of the volume's sections.
const EDGE: usize = 40;

fn voxel(y: usize, x: usize) -> u16 {
    (100 + y * EDGE + x) as u16
}

/// `em` with a 16-bit ramp, as `raw` and as `other`, and labels; a plain mount and an adjustable
/// one.
fn served(place: &Place, window: &str) -> Server {
    made::file(&place.path("em.h5"), |file| {
        let ramp = ArrayD::from_shape_fn(IxDyn(&[2, EDGE, EDGE]), |at| voxel(at[1], at[2]));
        made::put(file, "raw", &ramp);
        made::put(file, "other", &ramp);
        made::put(file, "labels", &ramp.mapv(u32::from));
    });
    place.write(
        "voltile.toml",
        &format!(
            "[[server.mounts]]\ntile_service = \"plain\"\n\
             [[server.mounts]]\ntile_service = \"slides\"\nadjustable = true\ncontent_type = \"image/png\"\n\
             [datasets.em]\nfile = \"em.h5\"\n{window}"
        ),
    );
    place.serve::<&str>([])
}

fn get(server: &Server, mount: &str, query: &str) -> Answer {
    server.get(&format!("/{mount}/tilecache/em/raw/xy/0/0_0_0.png{query}"))
}

/// A grey tile with a given shade for each voxel.
fn shaded(shade: impl Fn(f64) -> u8) -> Picture {
    Picture::of_plane(EDGE, EDGE, |y, x| shade(f64::from(voxel(y, x))))
}

fn linear(lo: f64, hi: f64) -> impl Fn(f64) -> u8 {
    move |v| {
        ((v - lo) * 255.0 / (hi - lo) + 0.5)
            .floor()
            .clamp(0.0, 255.0) as u8
    }
}

#[test]
fn min_and_max_have_the_effect_of_a_configured_window() {
    let (place, configured) = (Place::new(), Place::new());
    let server = served(&place, "");
    let tile = get(&server, "slides", "?min=200&max=1200");
    assert!(tile.picture() == shaded(linear(200.0, 1200.0)));
    assert_eq!(
        server.log().matches("a sample was taken").count(),
        0,
        "no window was measured"
    );
    let other = served(
        &configured,
        "[datasets.em.channels.raw]\nwindow = [200, 1200]\n",
    );
    assert!(get(&other, "plain", "").picture() == tile.picture());
    assert!(
        get(&server, "slides", "?max=200.0&min=1200").picture() == shaded(linear(1200.0, 200.0)),
        "inverted"
    );
}

#[test]
fn one_limit_alone_leaves_the_other_unchanged() {
    let place = Place::new();
    let server = served(&place, "[datasets.em.channels.raw]\nwindow = [300, 900]\n");
    assert!(get(&server, "slides", "?min=100").picture() == shaded(linear(100.0, 900.0)));
    assert!(get(&server, "slides", "?max=600.5").picture() == shaded(linear(300.0, 600.5)));
    let same = get(&server, "slides", "?min=300&max=900&gamma=1");
    assert_eq!(
        same.etag(),
        get(&server, "plain", "").etag(),
        "the same pixels are the same tile"
    );
}

#[test]
fn gamma_is_an_exponent() {
    let place = Place::new();
    let server = served(&place, "");
    for gamma in [0.5, 2.0] {
        let tile = get(
            &server,
            "slides",
            &format!("?min=200&max=1200&gamma={gamma}"),
        );
        let expected = |v: f64| {
            (255.0 * ((v - 200.0) / 1000.0).clamp(0.0, 1.0).powf(gamma) + 0.5).floor() as u8
        };
        assert!(tile.picture() == shaded(expected), "{gamma}");
    }
}

#[test]
fn colours_can_be_named_for_one_channel_and_for_several() {
    let place = Place::new();
    let server = served(&place, "");
    let grey = get(&server, "slides", "?min=100&max=1700").picture();
    let coloured = |picture: &Picture, factors: [u8; 3]| {
        assert_eq!(picture.mode, "RGB");
        (0..TILE * TILE)
            .all(|i| (0..3).all(|c| picture.pixels[3 * i + c] == grey.pixels[i] * factors[c]))
    };
    let yellow = get(&server, "slides", "?color=yellow&min=100&max=1700").picture();
    assert!(coloured(&yellow, [1, 1, 0]));
    assert!(
        get(&server, "slides", "?color=White&min=100&max=1700").picture() == grey,
        "white is grey"
    );
    let both = |query: &str| {
        server
            .get(&format!(
                "/slides/tilecache/mcfc/em/raw,other/xy/0/0_0_0.png{query}"
            ))
            .picture()
    };
    assert!(coloured(
        &both("?color=red,%20b&min=100,100&max=1700,1700"),
        [1, 0, 1]
    ));
    assert!(
        coloured(
            &both("?color=g,white&min=100,5000&max=1700,6000"),
            [0, 1, 0]
        ),
        "each channel has its own range"
    );
    let white = both("?color=white,red&min=100,5000&max=1700,6000");
    assert!(coloured(&white, [1, 1, 1]));
}

#[test]
fn each_parameter_is_in_the_etag() {
    let place = Place::new();
    let server = served(&place, "");
    let queries = [
        "",
        "?color=red",
        "?min=200",
        "?max=300",
        "?gamma=2",
        "?gamma=2&color=red",
        "?min=200&max=300",
    ];
    let mut tags: Vec<String> = queries
        .iter()
        .map(|query| get(&server, "slides", query).etag().to_owned())
        .collect();
    tags.sort_unstable();
    tags.dedup();
    assert_eq!(tags.len(), queries.len());
    let tag = get(&server, "slides", "?gamma=2").etag().to_owned();
    let target = "/slides/tilecache/em/raw/xy/0/0_0_0.png?quality=80&gamma=2.0&nocache=5";
    assert_eq!(
        server.ask("GET", target, &[("If-None-Match", &tag)]).status,
        304
    );
}

#[test]
fn other_mounts_ignore_query_strings() {
    let place = Place::new();
    let server = served(&place, "");
    let plain = get(&server, "plain", "");
    for query in [
        "?min=200&max=300",
        "?color=red",
        "?gamma=nonsense",
        "?min=1,2,3,4,5,6,7",
    ] {
        assert_eq!(get(&server, "plain", query).etag(), plain.etag(), "{query}");
    }
    assert_eq!(
        get(&server, "slides", "?quality=10&nocache=1").etag(),
        plain.etag()
    );
}

#[test]
fn labels_are_not_adjusted() {
    let place = Place::new();
    let server = served(&place, "");
    let labels = |query: &str| {
        server.get(&format!(
            "/slides/tilecache/em/labels/xy/0/0_0_0.png{query}"
        ))
    };
    assert_eq!(
        labels("").etag(),
        labels("?color=red&min=1&max=2&gamma=3").etag()
    );
}

#[test]
fn overviews_are_adjusted_like_tiles() {
    let place = Place::new();
    let server = served(&place, "");
    let small =
        |query: &str| server.get(&format!("/slides/tilecache/em/raw/xy/0/small.png{query}"));
    let inverted = image::load_from_memory(&small("?min=1700&max=100").body)
        .unwrap()
        .to_luma8();
    let plain = image::load_from_memory(&small("?min=100&max=1700").body)
        .unwrap()
        .to_luma8();
    assert!(
        inverted
            .pixels()
            .zip(plain.pixels())
            .all(|(a, b)| a.0[0].abs_diff(255 - b.0[0]) <= 1)
    );
}

#[test]
fn invalid_values_are_404s_that_name_the_parameter() {
    let place = Place::new();
    let server = served(&place, "");
    for (query, named) in [
        ("?min=abc", "min"),
        ("?max=inf", "max"),
        ("?gamma=-2", "gamma"),
        ("?color=pink", "color"),
        ("?color=red,,,,,,red", "color"),
    ] {
        let answer = get(&server, "slides", query);
        assert_eq!(answer.status, 404, "{query}");
        assert!(
            answer.problem().contains(named),
            "{query}: {}",
            answer.problem()
        );
    }
    assert_eq!(server.renders(), 0);
}

#[test]
fn projects_json_gives_adjustable_mirrors_source_type_9() {
    let place = Place::new();
    let server = served(&place, "");
    let projects = server.json("/projects.json");
    for stack in projects[0]["project"]["stacks"].as_array().unwrap() {
        for mirror in stack["mirrors"].as_array().unwrap() {
            let has_sliders = mirror["title"] == "slides"
                && !stack["title"].as_str().unwrap().starts_with("labels");
            assert_eq!(
                mirror["tile_source_type"],
                if has_sliders { 9 } else { 1 },
                "{stack}"
            );
        }
    }
}
