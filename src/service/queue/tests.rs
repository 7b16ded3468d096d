//! Jobs are strings and clients are numbers; each test sets the clock.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use super::*;

const THREADS: usize = 2;

struct Story {
    queue: Queue<&'static str, String>,
    now: Instant,
}

fn client(number: u8) -> Client {
    Client::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, number)))
}

impl Story {
    fn new(capacity: usize) -> Self {
        Self {
            queue: Queue::new(capacity, THREADS),
            now: Instant::now(),
        }
    }

    fn pass(&mut self, millis: u64) {
        self.now += Duration::from_millis(millis);
    }

    /// Returns the job that is dropped.
    fn push(&mut self, demand: Demand, job: &str) -> Option<String> {
        self.queue.push(None, demand, job.to_owned(), self.now)
    }

    /// Adds requests of a client without displacing others.
    fn ask<'a>(&mut self, by: u8, jobs: impl IntoIterator<Item = &'a str>) {
        for job in jobs {
            assert_eq!(self.push(Demand::wanted(client(by)), job), None, "{job}");
        }
    }

    fn prefetch<'a>(&mut self, by: u8, jobs: impl IntoIterator<Item = &'a str>) {
        for job in jobs {
            assert_eq!(self.push(Demand::prefetch(client(by)), job), None, "{job}");
        }
    }

    fn take(&mut self) -> String {
        self.queue.take(self.now).unwrap_or_default()
    }

    fn rest(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.queue.take(self.now)).collect()
    }
}

#[test]
fn the_newest_goes_first_where_more_wait_than_there_are_threads() {
    let mut story = Story::new(9);
    story.ask(1, ["a", "b", "c", "d"]);
    assert_eq!(
        story.rest(),
        ["d", "c", "a", "b"],
        "the last two wait for no more than their turn"
    );
}

#[test]
fn what_has_waited_for_long_goes_before_what_is_newer() {
    let mut story = Story::new(99);
    story.ask(1, ["a", "b"]);
    story.pass(1999);
    story.ask(1, ["c", "d"]);
    assert_eq!(story.take(), "d");
    story.pass(1);
    story.ask(1, ["e", "f"]);
    assert_eq!([story.take(), story.take(), story.take()], ["a", "b", "f"]);
}

#[test]
fn nothing_starves_under_an_endless_stream_of_newer_requests() {
    let mut story = Story::new(99);
    story.ask(1, ["old", "older", "oldest"]);
    for step in 0..30 {
        story.ask(1, [format!("new {step}").as_str()]);
        story.pass(100);
        story.take();
    }
    let rest = story.rest();
    assert!(rest.iter().all(|job| job.starts_with("new")), "{rest:?}");
}

#[test]
fn a_lone_request_of_another_client_is_next() {
    let mut story = Story::new(99);
    let jobs: Vec<String> = (0..50).map(|n| n.to_string()).collect();
    story.ask(1, jobs.iter().map(String::as_str));
    assert_eq!(story.take(), "49");
    story.ask(2, ["lone"]);
    assert_eq!([story.take(), story.take()], ["lone", "48"]);
    // Even if all of the other client's requests are overdue.
    story.pass(10_000);
    story.ask(3, ["late"]);
    assert_eq!([story.take(), story.take()], ["late", "0"]);
}

#[test]
fn a_client_whose_jobs_did_not_have_to_wait_was_served_all_the_same() {
    let mut story = Story::new(99);
    story.queue.started(Demand::wanted(client(1)));
    story.ask(1, ["a", "b"]);
    story.ask(2, ["lone"]);
    assert_eq!(story.rest(), ["lone", "a", "b"]);
    story.ask(1, ["c", "d"]);
    story.ask(3, ["lone"]);
    assert_eq!(
        story.rest(),
        ["lone", "c", "d"],
        "its last job may be running still"
    );
}

#[test]
fn clients_take_turns_however_many_requests_each_has() {
    let mut story = Story::new(99);
    story.ask(1, ["a1", "a2", "a3", "a4", "a5"]);
    story.ask(2, ["b1", "b2"]);
    story.ask(3, ["c1", "c2", "c3"]);
    assert_eq!(
        story.rest(),
        ["a5", "b1", "c3", "a4", "b2", "c1", "a3", "c2", "a1", "a2"]
    );
}

#[test]
fn a_client_that_asks_again_and_again_is_not_always_new() {
    let mut story = Story::new(99);
    story.ask(1, ["a", "a", "a", "a"]);
    let mut order = String::new();
    for _ in 0..8 {
        // It requests again as soon as it has its result.
        if !order.ends_with('a') {
            story.ask(2, ["b"]);
        }
        order += &story.take();
    }
    assert_eq!(order, "abababab");
}

#[test]
fn ever_new_clients_do_not_keep_one_that_was_served_waiting_for_ever() {
    let mut story = Story::new(999);
    story.ask(1, ["a", "a"]);
    assert_eq!(story.take(), "a");
    let mut taken = Vec::new();
    for n in 2..60 {
        story.ask(n, ["new", "new"]);
        taken.push(story.take());
    }
    assert_eq!(taken.iter().position(|job| job == "a"), Some(8));
}

#[test]
fn prefetches_come_last_and_in_order() {
    let mut story = Story::new(99);
    story.prefetch(1, ["p1", "p2", "p3", "p4"]);
    story.prefetch(2, ["q1"]);
    story.ask(1, ["a"]);
    assert_eq!([story.take(), story.take()], ["a", "p1"]);
    story.pass(10_000);
    story.ask(3, ["b"]);
    assert_eq!(story.rest(), ["b", "q1", "p2", "p3", "p4"]);
}

#[test]
fn a_full_queue_loses_the_oldest_of_who_has_the_most() {
    let mut story = Story::new(4);
    story.ask(1, ["a1", "a2", "a3"]);
    story.ask(2, ["b1"]);
    let newcomer =
        |story: &mut Story, by, job| story.push(Demand::wanted(client(by)), job).unwrap();
    assert_eq!(newcomer(&mut story, 3, "c1"), "a1");
    assert_eq!(
        newcomer(&mut story, 1, "a4"),
        "a2",
        "a client that asks for more loses its own"
    );
    assert_eq!(
        newcomer(&mut story, 2, "b2"),
        "a3",
        "of two with equally many, the other"
    );
    assert_eq!(newcomer(&mut story, 4, "d1"), "b1");
    assert_eq!(
        newcomer(&mut story, 5, "e1"),
        "c1",
        "of many with one each, the oldest"
    );
    assert_eq!(story.queue.len(), 4);
    let mut rest = story.rest();
    rest.sort();
    assert_eq!(rest, ["a4", "b2", "d1", "e1"]);
}

#[test]
fn prefetches_make_room_first_and_take_no_room_of_what_is_wanted() {
    let mut story = Story::new(3);
    story.ask(1, ["a1", "a2"]);
    story.prefetch(2, ["p1"]);
    let newer = story.push(Demand::prefetch(client(2)), "p2");
    assert_eq!(newer.as_deref(), Some("p1"));
    let wanted = story.push(Demand::wanted(client(1)), "a3");
    assert_eq!(wanted.as_deref(), Some("p2"));
    let refused = story.push(Demand::prefetch(client(3)), "p3");
    assert_eq!(refused.as_deref(), Some("p3"));
}

#[test]
fn views_come_last_and_the_newest_first() {
    let mut story = Story::new(99);
    let view = |by| Demand {
        client: client(by),
        urgency: Urgency::View,
    };
    for job in ["v1", "v2", "v3"] {
        assert_eq!(story.push(view(1), job), None);
    }
    story.prefetch(2, ["p"]);
    story.ask(3, ["a"]);
    assert_eq!([story.take(), story.take(), story.take()], ["a", "p", "v3"]);
    assert_eq!(story.rest(), ["v1", "v2"]);
}

#[test]
fn views_make_room_before_prefetches() {
    let mut story = Story::new(2);
    let view = |by| Demand {
        client: client(by),
        urgency: Urgency::View,
    };
    story.prefetch(1, ["p"]);
    assert_eq!(story.push(view(1), "v1"), None);
    let dropped = story.push(view(2), "v2");
    assert_eq!(
        dropped.as_deref(),
        Some("v1"),
        "a view takes the room of views"
    );
    let dropped = story.push(Demand::wanted(client(3)), "a");
    assert_eq!(dropped.as_deref(), Some("v2"));
    let dropped = story.push(view(2), "v3");
    assert_eq!(dropped.as_deref(), Some("v3"), "and of nothing else");
}

#[test]
fn where_nothing_can_wait_everything_is_given_back() {
    let mut story = Story::new(0);
    let number = story.queue.next;
    let refused = story.push(Demand::wanted(client(1)), "a");
    assert_eq!(refused.as_deref(), Some("a"));
    assert_ne!(story.queue.next, number, "whoever has it removes no other");
    assert_eq!(story.take(), "");
}

#[test]
fn a_job_has_the_best_place_of_all_who_want_it() {
    let mut story = Story::new(99);
    let now = story.now;
    for job in ["p1", "p2"] {
        let prefetch = Demand::prefetch(client(1));
        story.queue.push(Some(job), prefetch, job.to_owned(), now);
    }
    story.ask(1, ["a1", "a2", "a3"]);
    assert_eq!(story.take(), "a3");
    for key in ["p2", "p2", "none"] {
        story.queue.join(&key, Demand::wanted(client(2)), now);
    }
    assert_eq!(story.rest(), ["p2", "a1", "a2", "p1"]);
    story.queue.join(&"p2", Demand::wanted(client(2)), now);
    assert_eq!(story.take(), "", "it has been taken");
}

#[test]
fn a_job_that_others_want_too_is_not_given_up_for_one_client() {
    let mut story = Story::new(2);
    let now = story.now;
    let first = Demand::wanted(client(1));
    story.queue.push(Some("a1"), first, "a1".to_owned(), now);
    story.ask(1, ["a2"]);
    story.queue.join(&"a1", Demand::wanted(client(2)), now);
    let dropped = story.push(Demand::wanted(client(3)), "c1");
    assert_eq!(dropped.as_deref(), Some("a2"));
}

#[test]
fn a_job_that_leaves_takes_the_claims_of_all_clients_with_it() {
    let mut story = Story::new(9);
    let now = story.now;
    let job = story.queue.next;
    let first = Demand::wanted(client(1));
    story.queue.push(Some("a"), first, "a".to_owned(), now);
    story.queue.join(&"a", Demand::prefetch(client(2)), now);
    assert_eq!(story.queue.remove(job).as_deref(), Some("a"));
    assert_eq!((story.queue.len(), story.queue.remove(job)), (0, None));
    story.queue.join(&"a", first, now);
    assert_eq!(story.take(), "");
    let rotations = &story.queue.rotations;
    assert!(rotations.iter().all(|it| it.lines().next().is_none()));
}

proptest::proptest! {
    #[test]
    fn no_job_is_lost_or_doubled(steps in proptest::collection::vec((0_u8..6, 0_u8..4, 0_u64..900), 0..200)) {
        let mut story = Story::new(8);
        let (mut waiting, mut seats) = (std::collections::BTreeSet::new(), Vec::new());
        for (step, (what, who, millis)) in steps.into_iter().enumerate() {
            story.pass(millis);
            let demand = if what % 2 == 0 { Demand::wanted(client(who)) } else { Demand::prefetch(client(who)) };
            let gone = match what {
                0..=2 => {
                    waiting.insert(step.to_string());
                    seats.push(story.queue.next);
                    story.push(demand, &step.to_string())
                }
                3 => story.queue.take(story.now),
                _ => seats.pop().and_then(|job| story.queue.remove(job)),
            };
            if let Some(gone) = gone {
                assert!(waiting.remove(&gone), "{gone} was not waiting");
            }
            assert!(story.queue.len() == waiting.len() && waiting.len() <= 8);
        }
        for job in story.rest() {
            assert!(waiting.remove(&job));
        }
        assert!(waiting.is_empty());
        for rotation in &story.queue.rotations {
            assert!(rotation.lines().count() <= THREADS);
        }
    }
}
