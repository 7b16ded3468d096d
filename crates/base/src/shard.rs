//! Shards: the parts of one task that several processes do, on several machines.
//!
//! A task is a list of steps in the order in which one process would do them. Each shard gets
//! consecutive steps, and all shards get about the same weight. Every process computes this
//! division by itself, from the list alone, so that no process needs to know of another.

use std::fmt;
use std::num::NonZeroU64;
use std::ops::Range;
use std::str::FromStr;

use crate::request::digits;

/// One of several parts of a task: number `index`, counted from 0, of `count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shard {
    index: u64,
    count: NonZeroU64,
}

impl Shard {
    /// All shards of a task that is divided into this many.
    pub fn all(count: NonZeroU64) -> impl Iterator<Item = Self> {
        (0..count.get()).map(move |index| Self { index, count })
    }

    /// The number of shards.
    pub fn count(&self) -> NonZeroU64 {
        self.count
    }

    /// The shard `by` places after this one; the last shard is followed by the first.
    pub fn rotated(&self, by: u64) -> Self {
        let index = (self.index + by % self.count) % self.count;
        Self { index, ..*self }
    }

    /// The steps of this shard, given the weights of all steps. Each step belongs to exactly one
    /// shard.
    pub fn part(&self, weights: &[u64]) -> Range<usize> {
        self.begin(self.index, weights)..self.begin(self.index + 1, weights)
    }

    /// The first step of shard `index`: the steps before it have about the weight of `index` equal
    /// shards. If steps of the weights 1, 1 and 4 are divided into 3 shards, shard 1 begins at step
    /// 2, and shard 2 at the end, 3.
    fn begin(&self, index: u64, weights: &[u64]) -> usize {
        // Steps without weight count as well.
        let weights = weights.iter().map(|weight| u128::from(*weight.max(&1)));
        let total: u128 = weights.clone().sum();
        let mut before = 0;
        let mut steps = 0;
        for weight in weights {
            // The shard begins at the first step whose middle, `before + weight / 2`, lies beyond
            // `total * index / count`. Both are multiplied so that all numbers are whole.
            let twice_middle = 2 * before + weight;
            if twice_middle * u128::from(self.count.get()) > 2 * total * u128::from(index) {
                break;
            }
            before += weight;
            steps += 1;
        }
        steps
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let pair = text
            .split_once('/')
            .and_then(|(index, count)| number(index).zip(number(count)));
        let (index, count) =
            pair.ok_or("expected INDEX/COUNT, such as 0/4 for the first of four shards")?;
        let count = NonZeroU64::new(count).ok_or("the number of shards must be at least 1")?;
        if index >= count.get() {
            let last = count.get() - 1;
            return Err(format!(
                "there is no such shard: the shards of {count} are 0/{count} to {last}/{count}"
            ));
        }
        Ok(Self { index, count })
    }
}

/// A number that fits in 32 bits.
fn number(text: &str) -> Option<u64> {
    let number = u32::try_from(digits(text)?).ok()?;
    Some(number.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shards(count: u64) -> Vec<Shard> {
        Shard::all(NonZeroU64::new(count).unwrap()).collect()
    }

    #[test]
    fn what_is_no_shard_is_refused_with_the_reason() {
        assert_eq!("3/4".parse(), Ok(shards(4)[3]));
        for wrong in [
            "",
            "x",
            "1",
            "/",
            "1/",
            "/4",
            "-1/4",
            "+1/4",
            "1/4/5",
            "1 /4",
            "1.0/4",
            "1/99999999999",
        ] {
            let error = wrong.parse::<Shard>().unwrap_err();
            assert!(error.contains("INDEX/COUNT"), "{wrong:?}: {error}");
        }
        let none = "0/0".parse::<Shard>().unwrap_err();
        assert!(none.contains("at least 1"), "{none}");
        let beyond = "4/4".parse::<Shard>().unwrap_err();
        assert!(beyond.contains("0/4 to 3/4"), "{beyond}");
    }

    proptest! {
        #[test]
        fn shards_are_disjoint_and_together_everything(
            weights in prop::collection::vec(0..1000_u64, 0..200), count in 1..30_u64, by in 0..99_u64,
        ) {
            let mut ranges: Vec<Range<usize>> =
                shards(count).iter().map(|shard| shard.rotated(by).part(&weights)).collect();
            ranges.sort_by_key(|range| (range.start, range.end));
            let mut end = 0;
            for range in ranges {
                prop_assert_eq!(range.start, end);
                end = range.end;
            }
            prop_assert_eq!(end, weights.len());
        }
    }

    #[test]
    fn shards_have_about_the_same_weight() {
        let begins = |count, weights: &[u64]| -> Vec<usize> {
            shards(count)
                .iter()
                .map(|shard| shard.part(weights).start)
                .collect()
        };
        assert_eq!(begins(4, &[3; 100]), [0, 25, 50, 75]);
        assert_eq!(begins(3, &[1, 1, 8, 1, 1, 6]), [0, 3, 5]);
        assert_eq!(begins(1, &[3; 10]), [0]);
        assert_eq!(begins(2, &[u64::MAX; 4]), [0, 2]);
        assert_eq!(shards(3)[2].rotated(2), shards(3)[1]);
    }
}
