//! Stored chunks kept on a local disk, so that they need not be fetched again.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::object::Object;
use super::stored::{Arriving, land};
use crate::metrics::StoreMetrics;
use crate::tile::TileKey;

/// Keeps bytes by key; `name` is that of the object, for people. Every method may block; errors are logged there.
pub trait Keeps: Send + Sync {
    /// The bytes of a key, complete and exactly as kept; `None` if there are none.
    fn get(&self, name: &str, key: &TileKey) -> Option<Bytes>;

    /// Keeps the bytes of a key.
    fn put(&self, name: &str, key: &TileKey, bytes: &Bytes);
}

/// Where they are kept; unset while they are not.
static KEPT: OnceLock<Arc<dyn Keeps>> = OnceLock::new();

/// Keeps stored chunks from now on.
pub fn keep_chunks_in(kept: Arc<dyn Keeps>) {
    // Set once, when the program starts.
    let _ = KEPT.set(kept);
}

/// The key of a range of one version of an object.
fn key(object: &Object, range: &Range<u64>) -> TileKey {
    TileKey::of(&("stored bytes", object.address(), object.version(), range))
}

/// Hands out the ranges that are kept, and returns the others.
pub(super) async fn found(
    object: &Arc<Object>,
    parts: Vec<(Range<u64>, Arriving)>,
) -> Vec<(Range<u64>, Arriving)> {
    let Some(kept) = KEPT.get().map(Arc::clone) else { return parts };
    let object = Arc::clone(object);
    let look = move || {
        let mut missing = Vec::new();
        for (range, flight) in parts {
            match kept.get(object.name(), &key(&object, &range)) {
                Some(bytes) if bytes.len() as u64 == range.end - range.start => {
                    StoreMetrics::of_process().block_hits.inc();
                    land(flight, Ok(bytes));
                }
                _ => missing.push((range, flight)),
            }
        }
        missing
    };
    // If the look panics, the flights that it held have ended, and whoever waits asks again.
    tokio::task::spawn_blocking(look).await.unwrap_or_default()
}

/// Keeps a range in the background.
pub(super) fn keep(object: &Arc<Object>, range: &Range<u64>, bytes: &Bytes) {
    let Some(kept) = KEPT.get().map(Arc::clone) else { return };
    let (key, object, bytes) = (key(object, range), Arc::clone(object), bytes.clone());
    drop(tokio::task::spawn_blocking(move || kept.put(object.name(), &key, &bytes)));
}
