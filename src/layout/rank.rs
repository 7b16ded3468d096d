//! How likely a dataset is what its file was written for: what formats declare comes first, tables,
//! coordinates, flags and drawings last.

use voltile_base::axes::AxisName;

use super::Rank;
use super::contents::Candidate;
use super::words::{has_word, words};
use super::{group_of, last_of};

/// Two-dimensional datasets with at most this many rows or columns are tables, not images.
const MAX_COLUMNS: u64 = 16;
/// Datasets with at most one extent above this are lists of small items, for example of matrices.
const MAX_COMPONENTS: u64 = 4;
/// A single picture, or a series of pictures, with a shorter edge is a trace.
const MIN_EDGE: u64 = 8;

/// Words in the name of a dataset of coordinates.
const COORDINATES: [&str; 11] = [
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
];
/// Words in the name of a dataset of flags, if it holds integers: an "image quality" in floats is a
/// picture.
const FLAGS: [&str; 8] = ["quality", "qual", "flag", "flags", "dqf", "qa", "qc", "qf"];
/// Names that say nothing: the group has the name (ODIM's `/dataset1/quality1/data`).
const NAMELESS: [&str; 3] = ["data", "value", "values"];
/// Groups of drawings of the instrument, in lower case (EDAX), which are declared as images.
const DRAWINGS: &str = "/coordinate system/";

impl Candidate {
    /// How likely it is what the file was written for.
    pub fn rank(&self) -> Rank {
        match self.marks.rank {
            Some(Rank::Beside) => Rank::Beside,
            None if self.is_named_beside() => Rank::Beside,
            _ if self.path.to_lowercase().contains(DRAWINGS) => Rank::Beside,
            _ if !self.looks_like_a_volume() || self.is_trace() => Rank::Table,
            rank => rank.unwrap_or_default(),
        }
    }

    /// Whether its name is that of coordinates or flags.
    fn is_named_beside(&self) -> bool {
        let named_by = match last_of(&self.path) {
            last if NAMELESS.contains(&last.to_lowercase().as_str()) => {
                last_of(group_of(&self.path))
            }
            last => last,
        };
        let words = words(named_by);
        has_word(&words, &COORDINATES) || (self.voxel.is_integer() && has_word(&words, &FLAGS))
    }

    /// Whether it has rows and columns, unlike tables and lists.
    pub fn looks_like_a_volume(&self) -> bool {
        let mut extents = self.shape.clone();
        extents.sort_unstable();
        match extents[..] {
            [smaller, _] => smaller > MAX_COLUMNS,
            [.., second_largest, _] => second_largest > MAX_COMPONENTS,
            _ => false,
        }
    }

    /// Whether it has the axes of a picture, or of a series of pictures, but is too narrow for one.
    fn is_trace(&self) -> bool {
        let size = self.size();
        let axes = self.axes();
        let has_rows_and_columns =
            axes.position(AxisName::X).is_some() && axes.position(AxisName::Y).is_some();
        has_rows_and_columns && size.z == 1 && size.x.min(size.y) < MIN_EDGE
    }
}

#[cfg(test)]
mod tests {
    use voltile_hdf5::volume::VoxelType;

    use super::*;

    fn rank(path: &str, shape: &[u64], voxel: VoxelType) -> Rank {
        Candidate::new(path, shape, voxel).rank()
    }

    #[test]
    fn tables_and_traces_lie_beside_volumes() {
        for volume in [
            &[100, 200][..],
            &[1, 100, 200],
            &[2, 9, 100, 200],
            &[5, 5, 5],
            &[100, 200, 3],
        ] {
            assert_eq!(
                rank("/a", volume, VoxelType::U8),
                Rank::Ordinary,
                "{volume:?}"
            );
        }
        for other in [
            &[21_317, 2][..],
            &[2, 21_317],
            &[400, 12],
            &[1000, 3, 3],
            &[1, 1, 500],
            &[1, 7, 500],
        ] {
            assert_eq!(rank("/a", other, VoxelType::U8), Rank::Table, "{other:?}");
        }
        assert_eq!(rank("/lat_bnds", &[400, 2], VoxelType::F64), Rank::Beside);
    }

    #[test]
    fn coordinates_flags_and_drawings_lie_beside_the_data() {
        for path in [
            "/nav_lat",
            "/XLONG",
            "/Geolocation/Longitude",
            "/Coordinate System/Schematic 1",
            "/latitude/data",
        ] {
            assert_eq!(
                rank(path, &[100, 200], VoxelType::F32),
                Rank::Beside,
                "{path}"
            );
        }
        for path in [
            "/l2p_flags",
            "/qualityFlag",
            "/DQF",
            "/ssh_qual",
            "/QF1_VIIRS",
            "/quality1/data",
        ] {
            assert_eq!(
                rank(path, &[100, 200], VoxelType::U8),
                Rank::Beside,
                "{path}"
            );
        }
        for path in [
            "/Image Quality",
            "/plateau",
            "/long_exposure",
            "/quality/band1",
            "/mask",
        ] {
            assert_eq!(
                rank(path, &[100, 200], VoxelType::F32),
                Rank::Ordinary,
                "{path}"
            );
        }
    }
}
