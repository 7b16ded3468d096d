//! The grammar of paths: chosen cases, and many random ones.

use proptest::prelude::*;

use super::*;

fn parse(path: &str) -> Option<TileRequest> {
    TilePath::split(&format!("/s/tilecache{path}"))?
        .ok()?
        .request()
        .ok()
}

fn numbers(request: &TileRequest) -> (u64, u64, u64, u8) {
    let at = request.address;
    (at.slice, at.row, at.column, at.level.number())
}

#[test]
fn a_simple_path_names_row_before_column() {
    let request = parse("/tok/chan/xz/7/3_2_1.png").unwrap();
    assert_eq!(
        (
            request.token.token.as_str(),
            request.time,
            request.address.plane
        ),
        ("tok", None, Plane::Xz)
    );
    assert_eq!(
        request.channels,
        ChannelChoice::One(Name::new("chan").unwrap())
    );
    assert_eq!(numbers(&request), (7, 3, 2, 1));
    assert_eq!(parse("/tok/chan/xz/12/7/3_2_1.png").unwrap().time, Some(12));
}

#[test]
fn a_viking_path_names_column_before_row() {
    let request = parse("//viking//tok/volume/chan/004/X001_Y002_Z010.png").unwrap();
    assert_eq!(numbers(&request), (10, 2, 1, 4));
    assert_eq!((request.address.plane, request.time), (Plane::Xy, None));
}

#[test]
fn a_composite_colours_by_position_even_where_others_name_theirs() {
    let request = parse("/mcfc/tok/a,b:R,c:,d/xy/0/0_0_0.png").unwrap();
    let ChannelChoice::Composite(channels) = request.channels else {
        panic!("not a composite")
    };
    let letters: String = channels
        .iter()
        .map(|(_, colour)| colour.to_string())
        .collect();
    assert_eq!(letters, "CRYR");
    assert_eq!(
        parse("/mcfc/tok/a%3AG%2Cb/xy/0/0_0_0.png").map(|r| numbers(&r)),
        Some((0, 0, 0, 0))
    );
}

#[test]
fn a_request_is_shown_as_the_path_that_it_is_read_from() {
    for path in [
        "tok/chan/xz/7/3_2_1.png",
        "t/c/xy/2/7/0_0_0.png",
        "mcfc/t/a:C,b:R/yz/1/9/4_5_6.png",
    ] {
        assert_eq!(parse(&format!("/{path}")).unwrap().to_string(), path);
    }
}

#[test]
fn other_paths_are_not_below_a_mount() {
    for path in [
        "",
        "/",
        "/s",
        "/s/other/tok/chan/xy/0/0_0_0.png",
        "/tilecache/a",
    ] {
        assert_eq!(TilePath::split(path), None, "{path:?}");
    }
}

#[test]
fn malformed_paths_are_refused() {
    let refused = [
        "",
        "/tok",
        "/tok/chan/xy/0",
        "/tok/chan/xy/0/0_0_0.jpg",
        "/tok/chan/xy/0/0_0_0.PNG",
        "/tok/chan/xy/0/0_0_0.png.png",
        "/tok/chan/xy/0/0_0.png",
        "/tok/chan/xy/0/0_0_0_0.png",
        "/tok/chan/xy/0/_0_0.png",
        "/tok/chan/xy/0/+0_0_0.png",
        "/tok/chan/xy/0/0_0_-1.png",
        "/tok/chan/xy/0/0_0_0x1.png",
        "/tok/chan/xy/0/0_0_63.png",
        "/tok/chan/xy/18446744073709551616/0_0_0.png",
        "/tok/chan/xy/%D9%A3/0_0_0.png",
        "/tok/chan/xy/-1/0_0_0.png",
        "/tok/chan/xy/1.5/0_0_0.png",
        "/tok/chan/XY/0/0_0_0.png",
        "/tok/chan/zx/0/0_0_0.png",
        "/tok/chan/xy/1/2/3/0_0_0.png",
        "/tok/a,b/xy/0/0_0_0.png",
        "/tok/a:R/xy/0/0_0_0.png",
        "/to%2Fk/chan/xy/0/0_0_0.png",
        "/t%C3%B6k/chan/xy/0/0_0_0.png",
        "/tok/%FF/xy/0/0_0_0.png",
        "/mcfc/tok//xy/0/0_0_0.png",
        "/mcfc/tok/a,/xy/0/0_0_0.png",
        "/mcfc/tok/,a/xy/0/0_0_0.png",
        "/mcfc/tok/:R/xy/0/0_0_0.png",
        "/mcfc/tok/a:R:G/xy/0/0_0_0.png",
        "/mcfc/tok/a:r/xy/0/0_0_0.png",
        "/mcfc/tok/a:K/xy/0/0_0_0.png",
        "/mcfc/tok/a:RG/xy/0/0_0_0.png",
        "/mcfc/tok/a,b,c,d,e,f,g/xy/0/0_0_0.png",
        "/viking/tok/image/chan/0/X0_Y0_Z0.png",
        "/viking/tok/volume/chan/0/X0_Y0.png",
        "/viking/tok/volume/chan/0/x0_y0_z0.png",
        "/viking/tok/volume/chan/0/Y0_X0_Z0.png",
        "/viking/tok/volume/a,b/0/X0_Y0_Z0.png",
        "/viking/tok/volume/chan/xy/0/X0_Y0_Z0.png",
    ];
    for path in refused {
        assert_eq!(parse(path), None, "{path:?}");
    }
}

#[test]
fn a_version_may_follow_the_token_in_every_form() {
    for path in [
        "/tok@0a1b/chan/xy/7/0_0_0.png",
        "/tok%400a1b/chan/xy/7/0_0_0.png",
        "/mcfc/tok@0a1b/chan:R/xy/7/0_0_0.png",
        "/viking/tok@0a1b/volume/chan/0/X0_Y0_Z7.png",
    ] {
        let token = parse(path).unwrap().token;
        assert_eq!(
            (token.token.as_str(), token.version.unwrap().as_str()),
            ("tok", "0a1b"),
            "{path}"
        );
    }
    let shown = parse("/tok@0a1b/chan/xy/7/0_0_0.png").unwrap().to_string();
    assert_eq!(shown, "tok@0a1b/chan/xy/7/0_0_0.png");
    for path in ["/@0a1b", "/tok@", "/tok@a@b", "/tok@a b", "/tok/chan@0a1b"] {
        let path = if path.contains("chan") {
            format!("{path}/xy/7/0_0_0.png")
        } else {
            format!("{path}/chan/xy/7/0_0_0.png")
        };
        assert_eq!(parse(&path), None, "{path}");
    }
}

#[test]
fn every_refusal_says_something() {
    let refusal = TilePath::split("/s/tilecache/tok/chan/zx/0/0_0_0.png")
        .unwrap()
        .unwrap()
        .request()
        .unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "\"zx\" is not a plane: xy, xz or yz are expected"
    );
}

/// Fragments that often form almost a valid tile path.
fn piece() -> impl Strategy<Value = String> {
    const KNOWN: [&str; 11] = [
        "tok",
        "chan",
        "mcfc",
        "viking",
        "volume",
        "xy",
        "xz",
        "yz",
        "a:R,b",
        "0_0_0.png",
        "X0_Y0_Z0.png",
    ];
    const ODD: [&str; 14] = [
        "tok@1",
        "..",
        ".",
        "%",
        "%2F",
        "%00",
        "%FF",
        "",
        "-1",
        "+1",
        ":",
        ",",
        "?",
        "99999999999999999999",
    ];
    prop_oneof![
        5 => proptest::sample::select(&KNOWN[..]).prop_map(str::to_owned),
        3 => proptest::sample::select(&ODD[..]).prop_map(str::to_owned),
        2 => "[0-9]{1,21}",
        1 => "[0-9]{1,3}_[0-9]{1,3}_[0-9]{1,20}\\.png",
        1 => "\\PC{0,12}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100_000))]

    /// A path is a request or malformed; parsing never panics, and requests are always within
    /// bounds.
    #[test]
    fn any_path_is_a_request_or_malformed(pieces in proptest::collection::vec(piece(), 0..9)) {
        if let Some(request) = parse(&format!("/{}", pieces.join("/"))) {
            prop_assert!(request.address.level.number() <= 62);
            if let ChannelChoice::Composite(channels) = request.channels {
                prop_assert!((1..=6).contains(&channels.len()));
            }
        }
    }
}
