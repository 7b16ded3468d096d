//! A part of a volume as entered by a user: a box, or ndtilecache's cutout.
//!
//! Positions are numbered like slices: the volume's first voxel is at its offset. A box ends before its
//! second number, as in ndtilecache, so that adjacent boxes share nothing.

use crate::base::request::digits;
use std::ops::Range;
use std::str::FromStr;

use crate::base::units::in_nanometres;
use crate::geometry::{Axis, Xyz};

/// A part of a volume.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Extent {
    unit: Unit,
    axes: Xyz<Option<(f64, f64)>>,
}

/// The unit of the numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Unit {
    /// Voxels of a level.
    Voxels { level: u64 },
    /// Nanometres.
    Nanometres,
}

/// Why a text is not a part of a volume.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAnExtent {
    /// It is not a box.
    #[error(
        "{text:?} is not a box: expected X1-X2,Y1-Y2,Z1-Z2, in voxels of level 0 or followed by a unit (nm, um, µm or mm); a * stands for a whole axis, as in 0-1024,*,10-20"
    )]
    Box {
        /// The text as given.
        text: String,
    },
    /// It ends before it begins.
    #[error("{text:?} is empty: each second number must be greater than the first")]
    Empty {
        /// The text as given.
        text: String,
    },
}

/// Why a part cannot be located in a volume.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the size of its voxels is not known in nanometres; give the box in voxels, or set voxel_size")]
pub struct UnknownSize;

impl Extent {
    /// The level and the box of ndtilecache's form `LEVEL/X1,X2/Y1,Y2/Z1,Z2`, in voxels of that level; `None`
    /// for any other text. Anything after a further slash is ignored, as there.
    pub fn cutout(text: &str) -> Option<(u64, Self)> {
        let mut parts = text.split('/');
        let level = digits(parts.next()?)?;
        let mut next = || {
            let (first, end) = parts.next()?.split_once(',')?;
            Some((digits(first)? as f64, digits(end)? as f64))
        };
        let axes = Xyz::new(Some(next()?), Some(next()?), Some(next()?));
        Some((level, Self { unit: Unit::Voxels { level }, axes }))
    }

    /// Whether it contains nothing.
    pub fn is_empty(&self) -> bool {
        let empty = |range: Option<(f64, f64)>| range.is_some_and(|(first, end)| end <= first);
        empty(self.axes.x) || empty(self.axes.y) || empty(self.axes.z)
    }

    /// The level of the voxels that its numbers count, unless it is level 0.
    pub fn level(&self) -> Option<u64> {
        match self.unit {
            Unit::Voxels { level } => Some(level).filter(|level| *level > 0),
            Unit::Nanometres => None,
        }
    }

    /// The extent in voxels of level 0, counted from the volume's first voxel; open-ended where it is.
    ///
    /// `factor` is the downsample factor of the level whose voxels it counts, `voxel` the size of a voxel in
    /// nanometres.
    pub fn voxels(
        &self,
        offset: Xyz<i64>,
        factor: Xyz<u64>,
        voxel: Option<Xyz<f64>>,
    ) -> Result<Xyz<Range<u64>>, UnknownSize> {
        let scale = match self.unit {
            Unit::Voxels { .. } => factor.map(|factor| factor as f64),
            Unit::Nanometres => voxel.ok_or(UnknownSize)?.map(|size| 1.0 / size),
        };
        let along = |axis: Axis| match self.axes[axis] {
            None => 0..u64::MAX,
            Some((first, end)) => {
                let offset = offset[axis] as f64;
                // Casts saturate; negative positions are outside.
                (first * scale[axis] - offset).floor() as u64..(end * scale[axis] - offset).ceil() as u64
            }
        };
        Ok(Xyz::new(along(Axis::X), along(Axis::Y), along(Axis::Z)))
    }
}

impl FromStr for Extent {
    type Err = NotAnExtent;

    fn from_str(text: &str) -> Result<Self, NotAnExtent> {
        let wrong = || NotAnExtent::Box { text: text.to_owned() };
        let parts: Vec<(&str, &str)> = text.split(',').map(|part| without_unit(part.trim())).collect();
        let [x, y, z] = *parts else { return Err(wrong()) };
        // A unit after the last part applies to all; without one there, none may have one.
        let (_, last) = z;
        let part = |(range, own): (&str, &str)| {
            let unit = if own.is_empty() { last } else { own };
            let factor = if unit.is_empty() { None } else { Some(in_nanometres(unit).ok_or_else(wrong)?) };
            if factor.is_some() == last.is_empty() {
                return Err(wrong());
            }
            range_of(range, factor).ok_or_else(wrong)
        };
        let unit = if last.is_empty() { Unit::Voxels { level: 0 } } else { Unit::Nanometres };
        let extent = Self { unit, axes: Xyz::new(part(x)?, part(y)?, part(z)?) };
        if extent.is_empty() { Err(NotAnExtent::Empty { text: text.to_owned() }) } else { Ok(extent) }
    }
}

/// A part, and the unit after it.
fn without_unit(part: &str) -> (&str, &str) {
    let numbers = part.trim_end_matches(|c: char| c.is_alphabetic());
    (numbers.trim_end(), part.get(numbers.len()..).unwrap_or_default())
}

/// The two numbers of one axis, or `None` for all of it.
fn range_of(text: &str, unit: Option<f64>) -> Option<Option<(f64, f64)>> {
    if text == "*" {
        return Some(None);
    }
    let (first, end) = text.split_once('-')?;
    let number = |text: &str| match unit {
        None => digits(text).map(|number| number as f64),
        Some(unit) => {
            let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
            plain.then(|| text.parse::<f64>().ok()).flatten().map(|number| number * unit)
        }
    };
    Some(Some((number(first)?, number(end)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn voxels(text: &str, offset: Xyz<i64>, voxel: Option<Xyz<f64>>) -> Xyz<Range<u64>> {
        text.parse::<Extent>().unwrap().voxels(offset, Xyz::all(1), voxel).unwrap()
    }

    #[test]
    fn boxes_are_in_voxels_or_in_lengths_and_end_before_their_second_number() {
        let none = Xyz::all(0);
        assert_eq!(voxels("0-512,10-20,3-4", none, None), Xyz::new(0..512, 10..20, 3..4));
        assert_eq!(voxels("*,10-20,*", none, None), Xyz::new(0..u64::MAX, 10..20, 0..u64::MAX));
        let voxel = Some(Xyz::new(4.0, 4.0, 40.0));
        assert_eq!(voxels("0-1,1-2,0.1-0.25 µm", none, voxel), Xyz::new(0..250, 250..500, 2..7));
        assert_eq!(voxels("0-2nm,0-1um,*nm", none, voxel), Xyz::new(0..1, 0..250, 0..u64::MAX));
        let offset = Xyz::new(-5, 0, 3);
        assert_eq!(voxels("0-2,4-8,1-5", offset, voxel), Xyz::new(5..7, 4..8, 0..2));
    }

    #[test]
    fn what_is_no_box_is_an_error() {
        for wrong in
            ["", "1-2,3-4", "1-2,3-4,5", "1-2,3-4,a-b", "1.5-2,3-4,5-6", "1-2,3-4,5-6parsec", "1-2nm,3-4,5-6"]
        {
            assert!(matches!(wrong.parse::<Extent>(), Err(NotAnExtent::Box { .. })), "{wrong}");
        }
        for empty in ["2-2,3-4,5-6", "0-1,9-3,*"] {
            assert!(matches!(empty.parse::<Extent>(), Err(NotAnExtent::Empty { .. })), "{empty}");
        }
        let nowhere = "0-1,0-1,0-1nm".parse::<Extent>().unwrap();
        assert_eq!(nowhere.voxels(Xyz::all(0), Xyz::all(1), None), Err(UnknownSize));
    }

    #[test]
    fn the_ancestors_cutout_counts_voxels_of_its_level() {
        let (level, extent) = Extent::cutout("2/0,512/512,1024/1,17").unwrap();
        assert_eq!((level, extent.level()), (2, Some(2)));
        let voxels = extent.voxels(Xyz::new(0, 0, 1), Xyz::new(4, 4, 1), None).unwrap();
        assert_eq!(voxels, Xyz::new(0..2048, 2048..4096, 0..16));
        assert!(Extent::cutout("0/0,1/0,1/0,1/").is_some());
        for other in
            ["0/0,1/0,1", "a/0,1/0,1/0,1", "http://host:1", "0/0-1/0,1/0,1", "my.h5", "0/-1,1/0,1/0,1"]
        {
            assert_eq!(Extent::cutout(other), None, "{other}");
        }
    }
}
