//! Each invariant finds a wrong implementation. A bug in the daemons of a small machine breaks it.
//! Without the bug, the same machine breaks none.

use std::rc::Rc;
use std::time::Duration;
use storm_mm::job::JobEventKind;
use storm_nm::JobKey;
use storm_primitives::sim::NodeFault;
use storm_primitives::{CompareAndWrite, NodeId, Runtime};
use storm_qsnet_sim::Load;
use storm_rm::{JobId, Row};
use storm_sim::invariants::{
    CawWhole, ColumnsDisjoint, ColumnsFreed, GangStart, Invariant, NoLostJob, OwnRow, StrobeOrder,
    Untouched,
};
use storm_sim::{
    Application, Defect, JobRequest, Machine, MachineConfig, RunError, Switch, profile,
};

const SEEDS: std::ops::Range<u64> = 0..5;
const NODES: u32 = 4;
const PES: u32 = 2;
/// Virtual time: longer than a manager waits for a launch.
const LIMIT: Duration = Duration::from_secs(120);
/// The time until the last command has been obeyed.
const SETTLED: Duration = Duration::from_millis(500);
/// The node that has the bug.
const WRONG: NodeId = NodeId(2);

const LAST: JobId = JobId(4);

/// A bug put in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    /// The manager learns that a run is over when its first node is done.
    EndsEarly,
    /// A node does not start its ranks.
    StartsNothing,
    /// A node starts its ranks twice.
    StartsTwice,
    /// A job is acknowledged before its entry is durable.
    AcknowledgesAtOnce,
    /// The end of the last job is not written down.
    LosesTheEnd,
    /// A COMPARE-AND-WRITE leaves out a node.
    WritesHalf,
    /// A node obeys each strobe twice.
    ObeysTwice,
    /// A node takes a strobe for a strobe of the other row.
    MistakesTheRow,
    /// A node forgets no job.
    ForgetsNothing,
    /// A strobe does not stop the old row.
    StopsNothing,
    /// A strobe does not resume the new row.
    ResumesNothing,
    /// The next node manager of a node takes over nothing.
    TakesNothingOver,
    /// The next manager mistakes each node for the one after it, as if one were missing.
    CountsNodes,
}

impl Defect for Bug {
    fn switches(&self, node: NodeId, switch: Switch) -> Vec<Switch> {
        let Switch { strobe, stop, resume } = switch.clone();
        match self {
            Bug::StopsNothing if node == WRONG => vec![Switch { stop: Vec::new(), ..switch }],
            Bug::ResumesNothing if node == WRONG => vec![Switch { resume: Vec::new(), ..switch }],
            Bug::ObeysTwice if node == WRONG => vec![switch.clone(), switch],
            // With a single row, no row can be mistaken.
            Bug::MistakesTheRow if node == WRONG && !stop.is_empty() && !resume.is_empty() => {
                let mistaken = strobe.map(|mut strobe| {
                    strobe.row = Row(1 - strobe.row.0.min(1));
                    strobe
                });
                vec![Switch { strobe: mistaken, stop: resume, resume: stop }]
            }
            _ => vec![switch],
        }
    }

    fn launches(&self, node: NodeId, _job: JobKey) -> u32 {
        match self {
            Bug::StartsNothing if node == WRONG => 0,
            Bug::StartsTwice if node == WRONG => 2,
            _ => 1,
        }
    }

    fn forgets(&self, node: NodeId, _job: JobKey) -> bool {
        !(*self == Bug::ForgetsNothing && node == WRONG)
    }

    fn takes_over(&self, node: NodeId, _job: JobKey) -> bool {
        !(*self == Bug::TakesNothingOver && node == WRONG)
    }

    fn journals(&self, job: JobId, event: &JobEventKind) -> bool {
        match event {
            JobEventKind::Submitted { .. } => *self != Bug::AcknowledgesAtOnce,
            JobEventKind::Ended { .. } => !(*self == Bug::LosesTheEnd && job == LAST),
            _ => true,
        }
    }

    fn reads(&self, _job: JobId, event: &mut JobEventKind) {
        if let (Bug::CountsNodes, JobEventKind::Placed { ranks, .. }) = (self, event) {
            ranks.iter_mut().for_each(|share| share.node = NodeId(share.node.0 % NODES + 1));
        }
    }

    fn hears_ended(&self, truth: bool) -> bool {
        truth || *self == Bug::EndsEarly
    }

    fn leaves_unwritten(&self, question: &CompareAndWrite) -> Option<NodeId> {
        (*self == Bug::WritesHalf && question.set.contains(WRONG)).then_some(WRONG)
    }
}

fn config(seed: u64, bug: Option<Bug>) -> MachineConfig {
    let plain = profile::machine(profile::PLAIN, seed, NODES, Load::NONE).expect("it is there");
    MachineConfig {
        pes: PES,
        quantum: Duration::from_millis(5),
        mpl: 2,
        defect: bug.map(|bug| -> Rc<dyn Defect> { Rc::new(bug) }),
        ..plain
    }
}

fn job(number: u32) -> JobRequest {
    JobRequest {
        name: format!("job-{number}"),
        procs: NODES * PES,
        binary_bytes: 0,
        application: Application::Compute { time: Duration::from_millis(30) },
        requeue: false,
        fences: 0,
        partition: None,
    }
}

/// A job runs on the first nodes while the last node is removed from the configuration.
fn run_over_an_edit(seed: u64, bug: Option<Bug>) -> Result<(), RunError> {
    let machine = Machine::start(config(seed, bug)).expect("a sound machine");
    let this = machine.clone();
    machine.run(LIMIT, async move {
        this.joined(NODES).await;
        let job = this.submit(&JobRequest { procs: NODES * PES / 2, ..job(0) }).await?;
        while this.job(job).is_none_or(|times| times.started.is_none()) {
            this.runtime().sleep(Duration::from_millis(1)).await;
        }
        let mut configuration = this.configuration();
        configuration.nodes.pop();
        configuration.partitions[0].nodes.pop();
        this.kill_manager();
        this.edit(configuration);
        this.restart_manager().expect("a configuration that makes sense");
        this.all_ended().await;
        this.runtime().sleep(SETTLED).await;
        this.over();
        Ok(())
    })
}

/// A job over the whole machine. A node manager is restarted while it runs.
fn run_over_a_takeover(seed: u64, bug: Option<Bug>) -> Result<(), RunError> {
    let config = MachineConfig { hand_over: true, ..config(seed, bug) };
    let machine = Machine::start(config).expect("a sound machine");
    let this = machine.clone();
    machine.run(LIMIT, async move {
        this.joined(NODES).await;
        let job = this.submit(&job(0)).await?;
        while this.job(job).is_none_or(|times| times.started.is_none()) {
            this.runtime().sleep(Duration::from_millis(1)).await;
        }
        this.kill_node_manager(WRONG);
        this.start_node_manager(WRONG);
        this.all_ended().await;
        this.runtime().sleep(SETTLED).await;
        this.over();
        Ok(())
    })
}

/// Four jobs over the whole machine, two of them at a time.
fn run(seed: u64, bug: Option<Bug>) -> Result<(), RunError> {
    let machine = Machine::start(config(seed, bug)).expect("a sound machine");
    let this = machine.clone();
    machine.run(LIMIT, async move {
        this.joined(NODES).await;
        if bug == Some(Bug::EndsEarly) {
            // One node is slow. Otherwise a job may end everywhere at once.
            this.inflict(NodeId(NODES), NodeFault::Slow { percent: 300 });
        }
        for number in 0..4 {
            this.submit(&job(number)).await?;
        }
        this.all_ended().await;
        this.runtime().sleep(SETTLED).await;
        this.over();
        Ok(())
    })
}

/// Every seed breaks this invariant before any other.
fn finds(invariant: &dyn Invariant, bug: Bug) {
    finds_in(run, invariant, bug);
}

type Run = fn(u64, Option<Bug>) -> Result<(), RunError>;

/// Checks that the invariant finds the bug in runs of another kind.
fn finds_in(run: Run, invariant: &dyn Invariant, bug: Bug) {
    for seed in SEEDS {
        let failure = run(seed, Some(bug)).expect_err(&format!("{bug:?} passes, seed {seed}"));
        let RunError::Violation(violation) = failure else {
            panic!("{bug:?}, seed {seed}: {failure:?}");
        };
        assert_eq!(violation.invariant, invariant.name(), "{bug:?}, seed {seed}: {violation:?}");
    }
}

#[test]
fn a_machine_without_a_bug_keeps_every_promise() {
    for seed in SEEDS {
        for run in [run, run_over_an_edit, run_over_a_takeover] {
            run(seed, None).unwrap_or_else(|failure| panic!("seed {seed}: {failure:?}"));
        }
    }
}

#[test]
fn columns_disjoint_finds_elements_that_are_freed_too_early() {
    finds(&ColumnsDisjoint::new(PES), Bug::EndsEarly);
}

#[test]
fn gang_start_finds_a_node_that_does_not_start_its_ranks() {
    finds(&GangStart::default(), Bug::StartsNothing);
}

#[test]
fn gang_start_finds_a_node_that_starts_its_ranks_twice() {
    finds(&GangStart::default(), Bug::StartsTwice);
}

#[test]
fn no_lost_job_finds_an_acknowledgement_before_the_entry() {
    finds(&NoLostJob::default(), Bug::AcknowledgesAtOnce);
}

#[test]
fn caw_whole_finds_half_a_write() {
    finds(&CawWhole, Bug::WritesHalf);
}

#[test]
fn strobe_order_finds_a_strobe_that_is_obeyed_twice() {
    finds(&StrobeOrder::default(), Bug::ObeysTwice);
}

#[test]
fn strobe_order_finds_a_node_in_another_row() {
    finds(&StrobeOrder::default(), Bug::MistakesTheRow);
}

#[test]
fn columns_freed_finds_a_node_that_remembers() {
    finds(&ColumnsFreed::default(), Bug::ForgetsNothing);
}

#[test]
fn own_row_finds_an_old_row_that_runs_on() {
    finds(&OwnRow::default(), Bug::StopsNothing);
}

#[test]
fn own_row_finds_a_new_row_that_stays_stopped() {
    finds(&OwnRow::default(), Bug::ResumesNothing);
}

#[test]
fn untouched_finds_a_manager_that_confuses_nodes() {
    finds_in(run_over_an_edit, &Untouched::default(), Bug::CountsNodes);
}

#[test]
fn untouched_finds_a_node_manager_that_takes_over_nothing() {
    finds_in(run_over_a_takeover, &Untouched::default(), Bug::TakesNothingOver);
}

#[test]
fn a_lost_end_leaves_a_job_that_the_report_names() {
    match run(0, Some(Bug::LosesTheEnd)) {
        Err(RunError::Hangs { left, .. }) => {
            let names: Vec<_> = left.jobs().iter().map(|job| job.name.as_str()).collect();
            assert_eq!(names, ["job-3"]);
        }
        other => panic!("{other:?}"),
    }
}
