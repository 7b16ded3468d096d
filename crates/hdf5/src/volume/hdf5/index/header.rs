//! Finds the version-1 B-tree of a chunked dataset in its object header.
//!
//! The library does not tell the address of the tree. It has checked the header when it opened the
//! dataset, so checksums are not compared again.

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
const LAYOUT: u64 = 0x0008;
const CONTINUATION: u64 = 0x0010;
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

/// How the messages of a header are stored.
///
/// ```text
/// message  type (version 1: 2 bytes, version 2: 1) · length of the body (2) · flags (1)
///          version 1: padding (3), version 2: creation index (2), if the header has them · body
/// ```
#[derive(Debug, Clone, Copy)]
struct HeaderForm {
    /// The version of the header: 1 or 2.
    version: u8,
    /// The number of bytes of a message before its body.
    head_size: usize,
}

/// The tree of the dataset of `rank` axes whose object header has this address; `None` if its
/// chunks are indexed in another way, or it is not chunked.
pub(super) fn tree(
    metadata: &Metadata<'_>,
    address: u64,
    rank: usize,
) -> Result<Option<ChunkTree>, IndexError> {
    let tree = find_tree(metadata, address)?;
    let dimensions = rank + 1;
    if let Some(tree) = tree.filter(|tree| tree.dimensions != dimensions) {
        let found = format!("one with chunks of {} dimensions", tree.dimensions);
        let expected =
            format!("the object header of a dataset with chunks of {dimensions} dimensions");
        return Err(unexpected(metadata.position(address), &found, &expected));
    }
    Ok(tree)
}

/// The tree that an object header names, for any number of axes.
fn find_tree(metadata: &Metadata<'_>, address: u64) -> Result<Option<ChunkTree>, IndexError> {
    let position = metadata.position(address);
    let mut first = first_block(metadata, position, FIRST_READ)?;
    let mut fields = metadata.fields(&first);
    let (form, messages_size) = prefix(&mut fields)?;
    let prefix_size = fields.position - position;
    let block_size = prefix_size.saturating_add(messages_size);
    let mut bytes_left = MAX_BYTES;
    spend(&mut bytes_left, block_size, position)?;
    if block_size > first.bytes.len() as u64 {
        first = first_block(metadata, position, block_size)?;
    }
    // The further blocks of the header that messages refer to, as ranges of the file.
    let mut further = Vec::new();
    let mut fields = metadata.fields(&first);
    fields.skip(prefix_size as usize)?;
    let messages = fields.part(messages_size as usize)?;
    if let Some(layout) = find_layout(messages, form, metadata, &mut further)? {
        return tree_in(layout);
    }
    let mut seen = HashSet::new();
    while !further.is_empty() {
        for range in &further {
            spend(&mut bytes_left, range.end - range.start, range.start)?;
            if !seen.insert(range.start) {
                let again = "a block that the object header has already referred to";
                let expected = "the next block of an object header";
                return Err(unexpected(range.start, again, expected));
            }
        }
        for block in metadata.blocks(std::mem::take(&mut further))? {
            let messages = further_messages(metadata.fields(&block), form)?;
            if let Some(layout) = find_layout(messages, form, metadata, &mut further)? {
                return tree_in(layout);
            }
        }
    }
    let expected = "an object header with a data layout message";
    Err(unexpected(position, "one without it", expected))
}

/// Reads the first block of a header, at most `most` bytes of it.
fn first_block(
    metadata: &Metadata<'_>,
    position: u64,
    most: u64,
) -> Result<IndexBlock, IndexError> {
    let range = position..position.saturating_add(most);
    metadata
        .blocks(vec![range])?
        .pop()
        .ok_or_else(|| IndexError::Wrong("its object header was not read".to_owned()))
}

/// Subtracts the size of a block from the number of bytes of a header that may still be read.
fn spend(bytes_left: &mut u64, bytes: u64, position: u64) -> Result<(), IndexError> {
    *bytes_left = bytes_left.checked_sub(bytes).ok_or_else(|| {
        let found = format!("a block of {bytes} bytes");
        let expected = format!("an object header of at most {MAX_BYTES} bytes");
        unexpected(position, &found, &expected)
    })?;
    Ok(())
}

/// Reads the beginning of a header, up to its messages: their form, and their total length in this
/// block.
///
/// ```text
/// version 1  1 · 0 · number of messages (2 bytes) · reference count (4) · total length (4) ·
///            padding (4)
/// version 2  "OHDR" · 2 · flags (1) · four times (4 each), if there are any · two limits of
///            attributes (2 each), if there are any · total length (1, 2, 4 or 8)
/// ```
fn prefix(fields: &mut Fields<'_>) -> Result<(HeaderForm, u64), IndexError> {
    let position = fields.position;
    let signature = fields.take(4)?;
    if signature == b"OHDR" {
        return version_2_prefix(fields);
    }
    if signature[0] != 1 {
        let expected = "an object header (version 1, or \"OHDR\")";
        return Err(unexpected(position, &shown(signature), expected));
    }
    // The reference count.
    fields.skip(4)?;
    let length = fields.u32()?;
    // Padding.
    fields.skip(4)?;
    let form = HeaderForm {
        version: 1,
        head_size: 8,
    };
    Ok((form, u64::from(length)))
}

/// Reads the beginning of a header of version 2, after its signature.
fn version_2_prefix(fields: &mut Fields<'_>) -> Result<(HeaderForm, u64), IndexError> {
    let position = fields.position;
    let version = fields.byte()?;
    let flags = fields.byte()?;
    if version != 2 {
        let expected = "version 2 of an object header";
        return Err(unexpected(position, &version.to_string(), expected));
    }
    let times = if flags & 0x20 == 0 { 0 } else { 16 };
    let limits = if flags & 0x10 == 0 { 0 } else { 4 };
    fields.skip(times + limits)?;
    let length_size = 1 << (flags & 0x03);
    let length = fields.number(length_size)?;
    // Each message may have its creation index.
    let head_size = if flags & 0x04 == 0 { 4 } else { 6 };
    Ok((HeaderForm { version, head_size }, length))
}

/// The messages of a further block.
fn further_messages(mut fields: Fields<'_>, form: HeaderForm) -> Result<Fields<'_>, IndexError> {
    if form.version == 1 {
        return Ok(fields);
    }
    fields.signature(b"OCHK", "the signature \"OCHK\"")?;
    // A checksum comes last.
    fields.part(fields.bytes.len().saturating_sub(4))
}

/// The body of the data layout message, if it is among these messages. Adds to `further` the blocks
/// that messages before it refer to.
fn find_layout<'b>(
    mut messages: Fields<'b>,
    form: HeaderForm,
    metadata: &Metadata<'_>,
    further: &mut Vec<Range<u64>>,
) -> Result<Option<Fields<'b>>, IndexError> {
    let kind_size = if form.version == 1 { 2 } else { 1 };
    // Bytes at the end that are too few for a message are a gap.
    while messages.bytes.len() >= form.head_size {
        let mut head = messages.part(form.head_size)?;
        let kind = head.number(kind_size)?;
        let length = head.u16()?;
        let flags = head.byte()?;
        let mut body = messages.part(usize::from(length))?;
        match kind {
            LAYOUT if flags & SHARED != 0 => {
                let expected = "a data layout message in the object header itself";
                return Err(unexpected(body.position, "a shared one", expected));
            }
            LAYOUT => return Ok(Some(body)),
            CONTINUATION => {
                let position = body.position;
                let Some(address) = body.address()? else {
                    let expected = "the address of a block";
                    return Err(unexpected(position, "an undefined one", expected));
                };
                let start = metadata.position(address);
                further.push(start..start.saturating_add(body.length()?));
            }
            _ => {}
        }
    }
    Ok(None)
}

/// The tree that a data layout message names; `None` if chunks are indexed in another way, or the
/// dataset is not chunked.
///
/// ```text
/// version 1, 2  version (1 byte) · dimensions (1) · class (1) · padding (5) · address of the tree
/// version 3     version (1 byte) · class (1) · dimensions (1) · address of the tree
/// ```
fn tree_in(mut body: Fields<'_>) -> Result<Option<ChunkTree>, IndexError> {
    let position = body.position;
    let class;
    let dimensions;
    match body.byte()? {
        1 | 2 => {
            dimensions = body.byte()?;
            class = body.byte()?;
            body.skip(5)?;
        }
        3 => {
            class = body.byte()?;
            dimensions = body.byte()?;
        }
        // These versions have other indexes.
        4 | 5 => return Ok(None),
        version => {
            let expected = "version 1 to 5 of a data layout message";
            return Err(unexpected(position, &version.to_string(), expected));
        }
    }
    if class != CHUNKED {
        return Ok(None);
    }
    Ok(Some(ChunkTree {
        root: body.address()?,
        dimensions: usize::from(dimensions),
    }))
}

#[cfg(test)]
mod tests;
