//! The times of the primitives on the simulated networks, compared with the paper. The tests
//! measure them with the primitives, in virtual time.

use bytes::Bytes;
use std::time::Duration;
use storm_model::equations::eq6_bandwidth_of_nodes;
use storm_model::{NodeCount, QsNet};
use storm_primitives::sim::{SimNetwork, SimPrimitives, Simulation};
use storm_primitives::{
    CompareAndWrite, EventId, Layout, NodeId, NodeSet, Primitives, Region, Relation, Runtime, Var,
    Xfer,
};
use storm_qsnet_sim::{BufferPlace, Fidelity, Load, Machine, Profile, SourceFile};

const CHUNK_BYTES: usize = 512 << 10;

struct Bench {
    simulation: Simulation,
    mm: SimPrimitives,
    set: NodeSet,
    region: Region,
    word: Var<u64>,
    event: EventId,
    network: SimNetwork,
}

fn machine(profile: &str, nodes: u32) -> Machine {
    Machine::new(Profile::builtin(profile).expect("built in"), nodes).expect("some nodes")
}

fn bench(machine: &Machine, seed: u64) -> Bench {
    let mut layout = Layout::builder();
    let region = layout.region("bulk", 2 * CHUNK_BYTES as u64);
    let (word, event) = (layout.var("word"), layout.event("event"));
    let simulation = Simulation::new(seed);
    let fabric = machine.fabric().expect("makes sense");
    let nodes = machine.nodes();
    let network = SimNetwork::with_fabric(&simulation, nodes, &layout.build(), fabric);
    let (mm, set) = (network.node(NodeId::MM), NodeSet::compute(nodes));
    Bench { simulation, mm, set, region, word, event, network }
}

impl Bench {
    /// The bandwidth in MiB/s of `chunks` chunks to all nodes, sent one after the other.
    fn bandwidth_mib_s(&self, chunks: u32) -> f64 {
        let (mm, set, at) = (self.mm.clone(), self.set.clone(), self.region.addr);
        let begun = self.simulation.now();
        let sent = self.simulation.run(async move {
            let last = mm.events().local();
            let chunk = Bytes::from(vec![1; CHUNK_BYTES]);
            for number in 0..chunks {
                let xfer = Xfer::new(set.clone(), at, chunk.clone());
                let is_last = number + 1 == chunks;
                mm.xfer_and_signal(if is_last { xfer.signal_local(last.id()) } else { xfer });
            }
            mm.await_event(last.id()).await
        });
        assert_eq!(sent, Ok(Ok(())));
        let time = self.simulation.now() - begun;
        f64::from(chunks) * CHUNK_BYTES as f64 / 1_048_576.0 / time.as_secs_f64()
    }

    /// The time from the issue of a short message until `node` runs on it.
    fn signal_time(&self, node: NodeId) -> Duration {
        let (mm, set, at, event) =
            (self.mm.clone(), self.set.clone(), self.region.addr, self.event);
        let (receiver, begun) = (self.network.node(node), self.simulation.now());
        let got = self.simulation.run(async move {
            mm.xfer_and_signal(Xfer::new(set, at, vec![1; 256]).signal_remote(event));
            receiver.await_event(event).await.map(|()| receiver.runtime().now())
        });
        got.expect("no deadlock").expect("signalled") - begun
    }

    fn compare_time(&self) -> Duration {
        let (mm, set, word) = (self.mm.clone(), self.set.clone(), self.word);
        let begun = self.simulation.now();
        let question = CompareAndWrite::new(set, word, Relation::Equal, 0);
        let answer = self.simulation.run(async move { mm.compare_and_write(question).await });
        assert_eq!(answer, Ok(Ok(true)));
        self.simulation.now() - begun
    }
}

fn assert_close(found: f64, expected: f64, tolerance: f64, what: &str) {
    let error = (found / expected - 1.0).abs();
    assert!(error <= tolerance, "{what}: {found} where {expected} is expected");
}

/// Equations 6 and 9: nothing but the network limits the ideal machine.
#[test]
fn the_ideal_machine_broadcasts_at_the_bandwidth_of_equation_6() {
    for nodes in [1, 4, 16, 64, 256, 1024, 4096] {
        let count = NodeCount::new(nodes.into()).unwrap();
        let expected = eq6_bandwidth_of_nodes(&QsNet::PAPER, count).get();
        let found = bench(&machine("ideal", nodes), 1).bandwidth_mib_s(100);
        assert_close(found, expected, 0.005, &format!("{nodes} nodes"));
    }
}

/// Equation 8: the host limits the protocol to 131 MB/s, unless the network is slower.
#[test]
fn the_es40_machine_broadcasts_at_the_bandwidth_of_equation_8() {
    for (nodes, expected) in [(64, 131.0), (4096, 131.0), (16_384, 103.26)] {
        let found = bench(&machine("es40-qsnet", nodes), 1).bandwidth_mib_s(40);
        assert_close(found, expected, 0.005, &format!("{nodes} nodes"));
    }
}

/// Section 4.4.1: the pipeline with the buffers in main memory and in the NIC.
#[test]
fn the_place_of_the_buffers_decides_the_slowest_stage() {
    let host = machine("es40-qsnet", 64);
    assert_eq!(host.read_mib_s(), Some(218.0));
    let nic = host.clone().reading(SourceFile::RamDisk, BufferPlace::Nic).unwrap();
    assert_eq!(nic.read_mib_s(), Some(120.0));
    for (file, host_mib_s, nic_mib_s) in
        [(SourceFile::Nfs, 11.4, 11.2), (SourceFile::Disk, 30.5, 31.5)]
    {
        let read = |place| host.clone().reading(file, place).unwrap();
        assert_eq!(read(BufferPlace::Host).read_mib_s(), Some(host_mib_s));
        assert_eq!(read(BufferPlace::Nic).read_mib_s(), Some(nic_mib_s));
        let second = read(BufferPlace::Host).host().read((host_mib_s * 1_048_576.0) as u64);
        assert_close(second.as_secs_f64(), 1.0, 1e-6, "a second of reading");
    }
    let mut fast = host.profile().clone();
    fast.machine.host.service_mib_s = None;
    let fast = Machine::new(fast, 64).unwrap();
    assert_close(bench(&fast, 1).bandwidth_mib_s(40), 175.0, 0.005, "the bus alone");
}

/// Fig. 7: 6 us over 1,024 nodes, and below 20 us for 93 of 100 under load.
#[test]
fn a_network_conditional_grows_by_6_us_over_1024_nodes() {
    let time = |nodes| bench(&machine("es40-qsnet", nodes), 1).compare_time();
    let growth_us = (time(1024) - time(1)).as_secs_f64() * 1e6;
    assert_close(growth_us, 6.0, 0.01, "growth");
    let model = machine("es40-qsnet", 1024).conditional_us().unwrap();
    assert_close(time(1024).as_secs_f64() * 1e6, model, 0.001, "the model");

    let loaded = bench(&machine("es40-qsnet", 64).under(Load::NETWORK), 1);
    let fast = (0..2000).filter(|_| loaded.compare_time() < Duration::from_micros(20)).count();
    assert!((1800..2000).contains(&fast), "{fast} of 2000 within 20 us");
}

/// A short broadcast on 64 nodes, published as 13 us.
#[test]
fn a_short_broadcast_takes_the_published_time() {
    let bench = bench(&machine("es40-qsnet", 64), 1);
    let times: Vec<Duration> = (0..50).map(|_| bench.signal_time(NodeId(64))).collect();
    let typical = times.iter().min().unwrap().as_secs_f64() * 1e6;
    assert_close(typical, 13.0, 0.15, "a short broadcast in us");
}

/// Fig. 2c: chunks that queue behind each other have a fifth of the bandwidth, and each chunk sent
/// alone waits for four messages. Fig. 2b: a processor under load keeps daemons waiting for many
/// milliseconds.
#[test]
fn load_slows_the_daemons() {
    let loaded = machine("es40-qsnet", 64).under(Load::NETWORK);
    let found = bench(&loaded, 1).bandwidth_mib_s(24);
    assert!((18.0..30.0).contains(&found), "{found} MiB/s");
    let alone = bench(&loaded, 1).signal_time(NodeId(1));
    assert!((34..47).contains(&alone.as_millis()), "{alone:?}");
    let machine = machine("es40-qsnet", 64).under(Load::CPU);
    let wait = |seed| bench(&machine, seed).signal_time(NodeId(1));
    let slowest = (0..64).map(wait).max().expect("64 of them");
    assert!(slowest > Duration::from_millis(25), "{slowest:?}");
}

/// Packet by packet and by formula, transfers take the same time.
#[test]
fn both_fidelities_give_the_same_times() {
    for nodes in [1, 5, 64] {
        for load in [Load::NONE, Load::NETWORK] {
            let time = |fidelity| {
                let machine = machine("es40-qsnet", nodes).under(load).simulated(fidelity);
                let bench = bench(&machine, 1);
                (bench.bandwidth_mib_s(3).to_bits(), bench.signal_time(NodeId(1)))
            };
            assert_eq!(time(Fidelity::Packet), time(Fidelity::Aggregated), "{nodes} {load:?}");
        }
    }
}

/// The tree of messages takes the time of the analytic model.
#[test]
fn a_tree_of_messages_costs_what_the_model_says() {
    for profile in ["gigabit-ethernet", "infiniband", "ethernet-100g", "soft-roce"] {
        for nodes in [1, 16, 100, 1024] {
            let machine = machine(profile, nodes);
            let found_us = bench(&machine, 1).compare_time().as_secs_f64() * 1e6;
            let model_us = machine.conditional_us().unwrap();
            assert_close(found_us, model_us, 0.001, &format!("{profile}, {nodes} nodes"));
        }
    }
}

#[test]
fn two_transfers_of_one_node_share_its_link() {
    let one = bench(&machine("ideal", 16), 1).bandwidth_mib_s(2);
    let many = bench(&machine("ideal", 16), 1).bandwidth_mib_s(64);
    assert_close(one, many, 0.02, "the bandwidth does not depend on how many are under way");
}
