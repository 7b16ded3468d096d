//! Kinds, windows and styles, which decide how voxels are shown. Settings, plans and the renderer
//! share them.

use std::fmt;
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Serialize};

use crate::geometry::{Scaling, Xyz};

/// The settings of the whole server that decide the bytes of tiles. All of them enter the keys of
/// tiles and the versions of datasets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(transparent)]
pub struct Style {
    /// How tiles are encoded.
    pub png: PngProfile,
}

/// The settings of a dataset that decide the pixels of all its channels. All of them enter the keys
/// of tiles, the keys of boxes, and the version of the dataset.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DatasetStyle {
    /// Whether halving a level halves z too.
    pub scaling: Scaling,
    /// The position of the first voxel, in voxels of level 0: where slice numbers start.
    pub offset: Xyz<i64>,
    /// The size of a voxel of level 0 in nanometres, finite and above 0; overrides the size in
    /// files.
    pub voxel_size: Option<Xyz<f64>>,
    /// Whether xz and yz tiles are drawn with square pixels if the voxel size is known.
    pub square_pixels: bool,
    /// Whether a tile entirely outside is 404 instead of black.
    pub not_found_outside: bool,
}

impl Default for DatasetStyle {
    fn default() -> Self {
        Self {
            scaling: Scaling::default(),
            offset: Xyz::all(0),
            voxel_size: None,
            square_pixels: true,
            not_found_outside: false,
        }
    }
}

impl Hash for DatasetStyle {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // A new field does not compile until it is named here.
        let Self {
            scaling,
            offset,
            voxel_size,
            square_pixels,
            not_found_outside,
        } = *self;
        let voxel_size = voxel_size.map(|size| size.map(f64::to_bits));
        (
            scaling,
            offset,
            voxel_size,
            square_pixels,
            not_found_outside,
        )
            .hash(state);
    }
}

/// The meaning of a channel's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Intensities.
    #[default]
    Image,
    /// Segment ids: each has its own colour, and they are never averaged.
    Labels,
    /// Red, green and blue (and alpha, which is ignored) along the channel axis.
    Rgb,
}

impl Kind {
    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Image => "image",
            Kind::Labels => "labels",
            Kind::Rgb => "rgb",
        }
    }
}

/// Which stored values map to 0 and 255; linear in between.
///
/// v ≤ lo → 0, v ≥ hi → 255, else floor((v − lo) · 255 / (hi − lo) + 0.5); NaN → 0. hi < lo
/// inverts; hi = lo gives 255 above lo. Integer limits on integer data are computed exactly.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Window {
    /// 8-bit unsigned data shown as stored.
    AsStored,
    /// Integer limits.
    Whole {
        /// Black.
        lo: i128,
        /// White.
        hi: i128,
    },
    /// Non-integer limits.
    Real {
        /// Black.
        #[serde(with = "bits")]
        lo: f64,
        /// White.
        #[serde(with = "bits")]
        hi: f64,
    },
}

/// Floats as their bits: as text they would be rounded.
mod bits {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(float: &f64, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(float.to_bits())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        u64::deserialize(from).map(f64::from_bits)
    }
}

impl Window {
    /// The limits as floats; 0 and 255 for data shown as stored.
    pub fn limits(&self) -> (f64, f64) {
        match *self {
            Window::AsStored => (0.0, 255.0),
            Window::Whole { lo, hi } => (lo as f64, hi as f64),
            Window::Real { lo, hi } => (lo, hi),
        }
    }

    /// The window that shows the least value white and the greatest black.
    pub fn inverted(self) -> Self {
        match self {
            Window::AsStored => Window::Whole { lo: 255, hi: 0 },
            Window::Whole { lo, hi } => Window::Whole { lo: hi, hi: lo },
            Window::Real { lo, hi } => Window::Real { lo: hi, hi: lo },
        }
    }

    /// The window between two limits: computed in integers if both are integers.
    pub fn between(lo: Finite, hi: Finite) -> Self {
        match (lo.whole(), hi.whole()) {
            (Some(lo), Some(hi)) => Window::Whole { lo, hi },
            _ => Window::Real {
                lo: lo.get(),
                hi: hi.get(),
            },
        }
    }

    /// This window with one or both limits replaced.
    pub fn with_limits(self, lo: Option<Finite>, hi: Option<Finite>) -> Self {
        if lo.is_none() && hi.is_none() {
            return self;
        }
        // If one limit is replaced by an integer, the other one stays an exact integer: `limits`
        // would round it to 53 bits.
        match (self, lo.map(Finite::whole), hi.map(Finite::whole)) {
            (Window::Whole { hi, .. }, Some(Some(lo)), None)
            | (Window::Whole { lo, .. }, None, Some(Some(hi))) => Window::Whole { lo, hi },
            _ => {
                let (own_lo, own_hi) = self.limits();
                Window::between(
                    lo.unwrap_or(Finite::nearest(own_lo)),
                    hi.unwrap_or(Finite::nearest(own_hi)),
                )
            }
        }
    }
}

impl Hash for Window {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match *self {
            Window::AsStored => {}
            Window::Whole { lo, hi } => (lo, hi).hash(state),
            Window::Real { lo, hi } => (lo.to_bits(), hi.to_bits()).hash(state),
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Window::AsStored => f.write_str("as stored"),
            Window::Whole { lo, hi } => write!(f, "[{lo}, {hi}]"),
            Window::Real { lo, hi } => write!(f, "[{lo}, {hi}]"),
        }
    }
}

/// A finite floating point number, so that it can be compared and be part of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Finite(u64);

impl Finite {
    /// `None` unless the number is finite. -0 becomes 0.
    pub fn new(number: f64) -> Option<Self> {
        number.is_finite().then(|| Finite((number + 0.0).to_bits()))
    }

    /// The finite number nearest to this one; 0 for NaN.
    pub fn nearest(number: f64) -> Self {
        Self::new(number.clamp(f64::MIN, f64::MAX)).unwrap_or(Finite(0))
    }

    /// The number.
    pub fn get(self) -> f64 {
        f64::from_bits(self.0)
    }

    /// The number as an integer, if it is one and is small enough to be exact.
    fn whole(self) -> Option<i128> {
        const EXACT: f64 = (1u64 << 53) as f64;
        let number = self.get();
        (number.fract() == 0.0 && number.abs() <= EXACT).then_some(number as i128)
    }
}

/// A value that voxels can have, exact if it is an integer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// An integer.
    Whole(i128),
    /// A floating point number.
    Real(f64),
}

impl Number {
    /// Parses a number, exactly if it is an integer.
    pub fn parse(text: &str) -> Option<Self> {
        let whole = text.parse().ok().map(Number::Whole);
        whole.or_else(|| text.parse().ok().map(Number::Real))
    }

    /// As a floating point number, rounded if it needs more than 53 bits.
    pub fn to_f64(self) -> f64 {
        match self {
            Number::Whole(number) => number as f64,
            Number::Real(number) => number,
        }
    }

    /// As an integer; `None` unless it is one. Floats from 2^64 on do not count as integers.
    pub fn to_whole(self) -> Option<i128> {
        match self {
            Number::Whole(number) => Some(number),
            Number::Real(number) => {
                (number.fract() == 0.0 && number.abs() < 2f64.powi(64)).then_some(number as i128)
            }
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Whole(number) => write!(f, "{number}"),
            Number::Real(number) => write!(f, "{number:?}"),
        }
    }
}

/// How a channel's window is determined.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum WindowRule {
    /// As configured.
    Fixed(Window),
    /// The whole range of an integer type; [0, 1] for floats.
    Full,
    /// The 0.1 and 99.9 percentiles of a sample.
    Auto,
}

/// How the voxels of a slab of slices become one, along the normal of the plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Projection {
    /// The greatest voxel.
    Max,
    /// The least voxel.
    Min,
    /// The mean, in 64-bit floating point.
    Mean,
}

impl Projection {
    const ALL: [Projection; 3] = [Projection::Max, Projection::Min, Projection::Mean];

    /// The name in addresses.
    pub fn name(self) -> &'static str {
        match self {
            Projection::Max => "max",
            Projection::Min => "min",
            Projection::Mean => "mean",
        }
    }

    /// The projection with this name; case-sensitive.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|projection| projection.name() == name)
    }
}

/// How tiles are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PngProfile {
    /// As fast as possible.
    #[default]
    Fast,
    /// Smaller files, at the cost of time.
    Small,
}

/// The format of a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TileFormat {
    /// Exact.
    #[default]
    Png,
    /// Lossy and without opacity, for slow lines.
    Jpeg,
}

impl TileFormat {
    /// The `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            TileFormat::Png => "image/png",
            TileFormat::Jpeg => "image/jpeg",
        }
    }
}

/// How boxes of voxels are encoded. [`BOX_FILES`] has the suffix and the media type of each format,
/// and `render::cutout` its encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "BOX_FILES describes each format")]
pub enum BoxFormat {
    Npy,
    /// Voxels without a header: the response's headers tell their shape and type.
    Raw,
    Tiff,
}

/// A file with a box of voxels, as clients see it.
#[derive(Debug, PartialEq, Eq)]
pub struct BoxFile {
    /// How it is encoded.
    pub format: BoxFormat,
    /// The end of its name.
    pub suffix: &'static str,
    /// The `Content-Type`.
    pub content_type: &'static str,
}

/// The file of each format.
pub static BOX_FILES: [BoxFile; 3] = [
    BoxFile {
        format: BoxFormat::Npy,
        suffix: ".npy",
        content_type: "application/octet-stream",
    },
    BoxFile {
        format: BoxFormat::Raw,
        suffix: ".raw",
        content_type: "application/octet-stream",
    },
    BoxFile {
        format: BoxFormat::Tiff,
        suffix: ".tif",
        content_type: "image/tiff",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn finite(number: f64) -> Option<Finite> {
        Finite::new(number)
    }

    #[test]
    fn replaced_limits_stay_integers_if_possible() {
        let whole = Window::Whole {
            lo: 0,
            hi: i128::from(u64::MAX),
        };
        assert_eq!(whole.with_limits(None, None), whole);
        assert_eq!(
            whole.with_limits(finite(7.0), None),
            Window::Whole {
                lo: 7,
                hi: i128::from(u64::MAX)
            }
        );
        assert_eq!(
            whole.with_limits(finite(7.0), finite(9.0)),
            Window::Whole { lo: 7, hi: 9 }
        );
        assert_eq!(
            Window::AsStored.with_limits(None, finite(99.5)),
            Window::Real { lo: 0.0, hi: 99.5 }
        );
        assert_eq!(
            Window::AsStored.with_limits(finite(10.0), None),
            Window::Whole { lo: 10, hi: 255 }
        );
        let real = Window::Real { lo: 0.25, hi: 0.75 };
        assert_eq!(
            real.with_limits(None, finite(1.0)),
            Window::Real { lo: 0.25, hi: 1.0 }
        );
    }

    #[test]
    fn nan_and_infinity_are_not_finite() {
        assert_eq!((finite(f64::NAN), finite(f64::INFINITY)), (None, None));
        assert_eq!(finite(-0.0), finite(0.0));
    }
}
