//! Whole pictures from volumes in memory, checked against naive arithmetic.

use std::sync::Arc;

use voltile_base::color::{Colour, label_colour};
use voltile_base::geometry::{
    Level, LevelView, Orthogonal, Placement, Plane, Scaling, TileAddress, Xyz, patch,
};
use voltile_base::paint::{Style, TileFormat, Window};
use voltile_hdf5::volume::{MemoryVolume, Missing, ReadPolicy, VoxelType};

use super::*;
use crate::plan::Shading;

const SIZE: Xyz<u64> = Xyz {
    x: 70,
    y: 53,
    z: 11,
};

fn value(at: Xyz<u64>) -> u8 {
    ((at.x * 7 + at.y * 31 + at.z * 113) % 251) as u8
}

fn source(voxel: VoxelType, plane: Plane, slice: u64, level: u64, scaling: Scaling) -> Source {
    let volume: Arc<dyn voltile_hdf5::volume::Volume> = match voxel {
        VoxelType::U64 => Arc::new(MemoryVolume::of(voxel, SIZE, |at| {
            u64::from(value(at)) << 40
        })),
        _ => Arc::new(MemoryVolume::of(voxel, SIZE, value)),
    };
    let level = Level::new(level).unwrap();
    let view = LevelView::choose(level, &[(Level::FULL, 1, SIZE)], scaling).unwrap();
    let address = TileAddress {
        plane,
        level,
        slice,
        row: 0,
        column: 0,
    };
    let patch = patch(&address, &view, Placement::default(), Orthogonal::Stored);
    Source {
        volume,
        time: 0,
        view,
        patch,
        missing: Missing::default(),
        projection: None,
    }
}

fn shading(window: Window) -> Shading {
    Shading {
        window,
        gamma: None,
    }
}

fn pixels(picture: &Picture) -> Vec<u8> {
    let mut scratch = Scratch::default();
    let plan = Plan {
        picture: picture.clone(),
        style: Style::default(),
        format: TileFormat::default(),
        shows_missing: false,
    };
    let drawn = scratch.drawing.draw(&plan, &ReadPolicy::default());
    drawn.unwrap().pixels.to_vec()
}

/// The stored voxels that one voxel of a level is derived from.
fn averaged(at: Xyz<u64>, view: &LevelView) -> Vec<Xyz<u64>> {
    let start = at.zip(view.downsample, |a, b| a * b);
    let end = start.zip(view.downsample, |a, b| a + b).zip(SIZE, u64::min);
    let mut all = Vec::new();
    for z in start.z..end.z {
        for y in start.y..end.y {
            all.extend((start.x..end.x).map(|x| Xyz::new(x, y, z)));
        }
    }
    all
}

#[test]
fn every_plane_and_level_is_the_mean_of_its_boxes() {
    for scaling in [Scaling::Zslices, Scaling::Isotropic] {
        for plane in Plane::ALL {
            for level in 0..4 {
                let source = source(VoxelType::U8, plane, 1, level, scaling);
                let (view, size) = (source.view, source.view.size);
                let got = pixels(&Picture::Grey(Layer {
                    source,
                    shading: shading(Window::AsStored),
                }));
                for row in 0..size[plane.row_axis()] {
                    for column in 0..size[plane.column_axis()] {
                        let voxels = averaged(plane.place(1, row, column), &view);
                        let sum: u64 = voxels.iter().map(|at| u64::from(value(*at))).sum();
                        let want = (2 * sum + voxels.len() as u64) / (2 * voxels.len() as u64);
                        assert_eq!(
                            u64::from(got[row as usize * TILE + column as usize]),
                            want,
                            "{plane} {level}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn labels_are_picked_and_never_blended() {
    for plane in Plane::ALL {
        for level in 0..4 {
            let source = source(VoxelType::U64, plane, 1, level, Scaling::Isotropic);
            let (view, size) = (source.view, source.view.size);
            let got = pixels(&Picture::Labels(source));
            for row in 0..size[plane.row_axis()] {
                for column in 0..size[plane.column_axis()] {
                    let first = plane
                        .place(1, row, column)
                        .zip(view.downsample, |a, b| a * b);
                    let at = 3 * (row as usize * TILE + column as usize);
                    assert_eq!(
                        got[at..at + 3],
                        label_colour(u64::from(value(first)) << 40),
                        "{plane} {level}"
                    );
                }
            }
        }
    }
}

#[test]
fn colours_add_up_and_stop_at_white() {
    let layer = |window| Layer {
        source: source(VoxelType::U8, Plane::Xy, 3, 0, Scaling::Zslices),
        shading: shading(window),
    };
    let bright = layer(Window::Whole { lo: 0, hi: 125 });
    let plain = layer(Window::AsStored);
    let got = pixels(&Picture::Composite(vec![
        (bright, Colour::Yellow),
        (plain, Colour::Magenta),
    ]));
    for (x, y) in [(0, 0), (33, 20), (69, 52)] {
        let v = u32::from(value(Xyz::new(x, y, 3)));
        let twice = (v * 510 + 125) / 250;
        let want = [(twice + v).min(255) as u8, twice.min(255) as u8, v as u8];
        let at = 3 * (y as usize * TILE + x as usize);
        assert_eq!(got[at..at + 3], want);
    }
    assert_eq!(got[3 * 70..3 * 71], [0; 3], "beyond the volume it is black");
}

#[test]
fn a_layer_outside_leaves_the_others_as_they_are() {
    let inside = Layer {
        source: source(VoxelType::U8, Plane::Xy, 3, 0, Scaling::Zslices),
        shading: shading(Window::AsStored),
    };
    let mut outside = inside.clone();
    outside.source.patch = None;
    let alone = Picture::Composite(vec![(inside.clone(), Colour::Red)]);
    let both = Picture::Composite(vec![(outside, Colour::Green), (inside, Colour::Red)]);
    assert!(pixels(&alone) == pixels(&both));
}
