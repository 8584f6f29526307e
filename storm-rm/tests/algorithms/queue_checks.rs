//! The checks of a remote queue, for any implementation of Algorithms 1 to 3: mutants meet the
//! same checks as the real one.

use crate::cluster::{Cluster, spawn_on};
use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::sim::SimPrimitives;
use storm_primitives::{GlobalAddr, LayoutBuilder, NodeSet, Primitives, Runtime};

pub(crate) const SLOTS: u32 = 2;
pub(crate) const SLOT_BYTES: u32 = 48;

/// Virtual time in which a correct queue finishes each check many times over.
const LIMIT: Duration = Duration::from_secs(2);

/// One implementation of a queue.
pub(crate) trait QueueKind: Clone + 'static {
    type Master: Master;
    type Slave: Slave;
    fn declare(builder: &mut LayoutBuilder) -> Self;
    fn master(&self, primitives: SimPrimitives) -> Self::Master;
    fn slave(&self, primitives: SimPrimitives) -> Self::Slave;
}

/// Algorithms 1 and 2.
pub(crate) trait Master: 'static {
    fn enqueue(&mut self, set: &NodeSet, data: &[u8]) -> impl Future<Output = ()>;
}

/// Algorithm 3.
pub(crate) trait Slave: 'static {
    type Taken;
    fn dequeue(&mut self) -> impl Future<Output = Self::Taken>;
    fn release(&mut self, taken: Self::Taken);
}

/// The defect of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Violation {
    /// An enqueue returned while a reader still had all slots.
    OverranSlowReader,
    /// An enqueue did not return although there was space.
    Stuck,
    /// A slot changed between being taken and being released.
    ChangedUnderReader,
}

/// Erratum 1: a queue of two slots, three enqueues, one slow reader. The third
/// must wait for that reader, and not longer.
pub(crate) fn third_enqueue_waits<K: QueueKind>(seed: u64) -> Result<(), Violation> {
    let mut builder = storm_primitives::Layout::builder();
    let kind = K::declare(&mut builder);
    let cluster = Cluster::new(seed, 5, &builder.build());
    let slow = 1 + cluster.below(5) as u32;
    let released = Rc::new(Cell::new(false));
    let mut tasks = Vec::new();
    for number in 1..=5 {
        let (node, kind) = (cluster.node(number), kind.clone());
        let released = released.clone();
        tasks.push(spawn_on(&node.clone(), async move {
            let mut slave = kind.slave(node.clone());
            loop {
                let taken = slave.dequeue().await;
                if number == slow && !released.get() {
                    node.runtime().sleep(Duration::from_millis(50)).await;
                    released.set(true);
                }
                slave.release(taken);
            }
        }));
    }
    let mut master = kind.master(cluster.mm());
    let (everyone, mm) = (cluster.compute(), cluster.mm());
    let scenario = async move {
        let _readers = tasks;
        for item in 0..SLOTS as u8 {
            master.enqueue(&everyone, &[item; 8]).await;
        }
        let early = mm.runtime().now() < storm_primitives::Instant::from_nanos(40_000_000);
        if released.get() || !early {
            return Err(Violation::Stuck);
        }
        master.enqueue(&everyone, &[9; 8]).await;
        if released.get() { Ok(()) } else { Err(Violation::OverranSlowReader) }
    };
    cluster.run_for(LIMIT, scenario).unwrap_or(Err(Violation::Stuck))
}

/// Erratum 2: readers that take their time with each item. Until an item is released, its bytes lie
/// in the node's memory as they arrived.
pub(crate) fn slots_hold_still<K: QueueKind>(seed: u64) -> Result<(), Violation> {
    const ITEMS: u8 = 24;
    let mut builder = storm_primitives::Layout::builder();
    let kind = K::declare(&mut builder);
    let layout = builder.build();
    let cluster = Cluster::new(seed, 4, &layout);
    let outcome = Rc::new(Cell::new(Ok(())));
    let done = Rc::new(Cell::new(0));
    let mut tasks = Vec::new();
    for number in 1..=4 {
        let (node, kind, cluster) = (cluster.node(number), kind.clone(), cluster.clone());
        let (outcome, done, size) = (outcome.clone(), done.clone(), layout.size() as usize);
        tasks.push(spawn_on(&node.clone(), async move {
            let mut slave = kind.slave(node.clone());
            for item in 1..=ITEMS {
                let taken = slave.dequeue().await;
                cluster.pause(&node, Duration::from_millis(1)).await;
                let memory = node.memory().read_vec(GlobalAddr(0), size).expect("all of it");
                let content = [item; SLOT_BYTES as usize];
                if !memory.windows(content.len()).any(|window| window == content) {
                    outcome.set(Err(Violation::ChangedUnderReader));
                }
                slave.release(taken);
            }
            done.set(done.get() + 1);
        }));
    }
    let mut master = kind.master(cluster.mm());
    let (everyone, mm) = (cluster.compute(), cluster.mm());
    let scenario = async move {
        let _readers = tasks;
        for item in 1..=ITEMS {
            master.enqueue(&everyone, &[item; SLOT_BYTES as usize]).await;
        }
        while done.get() < 4 {
            mm.runtime().sleep(Duration::from_micros(100)).await;
        }
        outcome.get()
    };
    cluster.run_for(LIMIT, scenario).unwrap_or(Err(Violation::Stuck))
}
