//! Reports to the user that nodes of the job are away, so that output of its ranks comes late. A
//! Node Manager that is restarted is back within moments, and nothing is said.

use std::future::pending;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Most restarts take less.
const PATIENCE: Duration = Duration::from_secs(2);

/// Decides when to tell the user.
#[derive(Debug, Default)]
pub(super) struct AwayNotes {
    /// The next note, and when it is due.
    next: Option<(String, Instant)>,
    /// Whether the user knows that nodes are away.
    told: bool,
}

impl AwayNotes {
    /// Takes note of whether nodes are away, and why. Returns what to say now.
    pub(super) fn are(&mut self, away: bool, why: Option<&str>, now: Instant) -> Option<String> {
        match (away, why) {
            (true, Some(why)) => {
                let at = self.next.take().map_or(now + PATIENCE, |(_, at)| at);
                self.next = Some((why.to_owned(), at));
                None
            }
            (true, None) => None,
            (false, _) => {
                self.next = None;
                std::mem::take(&mut self.told).then(|| "all its nodes are back".to_owned())
            }
        }
    }

    /// Completes when there is something to say; never if there is nothing. May be dropped and
    /// called again.
    pub(super) async fn due(&self) {
        match &self.next {
            Some((_, at)) => sleep_until(*at).await,
            None => pending().await,
        }
    }

    /// The note that is due now, or at the end of the job.
    pub(super) fn take(&mut self) -> Option<String> {
        let (why, _) = self.next.take()?;
        self.told = true;
        Some(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn only_a_long_absence_is_told_of() {
        let (mut notes, now) = (AwayNotes::default(), Instant::now());
        assert_eq!(notes.are(true, Some("n1 is away"), now), None);
        assert_eq!(notes.are(false, None, now), None);
        assert_eq!(notes.take(), None, "it was back at once");
        notes.are(true, Some("n1 is away"), now);
        assert_eq!(notes.are(true, Some("n[1-2] are away"), now + PATIENCE / 2), None);
        assert_eq!(notes.next.as_ref().map(|(_, at)| *at), Some(now + PATIENCE));
        assert_eq!(notes.take().as_deref(), Some("n[1-2] are away"));
        assert!(notes.due().now_or_never().is_none());
        assert_eq!(notes.are(false, None, now).as_deref(), Some("all its nodes are back"));
    }

    #[test]
    fn the_end_of_the_job_does_not_hide_what_is_lost() {
        let (mut notes, now) = (AwayNotes::default(), Instant::now());
        notes.are(true, Some("n1 is away"), now);
        assert!(notes.take().is_some());
        notes.are(true, Some("n1 did not come back: its output is lost"), now);
        assert_eq!(notes.take().as_deref(), Some("n1 did not come back: its output is lost"));
    }
}
