//! The connected clients, and the limits on how many there may be.

use super::ServerLimits;
use crate::api::{ClientId, Peer};
use std::collections::HashMap;
use std::future::Future;
use tokio::task::{Id, JoinSet};

/// The connections that are being served.
#[derive(Debug, Default)]
pub(super) struct Connections {
    tasks: JoinSet<()>,
    /// The user of each task.
    users: HashMap<Id, u32>,
    per_user: HashMap<u32, usize>,
    /// A client was refused since the last connection ended; only the first refusal is logged.
    refusing: bool,
    /// The number of the latest client.
    latest: u64,
}

impl Connections {
    /// Whether one more client of this user is served.
    pub(super) fn admits(&self, peer: Peer, limits: &ServerLimits) -> bool {
        let uid = peer.uid;
        (limits.trusted.contains(&uid) && !peer.by_door)
            || (self.tasks.len() < limits.clients
                && self.per_user.get(&uid).is_none_or(|count| *count < limits.clients_per_user))
    }

    /// Whether this refusal is the first since a connection ended.
    pub(super) fn refusals_begin(&mut self) -> bool {
        !std::mem::replace(&mut self.refusing, true)
    }

    /// The number of a further client.
    pub(super) fn number(&mut self) -> ClientId {
        self.latest += 1;
        ClientId(self.latest)
    }

    /// Serves a client of this user.
    pub(super) fn spawn(&mut self, uid: u32, serving: impl Future<Output = ()> + Send + 'static) {
        let task = self.tasks.spawn(serving);
        self.users.insert(task.id(), uid);
        *self.per_user.entry(uid).or_default() += 1;
    }

    /// Waits until one connection ends; for ever while there is none.
    pub(super) async fn one_ends(&mut self) {
        match self.tasks.join_next_with_id().await {
            None => std::future::pending().await,
            Some(ended) => {
                let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
                self.forget(id);
            }
        }
    }

    /// Waits for the end of all.
    pub(super) async fn all_end(&mut self) {
        while !self.tasks.is_empty() {
            self.one_ends().await;
        }
    }

    fn forget(&mut self, task: Id) {
        self.refusing = false;
        let Some(uid) = self.users.remove(&task) else { return };
        if let Some(count) = self.per_user.get_mut(&uid) {
            *count -= 1;
            if *count == 0 {
                self.per_user.remove(&uid);
            }
        }
    }
}
