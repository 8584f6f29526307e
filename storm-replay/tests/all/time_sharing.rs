//! Gang scheduling in virtual time: by hand, and turns of the rotation that
//! pass at once against every edge asked about.

use std::time::Duration;

use proptest::prelude::*;
use storm_replay::{Estimates, ReplayError, ReplayOptions, Schedule, Trace};
use storm_sched::swf::LogJob;
use storm_sched::{
    Action, Event, InvariantViolation, JobId, Machine, MatrixQueue, MplLimit, PendingReason,
    Policy, PolicyParams, Quantum, Row, RowView, SchedTime, registry,
};

/// Gang scheduling that does not tell its place in the rotation.
struct Blind(Box<dyn Policy>);

impl Policy for Blind {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn handle(&mut self, now: SchedTime, event: Event) -> Vec<Action> {
        self.0.handle(now, event)
    }

    fn pending(&self) -> Vec<JobId> {
        self.0.pending()
    }

    fn running(&self) -> Vec<JobId> {
        self.0.running()
    }

    fn explain(&self, now: SchedTime, job: JobId) -> Option<PendingReason> {
        self.0.explain(now, job)
    }

    fn explain_all(&self, now: SchedTime) -> Vec<(JobId, PendingReason)> {
        self.0.explain_all(now)
    }

    fn active_row(&self) -> Option<Row> {
        self.0.active_row()
    }

    fn rows(&self) -> Vec<RowView> {
        self.0.rows()
    }

    fn running_now(&self) -> Vec<JobId> {
        self.0.running_now()
    }

    fn next_edge_needed(&self) -> bool {
        self.0.next_edge_needed()
    }

    fn quantum(&self) -> Option<Duration> {
        self.0.quantum()
    }

    fn machine(&self) -> &Machine {
        self.0.machine()
    }

    fn check(&self) -> Result<(), InvariantViolation> {
        self.0.check()
    }
}

fn gang(pes: u32, rows: u32, quantum: Duration) -> Box<dyn Policy> {
    gang_with(pes, rows, quantum, PolicyParams::default())
}

fn gang_with(pes: u32, rows: u32, quantum: Duration, params: PolicyParams) -> Box<dyn Policy> {
    let params = PolicyParams {
        quantum_us: Quantum::try_from(quantum).unwrap(),
        mpl_limit: MplLimit::try_from(rows).unwrap(),
        ..params
    };
    registry::by_name("gang", Machine::uniform(1, pes).unwrap(), &params).unwrap()
}

fn job(number: i64, submit_s: u64, run_s: u64, procs: u32) -> LogJob {
    LogJob { number, user: 1, submit_s, run_s, estimate_s: run_s, procs }
}

fn replay(pes: u32, jobs: &[LogJob], policy: &mut dyn Policy) -> Schedule {
    let trace = Trace::new(pes, jobs, Estimates::OfUsers).unwrap();
    let options = ReplayOptions { keep_busy: true, ..ReplayOptions::default() };
    let schedule = storm_replay::replay(&trace, policy, options, &mut |_| {}).unwrap();
    policy.check().unwrap();
    check_busy(&trace, &schedule);
    schedule
}

/// The busy time equals the jobs' work, and never exceeds the machine.
fn check_busy(trace: &Trace, schedule: &Schedule) {
    let work = |job: &storm_replay::TraceJob| job.run.as_nanos() * u128::from(job.procs);
    let work: u128 = trace.jobs().iter().map(work).sum();
    assert_eq!(schedule.busy.iter().map(|busy| busy.pe_ns).sum::<u128>(), work);
    assert!(schedule.busy.windows(2).all(|pair| pair[0].to == pair[1].from));
    assert!(schedule.busy.iter().all(|busy| busy.mean_pes() <= f64::from(trace.pes())));
}

fn seconds(schedule: &Schedule) -> Vec<(f64, f64)> {
    let mut starts: Vec<_> = schedule.starts.iter().collect();
    starts.sort_by_key(|start| start.job);
    let since = |time: SchedTime| time.since(SchedTime::ZERO).as_secs_f64();
    starts.into_iter().map(|start| (since(start.start), since(start.end))).collect()
}

#[test]
fn two_jobs_take_turns_and_the_longer_one_has_the_machine_to_itself_afterwards() {
    let jobs = [job(1, 0, 10, 4), job(2, 0, 25, 4)];
    let mut policy = gang(4, 2, Duration::from_secs(1));
    let schedule = replay(4, &jobs, policy.as_mut());
    // Job 1 runs in the slices that begin at 0, 2, .. 18; job 2 in the others, and from 19 on.
    assert_eq!(seconds(&schedule), [(0.0, 19.0), (0.0, 35.0)]);
    let sharing = schedule.time_sharing.unwrap();
    assert_eq!((sharing.edges, sharing.switches), (18, 18));
    assert_eq!(schedule.capacity.loss(), 0.0);
}

#[test]
fn jobs_of_different_length_never_keep_more_processors_busy_than_there_are() {
    let jobs = [job(1, 0, 100, 100), job(2, 0, 1_000, 100)];
    let schedule = replay(100, &jobs, gang(100, 8, Duration::from_secs(1)).as_mut());
    assert!(!schedule.busy.is_empty());
    assert!(schedule.busy.iter().all(|busy| busy.mean_pes() == 100.0), "{:?}", schedule.busy);
}

#[test]
fn a_moved_job_holds_its_new_processors() {
    // Jobs 1 and 3 fill a row of 4, 2 and 4 another; when 1 and 4 end, one row holds 2 and 3.
    let jobs = [job(1, 0, 4, 2), job(2, 0, 30, 2), job(3, 1, 30, 3), job(4, 1, 4, 1)];
    let params = PolicyParams {
        repack: true,
        packing: storm_sched::Packing::FirstFit,
        ..Default::default()
    };
    let mut policy = gang_with(5, 4, Duration::from_secs(1), params);
    let trace = Trace::new(5, &jobs, Estimates::OfUsers).unwrap();
    let options = ReplayOptions { keep_columns: true, ..ReplayOptions::default() };
    let schedule = storm_replay::replay(&trace, policy.as_mut(), options, &mut |_| {}).unwrap();
    let moved: Vec<_> = schedule.starts.iter().filter(|start| !start.moves.is_empty()).collect();
    assert!(!moved.is_empty(), "{:?}", schedule.starts);
    for start in &schedule.starts {
        let stays: Vec<_> = start.stays().collect();
        assert_eq!(stays.len(), 1 + start.moves.len());
        assert_eq!((stays[0].0, stays[stays.len() - 1].1), (start.start, start.end));
        assert!(stays.windows(2).all(|pair| pair[0].1 == pair[1].0));
    }
}

#[test]
fn a_year_of_slices_takes_a_moment() {
    const YEAR_S: u64 = 31_536_000;
    let jobs: Vec<LogJob> = (1..=3).map(|number| job(number, 0, YEAR_S, 8)).collect();
    let mut policy = gang(8, 8, Duration::from_millis(50));
    let schedule = replay(8, &jobs, policy.as_mut());
    let sharing = schedule.time_sharing.unwrap();
    assert!(sharing.edges > 1_800_000_000, "{sharing:?}");
    assert!(sharing.asked_edges < 100, "{sharing:?}");
    let ends: Vec<f64> = seconds(&schedule).into_iter().map(|(_, end)| end).collect();
    let whole_s = 3.0 * YEAR_S as f64;
    assert_eq!(ends[2], whole_s);
    assert!(ends.iter().all(|end| whole_s - end < 1.0), "{ends:?}");
}

#[test]
fn jobs_that_can_never_start_are_reported() {
    let trace = Trace::new(4, &[job(9, 3, 5, 2)], Estimates::OfUsers).unwrap();
    // A node that takes no work: the job would wait for ever.
    let mut policy = gang(4, 2, Duration::from_secs(1));
    policy.handle(SchedTime::ZERO, Event::NodeDown(storm_sched::NodeIndex(0)));
    let options = ReplayOptions::default();
    let stuck = storm_replay::replay(&trace, policy.as_mut(), options, &mut |_| {});
    assert_eq!(stuck, Err(ReplayError::Stuck { waiting: 1, running: 0 }));
}

/// Jobs by when they are submitted, how long they run and their processors.
fn jobs(shapes: Vec<(u64, u64, u32)>) -> Vec<LogJob> {
    (1..)
        .zip(shapes)
        .map(|(number, (submit, run, procs))| job(number, submit, run, procs))
        .collect()
}

/// Replays with turns that pass at once and without.
fn same(
    pes: u32,
    jobs: &[LogJob],
    rows: u32,
    quantum: Duration,
    params: PolicyParams,
) -> Result<(), TestCaseError> {
    let fast = replay(pes, jobs, gang_with(pes, rows, quantum, params).as_mut());
    let slow = replay(pes, jobs, &mut Blind(gang_with(pes, rows, quantum, params)));
    prop_assert_eq!(&fast.starts, &slow.starts);
    prop_assert_eq!(&fast.capacity, &slow.capacity);
    let (fast, slow) = (fast.time_sharing.unwrap(), slow.time_sharing.unwrap());
    prop_assert_eq!((fast.edges, fast.switches), (slow.edges, slow.switches));
    prop_assert!(fast.asked_edges <= slow.asked_edges);
    Ok(())
}

proptest! {
    #[test]
    fn skipped_rounds_change_no_result(
        shapes in prop::collection::vec((0..60_u64, 1..80_u64, 1..9_u32), 1..14),
        rows in 1..5_u32,
        quantum_ms in prop_oneof![Just(1_000_u64), Just(700), Just(3_000), Just(333)],
        (backfills, alternates, unifies) in any::<(bool, bool, bool)>(),
    ) {
        // Backfilling rests on how long each job has run.
        let queue = if backfills { MatrixQueue::Easy } else { MatrixQueue::Fcfs };
        let params = PolicyParams {
            queue,
            alternative_scheduling: alternates,
            unification: unifies,
            ..PolicyParams::default()
        };
        same(8, &jobs(shapes), rows, Duration::from_millis(quantum_ms), params)?;
    }
}

proptest! {
    // Each case asks about up to ten thousand slice ends.
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn rows_with_different_cycles_reach_their_places(
        shapes in prop::collection::vec((0..90_u64, 1..300_u64, 1..9_u32), 12..30),
        rows in 3..8_u32,
        queue in prop_oneof![Just(MatrixQueue::Easy), Just(MatrixQueue::Fcfs)],
    ) {
        // Small jobs and many rows: guests of each row take turns, few with few, many with many.
        let params = PolicyParams { queue, unification: false, ..PolicyParams::default() };
        same(16, &jobs(shapes), rows, Duration::from_millis(333), params)?;
    }
}
