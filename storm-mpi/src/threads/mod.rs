//! Several threads of one process that communicate (`MPI_THREAD_SERIALIZED`, `MPI_THREAD_MULTIPLE`).
//!
//! One [lock](section) around the library. Where a call waits, it gives that up, so that others come in: one of the
//! threads that wait, the leader, looks for news and sleeps at the process's sockets; the others sleep until something has
//! happened that may be what they wait for. What that is nobody has to know: whatever brings anything on counts, each
//! wakes all who wait when it leaves the lock, and they look for themselves. A look that finds nothing brings
//! nothing on, so they do not wake each other in turn.

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

/// What threads of a process share that communicate.
///
/// All but the lock is touched by who is inside only; it is atomic, and that relaxed, so that this can be shared.
#[derive(Debug)]
pub struct Threads {
    section: CriticalSection,
    /// How often anything was brought on.
    changes: AtomicU64,
    /// How much of that those who wait have been told of.
    told: AtomicU64,
    /// One of those who wait looks for news.
    is_led: AtomicBool,
    /// It sleeps, and nobody has rung.
    leader_sleeps: AtomicBool,
    /// How many others wait.
    followers: AtomicU32,
    /// What they sleep on: another number each time that they are woken.
    call: AtomicU32,
    /// What wakes the leader.
    bell: OwnedFd,
}

/// A thread inside the library, until this is dropped.
#[derive(Debug)]
pub struct Inside<'a> {
    threads: &'a Threads,
    /// Whoever came in leaves.
    of_this_thread: PhantomData<*const ()>,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.threads.section.leave(|| self.threads.tell());
    }
}

impl Threads {
    /// None is inside yet.
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

    /// Waits until no other thread is inside the library, and comes in. A second time at once.
    pub fn enter(&self) -> Inside<'_> {
        self.section.enter();
        Inside { threads: self, of_this_thread: PhantomData }
    }

    /// The same, if others leave within so long. `None`: they do not, and no thread comes in any more. It is for who ends
    /// the process in any case.
    pub fn enter_within(&self, longest: Duration) -> Option<Inside<'_>> {
        let entered = self.section.enter_within(longest);
        // Not made where it did not come in: it would leave.
        entered.then(|| Inside { threads: self, of_this_thread: PhantomData })
    }

    /// Something may have been brought on that another thread waits for.
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

    /// Moves bytes; where there is nothing to move, waits until anything was brought on, by this thread or by another. May
    /// come back with nothing. `sockets` has to be readable when there is something at the engine's.
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
                // News may keep coming that are not what this one waits for.
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

    /// Looks for news as long as it is worth it and nobody else wants to come in, and then sleeps.
    fn lead(
        &self,
        engine: &RefCell<Engine>,
        sockets: BorrowedFd<'_>,
        before: u64,
    ) -> Result<(), CommError> {
        // They may be done by what this thread has done before: looking may last.
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
            // It was rung, and does not block.
            let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        }
        engine.borrow_mut().wake_up();
        Ok(())
    }

    /// Sleeps until others have brought something on, or nobody leads any more.
    fn follow(&self) {
        self.tell();
        let call = self.call.load(Ordering::Relaxed);
        self.followers.fetch_add(1, Ordering::Relaxed);
        self.section.give_way(|| {
            while self.call.load(Ordering::Relaxed) == call {
                // It gives up at once when there was a call by now; an interruption is a look more.
                let _ = futex::wait(&self.call, futex::Flags::PRIVATE, call, None);
            }
        });
        self.followers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Wakes all who wait, if there is something that they may wait for, or nobody who looks for news. For who is about to
    /// give up the lock.
    fn tell(&self) {
        let changes = self.changes.load(Ordering::Relaxed);
        let is_news = self.told.swap(changes, Ordering::Relaxed) != changes;
        let is_led = self.is_led.load(Ordering::Relaxed);
        if self.followers.load(Ordering::Relaxed) > 0 && (is_news || !is_led) {
            self.call.fetch_add(1, Ordering::Relaxed);
            let _ = futex::wake(&self.call, futex::Flags::PRIVATE, u32::MAX >> 1);
        }
        if is_news && self.leader_sleeps.swap(false, Ordering::Relaxed) {
            // A counter that is full has rung.
            let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
    }
}

/// Sleeps until one of these is readable, or so long at most. A signal ends it, too.
fn sleep([sockets, bell]: [BorrowedFd<'_>; 2], longest: Option<Duration>) {
    let mut both = [
        PollFd::from_borrowed_fd(sockets, PollFlags::IN),
        PollFd::from_borrowed_fd(bell, PollFlags::IN),
    ];
    let longest = longest.and_then(|longest| Timespec::try_from(longest).ok());
    let _ = poll(&mut both, longest.as_ref());
}
