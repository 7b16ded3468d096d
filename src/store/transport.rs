//! One request for a range of an object's bytes, without retries.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::cloud::Cloud;
use super::error::StoreError;
use super::relay::{Relay, Relayed};
use super::version::Version;
use super::web::Web;
use crate::address::{Address, Scheme};

/// No object is larger: positions in it are computed without regard to overflow.
const MOST_BYTES: u64 = 1 << 60;

/// The answer to a request for a range: bytes from its start on, all up to its end or the object's.
#[derive(Debug, Clone)]
pub struct Part {
    /// The object's state when it was read.
    pub version: Version,
    /// The bytes.
    pub bytes: Bytes,
}

/// Fetches ranges of one object.
pub trait Transport: Send + Sync + Debug {
    /// The bytes in a range, which is not empty; fewer if the object ends before its end. If a version is expected, the
    /// request carries `If-Match`, but the answer may still be of another version: compare them.
    fn get<'a>(
        &'a self,
        range: Range<u64>,
        expected: Option<&'a Version>,
    ) -> BoxFuture<'a, Result<Part, StoreError>>;
}

/// What fetches ranges of the object at an address.
pub(super) fn to(address: &Address) -> Result<Arc<dyn Transport>, StoreError> {
    if let Some(relay) = Relay::in_force() {
        return Ok(Arc::new(Relayed { relay, address: address.clone() }));
    }
    Ok(match address.scheme() {
        Scheme::Web => Arc::new(Web::to(address)?),
        Scheme::S3 | Scheme::Gs | Scheme::Az => Arc::new(Cloud::to(address)?),
    })
}

/// The answer, if it has exactly the wanted bytes of an object that is `version.length` bytes long.
pub(super) fn checked(range: &Range<u64>, version: Version, bytes: Bytes) -> Result<Part, StoreError> {
    if version.length > MOST_BYTES {
        return Err(StoreError::invalid(format!("the object has {} bytes", version.length)));
    }
    let wanted = range.end.min(version.length).saturating_sub(range.start);
    if bytes.len() as u64 != wanted {
        let problem = format!("{} bytes instead of {wanted} from byte {}", bytes.len(), range.start);
        return Err(StoreError::invalid(problem));
    }
    Ok(Part { version, bytes })
}
