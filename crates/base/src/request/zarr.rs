//! Requests for parts of OME-Zarr images: `/zarr/0.4/TOKEN.ome.zarr/…` and
//! `/zarr/0.4/TOKEN/CHANNEL.ome.zarr/…`.
//!
//! Version 0.4 is Zarr v2, with several small documents for each group and array; 0.5 is Zarr v3,
//! with one. Keys are exact, as in a store: numbers have no leading zeros.

use super::{Malformed, VersionedToken, decoded_segments, digits};
use crate::geometry::Level;
use crate::name::Name;

/// The literal first segment of paths of OME-Zarr images.
pub const ZARR: &str = "zarr";
/// The literal first segment of the addresses of references to images.
pub const REFERENCES: &str = "references";
/// The end of the segment that names an image.
pub const OME_ZARR: &str = ".ome.zarr";
/// The literal name of the group of label images.
pub const LABELS: &str = "labels";
/// The prefix of chunk keys in Zarr v3.
const CHUNK: &str = "c";
/// The maximum number of axes of an image.
const MAX_AXES: usize = 5;

/// A version of OME-Zarr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ZarrVersion {
    /// OME-Zarr 0.4, in Zarr v2.
    V04,
    /// OME-Zarr 0.5, in Zarr v3.
    V05,
}

/// A request for part of an image, as parsed: nothing in it is known to exist yet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ZarrRequest {
    /// The version.
    pub version: ZarrVersion,
    /// The dataset.
    pub token: VersionedToken,
    /// The channel, if the image has only one; `None` for the image of the whole dataset.
    pub channel: Option<Name>,
    /// The requested part.
    pub part: ZarrPart,
}

/// A document, or a chunk of an array.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ZarrPart {
    /// The metadata of a group or an array.
    Document(ZarrNode, ZarrDocument),
    /// A chunk.
    Chunk(ZarrChunk),
}

/// A chunk of an array.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ZarrChunk {
    /// The label image that the chunk belongs to; `None` for the image itself.
    pub label: Option<Name>,
    /// The level.
    pub level: Level,
    /// The position in the chunk grid, slowest axis first.
    pub place: Vec<u64>,
}

/// A group or an array.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ZarrNode {
    /// The group of the image.
    Image,
    /// The group of its label images.
    Labels,
    /// The group of a label image.
    Label(Name),
    /// The array of a level, of the image or of a label image.
    Array(Option<Name>, Level),
}

/// The name of a metadata document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ZarrDocument {
    /// `.zgroup` (v2).
    Group,
    /// `.zattrs` (v2).
    Attributes,
    /// `.zarray` (v2).
    Array,
    /// `.zmetadata` (v2): all documents in one.
    Consolidated,
    /// `zarr.json` (v3).
    Metadata,
}

impl ZarrDocument {
    /// Whether the document contains the attributes of a group.
    pub fn has_attributes(self) -> bool {
        !matches!(self, ZarrDocument::Group | ZarrDocument::Array)
    }
}

impl ZarrVersion {
    /// The segment in paths, and the version in documents.
    pub fn name(self) -> &'static str {
        match self {
            ZarrVersion::V04 => "0.4",
            ZarrVersion::V05 => "0.5",
        }
    }

    /// The document with this file name, if the version has it.
    fn document(self, file: &str) -> Option<ZarrDocument> {
        match (self, file) {
            (ZarrVersion::V04, ".zgroup") => Some(ZarrDocument::Group),
            (ZarrVersion::V04, ".zattrs") => Some(ZarrDocument::Attributes),
            (ZarrVersion::V04, ".zarray") => Some(ZarrDocument::Array),
            (ZarrVersion::V04, ".zmetadata") => Some(ZarrDocument::Consolidated),
            (ZarrVersion::V05, "zarr.json") => Some(ZarrDocument::Metadata),
            _ => None,
        }
    }
}

impl ZarrRequest {
    /// Parses the rest of a path after `/zarr/`.
    pub fn parse(path: &str) -> Result<Self, Malformed> {
        let segments = decoded_segments(path)?;
        let segments: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
        let [version_name, image @ ..] = segments.as_slice() else {
            return Err(Malformed::ZarrShape);
        };
        let version = [ZarrVersion::V04, ZarrVersion::V05]
            .into_iter()
            .find(|version| version.name() == *version_name)
            .ok_or(Malformed::ZarrShape)?;
        // If the second segment ends in `.ome.zarr`, it names a channel, even if the token ends in
        // `.ome.zarr` too: no key in an image begins so (the name of a label comes after `labels`).
        let (token, channel, key) = match image {
            [token, channel, key @ ..] if stem(channel).is_some() => (*token, stem(channel), key),
            [token, key @ ..] => (stem(token).ok_or(Malformed::ZarrShape)?, None, key),
            [] => return Err(Malformed::ZarrShape),
        };
        Ok(ZarrRequest {
            version,
            token: VersionedToken::new(token)?,
            channel: channel.map(Name::new).transpose()?,
            part: part(version, key)?,
        })
    }
}

/// The name in a segment that names an image: `em` in `em.ome.zarr`.
fn stem(segment: &str) -> Option<&str> {
    segment.strip_suffix(OME_ZARR)
}

/// Parses a key within an image: `1/c/0/0/5/2/3` is a chunk of level 1 in version 0.5.
fn part(version: ZarrVersion, key: &[&str]) -> Result<ZarrPart, Malformed> {
    let expected = match version {
        ZarrVersion::V04 => ".zgroup, .zattrs, .zarray, .zmetadata or LEVEL/T/C/Z/Y/X",
        ZarrVersion::V05 => "zarr.json or LEVEL/c/T/C/Z/Y/X",
    };
    let wrong = || Malformed::ZarrKey {
        key: key.join("/"),
        version: version.name(),
        expected,
    };
    if let [path @ .., file] = key
        && let Some(document) = version.document(file)
    {
        let node = node(path).ok_or_else(wrong)?;
        return Ok(ZarrPart::Document(node, document));
    }
    let (label, key) = match key {
        [LABELS, label, key @ ..] => (Some(Name::new(label)?), key),
        key => (None, key),
    };
    let ((ZarrVersion::V04, [level, place @ ..]) | (ZarrVersion::V05, [level, CHUNK, place @ ..])) =
        (version, key)
    else {
        return Err(wrong());
    };
    let level = self::level(level).ok_or_else(wrong)?;
    if place.is_empty() || place.len() > MAX_AXES {
        return Err(wrong());
    }
    let place = place
        .iter()
        .map(|index| exact(index))
        .collect::<Option<Vec<u64>>>()
        .ok_or_else(wrong)?;
    Ok(ZarrPart::Chunk(ZarrChunk {
        label,
        level,
        place,
    }))
}

/// The group or the array at a path within an image.
fn node(segments: &[&str]) -> Option<ZarrNode> {
    Some(match segments {
        [] => ZarrNode::Image,
        [LABELS] => ZarrNode::Labels,
        [LABELS, label] => ZarrNode::Label(Name::new(label).ok()?),
        [LABELS, label, level] => {
            ZarrNode::Array(Some(Name::new(label).ok()?), self::level(level)?)
        }
        [level] => ZarrNode::Array(None, self::level(level)?),
        _ => return None,
    })
}

fn level(text: &str) -> Option<Level> {
    exact(text).and_then(Level::new)
}

/// A number without leading zeros.
fn exact(text: &str) -> Option<u64> {
    digits(text).filter(|_| text == "0" || !text.starts_with('0'))
}

#[cfg(test)]
mod tests;
