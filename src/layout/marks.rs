//! Marks: what a dataset's attributes and path say about it, in the conventions of the programs
//! that wrote it.
//!
//! If several layouts describe the same property of a dataset, the first layout wins. Properties
//! that no layout describes are guessed in [`super::guess`].

use voltile_base::axes::Axes;
use voltile_base::geometry::{Affine, Xyz};
use voltile_base::notice::Notice;
use voltile_base::paint::{Kind, Number, Window};
use voltile_base::timing::Timing;
use voltile_hdf5::volume::{Values, VoxelType};

use super::{Rank, VoxelSize};

/// The directions of x, y and z in space.
pub(super) const AXES_OF_SPACE: [[f64; 3]; 3] = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];

/// Facts about a dataset that need no guess.
#[derive(Debug, Clone, Default)]
pub(super) struct Marks {
    /// The reason to take the dataset for one of the layout; `None` if it could be of any layout.
    pub because: Option<String>,
    /// A phrase such as "a palette", if the dataset is never a channel, whatever its shape.
    pub unlisted_as: Option<&'static str>,
    /// How likely the dataset is what the file was written for, if the file tells. Its shape or
    /// path can still lower the rank.
    pub rank: Option<Rank>,
    /// The path to derive its name from, if its own path is less informative.
    pub named_by: Option<String>,
    /// Its name in the file.
    pub label: Option<String>,
    pub axes: Option<Axes>,
    /// Whether its axis of channels holds a spectrum.
    pub is_spectrum: bool,
    /// The meaning of its values.
    pub kind: Option<Kind>,
    /// Why it holds labels: "its class is label__".
    pub labels_because: Option<String>,
    /// The voxel type, if the values are stored as another type.
    pub reinterpret_as: Option<VoxelType>,
    /// Maps stored values to the values that they stand for, unless they stand for themselves.
    pub values: Option<Values>,
    /// The values that mark missing data.
    pub missing: Vec<Number>,
    pub voxel: Option<VoxelSize>,
    /// When its time points were recorded.
    pub timing: Option<Timing>,
    /// The position of its first voxel in the file's space, in the unit of the voxel size.
    pub origin: Option<Xyz<f64>>,
    /// The directions of its axes x, y and z in the file's space, unless they are the axes of the
    /// space.
    pub directions: Option<[[f64; 3]; 3]>,
    /// The display range.
    pub range: Option<Window>,
    /// Whether the least value is displayed white, and the greatest black.
    pub is_inverted: bool,
    /// The downsample factor relative to the finest level.
    pub factor: Option<Xyz<u64>>,
    /// Information that tiles do not show.
    pub notices: Vec<Notice>,
}

impl Marks {
    /// Marks of labels, and why they are labels.
    pub fn labels(reason: impl Into<String>) -> Self {
        Self {
            kind: Some(Kind::Labels),
            labels_because: Some(reason.into()),
            ..Self::default()
        }
    }

    /// [`Self::labels`] if `are_labels`, else no marks.
    pub fn labels_if(are_labels: bool, reason: &str) -> Self {
        if are_labels {
            Self::labels(reason)
        } else {
            Self::default()
        }
    }

    /// Marks that only say that a dataset is of a layout.
    pub fn because(reason: String) -> Self {
        Self {
            because: Some(reason),
            ..Self::default()
        }
    }

    /// Where its voxels lie in the file's space; `None` if the file does not say it.
    pub fn transform(&self) -> Option<Affine> {
        let size = <[f64; 3]>::from(self.voxel.as_ref()?.size);
        let directions = self.directions.unwrap_or(AXES_OF_SPACE);
        let edges = std::array::from_fn(|axis| directions[axis].map(|part| part * size[axis]));
        Affine::from_edges(edges, self.origin?)
    }

    /// These marks, completed by the marks of a later layout. The missing values and the notices of
    /// both are kept.
    pub fn or(mut self, later: Marks) -> Self {
        self.notices.extend(later.notices);
        self.missing.extend(later.missing);
        Self {
            because: self.because.or(later.because),
            unlisted_as: self.unlisted_as.or(later.unlisted_as),
            rank: self.rank.or(later.rank),
            named_by: self.named_by.or(later.named_by),
            label: self.label.or(later.label),
            // Which axis holds the spectrum is known only together with the axes.
            is_spectrum: self.is_spectrum || (self.axes.is_none() && later.is_spectrum),
            axes: self.axes.or(later.axes),
            kind: self.kind.or(later.kind),
            labels_because: self.labels_because.or(later.labels_because),
            reinterpret_as: self.reinterpret_as.or(later.reinterpret_as),
            values: self.values.or(later.values),
            missing: self.missing,
            voxel: self.voxel.or(later.voxel),
            timing: self.timing.or(later.timing),
            origin: self.origin.or(later.origin),
            directions: self.directions.or(later.directions),
            range: self.range.or(later.range),
            is_inverted: self.is_inverted || later.is_inverted,
            factor: self.factor.or(later.factor),
            notices: self.notices,
        }
    }
}
