//! Bugs put back in: the invariants about preemption must catch the policy that breaks
//! them. A mutant is first come, first served with one mistake.

use std::time::Duration;

use storm_sched::policies::Fcfs;
use storm_sched::suite::invariants::{Invariant, PreemptionLawful, SuspendedResume};
use storm_sched::suite::{self, Workload};
use storm_sched::{
    Action, Event, InvariantViolation, JobId, Machine, PendingReason, Policy, PreemptMode, RowView,
    SchedTime, Slot,
};

/// Seeds to look for a broken invariant in.
const SEEDS: std::ops::Range<u64> = 0..40;

/// A mistake that a policy could make.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bug {
    /// None: the invariants must not blame a sound policy.
    None,
    /// Whoever is suspended stays so.
    NeverResumes,
    /// Whoever is to be requeued or cancelled is treated in the other way.
    TakesAnotherMode,
    /// The job that is to make room and the one that gets it are confused.
    ConfusesTheTwo,
    /// Who has no quality of service makes room too.
    StopsAnybody,
    /// Two make room where one is enough.
    StopsMore,
    /// A job that has ended makes room.
    StopsTheEnded,
    /// Who waits is told nothing.
    IsSilent,
}

struct Mutant {
    bug: Bug,
    inner: Fcfs,
}

impl Mutant {
    /// Another job that runs and is not mentioned.
    fn bystander(&self, actions: &[Action]) -> Option<JobId> {
        let mentioned = |job: JobId| {
            actions.iter().any(|action| match action {
                Action::Preempt { job: other, .. }
                | Action::Start { job: other, .. }
                | Action::Resume { job: other } => *other == job,
                _ => false,
            })
        };
        let row = self.inner.rows().into_iter().next()?;
        row.jobs.iter().map(|running| running.job).find(|job| !mentioned(*job))
    }

    fn spoil(&self, actions: &mut Vec<Action>) {
        let bystander = self.bystander(actions);
        let mut more = Vec::new();
        for action in actions.iter_mut() {
            let Action::Preempt { job, mode, by } = action else { continue };
            match self.bug {
                Bug::TakesAnotherMode => {
                    *mode = match mode {
                        PreemptMode::Suspend => PreemptMode::Suspend,
                        PreemptMode::Requeue => PreemptMode::Cancel,
                        PreemptMode::Cancel => PreemptMode::Requeue,
                    };
                }
                Bug::ConfusesTheTwo => std::mem::swap(job, by),
                // Those whose number six divides have no quality of service.
                Bug::StopsAnybody => {
                    let anybody = bystander.filter(|job| job.0.is_multiple_of(6));
                    *job = anybody.unwrap_or(*job);
                }
                Bug::StopsMore => {
                    let mode = PreemptMode::Suspend;
                    let job = bystander.filter(|job| job.0 % 6 == 1);
                    more.extend(job.map(|job| Action::Preempt { job, mode, by: *by }));
                }
                Bug::StopsTheEnded => *job = JobId(u64::MAX),
                Bug::None | Bug::NeverResumes | Bug::IsSilent => {}
            }
        }
        actions.append(&mut more);
        if self.bug == Bug::NeverResumes {
            actions.retain(|action| !matches!(action, Action::Resume { .. }));
        }
    }
}

impl Policy for Mutant {
    fn name(&self) -> &'static str {
        "mutant"
    }

    fn handle(&mut self, now: SchedTime, event: Event) -> Vec<Action> {
        let mut actions = self.inner.handle(now, event);
        self.spoil(&mut actions);
        actions
    }

    fn pending(&self) -> Vec<JobId> {
        self.inner.pending()
    }

    fn running(&self) -> Vec<JobId> {
        self.inner.running()
    }

    fn explain(&self, now: SchedTime, job: JobId) -> Option<PendingReason> {
        self.inner.explain(now, job).filter(|_| self.bug != Bug::IsSilent)
    }

    fn explain_all(&self, now: SchedTime) -> Vec<(JobId, PendingReason)> {
        self.inner.explain_all(now)
    }

    fn active_slot(&self) -> Option<Slot> {
        self.inner.active_slot()
    }

    fn rows(&self) -> Vec<RowView> {
        self.inner.rows()
    }

    fn next_edge_needed(&self) -> bool {
        false
    }

    fn quantum(&self) -> Option<Duration> {
        None
    }

    fn machine(&self) -> &Machine {
        self.inner.machine()
    }

    fn check(&self) -> Result<(), InvariantViolation> {
        self.inner.check()
    }
}

/// What is said against the mutant, if anything.
fn found(bug: Bug, invariant: fn() -> Box<dyn Invariant>) -> Option<String> {
    let make = |machine| -> Box<dyn Policy> { Box::new(Mutant { bug, inner: Fcfs::new(machine) }) };
    let run = suite::run_seeds_of(SEEDS, Workload::preempting, &make, &|| vec![invariant()]);
    run.err().map(|failure| failure.why.to_string())
}

#[test]
fn each_invariant_catches_who_breaks_it_and_blames_nobody_else() {
    let lawful = || -> Box<dyn Invariant> { Box::new(PreemptionLawful) };
    let resume = || -> Box<dyn Invariant> { Box::new(SuspendedResume) };
    for invariant in [lawful, resume] {
        assert_eq!(found(Bug::None, invariant), None);
    }
    let forgets = found(Bug::NeverResumes, resume).expect("it leaves jobs suspended");
    assert!(forgets.contains("is suspended, and nobody has its PEs"), "{forgets}");
    for (bug, said) in [
        (Bug::TakesAnotherMode, "which is not its own"),
        (Bug::ConfusesTheTwo, "does not run"),
        (Bug::StopsAnybody, "which may not do so"),
        (Bug::StopsMore, "could have started without"),
        (Bug::StopsTheEnded, "does not run"),
        (Bug::IsSilent, "waits without a reason"),
    ] {
        let seen = found(bug, lawful).unwrap_or_else(|| panic!("nobody is {said}"));
        assert!(seen.contains(said), "{seen}");
    }
}
