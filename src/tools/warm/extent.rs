//! A part of a volume as entered by a user: a box, or ndtilecache's cutout.
//!
//! Positions are numbered like slices: the volume's first voxel is at its offset. A box ends before
//! its second number, as in ndtilecache, so that adjacent boxes share nothing.

use std::ops::Range;
use std::str::FromStr;

use crate::base::description::ChannelDescription;
use crate::base::request::digits;
use crate::base::units::in_nanometres;
use crate::geometry::Xyz;

/// A part of a volume.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Extent {
    /// The level whose voxels the numbers count; `None`: they are nanometres.
    level: Option<u8>,
    /// The first position along each axis, and the end; infinite for the whole axis.
    axes: Xyz<(f64, f64)>,
}

/// The whole of an axis.
const WHOLE: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);

impl Extent {
    /// The level and the box of ndtilecache's form `LEVEL/X1,X2/Y1,Y2/Z1,Z2`, in voxels of that
    /// level; `None` for any other text. Anything after a further slash is ignored, as there.
    pub fn cutout(text: &str) -> Option<(u64, Self)> {
        let mut parts = text.split('/');
        let level = digits(parts.next()?)?;
        let mut next = || {
            let (first, end) = parts.next()?.split_once(',')?;
            Some((digits(first)? as f64, digits(end)? as f64))
        };
        let axes = Xyz::new(next()?, next()?, next()?);
        Some((
            level,
            Self {
                level: Some(u8::try_from(level).unwrap_or(u8::MAX)),
                axes,
            },
        ))
    }

    /// An error if it contains nothing; `text` is what the user entered.
    pub fn not_empty(self, text: &str) -> Result<Self, String> {
        let Xyz { x, y, z } = self.axes.map(|(first, end)| end <= first);
        match x || y || z {
            true => Err(format!(
                "{text:?} is empty: each second number must be greater than the first"
            )),
            false => Ok(self),
        }
    }

    /// The extent in a channel's voxels of level 0, counted from the volume's first voxel, which is
    /// at `offset`; open-ended where it is.
    ///
    /// # Errors
    /// The size of its voxels is not known.
    pub fn voxels(
        &self,
        offset: [i64; 3],
        channel: &ChannelDescription,
    ) -> Result<Xyz<Range<u64>>, &'static str> {
        let unknown = "the size of its voxels is not known in nanometres; give the box in voxels, or set voxel_size";
        let scale = match self.level {
            Some(level) => {
                let factor = channel
                    .level(level)
                    .map_or(Xyz::all(1), |level| level.factor.into());
                factor.map(|factor| factor as f64)
            }
            None => nanometres(channel).ok_or(unknown)?.map(|size| 1.0 / size),
        };
        let range = |(axis, scale): ((f64, f64), f64), offset: i64| {
            let voxel = |position: f64| position * scale - offset as f64;
            // Casts saturate; negative positions are outside.
            voxel(axis.0).floor() as u64..voxel(axis.1).ceil() as u64
        };
        Ok(self
            .axes
            .zip(scale, |axis, scale| (axis, scale))
            .zip(offset.into(), range))
    }
}

/// The size of a voxel in nanometres, if known.
fn nanometres(channel: &ChannelDescription) -> Option<Xyz<f64>> {
    let unit = in_nanometres(channel.voxel_unit.as_deref()?)?;
    channel
        .voxel_size
        .map(|size| Xyz::from(size).map(|length| length * unit))
}

impl FromStr for Extent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.trim_end_matches(char::is_alphabetic);
        let unit = text.strip_prefix(numbers).filter(|unit| !unit.is_empty());
        let parse = || {
            let factor = unit.map(in_nanometres);
            let number = |text: &str| match factor {
                None => digits(text).map(|number| number as f64),
                Some(factor) => {
                    let is_plain = text
                        .bytes()
                        .all(|byte| byte.is_ascii_digit() || byte == b'.');
                    let number = is_plain.then(|| text.parse::<f64>().ok()).flatten();
                    Some(number? * factor?)
                }
            };
            let range = |text: &str| {
                if text.trim() == "*" {
                    return Some(WHOLE);
                }
                let (first, end) = text.trim().split_once('-')?;
                Some((number(first)?, number(end)?))
            };
            let axes: Vec<_> = numbers.split(',').map(range).collect::<Option<_>>()?;
            let [x, y, z] = *axes else { return None };
            Some(Self {
                level: unit.is_none().then_some(0),
                axes: Xyz::new(x, y, z),
            })
        };
        let wrong = "is not a box: expected X1-X2,Y1-Y2,Z1-Z2, in voxels of level 0 or followed by a unit (nm, um, µm or \
                     mm); a * stands for a whole axis, as in 0-1024,*,10-20";
        parse()
            .ok_or_else(|| format!("{text:?} {wrong}"))?
            .not_empty(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A channel with a level 2.
    fn channel(voxel: Option<[f64; 3]>) -> ChannelDescription {
        let source = json!({
            "id": "", "size": [1, 1, 1], "factor": [1, 1, 1], "chunk": [1, 1, 1], "times": 1, "bytes": 1,
            "access": "cached",
        });
        let level = json!({
            "level": 2, "size": [1, 1, 1], "factor": [4, 4, 1], "drawn": [[1, 1], [1, 1], [1, 1]], "planes": [],
            "voxels_read": [1, 1, 1], "source": source,
        });
        serde_json::from_value(json!({
            "name": "c", "kind": "image", "dtype": "uint8", "voxel_unit": "nm", "voxel_size": voxel,
            "orthogonal": "stored", "levels": [level],
        }))
        .unwrap()
    }

    const VOXEL: [f64; 3] = [4.0, 4.0, 40.0];

    fn voxels(text: &str, offset: [i64; 3], voxel: Option<[f64; 3]>) -> Xyz<Range<u64>> {
        text.parse::<Extent>()
            .unwrap()
            .voxels(offset, &channel(voxel))
            .unwrap()
    }

    #[test]
    fn boxes_are_in_voxels_or_in_lengths_and_end_before_their_second_number() {
        let none = [0; 3];
        assert_eq!(
            voxels("0-512,10-20,3-4", none, None),
            Xyz::new(0..512, 10..20, 3..4)
        );
        assert_eq!(
            voxels("*, 10-20,*", none, None),
            Xyz::new(0..u64::MAX, 10..20, 0..u64::MAX)
        );
        assert_eq!(
            voxels("0-1,1-2,0.1-0.25 µm", none, Some(VOXEL)),
            Xyz::new(0..250, 250..500, 2..7)
        );
        assert_eq!(
            voxels("0-2,0-1000,*nm", none, Some(VOXEL)),
            Xyz::new(0..1, 0..250, 0..u64::MAX)
        );
        assert_eq!(
            voxels("0-2,4-8,1-5", [-5, 0, 3], Some(VOXEL)),
            Xyz::new(5..7, 4..8, 0..2)
        );
    }

    #[test]
    fn what_is_no_box_is_an_error() {
        for wrong in [
            "",
            "1-2,3-4",
            "1-2,3-4,5",
            "1-2,3-4,a-b",
            "1.5-2,3-4,5-6",
            "1-2,3-4,5-6parsec",
            "1-2nm,3-4,5-6",
        ] {
            let error = wrong.parse::<Extent>().unwrap_err();
            assert!(error.contains("is not a box"), "{wrong}: {error}");
        }
        for empty in ["2-2,3-4,5-6", "0-1,9-3,*"] {
            let error = empty.parse::<Extent>().unwrap_err();
            assert!(error.contains("is empty"), "{empty}: {error}");
        }
        let nowhere = "0-1,0-1,0-1nm".parse::<Extent>().unwrap();
        assert!(
            nowhere
                .voxels([0; 3], &channel(None))
                .unwrap_err()
                .contains("not known in nanometres")
        );
    }

    #[test]
    fn the_ancestors_cutout_counts_voxels_of_its_level() {
        let (level, extent) = Extent::cutout("2/0,512/512,1024/1,17").unwrap();
        assert_eq!(level, 2);
        let voxels = extent.voxels([0, 0, 1], &channel(None)).unwrap();
        assert_eq!(voxels, Xyz::new(0..2048, 2048..4096, 0..16));
        assert!(Extent::cutout("0/0,1/0,1/0,1/").is_some());
        for other in [
            "0/0,1/0,1",
            "a/0,1/0,1/0,1",
            "http://host:1",
            "0/0-1/0,1/0,1",
            "my.h5",
            "0/-1,1/0,1/0,1",
        ] {
            assert_eq!(Extent::cutout(other), None, "{other}");
        }
    }
}
