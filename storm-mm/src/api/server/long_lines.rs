//! A long request takes memory from when it is read until it is carried out. Each user gets a few
//! long requests at a time, so a user that leaves a request half sent delays only itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Longest usual request: a job with its environment, or a block of input.
pub(super) const SHORT_BYTES: usize = 48 << 10;
/// Longer requests of one user that are read at the same time.
const AT_A_TIME: usize = 4;

/// Dropped when the request is carried out and takes no memory any more.
pub(super) type Turn = OwnedSemaphorePermit;

/// The turns of each user.
#[derive(Clone, Debug, Default)]
pub(super) struct LongLines {
    users: Arc<Mutex<HashMap<u32, Arc<Semaphore>>>>,
}

impl LongLines {
    /// Waits for the turn of one of this user's requests. The turn ends when the returned value is
    /// dropped.
    pub(super) async fn turn(&self, uid: u32) -> Option<Turn> {
        let turns = self.turns(uid);
        // No semaphore is ever closed.
        turns.acquire_owned().await.ok()
    }

    fn turns(&self, uid: u32) -> Arc<Semaphore> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if !users.contains_key(&uid) {
            users.retain(|_, turns| Arc::strong_count(turns) > 1);
        }
        users.entry(uid).or_insert_with(|| Arc::new(Semaphore::new(AT_A_TIME))).clone()
    }
}
