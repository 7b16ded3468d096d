//! A timer for one connection that is cheap to reset.
//!
//! Nearly every deadline is replaced long before it expires, so setting a later one only stores it: the timer still
//! fires at the old time, and is then set again.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep, sleep_until};

/// A deadline, and a timer that wakes the task at it or before.
#[derive(Debug)]
pub(super) struct Alarm {
    due: Option<Instant>,
    /// When the timer fires; meaningless once it has fired.
    set_for: Instant,
    timer: Pin<Box<Sleep>>,
}

impl Alarm {
    /// Requires a runtime with timers enabled.
    pub fn at(due: Instant) -> Self {
        Self { due: Some(due), set_for: due, timer: Box::pin(sleep_until(due)) }
    }

    pub fn set(&mut self, due: Instant) {
        self.due = Some(due);
    }

    pub fn clear(&mut self) {
        self.due = None;
    }

    /// Whether the deadline has passed; if not, the task will be woken when it does.
    pub fn is_due(&mut self, context: &mut Context<'_>) -> bool {
        let Some(due) = self.due else { return false };
        loop {
            if self.set_for > due {
                self.set_timer(due);
            }
            match self.timer.as_mut().poll(context) {
                Poll::Pending => return false,
                Poll::Ready(()) if self.set_for >= due => return true,
                Poll::Ready(()) => self.set_timer(due),
            }
        }
    }

    fn set_timer(&mut self, due: Instant) {
        self.timer.as_mut().reset(due);
        self.set_for = due;
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use super::*;

    async fn passed(alarm: &mut Alarm) -> Duration {
        let began = Instant::now();
        poll_fn(|context| if alarm.is_due(context) { Poll::Ready(()) } else { Poll::Pending }).await;
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn later_and_earlier_deadlines_replace_the_first() {
        let second = |n| Instant::now() + Duration::from_secs(n);
        let about = |n| Duration::from_secs(n)..Duration::from_millis(n * 1000 + 10);
        let mut alarm = Alarm::at(second(10));
        alarm.set(second(30));
        assert!(about(30).contains(&passed(&mut alarm).await));
        alarm.set(second(20));
        assert!(!alarm.is_due(&mut Context::from_waker(std::task::Waker::noop())));
        alarm.set(second(5));
        assert!(about(5).contains(&passed(&mut alarm).await));
        alarm.clear();
        assert!(!alarm.is_due(&mut Context::from_waker(std::task::Waker::noop())));
    }
}
