//! CATMAID's HDF5 tile source: `/<scale>/<z>/data`, one dataset per section.
//!
//! Source: CATMAID's tile view (`django/applications/catmaid/control/tile.py`). A section is y, x;
//! scale s is downsampled by 2^s along x and y. Missing sections are gaps; missing scales are
//! derived from a finer one. The first scale is level 0 here, whatever its number.
//!
//! Example: `/0/0/data` and `/0/2/data` are the channel `data` of three sections, the second of
//! which is a gap; `/1/0/data` and `/1/2/data` are its level with the factor 2 × 2 × 1.

use voltile_base::axes::{Axes, AxisName};
use voltile_base::geometry::Xyz;
use voltile_base::name::Name;
use voltile_hdf5::volume::hdf5::{OpenError, View};

use super::contents::Contents;
use super::{FoundChannel, FoundLevel, Paths, numbered};

/// Larger numbers are not scales of a real file.
const MAX_SCALES: u64 = 32;

pub(super) fn recognise(contents: &Contents<'_>) -> Option<String> {
    let (_, scale) = scales(contents).into_iter().next()?;
    let (_, section) = numbered(&contents.file.names_in(&format!("/{scale}")), "")
        .into_iter()
        .next()?;
    let path = format!("/{scale}/{section}/data");
    let is_section = contents
        .file
        .dataset(&path)
        .is_ok_and(|section| section.shape.len() == 2);
    is_section.then(|| format!("it has {path}"))
}

pub(super) fn channels(contents: &Contents<'_>) -> Result<Vec<FoundChannel>, OpenError> {
    let scales = scales(contents);
    let first = scales.first().map_or(0, |(first, _)| *first);
    let mut levels = Vec::new();
    for (number, scale) in scales {
        let sections = numbered(&contents.file.names_in(&format!("/{scale}")), "");
        let paths = sections
            .into_iter()
            .map(|(z, section)| (z, format!("/{scale}/{section}/data")));
        let factor = 1 << (number - first);
        levels.push(FoundLevel {
            factor: Some(Xyz::new(factor, factor, 1)),
            paths: Paths::sections(paths),
            view: View::from_axes(Axes::from_known([AxisName::Y, AxisName::X])),
        });
    }
    levels.retain(|level| level.paths.first().is_some());
    Ok(vec![FoundChannel::new(Name::nearest("data"), levels)])
}

/// The groups of scales, by number.
fn scales(contents: &Contents<'_>) -> Vec<(u64, String)> {
    let mut scales = numbered(contents.root(), "");
    scales.retain(|(number, _)| *number < MAX_SCALES);
    scales
}
