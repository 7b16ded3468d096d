//! Requests for boxes of voxels: `/voxels/TOKEN/CHANNEL/LEVEL/x0-x1_y0-y1_z0-z1.npy`. Instead of
//! one channel, a TIFF file may have several, with commas between.

use super::malformed::MAX_CHANNELS;
use super::{
    Malformed, VersionedToken, decoded_segments, digits, level_of, number, query_value, ranges,
};
use crate::geometry::{Level, Region};
use crate::name::Name;
use crate::paint::{BOX_FILES, BoxFile, BoxFormat};

/// The literal first segment of paths of boxes.
pub const VOXELS: &str = "voxels";

/// A request for a box of voxels, as parsed: nothing in it is known to exist yet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BoxRequest {
    /// The dataset.
    pub token: VersionedToken,
    /// The channel's name.
    pub channel: Name,
    /// The names of the other channels of a TIFF file.
    pub others: Vec<Name>,
    /// The time point, if the request names one.
    pub time: Option<u64>,
    /// The level.
    pub level: Level,
    /// The box in voxels of the level, counted from the level's first voxel: the dataset's offset
    /// is not added. The box is not empty, but may reach beyond the level.
    pub region: Region,
}

impl BoxRequest {
    /// Parses the rest of a path after `/voxels/`, and the query.
    pub fn parse(path: &str, query: &str) -> Result<(Self, &'static BoxFile), Malformed> {
        let segments = decoded_segments(path)?;
        let segments: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
        let [token, channels, level, file] = *segments else {
            return Err(Malformed::VoxelsShape);
        };
        let (region, box_file) =
            parse_file_name(file).ok_or_else(|| Malformed::Box(file.to_owned()))?;
        let mut names = channels.split(',').map(Name::new);
        // There is always a first item.
        let channel = names.next().unwrap_or_else(|| Name::new(channels))?;
        let others = names.collect::<Result<Vec<_>, _>>()?;
        if others.len() >= MAX_CHANNELS {
            return Err(Malformed::TooManyChannels(others.len() + 1));
        }
        if !others.is_empty() && box_file.format != BoxFormat::Tiff {
            return Err(Malformed::OneChannel(box_file.suffix));
        }
        let time = query_value(query, "time");
        let request = BoxRequest {
            token: VersionedToken::new(token)?,
            channel,
            others,
            time: time.map(|text| number("time", text)).transpose()?,
            level: level_of(number("level", level)?)?,
            region,
        };
        Ok((request, box_file))
    }
}

/// The box and the kind of file that a file name such as `0-10_5-7_100-101.npy` stands for.
fn parse_file_name(name: &str) -> Option<(Region, &'static BoxFile)> {
    BOX_FILES.iter().find_map(|file| {
        let region = parse_box(name.strip_suffix(file.suffix)?)?;
        Some((region, file))
    })
}

/// A box written as `x0-x1_y0-y1_z0-z1`; `None` if it is not one, or is empty.
fn parse_box(text: &str) -> Option<Region> {
    let bounds = ranges(text, |range| {
        let (first, end) = range.split_once('-')?;
        let first = digits(first)?;
        let end = digits(end)?;
        (first < end).then_some((first, end))
    })?;
    Some(Region::between(
        bounds.map(|(first, _)| first),
        bounds.map(|(_, end)| end),
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::geometry::Xyz;
    use crate::paint::BoxFormat;
    use crate::request::first_segment;

    fn parsed(path: &str) -> Option<Result<(BoxRequest, &'static BoxFile), Malformed>> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let (first, rest) = first_segment(path);
        (first == VOXELS).then(|| BoxRequest::parse(rest, query))
    }

    #[test]
    fn a_path_names_a_box_of_a_channel() {
        let (request, file) = parsed("/voxels/brain/raw/2/0-10_5-7_100-101.npy?time=3")
            .unwrap()
            .unwrap();
        assert_eq!(
            (request.token.token.as_str(), request.channel.as_str()),
            ("brain", "raw")
        );
        assert_eq!(
            (request.level.number(), request.time, file.format),
            (2, Some(3), BoxFormat::Npy)
        );
        assert_eq!(
            request.region,
            Region {
                start: Xyz::new(0, 5, 100),
                size: Xyz::new(10, 2, 1)
            }
        );
        assert_eq!(
            parsed("//voxels/a/b/0/0-1_0-1_0-1.raw")
                .unwrap()
                .unwrap()
                .1
                .format,
            BoxFormat::Raw
        );
        assert!(parsed("/voxel/a/b/0/0-1_0-1_0-1.raw").is_none());
    }

    #[test]
    fn every_format_is_in_the_manual_and_in_the_error_of_a_malformed_box() {
        let error = Malformed::Box(String::new()).to_string();
        for BoxFile { suffix, .. } in &BOX_FILES {
            assert!(
                include_str!("../../../../docs/addresses.md").contains(&format!("`{suffix}`")),
                "{suffix}"
            );
            assert!(error.contains(suffix), "{error}");
        }
    }

    #[test]
    fn malformed_boxes_are_errors() {
        for file in [
            "0-1_0-1.npy",
            "0-1_0-1_0-1_0-1.npy",
            "0-0_0-1_0-1.npy",
            "2-1_0-1_0-1.npy",
            "+0-1_0-1_0-1.npy",
            "0-1_0-1_0-1",
            "0-1_0-1_0-1.npz",
            "-1_0-1_0-1.npy",
            "0-18446744073709551616_0-1_0-1.npy",
            ".npy",
            "0–1_0-1_0-1.npy",
        ] {
            assert!(
                matches!(
                    parsed(&format!("/voxels/a/b/0/{file}")),
                    Some(Err(Malformed::Box { .. }))
                ),
                "{file}"
            );
        }
        for path in [
            "/voxels",
            "/voxels/a/b/0-1_0-1_0-1.npy",
            "/voxels/a/b/c/0/0-1_0-1_0-1.npy",
        ] {
            assert!(
                matches!(parsed(path), Some(Err(Malformed::VoxelsShape))),
                "{path}"
            );
        }
        for (path, problem) in [
            ("/voxels/a/b,c/0/0-1_0-1_0-1.npy", "one channel"),
            ("/voxels/a/b,/0/0-1_0-1_0-1.tif", "is not a name"),
            (
                "/voxels/a/b,c,d,e,f,g,h/0/0-1_0-1_0-1.tif",
                "7 channels are too many",
            ),
        ] {
            let error = parsed(path).unwrap().unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
        assert!(matches!(
            parsed("/voxels/a/b/64/0-1_0-1_0-1.npy"),
            Some(Err(Malformed::Level { .. }))
        ));
        assert!(matches!(
            parsed("/voxels/a/b/0/0-1_0-1_0-1.npy?time=x"),
            Some(Err(Malformed::Number { .. }))
        ));
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_a_panic(text in ".{0,40}", digits in "[0-9_-]{0,40}") {
            let _ = parsed(&format!("/voxels/a/b/0/{text}"));
            let _ = parse_box(&digits);
        }
    }
}
