//! How much faster several threads are than one, compared pattern by pattern. Pure.

use serde::Serialize;

use super::pattern::Course;
use super::row::{Row, State};

/// From this share of linear scaling on, more threads are said to help.
const SCALES: f64 = 0.75;
/// Above this share, threads alone cannot explain the speed-up.
const BEYOND: f64 = 1.25;

/// The speed-up of more threads, and whether even more would help.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scaling {
    /// The largest number of threads.
    pub threads: usize,
    /// The smallest number, compared with it.
    pub against: usize,
    /// What was in memory.
    pub state: State,
    /// The median of the speed-up over all patterns.
    pub factor: f64,
}

impl Scaling {
    /// The result as a sentence.
    pub fn says(&self) -> String {
        let Self {
            threads,
            against,
            factor,
            ..
        } = self;
        let state = self.state.words();
        let expected = *threads as f64 / *against as f64;
        let so = if *factor >= BEYOND * expected {
            "that is more than threads can do: the machine or its disk was busier during the first measurements"
        } else if *factor >= SCALES * expected {
            "more threads on more cores would help"
        } else {
            "they get in each other's way, or compete with other programs: more threads would help little"
        };
        format!(
            "{state}: {threads} threads draw {factor:.2} times as many tiles as {against}; {so}"
        )
    }
}

/// The scaling for each state that was measured with several numbers of threads.
pub fn scaling(rows: &[Row]) -> Vec<Scaling> {
    let in_state = |state: State| {
        let measured = rows.iter().filter(|row| row.state == state);
        // A thread without a tile draws nothing.
        let own = measured
            .filter(|row| row.tiles >= row.threads)
            .map(|row| (row.threads, &row.course, row.tiles_per_second));
        let (against, threads, factor) = speed_up(&own)?;
        Some(Scaling {
            threads,
            against,
            state,
            factor,
        })
    };
    State::ALL
        .iter()
        .filter_map(|(state, ..)| in_state(*state))
        .collect()
}

/// How many times as fast the largest number of workers is as the smallest, both of which are
/// returned too: the median over all courses. Rows: the number of workers, what they did, and how
/// fast.
pub(super) fn speed_up<'a>(
    rows: &(impl Iterator<Item = (usize, &'a Course, f64)> + Clone),
) -> Option<(usize, usize, f64)> {
    let workers = rows.clone().map(|(workers, ..)| workers);
    let (few, many) = (workers.clone().min()?, workers.max()?);
    let ratio = |(workers, course, speed): (usize, &Course, f64)| {
        let (.., other) = rows
            .clone()
            .find(|(others, own, _)| (*others, *own) == (many, course))?;
        (workers == few && speed > 0.0).then(|| other / speed)
    };
    let factor = median(rows.clone().filter_map(ratio))?;
    (few < many).then_some((few, many, factor))
}

/// The median of numbers in any order; the upper one of two in the middle.
pub(super) fn median(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_unstable_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::super::verdict::tests::{inflating, row};
    use super::*;

    #[test]
    fn threads_are_compared_pattern_by_pattern() {
        let one = row("xy", State::Chunks, inflating());
        let two = |speed: f64| Row {
            threads: 2,
            tiles_per_second: speed * one.tiles_per_second,
            ..one.clone()
        };
        let scaled = |speed| scaling(&[one.clone(), two(speed)]);
        assert_eq!(scaled(1.9).len(), 1);
        assert!((scaled(1.9)[0].factor - 1.9).abs() < 1e-9);
        assert!(
            scaled(1.9)[0].says().contains("1.90 times")
                && scaled(1.9)[0].says().contains("more cores would help")
        );
        assert!(scaled(1.1)[0].says().contains("get in each other's way"));
        assert!(scaled(5.8)[0].says().contains("more than threads can do"));
        assert!(scaling(std::slice::from_ref(&one)).is_empty());
    }
}
