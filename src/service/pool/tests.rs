use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, channel};

use super::*;
use crate::service::client::Client;

#[derive(Debug, PartialEq)]
enum Became {
    Began,
    Ended,
    Refused(Busy),
}

/// A job that runs until it is released.
struct Test {
    told: Sender<Became>,
    go: Receiver<()>,
    wanted: Arc<AtomicBool>,
}

impl Job for Test {
    fn run(self: Box<Self>, turn: Turn) {
        self.told.send(Became::Began).unwrap();
        // At the end of a test the sender is dropped, and the job panics.
        self.go.recv().expect("on purpose");
        drop(turn);
        self.told.send(Became::Ended).unwrap();
    }

    fn refuse(self: Box<Self>, busy: Busy) {
        self.told.send(Became::Refused(busy)).unwrap();
    }

    fn if_wanted(self: Box<Self>) -> Option<Box<dyn Job>> {
        self.wanted
            .load(Ordering::Relaxed)
            .then_some(self as Box<dyn Job>)
    }
}

/// A test's handle to a job.
struct Handle {
    told: Receiver<Became>,
    go: Sender<()>,
    wanted: Arc<AtomicBool>,
    ticket: Option<Ticket>,
}

impl Handle {
    fn go(&self) {
        self.go.send(()).unwrap();
        assert_eq!(self.told.recv(), Ok(Became::Ended));
    }

    fn has_begun(&self) {
        assert_eq!(self.told.recv(), Ok(Became::Began));
    }

    fn is_waiting(&self) -> bool {
        matches!(self.told.try_recv(), Err(mpsc::TryRecvError::Empty))
    }
}

fn client(number: u8) -> Demand {
    Demand::wanted(Client::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, number))))
}

fn submit(pool: &RenderPool, by: u8) -> Handle {
    let ((tell, told), (go, gone), wanted) =
        (channel(), channel(), Arc::new(AtomicBool::new(true)));
    let job = Test {
        told: tell,
        go: gone,
        wanted: Arc::clone(&wanted),
    };
    let ticket = pool.submit(None, client(by), Box::new(job));
    Handle {
        told,
        go,
        wanted,
        ticket,
    }
}

fn pool(queue: usize) -> RenderPool {
    RenderPool::new(NonZeroUsize::MIN, queue, Activity::default()).unwrap()
}

#[test]
fn a_full_queue_refuses_and_an_emptied_one_takes_again() {
    let pool = pool(0);
    let running = submit(&pool, 1);
    running.has_begun();
    assert_eq!(
        submit(&pool, 2).told.recv(),
        Ok(Became::Refused(Busy { waiting: 0 }))
    );
    running.go();
    let next = submit(&pool, 2);
    next.has_begun();
    next.go();
    assert!(pool.is_idle());
}

#[test]
fn the_client_that_waits_with_the_most_makes_room() {
    let pool = pool(2);
    let running = submit(&pool, 1);
    running.has_begun();
    let (oldest, newest) = (submit(&pool, 1), submit(&pool, 1));
    let newcomer = submit(&pool, 2);
    assert_eq!(oldest.told.recv(), Ok(Became::Refused(Busy { waiting: 2 })));
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
    let running = submit(&pool, 1);
    running.has_begun();
    let next = submit(&pool, 2);
    drop(running);
    next.has_begun();
    next.go();
    assert!(pool.is_idle());
}

#[test]
fn a_job_that_nobody_waits_for_any_more_makes_room_at_once_and_never_runs() {
    let pool = pool(1);
    let running = submit(&pool, 1);
    running.has_begun();
    let mut left = submit(&pool, 2);
    left.wanted.store(false, Ordering::Relaxed);
    left.ticket = None;
    assert_eq!(left.told.recv(), Err(mpsc::RecvError), "it is gone");
    let next = submit(&pool, 3);
    assert!(next.is_waiting(), "there is room");
    running.go();
    next.has_begun();
    next.go();
}

#[test]
fn a_job_stays_that_somebody_joined_unnoticed() {
    let pool = pool(1);
    let running = submit(&pool, 1);
    running.has_begun();
    let mut joined = submit(&pool, 2);
    joined.ticket = None;
    assert!(joined.is_waiting());
    running.go();
    joined.has_begun();
    joined.go();
}

#[test]
fn a_waiter_that_is_given_up_late_disturbs_nobody() {
    let pool = pool(1);
    let running = submit(&pool, 1);
    running.has_begun();
    let mut waited = submit(&pool, 2);
    running.go();
    waited.has_begun();
    waited.ticket = None;
    waited.go();
    assert!(pool.is_idle());
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
    let displaced = submit(&pool, 1);
    let waiting = submit(&pool, 1);
    assert_eq!(
        displaced.told.recv(),
        Ok(Became::Refused(Busy { waiting: 1 })),
        "one may wait"
    );
    assert!(waiting.is_waiting());
    go.send(()).unwrap();
    waiting.has_begun();
    waiting.go();
    assert!(pool.0.state.lock().waiting.extra == 0 && pool.is_idle());
}

/// A job that reads a file until it is released.
struct Reading(Test);

impl Job for Reading {
    fn run(self: Box<Self>, turn: Turn) {
        let _reading =
            voltile_base::flow::stalls::reading(&std::path::Path::new("/slow").into(), false);
        Box::new(self.0).run(turn);
    }

    fn refuse(self: Box<Self>, busy: Busy) {
        Box::new(self.0).refuse(busy);
    }

    fn if_wanted(self: Box<Self>) -> Option<Box<dyn Job>> {
        Some(self)
    }
}

#[test]
fn threads_that_are_stuck_are_replaced_once_and_count_again_when_they_return() {
    let pool = pool(9);
    pool.replace_stuck().unwrap();
    let read = || {
        let ((tell, told), (go, gone), wanted) = (channel(), channel(), Arc::default());
        let job = Reading(Test {
            told: tell,
            go: gone,
            wanted: Arc::clone(&wanted),
        });
        let ticket = pool.submit(None, client(1), Box::new(job));
        Handle {
            told,
            go,
            wanted,
            ticket,
        }
    };
    let (first, second) = (read(), read());
    first.has_begun();
    second.has_begun();
    let third = submit(&pool, 1);
    while pool.stalls().look(2) < 2 {
        assert!(
            third.is_waiting(),
            "there is one thread for the stuck ones, and one more"
        );
        thread::sleep(CHECKS);
    }
    first.go();
    second.go();
    third.has_begun();
    third.go();
    while pool.0.state.lock().most > 1 {
        thread::sleep(CHECKS);
    }
    let (running, waiting) = (submit(&pool, 1), submit(&pool, 1));
    running.has_begun();
    assert!(waiting.is_waiting());
    running.go();
    waiting.has_begun();
    waiting.go();
}
