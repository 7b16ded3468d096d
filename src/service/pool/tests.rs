use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Waker};

use voltile_base::flow::stalls;

use super::*;
use crate::service::client::Client;

#[derive(Debug, PartialEq)]
enum Became {
    Began,
    Ended,
}

/// The future of a job.
type Run<'a> = Pin<Box<dyn Future<Output = Result<(), TileError>> + 'a>>;

/// A test's handle to a job, which runs until it is released.
struct Handle<'a> {
    told: Receiver<Became>,
    go: Sender<()>,
    run: Option<Run<'a>>,
}

impl Handle<'_> {
    fn go(&mut self) {
        self.go.send(()).unwrap();
        assert_eq!(self.told.recv(), Ok(Became::Ended));
        while self.result().is_none() {
            thread::yield_now();
        }
    }

    fn has_begun(&self) {
        assert_eq!(self.told.recv(), Ok(Became::Began));
    }

    /// The result, if it is there.
    fn result(&mut self) -> Option<Result<(), TileError>> {
        let run = self.run.as_mut().unwrap().as_mut();
        match run.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        }
    }

    fn is_waiting(&mut self) -> bool {
        self.told.try_recv().is_err() && self.result().is_none()
    }

    /// The number of jobs that waited when it was refused.
    fn refused(&mut self) -> Option<usize> {
        match self.result() {
            Some(Err(TileError::Busy(busy))) => Some(busy.waiting),
            _ => None,
        }
    }
}

fn client(number: u8) -> Demand {
    Demand::wanted(Client::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, number))))
}

/// A job that reads a file, if there is one.
fn reading<'a>(pool: &'a RenderPool, by: u8, file: Option<&'static str>) -> Handle<'a> {
    let (tell, told) = channel();
    let (go, gone) = channel();
    let job = move |interest: &Interest| {
        let _reading = file.map(|file| stalls::reading(&Path::new(file).into(), false));
        tell.send(Became::Began).unwrap();
        // At the end of a test the sender is dropped, and the job panics.
        gone.recv().expect("on purpose");
        tell.send(Became::Ended).unwrap();
        if interest.is_there() {
            Ok(())
        } else {
            Err(voltile_hdf5::volume::ReadError::from(Abandoned).into())
        }
    };
    let mut handle = Handle {
        told,
        go,
        run: Some(Box::pin(pool.run(None, client(by), job))),
    };
    // It enters when it is polled first; it may have been refused at once.
    if let Some(result) = handle.result() {
        handle.run = Some(Box::pin(std::future::ready(result)));
    }
    handle
}

fn submit(pool: &RenderPool, by: u8) -> Handle<'_> {
    reading(pool, by, None)
}

fn pool(queue: usize) -> RenderPool {
    let metrics = Metrics::default();
    RenderPool::new(NonZeroUsize::MIN, queue, Activity::default(), metrics).unwrap()
}

/// The numbers of jobs that were refused, abandoned and stopped.
fn counts(pool: &RenderPool) -> [u64; 3] {
    let metrics = &pool.0.metrics;
    [&metrics.rejected, &metrics.abandoned, &metrics.stopped].map(Counter::get)
}

#[test]
fn a_full_queue_refuses_and_an_emptied_one_takes_again() {
    let pool = pool(0);
    let mut running = submit(&pool, 1);
    running.has_begun();
    assert_eq!(submit(&pool, 2).refused(), Some(0));
    running.go();
    let mut next = submit(&pool, 2);
    next.has_begun();
    next.go();
    assert!(pool.is_idle());
    assert_eq!(counts(&pool), [1, 0, 0]);
}

#[test]
fn the_client_that_waits_with_the_most_makes_room() {
    let pool = pool(2);
    let mut running = submit(&pool, 1);
    running.has_begun();
    let mut oldest = submit(&pool, 1);
    let mut newest = submit(&pool, 1);
    let mut newcomer = submit(&pool, 2);
    assert_eq!(oldest.refused(), Some(2));
    assert!(newest.is_waiting() && newcomer.is_waiting());
    running.go();
    newcomer.has_begun();
    newcomer.go();
    newest.has_begun();
    newest.go();
}

#[test]
fn a_panic_takes_down_its_job_alone_and_gives_back_its_turn() {
    let pool = pool(1);
    let mut running = submit(&pool, 1);
    running.has_begun();
    let mut next = submit(&pool, 2);
    running.go = channel().0;
    next.has_begun();
    assert!(matches!(
        running.result(),
        Some(Err(TileError::Abandoned(_)))
    ));
    next.go();
    assert!(pool.is_idle());
}

#[test]
fn a_job_whose_future_is_dropped_makes_room_at_once_and_never_runs() {
    let pool = pool(1);
    let mut running = submit(&pool, 1);
    running.has_begun();
    let mut left = submit(&pool, 2);
    left.run = None;
    assert!(left.told.recv().is_err(), "it is gone");
    let mut next = submit(&pool, 3);
    assert!(next.is_waiting(), "there is room");
    running.go();
    next.has_begun();
    next.go();
    assert_eq!(counts(&pool), [0, 1, 0]);
}

#[test]
fn a_running_job_whose_future_is_dropped_is_told_and_disturbs_nobody() {
    let pool = pool(1);
    let mut running = submit(&pool, 1);
    running.has_begun();
    let mut next = submit(&pool, 2);
    running.run = None;
    assert!(next.is_waiting());
    running.go.send(()).unwrap();
    next.has_begun();
    next.go();
    assert!(pool.is_idle());
    assert_eq!(counts(&pool), [0, 0, 1]);
}

#[test]
fn whoever_waits_for_a_pause_is_told_when_a_job_ends_that_nobody_waits_for() {
    let pool = pool(1);
    let mut running = submit(&pool, 1);
    running.has_begun();
    let mut idle = Box::pin(pool.idle());
    let mut context = Context::from_waker(Waker::noop());
    assert!(idle.as_mut().poll(&mut context).is_pending());
    running.run = None;
    running.go.send(()).unwrap();
    while idle.as_mut().poll(&mut context).is_pending() {
        thread::yield_now();
    }
    assert!(pool.is_idle());
}

#[test]
fn a_request_that_joins_a_job_raises_its_place() {
    let pool = pool(9);
    let mut running = submit(&pool, 1);
    running.has_begun();
    let key = TileKey::digest(&"shared");
    let (tell, told) = channel();
    let queue = |name, key, demand| {
        let tell = tell.clone();
        let job = move |_: &Interest| {
            tell.send(name).unwrap();
            Ok(())
        };
        let mut run = Box::pin(pool.run(key, demand, job));
        let polled = run.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
        run
    };
    let _wanted = queue("wanted", None, client(1));
    let prefetch = Demand {
        urgency: crate::service::Urgency::Prefetch,
        ..client(1)
    };
    let _shared = queue("shared", Some(key), prefetch);
    pool.join(&key, client(2));
    running.go();
    assert_eq!([told.recv(), told.recv()], [Ok("shared"), Ok("wanted")]);
}

#[test]
fn idle_work_takes_the_place_of_a_job_and_gives_it_back() {
    let pool = pool(0);
    let (go, gone) = channel::<()>();
    pool.run_idle(move |turn| {
        gone.recv().unwrap();
        drop(turn);
    });
    pool.run_idle(|_| panic!("there is no other place"));
    let mut displaced = submit(&pool, 1);
    let mut waiting = submit(&pool, 1);
    assert_eq!(displaced.refused(), Some(1), "one may wait");
    assert!(waiting.is_waiting());
    go.send(()).unwrap();
    waiting.has_begun();
    waiting.go();
    assert!(pool.0.turns.places() == (1, 0) && pool.is_idle());
}

#[test]
fn threads_that_are_stuck_are_replaced_once_and_count_again_when_they_return() {
    let pool = pool(9);
    pool.replace_stuck().unwrap();
    let mut first = reading(&pool, 1, Some("/slow"));
    let mut second = reading(&pool, 1, Some("/slow"));
    first.has_begun();
    second.has_begun();
    let mut third = submit(&pool, 1);
    while pool.stalls().look(2) < 2 {
        assert!(
            third.is_waiting(),
            "there is one thread for the stuck ones, and one more"
        );
        thread::sleep(CHECK_INTERVAL);
    }
    first.go();
    second.go();
    third.has_begun();
    third.go();
    while pool.0.turns.places().0 > 1 {
        thread::sleep(CHECK_INTERVAL);
    }
    let mut running = submit(&pool, 1);
    let mut waiting = submit(&pool, 1);
    running.has_begun();
    assert!(waiting.is_waiting());
    running.go();
    waiting.has_begun();
    waiting.go();
}
