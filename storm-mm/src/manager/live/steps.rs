//! The steps of a job's launch, and when they were taken.

use crate::api::LaunchBreakdown;
use crate::manager::effect::StageOutcome;
use std::time::Duration;
use storm_primitives::Instant;

/// The progress of a job's launch.
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

/// The steps of a launch.
#[derive(Clone, Debug)]
pub(super) struct Steps {
    launch: Launch,
    placed_at: Instant,
    staged_at: Instant,
    launched_at: Instant,
    stage: StageOutcome,
}

impl Steps {
    /// A launch that has reached the step `launch`.
    pub(super) fn at(now: Instant, launch: Launch) -> Steps {
        let stage = StageOutcome::default();
        Steps { launch, placed_at: now, staged_at: now, launched_at: now, stage }
    }

    pub(super) fn launch(&self) -> Launch {
        self.launch
    }

    #[cfg(test)]
    pub(super) fn placed_at(&self) -> Instant {
        self.placed_at
    }

    /// The launch is at another step, and its times stay.
    pub(super) fn set(&mut self, launch: Launch) {
        self.launch = launch;
    }

    /// The launch begins again.
    pub(super) fn begin_again(&mut self, now: Instant) {
        (self.launch, self.placed_at) = (Launch::Staging, now);
    }

    pub(super) fn staged(&mut self, now: Instant, stage: StageOutcome) {
        (self.launch, self.stage, self.staged_at) = (Launch::Staged, stage, now);
    }

    pub(super) fn launched(&mut self, now: Instant) {
        (self.launch, self.launched_at) = (Launch::Launched, now);
    }

    /// All ranks execute. Returns the times of the launch.
    pub(super) fn started(&mut self, now: Instant) -> LaunchBreakdown {
        self.launch = Launch::Started;
        LaunchBreakdown {
            read_ms: milliseconds(self.stage.read),
            send_ms: milliseconds(self.stage.send),
            write_ms: milliseconds(self.stage.write),
            exec_ms: milliseconds(now - self.launched_at),
            wait_for_slice_ms: milliseconds(self.launched_at - self.staged_at),
            total_ms: milliseconds(now - self.placed_at),
            sent_bytes: self.stage.sent_bytes,
            skipped_bytes: self.stage.skipped_bytes,
        }
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}
