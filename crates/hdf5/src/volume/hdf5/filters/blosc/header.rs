//! The chunk header: sizes, codec and filters.
//!
//! ```text
//! byte  0  version of the format        in blosc2:
//!       1  version of the codec         16–21  filters, in the order in which they were applied
//!       2  flags; codec in the top 3        22  codec, if it does not fit in the flags
//!       3  bytes per element            24–29  a parameter of each filter
//!       4  decoded size (4 bytes)           30  more flags
//!       8  decoded size of a block (4)      31  flags: dictionary, kind of a repeated value, …
//!      12  size of the chunk (4)
//! ```

use super::super::FilterError;
use super::super::cursor::ByteCursor;

/// The latest known version of the format.
const LATEST: u8 = 6;
const FIRST_OF_BLOSC2: u8 = 3;

// Flags of the header, besides the codec in the upper three bits.
const SHUFFLED: u8 = 1;
const MEMCPYED: u8 = 2;
const BITSHUFFLED: u8 = 4;
const DELTA: u8 = 8;
const ONE_STREAM: u8 = 16;
/// In blosc2, both flags together mean that an extended header follows.
const EXTENDED: u8 = SHUFFLED | BITSHUFFLED;
/// Stands for a codec whose number is in the extended header.
const OTHER_CODEC: u8 = 6;
/// A flag of the extended header.
const DICTIONARY: u8 = 1;

/// A parsed chunk header.
#[derive(Debug, Default)]
pub(super) struct BloscChunk<'a> {
    /// The whole chunk, to which offsets refer.
    pub bytes: &'a [u8],
    /// The part after the header.
    pub body: &'a [u8],
    pub content: ChunkContent<'a>,
    /// Whether it is a blosc2 chunk.
    pub is_blosc2: bool,
    /// The number of the codec of its streams.
    pub codec: u8,
    /// Filters in the order in which they were applied.
    pub filters: Vec<BloscFilter>,
    /// The dictionary that its streams were compressed with.
    pub dictionary: Option<&'a [u8]>,
    /// Whether each byte of an element has its own stream.
    pub is_split: bool,
    /// Bytes per element.
    pub element: usize,
    /// The decoded size.
    pub size: usize,
    /// The decoded size of a block; the last block may be shorter. Not 0 if there are blocks.
    pub block: usize,
}

#[derive(Debug, Default)]
pub(super) enum ChunkContent<'a> {
    /// A single repeated value.
    Repeated(&'a [u8]),
    /// Uncompressed bytes.
    Plain,
    /// The offsets of blocks, and the blocks.
    #[default]
    Blocks,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BloscFilter {
    /// A shuffle of elements of this many bytes.
    Shuffle(usize),
    Bitshuffle,
    Delta,
    /// Each byte was replaced by its difference from the byte before it, in each of this many equal
    /// parts.
    Bytedelta(usize),
}

impl<'a> BloscChunk<'a> {
    pub fn parse(bytes: &'a [u8]) -> Result<Self, FilterError> {
        let mut input = ByteCursor(bytes);
        let [version, _codec_version, flags, element] = input.array()?;
        let size = input.size_le()?;
        let block = input.size_le()?;
        let length = input.size_le()?;
        ensure_known(version)?;
        let mut codec = flags >> 5;
        let is_blosc2 = version >= FIRST_OF_BLOSC2;
        let bytes = bytes.get(..length).ok_or("it ends too early")?;
        let mut input = ByteCursor(bytes.get(16..).ok_or("its header is too short")?);
        let element = usize::from(element);
        let mut content = ChunkContent::Blocks;
        let mut has_dictionary = false;
        if flags & MEMCPYED != 0 {
            content = ChunkContent::Plain;
        }
        let filters = if is_blosc2 && flags & EXTENDED == EXTENDED {
            let extension: [u8; 16] = input.array()?;
            has_dictionary = extension[15] & DICTIONARY != 0;
            if codec == OTHER_CODEC {
                codec = extension[6];
            }
            if let Some(value) = single_value(&extension, element, input.0)? {
                content = ChunkContent::Repeated(value);
            }
            blosc2_filters(&extension, element)?
        } else {
            blosc1_filters(flags, element)?
        };
        if (element == 0 || block == 0) && size > 0 {
            return Err("its elements or blocks are empty".into());
        }
        let block = if is_blosc2 { block.min(size) } else { block };
        // blosc1 splits only blocks of at least 128 elements of at most 16 bytes.
        let is_split = flags & ONE_STREAM == 0
            && (is_blosc2 || (element <= 16 && block / element.max(1) >= 128));
        let body = input.0;
        let mut chunk = Self {
            bytes,
            body,
            content,
            is_blosc2,
            codec,
            filters,
            dictionary: None,
            is_split,
            element,
            size,
            block,
        };
        if has_dictionary && matches!(chunk.content, ChunkContent::Blocks) {
            // The dictionary lies between the offsets of the blocks and the blocks.
            let mut rest = ByteCursor(body.get(4 * chunk.block_count()..).unwrap_or_default());
            let length = rest.size_le()?;
            chunk.dictionary = Some(rest.take(length)?);
        }
        Ok(chunk)
    }

    /// A chunk of `size` bytes that repeats the value with this number, in blocks of `block` bytes.
    pub fn repeated(
        number: u8,
        [element, size, block]: [usize; 3],
    ) -> Result<BloscChunk<'static>, FilterError> {
        Ok(BloscChunk {
            content: ChunkContent::Repeated(known_value(number, element)?),
            is_blosc2: true,
            element,
            size,
            block,
            ..BloscChunk::default()
        })
    }
}

fn ensure_known(version: u8) -> Result<(), FilterError> {
    match version {
        0 | 1 => Err(format!("version {version} of its format is not known").into()),
        2..=LATEST => Ok(()),
        _ => {
            let name = format!("blosc2 with version {version} of its format");
            Err(FilterError::Unsupported(name.into()))
        }
    }
}

/// The filters encoded in the flags of blosc1.
fn blosc1_filters(flags: u8, element: usize) -> Result<Vec<BloscFilter>, FilterError> {
    if flags & DELTA != 0 {
        let name = "blosc with its delta filter";
        return Err(FilterError::Unsupported(name.into()));
    }
    Ok(if flags & SHUFFLED != 0 {
        vec![BloscFilter::Shuffle(element)]
    } else if flags & BITSHUFFLED != 0 {
        vec![BloscFilter::Bitshuffle]
    } else {
        Vec::new()
    })
}

/// The filters listed in the extended header.
fn blosc2_filters(extension: &[u8; 16], element: usize) -> Result<Vec<BloscFilter>, FilterError> {
    let [f0, f1, f2, f3, f4, f5, _, _, m0, m1, m2, m3, m4, m5, ..] = *extension;
    let mut filters = Vec::new();
    for (number, meta) in [(f0, m0), (f1, m1), (f2, m2), (f3, m3), (f4, m4), (f5, m5)] {
        match number {
            // Nothing, or truncated precision (also of integers), which cannot be undone.
            0 | 4 | 36 => {}
            1 if meta == 0 => filters.push(BloscFilter::Shuffle(element)),
            1 => filters.push(BloscFilter::Shuffle(usize::from(meta))),
            2 => filters.push(BloscFilter::Bitshuffle),
            35 if meta == 0 => filters.push(BloscFilter::Bytedelta(element)),
            35 => filters.push(BloscFilter::Bytedelta(usize::from(meta))),
            // To undo it, the first block is needed as it was before this filter. Only the decoded
            // first block is kept, so delta must have been the first filter.
            3 if filters.is_empty() => filters.push(BloscFilter::Delta),
            _ => {
                let name = format!("blosc with its own filter {number}");
                return Err(FilterError::Unsupported(name.into()));
            }
        }
    }
    Ok(filters)
}

/// The value of a chunk that repeats one, if the extended header says so.
fn single_value<'a>(
    extension: &[u8; 16],
    element: usize,
    body: &'a [u8],
) -> Result<Option<&'a [u8]>, FilterError> {
    const LAZY_OR_INSTRUMENTED: u8 = 0x08 | 0x80;
    let [.., more_flags, flags] = *extension;
    if flags & LAZY_OR_INSTRUMENTED != 0 || more_flags != 0 {
        let name = "blosc2 with lazy or instrumented chunks";
        return Err(FilterError::Unsupported(name.into()));
    }
    match flags >> 4 & 7 {
        0 => Ok(None),
        // The value follows the header.
        3 if !body.is_empty() => Ok(Some(body)),
        number => known_value(number, element).map(Some),
    }
}

/// The repeated value with this number: zero or NaN.
fn known_value(number: u8, element: usize) -> Result<&'static [u8], FilterError> {
    match (number, element) {
        // The number 4 means an uninitialised chunk.
        (1 | 4, _) => Ok(&[0]),
        (2, 4) => Ok(&[0, 0, 0xc0, 0x7f]),
        (2, 8) => Ok(&[0, 0, 0, 0, 0, 0, 0xf8, 0x7f]),
        _ => Err("its single value is invalid".into()),
    }
}
