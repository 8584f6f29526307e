//! The answers that wait for all clients of a server to read them: what they take together,
//! and who has let them wait for longest.
//!
//! What this does not do: count the output and the events of jobs, which are held back where
//! they come from.

use super::outgoing::{Life, Outgoing};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::Notify;

/// Who has no more than this waiting is never in the way: a follower with a few answers.
const SMALL_BYTES: usize = 64 << 10;

/// What waits at all clients.
#[derive(Debug)]
pub(super) struct Unread {
    limit_bytes: usize,
    bytes: AtomicUsize,
    /// Counts what clients take: the older the number, the longer it is ago.
    turns: AtomicU64,
    clients: Mutex<Vec<Weak<Outgoing>>>,
    relief: Notify,
}

impl Unread {
    pub(super) fn new(limit_bytes: usize) -> Unread {
        Unread {
            limit_bytes,
            bytes: AtomicUsize::new(0),
            turns: AtomicU64::new(0),
            clients: Mutex::default(),
            relief: Notify::new(),
        }
    }

    /// Counts what waits for one more client.
    pub(super) fn join(&self, client: &Arc<Outgoing>) {
        let mut clients = self.lock();
        // Amortised: as many as were there when it was last done.
        if clients.len() == clients.capacity() {
            clients.retain(|client| client.strong_count() > 0);
        }
        clients.push(Arc::downgrade(client));
    }

    /// Whether as much waits as may.
    pub(super) fn is_crowded(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) >= self.limit_bytes
    }

    /// Waits until it is not. May return too soon.
    pub(super) async fn relieved(&self) {
        let relief = std::pin::pin!(self.relief.notified());
        if self.is_crowded() {
            relief.await;
        }
    }

    /// Who has taken nothing for longest although answers wait, and since which turn.
    pub(super) fn stalest(&self) -> Option<(u64, Arc<Outgoing>)> {
        let clients: Vec<_> = self.lock().iter().filter_map(Weak::upgrade).collect();
        let waits = |client: Arc<Outgoing>| Some((client.waits_since(SMALL_BYTES)?, client));
        clients.into_iter().filter_map(waits).min_by_key(|(turn, _)| *turn)
    }

    /// Drops the client that has taken nothing since the turn of `before`, if it still has not.
    pub(super) fn drop_stale(&self, before: Option<(u64, Arc<Outgoing>)>) {
        let Some((turn, client)) = before else { return };
        if client.waits_since(SMALL_BYTES) == Some(turn) {
            client.end(Life::TooSlow);
        }
    }

    pub(super) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn take(&self, bytes: usize) {
        let before = self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        if before >= self.limit_bytes && before - bytes < self.limit_bytes {
            self.relief.notify_waiters();
        }
    }

    /// The number of the next thing that a client does.
    pub(super) fn turn(&self) -> u64 {
        self.turns.fetch_add(1, Ordering::Relaxed)
    }

    /// No method of this file can panic while the list is half changed.
    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Outgoing>>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
