//! BigDataViewer's HDF5: `/t%05d/s%02d/%d/cells` by time point, setup and level.
//!
//! Source: the format's description by its authors (BigDataViewer, "HDF5 Image Data" in "About the BigDataViewer data
//! format"). Each setup is a channel here. `/sNN/resolutions` has the factors in x, y, z order; `cells` are z, y, x.
//! Files written before setups had a `dataType` attribute hold unsigned 16-bit numbers as signed ones, bit for bit.
//! A view that is missing at some time is a gap.

use super::{FoundChannel, FoundLevel, Layout, Paths, numbered};
use crate::geometry::Xyz;
use crate::name::Name;
use crate::paint::Kind;
use crate::volume::VoxelType;
use crate::volume::hdf5::{OpenError, OpenFile, View};

/// The layout.
pub(super) struct BigDataViewer;

impl Layout for BigDataViewer {
    fn name(&self) -> &'static str {
        "BigDataViewer"
    }

    fn recognise(&self, file: &OpenFile) -> Option<String> {
        let names = file.names_in("/");
        let (_, time) = numbered(&names, "t").into_iter().next()?;
        let (_, setup) = numbered(&names, "s")
            .into_iter()
            .find(|(_, setup)| file.has(&format!("/{setup}/resolutions")))?;
        Some(format!("it has the groups {time} and {setup}/resolutions"))
    }

    fn channels(&self, file: &OpenFile) -> Result<Vec<FoundChannel>, OpenError> {
        let names = file.names_in("/");
        let times = numbered(&names, "t");
        let setups = numbered(&names, "s");
        let mut channels = Vec::new();
        for (_, setup) in setups {
            if let Some(channel) = channel(file, &setup, &times)? {
                channels.push(channel);
            }
        }
        Ok(channels)
    }
}

/// The channel of a setup; `None` where it has no cells at any time.
fn channel(file: &OpenFile, setup: &str, times: &[(u64, String)]) -> Result<Option<FoundChannel>, OpenError> {
    let mut levels = Vec::new();
    for (level, factor) in factors(file, setup)?.into_iter().enumerate() {
        let paths = cells(file, setup, level, times);
        if let Some(first) = paths.first() {
            let view = View { unsigned: is_legacy(file, setup, first)?, ..View::zyx() };
            levels.push(FoundLevel { factor: Some(factor), paths, view });
        }
    }
    let (kind, name) = (Kind::Image, Name::nearest(setup));
    let channel = FoundChannel { name, label: None, kind, range: None, voxel_size: None, levels };
    Ok((!channel.levels.is_empty()).then_some(channel))
}

/// The factors of each level, as the file has them, in x, y, z order.
fn factors(file: &OpenFile, setup: &str) -> Result<Vec<Xyz<u64>>, OpenError> {
    let numbers = file.dataset(&format!("/{setup}/resolutions"))?.numbers()?;
    let whole = |value: f64| value.round().max(1.0) as u64;
    Ok(numbers.chunks_exact(3).map(|row| Xyz::new(whole(row[0]), whole(row[1]), whole(row[2]))).collect())
}

/// Where the cells of each time point are, up to the last; time points are numbered from 0.
fn cells(file: &OpenFile, setup: &str, level: usize, times: &[(u64, String)]) -> Paths {
    /// Numbers beyond this are no time points of a real file.
    const MOST_TIMES: u64 = 1 << 20;
    let count = times.last().map_or(0, |(last, _)| last + 1).min(MOST_TIMES);
    let mut paths = vec![None; count as usize];
    for (number, time) in times {
        let path = format!("/{time}/{setup}/{level}/cells");
        if let Some(place) = paths.get_mut(*number as usize)
            && file.has(&path)
        {
            *place = Some(path);
        }
    }
    Paths::Times(paths)
}

/// Whether signed 16-bit numbers mean unsigned ones.
fn is_legacy(file: &OpenFile, setup: &str, cells: &str) -> Result<bool, OpenError> {
    let typed = file.attributes(&format!("/{setup}")).and_then(|attributes| attributes.text("dataType"));
    Ok(typed.is_none() && file.dataset(cells)?.stored.voxel == VoxelType::I16)
}
