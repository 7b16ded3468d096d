//! Plain files: every dataset that looks like a volume is a channel.
//!
//! Axes come from ilastik's `axistags` (JSON, as the vigra library writes it), from HDF5 dimension labels of one letter,
//! or are guessed by rank and extents in ilastik's way. Voxel sizes come from `element_size_um` (PlantSeg, Fiji) or
//! `resolution` (CREMI), both in z, y, x order.

use super::{FoundChannel, FoundLevel, Layout, Paths};
use crate::axes::{Axes, AxisName};
use crate::geometry::Xyz;
use crate::name::Name;
use crate::paint::Kind;
use crate::volume::hdf5::{Attributes, OpenError, OpenFile, StoredDataset, View};

/// The most positions along a last axis that are taken for channels.
const MOST_COMPONENTS: u64 = 4;
/// The most positions along a first axis of four that are taken for channels rather than times.
const MOST_CHANNELS: u64 = 8;
/// A channel axis is made into at most this many channels.
const MOST_SERVED: u64 = 1000;

/// Names that mark integer data as labels.
const LABEL_NAMES: [&str; 9] =
    ["label", "labels", "neuron_ids", "clefts", "segmentation", "seg", "annotation", "annotations", "ids"];

/// The layout.
pub(super) struct Plain;

impl Layout for Plain {
    fn name(&self) -> &'static str {
        "plain"
    }

    fn recognise(&self, _file: &OpenFile) -> Option<String> {
        Some("it is an HDF5 file of no layout that is known".to_owned())
    }

    fn channels(&self, file: &OpenFile) -> Result<Vec<FoundChannel>, OpenError> {
        let mut volumes = Vec::new();
        for path in file.datasets()? {
            // Datasets that are no volumes, or cannot be opened, are what other programs keep there.
            match file.dataset(&path) {
                Ok(dataset) if looks_like_a_volume(&dataset) => volumes.push(path),
                Ok(_) => {}
                Err(reason) => tracing::debug!("left out: {reason}"),
            }
        }
        let names = names(&volumes);
        let mut channels = Vec::new();
        for (path, name) in volumes.iter().zip(names) {
            let template = channel_at(file, path, name, &Given::default())?;
            channels.extend(one_for_each_component(file, path, template)?);
        }
        Ok(channels)
    }
}

/// What a configuration says of a channel; the rest is found out.
#[derive(Debug, Clone, Default)]
pub struct Given {
    /// The axes.
    pub axes: Option<Axes>,
    /// Axes held still.
    pub fixed: Vec<(AxisName, u64)>,
    /// The kind.
    pub kind: Option<Kind>,
    /// The stored levels; empty for the dataset alone.
    pub levels: Vec<(String, Option<Xyz<u64>>)>,
}

/// The channel that the dataset at `path` is, as far as `given` does not say otherwise.
pub fn channel_at(file: &OpenFile, path: &str, name: Name, given: &Given) -> Result<FoundChannel, OpenError> {
    let dataset = file.dataset(path)?;
    let attributes = file.attributes(path);
    let axes = given.axes.clone().unwrap_or_else(|| axes_of(&dataset, attributes.as_ref()));
    let kind = given.kind.unwrap_or_else(|| kind_of(&dataset));
    let view = View { axes, fixed: given.fixed.clone(), unsigned: false, size: None };
    let one = [(path.to_owned(), Some(Xyz::all(1)))];
    let levels = if given.levels.is_empty() { &one[..] } else { &given.levels };
    let level = |(path, factor): &(String, Option<Xyz<u64>>)| FoundLevel {
        factor: *factor,
        paths: Paths::One(path.clone()),
        view: view.clone(),
    };
    Ok(FoundChannel {
        name,
        label: None,
        kind,
        range: None,
        voxel_size: attributes.as_ref().and_then(voxel_size),
        levels: levels.iter().map(level).collect(),
    })
}

/// A channel axis makes a channel of each of its positions: `name_0`, `name_1`, …
fn one_for_each_component(
    file: &OpenFile,
    path: &str,
    channel: FoundChannel,
) -> Result<Vec<FoundChannel>, OpenError> {
    let position = channel.levels.first().and_then(|level| level.view.axes.position(AxisName::C));
    let count = match position {
        Some(position) => file.dataset(path)?.shape.get(position).copied().unwrap_or(1),
        None => 1,
    };
    if count <= 1 {
        return Ok(vec![channel]);
    }
    let component = |index: u64| {
        let mut channel = channel.clone();
        channel.name = Name::nearest(&format!("{}_{index}", channel.name));
        channel.levels.iter_mut().for_each(|level| level.view.fixed.push((AxisName::C, index)));
        channel
    };
    Ok((0..count.min(MOST_SERVED)).map(component).collect())
}

/// Tables of numbers have few columns; a volume has extents along rows and columns.
fn looks_like_a_volume(dataset: &StoredDataset) -> bool {
    let is_table = dataset.shape.len() == 2 && dataset.shape.last().is_some_and(|n| *n <= MOST_COMPONENTS);
    !is_table && dataset.shape.iter().all(|extent| *extent > 0)
}

fn axes_of(dataset: &StoredDataset, attributes: Option<&Attributes>) -> Axes {
    let rank = dataset.shape.len();
    let tagged = attributes.and_then(|a| a.text("axistags")).and_then(|json| axistags(&json));
    let labelled = || dataset.dimension_labels().and_then(|labels| Axes::new(&labels.to_lowercase()).ok());
    tagged.or_else(labelled).filter(|axes| axes.rank() == rank).unwrap_or_else(|| guessed(&dataset.shape))
}

/// The keys of vigra's axis tags, in stored order.
fn axistags(json: &str) -> Option<Axes> {
    let tags: serde_json::Value = serde_json::from_str(json).ok()?;
    let keys = tags.get("axes")?.as_array()?.iter().map(|axis| axis.get("key")?.as_str());
    Axes::new(&keys.collect::<Option<String>>()?).ok()
}

fn guessed(shape: &[u64]) -> Axes {
    use AxisName::{C, T, X, Y, Z};
    let few_last = shape.last().is_some_and(|n| *n <= MOST_COMPONENTS);
    match *shape {
        [_, _] => Axes::from_known([Y, X]),
        [y, x, _] if few_last && y.min(x) > MOST_COMPONENTS => Axes::from_known([Y, X, C]),
        [_, _, _] => Axes::from_known([Z, Y, X]),
        [_, _, _, _] if few_last => Axes::from_known([Z, Y, X, C]),
        [first, _, _, _] if first <= MOST_CHANNELS => Axes::from_known([C, Z, Y, X]),
        [_, _, _, _] => Axes::from_known([T, Z, Y, X]),
        _ if few_last => Axes::from_known([T, Z, Y, X, C]),
        _ => Axes::from_known([T, C, Z, Y, X]),
    }
}

fn kind_of(dataset: &StoredDataset) -> Kind {
    let named = dataset.path.split('/').any(|part| LABEL_NAMES.contains(&part.to_ascii_lowercase().as_str()));
    if named && dataset.stored.voxel.is_integer() { Kind::Labels } else { Kind::Image }
}

fn voxel_size(attributes: &Attributes) -> Option<Xyz<f64>> {
    let sizes = attributes.numbers("element_size_um").or_else(|| attributes.numbers("resolution"))?;
    match *sizes.as_slice() {
        [z, y, x] if sizes.iter().all(|size| size.is_finite() && *size > 0.0) => Some(Xyz::new(x, y, z)),
        _ => None,
    }
}

/// A name for each path: its last component, or as many more as tell it from the others.
fn names(paths: &[String]) -> Vec<Name> {
    let parts: Vec<Vec<&str>> =
        paths.iter().map(|p| p.split('/').filter(|part| !part.is_empty()).collect()).collect();
    let mut used = vec![1; paths.len()];
    loop {
        let names: Vec<Name> = parts.iter().zip(&used).map(|(parts, used)| tail(parts, *used)).collect();
        let clashing: Vec<usize> = (0..names.len())
            .filter(|i| {
                used[*i] < parts[*i].len() && names.iter().filter(|name| **name == names[*i]).count() > 1
            })
            .collect();
        if clashing.is_empty() {
            return told_apart(names);
        }
        clashing.into_iter().for_each(|i| used[i] += 1);
    }
}

fn tail(parts: &[&str], count: usize) -> Name {
    Name::nearest(&parts[parts.len().saturating_sub(count)..].join("_"))
}

/// Paths that differ only in characters that names cannot have are numbered.
fn told_apart(names: Vec<Name>) -> Vec<Name> {
    let mut taken: Vec<Name> = Vec::with_capacity(names.len());
    for name in names {
        let mut free = name.clone();
        let mut number = 2;
        while taken.contains(&free) {
            free = Name::nearest(&format!("{name}_{number}"));
            number += 1;
        }
        taken.push(free);
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_take_as_much_of_a_path_as_they_need() {
        let paths = ["/raw", "/a/seg", "/b/seg", "/c/d/seg"].map(str::to_owned);
        let names: Vec<String> = names(&paths).iter().map(Name::to_string).collect();
        assert_eq!(names, ["raw", "a_seg", "b_seg", "d_seg"]);
        let odd = ["/a b", "/a_b"].map(str::to_owned);
        let names: Vec<String> = super::names(&odd).iter().map(Name::to_string).collect();
        assert_eq!(names, ["a_b", "a_b_2"]);
    }

    #[test]
    fn axes_are_guessed_by_rank_and_extent() {
        let guess = |shape: &[u64]| guessed(shape).to_string();
        assert_eq!(guess(&[100, 200]), "yx");
        assert_eq!(guess(&[30, 100, 200]), "zyx");
        assert_eq!(guess(&[100, 200, 3]), "yxc");
        assert_eq!(guess(&[3, 3, 3]), "zyx");
        assert_eq!(guess(&[9, 100, 200, 2]), "zyxc");
        assert_eq!(guess(&[2, 9, 100, 200]), "czyx");
        assert_eq!(guess(&[20, 9, 100, 200]), "tzyx");
        assert_eq!(guess(&[5, 9, 100, 200, 2]), "tzyxc");
        assert_eq!(guess(&[5, 2, 9, 100, 200]), "tczyx");
    }

    #[test]
    fn axistags_are_read_in_stored_order() {
        let json = r#"{"axes":[{"key":"t","typeFlags":8},{"key":"y"},{"key":"x"}]}"#;
        assert_eq!(axistags(json).map(|axes| axes.to_string()), Some("tyx".to_owned()));
        assert_eq!(axistags("{}"), None);
        assert_eq!(axistags("no json"), None);
    }
}
