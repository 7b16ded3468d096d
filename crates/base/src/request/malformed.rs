//! The reasons why the path or the query of a request cannot be parsed.

use crate::color::Colour;
use crate::name::NotAName;
use crate::paint::BOX_FILES;

/// The maximum number of channels in a composite: there is one default colour for each.
pub(super) const MAX_CHANNELS: usize = Colour::BY_POSITION.len();

/// Why the path or the query of a request cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the values are")]
pub enum Malformed {
    #[error(
        "a tile path is /SERVICE/tilecache/TOKEN/CHANNEL/PLANE/[TIME/]SLICE/ROW_COLUMN_LEVEL.png, or begins with mcfc or viking after tilecache; this path has too few segments or too many"
    )]
    Shape,
    #[error(
        "a box of voxels is at /voxels/TOKEN/CHANNEL/LEVEL/x0-x1_y0-y1_z0-z1.npy; this path has too few segments or too many"
    )]
    VoxelsShape,
    #[error(
        "{0:?} is not a box: x0-x1_y0-y1_z0-z1{suffixes} is expected, in voxels of the level, each end above its start",
        suffixes = BOX_FILES.each_ref().map(|file| file.suffix).join(" or ")
    )]
    Box(String),
    #[error("a file of the format {0} holds one channel; only .tif may hold several")]
    OneChannel(&'static str),
    #[error(
        "a tile with a range and colours is at /view/TOKEN/LAYERS/PLANE/[TIME/]SLICE/ROW_COLUMN_LEVEL.png, the overview of a slice is small.png instead, and the range of what is visible at /view/TOKEN/CHANNEL/range.json; this path has too few segments or too many"
    )]
    ViewShape,
    #[error(
        "{0:?} is not a layer: CHANNEL:LO:HI:GAMMA:MAP is expected, LO and HI being finite numbers, GAMMA one above 0, and MAP grey, inverted, fire, viridis, magma, cyanhot, coolwarm, or a colour of six hexadecimal digits"
    )]
    Layer(String),
    #[error(
        "{0:?} is neither a slice nor a slab of slices: a number, FIRST-LAST.max, FIRST-LAST.min or FIRST-LAST.mean is expected, LAST being exclusive and above FIRST"
    )]
    Slab(String),
    #[error(
        "the precomputed format is at /neuroglancer/TOKEN/CHANNEL/info, /neuroglancer/TOKEN/CHANNEL/segment_properties/info and /neuroglancer/TOKEN/CHANNEL/LEVEL/x0-x1_y0-y1_z0-z1, with CHANNEL@T for time point T; there is no other file"
    )]
    PrecomputedShape,
    #[error(
        "{0:?} is not a chunk: x0-x1_y0-y1_z0-z1 is expected, in voxels of the level, each end above its start"
    )]
    Chunk(String),
    #[error(
        "an OME-Zarr image is at /zarr/0.4/TOKEN.ome.zarr or /zarr/0.4/TOKEN/CHANNEL.ome.zarr, or below /zarr/0.5; this path is neither"
    )]
    ZarrShape,
    #[error(
        "{key:?} is not a key in an OME-Zarr image of version {version}: {expected} are expected, without the axes that the image lacks, and after labels/NAME/ for label images"
    )]
    ZarrKey {
        key: String,
        version: &'static str,
        expected: &'static str,
    },
    #[error("{0:?} is not UTF-8 once percent-decoded")]
    Encoding(String),
    #[error("{0:?} is not a plane: xy, xz or yz are expected")]
    Plane(String),
    #[error("the {what} {text:?} is not a number of ASCII digits that fits in 64 bits")]
    Number { what: &'static str, text: String },
    #[error("level {0} cannot exist: no volume has more than 63 levels")]
    Level(u64),
    #[error("the file name {file:?} is not {expected}")]
    File {
        file: String,
        expected: &'static str,
    },
    #[error("the third segment of a viking path is {0:?}; \"volume\" is expected")]
    Volume(String),
    #[error(transparent)]
    Name(#[from] NotAName),
    #[error("{0} channels are too many: at most six are shown together")]
    TooManyChannels(usize),
    #[error("{parameter}={value:?} is not {expected}")]
    Parameter {
        parameter: &'static str,
        value: String,
        expected: &'static str,
    },
    #[error(
        "{0:?} is not a channel with a colour: NAME, NAME: or NAME:COLOUR is expected, COLOUR being one of C, M, Y, R, G, B"
    )]
    ChannelItem(String),
}
