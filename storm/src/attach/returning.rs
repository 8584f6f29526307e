//! Waits for a manager that went away. The job continues meanwhile, and is followed again when the
//! manager is back.

use super::{Follower, Interrupts, Pauses};
use crate::failure::{EXIT_FAILED, Failure};
use crate::local_cluster::KeptCluster;
use crate::manager::Manager;
use std::time::{Duration, Instant};
use storm_mm::api::{ClientError, ClientReplies};

/// How long to wait for its return. A restart takes a second, and a user at a terminal should learn
/// soon. It is longer than `node-return`, in which the Node Manager comes back through which this
/// host's users reach the manager.
const RETURN_LIMIT: Duration = Duration::from_secs(65);

impl Follower {
    /// Waits for the manager, and follows the job again.
    pub(super) async fn find_again(
        &mut self,
        manager: &Manager,
        interrupts: &mut Interrupts,
    ) -> Result<ClientReplies, Failure> {
        let name = self.name();
        let kept = manager.kept();
        let over = || kept.as_ref().filter(|kept| !kept.process.is_alive()).map(KeptCluster::died);
        if over().is_none() {
            self.terminal
                .note(&format!("the manager is gone; {name} continues; waiting for its return"))
                .await;
        }
        let (began, mut pauses) = (Instant::now(), Pauses::default());
        loop {
            if let Some(died) = over() {
                return Err(Failure::from(died).exit(EXIT_FAILED));
            }
            tokio::select! {
                () = tokio::time::sleep(pauses.next()) => {}
                status = interrupts.next() => return Err(self.not_found().exit(status)),
            }
            match self.attach_again(manager).await {
                Ok(replies) => {
                    self.lost = false;
                    self.running = false;
                    self.awaiting_ok = None;
                    self.resend = true;
                    self.terminal.note("the manager is back").await;
                    return Ok(replies);
                }
                // All clients connect at once, and those beyond a bound find a place later.
                Err(error) if error.is_full() => {}
                Err(error) if error.may_pass() && began.elapsed() < RETURN_LIMIT => {}
                Err(error @ (ClientError::Connect { .. } | ClientError::ConnectRemote { .. }))
                    if error.may_pass() =>
                {
                    return Err(self.not_found());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn attach_again(&mut self, manager: &Manager) -> Result<ClientReplies, ClientError> {
        let (requests, replies) = manager.connect().await?.split();
        self.requests = requests;
        self.what.request = self.requests.send(self.attachment()).await?;
        if self.interrupted.is_some() {
            // The former manager may not have received the cancellation.
            self.requests.send(self.cancellation()).await?;
        }
        Ok(replies)
    }
}
