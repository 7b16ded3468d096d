//! Says which shards make the pieces that are missing.

use voltile_base::shard::Shard;
use voltile_base::text::joined;

use super::folder::WorkFolder;
use super::{FamilyFailures, PyramidError, PyramidWork};

/// If the work was divided into more shards than this, all are named: to search each of them for
/// missing pieces would take too long.
const MAX_SHARDS: u64 = 4096;

impl PyramidWork {
    /// The error that names the shards to run, if pieces are missing. Pieces of families that
    /// cannot be computed do not count.
    pub(super) fn missing(
        &self,
        folder: &WorkFolder,
        failed: &FamilyFailures,
    ) -> Option<PyramidError> {
        let pieces = self.pieces();
        let mut missing = Vec::new();
        for (index, id) in pieces.iter().enumerate() {
            if !failed.contains_key(&id.family) && !folder.has(*id) {
                missing.push(index);
            }
        }
        if missing.is_empty() {
            return None;
        }
        let mut shards = Vec::new();
        for count in folder.divisions() {
            if count.get() > MAX_SHARDS {
                shards.push(format!("all of {count}"));
                continue;
            }
            let incomplete = Shard::all(count).filter(|shard| {
                let part = self.part(shard, &pieces);
                missing.iter().any(|index| part.contains(index))
            });
            shards.push(joined(incomplete));
        }
        let mut advice = match shards.as_slice() {
            [] => "Run voltile pyramid with --shard for every shard".to_owned(),
            shards => format!("Run these shards again: {}", shards.join("; or ")),
        };
        if folder.has_other_work() {
            advice.push_str(
                ". The folder also has pieces of other work: from other options, another configuration or version of \
                 voltile, or from before a file was changed",
            );
        }
        Some(PyramidError::Missing {
            folder: folder.path().to_owned(),
            missing: missing.len(),
            all: pieces.len(),
            advice,
        })
    }
}
