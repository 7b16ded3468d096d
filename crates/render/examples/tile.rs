//! Renders a tile of a volume that is computed.

use std::error::Error;
use std::sync::Arc;

use voltile_base::geometry::{
    Level, LevelView, Orthogonal, Placement, Plane, Scaling, TileAddress, Xyz, patch,
};
use voltile_base::paint::{Style, TileFormat};
use voltile_hdf5::volume::{MemoryVolume, Missing, ReadPolicy, VoxelType};
use voltile_render::plan::{Layer, Picture, Plan, Shading, Source};
use voltile_render::{Scratch, render};

/// The PNG of the xz tile at slice 3, 512×512 pixels: the voxels of the slice, and black beyond.
pub fn tile() -> Result<Vec<u8>, Box<dyn Error>> {
    let size = Xyz::new(100, 8, 50);
    let volume = MemoryVolume::of(VoxelType::U8, size, |at| (at.x + at.y + at.z) as u8);
    let address = TileAddress {
        plane: Plane::Xz,
        level: Level::FULL,
        slice: 3,
        row: 0,
        column: 0,
    };
    let stored = [(Level::FULL, 1, size)];
    let view = LevelView::choose(Level::FULL, &stored, Scaling::Zslices)
        .ok_or("level 0 is the first of all levels")?;
    let source = Source {
        patch: patch(&address, &view, Placement::default(), Orthogonal::Stored),
        view,
        volume: Arc::new(volume),
        time: 0,
        missing: Missing::default(),
        projection: None,
    };
    let shading = Shading {
        window: source.volume.shape().voxel.full_window(),
        gamma: None,
    };
    let plan = Plan {
        picture: Picture::Grey(Layer { source, shading }),
        style: Style::default(),
        format: TileFormat::default(),
        shows_missing: false,
    };
    Ok(render(
        &plan,
        &ReadPolicy::default(),
        &mut Scratch::default(),
    )?)
}

/// Writes the tile to `tile.png`.
#[allow(dead_code, reason = "a unit test calls only `tile`")]
fn main() -> Result<(), Box<dyn Error>> {
    std::fs::write("tile.png", tile()?)?;
    Ok(())
}
