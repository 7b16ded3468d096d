//! Lists of numbers as entered by a user, and runs of consecutive numbers.

use crate::base::request::digits;
use std::num::NonZeroU64;
use std::ops::Range;
use std::str::FromStr;

/// The maximum number of single numbers from ranges with steps.
const MAX_SINGLE: u64 = 1 << 20;

/// Numbers as listed: `5`, `0-99`, `100-`, `0-1000:10`, `all`, with commas between.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Numbers(Vec<Listed>);

/// Numbers from `first` to at most `last`, which is included only if a step ends there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Listed {
    first: u64,
    last: u64,
    step: NonZeroU64,
}

/// Why a text is not a list of numbers, or too long.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotNumbers {
    /// An item is neither a number nor a range.
    #[error(
        "{item:?} is not a number or range: expected 5, 0-99, 100- (to the end), 0-1000:10 (every tenth) or all, separated by commas"
    )]
    Item {
        /// The item as given.
        item: String,
    },
    /// A range is reversed.
    #[error("{item:?} ends before it begins")]
    Backwards {
        /// The item as given.
        item: String,
    },
    /// Ranges with steps give too many single numbers.
    #[error("ranges with steps give more than {MAX_SINGLE} numbers; use larger steps, or none")]
    TooMany,
}

impl Numbers {
    /// All numbers.
    pub fn all() -> Self {
        Self(vec![Listed { first: 0, last: u64::MAX, step: NonZeroU64::MIN }])
    }

    /// One number.
    pub fn one(number: u64) -> Self {
        Self(vec![Listed { first: number, last: number, step: NonZeroU64::MIN }])
    }

    /// A number and all above it.
    pub fn from(first: u64) -> Self {
        Self(vec![Listed { first, last: u64::MAX, step: NonZeroU64::MIN }])
    }

    /// Those within a range.
    pub fn within(&self, there_are: &Range<u64>) -> Result<Runs, NotNumbers> {
        let (mut found, mut single) = (Vec::new(), 0);
        for listed in &self.0 {
            let end = there_are.end.min(listed.last.saturating_add(1));
            if listed.step == NonZeroU64::MIN {
                found.push(listed.first.max(there_are.start)..end);
                continue;
            }
            let (first, step) = (listed.first, listed.step.get());
            let skipped = there_are.start.saturating_sub(first).div_ceil(step);
            let mut next = skipped.checked_mul(step).and_then(|skipped| first.checked_add(skipped));
            while let Some(number) = next.filter(|number| *number < end) {
                single += 1;
                if single > MAX_SINGLE {
                    return Err(NotNumbers::TooMany);
                }
                found.push(number..number + 1);
                next = number.checked_add(step);
            }
        }
        Ok(Runs::of(found))
    }
}

impl FromStr for Numbers {
    type Err = NotNumbers;

    fn from_str(text: &str) -> Result<Self, NotNumbers> {
        text.split(',').map(|item| listed(item.trim())).collect::<Result<_, _>>().map(Numbers)
    }
}

fn listed(item: &str) -> Result<Listed, NotNumbers> {
    let wrong = || NotNumbers::Item { item: item.to_owned() };
    if item == "all" {
        return Ok(Listed { first: 0, last: u64::MAX, step: NonZeroU64::MIN });
    }
    let (range, step) = item.split_once(':').map_or((item, None), |(range, step)| (range, Some(step)));
    let step = step.map_or(Some(NonZeroU64::MIN), |step| digits(step).and_then(NonZeroU64::new));
    let (first, last) = match range.split_once('-') {
        Some((first, "")) => (digits(first), Some(u64::MAX)),
        Some((first, last)) => (digits(first), digits(last)),
        None => (digits(range), digits(range)),
    };
    let (first, last, step) = first.zip(last).zip(step).map(|((f, l), s)| (f, l, s)).ok_or_else(wrong)?;
    if last < first {
        return Err(NotNumbers::Backwards { item: item.to_owned() });
    }
    Ok(Listed { first, last, step })
}

/// Runs of consecutive numbers: ascending, disjoint, not adjacent, not empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Runs(Vec<Range<u64>>);

impl Runs {
    /// The union of the ranges.
    pub fn of(mut ranges: Vec<Range<u64>>) -> Self {
        ranges.retain(|range| !range.is_empty());
        ranges.sort_by_key(|range| range.start);
        let mut runs: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match runs.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => runs.push(range),
            }
        }
        Self(runs)
    }

    /// How many numbers there are; saturates.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|run| run.end - run.start).fold(0, u64::saturating_add)
    }

    /// The number at this index.
    pub fn nth(&self, mut place: u64) -> Option<u64> {
        for run in &self.0 {
            let length = run.end - run.start;
            if place < length {
                return Some(run.start + place);
            }
            place -= length;
        }
        None
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The runs in ascending order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Range<u64>> {
        self.0.iter()
    }

    /// The range from the first number to the last.
    pub fn bounds(&self) -> Option<Range<u64>> {
        Some(self.0.first()?.start..self.0.last()?.end)
    }

    /// The intersection with a range.
    pub fn cut(&self, to: &Range<u64>) -> Self {
        let first = self.0.partition_point(|run| run.end <= to.start);
        let runs = self.0.get(first..).unwrap_or_default().iter();
        let runs = runs.take_while(|run| run.start < to.end);
        Self(runs.map(|run| run.start.max(to.start)..run.end.min(to.end)).collect())
    }

    /// The intersection with other runs.
    pub fn common(&self, other: &Self) -> Self {
        Self::of(other.0.iter().flat_map(|run| self.cut(run).0).collect())
    }

    /// Subtracts `by` from all numbers, dropping negative results; a negative `by` adds.
    pub fn lowered(&self, by: i64) -> Self {
        let lowered = |number: u64| {
            let number = i128::from(number) - i128::from(by);
            u64::try_from(number.max(0)).unwrap_or(u64::MAX)
        };
        Self::of(self.0.iter().map(|run| lowered(run.start)..lowered(run.end)).collect())
    }

    /// Maps each run to a range; `range_of` must be monotonic.
    pub fn mapped(&self, range_of: impl Fn(&Range<u64>) -> Range<u64>) -> Self {
        Self::of(self.0.iter().map(range_of).collect())
    }

    /// All numbers in descending order.
    pub fn falling(self) -> impl Iterator<Item = u64> {
        self.0.into_iter().rev().flat_map(Iterator::rev)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(text: &str, there_are: Range<u64>) -> Vec<Range<u64>> {
        text.parse::<Numbers>().unwrap().within(&there_are).unwrap().0
    }

    #[test]
    #[allow(clippy::single_range_in_vec_init, reason = "lists of ranges are meant")]
    fn lists_and_ranges_are_cut_to_what_there_is() {
        assert_eq!(runs("5", 0..10), [5..6]);
        assert_eq!(runs("0-99", 0..10), [0..10]);
        assert_eq!(runs("all", 3..10), [3..10]);
        assert_eq!(runs("7-", 0..10), [7..10]);
        assert_eq!(runs("8,2-4,3-5,6", 0..10), [2..7, 8..9]);
        assert_eq!(runs("50-60", 0..10), []);
        assert_eq!(runs("0-20:5,1", 0..12), [0..2, 5..6, 10..11]);
        assert_eq!(runs("3-:4", 10..20), [11..12, 15..16, 19..20]);
        assert_eq!(runs("0-18446744073709551615", 0..3), [0..3]);
        assert_eq!(runs("18446744073709551615:7", 0..u64::MAX), []);
    }

    #[test]
    fn what_is_no_list_of_numbers_is_an_error() {
        for wrong in ["", "a", "-5", "5,,6", "1-2-3", "1:0", "+1", "1.5", "99999999999999999999", "0-5:"] {
            assert!(matches!(wrong.parse::<Numbers>(), Err(NotNumbers::Item { .. })), "{wrong:?}");
        }
        assert!(matches!("9-3".parse::<Numbers>(), Err(NotNumbers::Backwards { .. })));
        let endless: Numbers = "0-:2".parse().unwrap();
        assert_eq!(endless.within(&(0..u64::MAX)), Err(NotNumbers::TooMany));
    }

    #[test]
    fn runs_are_counted_cut_and_listed_backwards() {
        let runs = Runs::of(vec![7..9, 0..3, 2..4]);
        assert_eq!((runs.count(), runs.bounds()), (6, Some(0..9)));
        assert_eq!([0, 3, 4, 6].map(|place| runs.nth(place)), [Some(0), Some(3), Some(7), None]);
        assert_eq!(runs.cut(&(2..8)), Runs::of(vec![2..4, 7..8]));
        assert_eq!((runs.cut(&(4..7)).count(), runs.cut(&(3..100)).count()), (0, 3));
        assert_eq!(runs.lowered(2), Runs::of(vec![0..2, 5..7]));
        assert_eq!(runs.lowered(-1), Runs::of(vec![1..5, 8..10]));
        assert_eq!(runs.common(&Runs::of(vec![1..3, 8..20])), Runs::of(vec![1..3, 8..9]));
        assert_eq!(runs.falling().collect::<Vec<_>>(), [8, 7, 3, 2, 1, 0]);
    }
}
