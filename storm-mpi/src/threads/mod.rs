//! Several communicating threads of one process (`MPI_THREAD_SERIALIZED`, `MPI_THREAD_MULTIPLE`).
//!
//! One [lock](section) surrounds the library. A call that waits releases the lock, so that other
//! threads enter. One of the waiting threads, the leader, polls for news and sleeps at the
//! process's sockets. The other waiting threads sleep until an event has occurred that they may be
//! waiting for.
//!
//! No thread needs to know what the others wait for. Each thread counts every step of progress, and
//! wakes all waiting threads when it releases the lock. They check for themselves. A check that
//! finds nothing is no progress, so threads do not wake each other in turn.

mod section;

use crate::engine::Engine;
use crate::error::CommError;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::thread::futex;
use section::CriticalSection;
use std::cell::RefCell;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// State that the communicating threads of a process share.
///
/// Only the thread inside touches the state, except for the lock. The fields are atomic, with
/// relaxed ordering, so the state can be shared.
#[derive(Debug)]
pub struct Threads {
    section: CriticalSection,
    /// Number of steps of progress.
    changes: AtomicU64,
    /// The value of `changes` for which waiting threads were last woken.
    told: AtomicU64,
    /// Whether one of the waiting threads polls for news.
    is_led: AtomicBool,
    /// Whether the leader sleeps and no thread has rung.
    leader_sleeps: AtomicBool,
    /// Number of other waiting threads.
    followers: AtomicU32,
    /// The futex of the followers. It changes each time that they are woken.
    call: AtomicU32,
    /// The event counter that wakes the leader.
    bell: OwnedFd,
}

/// A thread inside the library, until the value is dropped.
#[derive(Debug)]
pub struct Inside<'a> {
    threads: &'a Threads,
    /// The thread that entered must leave.
    of_this_thread: PhantomData<*const ()>,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.threads.section.leave(|| self.threads.tell());
    }
}

impl Threads {
    /// Makes the state, with no thread inside.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub fn new() -> io::Result<Self> {
        Ok(Threads {
            section: CriticalSection::default(),
            changes: AtomicU64::new(0),
            told: AtomicU64::new(0),
            is_led: AtomicBool::new(false),
            leader_sleeps: AtomicBool::new(false),
            followers: AtomicU32::new(0),
            call: AtomicU32::new(0),
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    /// Waits until no other thread is inside the library, and enters. A thread that is inside
    /// enters again at once.
    pub fn enter(&self) -> Inside<'_> {
        self.section.enter();
        Inside { threads: self, of_this_thread: PhantomData }
    }

    /// Like [`Threads::enter`], if the others leave within `longest`. `None` means that they do
    /// not, and no thread enters any more. It is for a caller that ends the process in any case.
    pub fn enter_within(&self, longest: Duration) -> Option<Inside<'_>> {
        let entered = self.section.enter_within(longest);
        // The value is made only if the thread entered, because dropping it leaves.
        entered.then(|| Inside { threads: self, of_this_thread: PhantomData })
    }

    /// Records that an event may have occurred that another thread waits for.
    pub(crate) fn has_changed(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// Moves bytes, without waiting.
    pub(crate) fn look(&self, engine: &RefCell<Engine>) -> Result<(), CommError> {
        let mut engine = engine.borrow_mut();
        let before = engine.events();
        let moved = engine.progress(false);
        if moved.is_err() || engine.events() != before {
            self.has_changed();
        }
        moved
    }

    /// Moves bytes. If there is nothing to move, waits until this or another thread has made
    /// progress. May return without progress. `sockets` must be readable when there is an event at
    /// the engine's sockets.
    pub(crate) fn wait(
        &self,
        engine: &RefCell<Engine>,
        sockets: BorrowedFd<'_>,
    ) -> Result<(), CommError> {
        let before = self.changes.load(Ordering::Relaxed);
        self.look(engine)?;
        if self.changes.load(Ordering::Relaxed) != before {
            self.tell();
            if self.section.is_wanted() {
                // News for other threads may keep arriving.
                self.section.give_way(|| ());
            }
            return Ok(());
        }
        if self.is_led.swap(true, Ordering::Relaxed) {
            self.follow();
            return Ok(());
        }
        let led = self.lead(engine, sockets, before);
        self.is_led.store(false, Ordering::Relaxed);
        led
    }

    /// Polls for news as long as it is worthwhile and no other thread wants to enter, and then
    /// sleeps.
    fn lead(
        &self,
        engine: &RefCell<Engine>,
        sockets: BorrowedFd<'_>,
        before: u64,
    ) -> Result<(), CommError> {
        // This thread's earlier actions may complete what others wait for, and polling may last.
        self.tell();
        let begun = engine.borrow_mut().begin_looking();
        if let Some(begun) = begun {
            while !self.section.is_wanted() {
                self.look(engine)?;
                if self.changes.load(Ordering::Relaxed) != before {
                    engine.borrow_mut().has_found(begun);
                    return Ok(());
                }
                if !engine.borrow_mut().goes_on_looking(&begun) {
                    break;
                }
                std::hint::spin_loop();
            }
        }
        if !engine.borrow_mut().fall_asleep()? {
            return Ok(());
        }
        let longest = engine.borrow().longest_sleep();
        self.leader_sleeps.store(true, Ordering::Relaxed);
        self.section.give_way(|| sleep([sockets, self.bell.as_fd()], longest));
        if !self.leader_sleeps.swap(false, Ordering::Relaxed) {
            // The bell was rung, and does not block.
            let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        }
        engine.borrow_mut().wake_up();
        Ok(())
    }

    /// Sleeps until others have made progress, or no thread leads any more.
    fn follow(&self) {
        self.tell();
        let call = self.call.load(Ordering::Relaxed);
        self.followers.fetch_add(1, Ordering::Relaxed);
        self.section.give_way(|| {
            while self.call.load(Ordering::Relaxed) == call {
                // The wait ends at once if there was a call by now. An interruption costs only one
                // more check.
                let _ = futex::wait(&self.call, futex::Flags::PRIVATE, call, None);
            }
        });
        self.followers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Wakes all waiting threads, if an event has occurred that they may wait for, or if no thread
    /// polls for news. The caller is about to release the lock.
    fn tell(&self) {
        let changes = self.changes.load(Ordering::Relaxed);
        let is_news = self.told.swap(changes, Ordering::Relaxed) != changes;
        let is_led = self.is_led.load(Ordering::Relaxed);
        if self.followers.load(Ordering::Relaxed) > 0 && (is_news || !is_led) {
            self.call.fetch_add(1, Ordering::Relaxed);
            let _ = futex::wake(&self.call, futex::Flags::PRIVATE, u32::MAX >> 1);
        }
        if is_news && self.leader_sleeps.swap(false, Ordering::Relaxed) {
            // A full counter has rung.
            let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
    }
}

/// Sleeps until one of these is readable, or for at most `longest`. A signal ends the sleep too.
fn sleep([sockets, bell]: [BorrowedFd<'_>; 2], longest: Option<Duration>) {
    let mut both = [
        PollFd::from_borrowed_fd(sockets, PollFlags::IN),
        PollFd::from_borrowed_fd(bell, PollFlags::IN),
    ];
    let longest = longest.and_then(|longest| Timespec::try_from(longest).ok());
    let _ = poll(&mut both, longest.as_ref());
}
