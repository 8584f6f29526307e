//! How far a step's launch is, and when it got there.

use crate::api::LaunchBreakdown;
use crate::manager::effect::StageOutcome;
use std::time::Duration;
use storm_primitives::Instant;

/// The progress of a step's launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::manager) enum Launch {
    /// A former manager placed the job, or a Node Manager of the job has ended. Some of its nodes
    /// have not returned.
    Recovering,
    /// The job's files are on their way.
    Staging,
    /// The job waits for a slice edge.
    Staged,
    /// LAUNCH-JOB was issued.
    Launched,
    /// All its ranks execute.
    Started,
}

/// A change of a launch's progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advance {
    /// The files are on the nodes.
    Staged,
    /// LAUNCH-JOB is issued, for the first time or again.
    Launched,
    /// All ranks execute.
    Started,
    /// A node is waited for.
    Awaited,
    /// All nodes are back, and none was ordered to launch the step.
    Restarted,
    /// All nodes are back, and the ranks have executed before.
    Resumed,
}

/// A launch cannot advance in this way from where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a launch that is {from:?} cannot become {advance:?}")]
pub(super) struct Unexpected {
    from: Launch,
    advance: Advance,
}

impl Launch {
    /// Where the launch is after `advance`.
    fn after(self, advance: Advance) -> Result<Launch, Unexpected> {
        use Launch::{Launched, Recovering, Staged, Staging, Started};
        match (self, advance) {
            (Staging, Advance::Staged) => Ok(Staged),
            (Staged | Recovering, Advance::Launched) => Ok(Launched),
            (Launched, Advance::Started) => Ok(Started),
            (Recovering | Launched | Started, Advance::Awaited) => Ok(Recovering),
            (Recovering, Advance::Restarted) => Ok(Staging),
            (Recovering, Advance::Resumed) => Ok(Started),
            (Recovering | Staged | Launched | Started, Advance::Staged)
            | (Staging | Launched | Started, Advance::Launched)
            | (Recovering | Staging | Staged | Started, Advance::Started)
            | (Staging | Staged, Advance::Awaited)
            | (Staging | Staged | Launched | Started, Advance::Restarted | Advance::Resumed) => {
                Err(Unexpected { from: self, advance })
            }
        }
    }
}

/// The progress of a launch, and its times.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    launch: Launch,
    placed_at: Instant,
    staged_at: Instant,
    launched_at: Instant,
    stage: StageOutcome,
}

impl Progress {
    /// A launch that has got as far as `launch`.
    pub(super) fn at(now: Instant, launch: Launch) -> Progress {
        let stage = StageOutcome::default();
        Progress { launch, placed_at: now, staged_at: now, launched_at: now, stage }
    }

    pub(super) fn launch(&self) -> Launch {
        self.launch
    }

    /// A node is waited for.
    pub(super) fn awaited(&mut self) -> Result<(), Unexpected> {
        self.advance(Advance::Awaited)
    }

    /// All nodes are back, and the ranks have executed before.
    pub(super) fn resumed(&mut self) -> Result<(), Unexpected> {
        self.advance(Advance::Resumed)
    }

    /// The launch begins again.
    pub(super) fn begin_again(&mut self, now: Instant) -> Result<(), Unexpected> {
        self.advance(Advance::Restarted)?;
        self.placed_at = now;
        Ok(())
    }

    pub(super) fn staged(&mut self, now: Instant, stage: StageOutcome) -> Result<(), Unexpected> {
        self.advance(Advance::Staged)?;
        (self.stage, self.staged_at) = (stage, now);
        Ok(())
    }

    pub(super) fn launched(&mut self, now: Instant) -> Result<(), Unexpected> {
        self.advance(Advance::Launched)?;
        self.launched_at = now;
        Ok(())
    }

    /// All ranks execute. Returns the times of the launch.
    pub(super) fn started(&mut self, now: Instant) -> Result<LaunchBreakdown, Unexpected> {
        self.advance(Advance::Started)?;
        Ok(LaunchBreakdown {
            read_ms: milliseconds(self.stage.read),
            send_ms: milliseconds(self.stage.send),
            write_ms: milliseconds(self.stage.write),
            exec_ms: milliseconds(now - self.launched_at),
            wait_for_slice_ms: milliseconds(self.launched_at - self.staged_at),
            total_ms: milliseconds(now - self.placed_at),
            sent_bytes: self.stage.sent_bytes,
            skipped_bytes: self.stage.skipped_bytes,
        })
    }

    fn advance(&mut self, advance: Advance) -> Result<(), Unexpected> {
        self.launch = self.launch.after(advance)?;
        Ok(())
    }
}

#[cfg(test)]
impl Progress {
    pub(super) fn placed_at(&self) -> Instant {
        self.placed_at
    }

    pub(super) fn set(&mut self, launch: Launch) {
        self.launch = launch;
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_out_of_turn_changes_nothing() {
        let at = Instant::from_nanos;
        let mut progress = Progress::at(at(1), Launch::Staging);
        let early = progress.started(at(2)).expect_err("it is not launched");
        assert_eq!(early.to_string(), "a launch that is Staging cannot become Started");
        assert!(progress.launched(at(2)).is_err() && progress.awaited().is_err());
        assert_eq!((progress.launch(), progress.launched_at), (Launch::Staging, at(1)));
        progress.staged(at(3), StageOutcome::default()).expect("its turn");
        progress.launched(at(4)).expect("its turn");
        progress.awaited().expect("its turn");
        progress.launched(at(5)).expect("it is launched where it never was");
        assert!(progress.started(at(6)).is_ok() && progress.started(at(7)).is_err());
    }
}
