//! Long requests take memory from when they are read until they are carried out: of each user there
//! are a few at a time, and who leaves one half sent keeps nobody but itself waiting.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A request of so many bytes is a usual one: a job with its environment, a block of input.
pub(super) const SHORT_BYTES: usize = 48 << 10;
/// Longer ones of a user that are read at the same time.
const AT_A_TIME: usize = 4;

/// Ends when the request is carried out, and takes no memory any more.
pub(super) type Turn = OwnedSemaphorePermit;

/// Who may read on, by user.
#[derive(Clone, Debug, Default)]
pub(super) struct LongLines {
    users: Arc<Mutex<HashMap<u32, Arc<Semaphore>>>>,
}

impl LongLines {
    /// Waits for the turn of one of this user's requests, which ends with what is returned.
    pub(super) async fn turn(&self, uid: u32) -> Option<Turn> {
        let turns = self.turns(uid);
        // None of them is ever closed.
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
