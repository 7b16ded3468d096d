//! Clients take turns, one job each.
//!
//! A client that has not been served (a *fresh* one) goes before clients that have been, so that a
//! single request waits only for the running jobs. After it was served, a client stays in the
//! rotation until its next turn has passed, even if it has nothing waiting: otherwise it would be
//! fresh again each time (as in the FQ-CoDel scheduler, RFC 8290). If nothing is waiting at all,
//! only the last few clients are remembered: their jobs may still be running.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use crate::service::client::Client;

/// After waiting this long, a request goes before newer requests of its client.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// The number of a job or a claim, in increasing order.
pub type SequenceNumber = u64;

/// The maximum number of fresh clients that go first in a row while served clients wait.
const FRESH_IN_A_ROW: u32 = 8;

#[derive(Debug, Default)]
pub(super) struct Rotation {
    /// The claims of every client in `fresh` or `served`, and of no other client.
    lines: HashMap<Client, ClientLine>,
    /// Clients that have not been served yet.
    fresh: VecDeque<Client>,
    /// Clients that have been served, the one served longest ago first.
    served: VecDeque<Client>,
    /// The number of fresh clients in a row that have gone before served ones.
    overtaken: u32,
    /// The number of claims of all clients.
    claims: usize,
    /// A client with more claims than this has its newest claim served first.
    newest_beyond: usize,
    /// The number of served clients that are remembered while nothing is waiting.
    remembered: usize,
}

/// A client's claims by number, so that the oldest comes first.
#[derive(Debug, Default)]
pub(super) struct ClientLine(BTreeMap<SequenceNumber, Claimed>);

#[derive(Debug, Clone, Copy)]
struct Claimed {
    job: SequenceNumber,
    since: Instant,
}

impl Rotation {
    /// The newest claim of a client goes first if it has more claims than `newest_beyond`.
    /// While nothing is waiting, the last `remembered` served clients are kept.
    pub fn new(newest_beyond: usize, remembered: usize) -> Self {
        Self {
            newest_beyond,
            remembered,
            ..Self::default()
        }
    }

    /// Counts a turn of a client whose job started at once.
    pub fn serve(&mut self, client: Client) {
        if self.lines.contains_key(&client) {
            self.served.retain(|served| *served != client);
        }
        self.lines.entry(client).or_default();
        self.served.push_back(client);
        self.forget();
    }

    /// Adds a claim; its number must be higher than all before.
    pub fn add(
        &mut self,
        client: Client,
        number: SequenceNumber,
        job: SequenceNumber,
        now: Instant,
    ) {
        let line = self.lines.entry(client).or_insert_with(|| {
            self.fresh.push_back(client);
            ClientLine::default()
        });
        line.0.insert(number, Claimed { job, since: now });
        self.claims += 1;
    }

    /// Removes a claim.
    pub fn remove(&mut self, client: Client, number: SequenceNumber) {
        let removed = self
            .lines
            .get_mut(&client)
            .and_then(|line| line.0.remove(&number));
        self.claims -= usize::from(removed.is_some());
        self.forget();
    }

    /// If nothing is waiting, forgets all but the clients served last.
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

    /// The job to run next. The caller must remove its claims.
    pub fn next(&mut self, now: Instant) -> Option<SequenceNumber> {
        if self.claims == 0 {
            return None;
        }
        let client = self.take_client()?;
        self.served.push_back(client);
        self.lines.get(&client)?.first(self.newest_beyond, now)
    }

    pub fn lines(&self) -> impl Iterator<Item = (Client, &ClientLine)> {
        self.lines.iter().map(|(client, line)| (*client, line))
    }

    /// Removes from `fresh` or `served` the client whose turn it is, and returns it. After
    /// [`FRESH_IN_A_ROW`] fresh clients it is the turn of a served one, so that served clients do
    /// not starve.
    fn take_client(&mut self) -> Option<Client> {
        drop_idle(&mut self.fresh, &mut self.lines);
        drop_idle(&mut self.served, &mut self.lines);
        if self.fresh.is_empty() || (self.overtaken >= FRESH_IN_A_ROW && !self.served.is_empty()) {
            self.overtaken = 0;
            return self.served.pop_front();
        }
        self.overtaken = if self.served.is_empty() {
            0
        } else {
            self.overtaken + 1
        };
        self.fresh.pop_front()
    }
}

/// Removes clients with nothing waiting from the front of a queue.
fn drop_idle(queue: &mut VecDeque<Client>, lines: &mut HashMap<Client, ClientLine>) {
    while let Some(client) = queue.front()
        && lines.get(client).is_none_or(|line| line.0.is_empty())
    {
        lines.remove(client);
        queue.pop_front();
    }
}

impl ClientLine {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The claims, oldest first: claim number and job number.
    pub fn claims(&self) -> impl Iterator<Item = (SequenceNumber, SequenceNumber)> {
        self.0
            .iter()
            .map(|(number, claimed)| (*number, claimed.job))
    }

    /// The newest job, if more than `newest_beyond` wait and the oldest is not overdue; else the
    /// oldest.
    fn first(&self, newest_beyond: usize, now: Instant) -> Option<SequenceNumber> {
        let (_, oldest) = self.0.first_key_value()?;
        let (_, newest) = self.0.last_key_value()?;
        let is_overdue = now.saturating_duration_since(oldest.since) >= PATIENCE;
        let is_newest_first = self.0.len() > newest_beyond && !is_overdue;
        Some(if is_newest_first {
            newest.job
        } else {
            oldest.job
        })
    }
}
