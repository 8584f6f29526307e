//! Bugs put back in: the invariants about reservations must catch a policy that breaks them. A
//! mutant is first come, first served with one mistake.

use std::time::Duration;

use storm_sched::policies::Fcfs;
use storm_sched::suite::Workload;
use storm_sched::suite::invariants::{Invariant, NothingStarves, ReasonsTrue, ReservationsKept};
use storm_sched::{
    Action, Event, InvariantViolation, JobId, Machine, PendingReason, Policy, Row, RowView,
    SchedTime, suite,
};

/// Seeds in which to search for a broken invariant.
const SEEDS: std::ops::Range<u64> = 0..40;

/// A mistake that a policy could make.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bug {
    /// None: the invariants must not blame a sound policy.
    None,
    /// The policy asks to be woken, and decides as if nothing were reserved.
    IgnoresReservations,
    /// The policy does not ask to be woken.
    Oversleeps,
    /// The reason of a job that waits for a reservation names a begin that is a second too late.
    NamesAnotherTime,
    /// Jobs of a reservation never start, even after its end.
    ForgetsWhoWaited,
}

struct Mutant {
    bug: Bug,
    /// The policy that decides.
    inner: Fcfs,
    /// The policy that knows of reservations.
    aware: Fcfs,
}

impl Mutant {
    fn altered(&self, event: Event) -> Vec<Event> {
        match (self.bug, &event) {
            (Bug::IgnoresReservations, Event::Reserve(_) | Event::Unreserve(_)) => vec![],
            (Bug::ForgetsWhoWaited, Event::Submit(request)) if request.reservation.is_some() => {
                vec![]
            }
            _ => vec![event],
        }
    }
}

impl Policy for Mutant {
    fn name(&self) -> &'static str {
        "mutant"
    }

    fn handle(&mut self, now: SchedTime, event: Event) -> Vec<Action> {
        self.aware.handle(now, event.clone());
        let altered = self.altered(event);
        altered.into_iter().flat_map(|event| self.inner.handle(now, event)).collect()
    }

    fn wake_at(&self) -> Option<SchedTime> {
        self.aware.wake_at().filter(|_| self.bug != Bug::Oversleeps)
    }

    fn pending(&self) -> Vec<JobId> {
        self.inner.pending()
    }

    fn running(&self) -> Vec<JobId> {
        self.inner.running()
    }

    fn explain(&self, now: SchedTime, job: JobId) -> Option<PendingReason> {
        let reason = self.inner.explain(now, job)?;
        Some(match reason {
            PendingReason::NotBegun { reservation, start } if self.bug == Bug::NamesAnotherTime => {
                PendingReason::NotBegun { reservation, start: start + Duration::from_secs(1) }
            }
            reason => reason,
        })
    }

    fn explain_all(&self, now: SchedTime) -> Vec<(JobId, PendingReason)> {
        let jobs = self.pending().into_iter();
        jobs.filter_map(|job| Some((job, self.explain(now, job)?))).collect()
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
        None
    }

    fn machine(&self) -> &Machine {
        self.inner.machine()
    }

    fn check(&self) -> Result<(), InvariantViolation> {
        self.inner.check()
    }
}

/// The violation that the invariant finds in the mutant, if any.
fn found(bug: Bug, invariant: fn() -> Box<dyn Invariant>) -> Option<String> {
    let make = |machine: Machine| -> Box<dyn Policy> {
        let (inner, aware) = (Fcfs::new(machine.clone()), Fcfs::new(machine));
        Box::new(Mutant { bug, inner, aware })
    };
    let failure =
        suite::run_seeds_of(SEEDS, Workload::reserving, &make, &|| vec![invariant()]).err()?;
    Some(failure.why.to_string())
}

#[test]
fn each_invariant_catches_its_mutant_and_no_correct_policy() {
    let kept = || -> Box<dyn Invariant> { Box::new(ReservationsKept) };
    let starves = || -> Box<dyn Invariant> { Box::new(NothingStarves) };
    let reasons = || -> Box<dyn Invariant> { Box::new(ReasonsTrue) };
    for invariant in [kept, starves, reasons] {
        assert_eq!(found(Bug::None, invariant), None);
    }
    let intruder = found(Bug::IgnoresReservations, kept).expect("it starts jobs where it may not");
    assert!(intruder.contains("starts"), "{intruder}");
    let sleeper = found(Bug::Oversleeps, kept).expect("it does not ask to be woken");
    assert!(sleeper.contains("wants to be woken at None"), "{sleeper}");
    let late = found(Bug::NamesAnotherTime, reasons).expect("it names another time");
    assert!(late.contains("there is no such one"), "{late}");
    let waits = found(Bug::ForgetsWhoWaited, starves).expect("jobs wait for ever");
    assert!(waits.contains("waits, and nothing runs"), "{waits}");
}
