//! The plan of a request: a value that says what is rendered, from what, and under which key.

use std::sync::Arc;

use voltile_base::paint::{Style, TileFormat};
use voltile_base::tile::TileKey;
use voltile_hdf5::volume::ReadPolicy;
use voltile_render::plan::{BoxEncoding, Cutout, Overview, PixelKind, Plan, Visible};
use voltile_render::{RenderError, Scratch};

use super::footprint::Footprint;
use super::visible::range_of;
use super::{Channel, Origin};

/// A request whose names and numbers have been resolved. Making it reads no data.
#[derive(Debug)]
pub struct RequestPlan {
    /// A digest of everything that determines the bytes of the answer; also its ETag.
    pub key: TileKey,
    /// The dataset and channels that it shows.
    pub origin: Origin,
    /// The picture or the voxels that are rendered.
    pub subject: Subject,
    /// The channels whose windows have yet to be measured. They determine the bytes: once they are
    /// known, the request must be planned again.
    pub unmeasured: Vec<Arc<Channel>>,
}

/// The picture or the voxels that a request asks for.
#[derive(Debug)]
pub enum Subject {
    /// A black tile: the address lies outside of all volumes, or at a time point without data.
    Black(PixelKind, Style, TileFormat),
    /// A tile.
    Tile(Plan),
    /// A thumbnail of a slice.
    Overview(Overview),
    /// The range of the visible values.
    Range(Visible),
    /// A box of voxels.
    Box(Cutout, BoxEncoding),
}

/// For how long an answer may be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CachePolicy {
    /// As configured.
    AsConfigured,
    /// It must be revalidated at each use: a live dataset may get another window.
    Revalidated,
    /// Not at all: not all of its voxels have been written, as far as is known.
    No,
}

/// The key of the black tiles of a kind.
pub fn black_key(kind: PixelKind, style: Style, format: TileFormat) -> TileKey {
    match format {
        // The format is not hashed, as in versions that had only PNG: clients know these keys as
        // ETags.
        TileFormat::Png => TileKey::digest(&("black", kind, style)),
        TileFormat::Jpeg => TileKey::digest(&("black", kind, format)),
    }
}

impl RequestPlan {
    pub(super) fn new(
        key: TileKey,
        origin: Origin,
        subject: Subject,
        unmeasured: Vec<Arc<Channel>>,
    ) -> Self {
        Self {
            key,
            origin,
            subject,
            unmeasured,
        }
    }

    /// Whether it is a black tile, which shows no voxels.
    pub fn is_black(&self) -> bool {
        matches!(self.subject, Subject::Black(..))
    }

    /// Whether it is a picture of voxels, which the cache tiers keep.
    pub fn is_picture(&self) -> bool {
        matches!(self.subject, Subject::Tile(_) | Subject::Overview(_))
    }

    /// The plan and the encoding of a box of voxels; `None` for anything else.
    pub fn cutout(&self) -> Option<(&Cutout, BoxEncoding)> {
        match &self.subject {
            Subject::Box(cutout, encoding) => Some((cutout, *encoding)),
            _ => None,
        }
    }

    /// The bytes of a box before compression; 0 for anything else.
    pub fn bytes(&self) -> u64 {
        self.cutout()
            .map_or(0, |(cutout, encoding)| encoding.bytes(cutout))
    }

    /// The stored voxels that it is rendered from.
    pub fn footprint(&self) -> Footprint {
        match &self.subject {
            Subject::Black(..) => Footprint::default(),
            Subject::Tile(plan) => Footprint::of_tiles(std::slice::from_ref(plan)),
            Subject::Overview(plan) => Footprint::of_tiles(&plan.tiles),
            Subject::Range(plan) => Footprint::of_tiles(&plan.tiles),
            Subject::Box(cutout, _) => Footprint::of_box(cutout),
        }
    }

    /// For how long the answer may be kept. Call this after the answer was made: the dataset may
    /// have grown meanwhile.
    pub fn cache_policy(&self) -> CachePolicy {
        if !self.origin.may_grow() {
            return CachePolicy::AsConfigured;
        }
        if self.is_black() || !self.footprint().is_final() {
            return CachePolicy::No;
        }
        if self.cutout().is_some() || !self.origin.has_sampled_window() {
            return CachePolicy::AsConfigured;
        }
        CachePolicy::Revalidated
    }
}

impl Subject {
    /// Draws and encodes a tile, an overview or a box; for a range, makes the JSON document.
    pub fn render(
        &self,
        policy: &ReadPolicy,
        scratch: &mut Scratch,
    ) -> Result<Vec<u8>, RenderError> {
        match self {
            Subject::Black(kind, style, format) => {
                Ok(voltile_render::black(*kind, *style, *format)?)
            }
            Subject::Tile(plan) => voltile_render::render(plan, policy, scratch),
            Subject::Overview(plan) => voltile_render::overview(plan, policy, scratch),
            Subject::Range(plan) => {
                let values = voltile_render::visible(plan, policy, scratch)?;
                // Numbers can always be written.
                Ok(serde_json::to_vec(&range_of(values, plan.level)).unwrap_or_default())
            }
            Subject::Box(cutout, encoding) => {
                voltile_render::cutout(cutout, *encoding, policy, scratch)
            }
        }
    }
}
