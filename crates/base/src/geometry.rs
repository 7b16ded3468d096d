//! All coordinate arithmetic: planes, levels, sizes and regions, and the voxels of a tile address.
//!
//! The axis permutations of xy, xz and yz are implemented only here; other modules use the row
//! axis, the column axis and the slice axis of a [`Plane`]. Nothing here reads data or knows a
//! dataset.
//!
//! Extents and positions are `u64` voxels. Triples are [`Xyz`], whose fields are named, so that
//! axes cannot be confused. Memory order, where it matters, is always z, y, x with x fastest.

mod affine;
mod levels;
mod patch;
mod space;

pub use affine::{Affine, Transforms};
pub use levels::{Level, LevelView, Scaling};
pub use patch::{Orthogonal, Patch, Placement, RowRun, TileAddress, at_level, patch, slab_patch};
pub use space::{Axis, Plane, Region, TILE, Xyz, box_length};
