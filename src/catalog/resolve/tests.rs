//! Keys must be stable across versions: the disk cache outlives the program.

use voltile_base::axes::{Axes, AxisName};
use voltile_base::geometry::Scaling;
use voltile_base::paint::{Finite, PngProfile, Window};
use voltile_hdf5::volume::hdf5::View;
use voltile_hdf5::volume::{Values, VoxelType};

use super::*;
use crate::catalog::stored::LevelSource;
use crate::layout::{Part, Paths};

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
    let windows = [
        Window::AsStored,
        Window::Whole { lo: -1, hi: 7 },
        Window::Real { lo: 0.5, hi: 2.5 },
    ];
    let layers = colours
        .iter()
        .zip(windows.iter().cycle())
        .map(|(colour, window)| LayerRendering {
            channel: Fingerprint::digest(&"channel"),
            placement: Placement {
                slices: Xyz::new(-1, 2, 3),
                grid: Xyz::new(4, 5, -6),
            },
            colour: Some(*colour),
            shading: Shading {
                window: *window,
                gamma: Finite::new(0.5),
            },
            pyramid_level: Some(Fingerprint::digest(&"made")),
            voxel_size: Some(Xyz::new(1, 2, 3)),
        });
    let plain = LayerRendering {
        channel: Fingerprint::digest(&"plain"),
        placement: Placement::default(),
        colour: None,
        shading: Shading {
            window: Window::AsStored,
            gamma: None,
        },
        pyramid_level: None,
        voxel_size: None,
    };
    let layers: Vec<_> = layers.chain([plain]).collect();
    let address = |plane| TileAddress {
        plane,
        level: Level::FULL,
        slice: 1,
        row: 2,
        column: 3,
    };
    let rendering = Rendering {
        rules: 1,
        style: Style::default(),
        dataset: DatasetStyle {
            voxel_size: Some(Xyz::new(1.0, 2.0, 3.0)),
            ..DatasetStyle::default()
        },
        time: 4,
        address: address(Plane::Xz),
        shows_missing: false,
        layers,
    };
    let view = View {
        axes: Axes::new("tczyx").unwrap(),
        fixed: vec![(AxisName::C, 1), (AxisName::T, 2)],
        reinterpret_as: Some(VoxelType::Bool),
        size: Some(Xyz::new(5, 6, 7)),
        values: Some(Values::palette(vec![[1, 2, 3]])),
        part: None,
        repeat: Xyz::all(1),
    };
    let [path, missing] = [Some("a".to_owned()), None];
    let paths = [
        Paths::One("a".to_owned()),
        Paths::Times(vec![path.clone(), missing.clone()]),
        Paths::Parts(vec![
            Part { path, depth: 3 },
            Part {
                path: missing,
                depth: 4,
            },
        ]),
        Paths::Frames("a".to_owned(), vec![true, false]),
    ];
    let level = |paths: Paths| LevelSource {
        level: Level::FULL,
        z_factor: 2,
        paths,
        view: view.clone(),
    };
    let sources: Vec<LevelSource> = paths.map(level).into();
    Fingerprint::digest(&(
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
    let pinned = "7d3bd59b41f0c5be44b15eeed9ca0fd3";
    assert_eq!(
        samples().to_string(),
        pinned,
        "keys in existing disk caches could now mean other tiles: increment RULES, then pin the new digest here"
    );
}
