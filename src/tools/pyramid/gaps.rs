//! Says which shards make the pieces that are missing.

use voltile_base::shard::Shard;

use super::folder::WorkFolder;
use super::{Failed, PyramidError, PyramidWork};

impl PyramidWork {
    /// The error that names the shards to run, if pieces are missing. Pieces of families that
    /// cannot be computed do not count.
    pub(super) fn missing(&self, folder: &WorkFolder, failed: &Failed) -> Option<PyramidError> {
        let pieces = self.pieces();
        let missing: Vec<usize> = (0..pieces.len())
            .filter(|place| {
                !failed.contains_key(&pieces[*place].id.family) && !folder.has(pieces[*place].id)
            })
            .collect();
        let mut shards = Vec::new();
        for count in folder.divisions() {
            let makes_any = Shard::all(count).filter(|shard| {
                let part = self.part(shard, &pieces);
                missing.iter().any(|place| part.contains(place))
            });
            let names: Vec<String> = makes_any.map(|shard| shard.to_string()).collect();
            shards.push(names.join(", "));
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
        (!missing.is_empty()).then(|| PyramidError::Missing {
            folder: folder.path().to_owned(),
            missing: missing.len(),
            all: pieces.len(),
            advice,
        })
    }
}
