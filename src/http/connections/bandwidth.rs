//! A limit on the bytes that each client is sent per second.
//!
//! A token bucket for each client, in the form of the generic cell rate algorithm: one instant says
//! when everything that has been granted would be sent at the limited rate, and a write may happen
//! when that is at most [`BURST`] away. Grants are made in the order in which writes ask for them,
//! so the connections of one client take turns.

use std::collections::HashMap;
use std::future::Future;
use std::net::IpAddr;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use crate::flow::lock;
use crate::metrics::Clock;

/// How much a client that has received nothing may be sent at once, as time at the limited rate.
const BURST: Duration = Duration::from_secs(1);
/// The most bytes of one grant; less if they would take longer than an eighth of [`BURST`].
const LARGEST_GRANT: u64 = 64 << 10;
/// The buckets of all clients.
#[derive(Debug)]
pub(super) struct Bandwidth {
    rate: Option<NonZeroU64>,
    buckets: Mutex<HashMap<IpAddr, Arc<Bucket>>>,
}

impl Bandwidth {
    pub fn new(rate: Option<NonZeroU64>) -> Self {
        Self {
            rate,
            buckets: Mutex::default(),
        }
    }

    /// The throttle of a new connection of that client. Peers on a Unix socket have no address, and
    /// no limit.
    pub fn throttle(&self, client: Option<IpAddr>) -> Throttle {
        let bucket = self.rate.zip(client).map(|(rate, client)| {
            let now = Instant::now();
            let mut buckets = lock(&self.buckets);
            // A bucket outlives its connections until it is full: a client cannot refill it by
            // connecting again.
            buckets
                .retain(|_, bucket| Arc::strong_count(bucket) > 1 || *lock(&bucket.sent_by) > now);
            let new = || {
                Arc::new(Bucket {
                    rate,
                    sent_by: Mutex::new(now),
                })
            };
            Arc::clone(buckets.entry(client).or_insert_with(new))
        });
        Throttle {
            bucket,
            granted: 0,
            wait: None,
        }
    }
}

#[derive(Debug)]
struct Bucket {
    rate: NonZeroU64,
    /// When all bytes granted would be sent at this rate.
    sent_by: Mutex<Instant>,
}

impl Bucket {
    /// Grants some of the bytes wanted; returns how many, and when they may be sent.
    fn grant(&self, wanted: usize, now: Instant) -> (usize, Instant) {
        let most = (self.rate.get() / 8).clamp(1, LARGEST_GRANT);
        let granted = most.min(wanted as u64);
        let takes = Duration::from_nanos(1_000_000_000 * granted / self.rate);
        let mut sent_by = lock(&self.sent_by);
        *sent_by = (*sent_by).max(now) + takes;
        (granted as usize, now.max(*sent_by - BURST))
    }
}

/// How much one connection may write.
#[derive(Debug)]
pub(super) struct Throttle {
    bucket: Option<Arc<Bucket>>,
    /// Bytes granted and not written yet.
    granted: usize,
    wait: Option<Pin<Box<Sleep>>>,
}

impl Throttle {
    /// How many of the bytes wanted may be written now. While it is pending, the task will be woken
    /// in time; the time waited is added to `waited`.
    pub fn poll_grant(
        &mut self,
        wanted: usize,
        context: &mut Context<'_>,
        waited: &Clock,
    ) -> Poll<usize> {
        let Some(bucket) = &self.bucket else {
            return Poll::Ready(wanted);
        };
        if self.granted == 0 {
            let now = Instant::now();
            let (granted, due) = bucket.grant(wanted, now);
            self.granted = granted;
            if due > now {
                waited.add(due - now);
                self.wait = Some(Box::pin(sleep_until(due)));
            }
        }
        if let Some(wait) = &mut self.wait {
            ready!(wait.as_mut().poll(context));
            self.wait = None;
        }
        Poll::Ready(wanted.min(self.granted))
    }

    /// Takes note of bytes written.
    pub fn wrote(&mut self, bytes: usize) {
        self.granted = self.granted.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::net::Ipv4Addr;

    use super::*;

    fn client(number: u32) -> Option<IpAddr> {
        Some(Ipv4Addr::from_bits(number).into())
    }

    fn limited(rate: u64) -> Bandwidth {
        Bandwidth::new(NonZeroU64::new(rate))
    }

    /// Writes that many bytes.
    async fn write(throttle: &mut Throttle, mut bytes: usize) {
        let waited = Clock::default();
        while bytes > 0 {
            let granted = poll_fn(|context| throttle.poll_grant(bytes, context, &waited)).await;
            assert!((1..=bytes).contains(&granted));
            throttle.wrote(granted);
            bytes -= granted;
        }
    }

    fn about(seconds: f64, took: Duration) -> bool {
        (took.as_secs_f64() - seconds).abs() < 0.05
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_at_the_rate_is_free_and_the_rest_takes_its_time() {
        let (bandwidth, began) = (limited(10_000), Instant::now());
        let mut throttle = bandwidth.throttle(client(1));
        write(&mut throttle, 10_000).await;
        assert_eq!(began.elapsed(), Duration::ZERO);
        write(&mut throttle, 50_000).await;
        assert!(about(5.0, began.elapsed()), "{:?}", began.elapsed());
        tokio::time::sleep(Duration::from_secs(60)).await;
        let began = Instant::now();
        write(&mut throttle, 20_000).await;
        assert!(
            about(1.0, began.elapsed()),
            "a minute saves no more than a second: {:?}",
            began.elapsed()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn connections_of_one_client_share_its_bandwidth_and_other_clients_have_theirs() {
        let (bandwidth, began) = (limited(10_000), Instant::now());
        write(&mut bandwidth.throttle(client(1)), 10_000).await;
        let [mut a, mut b, mut other] = [1, 1, 2].map(|number| bandwidth.throttle(client(number)));
        let timed = async |throttle: &mut Throttle, bytes| {
            write(throttle, bytes).await;
            began.elapsed()
        };
        let (a, b, other) = tokio::join!(
            timed(&mut a, 20_000),
            timed(&mut b, 20_000),
            timed(&mut other, 20_000)
        );
        assert!(about(1.0, other), "{other:?}");
        assert!(about(4.0, a.max(b)), "{a:?} {b:?}");
        assert!(
            a.abs_diff(b) < Duration::from_millis(500),
            "they take turns: {a:?} {b:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_limit_or_an_address_nothing_waits() {
        for mut throttle in [
            Bandwidth::new(None).throttle(client(1)),
            limited(1024).throttle(None),
        ] {
            let began = Instant::now();
            write(&mut throttle, 1 << 30).await;
            assert_eq!(began.elapsed(), Duration::ZERO);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_connects_again_has_no_more_and_forgotten_clients_take_no_memory() {
        let bandwidth = limited(10_000);
        write(&mut bandwidth.throttle(client(0)), 10_000).await;
        for number in 1..1000 {
            drop(bandwidth.throttle(client(number)));
        }
        let began = Instant::now();
        write(&mut bandwidth.throttle(client(0)), 10_000).await;
        assert!(about(1.0, began.elapsed()), "{:?}", began.elapsed());
        assert!(bandwidth.buckets.lock().unwrap().len() <= 2);
    }
}
