//! Lists of numbers as a user enters them.

use std::ops::Range;
use std::str::FromStr;

use voltile_base::request::digits;

/// Numbers as listed: `5`, `0-99`, `100-`, `0-1000:10`, `all`, with commas between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Numbers(Vec<NumberRange>);

/// Every `step`th number from `first` to at most `last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NumberRange {
    first: u64,
    last: u64,
    step: u64,
}

impl Numbers {
    /// Whether a number is listed.
    pub fn contains(&self, number: u64) -> bool {
        self.0.iter().any(|listed| {
            (listed.first..=listed.last).contains(&number)
                && (number - listed.first).is_multiple_of(listed.step)
        })
    }

    /// The listed numbers in a range, ascending.
    pub fn within(&self, range: Range<u64>) -> impl Iterator<Item = u64> {
        range.filter(|number| self.contains(*number))
    }
}

impl FromStr for Numbers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split(',')
            .map(|item| item.trim().parse())
            .collect::<Result<_, _>>()
            .map(Numbers)
    }
}

impl FromStr for NumberRange {
    type Err = String;

    fn from_str(item: &str) -> Result<Self, String> {
        // For example 0-1000:10.
        let text = if item == "all" { "0-" } else { item };
        let (range, step) = text.split_once(':').unwrap_or((text, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let last = if last.is_empty() {
            Some(u64::MAX)
        } else {
            digits(last)
        };
        match (digits(first), last, digits(step)) {
            (Some(first), Some(last), Some(step @ 1..)) if first <= last => {
                Ok(Self { first, last, step })
            }
            (Some(_), Some(_), Some(1..)) => Err(format!("{item:?} ends before it begins")),
            _ => Err(format!(
                "{item:?} is not a number or range: expected 5, 0-99, 100- (to the end), 0-1000:10 (every tenth) or all, \
                 separated by commas"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges_are_cut_to_what_there_is() {
        let within = |text: &str, range: Range<u64>| {
            let numbers = text.parse::<Numbers>().unwrap();
            numbers.within(range).collect::<Vec<u64>>()
        };
        assert_eq!(within("5", 0..10), [5]);
        assert_eq!(within("0-99", 7..10), [7, 8, 9]);
        assert_eq!(within("all", 3..5), [3, 4]);
        assert_eq!(within("7-", 0..10), [7, 8, 9]);
        assert_eq!(within("8,2-4,3-5,6", 0..10), [2, 3, 4, 5, 6, 8]);
        assert_eq!(within("50-60", 0..10), [0; 0]);
        assert_eq!(within("0-20:5,1", 0..12), [0, 1, 5, 10]);
        assert_eq!(within("3-:4", 10..20), [11, 15, 19]);
        assert_eq!(within("0-18446744073709551615", 0..2), [0, 1]);
    }

    #[test]
    fn what_is_no_list_of_numbers_is_an_error() {
        for wrong in [
            "",
            "a",
            "-5",
            "5,,6",
            "1-2-3",
            "1:0",
            "+1",
            "1.5",
            "99999999999999999999",
            "0-5:",
        ] {
            let error = wrong.parse::<Numbers>().unwrap_err();
            assert!(
                error.contains("is not a number or range"),
                "{wrong:?}: {error}"
            );
        }
        assert_eq!(
            "9-3".parse::<Numbers>(),
            Err("\"9-3\" ends before it begins".to_owned())
        );
    }
}
