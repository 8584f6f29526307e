//! Algorithms 1 to 3: flow control, changing subsets, deaths, hostile slots.

use crate::cluster::{Cluster, spawn_on};
use crate::queue_checks::{
    Master, QueueKind, SLOT_BYTES, SLOTS, Slave, slots_hold_still, third_enqueue_waits,
};
use crate::seeds::for_seeds;
use futures_util::future::{Either, select};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::sim::SimPrimitives;
use storm_primitives::{
    GlobalAddr, Layout, LayoutBuilder, NodeId, NodeSet, PrimitiveError, Primitives, Runtime, Xfer,
};
use storm_rm::remote_queue::{DequeueError, EnqueueError, Item, QueuePlan, Reader, Writer};

impl QueueKind for QueuePlan {
    type Master = Writer<SimPrimitives>;
    type Slave = Reader<SimPrimitives>;

    fn declare(builder: &mut LayoutBuilder) -> Self {
        QueuePlan::declare(builder, "queue", SLOTS, SLOT_BYTES)
    }

    fn master(&self, primitives: SimPrimitives) -> Self::Master {
        Writer::new(primitives, self)
    }

    fn slave(&self, primitives: SimPrimitives) -> Self::Slave {
        Reader::new(primitives, self)
    }
}

impl Master for Writer<SimPrimitives> {
    async fn enqueue(&mut self, set: &NodeSet, data: &[u8]) {
        self.enqueue_and_signal(set, data, None).await.expect("the network holds");
    }
}

impl Slave for Reader<SimPrimitives> {
    type Taken = Item;

    async fn dequeue(&mut self) -> Item {
        Reader::dequeue(self).await.expect("the network holds")
    }

    fn release(&mut self, item: Item) {
        Reader::release(self, item);
    }
}

fn one_queue(slots: u32) -> (QueuePlan, Layout) {
    let mut builder = Layout::builder();
    let queue = QueuePlan::declare(&mut builder, "queue", slots, SLOT_BYTES);
    (queue, builder.build())
}

#[test]
fn erratum_1_the_third_enqueue_waits_for_the_slow_reader() {
    for_seeds(200, |seed| assert_eq!(third_enqueue_waits::<QueuePlan>(seed), Ok(())));
}

#[test]
fn erratum_2_a_slot_holds_still_until_it_is_released() {
    for_seeds(200, |seed| assert_eq!(slots_hold_still::<QueuePlan>(seed), Ok(())));
}

/// Released items take no memory; later ones stay, also behind items for other slaves.
#[test]
fn a_released_slot_is_let_go_of() {
    for_seeds(50, |seed| {
        let (queue, layout) = one_queue(4);
        let cluster = Cluster::new(seed, 2, &layout);
        let (both, first) = (cluster.compute(), NodeSet::single(NodeId(1)));
        let (mut readers, mut master) = (Vec::new(), Writer::new(cluster.mm(), &queue));
        readers.extend([1, 2].map(|number| Reader::new(cluster.node(number), &queue)));
        let memories = [1, 2].map(|number| cluster.node(number).memory().clone());
        let size = layout.size() as usize;
        let held = move |node: usize| {
            let memory = memories[node].read_vec(GlobalAddr(0), size).expect("all of it");
            [1, 2, 3].map(|number| memory.windows(40).any(|window| window == [number; 40]))
        };
        cluster.run(async move {
            for (set, number) in [(&both, 1), (&first, 2), (&both, 3)] {
                master.enqueue_and_signal(set, &[number; 40], None).await.expect("sent");
            }
            // The second node has nothing between the two.
            let one = readers[1].dequeue().await.expect("the first");
            readers[1].release(one);
            let other = readers[1].dequeue().await.expect("the third");
            assert_eq!(held(1), [false, false, true]);
            readers[1].release(other);
            assert_eq!(held(1), [false; 3]);
            for _ in 0..2 {
                drop(readers[0].dequeue().await.expect("the first two"));
            }
            let last = readers[0].dequeue().await.expect("the third");
            assert_eq!(held(0), [true; 3]);
            // With the last one those before it.
            readers[0].release(last);
            assert_eq!(held(0), [false; 3]);
        });
    });
}

/// The items that each node took, by node.
type Received = Rc<RefCell<BTreeMap<NodeId, Vec<u32>>>>;

/// Takes items for ever, slowly, and checks each.
async fn record(cluster: Cluster, node: SimPrimitives, queue: QueuePlan, received: Received) {
    let mut reader = Reader::new(node.clone(), &queue);
    while let Ok(item) = reader.dequeue().await {
        // Now and then long enough for the master to go once around the ring.
        let longest = if cluster.below(4) == 0 { 5000 } else { 100 };
        cluster.pause(&node, Duration::from_micros(longest)).await;
        let (number, filling) = item.data.split_at(4);
        let number = u32::from_ne_bytes(number.try_into().expect("four bytes"));
        assert!(filling.iter().all(|byte| *byte == number as u8), "item {number} is torn");
        received.borrow_mut().entry(node.node()).or_default().push(number);
        reader.release(item);
    }
}

fn item(number: u32) -> Vec<u8> {
    let mut data = number.to_ne_bytes().to_vec();
    data.resize(4 + number as usize % (SLOT_BYTES as usize - 3), number as u8);
    data
}

/// Sends 60 items to random subsets while `deaths` nodes die; every survivor
/// must have exactly the items whose transfer succeeded, in order.
fn subsets_with_deaths(seed: u64, deaths: u64) {
    const NODES: u32 = 7;
    const ITEMS: u32 = 60;
    let (queue, layout) = one_queue(1 + seed as u32 % 4);
    let cluster = Cluster::new(seed, NODES, &layout);
    let received = Received::default();
    for node in cluster.compute().iter() {
        let node = cluster.network.node(node);
        let recording = record(cluster.clone(), node.clone(), queue.clone(), received.clone());
        spawn_on(&node, recording).detach();
    }
    for _ in 0..deaths {
        let node = NodeId(1 + cluster.below(u64::from(NODES)) as u32);
        cluster.network.kill_after(node, cluster.below(120));
    }
    let (world, mm, got) = (cluster.clone(), cluster.mm(), received.clone());
    let expected = cluster.run(async move {
        let mut writer = Writer::new(mm.clone(), &queue);
        let mut expected = BTreeMap::<NodeId, Vec<u32>>::new();
        for number in 0..ITEMS {
            let set = world.some_nodes().intersection(&mm.membership().alive());
            let sent = mm.events().local();
            let data = item(number);
            let sequence = writer.enqueue_and_signal(&set, &data, Some(sent.id())).await;
            let sequence = sequence.expect("deaths do not stop the master");
            match mm.await_event(sent.id()).await {
                Ok(()) => {
                    set.iter().for_each(|node| expected.entry(node).or_default().push(number));
                }
                Err(PrimitiveError::NodesDead { .. }) => writer.forget(sequence),
                Err(error) => panic!("{error}"),
            }
        }
        mm.runtime().sleep(Duration::from_secs(1)).await;
        let alive = mm.membership().alive();
        expected.retain(|node, _| alive.contains(*node));
        expected
    });
    for (node, items) in expected {
        assert_eq!(got.borrow().get(&node), Some(&items), "{node}");
    }
}

#[test]
fn changing_subsets_each_item_once_and_in_order() {
    for_seeds(300, |seed| subsets_with_deaths(seed, 0));
}

#[test]
fn changing_subsets_with_deaths_each_item_once_and_in_order() {
    for_seeds(300, |seed| subsets_with_deaths(seed, 1 + seed % 4));
}

#[test]
fn a_dead_reader_does_not_fill_the_queue() {
    for_seeds(50, |seed| {
        let (queue, layout) = one_queue(2);
        let cluster = Cluster::new(seed, 2, &layout);
        let (mm, world) = (cluster.mm(), cluster.clone());
        cluster.run(async move {
            let mut writer = Writer::new(mm.clone(), &queue);
            for number in 0..2 {
                let second = NodeSet::single(NodeId(2));
                writer.enqueue(&second, item(number).into()).await.expect("there is space");
            }
            mm.runtime().sleep(Duration::from_millis(1)).await;
            world.kill(NodeId(2));
            let enqueued = writer.enqueue(&NodeSet::single(NodeId(1)), item(2).into()).await;
            assert!(enqueued.is_ok(), "{enqueued:?}");
        });
    });
}

/// Node 1 dies, the master is notified, and node 1 rejoins: its next incarnation.
async fn die_and_return(
    world: &Cluster,
    mm: &SimPrimitives,
    writer: &mut Writer<SimPrimitives>,
) -> SimPrimitives {
    world.kill(NodeId(1));
    while mm.membership().alive().contains(NodeId(1)) {
        mm.runtime().sleep(Duration::from_millis(1)).await;
    }
    writer.nodes_died(&NodeSet::single(NodeId(1)));
    world.network.rejoin(NodeId(1))
}

#[test]
fn a_node_that_comes_back_is_not_asked_for_its_last_life() {
    for_seeds(50, |seed| {
        let (queue, layout) = one_queue(2);
        let cluster = Cluster::new(seed, 1, &layout);
        let (mm, world) = (cluster.mm(), cluster.clone());
        cluster.run(async move {
            let only = NodeSet::single(NodeId(1));
            let mut writer = Writer::new(mm.clone(), &queue);
            for number in 0..2 {
                writer.enqueue(&only, item(number).into()).await.expect("there is space");
            }
            mm.runtime().sleep(Duration::from_millis(1)).await;
            let reborn = die_and_return(&world, &mm, &mut writer).await;
            writer.enqueue(&only, item(2).into()).await.expect("all slots are free");
            let mut reader = Reader::new(reborn, &queue);
            assert_eq!(reader.dequeue().await.expect("it came").data, item(2));
        });
    });
}

#[test]
fn news_of_a_death_do_not_release_what_the_next_life_was_sent() {
    for_seeds(50, |seed| {
        let (queue, layout) = one_queue(4);
        let cluster = Cluster::new(seed, 1, &layout);
        let (mm, world) = (cluster.mm(), cluster.clone());
        cluster.run(async move {
            let only = NodeSet::single(NodeId(1));
            let mut writer = Writer::new(mm.clone(), &queue);
            // The second item has a question about the first behind it.
            for number in 0..2 {
                writer.enqueue(&only, item(number).into()).await.expect("there is space");
            }
            let reborn = die_and_return(&world, &mm, &mut writer).await;
            let mut reader = Reader::new(reborn, &queue);
            for number in 2..6 {
                writer.enqueue(&only, item(number).into()).await.expect("there is space");
                mm.runtime().sleep(Duration::from_millis(1)).await;
            }
            let patience = mm.runtime().sleep(Duration::from_millis(10));
            let more = pin!(writer.enqueue(&only, item(6).into()));
            let waits = matches!(select(more, pin!(patience)).await, Either::Right(_));
            assert!(waits, "a slot was free that nobody had released");
            assert_eq!(reader.dequeue().await.expect("it came").data, item(2));
        });
    });
}

#[test]
fn an_item_that_does_not_fit_is_refused_and_one_that_just_fits_is_not() {
    let (queue, layout) = one_queue(2);
    let cluster = Cluster::new(1, 1, &layout);
    let (mm, node, all) = (cluster.mm(), cluster.node(1), cluster.compute());
    cluster.run(async move {
        let mut writer = Writer::new(mm, &queue);
        let bytes = SLOT_BYTES as usize + 1;
        let refused = writer.enqueue(&all, vec![0; bytes].into()).await;
        assert_eq!(refused, Err(EnqueueError::TooLarge { bytes, limit: SLOT_BYTES }));
        for size in [SLOT_BYTES as usize, 0] {
            writer.enqueue(&all, vec![7; size].into()).await.expect("it fits");
        }
        let mut reader = Reader::new(node, &queue);
        for size in [SLOT_BYTES as usize, 0] {
            let item = reader.dequeue().await.expect("it came");
            assert_eq!(item.data, vec![7; size]);
            reader.release(item);
        }
    });
}

#[test]
fn a_slot_that_lies_about_its_length_is_refused() {
    for len in [u64::from(SLOT_BYTES) + 1, u64::MAX, u64::MAX - 15, 1 << 40] {
        let (queue, layout) = one_queue(2);
        let cluster = Cluster::new(len, 1, &layout);
        let (mm, node, all) = (cluster.mm(), cluster.node(1), cluster.compute());
        cluster.run(async move {
            let mut writer = Writer::new(mm.clone(), &queue);
            writer.enqueue(&all, item(3).into()).await.expect("there is space");
            // The slots are first in this layout: sequence number, length.
            let lie = Xfer::new(all, GlobalAddr(8), len.to_ne_bytes().to_vec());
            assert_eq!(mm.xfer_and_wait(lie).await, Ok(()));
            let refused = Reader::new(node, &queue).dequeue().await.expect_err("it lies");
            assert!(matches!(refused, DequeueError::Corrupt { len: told, .. } if told == len));
        });
    }
}

#[test]
fn random_bytes_in_the_slots_never_panic_and_never_pass_their_bounds() {
    for_seeds(300, |seed| {
        let (queue, layout) = one_queue(3);
        let cluster = Cluster::new(seed, 1, &layout);
        let (world, mm, node) = (cluster.clone(), cluster.mm(), cluster.node(1));
        let (all, size) = (cluster.compute(), layout.size());
        let event = storm_primitives::EventId(0);
        cluster.run(async move {
            let mut reader = Reader::new(node.clone(), &queue);
            let reading = spawn_on(&node, async move {
                loop {
                    if let Ok(item) = reader.dequeue().await {
                        assert!(item.data.len() <= SLOT_BYTES as usize);
                        reader.release(item);
                    }
                }
            });
            for _ in 0..20 {
                let noise = (0..size)
                    .map(|_| if world.below(3) == 0 { 0xff } else { world.below(4) as u8 })
                    .collect::<Vec<_>>();
                let addr = GlobalAddr(0);
                let xfer = Xfer::new(all.clone(), addr, noise).signal_remote(event);
                assert_eq!(mm.xfer_and_wait(xfer).await, Ok(()));
            }
            drop(reading);
        });
    });
}
