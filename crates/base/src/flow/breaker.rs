//! A circuit breaker: stops using a service that fails, and tries it again with growing pauses.
//!
//! It only decides who may try; what an attempt is, and how long it may take, is up to its user.
//! While the breaker is closed, attempts are permitted. When too many have failed it opens: none is
//! permitted, except one probe after each pause. A probe that succeeds closes it again.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// When a breaker opens, and when it is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerRule {
    /// The breaker opens when this many more attempts have failed than succeeded lately; above 0.
    pub failures: u32,
    /// The pause before the first probe. Each probe that fails doubles it.
    pub first_pause: Duration,
    /// The longest pause.
    pub longest_pause: Duration,
}

/// A circuit breaker for one service.
#[derive(Debug)]
pub struct Breaker {
    rule: BreakerRule,
    state: Mutex<BreakerState>,
}

#[derive(Debug, Clone, Copy)]
enum BreakerState {
    /// `balance`: failures less successes, at least 0. Occasional failures among many successes
    /// never open it.
    Closed { balance: u32 },
    Open {
        until: Instant,
        pause: Duration,
        probing: bool,
    },
}

impl BreakerState {
    /// Open from now on; a probe is due after the pause.
    fn open(now: Instant, pause: Duration) -> Self {
        Self::Open {
            until: now + pause,
            pause,
            probing: false,
        }
    }
}

/// Permission for one attempt, whose result is to be reported. Dropping it reports that there was
/// no attempt.
#[derive(Debug)]
#[must_use]
pub struct Permit<'a> {
    breaker: &'a Breaker,
    is_probe: bool,
}

impl Breaker {
    /// A closed breaker.
    pub fn new(rule: BreakerRule) -> Self {
        Self {
            rule,
            state: Mutex::new(BreakerState::Closed { balance: 0 }),
        }
    }

    /// An open breaker, for a service that has yet to be tried; a probe is due at once.
    pub fn opened(rule: BreakerRule) -> Self {
        let state = BreakerState::Open {
            until: Instant::now(),
            // Doubled if the first probe fails.
            pause: rule.first_pause / 2,
            probing: false,
        };
        Self {
            rule,
            state: Mutex::new(state),
        }
    }

    /// Permits an attempt while the breaker is closed.
    pub fn permit(&self) -> Option<Permit<'_>> {
        (!self.is_open()).then_some(Permit {
            breaker: self,
            is_probe: false,
        })
    }

    /// Permits a probe if the breaker is open, its pause is over, and there is no other probe.
    pub fn probe(&self) -> Option<Permit<'_>> {
        self.probe_at(Instant::now())
    }

    fn probe_at(&self, now: Instant) -> Option<Permit<'_>> {
        match &mut *self.state.lock() {
            BreakerState::Open { until, probing, .. } if !*probing && now >= *until => {
                *probing = true;
                Some(Permit {
                    breaker: self,
                    is_probe: true,
                })
            }
            _ => None,
        }
    }

    /// Whether attempts are refused.
    pub fn is_open(&self) -> bool {
        matches!(*self.state.lock(), BreakerState::Open { .. })
    }

    /// Whether an attempt or a probe would be permitted now.
    pub fn permits(&self) -> bool {
        match *self.state.lock() {
            BreakerState::Closed { .. } => true,
            BreakerState::Open { until, probing, .. } => !probing && Instant::now() >= until,
        }
    }

    /// The time until a probe is due; `None` while the breaker is closed or being probed.
    pub fn until_probe(&self) -> Option<Duration> {
        match *self.state.lock() {
            BreakerState::Open {
                until,
                probing: false,
                ..
            } => Some(until.saturating_duration_since(Instant::now())),
            _ => None,
        }
    }
}

impl Permit<'_> {
    /// Reports a success. Returns whether it closes the breaker.
    pub fn succeeded(mut self) -> bool {
        // Taken, because dropping the permit would otherwise report that there was no attempt.
        let is_probe = std::mem::take(&mut self.is_probe);
        let mut state = self.breaker.state.lock();
        match &mut *state {
            BreakerState::Closed { balance } => {
                *balance = balance.saturating_sub(1);
                false
            }
            // The late result of an earlier attempt says nothing about the service now.
            BreakerState::Open { .. } if !is_probe => false,
            BreakerState::Open { .. } => {
                *state = BreakerState::Closed { balance: 0 };
                true
            }
        }
    }

    /// Reports a failure. Returns whether it opens the breaker, which was closed.
    pub fn failed(self) -> bool {
        self.failed_at(Instant::now())
    }

    fn failed_at(mut self, now: Instant) -> bool {
        // Taken, because dropping the permit would otherwise report that there was no attempt.
        let is_probe = std::mem::take(&mut self.is_probe);
        let rule = self.breaker.rule;
        let mut state = self.breaker.state.lock();
        match &mut *state {
            BreakerState::Closed { balance } if *balance + 1 < rule.failures => {
                *balance += 1;
                false
            }
            BreakerState::Closed { .. } => {
                *state = BreakerState::open(now, rule.first_pause);
                true
            }
            BreakerState::Open { .. } if !is_probe => false,
            BreakerState::Open { pause, .. } => {
                *state = BreakerState::open(now, (*pause * 2).min(rule.longest_pause));
                false
            }
        }
    }
}

impl Drop for Permit<'_> {
    /// A probe that was not made may be made by another.
    fn drop(&mut self) {
        if self.is_probe
            && let BreakerState::Open { probing, .. } = &mut *self.breaker.state.lock()
        {
            *probing = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: BreakerRule = BreakerRule {
        failures: 3,
        first_pause: Duration::from_secs(1),
        longest_pause: Duration::from_secs(4),
    };

    fn opened(at: Instant) -> Breaker {
        let breaker = Breaker::new(RULE);
        let opens = [0, 1, 2].map(|_| breaker.permit().unwrap().failed_at(at));
        assert_eq!(opens, [false, false, true]);
        breaker
    }

    #[test]
    fn it_opens_when_failures_prevail_and_not_at_occasional_ones() {
        let breaker = Breaker::new(RULE);
        for _ in 0..100 {
            assert!(!breaker.permit().unwrap().failed() && !breaker.permit().unwrap().succeeded());
        }
        let breaker = opened(Instant::now());
        assert!(breaker.is_open() && breaker.permit().is_none() && !breaker.permits());
    }

    #[test]
    fn one_probe_is_made_after_each_pause_and_pauses_grow_up_to_a_limit() {
        let start = Instant::now();
        let breaker = opened(start);
        let mut now = start;
        for pause in [1, 2, 4, 4] {
            assert!(breaker.probe_at(now).is_none());
            now += Duration::from_secs(pause);
            let probe = breaker.probe_at(now).unwrap();
            assert!(breaker.probe_at(now).is_none(), "there is one at a time");
            assert!(!probe.failed_at(now) && breaker.permit().is_none());
        }
    }

    #[test]
    fn a_probe_that_succeeds_closes_it() {
        let start = Instant::now();
        let breaker = opened(start);
        let later = start + Duration::from_secs(1);
        drop(breaker.probe_at(later).unwrap());
        assert!(Breaker::opened(RULE).permits() && Breaker::new(RULE).permits());
        assert!(
            breaker.probe_at(later).unwrap().succeeded(),
            "a probe that was not made does not count"
        );
        assert!(!breaker.is_open() && breaker.until_probe().is_none());
        assert!(!breaker.permit().unwrap().failed(), "it starts anew");
    }

    #[test]
    fn late_results_of_earlier_attempts_change_nothing() {
        let breaker = Breaker::new(RULE);
        let late = [(); 2].map(|()| breaker.permit().unwrap());
        for _ in 0..3 {
            breaker.permit().unwrap().failed();
        }
        let [one, other] = late;
        assert!(!one.succeeded() && !other.failed());
        assert!(breaker.is_open() && breaker.until_probe().unwrap() <= RULE.first_pause);
    }
}
