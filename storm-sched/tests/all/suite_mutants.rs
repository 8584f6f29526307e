//! Bugs put back in: each invariant of the suite must catch a policy that breaks it. A mutant is a
//! policy of this crate with one mistake.

use std::time::Duration;

use storm_sched::policies::{Easy, Fcfs, Gang};
use storm_sched::space::{Discipline, News, Order, Passing, Shadow, Space, SpaceSharing, Verdict};
use storm_sched::suite::invariants::{
    ColumnsDisjoint, ColumnsReturned, EveryJobInTurn, EveryJobRuns, EveryRowInTurn, HeadNotDelayed,
    HeadStartsWhenItFits, Held, Invariant, MemoryWithin, PlacementSound, QueueOrder, ReasonsTrue,
    RefusesWhatDoesNotFit, RowsWithinLimit, SameState, ShortestFirst, SomebodyRuns,
};
use storm_sched::{
    Action, Event, InvariantViolation, JobId, Machine, MplLimit, Pe, PendingReason, Placement,
    Policy, PolicyParams, Row, RowView, SchedTime, suite,
};

/// A mistake that a policy could make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bug {
    /// None: the invariants must not blame a sound policy.
    None,
    /// Two jobs that could start together start in the wrong order.
    SwapsStarts,
    /// Every job gets the first PEs.
    StartsAllOnFirstPes,
    /// The death of a node is not noticed.
    ForgetsNodesDown,
    /// The end of every fifth job is not noticed.
    ForgetsEnds,
    /// A job waits for the next event although it fits.
    LooksLate,
    /// The same row runs in every slice.
    NeverRotates,
    /// A row is left empty until the next edge.
    LeavesEmptyRowActive,
    /// The policy opens one row too many.
    IgnoresLimit,
    /// Columns of ended jobs are lost from the account.
    LosesColumns,
    /// The reason of the head names a job ahead of it.
    InventsReasons,
    /// Events that do not fit are accepted in silence.
    SwallowsErrors,
    /// The policy names another row as active.
    LiesAboutActiveRow,
    /// Guests are neither added nor removed.
    ForgetsRows,
    /// Jobs run in all rows.
    RunsEverywhere,
    /// Memory is ignored.
    IgnoresMemory,
    /// A job for exact nodes gets the first PEs that are free.
    IgnoresNodeCount,
}

struct Mutant {
    bug: Bug,
    inner: Box<dyn Policy>,
    late: Option<Event>,
    held_back: Option<Action>,
}

impl Mutant {
    fn input(&mut self, event: Event) -> Vec<Event> {
        match (self.bug, &event) {
            (Bug::ForgetsNodesDown, Event::NodeDown(_) | Event::NodeDrained(_)) => vec![],
            (Bug::ForgetsEnds, Event::Finished(job)) if job.0.is_multiple_of(5) => vec![],
            (Bug::NeverRotates, Event::SliceEdge) => vec![],
            (Bug::IgnoresNodeCount, Event::Submit(request)) => {
                let mut request = request.clone();
                request.nodes = None;
                vec![Event::Submit(request)]
            }
            (Bug::IgnoresMemory, Event::Submit(request)) => {
                let mut request = request.clone();
                request.mem_per_pe_bytes = 0;
                request.mem_per_node = storm_sched::NodeMemory::Unstated;
                vec![Event::Submit(request)]
            }
            (Bug::LooksLate, _) => self.late.replace(event).into_iter().collect(),
            _ => vec![event],
        }
    }

    fn output(&mut self, event: &Event, mut actions: Vec<Action>) -> Vec<Action> {
        match self.bug {
            Bug::SwapsStarts => actions.reverse(),
            Bug::StartsAllOnFirstPes => {
                for action in &mut actions {
                    if let Action::Start { placement, .. } = action {
                        let pes = (0..placement.procs()).map(Pe).collect();
                        *placement = Placement::new(self.inner.machine(), pes).unwrap();
                    }
                }
            }
            Bug::SwallowsErrors => actions.retain(|action| !matches!(action, Action::Refused(_))),
            Bug::ForgetsRows => {
                actions.retain(|action| !matches!(action, Action::SetRows { .. }));
            }
            Bug::RunsEverywhere => {
                for action in &mut actions {
                    if let Action::SetRows { home, alternates, .. } = action {
                        *alternates = (0..3).map(Row).filter(|row| row != home).collect();
                    }
                }
            }
            Bug::LeavesEmptyRowActive if matches!(event, Event::Finished(_)) => {
                let activation = |action: &Action| matches!(action, Action::Activate { .. });
                self.held_back = actions.iter().find(|action| activation(action)).cloned();
                actions.retain(|action| !activation(action));
            }
            Bug::LeavesEmptyRowActive => {
                actions.splice(0..0, self.held_back.take());
            }
            _ => {}
        }
        actions
    }
}

impl Policy for Mutant {
    fn name(&self) -> &'static str {
        "mutant"
    }

    fn handle(&mut self, now: SchedTime, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        for seen in self.input(event.clone()) {
            actions.extend(self.inner.handle(now, seen));
        }
        self.output(&event, actions)
    }

    fn pending(&self) -> Vec<JobId> {
        self.inner.pending()
    }

    fn running(&self) -> Vec<JobId> {
        self.inner.running()
    }

    fn explain(&self, now: SchedTime, job: JobId) -> Option<PendingReason> {
        let reason = self.inner.explain(now, job)?;
        match reason {
            PendingReason::Resources(shortage) if self.bug == Bug::InventsReasons => {
                let ahead = storm_sched::Ahead { first: job, others: 0 };
                Some(PendingReason::Priority { ahead, shortage: Some(shortage) })
            }
            reason => Some(reason),
        }
    }

    fn explain_all(&self, now: SchedTime) -> Vec<(JobId, PendingReason)> {
        self.inner.explain_all(now)
    }

    fn active_row(&self) -> Option<Row> {
        let row = self.inner.active_row();
        if self.bug == Bug::LiesAboutActiveRow { row.map(|row| Row(row.0 + 1)) } else { row }
    }

    fn rows(&self) -> Vec<RowView> {
        let mut rows = self.inner.rows();
        if self.bug == Bug::LosesColumns {
            rows.iter_mut().for_each(|row| row.free_pes = row.free_pes.saturating_sub(1));
        }
        rows
    }

    fn next_edge_needed(&self) -> bool {
        self.inner.next_edge_needed()
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

const SEEDS: std::ops::Range<u64> = 0..40;

fn limit(rows: u32) -> MplLimit {
    MplLimit::try_from(rows).unwrap()
}

fn gang_with(bug: Bug) -> impl Fn(Machine) -> Box<dyn Policy> {
    move |machine| {
        let rows = if bug == Bug::IgnoresLimit { 4 } else { 3 };
        let params = PolicyParams { mpl_limit: limit(rows), ..PolicyParams::default() };
        let inner = Box::new(Gang::new(machine, &params));
        Box::new(Mutant { bug, inner, late: None, held_back: None })
    }
}

/// Asserts that this invariant alone catches the bug, in gang scheduling with three rows. The
/// invariant must not blame a policy without the bug.
fn catches<I: Invariant + 'static>(bug: Bug, invariant: impl Fn() -> I) {
    let alone = || -> Vec<Box<dyn Invariant>> { vec![Box::new(invariant())] };
    let name = invariant().name();
    if let Err(failure) = suite::run_seeds(SEEDS, &gang_with(Bug::None), &alone) {
        panic!("a sound policy is blamed: {failure}: {}", failure.why);
    }
    let failure = suite::run_seeds(SEEDS, &gang_with(bug), &alone);
    let failure = failure.expect_err(&format!("{name:?} does not catch {bug:?}"));
    assert_eq!(failure.invariant, name);
    assert!(failure.to_string().contains("STORM_SUITE_SEED="), "{failure}");
}

#[test]
fn queue_order_catches_swapped_starts() {
    catches(Bug::SwapsStarts, || QueueOrder);
}

#[test]
fn columns_disjoint_catches_jobs_on_one_pe() {
    catches(Bug::StartsAllOnFirstPes, || ColumnsDisjoint);
}

#[test]
fn placement_sound_catches_jobs_on_dead_nodes() {
    catches(Bug::ForgetsNodesDown, || PlacementSound);
}

#[test]
fn placement_sound_catches_a_wrong_node_count() {
    catches(Bug::IgnoresNodeCount, || PlacementSound);
}

#[test]
fn same_state_catches_a_job_that_never_ends() {
    catches(Bug::ForgetsEnds, || SameState);
}

#[test]
fn same_state_catches_a_wrong_active_row() {
    catches(Bug::LiesAboutActiveRow, || SameState);
}

#[test]
fn head_starts_when_it_fits_catches_late_starts() {
    catches(Bug::LooksLate, || HeadStartsWhenItFits(limit(3)));
}

#[test]
fn every_row_in_turn_catches_a_stuck_row() {
    catches(Bug::NeverRotates, EveryRowInTurn::default);
}

#[test]
fn every_job_in_turn_catches_a_stuck_row() {
    catches(Bug::NeverRotates, EveryJobInTurn::default);
}

#[test]
fn every_job_runs_catches_rows_that_take_turns() {
    let alone = || -> Vec<Box<dyn Invariant>> { vec![Box::new(EveryJobRuns)] };
    let failure = suite::run_seeds(SEEDS, &gang_with(Bug::None), &alone).unwrap_err();
    assert_eq!(failure.invariant, EveryJobRuns.name());
}

#[test]
fn same_state_catches_forgotten_rows() {
    catches(Bug::ForgetsRows, || SameState);
}

#[test]
fn columns_disjoint_catches_guests_where_others_run() {
    catches(Bug::RunsEverywhere, || ColumnsDisjoint);
}

#[test]
fn memory_within_catches_uncounted_memory() {
    catches(Bug::IgnoresMemory, || MemoryWithin);
}

#[test]
fn somebody_runs_catches_an_empty_active_row() {
    catches(Bug::LeavesEmptyRowActive, || SomebodyRuns);
}

#[test]
fn rows_within_limit_catches_a_row_too_many() {
    catches(Bug::IgnoresLimit, || RowsWithinLimit(limit(3)));
}

#[test]
fn columns_returned_catches_lost_columns() {
    catches(Bug::LosesColumns, || ColumnsReturned(Held::RoundedUp));
}

#[test]
fn columns_returned_catches_rounding_up_of_exact_pes() {
    let alone = || -> Vec<Box<dyn Invariant>> { vec![Box::new(ColumnsReturned(Held::Exactly))] };
    assert!(suite::run_seeds(SEEDS, &gang_with(Bug::None), &alone).is_err());
}

#[test]
fn reasons_true_catches_an_invented_reason() {
    catches(Bug::InventsReasons, || ReasonsTrue);
}

#[test]
fn refuses_what_does_not_fit_catches_silence() {
    catches(Bug::SwallowsErrors, || RefusesWhatDoesNotFit);
}

#[test]
fn no_mutant_of_space_sharing_passes_the_whole_suite() {
    for bug in [
        Bug::SwapsStarts,
        Bug::StartsAllOnFirstPes,
        Bug::ForgetsNodesDown,
        Bug::ForgetsEnds,
        Bug::LooksLate,
        Bug::LosesColumns,
        Bug::InventsReasons,
        Bug::SwallowsErrors,
        Bug::LiesAboutActiveRow,
        Bug::IgnoresNodeCount,
    ] {
        let make = |machine| -> Box<dyn Policy> {
            let inner = Box::new(Fcfs::new(machine));
            Box::new(Mutant { bug, inner, late: None, held_back: None })
        };
        let passed = suite::run_seeds(SEEDS, &make, &suite::space_sharing);
        assert!(passed.is_err(), "{bug:?} passes");
    }
}

/// A mistake that a backfilling policy could make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BackfillBug {
    /// No mistake.
    None,
    /// The head has no reservation.
    ForgetsHead,
    /// Every job gets the PEs to spare.
    SparesTwice,
    /// A job that starts before the head can may pass.
    ConfusesStartAndEnd,
    /// If any PE is spare, every job may start.
    SparesMore,
    /// The pass ends with the first job that does not fit.
    NeverPasses,
}

/// EASY with one mistake.
struct BrokenBackfill(BackfillBug);

impl Discipline for BrokenBackfill {
    fn name(&self) -> &'static str {
        "broken-backfill"
    }

    fn passing(&self) -> Passing {
        Passing::Harmless
    }

    fn decide(&mut self, space: &mut Space, news: &[News]) {
        if !space.is_worth_a_pass(news) {
            return;
        }
        let bug = self.0;
        let mut reservation: Option<Shadow> = None;
        space.offer(Order::Queue, |job| {
            let Some(shadow) = &mut reservation else {
                if job.fits() {
                    return Verdict::Start;
                }
                if bug != BackfillBug::ForgetsHead {
                    reservation = job.shadow();
                }
                let stop = bug == BackfillBug::NeverPasses;
                return if stop { Verdict::Stop } else { Verdict::Wait };
            };
            let admits = match bug {
                BackfillBug::SparesTwice => { *shadow }.admits(job),
                BackfillBug::ConfusesStartAndEnd => job.now() <= shadow.at(),
                BackfillBug::SparesMore => shadow.spare_pes() > 0 || shadow.admits(job),
                BackfillBug::None | BackfillBug::ForgetsHead | BackfillBug::NeverPasses => {
                    shadow.admits(job)
                }
            };
            if job.fits() && admits { Verdict::Start } else { Verdict::Wait }
        });
    }
}

fn backfill_with(bug: BackfillBug) -> impl Fn(Machine) -> Box<dyn Policy> {
    move |machine| {
        let params = PolicyParams::default();
        Box::new(SpaceSharing::under(BrokenBackfill(bug), machine, &params))
    }
}

#[test]
fn head_not_delayed_catches_jobs_that_pass_and_delay() {
    let alone = || -> Vec<Box<dyn Invariant>> { vec![Box::new(HeadNotDelayed::default())] };
    for bug in [BackfillBug::None, BackfillBug::NeverPasses] {
        let passed = suite::run_seeds(SEEDS, &backfill_with(bug), &alone);
        passed.unwrap_or_else(|failure| panic!("{bug:?} is blamed: {failure}: {}", failure.why));
    }
    for bug in [
        BackfillBug::ForgetsHead,
        BackfillBug::SparesTwice,
        BackfillBug::ConfusesStartAndEnd,
        BackfillBug::SparesMore,
    ] {
        let passed = suite::run_seeds(SEEDS, &backfill_with(bug), &alone);
        assert!(passed.is_err(), "{bug:?} passes");
    }
}

#[test]
fn shortest_first_catches_queue_order() {
    let alone = || -> Vec<Box<dyn Invariant>> { vec![Box::new(ShortestFirst)] };
    let fcfs = |machine| -> Box<dyn Policy> { Box::new(Fcfs::new(machine)) };
    assert!(suite::run_seeds(SEEDS, &fcfs, &alone).is_err());
}

#[test]
fn no_mutant_of_backfilling_passes_the_whole_suite() {
    for bug in [
        Bug::StartsAllOnFirstPes,
        Bug::ForgetsNodesDown,
        Bug::ForgetsEnds,
        Bug::LooksLate,
        Bug::LosesColumns,
        Bug::InventsReasons,
        Bug::SwallowsErrors,
        Bug::LiesAboutActiveRow,
        Bug::IgnoresNodeCount,
    ] {
        let make = |machine| -> Box<dyn Policy> {
            let inner = Box::new(Easy::new(machine, &PolicyParams::default()));
            Box::new(Mutant { bug, inner, late: None, held_back: None })
        };
        let passed = suite::run_seeds(SEEDS, &make, &suite::backfilling);
        assert!(passed.is_err(), "{bug:?} passes");
    }
}
