//! No job is lost. An acknowledged job is in the journal, its events are in a legal order, and when
//! nothing more happens every job has ended. A waiting job does not fail, even if the nodes and
//! partitions that it waits for die or are removed.

use super::{Broken, Invariant, broken};
use crate::Fact;
use std::collections::BTreeMap;
use storm_mm::api::JobState;
use storm_mm::job::JobEventKind;
use storm_rm::JobId;

/// See the module.
#[derive(Debug, Default)]
pub struct NoLostJob {
    jobs: BTreeMap<JobId, Stage>,
}

/// The stage of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waits,
    Holds,
    Runs,
    Ends,
    Ended,
}

impl NoLostJob {
    fn step(&mut self, job: JobId, kind: &JobEventKind) -> Result<(), Broken> {
        let before = self.jobs.get(&job).copied();
        let after = match (before, kind) {
            (None, JobEventKind::Submitted { .. }) => Stage::Waits,
            (Some(Stage::Waits), JobEventKind::Placed { .. }) => Stage::Holds,
            (Some(Stage::Holds), JobEventKind::Started { .. }) => Stage::Runs,
            // If the job will run again, its run time is noted at its end too.
            (Some(stage @ (Stage::Runs | Stage::Ends)), JobEventKind::Ran { .. })
            | (Some(stage @ Stage::Runs), JobEventKind::SignalledEarly { .. })
            | (
                Some(stage @ (Stage::Holds | Stage::Runs | Stage::Ends)),
                JobEventKind::Moved { .. }
                | JobEventKind::OnElements { .. }
                | JobEventKind::PartOver { .. }
                | JobEventKind::FirstOver { .. }
                | JobEventKind::Step { .. }
                | JobEventKind::Suspended { .. }
                | JobEventKind::Resumed { .. },
            )
            | (Some(stage), JobEventKind::UnderPolicy { .. } | JobEventKind::Changed { .. })
            | (
                Some(stage @ (Stage::Holds | Stage::Runs)),
                JobEventKind::StoppedBy { .. } | JobEventKind::ContinuedBy { .. },
            ) => stage,
            (Some(Stage::Holds | Stage::Runs | Stage::Ends), JobEventKind::Ending { .. }) => {
                Stage::Ends
            }
            (Some(Stage::Holds | Stage::Runs | Stage::Ends), JobEventKind::Requeued { .. }) => {
                Stage::Waits
            }
            (Some(Stage::Waits), JobEventKind::Ended { outcome, .. })
                if matches!(outcome.state, JobState::Failed | JobState::NodeFail) =>
            {
                let why = outcome.reason.as_deref().unwrap_or("no reason is given");
                return broken(format!("job {job} waits and fails: {why}"));
            }
            (
                Some(Stage::Waits | Stage::Holds | Stage::Runs | Stage::Ends),
                JobEventKind::Ended { .. },
            ) => Stage::Ended,
            (Some(Stage::Waits), JobEventKind::InReservation { .. })
            | (Some(Stage::Waits), JobEventKind::Held { .. } | JobEventKind::Released { .. })
            | (
                Some(Stage::Waits),
                JobEventKind::DependencyEnded { .. } | JobEventKind::DependencyNoted { .. },
            ) => Stage::Waits,
            (before, kind) => {
                return broken(format!("job {job}, {before:?}, has the event {kind:?}"));
            }
        };
        self.jobs.insert(job, after);
        Ok(())
    }
}

impl Invariant for NoLostJob {
    fn name(&self) -> &'static str {
        "no job is lost"
    }

    fn note(&mut self, fact: &Fact<'_>) -> Result<(), Broken> {
        match fact {
            Fact::Journal(job, kind) => self.step(*job, kind),
            Fact::Acknowledged(job) if !self.jobs.contains_key(job) => {
                broken(format!("job {job} was acknowledged and is not in the journal"))
            }
            Fact::Over => {
                let left = self.jobs.iter().find(|(_, stage)| **stage != Stage::Ended);
                match left {
                    Some((job, stage)) => broken(format!("job {job} never ended: {stage:?}")),
                    None => Ok(()),
                }
            }
            Fact::Acknowledged(_)
            | Fact::NodeBack(_)
            | Fact::Host(..)
            | Fact::Terminated(_)
            | Fact::Compared(_)
            | Fact::NodeDown(_)
            | Fact::NodeUp(_)
            | Fact::Inflicted(..)
            | Fact::NodeManagerDown(_)
            | Fact::NodeManagerLate(_)
            | Fact::Configured(_)
            | Fact::ManagerDown
            | Fact::ManagerUp => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ended, placed, submitted};
    use super::*;

    #[test]
    fn an_acknowledgement_without_an_entry_is_detected() {
        assert!(NoLostJob::default().note(&Fact::Acknowledged(JobId(1))).is_err());
    }

    #[test]
    fn events_out_of_order_are_detected() {
        let mut invariant = NoLostJob::default();
        assert!(invariant.note(&Fact::Journal(JobId(1), &placed(1, 0, &[1]))).is_err());
        assert!(invariant.note(&Fact::Journal(JobId(1), &ended())).is_err());
    }

    #[test]
    fn a_failure_of_a_waiting_job_is_detected() {
        let mut invariant = NoLostJob::default();
        invariant.note(&Fact::Journal(JobId(1), &submitted("gone", false))).unwrap();
        let mut failed = ended();
        if let JobEventKind::Ended { outcome, .. } = &mut failed {
            outcome.state = JobState::Failed;
            outcome.reason = Some("partition gone does not exist".to_owned());
        }
        let found = invariant.note(&Fact::Journal(JobId(1), &failed)).unwrap_err();
        assert_eq!(found.0, "job 1 waits and fails: partition gone does not exist");
    }

    #[test]
    fn a_job_that_never_ends_is_detected() {
        let mut invariant = NoLostJob::default();
        invariant.jobs.insert(JobId(1), Stage::Waits);
        let found = invariant.note(&Fact::Over).unwrap_err();
        assert_eq!(found.0, "job 1 never ended: Waits");
        invariant.note(&Fact::Journal(JobId(1), &ended())).unwrap();
        invariant.note(&Fact::Over).unwrap();
    }
}
