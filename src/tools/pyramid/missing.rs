//! Says which shards make the pieces that are missing.

use std::num::NonZeroU64;

use voltile_base::shard::Shard;

use super::folder::Folder;
use super::{Failed, PyramidError, Work};

impl Work {
    /// The error that names the shards to run, if pieces are missing. Those of families that cannot
    /// be computed are not missed.
    pub(super) fn missing(&self, folder: &Folder, failed: &Failed) -> Option<PyramidError> {
        let pieces = self.pieces();
        let missing: Vec<usize> = (0..pieces.len())
            .filter(|place| {
                !failed.contains_key(&pieces[*place].id.family) && !folder.has(pieces[*place].id)
            })
            .collect();
        let makes_any = |shard: &Shard| {
            let part = self.part(shard, &pieces);
            missing.iter().any(|place| part.contains(place))
        };
        let shards = |count: NonZeroU64| {
            Shard::all(count)
                .filter(makes_any)
                .map(|shard| shard.to_string())
                .collect::<Vec<_>>()
                .join(", ")
        };
        let shards: Vec<String> = folder.divisions().into_iter().map(shards).collect();
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
        (!missing.is_empty()).then(|| PyramidError::Missing {
            folder: folder.path().to_owned(),
            missing: missing.len(),
            all: pieces.len(),
            advice,
        })
    }
}
