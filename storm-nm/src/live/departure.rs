//! The planned end of a node manager. Its link is closed only when the node manager has handed over
//! what it holds.

use tokio::sync::watch;

/// A request to leave, and its permission.
#[derive(Debug)]
pub struct Departure {
    asked: watch::Sender<bool>,
    allowed: watch::Sender<bool>,
}

impl Default for Departure {
    fn default() -> Departure {
        Departure { asked: watch::Sender::new(false), allowed: watch::Sender::new(false) }
    }
}

impl Departure {
    /// Requests the end, and waits until the link may be closed. The caller bounds the wait.
    pub async fn ask(&self) {
        self.asked.send_replace(true);
        // The sender lives as long as this object.
        let _ = self.allowed.subscribe().wait_for(|allowed| *allowed).await;
    }

    pub(super) async fn asked(&self) {
        let _ = self.asked.subscribe().wait_for(|asked| *asked).await;
    }

    pub(super) fn allow(&self) {
        self.allowed.send_replace(true);
    }
}
