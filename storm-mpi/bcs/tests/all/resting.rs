//! Slices rest while no rank needs one, and begin again when a rank does.

use crate::lockstep::{member, recv, send};
use crate::timing::qsnet;
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use storm_bcs::modelled::{Machine, ModelledRank, Peer, Place, Strobing};
use storm_bcs::{BcsConfig, JobKey};
use storm_mpi::Rank;
use storm_primitives::sim::Simulation;
use storm_primitives::{Instant, NodeId, Runtime};

const SLICE: Duration = Duration::from_micros(500);
/// A rest so long that no test meets the slice that begins without news.
const NEVER: Duration = Duration::from_secs(3600);

fn machine(seed: u64, nodes: u32, rest: Duration) -> (Simulation, Machine) {
    let simulation = Simulation::new(seed);
    simulation.trace().silence(true);
    let config = BcsConfig { rest, ..BcsConfig::default() };
    let machine = Machine::new(&simulation, nodes, qsnet(nodes), config);
    (simulation, machine)
}

fn one_per_node(nodes: u32) -> Vec<Place> {
    (1..=nodes).map(|node| Place { node: NodeId(node), pe: 0 }).collect()
}

/// Runs a program on each rank, and waits until all have ended.
fn run<F: Future<Output = ()> + 'static>(
    simulation: &Simulation,
    ranks: Vec<ModelledRank>,
    program: impl Fn(ModelledRank) -> F + Clone + 'static,
) {
    let left = Rc::new(Cell::new(ranks.len()));
    for rank in ranks {
        let (left, program) = (left.clone(), program.clone());
        rank.run(|rank| async move {
            program(rank).await;
            left.set(left.get() - 1);
        });
    }
    let runtime = simulation.runtime();
    let ended = simulation.run(async move {
        while left.get() > 0 {
            runtime.sleep(Duration::from_micros(50)).await;
        }
    });
    ended.expect("no deadlock");
}

#[test]
fn while_all_compute_nobody_is_strobed() {
    for seed in 0..8 {
        let (simulation, machine) = machine(seed, 4, NEVER);
        let strobing = machine.strobe();
        let ranks = machine.launch(JobKey(1), &one_per_node(4));
        run(&simulation, ranks, |rank| async move { rank.compute(2000 * SLICE).await });
        let Strobing { slices, empty, failed, .. } = &*strobing.borrow();
        // The first slice, with which ranks begin to run, and one after the end of each.
        assert!(*slices <= 6, "seed {seed}: {slices} slices for 2000 times as long as one");
        assert_eq!((empty, failed), (slices, &None), "seed {seed}");
    }
}

/// Times of a message from rank 0 to rank 1 after such a pause.
fn after_pauses(seed: u64, pause: impl Fn(u64) -> Duration + Clone + 'static) -> Vec<Duration> {
    let (simulation, machine) = machine(seed, 2, NEVER);
    let _strobing = machine.strobe();
    let sent = Rc::new(Cell::new(Instant::ORIGIN));
    let took = Rc::new(RefCell::new(Vec::new()));
    let heard = took.clone();
    run(&simulation, machine.launch(JobKey(1), &one_per_node(2)), move |rank| {
        let (sent, heard, pause) = (sent.clone(), heard.clone(), pause.clone());
        async move {
            for round in 0..50 {
                if rank.rank() == Rank(0) {
                    rank.compute(pause(round)).await;
                    sent.set(rank.now());
                    let request = rank.isend(Rank(1), Bytes::from(vec![1; 8])).expect("posted");
                    assert_eq!(rank.wait(request).await, Ok(()));
                } else {
                    assert_eq!(rank.recv(Rank(0), 8).await, Ok(vec![1; 8]));
                    heard.borrow_mut().push(rank.now() - sent.get());
                }
            }
        }
    });
    took.take()
}

#[test]
fn news_after_a_long_pause_is_served_within_two_slices() {
    for seed in 0..8 {
        let took = after_pauses(seed, |round| SLICE * 40 + SLICE * round as u32 / 50);
        // A strobe may reach a node some microseconds later than another, and a notice takes some.
        let most = took.iter().max().copied().unwrap_or_default();
        assert!(took.len() == 50 && most < SLICE * 2 + SLICE / 10, "seed {seed}: {took:?}");
    }
}

/// Regression: after each slice, there was another one, in which ranks got the completions.
#[test]
fn ranks_hear_of_what_a_slice_has_done_without_another() {
    const MESSAGES: u64 = 50;
    for seed in 0..8 {
        let (simulation, machine) = machine(seed, 2, NEVER);
        let strobing = machine.strobe();
        let took = Rc::new(RefCell::new(Vec::new()));
        let heard = took.clone();
        run(&simulation, machine.launch(JobKey(1), &one_per_node(2)), move |rank| {
            let heard = heard.clone();
            async move {
                let other = Rank(1 - rank.rank().0);
                let first = rank.rank() == Rank(0);
                let post = |_| if first { Ok(None) } else { rank.irecv(other, 8).map(Some) };
                let posted: Result<Vec<_>, _> = (0..MESSAGES).map(post).collect();
                for receive in posted.expect("posted") {
                    if let Some(receive) = receive {
                        assert_eq!(rank.wait(receive).await, Ok(()));
                        continue;
                    }
                    rank.compute(SLICE * 10 + SLICE / 3).await;
                    let sent = rank.now();
                    let request = rank.isend(other, Bytes::from(vec![1; 8])).expect("posted");
                    assert_eq!(rank.wait(request).await, Ok(()));
                    heard.borrow_mut().push(rank.now() - sent);
                }
            }
        });
        let Strobing { slices, empty, .. } = &*strobing.borrow();
        assert_eq!(slices - empty, MESSAGES, "seed {seed}");
        // The first slice, with which ranks begin to run, and the slices of their first posts.
        assert!(*empty <= 4, "seed {seed}: {empty} slices that nobody had anything for");
        let took = took.borrow();
        let at_edges = took.iter().all(|took| (SLICE..SLICE * 2 + SLICE / 10).contains(took));
        assert!(at_edges && took.len() as u64 == MESSAGES, "seed {seed}: {took:?}");
    }
}

#[test]
fn a_notice_that_is_lost_delays_and_stops_nothing() {
    let rest = SLICE * 200;
    let (simulation, machine) = machine(7, 2, rest);
    let strobing = machine.strobe();
    let _ranks = machine.launch(JobKey(1), &one_per_node(2));
    let runtime = simulation.runtime();
    let ended = simulation.run(async move {
        for round in 1..=5 {
            // Slices rest, and ranks keep the processing elements.
            runtime.sleep(SLICE * 10).await;
            let slices = strobing.borrow().slices;
            let engines = [1, 2].map(|node| machine.engine(NodeId(node)));
            // No node is notified of these posts.
            let posted = engines[0].borrow_mut().post(member(1, 0), send(1, 0, vec![1; 8]));
            posted.expect("posted");
            let posted = engines[1].borrow_mut().post(member(1, 1), recv(Some(0), None, 8));
            posted.expect("posted");
            let posted = runtime.now();
            while engines[0].borrow().traffic().payload_bytes < round * 8 {
                runtime.sleep(SLICE).await;
            }
            let took = runtime.now() - posted;
            assert!(took > rest / 2 && took < rest + SLICE * 3, "{took:?}");
            // The slice with the message, the slice with its completion, and the slice in which
            // nodes report that they are idle.
            let more = strobing.borrow().slices - slices;
            assert!((1..=4).contains(&more), "{more} slices");
        }
    });
    ended.expect("no deadlock");
}

#[test]
fn slices_after_a_pause_begin_at_the_edges_of_those_before() {
    let (simulation, machine) = machine(3, 2, NEVER);
    let ranks = machine.launch(JobKey(1), &one_per_node(2));
    for rank in ranks {
        rank.run(|rank| async move {
            loop {
                rank.compute(SLICE * 7 + SLICE / 3).await;
                let other = Rank(1 - rank.rank().0);
                let sent = rank.isend(other, Bytes::from(vec![0; 8])).expect("posted");
                if rank.recv(other, 8).await.is_err() || rank.wait(sent).await.is_err() {
                    return;
                }
            }
        });
    }
    let mut sender = machine.strobe_sender();
    let runtime = simulation.runtime();
    let ended = simulation.run(async move {
        let mut numbers = Vec::new();
        for _ in 0..200 {
            let slice = sender.slice().await.expect("ends empty");
            let began = (runtime.now() - Instant::ORIGIN) - slice.took;
            let off = began.as_nanos() % SLICE.as_nanos();
            assert_eq!(off, 0, "slice {} began {off} ns after an edge", slice.slice);
            numbers.push(slice.slice);
            if slice.rests {
                sender.rest().await.expect("not cut off");
            }
        }
        assert!(runtime.now() > Instant::ORIGIN + SLICE * 300, "they rested");
        assert!(numbers.into_iter().eq(1..=200), "numbers go on one by one");
    });
    ended.expect("no deadlock");
}
