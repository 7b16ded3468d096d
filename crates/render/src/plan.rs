//! Plans of tiles and boxes: the renderer's only input, made by the catalogue.

use std::ops::Range;
use std::sync::Arc;

use voltile_base::color::{Colour, Rgb};
use voltile_base::geometry::{LevelView, Patch, Region, Xyz};
use voltile_base::name::Name;
use voltile_base::paint::{BoxFormat, Finite, Projection, Style, TileFormat, Window};
use voltile_hdf5::volume::{Missing, Volume, VoxelType};

/// Maximum length of the directory of a TIFF page, in bytes.
const MAX_DIRECTORY: u64 = 256;
/// The length of a channel's look-up table, in units of [`MAX_DIRECTORY`].
const TABLE: u64 = 4;

/// One tile to render.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The channels that the tile shows, and how they are combined.
    pub picture: Picture,
    /// The settings of the server for its pixels.
    pub style: Style,
    /// The format of the tile.
    pub format: TileFormat,
    /// Whether pixels for which all channels lack data are transparent, and gaps in volumes count
    /// as missing data. Otherwise these pixels are black, and gaps are drawn as they are read.
    pub shows_missing: bool,
}

/// A box of voxels to read.
#[derive(Debug, Clone)]
pub struct Cutout {
    /// The name of the channel.
    pub name: Name,
    /// The volumes of the stored level to read: one volume, or one each for red, green and blue.
    pub components: Vec<Arc<dyn Volume>>,
    /// Whether the components are red, green and blue.
    pub is_rgb: bool,
    /// The type of the components' voxels.
    pub voxel: VoxelType,
    /// The time point.
    pub time: u64,
    /// How the level is derived from the stored one.
    pub view: LevelView,
    /// The box, within the level.
    pub region: Region,
    /// Whether the time point exists, and the box is not empty. If not, nothing is read: the voxels
    /// are zeros.
    pub is_there: bool,
    /// The window in force, if it is known.
    pub window: Option<Window>,
    /// The channel's colour in a box of several channels; `None` is grey.
    pub colour: Option<Rgb>,
    /// The position of this channel's first voxel in the whole box, if this is one of the `others`
    /// of a cutout; otherwise 0.
    pub place: Xyz<u64>,
    /// The other channels of the box. The `region` of each is the part of the box that it covers,
    /// in voxels of its own.
    pub others: Vec<Cutout>,
    /// The size of a voxel of the level, and its unit, which may be empty.
    pub voxel_size: Option<(Xyz<f64>, String)>,
    /// The values that stand for missing data, which are left out of means.
    pub missing: Missing,
    /// Whether voxels are label ids: a voxel of a derived level is then one of the ids in its box,
    /// not the mean.
    pub is_label: bool,
}

/// The encoding of a box of voxels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BoxEncoding {
    /// A file for programs that compute.
    File(BoxFormat),
    /// A chunk of a chunked format: components first.
    Chunk(ChunkFormat),
    /// A chunk of a chunked format, but no bytes at all if none of its voxels was ever written.
    WrittenChunk(ChunkFormat),
    /// Labels in Neuroglancer's `compressed_segmentation`.
    Segmentation(SegmentationFormat),
}

/// How a box of labels is encoded as `compressed_segmentation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SegmentationFormat {
    /// The type that labels are converted to: `U32` or `U64`.
    pub voxel: VoxelType,
    /// How the encoded labels are compressed.
    pub coding: Coding,
}

/// The encoding of a chunk of a chunked format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChunkFormat {
    /// The extents of the encoded array, at least the extents of the box; voxels beyond the box are
    /// zeros.
    pub size: Xyz<u64>,
    /// The type that voxels are converted to: their own, or a wider one.
    pub voxel: VoxelType,
    /// Whether voxels of several bytes are big-endian.
    pub is_big_endian: bool,
    /// How the array is compressed.
    pub coding: Coding,
}

/// The compression of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Coding {
    /// None.
    Identity,
    /// A zlib stream (RFC 1950), which HTTP calls `deflate`.
    Zlib,
    /// A gzip file (RFC 1952).
    Gzip,
    /// A Zstandard frame (RFC 8878).
    Zstd,
}

/// The codings that an HTTP client accepts, besides none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AcceptedCodings {
    /// [`Coding::Zlib`], which HTTP calls `deflate`.
    pub zlib: bool,
    /// [`Coding::Gzip`].
    pub gzip: bool,
}

/// A thumbnail of one slice, assembled from tiles.
#[derive(Debug, Clone)]
pub struct Overview {
    /// The tiles, row by row; at least one, all of one pixel kind.
    pub tiles: Vec<Plan>,
    /// The number of tiles per row.
    pub across: usize,
    /// The slice's width and height in pixels, without the tiles' black padding.
    pub extent: (usize, usize),
}

/// The values that a rectangle of a slice shows.
#[derive(Debug, Clone)]
pub struct Visible {
    /// The tiles that show the values, of one image channel.
    pub tiles: Vec<Plan>,
    /// The columns and rows of each tile that are visible.
    pub parts: Vec<[Range<usize>; 2]>,
    /// The number of the level.
    pub level: u8,
}

/// The channels that a tile shows, and how they are combined.
#[derive(Debug, Clone)]
pub enum Picture {
    /// One channel of intensities, in grey.
    Grey(Layer),
    /// Intensities, each channel in its own colour, summed. The channels may be the red, green and
    /// blue of one RGB channel, each with a volume of its own.
    Composite(Vec<(Layer, Colour)>),
    /// Label ids, each in its own colour.
    Labels(Source),
}

/// Intensities, and how they are mapped to 8 bits.
#[derive(Debug, Clone)]
pub struct Layer {
    /// The voxels.
    pub source: Source,
    /// How the voxels become shades.
    pub shading: Shading,
}

/// How intensities become shades of 8 bits. The tile's key depends on all fields.
#[derive(Debug, Clone, Copy, PartialEq, Hash)]
pub struct Shading {
    /// The window: the values shown as black and as white.
    pub window: Window,
    /// The exponent of the curve from black to white; `None` is linear.
    pub gamma: Option<Finite>,
}

/// The voxels of one channel that one tile shows.
#[derive(Debug, Clone)]
pub struct Source {
    /// The stored level to read.
    pub volume: Arc<dyn Volume>,
    /// The time point.
    pub time: u64,
    /// How the tile's level is derived from the stored one.
    pub view: LevelView,
    /// The part of the tile inside the volume; `None` if all of it is outside.
    pub patch: Option<Patch>,
    /// The values that stand for missing data.
    pub missing: Missing,
    /// How the slices of the patch become one, if it belongs to a slab.
    pub projection: Option<Projection>,
}

/// Whether a tile is grey or colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PixelKind {
    /// One byte per pixel.
    Grey,
    /// Three bytes per pixel: red, green, blue.
    Rgb,
    /// A byte for the shade and a byte for the opacity.
    GreyAlpha,
    /// Four bytes per pixel: red, green, blue, opacity.
    Rgba,
}

impl Overview {
    /// The maximum width and height of a thumbnail in pixels.
    pub const MAX_EXTENT: (usize, usize) = (192, 192);
}

impl PixelKind {
    /// Bytes per pixel.
    pub fn bytes(self) -> usize {
        match self {
            PixelKind::Grey => 1,
            PixelKind::Rgb => 3,
            PixelKind::GreyAlpha => 2,
            PixelKind::Rgba => 4,
        }
    }

    /// This kind with a byte for the opacity.
    #[must_use]
    pub(crate) fn with_alpha(self) -> Self {
        match self {
            PixelKind::Grey | PixelKind::GreyAlpha => PixelKind::GreyAlpha,
            PixelKind::Rgb | PixelKind::Rgba => PixelKind::Rgba,
        }
    }
}

impl Cutout {
    /// The box itself, and the parts of other channels.
    pub fn parts(&self) -> impl Iterator<Item = &Cutout> {
        std::iter::once(self).chain(&self.others)
    }

    /// The number of channels; red, green and blue are one.
    pub fn channels(&self) -> usize {
        1 + self.others.len()
    }

    /// The number of values for each voxel: one for each channel, or for red, green and blue.
    pub fn values_per_voxel(&self) -> usize {
        self.components.len() + self.others.len()
    }

    /// The extents in C order: z, y, x, and the number of values if there are several.
    pub fn shape(&self) -> Vec<u64> {
        let size = self.region.size;
        let components = Some(self.values_per_voxel() as u64).filter(|count| *count > 1);
        [size.z, size.y, size.x]
            .into_iter()
            .chain(components)
            .collect()
    }
}

impl BoxEncoding {
    /// The bytes of an encoded box before compression.
    pub fn bytes(&self, plan: &Cutout) -> u64 {
        let own = plan.region.size;
        let (size, voxel) = match self {
            BoxEncoding::File(_) => (own, plan.voxel),
            BoxEncoding::Chunk(format) | BoxEncoding::WrittenChunk(format) => {
                (format.size, format.voxel)
            }
            BoxEncoding::Segmentation(format) => (own, format.voxel),
        };
        let bytes = (plan.values_per_voxel() * voxel.stored_bytes()) as u64;
        // TIFF files also have a directory for each page and a look-up table for each channel. If
        // the box is narrow, most of the file is made of these.
        let tiff_channels = if *self == BoxEncoding::File(BoxFormat::Tiff) {
            plan.channels() as u64
        } else {
            0
        };
        let directories = ((own.z + TABLE) * tiff_channels).saturating_mul(MAX_DIRECTORY);
        size.zip(own, u64::max)
            .volume()
            .saturating_mul(bytes)
            .saturating_add(directories)
    }

    /// How the encoded box is compressed.
    pub fn coding(&self) -> Coding {
        match self {
            BoxEncoding::File(_) => Coding::Identity,
            BoxEncoding::Chunk(format) | BoxEncoding::WrittenChunk(format) => format.coding,
            BoxEncoding::Segmentation(format) => format.coding,
        }
    }
}

impl Source {
    /// The boxes of stored voxels that the tile shows; none if the tile is outside the volume.
    pub fn regions(&self) -> impl Iterator<Item = Region> + '_ {
        let runs = self
            .patch
            .iter()
            .flat_map(|patch| patch.runs().iter().map(move |run| patch.region(run)));
        runs.map(|region| self.view.stored_region(&region))
    }
}

impl Picture {
    /// The sources of all its channels.
    pub fn sources(&self) -> Vec<&Source> {
        match self {
            Picture::Grey(layer) => vec![&layer.source],
            Picture::Labels(source) => vec![source],
            Picture::Composite(layers) => layers.iter().map(|(layer, _)| &layer.source).collect(),
        }
    }

    /// Whether the picture is encoded as grey or colour.
    pub fn pixels(&self) -> PixelKind {
        match self {
            Picture::Grey(_) => PixelKind::Grey,
            _ => PixelKind::Rgb,
        }
    }
}
