//! Bugs put back in: the invariants about preemption must catch a policy that breaks them. A mutant
//! is first come, first served, or gang scheduling, with one mistake.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use storm_sched::policies::{Fcfs, Gang};
use storm_sched::suite::invariants::{
    Invariant, NobodySpared, PreemptionLawful, PromiseKept, SuspendedResume,
};
use storm_sched::suite::{self, Workload};
use storm_sched::{
    Action, Event, InvariantViolation, JobId, JobRequest, Machine, MplLimit, PendingReason, Policy,
    PolicyParams, PreemptMode, Row, RowView, SchedTime,
};

/// The seeds among which a broken invariant must appear.
const SEEDS: std::ops::Range<u64> = 0..40;

/// A mistake that a policy could make.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bug {
    /// No mistake: the invariants must not blame a sound policy.
    None,
    /// Suspended jobs stay suspended.
    NeverResumes,
    /// Jobs to be requeued are cancelled, and the other way round.
    TakesAnotherMode,
    /// The job that must make room and the job that gets it are confused.
    ConfusesTheTwo,
    /// Jobs without a quality of service make room, too.
    StopsAnybody,
    /// A job makes room for a job that fits anyway.
    StopsForNothing,
    /// A job that has ended makes room.
    StopsTheEnded,
    /// Waiting jobs get no reason.
    IsSilent,
    /// One more job makes room than needed.
    StopsOneMore,
    /// The job that was promised room is treated like a new job once the room is free.
    Forgets,
}

struct Mutant {
    bug: Bug,
    inner: Box<dyn Policy>,
    /// All jobs that were ever preempted.
    stopping: BTreeSet<JobId>,
    asked: BTreeMap<JobId, JobRequest>,
}

impl Mutant {
    /// Another job that already ran before this event and is not mentioned.
    fn bystander(&self, before: &[JobId], actions: &[Action]) -> Option<JobId> {
        let mentioned = |job: JobId| {
            actions.iter().any(|action| match action {
                Action::Preempt { job: other, .. }
                | Action::Start { job: other, .. }
                | Action::Resume { job: other } => *other == job,
                _ => false,
            })
        };
        let rows = self.inner.rows().into_iter();
        rows.flat_map(|row| row.jobs)
            .map(|running| running.job)
            .find(|job| before.contains(job) && !self.stopping.contains(job) && !mentioned(*job))
    }

    fn spoil(&mut self, before: &[JobId], actions: &mut Vec<Action>) {
        let bystander = self.bystander(before, actions);
        for action in actions.iter_mut() {
            let Action::Preempt { job, mode, by } = action else { continue };
            self.stopping.insert(*job);
            match self.bug {
                Bug::TakesAnotherMode => {
                    *mode = match mode {
                        PreemptMode::Suspend => PreemptMode::Suspend,
                        PreemptMode::Requeue => PreemptMode::Cancel,
                        PreemptMode::Cancel => PreemptMode::Requeue,
                    };
                }
                Bug::ConfusesTheTwo => std::mem::swap(job, by),
                // Jobs whose numbers are multiples of six have no quality of service.
                Bug::StopsAnybody => {
                    let anybody = bystander.filter(|job| job.0.is_multiple_of(6));
                    *job = anybody.unwrap_or(*job);
                }
                Bug::StopsTheEnded => *job = JobId(u64::MAX),
                Bug::None
                | Bug::NeverResumes
                | Bug::StopsForNothing
                | Bug::IsSilent
                | Bug::StopsOneMore
                | Bug::Forgets => {}
            }
        }
        if self.bug == Bug::StopsOneMore
            && let Some(&Action::Preempt { by, .. }) = actions.last()
        {
            // Jobs whose numbers leave a remainder of three may be cancelled.
            let more = bystander.filter(|job| job.0 % 6 == 3);
            let mode = PreemptMode::Cancel;
            actions.extend(more.map(|job| Action::Preempt { job, mode, by }));
        }
        if self.bug == Bug::NeverResumes {
            actions.retain(|action| !matches!(action, Action::Resume { .. }));
        }
    }
}

impl Mutant {
    /// Passes an event on. If promised room becomes free, jobs that may preempt others come after
    /// all waiting jobs.
    fn pass_on(&mut self, now: SchedTime, event: Event) -> Vec<Action> {
        let ended = matches!(&event, Event::Finished(job) if self.stopping.contains(job));
        let mut behind = self.inner.pending();
        behind.retain(|job| ended && self.bug == Bug::Forgets && job.0 % 6 > 3);
        for job in &behind {
            self.inner.handle(now, Event::Cancel(*job));
        }
        let mut actions = self.inner.handle(now, event);
        for job in behind {
            let again = Event::Submit(self.asked[&job].clone());
            actions.extend(self.inner.handle(now, again));
        }
        actions
    }
}

impl Policy for Mutant {
    fn name(&self) -> &'static str {
        "mutant"
    }

    fn handle(&mut self, now: SchedTime, event: Event) -> Vec<Action> {
        let (before, waited) = (self.inner.running(), self.inner.pending());
        let came = match &event {
            Event::Submit(request) if request.is_plain() && request.may_preempt() => {
                Some(request.id)
            }
            _ => None,
        };
        if let Event::Submit(request) = &event {
            self.asked.insert(request.id, request.clone());
        }
        let mut actions = self.pass_on(now, event);
        self.spoil(&before, &mut actions);
        // Jobs whose numbers leave a remainder of four or five may preempt others.
        let alone = !waited.iter().any(|job| job.0 % 6 > 3)
            && !before.iter().any(|job| self.stopping.contains(job));
        let by = came.filter(|_| self.bug == Bug::StopsForNothing && alone);
        let starts =
            |by: &JobId| matches!(&actions[..], [Action::Start { job, .. }, ..] if job == by);
        if let Some(by) = by.filter(starts) {
            let victim = self.bystander(&before, &actions).filter(|job| job.0 % 6 == 1);
            let mode = PreemptMode::Suspend;
            actions.splice(0..0, victim.map(|job| Action::Preempt { job, mode, by }));
        }
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

    fn active_row(&self) -> Option<Row> {
        self.inner.active_row()
    }

    fn rows(&self) -> Vec<RowView> {
        self.inner.rows()
    }

    fn next_edge_needed(&self) -> bool {
        false
    }

    fn quantum(&self) -> Option<Duration> {
        self.inner.quantum()
    }

    fn machine(&self) -> &Machine {
        self.inner.machine()
    }

    fn check(&self) -> Result<(), InvariantViolation> {
        self.inner.check()
    }
}

fn mutant(bug: Bug, inner: Box<dyn Policy>) -> Box<dyn Policy> {
    Box::new(Mutant { bug, inner, stopping: BTreeSet::new(), asked: BTreeMap::new() })
}

/// The violation that the invariant finds in the mutant, if any.
fn found(bug: Bug, invariant: fn() -> Box<dyn Invariant>) -> Option<String> {
    let make = |machine| -> Box<dyn Policy> { mutant(bug, Box::new(Fcfs::new(machine))) };
    let run = suite::run_seeds_of(SEEDS, Workload::preempting, &make, &|| vec![invariant()]);
    run.err().map(|failure| failure.why.to_string())
}

#[test]
fn each_invariant_catches_its_mutant_and_no_correct_policy() {
    let lawful = || -> Box<dyn Invariant> { Box::new(PreemptionLawful) };
    let resume = || -> Box<dyn Invariant> { Box::new(SuspendedResume) };
    for invariant in [lawful, resume] {
        assert_eq!(found(Bug::None, invariant), None);
    }
    let forgets = found(Bug::NeverResumes, resume).expect("it leaves jobs suspended");
    assert!(forgets.contains("is suspended, and no job has its PEs"), "{forgets}");
    for (bug, said) in [
        (Bug::TakesAnotherMode, "which is not its own"),
        (Bug::ConfusesTheTwo, "does not run"),
        (Bug::StopsAnybody, "which may not do so"),
        (Bug::StopsForNothing, "could have started without"),
        (Bug::StopsTheEnded, "does not run"),
        (Bug::IsSilent, "waits without a reason"),
    ] {
        let seen = found(bug, lawful).unwrap_or_else(|| panic!("nobody is {said}"));
        assert!(seen.contains(said), "{said}: {seen}");
    }
}

/// Two rows.
fn limit() -> MplLimit {
    MplLimit::try_from(2).unwrap()
}

/// The violation that the invariant finds in gang scheduling with a mistake, if any.
fn found_in_gang(bug: Bug, invariant: fn() -> Box<dyn Invariant>) -> Option<String> {
    let params = PolicyParams { mpl_limit: limit(), ..PolicyParams::default() };
    let make = |machine| mutant(bug, Box::new(Gang::new(machine, &params)));
    let run = suite::run_seeds_of(SEEDS, Workload::preempting, &make, &|| vec![invariant()]);
    run.err().map(|failure| failure.why.to_string())
}

#[test]
fn each_invariant_catches_a_gang_policy_that_breaks_it() {
    let lawful = || -> Box<dyn Invariant> { Box::new(PreemptionLawful) };
    let spared = || -> Box<dyn Invariant> { Box::new(NobodySpared(limit())) };
    let kept = || -> Box<dyn Invariant> { Box::new(PromiseKept::new(limit())) };
    for invariant in [lawful, spared, kept] {
        assert_eq!(found_in_gang(Bug::None, invariant), None);
    }
    for (bug, invariant, said) in [
        (Bug::TakesAnotherMode, lawful as fn() -> Box<dyn Invariant>, "which is not its own"),
        (Bug::StopsAnybody, lawful, "which may not do so"),
        (Bug::IsSilent, lawful, "waits without a reason"),
        (Bug::StopsOneMore, spared, "would fit without the end"),
        (Bug::Forgets, kept, "was started on what others give up"),
    ] {
        let seen = found_in_gang(bug, invariant).unwrap_or_else(|| panic!("nobody is {said}"));
        assert!(seen.contains(said), "{said}: {seen}");
    }
}
