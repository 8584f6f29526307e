//! Algorithms 6 and 7 while nothing fails: sizes, double buffering, caches.

use crate::cluster::{Cluster, small_plan};
use crate::file::{Disks, Sender, content, start_receivers};
use crate::seeds::for_seeds;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::middleware::Layer;
use storm_primitives::sim::{NetworkConfig, SimPrimitives};
use storm_primitives::{AwaitEvent, EventId, NodeId, NodeSet, Primitives, Xfer};
use storm_rm::file_transfer::TransferError;
use storm_rm::{GlobalPlan, PlanConfig};

const CHUNK_BYTES: usize = 64;

#[test]
fn every_size_arrives_whole_on_every_node() {
    let sizes = [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 7 * CHUNK_BYTES, 1000];
    for_seeds(40, |seed| {
        for size in sizes {
            let plan = small_plan(4);
            let cluster = Cluster::new(seed, 4, &plan.layout);
            let disks = Disks::default();
            disks.slow_down();
            start_receivers(&cluster, &plan, &disks);
            let (everyone, file) = (cluster.compute(), content(seed, size));
            let (mut sender, stored, sent) =
                (Sender::new(&cluster, &plan), disks.clone(), file.clone());
            cluster.run(async move {
                let times = sender.send(&everyone, &sent).await.expect("nothing fails");
                // The file is there when the transfer returns, not some time later.
                assert!(everyone.iter().all(|node| stored.has(node, &sent)), "{size} bytes");
                // An empty file needs no chunk once it is announced.
                assert!(times.sent_to == everyone || size == 0);
            });
            let chunks = size.div_ceil(CHUNK_BYTES) as u64;
            assert!(cluster.compute().iter().all(|node| disks.writes(node) == chunks));
        }
    });
}

/// A node that is behind takes all arrived chunks together, and leaves the master half of the
/// slots.
#[test]
fn chunks_that_came_together_are_written_together() {
    for_seeds(20, |seed| {
        let plan = GlobalPlan::new(PlanConfig { chunk_slots: 8, ..small_plan(3).config });
        let cluster = Cluster::new(seed, 3, &plan.layout);
        let (disks, file) = (Disks::default(), content(seed, 32 * CHUNK_BYTES));
        disks.slow_down();
        start_receivers(&cluster, &plan, &disks);
        let (mut sender, everyone, sent) =
            (Sender::new(&cluster, &plan), cluster.compute(), file.clone());
        cluster
            .run(async move { sender.send(&everyone, &sent).await.map(drop) })
            .expect("nothing fails");
        for node in cluster.compute().iter() {
            assert!(disks.has(node, &file), "{node}");
            let writes = disks.writes(node);
            assert!((8..=16).contains(&writes), "{node}: {writes} writes of 32 chunks");
        }
    });
}

/// The releases of the last file must not count for this one.
#[test]
fn a_channel_is_used_again_by_nodes_that_have_become_slow() {
    for_seeds(50, |seed| {
        let plan = small_plan(3);
        let cluster = Cluster::new(seed, 3, &plan.layout);
        let (disks, last) = (Disks::default(), content(seed, 600));
        start_receivers(&cluster, &plan, &disks);
        let (mut sender, everyone) = (Sender::new(&cluster, &plan), cluster.compute());
        let (slow, sent) = (disks.clone(), last.clone());
        cluster.run(async move {
            sender.send(&everyone, &content(seed + 1, 900)).await.expect("nothing fails");
            slow.slow_down();
            sender.send(&everyone, &sent).await.expect("nothing fails");
        });
        assert!(cluster.compute().iter().all(|node| disks.has(node, &last)));
    });
}

#[test]
fn several_mebibytes_arrive_whole() {
    let config = PlanConfig { chunk_bytes: 64 * 1024, ..small_plan(3).config };
    let plan = GlobalPlan::new(config);
    let cluster = Cluster::new(3, 3, &plan.layout);
    let disks = Disks::default();
    start_receivers(&cluster, &plan, &disks);
    let (everyone, file) = (cluster.compute(), content(3, (5 << 20) + 13));
    let (mut sender, sent) = (Sender::new(&cluster, &plan), file.clone());
    cluster
        .run(async move { sender.send(&everyone, &sent).await.map(drop) })
        .expect("nothing fails");
    assert!(cluster.compute().iter().all(|node| disks.has(node, &file)));
}

#[test]
fn only_the_nodes_that_lack_the_content_receive_it() {
    for_seeds(200, |seed| {
        let plan = small_plan(6);
        let cluster = Cluster::new(seed, 6, &plan.layout);
        let (disks, file) = (Disks::default(), content(seed, 300));
        let having = match seed % 4 {
            0 => cluster.compute(),
            1 => NodeSet::new(),
            _ => cluster.some_nodes(),
        };
        having.iter().for_each(|node| disks.put(node, &file));
        start_receivers(&cluster, &plan, &disks);
        let everyone = cluster.compute();
        let lacking = everyone.difference(&having);
        let (mut sender, sent) = (Sender::new(&cluster, &plan), file.clone());
        let times = cluster.run(async move { sender.send(&everyone, &sent).await });
        assert_eq!(times.expect("nothing fails").sent_to, lacking);
        for node in cluster.compute().iter() {
            assert!(disks.has(node, &file), "{node}");
            assert_eq!(disks.writes(node) > 0, lacking.contains(node), "{node}");
        }
    });
}

/// Counts the transfers whose status the algorithm has not taken yet.
#[derive(Clone)]
struct Counting {
    inner: SimPrimitives,
    outstanding: Rc<Cell<usize>>,
    most: Rc<Cell<usize>>,
}

impl Layer for Counting {
    type Inner = SimPrimitives;

    fn inner(&self) -> &SimPrimitives {
        &self.inner
    }

    fn on_xfer(&self, xfer: Xfer) {
        self.outstanding.set(self.outstanding.get() + 1);
        self.most.set(self.most.get().max(self.outstanding.get()));
        self.inner.xfer_and_signal(xfer);
    }

    fn on_await(&self, event: EventId) -> AwaitEvent {
        self.outstanding.set(self.outstanding.get() - 1);
        self.inner.await_event(event)
    }
}

#[test]
fn never_more_chunks_under_way_than_slots_or_than_fill_a_tree() {
    for_seeds(50, |seed| {
        for slots in [1, 2, 5, 16] {
            let config = PlanConfig { chunk_slots: slots, ..small_plan(3).config };
            let plan = GlobalPlan::new(config);
            let cluster = Cluster::new(seed, 3, &plan.layout);
            let disks = Disks::default();
            start_receivers(&cluster, &plan, &disks);
            let (everyone, file) = (cluster.compute(), content(seed, 20 * CHUNK_BYTES));
            let mut sender = Sender::new(&cluster, &plan);
            let (inner, most) = (cluster.mm(), Rc::new(Cell::new(0)));
            let counting = Counting { inner, outstanding: Rc::default(), most: most.clone() };
            let sent = file.clone();
            cluster
                .run(async move { sender.send_through(&counting, &everyone, &sent).await })
                .expect("nothing fails");
            assert_eq!(most.get(), slots.min(8) as usize);
            assert!(cluster.compute().iter().all(|node| disks.has(node, &file)));
        }
    });
}

/// Double buffering (paper, Algorithm 6): chunks arrive while the next chunk is being read. On this
/// network, sending a chunk takes as long as reading one.
#[test]
fn chunks_travel_while_the_next_is_read() {
    const HOP: Duration = Duration::from_micros(100);
    const CHUNKS: usize = 30;
    for_seeds(20, |seed| {
        let plan = small_plan(3);
        let network = NetworkConfig { min_delay: HOP, max_delay: HOP, ..NetworkConfig::default() };
        let cluster = Cluster::with_network(seed, 3, &plan.layout, network);
        start_receivers(&cluster, &plan, &Disks::default());
        let (everyone, file) = (cluster.compute(), content(seed, CHUNKS * CHUNK_BYTES));
        let mut sender = Sender::new(&cluster, &plan);
        // To the sequencer, to the nodes, back, and back to the master.
        sender.read_time = 4 * HOP;
        let reads = sender.reads.clone();
        cluster
            .run(async move { sender.send(&everyone, &file).await.map(drop) })
            .expect("nothing fails");
        let arrivals = arrivals_of_chunks(&cluster);
        let overlapped = reads
            .borrow()
            .iter()
            .filter(|(began, ended)| arrivals.iter().any(|at| began < at && at < ended))
            .count();
        assert!(overlapped >= CHUNKS - 2, "{overlapped} of {CHUNKS} reads overlap");
    });
}

/// When a chunk, with its 16 bytes of header, arrived at the first node.
fn arrivals_of_chunks(cluster: &Cluster) -> Vec<storm_primitives::Instant> {
    let what = format!("put {}", CHUNK_BYTES + 16);
    let entries = cluster.simulation.trace().entries();
    entries
        .iter()
        .filter(|entry| entry.node == NodeId(1) && entry.what.contains(&what))
        .map(|entry| entry.at)
        .collect()
}

#[test]
fn a_source_that_ends_early_is_an_error_and_not_a_hang() {
    let plan = small_plan(2);
    let cluster = Cluster::new(1, 2, &plan.layout);
    start_receivers(&cluster, &plan, &Disks::default());
    let mut sender = Sender::new(&cluster, &plan);
    let everyone = cluster.compute();
    let outcome = cluster.run(async move {
        sender.truncate_source_at = Some(100);
        sender.send(&everyone, &content(1, 300)).await
    });
    assert!(matches!(outcome, Err(TransferError::Source(_))), "{outcome:?}");
}
