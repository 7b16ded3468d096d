//! When the time points of a series were recorded.

use std::time::{Duration, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The maximum number of unevenly spaced time points; a longer series has no [`Timing`].
const MAX_LISTED: usize = 4096;
/// Time points are evenly spaced if each is at most this part of a step away from its even place.
const MAX_UNEVENNESS: f64 = 0.01;

/// When the time points of a series were recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Timing {
    /// The seconds from one time point to the next; their mean if they differ.
    pub step: f64,
    /// The date and time of the first time point by the clock of the instrument, as in
    /// `2026-11-25T03:30:00.500`.
    pub began: Option<String>,
    /// The seconds of each time point after the first, if they are not evenly spaced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uneven: Vec<f64>,
}

impl Timing {
    /// Evenly spaced time points; `None` if the distance is not a positive number.
    pub fn even(step: f64) -> Option<Self> {
        (step.is_finite() && step > 0.0).then_some(Self {
            step,
            began: None,
            uneven: Vec::new(),
        })
    }

    /// The timing of time points at these seconds, from any origin; `None` if the last one does not
    /// come after the first one, or if they are uneven and too many.
    pub fn of_seconds(seconds: &[f64]) -> Option<Self> {
        let first = *seconds.first()?;
        let count = seconds.len() - 1;
        // `None` for a single time point, too: 0 / 0 is no number.
        let even = Self::even((seconds.last()? - first) / count as f64)?;
        let step = even.step;
        let mut points = seconds.iter().enumerate();
        if points
            .all(|(index, at)| (at - first - index as f64 * step).abs() <= MAX_UNEVENNESS * step)
        {
            return Some(even);
        }
        let uneven = seconds.iter().map(|at| at - first).collect();
        (seconds.len() <= MAX_LISTED).then_some(Self { uneven, ..even })
    }

    /// The timing of time points with dates, written as `2026-11-25 03:30:00.500`.
    pub fn of_dates(dates: &[String]) -> Option<Self> {
        let mut times: Vec<Duration> = Vec::with_capacity(dates.len());
        for date in dates {
            let time = humantime::parse_rfc3339_weak(date.trim()).ok()?;
            times.push(time.duration_since(UNIX_EPOCH).ok()?);
        }
        let first = *times.first()?;
        let seconds: Vec<f64> = times
            .iter()
            .map(|at| at.as_secs_f64() - first.as_secs_f64())
            .collect();
        let began = humantime::format_rfc3339_millis(UNIX_EPOCH + first).to_string();
        let began = Some(began.trim_end_matches('Z').to_owned());
        Some(Self {
            began,
            ..Self::of_seconds(&seconds)?
        })
    }

    /// The step, if the time points are evenly spaced.
    pub fn even_step(&self) -> Option<f64> {
        self.uneven.is_empty().then_some(self.step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_points_are_even_within_a_hundredth_of_a_step() {
        let even = Timing::of_seconds(&[5.0, 7.0, 9.01, 11.0]).unwrap();
        assert_eq!((even.even_step(), even.uneven.len()), (Some(2.0), 0));
        let uneven = Timing::of_seconds(&[5.0, 7.0, 9.1, 11.0]).unwrap();
        assert_eq!((uneven.even_step(), uneven.step), (None, 2.0));
        assert!((uneven.uneven[2] - 4.1).abs() < 1e-9);
        for nothing in [&[][..], &[1.0], &[1.0, 1.0], &[2.0, 1.0], &[0.0, f64::NAN]] {
            assert_eq!(Timing::of_seconds(nothing), None, "{nothing:?}");
        }
    }

    #[test]
    fn dates_give_the_beginning_and_the_steps() {
        let dates = ["2009-11-20 12:31:57.500", "2009-11-20 12:32:57.500"].map(str::to_owned);
        let found = Timing::of_dates(&dates).unwrap();
        assert_eq!(
            (found.began.as_deref(), found.step),
            (Some("2009-11-20T12:31:57.500"), 60.0)
        );
        assert_eq!(Timing::of_dates(&["yesterday".to_owned()]), None);
    }
}
