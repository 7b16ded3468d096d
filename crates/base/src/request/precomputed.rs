//! Paths of Neuroglancer's precomputed format: `/neuroglancer/TOKEN/CHANNEL/info`,
//! `/neuroglancer/TOKEN/CHANNEL/segment_properties/info` and
//! `/neuroglancer/TOKEN/CHANNEL/LEVEL/x0-x1_y0-y1_z0-z1`; `CHANNEL@T` is time point T of a series.

use super::{Malformed, VersionedToken, decoded_segments, digits, level_of, number, ranges};
use crate::geometry::{Level, Xyz};
use crate::name::Name;

/// The literal first segment of paths of the precomputed format.
pub const NEUROGLANCER: &str = "neuroglancer";
/// The file that describes a volume.
const INFO: &str = "info";
/// The folder of names and properties of labels.
pub const SEGMENT_PROPERTIES: &str = "segment_properties";

/// One volume of the precomputed format: a channel at a time point.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PrecomputedVolume {
    /// The dataset.
    pub token: VersionedToken,
    /// The channel's name.
    pub channel: Name,
    /// The time point, if the request names one.
    pub time: Option<u64>,
}

/// A request for a chunk, as parsed: nothing in it is known to exist yet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PrecomputedChunk {
    /// The volume.
    pub volume: PrecomputedVolume,
    /// The level, which is the key of the scale.
    pub level: Level,
    /// The first position of the chunk and the first position after it along each axis, including
    /// the volume's offset. Not empty, but not necessarily a chunk of the volume.
    pub bounds: Xyz<(i64, i64)>,
}

/// A file of the precomputed format.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PrecomputedFile {
    /// The description of a volume.
    Info(PrecomputedVolume),
    /// Names and properties of labels.
    SegmentProperties(PrecomputedVolume),
    /// A chunk.
    Chunk(PrecomputedChunk),
}

impl PrecomputedFile {
    /// Parses the rest of a path after `/neuroglancer/`; `None` if it has fewer than two segments.
    pub fn parse(path: &str) -> Option<Result<Self, Malformed>> {
        let segments = path.split('/').filter(|segment| !segment.is_empty());
        (segments.count() > 1).then(|| file(path))
    }
}

fn file(path: &str) -> Result<PrecomputedFile, Malformed> {
    let segments = decoded_segments(path)?;
    let segments: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
    match *segments {
        [token, channel, INFO] => Ok(PrecomputedFile::Info(volume(token, channel)?)),
        [token, channel, SEGMENT_PROPERTIES, INFO] => {
            Ok(PrecomputedFile::SegmentProperties(volume(token, channel)?))
        }
        [token, channel, level, chunk] => Ok(PrecomputedFile::Chunk(PrecomputedChunk {
            volume: volume(token, channel)?,
            level: level_of(number("level", level)?)?,
            bounds: ranges(chunk, range).ok_or_else(|| Malformed::Chunk(chunk.to_owned()))?,
        })),
        _ => Err(Malformed::PrecomputedShape),
    }
}

fn volume(token: &str, channel: &str) -> Result<PrecomputedVolume, Malformed> {
    let (channel, time) = match channel.split_once('@') {
        Some((channel, time)) => (channel, Some(number("time", time)?)),
        None => (channel, None),
    };
    Ok(PrecomputedVolume {
        token: VersionedToken::new(token)?,
        channel: Name::new(channel)?,
        time,
    })
}

/// Parses `FIRST-END`; `None` if that is not a range, or is empty. Either number may be negative:
/// `-64--32` is (-64, -32).
fn range(text: &str) -> Option<(i64, i64)> {
    // The two numbers are separated by the first hyphen after a digit.
    let digit = text.find(|c: char| c.is_ascii_digit())?;
    let hyphen = digit + text.get(digit..)?.find('-')?;
    let first = signed(text.get(..hyphen)?)?;
    let end = signed(text.get(hyphen + 1..)?)?;
    (first < end).then_some((first, end))
}

fn signed(text: &str) -> Option<i64> {
    match text.strip_prefix('-') {
        Some(text) => 0i64.checked_sub_unsigned(digits(text)?),
        None => i64::try_from(digits(text)?).ok(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn chunk(path: &str) -> PrecomputedChunk {
        match PrecomputedFile::parse(path) {
            Some(Ok(PrecomputedFile::Chunk(chunk))) => chunk,
            other => panic!("{path}: {other:?}"),
        }
    }

    #[test]
    fn a_path_names_an_info_file_or_a_chunk() {
        let Some(Ok(PrecomputedFile::Info(info))) = PrecomputedFile::parse("/brain/raw@12/info")
        else {
            panic!("it is an info file");
        };
        assert_eq!(
            (info.token.token.as_str(), info.channel.as_str(), info.time),
            ("brain", "raw", Some(12))
        );
        let properties = PrecomputedFile::parse("brain/raw@12/segment_properties/info");
        assert_eq!(
            properties,
            Some(Ok(PrecomputedFile::SegmentProperties(info)))
        );
        let chunk = chunk("brain/raw%403/2/0-64_-64-0_-96--32");
        assert_eq!((chunk.volume.time, chunk.level.number()), (Some(3), 2));
        assert_eq!(chunk.bounds, Xyz::new((0, 64), (-64, 0), (-96, -32)));
    }

    #[test]
    fn the_client_has_the_paths_of_one_segment_and_others_are_not_meant() {
        for path in ["", "/", "main.js", "main.js/"] {
            assert_eq!(PrecomputedFile::parse(path), None, "{path}");
        }
    }

    #[test]
    fn malformed_names_are_errors() {
        for name in [
            "0-1_0-1",
            "0-1_0-1_0-1_0-1",
            "0-0_0-1_0-1",
            "2-1_0-1_0-1",
            "+0-1_0-1_0-1",
            "0-1_0-1_0-",
            "--1-0_0-1_0-1",
            "0-9223372036854775808_0-1_0-1",
            "0 -1_0-1_0-1",
            "0-1_0-1_0-1.gz",
            "-_-_-",
            "0–1_0-1_0-1",
            "é0-1_0-1_0-1",
        ] {
            let path = format!("a/b/0/{name}");
            assert!(
                matches!(
                    PrecomputedFile::parse(&path),
                    Some(Err(Malformed::Chunk { .. }))
                ),
                "{name}"
            );
        }
        for path in ["a/b", "a/b/provenance", "a/b/c/0/0-1_0-1_0-1"] {
            assert_eq!(
                PrecomputedFile::parse(path),
                Some(Err(Malformed::PrecomputedShape)),
                "{path}"
            );
        }
        for (path, is_it) in [
            (
                "a/b/64/0-1_0-1_0-1",
                (|m| matches!(m, Malformed::Level { .. })) as fn(&Malformed) -> bool,
            ),
            ("a/b/x/0-1_0-1_0-1", |m| {
                matches!(m, Malformed::Number { .. })
            }),
            ("a/b@/info", |m| matches!(m, Malformed::Number { .. })),
            ("a/b@1@2/info", |m| matches!(m, Malformed::Number { .. })),
            ("a/@1/info", |m| matches!(m, Malformed::Name(_))),
            ("a/%ff/info", |m| matches!(m, Malformed::Encoding { .. })),
        ] {
            let parsed = PrecomputedFile::parse(path);
            assert!(
                matches!(&parsed, Some(Err(malformed)) if is_it(malformed)),
                "{path}: {parsed:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            bounds in prop::array::uniform3((any::<i64>(), any::<i64>())), level in 0u64..63, time in any::<u64>(),
        ) {
            let ordered = |(a, b): (i64, i64)| (a.min(b).min(i64::MAX - 1), a.max(b).max(a.min(b).saturating_add(1)));
            let [(x, x1), (y, y1), (z, z1)] = bounds.map(ordered);
            let parsed = chunk(&format!("a/b@{time}/{level}/{x}-{x1}_{y}-{y1}_{z}-{z1}"));
            prop_assert_eq!(parsed.bounds, Xyz::new((x, x1), (y, y1), (z, z1)));
            prop_assert_eq!((u64::from(parsed.level.number()), parsed.volume.time), (level, Some(time)));
        }

        #[test]
        fn any_text_is_parsed_without_a_panic(text in ".{0,40}", numbers in "[0-9_@-]{0,40}") {
            let _ = PrecomputedFile::parse(&format!("a/{text}/info"));
            let _ = PrecomputedFile::parse(&format!("a/b/0/{text}"));
            let _ = ranges(&numbers, range);
        }
    }
}
