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

    fn push(&mut self, demand: Demand, job: &str) -> Result<Entered<String>, String> {
        self.queue.push(None, demand, job.to_owned(), self.now)
    }

    /// Adds requests of a client without displacing others.
    fn ask<'a>(&mut self, by: u8, jobs: impl IntoIterator<Item = &'a str>) {
        for job in jobs {
            assert_eq!(
                self.push(Demand::wanted(client(by)), job)
                    .unwrap()
                    .displaced,
                None,
                "{job}"
            );
        }
    }

    fn prefetch<'a>(&mut self, by: u8, jobs: impl IntoIterator<Item = &'a str>) {
        for job in jobs {
            assert_eq!(
                self.push(Demand::prefetch(client(by)), job)
                    .unwrap()
                    .displaced,
                None,
                "{job}"
            );
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
    let newcomer = |story: &mut Story, by, job| {
        story
            .push(Demand::wanted(client(by)), job)
            .unwrap()
            .displaced
            .unwrap()
    };
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
    let newer = story.push(Demand::prefetch(client(2)), "p2").unwrap();
    assert_eq!(newer.displaced.as_deref(), Some("p1"));
    let wanted = story.push(Demand::wanted(client(1)), "a3").unwrap();
    assert_eq!(wanted.displaced.as_deref(), Some("p2"));
    assert_eq!(
        story.push(Demand::prefetch(client(3)), "p3"),
        Err("p3".to_owned())
    );
}

#[test]
fn views_come_last_and_the_newest_first() {
    let mut story = Story::new(99);
    let view = |by| Demand {
        client: client(by),
        urgency: Urgency::View,
    };
    for job in ["v1", "v2", "v3"] {
        assert_eq!(story.push(view(1), job).unwrap().displaced, None);
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
    story.push(view(1), "v1").unwrap();
    let newcomer =
        |story: &mut Story, demand, job| story.push(demand, job).map(|entered| entered.displaced);
    assert_eq!(
        newcomer(&mut story, view(2), "v2"),
        Ok(Some("v1".to_owned())),
        "a view takes the room of views"
    );
    assert_eq!(
        newcomer(&mut story, Demand::wanted(client(3)), "a"),
        Ok(Some("v2".to_owned()))
    );
    assert_eq!(
        newcomer(&mut story, view(2), "v3"),
        Err("v3".to_owned()),
        "and of nothing else"
    );
}

#[test]
fn where_nothing_can_wait_everything_is_given_back() {
    let mut story = Story::new(0);
    assert_eq!(
        story.push(Demand::wanted(client(1)), "a"),
        Err("a".to_owned())
    );
    assert_eq!(story.take(), "");
}

#[test]
fn a_job_has_the_best_place_of_all_who_want_it() {
    let mut story = Story::new(99);
    let push = |story: &mut Story, demand, key: &'static str| {
        story
            .queue
            .push(Some(key), demand, key.to_owned(), story.now)
            .unwrap()
            .job
    };
    push(&mut story, Demand::prefetch(client(1)), "p1");
    push(&mut story, Demand::prefetch(client(1)), "p2");
    story.ask(1, ["a1", "a2", "a3"]);
    assert_eq!(story.take(), "a3");
    let now = story.now;
    assert_eq!(
        story.queue.join(&"p2", Demand::wanted(client(2)), now),
        Some(1)
    );
    assert_eq!(
        story.queue.join(&"none", Demand::wanted(client(2)), now),
        None
    );
    assert_eq!(story.rest(), ["p2", "a1", "a2", "p1"]);
    assert_eq!(
        story.queue.join(&"p2", Demand::wanted(client(2)), now),
        None,
        "it has been taken"
    );
}

#[test]
fn a_job_that_others_want_too_is_not_given_up_for_one_client() {
    let mut story = Story::new(2);
    let now = story.now;
    story
        .queue
        .push(Some("a1"), Demand::wanted(client(1)), "a1".to_owned(), now)
        .unwrap();
    story.ask(1, ["a2"]);
    story
        .queue
        .join(&"a1", Demand::wanted(client(2)), now)
        .unwrap();
    let entered = story.push(Demand::wanted(client(3)), "c1").unwrap();
    assert_eq!(entered.displaced.as_deref(), Some("a2"));
}

#[test]
fn a_job_leaves_with_its_last_request() {
    let mut story = Story::new(9);
    let (one, two, now) = (
        Demand::wanted(client(1)),
        Demand::prefetch(client(2)),
        story.now,
    );
    let job = story
        .queue
        .push(Some("a"), one, "a".to_owned(), now)
        .unwrap()
        .job;
    for demand in [one, two] {
        assert_eq!(story.queue.join(&"a", demand, now), Some(job));
    }
    assert_eq!(
        [one, one, one].map(|demand| story.queue.leave(job, demand)),
        [None, None, None]
    );
    assert_eq!(story.queue.leave(job, two), Some("a".to_owned()));
    assert_eq!(
        (story.queue.len(), story.queue.leave(job, two), story.take()),
        (0, None, String::new())
    );
    assert_eq!(story.queue.join(&"a", one, now), None);
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
                0..=2 => match story.push(demand, &step.to_string()) {
                    Ok(entered) => {
                        waiting.insert(step.to_string());
                        seats.push((entered.job, demand));
                        entered.displaced
                    }
                    Err(_) => None,
                },
                3 => story.queue.take(story.now),
                _ => seats.pop().and_then(|(job, demand)| story.queue.leave(job, demand)),
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
