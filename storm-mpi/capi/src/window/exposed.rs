//! A member's part of a window within reach of this process: its own memory, or that of a member on
//! its node.
//!
//! Requests of other members and operations of this process happen one after the other, on one
//! thread. If several processes reach the same memory, combinations go through a gate that lies in
//! shared memory too.

use super::wire::Run;
use crate::number::Number;
use crate::operation::Change;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use storm_mpi::collective::Span;

/// Checks of a gate before yielding the processor, which the holder may need. They take as long as
/// a short combination.
const LOOKS: u32 = 100;

/// Memory that a program has attached to a window: beginnings and lengths.
pub(super) type Attached = Rc<RefCell<Vec<(usize, usize)>>>;

/// Memory within reach of operations.
#[derive(Clone)]
pub(super) enum Exposed {
    /// One stretch.
    Whole { start: *mut u8, bytes: usize, gate: Option<Gate> },
    /// Stretches, named by their addresses.
    Attached(Attached),
}

/// Admits one process at a time to combine elements. It is a word in memory that the members of a
/// node share.
#[derive(Clone, Copy)]
pub(super) struct Gate(*const AtomicU32);

impl Gate {
    /// The gate at that place.
    ///
    /// # Safety
    /// The word must exist, be zero at first, and be used only as a gate, for as long as the gate
    /// is used.
    pub(super) unsafe fn at(word: *mut u8) -> Gate {
        Gate(word.cast())
    }

    fn through<T>(self, combine: impl FnOnce() -> T) -> T {
        // SAFETY: the caller of `at` vouched for the word.
        let word = unsafe { &*self.0 };
        // The loop is bounded by the work of a process inside, which waits for nothing. If a
        // process is killed inside, the job ends.
        let mut looks = 0;
        while word.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            looks += 1;
            if looks % LOOKS == 0 {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
        let done = combine();
        word.store(0, Ordering::Release);
        done
    }
}

impl Exposed {
    /// Whether all of these bytes are in the memory.
    pub(super) fn has(&self, runs: &[Run]) -> bool {
        runs.iter().all(|&run| self.place(run).is_some())
    }

    /// Writes packed data.
    pub(super) fn write(&self, runs: &[Run], data: &[u8]) {
        let mut rest = data;
        self.each(runs, |place, bytes| {
            let (now, later) = rest.split_at(bytes.min(rest.len()));
            rest = later;
            // SAFETY: `each` gives places in the program's memory, which the program lends while
            // the window exists. `now` is no longer, and belongs to the library or to a buffer of
            // the program that does not overlap these places.
            unsafe { place.copy_from(now.as_ptr(), now.len()) };
        });
    }

    /// Reads data and packs it.
    pub(super) fn read(&self, runs: &[Run]) -> Vec<u8> {
        let mut data: Vec<u8> = Vec::new();
        self.each(runs, |place, bytes| {
            data.reserve(bytes);
            // SAFETY: as in `write`, in the other direction. There is room for that many more
            // bytes, which are initialized afterwards.
            unsafe {
                data.as_mut_ptr().add(data.len()).copy_from(place, bytes);
                data.set_len(data.len() + bytes);
            }
        });
        data
    }

    /// Combines packed data with the contents. Returns the previous contents if they are wanted.
    pub(super) fn change(
        &self,
        runs: &[Run],
        (change, number): (Change, Number),
        data: &[u8],
        wanted: bool,
    ) -> Vec<u8> {
        self.alone(|| {
            if change == Change::Replace && !wanted {
                self.write(runs, data);
                return Vec::new();
            }
            let before = self.read(runs);
            if change != Change::Nothing {
                let mut after = Span::of(&before);
                change.apply(number, data, &mut after);
                self.write(runs, after.as_ref());
            }
            before
        })
    }

    /// Writes `new` if the contents are `expected`. Returns the previous contents.
    pub(super) fn compare_and_swap(&self, runs: &[Run], expected: &[u8], new: &[u8]) -> Vec<u8> {
        self.alone(|| {
            let before = self.read(runs);
            if before == expected {
                self.write(runs, new);
            }
            before
        })
    }

    fn alone<T>(&self, combine: impl FnOnce() -> T) -> T {
        match self {
            Exposed::Whole { gate: Some(gate), .. } => gate.through(combine),
            Exposed::Whole { gate: None, .. } | Exposed::Attached(_) => combine(),
        }
    }

    /// Calls `each` with the stretches that are in the memory.
    fn each(&self, runs: &[Run], mut each: impl FnMut(*mut u8, usize)) {
        for &run in runs {
            if let Some(place) = self.place(run) {
                each(place, run.1 as usize);
            }
        }
    }

    fn place(&self, (at, length): Run) -> Option<*mut u8> {
        let (at, length) = (usize::try_from(at).ok()?, usize::try_from(length).ok()?);
        let end = at.checked_add(length)?;
        match self {
            Exposed::Whole { start, bytes, .. } => (end <= *bytes).then(|| start.wrapping_add(at)),
            Exposed::Attached(attached) => {
                let there = is_attached(&attached.borrow(), at, end);
                there.then(|| std::ptr::with_exposed_provenance_mut(at))
            }
        }
    }
}

/// Whether the whole range is attached, in one stretch or in several that touch.
fn is_attached(stretches: &[(usize, usize)], at: usize, end: usize) -> bool {
    let mut reached = at;
    // Each round finds another stretch, because they do not overlap.
    for _ in stretches {
        let holds = |&&(start, bytes): &&(usize, usize)| {
            let last = start + bytes;
            start <= reached && (reached < last || reached == end && end == last)
        };
        let Some(&(start, bytes)) = stretches.iter().find(holds) else { return false };
        reached = start + bytes;
        if reached >= end {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Predefined;

    #[test]
    fn memory_in_two_attached_stretches_was_refused() {
        let stretches = [(30, 10), (10, 10), (20, 10), (50, 10)];
        for (at, end) in [(10, 20), (10, 40), (15, 35), (39, 40), (50, 60), (40, 40), (10, 10)] {
            assert!(is_attached(&stretches, at, end), "{at}..{end}");
        }
        for (at, end) in [(9, 20), (10, 41), (35, 55), (45, 46), (59, 61), (45, 45)] {
            assert!(!is_attached(&stretches, at, end), "{at}..{end}");
        }
    }

    #[test]
    fn nothing_outside_is_touched() {
        let mut memory = [1_u8, 2, 3, 4, 5, 6, 7, 8];
        let exposed = Exposed::Whole { start: memory[2..].as_mut_ptr(), bytes: 4, gate: None };
        assert!(exposed.has(&[(0, 4), (4, 0)]));
        for run in [(0, 5), (4, 1), (u64::MAX, 1), (1, u64::MAX)] {
            assert!(!exposed.has(&[run]));
            exposed.write(&[run], &[9; 8]);
            assert!(exposed.read(&[run]).is_empty());
        }
        assert_eq!(exposed.read(&[(3, 1), (0, 2)]), [6, 3, 4]);
        exposed.write(&[(3, 1), (0, 2)], &[16, 13, 14]);
        let sum = (Change::Combine(Predefined::Sum), Number::Unsigned(1));
        assert_eq!(exposed.change(&[(0, 1), (3, 1)], sum, &[1, 2], true), [13, 16]);
        assert_eq!(exposed.compare_and_swap(&[(2, 1)], &[5], &[50]), [5]);
        assert_eq!(exposed.compare_and_swap(&[(2, 1)], &[5], &[51]), [50]);
        assert_eq!(memory, [1, 2, 14, 14, 50, 18, 7, 8]);
    }

    #[test]
    fn a_thread_in_the_gate_is_alone() {
        const EACH: usize = 20_000;
        let (mut word, mut sum) = ([0_u32; 1], [0_u64; 1]);
        let (word, sum) = (word.as_mut_ptr() as usize, sum.as_mut_ptr() as usize);
        let add = || {
            // SAFETY: the word lives until the threads have ended, and is only used as a gate.
            let gate = unsafe { Gate::at(std::ptr::with_exposed_provenance_mut(word)) };
            let start = std::ptr::with_exposed_provenance_mut(sum);
            let there = Exposed::Whole { start, bytes: 8, gate: Some(gate) };
            let change = (Change::Combine(Predefined::Sum), Number::Unsigned(8));
            for _ in 0..EACH {
                there.change(&[(0, 8)], change, &1_u64.to_ne_bytes(), false);
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(add);
            scope.spawn(add);
        });
        // SAFETY: the word still exists, and no other thread uses it.
        let total = unsafe { *std::ptr::with_exposed_provenance::<u64>(sum) };
        assert_eq!(total, 2 * EACH as u64);
    }
}
