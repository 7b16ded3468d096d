//! Merges ranges that lie close together into one request.

use std::ops::Range;

use serde::Serialize;

use super::transport::MAX_REQUESTS;

/// A gap up to this length is read, too: that takes less time than another request would.
const MAX_GAP: u64 = 64 << 10;
/// Ranges are merged up to this length: longer requests gain nothing, and shorter ones run side by
/// side.
const MAX_MERGED: u64 = 4 << 20;
/// At most one eighth of a request's bytes may lie in gaps, so that little is read in vain.
const WASTE_DIVISOR: u64 = 8;

/// One request for the bytes of several ranges.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MergedRequest<T> {
    pub range: Range<u64>,
    /// The ranges, each with what the caller attached to it.
    pub parts: Vec<(Range<u64>, T)>,
}

/// The requests that fetching ranges takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Requests {
    /// The number of requests.
    pub requests: u64,
    /// The bytes that they ask for, with the gaps between the ranges.
    pub bytes: u64,
    /// How many requests follow each other, if as many as possible are made at once.
    pub round_trips: u64,
}

impl Requests {
    /// The requests for ranges in any order; equal ones are fetched once.
    pub fn of(ranges: Vec<Range<u64>>) -> Self {
        let merged = merge(ranges.into_iter().map(|range| (range, ())).collect());
        let requests = merged.len() as u64;
        let lengths = merged
            .iter()
            .map(|request| request.range.end - request.range.start);
        Self {
            requests,
            bytes: lengths.sum(),
            round_trips: requests.div_ceil(MAX_REQUESTS as u64),
        }
    }
}

/// Merges ranges in any order. The caller may attach a value to each.
pub(super) fn merge<T>(mut parts: Vec<(Range<u64>, T)>) -> Vec<MergedRequest<T>> {
    parts.sort_by_key(|(range, _)| (range.start, range.end));
    let mut all: Vec<MergedRequest<T>> = Vec::new();
    // The bytes of the last request that lie in gaps.
    let mut wasted = 0;
    for part in parts {
        let next = &part.0;
        if let Some(last) = all.last_mut() {
            let gap = next.start.saturating_sub(last.range.end);
            let end = last.range.end.max(next.end);
            let length = end - last.range.start;
            let is_within = next.end <= last.range.end;
            let is_worth_while =
                gap <= MAX_GAP && length <= MAX_MERGED && (wasted + gap) * WASTE_DIVISOR <= length;
            if is_within || is_worth_while {
                wasted += gap;
                last.range.end = end;
                last.parts.push(part);
                continue;
            }
        }
        wasted = 0;
        all.push(MergedRequest {
            range: next.clone(),
            parts: vec![part],
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
        let parts = ranges.iter().map(|range| (range.clone(), ())).collect();
        merge(parts)
            .into_iter()
            .map(|merged| merged.range)
            .collect()
    }

    #[test]
    fn neighbours_are_read_together_and_every_range_is_covered_once() {
        let far = 1 << 30..(1 << 30) + 5;
        let ranges = [200..300, 0..100, 100..200, far.clone()];
        let all = merge(ranges.into_iter().zip('a'..).collect());
        assert_eq!(
            all[0],
            MergedRequest {
                range: 0..300,
                parts: vec![(0..100, 'b'), (100..200, 'c'), (200..300, 'a')]
            }
        );
        assert_eq!(all[1].parts, [(far, 'd')]);
    }

    #[test]
    fn gaps_are_read_along_only_if_they_are_small() {
        let large = 1 << 20;
        assert_eq!(
            requests(&[0..large, large + MAX_GAP..2 * large]),
            vec![0..2 * large; 1]
        );
        assert_eq!(
            requests(&[0..large, large + MAX_GAP + 1..2 * large]).len(),
            2
        );
        assert_eq!(
            requests(&[0..100, 200..300]).len(),
            2,
            "a third of it would be in vain"
        );
    }

    #[test]
    fn long_ranges_are_not_merged() {
        assert_eq!(
            requests(&[0..MAX_MERGED, MAX_MERGED..MAX_MERGED + 1]).len(),
            2
        );
        assert_eq!(
            requests(&[0..2 * MAX_MERGED, 10..20]),
            vec![0..2 * MAX_MERGED; 1],
            "a range within another"
        );
    }
}
