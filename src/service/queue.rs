//! The queue of jobs that wait for a turn: which job is next, and which is dropped if there are too
//! many.
//!
//! A plain data structure without threads or clock. A job is a render, a lookup in the tiers, or a
//! fetch from a store. Each client that has asked for a job has a *claim* on it until the job
//! leaves the queue, so a job wanted by several clients runs at the earliest of their turns. The
//! rules:
//!
//! - Clients take turns, one job each, and a client that has not been served before goes next
//!   ([`rotation`]).
//! - Within one client, the newest request goes first if more wait than there are render threads,
//!   since that is what the user is looking at; a request that has waited for
//!   [`rotation::PATIENCE`] goes before newer ones.
//! - Prefetches come after all wanted requests. Clients take turns with them as well, and the
//!   prefetches of one client run in order.
//! - Views come last, in turns and the newest first, like wanted requests.
//! - If the queue is full, the client with the most waiting requests loses its oldest request.
//!   Views are dropped first, then prefetches, and neither displaces a more urgent request. A job
//!   that several clients have asked for is not dropped.

pub(super) mod rotation;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::Hash;
use std::time::Instant;

use rotation::{Rotation, SequenceNumber};

use super::client::{Client, Demand, Urgency};

/// The queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the queue is full: {waiting} tiles wait to be rendered or fetched; ask again in a moment")]
pub struct Busy {
    /// The number of waiting jobs.
    pub waiting: usize,
}

/// A queue of jobs of type `J`; a job with a key can be joined.
pub(super) struct Queue<K, J> {
    pub capacity: usize,
    /// How many jobs may wait beyond the capacity for now: idle work will give back their places.
    pub extra: usize,
    jobs: HashMap<SequenceNumber, QueuedJob<K, J>>,
    by_key: HashMap<K, SequenceNumber>,
    /// By urgency, the most urgent first.
    rotations: [Rotation; 3],
    /// The number of the next job or claim.
    pub next: SequenceNumber,
}

struct QueuedJob<K, J> {
    key: Option<K>,
    job: J,
    claims: Vec<Claim>,
}

/// A client's claim on a job.
struct Claim {
    demand: Demand,
    number: SequenceNumber,
}

impl<K: Hash + Eq + Copy, J> Queue<K, J> {
    /// A queue of at most `capacity` jobs, in front of `threads` render threads.
    pub fn new(capacity: usize, threads: usize) -> Self {
        // By urgency: if a client has more claims than this, its newest goes first. Prefetches
        // always run in order.
        let newest_beyond = [threads, usize::MAX, threads];
        Self {
            capacity,
            extra: 0,
            jobs: HashMap::new(),
            by_key: HashMap::new(),
            rotations: newest_beyond.map(|claims| Rotation::new(claims, threads)),
            next: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Counts a job that started at once. Only call it while no job of its urgency waits.
    pub fn started(&mut self, demand: Demand) {
        self.rotation(demand.urgency).serve(demand.client);
    }

    /// Adds a job, which gets the number [`Queue::next`]. If the queue is full, returns the job
    /// that is dropped: another one, or this one if it cannot displace any.
    pub fn push(&mut self, key: Option<K>, demand: Demand, job: J, now: Instant) -> Option<J> {
        let number = self.next;
        // Even if the job is dropped: no other job gets this number.
        self.next += 1;
        let mut displaced = None;
        if self.jobs.len() >= self.capacity.saturating_add(self.extra) {
            let Some(loser) = self.loser(demand) else {
                return Some(job);
            };
            displaced = self.remove(loser);
        }
        self.jobs.insert(
            number,
            QueuedJob {
                key,
                job,
                claims: Vec::new(),
            },
        );
        if let Some(key) = key {
            self.by_key.insert(key, number);
        }
        self.claim(number, demand, now);
        displaced
    }

    /// Adds a client's claim to the waiting job with this key, if there is one.
    pub fn join(&mut self, key: &K, demand: Demand, now: Instant) {
        if let Some(job) = self.by_key.get(key) {
            self.claim(*job, demand, now);
        }
    }

    /// Removes and returns the job to run next.
    pub fn take(&mut self, now: Instant) -> Option<J> {
        let mut rotations = self.rotations.iter_mut();
        let job = rotations.find_map(|rotation| rotation.next(now))?;
        self.remove(job)
    }

    fn claim(&mut self, job: SequenceNumber, demand: Demand, now: Instant) {
        let Some(waiting) = self.jobs.get_mut(&job) else {
            return;
        };
        if waiting.claims.iter().any(|claim| claim.demand == demand) {
            return;
        }
        let number = self.next;
        self.next += 1;
        waiting.claims.push(Claim { demand, number });
        self.rotation(demand.urgency)
            .add(demand.client, number, job, now);
    }

    /// Removes a job, unless it has left already.
    pub fn remove(&mut self, number: SequenceNumber) -> Option<J> {
        let QueuedJob { key, job, claims } = self.jobs.remove(&number)?;
        if let Some(key) = key
            && self.by_key.get(&key) == Some(&number)
        {
            self.by_key.remove(&key);
        }
        for Claim { demand, number } in claims {
            self.rotation(demand.urgency).remove(demand.client, number);
        }
        Some(job)
    }

    fn rotation(&mut self, urgency: Urgency) -> &mut Rotation {
        &mut self.rotations[urgency as usize]
    }

    /// The job to drop for a newcomer: one that is not more urgent than the newcomer.
    fn loser(&self, newcomer: Demand) -> Option<SequenceNumber> {
        let not_more_urgent = &self.rotations[newcomer.urgency as usize..];
        not_more_urgent
            .iter()
            .rev()
            .find_map(|rotation| self.loser_in(rotation, newcomer.client))
    }

    /// The oldest job of the client with the most waiting requests, counting the newcomer's. On a
    /// tie, other clients lose before the newcomer, and among them the one with the oldest job. A
    /// job that several clients have asked for is passed over.
    fn loser_in(&self, rotation: &Rotation, newcomer: Client) -> Option<SequenceNumber> {
        let candidates = rotation.lines().filter_map(|(client, line)| {
            let is_newcomer = client == newcomer;
            let (number, job) = line.claims().find(|(_, job)| self.is_unshared(*job))?;
            let length = line.len() + usize::from(is_newcomer);
            Some(((length, !is_newcomer, Reverse(number)), job))
        });
        candidates.max_by_key(|(rank, _)| *rank).map(|(_, job)| job)
    }

    /// Whether only one client has asked for a job.
    fn is_unshared(&self, job: SequenceNumber) -> bool {
        let waiting = self.jobs.get(&job);
        waiting.is_some_and(|waiting| waiting.claims.len() == 1)
    }
}
