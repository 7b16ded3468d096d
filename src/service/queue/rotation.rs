//! Clients taking turns, one job each.
//!
//! A client that comes with its first request goes before those that were served already, so that a lone request waits for
//! no more than the job that is running. To keep one that asks again and again from always being new, a client that was
//! served stays in the rotation until its next turn has passed, even if nothing of it waits (the scheduler of network
//! queues in RFC 8290 does the same). Where nothing waits at all, only the last few are remembered: those whose jobs may
//! still be running.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Instant;

use super::{Client, Number, PATIENCE};

/// How many clients that were not served before go first in a row, while others wait for another turn.
const FRESH_IN_A_ROW: u32 = 8;

/// Which request of a client goes first.
#[derive(Debug, Clone, Copy)]
pub(super) enum Order {
    /// The oldest.
    Oldest,
    /// The newest, where more wait than this and the oldest has not waited for long.
    NewestBeyond(usize),
}

#[derive(Debug)]
pub(super) struct Rotation {
    /// Every client in one of the two queues, and no other.
    lines: HashMap<Client, Line>,
    /// Clients that were not served yet.
    fresh: VecDeque<Client>,
    /// Clients that were, the one served longest ago in front.
    served: VecDeque<Client>,
    /// How many of the former went before the latter in a row.
    overtaken: u32,
    /// How many claims there are.
    claims: usize,
    /// How many clients are remembered that wait for nothing, where nobody waits.
    remembered: usize,
}

/// What a client waits for: its claims by number, which is by age.
#[derive(Debug, Default)]
pub(super) struct Line(BTreeMap<Number, Claimed>);

#[derive(Debug, Clone, Copy)]
struct Claimed {
    job: Number,
    since: Instant,
}

impl Rotation {
    /// Without clients; it will remember so many that were served.
    pub fn new(remembered: usize) -> Self {
        let (lines, fresh, served) = Default::default();
        Self { lines, fresh, served, overtaken: 0, claims: 0, remembered }
    }

    /// Counts a turn of a client whose job did not have to wait.
    pub fn serve(&mut self, client: Client) {
        if self.lines.contains_key(&client) {
            self.served.retain(|served| *served != client);
        }
        self.lines.entry(client).or_default();
        self.served.push_back(client);
        self.forget();
    }

    /// Adds a claim, which is newer than all before it.
    pub fn add(&mut self, client: Client, number: Number, job: Number, now: Instant) {
        let line = self.lines.entry(client).or_insert_with(|| {
            self.fresh.push_back(client);
            Line::default()
        });
        line.0.insert(number, Claimed { job, since: now });
        self.claims += 1;
    }

    /// Removes a claim.
    pub fn remove(&mut self, client: Client, number: Number) {
        let removed = self.lines.get_mut(&client).and_then(|line| line.0.remove(&number));
        self.claims -= usize::from(removed.is_some());
        self.forget();
    }

    /// Where nobody waits, forgets all but those served last.
    fn forget(&mut self) {
        if self.claims > 0 {
            return;
        }
        self.overtaken = 0;
        let too_many = self.served.len().saturating_sub(self.remembered);
        for client in self.fresh.drain(..).chain(self.served.drain(..too_many)) {
            self.lines.remove(&client);
        }
    }

    /// The job to be rendered next; its claims are yet to be removed.
    pub fn next(&mut self, order: Order, now: Instant) -> Option<Number> {
        if self.claims == 0 {
            return None;
        }
        let client = self.turn()?;
        self.served.push_back(client);
        self.lines.get(&client)?.first(order, now)
    }

    /// Every client, with what it waits for.
    pub fn lines(&self) -> impl Iterator<Item = (Client, &Line)> {
        self.lines.iter().map(|(client, line)| (*client, line))
    }

    /// Takes the client whose turn it is out of its queue. Those served before are not kept waiting for ever by ever new
    /// ones.
    fn turn(&mut self) -> Option<Client> {
        drop_idle(&mut self.fresh, &mut self.lines);
        drop_idle(&mut self.served, &mut self.lines);
        if self.fresh.is_empty() || (self.overtaken >= FRESH_IN_A_ROW && !self.served.is_empty()) {
            self.overtaken = 0;
            return self.served.pop_front();
        }
        self.overtaken = if self.served.is_empty() { 0 } else { self.overtaken + 1 };
        self.fresh.pop_front()
    }
}

/// Forgets clients that wait for nothing, at the front.
fn drop_idle(queue: &mut VecDeque<Client>, lines: &mut HashMap<Client, Line>) {
    while let Some(client) = queue.front()
        && lines.get(client).is_none_or(|line| line.0.is_empty())
    {
        lines.remove(client);
        queue.pop_front();
    }
}

fn is_overdue(since: Instant, now: Instant) -> bool {
    now.saturating_duration_since(since) >= PATIENCE
}

impl Line {
    /// How many claims there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The claims, the oldest first: each one's number and its job.
    pub fn claims(&self) -> impl Iterator<Item = (Number, Number)> {
        self.0.iter().map(|(number, claimed)| (*number, claimed.job))
    }

    fn first(&self, order: Order, now: Instant) -> Option<Number> {
        let (_, oldest) = self.0.first_key_value()?;
        match order {
            Order::NewestBeyond(few) if self.0.len() > few && !is_overdue(oldest.since, now) => {
                self.0.last_key_value().map(|(_, newest)| newest.job)
            }
            _ => Some(oldest.job),
        }
    }
}
