//! The lock around the library: one thread at a time is inside.
//!
//! Threads enter in the order in which they asked (a ticket lock), so a thread that tests again and
//! again does not keep others out. A waiting thread spins for a short while, and then sleeps in the
//! kernel. A thread that is inside enters a second time at once, because functions of the program
//! that the library calls may call the library.

use rustix::event::Timespec;
use rustix::thread::futex;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering, fence};
use std::time::{Duration, Instant};

/// Spins before a sleep: about as long as a short call takes.
const LOOKS: u32 = 200;
/// No thread: none has a variable at address 0.
const NOBODY: usize = 0;

/// The lock.
#[derive(Debug, Default)]
pub(super) struct CriticalSection {
    /// The number of the next thread to ask.
    next: AtomicU32,
    /// The number of the thread whose turn it is.
    turn: AtomicU32,
    owner: AtomicUsize,
    /// Number of times that the owner has entered. Only the owner touches it.
    depth: AtomicU32,
}

impl CriticalSection {
    /// Waits until no other thread is inside.
    pub(super) fn enter(&self) {
        let me = this_thread();
        // Only this thread stores this value, so the comparison is reliable.
        if self.owner.load(Ordering::Relaxed) == me {
            self.depth.store(self.depth.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            return;
        }
        self.acquire(me, 1);
    }

    /// Like [`enter`](Self::enter), if the others leave within `longest`. Otherwise no thread
    /// enters any more.
    pub(super) fn enter_within(&self, longest: Duration) -> bool {
        let me = this_thread();
        if self.owner.load(Ordering::Relaxed) == me {
            self.enter();
            return true;
        }
        let (ticket, begun) = (self.next.fetch_add(1, Ordering::SeqCst), Instant::now());
        loop {
            let turn = self.turn.load(Ordering::Acquire);
            if turn == ticket {
                break;
            }
            let left = longest.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return false;
            }
            let left = Timespec::try_from(left).ok();
            let _ = futex::wait(&self.turn, futex::Flags::PRIVATE, turn, left.as_ref());
        }
        self.owner.store(me, Ordering::Relaxed);
        self.depth.store(1, Ordering::Relaxed);
        true
    }

    /// Undoes one [`enter`](Self::enter), and calls `last` before others can enter.
    pub(super) fn leave(&self, last: impl FnOnce()) {
        let depth = self.depth.load(Ordering::Relaxed);
        if depth > 1 {
            self.depth.store(depth - 1, Ordering::Relaxed);
            return;
        }
        last();
        self.release();
    }

    /// Does something outside, however often this thread may have entered, and enters again.
    pub(super) fn give_way<T>(&self, outside: impl FnOnce() -> T) -> T {
        let depth = self.depth.load(Ordering::Relaxed);
        self.release();
        let done = outside();
        self.acquire(this_thread(), depth);
        done
    }

    /// Whether another thread wants to enter. The caller must be inside.
    pub(super) fn is_wanted(&self) -> bool {
        let next = self.turn.load(Ordering::Relaxed).wrapping_add(1);
        self.next.load(Ordering::Relaxed) != next
    }

    fn acquire(&self, me: usize, depth: u32) {
        let ticket = self.next.fetch_add(1, Ordering::SeqCst);
        let mut looks = 0;
        loop {
            // Acquire pairs with the release of the previous owner, so its actions are visible.
            let turn = self.turn.load(Ordering::Acquire);
            if turn == ticket {
                break;
            }
            looks += 1;
            if looks < LOOKS {
                std::hint::spin_loop();
            } else {
                // The wait ends at once if the turn is another by now. An interruption costs only
                // one more check.
                let flags = futex::Flags::PRIVATE;
                let _ = futex::wait_bitset(&self.turn, flags, turn, None, sleepers(ticket));
            }
        }
        self.owner.store(me, Ordering::Relaxed);
        self.depth.store(depth, Ordering::Relaxed);
    }

    fn release(&self) {
        self.owner.store(NOBODY, Ordering::Relaxed);
        let turn = self.turn.load(Ordering::Relaxed).wrapping_add(1);
        self.turn.store(turn, Ordering::Release);
        // Either this thread sees the thread that has asked, or that thread sees its turn before it
        // sleeps.
        fence(Ordering::SeqCst);
        if self.next.load(Ordering::SeqCst) != turn {
            let _ = futex::wake_bitset(
                &self.turn,
                futex::Flags::PRIVATE,
                u32::MAX >> 1,
                sleepers(turn),
            );
        }
    }
}

/// Futex bits of the threads that sleep until this number's turn: one in 32 of all that wait.
fn sleepers(ticket: u32) -> NonZeroU32 {
    // Exactly one bit is set.
    NonZeroU32::new(1_u32.rotate_left(ticket)).unwrap_or(NonZeroU32::MIN)
}

/// An address that no other living thread has.
fn this_thread() -> usize {
    thread_local!(static OWN: u8 = const { 0 });
    OWN.with(|own| std::ptr::from_ref(own).addr())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::Arc;

    struct Counter(Cell<u64>);
    // SAFETY: only the thread inside touches it.
    unsafe impl Sync for Counter {}

    #[test]
    fn one_is_inside_at_a_time_however_often_it_came_in() {
        let shared = Arc::new((CriticalSection::default(), Counter(Cell::new(0))));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let shared = Arc::clone(&shared);
                scope.spawn(move || {
                    let (section, Counter(counter)) = &*shared;
                    for _ in 0..20_000 {
                        section.enter();
                        section.enter();
                        counter.set(counter.get() + 1);
                        section.leave(|| unreachable!("it is inside still"));
                        counter.set(counter.get() + 1);
                        section.leave(|| {});
                    }
                });
            }
        });
        assert_eq!(shared.1.0.get(), 160_000);
    }

    #[test]
    fn a_long_waiter_enters_where_others_leave() {
        let section = CriticalSection::default();
        section.enter();
        assert!(section.enter_within(Duration::ZERO), "it is inside");
        section.leave(|| unreachable!("it is inside still"));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                let entered = section.enter_within(Duration::from_secs(600));
                section.leave(|| {});
                entered
            });
            while !section.is_wanted() {
                std::thread::yield_now();
            }
            section.leave(|| {});
            assert_eq!(waits.join().ok(), Some(true));
            section.enter();
            let waits = scope.spawn(|| section.enter_within(Duration::from_millis(5)));
            assert_eq!(waits.join().ok(), Some(false));
        });
    }

    #[test]
    fn yielding_the_gate_lets_others_in_and_restores_the_depth() {
        let section = CriticalSection::default();
        section.enter();
        section.enter();
        assert!(!section.is_wanted());
        section.give_way(|| {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    section.enter();
                    section.leave(|| {});
                });
            });
        });
        assert_eq!(section.depth.load(Ordering::Relaxed), 2);
        section.leave(|| unreachable!("it is inside still"));
        section.leave(|| {});
    }
}
