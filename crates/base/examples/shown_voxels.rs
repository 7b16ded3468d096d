//! Computes which voxels a tile shows.

use voltile_base::geometry::{
    Level, LevelView, Orthogonal, Placement, Plane, Region, Scaling, TileAddress, Xyz, patch,
};

/// The voxels of level 0 that the second xy tile from the left shows of slice 7; `None` if it lies
/// outside of the volume.
pub fn shown_voxels(size: Xyz<u64>) -> Option<Region> {
    let address = TileAddress {
        plane: Plane::Xy,
        level: Level::FULL,
        slice: 7,
        row: 0,
        column: 1,
    };
    let stored = [(Level::FULL, 1, size)];
    let view = LevelView::choose(Level::FULL, &stored, Scaling::Zslices)?;
    let patch = patch(&address, &view, Placement::default(), Orthogonal::Stored)?;
    patch.runs().first().map(|rows| patch.region(rows))
}

/// Prints the voxels of a volume of 700 × 300 × 20: the 188 columns from 512 on.
#[allow(dead_code, reason = "a unit test calls only `shown_voxels`")]
fn main() {
    println!("{:?}", shown_voxels(Xyz::new(700, 300, 20)));
}
