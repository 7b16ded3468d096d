//! How Neuroglancer's precomputed format describes a channel, and encodes its voxels.

use voltile_base::geometry::{Level, Region, Xyz};
use voltile_base::paint::Kind;
use voltile_hdf5::volume::VoxelType;
use voltile_render::plan::{BoxEncoding, ChunkFormat, Coding, SegmentationFormat};

use crate::catalog::channel::Channel;
use crate::catalog::stored::StoredLevel;

/// The description of a channel in the precomputed format.
#[derive(Debug, Clone, PartialEq)]
pub struct Precomputed {
    /// How its voxels are encoded.
    pub encoding: PrecomputedEncoding,
    /// The number of values per voxel.
    pub components: usize,
    /// The levels, finest first; not empty.
    pub scales: Vec<PrecomputedScale>,
}

/// How voxels are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrecomputedEncoding {
    /// Whether the voxels are labels.
    pub is_segmentation: bool,
    /// Whether the voxels are encoded as `compressed_segmentation` rather than `raw`.
    pub is_compressed: bool,
    /// The type that voxels are converted to.
    pub(super) voxel: VoxelType,
}

/// A level in the precomputed format.
#[derive(Debug, Clone, PartialEq)]
pub struct PrecomputedScale {
    /// The level, whose number is the key.
    pub level: Level,
    /// The extent.
    pub size: Xyz<u64>,
    /// The size of a voxel in nanometres.
    pub resolution: Xyz<f64>,
    /// The position of the first voxel.
    pub offset: Xyz<i64>,
    /// The chunk shapes; not empty.
    pub chunk_sizes: Vec<Xyz<u64>>,
    /// The coding of stored chunks of the first shape, if they are passed through.
    pub(super) stored: Option<Coding>,
}

impl PrecomputedEncoding {
    /// How a channel's voxels are encoded, or the reason why the format cannot encode them.
    pub(super) fn choose(channel: &Channel) -> Result<Self, String> {
        if let Some(reason) = channel.undecodable() {
            return Err(reason);
        }
        let is_segmentation = channel.kind == Kind::Labels;
        let instead = match channel.voxel {
            VoxelType::F64 => Some("store float32"),
            VoxelType::I64 if !is_segmentation => Some("if they are labels, set kind = \"labels\""),
            _ => None,
        };
        if let Some(instead) = instead {
            return Err(format!(
                "it has no {} for images; {instead}, or use another format",
                channel.voxel.name()
            ));
        }
        let (voxel, is_compressed) = match (channel.voxel, is_segmentation) {
            (VoxelType::U32 | VoxelType::U64, true) => (channel.voxel, true),
            (VoxelType::I8 | VoxelType::I16 | VoxelType::I32 | VoxelType::I64, true) => {
                (VoxelType::U64, true)
            }
            (VoxelType::F16, _) => (VoxelType::F32, false),
            _ => (channel.voxel, false),
        };
        Ok(Self {
            is_segmentation,
            is_compressed,
            voxel,
        })
    }

    /// The format's name of the voxel type. Booleans are sent as bytes.
    pub fn data_type(self) -> &'static str {
        if self.voxel == VoxelType::Bool {
            VoxelType::U8.name()
        } else {
            self.voxel.name()
        }
    }

    /// The encoding of a box of this size.
    pub(super) fn of_box(self, size: Xyz<u64>, coding: Coding) -> BoxEncoding {
        let voxel = self.voxel;
        match self.is_compressed {
            true => BoxEncoding::Segmentation(SegmentationFormat { voxel, coding }),
            false => BoxEncoding::Chunk(ChunkFormat {
                size,
                voxel,
                is_big_endian: false,
                coding,
            }),
        }
    }

    /// The coding of the chunks of a stored level if they are passed through; otherwise the reason
    /// why they are not.
    pub(super) fn passed_through(self, level: &StoredLevel) -> Result<Coding, String> {
        let stored = level.shape.coding.clone()?;
        if level.volumes.len() > 1 {
            return Err("each chunk holds only one of several colours".to_owned());
        }
        if self.is_compressed {
            return Err(
                "labels that are signed, or have 32 or 64 bits, are encoded as compressed_segmentation"
                    .to_owned(),
            );
        }
        if stored.voxel != self.voxel {
            return Err(format!(
                "{} is converted to {}",
                stored.voxel.name(),
                self.voxel.name()
            ));
        }
        if stored.is_big_endian {
            return Err("its numbers are big-endian".to_owned());
        }
        if Some(level.suitable_chunk(self.voxel)?) != level.chunk() {
            return Err("its chunks reach beyond its end".to_owned());
        }
        Ok(if stored.is_zlib {
            Coding::Zlib
        } else {
            Coding::Identity
        })
    }
}

impl Channel {
    /// The coding of the chunks of a stored level if they are passed through in the precomputed
    /// format; otherwise the reason why they are not.
    pub(in crate::catalog) fn passes_to_neuroglancer(
        &self,
        level: &StoredLevel,
    ) -> Result<Coding, String> {
        PrecomputedEncoding::choose(self)?.passed_through(level)
    }
}

/// The distance of a coordinate from an offset; `None` if it lies before the offset.
fn from_offset(at: i64, offset: i64) -> Option<u64> {
    u64::try_from(at.checked_sub(offset)?).ok()
}

impl PrecomputedScale {
    /// The chunk with these bounds, in voxels of the level; `None` if it is not on the grid of any
    /// listed shape.
    pub(super) fn region(&self, bounds: Xyz<(i64, i64)>) -> Option<Region> {
        let start = bounds.zip(self.offset, |(first, _), offset| from_offset(first, offset));
        let end = bounds.zip(self.offset, |(_, end), offset| from_offset(end, offset));
        let start = Xyz::new(start.x?, start.y?, start.z?);
        let end = Xyz::new(end.x?, end.y?, end.z?);
        let is_inside = start
            .zip(self.size, |start, size| start < size)
            .everywhere();
        let is_chunk = self.chunk_sizes.iter().any(|shape| {
            let is_on_grid = start.zip(*shape, |start, edge| start % edge == 0);
            let clipped_end = start
                .zip(*shape, u64::saturating_add)
                .zip(self.size, u64::min);
            is_on_grid.everywhere() && end == clipped_end
        });
        (is_inside && is_chunk).then(|| Region::between(start, end))
    }

    /// The grids of chunks, for an error message.
    pub(super) fn grid(&self) -> String {
        let shapes: Vec<String> = self.chunk_sizes.iter().map(Xyz::to_string).collect();
        let Xyz { x, y, z } = self.offset;
        format!(
            "chunks are {} voxels (x × y × z), counted from {x}, {y}, {z}, and clipped at the end of the level, which is {} voxels",
            shapes.join(" or "),
            self.size
        )
    }
}
