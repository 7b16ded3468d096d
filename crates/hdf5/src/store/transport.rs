//! One request for a range of an object's bytes, without retries; and the limits of all requests.

use std::fmt::Debug;
use std::ops::Range;
use std::pin::pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use futures_util::{Stream, TryStreamExt};

use super::error::StoreError;
use super::version::Version;

/// The maximum memory that is reserved for a body before it arrives; a longer body takes more as it
/// arrives.
const MAX_RESERVED: u64 = 4 << 20;
/// How long a connection may take to be made.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an answer, or its next bytes, may take.
pub(super) const READ_TIMEOUT: Duration = Duration::from_secs(15);
/// The time after which a failed request is worth repeating, unless the store says otherwise.
pub(super) const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// The maximum number of requests to one server that are in flight at once: enough for all chunks
/// of a tile.
pub(super) const MAX_REQUESTS: usize = 64;

/// Larger objects are refused, so that positions can be computed without regard to overflow.
const MAX_BYTES: u64 = 1 << 60;

/// The answer to a request for a range: all bytes from its start to its end, or to the end of the
/// object.
#[derive(Debug, Clone)]
pub struct RangeBytes {
    /// The object's state when it was read.
    pub version: Version,
    /// The bytes.
    pub bytes: Bytes,
}

/// The future of an answer to a request for a range.
pub(super) type RangeAnswer<'a> = BoxFuture<'a, Result<RangeBytes, StoreError>>;

/// Fetches ranges of one object.
pub trait Transport: Send + Sync + Debug {
    /// The bytes in a range, which is not empty; fewer if the object ends before the range does. If
    /// a version is expected, the request carries `If-Match`, but the answer may still be of
    /// another version: the caller must compare the two.
    fn get<'a>(&'a self, range: Range<u64>, expected: Option<&'a Version>) -> RangeAnswer<'a>;
}

/// Receives the body of an answer about this version. Fails unless it has exactly the bytes of the
/// object that lie in the range.
pub(super) async fn receive(
    range: &Range<u64>,
    version: Version,
    body: impl Stream<Item = Result<Bytes, StoreError>>,
) -> Result<RangeBytes, StoreError> {
    let start = range.start;
    let length = version.length;
    let wanted = range.end.min(length).saturating_sub(start);
    let bytes = receive_bytes(body, wanted).await?;
    if length > MAX_BYTES {
        let problem = format!("the object has {length} bytes");
        return Err(StoreError::invalid(problem));
    }
    let count = bytes.len();
    if count as u64 != wanted {
        let problem = format!("{count} bytes instead of {wanted} from byte {start}");
        return Err(StoreError::invalid(problem));
    }
    Ok(RangeBytes { version, bytes })
}

/// Receives a body. Stops once it has more than `wanted` bytes: an answer that is too long is
/// refused anyway.
pub(super) async fn receive_bytes(
    body: impl Stream<Item = Result<Bytes, StoreError>>,
    wanted: u64,
) -> Result<Bytes, StoreError> {
    let mut bytes = BytesMut::with_capacity(wanted.min(MAX_RESERVED) as usize);
    let mut body = pin!(body);
    while let Some(more) = body.try_next().await? {
        bytes.extend_from_slice(&more);
        if bytes.len() as u64 > wanted {
            break;
        }
    }
    Ok(bytes.freeze())
}
