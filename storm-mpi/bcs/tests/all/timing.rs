//! The times of buffered coscheduling on the simulated QsNet, and the behaviour of a machine with
//! dying nodes.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use storm_bcs::modelled::{
    DirectMachine, Exchange, Machine, ModelledRank, Peer, Place, Stencil, ping_pong,
};
use storm_bcs::{BcsConfig, BcsError, Collective, JobKey, Number, Outcome, Reduction};
use storm_mpi::{Rank, ReduceOp};
use storm_primitives::sim::{Fabric, Simulation};
use storm_primitives::{Instant, NodeId, Runtime};
use storm_qsnet_sim::Profile;

pub(crate) fn qsnet(nodes: u32) -> Rc<dyn Fabric> {
    let profile = Profile::builtin("es40-qsnet").expect("built in");
    let machine = storm_qsnet_sim::Machine::new(profile, nodes).expect("small");
    machine.fabric().expect("a built-in profile makes sense")
}

fn simulation(seed: u64) -> Simulation {
    let simulation = Simulation::new(seed);
    simulation.trace().silence(true);
    simulation
}

/// Ranks one to a node, all on the same processing element of each.
fn one_per_node(nodes: u32) -> Vec<Place> {
    (1..=nodes).map(|node| Place { node: NodeId(node), pe: 0 }).collect()
}

/// Runs a program on each rank, and returns when the last has ended.
async fn all<R, F: Future<Output = ()> + 'static>(
    runtime: impl Runtime,
    ranks: Vec<R>,
    run: impl Fn(R, Rc<Cell<usize>>) -> F,
) -> Duration {
    let left = Rc::new(Cell::new(ranks.len()));
    let began = runtime.now();
    let tasks: Vec<_> =
        ranks.into_iter().map(|rank| runtime.spawn(run(rank, left.clone()))).collect();
    while left.get() > 0 {
        runtime.sleep(Duration::from_micros(100)).await;
    }
    drop(tasks);
    runtime.now() - began
}

fn ping_pongs(seed: u64, think: Duration, rounds: u32) -> Vec<f64> {
    let simulation = simulation(seed);
    let config = BcsConfig::default();
    let machine = Machine::new(&simulation, 2, qsnet(2), config);
    let strobing = machine.strobe();
    let ranks = machine.launch(JobKey(1), &one_per_node(2));
    let sent = Rc::new(Cell::new(Instant::ORIGIN));
    let slices = Rc::new(RefCell::new(Vec::new()));
    let (times, world) = (slices.clone(), simulation.clone());
    let runtime = simulation.runtime();
    let done = simulation.run(all(runtime, ranks, move |rank, left| {
        let (sent, times, world) = (sent.clone(), times.clone(), world.clone());
        let depart = sent.clone();
        async move {
            let think_ns = think.as_nanos() as u64;
            let random = || Duration::from_nanos(world.random_below(think_ns + 1));
            let note = |now: Instant| {
                let took = (now - sent.get()).as_secs_f64();
                times.borrow_mut().push(took / config.slice.as_secs_f64());
            };
            let ended = ping_pong(&rank, rounds, 8, random, |now| depart.set(now), note).await;
            assert_eq!(ended, Ok(()));
            left.set(left.get() - 1);
        }
    }));
    done.expect("no deadlock");
    let strobing = strobing.borrow();
    assert_eq!((strobing.late, &strobing.failed), (0, &None), "slices are kept, seed {seed}");
    slices.take()
}

#[test]
fn a_blocking_message_takes_one_to_two_slices_and_one_and_a_half_on_average() {
    // A rank that computes for any part of a slice sends at any moment of a slice.
    let times = ping_pongs(11, BcsConfig::default().slice, 2000);
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    let shortest = times.iter().copied().fold(f64::INFINITY, f64::min);
    let longest = times.iter().copied().fold(0.0, f64::max);
    assert_eq!(times.len(), 4000);
    println!("{shortest:.4} to {longest:.4} slices, {mean:.4} on average");
    // The strobe of one slice may reach a node some microseconds later than that of another. A
    // notice of news may reach the manager just after the next edge has passed.
    assert!(shortest > 0.99 && longest < 2.04, "{shortest} to {longest} slices");
    assert!((mean - 1.5).abs() < 0.05 * 1.5, "{mean} slices on average");
    // A rank that sends at once when its slice begins waits for that slice and the next.
    let times = ping_pongs(12, Duration::ZERO, 200);
    let later = &times[1..];
    assert!(later.iter().all(|time| (1.95..2.01).contains(time)), "{times:?}");
}

fn stencil_times(stencil: Stencil) -> (Duration, Duration) {
    let ranks = stencil.columns * stencil.rows;
    let places = one_per_node(ranks);
    let simulation = self::simulation(3);
    let machine = Machine::new(&simulation, ranks, qsnet(ranks), BcsConfig::default());
    let strobing = machine.strobe();
    let job = machine.launch(JobKey(1), &places);
    let runtime = simulation.runtime();
    let buffered = simulation.run(all(runtime, job, move |rank, left| async move {
        assert_eq!(stencil.run(&rank).await, Ok(()));
        left.set(left.get() - 1);
    }));
    assert_eq!(strobing.borrow().late, 0, "slices are kept");
    let simulation = self::simulation(3);
    let machine = DirectMachine::new(&simulation, ranks, qsnet(ranks), &places, 1 << 20);
    let runtime = simulation.runtime();
    let direct = simulation.run(all(runtime, machine.ranks(), move |rank, left| async move {
        assert_eq!(stencil.run(&rank).await, Ok(()));
        left.set(left.get() - 1);
    }));
    (buffered.expect("no deadlock"), direct.expect("no deadlock"))
}

#[test]
fn a_stencil_that_does_not_block_is_as_fast_as_directly() {
    let stencil = Stencil {
        columns: 4,
        rows: 4,
        steps: 200,
        granularity: Duration::from_millis(2),
        border_bytes: 4096,
        exchange: Exchange::NonBlocking,
    };
    let (buffered, direct) = stencil_times(stencil);
    let slowdown = buffered.as_secs_f64() / direct.as_secs_f64() - 1.0;
    println!("non-blocking: {buffered:?} buffered, {direct:?} directly: {slowdown:.4}");
    assert!(slowdown < 0.02, "{buffered:?} buffered, {direct:?} directly");
    let blocking = Stencil { exchange: Exchange::Blocking, ..stencil };
    let (buffered, direct) = stencil_times(blocking);
    println!("blocking: {buffered:?} buffered, {direct:?} directly");
    // Each step has four exchanges of two slices each, one after the other.
    assert!(buffered > direct * 2, "{buffered:?} buffered, {direct:?} directly");
}

/// A job whose ranks mostly wait: they exchange, and compute a little.
fn talker(rank: ModelledRank, left: Rc<Cell<usize>>) -> impl Future<Output = ()> {
    let stencil = Stencil {
        columns: 2,
        rows: 2,
        steps: 100,
        granularity: Duration::from_micros(100),
        border_bytes: 1024,
        exchange: Exchange::Blocking,
    };
    async move {
        assert_eq!(stencil.run(&rank).await, Ok(()));
        rank.leave();
        left.set(left.get() - 1);
    }
}

#[test]
fn two_jobs_that_mostly_wait_end_sooner_together_than_one_after_the_other() {
    let time = |jobs: u64| {
        let simulation = simulation(5);
        let machine = Machine::new(&simulation, 4, qsnet(4), BcsConfig::default());
        let _strobing = machine.strobe();
        let places = one_per_node(4);
        let launch = |job| machine.launch(JobKey(job), &places);
        let ranks: Vec<ModelledRank> = (0..jobs).flat_map(launch).collect();
        let ended = simulation.run(all(simulation.runtime(), ranks, talker));
        ended.expect("no deadlock").as_secs_f64()
    };
    let (one, two) = (time(1), time(2));
    println!(
        "one {one:.4} s, two at once {two:.4} s: {:.2} of one after the other",
        two / one / 2.0
    );
    assert!(two < 1.5 * one, "one {one} s, two at once {two} s");
}

#[test]
fn collectives_take_a_slice_like_messages() {
    let simulation = simulation(9);
    let machine = Machine::new(&simulation, 16, qsnet(16), BcsConfig::default());
    let _strobing = machine.strobe();
    let ranks = machine.launch(JobKey(1), &one_per_node(16));
    let took = simulation.run(all(simulation.runtime(), ranks, |rank, left| async move {
        for step in 0..50u64 {
            assert_eq!(rank.collective(Collective::Barrier).await, Ok(Outcome::Done));
            let data = (u64::from(rank.rank().0) + step).to_ne_bytes().to_vec();
            let reduction = Reduction { op: ReduceOp::Sum, number: Number::U64 };
            let sum = Collective::Reduce { data: data.into(), reduction, root: None };
            let expected = (120 + 16 * step).to_ne_bytes().to_vec();
            assert_eq!(rank.collective(sum).await, Ok(Outcome::Data(expected)));
        }
        left.set(left.get() - 1);
    }));
    // 100 collectives, each posted when a slice begins, and each done when the next slice but one
    // begins.
    let took = took.expect("no deadlock");
    let slices = took.as_secs_f64() / BcsConfig::default().slice.as_secs_f64();
    assert!((195.0..206.0).contains(&slices), "{slices} slices");
}

#[test]
fn a_dead_node_ends_its_jobs_and_the_slices_go_on_without_it() {
    for seed in 0..60 {
        let simulation = simulation(seed);
        let machine = Machine::new(&simulation, 4, qsnet(4), BcsConfig::default());
        let strobing = machine.strobe();
        let hit = machine.launch(JobKey(1), &one_per_node(4));
        let spared: Vec<Place> = one_per_node(2);
        let spared = machine.launch(JobKey(2), &spared);
        let ended = Rc::new(Cell::new(0));
        let heard = Rc::new(RefCell::new(Vec::new()));
        for rank in hit {
            let heard = heard.clone();
            rank.run(|rank| async move {
                // Most slices are in the middle of a reduction, which waits for the dead node.
                let reduction = Reduction { op: ReduceOp::Sum, number: Number::F64 };
                let error = loop {
                    let data = vec![0; 64 << 10].into();
                    let sum = Collective::Reduce { data, reduction, root: None };
                    if let Err(error) = rank.collective(sum).await {
                        break error;
                    }
                };
                heard.borrow_mut().push(error);
            });
        }
        for rank in spared {
            let ended = ended.clone();
            rank.run(|rank| async move {
                for _ in 0..200 {
                    assert_eq!(rank.collective(Collective::Barrier).await, Ok(Outcome::Done));
                }
                ended.set(ended.get() + 1);
            });
        }
        let runtime = simulation.runtime();
        let moment = Duration::from_micros(20_000 + simulation.random_below(1000));
        let network = machine.network().clone();
        let both = ended.clone();
        let run = simulation.run(async move {
            runtime.sleep(moment).await;
            network.kill(NodeId(4));
            while both.get() < 2 {
                runtime.sleep(Duration::from_millis(1)).await;
            }
        });
        assert_eq!(run, Ok(()), "seed {seed}");
        assert_eq!(*heard.borrow(), vec![BcsError::NodeGone; 3], "seed {seed}");
        let strobing = strobing.borrow();
        assert_eq!(strobing.failed, None, "seed {seed}");
        let nodes = strobing.checkpoint.as_ref().map(|checkpoint| checkpoint.nodes.len());
        assert_eq!(nodes, Some(3), "seed {seed}");
    }
}

#[test]
fn a_rank_that_dies_frees_those_that_wait_for_it() {
    let simulation = simulation(2);
    let machine = Machine::new(&simulation, 3, qsnet(3), BcsConfig::default());
    let _strobing = machine.strobe();
    let mut ranks = machine.launch(JobKey(1), &one_per_node(3));
    let dying = ranks.pop().expect("three");
    dying.run(|rank| async move {
        rank.compute(Duration::from_millis(7)).await;
        rank.die();
    });
    let ended = simulation.run(all(simulation.runtime(), ranks, |rank, left| async move {
        assert_eq!(rank.recv(Rank(2), 8).await, Err(BcsError::RankGone));
        left.set(left.get() - 1);
    }));
    let took = ended.expect("no deadlock");
    assert!(took < Duration::from_millis(9), "{took:?}");
}
