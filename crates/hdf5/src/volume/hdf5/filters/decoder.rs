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

/// Decodes what a filter stored, under the parameters of one dataset.
pub(super) trait Decoder: fmt::Debug + Send + Sync {
    /// Decodes to at most `limit` bytes.
    fn decode(&self, bytes: &[u8], limit: usize) -> Result<Vec<u8>, FilterError>;

    /// Decodes at least the first `needed` bytes. The default decodes everything.
    fn decode_first<'a>(
        &self,
        bytes: Bytes<'a>,
        limit: usize,
        _needed: usize,
    ) -> Result<Bytes<'a>, FilterError> {
        self.decode(&bytes, limit).map(Cow::Owned)
    }

    /// The maximum number of bytes that the filter stores, given `before` bytes of a chunk of
    /// `size` bytes. The filter after it, which is decoded earlier, must not decode to more.
    fn bound(&self, _before: usize, size: usize) -> usize {
        max_compressed(size)
    }

    /// How many stored bytes are needed to decode the first `needed` of `size` bytes: all, unless
    /// the filter's last bytes are not needed.
    fn needed_for(&self, _needed: usize, _size: usize) -> usize {
        usize::MAX
    }
}

/// Fails if decoded bytes are more than the limit.
pub(super) fn ensure_fits(size: usize, limit: usize) -> Result<(), FilterError> {
    if size > limit {
        return Err("it is longer than a chunk".into());
    }
    Ok(())
}

/// The most that a compressor stores for `size` bytes: it expands incompressible data far less than
/// twofold, and small blocks have headers.
pub(super) fn max_compressed(size: usize) -> usize {
    size.saturating_mul(2).saturating_add(64 * 1024)
}
