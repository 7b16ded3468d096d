//! The times of single tiles, all kept, so that percentiles are those of real tiles.

use std::time::Duration;

use serde::Serialize;

/// Statistics of the times of many tiles, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Percentiles {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The maximum.
    pub max: f64,
}

impl Percentiles {
    /// Of times in any order; all 0 if there are none.
    pub(super) fn new(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let Some(max) = times.last() else {
            return Self::default();
        };
        let sum: Duration = times.iter().sum();
        Self {
            mean: milliseconds(sum) / times.len() as f64,
            p50: percentile(&times, 50),
            p90: percentile(&times, 90),
            p99: percentile(&times, 99),
            max: milliseconds(*max),
        }
    }
}

/// The given percentile of sorted times (nearest rank).
fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().map_or(0.0, milliseconds)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn percentiles(times: &[u64]) -> Percentiles {
        Percentiles::new(
            times
                .iter()
                .map(|time| Duration::from_millis(*time))
                .collect(),
        )
    }

    #[test]
    fn percentiles_are_times_that_were_taken() {
        let hundred = percentiles(&(1..=100).rev().collect::<Vec<_>>());
        assert_eq!(
            (hundred.p50, hundred.p90, hundred.p99, hundred.max),
            (50.0, 90.0, 99.0, 100.0)
        );
        assert!((hundred.mean - 50.5).abs() < 1e-9);
        let one = percentiles(&[7]);
        assert_eq!((one.p50, one.p99, one.max), (7.0, 7.0, 7.0));
        assert_eq!(percentiles(&[]), Percentiles::default());
    }

    proptest! {
        #[test]
        fn percentiles_rise_and_stay_within(times in prop::collection::vec(0..10_000u64, 1..300)) {
            let got = percentiles(&times);
            let least = *times.iter().min().unwrap() as f64;
            let greatest = *times.iter().max().unwrap() as f64;
            let rising = [least, got.p50, got.p90, got.p99, got.max];
            prop_assert!(rising.is_sorted() && got.max == greatest);
            prop_assert!(got.mean >= least - 1e-9 && got.mean <= greatest + 1e-9);
        }
    }
}
