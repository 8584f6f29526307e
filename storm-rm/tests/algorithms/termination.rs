//! Algorithms 8 and 9 (erratum 3): a job has ended when all its ranks have, not before. Reused
//! slots, dead announcers and errors in between do not matter.

use crate::anonymous::Anonymous;
use crate::cluster::{Cluster, small_plan, spawn_on};
use crate::seeds::for_seeds;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::sim::SimPrimitives;
use storm_primitives::{NodeId, NodeSet, PrimitiveError, Primitives, Runtime};
use storm_rm::message::Report;
use storm_rm::remote_queue::{Reader, Writer};
use storm_rm::termination::{
    LocalPart, Outbox, StartNews, Urgency, WatchedJobs, announce_termination, detect_started,
    detect_termination,
};
use storm_rm::{GlobalPlan, JobId, JobIncarnation, JobSlot, StepRef};

const SLOT: JobSlot = JobSlot(1);

/// Reports waiting on a node.
#[derive(Default)]
struct Waiting(VecDeque<(Report, Urgency)>);

impl Outbox for Waiting {
    fn post(&mut self, report: Report, urgency: Urgency) {
        self.0.push_back((report, urgency));
    }
}

fn part(incarnation: JobIncarnation, ranks: u32, ended: u32) -> LocalPart {
    LocalPart { slot: SLOT, incarnation, ranks, ended, announcer: false, failed: false }
}

/// The last rank of a part ends on `node`; what it posts.
fn end_all(node: &SimPrimitives, plan: &GlobalPlan, part: LocalPart) -> Vec<(Report, Urgency)> {
    let mut outbox = Waiting::default();
    let report = || over(step(1), part.incarnation);
    assert!(announce_termination(node, plan, &part, report, &mut outbox));
    outbox.0.into()
}

fn step(job: u64) -> StepRef {
    StepRef::program(JobId(job))
}

fn over(step: StepRef, incarnation: JobIncarnation) -> Report {
    Report::Terminated { step, incarnation, ranks: vec![] }
}

fn flag(node: &SimPrimitives, plan: &GlobalPlan) -> u64 {
    node.memory().load(plan.terminated(SLOT).expect("the slot exists"))
}

#[test]
fn only_the_last_rank_of_a_node_announces() {
    let plan = small_plan(1);
    let cluster = Cluster::new(0, 1, &plan.layout);
    let (node, run) = (cluster.node(1), JobIncarnation(1));
    let mut outbox = Waiting::default();
    for ended in 1..=3 {
        let last = announce_termination(
            &node,
            &plan,
            &part(run, 3, ended),
            || over(step(1), run),
            &mut outbox,
        );
        assert_eq!(last, ended == 3);
        assert_eq!(flag(&node, &plan) != 0, ended == 3);
        assert_eq!(outbox.0.len(), usize::from(ended == 3));
    }
}

#[test]
fn the_announcer_and_a_node_with_a_failure_report_at_once_the_others_later() {
    let plan = small_plan(1);
    let cluster = Cluster::new(0, 1, &plan.layout);
    for (announcer, failed, urgency) in [
        (false, false, Urgency::WhenConvenient),
        (true, false, Urgency::AtOnce),
        (false, true, Urgency::AtOnce),
        (true, true, Urgency::AtOnce),
    ] {
        let part = LocalPart { announcer, failed, ..part(JobIncarnation(1), 1, 1) };
        let posted = end_all(&cluster.node(1), &plan, part);
        assert_eq!(posted, [(over(step(1), JobIncarnation(1)), urgency)]);
    }
}

/// The ranks that still run, by node, as nobody in the algorithm can see.
type Running = Rc<RefCell<Vec<(NodeId, u32)>>>;

/// A node whose ranks end one after the other; it sends the urgent reports to the master.
fn start_node(
    cluster: &Cluster,
    plan: &GlobalPlan,
    run: JobIncarnation,
    announcer: NodeId,
    node: NodeId,
    ranks: u32,
    running: &Running,
) {
    running.borrow_mut().push((node, ranks));
    let (cluster, plan, running) = (cluster.clone(), plan.clone(), running.clone());
    let node = cluster.network.node(node);
    spawn_on(&node.clone(), async move {
        let id = node.node();
        let mut outbox = Waiting::default();
        for ended in 1..=ranks {
            cluster.pause(&node, Duration::from_millis(3)).await;
            running.borrow_mut().retain_mut(|(at, left)| {
                *left -= u32::from(*at == id);
                *left > 0
            });
            let part = LocalPart { announcer: id == announcer, ..part(run, ranks, ended) };
            announce_termination(&node, &plan, &part, || over(step(1), run), &mut outbox);
        }
        let mut queue = Writer::new(node.clone(), plan.reports(id).expect("it may exist"));
        while let Some((report, urgency)) = outbox.0.pop_front() {
            if urgency == Urgency::AtOnce {
                let bytes = postcard::to_stdvec(&report).expect("it can be encoded");
                let sent = queue.enqueue(&NodeSet::single(NodeId::MM), bytes.into()).await;
                sent.expect("there is space");
            }
        }
    })
    .detach();
}

/// Runs a job to its end; `doomed` dies somewhere on the way. The master receives the first end by
/// a report, or a death from the network.
fn job_ends_when_all_ranks_have(seed: u64, doomed: Option<(NodeId, u64)>) {
    const NODES: u32 = 5;
    let plan = small_plan(NODES);
    let cluster = Cluster::new(seed, NODES, &plan.layout);
    let (run, running) = (JobIncarnation(1 + seed), Running::default());
    let announcer = NodeId(1 + cluster.below(u64::from(NODES)) as u32);
    for node in cluster.compute().iter() {
        let ranks = 1 + cluster.below(4) as u32;
        start_node(&cluster, &plan, run, announcer, node, ranks, &running);
    }
    let (mm, everyone, world) = (cluster.mm(), cluster.compute(), cluster.clone());
    if let Some((node, after_us)) = doomed {
        let (runtime, world) = (cluster.simulation.runtime(), cluster.clone());
        let killing = async move {
            world.simulation.runtime().sleep(Duration::from_micros(after_us)).await;
            world.kill(node);
        };
        runtime.spawn(killing).detach();
    }
    let checked = plan.clone();
    cluster.run(async move {
        wait_for_news(&mm, &plan, announcer).await;
        assert!(!has_question(&world), "a running job causes no traffic");
        let mut terminating = WatchedJobs::default();
        terminating.watch(step(1), SLOT, run, everyone);
        let ended = detect_until_ended(&mm, &plan, &mut terminating).await;
        assert_eq!(ended, [(step(1), run)]);
        assert!(terminating.is_empty());
        let alive = mm.membership().alive();
        running.borrow_mut().retain(|(node, _)| alive.contains(*node));
        assert_eq!(*running.borrow(), [], "the job is not over");
    });
    let alive = cluster.mm().membership().alive().intersection(&cluster.compute());
    for node in alive.iter() {
        assert_eq!(flag(&cluster.network.node(node), &checked), 0, "the flag of {node} is reset");
    }
}

/// Returns when the announcer reports or a node is dead.
async fn wait_for_news(mm: &SimPrimitives, plan: &GlobalPlan, announcer: NodeId) {
    let everyone = mm.membership().alive();
    let queue = plan.reports(announcer).expect("it may exist").clone();
    let (heard, reader) = (Rc::new(Cell::new(false)), mm.clone());
    let hear = heard.clone();
    let _reading = spawn_on(mm, async move {
        let item = Reader::new(reader, &queue).dequeue().await.expect("the network holds");
        let report: Report = postcard::from_bytes(&item.data).expect("it is a report");
        hear.set(matches!(report, Report::Terminated { .. }));
    });
    while !heard.get() && mm.membership().alive() == everyone {
        mm.runtime().sleep(Duration::from_micros(100)).await;
    }
}

async fn detect_until_ended(
    mm: &SimPrimitives,
    plan: &GlobalPlan,
    terminating: &mut WatchedJobs,
) -> Vec<(StepRef, JobIncarnation)> {
    for round in 1.. {
        let ended = detect_termination(mm, plan, terminating, round).await;
        let ended = ended.expect("deaths are no error");
        if !ended.is_empty() {
            return ended;
        }
        mm.runtime().sleep(Duration::from_micros(100)).await;
    }
    unreachable!("there is always another round")
}

fn has_question(cluster: &Cluster) -> bool {
    cluster.simulation.trace().entries().iter().any(|entry| entry.what.contains("compare"))
}

#[test]
fn a_job_ends_when_all_its_ranks_have_also_those_of_the_announcer_last() {
    for_seeds(300, |seed| job_ends_when_all_ranks_have(seed, None));
}

#[test]
fn a_death_anywhere_does_not_keep_a_job_from_ending() {
    for_seeds(400, |seed| {
        let node = NodeId(1 + seed as u32 % 5);
        job_ends_when_all_ranks_have(seed, Some((node, seed * 37 % 16_000)));
    });
}

#[test]
fn a_job_whose_nodes_are_all_dead_has_ended() {
    let plan = small_plan(3);
    let cluster = Cluster::new(2, 3, &plan.layout);
    let (mm, everyone, world) = (cluster.mm(), cluster.compute(), cluster.clone());
    cluster.run(async move {
        everyone.iter().for_each(|node| world.kill(node));
        let mut terminating = WatchedJobs::default();
        terminating.watch(step(1), SLOT, JobIncarnation(1), everyone);
        let ended = detect_until_ended(&mm, &plan, &mut terminating).await;
        assert_eq!(ended, [(step(1), JobIncarnation(1))]);
    });
}

/// Job 1 is given up while some of its flags are set: its node died and it returned to the queue.
/// Job 2 runs in its slot as `second`. Returns whether job 2 is taken for ended, or for started,
/// before it is.
fn stale_flag_is_seen(seed: u64, second: JobIncarnation) -> bool {
    let plan = small_plan(4);
    let cluster = Cluster::new(seed, 4, &plan.layout);
    let first = JobIncarnation(1);
    for node in cluster.compute().iter() {
        end_all(&cluster.network.node(node), &plan, part(first, 1, 1));
    }
    let last = cluster.node(1 + cluster.below(4) as u32);
    let (mm, everyone, world) = (cluster.mm(), cluster.compute(), cluster.clone());
    cluster.run(async move {
        let mut terminating = WatchedJobs::default();
        terminating.watch(step(1), SLOT, first, everyone.clone());
        terminating.remove(step(1));
        terminating.watch(step(2), SLOT, second, everyone.clone());
        let early = detect_termination(&mm, &plan, &mut terminating, 1).await.expect("no fault");
        if !early.is_empty() {
            return true;
        }
        for node in everyone.iter().filter(|node| *node != last.node()) {
            end_all(&world.network.node(node), &plan, part(second, 1, 1));
            let ended = detect_termination(&mm, &plan, &mut terminating, 1).await;
            assert_eq!(ended, Ok(vec![]), "{} has not ended", last.node());
        }
        end_all(&last, &plan, part(second, 1, 1));
        let ended = detect_termination(&mm, &plan, &mut terminating, 1).await;
        assert_eq!(ended, Ok(vec![(step(2), second)]));
        false
    })
}

#[test]
fn erratum_3_a_flag_of_an_earlier_run_in_the_slot_is_not_seen() {
    for_seeds(50, |seed| assert!(!stale_flag_is_seen(seed, JobIncarnation(2))));
}

/// A plain TRUE (the paper's), or runs counted per job, cannot distinguish the jobs: the check
/// above must notice.
#[test]
fn erratum_3_runs_that_share_a_number_are_caught() {
    for_seeds(50, |seed| assert!(stale_flag_is_seen(seed, JobIncarnation(1))));
}

#[test]
fn started_waits_for_every_node_of_this_run() {
    for_seeds(50, |seed| {
        let plan = small_plan(3);
        let cluster = Cluster::new(seed, 3, &plan.layout);
        let started = plan.started(SLOT).expect("the slot exists");
        let (mm, everyone, world) = (cluster.mm(), cluster.compute(), cluster.clone());
        let mut last = Duration::ZERO;
        for node in cluster.compute().iter() {
            let node = cluster.network.node(node);
            // The flag that the last run in this slot left.
            node.memory().store(started, 4);
            let after = Duration::from_micros(cluster.below(20_000));
            last = last.max(after);
            spawn_on(&node.clone(), async move {
                node.runtime().sleep(after).await;
                node.memory().store(started, 5);
            })
            .detach();
        }
        cluster.run(async move {
            let mut starting = WatchedJobs::default();
            let news = async |starting: &WatchedJobs| {
                for round in 1.. {
                    let news = detect_started(&mm, &plan, starting, round).await.expect("answered");
                    if !news.is_empty() {
                        return news;
                    }
                    mm.runtime().sleep(Duration::from_micros(500)).await;
                }
                Vec::new()
            };
            starting.watch(step(1), SLOT, JobIncarnation(5), everyone.clone());
            let started = (step(1), JobIncarnation(5), StartNews::Started);
            assert_eq!(news(&starting).await, [started]);
            assert!(mm.runtime().now().since_origin() >= last);
            world.kill(NodeId(2));
            starting.watch(step(1), SLOT, JobIncarnation(6), everyone);
            // Node 3 never starts run 6: the death must be noticed all the same.
            let dead = (step(1), JobIncarnation(6), StartNews::NodeDead);
            assert_eq!(news(&starting).await, [dead]);
        });
    });
}

/// A regression: the question that found job 1 over resets its flags. An error in the question for
/// job 2 must therefore not lose the end of job 1.
#[test]
fn an_error_with_one_job_does_not_lose_another_that_ended() {
    let plan = small_plan(2);
    let cluster = Cluster::new(3, 2, &plan.layout);
    let (mm, world) = (Anonymous::new(cluster.mm()), cluster.clone());
    end_all(&cluster.node(1), &plan, part(JobIncarnation(1), 1, 1));
    cluster.run(async move {
        world.kill(NodeId(2));
        let mut terminating = WatchedJobs::default();
        let (well, dead) = (NodeSet::single(NodeId(1)), NodeSet::single(NodeId(2)));
        terminating.watch(step(1), SLOT, JobIncarnation(1), well);
        terminating.watch(step(2), JobSlot(2), JobIncarnation(2), dead.clone());
        let ended = detect_termination(&mm, &plan, &mut terminating, 1).await;
        assert_eq!(ended, Ok(vec![(step(1), JobIncarnation(1))]));
        let error = detect_termination(&mm, &plan, &mut terminating, 1).await;
        assert_eq!(error, Err(PrimitiveError::TimedOut { nodes: dead.clone() }));
        terminating.nodes_died(&dead);
        let ended = detect_termination(&mm, &plan, &mut terminating, 1).await;
        assert_eq!(ended, Ok(vec![(step(2), JobIncarnation(2))]));
    });
}

/// A regression: a node did not answer. The jobs behind that node's job were not polled again until
/// the node was known to be dead.
#[test]
fn a_job_whose_node_does_not_answer_holds_up_no_other() {
    let plan = small_plan(2);
    let cluster = Cluster::new(4, 2, &plan.layout);
    let (mm, world) = (Anonymous::new(cluster.mm()), cluster.clone());
    let (first, second) = (JobIncarnation(1), JobIncarnation(2));
    let checked = plan.clone();
    let well = cluster.network.node(NodeId(1));
    cluster.run(async move {
        world.kill(NodeId(2));
        let (alive, dead) = (NodeSet::single(NodeId(1)), NodeSet::single(NodeId(2)));
        let mut terminating = WatchedJobs::default();
        terminating.watch(step(1), SLOT, first, dead.clone());
        terminating.watch(step(2), JobSlot(2), second, alive.clone());
        // The manager does likewise: jobs may be added and removed meanwhile.
        let error = detect_termination(&mm, &plan, &mut terminating.clone(), 1).await;
        assert_eq!(error, Err(PrimitiveError::TimedOut { nodes: dead.clone() }));
        let part = LocalPart { slot: JobSlot(2), ..part(second, 1, 1) };
        end_all(&well, &plan, part);
        let ended = detect_termination(&mm, &plan, &mut terminating.clone(), 2).await;
        assert_eq!(ended, Ok(vec![(step(2), second)]));
        let mut starting = WatchedJobs::default();
        starting.watch(step(3), SLOT, first, dead.clone());
        starting.watch(step(4), JobSlot(2), second, alive);
        let error = detect_started(&mm, &plan, &starting, 1).await;
        assert_eq!(error, Err(PrimitiveError::TimedOut { nodes: dead }));
        let started = checked.started(JobSlot(2)).expect("the slot exists");
        well.memory().store(started, 2);
        let news = detect_started(&mm, &plan, &starting, 2).await;
        assert_eq!(news, Ok(vec![(step(4), second, StartNews::Started)]));
    });
}
