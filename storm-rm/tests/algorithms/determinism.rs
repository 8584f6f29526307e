//! One seed fixes everything: a long mixed scenario has the same trace twice, byte for byte, and
//! another trace for another seed.

use crate::cluster::{Cluster, small_plan};
use crate::file::{Disks, Sender, content, start_receivers};
use crate::seeds::for_seeds;
use std::time::Duration;
use storm_primitives::{NodeId, NodeSet, Primitives, Runtime};
use storm_rm::failure_detection::isolate_failed;
use storm_rm::termination::{LocalPart, Outbox, Urgency, WatchedJobs};
use storm_rm::{JobId, JobIncarnation, JobSlot, StepRef};

struct Nowhere;

impl Outbox for Nowhere {
    fn post(&mut self, _: storm_rm::message::Report, _: Urgency) {}
}

/// Transfers, deaths, a return, failure detection and the end of a job; the
/// trace as text.
fn mixed_scenario(seed: u64) -> String {
    let plan = small_plan(6);
    let cluster = Cluster::new(seed, 6, &plan.layout);
    let disks = Disks::default();
    start_receivers(&cluster, &plan, &disks);
    for _ in 0..2 {
        let doomed = NodeId(1 + cluster.below(6) as u32);
        cluster.network.kill_after(doomed, 20 + cluster.below(200));
    }
    let (mut sender, world) = (Sender::new(&cluster, &plan), cluster.clone());
    cluster.run(async move {
        let mm = sender.mm.clone();
        for number in 0..6 {
            let file = content(seed + number, world.below(800) as usize);
            let set = world.some_nodes().intersection(&mm.membership().alive());
            let outcome = sender.send(&set, &file).await.map(drop);
            world.simulation.trace().record(mm.runtime().now(), NodeId::MM, format!("{outcome:?}"));
        }
        let everyone = world.compute();
        let isolated = isolate_failed(&mm, &plan, &everyone, 6).await;
        world.simulation.trace().record(mm.runtime().now(), NodeId::MM, format!("{isolated:?}"));
        if let Some(dead) = everyone.difference(&mm.membership().alive()).first() {
            world.network.rejoin(dead);
        }
        end_a_job(&world, &plan, everyone).await;
    });
    cluster.simulation.trace().to_text()
}

async fn end_a_job(world: &Cluster, plan: &storm_rm::GlobalPlan, nodes: NodeSet) {
    let (mm, run) = (world.mm(), JobIncarnation(1));
    let mut terminating = WatchedJobs::default();
    terminating.watch(StepRef::program(JobId(1)), JobSlot(0), run, nodes.clone());
    for node in nodes.iter() {
        world.pause(&mm, Duration::from_millis(1)).await;
        let (slot, incarnation) = (JobSlot(0), run);
        let (announcer, failed) = (false, false);
        let part = LocalPart { slot, incarnation, ranks: 1, ended: 1, announcer, failed };
        let report = || storm_rm::message::Report::Terminated {
            step: StepRef::program(JobId(1)),
            incarnation: run,
            ranks: vec![],
        };
        let node = world.network.node(node);
        storm_rm::termination::announce_termination(&node, plan, &part, report, &mut Nowhere);
        let asked = storm_rm::termination::detect_termination(&mm, plan, &mut terminating, 1).await;
        let what = format!("{asked:?}");
        world.simulation.trace().record(mm.runtime().now(), NodeId::MM, what);
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for_seeds(30, |seed| {
        let trace = mixed_scenario(seed);
        assert!(trace.lines().count() > 200, "the scenario is long");
        assert!(trace == mixed_scenario(seed), "two runs of seed {seed} differ");
        assert!(trace != mixed_scenario(seed + 1), "the seed has no effect");
    });
}
