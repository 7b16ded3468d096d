//! Keys must be stable across versions: the disk cache outlives the program.

use super::*;
use crate::axes::{Axes, AxisName};
use crate::catalog::stored::LevelSource;
use crate::layout::Paths;
use crate::volume::VoxelType;
use crate::volume::hdf5::View;

/// A digest that covers every type and enum variant that goes into a key.
fn samples() -> Fingerprint {
    let colours = [
        Colour::Cyan,
        Colour::Magenta,
        Colour::Yellow,
        Colour::Red,
        Colour::Green,
        Colour::Blue,
        Colour::White,
    ];
    let windows = [Window::AsStored, Window::Whole { lo: -1, hi: 7 }, Window::Real { lo: 0.5, hi: 2.5 }];
    let layers = colours.iter().zip(windows.iter().cycle()).map(|(colour, window)| LayerRendering {
        channel: Fingerprint::of(&"channel"),
        colour: Some(*colour),
        window: Some(*window),
        made: Some(Fingerprint::of(&"made")),
        gamma: Finite::new(0.5),
        voxel_size: Some(Xyz::new(1, 2, 3)),
    });
    let plain = LayerRendering {
        channel: Fingerprint::of(&"plain"),
        colour: None,
        window: None,
        made: None,
        gamma: None,
        voxel_size: None,
    };
    let layers: Vec<_> = layers.chain([plain]).collect();
    let address = |plane| TileAddress { plane, level: Level::FULL, slice: 1, row: 2, column: 3 };
    let rendering = Rendering {
        rules: 1,
        profile: PngProfile::Fast,
        scaling: Scaling::Zslices,
        offset: Xyz::new(-1, 2, 3),
        time: 4,
        address: address(Plane::Xz),
        layers,
    };
    let view = View {
        axes: Axes::new("tczyx").unwrap(),
        fixed: vec![(AxisName::C, 1), (AxisName::T, 2)],
        means: Some(VoxelType::Bool),
        size: Some(Xyz::new(5, 6, 7)),
        values: None,
    };
    let [path, missing] = [Some("a".to_owned()), None];
    let paths = [
        Paths::One("a".to_owned()),
        Paths::Times(vec![path.clone(), missing.clone()]),
        Paths::Sections(vec![path, missing]),
        Paths::Frames("a".to_owned(), vec![true, false]),
    ];
    let level = |paths: Paths| LevelSource { level: Level::FULL, z_factor: 2, paths, view: view.clone() };
    let sources: Vec<LevelSource> = paths.map(level).into();
    Fingerprint::of(&(
        (rendering, sources),
        Plane::ALL.map(address),
        [Scaling::Zslices, Scaling::Isotropic],
        [PngProfile::Fast, PngProfile::Small],
        [PixelKind::Grey, PixelKind::Rgb],
        [Kind::Image, Kind::Labels, Kind::Rgb],
    ))
}

#[test]
fn keys_are_stable_across_versions() {
    let pinned = "dbfa0a369bb784aa052c9ae4dcbbcd3b";
    assert_eq!(
        samples().to_string(),
        pinned,
        "keys in existing disk caches could now mean other tiles: increment RULES, then pin the new digest here"
    );
}
