//! One request for a range of an object's bytes, without retries; and the limits of all requests.

use std::fmt::Debug;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::error::StoreError;
use super::version::Version;

/// The maximum memory that is reserved for a body before it arrives; a longer body takes more as it
/// arrives.
pub(super) const ROOM: u64 = 4 << 20;
/// How long a connection may take to be made.
pub(super) const CONNECTING: Duration = Duration::from_secs(5);
/// How long an answer, or its next bytes, may take.
pub(super) const WAITING: Duration = Duration::from_secs(15);
/// The time after which a failed request is worth repeating, unless the store says otherwise.
pub(super) const RETRY: Duration = Duration::from_secs(1);
/// The maximum number of requests to one server that are in flight at once: enough for all chunks
/// of a tile.
pub(super) const MAX_AT_ONCE: usize = 64;

/// No object is larger: positions in it are computed without regard to overflow.
const MAX_BYTES: u64 = 1 << 60;

/// The answer to a request for a range: bytes from its start on, all up to its end or the object's.
#[derive(Debug, Clone)]
pub struct RangeBytes {
    /// The object's state when it was read.
    pub version: Version,
    /// The bytes.
    pub bytes: Bytes,
}

/// Fetches ranges of one object.
pub trait Transport: Send + Sync + Debug {
    /// The bytes in a range, which is not empty; fewer if the object ends before its end. If a
    /// version is expected, the request carries `If-Match`, but the answer may still be of another
    /// version: compare them.
    fn get<'a>(
        &'a self,
        range: Range<u64>,
        expected: Option<&'a Version>,
    ) -> BoxFuture<'a, Result<RangeBytes, StoreError>>;
}

/// The answer, if it has exactly the wanted bytes of an object that is `version.length` bytes long.
pub(super) fn checked(
    range: &Range<u64>,
    version: Version,
    bytes: Bytes,
) -> Result<RangeBytes, StoreError> {
    if version.length > MAX_BYTES {
        return Err(StoreError::invalid(format!(
            "the object has {} bytes",
            version.length
        )));
    }
    let wanted = range.end.min(version.length).saturating_sub(range.start);
    if bytes.len() as u64 != wanted {
        let problem = format!(
            "{} bytes instead of {wanted} from byte {}",
            bytes.len(),
            range.start
        );
        return Err(StoreError::invalid(problem));
    }
    Ok(RangeBytes { version, bytes })
}
