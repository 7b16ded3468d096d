//! Drawing from voxels in memory, without reading: downsampling, windows, colours, labels. The
//! limit is copying a tile.

use std::hint::black_box;
use std::sync::Arc;

use criterion::Criterion;
use voltile_base::color::Colour;
use voltile_base::geometry::{
    Level, LevelView, Orthogonal, Placement, Plane, Scaling, TILE, TileAddress, Xyz, patch,
};
use voltile_base::paint::{Finite, Style, TileFormat, Window};
use voltile_hdf5::volume::{MemoryVolume, Missing, ReadPolicy, Volume, VoxelType};
use voltile_render::plan::{Layer, Picture, Plan, Shading, Source};
use voltile_render::{Scratch, draw};

use crate::common::{Dice, micrograph};

/// The edge of the volume, so that a slice of level 2 is one whole tile.
const EDGE: u64 = 4 * TILE as u64;

fn shade(at: Xyz<u64>, dice: &mut Dice) -> f32 {
    micrograph(at.x as usize, at.y as usize, at.z as usize, dice.bell())
}

/// A volume of two slices; `convert` makes a voxel from a shade of grey (0 to 255).
fn volume<T: voltile_hdf5::volume::Voxel>(
    voxel: VoxelType,
    convert: fn(f32) -> T,
) -> Arc<dyn Volume> {
    let dice = std::cell::RefCell::new(Dice(3));
    let size = Xyz::new(EDGE, EDGE, 2);
    Arc::new(MemoryVolume::of(voxel, size, |at| {
        convert(shade(at, &mut dice.borrow_mut()))
    }))
}

fn source(volume: &Arc<dyn Volume>, level: u64) -> Source {
    let stored = [(Level::FULL, 1, volume.shape().size)];
    let level = Level::new(level).unwrap();
    let view = LevelView::choose(level, &stored, Scaling::Zslices).unwrap();
    let address = TileAddress {
        plane: Plane::Xy,
        level,
        slice: 1,
        row: 0,
        column: 0,
    };
    let patch = patch(&address, &view, Placement::default(), Orthogonal::Stored);
    Source {
        volume: Arc::clone(volume),
        time: 0,
        view,
        patch,
        missing: Missing::default(),
        projection: None,
    }
}

fn layer(volume: &Arc<dyn Volume>, level: u64, window: Window) -> Layer {
    Layer {
        source: source(volume, level),
        shading: Shading {
            window,
            gamma: None,
        },
    }
}

/// Every way to draw a tile: its stage, its name, and a picture.
fn pictures() -> Vec<(&'static str, &'static str, Picture)> {
    let bytes = volume(VoxelType::U8, |shade| shade as u8);
    let words = volume(VoxelType::U16, |shade| (shade * 16.0) as u16);
    let floats = volume(VoxelType::F32, |shade| shade / 255.0);
    let ids = volume(VoxelType::U64, |shade| shade as u64 / 8);
    let narrow = Window::Whole { lo: 20, hi: 230 };
    let wide = Window::Whole { lo: 300, hi: 3900 };
    let real = Window::Real { lo: 0.1, hi: 0.9 };
    let grey = |volume, level, window| Picture::Grey(layer(volume, level, window));
    let shading = Shading {
        window: wide,
        gamma: Finite::new(0.5),
    };
    let with_gamma = Layer {
        shading,
        ..layer(&words, 0, wide)
    };
    let composite = |colours: &[Colour]| {
        Picture::Composite(
            colours
                .iter()
                .map(|colour| (layer(&bytes, 0, narrow), *colour))
                .collect(),
        )
    };
    vec![
        ("window", "u8 as stored", grey(&bytes, 0, Window::AsStored)),
        ("window", "u8", grey(&bytes, 0, narrow)),
        ("window", "u16", grey(&words, 0, wide)),
        ("window", "f32", grey(&floats, 0, real)),
        ("window", "u16 with gamma", Picture::Grey(with_gamma)),
        ("downsample", "u8, 2×2", grey(&bytes, 1, Window::AsStored)),
        ("downsample", "u8, 4×4", grey(&bytes, 2, Window::AsStored)),
        ("downsample", "u16, 4×4", grey(&words, 2, wide)),
        ("downsample", "f32, 4×4", grey(&floats, 2, real)),
        (
            "downsample",
            "labels u64, 4×4",
            Picture::Labels(source(&ids, 2)),
        ),
        ("composite", "one channel", composite(&[Colour::Green])),
        (
            "composite",
            "three channels",
            composite(&[Colour::Red, Colour::Green, Colour::Blue]),
        ),
        ("composite", "labels u64", Picture::Labels(source(&ids, 0))),
    ]
}

/// Every way to draw a tile, and its limit.
pub fn drawing(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("draw");
    group.sample_size(30);
    let mut scratch = Scratch::default();
    let policy = ReadPolicy::default();
    for (stage, name, picture) in pictures() {
        let plan = Plan {
            picture,
            style: Style::default(),
            format: TileFormat::default(),
            shows_missing: false,
        };
        group.bench_function(format!("{stage}: {name}"), |bencher| {
            bencher.iter(|| draw(black_box(&plan), &policy, &mut scratch).unwrap().len());
        });
    }
    let (tile, mut copy) = (vec![7u8; TILE * TILE], vec![0u8; TILE * TILE]);
    group.bench_function("limit: a tile copied", |bencher| {
        bencher.iter(|| black_box(&mut copy).copy_from_slice(black_box(&tile)));
    });
    group.finish();
}
