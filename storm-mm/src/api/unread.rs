//! What all clients together have not read: bounded for each user and for all.
//!
//! Nobody waits for room here. Where it gets too much, the client is dropped that has taken
//! nothing for the longest: of a user's clients, one that reads outlasts all that do not. What
//! counts is who read last, not when: there is no clock.

use super::outgoing::Outgoing;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Of a user's clients that are dropped one is told of in so long: they may come by the thousand.
const SAID_EVERY: Duration = Duration::from_secs(60);

/// The books of all clients of a server.
#[derive(Debug)]
pub(super) struct Unread {
    /// Most bytes that the clients of one user leave unread together, where they are several.
    user_bytes: usize,
    /// Most bytes that all leave unread.
    all_bytes: usize,
    books: Mutex<Books>,
}

#[derive(Debug, Default)]
struct Books {
    users: HashMap<u32, User>,
    total_bytes: usize,
    /// Counts what makes one client more recent than another.
    steps: u64,
    next_client: u64,
    /// By user: when a dropped client was told of, and how many were not since.
    dropped: HashMap<u32, (Instant, u64)>,
}

/// The clients of a user that have not read something.
#[derive(Debug, Default)]
struct User {
    bytes: usize,
    clients: HashMap<u64, Unreading>,
    /// Their numbers, whoever has stood still the longest first.
    by_age: BTreeMap<u64, u64>,
}

#[derive(Debug)]
struct Unreading {
    bytes: usize,
    /// The step at which it took something, or was given the first that it has not read.
    since: u64,
    outgoing: Weak<Outgoing>,
}

/// The account of one client.
#[derive(Debug)]
pub(super) struct Account {
    unread: Arc<Unread>,
    uid: u32,
    client: u64,
    outgoing: Weak<Outgoing>,
}

impl Unread {
    pub(super) fn new(user_bytes: usize, all_bytes: usize) -> Arc<Unread> {
        Arc::new(Unread { user_bytes, all_bytes, books: Mutex::default() })
    }

    /// A client of this user was dropped. Returns how many of its clients were dropped without a
    /// word before, when it is time for one.
    pub(super) fn say_dropped(&self, uid: u32, now: Instant) -> Option<u64> {
        let mut books = self.lock();
        let (said, unsaid) = match books.dropped.get_mut(&uid) {
            None => {
                books.dropped.insert(uid, (now, 0));
                return Some(0);
            }
            Some(dropped) => dropped,
        };
        if now.saturating_duration_since(*said) < SAID_EVERY {
            *unsaid += 1;
            return None;
        }
        *said = now;
        Some(std::mem::take(unsaid))
    }

    /// Each change of the books is whole before anything can panic.
    fn lock(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Account {
    pub(super) fn new(unread: Arc<Unread>, uid: u32, outgoing: Weak<Outgoing>) -> Account {
        let mut books = unread.lock();
        books.next_client += 1;
        let client = books.next_client;
        drop(books);
        Account { unread, uid, client, outgoing }
    }

    /// The client has `bytes` unread now; `has_read`: it has just taken something. Returns those
    /// that are to be dropped for it, and that have no entry any more.
    pub(super) fn note(&self, bytes: usize, has_read: bool) -> Vec<Arc<Outgoing>> {
        let Unread { user_bytes, all_bytes, .. } = *self.unread;
        let mut books = self.unread.lock();
        books.set(self, bytes, has_read);
        let mut victims = Vec::new();
        while let Some(user) = books.users.get(&self.uid)
            && user.bytes > user_bytes
            && user.clients.len() > 1
        {
            victims.extend(books.take_stalest(self.uid));
        }
        while books.total_bytes > all_bytes
            && let Some((&largest, _)) = books.users.iter().max_by_key(|(_, user)| user.bytes)
        {
            victims.extend(books.take_stalest(largest));
        }
        victims
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.unread.lock().remove(self.uid, self.client);
    }
}

impl Books {
    fn set(&mut self, account: &Account, bytes: usize, has_read: bool) {
        let before = self.remove(account.uid, account.client);
        if bytes == 0 {
            return;
        }
        self.steps += 1;
        let since = match before {
            Some(entry) if !has_read => entry.since,
            Some(_) | None => self.steps,
        };
        let outgoing = account.outgoing.clone();
        let user = self.users.entry(account.uid).or_default();
        user.clients.insert(account.client, Unreading { bytes, since, outgoing });
        user.by_age.insert(since, account.client);
        user.bytes += bytes;
        self.total_bytes += bytes;
    }

    fn remove(&mut self, uid: u32, client: u64) -> Option<Unreading> {
        let user = self.users.get_mut(&uid)?;
        let gone = user.clients.remove(&client)?;
        user.by_age.remove(&gone.since);
        user.bytes -= gone.bytes;
        self.total_bytes -= gone.bytes;
        if user.clients.is_empty() {
            self.users.remove(&uid);
        }
        Some(gone)
    }

    fn take_stalest(&mut self, uid: u32) -> Option<Arc<Outgoing>> {
        let (_, &stalest) = self.users.get(&uid)?.by_age.first_key_value()?;
        self.remove(uid, stalest)?.outgoing.upgrade()
    }
}
