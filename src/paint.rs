//! The words of painting that settings, plans and the renderer share: kinds, windows, PNG profiles.

use std::fmt;
use std::hash::{Hash, Hasher};

/// What the numbers of a channel mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Kind {
    /// Intensities.
    #[default]
    Image,
    /// Ids of segments: each has one colour, and no two are ever averaged.
    Labels,
    /// Red, green and blue (and, ignored, alpha) along the channel axis.
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

/// Which stored values become 0 and 255; between them the scale is linear.
///
/// v ≤ lo → 0, v ≥ hi → 255, else floor((v − lo) · 255 / (hi − lo) + 0.5); not a number → 0. hi < lo inverts;
/// hi = lo gives 255 above lo. Whole windows on integer data are computed exactly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Window {
    /// 8-bit unsigned data shown as it is.
    AsStored,
    /// Whole limits.
    Whole {
        /// Black.
        lo: i128,
        /// White.
        hi: i128,
    },
    /// Limits that are not whole numbers.
    Real {
        /// Black.
        lo: f64,
        /// White.
        hi: f64,
    },
}

impl Window {
    /// The limits as floating point numbers; 0 and 255 for data shown as it is.
    pub fn limits(&self) -> (f64, f64) {
        match *self {
            Window::AsStored => (0.0, 255.0),
            Window::Whole { lo, hi } => (lo as f64, hi as f64),
            Window::Real { lo, hi } => (lo, hi),
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

/// How a channel's window is to be found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum WindowRule {
    /// As configured.
    Fixed(Window),
    /// The whole range of an integer type, [0, 1] for floats.
    Full,
    /// The 0.1 and 99.9 percentiles of a sample.
    Auto,
}

/// How tiles are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PngProfile {
    /// As fast as can be.
    #[default]
    Fast,
    /// Fewer bytes for more time.
    Small,
}
