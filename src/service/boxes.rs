//! The memory for boxes of voxels that are being made or sent, which clients share.
//!
//! A box counts [`COPIES`] times its size while it is made, because it is read, arranged and
//! encoded, and once while it is sent. No box may be larger than a quarter of the memory. A client
//! may hold a quarter, or more for a single box: up to three quarters while it is made. So a client
//! that reads slowly leaves at least three quarters to other clients, and a quarter while a large
//! box is made for it. Requests for which there is no room wait: the requests of one client in
//! order, and no request behind the requests of another client.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::Notify;
use voltile_base::units;

use super::client::Client;
use super::error::TileError;

/// The number of copies of a box's voxels in memory while it is made.
const COPIES: u64 = 3;
/// One client may hold one of this many equal parts of the memory.
const SHARES: u64 = 4;

/// The memory for boxes; clones share it.
#[derive(Debug, Clone)]
pub struct BoxMemory(Arc<SharedMemory>);

#[derive(Debug)]
struct SharedMemory {
    bytes: u64,
    state: Mutex<MemoryState>,
    /// Notified when memory is given back.
    freed: Notify,
    gauge: Gauge,
}

#[derive(Debug, Default)]
struct MemoryState {
    held: u64,
    /// The clients that hold memory or wait for it, and some that no longer do.
    clients: HashMap<Client, Weak<Account>>,
}

/// The memory that one client holds.
#[derive(Debug, Default)]
struct Account {
    /// The bytes held; changed only while the state is locked.
    held: AtomicU64,
    /// Locked by the client's next waiting request, so that only one request of each client looks
    /// for room when memory is given back.
    turn: tokio::sync::Mutex<()>,
}

/// Memory held for one box; given back when it is dropped.
#[derive(Debug)]
pub struct HeldMemory {
    memory: BoxMemory,
    account: Arc<Account>,
    bytes: AtomicU64,
}

impl BoxMemory {
    /// Memory of `bytes` bytes in total; `gauge` shows the number of bytes that are held.
    pub fn new(bytes: usize, gauge: Gauge) -> Self {
        Self(Arc::new(SharedMemory {
            bytes: bytes as u64,
            state: Mutex::default(),
            freed: Notify::new(),
            gauge,
        }))
    }

    /// Waits until there is room to make a box of `bytes` bytes.
    pub async fn hold(&self, client: Client, bytes: u64) -> Result<HeldMemory, TileError> {
        let limit = self.0.bytes / SHARES;
        if bytes > limit {
            return Err(TileError::TooLarge(format!(
                "the box has {}, more than a quarter of the memory for boxes, {}; request a smaller box, or raise render.boxes",
                units::bytes(bytes),
                units::bytes(limit)
            )));
        }
        let account = self.account(client);
        let bytes = bytes.saturating_mul(COPIES);
        if let Some(held) = self.try_hold(&account, bytes) {
            return Ok(held);
        }
        let _turn = account.turn.lock().await;
        loop {
            let freed = self.0.freed.notified();
            if let Some(held) = self.try_hold(&account, bytes) {
                return Ok(held);
            }
            freed.await;
        }
    }

    fn account(&self, client: Client) -> Arc<Account> {
        let clients = &mut self.0.state.lock().clients;
        if let Some(account) = clients.get(&client).and_then(Weak::upgrade) {
            return account;
        }
        clients.retain(|_, account| account.strong_count() > 0);
        let account = Arc::default();
        clients.insert(client, Arc::downgrade(&account));
        account
    }

    fn try_hold(&self, account: &Arc<Account>, bytes: u64) -> Option<HeldMemory> {
        let mut state = self.0.state.lock();
        let own = account.held.load(Ordering::Relaxed) + bytes;
        let all = state.held + bytes;
        let is_only_box = own == bytes;
        if all > self.0.bytes || (!is_only_box && own > self.0.bytes / SHARES) {
            return None;
        }
        state.held = all;
        self.0.gauge.set(all as i64);
        account.held.store(own, Ordering::Relaxed);
        Some(HeldMemory {
            memory: self.clone(),
            account: Arc::clone(account),
            bytes: AtomicU64::new(bytes),
        })
    }
}

impl HeldMemory {
    /// Gives back the memory beyond `bytes` bytes, once the box is made.
    pub fn shrink_to(&self, bytes: usize) {
        let mut state = self.memory.0.state.lock();
        let freed = self
            .bytes
            .fetch_min(bytes as u64, Ordering::Relaxed)
            .saturating_sub(bytes as u64);
        self.account.held.fetch_sub(freed, Ordering::Relaxed);
        state.held -= freed;
        self.memory.0.gauge.set(state.held as i64);
        drop(state);
        self.memory.0.freed.notify_waiters();
    }
}

impl Drop for HeldMemory {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn client(number: u8) -> Client {
        Client::V4([192, 0, 2, number].into())
    }

    /// The held memory, if it is admitted at once.
    fn held(memory: &BoxMemory, number: u8, bytes: u64) -> Option<HeldMemory> {
        match pin!(memory.hold(client(number), bytes)).poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(held) => Some(held.unwrap()),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_client_holds_at_most_a_quarter_or_a_single_box() {
        let gauge = Gauge::default();
        let memory = BoxMemory::new(1200, gauge.clone());
        let sent: Vec<HeldMemory> = (0..3).filter_map(|_| held(&memory, 1, 60)).collect();
        assert_eq!(
            (sent.len(), gauge.get()),
            (1, 180),
            "two that are made exceed a quarter"
        );
        sent[0].shrink_to(60);
        let more: Vec<HeldMemory> = std::iter::from_fn(|| {
            let held = held(&memory, 1, 60)?;
            held.shrink_to(60);
            Some(held)
        })
        .collect();
        assert_eq!((more.len(), gauge.get()), (2, 180));
        let large = held(&memory, 2, 300).unwrap();
        assert_eq!(gauge.get(), 180 + 900);
        assert!(held(&memory, 3, 60).is_none());
        let other = held(&memory, 3, 40).unwrap();
        drop((large, other, sent, more));
        assert_eq!(gauge.get(), 0);
        drop(memory.account(client(4)));
        assert_eq!(
            memory.0.state.lock().clients.len(),
            1,
            "those that hold nothing are forgotten"
        );
    }

    #[test]
    fn a_box_of_more_than_a_quarter_is_too_large() {
        let memory = BoxMemory::new(1200, Gauge::default());
        let refused =
            pin!(memory.hold(client(1), 301)).poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(Err(TileError::TooLarge(problem))) = refused else {
            panic!("it waits or fits")
        };
        assert!(problem.contains("render.boxes"), "{problem}");
        assert!(held(&memory, 1, 300).is_some());
    }

    #[test]
    fn a_request_waits_for_its_own_client_and_others_do_not() {
        let memory = BoxMemory::new(1200, Gauge::default());
        let mut context = Context::from_waker(Waker::noop());
        let slow = held(&memory, 1, 100).unwrap();
        slow.shrink_to(100);
        let mut second = pin!(memory.hold(client(1), 80));
        assert!(second.as_mut().poll(&mut context).is_pending());
        let sizes = [(2, 100), (3, 100), (4, 100), (5, 66)];
        let others = sizes.map(|(number, bytes)| held(&memory, number, bytes).unwrap());
        drop(slow);
        assert!(
            second.as_mut().poll(&mut context).is_pending(),
            "there is no room for it"
        );
        drop(others);
        assert!(second.as_mut().poll(&mut context).is_ready());
    }

    #[test]
    fn a_request_that_is_dropped_lets_the_next_one_in_and_frees_what_it_was_given() {
        let memory = BoxMemory::new(1200, Gauge::default());
        let mut context = Context::from_waker(Waker::noop());
        let first = held(&memory, 1, 90).unwrap();
        let mut large = Box::pin(memory.hold(client(1), 300));
        let mut small = pin!(memory.hold(client(1), 12));
        assert!(
            large.as_mut().poll(&mut context).is_pending()
                && small.as_mut().poll(&mut context).is_pending()
        );
        first.shrink_to(90);
        assert!(
            small.as_mut().poll(&mut context).is_pending(),
            "it is not its turn"
        );
        assert!(held(&memory, 1, 70).is_some(), "there is room at once");
        drop(large);
        assert!(small.as_mut().poll(&mut context).is_ready());
        let mut admitted = Box::pin(memory.hold(client(1), 80));
        assert!(admitted.as_mut().poll(&mut context).is_pending());
        drop(first);
        drop(admitted);
        assert_eq!(memory.0.state.lock().held, 0);
    }
}
