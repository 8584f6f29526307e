//! Output that was read before a node joined again: it arrives whole, before the end of its job is
//! reported.

use crate::support::{World, launch_on, ms, scenario_after};
use bytes::Bytes;
use std::rc::Rc;
use storm_nm::modelled::{Model, ModelledHost, Script, Step};
use storm_nm::{Host, JobKey, JobTask};
use storm_primitives::sim::SimRuntime;
use storm_primitives::{NodeId, NodeSet};
use storm_rm::message::{Command, CutLaunch, NodeReturn, Report, ResumedJob, Stream};
use storm_rm::{
    Coscheduling, JobId, JobIncarnation, JobSlot, PartitionId, Rank, Row, RowSet, StepId, StepRef,
};

const JOB: JobId = JobId(1);
const STEP: StepRef = StepRef { job: JOB, step: StepId::Number(0) };
const RUN: JobIncarnation = JobIncarnation(1);
const SAID: &[u8] = b"all that it said";

/// Nodes whose keepers keep jobs. A rank writes, and works for this time.
fn model(works_ms: u64) -> Model {
    let steps = move |_: &storm_nm::modelled::RankContext<'_>| {
        let said = Step::Write(Stream::Stdout, Bytes::from_static(SAID));
        Script::of(vec![said, Step::Compute(ms(works_ms))])
    };
    let returns = NodeReturn { within_ms: 60_000, leased_within_ms: 5_000 };
    Model { program: Rc::new(steps), returns: Some(returns), ..Model::default() }
}

/// A former node manager launches a job, reads a part of its output, and ends.
async fn former(host: &ModelledHost<SimRuntime>, kept: bool) {
    host.manager_begins();
    let launch = launch_on(&NodeSet::single(NodeId(1)), JOB.0, RowSet::ALL);
    let task = Rc::new(JobTask::of_node(Rc::new(launch), NodeId(1)).expect("it has ranks here"));
    host.launch(&task, false);
    for rank in task.ranks() {
        let read = host.read_output(task.key(), rank, Stream::Stdout, 8).await;
        assert_eq!(read.as_deref(), Some(&SAID[..8]));
    }
    if !kept {
        host.keep_in_part(task.key());
    }
    host.manager_ends();
    host.manager_begins();
}

async fn keeps(host: &ModelledHost<SimRuntime>) {
    former(host, true).await;
}

async fn keeps_in_part(host: &ModelledHost<SimRuntime>) {
    former(host, false).await;
}

fn resumed(hold_output: bool) -> ResumedJob {
    ResumedJob {
        step: STEP,
        incarnation: RUN,
        slot: JobSlot(1),
        partition: PartitionId(0),
        rows: RowSet::ALL,
        active_row: Row(0),
        coscheduling: Coscheduling::Strobed,
        hold_output,
    }
}

/// Waits for the end of the job. Checks that all output arrived before, and each byte once.
async fn all_came(world: &World, said: &[u8]) {
    world.exits_of(JOB.0).await;
    for rank in [0, 1] {
        assert_eq!(world.output_of(rank, Stream::Stdout), said, "rank {rank}");
    }
    let reports = world.reports();
    let end = reports.iter().position(|(_, one)| matches!(one, Report::Terminated { .. }));
    let last = reports.iter().rposition(|(_, one)| matches!(one, Report::Output { .. }));
    assert!(last < end, "{reports:?}");
}

/// Regression: the node posted the output before it joined, and dropped it when it joined.
#[test]
fn output_of_a_job_that_cannot_continue_arrives() {
    let body = |hold| {
        move |world: Rc<World>| async move {
            world.sleep(ms(50)).await;
            *world.resumed.borrow_mut() = vec![resumed(hold)];
            world.say(Vec::new()).await;
            let told = |_, report: &Report| match report {
                Report::LaunchCut { step, incarnation, cut } => Some((*step, *incarnation, *cut)),
                _ => None,
            };
            assert_eq!(world.until(told).await, (STEP, RUN, CutLaunch::NotKept));
            // The keeper closed the pipes with what was not read.
            all_came(&world, SAID).await;
        }
    };
    for hold in [false, true] {
        scenario_after(keeps_in_part, 90, 1, model(1_000), body(hold));
    }
}

#[test]
fn output_of_a_job_that_has_ended_meanwhile_arrives_before_its_end() {
    let body = |hold| {
        move |world: Rc<World>| async move {
            let key = JobKey { step: STEP, incarnation: RUN };
            world.when(|| world.host(1).live_processes() == 0).await;
            world.sleep(ms(50)).await;
            *world.resumed.borrow_mut() = vec![resumed(hold)];
            world.say(Vec::new()).await;
            if hold {
                world.sleep(ms(50)).await;
                let told = world.reports();
                let is_end = |one: &Report| matches!(one, Report::Terminated { .. });
                assert!(!told.iter().any(|(_, one)| is_end(one)), "{key}: {told:?}");
                world.say(vec![Command::HoldOutput { step: STEP, hold: false }]).await;
            }
            all_came(&world, SAID).await;
        }
    };
    for hold in [false, true] {
        scenario_after(keeps, 91, 1, model(10), body(hold));
    }
}

/// Regression: it was taken for output of the next run.
#[test]
fn output_of_a_run_that_is_not_wanted_is_dropped() {
    let body = |world: Rc<World>| async move {
        world.sleep(ms(50)).await;
        world.say(Vec::new()).await;
        world.when(|| world.host(1).live_processes() == 0).await;
        world.sleep(ms(50)).await;
        assert_eq!(world.output_of(Rank(0).0, Stream::Stdout), b"");
    };
    scenario_after(keeps, 92, 1, model(1_000), body);
}

/// Regression: its output stayed held, so the job never ended here. The node kept its descriptors
/// and its directory for ever.
#[test]
fn a_job_that_has_ended_and_is_not_wanted_is_forgotten() {
    let body = |world: Rc<World>| async move {
        world.when(|| world.host(1).live_processes() == 0).await;
        world.sleep(ms(50)).await;
        world.say(Vec::new()).await;
        let key = JobKey { step: STEP, incarnation: RUN };
        world.when(|| world.host(1).kept_output(key).is_none()).await;
    };
    scenario_after(keeps, 93, 1, model(10), body);
}

/// Regression: the node waited for `leave-timeout`, and complained of processes that do not die.
#[test]
fn a_node_leaves_at_once_although_output_of_an_ended_job_is_held() {
    let body = |world: Rc<World>| async move {
        world.when(|| world.host(1).live_processes() == 0).await;
        *world.resumed.borrow_mut() = vec![resumed(true)];
        world.say(Vec::new()).await;
        world.sleep(ms(50)).await;
        world.say(vec![Command::Shutdown]).await;
        let asked_ns = world.now_ns();
        world.when(|| world.exits.borrow().contains_key(&NodeId(1))).await;
        let took_ns = u128::from(world.now_ns() - asked_ns);
        assert!(took_ns < ms(1_000).as_nanos(), "{took_ns} ns");
        assert!(world.host(1).is_clean());
    };
    scenario_after(keeps, 94, 1, model(10), body);
}
