//! Says which pieces are missing, and which shards make them.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use super::folder::{Folder, PieceId};
use super::{Failed, PyramidError, Work};
use crate::base::shard::Shard;

/// How many runs of numbers are listed.
const MAX_LISTED: usize = 20;

impl Work {
    /// The error that names the missing pieces, if any. Those of families that cannot be computed are not missed.
    pub(super) fn missing(&self, folder: &Folder, failed: &Failed) -> Option<PyramidError> {
        let all = self.pieces();
        let is_missing = |id: &PieceId| !failed.contains_key(&id.family) && !folder.has(*id);
        let missing: Vec<(usize, PieceId)> =
            all.iter().copied().enumerate().filter(|(_, id)| is_missing(id)).collect();
        if missing.is_empty() {
            return None;
        }
        let places: Vec<usize> = missing.iter().map(|(place, _)| *place).collect();
        Some(PyramidError::Missing {
            folder: folder.path().to_owned(),
            missing: missing.len(),
            all: all.len(),
            which: self.names(&missing),
            advice: self.advice(folder, &places),
        })
    }

    /// The missing pieces by channel and stored level.
    fn names(&self, missing: &[(usize, PieceId)]) -> String {
        let mut numbers: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (_, id) in missing {
            numbers.entry(id.family).or_default().push(id.piece);
        }
        let of = |(number, pieces): (&usize, &Vec<usize>)| {
            let (place, family) = self.families.get(*number)?;
            let (name, level) = (&self.records.get(*place)?.name, family.stored()?.level().number());
            Some(format!("{name}, from level {level}: {} of {}", listed(pieces), family.pieces.len()))
        };
        numbers.iter().filter_map(of).collect::<Vec<_>>().join("; ")
    }

    /// What to run to make the missing pieces.
    fn advice(&self, folder: &Folder, missing: &[usize]) -> String {
        let of = |count: NonZeroU64| {
            let is_wanted = |shard: &Shard| {
                let part = self.part(shard);
                missing.iter().any(|place| part.contains(place))
            };
            let wanted = Shard::all(count).filter(is_wanted).map(|shard| shard.to_string());
            wanted.collect::<Vec<_>>().join(", ")
        };
        let shards: Vec<String> = folder.divisions().into_iter().map(of).collect();
        let again = match shards.as_slice() {
            [] => "Run voltile pyramid with --shard for every shard".to_owned(),
            shards => format!("Run these shards again: {}", shards.join("; or ")),
        };
        let others = match folder.has_others() {
            true => {
                ". The folder also has pieces of other work: from other options, another configuration or version of \
                 voltile, or from before a file was changed"
            }
            false => "",
        };
        format!("{again}{others}")
    }
}

/// Numbers in ascending order as a list of runs.
fn listed(numbers: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => runs.push((*number, *number)),
        }
    }
    let of = |(first, last): &(usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    let more = if runs.len() > MAX_LISTED { ", …" } else { "" };
    format!("{}{more}", runs.iter().take(MAX_LISTED).map(of).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_listed_as_runs() {
        assert_eq!(listed(&[0, 3, 4, 5, 9]), "0, 3-5, 9");
        let many: Vec<usize> = (0..100).map(|number| number * 2).collect();
        assert!(listed(&many).ends_with("36, 38, …"));
    }
}
