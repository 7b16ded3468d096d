//! The version of a dataset: a short digest of everything that decides its pixels and the text of
//! its documents.
//!
//! It is known before windows are measured: the sample that a window is measured from depends on
//! the files only.
//!
//! Addresses with a version are cached for a year, so nothing may be forgotten here: datasets and
//! channels are taken apart without `..`, and a new field does not compile until it is named.

use std::hash::Hash;

use voltile_base::description::ChannelFacts;
use voltile_base::name::Name;
use voltile_base::tile::Fingerprint;

use super::resolve::RULES;
use super::{Catalog, Channel, Dataset};

/// The number of hexadecimal digits.
const DIGITS: usize = 12;

impl Catalog {
    /// The version of one of its datasets. Determined once for each generation and its limits.
    pub fn version<'a>(&self, dataset: &'a Dataset) -> &'a Name {
        dataset.derived.version.get_or_init(|| {
            let digest = self.version_digest(dataset).to_string();
            Name::nearest(digest.get(..DIGITS).unwrap_or(&digest))
        })
    }

    /// The dataset in addresses that documents contain: with its version if that is configured.
    pub fn address(&self, dataset: &Dataset) -> String {
        if self.documents_name_versions && !dataset.live {
            format!("{}@{}", dataset.token, self.version(dataset))
        } else {
            dataset.token.to_string()
        }
    }

    fn version_digest(&self, dataset: &Dataset) -> Fingerprint {
        let Dataset {
            token: _,
            settings: _,
            style,
            // Documents do not name the versions of live datasets.
            live: _,
            growing: _,
            folder: _,
            file: _,
            layouts: _,
            // Notices follow from the files.
            notices: _,
            channels,
            // The positions of all channels depend on the first channel, and are in their digests.
            first: _,
            counters: _,
            limits,
            derived: _,
        } = dataset;
        let channels: Vec<_> = channels
            .values()
            .map(|channel| channel_version(dataset, channel))
            .collect();
        Fingerprint::digest(&(RULES, self.style, style, limits, channels))
    }
}

/// A digest of everything of a channel that decides its pixels and the text of documents.
fn channel_version(dataset: &Dataset, channel: &Channel) -> Fingerprint {
    let Channel {
        name,
        facts,
        times,
        is_series,
        window_source,
        pyramid_levels,
        fingerprint,
        // The fingerprint covers these.
        kind: _,
        voxel: _,
        missing: _,
        shows_stored_values: _,
        has_gaps: _,
        levels: _,
        // The result of `space` covers these.
        offset: _,
        transforms: _,
        // Documents do not depend on these.
        file: _,
        list_order: _,
        window: _,
        surveyed: _,
        unsampled: _,
        watch: _,
        // Documents that depend on the table are revalidated at each use.
        names: _,
    } = channel;
    let ChannelFacts {
        label,
        colour,
        timing,
        // The result of `space` covers these.
        voxel_size: _,
        voxel_unit: _,
        // Documents do not depend on these.
        voxel_size_from: _,
        labels_because: _,
    } = facts;
    let pyramid = pyramid_levels.iter().map(|level| level.fingerprint);
    let pyramid: Vec<_> = pyramid.collect();
    let timing = timing
        .as_ref()
        .map(|timing| (timing.step.to_bits(), timing.uneven.len(), &timing.began));
    let times = is_series.then_some((times, timing));
    Fingerprint::digest(&(
        name,
        label,
        colour,
        fingerprint,
        pyramid,
        window_source,
        space(dataset, channel),
        times,
    ))
}

/// Where the voxels of a channel lie: their size, the position of the first voxel in the tiles of
/// the dataset, and the transforms to the space of the file.
fn space(dataset: &Dataset, channel: &Channel) -> impl Hash {
    let transforms: Vec<_> = channel
        .transforms
        .iter()
        .map(|(time, known)| (*time, known.rows().map(|row| row.map(f64::to_bits))))
        .collect();
    let voxel_size = channel.facts.voxel_size;
    (
        voxel_size.map(|size| size.map(f64::to_bits)),
        &channel.facts.voxel_unit,
        dataset.known_grid_offset(channel),
        transforms,
    )
}
