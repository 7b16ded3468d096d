//! How likely a dataset is what its file was written for: what formats declare comes first, tables, coordinates, flags and
//! drawings last.

use super::Rank;
use super::contents::Candidate;
use super::last_of;
use super::words::{has_word, words};
use crate::base::axes::AxisName;

/// Images have more rows and columns than this; two-dimensional datasets with fewer are tables.
const MAX_COLUMNS: u64 = 16;
/// Datasets whose extents except one are at most this are lists of small items, such as matrices.
const MAX_COMPONENTS: u64 = 4;
/// A single picture, or a series of pictures, with a shorter edge is a trace.
const MIN_EDGE: u64 = 8;

/// Words in the name of a dataset that lies beside the data, and whether it does only if it holds integers: an "image
/// quality" in floats is a picture.
const BESIDE: [(&[&str], bool); 2] = [
    (
        &[
            "lat",
            "lats",
            "latitude",
            "latitudes",
            "lon",
            "lons",
            "longitude",
            "longitudes",
            "xlat",
            "xlong",
            "bnds",
        ],
        false,
    ),
    (&["quality", "flag", "flags", "dqf", "qa", "qc"], true),
];
/// Groups of drawings of the instrument, in lower case (EDAX), which are declared as images.
const DRAWINGS: &str = "/coordinate system/";

impl Candidate {
    /// How likely it is what the file was written for.
    pub fn rank(&self) -> Rank {
        let name = words(last_of(&self.path));
        let is_named =
            |(known, whole): &(&[&str], bool)| has_word(&name, known) && (self.voxel.is_integer() || !whole);
        let is_drawing = || self.path.to_lowercase().contains(DRAWINGS);
        match self.marks.rank {
            _ if !self.looks_like_a_volume() || self.is_trace() || is_drawing() => Rank::Beside,
            Some(rank) => rank,
            None if BESIDE.iter().any(is_named) => Rank::Beside,
            None => Rank::Ordinary,
        }
    }

    /// Whether it has rows and columns, unlike tables and lists.
    fn looks_like_a_volume(&self) -> bool {
        let mut extents = self.shape.clone();
        extents.sort_unstable();
        let second = extents.len().checked_sub(2).and_then(|place| extents.get(place)).copied().unwrap_or(0);
        second > if self.shape.len() == 2 { MAX_COLUMNS } else { MAX_COMPONENTS }
    }

    /// Whether it is a picture, or a series of pictures, that is too narrow to be one.
    fn is_trace(&self) -> bool {
        let size = self.size();
        let is_flat = size.z == 1
            && [AxisName::X, AxisName::Y].iter().all(|axis| self.axes().position(*axis).is_some());
        is_flat && size.x.min(size.y) < MIN_EDGE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::VoxelType;

    fn rank(path: &str, shape: &[u64], voxel: VoxelType) -> Rank {
        Candidate::unmarked(path, shape, voxel).rank()
    }

    #[test]
    fn tables_and_traces_lie_beside_volumes() {
        for volume in [&[100, 200][..], &[1, 100, 200], &[2, 9, 100, 200], &[5, 5, 5], &[100, 200, 3]] {
            assert_eq!(rank("/a", volume, VoxelType::U8), Rank::Ordinary, "{volume:?}");
        }
        for other in [&[21_317, 2][..], &[2, 21_317], &[400, 12], &[1000, 3, 3], &[1, 1, 500], &[1, 7, 500]] {
            assert_eq!(rank("/a", other, VoxelType::U8), Rank::Beside, "{other:?}");
        }
    }

    #[test]
    fn coordinates_flags_and_drawings_lie_beside_the_data() {
        for path in ["/nav_lat", "/XLONG", "/Geolocation/Longitude", "/Coordinate System/Schematic 1"] {
            assert_eq!(rank(path, &[100, 200], VoxelType::F32), Rank::Beside, "{path}");
        }
        for path in ["/l2p_flags", "/qualityFlag", "/DQF"] {
            assert_eq!(rank(path, &[100, 200], VoxelType::U8), Rank::Beside, "{path}");
        }
        for path in ["/Image Quality", "/plateau", "/long_exposure"] {
            assert_eq!(rank(path, &[100, 200], VoxelType::F32), Rank::Ordinary, "{path}");
        }
    }
}
