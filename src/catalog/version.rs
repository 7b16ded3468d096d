//! The version of a dataset: a short digest of all that decides its pixels, and what its documents say of it.
//!
//! It is known before windows are measured: the sample that a window is measured from depends on the files only.

use super::channel::ChannelWindow;
use super::resolve::RULES;
use super::{Catalog, Channel, Dataset};
use crate::geometry::{Scaling, Xyz};
use crate::name::Name;
use crate::paint::{PngProfile, Window};
use crate::tile::Fingerprint;

/// The number of hexadecimal digits.
const DIGITS: usize = 12;

#[derive(Hash)]
struct DatasetVersion<'a> {
    rules: u32,
    profile: PngProfile,
    /// They decide which levels and chunk shapes there are.
    limits: [u64; 2],
    scaling: Scaling,
    offset: Xyz<i64>,
    voxel_size: Option<Xyz<u64>>,
    square_pixels: bool,
    not_found_outside: bool,
    channels: Vec<ChannelVersion<'a>>,
}

#[derive(Hash)]
struct ChannelVersion<'a> {
    name: &'a Name,
    channel: Fingerprint,
    made: Vec<Fingerprint>,
    window: WindowVersion,
    label: Option<&'a str>,
    colour: Option<&'a str>,
    voxel_size: Option<Xyz<u64>>,
    voxel_unit: Option<&'a str>,
    position: Option<Xyz<i64>>,
    origin: Option<Xyz<u64>>,
    times: Option<u64>,
}

#[derive(Hash)]
enum WindowVersion {
    Known(Window),
    Measured,
    OfBytes(Option<Window>),
}

impl Catalog {
    /// The version of one of its datasets. Determined once for each generation and its limits.
    pub fn version<'a>(&self, dataset: &'a Dataset) -> &'a Name {
        dataset.derived.version.get_or_init(|| {
            let digest = Fingerprint::of(&self.versioned(dataset)).to_string();
            Name::nearest(digest.get(..DIGITS).unwrap_or(&digest))
        })
    }

    /// The dataset in addresses that documents contain: with its version if that is configured.
    pub fn address(&self, dataset: &Dataset) -> String {
        match self.names_versions {
            true => format!("{}@{}", dataset.token, self.version(dataset)),
            false => dataset.token.to_string(),
        }
    }

    fn versioned<'a>(&self, dataset: &'a Dataset) -> DatasetVersion<'a> {
        DatasetVersion {
            rules: RULES,
            profile: self.profile,
            limits: [dataset.limits.voxels_per_tile, dataset.limits.voxels_per_box],
            scaling: dataset.scaling,
            offset: dataset.offset,
            voxel_size: dataset.voxel_size.map(bits),
            square_pixels: dataset.square_pixels,
            not_found_outside: dataset.not_found_outside,
            channels: dataset.channels.values().map(|channel| channel_version(dataset, channel)).collect(),
        }
    }
}

fn channel_version<'a>(dataset: &Dataset, channel: &'a Channel) -> ChannelVersion<'a> {
    ChannelVersion {
        name: &channel.name,
        channel: channel.fingerprint,
        made: channel.made.iter().map(|level| level.fingerprint).collect(),
        window: match &channel.window {
            ChannelWindow::Known(window) => WindowVersion::Known(*window),
            ChannelWindow::Measured(_) => WindowVersion::Measured,
            ChannelWindow::OfBytes { range, .. } => WindowVersion::OfBytes(*range),
        },
        label: channel.label.as_deref(),
        colour: channel.colour.as_deref(),
        voxel_size: channel.voxel_size.map(bits),
        voxel_unit: channel.voxel_unit.as_deref(),
        position: dataset.placed(channel),
        origin: channel.origin.map(bits),
        times: channel.is_series.then_some(channel.times),
    }
}

fn bits(numbers: Xyz<f64>) -> Xyz<u64> {
    numbers.map(f64::to_bits)
}
