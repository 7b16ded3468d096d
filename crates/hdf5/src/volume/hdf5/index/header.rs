//! Finds the version-1 B-tree of a chunked dataset in its object header.
//!
//! The library has read and checked the header when it opened the dataset, so checksums are not
//! compared again. It does not tell the address of the tree.

use std::collections::HashSet;
use std::ops::Range;

use super::entry::IndexError;
use super::metadata::{Fields, IndexBlock, Metadata, shown, unexpected};

/// The number of bytes read first: longer than the usual header. One with a few attributes takes
/// less than 1 KiB.
const FIRST_READ: u64 = 2048;
/// The maximum size of all blocks of a header. Attributes of up to 64 KiB each can lie in it.
const MAX_BYTES: u64 = 16 << 20;

/// Message types.
const LAYOUT: u16 = 0x0008;
const CONTINUATION: u16 = 0x0010;
/// The message flag of messages that are stored elsewhere.
const SHARED: u8 = 0x02;
/// The layout class of chunked data.
const CHUNKED: u8 = 2;

/// The B-tree that indexes the chunks of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChunkTree {
    /// The address of its root, relative to the base address; `None` if no chunk was ever written.
    pub root: Option<u64>,
    /// The number of offsets in its keys: one more than the dataset has axes.
    pub dimensions: usize,
}

/// The version of a header, by which its messages are stored in different ways.
#[derive(Debug, Clone, Copy)]
enum HeaderVersion {
    One,
    Two {
        /// Whether each message has its creation index.
        is_indexed: bool,
    },
}

/// The tree of the dataset of `rank` axes whose object header has this address; `None` if its
/// chunks are indexed in another way, or it is not chunked.
pub(super) fn tree(
    metadata: &Metadata<'_>,
    address: u64,
    rank: usize,
) -> Result<Option<ChunkTree>, IndexError> {
    let tree = find_tree(metadata, address)?;
    if let Some(tree) = tree
        && tree.dimensions != rank + 1
    {
        return Err(unexpected(
            metadata.position(address),
            &format!("one with chunks of {} dimensions", tree.dimensions),
            &format!(
                "the object header of a dataset with chunks of {} dimensions",
                rank + 1
            ),
        ));
    }
    Ok(tree)
}

/// The tree that an object header names, of whatever rank.
fn find_tree(metadata: &Metadata<'_>, address: u64) -> Result<Option<ChunkTree>, IndexError> {
    let position = metadata.position(address);
    let mut first = only(metadata.blocks(&[position], FIRST_READ)?)?;
    let (version, start, length) = prefix(&mut metadata.fields(&first, 0))?;
    let whole = start.saturating_add(length);
    let mut left = MAX_BYTES;
    spend(&mut left, whole, position)?;
    if whole > first.bytes.len() as u64 {
        first = only(metadata.blocks(&[position], whole)?)?;
    }
    // The further blocks of the header that messages refer to, as ranges of the file.
    let mut pieces = Vec::new();
    let messages = metadata
        .fields(&first, start as usize)
        .part(length as usize)?;
    if let Some(layout) = layout(messages, version, metadata, &mut pieces)? {
        return Ok(layout.0);
    }
    let mut seen = HashSet::new();
    while !pieces.is_empty() {
        for piece in &pieces {
            spend(&mut left, piece.end - piece.start, piece.start)?;
            if !seen.insert(piece.start) {
                let again = "a block that the object header has already referred to";
                return Err(unexpected(
                    piece.start,
                    &again,
                    "the next block of an object header",
                ));
            }
        }
        for block in metadata.blocks_in(std::mem::take(&mut pieces))? {
            let messages = continued(metadata.fields(&block, 0), version)?;
            if let Some(layout) = layout(messages, version, metadata, &mut pieces)? {
                return Ok(layout.0);
            }
        }
    }
    Err(unexpected(
        position,
        &"one without it",
        "an object header with a data layout message",
    ))
}

/// The only block that was read.
fn only(blocks: Vec<IndexBlock>) -> Result<IndexBlock, IndexError> {
    blocks
        .into_iter()
        .next()
        .ok_or_else(|| IndexError::Wrong("its object header was not read".to_owned()))
}

/// Subtracts the size of a block from the number of bytes of a header that may still be read.
fn spend(left: &mut u64, bytes: u64, position: u64) -> Result<(), IndexError> {
    *left = left.checked_sub(bytes).ok_or_else(|| {
        let found = format!("a block of {bytes} bytes");
        unexpected(
            position,
            &found,
            &format!("an object header of at most {MAX_BYTES} bytes"),
        )
    })?;
    Ok(())
}

/// Reads the beginning of a header: its version, where its messages begin, and their total length
/// in this block.
fn prefix(fields: &mut Fields<'_>) -> Result<(HeaderVersion, u64, u64), IndexError> {
    let begins = *fields;
    let signature = fields.take(4)?;
    if signature == b"OHDR" {
        return second_prefix(fields);
    }
    if signature[0] != 1 {
        let expected = "an object header (version 1, or \"OHDR\")";
        return Err(unexpected(begins.position(), &shown(signature), expected));
    }
    // The reference count.
    fields.skip(4)?;
    Ok((HeaderVersion::One, 16, u64::from(fields.u32()?)))
}

fn second_prefix(fields: &mut Fields<'_>) -> Result<(HeaderVersion, u64, u64), IndexError> {
    let position = fields.position();
    let version = fields.byte()?;
    let flags = fields.byte()?;
    if version != 2 {
        return Err(unexpected(
            position,
            &version,
            "version 2 of an object header",
        ));
    }
    let times = if flags & 0x20 == 0 { 0 } else { 16 };
    let limits = if flags & 0x10 == 0 { 0 } else { 4 };
    fields.skip(times + limits)?;
    let size = 1 << (flags & 0x03);
    let length = fields.number(size)?;
    let start = 6 + times + limits + size;
    Ok((
        HeaderVersion::Two {
            is_indexed: flags & 0x04 != 0,
        },
        start as u64,
        length,
    ))
}

/// The messages of a further block.
fn continued(mut fields: Fields<'_>, version: HeaderVersion) -> Result<Fields<'_>, IndexError> {
    if matches!(version, HeaderVersion::One) {
        return Ok(fields);
    }
    let position = fields.position();
    let signature = fields.take(4)?;
    if signature != b"OCHK" {
        return Err(unexpected(
            position,
            &shown(signature),
            "the signature \"OCHK\"",
        ));
    }
    // A checksum comes last.
    let length = fields.left().saturating_sub(4);
    fields.part(length)
}

/// A data layout message: the tree that it names, if it names one.
struct LayoutMessage(Option<ChunkTree>);

/// Looks for the data layout message, and collects further blocks.
fn layout(
    mut fields: Fields<'_>,
    version: HeaderVersion,
    metadata: &Metadata<'_>,
    pieces: &mut Vec<Range<u64>>,
) -> Result<Option<LayoutMessage>, IndexError> {
    let prefix = match version {
        HeaderVersion::One => 8,
        HeaderVersion::Two { is_indexed } => 4 + if is_indexed { 2 } else { 0 },
    };
    // Fewer bytes are a gap.
    while fields.left() >= prefix {
        let mut head = fields.part(prefix)?;
        let kind = if matches!(version, HeaderVersion::One) {
            head.u16()?
        } else {
            u16::from(head.byte()?)
        };
        let length = head.u16()?;
        let flags = head.byte()?;
        let mut body = fields.part(usize::from(length))?;
        match kind {
            LAYOUT if flags & SHARED != 0 => {
                let expected = "a data layout message in the object header itself";
                return Err(unexpected(body.position(), &"a shared one", expected));
            }
            LAYOUT => return layout_message(&mut body).map(LayoutMessage).map(Some),
            CONTINUATION => {
                let position = body.position();
                let Some(address) = body.address()? else {
                    return Err(unexpected(
                        position,
                        &"an undefined one",
                        "the address of a block",
                    ));
                };
                let start = metadata.position(address);
                pieces.push(start..start.saturating_add(body.length()?));
            }
            _ => {}
        }
    }
    Ok(None)
}

fn layout_message(body: &mut Fields<'_>) -> Result<Option<ChunkTree>, IndexError> {
    let position = body.position();
    match body.byte()? {
        1 | 2 => {
            let dimensions = usize::from(body.byte()?);
            let class = body.byte()?;
            body.skip(5)?;
            tree_of(class, dimensions, body)
        }
        3 => match body.byte()? {
            CHUNKED => {
                let dimensions = usize::from(body.byte()?);
                tree_of(CHUNKED, dimensions, body)
            }
            _ => Ok(None),
        },
        // These versions have other indexes.
        4 | 5 => Ok(None),
        version => Err(unexpected(
            position,
            &version,
            "version 1 to 5 of a data layout message",
        )),
    }
}

fn tree_of(
    class: u8,
    dimensions: usize,
    body: &mut Fields<'_>,
) -> Result<Option<ChunkTree>, IndexError> {
    if class != CHUNKED {
        return Ok(None);
    }
    Ok(Some(ChunkTree {
        root: body.address()?,
        dimensions,
    }))
}

#[cfg(test)]
mod tests;
