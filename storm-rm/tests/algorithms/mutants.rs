//! The remote queue as the paper printed it, over the same primitives: the
//! checks must fail on each of its errors, and only on them.

use crate::queue_checks::{
    Master, QueueKind, SLOT_BYTES, SLOTS, Slave, Violation, slots_hold_still, third_enqueue_waits,
};
use std::time::Duration;
use storm_primitives::sim::SimPrimitives;
use storm_primitives::{
    CompareAndWrite, EventId, LayoutBuilder, NodeSet, Primitives, Region, Relation, Runtime, Var,
    Xfer,
};

const SEEDS: u64 = 50;

/// Algorithms 1 to 3 to the letter, apart from the differences that the constants select.
#[derive(Clone)]
struct PaperQueue<const INVERTED: bool, const NO_WAIT: bool, const EARLY: bool> {
    slots: Region,
    dequeued: Var<u64>,
    event: EventId,
}

/// With the paper's errors mended: shows that the mutants fail for their error.
type Mended = PaperQueue<false, false, false>;
/// Algorithm 1's loop as printed: runs while there is space.
type InvertedLoop = PaperQueue<true, false, false>;
/// Algorithm 1 left out: what the inverted loop does once the queue is full.
type NoFlowControl = PaperQueue<false, true, false>;
/// Algorithm 3 as printed: releases the slot before it is read.
type EarlyRelease = PaperQueue<false, false, true>;

struct PaperMaster<const INVERTED: bool, const NO_WAIT: bool> {
    primitives: SimPrimitives,
    slots: Region,
    dequeued: Var<u64>,
    event: EventId,
    enqueued: u64,
}

struct PaperSlave<const EARLY: bool> {
    primitives: SimPrimitives,
    dequeued: Var<u64>,
    event: EventId,
}

impl<const INVERTED: bool, const NO_WAIT: bool, const EARLY: bool> QueueKind
    for PaperQueue<INVERTED, NO_WAIT, EARLY>
{
    type Master = PaperMaster<INVERTED, NO_WAIT>;
    type Slave = PaperSlave<EARLY>;

    fn declare(builder: &mut LayoutBuilder) -> Self {
        PaperQueue {
            slots: builder.region("slots", u64::from(SLOTS * SLOT_BYTES)),
            dequeued: builder.var("dequeued"),
            event: builder.event("new"),
        }
    }

    fn master(&self, primitives: SimPrimitives) -> Self::Master {
        let (slots, dequeued, event) = (self.slots, self.dequeued, self.event);
        PaperMaster { primitives, slots, dequeued, event, enqueued: 0 }
    }

    fn slave(&self, primitives: SimPrimitives) -> Self::Slave {
        PaperSlave { primitives, dequeued: self.dequeued, event: self.event }
    }
}

impl<const INVERTED: bool, const NO_WAIT: bool> Master for PaperMaster<INVERTED, NO_WAIT> {
    async fn enqueue(&mut self, set: &NodeSet, data: &[u8]) {
        // `enqueued - length < dequeued`, in numbers that have no sign.
        let least = (self.enqueued + 1).saturating_sub(u64::from(SLOTS));
        let space = Relation::GreaterOrEqual;
        let question = CompareAndWrite::new(set.clone(), self.dequeued, space, least);
        while !NO_WAIT && self.primitives.compare_and_write(question.clone()).await == Ok(INVERTED)
        {
            self.primitives.runtime().sleep(Duration::from_micros(50)).await;
        }
        let offset = self.enqueued % u64::from(SLOTS) * u64::from(SLOT_BYTES);
        let addr = self.slots.addr.offset(offset);
        let item = Xfer::new(set.clone(), addr, data.to_vec()).signal_remote(self.event);
        self.primitives.xfer_and_signal(item);
        self.enqueued += 1;
    }
}

impl<const EARLY: bool> PaperSlave<EARLY> {
    fn count_up(&self) {
        let memory = self.primitives.memory();
        memory.store(self.dequeued, memory.load(self.dequeued) + 1);
    }
}

impl<const EARLY: bool> Slave for PaperSlave<EARLY> {
    type Taken = ();

    async fn dequeue(&mut self) {
        self.primitives.await_event(self.event).await.expect("nobody dies");
        if EARLY {
            self.count_up();
        }
    }

    fn release(&mut self, (): ()) {
        if !EARLY {
            self.count_up();
        }
    }
}

#[test]
fn the_mended_paper_passes() {
    for seed in 0..SEEDS {
        assert_eq!(third_enqueue_waits::<Mended>(seed), Ok(()), "seed {seed}");
        assert_eq!(slots_hold_still::<Mended>(seed), Ok(()), "seed {seed}");
    }
}

#[test]
fn the_inverted_loop_is_caught() {
    for seed in 0..SEEDS {
        assert_eq!(third_enqueue_waits::<InvertedLoop>(seed), Err(Violation::Stuck));
    }
}

#[test]
fn a_master_that_does_not_wait_is_caught() {
    for seed in 0..SEEDS {
        let outcome = third_enqueue_waits::<NoFlowControl>(seed);
        assert_eq!(outcome, Err(Violation::OverranSlowReader));
    }
}

#[test]
fn the_early_release_is_caught() {
    let corrupted = (0..SEEDS)
        .filter(|seed| {
            slots_hold_still::<EarlyRelease>(*seed) == Err(Violation::ChangedUnderReader)
        })
        .count();
    assert_eq!(corrupted as u64, SEEDS, "of {SEEDS} seeds");
}
