//! The timers of a simulation: a heap by deadline, ties in the order of setting.
//!
//! A timer wakes a task or calls a closure. The network's messages are calls, so a message costs no
//! task. A cancelled timer stays in the heap as a stale entry. When stale entries are the majority,
//! the heap is swept.

use crate::Instant;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::task::Waker;

/// A sweep waits until at least this many entries are stale.
const MIN_STALE_TO_SWEEP: usize = 1024;

/// The action of a timer.
pub(super) enum Due {
    /// A task may continue.
    Wake(Waker),
    /// Call this at once, even if the node that set the timer is dead.
    Call(Box<dyn FnOnce()>),
}

/// The name of a timer that was set. Once the timer has fired or was cancelled, the name means
/// nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimerKey {
    slot: usize,
    number: u64,
}

/// All timers that are set.
#[derive(Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<(Instant, u64, usize)>>,
    slots: Vec<TimerSlot>,
    free: Vec<usize>,
    next_number: u64,
    stale: usize,
}

struct TimerSlot {
    number: u64,
    due: Option<Due>,
}

impl Timers {
    /// Sets a timer.
    pub(super) fn set(&mut self, deadline: Instant, due: Due) -> TimerKey {
        let number = self.next_number;
        self.next_number += 1;
        let filled = TimerSlot { number, due: Some(due) };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot] = filled;
                slot
            }
            None => {
                self.slots.push(filled);
                self.slots.len() - 1
            }
        };
        self.heap.push(Reverse((deadline, number, slot)));
        TimerKey { slot, number }
    }

    /// Makes a pending timer wake another task. Returns false if the timer is not pending.
    pub(super) fn rewake(&mut self, key: TimerKey, waker: &Waker) -> bool {
        match self.slots.get_mut(key.slot) {
            Some(TimerSlot { number, due: Some(Due::Wake(old)) }) if *number == key.number => {
                old.clone_from(waker);
                true
            }
            Some(_) | None => false,
        }
    }

    /// Cancels a timer that has not fired, and returns its action for the caller to drop.
    pub(super) fn cancel(&mut self, key: TimerKey) -> Option<Due> {
        let slot = self.slots.get_mut(key.slot).filter(|slot| slot.number == key.number)?;
        let due = slot.due.take()?;
        self.free.push(key.slot);
        self.stale += 1;
        if self.stale >= MIN_STALE_TO_SWEEP && self.stale > self.heap.len() / 2 {
            self.sweep();
        }
        Some(due)
    }

    /// Moves all timers with the earliest deadline to `out`, in the order in which they were set.
    /// Returns the deadline.
    pub(super) fn take_earliest(&mut self, out: &mut Vec<Due>) -> Option<Instant> {
        let mut earliest = None;
        while let Some(Reverse((deadline, number, slot))) = self.heap.peek().copied() {
            if earliest.is_some_and(|instant| instant != deadline) {
                break;
            }
            self.heap.pop();
            match self.take_slot(slot, number) {
                Some(due) => {
                    out.push(due);
                    earliest = Some(deadline);
                }
                None => self.stale -= 1,
            }
        }
        earliest
    }

    fn take_slot(&mut self, slot: usize, number: u64) -> Option<Due> {
        let due = self.slots.get_mut(slot).filter(|held| held.number == number)?.due.take()?;
        self.free.push(slot);
        Some(due)
    }

    fn sweep(&mut self) {
        let slots = &self.slots;
        self.heap.retain(|Reverse((_, number, slot))| {
            slots[*slot].number == *number && slots[*slot].due.is_some()
        });
        self.stale = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    #[test]
    fn timers_fire_by_deadline_then_by_age_and_cancelled_ones_never() {
        let (mut timers, fired) = (Timers::default(), Rc::new(RefCell::new(Vec::new())));
        let set = |timers: &mut Timers, at: u64, name: u64| {
            let fired = fired.clone();
            let call = Box::new(move || fired.borrow_mut().push(name));
            timers.set(Instant::from_nanos(at), Due::Call(call))
        };
        let keys: Vec<TimerKey> =
            (0..5000).map(|name| set(&mut timers, 100 - name % 100, name)).collect();
        for (name, key) in keys.iter().enumerate().filter(|(name, _)| name % 5 != 0) {
            assert!(timers.cancel(*key).is_some(), "{name}");
            assert!(timers.cancel(*key).is_none(), "twice: {name}");
        }
        let mut due = Vec::new();
        while timers.take_earliest(&mut due).is_some() {}
        for action in due {
            if let Due::Call(call) = action {
                call();
            }
        }
        let mut expected: Vec<u64> = (0..5000).filter(|name| name % 5 == 0).collect();
        expected.sort_by_key(|name| (100 - name % 100, *name));
        assert_eq!(*fired.borrow(), expected);
    }
}
