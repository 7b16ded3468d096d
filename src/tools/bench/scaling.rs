//! How much faster several threads are than one, compared pattern by pattern. Pure.

use serde::Serialize;

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
        let Self { threads, against, factor, .. } = self;
        let state = self.state.words();
        let expected = *threads as f64 / *against as f64;
        let so = if *factor >= BEYOND * expected {
            "that is more than threads can do: the machine or its disk was busier during the first measurements"
        } else if *factor >= SCALES * expected {
            "more threads on more cores would help"
        } else {
            "they get in each other's way, or compete with other programs: more threads would help little"
        };
        format!("{state}: {threads} threads draw {factor:.2} times as many tiles as {against}; {so}")
    }
}

/// The scaling for each state that was measured with several numbers of threads.
pub fn scaling(rows: &[Row]) -> Vec<Scaling> {
    let numbers = || rows.iter().map(|row| row.threads);
    let (Some(against), Some(threads)) = (numbers().min(), numbers().max()) else { return Vec::new() };
    let in_state = |state: State| {
        let few = rows.iter().filter(|row| row.threads == against && row.state == state && row.tiles > 0);
        let many = |row: &Row| {
            let is_like = |other: &&Row| other.course == row.course && other.state == state;
            rows.iter().find(|other| is_like(other) && other.threads == threads && other.tiles >= threads)
        };
        let factor = median(few.filter_map(|row| Some(many(row)?.tiles_per_second / row.tiles_per_second)))?;
        Some(Scaling { threads, against, state, factor })
    };
    if threads == against {
        Vec::new()
    } else {
        State::ALL.iter().filter_map(|(state, ..)| in_state(*state)).collect()
    }
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
        let two =
            |speed: f64| Row { threads: 2, tiles_per_second: speed * one.tiles_per_second, ..one.clone() };
        let told = |speed| scaling(&[one.clone(), two(speed)]);
        assert_eq!(told(1.9).len(), 1);
        assert!((told(1.9)[0].factor - 1.9).abs() < 1e-9);
        assert!(
            told(1.9)[0].says().contains("1.90 times")
                && told(1.9)[0].says().contains("more cores would help")
        );
        assert!(told(1.1)[0].says().contains("get in each other's way"));
        assert!(told(5.8)[0].says().contains("more than threads can do"));
        assert!(scaling(std::slice::from_ref(&one)).is_empty());
    }
}
