//! The behaviour of the middleware beyond the contract.

use std::time::Duration;
use storm_primitives::middleware::{
    Delay, DelayRange, Fault, FaultInjector, FaultPlan, TraceRecord, TracedOp, Tracer,
};
use storm_primitives::sim::{SimNetwork, SimPrimitives, Simulation};
use storm_primitives::{
    CompareAndWrite, EventId, Layout, NodeId, NodeSet, PrimitiveError, Primitives, Relation,
    Runtime, Var, Xfer,
};

struct World {
    simulation: Simulation,
    network: SimNetwork,
    var: Var<u64>,
    event: EventId,
}

fn world(seed: u64) -> World {
    let mut builder = Layout::builder();
    let (var, event) = (builder.var("var"), builder.event("event"));
    let simulation = Simulation::new(seed);
    let network = SimNetwork::new(&simulation, 3, &builder.build(), Default::default());
    World { simulation, network, var, event }
}

impl World {
    fn node(&self, id: u32) -> SimPrimitives {
        self.network.node(NodeId(id))
    }

    fn set_to(&self, value: u64) -> Xfer {
        Xfer::new(NodeSet::compute(3), self.var.addr(), value.to_ne_bytes().to_vec())
    }

    fn question(&self, value: u64) -> CompareAndWrite {
        CompareAndWrite::new(NodeSet::compute(3), self.var, Relation::Equal, value)
    }
}

#[test]
fn the_scripted_operation_fails_and_has_no_effect() {
    let world = world(1);
    let error = PrimitiveError::NodesDead { nodes: NodeSet::single(NodeId(2)) };
    let plan = FaultPlan::new().at(1, Fault::Fail(error.clone())).at(3, Fault::TimeOut);
    let node = FaultInjector::new(world.node(1), plan);
    let (first, second, third) = (world.set_to(1), world.set_to(2), world.question(1));
    let (other, var) = (world.node(3), world.var);
    let fourth = third.clone().then_write(var, 9);
    let outcome = world.simulation.run(async move {
        let first = node.xfer_and_wait(first).await;
        let second = node.xfer_and_wait(second).await;
        let third = node.compare_and_write(third).await;
        let fourth = node.compare_and_write(fourth).await;
        (first, second, third, fourth, node.issued())
    });
    let timeout = PrimitiveError::TimedOut { nodes: NodeSet::compute(3) };
    let (first, second, third, fourth, issued) = outcome.expect("no deadlock");
    assert_eq!((first, second, third, fourth), (Ok(()), Err(error), Ok(true), Err(timeout)));
    assert_eq!(issued, 4);
    assert_eq!(other.memory().load(var), 1);
}

#[test]
fn a_hidden_node_is_dead_to_one_node_until_it_is_revealed() {
    let world = world(2);
    let node = FaultInjector::new(world.node(1), FaultPlan::new());
    let (hidden, op) = (NodeId(3), world.set_to(5));
    let mm = world.node(0);
    let ((during, after, by_other), views) = world
        .simulation
        .run(async move {
            node.hide(hidden);
            let during = node.xfer_and_wait(op.clone()).await;
            let without = node.membership().alive();
            let by_other = mm.xfer_and_wait(op.clone()).await;
            node.reveal(hidden);
            let after = node.xfer_and_wait(op).await;
            ((during, after, by_other), (without, node.membership().alive()))
        })
        .expect("no deadlock");
    let dead = PrimitiveError::NodesDead { nodes: NodeSet::single(hidden) };
    assert_eq!((during, after, by_other), (Err(dead), Ok(()), Ok(())));
    let all = NodeSet::range(NodeId(0), NodeId(3));
    assert_eq!(views, (all.difference(&NodeSet::single(hidden)), all));
}

#[test]
fn a_real_death_shows_through_the_injector() {
    let world = world(3);
    let node = FaultInjector::new(world.node(1), FaultPlan::new());
    let network = world.network.clone();
    let alive = world.simulation.run(async move {
        network.kill(NodeId(2));
        let seen = node.membership().epoch();
        node.membership().changed(seen).await;
        node.membership().alive()
    });
    let survivors: NodeSet = [0, 1, 3].into_iter().map(NodeId).collect();
    assert_eq!(alive, Ok(survivors));
}

/// The records that a tracer keeps of a short run under `seed`.
fn traced(seed: u64, capacity: usize) -> Vec<TraceRecord> {
    let world = world(seed);
    let node = Tracer::new(world.node(1), capacity);
    let tracer = node.clone();
    let (first, event) = (world.set_to(1).signal_remote(world.event), world.event);
    let question = world.question(2);
    let bad = CompareAndWrite { var: world.var.addr().offset(3), ..world.question(0) };
    let run = world.simulation.run(async move {
        node.xfer_and_wait(first).await?;
        let answer = node.compare_and_write(question).await?;
        let refused = node.compare_and_write(bad).await;
        Ok::<_, PrimitiveError>((answer, refused.is_err(), node.test_event(event)))
    });
    assert_eq!(run, Ok(Ok((false, true, Some(Ok(()))))));
    tracer.records()
}

#[test]
fn a_tracer_remembers_arguments_outcomes_and_order() {
    let records = traced(4, 10);
    let numbers: Vec<u64> = records.iter().map(|record| record.number).collect();
    assert_eq!(numbers, [0, 1, 2, 3]);
    let result = |index: usize| records[index].outcome.as_ref().map(|end| end.result.clone());
    assert_eq!((result(0), result(1)), (Some(Ok(true)), Some(Ok(false))));
    assert!(matches!(result(2), Some(Err(PrimitiveError::Misaligned { .. }))));
    assert!(matches!(records[0].op, TracedOp::Xfer { len: 8, .. }));
    assert!(matches!(records[3].op, TracedOp::Test { .. }));
    let took = records[0].outcome.as_ref().map(|end| end.took);
    assert!(took > Some(Duration::ZERO), "virtual time passes on the network: {took:?}");
    assert!(records[1].to_string().contains("COMPARE-AND-WRITE"), "{}", records[1]);
}

#[test]
fn one_seed_gives_one_trace_and_the_ring_keeps_the_last() {
    assert_eq!(traced(5, 10), traced(5, 10));
    assert_ne!(traced(5, 10), traced(6, 10));
    assert_eq!(traced(5, 2), traced(5, 10)[2..]);
}

#[test]
fn a_delay_is_within_its_range_and_keeps_the_order() {
    let world = world(7);
    let range = DelayRange { min: Duration::from_millis(20), max: Duration::from_millis(30) };
    let node = Delay::new(world.node(1), range, 7);
    let ops: Vec<Xfer> = (1..=50).map(|value| world.set_to(value)).collect();
    let question = world.question(50);
    let runtime = world.simulation.runtime();
    let (took, last) = world
        .simulation
        .run(async move {
            let begin = runtime.now();
            ops.into_iter().for_each(|op| node.xfer_and_signal(op));
            let last = node.compare_and_write(question).await;
            (runtime.now() - begin, last)
        })
        .expect("no deadlock");
    assert_eq!(last, Ok(true));
    assert!(took >= range.min, "it left after {took:?}");
    assert!(took < range.max * 2, "delays of one node run beside each other: {took:?}");
}

#[test]
fn a_full_lane_loses_and_reorders_nothing() {
    let world = world(8);
    let range = DelayRange { min: Duration::from_secs(1), max: Duration::from_secs(1) };
    let node = Delay::new(world.node(1), range, 8);
    // More than wait in the lane.
    let ops: Vec<Xfer> =
        (1..=5_000).map(|value| world.set_to(value).signal_remote(world.event)).collect();
    let (question, event, other) = (world.question(5_000), world.event, world.node(2));
    let (last, signals) = world
        .simulation
        .run(async move {
            ops.into_iter().for_each(|op| node.xfer_and_signal(op));
            let last = node.compare_and_write(question).await;
            let signals = std::iter::from_fn(|| other.test_event(event)).count();
            (last, signals)
        })
        .expect("no deadlock");
    assert_eq!((last, signals), (Ok(true), 5_000));
}
