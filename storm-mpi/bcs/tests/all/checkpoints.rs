//! The end of a slice on a network with random delays. Nothing is in flight, regardless of the
//! ranks' actions, and the memory of every node records it.

use bytes::Bytes;
use std::rc::Rc;
use std::time::Duration;
use storm_bcs::modelled::{Machine, ModelledRank, Peer, Place};
use storm_bcs::{BcsConfig, Collective, JobKey, Number, Outcome, Reduction};
use storm_mpi::{Rank, ReduceOp};
use storm_primitives::sim::{NetworkConfig, Simulation};
use storm_primitives::{NodeId, Primitives, Runtime};

const NODES: u32 = 4;
const RANKS: u32 = 6;

/// Sends around a ring, sums, and computes, for ever.
async fn work(rank: ModelledRank, world: Simulation) {
    let me = rank.rank().0;
    for step in 0u64.. {
        let bytes = 1 + (step * 7919 % 60_000) as usize;
        let next = Rank((me + 1) % RANKS);
        let sent = rank.isend(next, Bytes::from(vec![step as u8; bytes])).expect("posted");
        let received = rank.recv(Rank((me + RANKS - 1) % RANKS), 60_000).await;
        assert_eq!(received, Ok(vec![step as u8; bytes]));
        assert_eq!(rank.wait(sent).await, Ok(()));
        rank.compute(Duration::from_micros(world.random_below(900))).await;
        let reduction = Reduction { op: ReduceOp::Max, number: Number::U64 };
        let data = vec![step + u64::from(me); 300].iter().flat_map(|n| n.to_ne_bytes()).collect();
        let max = rank.collective(Collective::Reduce { data, reduction, root: None }).await;
        let expected = vec![step + u64::from(RANKS) - 1; 300];
        let expected = expected.iter().flat_map(|n| n.to_ne_bytes()).collect();
        assert_eq!(max, Ok(Outcome::Data(expected)));
    }
}

#[test]
fn every_slice_ends_with_an_empty_network_and_every_node_knows() {
    for seed in 0..4 {
        let simulation = Simulation::new(seed);
        simulation.trace().silence(true);
        let machine = Machine::new(
            &simulation,
            NODES,
            Rc::new(NetworkConfig::default()),
            BcsConfig::default(),
        );
        let places: Vec<Place> = (0..RANKS)
            .map(|rank| Place { node: NodeId(1 + rank % NODES), pe: (rank / NODES) as usize })
            .collect();
        for rank in machine.launch(JobKey(1), &places) {
            let world = simulation.clone();
            rank.run(move |rank| work(rank, world));
        }
        let mut sender = machine.strobe_sender();
        let moved = simulation.run(async move {
            let mut payload = 0;
            for slice in 1..=1500 {
                let checkpoint = sender.slice().await.expect("empty");
                assert_eq!((checkpoint.slice, checkpoint.nodes.len()), (slice, NODES as usize));
                let (mut sent, mut received, mut in_flight) = (0, 0, 0);
                payload = 0;
                for node in (1..=NODES).map(NodeId) {
                    let engine = machine.engine(node);
                    let traffic = engine.borrow().traffic();
                    sent += traffic.sent_bytes;
                    received += traffic.received_bytes;
                    payload += traffic.payload_bytes;
                    in_flight += engine.borrow().in_flight_bytes();
                    let here = machine.network().node(node);
                    // Nodes learn of the end of this slice when the next one begins.
                    assert_eq!(machine.plan().checkpoint(here.memory()), slice - 1);
                    // Nothing arrives while there is no strobe.
                    if slice == 700 {
                        here.runtime().sleep(Duration::from_millis(3)).await;
                        assert_eq!(engine.borrow().traffic(), traffic, "seed {seed}");
                    }
                }
                assert_eq!((sent, 0), (received, in_flight), "seed {seed}, slice {slice}");
            }
            payload
        });
        assert!(moved.expect("no deadlock") > 5_000_000, "seed {seed}: ranks worked");
    }
}
