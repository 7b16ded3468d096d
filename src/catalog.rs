//! The catalogue: which tokens there are, their datasets and channels, and what a request for a tile of them means.
//!
//! It is opened from settings and never changes: files are opened, layouts recognised, levels and windows decided then.
//! Where a file has changed since, its dataset is opened anew and another catalogue has it ([`Catalog::with`]). Every fault is collected with the key of the setting that it belongs to. A request is resolved
//! without reading any data; what reading takes is in the plan that a [`Resolved`] request makes.

mod channel;
mod cost;
mod describe;
mod levels;
mod made;
mod open;
mod origin;
mod overview;
mod probe;
mod resolve;
mod source;
mod stored;
mod survey;
mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use utoipa::ToSchema;

use crate::geometry::{Level, LevelView, Scaling, Xyz};
use crate::name::Name;
use crate::paint::PngProfile;
use crate::volume::hdf5::ChunkStore;

pub use channel::{Channel, SpelledOut};
pub use cost::{Inspection, LevelCost, TileCost};
pub use describe::{ChannelDescription, DatasetDescription, LevelDescription};
pub use made::sidecar_path;
use open::Stores;
pub use open::{Opened, Reopened};
pub use origin::Origin;
pub use overview::Overview;
pub use probe::Trial;
pub use resolve::{NotFound, Resolved};
pub use source::SourceDescription;
pub use stored::StoredLevel;
pub use survey::{Histogram, Percentile, Survey};

/// Every dataset that is served.
#[derive(Debug)]
pub struct Catalog {
    datasets: BTreeMap<Name, Arc<Dataset>>,
    max_voxels_per_tile: u64,
    profile: PngProfile,
    stores: Stores,
}

/// The layout of a file.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Recognised {
    /// Its name.
    pub layout: &'static str,
    /// What it was recognised by.
    pub because: String,
}

/// What one token names.
#[derive(Debug)]
pub struct Dataset {
    /// The token.
    pub token: Name,
    /// What halving a level does to z.
    pub scaling: Scaling,
    /// The position of the first voxel, in voxels of level 0; it shifts slice numbers.
    pub offset: Xyz<i64>,
    /// The size of a voxel, as configured; it goes before what channels know.
    pub voxel_size: Option<Xyz<f64>>,
    /// Whether xz and yz tiles are drawn with square pixels where voxel sizes are known.
    pub square_pixels: bool,
    /// Whether tiles wholly outside are not found, rather than black.
    pub not_found_outside: bool,
    /// Whether an instrument is writing its files: it is served as it was when they were opened last.
    pub growing: bool,
    /// The layouts of its files, as far as they were recognised.
    pub layouts: Vec<Recognised>,
    /// The channels by name.
    pub channels: BTreeMap<Name, Arc<Channel>>,
}

impl Dataset {
    /// How each level of a channel is had, finest first.
    pub(crate) fn views(&self, channel: &Channel) -> impl Iterator<Item = LevelView> + Clone {
        Level::all().map_while(|level| channel.view(level, self.scaling))
    }
}

impl Catalog {
    /// Every dataset, by token.
    pub fn datasets(&self) -> impl Iterator<Item = &Arc<Dataset>> {
        self.datasets.values()
    }

    /// The dataset of a token.
    pub fn dataset(&self, token: &Name) -> Option<&Arc<Dataset>> {
        self.datasets.get(token)
    }

    /// The same catalogue with another dataset in the place of the one of that token.
    pub fn with(&self, dataset: Arc<Dataset>) -> Self {
        let mut datasets = self.datasets.clone();
        datasets.insert(dataset.token.clone(), dataset);
        let Self { max_voxels_per_tile, profile, .. } = *self;
        Self { datasets, max_voxels_per_tile, profile, stores: self.stores.clone() }
    }

    /// The decoded chunks of all its volumes.
    pub fn chunks(&self) -> &ChunkStore {
        &self.stores.chunks
    }

    /// How tiles are encoded.
    pub fn profile(&self) -> PngProfile {
        self.profile
    }
}
