//! Luxendo's `.lux.h5`: `/Data` with `/Data_2_2_2`, …, and JSON in `/metadata`.
//!
//! Source: Luxendo, "The Luxendo Image format". One file holds one stack of one channel at one time
//! point, z, y, x. The numbers in a name are integer factors of width, height and depth.
//! `main.lux.h5`, which links the files of an experiment, is handled in [`main_file`].
//!
//! Example: `/Data` and `/Data_2_2_2`, with `"voxel_size_um": {"width": 0.2, "height": 0.2,
//! "depth": 1}` in `/metadata`, are the channel `Data` with two levels and voxels of 0.2 × 0.2 × 1
//! µm.

pub(super) mod main_file;

use serde_json::Value;
use voltile_base::geometry::Xyz;
use voltile_base::name::Name;
use voltile_hdf5::volume::hdf5::{OpenError, OpenFile};

use super::contents::Contents;
use super::{FoundChannel, FoundLevel, Paths, VoxelSize, number_after};

const METADATA: &str = "/metadata";

pub(super) fn recognise(contents: &Contents<'_>) -> Option<String> {
    let mut levels = levels(contents).into_iter();
    let (_, finest) = levels.next().filter(|(_, name)| name == "Data")?;
    let data = contents.file.dataset(&format!("/{finest}")).ok()?;
    let beside = match levels.next() {
        Some((_, coarser)) => format!("/{coarser}"),
        None => contents.file.text(METADATA).map(|_| METADATA.to_owned())?,
    };
    (data.shape.len() == 3).then(|| format!("it has /{finest} and {beside}"))
}

pub(super) fn channels(contents: &Contents<'_>) -> Result<Vec<FoundChannel>, OpenError> {
    let levels = levels(contents)
        .into_iter()
        .map(|(factor, name)| FoundLevel::zyx(Some(factor), Paths::One(format!("/{name}"))));
    let channel = FoundChannel::new(Name::nearest("Data"), levels.collect());
    Ok(vec![channel.with_voxel(voxel_size(contents.file))])
}

/// `Data` and its downsampled datasets, with their factors.
fn levels(contents: &Contents<'_>) -> Vec<(Xyz<u64>, String)> {
    let mut levels: Vec<(Xyz<u64>, String)> = contents
        .root()
        .iter()
        .filter_map(|name| Some((factor(name)?, name.clone())))
        .collect();
    levels.sort_by_key(|(factor, _)| factor.volume());
    levels
}

/// The factor in a name: 1 for `Data`; 2, 3, 4 along x, y, z for `Data_2_3_4`.
fn factor(name: &str) -> Option<Xyz<u64>> {
    let suffix = name.strip_prefix("Data")?;
    if suffix.is_empty() {
        return Some(Xyz::all(1));
    }
    let parts = suffix.strip_prefix('_')?.split('_');
    let numbers: Option<Vec<u64>> = parts.map(|part| number_after(part, "")).collect();
    let [x, y, z] = numbers?[..] else {
        return None;
    };
    Some(Xyz::new(x, y, z)).filter(|factor| factor.volume() > 0)
}

fn voxel_size(file: &OpenFile) -> Option<VoxelSize> {
    let metadata: Value = serde_json::from_str(&file.text(METADATA)?).ok()?;
    let size = &metadata["processingInformation"]["voxel_size_um"];
    let [x, y, z] = ["width", "height", "depth"].map(|name| size[name].as_f64());
    VoxelSize::xyz(&[x?, y?, z?], Some("µm"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_parsed_from_names() {
        assert_eq!(factor("Data"), Some(Xyz::all(1)));
        assert_eq!(factor("Data_2_3_4"), Some(Xyz::new(2, 3, 4)));
        for other in ["Data_2_2", "Data_0_2_2", "Datas", "Data_a_b_c", "Data_"] {
            assert_eq!(factor(other), None, "{other}");
        }
    }
}
