//! The interface of every filter: it decodes stored bytes to at most a limit.

use std::borrow::Cow;
use std::fmt;

/// Why a filter could not decode its input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(in super::super) enum FilterError {
    /// The bytes are not what the filter writes.
    Malformed(Cow<'static, str>),
    /// The stream is well-formed but its checksum or length is wrong, so that a prefix would decode
    /// to wrong voxels without an error.
    Corrupt(&'static str),
    /// The filter, or a codec that the stored bytes name, is not decoded here; this is its name.
    Unsupported(Cow<'static, str>),
}

impl<T: Into<Cow<'static, str>>> From<T> for FilterError {
    fn from(problem: T) -> Self {
        FilterError::Malformed(problem.into())
    }
}

/// Stored or decoded bytes.
pub(super) type Bytes<'a> = Cow<'a, [u8]>;

/// Undoes a filter with the parameters of one dataset. A filter's *input* is what it was given when
/// the chunk was written: the bytes of the chunk, or what the filter before it stored.
pub(super) trait Decoder: fmt::Debug + Send + Sync {
    /// Decodes to the filter's input, of at most `limit` bytes.
    fn decode(&self, bytes: &[u8], limit: usize) -> Result<Vec<u8>, FilterError>;

    /// Decodes to at least the first `needed` bytes of the input. The default decodes everything.
    fn decode_first<'a>(
        &self,
        bytes: Bytes<'a>,
        limit: usize,
        _needed: usize,
    ) -> Result<Bytes<'a>, FilterError> {
        self.decode(&bytes, limit).map(Cow::Owned)
    }

    /// The maximum number of bytes that the filter stores for an input of `input` bytes, if the
    /// chunk has `size` bytes. These bytes are the input of the filter after it, so this is the
    /// limit for that filter's decoder.
    fn most_stored(&self, _input: usize, size: usize) -> usize {
        max_compressed(size)
    }

    /// How many stored bytes are needed to decode the first `needed` bytes of an input of `size`
    /// bytes. `usize::MAX` means all.
    fn needed_for(&self, _needed: usize, _size: usize) -> usize {
        usize::MAX
    }
}

/// Fails if a decoded size is greater than the limit.
pub(super) fn ensure_fits(size: usize, limit: usize) -> Result<(), FilterError> {
    if size > limit {
        return Err("it is longer than a chunk".into());
    }
    Ok(())
}

/// A generous bound for what any compressor stores for `size` bytes: incompressible data grows far
/// less than twofold, and 64 KiB are more than enough for the headers that dominate small chunks.
pub(super) fn max_compressed(size: usize) -> usize {
    size.saturating_mul(2).saturating_add(64 * 1024)
}
